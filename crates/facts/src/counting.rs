//! Events that a counter of the hardware or the kernel counted.
//!
//! What for: what was counted, and how much in each stretch of the recording. What not: which events there are (`machine::events`),
//! what a count means, and the whole where counters took turns (`analysis`).

use base::Nanos;

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
