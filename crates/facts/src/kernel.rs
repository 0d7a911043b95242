//! What a system overview observed: entries into the kernel by their cause, summed per thread, CPU and bin of time.
//!
//! What not: their meaning (`analysis::kernel`).

use base::{CpuId, Nanos, Pid, Tid};

/// Why the kernel ran.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KernelCause {
    /// A page fault.
    PageFault,
    /// A system call.
    SystemCall,
    /// An interrupt, of a device or of the processor itself.
    Interrupt,
    /// The deferred part of an interrupt's work.
    SoftInterrupt,
    /// A thread left its CPU.
    Switch,
    /// A thread that could run waited for a CPU. Not an entry; all its time is waiting time.
    RunQueue,
    /// Address translations were flushed from TLBs; not an entry of its own.
    TlbFlush,
    /// What the kernel's memory management counts for the whole machine (`/proc/vmstat`); not an entry.
    MemoryEvent,
}

impl KernelCause {
    /// All, in the order in which they are shown.
    pub const ALL: [KernelCause; 8] = [
        KernelCause::PageFault,
        KernelCause::SystemCall,
        KernelCause::Interrupt,
        KernelCause::SoftInterrupt,
        KernelCause::Switch,
        KernelCause::RunQueue,
        KernelCause::TlbFlush,
        KernelCause::MemoryEvent,
    ];

    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KernelCause::PageFault => "page fault",
            KernelCause::SystemCall => "system call",
            KernelCause::Interrupt => "interrupt",
            KernelCause::SoftInterrupt => "soft interrupt",
            KernelCause::Switch => "switch",
            KernelCause::RunQueue => "run queue",
            KernelCause::TlbFlush => "TLB flush",
            KernelCause::MemoryEvent => "memory event",
        }
    }

    /// Whether the CPU went from a program (or the idle loop) into the kernel.
    #[must_use]
    pub fn is_entry(self) -> bool {
        matches!(
            self,
            KernelCause::PageFault
                | KernelCause::SystemCall
                | KernelCause::Interrupt
                | KernelCause::SoftInterrupt
        )
    }
}

/// Entries of one kind in a bin of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelEntry {
    /// End of the bin.
    pub time: Nanos,
    /// Its length.
    pub length: Nanos,
    /// The process that ran: 0 for none, or, when one program was observed, for all other programs.
    pub pid: Pid,
    /// The thread likewise; 0 where a program's threads were counted together.
    pub tid: Tid,
    /// The CPU, where it is known.
    pub cpu: Option<CpuId>,
    /// Why.
    pub cause: KernelCause,
    /// Which: the system call, the interrupt, the kind of fault.
    pub name: String,
    /// Number of entries that ended in the bin.
    pub count: u64,
    /// CPU time in them, without that of interrupts in between; `None` where only the count is known.
    pub own: Option<Nanos>,
    /// Time off the CPU between their begin and end.
    pub waited: Nanos,
}
