//! The CPU time that a thread spends on entering and leaving translated code.
//!
//! What for: a brief burst lasts some tens of microseconds, and two context switches and two stops are a good part of
//! them. A rate is work over the time that the thread had for it. What not: the cost of cold caches after a stop.
//!
//! Assumption: entering and leaving takes as long in one burst as in the next. From time to time a burst is empty: it
//! only enters and leaves. The median of the last empty bursts is deducted from the CPU time of every burst. Stops
//! for new code take as long.

use base::Nanos;

/// One burst of this many is empty.
const EVERY: u32 = 32;
/// Number of empty bursts of which the median is taken.
const KEPT: usize = 9;

/// The cost of the last empty bursts.
#[derive(Default)]
pub struct StopCost {
    turns: u32,
    /// A ring of the last ones.
    measured: Vec<Nanos>,
    next: usize,
}

impl StopCost {
    /// Whether this burst of a thread is to be empty: one of four at first, later one of [`EVERY`].
    pub fn is_due(&mut self) -> bool {
        self.turns = self.turns.wrapping_add(1);
        self.turns.is_multiple_of(EVERY) || self.measured.len() < 3 && self.turns.is_multiple_of(4)
    }

    /// Adds the CPU time of an empty burst.
    pub fn note(&mut self, cpu_time: Nanos) {
        if self.measured.len() < KEPT {
            self.measured.push(cpu_time);
            return;
        }
        self.measured[self.next] = cpu_time;
        self.next = (self.next + 1) % KEPT;
    }

    /// The median of the last ones.
    #[must_use]
    pub fn median(&self) -> Nanos {
        let mut sorted = self.measured.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    /// The CPU time of a burst without what it took to enter and leave translated code so often.
    #[must_use]
    pub fn deduct_from(&self, cpu_time: Nanos, entries: u32) -> Nanos {
        cpu_time - Nanos(self.median().0.saturating_mul(u64::from(entries)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_last_ones_is_deducted() {
        let mut cost = StopCost::default();
        assert_eq!(cost.deduct_from(Nanos(1000), 1), Nanos(1000));
        for took in [5, 900, 7] {
            cost.note(Nanos(took));
        }
        assert_eq!(cost.deduct_from(Nanos(1000), 1), Nanos(993));
        assert_eq!(cost.deduct_from(Nanos(1000), 3), Nanos(979));
        assert_eq!(cost.deduct_from(Nanos(3), 2), Nanos(0));
        (0..KEPT).for_each(|_| cost.note(Nanos(50)));
        assert_eq!(cost.median(), Nanos(50));
    }

    #[test]
    fn empty_bursts_come_soon_and_then_seldom() {
        let mut cost = StopCost::default();
        let early = (0..16).filter(|_| cost.is_due()).count();
        assert_eq!(early, 4);
        (0..KEPT).for_each(|_| cost.note(Nanos(1)));
        assert_eq!((0..3200).filter(|_| cost.is_due()).count(), 100);
    }
}
