//! From repeats to a figure with its interval. No normal distribution is assumed: interference makes long tails on
//! one side.

use facts::{Evidence, Metric};

/// Repeats of one measurement, those apart during which a thread lost its CPU to another program.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Repeats {
    undisturbed: Vec<f64>,
    disturbed: Vec<f64>,
}

/// With fewer undisturbed repeats than this the disturbed ones are used too.
const ENOUGH: usize = 3;

impl Repeats {
    /// Adds one.
    pub fn push(&mut self, value: f64, disturbed: bool) {
        if disturbed { &mut self.disturbed } else { &mut self.undisturbed }.push(value);
    }

    /// How many were not disturbed.
    pub fn undisturbed(&self) -> usize {
        self.undisturbed.len()
    }

    /// The repeats to go by, times `factor`: the undisturbed ones, or all when there are too few.
    pub fn values(&self, factor: f64) -> Vec<f64> {
        let enough = self.undisturbed.len() >= ENOUGH;
        let more = if enough { &[] } else { self.disturbed.as_slice() };
        self.undisturbed.iter().chain(more).map(|value| value * factor).collect()
    }

    /// The median, times `factor`. Disturbed repeats that were left out count as lost.
    pub fn median_metric(&self, factor: f64, unit: &str) -> Metric {
        let metric = median_metric(&self.values(factor), unit);
        if self.undisturbed.len() >= ENOUGH {
            metric.with_lost(self.disturbed.len() as u64)
        } else if self.disturbed.is_empty() {
            metric
        } else {
            metric.noted(
                "other programs had the CPU during part of most repeats: all were used; expect better on an idle machine",
            )
        }
    }

    /// The best of all, disturbed or not: interference only makes slower.
    pub fn best(&self) -> Option<f64> {
        self.undisturbed.iter().chain(&self.disturbed).copied().max_by(f64::total_cmp)
    }
}

/// Sorted copy without values that are no numbers.
fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> =
        samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The median; `None` without samples.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// How many of the outermost samples on each side lie outside the 95 % interval of the median: the largest k with
/// 2 * P(Binomial(n, 1/2) < k) <= 0.05 (order statistics; Conover, "Practical Nonparametric Statistics", 3.2).
/// With fewer than 6 samples not even the whole range reaches 95 %.
fn outside(count: usize) -> usize {
    let mut tail = 0.0;
    let mut probability = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    for k in 0..count / 2 {
        tail += probability;
        if 2.0 * tail > 0.05 {
            return k;
        }
        probability *= (count - k) as f64 / (k + 1) as f64;
    }
    count / 2
}

/// The median of `samples` with its 95 % interval.
pub(crate) fn median_metric(samples: &[f64], unit: &str) -> Metric {
    let Some(median) = median(samples) else {
        return Metric::unavailable(unit, "no repeat fitted into the time limit");
    };
    let sorted = sorted(samples);
    // The first k order statistics are outside when k of them may be dropped; at least the range remains.
    let dropped = outside(sorted.len()).saturating_sub(1);
    let interval = (sorted[dropped], sorted[sorted.len() - 1 - dropped]);
    let metric =
        Metric::with_interval(Evidence::Calibrated, median, unit, interval, sorted.len() as u64);
    if sorted.len() < 6 {
        metric.noted(&format!(
            "the interval is the range of {} repeats: fewer than 6 cannot give 95 %",
            sorted.len()
        ))
    } else {
        metric
    }
}

/// The best of `samples` (the largest) with the interval that 95 % of resamplings of the repeats would give:
/// from the third best to the best (the chance that none of the three best is drawn in n draws is
/// (1 - 3/n)^n < e^-3 = 5 %). `None` without samples.
pub(crate) fn best_metric(samples: &[f64], unit: &str) -> Option<Metric> {
    let sorted = sorted(samples);
    let best = *sorted.last()?;
    let third = sorted[sorted.len().saturating_sub(3)];
    Some(Metric::with_interval(
        Evidence::Calibrated,
        best,
        unit,
        (third, best),
        sorted.len() as u64,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, f64::NAN, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    /// Table of the sign test: ranks of the 95 % interval of the median (n: first rank inside).
    #[test]
    fn intervals_of_the_median_match_the_tables() {
        let first_rank = |n: usize| outside(n).max(1);
        let expected = [(5, 1), (6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8)];
        for (n, rank) in expected {
            assert_eq!(first_rank(n), rank, "n = {n}");
        }
    }

    #[test]
    fn few_repeats_say_so_and_none_is_unavailable() {
        let metric = median_metric(&[1.0, 2.0, 4.0], "ns");
        assert_eq!((metric.low, metric.value, metric.high), (Some(1.0), Some(2.0), Some(4.0)));
        assert!(metric.note.is_some_and(|note| note.contains("range of 3 repeats")));
        assert_eq!(median_metric(&[], "ns").value, None);
    }

    #[test]
    fn disturbed_repeats_are_lost_unless_there_is_nothing_else() {
        let mut repeats = Repeats::default();
        for (value, disturbed) in [(1.0, false), (9.0, true), (2.0, false), (8.0, true)] {
            repeats.push(value, disturbed);
        }
        let all = repeats.median_metric(2.0, "ns");
        assert_eq!((all.value, all.samples, all.lost), (Some(10.0), 4, 0));
        repeats.push(3.0, false);
        let clean = repeats.median_metric(2.0, "ns");
        assert_eq!((clean.value, clean.samples, clean.lost), (Some(4.0), 3, 2));
        assert_eq!(repeats.best(), Some(9.0));
    }

    #[test]
    fn the_best_is_the_largest() {
        let metric = best_metric(&[5.0, 9.0, 7.0, 8.0], "GB/s").expect("has samples");
        assert_eq!((metric.low, metric.value, metric.high), (Some(7.0), Some(9.0), Some(9.0)));
    }
}
