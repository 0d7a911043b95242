//! Sums of weighted observations, and how a part of the whole becomes a figure with an interval.
//!
//! What not: which observations (views).

use facts::{Evidence, Metric};

use estimate::interval::{effective_count, poisson, wilson};

/// A sum of observations: of samples (unit: nanoseconds of CPU time) or of fault records (unit: faults).
///
/// Integers throughout, so that sums do not depend on the order and reports are byte-stable. Saturates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weight {
    amount: u64,
    squares: u128,
    records: u64,
}

impl Weight {
    /// Adds one observation that represents `amount`.
    pub fn add(&mut self, amount: u64) {
        self.amount = self.amount.saturating_add(amount);
        self.squares = self.squares.saturating_add(u128::from(amount) * u128::from(amount));
        self.records = self.records.saturating_add(1);
    }

    /// Adds all observations of `other`.
    pub fn merge(&mut self, other: &Weight) {
        self.amount = self.amount.saturating_add(other.amount);
        self.squares = self.squares.saturating_add(other.squares);
        self.records = self.records.saturating_add(other.records);
    }

    /// The sum, in nanoseconds or faults.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// How many observations.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Whether nothing was observed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// How many equally weighted observations carry as much information.
    #[must_use]
    pub fn effective_records(&self) -> f64 {
        effective_count(self.amount as f64, self.squares as f64)
    }

    /// The sum with the interval of a Poisson count of as many effective observations, in units of `unit`
    /// (a multiple of the weight's own unit).
    #[must_use]
    pub fn poisson_total(&self, unit: f64) -> (f64, (f64, f64)) {
        let effective = self.effective_records();
        let value = self.amount as f64 * unit;
        if effective <= 0.0 {
            return (value, (value, value));
        }
        let (low, high) = poisson(effective);
        (value, (low * value / effective, high * value / effective))
    }
}

/// Turns parts of a whole into metrics.
#[derive(Clone, PartialEq, Debug)]
pub struct Scale {
    whole: Weight,
    /// The exact total behind the samples, in the metric's unit, and the unit.
    total: Option<f64>,
    unit: &'static str,
    /// Metric units per unit of weight, for when no exact total is known.
    factor: f64,
    lost: u64,
    /// Every observation was recorded with weight 1: parts are exact counts.
    exact: bool,
    missing: &'static str,
}

impl Scale {
    /// For CPU time: weights in nanoseconds, metrics in seconds. `total_seconds` is the counted CPU time that the
    /// samples of `whole` represent; `missing` says why there are none if there are none.
    #[must_use]
    pub fn cpu_time(
        whole: Weight,
        total_seconds: Option<f64>,
        lost: u64,
        missing: &'static str,
    ) -> Scale {
        Scale { whole, total: total_seconds, unit: "s", factor: 1e-9, lost, exact: false, missing }
    }

    /// For counts: weights and metrics in events. `total` is the counted number of events.
    #[must_use]
    pub fn count(whole: Weight, total: Option<f64>, lost: u64, missing: &'static str) -> Scale {
        let all_of_weight_one = whole.records == whole.amount;
        let complete = total.is_none_or(|total| total == whole.amount as f64);
        let exact = all_of_weight_one && complete && lost == 0;
        Scale { whole, total, unit: "count", factor: 1.0, lost, exact, missing }
    }

    /// All observations.
    #[must_use]
    pub fn whole(&self) -> &Weight {
        &self.whole
    }

    /// `part` as a share of the whole, 0..=1; 0 when the whole is empty.
    #[must_use]
    pub fn share(&self, part: &Weight) -> f64 {
        if self.whole.amount == 0 { 0.0 } else { part.amount as f64 / self.whole.amount as f64 }
    }

    fn share_with_interval(&self, part: &Weight) -> (f64, (f64, f64)) {
        let share = self.share(part);
        (share, wilson(share, self.whole.effective_records()))
    }

    /// `part` in percent of the whole.
    #[must_use]
    pub fn percent(&self, part: &Weight) -> Metric {
        if self.whole.amount == 0 {
            return Metric::unavailable("percent", self.missing);
        }
        let (share, interval) = self.share_with_interval(part);
        if self.exact {
            return Metric { samples: part.records, ..Metric::counted(share * 100.0, "percent") };
        }
        let interval = (interval.0 * 100.0, interval.1 * 100.0);
        Metric::with_interval(Evidence::Sampled, share * 100.0, "percent", interval, part.records)
            .with_lost(self.lost)
    }

    /// The whole in percent of itself: 100 without doubt, where a part of 100 % of the samples has some.
    #[must_use]
    pub fn whole_percent(&self) -> Metric {
        if self.whole.amount == 0 {
            return Metric::unavailable("percent", self.missing);
        }
        let percent = self.percent(&self.whole);
        Metric { low: Some(100.0), high: Some(100.0), ..percent }
    }

    /// The whole in the unit of the scale: the counted total where there is one.
    #[must_use]
    pub fn whole_quantity(&self) -> Metric {
        match self.total {
            Some(total) if self.whole.amount > 0 => Metric::counted(total, self.unit),
            _ => self.quantity(&self.whole),
        }
    }

    /// `part` in the unit of the scale: its share times the exact total where that was counted, else its own sum.
    #[must_use]
    pub fn quantity(&self, part: &Weight) -> Metric {
        if self.whole.amount == 0 {
            return Metric::unavailable(self.unit, self.missing);
        }
        if self.exact {
            return Metric {
                samples: part.records,
                ..Metric::counted(part.amount as f64, self.unit)
            };
        }
        let total = self.total.unwrap_or(self.whole.amount as f64 * self.factor);
        let (share, interval) = self.share_with_interval(part);
        let interval = (interval.0 * total, interval.1 * total);
        Metric::with_interval(Evidence::Sampled, share * total, self.unit, interval, part.records)
            .with_lost(self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(amounts: &[u64]) -> Weight {
        let mut sum = Weight::default();
        amounts.iter().for_each(|&amount| sum.add(amount));
        sum
    }

    #[test]
    fn a_share_is_scaled_to_the_counted_total() {
        let whole = weight(&[1_000_000; 100]);
        let scale = Scale::cpu_time(whole, Some(0.2), 3, "none");
        let part = scale.quantity(&weight(&[1_000_000; 25]));
        assert_eq!(part.value, Some(0.05));
        assert_eq!((part.samples, part.lost, part.evidence), (25, 3, Some(Evidence::Sampled)));
        let (low, high) = wilson(0.25, 100.0);
        assert_eq!((part.low, part.high), (Some(low * 0.2), Some(high * 0.2)));
    }

    #[test]
    fn complete_fault_records_are_exact_and_thinned_ones_are_not() {
        let exact =
            Scale::count(weight(&[1; 40]), Some(40.0), 0, "none").quantity(&weight(&[1; 10]));
        assert_eq!(
            (exact.value, exact.low, exact.evidence),
            (Some(10.0), Some(10.0), Some(Evidence::Counted))
        );
        let thinned =
            Scale::count(weight(&[8; 40]), Some(321.0), 0, "none").quantity(&weight(&[8; 10]));
        assert_eq!((thinned.value, thinned.evidence), (Some(80.25), Some(Evidence::Sampled)));
        assert!(thinned.low < thinned.value && thinned.value < thinned.high);
    }

    #[test]
    fn nothing_observed_is_unavailable_and_absurd_weights_saturate() {
        let none = Scale::cpu_time(Weight::default(), Some(1.0), 0, "no samples")
            .percent(&Weight::default());
        assert_eq!((none.value, none.note.as_deref()), (None, Some("no samples")));
        let huge = weight(&[u64::MAX, u64::MAX]);
        let share = Scale::cpu_time(huge, None, 0, "none").percent(&huge);
        assert_eq!(share.value, Some(100.0));
    }
}
