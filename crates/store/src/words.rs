//! The words under which enums are stored. Order and spelling are part of the format: add at the end only.

use facts::{
    AllocationCall, BurstEnd, BurstFlavour, CounterKind, FaultKind, GaugeKind, KernelCause,
    LostSource, Privilege, RegionKind, ThreadEventKind, WaitKind,
};

use crate::schema::Word;

macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl Word for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn position(self) -> u8 {
                const VARIANTS: &[$type] = &[$($type::$variant),+];
                // The match makes a new variant a compile error here instead of a lost fact.
                match self { $($type::$variant => {})+ }
                VARIANTS.iter().position(|variant| *variant == self).unwrap_or_default() as u8
            }

            fn at(position: u8) -> Option<$type> {
                [$($type::$variant),+].get(usize::from(position)).copied()
            }
        }
    };
}

words!(Privilege { User = "user", Kernel = "kernel" });
words!(FaultKind { Minor = "minor", Major = "major" });
words!(ThreadEventKind { Start = "start", Exec = "exec", Rename = "rename", Exit = "exit" });
words!(LostSource { Samples = "samples", Faults = "faults", Events = "events", Thinned = "thinned", Allocations = "allocations", KernelEntries = "kernel-entries", Regions = "regions" });
words!(CounterKind {
    TaskClock = "task-clock",
    MinorFaults = "minor-faults",
    MajorFaults = "major-faults",
    ContextSwitches = "context-switches",
    Migrations = "migrations",
    ThrottledTime = "throttled-time",
    IoWaitTime = "io-wait-time",
    SwappedPages = "swapped-pages",
    ClockThrottles = "clock-throttles",
});
words!(GaugeKind {
    ResidentBytes = "resident-bytes",
    HugePageBytes = "huge-page-bytes",
    AnonymousBytes = "anonymous-bytes",
    StolenTime = "stolen-time",
    MachineCpuTime = "machine-cpu-time",
});

words!(AllocationCall { Malloc = "malloc", Calloc = "calloc", Realloc = "realloc", Aligned = "aligned", Persistent = "persistent" });
words!(RegionKind {
    Anonymous = "anonymous",
    File = "file",
    Shared = "shared",
    Huge = "huge",
    Stack = "stack",
    Break = "break",
});
words!(WaitKind { Blocked = "blocked", Preempted = "preempted" });
words!(KernelCause {
    PageFault = "page-fault",
    SystemCall = "system-call",
    Interrupt = "interrupt",
    SoftInterrupt = "soft-interrupt",
    Switch = "switch",
    RunQueue = "run-queue",
    TlbFlush = "tlb-flush",
    MemoryEvent = "memory-event",
});
words!(BurstFlavour { Trace = "trace", Count = "count", Timed = "timed" });
words!(BurstEnd {
    Time = "time",
    Full = "full",
    Native = "native",
    Untranslated = "untranslated",
    Stopped = "stopped",
    Gone = "gone",
});

/// A module's kind without the process it may carry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ModuleWord {
    /// An ELF file.
    File,
    /// The kernel.
    Kernel,
    /// The vdso.
    Vdso,
    /// JIT code; the table's `pid` column says whose.
    Anonymous,
    /// Unexplained.
    Unknown,
}

words!(ModuleWord {
    File = "file",
    Kernel = "kernel",
    Vdso = "vdso",
    Anonymous = "anonymous",
    Unknown = "unknown",
});

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<W: Word + PartialEq + std::fmt::Debug>() {
        for position in 0..W::WORDS.len() as u8 {
            assert_eq!(W::at(position).map(Word::position), Some(position));
        }
        assert!(W::at(W::WORDS.len() as u8).is_none());
    }

    #[test]
    fn every_word_names_one_value() {
        round_trip::<Privilege>();
        round_trip::<FaultKind>();
        round_trip::<ThreadEventKind>();
        round_trip::<LostSource>();
        round_trip::<CounterKind>();
        round_trip::<GaugeKind>();
        round_trip::<BurstFlavour>();
        round_trip::<BurstEnd>();
        round_trip::<AllocationCall>();
        round_trip::<RegionKind>();
        round_trip::<WaitKind>();
        round_trip::<KernelCause>();
    }
}
