//! Whether a rule holds, and what its remedy saves: a condition and a formula over parts, each with its replicates.
//!
//! What for: the one place where rules compare uncertain figures. A rule states when it [holds](judged) for plain numbers and
//! what it saves then. Both are computed in each replicate, so the common errors of figures from the same bursts cancel.
//!
//! ```text
//! true       it holds and saves at least LEAST_GAIN of the elapsed time, in SURE of the replicates
//! undecided  in fewer, but more than 1 - SURE: with the part that would decide it, were it known
//! false      else
//! ```
//! A part that is assumed, not measured ([`Part::Assumed`]), has its best value in the condition, and its range in the interval
//! of the gain, so that `min`, `max` and signs are no special cases (JCGM 101:2008, propagation of distributions). [`RUNS`]
//! widens every gain: it is for the next runs, and this run is only one of them. What not: which formula (rules).

use estimate::Estimate;
use facts::{Evidence, Metric};

use super::{Figures, HotFunction, LEAST_GAIN};
use crate::figure::{Figure, spread};

/// Probability from which on a statement counts as true.
const SURE: f64 = 0.95;
/// Times of the same program on the same machine, run again: gains measured by three pairs of runs in turn, alone on a virtual
/// machine, spread by 1 to 8 % to each side (`bench/drawn_causes.py`, seed 92004386).
pub(super) const RUNS: [f64; 3] = [0.95, 1.0, 1.05];

/// Share of a loop's instruction time that remains when its data lie in order: from all of it down to one vector instruction
/// for eight of its steps (AVX2 and `float`; steps that no longer wait for the sum of the one before).
pub(super) const REORDERED: Part<'static> = Part::Assumed([0.125, 0.6, 1.0]);
/// How far memory and core work at the same time: not at all to always.
pub(super) const OVERLAP: Part<'static> = Part::Assumed([0.0, 0.5, 1.0]);

/// A part of a formula.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    /// CPU seconds, which become elapsed ones.
    Seconds(&'a Metric),
    /// Percent, which become a share of 0 to 1.
    Share(&'a Figure),
    /// Any other figure.
    Value(&'a Figure),
    /// Low end, best value, high end of what is not measured.
    Assumed([f64; 3]),
}

/// Whether a rule is right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Truth {
    Yes,
    /// Why that is undecided, and after a colon what would decide it.
    Undecided(String),
    No,
}

/// What a cure saves, and whether it does.
pub(super) struct Gain {
    /// Elapsed seconds with the interval of all that is unsure; below 0 it costs. Not known where nothing is to be gained.
    pub(super) metric: Metric,
    pub(super) truth: Truth,
}

impl Gain {
    /// The same truth, and no gain.
    pub(super) fn unstated(self, why: &str) -> Gain {
        Gain { metric: Metric::unavailable("s", why), ..self }
    }
}

/// What is so, and why no gain is stated.
pub(super) fn unquantified(why: &str) -> Gain {
    Gain { metric: Metric::unavailable("s", why), truth: Truth::Yes }
}

/// A gain whose ends are no chance but what may be made of it: the low one must be worth it.
pub(super) fn stated(figures: &Figures, metric: Metric) -> Gain {
    let enough = metric.low.is_some_and(|low| low >= LEAST_GAIN * figures.elapsed);
    let truth = if enough || metric.value.is_none() { Truth::Yes } else { Truth::No };
    Gain { metric, truth }
}

/// A gain that was computed elsewhere.
pub(super) fn measured(figures: &Figures, gain: Figure) -> Gain {
    let judged = judged(figures, [Part::Value(&gain)], |_| true, |[gain]| gain);
    Gain { metric: gain.metric(), ..judged }
}

impl<'a> Part<'a> {
    /// Its replicates as the `number`th of its formula; where it is not known, of anything that it may be.
    fn drawn(&self, number: usize, (elapsed, running): (f64, f64)) -> Option<Estimate> {
        let anything = |most: f64| spread([0.0, most / 2.0, most], number);
        match self {
            Part::Seconds(metric) => {
                let time = Figure::from((*metric).clone()).drawn(number);
                let time = time.map(|time| time / running);
                Some(time.unwrap_or_else(|| anything(elapsed)))
            }
            Part::Share(figure) => {
                let share = figure.drawn(number);
                let share = share.map(|share| share.map(|percent| (percent * 0.01).min(1.0)));
                Some(share.unwrap_or_else(|| anything(1.0)))
            }
            Part::Value(figure) => figure.drawn(number),
            Part::Assumed(range) => {
                Some(spread(*range, number).map(|one| one.clamp(range[0], range[2])))
            }
        }
    }

    fn metric(&self) -> Option<&'a Metric> {
        match self {
            Part::Seconds(metric) => Some(metric),
            Part::Share(figure) | Part::Value(figure) => Some(figure),
            Part::Assumed(_) => None,
        }
    }

    /// Why a rule is undecided without it, and after a colon what would make it known.
    fn wanted(&self) -> &'a str {
        let metric = self.metric();
        let why = match self {
            Part::Share(figure) | Part::Value(figure) => figure.sharper(),
            _ => None,
        };
        let missing = metric.filter(|metric| metric.value.is_none());
        let why = why.or(missing.and_then(|metric| metric.note.as_deref()));
        why.unwrap_or_else(|| match metric.and_then(|metric| metric.evidence) {
            Some(Evidence::Calibrated) => {
                "the machine's costs are not known well enough: run `fathom machine` while nothing else runs"
            }
            Some(Evidence::Sampled) => {
                "its time is not known well enough: run the program for longer, or repeat it with --repeat"
            }
            _ => {
                "there were too few bursts: run the program for longer, repeat it with --repeat, or allow more \
                bursts with -k overhead=10"
            }
        })
    }
}

/// Whether `holds` is true of the parts, in their order, and what `saves` makes of them, in elapsed seconds. The gain is
/// unavailable if a measured part is, and what holds for any value of that part is reported without it.
pub(super) fn judged<const N: usize>(
    figures: &Figures,
    parts: [Part<'_>; N],
    holds: impl Fn([f64; N]) -> bool,
    saves: impl Fn([f64; N]) -> f64,
) -> Gain {
    judged_over((figures.elapsed, figures.running), parts, holds, saves)
}

fn judged_over<const N: usize>(
    run @ (elapsed, _): (f64, f64),
    parts: [Part<'_>; N],
    holds: impl Fn([f64; N]) -> bool,
    saves: impl Fn([f64; N]) -> f64,
) -> Gain {
    let missing = parts.iter().rfind(|part| part.metric().is_some_and(|one| one.value.is_none()));
    let why = missing.map(Part::wanted);
    let drawn: [Option<Estimate>; N] = std::array::from_fn(|at| parts[at].drawn(at, run));
    let Some(all) = drawn.into_iter().collect::<Option<Vec<Estimate>>>() else {
        let why = why.unwrap_or_default();
        let truth = Truth::Undecided(why.to_owned());
        return Gain { metric: Metric::unavailable("s", why), truth };
    };
    let all: [&Estimate; N] = std::array::from_fn(|at| &all[at]);
    let formula = |values| saves(values).min(elapsed);
    let known = |at: usize| Estimate::exactly(all[at].point());
    let best: [Estimate; N] = std::array::from_fn(|at| match parts[at] {
        Part::Assumed(_) => known(at),
        _ => all[at].clone(),
    });
    // Of a gain that is not known, whether there is any is all that can be asked.
    let enough =
        |values| holds(values) && (missing.is_some() || formula(values) >= LEAST_GAIN * elapsed);
    let probability = |parts: [&Estimate; N]| {
        let enough = Estimate::of(parts, |values| f64::from(u8::from(enough(values))));
        enough.probability(|holds| holds > 0.0)
    };
    let probably = probability(best.each_ref());
    let truth = if probably >= SURE {
        Truth::Yes
    } else if probably <= 1.0 - SURE {
        Truth::No
    } else {
        // The part that leaves least doubt, were it known.
        let without = |at: usize| {
            let mut parts = best.each_ref();
            let known = known(at);
            parts[at] = &known;
            (probability(parts) - 0.5).abs()
        };
        let measured = (0..N).filter(|at| parts[*at].metric().is_some());
        let most = measured.max_by(|a, b| without(*a).total_cmp(&without(*b)));
        let wanted = why.or(most.map(|at| parts[at].wanted()));
        Truth::Undecided(wanted.unwrap_or_default().to_owned())
    };
    if let Some(why) = why {
        return Gain { metric: Metric::unavailable("s", why), truth };
    }
    let gain = Estimate::of(all, formula) * &spread(RUNS, N);
    let samples = parts.iter().filter_map(|part| Some(part.metric()?.samples)).min().unwrap_or(1);
    let (value, interval) = (gain.point(), gain.interval());
    let metric = Metric::with_interval(Evidence::Estimated, value, "s", interval, samples);
    Gain { metric, truth }
}

/// Share of a function's time that remains, 0 to 1, when the accesses that have `part` of its waits move their lines in order,
/// and only a part of the bytes. It consists of the waits of the other accesses, the instructions, and the transfer of the
/// remaining bytes at the peak of this mix of reads and writes with as many threads. `overlap`: 1 where memory and core work at
/// the same time.
pub(super) fn left(waits: f64, part: f64, core: f64, memory: f64, overlap: f64) -> f64 {
    let (waits, part) = (waits.clamp(0.0, 1.0), part.clamp(0.0, 1.0));
    let core = (1.0 - waits) * core;
    let memory = memory.clamp(0.0, waits * part);
    let both = overlap * core.max(memory) + (1.0 - overlap) * (core + memory);
    (waits * (1.0 - part) + both).clamp(0.0, 1.0)
}

/// The part of a function's time in which memory is at work; where this machine's peaks are not known, anything up to all that it
/// waits.
pub(super) fn busy(function: &HotFunction) -> Part<'_> {
    let waits = function.waits.value.unwrap_or(100.0) / 100.0;
    match function.of_reach.value {
        Some(_) => Part::Share(&function.of_reach),
        None => Part::Assumed([0.0, waits / 2.0, waits]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(low: f64, value: f64, high: f64) -> Figure {
        Metric::with_interval(Evidence::Traced, value, "percent", (low, high), 9).into()
    }

    /// Of one second of a run that takes a second.
    fn of<const N: usize>(
        parts: [Part<'_>; N],
        holds: impl Fn([f64; N]) -> bool,
        saves: impl Fn([f64; N]) -> f64,
    ) -> (f64, f64, Truth) {
        let Gain { metric, truth } = judged_over((1.0, 1.0), parts, holds, saves);
        (metric.low.unwrap_or(0.0), metric.high.unwrap_or(0.0), truth)
    }

    #[test]
    fn an_interval_has_all_that_is_unsure_and_the_truth_only_what_was_measured() {
        let part = share(40.0, 50.0, 60.0);
        let half = [Part::Share(&part), Part::Assumed([0.0, 0.5, 1.0])];
        let (low, high, truth) = of(half, |_| true, |[share, part]| share * part);
        assert!(low < 0.03 && high > 0.47 && high < 0.65, "{low} {high}");
        assert_eq!(truth, Truth::Yes);
        // The run to come is unsure, even where nothing else is.
        let (low, high, _) = of([Part::Assumed([0.5; 3])], |_| true, |[part]| part);
        assert!((low - 0.475).abs() < 0.002 && (high - 0.525).abs() < 0.002, "{low} {high}");
        // A cure may cost.
        let (low, ..) = of([Part::Assumed([0.0, 0.0, 3.0])], |_| true, |[cost]| 0.4 - cost);
        assert!(low < -2.0, "{low}");
    }

    #[test]
    fn a_rule_is_true_undecided_or_false_by_its_probability() {
        let truth = |least: f64| {
            let part = share(40.0, 50.0, 60.0);
            of([Part::Share(&part)], |[part]| part >= least, |[part]| part).2
        };
        // Nine tenths, and a tenth; what saves too little is false.
        assert_eq!((truth(0.405), truth(0.605)), (Truth::Yes, Truth::No));
        let Truth::Undecided(why) = truth(0.42) else { panic!("{:?}", truth(0.42)) };
        assert!(why.contains("--repeat"), "{why}");
        assert!(matches!(truth(0.58), Truth::Undecided(_)));
        let all = share(99.0, 99.0, 99.0);
        assert_eq!(of([Part::Share(&all)], |_| true, |[part]| part * 0.02).2, Truth::No);
        // An unknown part is no all-clear; a finding that holds without it is reported.
        let unknown = Figure::from(Metric::unavailable("percent", "not seen: run it"));
        let truth = |least| of([Part::Share(&unknown)], |[part]| part >= least, |[part]| part).2;
        assert_eq!(truth(0.3), Truth::Undecided("not seen: run it".to_owned()));
        assert_eq!((truth(0.0), truth(1.1)), (Truth::Yes, Truth::No));
    }

    #[test]
    fn what_would_decide_is_the_part_that_leaves_most_doubt() {
        let waits = share(10.0, 50.0, 90.0).sharper_by("time it alone");
        let part = share(80.0, 90.0, 95.0);
        let parts = [Part::Share(&waits), Part::Share(&part)];
        let truth = of(parts, |[waits, part]| waits > 0.3 && part > 0.4, |[waits, _]| waits).2;
        assert_eq!(truth, Truth::Undecided("time it alone".to_owned()));
    }

    #[test]
    fn independent_parts_widen_each_other_less_than_their_ends_do() {
        let one = Figure::from(Metric::with_interval(Evidence::Traced, 1.0, "x", (0.8, 1.2), 9));
        let (low, high, _) = of([Part::Value(&one); 3], |_| true, |[a, b, c]| a * b * c / 2.0);
        // The product of the ends goes from 0.256 to 0.864.
        assert!(low > 0.3 && high < 0.78, "{low} {high}");
        assert!(low < 0.38 && high > 0.63, "{low} {high}");
    }

    #[test]
    fn what_is_left_lies_between_working_at_a_time_and_in_turn() {
        // Core 0.4, memory 0.3; others wait 0.12.
        let of = |overlap| left(0.6, 0.8, 1.0, 0.3, overlap);
        assert!((of(1.0) - 0.52).abs() < 1e-9 && (of(0.0) - 0.82).abs() < 1e-9);
        assert!(left(1.0, 1.0, 1.0, 5.0, 0.0) <= 1.0);
    }
}
