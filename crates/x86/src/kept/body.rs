//! A loop's instructions while they are rewritten.
//!
//! What for: does what a compiler would do with a loop whose values may stay in registers. It removes an instruction
//! that only copies such a register, if all readers of the copy can read the register itself. It also removes an
//! instruction whose result is the same in each iteration and is not read any more. What not: which memory is kept
//! (`mod`). Assumption: code after the loop recomputes what it needs of the removed instructions.

use base::RemoteAddr;
use iced_x86::{Code, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

use super::edit::{FreeRegister, encoded};
use crate::block::Block;
use crate::corrections;
use crate::instruction::{Flow, RegisterEffect, register_effect};
use crate::liveness::{FlagEffect, Flags, flag_effect};
use crate::operand::Kind;
use crate::register::{Gpr, GprSet};

/// What replaces an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line {
    /// The instruction itself.
    Own,
    /// Another instruction.
    Instead(Instruction),
    /// Nothing.
    Gone,
}

/// An instruction and its current replacement.
struct Entry {
    line: Line,
    raw: Instruction,
    registers: RegisterEffect,
    flags: FlagEffect,
    /// It only computes values that are the same in each iteration.
    same: bool,
}

/// The instructions of a loop.
pub(super) struct Body {
    entries: Vec<Entry>,
    factory: InstructionInfoFactory,
}

impl Body {
    /// `known`: the registers whose values after each instruction are the same in each iteration.
    pub(super) fn new(block: &Block, known: &[GprSet]) -> Body {
        let entry = |(one, known): (&crate::Instruction, &GprSet)| {
            let registers = *one.registers();
            let others = registers.vectors_changed != 0
                || registers.masks_changed != 0
                || registers.mmx_changed
                || registers.direction_changed;
            let reads = one.accesses().iter().all(|access| access.kind == Kind::Read);
            let changed = registers.changed;
            let same = one.flow() == Flow::Next
                && !others
                && reads
                && changed.iter().next().is_some()
                && changed.iter().all(|register| known.contains(register) && register != Gpr::RSP);
            Entry { line: Line::Own, raw: one.raw, registers, flags: one.flags(), same }
        };
        let entries = block.instructions.iter().zip(known).map(entry).collect();
        Body { entries, factory: InstructionInfoFactory::new() }
    }

    /// Whether the instruction with this index still exists.
    pub(super) fn has(&self, number: usize) -> bool {
        self.entries.get(number).is_some_and(|one| !matches!(one.line, Line::Gone))
    }

    /// Its current form.
    pub(super) fn now(&self, number: usize) -> Option<&Instruction> {
        self.entries.get(number).filter(|_| self.has(number)).map(|one| &one.raw)
    }

    /// All registers that it neither reads nor writes, general-purpose ones first.
    pub(super) fn free_registers(&self) -> Vec<FreeRegister> {
        let (mut general, mut vectors) = (GprSet::default(), 0);
        general.insert(Gpr::RSP);
        for Entry { registers, .. } in self.there() {
            registers
                .read
                .iter()
                .chain(registers.changed.iter())
                .for_each(|one| general.insert(one));
            vectors |= registers.vectors_read | registers.vectors_changed;
        }
        let general = Gpr::all().filter(|one| !general.contains(*one)).map(FreeRegister::General);
        let vectors = (0..FreeRegister::VECTORS).filter(|number| vectors >> number & 1 == 0);
        general.chain(vectors.map(FreeRegister::Vector)).collect()
    }

    /// Replaces an instruction.
    pub(super) fn replace(&mut self, number: usize, raw: Instruction) {
        let registers = self.effect(&raw);
        if let Some(one) = self.entries.get_mut(number) {
            (one.line, one.raw, one.registers) = (Line::Instead(raw), raw, registers);
            one.flags = flag_effect(&raw);
        }
    }

    /// Removes instructions that are not needed any more. `held`: the registers that replace memory.
    pub(super) fn settle(&mut self, held: GprSet) {
        for number in 0..self.entries.len() {
            let copy = self.now(number).filter(|_| self.is_instead(number)).and_then(copied);
            let Some((to, from)) = copy.filter(|(_, from)| held.contains(*from)) else { continue };
            if let Some(readers) = self.readers(number, to, from) {
                readers.into_iter().for_each(|(reader, raw)| self.replace(reader, raw));
                self.entries[number].line = Line::Gone;
            }
        }
        self.leave_out_unread();
    }

    /// The replacement of each instruction, by index.
    pub(super) fn lines(self) -> Vec<Line> {
        self.entries.into_iter().map(|one| one.line).collect()
    }

    fn there(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|one| !matches!(one.line, Line::Gone))
    }

    fn is_instead(&self, number: usize) -> bool {
        matches!(self.entries[number].line, Line::Instead(_))
    }

    fn effect(&mut self, raw: &Instruction) -> RegisterEffect {
        let mut effect = register_effect(self.factory.info(raw));
        corrections::correct_registers(raw, &mut effect);
        effect
    }

    /// The readers of `to`, to which the instruction with this index copies `from`, each rewritten to read `from`.
    /// `None` if one of them cannot be, or reads it after `from` has changed.
    fn readers(&mut self, number: usize, to: Gpr, from: Gpr) -> Option<Vec<(usize, Instruction)>> {
        let length = self.entries.len();
        let (mut readers, mut changed) = (Vec::new(), false);
        // Around the loop: what reads before the copy reads the value of the previous iteration.
        for reader in (number + 1..number + length).map(|at| at % length) {
            if !self.has(reader) {
                continue;
            }
            let Entry { raw, registers, .. } = self.entries[reader];
            if registers.read.contains(to) {
                let raw = self.renamed(&raw, to, from).filter(|_| !changed)?;
                readers.push((reader, raw));
            }
            if registers.killed.contains(to) {
                break;
            }
            if registers.changed.contains(to) {
                return None;
            }
            changed |= registers.changed.contains(from);
        }
        Some(readers)
    }

    /// `raw` with reads of `from` replaced by `to`; `None` if it must read `from`.
    fn renamed(&mut self, raw: &Instruction, from: Gpr, to: Gpr) -> Option<Instruction> {
        let named = |register: Register| {
            let is_it = Gpr::from_iced(register) == Some(from);
            let high =
                matches!(register, Register::AH | Register::CH | Register::DH | Register::BH);
            let bytes = u32::try_from(register.size()).ok()?;
            if is_it && !high { FreeRegister::General(to).named(bytes) } else { None }
        };
        let info = self.factory.info(raw);
        let mut renamed = *raw;
        for operand in 0..raw.op_count() {
            let reads = info.op_access(operand) == OpAccess::Read;
            let register = raw.op_kind(operand) == OpKind::Register && reads;
            let name = register.then(|| named(raw.op_register(operand))).flatten();
            if let Some(register) = name {
                renamed.set_op_register(operand, register);
            }
        }
        if let Some(register) = named(raw.memory_base()) {
            renamed.set_memory_base(register);
        }
        if let Some(register) = named(raw.memory_index()) {
            renamed.set_memory_index(register);
        }
        encoded(&renamed, RemoteAddr(raw.ip())).ok()?;
        let still = self.effect(&renamed).read.contains(from);
        (!still).then_some(renamed)
    }

    /// Walks backwards around the loop twice, because the end must know what the next start reads.
    fn leave_out_unread(&mut self) {
        let (mut live, mut flags) = (GprSet::default(), Flags::NONE);
        for last in [false, true] {
            for one in self.entries.iter_mut().rev() {
                let Entry { line, registers, flags: effect, same, .. } = one;
                if matches!(line, Line::Gone) {
                    continue;
                }
                let written = effect.written.union(effect.undefined);
                let read = registers.changed.iter().any(|register| live.contains(register))
                    || flags.without(written) != flags;
                if last && *same && !read {
                    *line = Line::Gone;
                    continue;
                }
                live = live.without(registers.killed).union(registers.read);
                flags = flags.without(effect.killed()).union(effect.read);
            }
        }
    }
}

/// The registers of a plain move between whole registers: destination, source.
fn copied(raw: &Instruction) -> Option<(Gpr, Gpr)> {
    let plain = matches!(
        raw.code(),
        Code::Mov_r64_rm64 | Code::Mov_rm64_r64 | Code::Mov_r32_rm32 | Code::Mov_rm32_r32
    );
    let between = raw.op0_kind() == OpKind::Register && raw.op1_kind() == OpKind::Register;
    let copy = (Gpr::from_iced(raw.op0_register())?, Gpr::from_iced(raw.op1_register())?);
    (plain && between && copy.0 != copy.1).then_some(copy)
}
