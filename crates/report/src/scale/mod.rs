//! `fathom scale`: how time, bandwidth and arithmetic grow with the number of threads.
//!
//! What for: from measured times and collected results to a table, laws and plots. What not: nothing is run here;
//! `analysis::scaling` fits the laws.

mod model;
mod overlay;
mod plot;
mod svg;
mod text;

use analysis::scaling::{Estimate, Fit, Law, Point, Row, Scaling, saturation_of, scaling};
use facts::{Evidence, Metric, Recording};
use serde::Serialize;

use crate::json::{self, tidy};
use crate::table::Table;
use crate::text::Paint;
use crate::{Document, Options, ReportError, build};

/// What was measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ScaleInput {
    /// Name of the directory that keeps it all.
    pub result: String,
    /// The program and its arguments, with `{threads}` in them.
    pub command: Vec<String>,
    /// By number of threads, in the order of the list.
    pub points: Vec<ScalePoint>,
    /// Text in front of a number that the program prints, when one was asked for.
    pub figure: Option<String>,
    /// How threads were laid on CPUs.
    pub pin: Option<&'static str>,
    /// Other sweeps, and whether the first of them is what all speed-ups of the overlay refer to; else this sweep is.
    pub others: Vec<Sweep>,
    /// Whether it is.
    pub first_is_baseline: bool,
    /// Cores that the program may use, and their hardware threads; `None` where the system does not say.
    pub cores: Option<(u32, u32)>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

/// The times of another sweep.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sweep {
    /// What it is called.
    pub name: String,
    /// By number of threads.
    pub points: Vec<Point>,
}

/// Runs with one number of threads.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ScalePoint {
    /// How many threads were asked for.
    pub threads: u32,
    /// Seconds of each run, in the order of running.
    pub seconds: Vec<f64>,
    /// CPU seconds of each.
    pub cpu_seconds: Vec<f64>,
    /// What each printed behind `figure`.
    pub printed: Vec<f64>,
    /// The result of a run under the collector, or why there is none.
    pub collected: Option<Collected>,
}

/// Figures of a result of `collect memory-access` with one number of threads.
#[derive(Clone, PartialEq, Debug)]
pub struct Collected {
    /// Name of the result.
    pub result: String,
    /// How long it took, seconds.
    pub elapsed: Metric,
    /// Mean traffic with memory of that run, GB/s.
    pub bandwidth: Metric,
    /// Mean rate of floating-point operations of that run, GFLOP/s.
    pub flop_rate: Metric,
    /// Threads that were seen.
    pub threads: Metric,
    /// What the machine can do, GB/s.
    pub bandwidth_peak: Metric,
    /// What the machine can do, GFLOP/s.
    pub flops_peak: Metric,
}

impl Collected {
    /// Takes the figures out of a recording.
    ///
    /// # Errors
    /// None of today's summaries; those of [`build`].
    pub fn of(recording: &Recording, name: &str) -> Result<Collected, ReportError> {
        let options = Options { result_name: name.to_owned(), ..Options::default() };
        let Document::Summary(summary) = build(recording, &options, &|_| None)? else {
            unreachable!("the default view is the summary")
        };
        Ok(Collected {
            result: summary.result,
            bandwidth: summary.dram_bandwidth.average,
            elapsed: summary.elapsed,
            flop_rate: summary.flops,
            threads: summary.threads,
            bandwidth_peak: summary.machine.dram_bandwidth_peak,
            flops_peak: summary.machine.flops_peak,
        })
    }
}

/// How a program scales.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Scale {
    /// `scale`.
    pub view: &'static str,
    /// Name of the directory that keeps it.
    pub result: String,
    /// The program and its arguments, with `{threads}` in them.
    pub command: Vec<String>,
    /// How threads were laid on CPUs: `compact`, `scatter`, `cores`; null for the kernel's choice.
    pub pin: Option<&'static str>,
    /// The times as measured.
    pub runs: Vec<Runs>,
    /// One row per number of threads.
    pub table: Table,
    /// This sweep and others against one baseline; null without others.
    pub overlay: Option<Table>,
    /// Gain of the second hardware threads of cores, percent.
    pub hardware_threads: Metric,
    /// Fitted laws, best first.
    pub laws: Vec<LawReport>,
    /// Threads from which more do not help.
    pub saturation: Metric,
    /// Least threads that have nearly all of the largest traffic with memory.
    pub bandwidth_saturation: Metric,
    /// What one more thread would bring.
    pub next: Option<NextThread>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
    #[serde(skip)]
    curve: Curve,
}

/// Measured times of one number of threads.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Runs {
    /// How many threads.
    pub threads: u32,
    /// Seconds of each run.
    pub seconds: Vec<f64>,
}

/// A fitted law.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LawReport {
    /// Its name.
    pub law: &'static str,
    /// Serial share (Amdahl) or contention (universal), percent.
    pub contention: Option<Metric>,
    /// Coherence, percent.
    pub coherence: Option<Metric>,
    /// Threads from which more bring nothing.
    pub saturation: Option<Metric>,
    /// How far the measured times are from the law, percent (root of the mean square).
    pub error: f64,
}

/// Gain of one thread more than the largest measured number.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NextThread {
    /// How many threads then.
    pub threads: u32,
    /// Seconds then.
    pub elapsed: Metric,
    /// Gain over one thread less, percent.
    pub gain: Metric,
}

/// What the plots draw.
#[derive(Clone, PartialEq, Debug, Default)]
struct Curve {
    speedup: Vec<(u32, Estimate)>,
    bandwidth: Vec<(u32, Estimate)>,
    peak: Option<f64>,
    law: Option<Fit>,
    /// Speed-ups of the overlay, by sweep.
    overlay: Vec<(String, Vec<(u32, f64)>)>,
}

impl Scale {
    /// Works out everything; `None` when there is no measured time.
    #[must_use]
    pub fn new(input: &ScaleInput) -> Option<Scale> {
        let points: Vec<Point> = input
            .points
            .iter()
            .map(|point| Point { threads: point.threads, seconds: point.seconds.clone() })
            .collect();
        let found = scaling(&points)?;
        let overlay = overlay::overlay(input, &points);
        let (overlay, curves) =
            overlay.map_or((None, Vec::new()), |(table, curves)| (Some(table), curves));
        let curve = Curve { overlay: curves, ..curve(input, &found) };
        let bandwidth = match saturation_of(&curve.bandwidth) {
            Some(threads) => Metric::counted(f64::from(threads), "count"),
            None => Metric::unavailable(
                "count",
                "only the largest number of threads reaches the largest traffic",
            ),
        };
        let mut notes = input.notes.clone();
        notes.extend(model::notes(input, &found));
        Some(Scale {
            view: "scale",
            result: input.result.clone(),
            command: input.command.clone(),
            pin: input.pin,
            overlay,
            hardware_threads: overlay::hardware_threads(input, &points),
            runs: points
                .into_iter()
                .map(|point| Runs { threads: point.threads, seconds: point.seconds })
                .collect(),
            table: model::table(input, &found),
            laws: found.fits.iter().map(law).collect(),
            saturation: match &found.saturation {
                Some(saturation) => metric(&saturation.threads, 1.0, "count"),
                None => Metric::unavailable(
                    "count",
                    "the largest number of threads measured still helps",
                ),
            },
            bandwidth_saturation: bandwidth,
            next: found.next.as_ref().map(|next| NextThread {
                threads: next.threads,
                elapsed: metric(&next.seconds, 1.0, "s"),
                gain: metric(&next.gain, 100.0, "percent"),
            }),
            notes,
            curve,
        })
    }

    /// The plots as SVG.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::svg(self)
    }

    pub(crate) fn text(&self, width: usize, paint: Paint) -> String {
        text::text(self, width, paint)
    }

    pub(crate) fn json(&self) -> String {
        json::render(self)
    }
}

/// An estimate as it leaves the program.
fn metric(estimate: &Estimate, factor: f64, unit: &str) -> Metric {
    let value = estimate.value * factor;
    tidy(match estimate.interval {
        Some((low, high)) => Metric::with_interval(
            Evidence::Estimated,
            value,
            unit,
            (low * factor, high * factor),
            1,
        ),
        None => Metric {
            low: None,
            high: None,
            evidence: Some(Evidence::Estimated),
            note: Some("one run per number of threads: no interval".to_owned()),
            ..Metric::counted(value, unit)
        },
    })
}

fn law(fit: &Fit) -> LawReport {
    let percent = |estimate: &Option<Estimate>| {
        estimate.as_ref().map(|estimate| metric(estimate, 100.0, "percent"))
    };
    LawReport {
        law: fit.law.name(),
        contention: percent(&fit.contention),
        coherence: percent(&fit.coherence),
        saturation: fit.saturation.as_ref().map(|threads| metric(threads, 1.0, "count")),
        error: json::significant(fit.error * 100.0),
    }
}

fn curve(input: &ScaleInput, found: &Scaling) -> Curve {
    let traffic = |row: &Row| {
        let point = input.points.iter().find(|point| point.threads == row.threads)?;
        let rate = &point.collected.as_ref()?.bandwidth;
        let rate = model::over(rate, point, row.seconds.value);
        let interval = rate.low.zip(rate.high);
        Some((row.threads, Estimate { value: rate.value?, interval }))
    };
    let mut collected = input.points.iter().filter_map(|point| point.collected.as_ref());
    Curve {
        speedup: found.rows.iter().map(|row| (row.threads, row.speedup)).collect(),
        bandwidth: found.rows.iter().filter_map(traffic).collect(),
        peak: collected.find_map(|one| one.bandwidth_peak.value),
        law: found.fits.first().cloned(),
        overlay: Vec::new(),
    }
}

/// Speed-up by a law against the fewest measured threads.
fn by_law(fit: &Fit, fewest: u32, threads: u32) -> f64 {
    let seconds = |threads| Law::seconds(fit.law, fit.coefficients, threads);
    seconds(fewest) / seconds(threads)
}
