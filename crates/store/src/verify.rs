//! Checks the invariants of a result. Each is one line of [`INVARIANTS`], with one test that breaks it.
//!
//! What for: tests of collectors run it on what they wrote; users run it as `fathom verify`. What not: repairs
//! (`repair`); a clean answer says nothing about the quality of the measurement.

mod allocations;
mod bursts;
mod code;
mod events;
mod files;
mod kernel;
mod marks;
mod objects;
mod registers;
mod threading;

use std::path::Path;

use facts::Recording;

use crate::error::{Problem, StoreError};
use crate::open::{Opened, leftovers, load};

/// A condition that must hold in every result.
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
    /// Where it is broken; the first few places.
    pub detail: String,
}

/// The files as they are, before any repair.
struct Subject<'a> {
    recording: &'a Recording,
    problems: &'a [Problem],
    leftovers: &'a [String],
}

/// Most places that are reported per invariant.
const MOST_REPORTED: usize = 5;

#[derive(Default)]
struct Report {
    details: Vec<String>,
    count: usize,
}

impl Report {
    fn add(&mut self, detail: impl FnOnce() -> String) {
        self.count += 1;
        if self.details.len() < MOST_REPORTED {
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
    invariant("files-expected", "a complete result has no journal", files::files_expected),
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
        "samples, faults, sampled accesses, heap blocks, regions, waits and wakes name stacks that exist",
        code::stacks_exist,
    ),
    invariant("times-within-run", "no time is after the end of the run", events::times_within_run),
    invariant(
        "runs-in-order",
        "runs of the program follow each other, within the recording, and all but the last succeeded",
        events::runs_in_order,
    ),
    invariant(
        "readings-proper",
        "a run has at most two readings of the memory's speed, and their rates are positive and within their intervals",
        events::readings_proper,
    ),
    invariant(
        "page-reading-proper",
        "what pages cost before a run is positive, and no more of them were refused than asked for",
        events::page_reading_proper,
    ),
    invariant(
        "sorted-by-time",
        "samples, faults and sampled accesses are in order of time",
        events::sorted_by_time,
    ),
    invariant(
        "weights-positive",
        "every sample, fault and sampled access has a weight",
        events::weights_positive,
    ),
    invariant("mappings-proper", "a mapping ends after its start", code::mappings_proper),
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
        "sampled CPU time is at most 1.05 of the counted, but for the noise of sampling",
        events::weights_within_cpu_time,
    ),
    invariant(
        "faults-within-count",
        "sampled faults are at most 1.05 of the counted; at most 10 times where more than 32,768, which are sampled in windows",
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
        "records name bursts that exist, and blocks of the burst's process and flavour (of a `sparse` one, blocks of `count`)",
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
        "advances-known",
        "registers that advanced natively did so after a traced burst",
        bursts::advances_known,
    ),
    invariant(
        "bursts-proper",
        "a burst went into translated code, was stopped more often than that, and its system calls are a part of its time",
        bursts::bursts_proper,
    ),
    invariant(
        "native-counts-known",
        "blocks that were counted natively were counted in the window before, and the instruction lies in the block",
        bursts::native_counts_known,
    ),
    invariant(
        "word-advances-known",
        "words of memory rose behind bursts that count blocks",
        bursts::word_advances_known,
    ),
    invariant(
        "registers-proper",
        "a row of registers decodes to as many samples as it says, in order of time within the run, in modules that exist",
        registers::registers_proper,
    ),
    invariant(
        "sampled-code-proper",
        "sampled code is of a module that exists, has bytes, and overlaps no other",
        registers::code_proper,
    ),
    invariant(
        "no-miss-times-proper",
        "a no-miss time names a traced block, once, and its figures are in order; one whose branches were measured has blocks; one with kept registers names a loop that has the other",
        bursts::no_miss_times_proper,
    ),
    invariant(
        "heap-sums-proper",
        "the heap blocks of a call chain are freed at most as often as allocated",
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
        "a row of waits has at least one, and none began before the recording",
        threading::waits_proper,
    ),
    invariant(
        "windows-add-up",
        "no thread runs for longer than a window, and the numbers of running threads divide a window",
        threading::windows_add_up,
    ),
    invariant(
        "kernel-entries-proper",
        "kernel entries have a count, in a bin that began within the run",
        kernel::entries_proper,
    ),
    invariant(
        "wakes-proper",
        "a row of wakes has at least as many as were observed",
        threading::wakes_proper,
    ),
    invariant(
        "memory-samples-proper",
        "a sampled access is of an event of the imported file, and its page has a size that is a power of two",
        events::memory_samples_proper,
    ),
    invariant(
        "branch-loops-proper",
        "a loop of branch stacks was taken in each of its stacks, and began at most as often as it was decided",
        events::branch_loops_proper,
    ),
    invariant(
        "event-counts-proper",
        "a count and a sample are of a counted event; the counter was there no longer than it was to count",
        events::event_counts_proper,
    ),
    invariant(
        "marks-proper",
        "a mark has a name, a pause and its end have none",
        marks::marks_proper,
    ),
    invariant(
        "marked-regions-proper",
        "marked region i has id i; passes are of regions that exist, and take no longer than they span",
        marks::marked_regions_proper,
    ),
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

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
