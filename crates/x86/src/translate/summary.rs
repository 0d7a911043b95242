//! Loops whose addresses follow from the registers of the first iteration and the number of iterations.
//!
//! What for: such a loop runs uninstrumented (or with one `lea`) at native speed; its code has the same position in
//! 64-byte lines as the program's own. Its record is opened before the loop, and gets the end value of a counting
//! register after it. What not: choosing the counter (`plan`).

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::area::POINTER;
use super::emit::{Label, at, wide};
use super::plan::{Form, Plan, Store, touches};
use super::record::bytes;
use super::writer::{BORROWED, Writer};
use super::{Iterations, NativeRip};
use crate::block::End;
use crate::register::Gpr;
use crate::roots::BackEdge;

impl Writer<'_> {
    pub(super) fn summarised_loop(&mut self, plan: &Plan, back: BackEdge) {
        let (Some(reserved), Some(ending)) = (self.reserved, self.ending()) else { return };
        self.open_counted_record(reserved, plan);
        let counted = matches!(plan.layout.iterations, Some(Iterations::Word(_)));
        if self.block.instructions.iter().any(|one| touches(one, reserved)) {
            self.swap_in();
            // From the second iteration on it may have changed anywhere in the loop.
            self.swapped = Some(true);
        }
        if counted {
            // Before the first iteration.
            self.at_target(self.block.start);
        }
        self.out.align_like(self.block.start);
        let top = self.out.label();
        self.out.bind(top);
        if counted {
            // Before the next iteration: the number is that of complete ones.
            self.at_target(self.block.start);
            let next = at(reserved, 1);
            self.out.put(Instruction::with2(Code::Lea_r64_m, wide(reserved), next));
        }
        for number in 0..=ending {
            self.at_instruction(number);
            if number < ending {
                self.instruction(number);
            }
        }
        if let Some(target) = self.go_back(top, back) {
            self.at_target(target);
            self.close_counted_record(reserved, plan);
            self.go_to(target);
        }
    }

    /// From the record on, the state of the loop must always give the number of iterations.
    fn open_counted_record(&mut self, reserved: Gpr, plan: &Plan) {
        if let Some(Iterations::Word(word)) = plan.layout.iterations {
            // Holds the number until it is in the register.
            let count = at(reserved, bytes(word));
            self.out.put(Instruction::with2(Code::Mov_rm64_imm32, count, 0));
        }
        self.open_record(plan);
        match plan.layout.iterations {
            Some(Iterations::Counter { .. }) => self.out.state.looping = true,
            Some(Iterations::Word(_)) => {
                self.out.store(POINTER, reserved);
                self.out.state.pointer_in_slot = true;
                self.out.put(Instruction::with2(Code::Mov_rm64_imm32, wide(reserved), 0));
                self.out.state.looping = true;
            }
            None => {}
        }
    }

    fn close_counted_record(&mut self, reserved: Gpr, plan: &Plan) {
        self.swap_out();
        let record = -bytes(plan.layout.words);
        match plan.layout.iterations {
            Some(Iterations::Counter { register, end, .. }) => {
                let store = Store { at: 0, form: Form::General(register), word: end };
                self.store_value(reserved, &store, record);
                self.out.state.looping = false;
            }
            Some(Iterations::Word(word)) => {
                self.out.spill(Gpr::RAX, BORROWED);
                self.out.load(Gpr::RAX, POINTER);
                let count =
                    MemoryOperand::with_base_displ(Register::RAX, i64::from(record + bytes(word)));
                self.out.put(Instruction::with2(Code::Mov_rm64_r64, count, wide(reserved)));
                self.out.state.looping = false;
                self.out.restore(Gpr::RAX, BORROWED);
                self.out.load(reserved, POINTER);
                self.out.state.pointer_in_slot = false;
            }
            None => {}
        }
    }

    /// Writes the back edge; returns the address at which the program continues when it leaves the loop.
    fn go_back(&mut self, top: Label, back: BackEdge) -> Option<base::RemoteAddr> {
        let raw = self.block.instructions.last().map(|last| last.raw)?;
        let End::Conditional { taken, not_taken } = self.block.end else {
            self.out.branch_back(Code::Jmp_rel32_64, top);
            return None;
        };
        let near = super::branches::near(raw.code());
        match (back, raw.code().is_jcc_short_or_near()) {
            (BackEdge::WhenNotTaken, true) => {
                self.out.branch_back(near.negate_condition_code(), top);
                return Some(taken);
            }
            (_, true) => {
                self.out.branch_back(near, top);
                return Some(not_taken);
            }
            (_, false) => {}
        }
        // loop and jrcxz have only a short form.
        let (jumps, leaves) = (self.out.label(), self.out.label());
        let again_when_taken = back != BackEdge::WhenNotTaken;
        self.out.branch(raw.code(), jumps);
        let start = NativeRip::Known(self.block.start);
        let out = if again_when_taken { not_taken } else { taken };
        for again in [!again_when_taken, again_when_taken] {
            self.out.state.instruction = None;
            self.out.state.rip = if again { start } else { NativeRip::Known(out) };
            self.out.branch(Code::Jmp_rel32_64, if again { top } else { leaves });
            if again != again_when_taken {
                self.out.bind(jumps);
            }
        }
        self.out.bind(leaves);
        Some(out)
    }
}
