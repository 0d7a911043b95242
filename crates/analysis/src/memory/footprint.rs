//! How much data code uses, from bursts that each record a part of it.
//!
//! What for: a line that a burst touches for the first time may be in a cache from before. It is, if all data that the code uses
//! fit into the cache; it is not, if they are many times the cache. Bursts at random moments are samples of that data: how often
//! two of them touch the same line shows how much there is.
//! What not: order. If the data are somewhat larger than the cache, the order of their use decides which lines are in it: there
//! the answer is an interval.
//!
//! Bursts that meet give Chao's lower bound of the number of kinds: seen + f1 (f1 - 1) / (2 (f2 + 1)), with f1 lines in one burst
//! only and f2 in two. Source: A. Chao, "Nonparametric estimation of the number of classes in a population", Scand. J. Statist. 11
//! (1984) 265-270, bias-corrected form. Its interval: meetings are a Poisson count. Two bursts that use data in order meet in many
//! lines at once, two at random in one or two. So f2 lines are f2 / c meetings, where c is the number of lines that a pair
//! of bursts shares, averaged over the lines (Kish's effective count).
//!
//! Clock samples with the address they waited for are a second sample: single lines, at many more moments. The share of them
//! that bursts touched is the share of all data that bursts touched (Lincoln and Petersen; D. G. Chapman, "Some properties of
//! the hypergeometric distribution with applications to zoological sample censuses", Univ. Calif. Publ. Stat. 1 (1951)
//! 131-160). Its interval is Wilson's. Samples in a row may be in the same data, so their number is divided by the design effect:
//! the variance between [`BATCHES`] batches of them over that of independent ones. The estimate with more meetings is used.
//!
//! Lines in constant use (in three bursts or samples, or in both of two bursts) are part of the data, but show nothing of what
//! bursts did not touch.
//!
//! Assumptions: of many lines, a hash of the address selects those that are kept; the code uses the same data again and
//! again while the bursts are taken. Where it moves on to new data instead, these come from memory the first time, which is what
//! a large estimate says as well.

use std::collections::HashMap;

use base::IndexMap;
use estimate::Bounds;
use estimate::interval::{effective_count, poisson, wilson};

use super::times::is_one_in;

/// More lines are not kept: half of them go, and one in twice as many is kept from then on.
const MOST: usize = 1 << 16;
/// Fewer lines, or samples, give no estimate of the amount.
const FEWEST: u64 = 16;
/// The design effect of samples of which none met a burst: their variance does not show it.
const ALIKE: f64 = 4.0;
/// Batches of samples in a row.
const BATCHES: usize = 16;
/// Data up to this share of a cache's size stay in it.
const FITS: f64 = 0.8;

/// Lines that bursts of one kind touched.
#[derive(Clone, Debug)]
pub(crate) struct Footprint {
    lines: IndexMap<u64, Touched>,
    bursts: u32,
    one_in: u64,
    /// Lines that clock samples waited for, in the order of time.
    sampled: Vec<u64>,
}

/// Bursts that touched a line: how many, the first and the last of them.
#[derive(Clone, Copy, Debug)]
struct Touched {
    bursts: u32,
    first: u32,
    last: u32,
}

impl Default for Footprint {
    fn default() -> Footprint {
        Footprint { lines: IndexMap::default(), bursts: 0, one_in: 1, sampled: Vec::new() }
    }
}

/// Bytes of data.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Extent {
    /// Estimated; infinite when no line was seen twice.
    pub(crate) best: f64,
    /// Ends of the 95 % interval.
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
        self.thin_out();
        if !is_one_in(line, self.one_in) {
            return;
        }
        let now = self.bursts;
        let new = Touched { bursts: 1, first: now, last: now };
        let touched = self.lines.entry(line).or_insert(new);
        if touched.last != now {
            touched.bursts += 1;
            touched.last = now;
        }
    }

    /// A clock sample waited for this line; in the order of time.
    pub(crate) fn sample(&mut self, line: u64) {
        self.sampled.push(line);
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
        let before = self.bursts;
        self.bursts += other.bursts;
        self.sampled.append(&mut other.sampled);
        for (line, its) in other.lines {
            let (first, last) = (before + its.first, before + its.last);
            let of = self.lines.entry(line).or_insert(Touched { bursts: 0, first, last });
            of.bursts += its.bursts;
            of.last = last;
        }
        self.thin_out();
    }

    /// How much there is; `None` when too little was seen.
    pub(crate) fn extent(&self) -> Option<Extent> {
        if (self.lines.len() as u64) < FEWEST {
            return None;
        }
        let (by_bursts, meetings) = self.by_bursts().unzip();
        let (by_samples, met) = self.by_samples().unzip();
        let lines = if met >= meetings { by_samples.or(by_bursts) } else { by_bursts };
        let bytes = |lines: f64| lines * self.one_in as f64 * f64::from(x86::LINE_BYTES);
        lines.map(|[best, least, most]| Extent {
            best: bytes(best),
            least: bytes(least),
            most: bytes(most),
        })
    }

    /// Lines, the fewest and the most, by bursts that meet; and how many did.
    fn by_bursts(&self) -> Option<([f64; 3], f64)> {
        if self.bursts < 2 {
            return None;
        }
        let (mut once, mut twice, mut more) = (0f64, 0f64, 0f64);
        let mut pairs: HashMap<(u32, u32), f64> = HashMap::new();
        for touched in self.lines.values() {
            match touched.bursts {
                1 => once += 1.0,
                2 => {
                    twice += 1.0;
                    *pairs.entry((touched.first, touched.last)).or_default() += 1.0;
                }
                _ => more += 1.0,
            }
        }
        let all = |twice: f64| {
            let pairs = once * (once - 1.0).max(0.0);
            let unseen = if pairs > 0.0 { pairs / (2.0 * twice) } else { 0.0 };
            self.lines.len() as f64 + unseen
        };
        let meetings = effective_count(twice, pairs.values().map(|lines| lines * lines).sum());
        // Bursts that never met would share half of what one of them touches, if they go through data in order.
        let shared = match meetings > 0.0 {
            true => twice / meetings,
            false => (once / f64::from(self.bursts) / 2.0).max(1.0),
        };
        let (few, many) = poisson(meetings);
        let best = if twice + more > 0.0 { twice + 1.0 } else { 0.0 };
        let least = all((many * shared).max(best));
        Some(([all(best), least, all((few * shared).min(best))], meetings))
    }

    /// The same by samples that meet bursts.
    fn by_samples(&self) -> Option<([f64; 3], f64)> {
        let mut times: IndexMap<u64, u32> = IndexMap::default();
        let sampled = || self.sampled.iter().filter(|line| is_one_in(**line, self.one_in));
        sampled().for_each(|line| *times.entry(*line).or_default() += 1);
        let is_rare = |line: &u64| {
            let bursts = self.lines.get(line).map_or(0, |touched| touched.bursts);
            let in_all = bursts == self.bursts && bursts > 1;
            bursts <= 2 && !in_all && times.get(line).is_none_or(|times| *times <= 2)
        };
        let marked = self.lines.keys().filter(|line| is_rare(line)).count() as f64;
        let met: Vec<bool> = sampled()
            .filter(|line| is_rare(line))
            .map(|line| self.lines.contains_key(line))
            .collect();
        let all = met.len() as f64;
        if met.len() < FEWEST as usize {
            return None;
        }
        let hits = |met: &[bool]| met.iter().filter(|met| **met).count() as f64;
        let share = hits(&met) / all;
        // Around the mean, batches scatter as single samples do if these do not depend on each other.
        let scatter: f64 = met
            .chunks(met.len().div_ceil(BATCHES))
            .map(|batch| (hits(batch) - share * batch.len() as f64).powi(2))
            .sum();
        let effect = match share {
            0.0 => ALIKE,
            _ => (scatter / (all * share * (1.0 - share)).max(f64::MIN_POSITIVE)).max(1.0),
        };
        let (low, high) = wilson(share, all / effect);
        let rest = self.lines.len() as f64 - marked;
        let lines = |share: f64| rest + marked / share.min(1.0);
        let best = if share > 0.0 { (hits(&met) + 1.0) / (all + 1.0) } else { 0.0 };
        Some(([lines(best), lines(high), lines(low)], hits(&met) / effect))
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

    /// Four times as many lines as are kept: two halves together are thinned out as often as the whole is.
    #[test]
    fn parts_come_to_the_same_as_the_whole() {
        let (lines, mut whole) = (4 * MOST as u64, Footprint::default());
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
        assert!(merged.bursts == 4 && merged.one_in > 1);
    }

    /// Ten bursts in a row that never meet: data of which they see a tenth would have let some meet, that of a thousandth not.
    #[test]
    fn bursts_that_never_meet_tell_how_much_there_is_at_least() {
        let (each, mut footprint) = (100, Footprint::default());
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

    /// Ten bursts of random lines meet each other and single samples: of 64 MiB both tell nearly the same, and a thousand samples
    /// tell it more sharply. A counter that all of them use says nothing.
    #[test]
    fn samples_that_meet_bursts_tell_the_amount_of_data() {
        let lines = 1 << 20;
        let mut footprint = bursts(lines, 1 << 10, 10);
        let alone = footprint.extent().expect("bursts");
        let mut state = 54321u64;
        for _ in 0..4000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            footprint.sample((state >> 33) % lines);
            footprint.sample(7);
        }
        let both = footprint.extent().expect("samples");
        let truth = lines as f64 * 64.0;
        assert!((both.best / truth - 1.0).abs() < 0.3, "{both:?}");
        assert!(both.least < truth && truth < both.most, "{both:?}");
        assert!(both.most - both.least < alone.most - alone.least, "{alone:?} {both:?}");
    }

    /// Samples stay in other data than the bursts saw: there is much more than bursts saw.
    #[test]
    fn samples_that_meet_no_burst_tell_how_much_there_is_at_least() {
        let mut footprint = bursts(1 << 10, 1 << 10, 1);
        (0..400).for_each(|line| footprint.sample(1 << 30 | line << 8));
        let extent = footprint.extent().expect("samples");
        let seen = footprint.lines.len() as f64 * 64.0;
        assert!(extent.best.is_infinite() && extent.least > 20.0 * seen, "{extent:?}");
    }

    #[test]
    fn data_that_fit_are_found_and_larger_ones_are_not() {
        let mib = f64::from(1 << 20);
        let small = bursts(1 << 16, 1 << 15, 10).extent().expect("4 MiB");
        assert_eq!(small.miss(12.0 * mib).best, 0.0);
        let large = bursts(1 << 24, 1 << 15, 20).extent().expect("1 GiB");
        let Bounds { best, low, high } = large.miss(12.0 * mib);
        assert!(best > 0.95 && low > 0.6 && high == 1.0, "{large:?}: {best} {low}");
        assert_eq!(bursts(1 << 16, 1, 10).extent(), None);
    }
}
