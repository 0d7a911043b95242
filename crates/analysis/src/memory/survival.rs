//! How often accesses miss a cache whose contents were unknown when the trace began.
//!
//! What for: in a set of a cache, a line has a *depth*: the number of other lines of the set used since its last use. A trace that
//! begins somewhere has the depth of a line that it touched before. For other lines it only has a lower bound, the number of
//! lines in that set so far (*age*). That is right-censored data, for which the estimator of Kaplan and Meier is the
//! maximum-likelihood one: the probability to be deeper than d is the product over all depths up to d of
//! (1 - found at it / those at risk).
//! What not: depths that no observation reached. There the probability stays open, and the caller must supply an assumption.
//!
//! Source: E. L. Kaplan, P. Meier, "Nonparametric estimation from incomplete observations", J. Am. Stat. Assoc. 53 (1958)
//! 457-481. That a set is full before its misses count: D. A. Wood, M. D. Hill, R. E. Kessler, "A model for estimating
//! trace-sample miss ratios", SIGMETRICS 1991.
//!
//! Assumptions: the contents of the cache at the start do not depend on the length of the trace; replacement is LRU.

use cachesim::{DEPTHS, LevelTally};

/// Fewer at risk say nothing about a depth.
const FEWEST: u64 = 20;

/// The probability of a miss that remains after each age.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Survival {
    /// Probability that an access deeper than `age` lines is deeper than all depths that were observed.
    behind: Vec<f64>,
    /// Depths that were observed; below the number of ways the rest is open.
    observed: usize,
    ways: usize,
}

impl Survival {
    /// From the outcomes at one site, for a level with `ways` ways (at most [`DEPTHS`] count).
    pub(crate) fn of(outcomes: &LevelTally, ways: usize) -> Survival {
        let ways = ways.min(DEPTHS);
        let unknown = &outcomes.absent.unknown;
        // At depth d those are at risk that are found there or deeper, miss, or were censored after it.
        let mut at_risk: Vec<u64> = vec![0; ways];
        let mut sum = outcomes.absent.misses;
        for depth in (0..ways).rev() {
            sum += outcomes.hits[depth] + unknown[depth + 1];
            at_risk[depth] = sum;
        }
        let observed = at_risk.iter().position(|count| *count < FEWEST).unwrap_or(ways);
        let mut behind = vec![1.0; ways + 1];
        for depth in (0..observed).rev() {
            let hazard = outcomes.hits[depth] as f64 / at_risk[depth] as f64;
            behind[depth] = behind[depth + 1] * (1.0 - hazard);
        }
        Survival { behind, observed, ways }
    }

    /// Whether depths up to the number of ways were observed.
    pub(crate) fn is_closed(&self) -> bool {
        self.observed == self.ways
    }

    /// The chance that an access of unknown outcome at this age missed, if `open` is the chance of one that is deeper than
    /// every observed depth.
    pub(crate) fn miss(&self, age: usize, open: f64) -> f64 {
        let age = age.min(self.ways);
        let chance = self.behind[age.min(self.observed)];
        if self.observed < self.ways { chance * open } else { chance }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_ups(hits: &[u64], unknown: &[u64], misses: u64) -> LevelTally {
        let mut tally = LevelTally::default();
        tally.hits[..hits.len()].copy_from_slice(hits);
        tally.absent.unknown[..unknown.len()].copy_from_slice(unknown);
        tally.absent.misses = misses;
        tally
    }

    #[test]
    fn without_unknown_outcomes_it_is_the_plain_miss_ratio() {
        let survival = Survival::of(&look_ups(&[50, 30], &[], 20), 2);
        assert_eq!(survival.observed, survival.ways);
        assert!((survival.miss(0, 1.0) - 0.2).abs() < 1e-12);
        assert!((survival.miss(1, 1.0) - 0.4).abs() < 1e-12);
        assert_eq!(survival.miss(2, 1.0), 1.0);
    }

    /// By hand: at depth 0 at risk 100 + 40 + 60 (those censored at age 0 say nothing), 100 found: 1/2 left. At depth 1
    /// at risk 40 + 20, 40 found: a third left.
    #[test]
    fn censored_ones_count_as_long_as_they_were_at_risk() {
        let survival = Survival::of(&look_ups(&[100, 40], &[7, 40], 20), 2);
        assert!((survival.miss(0, 1.0) - 0.5 / 3.0).abs() < 1e-12, "{survival:?}");
        assert!((survival.miss(1, 1.0) - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn depths_that_no_burst_reached_stay_open() {
        let survival = Survival::of(&look_ups(&[0, 0], &[1000, 500, 100], 0), 16);
        assert_eq!(survival.observed, 2);
        assert_eq!(
            (survival.miss(0, 0.0), survival.miss(0, 1.0), survival.miss(2, 0.25)),
            (0.0, 1.0, 0.25)
        );
        assert_eq!(Survival::of(&LevelTally::default(), 8).miss(3, 0.5), 0.5);
    }
}
