//! The figures of a whole recording: how long, how much CPU, spent on what, and how far to trust it.

use std::collections::{BTreeMap, BTreeSet};

use base::{Nanos, Pid};
use facts::{Counter, CounterKind, Evidence, GaugeKind, LostSource, Metric, RunState, Target};

use crate::accesses::{Coverage, coverage};
use crate::faults::{FaultCost, counted_faults, fault_cost, fault_scales, fault_total};
use crate::hotspots::{Hotspots, Key, hotspots};
use crate::overhead::{Overhead, overhead};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::weight::{Scale, Weight};

/// Where the time of all threads went, in seconds; the parts add up to the threads' lifetimes.
#[derive(Clone, PartialEq, Debug)]
pub struct TimeSplit {
    /// CPU time in the program and its libraries.
    pub user: Metric,
    /// CPU time in the kernel, without page faults where these are known.
    pub kernel: Metric,
    /// CPU time serving page faults.
    pub page_faults: Metric,
    /// Threads that existed without running: waiting for others, for I/O, for a free CPU.
    pub waiting: Metric,
    /// Sum of the threads' lifetimes.
    pub thread_time: Metric,
}

/// Everything the summary says that comes from this recording.
pub struct Overview {
    /// Length of the recording, seconds.
    pub elapsed: Metric,
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
    /// How much of the running time bursts could trace.
    pub coverage: Coverage,
    /// What the samples themselves cost the program, percent of its CPU time.
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
    let (kernel_percent, kernel_time) = kernel_time(profile);
    let split = time_split(profile, &cpu_time, &kernel_time, &fault_cost);
    Overview {
        cpu_utilisation: utilisation(&cpu_time, profile.elapsed(), usable_cpus),
        threads: count_or(profile.threads.all().len(), "no thread was seen"),
        processes: count_or(profile.threads.process_count(), "no process was seen"),
        usable_cpus,
        split,
        kernel_percent,
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

fn elapsed(profile: &Profile<'_>) -> Metric {
    let metric = Metric::counted(profile.elapsed().seconds(), "s");
    match profile.recording.run.state {
        RunState::Complete => metric,
        RunState::Incomplete => metric.noted("the recording was not closed: time of its last fact"),
    }
}

fn cpu_time(profile: &Profile<'_>) -> Metric {
    if let Some(seconds) = profile.counted_cpu_seconds() {
        return Metric::counted(seconds, "s");
    }
    if profile.whole().is_empty() {
        return Metric::unavailable("s", profile.why_no_samples());
    }
    let (value, interval) = profile.whole().poisson_total(1e-9);
    Metric::with_interval(Evidence::Sampled, value, "s", interval, profile.whole().records())
        .with_lost(profile.lost_samples())
        .noted("sum of the sampling periods: no counter of CPU time was available")
}

fn utilisation(cpu_time: &Metric, elapsed: Nanos, cpus: Option<f64>) -> Metric {
    let offered = cpus.map_or(0.0, |cpus| cpus * elapsed.seconds());
    if offered <= 0.0 {
        return Metric::unavailable(
            "percent",
            "the number of usable CPUs or the elapsed time is not known",
        );
    }
    scaled(cpu_time, 100.0 / offered, "percent")
}

/// The metric times an exactly known factor, in another unit.
fn scaled(metric: &Metric, factor: f64, unit: &str) -> Metric {
    let times = |value: Option<f64>| value.map(|value| value * factor);
    Metric {
        value: times(metric.value),
        low: times(metric.low),
        high: times(metric.high),
        unit: unit.to_owned(),
        ..metric.clone()
    }
}

/// Kernel time as percent of CPU time, and in seconds.
fn kernel_time(profile: &Profile<'_>) -> (Metric, Metric) {
    if profile.samples_kernel() && !profile.whole().is_empty() {
        let mut part = Weight::default();
        profile
            .all_cells()
            .iter()
            .filter(|cell| cell.kernel)
            .for_each(|cell| part.merge(&cell.weight));
        let scale = profile.cpu_scale();
        return (scale.percent(&part), scale.quantity(&part));
    }
    match profile.recording.run.resource_use.as_ref() {
        Some(usage) if usage.user_ns.saturating_add(usage.system_ns) > 0 => {
            let (user, system) = (Nanos(usage.user_ns).seconds(), Nanos(usage.system_ns).seconds());
            let percent = Metric::counted(system / (user + system) * 100.0, "percent");
            (
                percent.noted("from getrusage: time in the kernel was not sampled"),
                Metric::counted(system, "s"),
            )
        }
        _ => {
            let why = "time in the kernel was neither sampled nor counted";
            (Metric::unavailable("percent", why), Metric::unavailable("s", why))
        }
    }
}

fn time_split(
    profile: &Profile<'_>,
    cpu: &Metric,
    kernel: &Metric,
    faults: &FaultCost,
) -> TimeSplit {
    let part = |value: Option<f64>, like: &Metric, why: &str| match value {
        Some(value) => Metric {
            value: Some(value.max(0.0)),
            low: None,
            high: None,
            evidence: Some(Evidence::Estimated),
            note: Some("difference of the other figures; its interval is theirs".to_owned()),
            ..like.clone()
        },
        None => Metric::unavailable("s", why),
    };
    let user = cpu.value.zip(kernel.value).map(|(cpu, kernel)| cpu - kernel);
    let page_faults = Metric {
        // An estimate from the count can exceed the kernel time it is a part of.
        value: faults
            .time
            .value
            .map(|faults| kernel.value.map_or(faults, |kernel| faults.min(kernel))),
        ..faults.time.clone()
    };
    let other_kernel = kernel.value.map(|kernel| kernel - page_faults.value.unwrap_or(0.0));
    let thread_time = match profile.threads.lifetime() {
        Some(lifetime) => Metric::counted(lifetime.seconds(), "s"),
        None => Metric::unavailable("s", "the start of some threads was not recorded"),
    };
    let waiting = thread_time.value.zip(cpu.value).map(|(alive, cpu)| alive - cpu);
    TimeSplit {
        user: part(user, cpu, "the kernel's part of the CPU time is not known"),
        kernel: part(other_kernel, kernel, "time in the kernel was neither sampled nor counted"),
        page_faults,
        waiting: part(waiting, &thread_time, "the lifetimes of the threads are not known"),
        thread_time,
    }
}

/// Percent of anonymous memory in huge pages, when each process had most anonymous memory.
/// Anonymous memory in huge pages, percent.
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
    match counted.max(polled) {
        0 => Metric::unavailable("bytes", "the program's memory was not polled"),
        peak if peak == counted => Metric::counted(peak as f64, "bytes"),
        peak => Metric {
            low: Some(peak as f64),
            high: None,
            evidence: Some(Evidence::Sampled),
            ..Metric::counted(peak as f64, "bytes")
        }
        .noted("polled: a short peak between two polls is not seen"),
    }
}

/// The last poll of a machine-wide CPU time: nanoseconds, and what all CPUs had to offer until then.
fn machine_time(profile: &Profile<'_>, kind: GaugeKind) -> Option<(f64, f64)> {
    let gauges = profile.recording.gauges.iter().filter(|gauge| gauge.kind == kind);
    let (time, nanos) = gauges.map(|gauge| (gauge.time, gauge.value)).max()?;
    let offered = f64::from(profile.recording.run.host.logical_cpus) * time.0 as f64;
    (offered > 0.0).then_some((nanos as f64, offered))
}

fn stolen(profile: &Profile<'_>) -> Metric {
    match machine_time(profile, GaugeKind::StolenTime) {
        Some((nanos, offered)) => Metric::counted((nanos / offered * 100.0).min(100.0), "percent"),
        None => Metric::unavailable("percent", "not recorded"),
    }
}

/// What the whole machine used, less the program and the profiler.
fn other_cpu(profile: &Profile<'_>, cpu_time: &Metric) -> Metric {
    let machine = machine_time(profile, GaugeKind::MachineCpuTime);
    let (Some((nanos, offered)), Some(program)) = (machine, cpu_time.value) else {
        return Metric::unavailable("percent", "not recorded");
    };
    let ours = profile.recording.run.own_cost.cpu_time_ns as f64;
    let others = (nanos - program * 1e9 - ours).clamp(0.0, offered);
    Metric {
        low: None,
        high: None,
        evidence: Some(Evidence::Estimated),
        ..Metric::counted(others / offered * 100.0, "percent")
    }
    .noted("CPU time of the machine less the program's and the profiler's; ticks of 10 ms, so no interval")
}

fn sampling_cost(profile: &Profile<'_>, cpu_time: &Metric) -> Metric {
    let calibration = profile.recording.run.calibration.as_ref();
    let cost = calibration.and_then(|calibration| calibration.sample_cost.as_ref());
    let cpu = cpu_time.value.filter(|cpu| *cpu > 0.0);
    let (Some(cost), Some(cpu)) = (cost.filter(|cost| cost.value.is_some()), cpu) else {
        return Metric::unavailable("percent", "the cost of a sample was not calibrated");
    };
    let taken = profile.whole().records().saturating_add(profile.lost_samples());
    let mut metric = scaled(cost, taken as f64 * 1e-9 / cpu * 100.0, "percent");
    metric.evidence = Some(Evidence::Estimated);
    metric.samples = taken;
    metric.noted("samples times the calibrated cost of one, of CPU time")
}

/// Remarks of the run, then what the figures themselves show to be wrong.
fn notes(profile: &Profile<'_>) -> Vec<String> {
    let run = &profile.recording.run;
    let mut notes = Vec::new();
    if run.state == RunState::Incomplete {
        notes.push(
            "The recording was not closed (the profiler was killed, or is still running): it holds what was \
             written until then, and totals may be missing."
                .to_owned(),
        );
    }
    if let Some(Target::Attached { pid }) = run.target {
        notes.push(format!(
            "Attached to the running process {pid}: all figures are from then on, not from its start."
        ));
    }
    match run.stopped_by.as_deref() {
        Some("interrupted") => {
            notes.push("The collection was interrupted from the keyboard.".to_owned())
        }
        Some("duration") => {
            notes.push("The collection ended after the duration asked for.".to_owned())
        }
        Some(other) => notes.push(format!("The collection was stopped early: {other}.")),
        None => {}
    }
    notes.extend(run.collector.fallback_reason.clone());
    notes.extend(few_samples(profile));
    notes.extend(uncovered_time(profile));
    notes.extend(truncated_stacks(profile));
    notes.extend(damage(profile));
    // The collector may have said one of these already.
    notes.extend(run.notes.iter().cloned());
    let mut said = BTreeSet::new();
    notes.retain(|note| said.insert(note.clone()));
    notes
}

fn few_samples(profile: &Profile<'_>) -> Option<String> {
    let records = profile.whole().records();
    (1..100).contains(&records).then(|| {
        format!("Only {records} samples: shares below about {:.0} % are noise. Run longer, or more often.", {
            let (_, high) = crate::interval::wilson(0.0, profile.whole().effective_records());
            (high * 100.0).max(1.0)
        })
    })
}

/// Sampled and counted CPU time should agree; where they do not, the shares may be biased.
fn uncovered_time(profile: &Profile<'_>) -> Option<String> {
    let counted = profile
        .recording
        .counters
        .iter()
        .rev()
        .find(|Counter { kind, .. }| *kind == CounterKind::TaskClock)?;
    let (counted, sampled) = (counted.value as f64, profile.whole().amount() as f64);
    let effective = profile.whole().effective_records();
    if counted <= 0.0 || effective <= 0.0 || !profile.samples_kernel() {
        return None;
    }
    let off = (sampled - counted) / counted;
    // Three standard errors of a Poisson count, and at least 5 %.
    let tolerated = (3.0 / effective.sqrt()).max(0.05);
    (off.abs() > tolerated).then(|| {
        format!(
            "The samples stand for {:.2} s of CPU time, the kernel counted {:.2} s ({:+.0} %): shares may be biased.",
            sampled * 1e-9,
            counted * 1e-9,
            off * 100.0
        )
    })
}

fn truncated_stacks(profile: &Profile<'_>) -> Option<String> {
    let mut cut = Weight::default();
    for cell in profile.all_cells() {
        if profile.stacks.is_truncated(cell.stack) {
            cut.merge(&cell.weight);
        }
    }
    let share = profile.cpu_scale().share(&cut);
    (share >= 0.01).then(|| {
        format!(
            "{:.0} % of the stacks could not be followed to their start: total times and callers miss that part.",
            share * 100.0
        )
    })
}

fn damage(profile: &Profile<'_>) -> Option<String> {
    let problems = &profile.stacks.problems;
    problems.any().then(|| {
        format!(
            "Parts of the recording were unusable: {} stacks cut off, {} repeated, {} in unknown modules, {} \
             inlined frames dropped. Check it with `fathom verify`.",
            problems.broken_parents,
            problems.duplicate_nodes,
            problems.unknown_modules,
            problems.dropped_frames
        )
    })
}
