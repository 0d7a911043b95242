//! Memory accesses that the hardware sampled: PEBS of Intel, IBS of AMD, SPE of Arm.
//!
//! What for: one access with its address, its latency and where its data came from, in the same words for all processors. What
//! not: how a processor encodes them (`import`), figures (`analysis`).
//!
//! A part that the hardware did not report is absent: it is never a guess.

use base::{Bytes, CpuId, Nanos, Pid, RemoteAddr, StackId, Tid};

use crate::Privilege;

/// What an access did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AccessKind {
    /// It read.
    Load,
    /// It wrote.
    Store,
    /// It read and wrote, or the hardware does not tell which.
    LoadStore,
    /// A prefetch that the program asked for.
    Prefetch,
}

/// Where its data came from. Distances are those of the core that asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DataSource {
    /// The first-level cache.
    L1,
    /// Its line was on the way already: line fill buffer, miss address buffer.
    FillBuffer,
    /// The second-level cache.
    L2,
    /// The third-level cache, or a cache of another core next to it.
    L3,
    /// A fourth-level cache.
    L4,
    /// A cache of another socket or node.
    RemoteCache,
    /// Memory of its own node.
    Dram,
    /// Memory of another node.
    RemoteDram,
    /// Persistent memory.
    Persistent,
    /// Memory behind a CXL link.
    Cxl,
    /// Memory that no cache may keep.
    Uncached,
    /// A device.
    Device,
    /// It missed the first-level cache; no more is known.
    BeyondL1,
    /// It missed the second-level cache; no more is known.
    BeyondL2,
    /// It missed the third-level cache; no more is known.
    BeyondL3,
}

/// What other caches had of the line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Snoop {
    /// Nobody was asked.
    None,
    /// No other cache had it.
    Miss,
    /// Another cache had it, unmodified.
    Hit,
    /// Another cache had it, modified (HITM).
    Modified,
    /// Another cache of the same level gave it; whether modified is not known.
    Peer,
}

/// Where the translation of its address came from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Translation {
    /// The first-level TLB.
    L1,
    /// The second-level TLB.
    L2,
    /// A TLB, whichever.
    Hit,
    /// No TLB: the hardware walked the page table.
    Walk,
    /// The kernel: a fault.
    Fault,
}

/// A sampled access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemorySample {
    /// When.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The CPU, where the source tells it.
    pub cpu: Option<CpuId>,
    /// Innermost frame: the instruction. `None` when no frame could be had.
    pub stack: Option<StackId>,
    /// Program or kernel.
    pub privilege: Privilege,
    /// Number of the event in [`crate::Source::events`]. Weights of different events do not compare.
    pub event: u32,
    /// Number of counts of that event that it represents.
    pub weight: u64,
    /// What it did.
    pub access: AccessKind,
    /// The address of its data.
    pub address: Option<RemoteAddr>,
    /// From issue until its data were there, cycles of the core.
    pub latency: Option<u32>,
    /// From issue until the instruction retired, cycles of the core; of SPE, from dispatch until it completed.
    pub instruction_latency: Option<u32>,
    /// Where the data came from.
    pub from: Option<DataSource>,
    /// What other caches had.
    pub snoop: Option<Snoop>,
    /// How its address was translated.
    pub translation: Option<Translation>,
    /// Whether it was atomic with a locked bus or line.
    pub locked: Option<bool>,
    /// Size of the page of its address.
    pub page: Option<Bytes>,
}
