//! Stack distances: how many other keys were touched since a key was touched last.
//!
//! What for: a fully associative cache of n lines that evicts the least recently used line holds a line exactly when its stack
//! distance is below n (Mattson, Gecsei, Slutz, Traiger, "Evaluation techniques for storage hierarchies", IBM Systems Journal 9,
//! 1970). Callers only ask which of a few capacities hold a line, so the stack is a list with a mark at each capacity. A touch
//! moves the key to the top, and moves each mark that it passes by one entry. That costs one step per passed mark, where a tree
//! over time stamps costs the logarithm of all keys at every touch, also at the top.
//!
//! ```text
//! top -> a b c | d e | f g h i      two marks, at c and e: 3 keys in segment 0, 2 in segment 1
//! touch g: distance 6, segment 2
//! top -> g a b | c d | e f h i
//! ```
//! Many keys are sampled by hash (SHARDS: Waldspurger, Park, Garthwaite, Ahmad, FAST 2015): one key in 2^s is followed,
//! and capacities are divided by 2^s. The sample is halved whenever more keys than [`MOST_KEYS`] are followed.
//! What not: sets and ways, other policies.

use base::{IndexMap, IndexSet};

/// Most keys that are followed: 2 MB of lines without sampling, and a few MB of memory.
pub(super) const MOST_KEYS: usize = 1 << 15;

/// A set of lines or pages.
pub(super) type KeySet = IndexSet<u64>;

/// No node.
const NONE: u32 = u32::MAX;

/// What a touch found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Distance {
    /// The distance lies in this segment: 0 below the first capacity, as many as there are capacities above the last.
    Again(usize),
    /// The first touch: the distance is not known, but at least as large as the first capacity of this segment.
    First(usize),
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    newer: u32,
    older: u32,
    segment: u32,
}

/// The stack.
#[derive(Debug)]
pub(super) struct LruStack {
    /// Rising, in keys, at least 1.
    capacities: Vec<usize>,
    /// The same for the keys that are followed.
    scaled: Vec<usize>,
    /// For each capacity the deepest node within it, once there are that many nodes.
    marks: Vec<u32>,
    nodes: Vec<Node>,
    known: IndexMap<u64, u32>,
    top: u32,
    bottom: u32,
    /// One key in 2^this is followed.
    shift: u32,
    most_keys: usize,
}

impl LruStack {
    /// `capacities` rise and are at least 1.
    pub(super) fn new(capacities: Vec<usize>, most_keys: usize) -> LruStack {
        let mut stack = LruStack {
            scaled: Vec::new(),
            marks: Vec::new(),
            nodes: Vec::new(),
            known: IndexMap::default(),
            top: NONE,
            bottom: NONE,
            shift: 0,
            capacities,
            most_keys,
        };
        stack.clear();
        stack
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.shift = 0;
        self.empty();
    }

    fn empty(&mut self) {
        self.nodes.clear();
        self.known.clear();
        self.marks.clear();
        (self.top, self.bottom) = (NONE, NONE);
        self.scaled.clear();
        let mut last = 0;
        for capacity in &self.capacities {
            // Marks at one place would need an order of their own.
            last = (capacity >> self.shift).max(last + 1);
            self.scaled.push(last);
        }
    }

    /// Whether a key is followed.
    pub(super) fn follows(&self, key: u64) -> bool {
        self.shift == 0 || mixed(key) >> (64 - self.shift) == 0
    }

    /// For how many keys a followed one stands.
    pub(super) fn weight(&self) -> f64 {
        (1u64 << self.shift) as f64
    }

    /// Keys touched; exact when all are followed.
    pub(super) fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.nodes.iter().map(|node| node.key)
    }

    /// Touches a key that is followed.
    pub(super) fn touch(&mut self, key: u64) -> Distance {
        if self.nodes.get(self.top as usize).is_some_and(|top| top.key == key) {
            return Distance::Again(0);
        }
        match self.known.get(&key) {
            Some(&node) => Distance::Again(self.raise(node)),
            None => {
                let segment = self.add(key);
                if self.nodes.len() > self.most_keys {
                    self.halve();
                }
                Distance::First(segment)
            }
        }
    }

    /// Moves a node that is not the top to the top; returns the segment where it was.
    fn raise(&mut self, number: u32) -> usize {
        let Node { newer, older, segment, .. } = self.nodes[number as usize];
        let segment = segment as usize;
        // It was the deepest node of its segment; now its neighbour is.
        if self.marks.get(segment) == Some(&number) {
            self.marks[segment] = newer;
        }
        self.nodes[newer as usize].older = older;
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.bottom = newer,
        }
        self.put_on_top(number);
        // Each segment above got a node on top, and hands its deepest one down.
        (0..segment).for_each(|mark| self.push_down(mark));
        segment
    }

    /// Adds a key on top; returns the number of capacities that its distance exceeds at least.
    fn add(&mut self, key: u64) -> usize {
        let number = self.nodes.len() as u32;
        self.nodes.push(Node { key, newer: NONE, older: NONE, segment: 0 });
        self.known.insert(key, number);
        if self.bottom == NONE {
            self.bottom = number;
        }
        self.put_on_top(number);
        let filled = self.marks.len();
        (0..filled).for_each(|mark| self.push_down(mark));
        if self.scaled.get(filled) == Some(&self.nodes.len()) {
            self.marks.push(self.bottom);
        }
        filled
    }

    fn put_on_top(&mut self, number: u32) {
        let old = self.top;
        let node = &mut self.nodes[number as usize];
        (node.newer, node.older, node.segment) = (NONE, old, 0);
        if let Some(old) = self.nodes.get_mut(old as usize) {
            old.newer = number;
        }
        self.top = number;
    }

    /// The deepest node of a segment goes to the next.
    fn push_down(&mut self, mark: usize) {
        let node = &mut self.nodes[self.marks[mark] as usize];
        node.segment += 1;
        self.marks[mark] = node.newer;
    }

    /// Follows half of the keys from now on.
    fn halve(&mut self) {
        let mut kept = Vec::with_capacity(self.nodes.len() / 2);
        self.shift += 1;
        let mut at = self.bottom;
        while let Some(node) = self.nodes.get(at as usize) {
            if self.follows(node.key) {
                kept.push(node.key);
            }
            at = node.newer;
        }
        self.empty();
        for key in kept {
            self.add(key);
        }
    }
}

/// The finaliser of MurmurHash3 (Appleby, public domain): every bit depends on every other, so that keys at regular
/// distances are not sampled at regular ones.
fn mixed(key: u64) -> u64 {
    let key = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let key = (key ^ key >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ key >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern (Knuth's MMIX linear congruential generator).
    fn scattered(seed: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(seed), |state| {
            Some(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407),
            )
        })
        .skip(1)
        .map(|state| state >> 33)
    }

    /// The stack as a vector, which needs no thought.
    struct Naive(Vec<u64>);

    impl Naive {
        fn touch(&mut self, key: u64, capacities: &[usize]) -> Distance {
            let found = self.0.iter().rev().position(|known| *known == key);
            let segment = |depth: usize| capacities.iter().filter(|one| **one <= depth).count();
            let distance = match found {
                Some(depth) => {
                    let at = self.0.len() - 1 - depth;
                    self.0.remove(at);
                    Distance::Again(segment(depth))
                }
                None => Distance::First(segment(self.0.len())),
            };
            self.0.push(key);
            distance
        }
    }

    #[test]
    fn every_distance_is_that_of_a_plain_list() {
        for capacities in [vec![1], vec![1, 2, 3], vec![2, 5, 6, 40], vec![8, 11, 16, 64, 300]] {
            let mut stack = LruStack::new(capacities.clone(), MOST_KEYS);
            for round in 0..3 {
                let mut naive = Naive(Vec::new());
                stack.clear();
                for (number, random) in scattered(round).take(3000).enumerate() {
                    // Hot keys, a slowly moving window, and a far range.
                    let key = match random % 4 {
                        0 => random / 4 % 3,
                        1 | 2 => 100 + number as u64 / 50 + random / 4 % 10,
                        _ => 1000 + random / 4 % 200,
                    };
                    let expected = naive.touch(key, &capacities);
                    assert_eq!(stack.touch(key), expected, "{capacities:?} {number}");
                }
            }
        }
    }

    /// Cyclic walks over n keys have distance n - 1: sampling must find it near there.
    #[test]
    fn a_sample_of_keys_tells_the_distance() {
        for (keys, expected) in [(3_000u64, 1), (6_000, 2), (12_000, 3)] {
            let mut stack = LruStack::new(vec![2_000, 4_000, 8_000], 500);
            let mut found = [0.0; 4];
            for key in (0..4).flat_map(|_| 0..keys) {
                if stack.follows(key)
                    && let Distance::Again(segment) = stack.touch(key)
                {
                    found[segment] += stack.weight();
                }
            }
            assert!(stack.weight() >= 8.0, "it was sampled");
            let all: f64 = found.iter().sum();
            assert!(found[expected] / all > 0.99, "{keys} keys: {found:?}");
            assert!((all / (3.0 * keys as f64) - 1.0).abs() < 0.2, "{keys} keys: {all}");
        }
    }
}
