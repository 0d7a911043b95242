//! Whether a figure of some runs differs from that of others, and by how much.
//!
//! What for: the statistics of `fathom diff`. [`runs`] compares repeated runs, [`paired`] runs that were recorded alternately,
//! [`single`] one run with another by the errors that their figures state. [`holm`] adjusts many such tests.
//! What not: no alignment of functions (that is `report`); no figures are computed here.
//!
//! Assumptions of [`runs`]: runs are independent of each other, and both sides were measured under the same conditions, best
//! alternately: a machine that slows down between the sides is a change like any other. The test is that of Yuen, Biometrika 61
//! (1974) 165-170: Welch's t test (Biometrika 34 (1947) 28-35) on means without the smallest and largest fifth. The number of
//! runs alone decides how much is trimmed, never their values, so trimming adds no false alarms. Below [`TRIM_FROM`] runs
//! nothing is trimmed, and it is Welch's test.

mod paired;
mod single;

pub use paired::{PAIRS_FROM, paired, pairs_in_turn};
pub use single::single;

use estimate::student::{quantile_95, two_sided_p};

/// From this many runs on a fifth of them is trimmed at either end. With fewer, trimming costs more power in quiet
/// surroundings than it gains in noisy ones.
pub const TRIM_FROM: usize = 10;

/// How many of this many runs are trimmed at either end.
fn trimmed(runs: usize) -> usize {
    if runs >= TRIM_FROM { runs / 5 } else { 0 }
}

/// Level of the tests: the share of comparisons without any change in which one is reported.
pub const LEVEL: f64 = 0.05;

/// The runs of one side, as their test sees them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Side {
    /// The (trimmed) mean.
    pub mean: f64,
    /// How many runs.
    pub runs: usize,
    /// Standard deviation between runs, robust where runs are trimmed; 0 with one run.
    pub spread: f64,
    /// Variance of the mean.
    variance: f64,
    /// Degrees of freedom of that variance.
    freedom: f64,
}

impl Side {
    /// `None` without any finite value. `quantum`: figures that are whole multiples of it (counts: 1) are not taken to be
    /// more exact than that, or three equal page counts would be certain.
    #[must_use]
    pub fn of(values: &[f64], quantum: f64) -> Option<Side> {
        let mut sorted: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let trimmed = trimmed(n);
        let kept = sorted.get(trimmed..n - trimmed).filter(|kept| !kept.is_empty())?;
        let mean = kept.iter().sum::<f64>() / kept.len() as f64;
        if n < 2 {
            return Some(Side { mean, runs: n, spread: 0.0, variance: 0.0, freedom: 0.0 });
        }
        // Winsorised: what was trimmed counts as the outermost value that was kept.
        let (least, most) = (kept[0], kept[kept.len() - 1]);
        let winsorised: Vec<f64> = sorted.iter().map(|value| value.clamp(least, most)).collect();
        let centre = winsorised.iter().sum::<f64>() / n as f64;
        let squares: f64 = winsorised.iter().map(|value| (value - centre).powi(2)).sum();
        let h = kept.len() as f64;
        let squares = squares.max(quantum * quantum * (n - 1) as f64);
        let variance = squares / (h * (h - 1.0));
        Some(Side {
            mean,
            runs: n,
            spread: (variance * n as f64).sqrt(),
            variance,
            freedom: h - 1.0,
        })
    }

    /// 95 % interval of the mean by Student's t; `None` with one run.
    #[must_use]
    pub fn interval(&self) -> Option<(f64, f64)> {
        let half = (self.runs > 1).then(|| quantile_95(self.freedom) * self.variance.sqrt())?;
        Some((self.mean - half, self.mean + half))
    }
}

/// What two sides have to do with each other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison {
    /// New minus base.
    pub difference: f64,
    /// Its 95 % interval.
    pub difference_interval: Option<(f64, f64)>,
    /// New over base; `None` for a base of 0.
    pub ratio: Option<f64>,
    /// Its 95 % interval; `None` when the base may well be 0.
    pub ratio_interval: Option<(f64, f64)>,
    /// How often runs without any change would differ as much; `None` when a side has no repeated runs.
    pub p: Option<f64>,
}

/// Compares repeated runs; `None` when a side has fewer than two.
///
/// The interval of the ratio is Fieller's (J. R. Stat. Soc. B 16 (1954) 175-185), with the degrees of freedom of the test:
/// it excludes 1 exactly when the interval of the difference excludes 0.
#[must_use]
pub fn runs(base: &Side, new: &Side) -> Option<Comparison> {
    if base.runs < 2 || new.runs < 2 {
        return None;
    }
    let difference = new.mean - base.mean;
    let variance = base.variance + new.variance;
    let ratio = (base.mean != 0.0).then(|| new.mean / base.mean);
    if variance <= 0.0 {
        return Some(Comparison {
            difference,
            difference_interval: Some((difference, difference)),
            ratio,
            ratio_interval: ratio.map(|ratio| (ratio, ratio)),
            p: Some(if difference == 0.0 { 1.0 } else { 0.0 }),
        });
    }
    // Welch 1947, equation 27 (also: Satterthwaite 1946).
    let freedom = variance.powi(2)
        / (base.variance.powi(2) / base.freedom + new.variance.powi(2) / new.freedom);
    let t = quantile_95(freedom);
    let half = t * variance.sqrt();
    Some(Comparison {
        difference,
        difference_interval: Some((difference - half, difference + half)),
        ratio,
        ratio_interval: fieller(base, new, t),
        p: Some(two_sided_p(difference / variance.sqrt(), freedom)),
    })
}

/// All r for which `new - r base` may be 0: between the roots of a quadratic. `None` when they are no interval.
fn fieller(base: &Side, new: &Side, t: f64) -> Option<(f64, f64)> {
    let t2 = t * t;
    let a = base.mean * base.mean - t2 * base.variance;
    let b = base.mean * new.mean;
    let c = new.mean * new.mean - t2 * new.variance;
    let discriminant = b * b - a * c;
    if a <= 0.0 || discriminant < 0.0 {
        return None;
    }
    let root = discriminant.sqrt();
    Some(((b - root) / a, (b + root) / a))
}

/// Holm's step-down adjustment (Scand. J. Statistics 6 (1979) 65-70): `p` values such that the chance of any of them being
/// below a level, when nothing changed, is at most that level. Whatever the dependence between them.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest = 0.0f64;
    for (rank, at) in order.into_iter().enumerate() {
        largest = largest.max(p[at] * (p.len() - rank) as f64).min(1.0);
        adjusted[at] = largest;
    }
    adjusted
}

/// Runs per side after which a change of `change` is found four times out of five at a level of 5 %, when runs vary by
/// `spread` (standard deviation); both in the same unit. At least 3, for a variance must be estimated too.
///
/// Source: Lehr, Statistics in Medicine 11 (1992) 1099-1102: 16 (spread / change)^2, and one for the estimated variance.
#[must_use]
pub fn runs_to_decide(change: f64, spread: f64) -> Option<u64> {
    let needed = 16.0 * (spread / change).powi(2) + 1.0;
    (needed.is_finite() && needed < 1e6).then(|| (needed.ceil() as u64).max(3))
}

#[cfg(test)]
mod tests;
