//! The distribution of sampled latencies.
//!
//! What not: of which samples.

use facts::{Evidence, Metric};

use crate::memory::{Latency, LatencyStep};
use crate::weight::Weight;
use estimate::interval::{Z_95, ratio_of_sums, wilson};

/// Bounds of the histogram's steps, cycles.
const STEPS: [f64; 12] =
    [0.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];

/// Latencies with their weights.
#[derive(Default)]
pub(super) struct Distribution {
    seen: Vec<(f64, f64)>,
    pub(super) weight: Weight,
    /// Sum of weight times latency.
    pub(super) time: f64,
    /// Sum of the squares of these products.
    pub(super) squares: f64,
}

impl Distribution {
    pub(super) fn add(&mut self, cycles: f64, weight: f64) {
        self.seen.push((cycles, weight));
        self.weight.add(weight as u64);
        self.time += cycles * weight;
        self.squares += (cycles * weight).powi(2);
    }

    /// `covered`: the part of the loads that has a latency. `None` without any.
    pub(super) fn latency(&self, covered: Metric) -> Option<Latency> {
        let clusters: Vec<(f64, f64)> =
            self.seen.iter().map(|(cycles, weight)| (cycles * weight, *weight)).collect();
        let (mean, interval) = ratio_of_sums(&clusters)?;
        let mut sorted = self.seen.clone();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let sum: f64 = sorted.iter().map(|(_, weight)| weight).sum();
        let effective = self.weight.effective_records();
        let metric = |value: f64, interval: Option<(f64, f64)>| Metric {
            evidence: Some(Evidence::Sampled),
            samples: self.weight.records(),
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            note: interval.is_none().then(|| "one sample has no interval".to_owned()),
            ..Metric::counted(value, "cycles")
        };
        // The latency below which a share of the loads is.
        let at = |share: f64| {
            let mut left = share.clamp(0.0, 1.0) * sum;
            let reached = sorted.iter().find(|(_, weight)| {
                left -= weight;
                left <= 0.0
            });
            reached.or(sorted.last()).map_or(0.0, |(cycles, _)| *cycles)
        };
        let quantile = |share: f64| {
            // Woodruff: the ends of the interval of the share, read off the distribution.
            let half = Z_95 * (share * (1.0 - share) / effective.max(1.0)).sqrt();
            let bounds = (at(share - half), at(share + half));
            metric(at(share), (sorted.len() > 1).then_some(bounds))
        };
        let step = |number: usize| {
            let (from, to) =
                (STEPS[number], STEPS.get(number + 1).copied().unwrap_or(f64::INFINITY));
            let within = sorted.iter().filter(|(cycles, _)| (from..to).contains(cycles));
            let share = within.map(|(_, weight)| weight).sum::<f64>() / sum;
            let (low, high) = wilson(share.min(1.0), effective);
            let percent = Metric::with_interval(
                Evidence::Sampled,
                share.min(1.0) * 100.0,
                "percent",
                (low * 100.0, high * 100.0),
                self.weight.records(),
            );
            LatencyStep { from, to, share: percent }
        };
        Some(Latency {
            mean: metric(mean, interval),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            covered,
            histogram: (0..STEPS.len()).map(step).collect(),
        })
    }
}
