//! 95 % intervals for shares and counts.
//!
//! Assumption: observations are independent. Clock samples are a systematic sample in time; for a program that
//! does not run in step with the clock these intervals are slightly too wide, never too narrow.

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
    let count = if count.is_finite() { count.max(0.0) } else { 0.0 };
    let bound = |n: f64, z: f64| n * (1.0 - 1.0 / (9.0 * n) + z / (3.0 * n.sqrt())).powi(3);
    let low = if count < 1.0 { 0.0 } else { bound(count, -Z_95).max(0.0) };
    (low, bound(count + 1.0, Z_95))
}

/// How many equal observations carry as much information as weighted ones with these sums:
/// `(sum of w)^2 / sum of w^2`. Equal to the number of observations when all weights are the same.
///
/// Source: L. Kish, "Survey Sampling" (Wiley 1965), section 8.2.
#[must_use]
pub fn effective_count(sum: f64, sum_of_squares: f64) -> f64 {
    if sum_of_squares > 0.0 { sum * sum / sum_of_squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn equal_weights_count_fully_and_unequal_ones_less() {
        assert_eq!(effective_count(40.0, 160.0), 10.0);
        assert!(effective_count(1.0 + 9.0, 1.0 + 81.0) < 2.0);
        assert_eq!(effective_count(0.0, 0.0), 0.0);
    }
}
