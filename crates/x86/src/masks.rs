//! The bytes of a masked operand that are accessed.
//!
//! What for: the decoder's table knows the element type of a memory operand. The element of a mask bit is a property
//! of the *destination*, and the instruction determines whether a masked-off element is skipped. Here are the
//! differences. What not: gathers and scatters (`derive`).
//!
//! Source: Intel SDM vol. 2, 2.8 (exception classes of EVEX instructions). Classes E2..E6 with fault suppression
//! access only elements that a lane requires. Classes with NF ("no fault suppression": shuffles, permutes, packs,
//! aligns) read the whole operand whatever the mask.

use iced_x86::{Instruction, MemorySize, Mnemonic, OpKind, Register};

use crate::operand::{LaneMask, Masked, Occurrence};
use crate::register::{MaskRegister, VectorRegister};

/// Whether and how often `raw` accesses its memory operand of `bytes` bytes, and the bytes of all lanes.
pub(crate) fn occurrence(raw: &Instruction, bytes: u32) -> (Occurrence, u32) {
    if let Some(masked) = by_signs(raw) {
        return (Occurrence::Masked(masked), bytes);
    }
    match MaskRegister::from_iced(raw.op_mask()) {
        Some(mask) => by_mask_register(raw, LaneMask::Mask(mask), bytes),
        None => (Occurrence::Always, moved(raw, bytes)),
    }
}

/// `vmaskmov*`, `maskmovdqu`, `maskmovq`: the mask is the top bit of each element.
fn by_signs(raw: &Instruction) -> Option<Masked> {
    use Mnemonic as M;
    let (operand, element_bytes) = match raw.mnemonic() {
        M::Vmaskmovps | M::Vpmaskmovd => (1, 4),
        M::Vmaskmovpd | M::Vpmaskmovq => (1, 8),
        M::Maskmovdqu | M::Vmaskmovdqu | M::Maskmovq => (2, 1),
        _ => return None,
    };
    let register = raw.op_register(operand);
    let lanes = u8::try_from(register.size() / usize::from(element_bytes)).ok()?;
    let mask = match raw.mnemonic() {
        M::Maskmovq => LaneMask::MmxSigns(VectorRegister::from_number(register.number())?),
        _ => LaneMask::VectorSigns(VectorRegister::from_iced(register)?),
    };
    Some(Masked { mask, element_bytes, lanes })
}

fn by_mask_register(raw: &Instruction, mask: LaneMask, bytes: u32) -> (Occurrence, u32) {
    if reads_whole_operand(raw) {
        return (Occurrence::Always, bytes);
    }
    let element = element_bytes(raw, bytes);
    let lanes = lanes(raw, bytes, element);
    let masked = Masked { mask, element_bytes: element, lanes };
    if is_packed(raw.mnemonic()) {
        return (Occurrence::Packed(masked), u32::from(lanes) * u32::from(element));
    }
    (Occurrence::Masked(masked), bytes)
}

/// Compress and expand have the element as their memory size in the table; unmasked they move a whole vector.
fn moved(raw: &Instruction, bytes: u32) -> u32 {
    if is_packed(raw.mnemonic()) { largest_vector(raw) } else { bytes }
}

fn is_packed(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Vcompressps
            | M::Vcompresspd
            | M::Vpcompressb
            | M::Vpcompressw
            | M::Vpcompressd
            | M::Vpcompressq
            | M::Vexpandps
            | M::Vexpandpd
            | M::Vpexpandb
            | M::Vpexpandw
            | M::Vpexpandd
            | M::Vpexpandq
    )
}

/// Bytes of one mask bit, where they differ from the element type in the table.
fn element_bytes(raw: &Instruction, bytes: u32) -> u8 {
    use Mnemonic as M;
    let size = raw.memory_size();
    if size.is_broadcast() {
        return small(bytes);
    }
    match raw.mnemonic() {
        // Sums of neighbours: the lane is that of the wider result.
        M::Vpmaddubsw => 2,
        M::Vpmaddwd | M::Vpdpbusd | M::Vpdpbusds | M::Vpdpwssd | M::Vpdpwssds => 4,
        M::Vpmuldq | M::Vpmuludq => 8,
        // A complex number, one lane.
        M::Vfmulcsh | M::Vfcmulcsh | M::Vfmaddcsh | M::Vfcmaddcsh => 4,
        _ => small(u32::try_from(size.element_size()).unwrap_or(bytes)).min(small(bytes)).max(1),
    }
}

fn small(bytes: u32) -> u8 {
    u8::try_from(bytes).unwrap_or(u8::MAX)
}

fn lanes(raw: &Instruction, bytes: u32, element: u8) -> u8 {
    let element = u32::from(element.max(1));
    let vector = if raw.memory_size().is_broadcast() {
        broadcast_bytes(raw.memory_size())
    } else if is_broadcast_load(raw.mnemonic()) || is_packed(raw.mnemonic()) {
        largest_vector(raw)
    } else {
        bytes
    };
    small((vector / element).clamp(1, 64))
}

/// Bytes of the largest vector register among the operands.
fn largest_vector(raw: &Instruction) -> u32 {
    let registers = (0..raw.op_count())
        .filter(|&operand| raw.op_kind(operand) == OpKind::Register)
        .map(|operand| raw.op_register(operand));
    let sizes = registers.filter(|register| register.is_vector_register()).map(Register::size);
    sizes.max().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0)
}

fn is_broadcast_load(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Vbroadcastss
            | M::Vbroadcastsd
            | M::Vbroadcastf32x2
            | M::Vbroadcastf32x4
            | M::Vbroadcastf32x8
            | M::Vbroadcastf64x2
            | M::Vbroadcastf64x4
            | M::Vbroadcasti32x2
            | M::Vbroadcasti32x4
            | M::Vbroadcasti32x8
            | M::Vbroadcasti64x2
            | M::Vbroadcasti64x4
            | M::Vpbroadcastb
            | M::Vpbroadcastw
            | M::Vpbroadcastd
            | M::Vpbroadcastq
    )
}

/// Classes E4NF, E5NF, E6NF and the like, whose memory operand is not a plain element per lane.
fn reads_whole_operand(raw: &Instruction) -> bool {
    use Mnemonic as M;
    match raw.mnemonic() {
        M::Valignd
        | M::Valignq
        | M::Vpalignr
        | M::Vdbpsadbw
        | M::Vpmultishiftqb
        | M::Vgf2p8affineqb
        | M::Vgf2p8affineinvqb
        | M::Vpshufbitqmb
        | M::Vpconflictd
        | M::Vpconflictq
        | M::Vmovddup
        | M::Vmovshdup
        | M::Vmovsldup
        | M::V4fmaddps
        | M::V4fmaddss
        | M::V4fnmaddps
        | M::V4fnmaddss
        | M::Vp4dpwssd
        | M::Vp4dpwssds => true,
        M::Vpackssdw
        | M::Vpacksswb
        | M::Vpackusdw
        | M::Vpackuswb
        | M::Vpshufb
        | M::Vpshufd
        | M::Vpshufhw
        | M::Vpshuflw
        | M::Vshufps
        | M::Vshufpd
        | M::Vshuff32x4
        | M::Vshuff64x2
        | M::Vshufi32x4
        | M::Vshufi64x2
        | M::Vunpckhpd
        | M::Vunpckhps
        | M::Vunpcklpd
        | M::Vunpcklps
        | M::Vpunpckhbw
        | M::Vpunpckhwd
        | M::Vpunpckhdq
        | M::Vpunpckhqdq
        | M::Vpunpcklbw
        | M::Vpunpcklwd
        | M::Vpunpckldq
        | M::Vpunpcklqdq => true,
        M::Vpermb
        | M::Vpermw
        | M::Vpermd
        | M::Vpermq
        | M::Vpermps
        | M::Vpermpd
        | M::Vpermilps
        | M::Vpermilpd
        | M::Vpermi2b
        | M::Vpermi2w
        | M::Vpermi2d
        | M::Vpermi2q
        | M::Vpermi2ps
        | M::Vpermi2pd
        | M::Vpermt2b
        | M::Vpermt2w
        | M::Vpermt2d
        | M::Vpermt2q
        | M::Vpermt2ps
        | M::Vpermt2pd => true,
        M::Vinsertf32x4
        | M::Vinsertf32x8
        | M::Vinsertf64x2
        | M::Vinsertf64x4
        | M::Vinserti32x4
        | M::Vinserti32x8
        | M::Vinserti64x2
        | M::Vinserti64x4 => true,
        // With the count in memory (third operand), 16 bytes of count for all lanes.
        M::Vpsllw
        | M::Vpslld
        | M::Vpsllq
        | M::Vpsraw
        | M::Vpsrad
        | M::Vpsraq
        | M::Vpsrlw
        | M::Vpsrld
        | M::Vpsrlq => raw.op2_kind() == OpKind::Memory,
        _ => false,
    }
}

/// Bytes of the vector that an embedded broadcast fills.
fn broadcast_bytes(size: MemorySize) -> u32 {
    use MemorySize as S;
    match size {
        S::Broadcast32_Float16 => 4,
        S::Broadcast64_UInt32
        | S::Broadcast64_Int32
        | S::Broadcast64_Float16
        | S::Broadcast64_Float32 => 8,
        S::Broadcast128_Int16
        | S::Broadcast128_UInt16
        | S::Broadcast128_UInt32
        | S::Broadcast128_Int32
        | S::Broadcast128_UInt52
        | S::Broadcast128_UInt64
        | S::Broadcast128_Int64
        | S::Broadcast128_Float16
        | S::Broadcast128_Float32
        | S::Broadcast128_Float64
        | S::Broadcast128_2xInt16
        | S::Broadcast128_2xInt32
        | S::Broadcast128_2xUInt32
        | S::Broadcast128_2xFloat16
        | S::Broadcast128_2xBFloat16 => 16,
        S::Broadcast256_Int16
        | S::Broadcast256_UInt16
        | S::Broadcast256_UInt32
        | S::Broadcast256_Int32
        | S::Broadcast256_UInt52
        | S::Broadcast256_UInt64
        | S::Broadcast256_Int64
        | S::Broadcast256_Float16
        | S::Broadcast256_Float32
        | S::Broadcast256_Float64
        | S::Broadcast256_2xInt16
        | S::Broadcast256_2xInt32
        | S::Broadcast256_2xUInt32
        | S::Broadcast256_2xFloat16
        | S::Broadcast256_2xBFloat16 => 32,
        _ => 64,
    }
}
