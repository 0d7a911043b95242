//! The results of integer instructions, as formulas over their operands.
//!
//! What for: addresses that depend on data. What not: a complete list; the result of any other instruction is
//! unknown. Sources: Intel SDM vol. 2, page of each instruction. Assumption: flags do not matter, nor the upper half
//! of a product that no instruction here reads.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::value::Operation;
use crate::register::Gpr;

/// An operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    /// The lowest bits of a register.
    Register(Gpr, u32),
    Constant(u64),
    /// The value that the only access of the instruction loads, zero-extended.
    Loaded,
}

/// The lowest `bits` of an operation on two operands, in a register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Formula {
    pub(super) to: Gpr,
    pub(super) bits: u32,
    pub(super) operation: Operation,
    pub(super) a: Operand,
    pub(super) b: Operand,
}

/// The formulas of `raw`; each register once.
pub(super) fn formulas(raw: &Instruction) -> Vec<Formula> {
    if raw.mnemonic() == Mnemonic::Mul && raw.op0_kind() == OpKind::Register {
        return product(raw);
    }
    if raw.mnemonic() == Mnemonic::Cdqe {
        let (a, b) = (Operand::Register(Gpr::RAX, 32), Operand::Constant(32));
        return vec![Formula { to: Gpr::RAX, bits: 64, operation: Operation::Signed, a, b }];
    }
    two(raw).into_iter().collect()
}

/// `mul` of 64 bits.
fn product(raw: &Instruction) -> Vec<Formula> {
    let Some(b @ Operand::Register(_, 64)) = operand(raw, 0) else { return Vec::new() };
    let a = Operand::Register(Gpr::RAX, 64);
    let of = |to, operation| Formula { to, bits: 64, operation, a, b };
    vec![of(Gpr::RAX, Operation::Times), of(Gpr::RDX, Operation::High)]
}

fn two(raw: &Instruction) -> Option<Formula> {
    use Mnemonic as M;
    if raw.op_count() == 0 || raw.op0_kind() != OpKind::Register {
        return None;
    }
    let to = raw.op0_register();
    let bits = if to.is_gpr64() { 64 } else { 32 };
    if !to.is_gpr64() && !to.is_gpr32() {
        return None;
    }
    let whole = |operation, a, b| Some(Formula { to: Gpr::from_iced(to)?, bits, operation, a, b });
    let first = || operand(raw, 0);
    let second = || operand(raw, 1);
    match raw.mnemonic() {
        M::Mov | M::Movzx => whole(Operation::Plus, second()?, Operand::Constant(0)),
        M::Movsx | M::Movsxd => {
            let Operand::Register(_, of) = second()? else { return None };
            whole(Operation::Signed, second()?, Operand::Constant(of.into()))
        }
        M::Add => whole(Operation::Plus, first()?, second()?),
        M::Sub => whole(Operation::Minus, first()?, second()?),
        M::And => whole(Operation::And, first()?, second()?),
        M::Or => whole(Operation::Or, first()?, second()?),
        M::Xor => whole(Operation::Xor, first()?, second()?),
        M::Imul if raw.op_count() == 2 => whole(Operation::Times, first()?, second()?),
        M::Imul if raw.op_count() == 3 => whole(Operation::Times, second()?, operand(raw, 2)?),
        M::Shl | M::Shr | M::Sar => {
            shift(raw, first()?, bits).and_then(|(of, a, b)| whole(of, a, b))
        }
        M::Inc => whole(Operation::Plus, first()?, Operand::Constant(1)),
        M::Dec => whole(Operation::Minus, first()?, Operand::Constant(1)),
        M::Neg => whole(Operation::Minus, Operand::Constant(0), first()?),
        M::Not => whole(Operation::Xor, first()?, Operand::Constant(u64::MAX)),
        _ => None,
    }
}

/// A shift by a constant. An arithmetic shift of 32 bits only if the operand is the whole register.
fn shift(raw: &Instruction, of: Operand, bits: u32) -> Option<(Operation, Operand, Operand)> {
    let operation = match raw.mnemonic() {
        Mnemonic::Shl => Operation::Left,
        Mnemonic::Shr => Operation::Right,
        Mnemonic::Sar if bits == 64 => Operation::RightSigned,
        _ => return None,
    };
    let Operand::Constant(by) = operand(raw, 1)? else { return None };
    // The processor masks the count likewise (SDM vol. 2, SHL).
    Some((operation, of, Operand::Constant(by & u64::from(bits - 1))))
}

fn operand(raw: &Instruction, number: u32) -> Option<Operand> {
    match raw.op_kind(number) {
        OpKind::Register => {
            let register = raw.op_register(number);
            let bits = match register {
                Register::AH | Register::CH | Register::DH | Register::BH => return None,
                _ if register.is_gpr64() => 64,
                _ if register.is_gpr32() => 32,
                _ if register.is_gpr16() => 16,
                _ if register.is_gpr8() => 8,
                _ => return None,
            };
            Some(Operand::Register(Gpr::from_iced(register)?, bits))
        }
        OpKind::Memory => Some(Operand::Loaded),
        OpKind::Immediate8
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64 => Some(Operand::Constant(raw.immediate(number))),
        _ => None,
    }
}
