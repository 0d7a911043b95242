//! Cache replacement policies: which way of a full set is evicted.
//!
//! What for: all policies share the recency order, because it gives the depths of hits; they differ in the victim
//! only. What not: look-ups and fills (`sets`).
//!
//! Assumption of all: ways without a line are filled first. Those whose line was removed come first, the one touched
//! longest ago before the others; then those that never held one, lowest first. In a burst these stand for the ways
//! with unknown contents, so no line of the burst leaves before its set has seen as many lines as it has ways. For
//! LRU that is exact. For the others it is an approximation, because old contents may outlive a line of the burst.

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

    /// The set is reset.
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

    /// The way to evict from the full set; `oldest` is its least recently touched way.
    pub fn victim(&mut self, set: usize, ways: usize, oldest: usize) -> usize {
        match self {
            Policy::Lru => oldest,
            Policy::TreePlru(tree) => tree.victim(set),
            Policy::Random(random) => random.below(ways),
        }
    }
}
