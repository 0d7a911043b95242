//! How much data code uses, from bursts that each record a part of it.
//!
//! What for: a line that a burst touches for the first time may be in a cache from before. It is, if all data that the code uses
//! fit into the cache; it is not, if they are many times the cache. Bursts at random moments are samples of that data: how often
//! two of them touch the same line shows how much there is.
//! What not: order. If the data are somewhat larger than the cache, the order of their use decides which lines are in it: there
//! the answer is an interval.
//!
//! The estimate is Chao's lower bound of the number of kinds: seen + f1 (f1 - 1) / (2 (f2 + 1)), with f1 lines in one burst only
//! and f2 in two. Source: A. Chao, "Nonparametric estimation of the number of classes in a population", Scand. J. Statist. 11
//! (1984) 265-270, bias-corrected form. Its interval: meetings of bursts are a Poisson count, and each is of as many lines as
//! half a burst has.
//!
//! Assumptions: lines are sampled by a hash of their address (one in [`ONE_IN`] or fewer); the code uses the same data again and
//! again while the bursts are taken. Where it moves on to new data instead, these come from memory the first time, which is what
//! a large estimate says as well.

use estimate::Bounds;
use estimate::interval::poisson;

use super::times::is_one_in;
use crate::index_map::IndexMap;

/// One line in this many is sampled, at first.
const ONE_IN: u64 = 64;
/// More lines are not kept: half of them go, and one in twice as many is looked at from then on.
const MOST: usize = 1 << 18;
/// Fewer sampled lines give no estimate of the amount.
const FEWEST: u64 = 16;
/// Of a cache: data up to this part of it stay there.
const FITS: f64 = 0.8;

/// Lines that bursts of one kind touched.
#[derive(Clone, Debug)]
pub(crate) struct Footprint {
    /// In how many bursts; and the last of them.
    lines: IndexMap<u64, (u32, u32)>,
    bursts: u32,
    one_in: u64,
}

impl Default for Footprint {
    fn default() -> Footprint {
        Footprint { lines: IndexMap::default(), bursts: 0, one_in: ONE_IN }
    }
}

/// Bytes of data.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Extent {
    /// Estimated; infinite when no line was seen twice.
    pub(crate) best: f64,
    /// As few as may be, and as many, with 95 %.
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Footprint {
    /// A further burst begins.
    pub(crate) fn begin(&mut self) {
        self.bursts += 1;
    }

    /// The burst touched this line.
    pub(crate) fn touch(&mut self, line: u64) {
        if !is_one_in(line, self.one_in) {
            return;
        }
        self.thin_out();
        let (count, last) = self.lines.entry(line).or_insert((0, 0));
        if *last != self.bursts {
            *count += 1;
            *last = self.bursts;
        }
    }

    /// Looks at half as many lines, for as long as there are too many.
    pub(crate) fn thin_out(&mut self) {
        while self.lines.len() >= MOST {
            self.keep_one_in(self.one_in * 2);
        }
    }

    fn keep_one_in(&mut self, one_in: u64) {
        self.one_in = one_in;
        self.lines.retain(|line, _| is_one_in(*line, one_in));
    }

    /// Adds what other bursts touched. Of footprints that were thinned out, in whatever order, it comes to the same.
    pub(crate) fn merge(&mut self, mut other: Footprint) {
        let one_in = self.one_in.max(other.one_in);
        self.keep_one_in(one_in);
        other.keep_one_in(one_in);
        self.bursts += other.bursts;
        for (line, (count, _)) in other.lines {
            self.lines.entry(line).or_insert((0, 0)).0 += count;
        }
        self.thin_out();
    }

    /// How much there is; `None` when too little was seen.
    pub(crate) fn extent(&self) -> Option<Extent> {
        let seen = self.lines.len() as u64;
        if seen < FEWEST || self.bursts < 2 {
            return None;
        }
        let times = |n: u32| self.lines.values().filter(|(count, _)| *count == n).count() as f64;
        let (once, twice) = (times(1), times(2));
        let more = self.lines.len() as f64 - once - twice;
        let all = |twice: f64| {
            let pairs = once * (once - 1.0).max(0.0);
            let unseen = if pairs > 0.0 { pairs / (2.0 * twice) } else { 0.0 };
            seen as f64 + unseen
        };
        let bytes = |lines: f64| lines * self.one_in as f64 * f64::from(x86::LINE_BYTES);
        // Two bursts that meet share many lines: half of what one of them touches, where they go through data in order.
        let shared = (once + 2.0 * twice + 3.0 * more) / f64::from(self.bursts) / 2.0;
        let (few, many) = poisson(twice / shared.max(1.0));
        let best = if twice + more > 0.0 { twice + 1.0 } else { 0.0 };
        Some(Extent {
            best: bytes(all(best)),
            least: bytes(all((many * shared.max(1.0)).max(best))),
            most: bytes(all((few * shared.max(1.0)).min(best))),
        })
    }
}

impl Extent {
    /// The chance that a line of this data is not in a cache of `bytes` when it is used again, and bounds: data up to four
    /// fifths of the cache stay in it; of more, in random order the share that fits is found (LRU), in cyclic order nothing.
    pub(crate) fn miss(&self, bytes: f64) -> Bounds {
        let fits = |extent: f64| extent <= FITS * bytes;
        let random = |extent: f64| 1.0 - (bytes / extent).min(1.0);
        let high = if fits(self.most) { 0.2 } else { 1.0 };
        if fits(self.best) {
            return Bounds { best: 0.0, low: 0.0, high };
        }
        let low = if fits(self.least) { 0.0 } else { random(self.least) };
        Bounds { best: f64::midpoint(random(self.best), 1.0), low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of `each` lines at random among `all`.
    fn bursts(all: u64, each: u64, count: u64) -> Footprint {
        let mut footprint = Footprint::default();
        let mut state = 12345u64;
        for _ in 0..count {
            footprint.begin();
            for _ in 0..each {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let line = (state >> 33) % all;
                footprint.touch(line);
            }
        }
        footprint
    }

    #[test]
    fn random_bursts_tell_the_amount_of_data() {
        let lines = 1 << 20;
        let extent = bursts(lines, 1 << 16, 20).extent().expect("many lines");
        let truth = lines as f64 * 64.0;
        assert!(
            extent.least < truth * 1.1 && (extent.best / truth - 1.0).abs() < 0.15,
            "{extent:?}"
        );
    }

    /// 600,000 sampled lines are more than are kept: two halves together are thinned out as often as the whole is.
    #[test]
    fn parts_come_to_the_same_as_the_whole() {
        let (lines, mut whole) = (600_000 * ONE_IN, Footprint::default());
        let mut parts = [Footprint::default(), Footprint::default()];
        for burst in 0..4u64 {
            let part = &mut parts[burst as usize % 2];
            whole.begin();
            part.begin();
            for line in burst * lines / 8..burst * lines / 8 + lines / 2 {
                whole.touch(line);
                part.touch(line);
            }
        }
        whole.thin_out();
        let [mut merged, other] = parts;
        merged.merge(other);
        assert_eq!(whole.one_in, merged.one_in);
        assert_eq!(whole.extent(), merged.extent());
        assert!(merged.bursts == 4 && merged.one_in > ONE_IN);
    }

    /// Ten bursts in a row that never meet: data of which they see a tenth would have let some meet, that of a thousandth not.
    #[test]
    fn bursts_that_never_meet_tell_how_much_there_is_at_least() {
        let (each, mut footprint) = (100 * ONE_IN, Footprint::default());
        for burst in 0..10 {
            footprint.begin();
            (burst * each..(burst + 1) * each).for_each(|line| footprint.touch(line));
        }
        let extent = footprint.extent().expect("many lines");
        let seen = 10.0 * each as f64 * f64::from(x86::LINE_BYTES);
        assert!(extent.best.is_infinite() && extent.most.is_infinite());
        // 3.7 meetings at most, each of half a burst: 10^2 / 3.7 bursts of data, and those seen.
        let least = extent.least / seen;
        assert!((2.5..4.5).contains(&least), "{least}");
    }

    #[test]
    fn data_that_fit_are_found_and_larger_ones_are_not() {
        let mib = f64::from(1 << 20);
        let small = bursts(1 << 16, 1 << 15, 10).extent().expect("4 MiB");
        assert_eq!(small.miss(12.0 * mib).best, 0.0);
        let large = bursts(1 << 24, 1 << 15, 20).extent().expect("1 GiB");
        let Bounds { best, low, high } = large.miss(12.0 * mib);
        assert!(best > 0.95 && low > 0.6 && high == 1.0, "{large:?}: {best} {low}");
        assert_eq!(bursts(1 << 16, 8, 10).extent(), None);
    }
}
