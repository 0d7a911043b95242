//! Conditional branches and returns that may leave a block although more of it follows.
//!
//! What for: the way that continues in the block costs the branch, or a check of the return address. The other way
//! leads to a cold part after the block. That writes the way into the record, and in a summarised loop the number of
//! iterations; then it continues like any exit. What not: the branch that ends a block (`branches`).
//!
//! Until its last store the cold part stands for the branch itself: a thread that stops there and repeats the branch
//! natively gets to the same address, because flags and registers are unchanged. So no state has a record without its
//! way.

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::area::{POINTER, RESERVED};
use super::branches::near;
use super::emit::{Label, at, wide};
use super::plan::Plan;
use super::record::bytes;
use super::writer::{BORROWED, SPILLED_RCX, Writer};
use super::{Iterations, State};
use crate::block::End;
use crate::register::Gpr;

/// Offset of the way in a record, in bytes.
const WAY: i32 = 4;

const R11: Gpr = Gpr::R11;

/// A side exit whose cold part is not written yet.
pub(super) struct SideExit {
    /// The branch.
    number: usize,
    /// The target of a conditional branch; a return has none.
    target: Option<base::RemoteAddr>,
    cold: Label,
    /// The state at the branch.
    state: State,
    swapped: Option<bool>,
}

impl Writer<'_> {
    /// Writes the branch of a side exit.
    pub(super) fn side_exit(&mut self, number: usize, target: base::RemoteAddr) {
        let code = near(self.block.instructions[number].raw.code());
        if !self.out.state.recorded && self.swapped.is_none() {
            // Nothing to write into the record.
            self.link(code, target);
            return;
        }
        self.leave_to_cold_part(code, number, Some(target));
    }

    fn leave_to_cold_part(&mut self, code: Code, number: usize, target: Option<base::RemoteAddr>) {
        let cold = self.out.label();
        let state = self.out.state.clone();
        self.out.branch(code, cold);
        self.side_exits.push(SideExit { number, target, cold, state, swapped: self.swapped });
    }

    /// `ret` to the instruction after a call of this block, if it leads there. Nothing here changes flags. r11 and
    /// rcx are free, because calling conventions let functions change them: no code expects their values.
    pub(super) fn followed_return(&mut self, number: usize) {
        let Some(expected) = self.comes_back_to(number) else { return };
        let back = self.out.label();
        self.out.spill(Gpr::RCX, SPILLED_RCX);
        self.out.spill(R11, BORROWED);
        self.out.put(Instruction::with2(Code::Mov_r64_rm64, Register::RCX, at(Gpr::RSP, 0)));
        let negated = expected.0.wrapping_neg();
        self.out.set(Gpr::R11, negated);
        let difference = MemoryOperand::with_base_index(Register::RCX, Register::R11);
        self.out.put(Instruction::with2(Code::Lea_r64_m, Register::RCX, difference));
        self.out.restore(R11, BORROWED);
        // Both ways begin with rcx in its slot. The cold part changes the state, which the other
        // way must not see.
        let arrived = self.out.state.clone();
        self.out.branch(Code::Jrcxz_rel8_64, back);
        self.leave_to_cold_part(Code::Jmp_rel32_64, number, None);
        self.out.state = arrived;
        self.out.bind(back);
        self.out.restore(Gpr::RCX, SPILLED_RCX);
        self.pop_return_address(number);
    }

    /// The address at which the block continues after the instruction with this index.
    fn comes_back_to(&self, number: usize) -> Option<base::RemoteAddr> {
        match self.block.instructions.get(number + 1) {
            Some(next) => Some(next.address()),
            None => match self.block.end {
                End::FallThrough(at) | End::Refused { at, .. } | End::MissingBytes(at) => Some(at),
                _ => None,
            },
        }
    }

    /// Writes the cold parts.
    pub(super) fn finish_side_exits(&mut self, plan: &Plan) {
        for exit in std::mem::take(&mut self.side_exits) {
            self.out.state = exit.state.clone();
            self.swapped = exit.swapped;
            self.out.bind(exit.cold);
            if exit.target.is_none() {
                self.out.restore(Gpr::RCX, SPILLED_RCX);
            }
            self.swap_out();
            if let (Some(reserved), true) = (self.reserved, self.out.state.recorded) {
                let before = self.block.side_exits().take_while(|other| *other < exit.number);
                let way = 1 + before.count();
                self.close_early(reserved, plan, &exit, way);
            }
            match exit.target {
                Some(target) => self.go_to(target),
                None => self.return_(exit.number),
            }
        }
    }

    /// Writes the way, after everything else that the record needs.
    fn close_early(&mut self, reserved: Gpr, plan: &Plan, exit: &SideExit, way: usize) {
        let record = -bytes(plan.layout.words);
        // A block has fewer instructions than 2^31.
        let way = way as u32;
        match plan.layout.iterations.as_ref().filter(|_| self.out.state.looping) {
            Some(Iterations::Word(word)) => {
                self.out.spill(Gpr::RAX, BORROWED);
                // The reserved register holds the count, so another one must lead to the record.
                self.out.load(Gpr::RAX, POINTER);
                let count = at(Gpr::RAX, record + bytes(*word));
                self.out.put(Instruction::with2(Code::Mov_rm64_r64, count, wide(reserved)));
                let header = at(Gpr::RAX, record + WAY);
                self.out.put(Instruction::with2(Code::Mov_rm32_imm32, header, way));
                self.closed(exit);
                self.out.restore(Gpr::RAX, BORROWED);
                self.out.load(reserved, POINTER);
                self.out.state.pointer_in_slot = false;
                return;
            }
            Some(Iterations::Counter { register, end, stride, narrow, advanced, .. }) => {
                // The current iteration counts.
                let missing = stride.wrapping_sub(advanced.get(exit.number).copied().unwrap_or(0));
                let missing = match narrow {
                    true => i64::from(missing as i32),
                    false => missing.cast_signed(),
                };
                self.store_counter(reserved, *register, missing, record + bytes(*end));
            }
            None => {}
        }
        let header = at(reserved, record + WAY);
        self.out.put(Instruction::with2(Code::Mov_rm32_imm32, header, way));
        self.closed(exit);
    }

    /// The record is complete. A return has yet to happen; a thread that stops before loses the record.
    fn closed(&mut self, exit: &SideExit) {
        self.out.state.looping = false;
        if let Some(target) = exit.target {
            self.at_target(target);
        }
    }

    /// `[reserved + displacement] = register + missing`.
    fn store_counter(&mut self, reserved: Gpr, register: Gpr, missing: i64, displacement: i32) {
        self.out.spill(Gpr::RAX, BORROWED);
        let counter = match register {
            register if register == reserved => {
                self.out.load(Gpr::RAX, RESERVED);
                Gpr::RAX
            }
            register => register,
        };
        let sum = MemoryOperand::with_base_displ(wide(counter), missing);
        self.out.put(Instruction::with2(Code::Lea_r64_m, Register::RAX, sum));
        let word = at(reserved, displacement);
        self.out.put(Instruction::with2(Code::Mov_rm64_r64, word, Register::RAX));
        self.out.restore(Gpr::RAX, BORROWED);
    }
}
