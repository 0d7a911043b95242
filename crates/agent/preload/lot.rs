//! Which small blocks get a record: drawn at random, so that every byte has the same probability.
//!
//! What not: large blocks, all of which have one. The bytes between two draws have an exponential distribution (a
//! Poisson process over bytes allocated). A block of `size` bytes is then drawn with probability 1 - exp(-size /
//! every), independent of earlier draws; dividing by it gives unbiased sums (Horvitz and Thompson, 1952).

/// Bytes until the next draw, `every` on average; for 0 there is no draw.
pub fn next(random: &mut u64, every: u64) -> i64 {
    if every == 0 {
        return i64::MAX;
    }
    // Whole multiples and a fraction of `every`: see `exponential`.
    let (whole, fraction) = exponential(random);
    let part = ((u128::from(fraction) * u128::from(every)) >> 64) as u64;
    i64::try_from(whole.saturating_mul(every).saturating_add(part)).unwrap_or(i64::MAX)
}

/// An exponentially distributed number with mean 1, in whole and 2^-64 parts, by comparisons alone: runs of falling
/// random numbers (J. von Neumann, "Various techniques used in connection with random digits", 1951). It needs no
/// logarithm, for which the program might have to load a library.
fn exponential(random: &mut u64) -> (u64, u64) {
    let mut whole = 0;
    loop {
        let first = uniform(random);
        let mut last = first;
        let mut odd = true;
        loop {
            let number = uniform(random);
            if number >= last {
                break;
            }
            last = number;
            odd = !odd;
        }
        if odd {
            return (whole, first);
        }
        whole += 1;
    }
}

/// Xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016).
fn uniform(random: &mut u64) -> u64 {
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    random.wrapping_mul(0x2545_F491_4F6C_DD1D)
}
