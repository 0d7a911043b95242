//! The invariants of times and totals: samples, faults, threads, counters, losses.
//!
//! What not: switches and waits (`threading`).

use std::collections::{HashMap, HashSet};

use base::{Nanos, ThreadId};
use facts::{
    CounterKind, ExitKind, FaultKind, LostSource, Metric, NoteSubject, RunState, ThreadEventKind,
};

use super::{Report, Subject, allocations};

pub(super) fn times_within_run(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let samples = recording.samples.iter().map(|fact| ("sample", fact.time));
    let faults = recording.faults.iter().map(|fact| ("fault", fact.time));
    let accesses = recording.memory_samples.iter();
    let counts = recording.event_counts.iter().map(|fact| ("count of an event", fact.time));
    let faults = faults.chain(accesses.map(|one| ("sampled access", one.time))).chain(counts);
    let events = recording.event_samples.iter();
    let faults = faults.chain(events.map(|one| ("sample of an event", one.time)));
    let mappings = recording.mappings.iter().map(|fact| ("mapping", fact.time));
    let threads = recording.thread_events.iter().map(|fact| ("thread event", fact.time));
    let lost = recording.lost.iter().map(|fact| ("loss", fact.time));
    let gauges = recording.gauges.iter().map(|fact| ("gauge", fact.time));
    let bursts = recording.bursts.iter().map(|fact| ("burst", fact.time));
    let refused = recording.burst_refusals.iter().map(|fact| ("refused burst", fact.time));
    let blocks = recording.allocations.iter().map(|fact| ("heap block", fact.time));
    let freed = recording.releases.iter().map(|fact| ("freed heap block", fact.time));
    let program = samples.chain(faults).chain(mappings).chain(threads).chain(bursts);
    let regions = recording.regions.iter().map(|fact| ("region", fact.time));
    let ended = recording.region_ends.iter().map(|fact| ("end of a region", fact.time));
    let globals = recording.globals.iter().map(|fact| ("variable", fact.time));
    let program = program.chain(blocks).chain(freed);
    let program = program.chain(regions).chain(ended).chain(globals);
    let waits = recording.waits.iter().map(|fact| ("wait", fact.time + fact.span));
    let waits = waits.chain(recording.wakes.iter().map(|fact| ("wake", fact.time + fact.span)));
    let windows = recording.thread_times.iter().map(|fact| ("time of a thread", fact.time));
    let program = program.chain(waits).chain(windows);
    let entries = recording.kernel_entries.iter().map(|fact| ("entry into the kernel", fact.time));
    let marks = recording.marks.iter().map(|fact| ("mark", fact.time));
    let passes = recording.marked_passes.iter();
    let passes = passes.map(|fact| ("pass of a marked region", fact.time + fact.span));
    let program = program.chain(marks).chain(passes);
    let pages = recording.pages.iter().map(|fact| ("drawn page", fact.time));
    let program = program.chain(entries).chain(pages);
    let sums = allocations::stacks_of_sums(recording).map(|sum| (sum.what, sum.time));
    let end = recording.run.elapsed_ns;
    for (what, time) in program.chain(sums).chain(refused).chain(lost).chain(gauges) {
        if time.0 > end {
            report.add(|| format!("a {what} at {} ns of {end}", time.0));
        }
    }
}

pub(super) fn runs_in_order(subject: &Subject<'_>, report: &mut Report) {
    let run = &subject.recording.run;
    let end = |number: usize| {
        let one = &run.runs[number];
        one.elapsed_ns.map_or(run.elapsed_ns, |elapsed| one.start_ns.saturating_add(elapsed))
    };
    for (number, one) in run.runs.iter().enumerate() {
        let next = run.runs.get(number + 1);
        let until = next.map_or(run.elapsed_ns, |next| next.start_ns);
        if one.start_ns > until || end(number) > until {
            report
                .add(|| format!("run {} ends at {} ns, after {until} ns", number + 1, end(number)));
        }
        if next.is_some() && (one.exit != ExitKind::Code(0) || one.elapsed_ns.is_none()) {
            report
                .add(|| format!("a run follows run {}, which ended by {:?}", number + 1, one.exit));
        }
    }
}

pub(super) fn readings_proper(subject: &Subject<'_>, report: &mut Report) {
    let readings = &subject.recording.run.memory_readings;
    if readings.len() > 2 {
        report.add(|| format!("{} readings of the memory's speed", readings.len()));
    }
    let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
    for point in readings.iter().flat_map(|reading| &reading.points) {
        let Metric { value, low, high, .. } = &point.bus;
        let within = value.is_none_or(|value| {
            let ends = (low.unwrap_or(value), high.unwrap_or(value));
            is_rate(ends.0) && ends.0 <= value && value <= ends.1 && is_rate(ends.1)
        });
        if !within || point.threads == 0 || !point.passes.iter().all(|rate| is_rate(*rate)) {
            report.add(|| {
                format!("{} with {} threads: {:?}", point.kernel, point.threads, point.bus)
            });
        }
    }
}

pub(super) fn page_reading_proper(subject: &Subject<'_>, report: &mut Report) {
    let Some(reading) = &subject.recording.run.page_reading else { return };
    let is_time = |nanos: &f64| nanos.is_finite() && *nanos > 0.0;
    if let Some(nanos) = reading.small.iter().chain(&reading.large).find(|one| !is_time(one)) {
        report.add(|| format!("a page that takes {nanos} ns"));
    }
    if reading.refused as usize > reading.large.len() {
        report.add(|| format!("{} of {} pages refused", reading.refused, reading.large.len()));
    }
}

pub(super) fn sorted_by_time(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let samples = recording.samples.windows(2).map(|pair| (pair[0].time, pair[1].time));
    let faults = recording.faults.windows(2).map(|pair| (pair[0].time, pair[1].time));
    let accesses = recording.memory_samples.windows(2).map(|pair| (pair[0].time, pair[1].time));
    let events = recording.event_samples.windows(2).map(|pair| (pair[0].time, pair[1].time));
    let all = samples.chain(faults).chain(accesses).chain(events);
    for (before, after) in all.filter(|(before, after)| before > after) {
        report.add(|| format!("{} ns comes before {} ns", before.0, after.0));
    }
}

pub(super) fn weights_positive(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let samples = recording.samples.iter().map(|fact| ("sample", fact.time, fact.weight.0));
    let faults = recording.faults.iter().map(|fact| ("fault", fact.time, fact.weight));
    let accesses = recording.memory_samples.iter();
    let faults = faults.chain(accesses.map(|one| ("sampled access", one.time, one.weight)));
    let events = recording.event_samples.iter();
    let faults = faults.chain(events.map(|one| ("sample of an event", one.time, one.weight)));
    for (what, time, _) in samples.chain(faults).filter(|(_, _, weight)| *weight == 0) {
        report.add(|| format!("the {what} at {} ns weighs nothing", time.0));
    }
}

/// Only for imported recordings: only these have a list of their events.
pub(super) fn memory_samples_proper(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let events = recording.run.source.as_ref().map(|source| source.events.len());
    for sample in &recording.memory_samples {
        if events.is_some_and(|events| sample.event as usize >= events) {
            report.add(|| format!("event {} at {} ns", sample.event, sample.time.0));
        }
        if let Some(page) = sample.page.filter(|page| !page.0.is_power_of_two()) {
            report.add(|| format!("a page of {} bytes at {} ns", page.0, sample.time.0));
        }
    }
}

pub(super) fn branch_loops_proper(subject: &Subject<'_>, report: &mut Report) {
    for (row, one) in subject.recording.branch_loops.iter().enumerate() {
        let sums = one.taken >= one.decided && one.decided >= one.starts && one.taken >= one.stacks;
        if !sums || one.stacks == 0 {
            report.add(|| format!("row {row}: {} of {} taken began a run", one.starts, one.taken));
        }
    }
}

pub(super) fn event_counts_proper(subject: &Subject<'_>, report: &mut Report) {
    let events = &subject.recording.counted_events;
    for (row, event) in (0_u32..).zip(events) {
        if event.id != row {
            report.add(|| format!("event {} is in row {row}", event.id));
        }
    }
    for one in &subject.recording.event_counts {
        if one.event as usize >= events.len() || one.running > one.enabled {
            report.add(|| {
                let (of, for_) = (one.running.0, one.enabled.0);
                format!("event {} of {}: {of} ns of {for_} with a counter", one.event, events.len())
            });
        }
    }
    for one in &subject.recording.event_samples {
        if one.event as usize >= events.len() {
            report.add(|| format!("a sample of event {} of {}", one.event, events.len()));
        }
    }
}

/// Ids of threads are used again, so that a second start is fine after an exit.
pub(super) fn threads_in_order(subject: &Subject<'_>, report: &mut Report) {
    let mut events: Vec<_> = subject.recording.thread_events.iter().collect();
    events.sort_by_key(|event| event.time);
    let mut alive: HashMap<ThreadId, bool> = HashMap::new();
    for event in events {
        let state = alive.entry(ThreadId::new(event.pid, event.tid)).or_insert(false);
        let fits = match event.kind {
            ThreadEventKind::Start => !std::mem::replace(state, true),
            ThreadEventKind::Exit => std::mem::replace(state, false),
            ThreadEventKind::Exec | ThreadEventKind::Rename => true,
        };
        if !fits {
            report.add(|| {
                let what = if event.kind == ThreadEventKind::Start {
                    "starts twice"
                } else {
                    "exits without a start"
                };
                format!("thread {} {what} at {} ns", event.tid, event.time.0)
            });
        }
    }
}

pub(super) fn counters_once(subject: &Subject<'_>, report: &mut Report) {
    let counters = &subject.recording.counters;
    for (row, counter) in counters.iter().enumerate() {
        if counters[..row].iter().any(|before| before.kind == counter.kind) {
            report.add(|| format!("{:?} again", counter.kind));
        }
    }
}

pub(super) fn losses_counted(subject: &Subject<'_>, report: &mut Report) {
    for lost in subject.recording.lost.iter().filter(|lost| lost.count == 0) {
        report.add(|| format!("{:?} at {} ns", lost.source, lost.time.0));
    }
}

/// How the note began before it had a subject.
const BARE_THINNING: &str = "samples were thinned out";

pub(super) fn thinning_noted(subject: &Subject<'_>, report: &mut Report) {
    let run = &subject.recording.run;
    let thinned = subject.recording.lost(LostSource::Thinned);
    // Fathom before the subject of this note wrote the bare sentence.
    let is_limit =
        |note: &String| NoteSubject::SizeLimit.has(note) || note.starts_with(BARE_THINNING);
    let noted = run.notes.iter().any(is_limit);
    if thinned > 0 && run.state == RunState::Complete && !noted {
        report.add(|| format!("{thinned} samples were thinned out without a note"));
    }
}

/// Allows for one sampling period per thread on top, and for two standard deviations of as many random samples: on a busy
/// virtual machine 16 samples of 1.6 ms came in 21.5 ms of CPU time.
pub(super) fn weights_within_cpu_time(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let Some(counted) = recording.counter(CounterKind::TaskClock) else { return };
    let sampled: f64 = recording.samples.iter().map(|sample| sample.weight.seconds()).sum();
    let threads: HashSet<_> = recording.samples.iter().map(|sample| sample.tid).collect();
    let noise = threads.len() as f64 + 2.0 * (recording.samples.len() as f64).sqrt();
    let slack = noise * Nanos(recording.run.collector.sampling_period_ns).seconds();
    let limit = Nanos(counted).seconds() * 1.05 + slack;
    if sampled > limit {
        report.add(|| format!("{sampled:.6} s sampled, at most {limit:.6} s expected"));
    }
}

pub(super) fn faults_within_count(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let kinds = [
        (FaultKind::Minor, CounterKind::MinorFaults),
        (FaultKind::Major, CounterKind::MajorFaults),
    ];
    for (kind, counter) in kinds {
        let Some(counted) = recording.counter(counter) else { continue };
        let faults = recording.faults.iter().filter(|fault| fault.kind == kind);
        let largest = faults.clone().map(|fault| fault.weight).max().unwrap_or(0);
        let sampled = faults.fold(0_u64, |sum, fault| sum.saturating_add(fault.weight));
        // `FIRST` and `MOST_FACTOR` of collect/src/perf/fault_windows.rs: a program may fault in windows only.
        let most = if counted > 32_768 { 10.0 } else { 1.05 };
        let limit = (counted as f64).mul_add(most, largest as f64);
        if sampled as f64 > limit {
            report.add(|| format!("{sampled} {kind:?} faults sampled of {counted} counted"));
        }
    }
}
