//! Instructions of the program that use the reserved register, and the code around them.
//!
//! What for: while such an instruction runs, the register holds its native value and the record pointer is in a slot.
//! Consecutive such instructions share one swap. `push`, `pop` and `mov` of the whole register work on the slot
//! directly: function prologues do these with a callee-saved register. What not: branches (`branches`, `side_exit`).

use iced_x86::{Code, Instruction, OpKind, Register};

use super::area::{POINTER, RESERVED};
use super::emit::{slot, wide};
use super::plan::touches;
use super::writer::Writer;
use crate::moved::moved;

impl Writer<'_> {
    /// Loads the native value into the reserved register.
    pub(super) fn swap_in(&mut self) {
        let (Some(reserved), None) = (self.reserved, self.swapped) else { return };
        self.out.store(POINTER, reserved);
        self.out.restore(reserved, RESERVED);
        self.out.state.pointer_in_slot = true;
        self.swapped = Some(false);
    }

    /// Loads the record pointer into it again.
    pub(super) fn swap_out(&mut self) {
        let (Some(reserved), Some(changed)) = (self.reserved, self.swapped.take()) else { return };
        if changed {
            self.out.spill(reserved, RESERVED);
            self.out.load(reserved, POINTER);
        } else {
            // Unchanged: the slot still has the native value.
            self.out.load(reserved, POINTER);
            self.out.state.saved.insert(reserved, RESERVED);
        }
        self.out.state.pointer_in_slot = false;
    }

    /// Copies one instruction that is not a branch.
    pub(super) fn copy(&mut self, number: usize) {
        let instruction = &self.block.instructions[number];
        if let Some(reserved) = self.reserved.filter(|one| touches(instruction, *one)) {
            if self.swapped.is_none() {
                if let Some(other) = on_slot(&instruction.raw, wide(reserved)) {
                    self.out.put(other);
                    return;
                }
                self.swap_in();
            }
            let changes = instruction.registers().changed.contains(reserved);
            self.swapped = self.swapped.map(|changed| changed || changes);
        }
        self.copy_bytes(number);
    }

    /// Copies its bytes; only a displacement relative to its own address changes.
    fn copy_bytes(&mut self, number: usize) {
        let instruction = &self.block.instructions[number];
        match moved(instruction, self.bytes[number].bytes(), self.out.address()) {
            Ok(bytes) => self.out.put_bytes(&bytes),
            Err(why) => self.out.fail(why),
        }
    }
}

/// `raw` with the slot in place of the register, if that is possible in one instruction.
fn on_slot(
    raw: &Instruction,
    reserved: Register,
) -> Option<Result<Instruction, iced_x86::IcedError>> {
    let native = slot(RESERVED);
    match raw.code() {
        Code::Push_r64 => return Some(Instruction::with1(Code::Push_rm64, native)),
        Code::Pop_r64 => return Some(Instruction::with1(Code::Pop_rm64, native)),
        Code::Mov_r64_rm64 | Code::Mov_rm64_r64 => {}
        _ => return None,
    }
    let is_register = |operand| raw.op_kind(operand) == OpKind::Register;
    let (to, from) = (raw.op0_register(), raw.op1_register());
    match (is_register(0) && is_register(1), to == reserved, from == reserved) {
        (true, true, false) => Some(Instruction::with2(Code::Mov_rm64_r64, native, from)),
        (true, false, true) => Some(Instruction::with2(Code::Mov_r64_rm64, to, native)),
        _ => None,
    }
}
