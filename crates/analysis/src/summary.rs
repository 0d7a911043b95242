//! The figures of a whole recording: elapsed time, CPU time, what it was spent on, and how reliable that is.
//!
//! What not: memory figures (`memory`), text.

mod disturbance;
mod notes;
mod time;

use std::collections::BTreeMap;

use base::{Nanos, Pid};
use facts::{CounterKind, Evidence, GaugeKind, LostSource, Metric};

use self::disturbance::{other_cpu, sampling_cost, stolen};
use self::notes::notes;
pub use self::time::{MpiTime, TimeSplit};
use self::time::{cpu_time, elapsed, kernel_time, paused, time_split, utilisation};
use crate::accesses::{Coverage, coverage};
use crate::faults::{FaultCost, counted_faults, fault_cost, fault_scales, fault_total};
use crate::hotspots::{Hotspots, Key, hotspots};
use crate::overhead::{Overhead, overhead};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::weight::Scale;

/// Everything the summary says that comes from this recording.
pub struct Overview {
    /// Length of the recording, seconds.
    pub elapsed: Metric,
    /// Part of it in which nothing was observed, where there was any.
    pub paused: Option<Metric>,
    /// CPU time of all threads, seconds.
    pub cpu_time: Metric,
    /// Threads seen.
    pub threads: Metric,
    /// Processes seen.
    pub processes: Metric,
    /// CPU time in percent of what the usable CPUs offered.
    pub cpu_utilisation: Metric,
    /// CPUs the program could use: allowed, online, and within the quota.
    pub usable_cpus: Option<f64>,
    /// Where the time went.
    pub split: TimeSplit,
    /// CPU time in the kernel, percent of CPU time.
    pub kernel_percent: Metric,
    /// Minor faults.
    pub minor_faults: Metric,
    /// Major faults.
    pub major_faults: Metric,
    /// What they cost.
    pub fault_cost: FaultCost,
    /// Anonymous memory in huge pages, percent.
    pub huge_page_share: Metric,
    /// Largest resident size, bytes.
    pub peak_resident: Metric,
    /// CPU time of others on this machine, percent of all CPUs' time.
    pub other_cpu: Metric,
    /// Time stolen by the hypervisor, percent of all CPUs' time.
    pub stolen: Metric,
    /// Context switches.
    pub context_switches: Metric,
    /// What the profiler cost.
    pub overhead: Overhead,
    /// Share of the running time that bursts could trace.
    pub coverage: Coverage,
    /// Cost of the samples for the program, percent of its CPU time.
    pub sampling_cost: Metric,
    /// Functions by self time.
    pub functions: Hotspots,
    /// How samples become time.
    pub scale: Scale,
    /// Samples taken.
    pub samples: u64,
    /// Samples lost.
    pub lost_samples: u64,
    /// Fault records lost.
    pub lost_faults: u64,
    /// Mapping, fork and exit records lost.
    pub lost_events: u64,
    /// Records of heap blocks lost.
    pub lost_blocks: u64,
    /// Calls that mapped or unmapped memory lost.
    pub lost_regions: u64,
    /// Samples thinned out to keep the size limit.
    pub thinned: u64,
    /// What the reader must know before quoting a figure.
    pub notes: Vec<String>,
}

/// Computes everything.
#[must_use]
pub fn overview(profile: &Profile<'_>) -> Overview {
    let recording = profile.recording;
    let lost = |source| recording.lost(source);
    let elapsed = elapsed(profile);
    let cpu_time = cpu_time(profile);
    let usable_cpus = profile.recording.run.host.usable_cpus();
    let scales = fault_scales(recording);
    let (minor, major) = counted_faults(recording);
    let fault_cost = fault_cost(profile);
    let kernel = kernel_time(profile);
    let split = time_split(profile, &cpu_time, &kernel.seconds, &fault_cost);
    Overview {
        cpu_utilisation: utilisation(&cpu_time, profile.observed(), usable_cpus),
        threads: count_or(profile.threads.all().len(), "no thread was observed"),
        processes: count_or(profile.threads.process_count(), "no process was observed"),
        usable_cpus,
        split,
        kernel_percent: kernel.percent,
        minor_faults: fault_total(minor, &scales.minor),
        major_faults: fault_total(major, &scales.major),
        fault_cost,
        huge_page_share: huge_page_share(profile),
        peak_resident: peak_resident(profile),
        other_cpu: other_cpu(profile, &cpu_time),
        stolen: stolen(profile),
        context_switches: counter(recording.counter(CounterKind::ContextSwitches)),
        overhead: overhead(profile),
        coverage: coverage(recording),
        sampling_cost: sampling_cost(profile, &cpu_time),
        functions: hotspots(profile, &Selection::default(), &[Key::Function]),
        scale: profile.cpu_scale(),
        samples: profile.whole().records(),
        lost_samples: lost(LostSource::Samples),
        lost_faults: lost(LostSource::Faults),
        lost_events: lost(LostSource::Events),
        lost_blocks: lost(LostSource::Allocations),
        lost_regions: lost(LostSource::Regions),
        thinned: lost(LostSource::Thinned),
        notes: notes(profile),
        paused: paused(profile),
        elapsed,
        cpu_time,
    }
}

fn count_or(count: usize, why: &str) -> Metric {
    if count == 0 {
        Metric::unavailable("count", why)
    } else {
        Metric::counted(count as f64, "count")
    }
}

fn counter(value: Option<u64>) -> Metric {
    match value {
        Some(value) => Metric::counted(value as f64, "count"),
        None => Metric::unavailable("count", "not counted in this recording"),
    }
}

/// Anonymous memory in huge pages, percent, when each process had most anonymous memory.
#[must_use]
pub fn huge_page_share(profile: &Profile<'_>) -> Metric {
    let mut polls: BTreeMap<(Pid, Nanos), (u64, u64)> = BTreeMap::new();
    for gauge in &profile.recording.gauges {
        let poll = (gauge.pid, gauge.time);
        match gauge.kind {
            GaugeKind::AnonymousBytes => polls.entry(poll).or_default().0 = gauge.value,
            GaugeKind::HugePageBytes => polls.entry(poll).or_default().1 = gauge.value,
            _ => {}
        }
    }
    let mut largest: BTreeMap<Pid, (u64, u64)> = BTreeMap::new();
    for ((pid, _), (anonymous, huge)) in polls {
        let best = largest.entry(pid).or_default();
        // hugetlb pages are not part of the kernel's "Anonymous", so huge can be the larger.
        if anonymous.max(huge) > best.0.max(best.1) {
            *best = (anonymous, huge);
        }
    }
    let all: f64 = largest.values().map(|(anonymous, huge)| *anonymous.max(huge) as f64).sum();
    let huge: f64 = largest.values().map(|(_, huge)| *huge as f64).sum();
    if all <= 0.0 {
        return Metric::unavailable("percent", "the program's memory was not polled");
    }
    let processes = largest.len() as u64;
    Metric { samples: processes, ..Metric::counted(huge / all * 100.0, "percent") }
        .noted("of anonymous memory, when it was largest")
}

fn peak_resident(profile: &Profile<'_>) -> Metric {
    let recording = profile.recording;
    let polled = crate::timeline::largest_resident(profile).unwrap_or(0);
    let counted = recording.run.resource_use.as_ref().map_or(0, |usage| usage.peak_resident_bytes);
    let ours = recording.run.own_cost.burst_resident_bytes.unwrap_or(0);
    let peak = counted.max(polled);
    // Ours may have come after the program's peak, or have been in another process.
    let (low, high) = (peak.saturating_sub(ours) as f64, peak as f64);
    // The kernel's own peak may be a little low: it is a sum of counters that each CPU brings up to date now and then
    // (percpu_counter in get_mm_rss, include/linux/mm.h).
    let is_counted = counted >= polled - polled / 16;
    match peak {
        0 => Metric::unavailable("bytes", "the program's memory was not polled"),
        _ if is_counted && ours == 0 => Metric::counted(high, "bytes"),
        _ if is_counted => Metric::with_interval(Evidence::Counted, low, "bytes", (low, high), 1)
            .noted("less the burst tracer's own pages; the interval includes them, in case they came after the \
                peak"),
        _ => Metric {
            low: Some(low),
            high: None,
            evidence: Some(Evidence::Sampled),
            ..Metric::counted(low, "bytes")
        }
        .noted("polled: short peaks between two polls are missed"),
    }
}
