//! Counts of counters that were there for a part of the time, with replicates.
//!
//! What for: figures from several such counts. Events of one group were counted at the same times: the same seed gives them the
//! same random numbers, so that what they have in common cancels in their ratio. What not: the interval of one count alone
//! (`interval::scaled_count`, from the same variance).
//!
//! Each replicate adds the differences between successive residuals with random signs, so that its variance is that of
//! successive differences. Source: R. E. Fay, G. F. Train, "Aspects of survey and model-based postcensal estimation", Proc. ASA
//! (1995) 154-159; the variance: Wolter, section 8.2.1, estimator v2.

use base::mixed;

use crate::estimate::{Estimate, REPLICATES};
use crate::interval::{CountedStretch, Z_95, scaled_count};
use crate::student::quantile_95;

/// The whole count from stretches; `None` where the counter was never there. Of a
/// single stretch with a part of the time, all replicates are NaN: its interval is unknown.
#[must_use]
pub fn scaled_estimate(stretches: &[CountedStretch], seed: u64) -> Option<Estimate> {
    let (whole, interval) = scaled_count(stretches)?;
    if interval == Some((whole, whole)) {
        return Some(Estimate::exactly(whole));
    }
    if interval.is_none() {
        return Some(Estimate::new(whole, vec![f64::NAN; REPLICATES]));
    }
    let CountedStretch { count, enabled, running } = CountedStretch::sum(stretches);
    let residual = |one: &CountedStretch| one.count - count / running * one.running;
    let clusters = stretches.len() as f64;
    let tails = quantile_95(clusters - 1.0) / Z_95;
    let unseen = (clusters / (2.0 * (clusters - 1.0)) * (1.0 - running / enabled)).sqrt();
    let mut replicates = vec![0.0; REPLICATES];
    for (at, pair) in stretches.windows(2).enumerate() {
        let step = residual(&pair[1]) - residual(&pair[0]);
        for (block, part) in replicates.chunks_mut(64).enumerate() {
            let signs = mixed(mixed(seed ^ mixed(at as u64)) ^ block as u64);
            for (bit, sum) in part.iter_mut().enumerate() {
                *sum += if signs >> bit & 1 == 1 { step } else { -step };
            }
        }
    }
    let scale = tails * unseen * enabled / running;
    // It was counted at least as often as it was seen.
    replicates.iter_mut().for_each(|sum| *sum = (whole + *sum * scale).max(count));
    Some(Estimate::new(whole, replicates))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rate that jumps about, of which a quarter of the time is seen.
    fn stretches(seed: u64, factor: f64) -> Vec<CountedStretch> {
        let one = |at: u64| CountedStretch {
            count: (1000 + mixed(seed + at) % 500) as f64 * factor,
            enabled: 100.0,
            running: 25.0,
        };
        (0..60).map(one).collect()
    }

    #[test]
    fn the_interval_is_that_of_the_closed_form() {
        for seed in 0..20 {
            let stretches = stretches(seed * 1000, 1.0);
            let (whole, interval) = scaled_count(&stretches).expect("a count");
            let estimate = scaled_estimate(&stretches, seed).expect("a count");
            assert!((estimate.point() - whole).abs() < 1e-9 * whole);
            let ((low, high), (l, h)) = (interval.expect("an interval"), estimate.interval());
            assert!(((h - l) / (high - low) - 1.0).abs() < 0.2, "{l} {h}, not {low} {high}");
        }
    }

    #[test]
    fn what_a_group_has_in_common_cancels() {
        let of = |factor, seed| scaled_estimate(&stretches(7, factor), seed).expect("a count");
        let (low, high) = (of(3.0, 1) / &of(1.0, 1)).interval();
        assert!(high - low < 1e-9 && (high - 3.0).abs() < 1e-9, "{low} {high}");
        let (low, high) = (of(3.0, 1) / &of(1.0, 2)).interval();
        assert!(high - low > 0.01, "{low} {high}");
    }

    #[test]
    fn exact_unknown_and_never_there() {
        let of = |count, running| CountedStretch { count, enabled: 10.0, running };
        let exact = scaled_estimate(&[of(5.0, 10.0), of(7.0, 10.0)], 1);
        assert_eq!(exact, Some(Estimate::exactly(12.0)));
        assert_eq!(scaled_estimate(&[of(0.0, 0.0)], 1), None);
        let one = scaled_estimate(&[of(5.0, 5.0)], 1).expect("a count");
        assert!(one.point() == 10.0 && one.replicate(0).is_nan());
    }
}
