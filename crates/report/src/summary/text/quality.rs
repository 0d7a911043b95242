//! How good the figures are: what is missing, the method, what was lost, and what the measurement cost the program.

use facts::Metric;

use super::{DISTURBING, Page, Summary, figure, percent_with_error};
use crate::text::{self, count, percent, seconds};

/// Least share of the running time that could not be traced, percent, at which a note says what to do about it.
const MUCH_REFUSED: f64 = 20.0;

/// Figures that this version or this machine cannot give, by reason.
pub(super) fn not_available(summary: &Summary, page: &mut Page) {
    let of_accesses = [
        ("DRAM bandwidth used", &summary.dram_bandwidth.average),
        ("time bound by memory", &summary.memory_bound),
        ("loads and stores with their latency", &summary.loads),
        ("hit levels of loads", &summary.levels.l1),
        ("arithmetic per byte", &summary.arithmetic_intensity),
        ("address translation (DTLB)", &summary.dtlb.misses),
    ];
    // Nobody misses what another analysis is for.
    let traces = summary.analysis == "memory-access";
    let figures = of_accesses.into_iter().filter(|_| traces);
    let remote = ("accesses to another NUMA node", &summary.remote_accesses);
    let figures =
        figures.chain([remote].into_iter().filter(|_| traces && summary.host.numa_nodes > 1));
    let figures = figures.chain([("heap allocations", &summary.heap.allocations)]);
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, metric) in figures.filter(|(_, metric)| metric.value.is_none()) {
        let why = metric.note.as_deref().unwrap_or("not recorded");
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    if reasons.is_empty() {
        return;
    }
    page.heading("Not available", "");
    for (why, names) in reasons {
        page.item(&format!("{}: {why}", names.join(", ")));
    }
}

pub(super) fn quality(summary: &Summary, page: &mut Page) {
    let sampling = &summary.sampling;
    page.heading("How it was measured", "");
    let rate = if sampling.period_seconds > 0.0 {
        format!(" at {} per second of CPU time", count(1.0 / sampling.period_seconds))
    } else {
        String::new()
    };
    let method = match (sampling.method, &summary.source) {
        (_, Some(source)) => format!("taken by {}, from {}", source.tool, source.file),
        ("perf-events", _) => "by the kernel (perf events)".to_owned(),
        ("ptrace", _) => "by stopping threads briefly (ptrace)".to_owned(),
        // The method is written down at the end of a recording.
        _ if sampling.samples > 0 => "the recording ended before the method was stored".to_owned(),
        _ => "not possible here: only the counts of /proc".to_owned(),
    };
    page.entry("Samples", &format!("{}{rate}, {method}", count(sampling.samples as f64)));
    let lost = lost(summary);
    for event in summary.source.iter().flat_map(|source| &source.events) {
        let samples = count(event.samples as f64);
        let became = match event.used_as {
            facts::EventUse::CpuTime => "shown as CPU time",
            facts::EventUse::PageFaults => "shown as page faults",
            facts::EventUse::MemoryAccesses => "shown as memory accesses",
            facts::EventUse::CpuTimeAndMemoryAccesses => "shown as CPU time and memory accesses",
            facts::EventUse::Branches => "shown as loops",
            facts::EventUse::Counts => "counted per function",
            facts::EventUse::Nothing if event.samples == 0 => continue,
            facts::EventUse::Nothing => "not shown",
        };
        page.entry(&format!("  {}", event.name), &format!("{samples} samples, {became}"));
    }
    page.entry(
        "Lost",
        &if lost.is_empty() { "nothing".to_owned() } else { page.paint.warn(&lost.join(", ")) },
    );
    if sampling.thinned_samples > 0 {
        let thinned = count(sampling.thinned_samples as f64);
        page.entry(
            "Thinned out",
            &format!("{thinned} samples, to keep the size limit; the others represent more time"),
        );
    }
    page.entry("Overhead", &overhead(summary));
    if summary.coverage.traced.value.is_some() {
        let refused =
            summary.coverage.refused.iter().map(|one| (one.reason.as_str(), &one.percent));
        page.entry("Coverage", &text::coverage(&summary.coverage.traced, refused));
        for one in &summary.coverage.refused {
            let is_much = one.percent.value.is_some_and(|percent| percent >= MUCH_REFUSED);
            if let Some(about) = text::about_refusals(&one.reason).filter(|_| is_much) {
                page.entry(&format!("  {}", one.reason), about);
            }
        }
    } else if summary.analysis == "memory-access" {
        page.entry("Coverage", &figure(&summary.coverage.traced, percent));
    }
    if let Some(stolen) = summary.stolen_percent.value.filter(|value| *value >= DISTURBING) {
        let text = format!("{} % of the machine went to other virtual machines", percent(stolen));
        page.entry("Stolen CPU time", &page.paint.warn(&text));
    }
    page.entry("±", "the larger distance from a value to an end of its 95 % interval");
}

/// What was lost, with how many of it.
fn lost(summary: &Summary) -> Vec<String> {
    let sampling = &summary.sampling;
    let mut lost = Vec::new();
    for (number, what) in [
        (sampling.lost_samples, ["sample", "samples"]),
        (sampling.lost_faults, ["page-fault record", "page-fault records"]),
        (sampling.lost_events, ["mapping or thread record", "mapping and thread records"]),
        (sampling.lost_blocks, ["record of a heap block", "records of heap blocks"]),
        (
            sampling.lost_regions,
            ["call that mapped or unmapped memory", "calls that mapped or unmapped memory"],
        ),
    ] {
        if number > 0 {
            lost.push(format!("{} {}", count(number as f64), what[usize::from(number > 1)]));
        }
    }
    lost
}

/// The reasons why figures are worse than they seem, a sentence each.
pub(super) fn doubtful(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let much = |metric: &Metric| metric.value.filter(|value| *value >= DISTURBING).map(percent);
    if summary.state == "incomplete" {
        lines.push("The recording is incomplete: it ended before the program did.".to_owned());
    }
    let lost = lost(summary);
    if !lost.is_empty() {
        lines.push(format!("Lost: {}.", lost.join(", ")));
    }
    if let Some(share) = much(&summary.stolen_percent) {
        lines.push(format!("{share} % of the machine went to other virtual machines."));
    }
    if let Some(share) = much(&summary.other_cpu_percent) {
        lines.push(format!("Other programs used {share} % of the machine during the run."));
    }
    lines
}

/// The elapsed time, part by part.
fn overhead(summary: &Summary) -> String {
    let parts = &summary.overhead_parts;
    let Some(elapsed) = summary.elapsed.value.filter(|elapsed| *elapsed > 0.0) else {
        return figure(&summary.overhead, percent);
    };
    let of_elapsed = |time: f64| percent(time / elapsed * 100.0);
    let mut text = match parts.cpu_time.value {
        Some(time) => format!(
            "the profiler itself used {} of CPU time, {} % of the elapsed time",
            seconds(time),
            of_elapsed(time)
        ),
        None => figure(&summary.overhead, percent),
    };
    // Without bursts the coverage has the reason.
    let has_bursts = summary.coverage.bursts.value.is_some_and(|bursts| bursts > 0.0);
    if let Some(time) = parts.stand_still.value.filter(|_| has_bursts) {
        let (time, share) = (seconds(time), of_elapsed(time));
        text += &format!("; bursts stopped the program's threads for {time} ({share} %)");
    }
    if let Some(time) = parts.slowdown.value.filter(|_| has_bursts) {
        text += &format!(" and ran about {} longer than native code", seconds(time));
    }
    if let Some(cost) = summary.sampling_cost.value {
        let cost = percent(cost);
        text += &format!("; taking the samples cost the program about {cost} % of its CPU time");
    }
    if let Some(agent) = &summary.extra.agent {
        let share = percent_with_error(agent);
        text += &format!("; counting heap blocks took {share} of the program's CPU time");
    }
    text
}
