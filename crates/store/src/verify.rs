//! The checker for what cannot happen. Each invariant is one line of [`INVARIANTS`], with one test that breaks it.
//!
//! What for: tests of collectors run it on what they wrote; users run it as `fathom verify`.
//! What not: it repairs nothing, and a clean answer says nothing about whether the measurement was good.

mod allocations;
mod bursts;
mod code;
mod events;
mod files;
mod kernel;
mod objects;
mod threading;

use std::path::Path;

use facts::Recording;

use crate::error::{Problem, StoreError};
use crate::open::{Opened, leftovers, load};

/// Something that must hold in every result.
#[derive(Clone, Copy)]
pub struct Invariant {
    /// Its name, stable.
    pub name: &'static str,
    /// What must hold, in a sentence.
    pub says: &'static str,
    check: fn(&Subject<'_>, &mut Report),
}

/// A broken invariant.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{invariant}: {detail}")]
pub struct Violation {
    /// Its name.
    pub invariant: &'static str,
    /// Where it breaks; the first few places of many.
    pub detail: String,
}

/// What is checked: the files as they are, before any repair.
struct Subject<'a> {
    recording: &'a Recording,
    problems: &'a [Problem],
    leftovers: &'a [String],
}

/// At most this many places are told per invariant.
const TOLD: usize = 5;

#[derive(Default)]
struct Report {
    details: Vec<String>,
    count: usize,
}

impl Report {
    fn add(&mut self, detail: impl FnOnce() -> String) {
        self.count += 1;
        if self.details.len() < TOLD {
            self.details.push(detail());
        }
    }
}

const fn invariant(
    name: &'static str,
    says: &'static str,
    check: fn(&Subject<'_>, &mut Report),
) -> Invariant {
    Invariant { name, says, check }
}

/// Every invariant.
pub const INVARIANTS: &[Invariant] = &[
    invariant(
        "files-whole",
        "files are as they were written; a journal has no torn end",
        files::files_whole,
    ),
    invariant(
        "files-expected",
        "a complete result has no journal beside its tables",
        files::files_expected,
    ),
    invariant(
        "schema-known",
        "the manifest carries the version of this format",
        files::schema_known,
    ),
    invariant("module-ids-dense", "module i has id i", code::module_ids_dense),
    invariant("stack-ids-dense", "stack frame i has id i", code::stack_ids_dense),
    invariant(
        "parents-first",
        "a caller comes before its callees, so that there is no cycle",
        code::parents_first,
    ),
    invariant(
        "truncated-outermost",
        "only outermost frames are marked as cut off",
        code::truncated_outermost,
    ),
    invariant(
        "modules-exist",
        "stacks, mappings, source locations, blocks, refused bursts, variables and types of accesses name modules that exist",
        code::modules_exist,
    ),
    invariant(
        "stacks-exist",
        "samples, faults, heap blocks, regions and waits name stacks that exist",
        code::stacks_exist,
        "samples, faults, heap blocks, regions, waits and wakes name stacks that exist",
        stacks_exist,
    ),
    invariant(
        "times-within-run",
        "nothing happens after the end of the run",
        events::times_within_run,
    ),
    invariant("sorted-by-time", "samples and faults are in order of time", events::sorted_by_time),
    invariant(
        "weights-positive",
        "every sample and fault stands for something",
        events::weights_positive,
    ),
    invariant("mappings-proper", "a mapping ends behind its start", code::mappings_proper),
    invariant(
        "mappings-apart",
        "of mappings seen at one time in one process, none overlaps another",
        code::mappings_apart,
    ),
    invariant(
        "threads-in-order",
        "a thread starts once and exits after its start",
        events::threads_in_order,
    ),
    invariant("counters-once", "each counter is there at most once", events::counters_once),
    invariant("losses-counted", "a loss counts at least one record", events::losses_counted),
    invariant(
        "thinning-noted",
        "thinned samples come with a note in the manifest",
        events::thinning_noted,
    ),
    invariant(
        "weights-within-cpu-time",
        "sampled CPU time is at most 1.05 of the counted",
        events::weights_within_cpu_time,
    ),
    invariant(
        "faults-within-count",
        "sampled faults are at most 1.05 of the counted",
        events::faults_within_count,
    ),
    invariant(
        "frames-once",
        "an address and depth has one source location, depths run from 0",
        code::frames_once,
    ),
    invariant("burst-ids-once", "a block or burst has an id of its own", bursts::ids_once),
    invariant(
        "blocks-proper",
        "a block has code, and a layout of its records that can be read",
        bursts::blocks_proper,
    ),
    invariant("records-decode", "records of bursts decode", bursts::records_decode),
    invariant(
        "records-known",
        "records name bursts that exist, and blocks of the burst's process and flavour",
        bursts::records_known,
    ),
    invariant(
        "records-fit",
        "a record has the values, and a way out, of its block's layout",
        bursts::records_fit,
    ),
    invariant(
        "records-counted",
        "a burst has all its records, or is marked and has none",
        bursts::records_counted,
    ),
    invariant(
        "floors-proper",
        "a loop's floor names a block for addresses, once, and its figures are in order",
        bursts::floors_proper,
    ),
    invariant(
        "heap-sums-proper",
        "no call chain's heap blocks are freed more often than they were allocated",
        allocations::stack_sums_proper,
    ),
    invariant("allocation-ids-once", "no two heap blocks have one id", allocations::ids_once),
    invariant(
        "releases-known",
        "a heap block that is freed was allocated before, and is freed once",
        allocations::releases_known,
    ),
    invariant(
        "heap-adds-up",
        "a process's size classes add up to its heap total, and it frees no more than it had",
        allocations::heap_adds_up,
    ),
    invariant(
        "ranges-proper",
        "a region, its end and a variable have a length and end within the address space",
        objects::ranges_proper,
    ),
    invariant(
        "types-proper",
        "an access has one type, and a member lies within it",
        objects::types_proper,
    ),
    invariant(
        "waits-proper",
        "a row of waits stands for at least one, and none began before the recording",
        threading::waits_proper,
    ),
    invariant(
        "windows-add-up",
        "no thread runs for longer than a window, and the numbers of running threads divide a window",
        threading::windows_add_up,
    ),
    invariant(
        "kernel-entries-proper",
        "entries into the kernel stand for something, in a bin that began within the run",
        kernel::entries_proper,
    ),
    invariant("wakes-proper", "a row of wakes stands for at least one", threading::wakes_proper),
];

/// Checks every invariant of a result.
///
/// # Errors
/// As [`crate::open`]: what cannot be read at all cannot be checked.
pub fn verify(directory: &Path) -> Result<Vec<Violation>, StoreError> {
    let Opened { recording, problems } = load(directory)?;
    let leftovers = leftovers(directory, recording.run.state);
    Ok(check(&Subject { recording: &recording, problems: &problems, leftovers: &leftovers }))
}

fn check(subject: &Subject<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for invariant in INVARIANTS {
        let mut report = Report::default();
        (invariant.check)(subject, &mut report);
        let more = report.count.saturating_sub(report.details.len());
        if more > 0 {
            report.details.push(format!("and {more} more"));
        }
        if report.count > 0 {
            let detail = report.details.join("; ");
            violations.push(Violation { invariant: invariant.name, detail });
        }
    }
    violations
}

fn files_whole(subject: &Subject<'_>, report: &mut Report) {
    for problem in subject.problems {
        if matches!(problem, Problem::Changed { .. } | Problem::TornTail { .. }) {
            report.add(|| problem.to_string());
        }
    }
}

fn files_expected(subject: &Subject<'_>, report: &mut Report) {
    for name in subject.leftovers {
        report.add(|| format!("{name} should not be there"));
    }
}

fn schema_known(subject: &Subject<'_>, report: &mut Report) {
    let found = subject.recording.run.schema;
    if !(1..=SCHEMA_VERSION).contains(&found) {
        report.add(|| format!("version {found}"));
    }
}

fn module_ids_dense(subject: &Subject<'_>, report: &mut Report) {
    for (row, module) in (0_u32..).zip(&subject.recording.modules) {
        if module.id.0 != row {
            report.add(|| format!("row {row} has id {}", module.id));
        }
    }
}

fn stack_ids_dense(subject: &Subject<'_>, report: &mut Report) {
    for (row, node) in (0_u32..).zip(&subject.recording.stack_nodes) {
        if node.id.0 != row {
            report.add(|| format!("row {row} has id {}", node.id));
        }
    }
}

fn parents_first(subject: &Subject<'_>, report: &mut Report) {
    let mut seen = HashSet::new();
    for node in &subject.recording.stack_nodes {
        if let Some(parent) = node.parent.filter(|parent| !seen.contains(parent)) {
            report.add(|| format!("frame {} comes before its caller {parent}", node.id));
        }
        seen.insert(node.id);
    }
}

fn truncated_outermost(subject: &Subject<'_>, report: &mut Report) {
    let nodes = subject.recording.stack_nodes.iter();
    for node in nodes.filter(|node| node.truncated && node.parent.is_some()) {
        report.add(|| format!("frame {} is cut off although it has a caller", node.id));
    }
}

fn modules_exist(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let known: HashSet<_> = recording.modules.iter().map(|module| module.id).collect();
    let nodes = recording.stack_nodes.iter().map(|node| ("stack frame", node.module));
    let mappings = recording.mappings.iter().map(|mapping| ("mapping", mapping.module));
    let frames = recording.frames.iter().map(|frame| ("source location", frame.module));
    let blocks = recording.blocks.iter().flat_map(|block| &block.pieces);
    let blocks = blocks.map(|piece| ("block", piece.module));
    let refused = recording.burst_refusals.iter().filter_map(|refused| refused.at);
    let refused = refused.map(|(module, _)| ("refused burst", module));
    let globals = recording.globals.iter().map(|global| ("variable", global.module));
    let types = recording.access_types.iter().map(|typed| ("type of an access", typed.module));
    let code = nodes.chain(mappings).chain(frames).chain(blocks).chain(refused);
    for (what, module) in code.chain(globals).chain(types) {
        if !known.contains(&module) {
            report.add(|| format!("a {what} names module {module}"));
        }
    }
}

fn stacks_exist(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let known: HashSet<_> = recording.stack_nodes.iter().map(|node| node.id).collect();
    let samples = recording.samples.iter().map(|sample| ("sample", sample.time, sample.stack));
    let faults = recording.faults.iter().map(|fault| ("fault", fault.time, fault.stack));
    let blocks = recording.allocations.iter().map(|block| ("heap block", block.time, block.stack));
    let freed =
        recording.releases.iter().map(|freed| ("freed heap block", freed.time, freed.stack));
    let regions = recording.regions.iter().map(|region| ("region", region.time, region.stack));
    let waits = recording.waits.iter().map(|wait| ("wait", wait.time, wait.stack));
    let wakes = threading::stacks_of_wakes(recording).map(|(time, stack)| ("wake", time, stack));
    let sums = allocations::stacks_of_sums(recording).chain(wakes);
    let all = samples.chain(faults).chain(blocks).chain(freed);
    for (what, time, stack) in all.chain(regions).chain(waits).chain(sums) {
        if let Some(stack) = stack.filter(|stack| !known.contains(stack)) {
            report.add(|| format!("the {what} at {} ns names stack {stack}", time.0));
        }
    }
}

fn times_within_run(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let samples = recording.samples.iter().map(|fact| ("sample", fact.time));
    let faults = recording.faults.iter().map(|fact| ("fault", fact.time));
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
    let pages = recording.pages.iter().map(|fact| ("drawn page", fact.time));
    let program = program.chain(entries).chain(pages);
    let sums = allocations::stacks_of_sums(recording).map(|(what, time, _)| (what, time));
    let end = recording.run.elapsed_ns;
    for (what, time) in program.chain(sums).chain(refused).chain(lost).chain(gauges) {
        if time.0 > end {
            report.add(|| format!("a {what} at {} ns of {end}", time.0));
        }
    }
}

fn sorted_by_time(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let samples = recording.samples.windows(2).map(|pair| (pair[0].time, pair[1].time));
    let faults = recording.faults.windows(2).map(|pair| (pair[0].time, pair[1].time));
    for (before, after) in samples.chain(faults).filter(|(before, after)| before > after) {
        report.add(|| format!("{} ns comes before {} ns", before.0, after.0));
    }
}

fn weights_positive(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let samples = recording.samples.iter().map(|fact| ("sample", fact.time, fact.weight.0));
    let faults = recording.faults.iter().map(|fact| ("fault", fact.time, fact.weight));
    for (what, time, _) in samples.chain(faults).filter(|(_, _, weight)| *weight == 0) {
        report.add(|| format!("the {what} at {} ns weighs nothing", time.0));
    }
}

fn mappings_proper(subject: &Subject<'_>, report: &mut Report) {
    for mapping in subject.recording.mappings.iter().filter(|mapping| mapping.end <= mapping.start)
    {
        report.add(|| format!("{}..{} in process {}", mapping.start, mapping.end, mapping.pid));
    }
}

/// A later mapping may replace an earlier one (exec, dlclose); at one instant there is one truth.
fn mappings_apart(subject: &Subject<'_>, report: &mut Report) {
    let mut by_moment: HashMap<(Pid, Nanos), Vec<&Mapping>> = HashMap::new();
    for mapping in subject.recording.mappings.iter().filter(|mapping| mapping.start < mapping.end) {
        by_moment.entry((mapping.pid, mapping.time)).or_default().push(mapping);
    }
    let mut moments: Vec<_> = by_moment.into_values().collect();
    moments.sort_by_key(|mappings| (mappings[0].time, mappings[0].pid));
    for mappings in &mut moments {
        mappings.sort_by_key(|mapping| mapping.start);
        for pair in mappings.windows(2).filter(|pair| pair[1].start < pair[0].end) {
            report.add(|| {
                format!(
                    "{} lies inside the mapping at {} of process {}",
                    pair[1].start, pair[0].start, pair[0].pid
                )
            });
        }
    }
}

/// Ids of threads are used again, so that a second start is fine after an exit.
fn threads_in_order(subject: &Subject<'_>, report: &mut Report) {
    let mut events: Vec<_> = subject.recording.thread_events.iter().collect();
    events.sort_by_key(|event| event.time);
    let mut alive: HashMap<(Pid, Tid), bool> = HashMap::new();
    for event in events {
        let state = alive.entry((event.pid, event.tid)).or_insert(false);
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

fn counters_once(subject: &Subject<'_>, report: &mut Report) {
    let counters = &subject.recording.counters;
    for (row, counter) in counters.iter().enumerate() {
        if counters[..row].iter().any(|before| before.kind == counter.kind) {
            report.add(|| format!("{:?} again", counter.kind));
        }
    }
}

fn losses_counted(subject: &Subject<'_>, report: &mut Report) {
    for lost in subject.recording.lost.iter().filter(|lost| lost.count == 0) {
        report.add(|| format!("{:?} at {} ns", lost.source, lost.time.0));
    }
}

fn thinning_noted(subject: &Subject<'_>, report: &mut Report) {
    let run = &subject.recording.run;
    let thinned = subject.recording.lost(LostSource::Thinned);
    let noted = run.notes.iter().any(|note| note.contains("thinned"));
    if thinned > 0 && run.state == RunState::Complete && !noted {
        report.add(|| format!("{thinned} samples were thinned out without a note"));
    }
}

/// Allows for one sampling period per thread on top: a short run has few samples.
fn weights_within_cpu_time(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let Some(counted) = recording.counter(CounterKind::TaskClock) else { return };
    let sampled: f64 = recording.samples.iter().map(|sample| sample.weight.seconds()).sum();
    let threads: HashSet<_> = recording.samples.iter().map(|sample| sample.tid).collect();
    let slack = threads.len() as f64 * Nanos(recording.run.collector.sampling_period_ns).seconds();
    let limit = Nanos(counted).seconds() * 1.05 + slack;
    if sampled > limit {
        report.add(|| format!("{sampled:.6} s sampled, at most {limit:.6} s expected"));
    }
}

fn faults_within_count(subject: &Subject<'_>, report: &mut Report) {
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
        let limit = (counted as f64).mul_add(1.05, largest as f64);
        if sampled as f64 > limit {
            report.add(|| format!("{sampled} {kind:?} faults sampled of {counted} counted"));
        }
    }
}

fn frames_once(subject: &Subject<'_>, report: &mut Report) {
    let frames = &subject.recording.frames;
    let mut seen = HashSet::new();
    for frame in frames {
        if !seen.insert((frame.module, frame.offset, frame.depth)) {
            report.add(|| {
                format!(
                    "module {} offset {} depth {} twice",
                    frame.module, frame.offset, frame.depth
                )
            });
        }
    }
    for frame in frames.iter().filter(|frame| frame.depth > 0) {
        if !seen.contains(&(frame.module, frame.offset, frame.depth - 1)) {
            report.add(|| {
                format!(
                    "module {} offset {} has depth {} but not the one below",
                    frame.module, frame.offset, frame.depth
                )
            });
        }
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
