//! The native share of count windows.
//!
//! What for: copies of blocks take longer than native code: counters, jumps to the next block, look-ups of returns, branches that the core has
//! not learned there, code that does not fit into its caches. What not: the speed of bursts (`native`).
//!
//! 1. *Beforehand*: where a block takes w in a window on average, w / (w + [`COPIES`]) of that is native. So long blocks hardly take longer,
//!    and short ones several times as long. How far that is off in one program is known, too: [`COPIES_APART`].
//! 2. *Native counts*: behind a window the tracer counts how often the thread natively runs one block that ran there. Its rate in
//!    windows, by the share that is known beforehand, over its native rate corrects that share. The rate is that of the windows
//!    before and after, and not of the one in front: the tracer chose the block because it ran there, and until it counts,
//!    5 to 30 ms pass, in which programs go on to something else. Over the rate in the window in front, native rates of x264, which
//!    goes from frame to frame, came out as 0.64; they are 2.1 (instructions by Valgrind, over the time). Over that of more windows, blocks
//!    of one phase of a program ran natively much more often.
//!
//! Counts are often 0, or many times the usual: so they tell a ratio of sums, by region, with what is known beforehand
//! ([`estimate::groups::of_ratios`]).
//! Each execution that is counted natively costs an exception, and disturbs caches: [`DISTURBED`] times what it costs in registers
//! is taken off.
//!
//! Assumption: the program does on average the same in the windows around a native count and in that.

use std::collections::{BTreeMap, HashMap};

use base::{BlockId, Nanos};
use estimate::parameters::{COPIES, COPIES_APART, DISTURBED};
use estimate::{Bounds, GroupMean, groups};

use super::code_regions::CodeRegion;

/// Fewer counts do not show how much work windows did.
const FEWEST_COUNTS: f64 = 10.0;
/// A native share outside of these is no comparison of the same code.
const LEAST: f64 = 0.1;
const MOST: f64 = 2.0;

/// Native share of a window's time, 0 to 1; more where a core runs copies faster than native code.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct NativeShare {
    pub(super) best: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Windows of one group have what is off in them alone.
    pub(super) group: usize,
    /// The part of the distances of the ends, as logarithms, that is another in each group; the root of 1 less its square is the same in all.
    pub(super) own: f64,
}

impl NativeShare {
    /// All of it.
    pub(super) const WHOLE: NativeShare =
        NativeShare { best: 1.0, low: 1.0, high: 1.0, group: 0, own: 0.0 };
}

/// A full window and what was counted behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    /// How often blocks ran, and its seconds.
    pub(super) full: (HashMap<BlockId, u64>, f64),
    pub(super) native: Option<Natively>,
}

/// How often a thread natively ran an instruction of some blocks.
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

/// A full window: its region, when it was, and what came behind it.
pub(super) type Placed<'w> = (CodeRegion, Nanos, &'w Windows);

/// What native counts say of each region: pairs of how often blocks ran natively, and how often they would have, as in the windows before
/// and after; both over how often in the window in front, so that each counts as its time. `usual`: native seconds of each window, as they are
/// known beforehand.
fn natively(windows: &[Placed<'_>], usual: &[f64]) -> BTreeMap<CodeRegion, Vec<(f64, f64)>> {
    let mut order: Vec<usize> = (0..windows.len()).collect();
    order.sort_by_key(|at| windows[*at].1);
    let mut pairs: BTreeMap<CodeRegion, Vec<(f64, f64)>> =
        windows.iter().map(|(region, ..)| (*region, Vec::new())).collect();
    for (place, at) in order.iter().enumerate() {
        let (region, _, window) = windows[*at];
        let Some(native) = &window.native else { continue };
        // Executions and seconds.
        let ran = |at: &usize| {
            let full = &windows[*at].2.full.0;
            let times = native.blocks.iter().filter_map(|block| full.get(block)).sum::<u64>();
            (times as f64, usual[*at])
        };
        let (times, own) = ran(at);
        let around = [place.checked_sub(1), place.checked_add(1)].into_iter().flatten();
        let around = around.filter_map(|place| order.get(place)).map(ran);
        let (others, seconds) = around.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let expected = times / own * native.seconds.best;
        if seconds > 0.0 && expected >= FEWEST_COUNTS {
            let each = own / times;
            let pair = (native.executions * each, others / seconds * native.seconds.best * each);
            pairs.entry(region).or_default().push(pair);
        }
    }
    pairs
}

/// Native shares of full windows, in their order, where a cycle of the time-stamp counter takes so many seconds.
pub(super) fn native_shares(windows: &[Placed<'_>], cycle: f64) -> Vec<NativeShare> {
    let usual = |window: &Windows| {
        let blocks: u64 = window.full.0.values().sum();
        let each = window.full.1 / blocks.max(1) as f64;
        each / (each + COPIES.value * cycle)
    };
    let usual: Vec<f64> = windows.iter().map(|(_, _, one)| usual(one)).collect();
    let native: Vec<f64> =
        windows.iter().zip(&usual).map(|((_, _, one), share)| one.full.1 * share).collect();
    let (regions, pairs): (Vec<CodeRegion>, Vec<_>) =
        natively(windows, &native).into_iter().unzip();
    let corrections: Vec<GroupMean> = groups::of_ratios(&pairs, COPIES_APART.value);
    // What an exception costs is as little known in all of them.
    let counted = windows.iter().filter_map(|(_, _, one)| one.native.as_ref());
    let cost = counted.map(|one| one.seconds).reduce(Bounds::plus).filter(|all| all.low > 0.0);
    let cost = cost.map_or(Bounds::exactly(1.0), |cost| cost.times(1.0 / cost.best));
    let of = |((region, ..), usual): (&Placed<'_>, f64)| {
        let Ok(group) = regions.binary_search(region) else { return NativeShare::WHOLE };
        let GroupMean { mean, own, common } = corrections[group];
        let (half, log) = (own.hypot(common), usual.ln() - mean);
        let of = |log: f64, cost: f64| (log.exp() * cost).clamp(LEAST, MOST);
        NativeShare {
            best: of(log, 1.0),
            low: of(log - half, cost.low),
            high: of(log + half, cost.high),
            group,
            own: own / half.max(f64::MIN_POSITIVE),
        }
    };
    windows.iter().zip(usual).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CYCLE: f64 = 0.4e-9;

    fn counts(of: &[(u32, u64)]) -> HashMap<BlockId, u64> {
        of.iter().map(|(block, times)| (BlockId(*block), *times)).collect()
    }

    /// A window of 100,000 blocks, which take so many nanoseconds each.
    fn window(each: f64) -> Windows {
        let full = counts(&[(1, 20), (2, 1000), (3, 98_980)]);
        Windows { full: (full, 100_000.0 * each * 1e-9), native: None }
    }

    /// What windows of these regions say.
    fn of_regions(windows: &[(u32, Windows)]) -> Vec<NativeShare> {
        let of = windows
            .iter()
            .zip(0..)
            .map(|((region, one), at)| (CodeRegion::Loop(*region), Nanos(at), one));
        native_shares(&of.collect::<Vec<_>>(), CYCLE)
    }

    #[test]
    fn long_blocks_take_hardly_longer_in_copies() {
        let shares = of_regions(&[(1, window(0.5)), (1, window(50.0))]);
        let usual = |each: f64| each / (each + COPIES.value * 0.4);
        assert!((shares[0].best / usual(0.5) - 1.0).abs() < 1e-6, "{shares:?}");
        assert!((shares[1].best / usual(50.0) - 1.0).abs() < 1e-6, "{shares:?}");
        assert!(shares[0].low < 0.7 * shares[0].best && shares[0].high > 1.4 * shares[0].best);
        assert!(of_regions(&[]).is_empty());
    }

    /// A program goes from one thing to another every few milliseconds, and runs blocks 1 and 4 in turns. The tracer counts the one
    /// that it met in a window, when the program may be at the other.
    #[test]
    fn blocks_that_run_in_turns_tell_what_copies_took() {
        let window = |at: u32| {
            let Windows { full: (mut full, own), .. } = window(1.0);
            full.remove(&BlockId(1));
            let met = [1, 4][at as usize / 2 % 2];
            full.insert(BlockId(met), 20);
            let executions = if (at / 4).is_multiple_of(2) { 40 } else { 0 };
            let native = Natively::new(vec![BlockId(met)], executions, own, 0.0);
            (1, Windows { full: (full, own), native: Some(native) })
        };
        let all: Vec<_> = (0..400).map(window).collect();
        let share = of_regions(&all)[0];
        // Natively 20 times in the time of a window, which has 10.
        assert!((share.best - 0.5).abs() < 0.03, "{share:?}");
        assert!(share.high / share.low > 1.1 && share.high / share.low < 1.5, "{share:?}");
        let few = of_regions(&all[..40])[0];
        assert!(few.high / few.low > 1.1 * share.high / share.low, "{few:?} {share:?}");
    }

    /// Blocks 1 and 4 run through the instruction. Each of 2000 executions takes 1 ns longer.
    #[test]
    fn exceptions_are_taken_off() {
        let window = |cost: f64| {
            let Windows { full: (mut full, own), .. } = window(1.0);
            full.insert(BlockId(4), 1000);
            let seconds = own + 2000.0 * cost * DISTURBED.value;
            let native = Natively::new(vec![BlockId(1), BlockId(4)], 2040, seconds, cost);
            (1, Windows { full: (full, own), native: Some(native) })
        };
        let of = |cost: f64| of_regions(&vec![window(cost); 100])[0];
        let (free, dear) = (of(0.0), of(10e-9));
        assert!((dear.best / free.best - 1.0).abs() < 0.01, "{free:?} {dear:?}");
        assert!(dear.high / dear.low > 1.05 * free.high / free.low, "{free:?} {dear:?}");
    }

    #[test]
    fn regions_without_counts_borrow_from_others() {
        let counted = |region: u32, executions: u64| {
            let Windows { full, .. } = window(1.0);
            let native = Natively::new(vec![BlockId(2)], executions, full.1, 0.0);
            (region, Windows { full, native: Some(native) })
        };
        let counts = (0..60).map(|at| counted(at % 2, 3000 + 10 * u64::from(at % 7)));
        let all: Vec<_> = counts.chain([(2, window(1.0))]).collect();
        let shares = of_regions(&all);
        let [one, other] = [0, 60].map(|at| shares[at]);
        assert!((one.best - 1.0 / 3.0).abs() < 0.02, "{one:?}");
        assert!(other.best < 0.4 && other.high / other.low > 1.5 * one.high / one.low, "{other:?}");
        assert!(one.group != other.group);
    }
}
