//! The random part of replicates.
//!
//! What for: each call gives one random number for each replicate. They are evenly spaced quantiles of their distribution, in a
//! random order (Latin hypercube sampling: M. D. McKay, R. J. Beckman, W. J. Conover, "A comparison of three methods for
//! selecting values of input variables", Technometrics 21 (1979) 239-245). So a mean of all is exact, and ends of intervals have
//! little noise. What not: what the numbers are used for.
//!
//! The same seed gives the same numbers on every machine: two reports of one result are alike.

use std::sync::LazyLock;

use base::mixed;

use crate::estimate::REPLICATES;
use crate::interval::Z_95;
use crate::normal;
use crate::parameters::{COMMON, ENDS};

/// From this many degrees of freedom on, the tails are those of a normal distribution: 1.98 instead of 1.96 at 95 %.
const MANY: f64 = 100.0;

/// The quantiles of the normal distribution that its replicates take.
static NORMAL: LazyLock<Vec<f64>> =
    LazyLock::new(|| (0..REPLICATES).map(|at| normal::quantile(share(at))).collect());

/// The middle of one of as many equal parts of 0 to 1 as there are replicates.
fn share(at: usize) -> f64 {
    (at as f64 + 0.5) / REPLICATES as f64
}

/// Gives random numbers.
#[derive(Clone, Debug)]
pub struct Draws {
    seed: u64,
    calls: u64,
    /// The common part of all unknowns, as normal numbers.
    common: Vec<f64>,
}

impl Draws {
    /// The numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Draws {
        let mut draws = Draws { seed, calls: 0, common: Vec::new() };
        draws.common = draws.normal();
        draws
    }

    /// The whole numbers below [`REPLICATES`], in an order of their own.
    fn order(&mut self) -> Vec<usize> {
        self.calls += 1;
        let stream = mixed(self.seed ^ mixed(self.calls));
        let mut order: Vec<usize> = (0..REPLICATES).collect();
        for end in (1..REPLICATES).rev() {
            order.swap(end, (mixed(stream ^ end as u64) % (end as u64 + 1)) as usize);
        }
        order
    }

    /// Evenly between 0 and 1.
    #[must_use]
    pub fn even(&mut self) -> Vec<f64> {
        self.order().into_iter().map(share).collect()
    }

    /// Standard normal numbers.
    #[must_use]
    pub fn normal(&mut self) -> Vec<f64> {
        self.order().into_iter().map(|at| NORMAL[at]).collect()
    }

    /// Factors that make normal numbers those of Student's t: the root of freedom / chi squared. Units whose variance is known
    /// with as many degrees of freedom share one.
    #[must_use]
    pub fn tails(&mut self, freedom: f64) -> Vec<f64> {
        if freedom >= MANY {
            return vec![1.0; REPLICATES];
        }
        // A part of a degree counts for nothing.
        let degrees = (freedom + 1e-6).floor().max(1.0);
        let mut squares = vec![0.0; REPLICATES];
        for _ in 0..degrees as usize {
            let normal = self.normal();
            squares.iter_mut().zip(normal).for_each(|(sum, z)| *sum += z * z);
        }
        squares.into_iter().map(|square| (degrees / square.max(1e-12)).sqrt()).collect()
    }

    /// Where a measured number stands between the ends of its 95 % interval, -1 to 1; in part with all others of these draws
    /// ([`COMMON`]).
    #[must_use]
    pub fn measured(&mut self) -> Vec<f64> {
        self.in_common().map(|z| (z / Z_95).clamp(-1.0, 1.0)).collect()
    }

    /// Where a number stands of which only the ends are known, -1 to 1, anywhere alike; in part with all others of these draws.
    #[must_use]
    pub fn anywhere(&mut self) -> Vec<f64> {
        self.in_common().map(|z| 2.0 * normal::below(z) - 1.0).collect()
    }

    /// Normal numbers that go together in part.
    fn in_common(&mut self) -> impl Iterator<Item = f64> {
        let own = self.normal();
        let mixed = |(own, common): (f64, &f64)| {
            own * (1.0 - COMMON.value).sqrt() + common * COMMON.value.sqrt()
        };
        own.into_iter().zip(&self.common).map(mixed)
    }

    /// Where an unknown stands between its [`crate::Bounds`], -1 to 1; in part with all others ([`COMMON`]). Mostly near an end (the
    /// arcsine distribution): the data of a piece of code mostly is in a cache or is not, and seldom to one half.
    #[must_use]
    pub fn unknown(&mut self) -> Vec<f64> {
        let place = |z| {
            let place = normal::below(z);
            (ENDS.value * (std::f64::consts::PI * (place - 0.5)).sin()).clamp(-1.0, 1.0)
        };
        self.in_common().map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bounds, Estimate};

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_each_call_others() {
        let (mut one, mut other) = (Draws::new(7), Draws::new(7));
        let first = one.normal();
        assert_eq!(first, other.normal());
        assert_ne!(first, one.normal());
        assert_ne!(first, Draws::new(8).normal());
        assert!(mean(&first).abs() < 1e-9);
        let square: Vec<f64> = first.iter().map(|z| z * z).collect();
        assert!((mean(&square) - 1.0).abs() < 0.01);
    }

    /// 95 % of a t with 4 degrees of freedom lie within 2.776.
    #[test]
    fn tails_are_students() {
        let mut draws = Draws::new(3);
        let mut halves = Vec::new();
        for _ in 0..40 {
            let (z, tails) = (draws.normal(), draws.tails(4.9));
            let t = z.iter().zip(&tails).map(|(z, tail)| z * tail).collect();
            let (low, high) = Estimate::new(0.0, t).interval();
            halves.push((high - low) / 2.0);
        }
        assert!((mean(&halves) - 2.776).abs() < 0.12, "{}", mean(&halves));
    }

    #[test]
    fn unknowns_fill_their_bounds_and_go_together_in_part() {
        let mut draws = Draws::new(4);
        let bounds = Bounds { best: 2.0, low: 1.0, high: 5.0 };
        let mut unknown = || draws.unknown();
        let (a, b) = (unknown(), unknown());
        let of = |places: &[f64]| {
            Estimate::new(2.0, places.iter().map(|place| bounds.at(*place)).collect())
        };
        let (low, high) = of(&a).interval();
        assert!((low - 1.0).abs() < 0.02 && (high - 5.0).abs() < 0.05, "{low} {high}");
        let product: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a * b).collect();
        // Their variance is 1/2; their correlation is about that of the normal ones.
        assert!((mean(&product) * 2.0 - COMMON.value).abs() < 0.12, "{}", mean(&product) * 2.0);
    }
}
