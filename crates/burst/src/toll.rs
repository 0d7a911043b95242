//! What the way into translated code and out again takes of a thread's CPU time.
//!
//! What for: a brief burst lasts some tens of microseconds, of which two switches of the scheduler and two stops take a good
//! part; a rate is what the thread did over the time that it had for it. What not: caches that are cold behind a stop.
//!
//! Assumption: the way takes as long in one burst as in the next. It is gone empty now and then, and the median of the last
//! ones is taken off the CPU time of every burst. Stops for new code take as long.

use base::Nanos;

/// Of so many bursts one goes the way for nothing.
const EVERY: u32 = 32;
/// The median is of so many.
const KEPT: usize = 9;

/// What it took lately.
#[derive(Default)]
pub struct Toll {
    turns: u32,
    /// The last ones, in a ring.
    seen: Vec<Nanos>,
    next: usize,
}

impl Toll {
    /// Whether this turn of a thread is to go the way for nothing: the first few, and then one of many.
    pub fn is_due(&mut self) -> bool {
        self.turns = self.turns.wrapping_add(1);
        self.turns.is_multiple_of(EVERY) || self.seen.len() < 3 && self.turns.is_multiple_of(4)
    }

    /// Takes note of what it took.
    pub fn note(&mut self, took: Nanos) {
        if self.seen.len() < KEPT {
            self.seen.push(took);
            return;
        }
        self.seen[self.next] = took;
        self.next = (self.next + 1) % KEPT;
    }

    /// The median of the last ones.
    #[must_use]
    pub fn usual(&self) -> Nanos {
        let mut sorted = self.seen.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    /// CPU time of a burst without it: between each two of its stops the thread came in and went out again.
    #[must_use]
    pub fn off(&self, cpu_time: Nanos, stops: u32) -> Nanos {
        cpu_time - Nanos(self.usual().0.saturating_mul(u64::from(stops.saturating_sub(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_last_ones_is_taken_off() {
        let mut toll = Toll::default();
        assert_eq!(toll.off(Nanos(1000), 2), Nanos(1000));
        for took in [5, 900, 7] {
            toll.note(Nanos(took));
        }
        assert_eq!(toll.off(Nanos(1000), 2), Nanos(993));
        assert_eq!(toll.off(Nanos(1000), 4), Nanos(979));
        assert_eq!(toll.off(Nanos(3), 2), Nanos(0));
        (0..KEPT).for_each(|_| toll.note(Nanos(50)));
        assert_eq!(toll.usual(), Nanos(50));
    }

    #[test]
    fn it_is_gone_soon_and_then_seldom() {
        let mut toll = Toll::default();
        let early = (0..16).filter(|_| toll.is_due()).count();
        assert_eq!(early, 4);
        (0..KEPT).for_each(|_| toll.note(Nanos(1)));
        assert_eq!((0..3200).filter(|_| toll.is_due()).count(), 100);
    }
}
