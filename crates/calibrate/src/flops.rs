//! Floating-point peak: each SIMD set and precision, with one thread and with all.
//!
//! What not: the loops themselves (`sys::kernels::flops`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use facts::host::{Calibration, FlopsPoint};
use sys::kernels::{FlopMethod, KernelError, Precision, multiply_add};

use crate::plan::Plan;
use crate::statistics::{Repeats, median};
use crate::{Progress, workers};

/// Length of one repeat: below a time slice of the scheduler, and longer than the half millisecond that clocks
/// take to settle at what wide vectors allow.
const REPEAT: Duration = Duration::from_millis(2);
/// Turns of the first, unmeasured call: half a millisecond, from which the length of a repeat is set.
const TRIAL_TURNS: u64 = 50_000;
/// Undisturbed repeats wanted per point, and rounds for them.
const REPEATS: usize = 9;
const MOST_ROUNDS: usize = 45;

/// A loop to run: index of the method in [`FlopMethod::available`], precision is double, threads.
type Point = (usize, bool, usize);

/// Measures all points.
pub(crate) fn measure(
    plan: &Plan,
    deadline: Instant,
    progress: &mut Progress<'_>,
    calibration: &mut Calibration,
) {
    let methods = FlopMethod::available();
    match rounds(plan, &methods, deadline, progress) {
        Ok(samples) => fill(&methods, &samples, plan.cpus.len(), calibration),
        Err(error) => calibration.notes.push(format!("no floating-point peak: {error}")),
    }
}

fn precision(double: bool) -> Precision {
    if double { Precision::Double } else { Precision::Single }
}

/// All methods with one thread and with all; the numbers between only with the widest, in double precision.
fn points(plan: &Plan, methods: &[FlopMethod]) -> Vec<Point> {
    let all = plan.cpus.len();
    let mut points = Vec::new();
    for threads in &plan.thread_counts {
        for method in 0..methods.len() {
            for double in [true, false] {
                let between = *threads > 1 && *threads < all;
                if !between || (double && method + 1 == methods.len()) {
                    points.push((method, double, *threads));
                }
            }
        }
    }
    points
}

fn rounds(
    plan: &Plan,
    methods: &[FlopMethod],
    deadline: Instant,
    progress: &mut Progress<'_>,
) -> Result<BTreeMap<Point, Repeats>, KernelError> {
    let points = points(plan, methods);
    let mut turns: BTreeMap<(usize, bool), u64> = BTreeMap::new();
    let mut samples: BTreeMap<Point, Repeats> = BTreeMap::new();
    for round in 0..MOST_ROUNDS {
        let mut complete = true;
        for point in &points {
            // The first round is finished in any case.
            if round > 0 && Instant::now() > deadline {
                return Ok(samples);
            }
            let (index, double, threads) = *point;
            let (method, precision) = (methods[index], precision(double));
            let turns = *turns
                .entry((index, double))
                .or_insert_with(|| turns_per_repeat(method, precision));
            let repeats = samples.entry(*point).or_default();
            if repeats.undisturbed() < REPEATS {
                complete = false;
                let (rate, disturbed) = repeat(plan, method, precision, threads, turns)?;
                repeats.push(rate, disturbed);
            }
        }
        if complete {
            break;
        }
        progress.part_done((round + 1) as f64 / REPEATS as f64);
    }
    Ok(samples)
}

/// Number of iterations that take about [`REPEAT`]: from the fastest of a few trials.
fn turns_per_repeat(method: FlopMethod, precision: Precision) -> u64 {
    let trial = |_| {
        let start = Instant::now();
        multiply_add(method, precision, TRIAL_TURNS);
        start.elapsed()
    };
    let fastest = (0..4).map(trial).min().unwrap_or(REPEAT).as_secs_f64().max(1e-7);
    (TRIAL_TURNS as f64 * REPEAT.as_secs_f64() / fastest) as u64
}

/// GFLOP/s of one repeat, and whether it was disturbed.
fn repeat(
    plan: &Plan,
    method: FlopMethod,
    precision: Precision,
    threads: usize,
    turns: u64,
) -> Result<(f64, bool), KernelError> {
    let jobs = plan.cpus.iter().take(threads).map(|cpu| (*cpu, ())).collect();
    let done = workers::together(jobs, |()| {
        let start = Instant::now();
        let operations = multiply_add(method, precision, turns);
        operations as f64 / start.elapsed().as_secs_f64() / 1e9
    })?;
    Ok((done.results.iter().sum(), done.disturbed))
}

fn fill(
    methods: &[FlopMethod],
    samples: &BTreeMap<Point, Repeats>,
    all: usize,
    calibration: &mut Calibration,
) {
    for ((method, double, threads), rates) in samples {
        calibration.flops.push(FlopsPoint {
            simd: methods[*method].name().to_owned(),
            precision: precision(*double).name().to_owned(),
            threads: *threads as u32,
            rate: rates.median_metric(1.0, "GFLOP/s"),
        });
    }
    let candidates = samples.iter().filter(|((_, double, threads), _)| *double && *threads == all);
    let usual = |rates: &Repeats| median(&rates.values(1.0)).unwrap_or_default();
    let best = candidates.max_by(|(_, a), (_, b)| usual(a).total_cmp(&usual(b)));
    calibration.flops_peak = best.map(|((method, ..), rates)| {
        let how = format!("{} with {all} threads", methods[*method].name());
        rates.median_metric(1.0, "GFLOP/s").noted(&how)
    });
}
