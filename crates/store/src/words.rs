//! The words under which enums are stored. Order and spelling are part of the format: append only.
//!
//! What not: columns (`tables`).

use facts::{
    AccessKind, AllocationCall, BurstEnd, BurstFlavour, CounterKind, DataSource, FaultKind,
    GaugeKind, KernelCause, LostSource, MarkKind, Privilege, RegionKind, Snoop, ThreadEventKind,
    Translation, WaitKind,
};

use crate::schema::{Cell, ColumnKind, Word};
use crate::value::Value;

/// A module's kind without the process it may carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

macro_rules! words {
    ($($type:ident { $($variant:ident = $word:literal)+ })+) => {$(
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

        impl Value for $type {
            const KIND: ColumnKind = ColumnKind::Word(<$type as Word>::WORDS);

            fn cell(&self) -> Cell<'_> {
                Cell::Word(self.position())
            }

            fn of(cell: Cell<'_>) -> Option<$type> {
                if let Cell::Word(position) = cell { $type::at(position) } else { None }
            }
        }
    )+

        #[cfg(test)]
        mod tests {
            use super::*;

            #[test]
            fn every_word_names_one_value() {
                $(for position in 0..<$type as Word>::WORDS.len() as u8 {
                    assert_eq!($type::at(position).map(Word::position), Some(position));
                }
                assert_eq!($type::at(<$type as Word>::WORDS.len() as u8), None);)+
            }
        }
    };
}

words! {
    Privilege {
        User = "user"
        Kernel = "kernel"
    }
    FaultKind {
        Minor = "minor"
        Major = "major"
    }
    ThreadEventKind {
        Start = "start"
        Exec = "exec"
        Rename = "rename"
        Exit = "exit"
    }
    LostSource {
        Samples = "samples"
        Faults = "faults"
        Events = "events"
        Thinned = "thinned"
        Allocations = "allocations"
        KernelEntries = "kernel-entries"
        Regions = "regions"
    }
    CounterKind {
        TaskClock = "task-clock"
        MinorFaults = "minor-faults"
        MajorFaults = "major-faults"
        ContextSwitches = "context-switches"
        Migrations = "migrations"
        ThrottledTime = "throttled-time"
        IoWaitTime = "io-wait-time"
        SwappedPages = "swapped-pages"
        ClockThrottles = "clock-throttles"
        MovedPages = "moved-pages"
        ReclaimedPages = "reclaimed-pages"
        DemotedPages = "demoted-pages"
        PromotedPages = "promoted-pages"
    }
    GaugeKind {
        ResidentBytes = "resident-bytes"
        HugePageBytes = "huge-page-bytes"
        AnonymousBytes = "anonymous-bytes"
        StolenTime = "stolen-time"
        MachineCpuTime = "machine-cpu-time"
        RunnableThreads = "runnable-threads"
    }
    AllocationCall {
        Malloc = "malloc"
        Calloc = "calloc"
        Realloc = "realloc"
        Aligned = "aligned"
        Persistent = "persistent"
    }
    RegionKind {
        Anonymous = "anonymous"
        File = "file"
        Shared = "shared"
        Huge = "huge"
        Stack = "stack"
        Break = "break"
    }
    WaitKind {
        Blocked = "blocked"
        Preempted = "preempted"
    }
    MarkKind {
        Mark = "mark"
        Pause = "pause"
        Resume = "resume"
    }
    KernelCause {
        PageFault = "page-fault"
        SystemCall = "system-call"
        Interrupt = "interrupt"
        SoftInterrupt = "soft-interrupt"
        Switch = "switch"
        RunQueue = "run-queue"
        TlbFlush = "tlb-flush"
        MemoryEvent = "memory-event"
    }
    BurstFlavour {
        Trace = "trace"
        Count = "count"
        Timed = "timed"
        Sparse = "sparse"
    }
    BurstEnd {
        Time = "time"
        Full = "full"
        Native = "native"
        Untranslated = "untranslated"
        Stopped = "stopped"
        Gone = "gone"
    }
    AccessKind {
        Load = "load"
        Store = "store"
        LoadStore = "load-store"
        Prefetch = "prefetch"
    }
    DataSource {
        L1 = "l1"
        FillBuffer = "fill-buffer"
        L2 = "l2"
        L3 = "l3"
        L4 = "l4"
        RemoteCache = "remote-cache"
        Dram = "dram"
        RemoteDram = "remote-dram"
        Persistent = "persistent"
        Cxl = "cxl"
        Uncached = "uncached"
        Device = "device"
        BeyondL1 = "beyond-l1"
        BeyondL2 = "beyond-l2"
        BeyondL3 = "beyond-l3"
    }
    Snoop {
        None = "none"
        Miss = "miss"
        Hit = "hit"
        Modified = "modified"
        Peer = "peer"
    }
    Translation {
        L1 = "l1"
        L2 = "l2"
        Hit = "hit"
        Walk = "walk"
        Fault = "fault"
    }
    ModuleWord {
        File = "file"
        Kernel = "kernel"
        Vdso = "vdso"
        Anonymous = "anonymous"
        Unknown = "unknown"
    }
}
