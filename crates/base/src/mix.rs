//! Mixes the bits of a number, for hashes and pseudo-random choices.
//!
//! What not: secrets, and hashes of keys that an attacker chooses.

/// A bijection in which every bit of the result depends on every bit of `number` (splitmix64: Steele et al., Fast
/// splittable pseudorandom number generators, OOPSLA 2014).
#[must_use]
pub fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first two numbers of the generator with seed 0, as its reference implementation prints them.
    #[test]
    fn it_is_splitmix64() {
        assert_eq!(mixed(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mixed(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }
}
