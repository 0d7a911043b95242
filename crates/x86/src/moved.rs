//! The bytes of one instruction for another address.
//!
//! What for: an operand relative to rip keeps its target when the instruction moves. What not: branches, whose
//! targets the caller chooses.

use base::RemoteAddr;
use iced_x86::{Decoder, DecoderOptions, Register};

use crate::instruction::Instruction;
use crate::refusal::Refusal;

/// `instruction`, encoded at the start of `bytes`, for the address `to`.
pub(crate) fn moved(
    instruction: &Instruction,
    bytes: &[u8],
    to: RemoteAddr,
) -> Result<Vec<u8>, Refusal> {
    pointing(instruction, bytes, to, RemoteAddr(instruction.raw.ip_rel_memory_address()))
}

/// The same; an operand relative to rip, if there is one, refers to `operand`.
pub(crate) fn pointing(
    instruction: &Instruction,
    bytes: &[u8],
    to: RemoteAddr,
    operand: RemoteAddr,
) -> Result<Vec<u8>, Refusal> {
    let mut bytes = bytes.get(..instruction.length()).ok_or(Refusal::MissingBytes)?.to_vec();
    if instruction.raw.is_ip_rel_memory_operand() {
        let address = instruction.address().0;
        let mut decoder = Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE);
        let raw = decoder.decode();
        let field = decoder.get_constant_offsets(&raw).displacement_offset();
        let next = to.0.wrapping_add(bytes.len() as u64);
        let displacement = relative(&raw, operand.0.wrapping_sub(next)).ok_or(Refusal::TooFar)?;
        let field = bytes.get_mut(field..field + 4).ok_or(Refusal::TooFar)?;
        field.copy_from_slice(&displacement.to_le_bytes());
    }
    Ok(bytes)
}

/// The displacement for an operand of `raw` at this distance from the end of the instruction.
fn relative(raw: &iced_x86::Instruction, distance: u64) -> Option<i32> {
    if raw.memory_base() == Register::EIP {
        // The sum is cut to 32 bits (SDM vol. 2, 2.2.1.6 with an address-size prefix), so any distance is in reach.
        return Some(distance as u32 as i32);
    }
    i32::try_from(distance.cast_signed()).ok()
}
