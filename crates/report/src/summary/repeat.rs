//! Several runs of the program in one recording: totals become those of one run, with the spread of the runs, and the number of
//! runs that would narrow wide intervals.
//!
//! Assumption: the total of all runs divided by their number is the mean of one run, and so is its interval, which comes from all
//! runs. Largest sizes, rates, shares and times per access stay unchanged.

use estimate::student::quantile_95;
use facts::{Evidence, ExitKind, Metric, Run};
use serde::Serialize;

use super::Summary;
use crate::json::tidy;

/// A figure whose interval reaches further than this part of it on either side is wide, and repeated runs are to bring it
/// down to this. Differences between findings are usually a multiple of it.
const SHARP: f64 = 0.25;
/// More runs than this are not proposed: it takes a longer run then.
const MOST_RUNS: f64 = 100.0;

/// How far runs differ.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct Spread {
    pub fastest: Metric,
    pub slowest: Metric,
    pub deviation: Metric,
}

/// For the runs that ended: the mean elapsed time with its interval, and the spread.
pub(super) fn spread(run: &Run) -> (Option<Metric>, Spread) {
    let times: Vec<f64> = run
        .runs
        .iter()
        .filter(|one| one.exit != ExitKind::StillRunning)
        .filter_map(|one| one.elapsed_ns)
        .map(|nanos| nanos as f64 * 1e-9)
        .collect();
    if times.is_empty() {
        let none =
            || Metric::unavailable("s", "one run was recorded: `--repeat N` records several");
        return (None, Spread { fastest: none(), slowest: none(), deviation: none() });
    }
    let number = times.len() as f64;
    let mean = times.iter().sum::<f64>() / number;
    let counted = |value: f64| tidy(Metric::counted(value, "s"));
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    let deviation = (squares / (number - 1.0)).sqrt();
    let (elapsed, deviation) = if times.len() > 1 {
        let reach = quantile_95((times.len() - 1) as f64) * deviation / number.sqrt();
        let interval = ((mean - reach).max(0.0), mean + reach);
        let elapsed =
            Metric::with_interval(Evidence::Counted, mean, "s", interval, times.len() as u64);
        (elapsed, Metric { evidence: Some(Evidence::Estimated), ..counted(deviation) })
    } else {
        (counted(mean), Metric::unavailable("s", "the end of only one run was observed"))
    };
    let spread = Spread {
        fastest: counted(times.iter().copied().fold(f64::INFINITY, f64::min)),
        slowest: counted(times.iter().copied().fold(0.0, f64::max)),
        deviation,
    };
    (Some(tidy(elapsed)), spread)
}

/// Makes totals of `runs` runs those of one.
pub(super) fn per_run(summary: &mut Summary, elapsed: Option<Metric>) {
    let runs = summary.runs as f64;
    if summary.runs < 2 {
        return;
    }
    for metric in totals(summary) {
        if matches!(metric.unit.as_str(), "s" | "count" | "bytes") {
            *metric = tidy(metric.times(1.0 / runs, &metric.unit));
        }
    }
    if let Some(elapsed) = elapsed {
        summary.elapsed = elapsed;
    }
}

/// The figures that grow with each run.
fn totals(summary: &mut Summary) -> Vec<&mut Metric> {
    let Summary {
        elapsed,
        paused,
        cpu_time,
        threads,
        processes,
        overhead_parts: overhead,
        coverage,
        time_split: split,
        dram_bandwidth,
        elapsed_without_misses,
        elapsed_without_bandwidth_limit,
        loads,
        stores,
        page_faults: faults,
        dtlb,
        context_switches,
        first_checks: checks,
        kernel_entries: kernel,
        heap,
        top_functions,
        top_objects,
        findings,
        ..
    } = summary;
    let mut all = vec![elapsed, cpu_time, threads, processes, loads, stores, context_switches];
    all.extend([elapsed_without_misses, elapsed_without_bandwidth_limit, &mut dtlb.misses]);
    all.extend(paused);
    all.extend([&mut overhead.cpu_time, &mut overhead.consumer_cpu, &mut overhead.stand_still]);
    all.extend([&mut overhead.burst_time, &mut overhead.slowdown, &mut overhead.heap_library]);
    all.extend([&mut coverage.cpu_time, &mut split.user, &mut split.kernel]);
    all.push(&mut split.spinning);
    all.extend(
        [&mut split.mpi_wait, &mut split.mpi_moving, &mut split.mpi_calls].into_iter().flatten(),
    );
    all.extend([&mut split.page_faults, &mut split.waiting, &mut split.thread_time]);
    all.extend([&mut faults.minor, &mut faults.major, &mut faults.time]);
    all.extend([&mut checks.quota_throttled, &mut checks.swapped_pages]);
    all.extend([&mut checks.moved_pages, &mut checks.reclaimed_pages]);
    all.extend([&mut checks.demoted_pages, &mut checks.promoted_pages]);
    all.extend([&mut checks.clock_throttles, &mut heap.allocations, &mut heap.bytes_allocated]);
    all.extend([&mut kernel.count, &mut kernel.time, &mut kernel.switches]);
    all.push(&mut kernel.ready_without_cpu);
    all.extend(dram_bandwidth.histogram.iter_mut().map(|one| &mut one.time));
    all.extend(top_functions.iter_mut().map(|one| &mut one.cpu_time));
    for object in top_objects {
        all.extend([&mut object.dram_read, &mut object.dram_write]);
        all.extend([&mut object.loads, &mut object.stores]);
    }
    all.extend(findings.iter_mut().map(|one| &mut one.predicted_gain));
    all
}

/// How to narrow a wide interval.
pub(super) struct Advice {
    /// A sentence for the notes.
    pub(super) note: String,
    /// What to run, where more runs help.
    pub(super) command: Option<String>,
}

/// Where the interval of the program's traffic is wide: a note, and the command with as many runs as bring its
/// interval to [`SHARP`], as its width shrinks with the root of the observations.
pub(super) fn advice(summary: &Summary) -> Option<Advice> {
    let figure = &summary.dram_bandwidth.average;
    let (value, low, high) = (figure.value?, figure.low?, figure.high?);
    let reach = (high - low) / 2.0 / value;
    if summary.target != "launched" || value <= 0.0 || reach <= SHARP {
        return None;
    }
    let runs = (summary.runs.max(1) as f64 * (reach / SHARP).powi(2)).ceil();
    let bursts = crate::text::count(summary.coverage.bursts.value.unwrap_or(0.0));
    let between = || crate::text::rates(low, high, &figure.unit);
    let known = match between().filter(|_| reach >= 1.0) {
        Some(ends) => format!("DRAM bandwidth is known only as {ends}, from {bursts} bursts"),
        None => format!(
            "DRAM bandwidth is known only to \u{b1}{:.0} %, from {bursts} bursts",
            reach * 100.0
        ),
    };
    let target = format!("\u{b1}{:.0} %", SHARP * 100.0);
    if runs > MOST_RUNS {
        let note = format!(
            "{known}: {target} would take more than {MOST_RUNS:.0} runs like this one; use a longer run"
        );
        return Some(Advice { note, command: None });
    }
    let note =
        format!("{known}; --repeat {runs:.0} would narrow the random part of that to {target}");
    let words: Vec<String> = summary.command.iter().map(|word| super::text::quoted(word)).collect();
    let command = format!("fathom run --repeat {runs:.0} -- {}", words.join(" "));
    Some(Advice { note, command: Some(command) })
}
