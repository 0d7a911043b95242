//! Events that a counter of the hardware or the kernel counted.
//!
//! What for: what was counted, how much in each stretch of the recording, and which code ran when a counter had counted so many.
//! What not: which events there are (`machine::events`), what a count means, and the whole where counters took turns (`analysis`).

use base::{CpuId, Nanos, Pid, StackId, Tid};

use crate::Privilege;

/// An event that was counted for all that was observed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CountedEvent {
    /// Its number; that of its row.
    pub id: u32,
    /// Its name as asked for: `cycles`, `MEM_LOAD_RETIRED.L1_HIT`.
    pub name: String,
    /// Number of its group: events of one group are counted at the same times.
    pub group: u32,
    /// Whether it was counted in the kernel too.
    pub kernel: bool,
    /// The socket that was counted, from 0, whatever ran on it; `None`: the program was, or all CPUs.
    pub socket: Option<u32>,
    /// What 1,000 occurrences move between memory or another socket and a socket, bytes.
    pub bytes_per_thousand: Option<u32>,
    /// The link to another socket that was counted: `UPI 0`, `xGMI 3`.
    pub link: Option<String>,
}

/// The count of an event between two readings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventCount {
    /// The later reading.
    pub time: Nanos,
    /// [`CountedEvent::id`].
    pub event: u32,
    /// Occurrences while a counter was its own.
    pub count: u64,
    /// Time for which it was to be counted, summed over threads or CPUs.
    pub enabled: Nanos,
    /// Part of `enabled` with a counter. Less than all of it where more events were asked for than there are counters.
    pub running: Nanos,
}

/// The code that ran when a counter had counted so many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventSample {
    /// When.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The CPU, where the source tells it.
    pub cpu: Option<CpuId>,
    /// Innermost frame. `None` when no frame could be had.
    pub stack: Option<StackId>,
    /// Program or kernel.
    pub privilege: Privilege,
    /// [`CountedEvent::id`].
    pub event: u32,
    /// Occurrences since the sample before: the period of the counter; or what the event's group counted since then, where each
    /// sample reads all of a group.
    pub weight: u64,
}
