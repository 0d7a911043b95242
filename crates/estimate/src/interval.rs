//! 95 % intervals for shares, counts, medians and ratios in closed form.
//!
//! What not: estimates with replicates (`estimate`).
//! Assumption: observations are independent. Clock samples are a systematic sample in time; for a program that does not run in
//! step with the clock these intervals are slightly too wide, never too narrow.

use crate::student::quantile_95;

/// Two-sided 95 % quantile of the normal distribution.
pub const Z_95: f64 = 1.959_963_984_540_054;

/// Wilson score interval for a share observed as `share` (0..=1) in `n` independent observations.
///
/// Unlike `p ± z·sqrt(p(1-p)/n)` it stays inside 0..=1 and says something useful at 0 and 1.
/// `n` may be fractional (an effective sample size). `n <= 0` gives (0, 1): nothing is known.
///
/// Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
/// J. Am. Stat. Assoc. 22 (1927) 209-212; recommended by Newcombe, Statistics in Medicine 17 (1998) 857-872.
#[must_use]
pub fn wilson(share: f64, n: f64) -> (f64, f64) {
    if !(n > 0.0 && share.is_finite()) {
        return (0.0, 1.0);
    }
    let p = share.clamp(0.0, 1.0);
    let z2 = Z_95 * Z_95;
    let centre = p + z2 / (2.0 * n);
    let spread = Z_95 * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z2 / n;
    // At p = 0 and 1 the exact bound is 0 and 1; rounding must not move it.
    let low = if p == 0.0 { 0.0 } else { ((centre - spread) / scale).max(0.0) };
    let high = if p == 1.0 { 1.0 } else { ((centre + spread) / scale).min(1.0) };
    (low, high)
}

/// Interval for the mean of a Poisson distribution of which `count` events were seen.
///
/// Byar's approximation to the exact (Garwood 1936) limits, within 1 % of them from 5 events on. `count` may be
/// fractional (an effective count). Zero events give (0, 3.7).
///
/// Source: Breslow and Day, "Statistical Methods in Cancer Research", vol. II (IARC 1987), p. 69.
#[must_use]
pub fn poisson(count: f64) -> (f64, f64) {
    (poisson_at(count, -Z_95), poisson_at(count, Z_95))
}

/// The same at any quantile `z` of the normal distribution, of which a negative one gives the lower bound.
pub(crate) fn poisson_at(count: f64, z: f64) -> f64 {
    let count = if count.is_finite() { count.max(0.0) } else { 0.0 };
    let bound = |n: f64| n * (1.0 - 1.0 / (9.0 * n) + z / (3.0 * n.sqrt())).powi(3);
    if z > 0.0 {
        bound(count + 1.0)
    } else if count < 1.0 {
        0.0
    } else {
        bound(count).max(0.0)
    }
}

/// How many equal observations carry as much information as weighted ones with these sums:
/// `(sum of w)^2 / sum of w^2`. Equal to the number of observations when all weights are the same.
///
/// Source: L. Kish, "Survey Sampling" (Wiley 1965), section 8.2.
#[must_use]
pub fn effective_count(sum: f64, sum_of_squares: f64) -> f64 {
    if sum_of_squares > 0.0 { sum * sum / sum_of_squares } else { 0.0 }
}

/// Interval for the median of the distribution from which `sorted` was drawn, by order statistics: the k-th smallest
/// and the k-th largest value, with the largest k for which less than 2.5 % of all draws of this size have fewer than k
/// values below the median. `None` below 6 values: then even the whole range covers the median in less than 95 %.
///
/// Source: W. J. Conover, "Practical Nonparametric Statistics" (3rd ed., Wiley 1999), section 3.2.
#[must_use]
pub fn median_interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let n = sorted.len();
    if n < 6 {
        return None;
    }
    let k = if n < 500 {
        // P(fewer than k of n below) = sum of C(n, i) / 2^n for i < k.
        let mut term = 0.5f64.powi(n as i32);
        let mut below = 0.0;
        let mut k = 0;
        while below + term < 0.025 {
            below += term;
            term *= (n - k) as f64 / (k + 1) as f64;
            k += 1;
        }
        k
    } else {
        ((n as f64 - Z_95 * (n as f64).sqrt()) / 2.0).floor() as usize
    };
    Some((sorted[k - 1], sorted[n - k]))
}

/// Middle of `sorted`, the mean of the middle two for an even number; `None` for none.
#[must_use]
pub fn median(sorted: &[f64]) -> Option<f64> {
    let (low, high) =
        (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

/// Interval for the ratio `sum of x / sum of n` over `clusters` independent clusters of observations, given `residuals`,
/// the sum over all clusters of (x - ratio n)^2. `None` for a single cluster: it says nothing about others.
///
/// Source: W. G. Cochran, "Sampling Techniques" (3rd ed., Wiley 1977), formula 6.13 without finite population
/// correction, with Student's quantile for clusters - 1 degrees of freedom.
#[must_use]
pub fn ratio_interval(
    ratio: f64,
    sum_of_n: f64,
    residuals: f64,
    clusters: usize,
) -> Option<(f64, f64)> {
    let half = half_of_ratio(sum_of_n, residuals, clusters, 0.0)?;
    Some(((ratio - half).max(0.0), (ratio + half).min(1.0)))
}

/// Half of that interval; with `further` clusters besides, in which the ratio scatters as in one of these, half of the
/// interval in which theirs lies.
fn half_of_ratio(sum_of_n: f64, residuals: f64, clusters: usize, further: f64) -> Option<f64> {
    if clusters < 2 || sum_of_n <= 0.0 {
        return None;
    }
    let count = clusters as f64;
    let variance = residuals * count / (count - 1.0) * (1.0 + further * count);
    Some(quantile_95(count - 1.0) * variance.max(0.0).sqrt() / sum_of_n)
}

/// The ratio `sum of x / sum of n` over clusters `(x, n)`, with half of its interval likewise, for `further` clusters
/// besides. `None` when the sum of n is 0.
#[must_use]
pub fn ratio_and_half(clusters: &[(f64, f64)], further: f64) -> Option<(f64, Option<f64>)> {
    let (x, n) = clusters.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if n <= 0.0 {
        return None;
    }
    let ratio = x / n;
    let residuals: f64 = clusters.iter().map(|(x, n)| (x - ratio * n).powi(2)).sum();
    Some((ratio, half_of_ratio(n, residuals, clusters.len(), further)))
}

/// The same with its interval; it may exceed 1.
#[must_use]
pub fn ratio_of_sums(clusters: &[(f64, f64)]) -> Option<(f64, Option<(f64, f64)>)> {
    let (ratio, half) = ratio_and_half(clusters, 0.0)?;
    Some((ratio, half.map(|half| ((ratio - half).max(0.0), ratio + half))))
}

/// The mean of values, and half of its interval (Student); with `further` values besides, of that in which one of them lies.
/// `None` below two values.
#[must_use]
pub fn mean_and_half(values: &[f64], further: f64) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|one| (one - mean).powi(2)).sum();
    let variance = squares / (count - 1.0) * (1.0 / count + further);
    Some((mean, quantile_95(count - 1.0) * variance.sqrt()))
}

/// What a counter that takes turns with others counted in a stretch of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CountedStretch {
    /// The count.
    pub count: f64,
    /// Time in which the event was to be counted.
    pub enabled: f64,
    /// Part of `enabled` with the counter; the same unit.
    pub running: f64,
}

impl CountedStretch {
    /// The sums over stretches.
    #[must_use]
    pub fn sum(stretches: &[CountedStretch]) -> CountedStretch {
        let sum = |part: fn(&CountedStretch) -> f64| stretches.iter().map(part).sum::<f64>();
        CountedStretch {
            count: sum(|one| one.count),
            enabled: sum(|one| one.enabled),
            running: sum(|one| one.running),
        }
    }
}

/// The count that a counter would have reached with all of the time: all of the time times the rate. `None` where it never counted.
///
/// Its interval takes the stretches as a systematic sample in time: the variance is that of successive differences from the mean
/// rate, so that a slow change of the rate does not count as doubt, times the share of the time that was not counted. `None` for a
/// single stretch. It was counted at least as often as it was seen.
///
/// Source: K. M. Wolter, "Introduction to Variance Estimation" (2nd ed., Springer 2007), section 8.2.1, estimator v2.
#[must_use]
pub fn scaled_count(stretches: &[CountedStretch]) -> Option<(f64, Option<(f64, f64)>)> {
    let CountedStretch { count, enabled, running } = CountedStretch::sum(stretches);
    if !(running > 0.0 && enabled >= running) {
        return None;
    }
    if enabled == running {
        return Some((count, Some((count, count))));
    }
    let (rate, factor) = (count / running, enabled / running);
    let whole = count * factor;
    let clusters = stretches.len() as f64;
    if stretches.len() < 2 {
        return Some((whole, None));
    }
    let residual = |one: &CountedStretch| one.count - rate * one.running;
    let squares: f64 =
        stretches.windows(2).map(|pair| (residual(&pair[1]) - residual(&pair[0])).powi(2)).sum();
    let variance = squares * clusters / (2.0 * (clusters - 1.0)) * (1.0 - running / enabled);
    let half = quantile_95(clusters - 1.0) * variance.sqrt() * factor;
    Some((whole, Some(((whole - half).max(count), whole + half))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted((count, enabled, running): (f64, f64, f64)) -> CountedStretch {
        CountedStretch { count, enabled, running }
    }

    #[test]
    fn a_counter_that_was_always_there_is_exact_and_one_that_never_was_says_nothing() {
        let always = [(5.0, 10.0, 10.0), (7.0, 10.0, 10.0)].map(counted);
        assert_eq!(scaled_count(&always), Some((12.0, Some((12.0, 12.0)))));
        assert_eq!(scaled_count(&[counted((0.0, 10.0, 0.0))]), None);
        assert_eq!(scaled_count(&[]), None);
        assert_eq!(scaled_count(&[counted((5.0, 10.0, 5.0))]), Some((10.0, None)));
        // An even rate leaves no doubt.
        let even = [(50.0, 100.0, 25.0), (100.0, 200.0, 50.0), (50.0, 100.0, 25.0)].map(counted);
        assert_eq!(scaled_count(&even), Some((800.0, Some((800.0, 800.0)))));
    }

    /// A rate that jumps about, of which a quarter of the time is seen: 40 stretches of 20 slices, 5 of each drawn. Of 400 such
    /// runs about 95 % have the true count in their interval.
    #[test]
    fn the_true_count_lies_in_the_interval() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = base::mixed(state.wrapping_add(1));
            state % below
        };
        let mut hits = 0;
        for _ in 0..400 {
            let mut truth = 0.0;
            let stretches: Vec<CountedStretch> = (0..40)
                .map(|stretch| {
                    let slices: Vec<f64> =
                        (0..20).map(|_| (100 + stretch * 3 + random(200)) as f64).collect();
                    truth += slices.iter().sum::<f64>();
                    let first = random(4) as usize;
                    counted((slices.iter().skip(first).step_by(4).sum(), 20.0, 5.0))
                })
                .collect();
            let (_, interval) = scaled_count(&stretches).expect("it was seen");
            let (low, high) = interval.expect("40 stretches");
            hits += usize::from(low <= truth && truth <= high);
        }
        assert!((368..=396).contains(&hits), "{hits} of 400");
    }

    /// Newcombe 1998, table I, method 3 (score, without continuity correction).
    #[test]
    fn wilson_matches_published_values() {
        let cases = [
            (81.0, 263.0, 0.2553, 0.3662),
            (15.0, 148.0, 0.0624, 0.1605),
            (0.0, 20.0, 0.0, 0.1611),
            (1.0, 29.0, 0.0061, 0.1718),
        ];
        for (hits, n, low, high) in cases {
            let got = wilson(hits / n, n);
            assert!(
                (got.0 - low).abs() < 5e-5 && (got.1 - high).abs() < 5e-5,
                "{hits}/{n}: {got:?}"
            );
        }
    }

    #[test]
    fn wilson_says_nothing_without_observations() {
        assert_eq!(wilson(0.5, 0.0), (0.0, 1.0));
        assert_eq!(wilson(f64::NAN, 10.0), (0.0, 1.0));
        assert_eq!(wilson(1.0, 10.0).1, 1.0);
    }

    /// Garwood 1936 exact limits as in Pearson and Hartley, Biometrika Tables for Statisticians, table 40.
    #[test]
    fn poisson_is_close_to_the_exact_limits() {
        for (count, low, high) in [(5.0, 1.62, 11.67), (10.0, 4.80, 18.39), (50.0, 37.11, 65.92)] {
            let got = poisson(count);
            assert!((got.0 / low - 1.0).abs() < 0.01, "{count}: {got:?}");
            assert!((got.1 / high - 1.0).abs() < 0.01, "{count}: {got:?}");
        }
        assert_eq!(poisson(0.0).0, 0.0);
        assert!((poisson(0.0).1 - 3.69).abs() < 0.05);
    }

    /// Ranks as in Conover, table A3 with p = 1/2, and by the normal approximation for many.
    #[test]
    fn the_median_lies_between_the_right_order_statistics() {
        let interval = |n: usize| {
            let sorted: Vec<f64> = (1..=n).map(|value| value as f64).collect();
            median_interval(&sorted)
        };
        assert_eq!(interval(5), None);
        assert_eq!(interval(6), Some((1.0, 6.0)));
        assert_eq!(interval(10), Some((2.0, 9.0)));
        assert_eq!(interval(20), Some((6.0, 15.0)));
        assert_eq!(interval(100), Some((40.0, 61.0)));
        assert_eq!(interval(1000), Some((469.0, 532.0)));
        assert_eq!(
            (median(&[]), median(&[1.0, 2.0]), median(&[1.0, 2.0, 5.0])),
            (None, Some(1.5), Some(2.0))
        );
    }

    #[test]
    fn a_ratio_of_equal_clusters_is_certain_and_one_cluster_says_nothing() {
        assert_eq!(ratio_interval(0.5, 100.0, 0.0, 10), Some((0.5, 0.5)));
        assert_eq!(ratio_interval(0.5, 100.0, 0.0, 1), None);
        // Two clusters of 10 with 4 and 6: variance 2 x 2 / 400, so 0.5 +- 12.706 x 0.1.
        assert_eq!(ratio_interval(0.5, 20.0, 2.0, 2), Some((0.0, 1.0)));
        // Two clusters of 10 with 10 and 30: 2, variance 200 x 2 / 400.
        let (ratio, interval) = ratio_of_sums(&[(10.0, 10.0), (30.0, 10.0)]).unwrap();
        assert_eq!((ratio, interval.unwrap().0), (2.0, 0.0));
        assert!((interval.unwrap().1 - 14.706).abs() < 1e-3);
        assert_eq!(ratio_of_sums(&[(3.0, 2.0)]), Some((1.5, None)));
        assert_eq!(ratio_of_sums(&[(3.0, 0.0)]), None);
    }

    #[test]
    fn equal_weights_count_fully_and_unequal_ones_less() {
        assert_eq!(effective_count(40.0, 160.0), 10.0);
        assert!(effective_count(1.0 + 9.0, 1.0 + 81.0) < 2.0);
        assert_eq!(effective_count(0.0, 0.0), 0.0);
    }
}
