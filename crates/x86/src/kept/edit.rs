//! An instruction with a register in place of its memory operand.
//!
//! What for: the other half of `kept`. Most instructions take either in the same position (SDM vol. 2, r/m operands).
//! Scalar moves between memory and vector registers become whole moves: between registers they would merge, which no
//! compiler wants. What not: instructions whose memory operand has no register form; they are refused.

use base::RemoteAddr;
use iced_x86::{Code, Encoder, Instruction, OpKind, Register};

use super::expression::MemoryRange;
use crate::refusal::Refusal;
use crate::register::Gpr;

/// A register that a loop does not use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FreeRegister {
    /// General-purpose.
    General(Gpr),
    /// xmm, by number; below [`FreeRegister::VECTORS`].
    Vector(u8),
}

impl FreeRegister {
    /// Number of vector registers that instructions without EVEX can name.
    pub(super) const VECTORS: u8 = 16;

    /// The register, if it is a general-purpose one.
    pub(super) fn general(self) -> Option<Gpr> {
        if let FreeRegister::General(register) = self { Some(register) } else { None }
    }

    /// Its part of this length.
    pub(super) fn named(self, bytes: u32) -> Option<Register> {
        let first = match (self, bytes) {
            (FreeRegister::General(register), 1) => return Some(low_byte(register)),
            (FreeRegister::General(_), 2) => Register::AX,
            (FreeRegister::General(_), 4) => Register::EAX,
            (FreeRegister::General(_), 8) => Register::RAX,
            (FreeRegister::Vector(_), 4 | 8 | 16) => Register::XMM0,
            (FreeRegister::Vector(_), 32) => Register::YMM0,
            _ => return None,
        };
        let number = match self {
            FreeRegister::General(register) => register.number() as u32,
            FreeRegister::Vector(number) => u32::from(number),
        };
        Some(first + number)
    }
}

/// The low-byte registers are not numbered consecutively: ah to bh are between them.
fn low_byte(register: Gpr) -> Register {
    const LEGACY: [Register; 4] = [Register::AL, Register::CL, Register::DL, Register::BL];
    let number = register.number();
    LEGACY.get(number).copied().unwrap_or_else(|| Register::SPL + (number as u32 - 4))
}

/// `raw` with `free` in place of its memory operand at `range`; `None` if there is no such instruction.
pub(super) fn edited(
    raw: &Instruction,
    free: FreeRegister,
    range: &MemoryRange,
) -> Option<Instruction> {
    let register = free.named(range.bytes)?;
    let is_vector = matches!(free, FreeRegister::Vector(_));
    // Constants of vector code are at fixed addresses: the compiler could keep them in registers if that were useful.
    if is_vector && range.is_fixed() && !is_store(raw) {
        return None;
    }
    let edited = match whole_move(raw.code()).filter(|_| is_vector) {
        Some((code, true)) => Instruction::with2(code, raw.op0_register(), register).ok()?,
        Some((code, false)) => Instruction::with2(code, register, raw.op1_register()).ok()?,
        None => {
            let memory = (0..raw.op_count()).find(|at| raw.op_kind(*at) == OpKind::Memory)?;
            let mut edited = *raw;
            edited.set_memory_base(Register::None);
            edited.set_memory_index(Register::None);
            edited.set_memory_displ_size(0);
            edited.set_segment_prefix(Register::None);
            edited.set_op_kind(memory, OpKind::Register);
            edited.set_op_register(memory, register);
            edited
        }
    };
    // The encoder knows whether the instruction has this form.
    encoded(&edited, RemoteAddr(0)).is_ok().then_some(edited)
}

fn is_store(raw: &Instruction) -> bool {
    raw.op_count() > 0 && raw.op0_kind() == OpKind::Memory
}

/// The move of a whole register that replaces a scalar move, and whether it loads.
fn whole_move(code: Code) -> Option<(Code, bool)> {
    Some(match code {
        Code::Movsd_xmm_xmmm64 | Code::Movss_xmm_xmmm32 => (Code::Movaps_xmm_xmmm128, true),
        Code::Movsd_xmmm64_xmm | Code::Movss_xmmm32_xmm => (Code::Movaps_xmm_xmmm128, false),
        Code::VEX_Vmovsd_xmm_m64 | Code::VEX_Vmovss_xmm_m32 => {
            (Code::VEX_Vmovaps_xmm_xmmm128, true)
        }
        Code::VEX_Vmovsd_m64_xmm | Code::VEX_Vmovss_m32_xmm => {
            (Code::VEX_Vmovaps_xmm_xmmm128, false)
        }
        _ => return None,
    })
}

/// A move from a free register.
pub(super) fn copy(to: Gpr, from: FreeRegister) -> Option<Instruction> {
    let names =
        (FreeRegister::General(to).named(8)?, from.named(8).filter(|name| name.is_gpr64())?);
    Instruction::with2(Code::Mov_r64_rm64, names.0, names.1).ok()
}

/// The bytes of an instruction at an address.
pub(super) fn encoded(instruction: &Instruction, at: RemoteAddr) -> Result<Vec<u8>, Refusal> {
    let mut encoder = Encoder::new(64);
    encoder.encode(instruction, at.0).map_err(|_| Refusal::Invalid)?;
    Ok(encoder.take_buffer())
}
