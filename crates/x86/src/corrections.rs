//! Corrections to the register tables of the decoder.
//!
//! What not: memory operands (`derive`, `masks`). Sources: Intel SDM vol. 2, AMD APM vol. 3, page of each instruction.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::instruction::RegisterEffect;
use crate::register::{GprSet, MaskRegister, VectorRegister};

/// Corrects what the decoder's table says of an instruction.
pub(crate) fn correct_registers(raw: &Instruction, effect: &mut RegisterEffect) {
    // A `cmov` of 32 bits clears the upper half even if the condition is false, and then keeps the lower half: never
    // a kill, whatever the table says.
    if moves_on_condition(raw.mnemonic()) {
        effect.killed = GprSet::default();
    }
    // bsf and bsr of 0 leave the destination unchanged (AMD APM; SDM: "undefined", the same in practice). Processors
    // without BMI1 and LZCNT execute tzcnt and lzcnt as these.
    if matches!(raw.mnemonic(), Mnemonic::Bsf | Mnemonic::Bsr | Mnemonic::Tzcnt | Mnemonic::Lzcnt) {
        effect.killed = GprSet::default();
    }
    // A nop that changes nothing if shadow stacks are off (SDM vol. 2, RDSSP).
    if matches!(raw.mnemonic(), Mnemonic::Rdsspd | Mnemonic::Rdsspq) {
        effect.killed = GprSet::default();
    }
    // A shift of a 32-bit register by a masked count of 0 also clears the upper half and reads the register, so
    // nothing needs correction. A gather changes its mask, although the table says that it only reads it.
    if raw.is_vsib() {
        if let Some(mask) = MaskRegister::from_iced(raw.op_mask()) {
            effect.masks_changed |= 1 << mask.number();
        }
        for operand in
            (0..raw.op_count()).filter(|&operand| raw.op_kind(operand) == OpKind::Register)
        {
            if let Some(vector) = VectorRegister::from_iced(raw.op_register(operand)) {
                effect.vectors_changed |= 1 << vector.number();
            }
        }
    }
    // x87 registers are the MMX registers; which one a push writes depends on TOP.
    effect.mmx_changed |= raw.fpu_stack_increment_info().writes_top();
    // The table has no registers for these two.
    match raw.mnemonic() {
        Mnemonic::Fxrstor | Mnemonic::Fxrstor64 => {
            effect.mmx_changed = true;
            effect.vectors_changed = u32::MAX;
        }
        Mnemonic::Frstor => effect.mmx_changed = true,
        _ => {}
    }
}

fn moves_on_condition(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Cmova
            | M::Cmovae
            | M::Cmovb
            | M::Cmovbe
            | M::Cmove
            | M::Cmovg
            | M::Cmovge
            | M::Cmovl
            | M::Cmovle
            | M::Cmovne
            | M::Cmovno
            | M::Cmovnp
            | M::Cmovns
            | M::Cmovo
            | M::Cmovp
            | M::Cmovs
    )
}

/// Whether `raw` is a shift or rotate that takes its count from CL.
pub(crate) fn is_shift_by_cl(raw: &Instruction) -> bool {
    let by_cl = (1..raw.op_count()).any(|operand| {
        raw.op_kind(operand) == OpKind::Register && raw.op_register(operand) == Register::CL
    });
    use Mnemonic as M;
    by_cl
        && matches!(
            raw.mnemonic(),
            M::Rol
                | M::Ror
                | M::Rcl
                | M::Rcr
                | M::Shl
                | M::Sal
                | M::Shr
                | M::Sar
                | M::Shld
                | M::Shrd
        )
}
