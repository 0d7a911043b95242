//! The verdict in words: what limits the program, how certain that is, and what would decide it.
//!
//! What for: text, JSON and the page have the same sentence. What not: the class (`analysis::memory`) and its reason. The sentence
//! adds that kernel time and waits are outside the class.

use analysis::memory::Certainty;
use facts::Metric;

use super::{CoreLimitSummary, Summary};
use crate::text::{percent, printable};

/// From this share on, time outside the program's own code is in the verdict: the rest of it is about less than half.
const MUCH: f64 = 50.0;
/// Memory that may take a larger share, percent, has a part in what limits the program; so has spinning.
const LITTLE: f64 = 20.0;

/// Fills in the verdict of a summary that is complete but for it. Only an analysis of memory has one.
pub(super) fn judge(summary: &mut Summary) {
    let Some(certainty) = summary.classification_certainty else { return };
    let first = sentence(summary, certainty);
    let within = summary.core_limit.as_ref().and_then(CoreLimitSummary::sentence);
    let others = [first].into_iter().chain(within).chain(outside(summary)).collect::<Vec<_>>();
    summary.verdict = others.join(" ");
    let decided = [Certainty::Is, Certainty::Mixed].map(Certainty::name).contains(&certainty);
    summary.verdict_decided_by = (!decided).then(|| decided_by(summary));
}

fn sentence(summary: &Summary, certainty: &str) -> String {
    let reason = printable(&summary.classification_reason);
    let what = match summary.classification {
        Some("bandwidth-bound") => match summary.bandwidth_level {
            Some("L2") => "the bandwidth of the second-level cache",
            Some("L3") => "the bandwidth of the third-level cache",
            _ => "the bandwidth of memory",
        },
        Some("latency-bound") => "the latency of memory",
        Some("tlb-bound") => "address translation (page walks)",
        Some(_) if summary.memory_bound.high.is_some_and(|high| high > LITTLE) => {
            "its own instructions more than by memory"
        }
        Some(_) => "its own instructions, not by memory",
        None => "memory",
    };
    // For a program at the bandwidth limit the reason says more than memory's share.
    let share = &summary.memory_bound;
    let ends = share.low.zip(share.high);
    let ends = ends.filter(|_| summary.classification != Some("bandwidth-bound"));
    let of = match in_mpi(summary).is_some_and(|share| share > LITTLE) {
        true => "% of its time outside waits in MPI",
        false => "% of its time",
    };
    let range = ends.map(|(low, high)| match (low.round(), high.round()) {
        (0.0, high) if high > 0.0 => format!("memory takes at most {high:.0} {of}"),
        (low, high) if low < high => format!("memory takes {low:.0} to {high:.0} {of}"),
        (low, _) => format!("memory takes {low:.0} {of}"),
    });
    match (certainty, range) {
        ("is", range) => format!("Limited by {what}: {}.", range.unwrap_or(reason)),
        ("probably", range) => format!("Probably limited by {what}: {}.", range.unwrap_or(reason)),
        ("mixed", Some(memory)) => format!("Mixed: {memory}, its own instructions take the rest."),
        (_, Some(memory)) => format!("Undecided whether memory limits the program: {memory}."),
        (_, None) => format!("What limits the program is undecided; {reason}."),
    }
}

/// Percent of the CPU time in which a rank waits for others, by spinning.
fn in_mpi(summary: &Summary) -> Option<f64> {
    let wait = summary.time_split.mpi_wait.as_ref()?.value?;
    Some(wait / summary.cpu_time.value.filter(|cpu| *cpu > 0.0)? * 100.0)
}

/// Time outside the program's own code, where that is most of it.
fn outside(summary: &Summary) -> Vec<String> {
    let split = &summary.time_split;
    let of = |part: Option<f64>, whole: Option<f64>| {
        let (part, whole) = part.zip(whole.filter(|whole| *whole > 0.0))?;
        Some(part / whole * 100.0).filter(|percent| *percent >= MUCH)
    };
    let kernel = Some(split.kernel.value.unwrap_or(0.0) + split.page_faults.value.unwrap_or(0.0));
    let kernel = of(kernel, summary.cpu_time.value).map(|share| {
        format!("the kernel takes {} % of the CPU time, page faults included.", percent(share))
    });
    let waiting = of(split.waiting.value, split.thread_time.value).map(|share| {
        format!(
            "its threads spend {} % of their lifetime waiting: for each other, I/O or a CPU.",
            percent(share)
        )
    });
    let mpi = |part: &Option<Metric>| part.as_ref().and_then(|part| part.value);
    let much = |part: Option<f64>| {
        let (part, cpu) = part.zip(summary.cpu_time.value.filter(|cpu| *cpu > 0.0))?;
        Some(part / cpu * 100.0).filter(|share| *share > LITTLE).map(percent)
    };
    let for_ranks = much(mpi(&split.mpi_wait)).map(|share| {
        format!(
            "it waits in MPI for {share} % of the CPU time: it spins until other ranks come, and they may have more work."
        )
    });
    let moving = much(mpi(&split.mpi_moving))
        .map(|share| format!("it moves data in calls of MPI for {share} % of the CPU time."));
    let of_threads = split.spinning.value.map(|all| all - mpi(&split.mpi_wait).unwrap_or(0.0));
    let for_threads = much(of_threads).map(|share| {
        format!(
            "apart from that, its threads spin for {share} % of the CPU time: they wait for each other."
        )
    });
    let all = for_ranks.into_iter().chain(moving).chain(for_threads).chain(kernel).chain(waiting);
    std::iter::once("But")
        .chain(std::iter::repeat("And"))
        .zip(all)
        .map(|(and, what)| format!("{and} {what}"))
        .collect()
}

fn decided_by(summary: &Summary) -> String {
    if !summary.extra.calibrated {
        return "`fathom machine`, which measures this machine once".to_owned();
    }
    if summary.coverage.bursts.value.unwrap_or(0.0) == 0.0 {
        return "bursts; `fathom report summary --detail` says why there were none".to_owned();
    }
    let more = "more bursts with -k overhead=10";
    if summary.target != "launched" {
        return format!("a longer recording, or {more}");
    }
    format!("a longer run, several with --repeat, or {more}")
}
