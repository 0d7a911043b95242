//! The invariants of the heap's records and totals.
//!
//! What not: reading them (`tables/allocations`). Assumption: an interrupted result may end between a block and its
//! other rows.

use std::collections::{BTreeMap, HashMap};

use base::{AllocationId, Nanos, Pid, StackId};
use facts::Recording;

use super::{Report, Subject};

pub(super) fn ids_once(subject: &Subject<'_>, report: &mut Report) {
    let mut seen = std::collections::HashSet::new();
    for block in &subject.recording.allocations {
        if !seen.insert(block.id) {
            report.add(|| format!("heap block {} again", block.id));
        }
    }
}

pub(super) fn releases_known(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let mut living: HashMap<AllocationId, Nanos> =
        recording.allocations.iter().map(|block| (block.id, block.time)).collect();
    for release in &recording.releases {
        let id = release.allocation;
        match living.remove(&id) {
            None => report.add(|| format!("heap block {id} was freed without being there")),
            Some(born) if born > release.time => {
                report.add(|| {
                    format!("heap block {id} of {} ns freed at {} ns", born.0, release.time.0)
                });
            }
            Some(_) => {}
        }
    }
}

pub(super) fn heap_adds_up(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let mut sums: BTreeMap<Pid, [u128; 4]> = BTreeMap::new();
    for total in &recording.heap_totals {
        let sum = sums.entry(total.pid).or_default();
        sum[0] += u128::from(total.allocations);
        sum[1] += u128::from(total.allocated.0);
        let had = u128::from(total.allocated.0) + u128::from(total.inherited.0);
        if let Some(freed) = total.freed.filter(|freed| u128::from(freed.0) > had) {
            report.add(|| format!("process {} freed {} of {had} bytes", total.pid, freed.0));
        }
    }
    for class in &recording.size_classes {
        let sum = sums.entry(class.pid).or_default();
        sum[2] += u128::from(class.allocations);
        sum[3] += u128::from(class.allocated.0);
    }
    for (pid, [blocks, bytes, class_blocks, class_bytes]) in sums {
        if (blocks, bytes) != (class_blocks, class_bytes) {
            report.add(|| {
                format!(
                    "process {pid}: {blocks} blocks, {bytes} bytes; by size {class_blocks}, {class_bytes}"
                )
            });
        }
    }
}

/// A stack that a fact names.
pub(super) struct StackUse {
    /// The kind of fact, for a message.
    pub(super) what: &'static str,
    pub(super) time: Nanos,
    pub(super) stack: Option<StackId>,
}

/// The stacks of the sums per call chain.
pub(super) fn stacks_of_sums(recording: &Recording) -> impl Iterator<Item = StackUse> {
    let asked = recording.heap_stacks.iter();
    let asked =
        asked.map(|sum| StackUse { what: "sum of blocks", time: sum.time, stack: sum.stack });
    let freed = recording.heap_frees.iter().flat_map(|sum| {
        let time = sum.time;
        [sum.stack, sum.free_stack].map(|stack| StackUse { what: "sum of frees", time, stack })
    });
    let lived = recording.heap_lifetimes.iter();
    let lived =
        lived.map(|sum| StackUse { what: "sum of lifetimes", time: sum.time, stack: sum.stack });
    asked.chain(freed).chain(lived)
}

/// Sums per process and stack: more can never be freed than was allocated, and only part of the freed is temporary.
pub(super) fn stack_sums_proper(subject: &Subject<'_>, report: &mut Report) {
    let mut sums: BTreeMap<_, [u128; 5]> = BTreeMap::new();
    for row in &subject.recording.heap_stacks {
        let sum = sums.entry((row.pid, row.stack, row.call)).or_default();
        let parts = [row.allocations, row.allocated.0, row.frees, row.freed.0, row.temporary];
        for (sum, part) in sum.iter_mut().zip(parts) {
            *sum += u128::from(part);
        }
    }
    for ((pid, stack, _), [blocks, bytes, frees, freed, temporary]) in sums {
        if frees > blocks || freed > bytes || temporary > frees {
            report.add(|| {
                format!(
                    "process {pid}, stack {stack:?}: {frees} of {blocks} blocks freed, {temporary} temporary; {freed} of {bytes} bytes"
                )
            });
        }
    }
    lifetimes_proper(subject, report);
}

/// Per process and call: lifetimes are of blocks that were freed. None in a result from before there were any.
fn lifetimes_proper(subject: &Subject<'_>, report: &mut Report) {
    let mut sums: BTreeMap<_, [[u128; 3]; 2]> = BTreeMap::new();
    let freed = subject.recording.heap_stacks.iter();
    let freed = freed.map(|row| (0, row.pid, row.call, [row.frees, row.freed.0, row.temporary]));
    let lived = subject.recording.heap_lifetimes.iter();
    let lived = lived.map(|row| (1, row.pid, row.call, [row.frees, row.freed.0, row.temporary]));
    for (kind, pid, call, parts) in freed.chain(lived) {
        let sum: &mut [[u128; 3]; 2] = sums.entry((pid, call)).or_default();
        for (sum, part) in sum[kind].iter_mut().zip(parts) {
            *sum += u128::from(part);
        }
    }
    for ((pid, call), [freed, lived]) in sums {
        if lived.iter().zip(freed).any(|(lived, freed)| *lived > freed) {
            report.add(|| {
                format!(
                    "process {pid}, {call:?}: lifetimes of {lived:?} blocks, bytes and temporary blocks, of {freed:?} that were freed"
                )
            });
        }
    }
}
