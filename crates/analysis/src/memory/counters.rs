//! What block counters cost in count windows.
//!
//! What for: after a count window comes a sparse one, in the same visit, in which only rarely executed blocks count. So the rate at
//! which these run in full windows, over that in sparse ones, is the native share of a full window's time. What not: the speed of
//! bursts (`native`).
//!
//! The tracer lets those blocks count that ran seldom in the full window before. By chance they ran less often there than usual, so
//! that window says nothing of them: their rate is that in the region's other full windows. (A search through a graph, whose
//! windows differ, had a share of 0.63 by its own windows, and 1.0 by the others; by its pace it is 1.0.)
//! Sparse windows have some counters, too: where ν of all counts are of blocks that count in both, their time is native time plus
//! ν of the cost of counters. So r - (1 - r) ν / (1 - ν) is the native share, where r is the ratio of the rates.
//! The interval is that of a ratio of sums over pairs of windows. A region with few pairs has the mean over the regions, and
//! their scatter.
//!
//! Assumption: the program does on average the same in both windows; one comes a millisecond after the other.

use std::collections::{BTreeMap, HashMap};

use base::BlockId;
use estimate::interval::{mean_and_half, ratio_and_half};

use super::code_regions::CodeRegion;

/// Fewer counts do not show how much work windows did.
const FEWEST_COUNTS: f64 = 10.0;
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
    of: BTreeMap<CodeRegion, NativeShare>,
    all: Option<NativeShare>,
}

/// How often blocks ran in a window, and its seconds. In a sparse one, blocks that did not count have 0.
pub(super) type Window = (HashMap<BlockId, u64>, f64);

/// A full window and the sparse one after it.
pub(super) type Windows = (Window, Window);

/// What the windows of a region say.
fn native_share(windows: &[Windows]) -> Option<NativeShare> {
    if windows.len() < FEWEST {
        return None;
    }
    let mut counts: HashMap<BlockId, u64> = HashMap::new();
    for ((full, _), _) in windows {
        for (block, times) in full {
            let sum = counts.entry(*block).or_default();
            *sum = sum.saturating_add(*times);
        }
    }
    let seconds: f64 = windows.iter().map(|((_, seconds), _)| seconds).sum();
    let pair = |((full, own), (sparse, its)): &Windows| {
        let elsewhere =
            |block: &BlockId, all: u64| all.saturating_sub(*full.get(block).unwrap_or(&0)) as f64;
        let (mut seldom, mut all) = (0.0, 0.0);
        for (block, times) in &counts {
            let times = elsewhere(block, *times);
            all += times;
            seldom += if sparse.get(block) == Some(&0) { 0.0 } else { times };
        }
        let expected = |times: f64| times / (seconds - own) * its;
        [expected(seldom), expected(all), sparse.values().map(|times| *times as f64).sum()]
    };
    let pairs: Vec<[f64; 3]> = windows.iter().map(pair).collect();
    let [seldom, all, again] = [0, 1, 2].map(|at| pairs.iter().map(|one| one[at]).sum::<f64>());
    if seldom < FEWEST_COUNTS || again < FEWEST_COUNTS || seldom >= all {
        return None;
    }
    let pairs: Vec<(f64, f64)> = pairs.iter().map(|[seldom, _, again]| (*seldom, *again)).collect();
    let (ratio, half) = ratio_and_half(&pairs, 0.0)?;
    let left = seldom / all;
    let share = |ratio: f64| (ratio - (1.0 - ratio) * left / (1.0 - left)).clamp(LEAST, MOST);
    let half = half?;
    Some(NativeShare { best: share(ratio), low: share(ratio - half), high: share(ratio + half) })
}

impl NativeShares {
    /// From pairs of windows, each with its region.
    pub(super) fn new(pairs: impl Iterator<Item = (CodeRegion, Windows)>) -> NativeShares {
        let mut by_region = BTreeMap::<CodeRegion, Vec<Windows>>::new();
        for (region, windows) in pairs {
            by_region.entry(region).or_default().push(windows);
        }
        let share = |(of, windows): (CodeRegion, Vec<Windows>)| Some((of, native_share(&windows)?));
        let of: BTreeMap<CodeRegion, NativeShare> =
            by_region.into_iter().filter_map(share).collect();
        let logs: Vec<f64> = of.values().map(|share| share.best.ln()).collect();
        let all = mean_and_half(&logs, 1.0).filter(|_| logs.len() >= FEWEST);
        let share = |log: f64| log.exp().clamp(LEAST, MOST);
        let all = all.map(|(mean, half)| NativeShare {
            best: share(mean),
            low: share(mean - half),
            high: share(mean + half),
        });
        NativeShares { of, all }
    }

    pub(super) fn of(&self, region: CodeRegion) -> Option<NativeShare> {
        self.of.get(&region).copied().or(self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(u32, u64)]) -> HashMap<BlockId, u64> {
        of.iter().map(|(block, times)| (BlockId(*block), *times)).collect()
    }

    /// A loop of two blocks around one of a single block, which takes 1 ns, and 0.5 ns more with its counter.
    fn windows() -> Windows {
        let full = counts(&[(1, 1000), (2, 1000), (3, 98_000)]);
        let (native, each) = (100e-6, 0.5e-9);
        // Twice as much work.
        let sparse = counts(&[(1, 2000), (2, 2000), (3, 0)]);
        ((full, native + 100_000.0 * each), (sparse, 2.0 * (native + 2000.0 * each)))
    }

    #[test]
    fn seldom_blocks_tell_what_the_others_counters_took() {
        let share = native_share(&[windows(), windows(), windows()]).unwrap();
        assert!((share.best - 100.0 / 150.0).abs() < 1e-9, "{share:?}");
        assert!(share.high - share.low < 1e-9, "{share:?}");
        assert_eq!(native_share(&[windows(), windows()]), None);
        let ((full, whole), (_, little)) = windows();
        let nothing_left_out = ((full.clone(), whole), (full, little));
        assert_eq!(native_share(&vec![nothing_left_out; 3]), None);
    }

    /// Two kinds of blocks run as often on average, and those count that happened to run less often.
    #[test]
    fn the_window_that_chose_the_blocks_says_nothing_of_them() {
        let pair = |seldom: u32, often: u32| {
            let full = counts(&[(seldom, 500), (often, 1500), (3, 8000)]);
            let sparse = counts(&[(seldom, 1000), (often, 0), (3, 0)]);
            ((full, 1e-3), (sparse, 1e-3))
        };
        let share = native_share(&[pair(1, 2), pair(2, 1), pair(1, 2), pair(2, 1)]).unwrap();
        assert!(share.best > 0.9 && share.high > 1.0, "{share:?}");
    }

    #[test]
    fn regions_with_few_pairs_take_the_mean_of_regions_and_its_scatter() {
        let of = CodeRegion::Loop;
        let slower = |by: f64| {
            let ((full, whole), sparse) = windows();
            vec![((full, by * whole), sparse); 3]
        };
        let all = [(1, 1.0), (2, 1.2), (3, 0.9)].map(|(at, by)| (at, slower(by)));
        let pairs = all.iter().flat_map(|(at, all)| all.iter().map(|one| (of(*at), one.clone())));
        let shares = NativeShares::new(pairs.clone());
        let [one, two] = [1, 2].map(|at| shares.of(of(at)).unwrap());
        assert!(two.best < one.best && one.high - one.low < 1e-9, "{one:?} {two:?}");
        let other = shares.of(of(4)).unwrap();
        assert!(other.low < two.best && other.high > one.best, "{other:?}");
        // Pairs of one region are alike: they say nothing of others.
        let one = NativeShares::new(pairs.take(3));
        assert!(one.of(of(1)).is_some() && one.of(of(2)).is_none());
        assert_eq!(NativeShares::new(std::iter::empty()).of(of(1)), None);
    }
}
