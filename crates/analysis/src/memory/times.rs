//! When lines are touched again, within a burst.
//!
//! What for: a line that a burst touches for the first time was perhaps touched shortly before the burst. The times between
//! touches in the burst give the probability (`survival`). If most lines of an instruction return after 4,000 accesses, a first
//! touch 1,000 accesses into the burst means little; one after 100,000 means that the line has not been used for long. Sets of a
//! large cache fill too slowly, and too unevenly, to show that. Of a line that a burst stores to, they also tell which site touched
//! it first. What not: the times between bursts.
//!
//! Time is counted in accesses of the thread, and kept in [`BINS`] steps of a factor of 1.6. One line in [`ONE_IN`] is followed,
//! selected by a hash of its address.

use std::collections::hash_map::Entry;

use base::IndexMap;
use cachesim::{DEPTHS, LevelTally};

use crate::traced::SiteIndex;

/// One line in this many is followed.
const ONE_IN: u64 = 16;
/// Steps of time.
pub(crate) const BINS: usize = DEPTHS;
/// Steps per factor of two.
const PER_OCTAVE: f64 = 1.5;

/// Whether a line is one in this many (a power of two). Multiplicative hashing, top bits (Knuth, The Art of Computer
/// Programming vol. 3, 6.4).
pub(crate) fn is_one_in(line: u64, one_in: u64) -> bool {
    one_in == 1 || line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - one_in.trailing_zeros()) == 0
}

/// Clock of a burst, and when it saw each line last.
#[derive(Debug, Default)]
pub(crate) struct Times {
    now: u64,
    lines: IndexMap<u64, Line>,
}

/// A line that is followed.
#[derive(Debug)]
struct Line {
    last: u64,
    /// The site that touched it first.
    first: SiteIndex,
    is_stored: bool,
}

impl Times {
    /// A burst begins.
    pub(crate) fn restart(&mut self) {
        self.now = 0;
        self.lines.clear();
    }

    /// Number of accesses that happened.
    pub(crate) fn pass(&mut self, accesses: u64) {
        self.now = self.now.saturating_add(accesses);
    }

    /// A site touches a line, `later` accesses from now. In `tally`, hits are touches again by the time since, and unknown
    /// ones first touches by the time since the burst began.
    pub(crate) fn touch(
        &mut self,
        (line, later): (u64, u64),
        site: SiteIndex,
        tally: &mut LevelTally,
    ) -> Option<usize> {
        if !is_one_in(line, ONE_IN) {
            return None;
        }
        let time = self.now.saturating_add(later);
        match self.lines.entry(line) {
            // Here the accesses of one loop are in sequence, whatever their real order was.
            Entry::Occupied(mut known) => {
                let before = std::mem::replace(&mut known.get_mut().last, time);
                tally.hits[bin(time.abs_diff(before))] += 1;
                None
            }
            Entry::Vacant(new) => {
                new.insert(Line { last: time, first: site, is_stored: false });
                tally.absent.unknown[bin(time)] += 1;
                Some(bin(time))
            }
        }
    }

    /// A store to a line: the site that touched the line first, if this is the first store to a followed one.
    pub(crate) fn store(&mut self, line: u64) -> Option<SiteIndex> {
        // Fifteen of sixteen are not looked up.
        let known = if is_one_in(line, ONE_IN) { self.lines.get_mut(&line)? } else { return None };
        let is_new = !std::mem::replace(&mut known.is_stored, true);
        is_new.then_some(known.first)
    }
}

fn bin(time: u64) -> usize {
    (((time as f64 + 1.0).log2() * PER_OCTAVE) as usize).min(BINS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_are_distinguished_by_time() {
        let line = (0..).find(|line| is_one_in(*line, ONE_IN)).expect("one in 16");
        let (mut times, mut tally) = (Times::default(), LevelTally::default());
        times.restart();
        times.pass(1000);
        let site = SiteIndex::new;
        assert_eq!(times.touch((line, 0), site(7), &mut tally), Some(bin(1000)));
        times.pass(5000);
        assert_eq!(times.touch((line, 10), site(8), &mut tally), None);
        assert_eq!((times.store(line), times.store(line)), (Some(site(7)), None));
        assert_eq!(tally.hits[bin(5010)], 1);
        times.restart();
        assert_eq!(times.touch((line, 0), site(8), &mut tally), Some(0));
    }

    #[test]
    fn steps_rise_and_end() {
        assert_eq!((bin(0), bin(1), bin(3)), (0, 1, 3));
        assert!(bin(1000) < bin(2000));
        assert_eq!(bin(u64::MAX - 1), BINS - 1);
    }
}
