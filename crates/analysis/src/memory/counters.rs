//! What block counters cost in count windows.
//!
//! What for: after a count window comes a sparse one, in the same visit, in which only rarely executed blocks count. For the same
//! work these blocks run equally often in both. So the time between two of their runs, of the sparse window over that of the full
//! one, is the native share of the full window's time. What not: the speed of bursts (`native`).
//!
//! The sparse window has some counters, too: where ν of the full window's counts are of blocks that count in both, its time is
//! native time plus ν of the cost of counters. So r - (1 - r) ν / (1 - ν) of the full window's time is native, where r is the
//! sparse window's time over the full window's for the same work.
//! A region's share is the mean of the logarithms over its pairs of windows, with Student's interval. A region with few pairs
//! has the mean over regions, as wide as one more may be from them: pairs of one region are alike.
//!
//! Assumption: the program does on average the same in both windows; one comes a millisecond after the other.

use std::collections::{BTreeMap, HashMap};

use base::BlockId;
use estimate::interval::mean_and_half;

use super::code_regions::CodeRegion;

/// Fewer counts do not show how much work a window did.
const FEWEST_COUNTS: f64 = 10.0;
/// Least share of the counts, of blocks that count in both windows, that is of the same blocks: they did the same work.
const SAME: f64 = 0.9;
/// A region with fewer pairs of windows has the mean over all regions; with fewer regions there is none.
const FEWEST: usize = 3;
/// A native share outside of these is no comparison of the same code.
const LEAST: f64 = 0.1;
const MOST: f64 = 2.0;

/// Native share of a window's time, 0 to 1; slightly more than 1 where counters happen to make code faster.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct NativeShare {
    pub(super) best: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Native shares by region of the code.
#[derive(Debug, Default)]
pub(super) struct NativeShares {
    of: HashMap<CodeRegion, NativeShare>,
    all: Option<NativeShare>,
}

/// How often blocks ran in a window, and its seconds.
pub(super) type Window<'a> = (&'a HashMap<BlockId, u64>, f64);

/// What one pair of windows says. In the sparse one, blocks that did not count have 0.
pub(super) fn native_share((full, seconds): Window<'_>, sparse: Window<'_>) -> Option<f64> {
    let counts_in_both = |block: &BlockId| sparse.0.get(block) != Some(&0);
    let sum = |of: &mut dyn Iterator<Item = &u64>| of.map(|times| *times as f64).sum::<f64>();
    let all = sum(&mut full.values());
    let seldom =
        sum(&mut full.iter().filter(|(block, _)| counts_in_both(block)).map(|(_, times)| times));
    let again = sum(&mut sparse.0.values());
    let of_both = full.iter().filter_map(|(block, times)| {
        let both = sparse.0.get(block).filter(|times| **times > 0)?;
        Some((*times as f64 / seldom).min(*both as f64 / again))
    });
    if of_both.sum::<f64>() < SAME {
        return None;
    }
    if seldom < FEWEST_COUNTS || again < FEWEST_COUNTS || seconds <= 0.0 || seldom >= all {
        return None;
    }
    let same_work = sparse.1 / again * seldom / seconds;
    let left = seldom / all;
    let share = same_work - (1.0 - same_work) * left / (1.0 - left);
    (LEAST..=MOST).contains(&share).then_some(share)
}

impl NativeShares {
    /// From pairs of windows, each with its region.
    pub(super) fn new(pairs: impl Iterator<Item = (CodeRegion, f64)>) -> NativeShares {
        let mut by_region = BTreeMap::<CodeRegion, Vec<f64>>::new();
        for (region, share) in pairs {
            by_region.entry(region).or_default().push(share.ln());
        }
        let middle = |logs: &Vec<f64>| logs.iter().sum::<f64>() / logs.len() as f64;
        let all: Vec<f64> = by_region.values().map(middle).collect();
        let of = by_region.into_iter();
        NativeShares {
            of: of.filter_map(|(of, logs)| Some((of, mean(&logs, 0.0)?))).collect(),
            all: mean(&all, 1.0),
        }
    }

    pub(super) fn of(&self, region: CodeRegion) -> Option<NativeShare> {
        self.of.get(&region).copied().or(self.all)
    }
}

/// The mean of these logarithms, with the interval in which it lies, and, by so many variances of one, another one.
fn mean(logs: &[f64], another: f64) -> Option<NativeShare> {
    if logs.len() < FEWEST {
        return None;
    }
    let (mean, half) = mean_and_half(logs, another)?;
    let share = |log: f64| log.exp().clamp(LEAST, MOST);
    Some(NativeShare { best: share(mean), low: share(mean - half), high: share(mean + half) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(u32, u64)]) -> HashMap<BlockId, u64> {
        of.iter().map(|(block, times)| (BlockId(*block), *times)).collect()
    }

    /// A loop of two blocks around one of a single block, which takes 1 ns, and 0.5 ns more with its counter.
    #[test]
    fn seldom_blocks_tell_what_the_others_counters_took() {
        let full = counts(&[(1, 1000), (2, 1000), (3, 98_000)]);
        let (native, each) = (100e-6, 0.5e-9);
        let whole = native + 100_000.0 * each;
        // Twice as much work.
        let sparse = counts(&[(1, 2000), (2, 2000), (3, 0)]);
        let little = 2.0 * (native + 2000.0 * each);
        let share = native_share((&full, whole), (&sparse, little)).unwrap();
        assert!((share - native / whole).abs() < 1e-9, "{share}");
        assert_eq!(native_share((&full, whole), (&counts(&[(1, 99), (3, 0)]), little)), None);
        assert_eq!(native_share((&full, whole), (&full, whole)), None, "nothing is left out");
    }

    #[test]
    fn regions_with_few_pairs_take_the_mean_of_regions_and_its_scatter() {
        let of = CodeRegion::Loop;
        let pairs = [(1, 0.8), (1, 0.8), (1, 0.8), (2, 0.4), (3, 0.6)];
        let shares = NativeShares::new(pairs.into_iter().map(|(one, share)| (of(one), share)));
        let known = shares.of(of(1)).unwrap();
        assert!((known.best - 0.8).abs() < 1e-9 && known.high - known.low < 1e-9);
        let other = shares.of(of(2)).unwrap();
        assert!(other.low < 0.4 && other.high > 0.8 && other.best < 0.8, "{other:?}");
        // Pairs of one region are alike: they say nothing of others.
        let one = NativeShares::new([0.8; 9].into_iter().map(|share| (of(1), share)));
        assert!(one.of(of(1)).is_some() && one.of(of(2)).is_none());
        assert_eq!(NativeShares::new(std::iter::empty()).of(of(1)), None);
    }
}
