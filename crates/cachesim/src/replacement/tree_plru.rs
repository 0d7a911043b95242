//! Tree pseudo-LRU: a binary tree over the ways, with one bit per node for the half with the older line.
//!
//! Assumptions: a touch points all bits on its path away from it; the victim is where the bits lead (Al-Zoubi,
//! Milenkovic and Milenkovic, "Performance evaluation of cache replacement policies", ACM-SE 2004). Abel and Reineke
//! (RTAS 2013) find it in the first level of several Intel processors. A number of ways that is no power of two (12
//! of Golden Cove) uses the lower leaves of the next larger tree; a walk never enters a half without ways.
//!
//! Nodes are numbered as in a heap: root 1, children 2n and 2n + 1; bit n set means that the upper half is older.

/// All sets' trees.
#[derive(Clone, Debug)]
pub struct TreePlru {
    bits: Vec<u32>,
    ways: usize,
    leaves: usize,
}

impl TreePlru {
    /// `ways` up to 32.
    pub fn new(sets: usize, ways: usize) -> TreePlru {
        TreePlru { bits: vec![0; sets], ways, leaves: ways.next_power_of_two() }
    }

    pub fn touched(&mut self, set: usize, way: usize) {
        let mut node = self.leaves + way;
        while node > 1 {
            let parent = node / 2;
            // An even node is the lower half of its parent; now the upper one is older.
            if node.is_multiple_of(2) {
                self.bits[set] |= 1 << parent;
            } else {
                self.bits[set] &= !(1 << parent);
            }
            node = parent;
        }
    }

    pub fn forget(&mut self, set: usize) {
        self.bits[set] = 0;
    }

    pub fn victim(&self, set: usize) -> usize {
        let (mut node, mut low, mut width) = (1, 0, self.leaves);
        while width > 1 {
            width /= 2;
            let upper = (self.bits[set] >> node) & 1 == 1 && low + width < self.ways;
            node = 2 * node + usize::from(upper);
            low += if upper { width } else { 0 };
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classic_example_of_four_ways() {
        let mut tree = TreePlru::new(1, 4);
        for way in [0, 1, 2, 3] {
            tree.touched(0, way);
        }
        assert_eq!(tree.victim(0), 0);
        tree.touched(0, 0);
        // True LRU would take 1; the tree looks into the other half first.
        assert_eq!(tree.victim(0), 2);
    }

    #[test]
    fn no_victim_beyond_the_ways() {
        let mut tree = TreePlru::new(1, 5);
        for step in 0..100 {
            let victim = tree.victim(0);
            assert!(victim < 5, "step {step}: {victim}");
            tree.touched(0, victim);
        }
    }
}
