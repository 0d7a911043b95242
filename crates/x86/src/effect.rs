//! The effect of simple integer instructions on 64-bit registers, in symbols.
//!
//! What for: `roots` follows values through these. What not: a complete list; any other instruction changes its
//! registers to unknown values, which is always right. Sources: Intel SDM vol. 2, page of each instruction.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

use crate::register::Gpr;

/// The new value of a register, in terms of the values *before* the instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// This constant.
    Constant(u64),
    /// The old value of a register plus this, modulo 2^64.
    Plus(Gpr, u64),
}

/// The exactly known changes of `raw`. Each register occurs once.
pub(crate) fn changes(raw: &Instruction) -> Vec<(Gpr, Change)> {
    let mut changes = stack_pointer(raw);
    changes.extend(arithmetic(raw));
    changes
}

fn stack_pointer(raw: &Instruction) -> Vec<(Gpr, Change)> {
    use Mnemonic as M;
    let (sp, bp) = (Gpr::RSP, Gpr::RBP);
    match raw.code() {
        Code::Leaveq => return vec![(sp, Change::Plus(bp, 8))],
        Code::Enterq_imm16_imm8 => {
            let locals = u64::from(raw.immediate16());
            // Modulo 32. Each level pushes a frame pointer after rbp (SDM vol. 2, ENTER).
            let level = u64::from(raw.immediate8_2nd() & 31);
            let frame = Change::Plus(sp, 8u64.wrapping_neg());
            let pushed = 8 + 8 * level + locals;
            return vec![(bp, frame), (sp, Change::Plus(sp, pushed.wrapping_neg()))];
        }
        _ => {}
    }
    let moves = match raw.mnemonic() {
        M::Push | M::Pushf | M::Pushfq | M::Popf | M::Popfq | M::Call | M::Ret => true,
        // `pop rsp` loads it.
        M::Pop => {
            raw.op0_kind() != OpKind::Register || Gpr::from_iced(raw.op0_register()) != Some(sp)
        }
        _ => false,
    };
    if !moves {
        return Vec::new();
    }
    let step = i64::from(raw.stack_pointer_increment());
    vec![(sp, Change::Plus(sp, step.cast_unsigned()))]
}

fn arithmetic(raw: &Instruction) -> Vec<(Gpr, Change)> {
    use Mnemonic as M;
    let Some((to, whole)) = destination(raw) else {
        return match raw.code() {
            Code::Loop_rel8_64_RCX | Code::Loope_rel8_64_RCX | Code::Loopne_rel8_64_RCX => {
                vec![(Gpr::RCX, Change::Plus(Gpr::RCX, u64::MAX))]
            }
            _ => Vec::new(),
        };
    };
    let change = match raw.mnemonic() {
        M::Mov if whole => moved(raw),
        // A write of 32 bits clears the upper half.
        M::Mov => constant(raw).map(|value| Change::Constant(value & 0xffff_ffff)),
        M::Xor | M::Sub if zeroes(raw) => Some(Change::Constant(0)),
        M::Add if whole => constant(raw).map(|value| Change::Plus(to, value)),
        M::Sub if whole => constant(raw).map(|value| Change::Plus(to, value.wrapping_neg())),
        M::Inc if whole => Some(Change::Plus(to, 1)),
        M::Dec if whole => Some(Change::Plus(to, u64::MAX)),
        M::Lea if whole => loaded_address(raw),
        M::Xchg if whole => return exchanged(raw, to),
        _ => None,
    };
    change.map(|change| vec![(to, change)]).unwrap_or_default()
}

/// The constant that `raw` adds to the lower 32 bits of `register`, if that is all it does to it.
pub(crate) fn narrow_step(raw: &Instruction, register: Gpr) -> Option<u32> {
    use Mnemonic as M;
    if destination(raw) != Some((register, false)) {
        return None;
    }
    // Cut to 32 bits, because the encoding's constant is sign-extended.
    let step = || constant(raw).map(|value| value as u32);
    match raw.mnemonic() {
        M::Add => step(),
        M::Sub => step().map(u32::wrapping_neg),
        M::Inc => Some(1),
        M::Dec => Some(u32::MAX),
        _ => None,
    }
}

/// The first operand, if it is a register of 64 (`true`) or 32 bits.
fn destination(raw: &Instruction) -> Option<(Gpr, bool)> {
    let register = raw.op0_register();
    let fits = raw.op_count() > 0
        && raw.op0_kind() == OpKind::Register
        && (register.is_gpr64() || register.is_gpr32());
    fits.then(|| Gpr::from_iced(register).map(|gpr| (gpr, register.is_gpr64()))).flatten()
}

fn moved(raw: &Instruction) -> Option<Change> {
    if raw.op1_kind() == OpKind::Register {
        let from = raw.op1_register();
        return Gpr::from_iced(from).filter(|_| from.is_gpr64()).map(|from| Change::Plus(from, 0));
    }
    constant(raw).map(Change::Constant)
}

/// The second operand, if it is a constant; sign-extended to 64 bits as encoded.
fn constant(raw: &Instruction) -> Option<u64> {
    match raw.op1_kind() {
        OpKind::Immediate8
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64 => Some(raw.immediate(1)),
        _ => None,
    }
}

/// `xor r, r` and `sub r, r`.
fn zeroes(raw: &Instruction) -> bool {
    raw.op1_kind() == OpKind::Register && raw.op1_register() == raw.op0_register()
}

fn loaded_address(raw: &Instruction) -> Option<Change> {
    let displacement = raw.memory_displacement64();
    match (raw.memory_base(), raw.memory_index()) {
        (Register::RIP | Register::None, Register::None)
            if raw.memory_displ_size() == 8 || raw.memory_base() == Register::RIP =>
        {
            Some(Change::Constant(displacement))
        }
        (base, Register::None) if base.is_gpr64() => {
            Gpr::from_iced(base).map(|base| Change::Plus(base, displacement))
        }
        _ => None,
    }
}

fn exchanged(raw: &Instruction, to: Gpr) -> Vec<(Gpr, Change)> {
    match Gpr::from_iced(raw.op1_register()) {
        Some(other) if raw.op1_kind() == OpKind::Register && other != to => {
            vec![(to, Change::Plus(other, 0)), (other, Change::Plus(to, 0))]
        }
        _ => Vec::new(),
    }
}
