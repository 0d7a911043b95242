//! A gain and all that it is unsure of: a formula over parts, each with its range.
//!
//! What for: measured parts bring the interval of their sample, assumed ones ([`Part::Assumed`]) the range of what nobody
//! measured; the formula is computed for [`DRAWS`] combinations of them, and the interval is that of 95 % of the outcomes. So
//! `min`, `max` and signs are no special cases (JCGM 101:2008, propagation of distributions). What not: which formula (rules).
//!
//! Every gain is also unsure by [`RUNS`]: that of the next runs is asked for, and this one is known.
//! Assumptions: parts are independent; as much of a range lies above its likely value as below it, evenly on each side.

use facts::{Evidence, Metric};

use super::{Figures, HotFunction};

/// Combinations that are computed; 12 of them lie beyond each end.
const DRAWS: usize = 512;
/// Times of the same program on the same machine, run again: gains measured by three pairs of runs in turn, alone on a virtual
/// machine, spread by 1 to 8 % to each side (`bench/drawn_causes.py`, seed 92004386).
const RUNS: [f64; 3] = [0.95, 1.0, 1.05];

/// Of the time that a loop's instructions take, what they take when its data lie in order: as long as before, or as long as one
/// vector instruction for eight of its steps (AVX2 and `float`; steps that no more wait for the sum of the one before).
pub(super) const REORDERED: Part<'static> = Part::Assumed([0.125, 0.6, 1.0]);
/// How far memory and core work at the same time: not at all to always.
pub(super) const OVERLAP: Part<'static> = Part::Assumed([0.0, 0.5, 1.0]);

/// A part of a formula.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    /// CPU seconds, which become elapsed ones.
    Seconds(&'a Metric),
    /// Percent, which become a share of 0 to 1.
    Share(&'a Metric),
    /// Low end, likely value, high end of any other measured figure.
    Measured([f64; 3]),
    /// Likewise of what is not measured.
    Assumed([f64; 3]),
}

/// Elapsed seconds that a cure saves.
pub(super) struct Gain {
    /// With the interval of all that is unsure; below 0 it costs.
    pub(super) metric: Metric,
    /// The low end if all that is assumed had its likely value: what was measured allows that much.
    pub(super) sure: f64,
}

impl From<Metric> for Gain {
    fn from(metric: Metric) -> Gain {
        Gain { sure: metric.low.unwrap_or(0.0), metric }
    }
}

impl Part<'_> {
    /// Low, likely, high; ends that are not known are as likely values.
    fn range(&self, running: f64) -> Option<[f64; 3]> {
        let of = |metric: &Metric, factor: f64, most: f64| {
            let value = metric.value?;
            let ends = [metric.low.unwrap_or(value), value, metric.high.unwrap_or(value)];
            Some(ends.map(|end| (end * factor).min(most)))
        };
        match self {
            Part::Seconds(metric) => of(metric, 1.0 / running, f64::INFINITY),
            Part::Share(metric) => of(metric, 0.01, 1.0),
            Part::Measured(range) | Part::Assumed(range) => Some(*range),
        }
    }

    fn metric(&self) -> Option<&Metric> {
        match self {
            Part::Seconds(metric) | Part::Share(metric) => Some(metric),
            Part::Measured(_) | Part::Assumed(_) => None,
        }
    }
}

/// The value at a place of 0 to 1 in a range; 0.025 and 0.975 are its ends.
fn at([low, likely, high]: [f64; 3], place: f64) -> f64 {
    let (end, way) = if place < 0.5 { (low, 1.0 - 2.0 * place) } else { (high, 2.0 * place - 1.0) };
    likely + (end - likely) * way / 0.95
}

/// `formula` over the parts, in their order, in elapsed seconds; unavailable if a measured one is.
pub(super) fn gain<const N: usize>(
    figures: &Figures,
    parts: [Part<'_>; N],
    formula: impl Fn([f64; N]) -> f64,
) -> Gain {
    let missing = parts.iter().find(|part| part.range(figures.running).is_none());
    if let Some(part) = missing {
        let why = part.metric().and_then(|metric| metric.note.as_deref());
        let why = why.unwrap_or("the time that it takes is not known");
        return Metric::unavailable("s", why).into();
    }
    let Spread { likely, low, high, sure } =
        spread(figures.elapsed, figures.running, &parts, &formula);
    let samples = parts.iter().filter_map(|part| Some(part.metric()?.samples)).min().unwrap_or(1);
    let interval = (low.min(likely), high.max(likely));
    Gain {
        metric: Metric::with_interval(Evidence::Estimated, likely, "s", interval, samples),
        sure: sure.min(likely),
    }
}

/// Of all combinations.
struct Spread {
    likely: f64,
    low: f64,
    high: f64,
    /// The low end with likely values for what is assumed.
    sure: f64,
}

fn spread<const N: usize>(
    elapsed: f64,
    running: f64,
    parts: &[Part<'_>; N],
    formula: &impl Fn([f64; N]) -> f64,
) -> Spread {
    let ranges: [[f64; 3]; N] =
        std::array::from_fn(|part| parts[part].range(running).unwrap_or_default());
    // Points that fill a cube evenly: powers of the root of x^(N+2) = x + 1 (Roberts, "The Unreasonable Effectiveness of
    // Quasirandom Sequences", 2018). One more dimension is for the run.
    let mut root = 1.5_f64;
    for _ in 0..64 {
        root = (1.0 + root).powf(1.0 / (N as f64 + 2.0));
    }
    let place = |draw: usize, part: usize| {
        (0.5 + (draw as f64 + 1.0) * root.powi(-(part as i32 + 1))).fract()
    };
    let ends = |assumed: bool| {
        let outcome = |draw| {
            let value = |part: usize| match parts[part] {
                Part::Assumed([_, likely, _]) if !assumed => likely,
                _ => at(ranges[part], place(draw, part)),
            };
            let run = if assumed { at(RUNS, place(draw, N)) } else { 1.0 };
            formula(std::array::from_fn(value)).min(elapsed) * run
        };
        let mut outcomes: Vec<f64> = (0..DRAWS).map(outcome).collect();
        outcomes.sort_by(f64::total_cmp);
        let beyond = DRAWS / 40;
        (outcomes[beyond], outcomes[DRAWS - 1 - beyond])
    };
    let (low, high) = ends(true);
    let likely = formula(ranges.map(|[_, likely, _]| likely)).min(elapsed);
    Spread { likely, low, high, sure: ends(false).0 }
}

/// What is left of a function's time, of 1, when accesses that have `part` of its waits move their lines in order and only a
/// part of the bytes: what others wait for, what instructions take, and what memory needs for the bytes that are left at the
/// peak of this mix of reads and writes and so many threads. `overlap`: 1 where memory and core work at the same time.
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

    /// Ends of `formula` over one second of a run that takes a second.
    fn ends<const N: usize>(
        parts: [Part<'_>; N],
        formula: impl Fn([f64; N]) -> f64,
    ) -> (f64, f64, f64) {
        let outcome = spread(1.0, 1.0, &parts, &formula);
        (outcome.low, outcome.high, outcome.sure)
    }

    #[test]
    fn an_interval_has_all_that_is_unsure_and_what_is_sure_only_what_was_measured() {
        let share = Metric::with_interval(Evidence::Sampled, 50.0, "percent", (40.0, 60.0), 9);
        let half = [Part::Share(&share), Part::Assumed([0.0, 0.5, 1.0])];
        let (low, high, sure) = ends(half, |[share, part]| share * part);
        assert!(low < 0.03 && high > 0.47 && high < 0.65, "{low} {high}");
        assert!((sure - 0.2).abs() < 0.01, "{sure}");
        // The run to come is unsure, even where nothing else is.
        let (low, high, sure) = ends([Part::Assumed([0.5; 3])], |[part]| part);
        assert!((low - 0.475).abs() < 0.002 && (high - 0.525).abs() < 0.002, "{low} {high}");
        assert!((sure - 0.5).abs() < 1e-9);
        // A cure may cost.
        let (low, ..) = ends([Part::Assumed([0.0, 0.0, 3.0])], |[cost]| 0.4 - cost);
        assert!(low < -2.0, "{low}");
    }

    #[test]
    fn independent_parts_widen_each_other_less_than_their_ends_do() {
        let of = || Part::Measured([0.8, 1.0, 1.2]);
        let (low, high, _) = ends([of(), of(), of()], |[a, b, c]| a * b * c / 2.0);
        // The product of the ends goes from 0.256 to 0.864.
        assert!(low > 0.3 && high < 0.75, "{low} {high}");
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
