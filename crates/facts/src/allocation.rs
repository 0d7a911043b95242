//! What the allocation agent saw of a program's heap: exact counts for all of it, records for some blocks.
//!
//! What for: [`HeapTotal`] and [`SizeClass`] are counted at every call; [`Allocation`] and [`Release`] are of blocks that
//! were large enough, or drawn by lot. An address at a time leads to the block that was there: the last [`Allocation`] of
//! the process before that time whose range holds it and whose [`Release`] is not before it.
//! What not: sums over records, which need the blocks' chances ([`Allocation::sample_every`]); that is `analysis`.

use base::{AllocationId, Bytes, Nanos, Pid, RemoteAddr, StackId, Tid};

/// The function of the C library that a block was asked from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AllocationCall {
    /// `malloc`, and C++ `new`, which calls it.
    Malloc,
    /// `calloc`.
    Calloc,
    /// `realloc`, `reallocarray`: the block it gave.
    Realloc,
    /// `posix_memalign`, `aligned_alloc`, `memalign`, `valloc`, `pvalloc`.
    Aligned,
}

/// A block that was allocated and has a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// The id other facts use. Ids rise; some may be missing.
    pub id: AllocationId,
    /// When.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread that asked for it.
    pub tid: Tid,
    /// Its first byte.
    pub address: RemoteAddr,
    /// Bytes asked for.
    pub size: Bytes,
    /// How it was asked for.
    pub call: AllocationCall,
    /// Who asked: innermost frame outside of the agent. `None` when no frame could be had.
    pub stack: Option<StackId>,
    /// 0: every block of this size has a record. Else it was drawn by lot with the probability
    /// 1 - exp(-size / sample_every).
    pub sample_every: Bytes,
}

/// The end of a recorded block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// When.
    pub time: Nanos,
    /// The block.
    pub allocation: AllocationId,
    /// The thread that freed it.
    pub tid: Tid,
    /// Who freed it, where that was asked for.
    pub stack: Option<StackId>,
}

/// All heap blocks of one process from its start, or from its last exec on. Sizes are those asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeapTotal {
    /// The process.
    pub pid: Pid,
    /// Blocks allocated; `realloc` frees one and allocates one.
    pub allocations: u64,
    /// Bytes in them.
    pub allocated: Bytes,
    /// Blocks freed.
    pub frees: u64,
    /// Bytes in them.
    pub freed: Bytes,
    /// Bytes that were live when the process was forked from its parent.
    pub inherited: Bytes,
    /// Most bytes live at once.
    pub peak: Bytes,
    /// By how much the true peak may be higher or lower: threads tell of what they allocate some KiB late.
    pub peak_doubt: Bytes,
    /// Frees of blocks that nobody saw being allocated.
    pub unknown_frees: u64,
    /// Blocks whose size could not be remembered: live bytes are that much too high.
    pub forgotten: u64,
}

/// The blocks of one process whose size has as many binary digits as `largest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeClass {
    /// The process.
    pub pid: Pid,
    /// The largest size of the class: 0, or a power of two less 1.
    pub largest: Bytes,
    /// Blocks allocated.
    pub allocations: u64,
    /// Bytes in them.
    pub allocated: Bytes,
}
