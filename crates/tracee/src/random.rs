//! Random moments and choices.
//!
//! What for: nothing in a program may coincide systematically with its observer. What not: secrets.

use base::Nanos;

/// A generator (xorshift64, Marsaglia 2003): plenty for jitter.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// One whose numbers follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// A number, uniform in 1..2^64.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A time, uniform between half and one and a half of `mean`.
    pub fn around(&mut self, mean: Nanos) -> Nanos {
        Nanos(mean.0 / 2 + self.number() % mean.0.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_follow_from_the_seed() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [(); 4].map(|()| random.number())
        };
        assert_eq!(numbers(6), numbers(6));
        assert_ne!(numbers(6), numbers(8));
        assert!(numbers(0).iter().all(|number| *number != 0));
    }

    #[test]
    fn times_lie_around_their_mean() {
        let mut random = Random::new(3);
        assert!((0..1000).all(|_| (50..150).contains(&random.around(Nanos(100)).0)));
        assert_eq!(random.around(Nanos(0)), Nanos(0));
    }
}
