//! What memory does to the program, as text.

use facts::Metric;

use super::{Page, figure, percent_with_error, quoted};
use crate::summary::Summary;
use crate::summary::core_limit::detail;
use crate::text::{count, number, percent, printable, rate, rates, seconds};

/// Blocks of a full bar.
const BAR: f64 = 24.0;

/// Bandwidth, hit levels and latency; nothing without bursts.
pub(super) fn traffic(summary: &Summary, page: &mut Page) {
    let used = &summary.dram_bandwidth;
    if used.average.value.is_none() {
        return;
    }
    let class = summary.classification.unwrap_or("not clear");
    page.heading("Memory", "estimated from bursts of traced accesses");
    page.entry("Class", &format!("{class}: {}", printable(&summary.classification_reason)));
    if let Some(what) = detail(summary) {
        page.entry("In the core", &what);
    }
    let bound = share_of(&summary.memory_bound, "of the program's time");
    let best = match summary.elapsed_without_misses.value {
        Some(value) => format!("; {} with all data in the first-level cache", seconds(value)),
        None => String::new(),
    };
    let unlimited = match summary.elapsed_without_bandwidth_limit.value {
        Some(value) if summary.classification == Some("bandwidth-bound") => {
            format!(", {} at best with unlimited bandwidth", seconds(value))
        }
        _ => String::new(),
    };
    page.entry("Memory's share", &format!("{bound}{best}{unlimited}"));
    let shown = |metric: &Metric| figure(metric, |value| rate(value, "GB/s"));
    let range = between(&used.average, "GB/s");
    page.entry(
        "DRAM bandwidth",
        &format!(
            "{}{range}: {} read, {} written",
            shown(&used.average),
            shown(&used.read),
            shown(&used.write)
        ),
    );
    let of_peak = match (used.observed_max.value, used.reachable.value) {
        (Some(most), Some(reach)) if reach > 0.0 => {
            let share = percent(most / reach * 100.0);
            let of =
                format!(", {share} % of the {} that as many threads reach", rate(reach, "GB/s"));
            match most > reach {
                true => format!(
                    "{of} by the measurement of `fathom machine`: the rate is rough, or part of it \
                came from a cache"
                ),
                false => of,
            }
        }
        _ => String::new(),
    };
    let high = share_of(&used.bound_time_percent, "of the time in the high band");
    let range = between(&used.observed_max, "GB/s");
    page.entry("  at most", &format!("{}{range}{of_peak}; {high}", shown(&used.observed_max)));
    if let Some([(_, idle), (rate_there, there)]) =
        summary.extra.loaded_latency.filter(|_| summary.bandwidth_level == Some("DRAM"))
    {
        let text = format!(
            "{} for a load while others read, {} in all; {} without load (`fathom machine`)",
            seconds(there * 1e-9),
            rate(rate_there, "GB/s"),
            seconds(idle * 1e-9)
        );
        page.entry("  takes then", &text);
    }
    histogram(summary, page);
    page.entry(
        "Loads, stores",
        &format!("{}, {}", count_between(&summary.loads), count_between(&summary.stores)),
    );
    let levels = &summary.levels;
    let parts =
        [("L1", &levels.l1), ("L2", &levels.l2), ("L3", &levels.l3), ("DRAM", &levels.dram)];
    let parts = parts.map(|(name, metric)| match metric.value {
        Some(_) => format!("{name} {}", percent_with_error(metric)),
        None => format!("{name} n/a"),
    });
    page.entry("  hit level", &format!("{} (simulated)", parts.join(", ")));
    for (name, used) in
        [("  from L2", &summary.cache_bandwidth.l2), ("  from L3", &summary.cache_bandwidth.l3)]
    {
        let Some(value) = used.rate.value else { continue };
        let of = match used.reachable.value {
            Some(reach) => {
                let of = percent_with_error(&used.of_reachable);
                format!("; {of} of the {} that as many threads reach", rate(reach, "GB/s"))
            }
            None => String::new(),
        };
        page.entry(
            name,
            &format!(
                "{} while it runs{}{of} (simulated)",
                rate(value, "GB/s"),
                between(&used.rate, "GB/s")
            ),
        );
    }
    let remote = &summary.remote_accesses;
    if remote.value.is_some() {
        page.entry("To another node", &share_of(remote, "of the accesses"));
    }
    let latency =
        figure(&summary.average_load_latency, |value| format!("{} ns on average", number(value)));
    let exposed = &summary.exposed_load_latency;
    let exposed = match exposed.value.filter(|_| says_something(exposed)) {
        Some(value) => {
            let (value, range) = (number(value), between(exposed, "ns"));
            format!("; a load that misses L1 delays the program by {value} ns on average{range}")
        }
        None => String::new(),
    };
    page.entry(
        "  latency",
        &format!("{latency}{}{exposed}", between(&summary.average_load_latency, "ns")),
    );
    if let Some(flops) = summary.flops.value.filter(|flops| *flops > 0.0) {
        let intensity = &summary.arithmetic_intensity;
        let per_byte = match intensity.value.filter(|_| says_something(intensity)) {
            Some(value) => {
                let range = between(intensity, "");
                format!(", {} per byte of DRAM traffic{range}", number(value))
            }
            None => String::new(),
        };
        let range = between(&summary.flops, "GFLOP/s");
        page.entry("Arithmetic", &format!("{}{range}{per_byte}", rate(flops, "GFLOP/s")));
    }
}

/// The objects at whose accesses most time is spent, or, where that is not known, with the most traffic; nothing where none is known.
pub(super) fn top_objects(summary: &Summary, page: &mut Page) {
    if summary.top_objects.is_empty() {
        return;
    }
    let timed = summary.top_objects.iter().any(|object| object.stall_percent.value.is_some());
    let says = match timed {
        true => "share of the CPU time at their accesses, hits in L1 included",
        false => "share of the traffic with memory",
    };
    page.heading("Top objects", says);
    for object in &summary.top_objects {
        let of = if timed { &object.stall_percent } else { &object.dram_percent };
        let share = percent_with_error(of);
        let traffic = match object.dram_percent.value.filter(|_| timed) {
            Some(value) => format!(", {} % of the traffic", percent(value)),
            None => String::new(),
        };
        let latency = match object.latency.value {
            Some(value) => format!(", {} ns per load", number(value)),
            None => String::new(),
        };
        let name = printable(&object.object);
        let text = format!("{name} {}{traffic}{latency}", object.extent);
        page.entry(&format!("  {share}"), &text);
    }
    page.more("all", &format!("fathom report objects -r {}", quoted(&summary.result)));
}

/// ` (12.1 to 13.4 GB/s)`.
fn between(metric: &Metric, unit: &str) -> String {
    match (metric.value, metric.low, metric.high) {
        (Some(_), Some(low), Some(high)) => {
            rates(low, high, unit).map_or_else(String::new, |range| format!(" ({range})"))
        }
        (Some(_), Some(low), None) => format!(" ({} or more)", rate(low, unit).trim_end()),
        _ => String::new(),
    }
}

/// Whether an interval excludes anything. That of a quotient by what may be nothing may not.
fn says_something(metric: &Metric) -> bool {
    metric.high.is_some() || metric.low != Some(0.0)
}

/// `12.3 ±0.8 % of the time`, or why it is not known.
fn share_of(metric: &Metric, whole: &str) -> String {
    let share = percent_with_error(metric);
    if metric.value.is_some() { format!("{share} {whole}") } else { share }
}

/// `12.7 G (11.9 G to 13.4 G)`.
fn count_between(metric: &Metric) -> String {
    let range = match (metric.low, metric.high) {
        (Some(low), Some(high)) if low < high => format!(" ({} to {})", count(low), count(high)),
        _ => String::new(),
    };
    figure(metric, |value| count(value) + &range)
}

/// Time at each rate, as far as the program got.
fn histogram(summary: &Summary, page: &mut Page) {
    let steps = &summary.dram_bandwidth.histogram;
    let time = |metric: &Metric| metric.value.unwrap_or(0.0);
    let longest = steps.iter().map(|step| time(&step.time)).fold(0.0, f64::max);
    let last = steps.iter().rposition(|step| time(&step.time) > 0.0);
    let Some(last) = last.filter(|_| longest > 0.0) else { return };
    for step in &steps[..=last] {
        let share = time(&step.time) / longest * BAR;
        let bar =
            if share > 0.0 { "█".repeat((share.round() as usize).max(1)) } else { String::new() };
        let band = match (summary.dram_bandwidth.medium_from, summary.dram_bandwidth.high_from) {
            (_, Some(high)) if step.from >= high => "high",
            (Some(medium), _) if step.from >= medium => "medium",
            _ => "low",
        };
        // Steps of a slow memory are narrower than a GB/s.
        let digits = usize::from(step.to - step.from < 1.0);
        let label = format!("  {:>4.digits$}-{:<3.digits$} {band}", step.from, step.to);
        if share > 0.0 {
            page.entry(&label, &format!("{bar} {}", seconds(time(&step.time))));
        }
    }
}
