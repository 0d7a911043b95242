//! What each observation represents: from bursts to totals of the program, with replicates.
//!
//! What for: an *observation* is what one burst did in one region of the code. It represents a part of the program's time, so a
//! total is the sum over observations of (amount) x (what it represents), computed in each replicate. What not: which
//! observations represent which time (`strata`).
//!
//! ```text
//! observation i of stratum h represents  c_i = w_i T_h / S_h              T_h: CPU time of the stratum
//! and in replicate r                     c_i (1 + t_hr) (1 + d_ir - D_hr)  S_h: sum over its observations of w_i s_i
//!                                        D_hr = sum of d_ir w_i s_i / S_h  s_i: native seconds
//! ```
//! w: what the moment represents (`represented`).
//! Native seconds s are uncertain themselves (`native::Speed`): in a replicate S_h has those that it draws, all at the same fraction
//! between their ends, because what is not known of one window is not known of the others. t: scatter of T, from samples. d: scatter
//! of observations. They are a systematic sample in time, so from [`FEWEST_IN_ORDER`] on it is that of differences of neighbours: in a
//! program that does one thing first and another then, observations differ more than their sum is uncertain (Wolter 2007, 8.2.1,
//! estimator v2). With D the rate is a ratio, linearised (Cochran 1977, 6.10).
//! Tails are Student's, with n - 1 degrees of freedom, in order 2 (n - 1)^2 / (3 n - 4) (J. von Neumann et al., "The mean square
//! successive difference", Ann. Math. Stat. 12 (1941) 153-162).
//!
//! In each replicate, amounts with bounds lie somewhere between these; all of a region at the same fraction.
//!
//! Assumptions: a single observation gives only the order of magnitude of its stratum ([`SINGLE`]).

use std::collections::HashMap;
use std::sync::Arc;

use estimate::parameters::SINGLE;
use estimate::ratios::{FEWEST_IN_ORDER, freedom};
use estimate::{Bounds, Draws, Estimate, REPLICATES};
use facts::{Evidence, Metric};

use super::code_regions::CodeRegion;
use super::native::Speed;
use super::quantity::Quantity;
use crate::figure::Figure;

/// The random parts of looks, and of what the model does not know of places.
#[derive(Debug, Default)]
pub(super) struct Chances {
    /// Standard normal numbers of each look.
    scatter: Vec<Vec<f64>>,
    /// For each observation, which of `unknown` belongs to its region.
    place: Vec<usize>,
    unknown: Vec<Vec<f64>>,
    /// For each observation, its native seconds over their best value; empty where they are known.
    time: Vec<Vec<f64>>,
}

impl Chances {
    pub(super) fn new(
        looks: impl Iterator<Item = (CodeRegion, Speed)>,
        off: &[Vec<f64>],
    ) -> Chances {
        let (mut draws, mut speeds) = (Draws::new(0), Draws::new(1));
        let paces = speeds.anywhere();
        let mut chances = Chances::default();
        let mut numbers: HashMap<CodeRegion, usize> = HashMap::new();
        for (place, speed) in looks {
            chances.scatter.push(draws.normal());
            let next = numbers.len();
            let number = *numbers.entry(place).or_insert(next);
            if number == next {
                chances.unknown.push(draws.unknown());
            }
            let off = speed.off.and_then(|number| off.get(number));
            let longer = |at: usize| off.map_or(1.0, |off| off[at].exp());
            let time = paces.iter().enumerate();
            let time =
                time.map(|(at, place)| (speed.time_at(*place) * longer(at)).max(speed.least));
            chances.time.push(if speed.is_known() { Vec::new() } else { time.collect() });
            chances.place.push(number);
        }
        chances
    }

    /// These native seconds of a look.
    pub(super) fn native(&self, look: usize, seconds: f64) -> Estimate {
        let at = |at| seconds * self.time(look, at);
        Estimate::new(seconds, (0..REPLICATES).map(at).collect())
    }

    /// An amount of a look.
    pub(super) fn drawn(&self, look: usize, amount: Bounds) -> Estimate {
        let places = self.unknown[self.place[look]].iter();
        Estimate::new(amount.best, places.map(|place| amount.at(*place)).collect())
    }

    fn time(&self, observation: usize, replicate: usize) -> f64 {
        self.time[observation].get(replicate).copied().unwrap_or(1.0)
    }
}

/// Random numbers of strata with this many observations: the tails of their scatter, and the scatter of their time.
#[derive(Debug, Default)]
pub(super) struct Lots {
    known: HashMap<(u64, usize), (Vec<f64>, Vec<f64>)>,
}

impl Lots {
    fn of(&mut self, stratum: &Stratum<'_>) -> &(Vec<f64>, Vec<f64>) {
        let count = stratum.observations.len();
        self.known.entry((stratum.seed, count)).or_insert_with(|| {
            // The highest bit keeps these seeds apart from those of the observations.
            let mut draws = Draws::new(stratum.seed | 1 << 63);
            (draws.tails(freedom(count).max(1.0)), draws.normal())
        })
    }
}

/// A part of the program's time, and the observations that represent it.
#[derive(Clone, Copy)]
pub(super) struct Stratum<'a> {
    /// Random numbers that go with it.
    pub(super) seed: u64,
    /// CPU time, seconds.
    pub(super) seconds: f64,
    /// Half of the 95 % interval of it, as a part.
    pub(super) scatter: f64,
    /// In the order of time.
    pub(super) observations: &'a [usize],
    /// What each observation represents, by its number, over what it would if all represented the same; empty where all do.
    pub(super) weights: &'a [f64],
}

impl Stratum<'_> {
    fn weight(&self, observation: usize) -> f64 {
        self.weights.get(observation).copied().unwrap_or(1.0)
    }
}

/// What an observation represents.
#[derive(Clone, Debug)]
struct Factor {
    point: f64,
    replicates: Vec<f64>,
}

/// Factors of observations; those that represent nothing have none.
#[derive(Clone, Debug)]
pub(crate) struct Expansion {
    factors: Vec<Option<Factor>>,
    chances: Arc<Chances>,
    /// Bursts that speak.
    bursts: u64,
}

impl Expansion {
    pub(super) fn new(chances: Arc<Chances>, bursts: usize) -> Expansion {
        Expansion { factors: vec![None; chances.place.len()], chances, bursts: bursts as u64 }
    }

    /// Adds a stratum; `native` is the seconds of a look.
    pub(super) fn add(
        &mut self,
        stratum: &Stratum<'_>,
        lots: &mut Lots,
        native: impl Fn(usize) -> f64,
    ) {
        let native = |observation: usize| stratum.weight(observation) * native(observation);
        let all: f64 = stratum.observations.iter().map(|observation| native(*observation)).sum();
        if all <= 0.0 || stratum.seconds <= 0.0 {
            return;
        }
        let (tails, time) = lots.of(stratum);
        let scatter = self.scatter(stratum.observations, tails);
        let (mut mean, mut longer) = (vec![0.0; REPLICATES], vec![0.0; REPLICATES]);
        for (observation, scatter) in stratum.observations.iter().zip(&scatter) {
            let part = native(*observation) / all;
            mean.iter_mut().zip(scatter).for_each(|(sum, one)| *sum += part * one);
            let times = longer.iter_mut().enumerate();
            times.for_each(|(at, sum)| *sum += part * self.chances.time(*observation, at));
        }
        let own = if stratum.observations.len() == 1 { SINGLE.value } else { 0.0 };
        let relative = (stratum.scatter / 1.96).hypot(own);
        let time: Vec<f64> = time.iter().map(|z| (1.0 + relative * z).max(0.0)).collect();
        for (observation, scatter) in stratum.observations.iter().zip(&scatter) {
            let point = stratum.seconds * stratum.weight(*observation) / all;
            let replicates = (0..REPLICATES)
                .map(|at| point * time[at] / longer[at] * (1.0 + scatter[at] - mean[at]));
            self.stand(*observation, point, replicates);
        }
    }

    /// An observation represents this much more.
    pub(super) fn stand(
        &mut self,
        observation: usize,
        point: f64,
        replicates: impl Iterator<Item = f64>,
    ) {
        let factor = self.factor(observation);
        factor.point += point;
        factor.replicates.iter_mut().zip(replicates).for_each(|(sum, one)| *sum += one);
    }

    /// The same in one replicate alone.
    pub(super) fn stand_in(&mut self, observation: usize, replicate: usize, part: f64) {
        self.factor(observation).replicates[replicate] += part;
    }

    fn factor(&mut self, observation: usize) -> &mut Factor {
        let none = || Factor { point: 0.0, replicates: vec![0.0; REPLICATES] };
        self.factors[observation].get_or_insert_with(none)
    }

    /// Random relative weight of each of these observations.
    fn scatter(&self, observations: &[usize], tails: &[f64]) -> Vec<Vec<f64>> {
        let n = observations.len() as f64;
        let of = |at: usize| self.chances.scatter[observations[at]].as_slice();
        match observations.len() {
            0 | 1 => vec![vec![0.0; REPLICATES]; observations.len()],
            2..FEWEST_IN_ORDER => {
                // Weights vary around the mean of n observations, which follows them: by less than around the true one.
                let factor = (n / (n - 1.0)).sqrt();
                let one = |at| (0..REPLICATES).map(|r| of(at)[r] * tails[r] * factor).collect();
                (0..observations.len()).map(one).collect()
            }
            count => {
                // A difference of neighbours has the variance of two observations.
                let factor = (n / (n - 1.0) / 2.0).sqrt();
                let one = |at: usize| {
                    let step = |r: usize| {
                        let own = if at + 1 < count { of(at)[r] } else { 0.0 };
                        let before = if at > 0 { of(at - 1)[r] } else { 0.0 };
                        (own - before) * tails[r] * factor
                    };
                    (0..REPLICATES).map(step).collect()
                };
                (0..count).map(one).collect()
            }
        }
    }

    /// The total of an amount; no less than nothing.
    pub(crate) fn total(&self, quantity: &Quantity) -> Estimate {
        let some = quantity.0.iter().enumerate().filter(|(_, amount)| amount.high != 0.0);
        self.summed(some.map(|(observation, amount)| {
            let unknown = &self.chances.unknown[self.chances.place[observation]];
            let is_known = amount.low == amount.best && amount.high == amount.best;
            let amounts = match is_known {
                true => Amounts::Known(amount.best),
                false => Amounts::Within(*amount, unknown),
            };
            (observation, amount.best, amounts)
        }))
    }

    /// The total of these native seconds.
    pub(crate) fn time(&self, seconds: &Quantity) -> Estimate {
        let some = seconds.0.iter().enumerate().filter(|(_, seconds)| seconds.best > 0.0);
        self.summed(some.map(|(observation, seconds)| {
            let amounts = match self.chances.time[observation].as_slice() {
                [] => Amounts::Known(seconds.best),
                longer => Amounts::Times(seconds.best, longer),
            };
            (observation, seconds.best, amounts)
        }))
    }

    /// The total of amounts that are drawn already.
    pub(super) fn drawn(&self, amounts: &[Estimate]) -> Estimate {
        let all = amounts.iter().enumerate();
        self.summed(all.map(|(observation, one)| (observation, one.point(), Amounts::Drawn(one))))
    }

    /// The same of amounts of looks: the best one, and those in the replicates.
    fn summed<'a>(&self, amounts: impl Iterator<Item = (usize, f64, Amounts<'a>)>) -> Estimate {
        let (mut point, mut replicates) = (0.0, Vec::new());
        for (observation, best, amounts) in amounts {
            let Some(factor) = &self.factors[observation] else { continue };
            replicates.resize(REPLICATES, 0.0);
            point += factor.point * best;
            amounts.add(&mut replicates, &factor.replicates);
        }
        if replicates.is_empty() {
            return Estimate::exactly(0.0);
        }
        replicates.iter_mut().for_each(|one: &mut f64| *one = one.max(0.0));
        Estimate::new(point, replicates)
    }

    /// The best total alone, of the amounts of some observations.
    pub(crate) fn sum(&self, amounts: impl Iterator<Item = (usize, f64)>) -> f64 {
        let part = |(observation, amount): (usize, f64)| {
            self.factors[observation].as_ref().map_or(0.0, |factor| factor.point * amount)
        };
        amounts.map(part).sum()
    }

    /// The total of an amount over `per`, as a metric.
    pub(crate) fn metric(
        &self,
        quantity: &Quantity,
        (per, unit): (f64, &str),
        evidence: Evidence,
    ) -> Metric {
        self.shown(self.total(quantity) / per, unit, evidence)
    }

    /// One total over another, times `factor`; `nothing` says why where there is no other.
    pub(crate) fn ratio(
        &self,
        part: &Quantity,
        whole: &Estimate,
        (factor, unit): (f64, &str),
        evidence: Evidence,
        nothing: &str,
    ) -> Figure {
        if whole.point() <= 0.0 {
            return Metric::unavailable(unit, nothing).into();
        }
        self.figure(self.total(part) / whole * factor, unit, evidence)
    }

    /// A share of a whole, percent; no more than all of it.
    pub(crate) fn percent(
        &self,
        part: &Quantity,
        whole: &Estimate,
        evidence: Evidence,
        nothing: &str,
    ) -> Figure {
        self.share(self.total(part), whole, evidence, nothing)
    }

    /// The same of a part that is known already.
    pub(super) fn share(
        &self,
        part: Estimate,
        whole: &Estimate,
        evidence: Evidence,
        nothing: &str,
    ) -> Figure {
        if whole.point() <= 0.0 {
            return Metric::unavailable("percent", nothing).into();
        }
        let share = (part / whole * 100.0).map(|share| share.clamp(0.0, 100.0));
        self.figure(share, "percent", evidence)
    }

    fn figure(&self, estimate: Estimate, unit: &str, evidence: Evidence) -> Figure {
        Figure::new(self.shown(estimate.clone(), unit, evidence), estimate)
    }

    /// As a metric. An end that is infinite is not known.
    pub(crate) fn shown(&self, estimate: Estimate, unit: &str, evidence: Evidence) -> Metric {
        let interval = estimate.interval();
        let metric = Metric::with_interval(evidence, estimate.point(), unit, interval, self.bursts);
        Metric { high: metric.high.filter(|high| high.is_finite()), ..metric }
    }
}

/// What one observation has in each replicate. A report sums millions of these: each kind has a loop without branches.
enum Amounts<'a> {
    /// The same in all.
    Known(f64),
    /// So much, times this in each.
    Times(f64, &'a [f64]),
    /// Between bounds, at this position of the unknown ([`Bounds::at`]).
    Within(Bounds, &'a [f64]),
    /// Drawn already.
    Drawn(&'a Estimate),
}

impl Amounts<'_> {
    /// Adds them, each times its factor.
    fn add(&self, sums: &mut [f64], factors: &[f64]) {
        let parts = sums.iter_mut().zip(factors);
        match *self {
            Amounts::Known(best) => parts.for_each(|(sum, factor)| *sum += factor * best),
            Amounts::Times(best, times) => {
                parts.zip(times).for_each(|((sum, factor), one)| *sum += factor * (best * one));
            }
            Amounts::Within(Bounds { best, low, high }, unknown)
                if low.is_finite() && high.is_finite() =>
            {
                let (below, above) = (low - best, high - best);
                parts.zip(unknown).for_each(|((sum, factor), at)| {
                    *sum += factor * (best + above * at.max(0.0) + below * (-at).max(0.0));
                });
            }
            Amounts::Within(bounds, unknown) => {
                parts.zip(unknown).for_each(|((sum, factor), at)| *sum += factor * bounds.at(*at));
            }
            Amounts::Drawn(one) => {
                let parts = parts.enumerate();
                parts.for_each(|(at, (sum, factor))| *sum += factor * one.replicate(at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_time_is_no_less_than_without_misses() {
        let speed = Speed { least: 0.8, ..Speed::between(1.0, 0.5, 4.0) };
        let chances = Chances::new(std::iter::once((CodeRegion::Loop(0), speed)), &[]);
        let times = (0..REPLICATES).map(|at| chances.time(0, at));
        let (least, most) = times
            .fold((f64::INFINITY, 0.0f64), |(least, most), time| (least.min(time), most.max(time)));
        assert!((least - 0.8).abs() < 1e-9 && most > 1.8, "{least} {most}");
    }

    /// `looks` observations in regions by turns, each of a millisecond, which represent some seconds of one stratum.
    fn expansion(observations: usize, places: u32, seconds: f64) -> Expansion {
        let chances = Chances::new(
            (0..observations).map(|at| (CodeRegion::Loop(at as u32 % places), Speed::KNOWN)),
            &[],
        );
        let mut expansion = Expansion::new(Arc::new(chances), observations);
        let all: Vec<usize> = (0..observations).collect();
        let stratum = Stratum { seed: 1, seconds, scatter: 0.0, observations: &all, weights: &[] };
        expansion.add(&stratum, &mut Lots::default(), |_| 1e-3);
        expansion
    }

    fn half(estimate: &Estimate) -> f64 {
        let (low, high) = estimate.interval();
        (high - low) / 2.0
    }

    #[test]
    fn what_is_alike_in_all_observations_is_certain() {
        let expansion = expansion(10, 1, 2.0);
        let total = expansion.total(&Quantity::exactly([5.0; 10].into_iter()));
        assert!((total.point() - 10_000.0).abs() < 1e-6 && half(&total) < 1e-6);
    }

    /// By hand: 1 and 3 by turns, 10 looks of 1 ms, two seconds: variance of their sum 9 x 4 / 2 x 10 / 9 = 20, and 2000 s / 10 ms
    /// of each; Student's quantile for 6.2 degrees of freedom is 2.43.
    #[test]
    fn observations_in_order_scatter_by_their_differences() {
        let turns = expansion(10, 1, 2.0);
        let by_turns = (0..10).map(|at| if at % 2 == 0 { 1.0 } else { 3.0 });
        let total = turns.total(&Quantity::exactly(by_turns));
        let expected = 2.43 * 20f64.sqrt() * 200.0;
        assert!((total.point() - 4000.0).abs() < 1e-6);
        assert!((half(&total) / expected - 1.0).abs() < 0.15, "{} {expected}", half(&total));
        // One thing first and another then: only the place of the change is uncertain.
        let phases = (0..10).map(|at| if at < 5 { 1.0 } else { 3.0 });
        let total = turns.total(&Quantity::exactly(phases));
        assert!((half(&total) * 3.0 / expected - 1.0).abs() < 0.2, "{}", half(&total));
    }

    #[test]
    fn a_single_observation_gives_the_order_of_magnitude() {
        let total = expansion(1, 1, 2.0).total(&Quantity::exactly([5.0].into_iter()));
        assert!((half(&total) / total.point() - 1.0).abs() < 0.05);
    }

    #[test]
    fn a_part_of_what_scatters_may_be_known_well() {
        let expansion = expansion(10, 1, 2.0);
        let whole = Quantity::exactly((0..10).map(|at| f64::from(at % 3 + 1)));
        let tenth = Quantity::exactly((0..10).map(|at| f64::from(at % 3 + 1) / 10.0));
        let share =
            expansion.percent(&tenth, &expansion.total(&whole), Evidence::Simulated, "nothing");
        assert!((share.value.unwrap() - 10.0).abs() < 1e-9);
        assert!(share.high.unwrap() - share.low.unwrap() < 1e-9);
        let none = Estimate::exactly(0.0);
        let nothing = expansion.percent(&tenth, &none, Evidence::Simulated, "nothing");
        assert_eq!(nothing.note.as_deref(), Some("nothing"));
    }

    /// Unknown amounts of one place go together, those of many places in part.
    #[test]
    fn unknowns_of_many_places_average_out_in_part() {
        let amount = Bounds { best: 2.0, low: 1.0, high: 3.0 };
        let wide = |places| half(&expansion(60, places, 1.0).total(&Quantity(vec![amount; 60])));
        let (one, many) = (wide(1), wide(60));
        assert!((one / 1000.0 - 1.0).abs() < 0.03, "{one}");
        assert!(many < 0.9 * one && many > 0.6 * one, "{many}");
    }
}
