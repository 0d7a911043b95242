//! Random replacement.
//!
//! Assumption: a victim is drawn uniformly from all ways, independent of the past; real caches use a counter or a
//! shift register (Arm Cortex-A53 TRM, 6.1). The sequence is Marsaglia's xorshift64 (Journal of Statistical Software
//! 8(14), 2003) from a fixed seed: an analysis must be reproducible.

/// The sequence.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        Random(0x9e37_79b9_7f4a_7c15)
    }

    /// A number below `bound`, which is small: the bias of one in 2^32 / `bound` does not matter.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * bound as u64) >> 32) as usize
    }
}
