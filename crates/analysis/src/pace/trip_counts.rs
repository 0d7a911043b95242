//! Iterations of a loop per iteration of the loop around it, where the code and the registers of samples tell them.
//!
//! What for: loops that go round for less than the time between two samples have no pace of their own, but that of a loop around,
//! times this. A burst shows it only of runs that are shorter than itself, and few of them. What not: how it follows from the
//! code (`x86::loops`); loops whose bounds are loaded from memory.
//!
//! Samples meet a run of `n` iterations `n` times as often as a run of one. So the mean over runs is the harmonic one over
//! samples (length-biased sampling: Cox, "Some sampling problems in technology", 1969).
//!
//! Assumption: iterations of one loop take the same time in long and short runs.

use std::collections::BTreeMap;

use base::FileOffset;

use super::agreement::{Trips, Witness};
use super::code::LoopId;
use estimate::interval::Z_95;

/// Fewer samples do not tell that runs are alike.
const FEWEST: u64 = 5;
/// At least this part of the samples of a loop must tell.
const MOST: f64 = 0.9;

/// A loop in another one: directly, or by a call in the outer one of the function whose loop the inner one is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Link {
    pub inner: LoopId,
    pub outer: LoopId,
    /// A byte of the call.
    pub call: Option<FileOffset>,
}

/// Runs of an inner loop that samples met.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    known: u64,
    unknown: u64,
    /// Of 1 / iterations, and its square.
    sum: f64,
    squares: f64,
    /// Runs without an iteration are possible.
    may_be_none: bool,
}

/// What samples show of all links.
#[derive(Debug, Default)]
pub(super) struct TripCounts(BTreeMap<Link, Runs>);

impl TripCounts {
    /// Adds a sample: iterations of the run that it met, if they are known.
    pub(super) fn add(&mut self, link: Link, iterations: Option<u64>, may_be_none: bool) {
        let runs = self.0.entry(link).or_default();
        runs.may_be_none |= may_be_none;
        match iterations.filter(|count| *count > 0) {
            Some(count) => {
                runs.known += 1;
                runs.sum += 1.0 / count as f64;
                runs.squares += (count as f64).powi(-2);
            }
            None => runs.unknown += 1,
        }
    }

    /// The mean number of iterations per iteration of the loops around together; `iterations`: how often each of these went round.
    pub(super) fn of(
        &self,
        inner: LoopId,
        around: &[LoopId],
        iterations: impl Fn(LoopId) -> Option<f64>,
    ) -> Option<Trips> {
        let above = self.above(inner)?;
        let (mut sum, mut half, mut all, mut samples) = (0.0, 0.0_f64, 0.0, 0);
        for outer in around {
            let (went, trips) = (iterations(*outer)?, above.get(outer)?);
            sum += went * trips.ratio;
            half = half.hypot(went * trips.half);
            all += went;
            samples += trips.seen;
        }
        (all > 0.0).then(|| Trips { seen: samples, ..trips(sum / all, half / all) })
    }

    /// All loops around one, as far up as it is known, with iterations of this one per iteration of theirs.
    pub(super) fn above(&self, inner: LoopId) -> Option<BTreeMap<LoopId, Trips>> {
        let own = Trips { seen: usize::MAX, ..trips(1.0, 0.0) };
        let mut found = BTreeMap::from([(inner, own)]);
        let mut open = vec![inner];
        // Each loop once: loops of recursive functions lie in themselves.
        while let Some(one) = open.pop() {
            let below = found.get(&one).copied()?;
            for (outer, own) in self.directly_around(one) {
                let relative = (below.half / below.ratio).hypot(own.half / own.ratio);
                let ratio = below.ratio * own.ratio;
                let trips =
                    Trips { seen: below.seen.min(own.seen), ..trips(ratio, relative * ratio) };
                if found.insert(outer, trips).is_some() {
                    return None;
                }
                open.push(outer);
            }
        }
        found.remove(&inner);
        Some(found)
    }

    /// The loops directly around one. Calls from several places in one loop add up.
    fn directly_around(&self, inner: LoopId) -> BTreeMap<LoopId, Trips> {
        let mut found: BTreeMap<LoopId, Option<Trips>> = BTreeMap::new();
        let least = LoopId::new(0, 0);
        let first = Link { inner, outer: least, call: None };
        for (link, runs) in self.0.range(first..).take_while(|(link, _)| link.inner == inner) {
            let known = found.entry(link.outer);
            let own = runs.trips();
            known
                .and_modify(|known| *known = known.zip(own).map(|(one, other)| sum(one, other)))
                .or_insert(own);
        }
        found.into_iter().filter_map(|(outer, trips)| Some((outer, trips?))).collect()
    }
}

impl Runs {
    fn trips(&self) -> Option<Trips> {
        let n = self.known as f64;
        if self.known < FEWEST || n < MOST * (self.known + self.unknown) as f64 {
            return None;
        }
        let mean = self.sum / n;
        let variance = (self.squares / n - mean * mean).max(0.0);
        // Less is rounding.
        let relative = variance.sqrt() / mean;
        let relative = if relative < 1e-6 { 0.0 } else { relative };
        if self.may_be_none && relative > 0.0 {
            return None;
        }
        let half = Z_95 * relative / n.sqrt() / mean;
        Some(Trips { seen: self.known as usize, ..trips(1.0 / mean, half) })
    }
}

fn trips(ratio: f64, half: f64) -> Trips {
    Trips { ratio, half, by: Witness::Samples, seen: 0 }
}

/// Those of calls from two places.
fn sum(one: Trips, other: Trips) -> Trips {
    let seen = one.seen.min(other.seen);
    Trips { seen, ..trips(one.ratio + other.ratio, one.half.hypot(other.half)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(position: usize) -> LoopId {
        LoopId::new(0, position)
    }

    fn link(inner: usize, outer: usize, call: Option<u64>) -> Link {
        Link { inner: one(inner), outer: one(outer), call: call.map(FileOffset) }
    }

    fn counted(of: &[(Link, &[u64])]) -> TripCounts {
        let mut counts = TripCounts::default();
        for (link, runs) in of {
            runs.iter().for_each(|run| counts.add(*link, Some(*run), false));
        }
        counts
    }

    #[test]
    fn trips_multiply_along_a_nest_and_add_up_over_calls() {
        let calls = [
            (link(2, 1, None), &[10; 20][..]),
            (link(1, 0, Some(0x100)), &[4; 20][..]),
            (link(1, 0, Some(0x200)), &[6; 20][..]),
        ];
        let trips = counted(&calls).of(one(2), &[one(0)], |_| Some(7.0)).unwrap();
        assert!((trips.ratio - 100.0).abs() < 1e-9 && trips.half == 0.0, "{trips:?}");
        // Of two loops around, the one that goes round more often counts more.
        let ways = [(link(2, 0, Some(0x100)), &[10; 20][..]), (link(2, 1, None), &[20; 20][..])];
        let went = |outer: LoopId| Some(if outer == one(0) { 30.0 } else { 10.0 });
        let trips = counted(&ways).of(one(2), &[one(0), one(1)], went).unwrap();
        assert!((trips.ratio - 12.5).abs() < 1e-9, "{trips:?}");
    }

    /// As many runs of 10 as of 30: three of four samples are in the long ones.
    #[test]
    fn long_runs_have_more_samples() {
        let runs: Vec<u64> = (0..400).map(|at| if at % 4 == 0 { 10 } else { 30 }).collect();
        let trips = counted(&[(link(1, 0, None), &runs)]).of(one(1), &[one(0)], |_| Some(1.0));
        let trips = trips.unwrap();
        assert!((trips.ratio - 20.0).abs() < 1e-9, "{trips:?}");
        assert!(trips.half > 0.5 && trips.half < 3.0, "{trips:?}");
    }

    #[test]
    fn what_too_few_samples_tell_is_not_known() {
        let of = |known: u64, unknown: u64| {
            let mut counts = TripCounts::default();
            (0..known).for_each(|_| counts.add(link(1, 0, None), Some(5), false));
            (0..unknown).for_each(|_| counts.add(link(1, 0, None), None, false));
            counts.of(one(1), &[one(0)], |_| Some(1.0)).map(|trips| trips.ratio.round())
        };
        assert_eq!(of(100, 0), Some(5.0));
        assert_eq!(of(4, 0), None);
        assert_eq!(of(100, 20), None);
        // Runs of different lengths, some perhaps of none: these no sample meets.
        let mut counts = TripCounts::default();
        (0..100).for_each(|at| counts.add(link(1, 0, None), Some(5 + at % 2), true));
        assert_eq!(counts.of(one(1), &[one(0)], |_| Some(1.0)), None);
        // A loop that lies in itself.
        let recursive = [(link(1, 0, None), &[5; 9][..]), (link(0, 1, Some(1)), &[5; 9][..])];
        assert_eq!(counted(&recursive).of(one(1), &[one(0)], |_| Some(1.0)), None);
    }
}
