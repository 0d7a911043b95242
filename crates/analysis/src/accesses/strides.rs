//! The distances between successive addresses of one access in one thread and burst, in bounded memory.
//!
//! What for: the pattern of an access. Distances 0 and ± its own size are counted exactly, the others by the algorithm
//! of Misra and Gries ("Finding repeated elements", Science of Computer Programming 2, 1982): a distance that makes up
//! more than 1/9 of all is found, and its count is too low by at most what was dropped. So a share has bounds.

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
    /// `times` times `distance` between accesses of `bytes` bytes.
    pub(super) fn add(&mut self, distance: i64, bytes: u32, times: u64) {
        self.total = self.total.saturating_add(times);
        if distance == 0 {
            self.same = self.same.saturating_add(times);
        } else if distance.unsigned_abs() == u64::from(bytes) {
            self.unit = self.unit.saturating_add(times);
        } else {
            self.add_other(distance, times);
        }
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
            strides.add(4096, 8, 1);
            strides.add(1000 + n, 8, 1);
            strides.add(-5000 - n, 8, 1);
        }
        let dominant = strides.dominant().expect("one third is the same");
        assert_eq!(dominant.kind, Distance::Other(4096));
        assert!(dominant.count.0 <= 1000 && 1000 <= dominant.count.1, "{dominant:?}");
        assert!(dominant.count.0 > 600, "{dominant:?}");
    }

    #[test]
    fn same_and_unit_are_exact() {
        let mut strides = Strides::default();
        strides.add(0, 8, 5);
        strides.add(8, 8, 3);
        strides.add(-8, 8, 4);
        strides.add(8, 4, 6);
        let unit = Dominant { kind: Distance::Unit, count: (7, 7) };
        assert_eq!((strides.total(), strides.dominant()), (18, Some(unit)));
    }
}
