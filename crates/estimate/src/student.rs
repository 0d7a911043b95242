//! Student's t distribution with any number of degrees of freedom, at any confidence.
//!
//! What for: intervals of few observations, Welch's test, and sequential trials. What not: the numbers that replicates are drawn
//! with (`draws`).

use std::cell::Cell;

/// Probability that |t| is at least this large, for `freedom` > 0 degrees of freedom.
///
/// Through the regularised incomplete beta function: I_x(freedom / 2, 1 / 2) with x = freedom / (freedom + t^2) (Abramowitz
/// and Stegun, "Handbook of Mathematical Functions", 26.7.1 and 26.5.27).
#[must_use]
pub fn two_sided_p(t: f64, freedom: f64) -> f64 {
    if !t.is_finite() {
        return 0.0;
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Two-sided quantile: |t| stays below it with this probability (0 to 1, without the ends). NaN for no degree of freedom.
#[must_use]
pub fn quantile(freedom: f64, confidence: f64) -> f64 {
    if freedom <= 0.0 {
        return f64::NAN;
    }
    // By bisection: P falls with t.
    let is_below = |t: f64| two_sided_p(t, freedom) > 1.0 - confidence;
    let (mut low, mut high) = (0.0, 1000.0);
    while is_below(high) && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if is_below(middle) { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

thread_local! {
    /// The last one, by the bits of its degrees of freedom: rows of a table mostly have as many, and one takes a tenth of a
    /// millisecond.
    static LAST_95: Cell<Option<(u64, f64)>> = const { Cell::new(None) };
}

/// The same for 95 %.
#[must_use]
pub fn quantile_95(freedom: f64) -> f64 {
    let known = LAST_95.get().filter(|(of, _)| *of == freedom.to_bits());
    known.map_or_else(
        || {
            let found = quantile(freedom, 0.95);
            LAST_95.set(Some((freedom.to_bits(), found)));
            found
        },
        |(_, found)| found,
    )
}

/// Regularised incomplete beta function for 0 <= x <= 1; the continued fraction of DLMF 8.17.22 by Lentz's method, on the
/// side where it converges fast (DLMF 8.17.4).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let logarithm = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln();
    logarithm.exp() / (a * fraction(x, a, b))
}

/// 1 + d1 / (1 + d2 / (1 + ...)).
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    // Lentz's method divides by both terms; a zero becomes tiny, which moves the value by less than rounding (Press et al.,
    // Numerical Recipes, 5.2).
    let nonzero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut value, mut numerator, mut denominator) = (1.0, 1.0, 0.0);
    for step in 1..500u32 {
        let m = f64::from(step / 2);
        let d = if step % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        denominator = 1.0 / nonzero(1.0 + d * denominator);
        numerator = nonzero(1.0 + d / numerator);
        let factor = numerator * denominator;
        value *= factor;
        if (factor - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

/// ln Gamma(x) for x > 0: Stirling's series (DLMF 5.11.1) from 10 on, below by recurrence; error below 1e-10.
fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let half_ln_2_pi = 0.918_938_533_204_672_7;
    (x - 0.5) * x.ln() - x + half_ln_2_pi + 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3))
        + 1.0 / (1260.0 * x.powi(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Abramowitz and Stegun, table 26.10 (t for a probability of 95 % between -t and t).
    #[test]
    fn quantiles_match_the_printed_table() {
        for (freedom, t) in
            [(1.0, 12.706), (2.0, 4.303), (5.0, 2.571), (30.0, 2.042), (120.0, 1.980)]
        {
            assert!((quantile_95(freedom) - t).abs() < 6e-4, "{freedom}: {}", quantile_95(freedom));
        }
        assert!((two_sided_p(2.228, 10.0) - 0.05).abs() < 1e-4);
        assert!((two_sided_p(-3.169, 10.0) - 0.01).abs() < 1e-4);
        assert_eq!((two_sided_p(0.0, 3.0), two_sided_p(f64::INFINITY, 3.0)), (1.0, 0.0));
    }

    /// The same table at other confidences.
    #[test]
    fn quantiles_of_student_are_the_published_ones() {
        for (degrees, confidence, t) in [
            (1, 0.99, 63.657),
            (2, 0.9, 2.920),
            (5, 0.998, 5.893),
            (10, 0.9, 1.812),
            (60, 0.99, 2.660),
        ] {
            let got = quantile(f64::from(degrees), confidence);
            assert!((got / t - 1.0).abs() < 3e-4, "{degrees}, {confidence}: {got}");
        }
        assert!(quantile(0.0, 0.95).is_nan());
    }

    #[test]
    fn gamma_at_known_points() {
        let ln_sqrt_pi = 0.572_364_942_924_700_1;
        assert!((ln_gamma(0.5) - ln_sqrt_pi).abs() < 1e-9);
        assert!((ln_gamma(5.0) - 24.0f64.ln()).abs() < 1e-9);
    }
}
