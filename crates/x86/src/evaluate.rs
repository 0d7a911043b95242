//! From symbolic accesses and register values to addresses.
//!
//! What for: the trace decoder, which has recorded register values and needs the accesses, and every test that
//! compares with another source of truth. What not: executing instructions; the caller gives a new state for each
//! instruction. Assumption: addresses are computed modulo 2^64. Whether one is canonical or mapped does not matter:
//! an access that faults has an address too.

use base::RemoteAddr;

use crate::operand::{
    Access, Address, AddressWidth, ExtraTerm, Kind, LINE_BYTES, LaneAddress, LaneMask, Location,
    Masked, Occurrence, Segment,
};
use crate::register::{Gpr, MaskRegister, VectorRegister};

/// The registers that addresses and counts depend on, before an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// rax .. r15, by their number in the encoding.
    pub general: [u64; Gpr::COUNT],
    /// Base of fs.
    pub fs_base: u64,
    /// Base of gs.
    pub gs_base: u64,
    /// zmm0..zmm31, lowest byte first.
    pub vectors: [[u8; 64]; VectorRegister::COUNT],
    /// k0..k7.
    pub masks: [u64; MaskRegister::COUNT],
    /// mm0..mm7.
    pub mmx: [u64; 8],
    /// The direction flag is set: string instructions go downwards.
    pub direction_down: bool,
}

impl Default for State {
    /// All zero.
    fn default() -> State {
        State {
            general: [0; Gpr::COUNT],
            fs_base: 0,
            gs_base: 0,
            vectors: [[0; 64]; VectorRegister::COUNT],
            masks: [0; MaskRegister::COUNT],
            mmx: [0; 8],
            direction_down: false,
        }
    }
}

impl State {
    /// The value of a general-purpose register.
    #[must_use]
    pub fn get(&self, register: Gpr) -> u64 {
        self.general[register.number()]
    }

    /// Sets a general-purpose register.
    pub fn set(&mut self, register: Gpr, value: u64) {
        self.general[register.number()] = value;
    }
}

/// How many times a concrete access happens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Times {
    /// Once.
    Once,
    /// At `address`, `address + stride`, ...: exactly or at most `count` times.
    Run {
        /// Number of accesses.
        count: u64,
        /// Bytes from one to the next; negative if downwards.
        stride: i64,
        /// `count` is exact. Otherwise the data may have ended the run earlier.
        exact: bool,
    },
}

/// One concrete access, or a run of them by a repeated string instruction. The runs of the two streams of `movs` and
/// `cmps` alternate, element by element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Touched {
    /// First byte.
    pub address: RemoteAddr,
    /// Bytes of each access.
    pub bytes: u32,
    /// Its kind.
    pub kind: Kind,
    /// How many times.
    pub times: Times,
}

/// The concrete accesses of `accesses` (of one instruction) with the registers of `state`, in order. Masked-off
/// elements are left out; adjacent ones are one access. A count of 0 gives none.
#[must_use]
pub fn evaluate(accesses: &[Access], state: &State) -> Vec<Touched> {
    let mut touched = Vec::new();
    for access in accesses {
        evaluate_one(access, state, &mut touched);
    }
    touched
}

fn evaluate_one(access: &Access, state: &State, touched: &mut Vec<Touched>) {
    let mut push = |address: u64, bytes: u32, times: Times| {
        let address = if access.line { address & !u64::from(LINE_BYTES - 1) } else { address };
        touched.push(Touched { address: RemoteAddr(address), bytes, kind: access.kind, times });
    };
    match (&access.place, access.when) {
        (Location::Lanes(lanes), when) => {
            for lane in 0..lanes.lanes {
                let on = match when {
                    Occurrence::Masked(masked) => is_on(&masked, lane, state),
                    _ => true,
                };
                if on {
                    push(lane_address(lanes, lane, state), access.bytes, Times::Once);
                }
            }
        }
        (Location::One(address), Occurrence::Always) => {
            push(resolve(address, state), access.bytes, Times::Once);
        }
        (Location::One(address), Occurrence::Masked(masked)) => {
            let start = resolve(address, state);
            for (offset, bytes) in masked_pieces(&masked, access.bytes, state) {
                push(start.wrapping_add(u64::from(offset)), bytes, Times::Once);
            }
        }
        (Location::One(address), Occurrence::Packed(masked)) => {
            let on = (0..masked.lanes).filter(|&lane| is_on(&masked, lane, state)).count();
            let bytes = u32::try_from(on).unwrap_or(0) * u32::from(masked.element_bytes);
            if bytes > 0 {
                push(resolve(address, state), bytes, Times::Once);
            }
        }
        (Location::One(address), Occurrence::Repeated(repeat)) => {
            // All 64 bits: forms with a 32-bit counter are refused (`policy`).
            let count = state.get(repeat.counter);
            let step = i64::from(access.bytes);
            let stride = if state.direction_down { -step } else { step };
            let times = Times::Run { count, stride, exact: !repeat.may_stop };
            if count > 0 {
                push(resolve(address, state), access.bytes, times);
            }
        }
    }
}

/// The value of a symbolic address.
#[must_use]
pub fn resolve(address: &Address, state: &State) -> u64 {
    let mut sum = address.displacement;
    if let Some(base) = address.base {
        sum = sum.wrapping_add(state.get(base));
    }
    if let Some(index) = address.index {
        sum = sum.wrapping_add(state.get(index.register).wrapping_mul(u64::from(index.scale)));
    }
    match address.extra {
        Some(ExtraTerm::LowByte(register)) => sum = sum.wrapping_add(state.get(register) & 0xff),
        Some(ExtraTerm::BitString { register, operand_bytes }) => {
            sum = sum.wrapping_add(bit_string_offset(state.get(register), operand_bytes));
        }
        None => {}
    }
    finish(address, sum, state)
}

fn finish(address: &Address, sum: u64, state: &State) -> u64 {
    let effective = match address.width {
        AddressWidth::Bits64 => sum,
        AddressWidth::Bits32 => sum & 0xffff_ffff,
    };
    let base = match address.segment {
        Segment::Flat => 0,
        Segment::Fs => state.fs_base,
        Segment::Gs => state.gs_base,
    };
    base.wrapping_add(effective)
}

/// Bytes from the operand's address to the word with the bit (SDM vol. 2, BT: "Effective Address + (8 x (BitOffset DIV
/// 64))", DIV rounding towards minus infinity).
fn bit_string_offset(number: u64, operand_bytes: u8) -> u64 {
    let number = match operand_bytes {
        2 => i64::from(number as i16),
        4 => i64::from(number as i32),
        _ => number.cast_signed(),
    };
    let word = i64::from(operand_bytes.max(1));
    number.div_euclid(word * 8).wrapping_mul(word).cast_unsigned()
}

fn lane_address(lanes: &LaneAddress, lane: u8, state: &State) -> u64 {
    let vector = &state.vectors[lanes.index.number()];
    let start = usize::from(lane) * usize::from(lanes.index_bytes);
    let index = match lanes.index_bytes {
        4 => i64::from(read_u64(vector, start) as i32),
        _ => read_u64(vector, start).cast_signed(),
    };
    let common = &lanes.common;
    let base = common.base.map_or(0, |base| state.get(base));
    let scaled = index.cast_unsigned().wrapping_mul(u64::from(lanes.scale));
    finish(common, common.displacement.wrapping_add(base).wrapping_add(scaled), state)
}

/// Eight bytes from `start`; beyond the end of the register they are 0.
fn read_u64(vector: &[u8; 64], start: usize) -> u64 {
    let mut bytes = [0; 8];
    let found = vector.get(start..).unwrap_or(&[]);
    let length = found.len().min(8);
    bytes[..length].copy_from_slice(&found[..length]);
    u64::from_le_bytes(bytes)
}

/// Whether a lane of the mask is on.
fn is_on(masked: &Masked, lane: u8, state: &State) -> bool {
    let top = (usize::from(lane) + 1) * usize::from(masked.element_bytes);
    match masked.mask {
        LaneMask::Mask(mask) => lane < 64 && state.masks[mask.number()] >> lane & 1 != 0,
        LaneMask::VectorSigns(vector) => {
            let byte = top.checked_sub(1).and_then(|at| state.vectors[vector.number()].get(at));
            byte.is_some_and(|byte| byte & 0x80 != 0)
        }
        LaneMask::MmxSigns(register) => {
            let value = state.mmx.get(register.number()).copied().unwrap_or(0);
            lane < 8 && value.to_le_bytes()[usize::from(lane)] & 0x80 != 0
        }
    }
}

/// Offset and length of each contiguous piece of a masked access.
fn masked_pieces(masked: &Masked, bytes: u32, state: &State) -> Vec<(u32, u32)> {
    let element = u32::from(masked.element_bytes.max(1));
    let elements = (bytes / element).max(1);
    let wanted = |element: u32| {
        (0..masked.lanes)
            .filter(|&lane| u32::from(lane) % elements == element)
            .any(|lane| is_on(masked, lane, state))
    };
    let mut pieces: Vec<(u32, u32)> = Vec::new();
    for offset in (0..elements).filter(|&number| wanted(number)).map(|number| number * element) {
        match pieces.last_mut() {
            Some((start, length)) if *start + *length == offset => *length += element,
            _ => pieces.push((offset, element)),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_numbers_are_signed_and_round_down() {
        assert_eq!(bit_string_offset(63, 8), 0);
        assert_eq!(bit_string_offset(64, 8), 8);
        assert_eq!(bit_string_offset(u64::MAX, 8), 8u64.wrapping_neg());
        assert_eq!(bit_string_offset(0xffff_ffff, 4), 4u64.wrapping_neg());
        assert_eq!(bit_string_offset(0x1_0000_001f, 4), 0);
        assert_eq!(bit_string_offset(0x8000, 2), 4096u64.wrapping_neg());
        assert_eq!(bit_string_offset(i64::MIN.cast_unsigned(), 8), (1u64 << 60).wrapping_neg());
    }

    #[test]
    fn narrow_addresses_wrap_before_the_segment_base_is_added() {
        let mut state = State { fs_base: 0x7000_0000_0000, ..State::default() };
        state.set(Gpr::RAX, 0xffff_ffff);
        let address = Address {
            segment: Segment::Fs,
            base: Some(Gpr::RAX),
            displacement: 0x11,
            width: AddressWidth::Bits32,
            ..Address::default()
        };
        assert_eq!(resolve(&address, &state), 0x7000_0000_0010);
    }
}
