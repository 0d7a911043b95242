//! A number with its replicates.
//!
//! What for: arithmetic and intervals of uncertain numbers (see the head of the crate). What not: how replicates are drawn
//! (`draws`).
//!
//! Assumption: the 2.5 and 97.5 % quantiles of the replicates are the ends of the interval. Replicates of few units are drawn
//! with Student's tails, and each random part takes evenly spaced quantiles ([`crate::Draws`]), so that 256 suffice: the ends of
//! a normal number are within 1 % of their true position.

use std::ops::{Add, Div, Mul, Sub};

/// How many replicates an estimate has.
pub const REPLICATES: usize = 256;

/// Replicates of a Poisson count: its bounds at each of these normal numbers. Those at 2.5 and 97.5 % are `interval::poisson`'s.
#[must_use]
pub fn poisson_replicates(count: f64, normal: &[f64]) -> Vec<f64> {
    normal.iter().map(|z| crate::interval::poisson_at(count, *z)).collect()
}

/// Outside of the interval on either side.
const TAIL: f64 = 0.025;

/// A number, and what it would have been had chance dealt otherwise.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    point: f64,
    /// None for a number without doubt.
    replicates: Vec<f64>,
}

impl Estimate {
    /// A number without doubt.
    #[must_use]
    pub const fn exactly(point: f64) -> Estimate {
        Estimate { point, replicates: Vec::new() }
    }

    /// From its replicates: [`REPLICATES`] of them.
    #[must_use]
    pub fn new(point: f64, replicates: Vec<f64>) -> Estimate {
        debug_assert_eq!(replicates.len(), REPLICATES);
        Estimate { point, replicates }
    }

    /// The best single value.
    #[must_use]
    pub const fn point(&self) -> f64 {
        self.point
    }

    /// One of its replicates.
    #[must_use]
    pub fn replicate(&self, at: usize) -> f64 {
        self.replicates.get(at).copied().unwrap_or(self.point)
    }

    /// Where it lies with 95 %. The point is in it.
    #[must_use]
    pub fn interval(&self) -> (f64, f64) {
        // A replicate that divides 0 by 0 has no value: it says nothing about where the number lies.
        let mut known: Vec<f64> =
            self.replicates.iter().copied().filter(|one| !one.is_nan()).collect();
        if known.is_empty() {
            return (self.point, self.point);
        }
        let mut at = |share: f64| {
            let place = (share * known.len() as f64 - 0.5).clamp(0.0, (known.len() - 1) as f64);
            let (rank, part) = (place.floor() as usize, place.fract());
            let (_, below, higher) = known.select_nth_unstable_by(rank, f64::total_cmp);
            let below = *below;
            let above = higher.iter().copied().min_by(f64::total_cmp).unwrap_or(below);
            // Infinite neighbours have no middle.
            if part == 0.0 || below == above { below } else { below + (above - below) * part }
        };
        // The point of a skewed number may lie outside its quantiles.
        (at(TAIL).min(self.point), at(1.0 - TAIL).max(self.point))
    }

    /// The same; `None` where no replicate has a value, so that nothing is known but the point.
    #[must_use]
    pub fn known_interval(&self) -> Option<(f64, f64)> {
        let known = self.replicates.is_empty() || self.replicates.iter().any(|one| !one.is_nan());
        known.then(|| self.interval())
    }

    /// How likely it is that this holds for the number, 0 to 1.
    #[must_use]
    pub fn probability(&self, holds: impl Fn(f64) -> bool) -> f64 {
        match self.replicates.len() {
            0 => f64::from(u8::from(holds(self.point))),
            all => self.replicates.iter().filter(|one| holds(**one)).count() as f64 / all as f64,
        }
    }

    /// The number and each replicate by a function.
    #[must_use]
    pub fn map(mut self, part: impl Fn(f64) -> f64) -> Estimate {
        self.point = part(self.point);
        self.replicates.iter_mut().for_each(|one| *one = part(*one));
        self
    }

    /// Several of them by a function.
    #[must_use]
    pub fn of<const N: usize>(parts: [&Estimate; N], part: impl Fn([f64; N]) -> f64) -> Estimate {
        // A certain number has no replicates: it enters each with its point.
        let all = parts.iter().map(|one| one.replicates.len()).max().unwrap_or(0);
        let at = |at: usize| part(parts.map(|one| one.replicate(at)));
        let replicates = (0..all).map(at).collect();
        Estimate { point: part(parts.map(|one| one.point)), replicates }
    }

    /// Two of them by a function.
    #[must_use]
    pub fn with(mut self, other: &Estimate, part: impl Fn(f64, f64) -> f64) -> Estimate {
        // A certain number has no replicates: it enters each with its point.
        if self.replicates.is_empty() {
            self.replicates = vec![self.point; other.replicates.len()];
        }
        self.point = part(self.point, other.point);
        if other.replicates.is_empty() {
            self.replicates.iter_mut().for_each(|one| *one = part(*one, other.point));
        } else {
            let both = self.replicates.iter_mut().zip(&other.replicates);
            both.for_each(|(one, other)| *one = part(*one, *other));
        }
        self
    }

    /// The smaller of two.
    #[must_use]
    pub fn min(self, other: &Estimate) -> Estimate {
        self.with(other, f64::min)
    }
}

impl Add<&Estimate> for Estimate {
    type Output = Estimate;
    fn add(self, other: &Estimate) -> Estimate {
        self.with(other, |a, b| a + b)
    }
}

impl Sub<&Estimate> for Estimate {
    type Output = Estimate;
    fn sub(self, other: &Estimate) -> Estimate {
        self.with(other, |a, b| a - b)
    }
}

impl Mul<&Estimate> for Estimate {
    type Output = Estimate;
    fn mul(self, other: &Estimate) -> Estimate {
        self.with(other, |a, b| a * b)
    }
}

impl Div<&Estimate> for Estimate {
    type Output = Estimate;
    fn div(self, other: &Estimate) -> Estimate {
        self.with(other, |a, b| a / b)
    }
}

impl Mul<f64> for Estimate {
    type Output = Estimate;
    fn mul(self, factor: f64) -> Estimate {
        self.map(|one| one * factor)
    }
}

impl Div<f64> for Estimate {
    type Output = Estimate;
    fn div(self, by: f64) -> Estimate {
        self.map(|one| one / by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    #[test]
    fn a_number_without_doubt_is_its_interval() {
        let three = Estimate::exactly(3.0);
        assert_eq!((three.interval(), three.point()), ((3.0, 3.0), 3.0));
        assert_eq!(three.probability(|one| one > 2.0), 1.0);
        assert_eq!((three / &Estimate::exactly(2.0)).interval(), (1.5, 1.5));
    }

    #[test]
    fn the_interval_of_a_normal_number_is_the_textbooks() {
        let mut draws = Draws::new(1);
        let normal = Estimate::new(10.0, draws.normal().iter().map(|z| 10.0 + z).collect());
        let (low, high) = normal.interval();
        assert!((low - 8.04).abs() < 0.02 && (high - 11.96).abs() < 0.02, "{low} {high}");
        assert!((normal.probability(|one| one > 11.0) - 0.1587).abs() < 0.01);
    }

    /// What two have in common cancels; what they do not adds up by squares.
    #[test]
    fn a_number_divided_by_itself_is_certain() {
        let mut draws = Draws::new(2);
        let mut one = || Estimate::new(5.0, draws.normal().iter().map(|z| 5.0 + 0.3 * z).collect());
        let (a, b) = (one(), one());
        assert_eq!((a.clone() / &a).interval(), (1.0, 1.0));
        let (low, high) = (a - &b).interval();
        assert!((high - low - 2.0 * 1.96 * 0.3 * 2f64.sqrt()).abs() < 0.15, "{low} {high}");
    }

    #[test]
    fn replicates_of_a_count_have_the_poisson_interval() {
        for count in [0.0, 1.0, 7.0, 400.0] {
            let replicates = poisson_replicates(count, &Draws::new(3).normal());
            let ((low, high), (l, h)) =
                (Estimate::new(count, replicates).interval(), crate::interval::poisson(count));
            assert!((low - l).abs() < 0.1 && (high - h).abs() < 0.01 * h + 0.05, "{low} {high}");
        }
    }

    #[test]
    fn infinite_and_missing_replicates_do_no_harm() {
        let mut values = vec![1.0; REPLICATES];
        values[..20].fill(f64::INFINITY);
        values[20] = f64::NAN;
        assert_eq!(Estimate::new(1.0, values).interval(), (1.0, f64::INFINITY));
        assert_eq!(Estimate::new(1.0, vec![f64::NAN; REPLICATES]).interval(), (1.0, 1.0));
    }
}
