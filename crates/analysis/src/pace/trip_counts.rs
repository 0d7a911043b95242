//! Iterations of a loop per iteration of the loop around it, where the code and the registers of samples tell them.
//!
//! What for: loops that go round for less than the time between two samples have no pace of their own, but that of a loop around,
//! times this. A burst shows it only of runs that are shorter than itself, and few of them. What not: how it follows from the
//! code (`x86::loops`).
//!
//! Either the values with which a loop is entered tell it. Or each sample shows where in a run it is: what remains of it, or by
//! what moves in runs with the same bounds. Places in runs that are alike are spread evenly, as far as these are long
//! (`estimate::run_length`).
//!
//! Samples meet a run of `n` iterations `n` times as often as a run of one. So the mean over runs is the harmonic one over
//! samples (length-biased sampling: Cox, "Some sampling problems in technology", 1969).
//!
//! Where the code does not say that each iteration around enters the loop, samples do of those in which they met it: of so many
//! iterations around from one sample in it to the next, at least so many.
//!
//! Assumption: iterations of one loop take the same time in long and short runs.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use base::{FileOffset, ThreadId};
use x86::TripCount;

use super::agreement::{Trips, Witness};
use super::code::{Counters, LoopId, Terms};
use super::estimate::TOO_WIDE;
use ::estimate::interval::Z_95;
use ::estimate::parameters::{FEWEST_RUNS, TELLING};
use ::estimate::{RunLength, run_length};

/// Fewer samples do not tell that runs are alike.
const FEWEST: u64 = FEWEST_RUNS.value as u64;

/// A loop in another one: directly, or by a call in the outer one of the function whose loop the inner one is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Link {
    pub inner: LoopId,
    pub outer: LoopId,
    /// A byte of the call.
    pub call: Option<FileOffset>,
}

/// Runs that begin and end alike.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// Of one thread, where what remains of a run is known.
    FromEnd(ThreadId),
    /// Of one thread, with the same bounds, by a variable that moves.
    Alike(ThreadId, Vec<u64>, Terms),
}

/// Runs of an inner loop that samples met.
#[derive(Debug, Default)]
struct Runs {
    known: u64,
    unknown: u64,
    /// Of 1 / iterations, and its square.
    sum: f64,
    squares: f64,
    /// The last number of iterations of each thread, and whether one had others before.
    last: BTreeMap<ThreadId, u64>,
    varies: bool,
    /// Runs without an iteration are possible.
    may_be_none: bool,
    /// By the code, each iteration around enters it.
    is_entered: bool,
    /// Iterations around between samples in it, and in how many of them a sample was in it.
    around: u64,
    met: u64,
    /// By the code, all runs in one run of the loop around have as many.
    is_even: bool,
    /// Where in runs of one kind, in iterations.
    places: BTreeMap<Kind, Vec<f64>>,
    trips: OnceCell<Option<Trips>>,
}

/// What samples show of all links.
#[derive(Debug, Default)]
pub(super) struct TripCounts(BTreeMap<Link, Runs>);

impl TripCounts {
    /// Adds a sample of a thread: iterations of the run that it met, and where in it, as far as they are known.
    pub(super) fn add(
        &mut self,
        (link, thread): (Link, ThreadId),
        (whole, place): (Option<u64>, Option<(Kind, f64)>),
        counters: &Counters,
    ) {
        let runs = self.0.entry(link).or_default();
        runs.is_entered = counters.is_entered;
        runs.may_be_none |= counters.may_be_none();
        runs.is_even = counters.whole.as_ref().is_some_and(TripCount::is_even);
        if let Some((kind, place)) = place {
            runs.places.entry(kind).or_default().push(place);
        }
        match whole.filter(|count| *count > 0) {
            Some(count) => {
                runs.varies |= runs.last.insert(thread, count).is_some_and(|last| last != count);
                runs.known += 1;
                runs.sum += 1.0 / count as f64;
                runs.squares += (count as f64).powi(-2);
            }
            None => runs.unknown += 1,
        }
    }

    /// The loop around went round so often from the last sample in the inner one to this; `None` where that is not known.
    pub(super) fn met(&mut self, link: Link, went: Option<u64>) {
        let runs = self.0.entry(link).or_default();
        let went = went.unwrap_or_default();
        runs.around += went;
        runs.met += went.min(1);
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
        let found = || {
            let whole = self.by_whole_runs();
            // Runs of different lengths in one thread, some perhaps of none: these no sample meets.
            let misses_some = whole.is_some() && self.may_be_none && self.varies;
            let is_entered = self.is_entered && !misses_some;
            let run = whole.or_else(|| self.by_places())?;
            if is_entered { Some(run) } else { self.per_iteration(run) }
        };
        *self.trips.get_or_init(found)
    }

    /// Iterations per iteration around, by those of a run, where not each iteration around may have one.
    fn per_iteration(&self, run: Trips) -> Option<Trips> {
        let least = self.met as f64 / self.around.max(1) as f64;
        let (ratio, open) = (run.ratio * (1.0 + least) / 2.0, run.ratio * (1.0 - least) / 2.0);
        let half = run.half.hypot(open);
        let is_known = self.met >= FEWEST && half <= TOO_WIDE * ratio;
        is_known.then_some(Trips { ratio, half, ..run })
    }

    fn by_whole_runs(&self) -> Option<Trips> {
        let n = self.known as f64;
        if self.known < FEWEST || n < TELLING.value * (self.known + self.unknown) as f64 {
            return None;
        }
        let mean = self.sum / n;
        let variance = (self.squares / n - mean * mean).max(0.0);
        // Less is rounding.
        let relative = variance.sqrt() / mean;
        let relative = if relative < 1e-6 { 0.0 } else { relative };
        let half = Z_95 * relative / n.sqrt() / mean;
        Some(Trips { seen: self.known as usize, ..trips(1.0 / mean, half) })
    }

    /// Samples meet a run anywhere, so that their places in runs of one kind are spread evenly.
    fn by_places(&self) -> Option<Trips> {
        let kinds = || self.places.iter().filter(|(_, places)| places.len() as u64 >= FEWEST);
        let seen: usize = kinds().map(|(_, places)| places.len()).sum();
        if (seen as f64) < TELLING.value * (self.known + self.unknown) as f64 {
            return None;
        }
        // What only ever goes forward is no place in one of several runs.
        let from_end = kinds().all(|(kind, _)| matches!(kind, Kind::FromEnd(_)));
        let back = |places: &[f64]| places.windows(2).filter(|two| two[1] < two[0]).count() as u64;
        let again: u64 = kinds().map(|(_, places)| back(places)).sum();
        if !from_end && again < FEWEST {
            return None;
        }
        let RunLength { length, scatter, unlike, is_spread_evenly } =
            run_length(kinds().map(|(_, places)| places.as_slice()))?;
        // If both ends of runs may differ, the mean may be off by twice as much.
        let unlike = match (self.is_even && is_spread_evenly, from_end) {
            (true, _) => 0.0,
            (false, true) => unlike,
            (false, false) => 2.0 * unlike,
        };
        let off = scatter.hypot(unlike);
        (off <= TOO_WIDE).then(|| Trips { seen, ..trips(length, off * length) })
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

    const THREAD: ThreadId = ThreadId::new(base::Pid(1), base::Tid(1));

    fn one(position: usize) -> LoopId {
        LoopId::new(0, position)
    }

    fn link(inner: usize, outer: usize, call: Option<u64>) -> Link {
        Link { inner: one(inner), outer: one(outer), call: call.map(FileOffset) }
    }

    /// Each iteration around enters the loop.
    fn entered(whole: Option<TripCount>) -> Counters {
        Counters { is_entered: true, whole, ..Counters::default() }
    }

    fn counted(of: &[(Link, &[u64])]) -> TripCounts {
        let mut counts = TripCounts::default();
        for (link, runs) in of {
            runs.iter()
                .for_each(|run| counts.add((*link, THREAD), (Some(*run), None), &entered(None)));
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

    /// `while (i < n) i++;`, compared first: cmp rcx,rsi; jae 100a; inc rcx; jmp 1000; ret
    fn may_be_none() -> TripCount {
        let bytes = [0x48, 0x39, 0xf1, 0x73, 0x05, 0x48, 0xff, 0xc1, 0xeb, 0xf6, 0xc3];
        let code = x86::CodeBytes { start: base::RemoteAddr(0x1000), bytes: &bytes };
        let count = x86::loops(&code).iterations_left(0).unwrap();
        assert!(count.may_be_none());
        count
    }

    #[test]
    fn what_too_few_samples_tell_is_not_known() {
        let of = |known: u64, unknown: u64| {
            let mut counts = TripCounts::default();
            (0..known).for_each(|_| {
                counts.add((link(1, 0, None), THREAD), (Some(5), None), &entered(None))
            });
            (0..unknown)
                .for_each(|_| counts.add((link(1, 0, None), THREAD), (None, None), &entered(None)));
            counts.of(one(1), &[one(0)], |_| Some(1.0)).map(|trips| trips.ratio.round())
        };
        assert_eq!(of(100, 0), Some(5.0));
        assert_eq!(of(4, 0), None);
        assert_eq!(of(100, 20), None);
        // Runs of different lengths, some perhaps of none: these no sample meets.
        let mut counts = TripCounts::default();
        let count = entered(Some(may_be_none()));
        (0..100).for_each(|at| {
            counts.add((link(1, 0, None), THREAD), (Some(5 + at % 2), None), &count);
        });
        assert_eq!(counts.of(one(1), &[one(0)], |_| Some(1.0)), None);
        // A loop that lies in itself.
        let recursive = [(link(1, 0, None), &[5; 9][..]), (link(0, 1, Some(1)), &[5; 9][..])];
        assert_eq!(counted(&recursive).of(one(1), &[one(0)], |_| Some(1.0)), None);
    }

    /// Whether the loop is entered each time the code does not say, but samples met it in 19 of 20 iterations around.
    #[test]
    fn samples_tell_how_many_iterations_around_enter_a_loop() {
        let met = |between: u64| {
            let mut counts = TripCounts::default();
            for at in 0..200 {
                counts.add((link(1, 0, None), THREAD), (Some(1000), None), &Counters::default());
                // Two samples in each run.
                let went = if at % 2 == 0 { 0 } else { between };
                let missed = u64::from(at % 38 == 37 && between > 0);
                counts.met(link(1, 0, None), Some(went + missed));
            }
            counts.of(one(1), &[one(0)], |_| Some(1.0))
        };
        let trips = met(1).unwrap();
        assert!((trips.ratio + trips.half - 1000.0).abs() < 1e-9, "{trips:?}");
        assert!((trips.ratio - trips.half - 952.4).abs() < 0.1, "{trips:?}");
        // In one of five, and in none that is known.
        assert_eq!(met(5), None);
        assert_eq!(met(0), None);
    }

    /// What samples see of runs of 1000 iterations: where each of them is.
    fn met(kind: &Kind, places: impl Iterator<Item = u64>) -> Option<Trips> {
        let mut counts = TripCounts::default();
        let place = |place: u64| Some((kind.clone(), place as f64));
        places.for_each(|at| {
            counts.add((link(1, 0, None), THREAD), (None, place(at)), &entered(None))
        });
        counts.of(one(1), &[one(0)], |_| Some(1.0))
    }

    #[test]
    fn where_samples_are_in_runs_tells_how_long_these_are() {
        let anywhere = || (0..500).map(|at| base::mixed(at) % 1000);
        let from_end = met(&Kind::FromEnd(THREAD), anywhere().map(|done| done + 1)).unwrap();
        assert!((from_end.ratio / 1e3 - 1.0).abs() < 0.01 && from_end.half < 150.0, "{from_end:?}");
        // Also where only the ends are known to be alike: then runs may begin anywhere.
        let alike = Kind::Alike(THREAD, vec![7], Terms::new());
        let both = met(&alike, anywhere()).unwrap();
        assert!((both.ratio / 1e3 - 1.0).abs() < 0.01 && both.half > from_end.half, "{both:?}");
        // What only ever grows is one run, and no run of a length.
        assert_eq!(met(&alike, 0..500), None);
        // Runs of which half end early are not taken for long ones.
        let uneven = (0..500).map(|at| base::mixed(at) % if at % 3 == 0 { 1000 } else { 100 });
        assert!(met(&alike, uneven).is_none_or(|trips| trips.ratio - trips.half < 550.0));
    }
}
