//! Code that checks for room and writes a record.
//!
//! What not: the layout (`plan`). The reserved register points to the record while its first values are stored, and
//! after it once it is *recorded*: later values are at negative displacements. The pointer is incremented once per
//! block, because the chain of these additions is the cost of a block (2.0 to 2.5 ns in a prototype).

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::area::{LIMIT, NEGATIVE_LIMIT, RESERVED};
use super::emit::{Label, at, slot, wide};
use super::plan::{Form, Plan, Store, WORD};
use super::writer::{BORROWED, SPILLED_RCX, Writer};
use crate::liveness::{Flags, live_at_start};
use crate::register::Gpr;

impl Writer<'_> {
    /// Whether the check at the entry needs rcx, because the flags are in use.
    pub(super) fn check_borrows(&self) -> bool {
        let live = live_at_start(&self.block.instructions).flags;
        let changed = if self.reserved.is_some() { Flags::STATUS } else { Flags::INC };
        changed.without(live) != changed
    }

    /// Leaves if there is no more room, or if the block's counter is used up.
    pub(super) fn check(&mut self, leave: Label, borrows: bool) {
        match self.reserved {
            None => self.count(leave, borrows),
            Some(reserved) if borrows => self.check_room_without_flags(reserved, leave),
            Some(reserved) => {
                self.out.put(Instruction::with2(Code::Cmp_r64_rm64, wide(reserved), slot(LIMIT)));
                self.out.branch(Code::Jae_rel32_64, leave);
            }
        }
    }

    /// pointer - limit is negative while there is room: its top byte is then 0xff, and otherwise 0.
    fn check_room_without_flags(&mut self, reserved: Gpr, leave: Label) {
        self.out.spill(Gpr::RCX, SPILLED_RCX);
        self.out.load(Gpr::RCX, NEGATIVE_LIMIT);
        let sum = MemoryOperand::with_base_index(Register::RCX, wide(reserved));
        self.out.put(Instruction::with2(Code::Lea_r64_m, Register::RCX, sum));
        // No instruction tests a sign without flags: bswap moves the top byte down, and jrcxz tests it for 0.
        self.out.put(Instruction::with1(Code::Bswap_r64, Register::RCX));
        self.out.put(Instruction::with2(Code::Movzx_r32_rm8, Register::ECX, Register::CL));
        self.out.branch(Code::Jrcxz_rel8_64, leave);
        self.out.restore(Gpr::RCX, SPILLED_RCX);
    }

    /// Header, values at the start, increment. A timed record is written at its load.
    pub(super) fn open_record(&mut self, plan: &Plan) {
        let (Some(reserved), true) = (self.reserved, plan.layout.words > 0 && plan.timed.is_none())
        else {
            return;
        };
        self.header(reserved);
        for store in plan.stores.iter().filter(|store| store.at == 0) {
            self.store_value(reserved, store, 0);
        }
        self.bump(reserved, plan);
    }

    /// Block number in the lower half, way 0 in the upper half.
    pub(super) fn header(&mut self, reserved: Gpr) {
        let number = self.site.block.cast_signed();
        // The immediate is sign-extended, so block numbers stay below 2^31 and the way is 0.
        self.out.put(Instruction::with2(Code::Mov_rm64_imm32, at(reserved, 0), number));
    }

    pub(super) fn bump(&mut self, reserved: Gpr, plan: &Plan) {
        // lea and not add, because the program's flags may be live.
        let behind = at(reserved, bytes(plan.layout.words));
        self.out.put(Instruction::with2(Code::Lea_r64_m, wide(reserved), behind));
        self.out.state.recorded = true;
    }

    /// Stores the values that appear before an instruction after the first.
    pub(super) fn store_roots(&mut self, plan: &Plan, number: usize) {
        let (Some(reserved), true) = (self.reserved, number > 0 && plan.timed.is_none()) else {
            return;
        };
        for store in plan.stores.iter().filter(|store| store.at == number) {
            self.store_value(reserved, store, -bytes(plan.layout.words));
        }
    }

    /// `record`: displacement of the record from the reserved register, which holds the record pointer.
    pub(super) fn store_value(&mut self, reserved: Gpr, store: &Store, record: i32) {
        let word = at(reserved, record + bytes(store.word));
        match store.form {
            Form::General(register) if register == reserved => {
                self.out.spill(Gpr::RAX, BORROWED);
                self.out.load(Gpr::RAX, RESERVED);
                self.out.put(Instruction::with2(Code::Mov_rm64_r64, word, Register::RAX));
                self.out.restore(Gpr::RAX, BORROWED);
            }
            Form::General(register) => {
                self.out.put(Instruction::with2(Code::Mov_rm64_r64, word, wide(register)));
            }
            Form::Vector { register, bytes, legacy } => {
                let (code, first) = vector_store(bytes, legacy);
                self.out.put(Instruction::with2(code, word, first + register.number() as u32));
            }
            Form::Mask { number, wide } => {
                let code = if wide { Code::VEX_Kmovq_m64_kr } else { Code::VEX_Kmovw_m16_kr };
                self.out.put(Instruction::with2(code, word, Register::K0 + number as u32));
            }
            Form::Mmx { number } => {
                let register = Register::MM0 + number as u32;
                self.out.put(Instruction::with2(Code::Movq_mmm64_mm, word, register));
            }
        }
    }
}

fn vector_store(bytes: usize, legacy: bool) -> (Code, Register) {
    match (bytes, legacy) {
        (16, true) => (Code::Movups_xmmm128_xmm, Register::XMM0),
        (16, false) => (Code::VEX_Vmovups_xmmm128_xmm, Register::XMM0),
        (32, _) => (Code::VEX_Vmovups_ymmm256_ymm, Register::YMM0),
        _ => (Code::EVEX_Vmovups_zmmm512_k1z_zmm, Register::ZMM0),
    }
}

/// Words as a displacement in bytes. A block has at most a few hundred instructions with at most 10 words each.
pub(super) fn bytes(words: usize) -> i32 {
    i32::try_from(words * WORD).unwrap_or(i32::MAX)
}
