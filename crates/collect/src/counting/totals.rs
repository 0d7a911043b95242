//! What an event has counted so far, by all counters that count it.
//!
//! What for: the difference of two readings as a fact. What not: reading them, and how often.

use base::Nanos;
use facts::EventCount;
use sys::perf::Event;

/// Sums over an event's counters, each since it was opened.
#[derive(Clone, Copy, Default)]
pub(crate) struct Totals {
    count: u64,
    /// Nanoseconds for which it was to be counted, and was.
    enabled: u64,
    running: u64,
}

/// What one counter showed last. One that can no longer be read, as that of a CPU that went offline may be, keeps it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shown([u64; 3]);

impl Shown {
    /// What it shows by now.
    pub(crate) fn now(&mut self, event: &Event) -> [u64; 3] {
        self.0 = event.read_timed().unwrap_or(self.0);
        self.0
    }
}

impl Totals {
    /// Adds what one counter shows ([`sys::perf::Event::read_timed`]).
    pub(crate) fn add(&mut self, [count, enabled, running]: [u64; 3]) {
        self.count = self.count.saturating_add(count);
        self.enabled = self.enabled.saturating_add(enabled);
        self.running = self.running.saturating_add(running);
    }

    /// The counters were to count in turn, on so many CPUs.
    pub(crate) fn in_turn(&mut self, cpus: u64) {
        self.enabled /= cpus;
    }

    /// What came since these, until `now`; `None` where nothing ran, so that there is nothing to say.
    pub(crate) fn advance(&mut self, to: Totals, now: Nanos, event: u32) -> Option<EventCount> {
        let before = std::mem::replace(self, to);
        let enabled = Nanos(to.enabled.saturating_sub(before.enabled));
        let running = Nanos(to.running.saturating_sub(before.running)).min(enabled);
        let count = to.count.saturating_sub(before.count);
        (enabled > Nanos(0)).then_some(EventCount { time: now, event, count, enabled, running })
    }
}
