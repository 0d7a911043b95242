//! A figure with its replicates: what rules judge.
//!
//! What for: a [`Metric`] leaves this program, but its ends alone do not show how it varies together with others. A rule asks for
//! the probability that several figures of the same bursts pass their limits, and sums parts of a whole. What not: replicates
//! of figures that are shown and not judged.
//!
//! Assumptions for a figure without replicates: it is independent of others. If it was sampled, traced or calibrated, as much of
//! its interval lies above the value as below it, evenly on each side. If it was estimated, its ends are those of a formula
//! over worst cases: it lies between them as an unknown does (`estimate::Draws`), mostly near one end.

use std::ops::Deref;
use std::sync::LazyLock;

use estimate::{Bounds, Draws, Estimate};
use facts::{Evidence, Metric};

/// Figures without replicates in one question, at most: more share their chance.
const APART: usize = 16;

/// Where figures without replicates stand in each of them: between 0 and 1 evenly, or as unknowns, between -1 and 1.
static EVENLY: LazyLock<Vec<Vec<f64>>> = LazyLock::new(|| drawn(1, Draws::even));
static UNKNOWN: LazyLock<Vec<Vec<f64>>> = LazyLock::new(|| drawn(2, Draws::unknown));

fn drawn(seed: u64, one: impl Fn(&mut Draws) -> Vec<f64>) -> Vec<Vec<f64>> {
    let mut draws = Draws::new(0x0066_6967_7572_6500 | seed);
    (0..APART).map(|_| one(&mut draws)).collect()
}

/// See the head.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    metric: Metric,
    replicates: Option<Estimate>,
    sharper: Option<&'static str>,
}

impl From<Metric> for Figure {
    fn from(metric: Metric) -> Figure {
        Figure { metric, replicates: None, sharper: None }
    }
}

impl Deref for Figure {
    type Target = Metric;
    fn deref(&self) -> &Metric {
        &self.metric
    }
}

impl Figure {
    /// What an estimate shows.
    pub(crate) fn new(metric: Metric, replicates: Estimate) -> Figure {
        Figure { metric, replicates: Some(replicates), sharper: None }
    }

    /// The metric that is shown.
    pub(crate) fn metric(self) -> Metric {
        self.metric
    }

    /// Why it is not known better, and after a colon what would help, if that is not more bursts.
    #[must_use]
    pub fn sharper_by(self, what: &'static str) -> Figure {
        Figure { sharper: Some(what), ..self }
    }

    pub(crate) fn sharper(&self) -> Option<&'static str> {
        self.sharper
    }

    /// Applies a monotonic function.
    pub(crate) fn map(self, part: impl Fn(f64) -> f64) -> Figure {
        let Figure { mut metric, replicates, sharper } = self;
        for end in [&mut metric.value, &mut metric.low, &mut metric.high] {
            *end = end.map(&part);
        }
        if metric.low.zip(metric.high).is_some_and(|(low, high)| low > high) {
            std::mem::swap(&mut metric.low, &mut metric.high);
        }
        Figure { metric, replicates: replicates.map(|all| all.map(part)), sharper }
    }

    /// The same with a remark for the reader.
    pub(crate) fn noted(self, note: &str) -> Figure {
        Figure { metric: self.metric.noted(note), ..self }
    }

    /// Divided by something that is about 1. A figure without replicates stays as it is.
    pub(crate) fn over(self, doubt: &Estimate) -> Figure {
        let Figure { metric, replicates: Some(all), sharper } = self else { return self };
        let all = all / doubt;
        let (low, high) = all.interval();
        let metric =
            Metric { value: Some(all.point()), low: Some(low), high: Some(high), ..metric };
        Figure { metric, replicates: Some(all), sharper }
    }

    /// The sum of parts of one whole, each like `first`, no more than `most`. Parts that grow at the cost of each other are known
    /// better together than alone.
    pub(crate) fn sum<'a>(
        first: &Figure,
        parts: impl Iterator<Item = &'a Figure> + Clone,
        most: f64,
    ) -> Figure {
        let end = |end: fn(&Metric) -> Option<f64>| {
            parts.clone().map(|part| end(part)).sum::<Option<f64>>().map(|sum| sum.min(most))
        };
        let metric = Metric {
            value: end(|part| part.value),
            low: end(|part| part.low),
            high: end(|part| part.high),
            ..first.metric.clone()
        };
        let all: Option<Vec<&Estimate>> = parts.map(|part| part.replicates.as_ref()).collect();
        let Some(all) = all else { return metric.into() };
        let sum = all.into_iter().fold(Estimate::exactly(0.0), |sum, one| sum + one);
        let sum = sum.map(|sum| sum.min(most));
        let (low, high) = sum.interval();
        Figure::new(Metric { low: Some(low), high: Some(high), ..metric }, sum)
    }

    /// Its replicates; of one that has none, those of the `number`th unknown of a question. `None` where it is not known.
    pub(crate) fn drawn(&self, number: usize) -> Option<Estimate> {
        let value = self.metric.value?;
        let ends = [self.metric.low.unwrap_or(value), value, self.metric.high.unwrap_or(value)];
        let known = self.replicates.clone();
        Some(known.unwrap_or_else(|| match self.metric.evidence {
            Some(Evidence::Estimated) => between(ends, number),
            _ => spread(ends, number),
        }))
    }
}

/// Between a low end, a best value and a high end.
pub(crate) fn spread([low, best, high]: [f64; 3], number: usize) -> Estimate {
    if low == best && best == high {
        return Estimate::exactly(best);
    }
    // 0.025 and 0.975 are the ends.
    let at = |place: &f64| {
        let (end, way) =
            if *place < 0.5 { (low, 1.0 - 2.0 * place) } else { (high, 2.0 * place - 1.0) };
        best + (end - best) * way / 0.95
    };
    Estimate::new(best, EVENLY[number % APART].iter().map(at).collect())
}

/// The same of an unknown.
fn between([low, best, high]: [f64; 3], number: usize) -> Estimate {
    let bounds = Bounds { best, low, high };
    let drawn = UNKNOWN[number % APART].iter().map(|place| bounds.at(*place));
    Estimate::new(best, drawn.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(low: f64, value: f64, high: f64) -> Metric {
        Metric::with_interval(Evidence::Sampled, value, "percent", (low, high), 9)
    }

    #[test]
    fn a_figure_without_replicates_has_the_interval_that_it_states() {
        let (low, high) = Figure::from(share(10.0, 20.0, 60.0)).drawn(3).unwrap().interval();
        assert!((low - 10.0).abs() < 0.1 && (high - 60.0).abs() < 0.3, "{low} {high}");
        let unknown = Figure::from(Metric::unavailable("percent", "nobody looked"));
        assert_eq!(unknown.drawn(0), None);
    }

    /// Two that share a whole, whichever has more of it.
    #[test]
    fn parts_of_a_whole_are_known_better_together() {
        let one = spread([10.0, 50.0, 90.0], 0);
        let other = Estimate::exactly(100.0) - &one;
        let parts = [one, other].map(|part| Figure::new(share(10.0, 50.0, 90.0), part));
        let sum = Figure::sum(&parts[0], parts.iter(), 100.0);
        assert_eq!((sum.value, sum.low, sum.high), (Some(100.0), Some(100.0), Some(100.0)));
        let apart = parts.map(|part| Figure::from(part.metric()));
        let sum = Figure::sum(&apart[0], apart.iter(), 100.0);
        assert_eq!((sum.low, sum.high), (Some(20.0), Some(100.0)));
    }

    #[test]
    fn a_falling_function_turns_the_ends() {
        let rest = Figure::from(share(10.0, 20.0, 60.0)).map(|part| 100.0 - part);
        assert_eq!((rest.low, rest.value, rest.high), (Some(40.0), Some(80.0), Some(90.0)));
    }
}
