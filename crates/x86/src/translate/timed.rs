//! A load between two readings of the time-stamp counter.
//!
//! What for: flavour `Timed`. `lfence` waits for all earlier instructions and delays all later ones (SDM vol. 2,
//! LFENCE; on AMD with DE_CFG[1] set, as Linux does), so nothing else of the block overlaps the load. Borrowed
//! registers are restored before the second `lfence`: the address must be ready when the load starts, or it would be
//! timed too. Neither instruction changes flags. What not: the constant cost of the fences, which is in the time; the
//! reader subtracts it.

use iced_x86::{Code, Instruction, Register};

use super::area::TEMPORARY;
use super::emit::{at, slot};
use super::plan::{Plan, touches};
use super::record::bytes;
use super::writer::{SPILLED_RAX, SPILLED_RCX, Writer};
use crate::register::Gpr;

/// The slot for rdx is the one that the way to the table uses for rcx; they are never in use together.
const SPILLED_RDX: i32 = SPILLED_RCX;

impl Writer<'_> {
    /// Writes the record with both stamps (start in the lower half of its last word, end in the upper half), and the
    /// load.
    pub(super) fn timed_load(&mut self, plan: &Plan, number: usize) {
        let (Some(reserved), Some((_, word))) = (self.reserved, plan.layout.timed) else { return };
        self.header(reserved);
        for store in &plan.stores {
            self.store_value(reserved, store, 0);
        }
        if touches(&self.block.instructions[number], reserved) {
            self.swap_in();
        }
        self.read_clock();
        self.out.put(Instruction::with2(Code::Mov_rm32_r32, slot(TEMPORARY), Register::EAX));
        self.give_back();
        self.out.put(Ok(Instruction::with(Code::Lfence)));
        self.copy(number);
        self.behind(number);
        self.read_clock();
        self.out.put(Instruction::with2(Code::Mov_rm32_r32, slot(TEMPORARY + 4), Register::EAX));
        self.give_back();
        self.swap_out();
        self.out.spill(Gpr::RAX, SPILLED_RAX);
        // Both stamps at once: they lie next to each other, as in the record.
        self.out.load(Gpr::RAX, TEMPORARY);
        let stamps = at(reserved, bytes(word));
        self.out.put(Instruction::with2(Code::Mov_rm64_r64, stamps, Register::RAX));
        self.out.restore(Gpr::RAX, SPILLED_RAX);
        self.bump(reserved, plan);
    }

    fn read_clock(&mut self) {
        self.out.spill(Gpr::RAX, SPILLED_RAX);
        self.out.spill(Gpr::RDX, SPILLED_RDX);
        self.out.put(Ok(Instruction::with(Code::Lfence)));
        self.out.put(Ok(Instruction::with(Code::Rdtsc)));
    }

    fn give_back(&mut self) {
        self.out.restore(Gpr::RDX, SPILLED_RDX);
        self.out.restore(Gpr::RAX, SPILLED_RAX);
    }

    /// The state after an instruction that is not a branch.
    fn behind(&mut self, number: usize) {
        if number + 1 < self.block.instructions.len() {
            self.at_instruction(number + 1);
        } else {
            self.at_target(self.block.instructions[number].next_address());
        }
    }
}
