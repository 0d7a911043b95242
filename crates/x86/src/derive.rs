//! From the decoder's tables to our accesses, with the corrections that exact addresses need.
//!
//! What for: `iced_x86::InstructionInfo` lists memory operands, including implicit ones. It is meant for data-flow
//! analysis. Where that differs from what the processor does, we correct it, for these reasons:
//! * *Order.* It lists operands as written (destination first); the processor reads before it writes.
//! * *Conditional.* It calls the load of `cmov` and the store of `cmpxchg` conditional. Both always happen (SDM vol.
//!   2, CMOVcc: a fault is raised also when the condition is false; CMPXCHG: "receives a write cycle").
//! * *Strings.* With a prefix it gives no size and no count.
//! * *Bit strings.* `bt m, r` is listed at the base address; the bit number moves it by up to 2^60 bytes.
//! * *Lines.* `prefetch`, `cldemote`, `clzero` are listed without memory, `clflush` and `clwb` with a byte; all act
//!   on a line.
//! * *Masks.* Masked elements: see `masks`.
//! * *Sizes.* For an embedded broadcast the table gives one element, which is right.
//!
//! What not: which instructions may run in a copy (`refused_instructions`).

use iced_x86::{
    Code, CodeSize, Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

use crate::masks;
use crate::operand::{
    Access, Address, AddressWidth, ExtraTerm, Index, Kind, LINE_BYTES, LaneAddress, LaneMask,
    Location, Masked, Occurrence, Repeat, Segment,
};
use crate::refusal::Refusal;
use crate::register::{Gpr, MaskRegister, VectorRegister};

/// The accesses of `raw` in the order of execution.
pub(crate) fn accesses(raw: &Instruction, info: &InstructionInfo) -> Result<Vec<Access>, Refusal> {
    // The table lists one element only: count and direction come from registers.
    if raw.is_string_instruction() {
        return strings(raw, info);
    }
    if let Some(kind) = line_kind(raw.mnemonic()) {
        return Ok(vec![line(line_address(raw), kind)]);
    }
    if raw.is_vsib() {
        return gather(raw, info).map(|access| vec![access]).ok_or(Refusal::UnknownSize);
    }
    let used = info.used_memory().iter().filter(|used| kind(used.access()).is_some());
    let mut accesses = Vec::new();
    for used in used {
        accesses.push(plain(raw, used)?);
    }
    // `enter` alternates and is listed so. In all other instructions the loads come before the stores; the sort is
    // stable.
    if raw.mnemonic() != Mnemonic::Enter {
        accesses.sort_by_key(|access| matches!(access.kind, Kind::Write | Kind::StreamingWrite));
    }
    Ok(accesses)
}

fn plain(raw: &Instruction, used: &UsedMemory) -> Result<Access, Refusal> {
    let kind = kind(used.access()).unwrap_or(Kind::Read);
    let bytes = u32::try_from(used.memory_size().size()).unwrap_or(0);
    if bytes == 0 {
        return Err(Refusal::UnknownSize);
    }
    let (when, bytes) = masks::occurrence(raw, bytes);
    let mut address = address(used);
    address.extra = bit_string(raw).or(address.extra);
    Ok(Access {
        place: Location::One(address),
        bytes,
        kind: streaming(raw, kind),
        when,
        locked: is_locked(raw),
        line: false,
    })
}

fn kind(access: OpAccess) -> Option<Kind> {
    match access {
        // What the table calls conditional always happens (head of the file); `masks` has the real exceptions.
        OpAccess::Read | OpAccess::CondRead => Some(Kind::Read),
        OpAccess::Write | OpAccess::CondWrite => Some(Kind::Write),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some(Kind::ReadWrite),
        OpAccess::None | OpAccess::NoMemAccess => None,
    }
}

fn is_locked(raw: &Instruction) -> bool {
    // xchg with memory locks without a prefix (SDM vol. 2, XCHG).
    let exchange = raw.mnemonic() == Mnemonic::Xchg
        && (raw.op0_kind() == OpKind::Memory || raw.op1_kind() == OpKind::Memory);
    raw.has_lock_prefix() || exchange
}

/// Non-temporal hints (SDM vol. 1, 10.4.6.2; vol. 2, MOVDIRI and MOVDIR64B: "direct store").
fn streaming(raw: &Instruction, kind: Kind) -> Kind {
    use Mnemonic as M;
    match (raw.mnemonic(), kind) {
        (M::Movntdqa | M::Vmovntdqa, Kind::Read) => Kind::StreamingRead,
        (
            M::Movnti
            | M::Movntdq
            | M::Movntps
            | M::Movntpd
            | M::Movntq
            | M::Movntsd
            | M::Movntss
            | M::Vmovntdq
            | M::Vmovntps
            | M::Vmovntpd
            | M::Maskmovq
            | M::Maskmovdqu
            | M::Vmaskmovdqu
            | M::Movdiri
            | M::Movdir64b
            | M::Enqcmd
            | M::Enqcmds,
            Kind::Write,
        ) => Kind::StreamingWrite,
        _ => kind,
    }
}

/// Instructions that act on a line instead of bytes. Instruction prefetches (`prefetchit0`) are not data accesses.
fn line_kind(mnemonic: Mnemonic) -> Option<Kind> {
    use Mnemonic as M;
    match mnemonic {
        M::Prefetch | M::Prefetchnta | M::Prefetcht0 | M::Prefetcht1 | M::Prefetcht2 => {
            Some(Kind::Prefetch)
        }
        M::Prefetchw | M::Prefetchwt1 => Some(Kind::PrefetchWrite),
        M::Clflush | M::Clflushopt => Some(Kind::Flush),
        M::Clwb => Some(Kind::WriteBack),
        M::Cldemote => Some(Kind::Demote),
        M::Clzero => Some(Kind::Write),
        _ => None,
    }
}

fn line(address: Address, kind: Kind) -> Access {
    let place = Location::One(address);
    Access { place, bytes: LINE_BYTES, kind, when: Occurrence::Always, locked: false, line: true }
}

/// The table has no memory operand for instructions that it takes for hints.
fn line_address(raw: &Instruction) -> Address {
    let width = match raw.code() {
        Code::Clzeroq => AddressWidth::Bits64,
        Code::Clzerow | Code::Clzerod => AddressWidth::Bits32,
        _ => return explicit(raw),
    };
    let segment = segment(raw.segment_prefix());
    Address { segment, base: Some(Gpr::RAX), width, ..Address::default() }
}

/// The memory operand as encoded, without a vector index.
fn explicit(raw: &Instruction) -> Address {
    let (base, index) = (raw.memory_base(), raw.memory_index());
    let narrow = base.is_gpr32()
        || base == Register::EIP
        || index.is_gpr32()
        || (base == Register::None && raw.memory_displ_size() == 4);
    let index = Gpr::from_iced(index)
        .map(|register| Index { register, scale: scale(raw.memory_index_scale()) });
    Address {
        segment: segment(raw.memory_segment()),
        // rip and eip are in the displacement already.
        base: Gpr::from_iced(base),
        index,
        extra: None,
        displacement: raw.memory_displacement64(),
        width: if narrow { AddressWidth::Bits32 } else { AddressWidth::Bits64 },
    }
}

fn segment(register: Register) -> Segment {
    match register {
        Register::FS => Segment::Fs,
        Register::GS => Segment::Gs,
        _ => Segment::Flat,
    }
}

fn bit_string(raw: &Instruction) -> Option<ExtraTerm> {
    use Mnemonic as M;
    let bits = matches!(raw.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc);
    if !bits || raw.op0_kind() != OpKind::Memory || raw.op1_kind() != OpKind::Register {
        return None;
    }
    let register = Gpr::from_iced(raw.op1_register())?;
    let operand_bytes = u8::try_from(raw.op1_register().size()).ok()?;
    Some(ExtraTerm::BitString { register, operand_bytes })
}

fn address(used: &UsedMemory) -> Address {
    let segment = segment(used.segment());
    let width = match used.address_size() {
        CodeSize::Code32 => AddressWidth::Bits32,
        _ => AddressWidth::Bits64,
    };
    let mut address = Address {
        segment,
        base: Gpr::from_iced(used.base()),
        displacement: used.displacement(),
        width,
        ..Address::default()
    };
    if let Some(register) = Gpr::from_iced(used.index()) {
        if used.index().is_gpr8() {
            address.extra = Some(ExtraTerm::LowByte(register));
        } else {
            address.index = Some(Index { register, scale: scale(used.scale()) });
        }
    }
    address
}

fn scale(scale: u32) -> u8 {
    u8::try_from(scale).unwrap_or(1)
}

fn strings(raw: &Instruction, info: &InstructionInfo) -> Result<Vec<Access>, Refusal> {
    let bytes = match raw.mnemonic() {
        Mnemonic::Movsb | Mnemonic::Stosb | Mnemonic::Lodsb | Mnemonic::Scasb | Mnemonic::Cmpsb => {
            1
        }
        Mnemonic::Movsw | Mnemonic::Stosw | Mnemonic::Lodsw | Mnemonic::Scasw | Mnemonic::Cmpsw => {
            2
        }
        Mnemonic::Movsd | Mnemonic::Stosd | Mnemonic::Lodsd | Mnemonic::Scasd | Mnemonic::Cmpsd => {
            4
        }
        Mnemonic::Movsq | Mnemonic::Stosq | Mnemonic::Lodsq | Mnemonic::Scasq | Mnemonic::Cmpsq => {
            8
        }
        _ => return Err(Refusal::UnknownSize),
    };
    let repeated = raw.has_rep_prefix() || raw.has_repne_prefix();
    let may_stop = matches!(
        raw.mnemonic(),
        Mnemonic::Scasb
            | Mnemonic::Scasw
            | Mnemonic::Scasd
            | Mnemonic::Scasq
            | Mnemonic::Cmpsb
            | Mnemonic::Cmpsw
            | Mnemonic::Cmpsd
            | Mnemonic::Cmpsq
    );
    let when = match repeated {
        true => Occurrence::Repeated(Repeat { counter: Gpr::RCX, may_stop }),
        false => Occurrence::Always,
    };
    let mut accesses: Vec<Access> = info
        .used_memory()
        .iter()
        .map(|used| {
            let kind = kind(used.access()).unwrap_or(Kind::Read);
            let place = Location::One(address(used));
            Access { place, bytes, kind, when, locked: false, line: false }
        })
        .collect();
    // The table lists the destination of movs first, but it is loaded from before it is stored to.
    accesses.sort_by_key(|access| access.kind == Kind::Write);
    Ok(accesses)
}

fn gather(raw: &Instruction, info: &InstructionInfo) -> Option<Access> {
    let element = raw.memory_size().element_size().max(raw.memory_size().size());
    let element_bytes = u8::try_from(element).ok().filter(|&bytes| bytes == 4 || bytes == 8)?;
    let index_bytes: u8 = if raw.vsib()? { 8 } else { 4 };
    let mut lanes = raw.memory_index().size() / usize::from(index_bytes);
    // The data register; prefetches have none. A mask in a vector register has as many lanes as the data.
    let data = (0..raw.op_count()).find(|&operand| raw.op_kind(operand) == OpKind::Register);
    if let Some(data) = data {
        lanes = lanes.min(raw.op_register(data).size() / element);
    }
    let lanes = u8::try_from(lanes).ok()?;
    let mask = match MaskRegister::from_iced(raw.op_mask()) {
        Some(mask) => LaneMask::Mask(mask),
        // AVX2: the third operand (SDM vol. 2, VGATHERDPS).
        None => LaneMask::VectorSigns(VectorRegister::from_iced(raw.op2_register())?),
    };
    let common = Address { index: None, ..explicit(raw) };
    let index = VectorRegister::from_iced(raw.memory_index())?;
    let scale = scale(raw.memory_index_scale());
    let lane_address = LaneAddress { common, index, index_bytes, scale, lanes };
    let kind = gather_kind(raw, info);
    let line = matches!(kind, Kind::Prefetch | Kind::PrefetchWrite);
    Some(Access {
        place: Location::Lanes(lane_address),
        bytes: if line { LINE_BYTES } else { u32::from(element_bytes) },
        kind,
        when: Occurrence::Masked(Masked { mask, element_bytes, lanes }),
        locked: false,
        line,
    })
}

fn gather_kind(raw: &Instruction, info: &InstructionInfo) -> Kind {
    use Mnemonic as M;
    match raw.mnemonic() {
        M::Vgatherpf0dpd
        | M::Vgatherpf0dps
        | M::Vgatherpf0qpd
        | M::Vgatherpf0qps
        | M::Vgatherpf1dpd
        | M::Vgatherpf1dps
        | M::Vgatherpf1qpd
        | M::Vgatherpf1qps => Kind::Prefetch,
        M::Vscatterpf0dpd
        | M::Vscatterpf0dps
        | M::Vscatterpf0qpd
        | M::Vscatterpf0qps
        | M::Vscatterpf1dpd
        | M::Vscatterpf1dps
        | M::Vscatterpf1qpd
        | M::Vscatterpf1qps => Kind::PrefetchWrite,
        // Gathers load into their first operand; scatters have memory there.
        _ => kind(info.op0_access())
            .filter(|_| raw.op0_kind() == OpKind::Memory)
            .unwrap_or(Kind::Read),
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::MemorySize;

    /// What the size of an embedded broadcast is in the decoder's table: our accesses rely on it.
    #[test]
    fn the_size_of_a_broadcast_is_one_element() {
        assert_eq!(MemorySize::Broadcast512_Float64.size(), 8);
        assert_eq!(MemorySize::Broadcast512_2xInt16.size(), 4);
        assert_eq!(MemorySize::Broadcast64_Float16.size(), 2);
    }
}
