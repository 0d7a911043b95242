//! The few register values from which all addresses of a block can be rebuilt, and their change per iteration of a
//! loop.
//!
//! What for: recording. A block's record holds its *roots*: register values at points where no earlier value
//! determines them. All addresses follow from them by constants (`push` moved rsp by 8, `add rdi, 64` ran twice,
//! ...). A *self-loop* whose registers advance by constants needs its roots once and then only its number of
//! iterations. What not: emitting the code that records (`translate`).
//!
//! Assumptions:
//! * The bases of fs and gs do not change within a block: instructions that change them are refused (`refused_instructions`).
//! * Only 64-bit arithmetic is followed. `add ecx, 1` wraps at 2^32, so afterwards ecx is a root of its own.
//! * A value is followed through add, sub, inc, dec, lea, mov, xchg, push, pop, call, enter, leave, loop and
//!   constants. Any other write makes a new root. That costs a recorded value, never a wrong address.

use crate::block::{Block, End};
use crate::effect::{self, Change};
use crate::evaluate::State;
use crate::instruction::Instruction;
use crate::operand::{Access, ExtraTerm, LaneMask, Location, Occurrence, Segment};
use crate::register::{Gpr, MaskRegister, VectorRegister};

/// A register that an address, a mask or a count depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Source {
    /// A general-purpose register.
    General(Gpr),
    /// The base of fs.
    FsBase,
    /// The base of gs.
    GsBase,
    /// A vector register: indices of a gather, or a mask by sign bits.
    Vector(VectorRegister),
    /// An AVX-512 mask register.
    Mask(MaskRegister),
    /// An MMX register with the mask of `maskmovq`.
    Mmx(VectorRegister),
    /// The direction flag, as 0 or 1.
    Direction,
}

/// A value to be recorded: that of `source` before instruction `at` of the block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Root {
    /// The register.
    pub source: Source,
    /// Index of the instruction before which the value exists: 0 at entry, else right after the instruction that
    /// computed it.
    pub at: usize,
}

/// A symbolic value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Value {
    /// The same constant in every run.
    Constant(u64),
    /// A root plus a displacement, modulo 2^64. For vectors, masks and the direction flag the displacement is 0.
    Root {
        /// The root.
        root: Root,
        /// Added to it.
        displacement: u64,
    },
}

/// The value of one register of an access before its instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Input {
    /// The register, as the access names it.
    pub source: Source,
    /// Its value.
    pub value: Value,
}

/// An access and the sources of its registers' values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootedAccess {
    /// Index of the instruction in the block.
    pub instruction: usize,
    /// The access, in registers.
    pub access: Access,
    /// One for each register of the access, without repetition.
    pub inputs: Vec<Input>,
}

/// The change of a root from one iteration of a self-loop to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advance {
    /// By this constant, modulo 2^64; 0 for an invariant.
    Constant(u64),
    /// Not by a constant.
    Irregular,
}

/// The roots of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockRoots {
    /// The values to record, ordered by `at`, then by register.
    pub roots: Vec<Root>,
    /// Every access of the block in order of execution.
    pub accesses: Vec<RootedAccess>,
    /// The values of rax..r15 after the block, by number; `None` if no root determines it.
    pub general_at_end: Vec<Option<Value>>,
    /// Vector registers that the block may change, bit n for register n.
    pub vectors_changed: u32,
    /// Mask registers that the block may change, bit n for register n.
    pub masks_changed: u8,
    /// The block may change the direction flag.
    pub direction_changed: bool,
}

/// The way out of a block that leads back to its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackEdge {
    /// Its end is a jump to its start.
    Always,
    /// The branch at its end, when the condition holds.
    WhenTaken,
    /// The branch at its end, when the condition does not hold.
    WhenNotTaken,
}

/// A block that may follow itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SelfLoop {
    /// The way back.
    pub back: BackEdge,
    /// The change per iteration, for each of [`BlockRoots::roots`].
    pub advances: Vec<Advance>,
}

impl SelfLoop {
    /// Whether all addresses of all iterations follow from the roots of the first one and the number of iterations.
    #[must_use]
    pub fn is_summarisable(&self) -> bool {
        self.advances.iter().all(|advance| matches!(advance, Advance::Constant(_)))
    }
}

/// Finds the roots of `block`.
#[must_use]
pub fn find_roots(block: &Block) -> BlockRoots {
    let mut tracker = Tracker::new();
    let mut accesses = Vec::new();
    for (number, instruction) in block.instructions.iter().enumerate() {
        for access in instruction.accesses() {
            let inputs = tracker.inputs(access);
            accesses.push(RootedAccess { instruction: number, access: *access, inputs });
        }
        tracker.step(number, instruction);
    }
    let mut roots: Vec<Root> =
        accesses.iter().flat_map(|access| &access.inputs).filter_map(root_of).collect();
    roots.sort_by_key(|root| (root.at, root.source));
    roots.dedup();
    tracker.finish(roots, accesses)
}

/// The values of rax..r15 before each instruction, and (last) after all of them.
pub(crate) fn general_in_front(block: &Block) -> Vec<[Value; Gpr::COUNT]> {
    let mut tracker = Tracker::new();
    let mut values = vec![tracker.general];
    for (number, instruction) in block.instructions.iter().enumerate() {
        tracker.step(number, instruction);
        values.push(tracker.general);
    }
    values
}

fn root_of(input: &Input) -> Option<Root> {
    match input.value {
        Value::Root { root, .. } => Some(root),
        Value::Constant(_) => None,
    }
}

/// Symbolic values of all registers at one point of a block.
struct Tracker {
    general: [Value; Gpr::COUNT],
    vectors: [usize; VectorRegister::COUNT],
    masks: [usize; MaskRegister::COUNT],
    mmx: usize,
    direction: usize,
}

impl Tracker {
    fn new() -> Tracker {
        let mut general = [Value::Constant(0); Gpr::COUNT];
        for register in Gpr::all() {
            general[register.number()] = fresh(Source::General(register), 0);
        }
        Tracker { general, vectors: [0; 32], masks: [0; 8], mmx: 0, direction: 0 }
    }

    fn value(&self, source: Source) -> Value {
        match source {
            Source::General(register) => self.general[register.number()],
            Source::Vector(register) => fresh(source, self.vectors[register.number()]),
            Source::Mask(register) => fresh(source, self.masks[register.number()]),
            Source::Mmx(_) => fresh(source, self.mmx),
            Source::Direction => fresh(source, self.direction),
            Source::FsBase | Source::GsBase => fresh(source, 0),
        }
    }

    fn inputs(&self, access: &Access) -> Vec<Input> {
        let mut inputs: Vec<Input> = Vec::new();
        for source in sources(access) {
            if inputs.iter().all(|input| input.source != source) {
                inputs.push(Input { source, value: self.value(source) });
            }
        }
        inputs
    }

    fn step(&mut self, number: usize, instruction: &Instruction) {
        let before = self.general;
        // Every changed register is a root of its own, unless the change is known (below).
        for register in instruction.registers().changed.iter() {
            self.general[register.number()] = fresh(Source::General(register), number + 1);
        }
        // In terms of the values before: `xchg` and `leave` read what they change.
        for (register, change) in effect::changes(&instruction.raw) {
            self.general[register.number()] = match change {
                Change::Constant(value) => Value::Constant(value),
                Change::Plus(from, displacement) => plus(before[from.number()], displacement),
            };
        }
        let effect = instruction.registers();
        for (vector, version) in self.vectors.iter_mut().enumerate() {
            if effect.vectors_changed >> vector & 1 != 0 {
                *version = number + 1;
            }
        }
        for (mask, version) in self.masks.iter_mut().enumerate() {
            if effect.masks_changed >> mask & 1 != 0 {
                *version = number + 1;
            }
        }
        if effect.mmx_changed {
            self.mmx = number + 1;
        }
        if effect.direction_changed {
            self.direction = number + 1;
        }
    }

    fn finish(self, roots: Vec<Root>, accesses: Vec<RootedAccess>) -> BlockRoots {
        let bits = |versions: &[usize]| {
            let changed = versions.iter().enumerate().filter(|(_, version)| **version != 0);
            changed.fold(0u32, |bits, (number, _)| bits | 1 << number)
        };
        let known = |value: &Value| match value {
            Value::Root { root, .. } => roots.contains(root) || root.at == 0,
            Value::Constant(_) => true,
        };
        let general_at_end =
            self.general.iter().map(|value| Some(*value).filter(|value| known(value))).collect();
        BlockRoots {
            general_at_end,
            vectors_changed: bits(&self.vectors),
            masks_changed: bits(&self.masks) as u8,
            direction_changed: self.direction != 0,
            roots,
            accesses,
        }
    }
}

fn fresh(source: Source, at: usize) -> Value {
    Value::Root { root: Root { source, at }, displacement: 0 }
}

fn plus(value: Value, more: u64) -> Value {
    match value {
        Value::Constant(constant) => Value::Constant(constant.wrapping_add(more)),
        Value::Root { root, displacement } => {
            Value::Root { root, displacement: displacement.wrapping_add(more) }
        }
    }
}

/// The registers that `access` depends on, for its address, its mask and its count.
#[must_use]
pub fn sources(access: &Access) -> Vec<Source> {
    let address = access.address();
    let mut sources = Vec::new();
    match address.segment {
        Segment::Flat => {}
        Segment::Fs => sources.push(Source::FsBase),
        Segment::Gs => sources.push(Source::GsBase),
    }
    sources.extend(address.base.map(Source::General));
    sources.extend(address.index.map(|index| Source::General(index.register)));
    sources.extend(address.extra.map(|extra| match extra {
        ExtraTerm::LowByte(register) | ExtraTerm::BitString { register, .. } => {
            Source::General(register)
        }
    }));
    if let Location::Lanes(lanes) = &access.place {
        sources.push(Source::Vector(lanes.index));
    }
    match access.when {
        Occurrence::Always => {}
        Occurrence::Masked(masked) | Occurrence::Packed(masked) => {
            sources.push(match masked.mask {
                LaneMask::Mask(mask) => Source::Mask(mask),
                LaneMask::VectorSigns(vector) => Source::Vector(vector),
                LaneMask::MmxSigns(register) => Source::Mmx(register),
            })
        }
        Occurrence::Repeated(repeat) => {
            sources.push(Source::General(repeat.counter));
            sources.push(Source::Direction);
        }
    }
    sources
}

impl RootedAccess {
    /// The registers of this access before its instruction, given the states in which the roots were recorded:
    /// `state_at(i)` is the state before instruction i. It is called only for the roots of this access. Registers
    /// that the access does not use are 0.
    #[must_use]
    pub fn state<'a>(&self, state_at: impl Fn(usize) -> &'a State) -> State {
        let mut state = State::default();
        for input in &self.inputs {
            match input.value {
                Value::Constant(value) => set_scalar(&mut state, input.source, value),
                Value::Root { root, displacement } => {
                    copy_root(&mut state, input.source, root, displacement, state_at(root.at));
                }
            }
        }
        state
    }
}

fn copy_root(state: &mut State, source: Source, root: Root, displacement: u64, recorded: &State) {
    match root.source {
        Source::Vector(register) => {
            state.vectors[register.number()] = recorded.vectors[register.number()];
        }
        Source::Mask(register) => {
            state.masks[register.number()] = recorded.masks[register.number()]
        }
        Source::Mmx(_) => state.mmx = recorded.mmx,
        Source::Direction => state.direction_down = recorded.direction_down,
        Source::FsBase => state.fs_base = recorded.fs_base,
        Source::GsBase => state.gs_base = recorded.gs_base,
        Source::General(register) => {
            set_scalar(state, source, recorded.get(register).wrapping_add(displacement));
        }
    }
}

fn set_scalar(state: &mut State, source: Source, value: u64) {
    if let Source::General(register) = source {
        state.set(register, value);
    }
}

/// Whether `block` may follow itself, and how its roots then change.
#[must_use]
pub fn self_loop(block: &Block, roots: &BlockRoots) -> Option<SelfLoop> {
    let back = match block.end {
        End::Jump(target) if target == block.start => BackEdge::Always,
        End::Conditional { taken, .. } if taken == block.start => BackEdge::WhenTaken,
        End::Conditional { not_taken, .. } if not_taken == block.start => BackEdge::WhenNotTaken,
        _ => return None,
    };
    let advances = roots.roots.iter().map(|root| advance(root, roots)).collect();
    Some(SelfLoop { back, advances })
}

fn advance(root: &Root, roots: &BlockRoots) -> Advance {
    if root.at != 0 {
        // Computed again in each iteration from a value that no root determines.
        return Advance::Irregular;
    }
    let stays = |stays: bool| if stays { Advance::Constant(0) } else { Advance::Irregular };
    match root.source {
        Source::FsBase | Source::GsBase => Advance::Constant(0),
        Source::Vector(register) => stays(roots.vectors_changed >> register.number() & 1 == 0),
        Source::Mask(register) => stays(roots.masks_changed >> register.number() & 1 == 0),
        Source::Mmx(_) => Advance::Irregular,
        Source::Direction => stays(!roots.direction_changed),
        Source::General(register) => match roots.general_at_end[register.number()] {
            Some(Value::Root { root: end, displacement }) if end == *root => {
                Advance::Constant(displacement)
            }
            _ => Advance::Irregular,
        },
    }
}
