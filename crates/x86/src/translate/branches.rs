//! The end of a block: the branch, to native addresses through links, stubs or the table.
//!
//! What not: branches inside a block (`side_exit`).

use iced_x86::{Code, Instruction, MemoryOperand, OpKind, Register};

use super::NativeRip;
use super::area::{RESERVED, TABLE};
use super::emit::{at, wide};
use super::plan::touches;
use super::writer::{SPILLED_RAX, SPILLED_RCX, Writer};
use crate::block::End;
use crate::register::Gpr;

impl Writer<'_> {
    pub(super) fn end(&mut self) {
        match self.block.end {
            End::FallThrough(target)
            | End::Jump(target)
            | End::Refused { at: target, .. }
            | End::MissingBytes(target) => self.go_to(target),
            End::Conditional { taken, not_taken } => self.conditional(taken, not_taken),
            End::Call { target, return_to } => {
                self.push_return_address(return_to);
                self.go_to(target);
            }
            End::IndirectJump => {
                self.load_target();
                self.dispatch();
            }
            // The target first: its operand may be relative to rsp, which the push moves (SDM vol.
            // 2, CALL).
            End::IndirectCall { return_to } => {
                self.load_target();
                self.push_return_address(return_to);
                self.dispatch();
            }
            End::Return => {
                let Some(last) = self.block.instructions.len().checked_sub(1) else { return };
                self.return_(last);
            }
        }
    }

    fn last(&self) -> Option<iced_x86::Instruction> {
        self.block.instructions.last().map(|last| last.raw)
    }

    pub(super) fn go_to(&mut self, target: base::RemoteAddr) {
        self.at_target(target);
        self.link(Code::Jmp_rel32_64, target);
    }

    fn conditional(&mut self, taken: base::RemoteAddr, not_taken: base::RemoteAddr) {
        let Some(raw) = self.last() else { return };
        // A jcc with a 32-bit displacement is linked in place: the common case costs one branch, as natively.
        if raw.code().is_jcc_short_or_near() {
            self.link(near(raw.code()), taken);
            self.go_to(not_taken);
            return;
        }
        // loop and jrcxz have only a short form.
        let jumps = self.out.label();
        self.out.branch(raw.code(), jumps);
        self.go_to(not_taken);
        self.out.bind(jumps);
        self.go_to(taken);
    }

    /// Saves rcx and rax, and loads the target of an indirect branch into rcx.
    fn load_target(&mut self) {
        let Some(raw) = self.last() else { return };
        self.out.spill(Gpr::RCX, SPILLED_RCX);
        self.out.spill(Gpr::RAX, SPILLED_RAX);
        // The register may be rcx itself: spilling has not changed it, so the move below is right for it too.
        if raw.op0_kind() == OpKind::Register {
            let register = Gpr::from_iced(raw.op0_register());
            match register {
                Some(register) if Some(register) == self.reserved => {
                    self.out.load(Gpr::RCX, RESERVED);
                }
                // All other registers hold their native value here.
                _ => self.out.put(Instruction::with2(
                    Code::Mov_r64_rm64,
                    Register::RCX,
                    raw.op0_register(),
                )),
            }
            return;
        }
        let needs_swap = match (self.block.instructions.last(), self.reserved) {
            (Some(last), Some(reserved)) => touches(last, reserved),
            _ => false,
        };
        if needs_swap {
            self.swap_in();
        }
        self.out.put(Instruction::with2(Code::Mov_r64_rm64, Register::RCX, operand(&raw)));
        self.swap_out();
    }

    /// The `ret` with this index, to any target.
    pub(super) fn return_(&mut self, number: usize) {
        self.out.spill(Gpr::RCX, SPILLED_RCX);
        self.out.spill(Gpr::RAX, SPILLED_RAX);
        // Not a `ret`: the address on the stack is the native one, so it would leave the translated code.
        self.out.put(Instruction::with2(Code::Mov_r64_rm64, Register::RCX, at(Gpr::RSP, 0)));
        self.pop_return_address(number);
        self.dispatch();
    }

    pub(super) fn pop_return_address(&mut self, number: usize) {
        let raw = &self.block.instructions[number].raw;
        let more = if raw.code() == Code::Retnq_imm16 { i32::from(raw.immediate16()) } else { 0 };
        let popped = at(Gpr::RSP, 8 + more);
        // lea and not add, because the program may use flags across a return.
        self.out.put(Instruction::with2(Code::Lea_r64_m, wide(Gpr::RSP), popped));
    }

    /// Continues at the native address in rcx, through the table.
    fn dispatch(&mut self) {
        self.out.state.rip = NativeRip::Register(Gpr::RCX, 0);
        self.out.state.instruction = None;
        // The table is indexed by the low 16 bits of the target, without arithmetic that would change flags.
        self.out.put(Instruction::with2(Code::Movzx_r32_rm16, Register::EAX, Register::CX));
        let entry = MemoryOperand::new(
            Register::None,
            Register::RAX,
            8,
            i64::from(TABLE),
            8,
            false,
            Register::GS,
        );
        self.out.put(Instruction::with1(Code::Jmp_rm64, entry));
    }
}

/// The form of a conditional jump with a 32-bit displacement.
pub(super) fn near(code: Code) -> Code {
    code.as_near_branch()
}

/// The memory operand of `raw`, for use in another instruction.
fn operand(raw: &iced_x86::Instruction) -> MemoryOperand {
    // Relative to rip, iced-x86 gives the address itself as displacement, and encodes it relative
    // to the new place.
    MemoryOperand::new(
        raw.memory_base(),
        raw.memory_index(),
        raw.memory_index_scale(),
        raw.memory_displacement64().cast_signed(),
        raw.memory_displ_size(),
        false,
        raw.segment_prefix(),
    )
}
