//! Loops in the branch stacks that the hardware recorded.
//!
//! What for: which loops go round most often, and how many iterations a run of each has. What not: how a run is recognised
//! (`import`), time.
//!
//! trip count = 1 + (branches back that are decided) / (those that begin a run). A run that ends in its first iteration takes no
//! branch back and is not seen. Interval: Cochran's of the ratio beginnings / decided, with stacks as clusters, turned over.
//! Shares are of all branches back that stacks have; the interval is Wilson's with as many observations as there are stacks with a
//! loop, because branches of one stack are alike.

use std::collections::BTreeMap;

use base::{CodeAddress, StackId};
use estimate::interval::{ratio_interval, wilson};
use facts::{BranchLoop, Evidence, Metric};

use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::LocationId;

/// Fewer decided branches tell no trip count.
const FEWEST: u64 = 30;
/// Fewer runs that were seen to begin tell none either.
const FEWEST_STARTS: u64 = 5;
/// Where functions have no names, a branch this far back is taken for one of a loop, bytes.
const NAMELESS: u64 = 1024;

/// A loop.
#[derive(Clone, PartialEq, Debug)]
pub struct SampledLoop {
    /// Where it begins.
    pub place: LocationId,
    /// The address there.
    pub head: Option<CodeAddress>,
    /// How often branch stacks have the branch that closes it.
    pub taken: u64,
    /// Share of all backward branches, percent.
    pub share: Metric,
    /// Iterations of a run that has more than one.
    pub trip_count: Metric,
}

/// The selected loops, most taken first.
#[must_use]
pub fn sampled_loops(profile: &Profile<'_>, selection: &Selection) -> Vec<SampledLoop> {
    let stacks = &profile.stacks;
    let place = |id: Option<StackId>| {
        let leaf = stacks.find(id?)?;
        let inner = stacks.innermost(Some(leaf));
        Some((inner, stacks.frames(Some(leaf)).last().unwrap_or(inner)))
    };
    let nodes: BTreeMap<StackId, CodeAddress> =
        profile.recording.stack_nodes.iter().map(|node| (node.id, node.code_address())).collect();
    let address = |id: Option<StackId>| nodes.get(&id?).copied();
    let mut loops: BTreeMap<(Option<StackId>, Option<StackId>), (LocationId, BranchLoop)> =
        BTreeMap::new();
    for one in &profile.recording.branch_loops {
        let (Some(branch), Some(head)) = (place(one.branch), place(one.head)) else { continue };
        // Inlined functions apart, the ends of a loop are in one function.
        let function = |place: LocationId| stacks.places[place.index()].function;
        let offset = |id| address(id).map_or(0, |at| at.offset.0);
        let nameless = stacks.function_of(head.1).name.starts_with('[');
        let near = offset(one.branch).abs_diff(offset(one.head)) <= NAMELESS;
        if function(branch.1) != function(head.1) && !(nameless && near) {
            continue;
        }
        let (_, sums) =
            loops.entry((one.branch, one.head)).or_insert((head.0, BranchLoop::default()));
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut sums.taken, one.taken);
        add(&mut sums.stacks, one.stacks);
        add(&mut sums.decided, one.decided);
        add(&mut sums.starts, one.starts);
        add(&mut sums.decided_squares, one.decided_squares);
        add(&mut sums.products, one.products);
        add(&mut sums.starts_squares, one.starts_squares);
    }
    let all = loops.values().fold(0_u64, |sum, (_, one)| sum.saturating_add(one.taken));
    let mut found: Vec<SampledLoop> = loops
        .iter()
        .filter(|(_, (place, _))| selection.has_place(*place))
        .map(|((_, head), (place, one))| SampledLoop {
            place: *place,
            head: address(*head),
            taken: one.taken,
            share: share(one, all),
            trip_count: trip_count(one),
        })
        .collect();
    found.sort_by_key(|one| (std::cmp::Reverse(one.taken), one.place));
    found
}

fn share(one: &BranchLoop, all: u64) -> Metric {
    let share = one.taken as f64 / all.max(1) as f64;
    let (low, high) = wilson(share, one.stacks as f64 / share.max(f64::MIN_POSITIVE));
    let interval = (low * 100.0, high * 100.0);
    Metric::with_interval(Evidence::Sampled, share * 100.0, "percent", interval, one.stacks)
}

fn trip_count(one: &BranchLoop) -> Metric {
    if one.decided < FEWEST {
        let why =
            format!("{} branches back show what came before, {FEWEST} are needed", one.decided);
        return Metric::unavailable("count", &why);
    }
    if one.starts == 0 {
        return Metric::unavailable(
            "count",
            "no branch stack shows where a run began: runs are longer than stacks are deep",
        );
    }
    if one.starts < FEWEST_STARTS {
        let why = format!(
            "{} of {} branches back were seen to begin a run, {FEWEST_STARTS} are needed",
            one.starts, one.decided
        );
        return Metric::unavailable("count", &why);
    }
    let (decided, starts) = (one.decided as f64, one.starts as f64);
    let ratio = starts / decided;
    let residuals = one.starts_squares as f64 - 2.0 * ratio * one.products as f64
        + ratio * ratio * one.decided_squares as f64;
    let interval = ratio_interval(ratio, decided, residuals, one.stacks as usize);
    let trips = |ratio: f64| 1.0 + 1.0 / ratio;
    let metric = Metric {
        evidence: Some(Evidence::Sampled),
        samples: one.decided,
        low: interval.map(|(_, high)| trips(high)),
        // Nothing bounds a run that may never have been seen to begin.
        high: interval.map(|(low, _)| trips(low)).filter(|trips| trips.is_finite()),
        ..Metric::counted(trips(ratio), "count")
    };
    match (metric.low, metric.high) {
        (Some(_), Some(_)) => metric,
        _ => Metric { low: None, high: None, ..metric }
            .noted("too few runs were seen to begin for an interval"),
    }
}
