//! One run against one other: what the stated errors of their figures say about the difference.
//!
//! What not: a test. One run does not show how much two runs of the same program differ, so there is no `p`.

use facts::Metric;

use super::Comparison;

/// Difference and ratio of two figures, with intervals from their own where both have one; `None` when a value is missing.
///
/// Difference: Zou and Donner, Statistics in Medicine 27 (2008) 1693-1702. Ratio: Donner and Zou, Statistical Methods in
/// Medical Research 21 (2012) 347-359, equations for theta1 / theta2.
#[must_use]
pub fn single(base: &Metric, new: &Metric) -> Option<Comparison> {
    let (b, n) = (base.value?, new.value?);
    let bounds = base.low.zip(base.high).zip(new.low.zip(new.high));
    let difference_interval = bounds.map(|((b_low, b_high), (n_low, n_high))| {
        let below = (n - n_low).hypot(b_high - b);
        let above = (n_high - n).hypot(b - b_low);
        (n - b - below, n - b + above)
    });
    Some(Comparison {
        difference: n - b,
        difference_interval,
        ratio: (b != 0.0).then(|| n / b),
        ratio_interval: bounds.and_then(|(base, new)| ratio_interval((b, base), (n, new))),
        p: None,
    })
}

fn ratio_interval(
    (b, (b_low, b_high)): (f64, (f64, f64)),
    (n, (n_low, n_high)): (f64, (f64, f64)),
) -> Option<(f64, f64)> {
    if b_low == b_high && n_low == n_high && b != 0.0 {
        return Some((n / b, n / b));
    }
    // The bounds exist only for a base that is certainly positive and not skewed beyond twice its value.
    if b_low <= 0.0 || b_high >= 2.0 * b {
        return None;
    }
    let square = (n * b).powi(2);
    let low_root = square - n_low * b_high * (2.0 * n - n_low) * (2.0 * b - b_high);
    let high_root = square - n_high * b_low * (2.0 * n - n_high) * (2.0 * b - b_low);
    let low = (n * b - low_root.max(0.0).sqrt()) / (b_high * (2.0 * b - b_high));
    let high = (n * b + high_root.max(0.0).sqrt()) / (b_low * (2.0 * b - b_low));
    Some((low, high))
}
