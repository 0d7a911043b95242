//! Skid: the memory access, or division, for which the core waited when a clock sample named an instruction.
//!
//! What for: a timer interrupt is taken when the oldest unfinished instruction retires, so the sample names an
//! instruction *after* the one that stalled. [`Surroundings`] knows what can have run before an instruction.
//! [`Surroundings::suspects`] lists what is 0, 1, ... instructions back, each with its address in registers *as they
//! are at the sample*: constant steps in between are undone. An address that needs an overwritten register is lost,
//! never guessed. The skid in instructions differs by processor; the caller must know it. What not: register values,
//! objects, time.
//!
//! Assumptions: the bytes are what ran. Branches go where they say; control flow by indirect jumps, calls and returns
//! is unknown. The direction flag is clear, as everywhere (SDM vol. 1, 3.4.3.2; System V ABI, 3.2.1).

mod define;
mod graph;
mod step;
#[cfg(test)]
mod tests;
mod undo;

use std::collections::BTreeMap;

use base::RemoteAddr;
use facts::Slot;

use self::graph::Predecessors;
use self::step::Step;
use self::undo::Undo;
use crate::code::CodeBytes;
use crate::evaluate::{State, resolve};
use crate::instruction::Flow;
use crate::operand::{Access, Address, ExtraTerm, Location, Occurrence, Segment};
use crate::register::Gpr;

/// Most suspects of a sample: with more, none is more probable than another.
const MOST_SUSPECTS: usize = 16;
/// The largest distance that is searched.
pub const FARTHEST: u8 = 3;

/// What a core waits for at an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitKind {
    /// A load and nothing else: `mov`, `pop`, a gather.
    Load,
    /// A load whose value the same instruction computes with, even if it stores the result back.
    LoadOperand,
    /// An atomic read-modify-write.
    Atomic,
    /// A store.
    Store,
    /// A division or a square root: the core waits for its own result.
    Division,
}

impl WaitKind {
    /// All kinds.
    pub const ALL: [WaitKind; 5] = [
        WaitKind::Load,
        WaitKind::LoadOperand,
        WaitKind::Atomic,
        WaitKind::Store,
        WaitKind::Division,
    ];

    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            WaitKind::Load => "load",
            WaitKind::LoadOperand => "load-op",
            WaitKind::Atomic => "atomic",
            WaitKind::Store => "store",
            WaitKind::Division => "division",
        }
    }
}

/// An address in registers as they are at the sample.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Operand {
    /// The sum.
    pub address: Address,
    /// It is relative to the instruction: correct for the address at which the code was read, and moves with it.
    pub moves_with_code: bool,
}

impl Operand {
    /// The address, with the values of registers and of the base of fs as far as known. `moved` is the distance
    /// between where the code ran and where it was read, modulo 2^64.
    pub fn resolve(
        &self,
        register: impl Fn(Gpr) -> Option<u64>,
        fs_base: Option<u64>,
        moved: u64,
    ) -> Option<RemoteAddr> {
        let mut state = State::default();
        for gpr in self.registers() {
            state.set(gpr, register(gpr)?);
        }
        match self.address.segment {
            Segment::Flat => {}
            Segment::Fs => state.fs_base = fs_base?,
            Segment::Gs => return None,
        }
        let moved = if self.moves_with_code { moved } else { 0 };
        let address =
            Address { displacement: self.address.displacement.wrapping_add(moved), ..self.address };
        Some(RemoteAddr(resolve(&address, &state)))
    }

    /// The registers that it needs.
    pub fn registers(&self) -> impl Iterator<Item = Gpr> {
        let extra = self.address.extra.map(|extra| match extra {
            ExtraTerm::LowByte(register) | ExtraTerm::BitString { register, .. } => register,
        });
        [self.address.base, self.address.index.map(|index| index.register), extra]
            .into_iter()
            .flatten()
    }
}

/// A word that a sample contains.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Term {
    /// A register.
    Register(Gpr),
    /// A word of the copied stack.
    Slot(Slot),
}

/// The sum of some words, each times its factor, and a constant; modulo 2^64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sum {
    terms: [Option<(Term, i64)>; 4],
    constant: u64,
    /// How many times the constant contains an address in code, which moves with the code.
    moves: u64,
}

impl Sum {
    /// `None` if there is no room.
    fn push(&mut self, term: Term, factor: i64) -> Option<()> {
        let room = self.terms.iter_mut().find(|one| one.is_none())?;
        *room = Some((term, factor));
        Some(())
    }

    /// The words.
    pub fn terms(&self) -> impl Iterator<Item = (Term, i64)> {
        self.terms.into_iter().flatten()
    }

    /// The address, with the values of the words as far as known. `moved` is the distance between where the code ran
    /// and where it was read, modulo 2^64.
    pub fn resolve(&self, word: impl Fn(Term) -> Option<u64>, moved: u64) -> Option<RemoteAddr> {
        let mut address = self.constant.wrapping_add(self.moves.wrapping_mul(moved));
        for (term, factor) in self.terms() {
            address = address.wrapping_add(word(term)?.wrapping_mul(factor.cast_unsigned()));
        }
        Some(RemoteAddr(address))
    }
}

/// Where a suspect read or wrote.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Whereabouts {
    /// At this address.
    Address(Operand),
    /// At this sum: a register was overwritten, but the values that it was computed from are still known.
    Sum(Sum),
    /// Relative to this address, which the lanes of a gather share. Their indices are not in a sample.
    Lanes(Operand),
    /// It loaded the address for its next iteration, which is this operand; the address of this iteration is lost.
    Next(Operand),
    /// This register was overwritten since.
    Lost(Gpr),
    /// No address: it is no access.
    Nothing,
}

/// An access or division for which the core may have waited.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Suspect {
    /// Its instruction.
    pub instruction: RemoteAddr,
    /// Number of instructions between it and the one that the sample names; 0 for that one itself.
    pub distance: u8,
    /// Its kind.
    pub kind: WaitKind,
    /// The index of the access in its instruction, and the access; `None` for a division.
    pub access: Option<(usize, Access)>,
    /// Its address.
    pub place: Whereabouts,
}

/// How the sample was reached from an instruction.
struct WayToSample {
    /// The registers before the instruction.
    undo: Undo,
    /// The instructions that ran before the sample, this one last, each with the registers before it.
    ran: Vec<(RemoteAddr, Undo)>,
}

impl WayToSample {
    /// At the sample itself.
    fn none() -> WayToSample {
        WayToSample { undo: Undo::none(), ran: Vec::new() }
    }

    /// From an instruction before.
    fn through(&self, instruction: RemoteAddr, step: &Step) -> WayToSample {
        let undo = self.undo.through(step);
        let mut ran = self.ran.clone();
        ran.push((instruction, undo));
        WayToSample { undo, ran }
    }

    /// Number of instructions.
    fn distance(&self) -> u8 {
        // At most `FARTHEST`.
        self.ran.len() as u8
    }
}

/// Decoded code around samples.
pub struct Surroundings {
    steps: BTreeMap<RemoteAddr, Step>,
    before: BTreeMap<RemoteAddr, Predecessors>,
}

impl Surroundings {
    /// Decodes what can be reached in `code` from addresses at which instructions certainly begin: of samples, of
    /// callers, of functions. Time and memory are linear in the bytes.
    #[must_use]
    pub fn read(
        code: &[CodeBytes<'_>],
        starts: impl IntoIterator<Item = RemoteAddr>,
    ) -> Surroundings {
        graph::read(code, starts)
    }

    /// What the core may have waited for when a sample names `at`, nearest first, up to `farthest` instructions back
    /// (at most [`FARTHEST`]). `None` if it is unknown what ran before.
    #[must_use]
    pub fn suspects(&self, at: RemoteAddr, farthest: u8) -> Option<Vec<Suspect>> {
        let here = self.steps.get(&at)?;
        let mut found = Vec::new();
        self.add(&mut found, here, at, &WayToSample::none());
        let interrupted =
            here.accesses.iter().any(|one| matches!(one.when, Occurrence::Repeated(_)));
        if interrupted || farthest == 0 {
            // A repeated instruction is interrupted between two iterations: the core waits for nothing before it.
            return Some(found);
        }
        let mut known = false;
        let mut open = vec![(at, WayToSample::none())];
        while let Some((at, way)) = open.pop() {
            let Some(before) = self.before.get(&at) else { continue };
            known |= way.distance() == 0 && before.is_known();
            for from in before.instructions() {
                let Some(step) = self.steps.get(&from) else { continue };
                if found.len() >= MOST_SUSPECTS {
                    return Some(found);
                }
                let way = way.through(from, step);
                self.add(&mut found, step, from, &way);
                if way.distance() < farthest.min(FARTHEST) {
                    // First in, first out: the nearest suspects come first.
                    open.insert(0, (from, way));
                }
            }
        }
        known.then_some(found)
    }

    /// The basic block of `at`: the instructions that run whenever it runs.
    #[must_use]
    pub fn block(&self, at: RemoteAddr) -> Vec<RemoteAddr> {
        let joins = |at: RemoteAddr| self.before.get(&at).is_none_or(|before| !before.is_one());
        let mut first = at;
        for _ in 0..graph::LONGEST_LOOP {
            let Some(before) = self.before.get(&first).filter(|before| before.is_one()) else {
                break;
            };
            let Some(from) = before.instructions().next() else { break };
            match self.steps.get(&from) {
                // A loop of one block leads back to `at`.
                Some(step) if step.flow == Some(Flow::Next) && from != at => first = from,
                _ => break,
            }
        }
        let mut block = vec![first];
        while let Some(step) = self.steps.get(&block[block.len() - 1])
            && step.flow == Some(Flow::Next)
            && block.len() < graph::LONGEST_LOOP
        {
            let next = step.leads_to(block[block.len() - 1])[0];
            if joins(next) || !self.steps.contains_key(&next) {
                break;
            }
            block.push(next);
        }
        block
    }

    /// Adds what the core may wait for in a step.
    fn add(
        &self,
        found: &mut Vec<Suspect>,
        step: &Step,
        instruction: RemoteAddr,
        way: &WayToSample,
    ) {
        let distance = way.distance();
        let suspect = |kind, access, place| Suspect { instruction, distance, kind, access, place };
        for (number, access) in step.accesses.iter().enumerate() {
            if found.len() >= MOST_SUSPECTS {
                return;
            }
            if let Some(kind) = step.waits(access) {
                let place = self.place(step, instruction, number, way);
                found.push(suspect(kind, Some((number, *access)), place));
            }
        }
        if step.divides {
            found.push(suspect(WaitKind::Division, None, Whereabouts::Nothing));
        }
    }

    fn place(
        &self,
        step: &Step,
        instruction: RemoteAddr,
        number: usize,
        way: &WayToSample,
    ) -> Whereabouts {
        let operand = |address| Operand { address, moves_with_code: step.relative };
        let access = &step.accesses[number];
        let address = access.address();
        match (way.undo.address(address), access.place) {
            (Ok(address), Location::Lanes(_)) => Whereabouts::Lanes(operand(address)),
            (Ok(address), Location::One(_)) => Whereabouts::Address(operand(address)),
            (Err(register), _) => {
                let is_one = matches!(access.place, Location::One(_));
                let sum = is_one.then(|| self.defined(instruction, address, way)).flatten();
                let chases = || {
                    way.distance() == 1 && self.leads_to_itself(step, instruction, number, register)
                };
                match sum {
                    Some(sum) => Whereabouts::Sum(sum),
                    None if chases() => Whereabouts::Next(operand(*address)),
                    None => Whereabouts::Lost(register),
                }
            }
        }
    }

    /// Whether the access loads `register`, which its own address needs, and nothing changes the registers of the
    /// address on some way back to it: a pointer chase.
    fn leads_to_itself(
        &self,
        step: &Step,
        instruction: RemoteAddr,
        number: usize,
        register: Gpr,
    ) -> bool {
        if !step.loads(register, number) {
            return false;
        }
        let address = step.accesses[number].address();
        let needed: Vec<Gpr> =
            Operand { address: *address, moves_with_code: false }.registers().collect();
        let mut seen = std::collections::BTreeSet::new();
        let mut open: Vec<RemoteAddr> = step.leads_to(instruction);
        while let Some(at) = open.pop() {
            if at == instruction {
                return true;
            }
            if seen.len() >= graph::LONGEST_LOOP || !seen.insert(at) {
                continue;
            }
            let Some(step) = self.steps.get(&at) else { continue };
            if !needed.iter().any(|register| step.changed.contains(*register)) {
                open.extend(step.leads_to(at));
            }
        }
        false
    }
}
