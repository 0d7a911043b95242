//! Which way of a full set is evicted. All policies share the recency order, because it gives the depths of hits;
//! they differ in the victim only.
//!
//! Assumption of all: ways that hold no line are filled first: those whose line was taken out, the one touched longest ago
//! first, then those that never held one, the lowest first. In a burst these stand for the ways with
//! unknown contents: so no line of the burst leaves before its set has seen as many lines as it has ways. For
//! LRU that is exact; for the others it is an approximation, as old contents may outlive a line of the burst.

mod random;
pub mod recency;
mod tree_plru;

use crate::config::Replacement;

use self::random::Random;
use self::tree_plru::TreePlru;

/// A policy with its state.
#[derive(Clone, Debug)]
pub enum Policy {
    /// Only the recency order.
    Lru,
    /// A tree per set.
    TreePlru(TreePlru),
    /// A random sequence.
    Random(Random),
}

impl Policy {
    pub fn new(kind: Replacement, sets: usize, ways: usize) -> Policy {
        match kind {
            Replacement::Lru => Policy::Lru,
            Replacement::TreePlru => Policy::TreePlru(TreePlru::new(sets, ways)),
            Replacement::Random => Policy::Random(Random::new()),
        }
    }

    /// A line of the set was touched.
    #[inline]
    pub fn touched(&mut self, set: usize, way: usize) {
        if let Policy::TreePlru(tree) = self {
            tree.touched(set, way);
        }
    }

    /// The set starts anew.
    #[inline]
    pub fn forget(&mut self, set: usize) {
        if let Policy::TreePlru(tree) = self {
            tree.forget(set);
        }
    }

    /// Whether the least recently touched way leaves.
    #[inline]
    pub fn is_lru(&self) -> bool {
        matches!(self, Policy::Lru)
    }

    /// Who leaves the full set; `oldest` is its least recently touched way.
    pub fn victim(&mut self, set: usize, ways: usize, oldest: usize) -> usize {
        match self {
            Policy::Lru => oldest,
            Policy::TreePlru(tree) => tree.victim(set),
            Policy::Random(random) => random.below(ways),
        }
    }
}
