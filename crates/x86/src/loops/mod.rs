//! The loops of a function: their nesting, the variables that change by a constant per iteration, and the registers
//! and stack words that show progress at any instruction.
//!
//! What for: two samples of one thread in one run of a loop give the exact number of iterations between them. What
//! not: samples; memory other than the stack; loops with two entries.
//!
//! How: every value in a loop is a linear sum of registers and stack words at the start of the iteration
//! ([`Linear`]). These sums are propagated over all ways through the body until nothing changes; values that differ
//! between ways become unknown. A variable that at every back edge equals its start value plus a constant has a step;
//! one that equals its start value is invariant.
//!
//! An iteration is one of the machine's loop: if the compiler unrolled or vectorised, it is several of the source's.

mod graph;
mod linear;
mod transfer;
mod trips;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use base::RemoteAddr;
use facts::Slot;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind};

pub use self::linear::{Linear, Variable};
pub use self::trips::{Entered, TripCount};

use self::graph::{Graph, Location, Natural};
use self::transfer::{Computed, Exposed, State};
use crate::code::CodeBytes;
use crate::instruction::{Flow, flow};
use crate::register::Gpr;

/// Most blocks of a loop outside inner loops; beyond, no instruction counts as running in every iteration.
const MOST_BLOCKS: usize = 500;

/// Most instructions that are interpreted in all loops of a function, repetitions included.
const MOST_STEPS: usize = 2_000_000;

/// The loops of one function.
pub struct Loops {
    graph: Graph,
    exposed: Exposed,
    computed: Computed,
    loops: Vec<Loop>,
    /// Values at the start of each block, by those at the function's entry; worked out when they are asked for.
    of_function: OnceLock<Option<BTreeMap<usize, State>>>,
}

/// One loop.
#[derive(Clone, Debug)]
pub struct Loop {
    natural: Natural,
    /// The step of a variable per iteration: a constant, or a sum of invariants. 0 for an invariant.
    steps: BTreeMap<Variable, Linear>,
    /// Words of the stack that the loop writes; `None`: any.
    written: Option<BTreeSet<Slot>>,
    /// Values at the start of each of its blocks.
    states: BTreeMap<usize, State>,
    /// Address of its first instruction.
    pub start: RemoteAddr,
    /// The loop directly around it.
    pub parent: Option<usize>,
    /// Number of loops around it.
    pub depth: usize,
    /// Number of its instructions, those of inner loops included.
    pub instructions: usize,
    /// Whether it contains a call.
    pub calls: bool,
}

/// What a register or a stack word shows at an instruction of a loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The register or word. The displacement of a word is that of the operand, relative to the value of its base at
    /// the instruction.
    pub carrier: Variable,
    /// Its value, in terms of the loop's variables at the start of the iteration.
    pub value: Linear,
    /// Its step per iteration; 0 if it is invariant.
    pub step: Linear,
}

/// The loops of the function with this code.
#[must_use]
pub fn loops(code: &CodeBytes<'_>) -> Loops {
    let graph = Graph::read(code);
    let exposed = Exposed::new(&graph.instructions);
    let naturals = graph.loops();
    let computed = Computed::default();
    let context = (&exposed, &computed);
    let mut budget = MOST_STEPS;
    let mut loops: Vec<Loop> = Vec::new();
    for natural in naturals {
        let blocks = natural.blocks.iter().filter_map(|block| graph.blocks.get(*block));
        let range = blocks.clone().map(|block| block.range.len()).sum();
        let calls = blocks.flat_map(|block| &graph.instructions[block.range.clone()]);
        let calls =
            calls.into_iter().any(|one| matches!(flow(one), Flow::Call(_) | Flow::IndirectCall));
        let start = graph.blocks[natural.header].range.start;
        let start = RemoteAddr(graph.instructions[start].ip());
        let Followed { steps, written, states } =
            follow(&graph, context, &natural, &mut budget).unwrap_or_default();
        let parent = natural.parent;
        let depth = parent.map_or(0, |parent| loops[parent].depth + 1);
        loops.push(Loop {
            natural,
            steps,
            written,
            states,
            start,
            parent,
            depth,
            instructions: range,
            calls,
        });
    }
    Loops { graph, exposed, computed, loops, of_function: OnceLock::new() }
}

fn accesses_memory(instruction: &Instruction) -> bool {
    let operand = (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
    operand && !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
}

#[derive(Default)]
struct Followed {
    steps: BTreeMap<Variable, Linear>,
    written: Option<BTreeSet<Slot>>,
    states: BTreeMap<usize, State>,
}

/// What is known of a function's code as a whole.
type Context<'a> = (&'a Exposed, &'a Computed);

/// Values at the start and at the end of each block, and the stack words that it names.
type Propagated = (BTreeMap<usize, State>, BTreeMap<usize, State>, BTreeSet<Slot>);

/// Propagates values from a block through those around it until nothing changes; `None` if that takes too long.
fn propagate(
    graph: &Graph,
    context: Context<'_>,
    (header, has): (usize, &dyn Fn(usize) -> bool),
    budget: &mut usize,
) -> Option<Propagated> {
    let mut factory = InstructionInfoFactory::new();
    let mut states = BTreeMap::from([(header, State::begin())]);
    // What comes first in the code's order goes first, so that a block is seldom interpreted before those in front of it.
    let place = |block: usize| (graph.order[block], block);
    let mut open = BTreeSet::from([place(header)]);
    let mut ends: BTreeMap<usize, State> = BTreeMap::new();
    let mut named: BTreeSet<Slot> = BTreeSet::new();
    while let Some((_, block)) = open.pop_first() {
        let mut state = states.get(&block)?.clone();
        let range = graph.blocks.get(block)?.range.clone();
        *budget = budget.checked_sub(range.len())?;
        for instruction in &graph.instructions[range] {
            named.extend(state.operand(instruction));
            state.step(instruction, context, &mut factory);
        }
        let inside = |to: &&usize| **to != header && has(**to);
        for next in graph.blocks[block].next.iter().filter(inside) {
            // A join only loses knowledge, so this ends.
            let changed = match states.get_mut(next) {
                Some(known) => known.join(&state),
                None => states.insert(*next, state.clone()).is_none(),
            };
            if changed {
                open.insert(place(*next));
            }
        }
        ends.insert(block, state);
    }
    Some((states, ends, named))
}

/// What a loop does to variables; `None` if that takes too long.
fn follow(
    graph: &Graph,
    context: Context<'_>,
    natural: &Natural,
    budget: &mut usize,
) -> Option<Followed> {
    let has = |block: usize| natural.blocks.contains(&block);
    let (states, ends, named) = propagate(graph, context, (natural.header, &has), budget)?;
    let mut latched: Option<State> = None;
    for latch in &natural.latches {
        // A latch that only a jump table leads to: the effect of that way is unknown.
        let end = ends.get(latch)?;
        match &mut latched {
            Some(known) => drop(known.join(end)),
            None => latched = Some(end.clone()),
        }
    }
    let latched = latched?;
    // Blocks of the loop without a visible predecessor may do anything.
    if natural.blocks.iter().any(|block| !states.contains_key(block)) {
        return None;
    }
    let registers = Gpr::all().map(Variable::Register);
    let slots = named.into_iter().chain(latched.slots()).map(Variable::Slot);
    let moved: BTreeMap<Variable, Linear> = registers
        .chain(slots)
        .filter_map(|variable| {
            let end = match variable {
                Variable::Register(gpr) => latched.register(gpr).cloned(),
                Variable::Slot(slot) => latched.slot(slot),
                Variable::Computed(_) | Variable::Result(..) => None,
            };
            Some((variable, end?.minus(&Linear::variable(variable))?))
        })
        .collect();
    let stays = |variable: &Variable| moved.get(variable).and_then(Linear::known) == Some(0);
    // A sum is a step only if all its variables stay; otherwise it differs between iterations.
    let steps = moved
        .iter()
        .filter(|(_, step)| step.terms.iter().all(|(variable, _)| stays(variable)))
        .map(|(variable, step)| (*variable, step.clone()))
        .collect();
    Some(Followed { steps, written: latched.written(), states })
}

impl Loops {
    /// All loops, outer ones before inner ones.
    #[must_use]
    pub fn all(&self) -> &[Loop] {
        &self.loops
    }

    /// The loops around an instruction, by index, innermost first.
    #[must_use]
    pub fn around(&self, address: RemoteAddr) -> Vec<usize> {
        let Some(Location { block, .. }) = self.graph.locate(address) else { return Vec::new() };
        let has = |one: &&usize| self.loops[**one].natural.blocks.contains(&block);
        let all: Vec<usize> = (0..self.loops.len()).collect();
        let mut found: Vec<usize> = all.iter().filter(has).copied().collect();
        found.sort_by_key(|one| std::cmp::Reverse(self.loops[*one].depth));
        found
    }

    /// The same for an instruction of which any byte is at `address`.
    #[must_use]
    pub fn around_byte(&self, address: RemoteAddr) -> Vec<usize> {
        self.instruction_at(address).map_or(Vec::new(), |start| self.around(start))
    }

    /// The first byte of the instruction of which any byte is at `address`.
    #[must_use]
    pub fn instruction_at(&self, address: RemoteAddr) -> Option<RemoteAddr> {
        let instructions = &self.graph.instructions;
        let behind = instructions.partition_point(|one| one.ip() <= address.0);
        let found = behind.checked_sub(1).and_then(|at| instructions.get(at))?;
        (address.0 < found.next_ip()).then_some(RemoteAddr(found.ip()))
    }

    /// Whether an instruction of which any byte is at `address` calls what a pointer says.
    #[must_use]
    pub fn calls_by_pointer(&self, address: RemoteAddr) -> bool {
        let location = self.instruction_at(address).and_then(|at| self.graph.locate(at));
        location.is_some_and(|at| {
            matches!(flow(&self.graph.instructions[at.instruction]), Flow::IndirectCall)
        })
    }

    /// The last instruction that runs exactly once per iteration of a loop, or the last such one with a memory
    /// operand. The part of the body before an exit runs once more than the back edge.
    #[must_use]
    pub fn last_per_iteration(&self, wanted: usize, with_memory: bool) -> Option<RemoteAddr> {
        let found = self.once(wanted).filter(|one| !with_memory || accesses_memory(one));
        found.last().map(|instruction| RemoteAddr(instruction.ip()))
    }

    /// The instructions that run exactly once per iteration of a loop, in order of execution.
    fn once(&self, wanted: usize) -> impl Iterator<Item = &Instruction> {
        let blocks = self.once_blocks(wanted);
        let ranges = blocks.into_iter().map(|block| self.graph.blocks[block].range.clone());
        ranges.flat_map(|range| &self.graph.instructions[range])
    }

    /// The blocks that run exactly once per iteration of a loop, in order of execution.
    fn once_blocks(&self, wanted: usize) -> Vec<usize> {
        self.loops.get(wanted).map_or(Vec::new(), |one| {
            let inner = self.loops.iter().filter(|inner| inner.parent == Some(wanted));
            let inner: Vec<&Natural> = inner.map(|inner| &inner.natural).collect();
            let own = |block: &usize| !inner.iter().any(|inner| inner.blocks.contains(block));
            let own: Vec<usize> = one.natural.blocks.iter().copied().filter(own).collect();
            if own.len() > MOST_BLOCKS {
                return Vec::new();
            }
            self.graph.unavoidable(&one.natural, &own)
        })
    }

    /// What the registers, and the stack words in `slots`, show of a loop at one of its instructions.
    #[must_use]
    pub fn readings(&self, wanted: usize, address: RemoteAddr, slots: &[Slot]) -> Vec<Reading> {
        let state = self.loops.get(wanted).and_then(|one| Some((one, self.state(one, address)?)));
        let Some((one, state)) = state else { return Vec::new() };
        let registers =
            Gpr::all().map(|gpr| (Variable::Register(gpr), state.register(gpr).cloned()));
        let slots = slots.iter().map(|slot| {
            let own = state.by_own(*slot);
            (Variable::Slot(*slot), own.and_then(|own| state.slot(own)))
        });
        let found = registers.chain(slots).filter_map(|(carrier, value)| {
            let value = value?;
            let step = one.step_of(&value)?;
            Some(Reading { carrier, value, step })
        });
        found.collect()
    }

    fn context(&self) -> Context<'_> {
        (&self.exposed, &self.computed)
    }

    /// The values before the instruction at `address`.
    fn state(&self, one: &Loop, address: RemoteAddr) -> Option<State> {
        let Location { block, instruction: at } = self.graph.locate(address)?;
        let start = self.graph.blocks[block].range.start;
        Some(self.after(one.states.get(&block)?, start..at))
    }

    /// The values behind instructions that follow one another, of those before.
    fn after(&self, before: &State, instructions: std::ops::Range<usize>) -> State {
        let (mut state, mut factory) = (before.clone(), InstructionInfoFactory::new());
        for instruction in &self.graph.instructions[instructions] {
            state.step(instruction, self.context(), &mut factory);
        }
        state
    }
}

impl Loop {
    fn leaves(&self, slot: &Slot) -> bool {
        self.written.as_ref().is_some_and(|written| !written.contains(slot))
    }

    /// The step per iteration of a sum of variables; `None` if one of them has no constant step.
    fn step_of(&self, value: &Linear) -> Option<Linear> {
        let mut sum = Linear { bits: value.bits, ..Linear::constant(0) };
        for (variable, factor) in &value.terms {
            let step = match (self.steps.get(variable), variable) {
                (Some(step), _) => step,
                // A word that the loop does not write is invariant.
                (None, Variable::Slot(slot)) if self.leaves(slot) => continue,
                (None, _) => return None,
            };
            sum = sum.plus(&step.times(*factor))?;
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests;
