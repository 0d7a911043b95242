//! Long streams: when each further line only repeats what the line before did, the rest is arithmetic.
//!
//! Let all accesses of a loop advance by the same bytes. After as many iterations as make whole lines, its *period*, the
//! body touches the same lines again, but for a constant that is added to their numbers. Caches do the same with all line
//! numbers moved by a constant, in sets moved by it (LRU, one core, sets by modulo). So if after a period the
//! levels are what they were before it, moved, then all further periods do the same again: their counts are those of the one,
//! times their number, and the levels are moved as often. That is compared, line by line, not assumed: nothing is
//! approximated.
//!
//! It can hold only when nothing is left in the levels but the loop's own lines, and of these none from the time when
//! sets were not full: after the last level was filled twice. The comparison costs as much as some ten thousand misses, so
//! only loops are tried that go on for about as long after that.
//! What not: loops with an access that stays or advances otherwise, loops within a cache, flushes, wrapping addresses.

use crate::access::{LoopAccess, LoopRun, SiteId};
use crate::cache::Cache;
use crate::caches::Caches;
use crate::hierarchy::Hierarchy;
use crate::loops::{Core, drive};
use crate::tally::SiteTally;

/// Accesses that begin above are not moved: entries hold lines of 57 bits of address and more, and an access has less than
/// 2^32 bytes.
const HIGHEST: i128 = (1 << 57) - (1 << 32);

/// After how many iterations a loop touches its lines again, moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Period {
    iterations: u64,
    /// By how many lines.
    lines: i64,
}

impl Period {
    /// `None` where accesses advance differently.
    fn of(accesses: &[LoopAccess], shift: u32) -> Option<Period> {
        let stride = accesses.first()?.stride;
        let alike = |one: &LoopAccess| one.stride == stride && !one.kind.drops();
        if stride == 0 || !accesses.iter().all(alike) {
            return None;
        }
        let iterations = 1u64 << shift.saturating_sub(stride.trailing_zeros());
        let lines = stride.checked_mul(iterations.cast_signed())? >> shift;
        Some(Period { iterations, lines })
    }
}

impl Hierarchy {
    /// Runs the first iterations of a loop if that is quicker than one by one, and tells how many.
    pub(crate) fn run_ahead(&mut self, run: &LoopRun<'_>) -> u64 {
        let Some(period) = Period::of(run.accesses, self.caches.shift) else { return 0 };
        let Some(turnover) = self.caches.turnover(run.accesses) else { return 0 };
        // Twice, and what the inner levels take to follow.
        let filled = turnover.saturating_mul(17) / 8;
        let done = filled.saturating_add(period.iterations);
        if run.iterations.saturating_sub(done) < turnover || !stays_low(run) {
            return 0;
        }
        self.part(run, 0, filled);
        let before = (self.caches.clone(), self.tallies_of(run.accesses));
        self.part(run, filled, period.iterations);
        if !self.caches.is_moved(&before.0, period.lines) {
            return done;
        }
        let times = (run.iterations - done) / period.iterations;
        for (site, before) in before.1 {
            self.with_tally(site).1.repeat(&before, times);
        }
        self.caches.traffic.repeat(&before.0.traffic, times);
        self.caches.move_by(period.lines.saturating_mul(times.cast_signed()));
        done + times * period.iterations
    }

    /// Some iterations of a loop.
    fn part(&mut self, run: &LoopRun<'_>, first: u64, iterations: u64) {
        let accesses: Vec<LoopAccess> = run.accesses.iter().map(|one| one.from(first)).collect();
        let accesses = &accesses;
        drive(&mut Core::new(self, 0), &LoopRun { accesses, iterations, partial: 0 });
    }

    /// The tallies of the sites of a loop, each once.
    fn tallies_of(&mut self, accesses: &[LoopAccess]) -> Vec<(SiteId, SiteTally)> {
        let mut sites: Vec<SiteId> = accesses.iter().map(|one| one.site).collect();
        sites.sort_unstable();
        sites.dedup();
        sites.into_iter().map(|site| (site, *self.with_tally(site).1)).collect()
    }
}

/// Whether all addresses of a loop are in the lower half, and none wraps around.
fn stays_low(run: &LoopRun<'_>) -> bool {
    let ends = |one: &LoopAccess| {
        let first = i128::from(one.start.0);
        let last = first + i128::from(one.stride) * i128::from(run.iterations);
        [first, last].map(|end| (0..HIGHEST).contains(&end))
    };
    run.accesses.iter().flat_map(ends).all(|low| low)
}

impl Caches {
    /// In how many iterations a loop touches about as many lines as the last level has. `None` if the levels cannot be
    /// moved.
    fn turnover(&self, accesses: &[LoopAccess]) -> Option<u64> {
        let llc = self.llc.as_ref().filter(|_| self.plain)?;
        let stride = accesses.first()?.stride.unsigned_abs();
        let bytes = llc.lines() << self.shift;
        let mut starts: Vec<u64> = accesses.iter().map(|one| one.start.0).collect();
        starts.sort_unstable();
        // Streams that are close follow each other through the same lines.
        let apart = starts.windows(2).filter(|pair| pair[1] - pair[0] > bytes).count();
        Some(bytes / stride.min(1 << self.shift) / (apart as u64 + 1) + 1)
    }

    /// Whether all is as before, with `lines` added to each line's number.
    fn is_moved(&self, before: &Caches, lines: i64) -> bool {
        self.all().zip(before.all()).all(|(cache, before)| cache.is_moved(before, lines))
    }

    /// Adds `lines` to each line's number.
    fn move_by(&mut self, lines: i64) {
        let cores = self.cores.iter_mut();
        let private = cores.flat_map(|core| [Some(&mut core.l1), core.l2.as_mut()]);
        private.chain([self.llc.as_mut()]).flatten().for_each(|cache| cache.move_by(lines));
    }

    fn all(&self) -> impl Iterator<Item = &Cache> {
        let private = self.cores.iter().flat_map(|core| [Some(&core.l1), core.l2.as_ref()]);
        private.chain([self.llc.as_ref()]).flatten()
    }
}

#[cfg(test)]
mod tests {
    use base::{Bytes, RemoteAddr};

    use super::*;
    use crate::access::Kind;
    use crate::config::{ColdLines, Config, Geometry, Inclusion, Prefetch, Replacement};

    fn stream(start: u64, stride: i64) -> LoopAccess {
        let (kind, site) = (Kind::Write, SiteId(0));
        LoopAccess { start: RemoteAddr(start), stride, bytes: 8, kind, site }
    }

    #[test]
    fn periods_are_whole_lines() {
        let period = |strides: &[i64]| {
            let accesses: Vec<LoopAccess> = strides.iter().map(|one| stream(0, *one)).collect();
            Period::of(&accesses, 6).map(|period| (period.iterations, period.lines))
        };
        assert_eq!(period(&[8, 8]), Some((8, 1)));
        assert_eq!(period(&[-24]), Some((8, -3)));
        assert_eq!(period(&[256]), Some((1, 4)));
        assert_eq!(period(&[1]), Some((64, 1)));
        assert_eq!([period(&[0]), period(&[8, 16]), period(&[])], [None; 3]);
    }

    fn ahead(accesses: &[LoopAccess], iterations: u64) -> u64 {
        let level = |sets: u64, ways: u32| Geometry {
            bytes: Bytes(sets * u64::from(ways) * 64),
            ways,
            line_bytes: 64,
        };
        let config = Config {
            l1: level(4, 2),
            l2: Some(level(8, 4)),
            llc: Some(level(15, 20)),
            cores: 1,
            inclusion: Inclusion::NonInclusive,
            replacement: Replacement::Lru,
            prefetch: Prefetch::None,
            cold: ColdLines::Unknown,
        };
        let mut hierarchy = Hierarchy::new(&config).expect("it can be simulated");
        hierarchy.run_ahead(&LoopRun { accesses, iterations, partial: 0 })
    }

    #[test]
    fn long_streams_jump_and_others_do_not() {
        let far = [stream(1 << 20, 8), stream(1 << 30, 8), stream((1 << 31) + 1000, 8)];
        assert!(ahead(&far, 1_000_000) > 999_990);
        assert!(ahead(&[stream(1 << 40, -8)], 100_000) > 99_990);
        // Too short, different strides, over the end of the address space.
        assert_eq!(ahead(&far, 2000), 0);
        assert_eq!(ahead(&[far[0], stream(1 << 30, 16)], 1_000_000), 0);
        assert_eq!(ahead(&[stream(u64::MAX - 4000, 8)], 1_000_000), 0);
        assert_eq!(ahead(&far, u64::MAX), 0);
    }
}
