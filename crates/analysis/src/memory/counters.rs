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
//! is a mean of logarithms in which far ones count less, and where there are few pairs they borrow from the others
//! ([`estimate::groups`]).
//!
//! Assumption: the program does on average the same in all of them; they come within some milliseconds.

use std::collections::HashMap;

use base::{BlockId, Nanos};
use estimate::parameters::DISTURBED;
use estimate::{Bounds, groups};

use super::code_regions::CodeRegion;

/// Fewer counts do not show how much work windows did.
const FEWEST_COUNTS: f64 = 10.0;
/// At most so many windows form a group.
const AT_A_TIME: usize = 3;
/// A native share outside of these is no comparison of the same code.
const LEAST: f64 = 0.1;
const MOST: f64 = 2.0;
/// Added to each count, so that none has a logarithm, too.
const NONE: f64 = 0.5;
/// Native share of a window's time, 0 to 1; slightly more than 1 where counters happen to make code faster.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct NativeShare {
    pub(super) best: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// What copies of blocks do besides counting is in it.
    pub(super) is_whole: bool,
    /// Windows of one group have the same.
    pub(super) group: usize,
    /// The part of the distances of the ends, as logarithms, that is another in each group; the root of 1 less its square is the same in all.
    pub(super) own: f64,
}

/// How often blocks ran in a window, and its seconds. In a sparse one, blocks that did not count have 0.
pub(super) type Window = (HashMap<BlockId, u64>, f64);

/// A full window and what came behind it.
#[derive(Clone, Debug, Default)]
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

/// The logarithm of the share of a full window's time without what counters took.
fn by_sparse(Windows { full: (full, own), sparse, .. }: &Windows) -> Option<f64> {
    let (sparse, its) = sparse.as_ref()?;
    let count = |counts: bool| -> f64 {
        let those = full.iter().filter(|(block, _)| (sparse.get(block) != Some(&0)) == counts);
        those.map(|(_, times)| *times as f64).sum()
    };
    let (seldom, others) = (count(true), count(false));
    let again = sparse.values().map(|times| *times as f64).sum();
    let ratio = logarithm([(seldom, *own), (again, *its)])?.exp();
    let left = seldom / (seldom + others);
    // Of a ratio that says that counters took all of it, none of the time would be left.
    (others > 0.0).then(|| (ratio - (1.0 - ratio) * left / (1.0 - left)).max(LEAST / 10.0).ln())
}

/// The logarithm of the native share of a sparse window's time.
fn by_native(Windows { sparse, native, .. }: &Windows) -> Option<f64> {
    let ((sparse, its), native) = sparse.as_ref().zip(native.as_ref())?;
    let ran: u64 = native.blocks.iter().filter_map(|block| sparse.get(block)).sum();
    logarithm([(ran as f64, *its), (native.executions, native.seconds.best)])
}

/// The logarithm of the rate of the first over that of the second count. `None` where they are too few to tell.
fn logarithm(pair: Counted) -> Option<f64> {
    let rate = |(count, seconds): (f64, f64)| ((count + NONE) / seconds).ln();
    let tells = pair[0].0 + pair[1].0 >= FEWEST_COUNTS && pair.iter().all(|(_, own)| *own > 0.0);
    tells.then(|| rate(pair[0]) - rate(pair[1]))
}

/// Native shares of full windows, each with its region and when it was, in their order. Windows of a region that follow each other form
/// groups: what copies take depends on what the program does, and an interpreter does all of it in one function.
pub(super) fn native_shares(windows: &[(CodeRegion, Nanos, &Windows)]) -> Vec<Option<NativeShare>> {
    let mut order: Vec<usize> = (0..windows.len()).collect();
    order.sort_by_key(|at| (windows[*at].0, windows[*at].1));
    let in_region = order.chunk_by(|one, next| windows[*one].0 == windows[*next].0);
    let group = |all: &[usize]| all.len().div_ceil(all.len().div_ceil(AT_A_TIME));
    let grouped: Vec<&[usize]> = in_region.flat_map(|all| all.chunks(group(all))).collect();
    let of = |log: fn(&Windows) -> Option<f64>| -> Vec<Vec<f64>> {
        let logs = |group: &&[usize]| group.iter().filter_map(|at| log(windows[*at].2)).collect();
        grouped.iter().map(logs).collect()
    };
    let mut shares = vec![None; windows.len()];
    let Some(sparse) = groups(&of(by_sparse)) else { return shares };
    let natively = of(by_native);
    let native = groups(&natively);
    // What an exception costs is as little known in all of them.
    let counted = windows.iter().filter_map(|(_, _, one)| one.native.as_ref());
    let cost = counted.map(|one| one.seconds).reduce(Bounds::plus).filter(|all| all.low > 0.0);
    for (group, (members, sparse)) in grouped.iter().zip(sparse).enumerate() {
        // Of a group in which no block runs seldom others tell nothing: copies of tight loops are slower.
        let copies = native.as_ref().filter(|_| !natively[group].is_empty());
        let copies = copies.map(|each| each[group]);
        let cost = cost.filter(|_| copies.is_some());
        let cost = cost.map_or(Bounds::exactly(1.0), |cost| cost.times(1.0 / cost.best));
        let (is_whole, copies) = (copies.is_some(), copies.unwrap_or_default());
        let mean = sparse.mean + copies.mean;
        let (own, common) = (sparse.own.hypot(copies.own), sparse.common.hypot(copies.common));
        let half = own.hypot(common);
        let of = |log: f64, cost: f64| (log.exp() * cost).clamp(LEAST, MOST);
        let share = NativeShare {
            best: of(mean, 1.0),
            low: of(mean - half, cost.low),
            high: of(mean + half, cost.high),
            is_whole,
            group,
            own: own / half.max(f64::MIN_POSITIVE),
        };
        members.iter().for_each(|window| shares[*window] = Some(share));
    }
    shares
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

    /// What windows of these regions say.
    fn of_regions(windows: impl Iterator<Item = (u32, Windows)>) -> Vec<Option<NativeShare>> {
        let windows: Vec<_> = windows.collect();
        let of = windows.iter().map(|(region, one)| (CodeRegion::Loop(*region), Nanos(0), one));
        native_shares(&of.collect::<Vec<_>>())
    }

    /// What windows that form a group say.
    fn native_share(windows: &[Windows]) -> Option<NativeShare> {
        of_regions(windows.iter().map(|one| (1, one.clone())))[0]
    }

    #[test]
    fn seldom_blocks_tell_what_the_others_counters_took() {
        let share = native_share(&vec![windows(); 3]).unwrap();
        assert!((share.best - 100.0 / 150.0).abs() < 1e-3, "{share:?}");
        assert!(share.high - share.low < 1e-5 && !share.is_whole, "{share:?}");
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
    fn windows_without_others_behind_them_borrow_from_other_groups() {
        let slower = |by: f64| {
            let Windows { full: (full, whole), sparse, native } = windows();
            vec![Windows { full: (full, by * whole), sparse, native }; 3]
        };
        let alone = Windows { sparse: None, ..windows() };
        let all = [(1, 1.0), (2, 1.2), (3, 0.9)].map(|(at, by)| (at, slower(by)));
        let pairs = all.iter().flat_map(|(at, all)| all.iter().map(|one| (*at, one.clone())));
        let shares = of_regions(pairs.clone().chain([(4, alone.clone())]));
        let [one, two, other] = [0, 3, 9].map(|at| shares[at].unwrap());
        assert!(two.best < one.best && one.high - one.low < 1e-5, "{one:?} {two:?}");
        assert!(other.low < two.best && other.high > one.best, "{other:?}");
        // One group says little of others.
        let shares = of_regions(pairs.take(3).chain([(4, alone)]));
        let few = shares[3].unwrap();
        assert!(few.low < other.low && few.high > other.high, "{few:?} {other:?}");
        assert!(of_regions(std::iter::empty()).is_empty());
    }

    #[test]
    fn windows_of_a_region_form_groups_by_time() {
        let at = |at: u64, by: f64| {
            let Windows { full: (full, whole), sparse, native } = windows();
            (CodeRegion::Loop(1), Nanos(at), Windows { full: (full, by * whole), sparse, native })
        };
        let windows: Vec<_> = (0..14).map(|n| at(100 - n, if n < 7 { 1.0 } else { 2.0 })).collect();
        let of: Vec<_> = windows.iter().map(|(region, time, one)| (*region, *time, one)).collect();
        let shares: Vec<f64> = native_shares(&of).iter().map(|share| share.unwrap().best).collect();
        // Groups of three, from the last window on; the middle one has one slow window.
        assert!(shares[0] > 1.2 * shares[6] && shares[6] > 1.2 * shares[13], "{shares:?}");
    }
}
