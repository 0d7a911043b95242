//! The loops of a function: their nest, the variables that change by a constant in every iteration, and the registers and
//! words of the stack that show their progress at any instruction.
//!
//! What for: two samples of one thread in one run of a loop give the exact number of iterations between them.
//! What not: samples; memory other than the stack; loops with two entries.
//! How: within a loop every value is followed as a sum of what registers and words of the stack held when the iteration
//! began ([`Linear`]), over all ways through the body until nothing changes; what differs by the way is given up. What is, at
//! every edge back, what it was plus a constant has a step; what is what it was stays.
//! "Iteration" is one of the machine's loop: where the compiler unrolled or vectorised, several of the source.

mod graph;
mod linear;
mod transfer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::RemoteAddr;
use facts::Slot;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind};

pub use self::linear::{Linear, Variable};

use self::graph::{Graph, Natural};
use self::transfer::{Exposed, State};
use crate::code::CodeBytes;
use crate::instruction::{Flow, flow};
use crate::register::Gpr;

/// Blocks of a loop outside of inner ones; of more, no instruction is said to run in every iteration.
const MOST_BLOCKS: usize = 500;

/// Instructions that are followed in all loops of a function together, repetitions included.
const MOST_STEPS: usize = 2_000_000;

/// The loops of one function.
pub struct Loops {
    graph: Graph,
    exposed: Exposed,
    loops: Vec<Loop>,
}

/// One loop.
#[derive(Clone, Debug)]
pub struct Loop {
    natural: Natural,
    /// By how much a variable moves per iteration: a constant, or a sum of what stays. What stays has 0.
    steps: BTreeMap<Variable, Linear>,
    /// Words of the stack that the loop writes.
    written: BTreeSet<Slot>,
    /// What values are when a block of it begins.
    states: BTreeMap<usize, State>,
    /// Address of its first instruction.
    pub start: RemoteAddr,
    /// The loop right around it.
    pub parent: Option<usize>,
    /// How many loops are around it.
    pub depth: usize,
    /// How many instructions it has, those of inner loops included.
    pub instructions: usize,
    /// Whether it calls.
    pub calls: bool,
}

/// What a register or a word of the stack tells at an instruction of a loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Where the value stands. A slot's displacement is that of the operand, from what its base holds at the instruction.
    pub carrier: Variable,
    /// What it is, of what the loop's variables held when the iteration began.
    pub value: Linear,
    /// By how much it moves per iteration; the value 0 where it stays.
    pub step: Linear,
}

/// The loops of the function whose code this is.
#[must_use]
pub fn loops(code: &CodeBytes<'_>) -> Loops {
    let graph = Graph::read(code);
    let exposed = Exposed::new(&graph.instructions);
    let naturals = graph.loops();
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
            follow(&graph, &exposed, &natural, &mut budget).unwrap_or_default();
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
    Loops { graph, exposed, loops }
}

fn accesses_memory(instruction: &Instruction) -> bool {
    let operand = (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
    operand && !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
}

#[derive(Default)]
struct Followed {
    steps: BTreeMap<Variable, Linear>,
    written: BTreeSet<Slot>,
    states: BTreeMap<usize, State>,
}

/// Values through a loop until nothing changes; `None` when that takes too long.
fn follow(
    graph: &Graph,
    exposed: &Exposed,
    natural: &Natural,
    budget: &mut usize,
) -> Option<Followed> {
    let mut factory = InstructionInfoFactory::new();
    let mut states = BTreeMap::from([(natural.header, State::begin())]);
    let mut open = VecDeque::from([natural.header]);
    let mut ends: BTreeMap<usize, State> = BTreeMap::new();
    let mut named: BTreeSet<Slot> = BTreeSet::new();
    while let Some(block) = open.pop_front() {
        let mut state = states.get(&block)?.clone();
        let range = graph.blocks[block].range.clone();
        *budget = budget.checked_sub(range.len())?;
        for instruction in &graph.instructions[range] {
            named.extend(state.operand(instruction));
            state.step(instruction, exposed, &mut factory);
        }
        let inside = |to: &&usize| **to != natural.header && natural.blocks.contains(*to);
        for next in graph.blocks[block].next.iter().filter(inside) {
            let changed = match states.get_mut(next) {
                Some(known) => known.join(&state),
                None => states.insert(*next, state.clone()).is_none(),
            };
            if changed && !open.contains(next) {
                open.push_back(*next);
            }
        }
        ends.insert(block, state);
    }
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
    // Blocks of the loop that nothing in sight leads to may do anything.
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
            };
            Some((variable, end?.minus(&Linear::variable(variable))?))
        })
        .collect();
    let stays = |variable: &Variable| moved.get(variable).and_then(Linear::known) == Some(0);
    let steps = moved
        .iter()
        .filter(|(_, step)| step.terms.iter().all(|(variable, _)| stays(variable)))
        .map(|(variable, step)| (*variable, step.clone()))
        .collect();
    Some(Followed { steps, written: latched.slots().collect(), states })
}

impl Loops {
    /// All of them, outer ones before inner ones.
    #[must_use]
    pub fn all(&self) -> &[Loop] {
        &self.loops
    }

    /// The loops around an instruction, by position, the innermost first.
    #[must_use]
    pub fn around(&self, address: RemoteAddr) -> Vec<usize> {
        let Some((block, _)) = self.graph.locate(address) else { return Vec::new() };
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

    /// The last instruction that runs exactly once in each iteration of a loop, or the last such one that accesses memory by an
    /// operand: what comes before a way out runs once more than the loop goes round.
    #[must_use]
    pub fn last_per_iteration(&self, wanted: usize, with_memory: bool) -> Option<RemoteAddr> {
        let found = self.once(wanted).filter(|one| !with_memory || accesses_memory(one));
        found.last().map(|instruction| RemoteAddr(instruction.ip()))
    }

    /// The instructions that run exactly once in each iteration of a loop, in the order in which they do.
    fn once(&self, wanted: usize) -> impl Iterator<Item = &Instruction> {
        let blocks = self.loops.get(wanted).map_or(Vec::new(), |one| {
            let inner = self.loops.iter().filter(|inner| inner.parent == Some(wanted));
            let inner: Vec<&Natural> = inner.map(|inner| &inner.natural).collect();
            let own = |block: &usize| !inner.iter().any(|inner| inner.blocks.contains(block));
            let own: Vec<usize> = one.natural.blocks.iter().copied().filter(own).collect();
            if own.len() > MOST_BLOCKS {
                return Vec::new();
            }
            self.graph.unavoidable(&one.natural, &own)
        });
        let ranges = blocks.into_iter().map(|block| self.graph.blocks[block].range.clone());
        ranges.flat_map(|range| &self.graph.instructions[range])
    }

    /// What registers, and those words of the stack of `slots`, tell of the loop at an instruction of it.
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

    /// What values are when the instruction at `address` begins.
    fn state(&self, one: &Loop, address: RemoteAddr) -> Option<State> {
        let (block, at) = self.graph.locate(address)?;
        let mut state = one.states.get(&block)?.clone();
        let mut factory = InstructionInfoFactory::new();
        for instruction in &self.graph.instructions[self.graph.blocks[block].range.start..at] {
            state.step(instruction, &self.exposed, &mut factory);
        }
        Some(state)
    }
}

impl Loop {
    /// By how much a sum of variables moves per iteration; `None` where one of them moves unevenly.
    fn step_of(&self, value: &Linear) -> Option<Linear> {
        let mut sum = Linear { bits: value.bits, ..Linear::constant(0) };
        for (variable, factor) in &value.terms {
            let step = match (self.steps.get(variable), variable) {
                (Some(step), _) => step,
                // Nobody wrote it.
                (None, Variable::Slot(slot)) if !self.written.contains(slot) => continue,
                (None, _) => return None,
            };
            sum = sum.plus(&step.times(*factor))?;
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests;
