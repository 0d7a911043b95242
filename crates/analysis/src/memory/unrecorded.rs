//! How much of a function's time goes to loops that access no memory, and so leave no records in bursts.
//!
//! What for: a burst that ran such a loop has time that its records do not explain. Without this it would count as waiting for
//! memory. Samples show the share of such loops in the time of a function and its callees.
//! What not: a lower bound of the core time. An instruction in such a loop may be the first that needs an earlier load, and then
//! a sample there is a wait.

use std::collections::{HashMap, HashSet};

use crate::profile::Profile;
use crate::stack::{FunctionId, NodeIndex};
use crate::traced::TracedCode;
use crate::weight::Weight;

/// A share of time: likely, and at most. 0 to 1.
type Share = (f64, f64);

/// Shares of time by compiled function; only of those that have any.
#[derive(Debug, Default)]
pub(super) struct Unrecorded {
    shares: HashMap<FunctionId, Share>,
}

impl Unrecorded {
    pub(super) fn read(profile: &Profile<'_>, code: &TracedCode) -> Unrecorded {
        let leaves = leaves(profile, code);
        if leaves.is_empty() {
            return Unrecorded::default();
        }
        let mut sums: HashMap<FunctionId, (Weight, Weight)> = HashMap::new();
        for cell in profile.stack_cells().iter().filter(|cell| !cell.kernel) {
            let is_unrecorded = cell.stack.is_some_and(|node| leaves.contains(&node));
            let places = profile.stacks.frames(cell.stack);
            let places = places.map(|place| profile.stacks.places[place.index()]);
            let functions: HashSet<FunctionId> =
                places.filter(|place| !place.inlined).map(|place| place.function).collect();
            for function in functions {
                let (unrecorded, all) = sums.entry(function).or_default();
                all.merge(&cell.weight);
                if is_unrecorded {
                    unrecorded.merge(&cell.weight);
                }
            }
        }
        let shares = sums.into_iter().filter(|(_, (unrecorded, _))| !unrecorded.is_empty());
        Unrecorded {
            shares: shares.map(|(of, (unrecorded, all))| (of, share(&unrecorded, &all))).collect(),
        }
    }

    /// Share of the time in a function and its callees.
    pub(super) fn share(&self, function: FunctionId) -> Share {
        self.shares.get(&function).copied().unwrap_or((0.0, 0.0))
    }
}

/// At most: two standard deviations of a count (Poisson), and three for a small one.
fn share(unrecorded: &Weight, all: &Weight) -> Share {
    let best = unrecorded.amount() as f64 / all.amount().max(1) as f64;
    let count = unrecorded.records() as f64;
    let error = (3.0 + 2.0 * count.sqrt()) / all.records().max(1) as f64;
    (best, (best + error).min(1.0))
}

/// Stacks whose innermost instruction is in such a loop.
fn leaves(profile: &Profile<'_>, code: &TracedCode) -> HashSet<NodeIndex> {
    let unrecorded = code.unrecorded_loops();
    if unrecorded.is_empty() {
        return HashSet::new();
    }
    let nodes = profile.recording.stack_nodes.iter();
    let inside = nodes.filter(|node| unrecorded.contains(&node.code_address()));
    inside.filter_map(|node| profile.stacks.find(node.id)).collect()
}
