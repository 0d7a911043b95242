//! One type per kind of observation, and the trait of their destination, [`Sink`].
//!
//! What not: facts of bursts, heap, threads, regions and the kernel, which have files of their own.

use base::{CodeAddress, CpuId, FileOffset, ModuleId, Nanos, Pid, RemoteAddr, StackId, Tid};

/// Where a piece of code came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModuleKind {
    /// An ELF file; offsets are file offsets.
    File,
    /// The kernel and its modules; offsets are absolute kernel addresses of this boot.
    Kernel,
    /// The vdso image the kernel maps; offsets are from the start of the image.
    Vdso,
    /// Executable memory without a file (JIT code); offsets are absolute addresses in process `pid`.
    Anonymous {
        /// The process in which the addresses hold.
        pid: Pid,
    },
    /// Addresses that no mapping explains; offsets are absolute addresses.
    Unknown,
}

/// A piece of code that frames can lie in. Emitted once, before the first fact that names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// The id other facts use.
    pub id: ModuleId,
    /// What it is.
    pub kind: ModuleKind,
    /// The path as the kernel reports it, or `[kernel]`, `[vdso]`, `[anon]`, `[unknown]`.
    pub path: String,
    /// The GNU build-id in lower-case hex, when the file has one.
    pub build_id: Option<String>,
}

/// An executable mapping of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// When it was seen first.
    pub time: Nanos,
    /// Whose address space.
    pub pid: Pid,
    /// First address.
    pub start: RemoteAddr,
    /// First address behind it.
    pub end: RemoteAddr,
    /// Offset in the file of `start`.
    pub file_offset: FileOffset,
    /// The file.
    pub module: ModuleId,
}

/// One node of the calling-context tree. Emitted once, before the first fact that names it; parents first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StackNode {
    /// The id other facts use.
    pub id: StackId,
    /// The caller; `None` for an outermost frame.
    pub parent: Option<StackId>,
    /// The module that the frame's address lies in.
    pub module: ModuleId,
    /// The address to look up in it. For callers this is the return address minus one, so that it
    /// lies inside the call instruction.
    pub offset: FileOffset,
    /// The stack continues above this frame, but could not be unwound (copied stack too short, no unwind
    /// information). Only on outermost nodes.
    pub truncated: bool,
}

impl StackNode {
    /// The frame's address.
    #[must_use]
    pub const fn code_address(&self) -> CodeAddress {
        CodeAddress::new(self.module, self.offset)
    }
}

/// Where the CPU was when a sample was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Privilege {
    /// In the program.
    User,
    /// In the kernel on behalf of the program (system call, fault, interrupt).
    Kernel,
}

/// One tick of the sampling clock on a running thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The CPU, where the source tells it.
    pub cpu: Option<CpuId>,
    /// CPU time that this sample represents.
    pub weight: Nanos,
    /// Innermost frame. `None` when no frame could be had.
    pub stack: Option<StackId>,
    /// Program or kernel.
    pub privilege: Privilege,
}

/// Whether a fault waited for I/O.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FaultKind {
    /// Resolved from memory.
    Minor,
    /// Waited for I/O.
    Major,
}

/// A sampled page fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// When.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The data address that faulted.
    pub address: RemoteAddr,
    /// Innermost frame: the faulting instruction. `None` when no frame could be had.
    pub stack: Option<StackId>,
    /// Number of faults of this kind that this record represents.
    pub weight: u64,
    /// Minor or major.
    pub kind: FaultKind,
}

/// What happened to a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadEventKind {
    /// It was born (or was there when we attached).
    Start,
    /// Its process executed another program; `name` is the new one.
    Exec,
    /// It changed its name.
    Rename,
    /// It ended.
    Exit,
}

/// A step in the life of a thread. A process is a thread whose tid equals its pid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadEvent {
    /// When.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// What.
    pub kind: ThreadEventKind,
    /// The thread's name (15 bytes at most on Linux); empty on `Exit`.
    pub name: String,
}

/// Which stream lost records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostSource {
    /// Clock samples that the kernel's ring buffer had no room for.
    Samples,
    /// Fault records likewise.
    Faults,
    /// Mapping, fork, exec or exit records likewise: attribution may suffer.
    Events,
    /// Samples that were thinned to keep the result within its size limit (their weight is kept).
    Thinned,
    /// Records of heap blocks for which the agent's ring had no room; the blocks are counted all the same.
    Allocations,
    /// Entries into the kernel for whose thread and cause the table in the kernel had no room.
    KernelEntries,
    /// Calls that mapped or unmapped memory and have no record, for lack of room or because there were too many.
    /// Readings of the maps find regions that stay long enough, without their caller.
    Regions,
}

/// A loss, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// When we learned of it.
    pub time: Nanos,
    /// From which stream.
    pub source: LostSource,
    /// How many records.
    pub count: u64,
}

/// An exact total over the whole recording and all processes of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterKind {
    /// CPU time of all threads, nanoseconds (perf task-clock, or schedstat).
    TaskClock,
    /// Minor page faults.
    MinorFaults,
    /// Major page faults.
    MajorFaults,
    /// Context switches.
    ContextSwitches,
    /// Migrations between CPUs.
    Migrations,
    /// Time that threads of the program's control groups were stopped by a CPU quota, nanoseconds (`cpu.stat`).
    ThrottledTime,
    /// Time of CPUs of the machine that idled while somebody waited for I/O, nanoseconds (`/proc/stat`).
    IoWaitTime,
    /// Pages that the machine read from swap and wrote to it (`/proc/vmstat`).
    SwappedPages,
    /// How often cores of the machine lowered their clock for heat (`thermal_throttle`).
    ClockThrottles,
    /// Pages of the machine that NUMA balancing moved to another node (`/proc/vmstat`, `numa_pages_migrated`).
    MovedPages,
    /// Pages that programs of the machine had to reclaim themselves when they needed memory (`pgsteal_direct`).
    ReclaimedPages,
    /// Pages of the machine that went to a slower tier of memory (`pgdemote_*`).
    DemotedPages,
    /// Pages of the machine that went to a faster tier (`pgpromote_success`).
    PromotedPages,
}

/// An exact total, read at the end of the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// What was counted.
    pub kind: CounterKind,
    /// The total.
    pub value: u64,
}

/// A level that is polled over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GaugeKind {
    /// Resident memory of a process, bytes (`/proc/PID/statm`).
    ResidentBytes,
    /// Memory of a process in transparent or hugetlb huge pages, bytes (`smaps_rollup`).
    HugePageBytes,
    /// Anonymous memory of a process, bytes (`smaps_rollup`): what huge pages could back.
    AnonymousBytes,
    /// CPU time stolen by the hypervisor since the start, nanoseconds over all CPUs (`/proc/stat`).
    StolenTime,
    /// CPU time used by everybody on the machine, the program included, since the start, nanoseconds over all CPUs.
    MachineCpuTime,
    /// Threads of a process that run or wait for a CPU at the moment (states R, and t while we have stopped them;
    /// proc_pid_stat(5)).
    RunnableThreads,
}

/// A polled level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gauge {
    /// When.
    pub time: Nanos,
    /// The process, or `Pid(0)` for the machine.
    pub pid: Pid,
    /// What.
    pub kind: GaugeKind,
    /// The level, in the kind's unit.
    pub value: u64,
}

/// What symbolisation found at one address: one row per inlined function there, `depth` 0 innermost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The module.
    pub module: ModuleId,
    /// The looked-up address, as in [`StackNode::offset`].
    pub offset: FileOffset,
    /// 0 for the innermost inlined function; the highest depth is the function whose code this is.
    pub depth: u32,
    /// Demangled name.
    pub function: String,
    /// Source file, where debug information names it.
    pub file: Option<String>,
    /// Source line, where debug information names it.
    pub line: Option<u32>,
    /// Whether `function` was inlined into the next depth.
    pub inlined: bool,
}

impl Frame {
    /// The looked-up address.
    #[must_use]
    pub const fn code_address(&self) -> CodeAddress {
        CodeAddress::new(self.module, self.offset)
    }
}

macro_rules! fact {
    ($($kind:ident in $rows:ident $(at $time:ident)?;)+) => {
        /// Any observation.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[expect(missing_docs, reason = "each variant is named after the type it carries")]
        pub enum Fact {
            $($kind(crate::$kind)),+
        }

        impl Fact {
            /// When it happened; `None` where the fact holds for the whole recording.
            #[must_use]
            pub fn time(&self) -> Option<Nanos> {
                match self {
                    $(Fact::$kind(crate::$kind { $($time,)? .. }) => None$(.or(Some(*$time)))?),+
                }
            }
        }
    };
}

crate::every_kind_of_fact!(fact);

/// Why a sink cannot take more facts.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The disk is full, or the directory vanished: what was written before is kept.
    #[error("cannot write to the result: {0}")]
    Write(#[from] std::io::Error),
}

/// The destination of observations. Facts arrive in the order of discovery, which is roughly, not strictly, the order
/// of time; modules, stack nodes and blocks arrive before the facts that name them.
pub trait Sink {
    /// Takes one fact. After an error the sink takes nothing more; the collector must stop and leave the
    /// program running.
    fn push(&mut self, fact: Fact) -> Result<(), SinkError>;

    /// Makes what was pushed survive our death. Called about once a second.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

impl Sink for Vec<Fact> {
    fn push(&mut self, fact: Fact) -> Result<(), SinkError> {
        Vec::push(self, fact);
        Ok(())
    }
}
