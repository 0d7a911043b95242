//! The invariants of addresses and stacks: modules, mappings, stack frames, source locations.
//!
//! What not: names of functions.

use std::collections::{HashMap, HashSet};

use base::{Nanos, Pid};
use facts::Mapping;

use super::{Report, Subject, allocations, threading};

pub(super) fn module_ids_dense(subject: &Subject<'_>, report: &mut Report) {
    for (row, module) in (0_u32..).zip(&subject.recording.modules) {
        if module.id.0 != row {
            report.add(|| format!("row {row} has id {}", module.id));
        }
    }
}

pub(super) fn stack_ids_dense(subject: &Subject<'_>, report: &mut Report) {
    for (row, node) in (0_u32..).zip(&subject.recording.stack_nodes) {
        if node.id.0 != row {
            report.add(|| format!("row {row} has id {}", node.id));
        }
    }
}

pub(super) fn parents_first(subject: &Subject<'_>, report: &mut Report) {
    let mut seen = HashSet::new();
    for node in &subject.recording.stack_nodes {
        if let Some(parent) = node.parent.filter(|parent| !seen.contains(parent)) {
            report.add(|| format!("frame {} comes before its caller {parent}", node.id));
        }
        seen.insert(node.id);
    }
}

pub(super) fn truncated_outermost(subject: &Subject<'_>, report: &mut Report) {
    let nodes = subject.recording.stack_nodes.iter();
    for node in nodes.filter(|node| node.truncated && node.parent.is_some()) {
        report.add(|| format!("frame {} is cut off although it has a caller", node.id));
    }
}

pub(super) fn modules_exist(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let known: HashSet<_> = recording.modules.iter().map(|module| module.id).collect();
    let nodes = recording.stack_nodes.iter().map(|node| ("stack frame", node.module));
    let mappings = recording.mappings.iter().map(|mapping| ("mapping", mapping.module));
    let frames = recording.frames.iter().map(|frame| ("source location", frame.module));
    let blocks = recording.blocks.iter().flat_map(|block| &block.pieces);
    let blocks = blocks.map(|piece| ("block", piece.module));
    let refused = recording.burst_refusals.iter().filter_map(|refused| refused.at);
    let refused = refused.map(|code| ("refused burst", code.module));
    let globals = recording.globals.iter().map(|global| ("variable", global.module));
    let types = recording.access_types.iter().map(|typed| ("type of an access", typed.module));
    let assigned = recording.assignments.iter().map(|one| ("assignment", one.module));
    let types = types.chain(assigned);
    let code = nodes.chain(mappings).chain(frames).chain(blocks).chain(refused);
    for (what, module) in code.chain(globals).chain(types) {
        if !known.contains(&module) {
            report.add(|| format!("a {what} names module {module}"));
        }
    }
}

pub(super) fn stacks_exist(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let known: HashSet<_> = recording.stack_nodes.iter().map(|node| node.id).collect();
    let samples = recording.samples.iter().map(|sample| ("sample", sample.time, sample.stack));
    let faults = recording.faults.iter().map(|fault| ("fault", fault.time, fault.stack));
    let accesses = recording.memory_samples.iter();
    let faults = faults.chain(accesses.map(|one| ("sampled access", one.time, one.stack)));
    let events = recording.event_samples.iter();
    let faults = faults.chain(events.map(|one| ("sample of an event", one.time, one.stack)));
    let loops = recording.branch_loops.iter().flat_map(|one| [one.branch, one.head]);
    let faults = faults.chain(loops.map(|stack| ("loop of branches", Nanos(0), stack)));
    let blocks = recording.allocations.iter().map(|block| ("heap block", block.time, block.stack));
    let freed =
        recording.releases.iter().map(|freed| ("freed heap block", freed.time, freed.stack));
    let regions = recording.regions.iter().map(|region| ("region", region.time, region.stack));
    let waits = recording.waits.iter().map(|wait| ("wait", wait.time, wait.stack));
    let wakes = threading::stacks_of_wakes(recording).map(|(time, stack)| ("wake", time, stack));
    let sums = allocations::stacks_of_sums(recording).map(|sum| (sum.what, sum.time, sum.stack));
    let sums = sums.chain(wakes);
    let all = samples.chain(faults).chain(blocks).chain(freed);
    for (what, time, stack) in all.chain(regions).chain(waits).chain(sums) {
        if let Some(stack) = stack.filter(|stack| !known.contains(stack)) {
            report.add(|| format!("the {what} at {} ns names stack {stack}", time.0));
        }
    }
}

pub(super) fn mappings_proper(subject: &Subject<'_>, report: &mut Report) {
    for mapping in subject.recording.mappings.iter().filter(|mapping| mapping.end <= mapping.start)
    {
        report.add(|| format!("{}..{} in process {}", mapping.start, mapping.end, mapping.pid));
    }
}

/// A later mapping may replace an earlier one (exec, dlclose); at one instant there is one truth.
pub(super) fn mappings_apart(subject: &Subject<'_>, report: &mut Report) {
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

pub(super) fn frames_once(subject: &Subject<'_>, report: &mut Report) {
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
