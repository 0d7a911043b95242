//! Which memory access, or division, did the core wait for when a clock sample found it at an instruction?
//!
//! What for: a timer interrupt is taken when the oldest unfinished instruction retires, so the sample lands on an
//! instruction *behind* the one that was waited for. [`Surroundings`] knows what can have run before an instruction;
//! [`Surroundings::suspects`] lists what is 0, 1, ... instructions back, each with its address in registers *as they are
//! at the sample*: constant steps in between are undone. An address that needs an overwritten register is lost, never
//! guessed. How many instructions back the culprit is differs by processor and is the caller's to know.
//! What not: register values, objects, time.
//! Assumptions: the bytes are what ran. Branches go where they say; where control comes from by an indirect jump, a call or
//! a return is not known. The direction flag is clear, as everywhere (SDM vol. 1, 3.4.3.2; System V ABI, 3.2.1).

mod define;
mod graph;
mod step;
#[cfg(test)]
mod tests;
mod undo;

use std::collections::BTreeMap;

use base::RemoteAddr;
use facts::Slot;

use self::graph::Before;
use self::step::Step;
use self::undo::Undo;
use crate::code::CodeBytes;
use crate::evaluate::{State, resolve};
use crate::instruction::Flow;
use crate::operand::{Access, Address, ExtraTerm, Location, Occurrence, Segment};
use crate::register::Gpr;

/// Suspects of one sample at most: of more, none is more likely than another.
const MOST_SUSPECTS: usize = 16;
/// Farther back than this nothing is looked for.
pub const FARTHEST: u8 = 3;

/// What a core may wait for at an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitKind {
    /// A load and nothing else: `mov`, `pop`, a gather.
    Load,
    /// A load whose value the same instruction computes with, also one that stores the result back.
    LoadOperand,
    /// An atomic read and write.
    Atomic,
    /// A store.
    Store,
    /// A division or a root: the core waits for itself.
    Division,
}

impl WaitKind {
    /// All of them.
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
    /// It is relative to the instruction: true for where the code was read, and moves with it.
    pub moves_with_code: bool,
}

impl Operand {
    /// The address, with the values of registers and of the base of fs as far as they are known. `moved` is how far the code
    /// ran from where it was read, modulo 2^64.
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

/// A word that a sample has.
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
    /// How often the constant has an address in code in it, which moves with the code.
    moves: u64,
}

impl Sum {
    /// `None` where there is no room.
    fn push(&mut self, term: Term, factor: i64) -> Option<()> {
        let room = self.terms.iter_mut().find(|one| one.is_none())?;
        *room = Some((term, factor));
        Some(())
    }

    /// The words.
    pub fn terms(&self) -> impl Iterator<Item = (Term, i64)> {
        self.terms.into_iter().flatten()
    }

    /// The address, with the values of the words as far as they are known. `moved` is how far the code ran from where it was
    /// read, modulo 2^64.
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
    /// There.
    At(Operand),
    /// There: a register was overwritten, and what it was computed from is still known.
    Sum(Sum),
    /// Somewhere from there: the address that the lanes of a gather share. Their indices are not in a sample.
    Lanes(Operand),
    /// It loaded the address for its next turn: that is there. The one of this turn is lost.
    Next(Operand),
    /// This register was overwritten since.
    Lost(Gpr),
    /// Nowhere: it is no access.
    Nothing,
}

/// An access, or division, that the core may have waited for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Suspect {
    /// Its instruction.
    pub instruction: RemoteAddr,
    /// How many instructions before the one at which the sample stands; 0 for that one itself.
    pub distance: u8,
    /// What it is.
    pub kind: WaitKind,
    /// Which access of its instruction, from 0, and what it does; `None` for a division.
    pub access: Option<(usize, Access)>,
    /// Where.
    pub place: Whereabouts,
}

/// Code around samples, decoded once.
pub struct Surroundings {
    steps: BTreeMap<RemoteAddr, Step>,
    before: BTreeMap<RemoteAddr, Before>,
}

impl Surroundings {
    /// Reads what can be reached in `code` from addresses at which instructions begin for certain: of samples, of callers, of
    /// functions. Time and memory are linear in the bytes.
    #[must_use]
    pub fn read(
        code: &[CodeBytes<'_>],
        starts: impl IntoIterator<Item = RemoteAddr>,
    ) -> Surroundings {
        graph::read(code, starts)
    }

    /// What the core may have waited for when a sample stands at `at`, nearest first, up to `farthest` instructions back
    /// (at most [`FARTHEST`]). `None` where what ran before is not known.
    #[must_use]
    pub fn suspects(&self, at: RemoteAddr, farthest: u8) -> Option<Vec<Suspect>> {
        let here = self.steps.get(&at)?;
        let mut found = Vec::new();
        self.add(&mut found, here, at, 0, &Undo::none());
        let interrupted =
            here.accesses.iter().any(|one| matches!(one.when, Occurrence::Repeated(_)));
        if interrupted || farthest == 0 {
            // A repeated instruction is interrupted between two turns: nothing behind it is waited for.
            return Some(found);
        }
        let mut known = false;
        let mut open = vec![(at, 0u8, Undo::none())];
        while let Some((at, distance, undo)) = open.pop() {
            let Some(before) = self.before.get(&at) else { continue };
            known |= distance == 0 && before.is_known();
            for from in before.instructions() {
                let Some(step) = self.steps.get(&from) else { continue };
                if found.len() >= MOST_SUSPECTS {
                    return Some(found);
                }
                let (distance, undo) = (distance + 1, undo.through(step));
                self.add(&mut found, step, from, distance, &undo);
                if distance < farthest.min(FARTHEST) {
                    open.insert(0, (from, distance, undo));
                }
            }
        }
        known.then_some(found)
    }

    /// The instructions that run before and behind `at` whenever it runs, and it itself: its basic block.
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

    /// Adds what a step may be waited for. `undo` leads from the registers before it to those at the sample.
    fn add(
        &self,
        found: &mut Vec<Suspect>,
        step: &Step,
        instruction: RemoteAddr,
        distance: u8,
        undo: &Undo,
    ) {
        let suspect = |kind, access, place| Suspect { instruction, distance, kind, access, place };
        for (number, access) in step.accesses.iter().enumerate() {
            if found.len() >= MOST_SUSPECTS {
                return;
            }
            if let Some(kind) = step.waits(access) {
                let place = self.place(step, instruction, number, access, distance, undo);
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
        access: &Access,
        distance: u8,
        undo: &Undo,
    ) -> Whereabouts {
        let operand = |address| Operand { address, moves_with_code: step.relative };
        let address = access.address();
        match (undo.address(address), access.place) {
            (Ok(address), Location::Lanes(_)) => Whereabouts::Lanes(operand(address)),
            (Ok(address), Location::One(_)) => Whereabouts::At(operand(address)),
            (Err(register), _) => {
                let is_one = matches!(access.place, Location::One(_));
                let sum = is_one.then(|| self.defined(instruction, address, undo)).flatten();
                let chases =
                    || distance == 1 && self.leads_to_itself(step, instruction, number, register);
                match sum {
                    Some(sum) => Whereabouts::Sum(sum),
                    None if chases() => Whereabouts::Next(operand(*address)),
                    None => Whereabouts::Lost(register),
                }
            }
        }
    }

    /// Whether the access loads `register`, which its address needs, and nothing changes the registers of the address on some
    /// way back to it: a chase.
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
