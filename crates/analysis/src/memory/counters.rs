//! The native share of count windows.
//!
//! What for: copies of blocks with counters take longer than native code; of each region this tells by how much. What not: the
//! speed of bursts (`native`).
//!
//! 1. *Sparse windows* tell what counters took. One comes after a count window, in the same visit, in which only rarely executed
//!    blocks count. So the rate at which these run in full windows, over that in sparse ones, is the share of a full window's time
//!    without counters. Both ended when their time was over: what runs in front of a call that ends windows is in neither.
//! 2. *Native counts* tell what copies take besides: other jumps, look-ups of returns, branches that the core has not learned
//!    there. Right behind a sparse window the tracer counts how often the thread natively runs one block that runs seldom. The rate
//!    of that block in sparse windows over its native rate is the native share of their time. (A loop that merges the same data
//!    again and again takes half as long natively as in either window: the core knows its branches there.)
//!
//! Windows before tell the tracer which blocks run seldom. Until version 14 of results the full window itself did, in which they ran
//! less often than usual by chance; so sparse windows of such results are not used.
//! Sparse windows have some counters, too: where ν of all counts are of blocks that count in both, their time is native time plus
//! ν of the cost of counters. So r - (1 - r) ν / (1 - ν) is the share without, where r is the ratio of the rates.
//! Each execution that is counted natively costs an exception, and disturbs caches: [`DISTURBED`] times what it costs in registers
//! is taken off.
//! Between two windows the program may go on to something else. Then their rates differ by any factor, to either side: so each figure
//! is a ratio of sums over the pairs of windows in the middle, with the error of the trimmed mean of logarithms
//! ([`trimmed_mean_and_half`]). A region with few pairs has the mean over the
//! regions, and their scatter.
//!
//! Assumption: the program does on average the same in all of them; they come within some milliseconds.

use std::collections::{BTreeMap, HashMap};

use base::BlockId;
use estimate::Bounds;
use estimate::interval::{mean_and_half, middle, trimmed_mean_and_half};
use estimate::parameters::DISTURBED;

use super::code_regions::CodeRegion;

/// Fewer counts do not show how much work windows did.
const FEWEST_COUNTS: f64 = 10.0;
/// A region with fewer pairs of windows has the mean over all regions; with fewer regions there is none.
const FEWEST: usize = 3;
/// A native share outside of these is no comparison of the same code.
const LEAST: f64 = 0.1;
const MOST: f64 = 2.0;
/// Added to each count, so that none has a logarithm, too.
const NONE: f64 = 0.5;
/// The part of the pairs that is left out at either end.
const TRIMMED: f64 = 0.2;
/// Native share of a window's time, 0 to 1; slightly more than 1 where counters happen to make code faster.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct NativeShare {
    pub(super) best: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// What copies of blocks do besides counting is in it.
    pub(super) is_whole: bool,
}

/// Native shares by region of the code.
#[derive(Debug, Default)]
pub(super) struct NativeShares {
    of: BTreeMap<CodeRegion, NativeShare>,
    all: Option<NativeShare>,
}

/// How often blocks ran in a window, and its seconds. In a sparse one, blocks that did not count have 0.
pub(super) type Window = (HashMap<BlockId, u64>, f64);

/// A full window and what came behind it.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    pub(super) full: Window,
    pub(super) sparse: Option<Window>,
    pub(super) native: Option<Natively>,
}

/// How often a thread natively ran the first instruction of a block.
#[derive(Clone, Debug)]
pub(super) struct Natively {
    /// The blocks that run this instruction, in order.
    pub(super) blocks: Vec<BlockId>,
    pub(super) executions: f64,
    /// Without what counting took.
    pub(super) seconds: Bounds,
}

impl Natively {
    /// `cost`: seconds that one execution takes longer.
    pub(super) fn new(blocks: Vec<BlockId>, executions: u64, seconds: f64, cost: f64) -> Natively {
        let executions = executions as f64;
        let taken = |each: f64| (seconds - executions * cost * each).max(0.0);
        let most = 1.0 + 2.0 * (DISTURBED.value - 1.0);
        let [best, low, high] = [DISTURBED.value, most, 1.0].map(taken);
        Natively { blocks, executions, seconds: Bounds { best, low, high } }
    }
}

/// Two counts, each with its seconds.
type Counted = [(f64, f64); 2];

/// What the windows of a region say.
fn native_share(windows: &[Windows]) -> Option<NativeShare> {
    let sparse = by_sparse(windows)?;
    let native = by_native(windows);
    let of_sparse = native.unwrap_or(Bounds::exactly(1.0));
    let share = |sparse: f64, native: f64| (sparse * native).clamp(LEAST, MOST);
    Some(NativeShare {
        best: share(sparse.best, of_sparse.best),
        low: share(sparse.low, of_sparse.low),
        high: share(sparse.high, of_sparse.high),
        is_whole: native.is_some(),
    })
}

/// Share of full windows' time without what counters took.
fn by_sparse(windows: &[Windows]) -> Option<Bounds> {
    let mut sums = (0.0, 0.0);
    let pair = |Windows { full: (full, own), sparse, .. }: &Windows| {
        let (sparse, its) = sparse.as_ref()?;
        let count = |counts: bool| -> f64 {
            let those = full.iter().filter(|(block, _)| (sparse.get(block) != Some(&0)) == counts);
            those.map(|(_, times)| *times as f64).sum()
        };
        let (seldom, others) = (count(true), count(false));
        sums = (sums.0 + seldom, sums.1 + seldom + others);
        let again = sparse.values().map(|times| *times as f64).sum();
        Some([(seldom, *own), (again, *its)])
    };
    let pairs: Vec<_> = windows.iter().filter_map(pair).collect();
    let (seldom, all) = sums;
    let left = seldom / all;
    let share = |ratio: f64| (ratio - (1.0 - ratio) * left / (1.0 - left)).clamp(LEAST, MOST);
    (seldom < all).then(|| Some(ratio_of_rates(&pairs)?.each(share)))?
}

/// Native share of sparse windows' time.
fn by_native(windows: &[Windows]) -> Option<Bounds> {
    let mut sum = Bounds::exactly(0.0);
    let pair = |Windows { sparse, native, .. }: &Windows| {
        let ((sparse, its), native) = sparse.as_ref().zip(native.as_ref())?;
        let ran: u64 = native.blocks.iter().filter_map(|block| sparse.get(block)).sum();
        sum = sum.plus(native.seconds);
        Some([(ran as f64, *its), (native.executions, native.seconds.best)])
    };
    let pairs: Vec<_> = windows.iter().filter_map(pair).collect();
    let Bounds { best, low, high } = ratio_of_rates(&pairs)?;
    let share = |ratio: f64, seconds: f64| (ratio * seconds / sum.best).clamp(LEAST, MOST);
    Some(Bounds {
        best: share(best, sum.best),
        low: share(low, sum.low),
        high: share(high, sum.high),
    })
}

/// Rate of the first over that of the second of each pair of a count and its seconds.
fn ratio_of_rates(pairs: &[Counted]) -> Option<Bounds> {
    let rate = |(count, seconds): (f64, f64)| (count + NONE) / seconds;
    let logarithm = |pair: &Counted| (rate(pair[0]) / rate(pair[1])).ln();
    let tells = |pair: &&Counted| {
        pair.iter().any(|(count, _)| *count > 0.0) && pair.iter().all(|(_, seconds)| *seconds > 0.0)
    };
    let mut pairs: Vec<Counted> = pairs.iter().filter(tells).copied().collect();
    pairs.sort_unstable_by(|one, other| logarithm(one).total_cmp(&logarithm(other)));
    let logarithms: Vec<f64> = pairs.iter().map(logarithm).collect();
    let middle = middle(&pairs, TRIMMED);
    let sum = |of: fn(&Counted) -> f64| middle.iter().map(of).sum::<f64>();
    let counts = [sum(|pair| pair[0].0), sum(|pair| pair[1].0)];
    if pairs.len() < FEWEST || counts.iter().any(|count| *count < FEWEST_COUNTS) {
        return None;
    }
    let (_, half) = trimmed_mean_and_half(&logarithms, TRIMMED)?;
    let best = counts[0] / sum(|pair| pair[0].1) / (counts[1] / sum(|pair| pair[1].1));
    Some(Bounds { best, low: best * (-half).exp(), high: best * half.exp() })
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
        let all = |is_whole: bool| {
            let alike = of.values().filter(|share| share.is_whole == is_whole);
            let logs: Vec<f64> = alike.map(|share| share.best.ln()).collect();
            let (mean, half) = mean_and_half(&logs, 1.0).filter(|_| logs.len() >= FEWEST)?;
            let [best, low, high] =
                [mean, mean - half, mean + half].map(|log| log.exp().clamp(LEAST, MOST));
            Some(NativeShare { best, low, high, is_whole })
        };
        let all = all(true).or_else(|| all(false));
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
        let its = 2.0 * (native + 2000.0 * each);
        Windows {
            full: (full, native + 100_000.0 * each),
            sparse: Some((sparse, its)),
            native: None,
        }
    }

    #[test]
    fn seldom_blocks_tell_what_the_others_counters_took() {
        let share = native_share(&vec![windows(); 3]).unwrap();
        assert!((share.best - 100.0 / 150.0).abs() < 1e-9, "{share:?}");
        assert!(share.high - share.low < 1e-9 && !share.is_whole, "{share:?}");
        assert_eq!(native_share(&vec![windows(); 2]), None);
        let full = windows().full;
        let nothing_left_out = Windows { sparse: Some(full.clone()), full, native: None };
        assert_eq!(native_share(&vec![nothing_left_out; 3]), None);
    }

    /// Blocks 1 and 4 run through the instruction, 4 always behind 1. Natively all takes a third less than in sparse windows, and
    /// each of 30 executions 1 ns longer.
    #[test]
    fn native_executions_tell_what_copies_took() {
        let windows = |native: f64| {
            let Windows { full, sparse, .. } = windows();
            let (mut sparse, its) = sparse.unwrap();
            sparse.insert(BlockId(4), 1000);
            let seconds = native * its / 100.0 + 30.0 * 1e-9 * DISTURBED.value;
            let native = Natively::new(vec![BlockId(1), BlockId(4)], 30, seconds, 1e-9);
            Windows { full, sparse: Some((sparse, its)), native: Some(native) }
        };
        let known = native_share(&vec![windows(1.0); 3]).unwrap();
        let faster = native_share(&vec![windows(2.0 / 3.0); 3]).unwrap();
        assert!(known.is_whole && (faster.best / known.best - 2.0 / 3.0).abs() < 1e-9);
        assert!(known.low < known.best && known.high > known.best, "{known:?}");
        // Where the program went on to something else in between, any factor is there.
        let mut pairs = vec![windows(1.0); 10];
        (pairs[0], pairs[1]) = (windows(100.0), windows(50.0));
        let mixed = native_share(&pairs).unwrap();
        assert!((mixed.best / known.best - 1.0).abs() < 0.2, "{mixed:?}");
    }

    #[test]
    fn regions_with_few_pairs_take_the_mean_of_regions_and_its_scatter() {
        let of = CodeRegion::Loop;
        let slower = |by: f64| {
            let Windows { full: (full, whole), sparse, native } = windows();
            vec![Windows { full: (full, by * whole), sparse, native }; 3]
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
