//! Long streams: simulates one stretch and repeats its counts for the following stretches.
//!
//! What for: loops whose accesses all advance by the same number of bytes, over many times the capacity of the last
//! level. Each line is new, or another access touched it a fixed distance before. Once the levels hold only the
//! loop's own lines, and none from the time when sets were not full, every stretch behaves like the one before,
//! except for the random placement of its pages. So one stretch, half as long as the last level, is simulated and its
//! counts are repeated. The last part of the stream is simulated without counting, so that the levels end with the
//! right contents.
//!
//! ```text
//! filling | stretch | as often as it fits: repeated ..... (filling, not counted) | less than a stretch: as any loop
//! ```
//! The counts are exact as far as stretches are alike; tests compare them with those of single accesses. What not:
//! loops with an access that is constant or advances differently, loops within a cache, flushes, wrapping addresses.

use crate::access::{LoopAccess, LoopRun, SiteId};
use crate::cache::Cache;
use crate::hierarchy::Hierarchy;
use crate::levels::Caches;
use crate::loops::drive;
use crate::tally::SiteTally;

/// Accesses of a stream stay below this: above, addresses wrap around.
const HIGHEST: i128 = (1 << 63) - (1 << 32);

/// The number of iterations after which a loop touches whole lines again. `None` if accesses advance differently.
fn period(accesses: &[LoopAccess], shift: u32) -> Option<u64> {
    let stride = accesses.first()?.stride;
    let alike = |one: &LoopAccess| one.stride == stride && one.kind.enters();
    let same = stride != 0 && accesses.iter().all(alike);
    same.then(|| 1 << shift.saturating_sub(stride.trailing_zeros()))
}

impl Hierarchy {
    /// Runs the first iterations of a loop if this is faster than simulating all; returns their number.
    pub(crate) fn run_ahead(&mut self, run: &LoopRun<'_>) -> u64 {
        let Some(period) = period(run.accesses, self.caches.shift) else { return 0 };
        let Some(turnover) = self.caches.turnover(run.accesses) else { return 0 };
        // Twice the capacity, and the time that the inner levels need to follow.
        let filling = turnover.saturating_mul(17) / 8;
        // Whole periods: every stretch begins at the same offset in a line.
        let stretch = (turnover / 2).saturating_add(period - 1) / period * period;
        let simulated = filling.saturating_add(stretch);
        let times = run.iterations.saturating_sub(simulated) / stretch.max(1);
        if times.saturating_mul(stretch) < filling.saturating_mul(2) || !stays_low(run) {
            return 0;
        }
        self.part(run, 0, filling);
        let before = self.tallies_of(run.accesses);
        self.part(run, filling, stretch);
        for (site, before) in before {
            self.with_tally(site).1.repeat(&before, times);
        }
        let done = simulated + times * stretch;
        let counted = self.tallies_of(run.accesses);
        self.part(run, done - filling, filling);
        for (site, tally) in counted {
            *self.with_tally(site).1 = tally;
        }
        done
    }

    /// Some iterations of a loop.
    fn part(&mut self, run: &LoopRun<'_>, first: u64, iterations: u64) {
        let accesses: Vec<LoopAccess> = run.accesses.iter().map(|one| one.from(first)).collect();
        let accesses = &accesses;
        drive(self, &LoopRun { accesses, iterations, partial: 0 });
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
    /// The number of iterations in which a loop touches about as many lines as the largest level holds. `None` if the
    /// levels are not those for which the above holds.
    fn turnover(&self, accesses: &[LoopAccess]) -> Option<u64> {
        let levels = [&self.l1, self.l2.as_ref()?, self.llc.as_ref()?];
        let stride = accesses.first()?.stride.unsigned_abs();
        let bytes = levels.into_iter().map(Cache::lines).max()? << self.shift;
        let mut starts: Vec<u64> = accesses.iter().map(|one| one.start.0).collect();
        starts.sort_unstable();
        // Streams close to each other pass through the same lines.
        let apart = starts.windows(2).filter(|pair| pair[1] - pair[0] > bytes).count();
        Some(bytes / stride.min(1 << self.shift) / (apart as u64 + 1) + 1)
    }
}

#[cfg(test)]
mod tests {
    use base::{Bytes, RemoteAddr};

    use super::*;
    use crate::access::Kind;
    use crate::config::{ColdLines, Config, Frames, Geometry};

    fn stream(start: u64, stride: i64) -> LoopAccess {
        let (kind, site) = (Kind::Write, SiteId(0));
        LoopAccess { start: RemoteAddr(start), stride, bytes: 8, kind, site }
    }

    #[test]
    fn periods_are_whole_lines() {
        let period = |strides: &[i64]| {
            let accesses: Vec<LoopAccess> = strides.iter().map(|one| stream(0, *one)).collect();
            super::period(&accesses, 6)
        };
        assert_eq!(period(&[8, 8]), Some(8));
        assert_eq!(period(&[-24]), Some(8));
        assert_eq!(period(&[256]), Some(1));
        assert_eq!(period(&[1]), Some(64));
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
            cold: ColdLines::Unknown,
            frames: Frames::AsAddressed,
        };
        let mut hierarchy = Hierarchy::new(&config).expect("it can be simulated");
        hierarchy.run_ahead(&LoopRun { accesses, iterations, partial: 0 })
    }

    #[test]
    fn long_streams_jump_and_others_do_not() {
        let far = [stream(1 << 20, 8), stream(1 << 30, 8), stream((1 << 31) + 1000, 8)];
        assert!(ahead(&far, 1_000_000) > 999_500);
        assert!(ahead(&[stream(1 << 40, -8)], 100_000) > 98_700);
        // Too short, different strides, over the end of the address space.
        assert_eq!(ahead(&far, 2000), 0);
        assert_eq!(ahead(&[far[0], stream(1 << 30, 16)], 1_000_000), 0);
        assert_eq!(ahead(&[stream(u64::MAX - 4000, 8)], 1_000_000), 0);
        assert_eq!(ahead(&far, u64::MAX), 0);
    }
}
