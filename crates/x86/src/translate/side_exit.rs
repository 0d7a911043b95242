//! Conditional branches that leave a block although more of it follows.
//!
//! What for: the side that goes on costs the branch only. The other one leads to a cold part behind the block, which
//! writes the way into the record, and in a loop that is summarised the number of iterations; then it goes on like any way
//! out. What not: the conditional branch that ends a block (`branches`).
//!
//! Up to its last store the cold part stands for the branch itself: whoever stops there and branches again, natively,
//! comes to the same place, for flags and registers are untouched. So no state has a record without its way.

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::area::{POINTER, RESERVED};
use super::branches::near;
use super::emit::{Label, at, wide};
use super::plan::Plan;
use super::record::bytes;
use super::writer::{BORROWED, Writer};
use super::{Iterations, State};
use crate::register::Gpr;

/// Of the way, in bytes from the start of a record.
const WAY: i32 = 4;

/// A side exit whose cold part is not written yet.
pub(super) struct SideExit {
    /// The branch.
    number: usize,
    target: base::RemoteAddr,
    cold: Label,
    /// What holds at the branch.
    state: State,
    swapped: Option<bool>,
}

impl Writer<'_> {
    /// The branch of a side exit.
    pub(super) fn side_exit(&mut self, number: usize, target: base::RemoteAddr) {
        let code = near(self.block.instructions[number].raw.code());
        if !self.out.state.recorded && self.swapped.is_none() {
            // Nothing to do on the way.
            self.link(code, target);
            return;
        }
        let cold = self.out.label();
        let state = self.out.state.clone();
        self.out.branch(code, cold);
        self.side_exits.push(SideExit { number, target, cold, state, swapped: self.swapped });
    }

    /// The cold parts.
    pub(super) fn finish_side_exits(&mut self, plan: &Plan) {
        for exit in std::mem::take(&mut self.side_exits) {
            self.out.state = exit.state;
            self.swapped = exit.swapped;
            self.out.bind(exit.cold);
            self.swap_out();
            if let (Some(reserved), true) = (self.reserved, self.out.state.recorded) {
                let before = self.block.side_exits().take_while(|other| *other < exit.number);
                let way = 1 + before.count();
                self.close_early(reserved, plan, exit.number, way);
            }
            self.go_to(exit.target);
        }
    }

    /// Writes the way, behind all else that the record needs.
    fn close_early(&mut self, reserved: Gpr, plan: &Plan, number: usize, way: usize) {
        let record = -bytes(plan.layout.words);
        let target = self.block.instructions[number].raw.near_branch_target();
        // A block has fewer instructions than 2^31.
        let way = way as u32;
        match plan.layout.iterations.as_ref().filter(|_| self.out.state.looping) {
            Some(Iterations::Word(word)) => {
                self.out.spill(Gpr::RAX, BORROWED);
                self.out.load(Gpr::RAX, POINTER);
                let place = at(Gpr::RAX, record + bytes(*word));
                self.out.put(Instruction::with2(Code::Mov_rm64_r64, place, wide(reserved)));
                let header = at(Gpr::RAX, record + WAY);
                self.out.put(Instruction::with2(Code::Mov_rm32_imm32, header, way));
                self.out.state.looping = false;
                self.at_target(base::RemoteAddr(target));
                self.out.restore(Gpr::RAX, BORROWED);
                self.out.load(reserved, POINTER);
                self.out.state.pointer_in_slot = false;
                return;
            }
            Some(Iterations::Counter { register, end, stride, narrow, advanced, .. }) => {
                // This iteration counts.
                let missing = stride.wrapping_sub(advanced.get(number).copied().unwrap_or(0));
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
        self.out.state.looping = false;
    }

    /// `[reserved + place] = register + missing`.
    fn store_counter(&mut self, reserved: Gpr, register: Gpr, missing: i64, place: i32) {
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
        self.out.put(Instruction::with2(Code::Mov_rm64_r64, at(reserved, place), Register::RAX));
        self.out.restore(Gpr::RAX, BORROWED);
    }
}
