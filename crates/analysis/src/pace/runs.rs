//! Runs of a loop from end to end: what remains of one and is done of the next between two samples.
//!
//! The nearest and the furthest position of any sample give the length of runs of one kind. A run's first sample lies anywhere
//! within the advance between two samples, so of `n` runs the nearest is on average an `n+1`th of that after the start (order
//! statistics of a uniform distribution: David and Nagaraja, Order Statistics, 2.3); the same holds for the end. Kinds differ by
//! what stays constant in a run, which may be a caller's counter that has no effect on the length. Kinds of one thread are merged
//! if their outermost positions differ by no more than chance.
//! What not: runs of fewer than three samples; runs in step with the sampling clock, whose first samples are always at the same
//! position; kinds whose runs differ in length: they would seem to run faster around restarts than anywhere else.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::pairs::{Found, Group, Reach, Restart};
use estimate::interval::median;

/// Runs of fewer samples do not count from end to end: between two samples another may hide. Of runs far shorter than the
/// time between two samples, every second sample is behind the one before.
const SAMPLES_OF_RUN: u64 = 3;

/// Code ran no faster around a restart than in the fastest pair, and this share more: what two timer interrupts may be late in
/// a millisecond.
const FASTER: f64 = 0.01;

/// This share of the restarts of a kind may look faster nevertheless.
const STRAY: f64 = 0.02;

/// Standard errors by which outermost places of one kind may differ more than they do on average.
const CHANCE: f64 = 3.0;

/// Runs of one kind.
#[derive(Clone, Copy, Debug)]
struct Kind {
    reach: Reach,
    /// How many begins and ends of runs lie between two samples.
    begins: f64,
    ends: f64,
    /// The furthest of the first places of runs, and the nearest of the last ones.
    latest_first: f64,
    earliest_last: f64,
}

/// The kinds of runs of a loop.
#[derive(Debug, Default)]
pub(super) struct Runs {
    kind_of: HashMap<usize, usize>,
    kinds: BTreeMap<usize, Kind>,
    /// Kinds that are of one length.
    even: BTreeSet<usize>,
    /// What lies between two samples, in iterations; and not less than one.
    median: f64,
    advance: f64,
}

impl Runs {
    pub(super) fn new(found: &Found) -> Runs {
        let mut advances: Vec<f64> = found.pairs.iter().map(|pair| pair.iterations).collect();
        advances.sort_by(f64::total_cmp);
        let Some(advance) = median(&advances).filter(|_| !found.restarts.is_empty()) else {
            return Runs::default();
        };
        let kind = |reach: &Reach| Kind {
            reach: *reach,
            begins: 0.0,
            ends: 0.0,
            latest_first: f64::NEG_INFINITY,
            earliest_last: f64::INFINITY,
        };
        let mut kinds: BTreeMap<usize, Kind> =
            found.reach.iter().map(|(group, reach)| (*group, kind(reach))).collect();
        for one in &found.restarts {
            kinds.entry(one.pair.group).and_modify(|kind| {
                kind.ends += 1.0;
                kind.earliest_last = kind.earliest_last.min(one.pair.from);
            });
            kinds.entry(one.to.0).and_modify(|kind| {
                kind.begins += 1.0;
                kind.latest_first = kind.latest_first.max(one.to.1);
            });
        }
        let mut runs =
            Runs { kinds, median: advance, advance: advance.max(1.0), ..Runs::default() };
        runs.kind_of = runs.kinds.keys().map(|group| (*group, *group)).collect();
        runs.unite(&found.groups);
        runs.even = runs.evens(found);
        runs
    }

    /// Kinds of one thread by one register become one, where their ends allow it.
    fn unite(&mut self, groups: &HashMap<Group, usize>) {
        let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for ((pid, tid, _, terms), group) in groups {
            if self.kinds.contains_key(group) {
                alike.entry((*pid, *tid, terms)).or_default().push(*group);
            }
        }
        for groups in alike.values().filter(|groups| groups.len() > 1) {
            let kinds: Vec<Kind> =
                groups.iter().filter_map(|group| self.kinds.get(group).copied()).collect();
            let Some(whole) = kinds.iter().copied().reduce(Kind::with) else { continue };
            // The nearest of these is after the nearest of all by an exponentially distributed share of the advance.
            let behind = |kind: &Kind| {
                (kind.reach.nearest - whole.reach.nearest) * (kind.begins + 1.0)
                    + (whole.reach.furthest - kind.reach.furthest) * (kind.ends + 1.0)
            };
            let shares = kinds.iter().map(behind).sum::<f64>() / self.advance;
            let expected = 2.0 * (kinds.len() as f64 - 1.0);
            if shares > expected + CHANCE * expected.sqrt() {
                continue;
            }
            let Some(into) = groups.iter().min().copied() else { continue };
            for group in groups {
                self.kinds.remove(group);
                self.kind_of.insert(*group, into);
            }
            self.kinds.insert(into, whole);
        }
    }

    fn evens(&self, found: &Found) -> BTreeSet<usize> {
        let speeds = found.pairs.iter().map(|pair| pair.iterations / pair.seconds);
        let fastest = speeds.fold(0.0, f64::max);
        let mut fits: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for one in &found.restarts {
            let Some((from, to, went)) = self.between(one) else { continue };
            let most = fastest * (one.pair.seconds - one.outside.0) * (1.0 + FASTER);
            let (Some(left), Some(done)) = (self.kinds.get(&from), self.kinds.get(&to)) else {
                continue;
            };
            let margins = left.behind(self.advance) + done.before(self.advance);
            for kind in [from, to] {
                let counts = fits.entry(kind).or_default();
                *counts = (counts.0 + 1, counts.1 + u64::from(went > most + margins));
            }
        }
        let mut pairs: HashMap<usize, u64> = HashMap::new();
        for pair in &found.pairs {
            if let Some(kind) = self.kind_of.get(&pair.group) {
                *pairs.entry(*kind).or_default() += 1;
            }
        }
        let even = |(kind, (restarts, wrong)): (usize, (u64, u64))| {
            // Each restart is noted of both its ends.
            let runs = restarts.div_ceil(2);
            let samples = pairs.get(&kind).copied().unwrap_or(0) + runs;
            let long = samples >= SAMPLES_OF_RUN * runs;
            let long = long && self.kinds.get(&kind)?.is_out_of_step(self.median);
            (long && wrong as f64 <= STRAY * restarts as f64).then_some(kind)
        };
        fits.into_iter().filter_map(even).collect()
    }

    /// Whether runs of this group are of one length.
    pub(super) fn is_even(&self, group: usize) -> bool {
        self.kind_of.get(&group).is_some_and(|kind| self.even.contains(kind))
    }

    /// Iterations between the two samples of a restart.
    pub(super) fn across(&self, one: &Restart) -> Option<f64> {
        self.between(one).map(|(_, _, went)| went)
    }

    fn between(&self, one: &Restart) -> Option<(usize, usize, f64)> {
        let (from, to) = (*self.kind_of.get(&one.pair.group)?, *self.kind_of.get(&one.to.0)?);
        let (before, after) = (self.kinds.get(&from)?, self.kinds.get(&to)?);
        let left = before.reach.furthest + before.behind(self.advance) - one.pair.from;
        let done = one.to.1 - after.reach.nearest + after.before(self.advance);
        Some((from, to, left + done))
    }

    /// Standard error of the iterations between the samples of these restarts together.
    pub(super) fn error<'a>(&self, restarts: impl Iterator<Item = &'a Restart>) -> f64 {
        let mut counts: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for one in restarts {
            if let Some((from, to, _)) = self.between(one) {
                counts.entry(from).or_default().1 += 1.0;
                counts.entry(to).or_default().0 += 1.0;
            }
        }
        let of_kind = |(kind, (begins, ends)): (usize, (f64, f64))| {
            let kind = self.kinds.get(&kind)?;
            Some((scatter(kind.begins) * begins).hypot(scatter(kind.ends) * ends) * self.advance)
        };
        counts.into_iter().filter_map(of_kind).fold(0.0, f64::hypot)
    }
}

/// Standard deviation of the nearest of this many uniform positions in an interval of 1.
fn scatter(count: f64) -> f64 {
    (count / (count + 2.0)).sqrt() / (count + 1.0)
}

impl Kind {
    fn with(self, other: Kind) -> Kind {
        let reach = Reach {
            nearest: self.reach.nearest.min(other.reach.nearest),
            furthest: self.reach.furthest.max(other.reach.furthest),
        };
        Kind {
            reach,
            begins: self.begins + other.begins,
            ends: self.ends + other.ends,
            latest_first: self.latest_first.max(other.latest_first),
            earliest_last: self.earliest_last.min(other.earliest_last),
        }
    }

    /// Whether the first and the last places of runs lie anywhere, and not always where the clock comes by: at least half of
    /// what lies between two samples apart.
    fn is_out_of_step(&self, advance: f64) -> bool {
        let first = self.latest_first - self.reach.nearest;
        let last = self.reach.furthest - self.earliest_last;
        first >= advance / 2.0 && last >= advance / 2.0
    }

    /// How far runs begin in front of the nearest place. Half an iteration is to be done in any.
    fn before(&self, advance: f64) -> f64 {
        (advance / (self.begins + 1.0)).max(0.5)
    }

    /// How far they end after the furthest.
    fn behind(&self, advance: f64) -> f64 {
        (advance / (self.ends + 1.0)).max(0.5)
    }
}
