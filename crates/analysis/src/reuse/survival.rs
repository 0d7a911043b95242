//! The share of accesses whose distance exceeds a capacity, from distances of which many are only known to be large.
//!
//! What for: a burst is short and starts cold. A line that it touches for the first time has a distance of at least the number of
//! lines so far: a *censored* observation, which is at risk up to there. The product limit (Kaplan and Meier, "Nonparametric
//! estimation from incomplete observations", J. Am. Stat. Assoc. 53, 1958) uses both, on segments of distances as in a life
//! table (those censored within a segment are at risk for half of it: Cutler and Ederer, "Maximum utilization of the life table
//! method", J. Chronic Diseases 8, 1958). They could also be at risk for none or all of their segment: the interval is widened
//! by that difference.
//! Interval: Greenwood's variance treats observations as independent. Accesses of one burst are not, so it is taken over bursts,
//! from the same linear form of log S (Williams, "Product-limit survival functions with correlated survival times", Lifetime
//! Data Analysis 1, 1995), on the scale log(-log S), which stays within 0..1 (Kalbfleisch and Prentice, "The Statistical
//! Analysis of Failure Time Data", 2nd ed. 2002, section 1.4), with Student's quantile.
//! Assumption: the censoring (the position of an access in its burst) is independent of its distance. Bursts begin at random
//! moments, so that holds, except for code in phases shorter than a burst.
//! What not: sets and ways (`memory::survival`).

use estimate::interval::wilson;
use estimate::student::quantile_95;

/// With less at risk, the curve ends: single accesses would move it.
const LEAST_AT_RISK: f64 = 30.0;

/// What one burst saw of a row: for each segment the weight of distances in it, and of those that are at least its lower
/// end. Segments without either are left out.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Observed {
    pub(super) segments: Vec<(usize, SegmentWeights)>,
}

/// Weights of a segment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct SegmentWeights {
    pub(super) again: f64,
    pub(super) first: f64,
}

/// An estimate, with an interval if it comes from more than one burst.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Survival {
    pub(super) value: f64,
    pub(super) interval: Option<(f64, f64)>,
}

/// The share of accesses whose distance is at least each of `capacities` capacities. Shorter where no burst touched so
/// much: from there on it is only known not to rise.
pub(super) fn survival(bursts: &[Observed], capacities: usize) -> Vec<Survival> {
    let mut at_risk: Vec<f64> = bursts.iter().map(Observed::total).collect();
    let mut influence = vec![0.0; bursts.len()];
    let mut next = vec![0; bursts.len()];
    let mut logs = Logs::default();
    let mut curve: Vec<Survival> = Vec::new();
    for segment in 0..capacities {
        let seen: Vec<SegmentWeights> =
            bursts.iter().zip(&mut next).map(|(burst, next)| burst.take(segment, next)).collect();
        let exposed: Vec<f64> =
            at_risk.iter().zip(&seen).map(|(all, seen)| all - seen.first / 2.0).collect();
        let all: f64 = exposed.iter().sum();
        let clusters = exposed.iter().filter(|one| **one >= 1.0).count();
        if all < LEAST_AT_RISK || (bursts.len() > 1 && clusters < 2) {
            break;
        }
        let died: f64 = seen.iter().map(|seen| seen.again).sum();
        let censored: f64 = seen.iter().map(|seen| seen.first).sum();
        let hazard = (died / all).min(1.0);
        if hazard >= 1.0 {
            // Nothing is left at risk, so nothing larger misses here; but another burst might have had a larger distance.
            let last = curve.last().and_then(|last| last.interval).map_or(1.0, |(_, high)| high);
            let high = last * wilson(0.0, clusters as f64).1;
            let interval = (clusters > 1).then_some((0.0, high));
            curve.resize(capacities, Survival { value: 0.0, interval });
            break;
        }
        logs.add(died, all, censored);
        for ((influence, exposed), seen) in influence.iter_mut().zip(&exposed).zip(&seen) {
            *influence += (seen.again - hazard * exposed) / (all * (1.0 - hazard));
        }
        let interval = interval(logs.middle, &influence, clusters).map(|found| logs.widen(found));
        curve.push(Survival { value: logs.middle.exp(), interval });
        for (at_risk, seen) in at_risk.iter_mut().zip(&seen) {
            *at_risk = (*at_risk - seen.again - seen.first).max(0.0);
        }
    }
    curve
}

/// Logarithms of the product limit: with those censored in a segment at risk for half of it, for none, and for all.
#[derive(Default)]
struct Logs {
    middle: f64,
    low: f64,
    high: f64,
}

impl Logs {
    fn add(&mut self, died: f64, exposed: f64, censored: f64) {
        let step = |exposed: f64| (-(died / exposed).min(1.0)).ln_1p();
        self.middle += step(exposed);
        self.low += if died > 0.0 { step(exposed - censored / 2.0) } else { 0.0 };
        self.high += step(exposed + censored / 2.0);
    }

    fn widen(&self, (low, high): (f64, f64)) -> (f64, f64) {
        (low * (self.low - self.middle).exp(), (high * (self.high - self.middle).exp()).min(1.0))
    }
}

impl Observed {
    fn total(&self) -> f64 {
        self.segments.iter().map(|(_, seen)| seen.again + seen.first).sum()
    }

    fn take(&self, segment: usize, next: &mut usize) -> SegmentWeights {
        match self.segments.get(*next) {
            Some((at, seen)) if *at == segment => {
                *next += 1;
                *seen
            }
            _ => SegmentWeights::default(),
        }
    }
}

fn interval(log: f64, influence: &[f64], clusters: usize) -> Option<(f64, f64)> {
    if clusters < 2 {
        return None;
    }
    if log == 0.0 {
        return Some((1.0, 1.0));
    }
    let bursts = influence.len() as f64;
    let squares: f64 = influence.iter().map(|one| one * one).sum();
    let error = (squares * bursts / (bursts - 1.0)).sqrt();
    let half = (quantile_95((clusters - 1) as f64) * error / -log).min(700.0);
    Some(((log * half.exp()).exp(), (log * (-half).exp()).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(segments: &[(usize, f64, f64)]) -> Observed {
        let seen = |(at, again, first): &(usize, f64, f64)| {
            (*at, SegmentWeights { again: *again, first: *first })
        };
        Observed { segments: segments.iter().map(seen).collect() }
    }

    fn values(bursts: &[Observed], capacities: usize) -> Vec<f64> {
        survival(bursts, capacities).iter().map(|one| one.value).collect()
    }

    #[test]
    fn without_censoring_it_is_the_plain_share() {
        let burst = observed(&[(0, 500.0, 0.0), (1, 300.0, 0.0), (3, 150.0, 0.0), (4, 50.0, 0.0)]);
        let bursts = vec![burst; 5];
        let curve = survival(&bursts, 4);
        for (found, expected) in curve.iter().zip([0.5, 0.2, 0.2, 0.05]) {
            assert!((found.value - expected).abs() < 1e-12, "{curve:?}");
            let (low, high) = found.interval.unwrap();
            assert!((low - expected).abs() < 1e-9 && (high - expected).abs() < 1e-9);
        }
        assert_eq!(curve.len(), 4);
    }

    /// Life table by hand: 1000 at risk, 100 censored within the first segment: 475 / 950; then 425 left.
    #[test]
    fn what_is_censored_is_at_risk_up_to_there() {
        let bursts = [observed(&[(0, 475.0, 100.0), (1, 85.0, 0.0), (2, 0.0, 340.0)])];
        let found = values(&bursts, 4);
        assert_eq!(found.len(), 3, "behind the last censored one nothing is known");
        for (found, expected) in found.iter().zip([0.5, 0.4, 0.4]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert_eq!(survival(&bursts, 4)[0].interval, None, "one burst says nothing of others");
    }

    #[test]
    fn all_within_the_first_capacity_and_nothing_at_all() {
        let curve = survival(&[observed(&[(0, 500.0, 0.0)]), observed(&[(0, 400.0, 0.0)])], 3);
        assert_eq!(curve, [Survival { value: 0.0, interval: Some((0.0, wilson(0.0, 2.0).1)) }; 3]);
        assert!(survival(&[], 3).is_empty());
        assert!(survival(&[Observed::default()], 3).is_empty());
    }

    /// Bursts that see 40 and 60 % beyond the first capacity: 50 %, with a wide interval for two and a small one for many.
    #[test]
    fn bursts_that_differ_widen_the_interval() {
        let burst = |beyond: f64| observed(&[(0, 1000.0 - beyond, 0.0), (1, beyond, 0.0)]);
        let of = |pairs: usize| {
            let bursts: Vec<Observed> =
                (0..2 * pairs).map(|number| burst(400.0 + 200.0 * (number % 2) as f64)).collect();
            let first = survival(&bursts, 1)[0];
            assert!((first.value - 0.5).abs() < 1e-9);
            first.interval.unwrap()
        };
        let (low, high) = of(1);
        assert!(low < 0.01 && high > 0.9, "{low} {high}");
        // The standard error of a mean of 50 is 0.1 / 7; with Student's quantile 0.0287.
        let (low, high) = of(25);
        assert!((0.5 - low - 0.0287).abs() < 0.001 && (high - 0.5 - 0.0287).abs() < 0.001);
    }
}
