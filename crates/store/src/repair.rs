//! Makes every reference of a recording hold, so that analysis may index without checks.
//!
//! What not: other invariants (`verify`). A result of ours needs no repair, except that an interrupted one may have
//! lost the last frames. For anything else the rule is: keep the fact, drop the reference that cannot hold, count it.

use std::collections::{HashMap, HashSet};

use base::{ModuleId, StackId};
use facts::{Module, ModuleKind, Recording, decode_registers};

use crate::error::Problem;

/// Ids of a table, as positions of its rows.
struct Positions {
    /// `None` when row `i` has id `i`, as it should be.
    by_id: Option<HashMap<u32, u32>>,
    rows: u32,
}

impl Positions {
    fn of(ids: impl ExactSizeIterator<Item = u32> + Clone) -> Positions {
        let rows = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        if ids.clone().eq(0..rows) {
            return Positions { by_id: None, rows };
        }
        let mut positions = HashMap::new();
        for (position, id) in (0..rows).zip(ids) {
            positions.entry(id).or_insert(position);
        }
        Positions { by_id: Some(positions), rows }
    }

    fn get(&self, id: u32) -> Option<u32> {
        match &self.by_id {
            None => (id < self.rows).then_some(id),
            Some(positions) => positions.get(&id).copied(),
        }
    }

    /// Gives a module its new id; `false` if there is none.
    fn renumber(&self, module: &mut ModuleId) -> bool {
        let position = self.get(module.0);
        *module = position.map_or(*module, ModuleId);
        position.is_some()
    }

    fn dense(&self) -> bool {
        self.by_id.is_none()
    }
}

/// Repairs `recording` and says what was wrong with it.
pub fn repair(recording: &mut Recording) -> Vec<Problem> {
    let modules = Positions::of(recording.modules.iter().map(|module| module.id.0));
    let stacks = Positions::of(recording.stack_nodes.iter().map(|node| node.id.0));
    let mut problems = Vec::new();
    let mut report = |count: usize, what: &'static str| {
        if count > 0 {
            problems.push(Problem::Repaired { count: count as u64, what });
        }
    };
    if !modules.dense() {
        report(recording.modules.len(), "modules had ids out of order and were numbered anew");
    }
    if !stacks.dense() {
        report(
            recording.stack_nodes.len(),
            "stack frames had ids out of order and were numbered anew",
        );
    }
    report(
        repair_stacks(recording, &modules, &stacks),
        "stack frames named a missing module or caller; the stack is cut there",
    );
    report(
        repair_uses_of_stacks(recording, &stacks),
        "samples, faults, sampled accesses, heap blocks, regions, waits or wakes named a missing stack and are shown without one",
    );
    report(
        repair_modules_of_others(recording, &modules),
        "mappings, source locations, variables or types of accesses named a missing module and were left out",
    );
    report(
        repair_bursts(recording, &modules),
        "blocks, bursts, records, no-miss times or refusals that were duplicates, or named what is missing, were left out",
    );
    report(
        repair_allocations(recording),
        "heap blocks or their ends were there twice or named what is missing and were left out",
    );
    for (id, module) in (0..).zip(&mut recording.modules) {
        module.id = ModuleId(id);
    }
    problems
}

fn repair_stacks(recording: &mut Recording, modules: &Positions, stacks: &Positions) -> usize {
    let unknown = ModuleId(u32::try_from(recording.modules.len()).unwrap_or(u32::MAX));
    let mut broken = 0;
    let mut needs_unknown = false;
    for (position, node) in (0..).zip(&mut recording.stack_nodes) {
        let module = modules.get(node.module.0).map(ModuleId);
        // A parent behind its child could close a cycle; parents first is the writer's contract.
        let parent =
            node.parent.and_then(|id| stacks.get(id.0)).filter(|&parent| parent < position);
        if module.is_none() || parent.is_none() != node.parent.is_none() {
            broken += 1;
        }
        needs_unknown |= module.is_none();
        // What is cut off must not look like the outermost frame.
        node.truncated |= parent.is_none() && node.parent.is_some();
        node.id = StackId(position);
        node.parent = parent.map(StackId);
        node.module = module.unwrap_or(unknown);
    }
    if needs_unknown {
        recording.modules.push(Module {
            id: unknown,
            kind: ModuleKind::Unknown,
            path: "[unknown]".to_owned(),
            build_id: None,
        });
    }
    broken
}

fn repair_uses_of_stacks(recording: &mut Recording, stacks: &Positions) -> usize {
    let samples = recording.samples.iter_mut().map(|sample| &mut sample.stack);
    let faults = recording.faults.iter_mut().map(|fault| &mut fault.stack);
    let accesses = recording.memory_samples.iter_mut().map(|sample| &mut sample.stack);
    let loops = recording.branch_loops.iter_mut();
    let loops = loops.flat_map(|one| [&mut one.branch, &mut one.head]);
    let faults = faults.chain(accesses).chain(loops);
    let mut broken = 0;
    let allocations = recording.allocations.iter_mut().map(|block| &mut block.stack);
    let releases = recording.releases.iter_mut().map(|release| &mut release.stack);
    let sums = recording.heap_stacks.iter_mut().map(|sum| &mut sum.stack);
    let frees =
        recording.heap_frees.iter_mut().flat_map(|sum| [&mut sum.stack, &mut sum.free_stack]);
    let lifetimes = recording.heap_lifetimes.iter_mut().map(|sum| &mut sum.stack);
    let sums = sums.chain(frees).chain(lifetimes);
    let regions = recording.regions.iter_mut().map(|region| &mut region.stack);
    let waits = recording.waits.iter_mut().map(|wait| &mut wait.stack);
    let wakes = recording.wakes.iter_mut().flat_map(|wake| {
        let waker = wake.waker.as_mut().map(|waker| &mut waker.stack);
        std::iter::once(&mut wake.stack).chain(waker)
    });
    let blocks = allocations.chain(releases).chain(sums);
    let waits = regions.chain(waits).chain(wakes);
    for stack in samples.chain(faults).chain(blocks).chain(waits) {
        let found = stack.and_then(|id| stacks.get(id.0)).map(StackId);
        broken += usize::from(found.is_none() && stack.is_some());
        *stack = found;
    }
    broken
}

fn repair_modules_of_others(recording: &mut Recording, modules: &Positions) -> usize {
    let rows = |recording: &Recording| {
        recording.mappings.len()
            + recording.frames.len()
            + recording.globals.len()
            + recording.access_types.len()
            + recording.assignments.len()
    };
    let before = rows(recording);
    let renumber = |module: &mut ModuleId| modules.renumber(module);
    recording.mappings.retain_mut(|mapping| renumber(&mut mapping.module));
    recording.frames.retain_mut(|frame| renumber(&mut frame.module));
    recording.globals.retain_mut(|global| renumber(&mut global.module));
    recording.access_types.retain_mut(|typed| renumber(&mut typed.module));
    recording.assignments.retain_mut(|assignment| renumber(&mut assignment.module));
    before - rows(recording)
}

/// Blocks and bursts keep their ids, which encoded records hold.
fn repair_bursts(recording: &mut Recording, modules: &Positions) -> usize {
    let rows = |recording: &Recording| {
        recording.blocks.len()
            + recording.bursts.len()
            + recording.records.len()
            + recording.burst_refusals.len()
            + recording.no_miss_times.len()
            + recording.native_advances.len()
            + recording.native_counts.len()
            + recording.word_advances.len()
            + recording.no_reload_times.len()
            + recording.sample_registers.len()
            + recording.sampled_code.len()
    };
    let before = rows(recording);
    let renumber = |module: &mut ModuleId| modules.renumber(module);
    let mut blocks = HashSet::new();
    recording.blocks.retain_mut(|block| {
        blocks.insert(block.id) && block.pieces.iter_mut().all(|piece| renumber(&mut piece.module))
    });
    recording.no_miss_times.retain(|no_miss| blocks.contains(&no_miss.block));
    recording.no_reload_times.retain(|no_miss| blocks.contains(&no_miss.block));
    let mut bursts = HashSet::new();
    recording.bursts.retain(|burst| bursts.insert(burst.id));
    recording.records.retain(|records| bursts.contains(&records.burst));
    recording.native_advances.retain(|advance| bursts.contains(&advance.burst));
    recording.word_advances.retain(|advance| bursts.contains(&advance.burst));
    recording
        .native_counts
        .retain(|count| bursts.contains(&count.burst) && blocks.contains(&count.block));
    recording.burst_refusals.retain_mut(|refused| match &mut refused.at {
        Some(code) => renumber(&mut code.module),
        None => true,
    });
    recording.sampled_code.retain_mut(|code| renumber(&mut code.module));
    // Modules stand inside of the bytes: a piece stays only where their numbers do.
    recording.sample_registers.retain(|piece| {
        let mut stays = true;
        let decoded = decode_registers(&piece.bytes, |state| {
            let module = state.place.module;
            stays &= modules.get(module.0) == Some(module.0);
        });
        decoded.is_ok() && stays
    });
    before - rows(recording)
}

/// A block has one row and ends once.
fn repair_allocations(recording: &mut Recording) -> usize {
    let before = recording.allocations.len() + recording.releases.len();
    let mut living = HashSet::new();
    recording.allocations.retain(|block| living.insert(block.id));
    recording.releases.retain(|release| living.remove(&release.allocation));
    before - recording.allocations.len() - recording.releases.len()
}

#[cfg(test)]
mod tests {
    use base::{FileOffset, Nanos, Pid, Tid};
    use facts::{Privilege, Sample, StackNode};

    use super::*;

    fn module(id: u32) -> Module {
        Module {
            id: ModuleId(id),
            kind: ModuleKind::File,
            path: format!("/lib/{id}"),
            build_id: None,
        }
    }

    fn node(id: u32, parent: Option<u32>, module: u32) -> StackNode {
        StackNode {
            id: StackId(id),
            parent: parent.map(StackId),
            module: ModuleId(module),
            offset: FileOffset(u64::from(id)),
            truncated: false,
        }
    }

    fn sample(stack: u32) -> Sample {
        Sample {
            time: Nanos(0),
            pid: Pid(1),
            tid: Tid(1),
            cpu: None,
            weight: Nanos(1),
            stack: Some(StackId(stack)),
            privilege: Privilege::User,
        }
    }

    #[test]
    fn sparse_ids_are_numbered_anew() {
        let mut recording = Recording {
            modules: vec![module(7), module(9)],
            stack_nodes: vec![node(5, None, 9), node(100, Some(5), 7)],
            samples: vec![sample(100)],
            ..Recording::default()
        };
        assert_eq!(repair(&mut recording).len(), 2);
        assert_eq!(recording.stack_nodes[1].parent, Some(StackId(0)));
        assert_eq!(recording.stack_nodes[0].module, ModuleId(1));
        assert_eq!(recording.samples[0].stack, Some(StackId(1)));
        assert_eq!(recording.modules[1].id, ModuleId(1));
        assert_eq!(repair(&mut recording), []);
    }

    #[test]
    fn cycles_and_dangling_ids_are_cut() {
        let mut recording = Recording {
            modules: vec![module(0)],
            stack_nodes: vec![node(0, Some(1), 0), node(1, Some(0), 0), node(2, Some(2), 44)],
            samples: vec![sample(3), sample(1)],
            ..Recording::default()
        };
        let said: Vec<String> = repair(&mut recording).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "2 stack frames named a missing module or caller; the stack is cut there",
                "1 samples, faults, sampled accesses, heap blocks, regions, waits or wakes named a missing stack and are shown without one",
            ]
        );
        let parents: Vec<Option<u32>> =
            recording.stack_nodes.iter().map(|node| node.parent.map(|id| id.0)).collect();
        assert_eq!(parents, [None, Some(0), None]);
        assert_eq!(recording.modules[1].path, "[unknown]");
        assert_eq!(recording.samples[0].stack, None);
        assert_eq!(repair(&mut recording), []);
    }
}
