//! A hash map for keys of a few words: indices that we hand out, and addresses of the observed program.
//!
//! What for: one multiplication per word spreads such keys well enough, at a fifth of the cost of the standard hash, which
//! dominates sums over 100,000 samples, and the work per sample while a program runs. A hostile program could only make
//! its own profile slow. What not: keys that a file chooses (ids, names): those keep the standard hash, in which a file
//! cannot provoke collisions.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map with such keys.
pub type IndexMap<K, V> = HashMap<K, V, BuildHasherDefault<IndexHasher>>;

/// A set of such keys.
pub type IndexSet<K> = HashSet<K, BuildHasherDefault<IndexHasher>>;

/// Rotates and multiplies, one step per integer. The factor is 2^64 divided by the golden ratio, made odd
/// (Knuth, The Art of Computer Programming 3, section 6.4).
#[derive(Default)]
pub struct IndexHasher(u64);

impl IndexHasher {
    fn mix(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(26) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for IndexHasher {
    fn finish(&self) -> u64 {
        // The map takes its bucket from the low bits, which a product mixes least.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hash;

    #[test]
    fn dense_keys_spread_over_the_buckets() {
        let mut buckets = vec![0u32; 1024];
        for thread in 0u32..4 {
            for node in 0u32..4096 {
                let mut hasher = IndexHasher::default();
                (thread, Some(node), false).hash(&mut hasher);
                buckets[(hasher.finish() % 1024) as usize] += 1;
            }
        }
        let (least, most) = (buckets.iter().min(), buckets.iter().max());
        assert!(least >= Some(&4) && most <= Some(&48), "16 on average: {least:?} {most:?}");
    }
}
