//! The strides between successive addresses of one access in one thread and burst, in bounded memory.
//!
//! What for: the pattern of an access. Strides 0 and ± its own size are counted exactly, the others by the algorithm of Misra
//! and Gries ("Finding repeated elements", Science of Computer Programming 2, 1982). It finds every stride that makes up more
//! than 1/9 of all, and its count is too low by at most what was dropped: so a share has bounds.
//! A walk whose stride changes from time to time, as in a transform by halves, has no frequent stride, but runs of equal ones.
//! These are counted by powers of two, each with the first stride that it got. So their length is right within a factor of
//! two, and exact for a few strides.

use crate::traced::LINE;

/// Other distances that are counted at once.
const SLOTS: usize = 8;

/// Distances of an access, or of several.
#[derive(Clone, Debug, Default)]
pub(super) struct Strides {
    total: u64,
    same: u64,
    unit: u64,
    slots: Vec<(i64, u64)>,
    dropped: u64,
    /// Distances that equal the one before, without the counted ones: by the power of two below the first one, and their number;
    /// 0 where none was.
    runs: Vec<(i64, u64)>,
}

/// Runs whose distance changes from one to the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Runs {
    /// The distance in the middle, and those that all but a twentieth at either end lie between, by length.
    pub(super) typical: i64,
    pub(super) shortest: i64,
    pub(super) longest: i64,
    /// Steps in them.
    pub(super) count: u64,
}

/// The most frequent distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Dominant {
    pub(super) kind: Distance,
    /// How often it was seen, at least and at most.
    pub(super) count: (u64, u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Distance {
    Same,
    Unit,
    Other(i64),
}

impl Strides {
    /// `times` times `distance` between accesses of `bytes` bytes; the distance before was `before`.
    pub(super) fn add(&mut self, before: Option<i64>, distance: i64, bytes: u32, times: u64) {
        self.total = self.total.saturating_add(times);
        if distance == 0 {
            self.same = self.same.saturating_add(times);
        } else if distance.unsigned_abs() == u64::from(bytes) {
            self.unit = self.unit.saturating_add(times);
        } else {
            self.add_other(distance, times);
            let first = u64::from(before != Some(distance));
            let class = distance.unsigned_abs().ilog2() as usize;
            self.add_run(class, (distance, times - first.min(times)));
        }
    }

    /// Adds those of another place or a later burst. Of more distances than there are slots the rarest are dropped from both, as one
    /// by one.
    pub(super) fn merge(&mut self, later: &Strides) {
        self.total = self.total.saturating_add(later.total);
        self.same = self.same.saturating_add(later.same);
        self.unit = self.unit.saturating_add(later.unit);
        self.dropped = self.dropped.saturating_add(later.dropped);
        let found = later.slots.iter().filter(|(_, count)| *count > 0);
        found.for_each(|(distance, count)| self.add_other(*distance, *count));
        for (class, run) in later.runs.iter().enumerate().filter(|(_, (first, _))| *first != 0) {
            self.add_run(class, *run);
        }
    }

    fn add_run(&mut self, class: usize, (first, count): (i64, u64)) {
        if class >= self.runs.len() {
            self.runs.resize(class + 1, (0, 0));
        }
        let run = &mut self.runs[class];
        run.0 = if run.0 == 0 { first } else { run.0 };
        run.1 = run.1.saturating_add(count);
    }

    /// Runs of a line or more a step, or of less, where they make up at least half of all.
    pub(super) fn runs(&self) -> Option<Runs> {
        let beyond = |class: usize| class >= LINE.ilog2() as usize;
        [true, false].into_iter().find_map(|side| {
            let runs =
                || self.runs.iter().enumerate().filter(move |(class, _)| beyond(*class) == side);
            let runs = || runs().map(|(_, run)| *run).filter(|(_, count)| *count > 0);
            let count = runs().fold(0u64, |sum, (_, count)| sum.saturating_add(count));
            let at = |part: f64| {
                let mut left = count as f64 * part;
                let reached = |(_, count): &(i64, u64)| {
                    left -= *count as f64;
                    left <= 0.0
                };
                runs().find(reached).map(|(distance, _)| distance)
            };
            let many = count > 0 && count.saturating_mul(2) >= self.total;
            let (typical, shortest, longest) = (at(0.5)?, at(0.05)?, at(0.95)?);
            many.then_some(Runs { typical, shortest, longest, count })
        })
    }

    fn add_other(&mut self, distance: i64, mut times: u64) {
        if let Some((_, count)) = self.slots.iter_mut().find(|(known, _)| *known == distance) {
            *count = count.saturating_add(times);
            return;
        }
        if self.slots.len() < SLOTS {
            self.slots.push((distance, times));
            return;
        }
        let least = self.slots.iter().map(|(_, count)| *count).min().unwrap_or(0).min(times);
        self.dropped = self.dropped.saturating_add(least);
        times -= least;
        for (_, count) in &mut self.slots {
            *count -= least;
        }
        if times > 0
            && let Some(free) = self.slots.iter_mut().find(|(_, count)| *count == 0)
        {
            *free = (distance, times);
        }
    }

    /// How many distances.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// How often a distance that [`Strides::dominant`] does not know can have been seen.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The most frequent one, if any is frequent; of equal ones the first in the order same, unit, others by size.
    pub(super) fn dominant(&self) -> Option<Dominant> {
        let exact = |kind, count| Dominant { kind, count: (count, count) };
        let mut all = vec![exact(Distance::Same, self.same), exact(Distance::Unit, self.unit)];
        let mut others = self.slots.clone();
        others.sort_unstable();
        all.extend(others.into_iter().map(|(distance, count)| Dominant {
            kind: Distance::Other(distance),
            count: (count, count.saturating_add(self.dropped).min(self.total)),
        }));
        all.into_iter()
            .filter(|dominant| dominant.count.0 > 0)
            .reduce(|best, next| if next.count.0 > best.count.0 { next } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequent_distance_is_found_among_many_and_its_count_is_bounded() {
        let mut strides = Strides::default();
        for n in 0..1000 {
            strides.add(None, 4096, 8, 1);
            strides.add(Some(4096), 1000 + n, 8, 1);
            strides.add(Some(1000 + n), -5000 - n, 8, 1);
        }
        assert_eq!(strides.runs(), None);
        let dominant = strides.dominant().expect("one third is the same");
        assert_eq!(dominant.kind, Distance::Other(4096));
        assert!(dominant.count.0 <= 1000 && 1000 <= dominant.count.1, "{dominant:?}");
        assert!(dominant.count.0 > 600, "{dominant:?}");
    }

    #[test]
    fn same_and_unit_are_exact() {
        let mut strides = Strides::default();
        strides.add(None, 0, 8, 5);
        strides.add(None, 8, 8, 3);
        strides.add(None, -8, 8, 4);
        strides.add(None, 8, 4, 6);
        let unit = Dominant { kind: Distance::Unit, count: (7, 7) };
        assert_eq!((strides.total(), strides.dominant()), (18, Some(unit)));
    }

    #[test]
    fn runs_of_changing_length_have_their_lengths() {
        let mut strides = Strides::default();
        // Ten lengths, each a thousand steps: none is frequent.
        for power in 6..16 {
            strides.add(Some(-1), 1 << power, 8, 1001);
        }
        let runs = Runs { typical: 1 << 10, shortest: 64, longest: 1 << 15, count: 10_000 };
        assert_eq!(strides.runs(), Some(runs));
        // As many within a line: these are no walk across lines, and not half of all either.
        strides.add(None, 16, 8, 10_003);
        assert_eq!(strides.runs(), None);
        strides.add(Some(16), 16, 8, 100);
        assert_eq!(strides.runs().map(|runs| runs.typical), Some(16));
    }
}
