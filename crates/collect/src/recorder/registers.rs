//! Registers at clock samples, as far as the code there makes them meaningful.
//!
//! What for: pieces of one second and one thread each, that analysis reads (`facts::SampleRegisters`). What not: which
//! registers those are (`x86::wanted`), worked out once per address.
//! Left out: samples in the kernel; in translated code, whose registers are not the program's; in code without a file
//! (its bytes change while it runs).

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use base::{FileOffset, ModuleId, Nanos, Pid, RemoteAddr, Tid};
use facts::{
    Fact, RegisterEncoder, SampleRegisters, SampledPlace, SampledState, SinkError, Slot, SlotBase,
};
use x86::{BYTES_BEFORE, BYTES_BEHIND, CodeBytes, Gpr, wanted};

use super::{Moment, Position, Recorder, Ticked};
use crate::stacks::NodeHasher;

/// A piece does not grow further.
const PIECE_BYTES: usize = 64 << 10;

/// Beyond so many known addresses all are forgotten and worked out anew (about 200 bytes each).
const MOST_PLACES: usize = 50_000;

/// Addresses with what is kept there, and pieces that are not told yet.
#[derive(Default)]
pub(super) struct Pieces {
    places: HashMap<(ModuleId, u64, u64), SampledPlace, BuildHasherDefault<NodeHasher>>,
    open: HashMap<Tid, Piece>,
}

struct Piece {
    pid: Pid,
    time: Nanos,
    encoder: RegisterEncoder,
}

impl Piece {
    fn fact(self, tid: Tid) -> Fact {
        let Piece { pid, time, encoder } = self;
        let samples = encoder.samples();
        Fact::SampleRegisters(SampleRegisters { time, pid, tid, samples, bytes: encoder.finish() })
    }
}

impl Recorder<'_> {
    /// Takes the registers of a clock sample.
    pub(super) fn note_registers(
        &mut self,
        at: Moment,
        seen: Ticked<'_>,
        position: Position<'_>,
    ) -> Result<(), SinkError> {
        let Some(registers) = seen.general.filter(|_| position.kernel.is_empty()) else {
            return Ok(());
        };
        let translated = self.whereabouts.as_ref().and_then(|all| all.native(at.pid, position.ip));
        if translated.is_some() {
            return Ok(());
        }
        let Some((module, offset)) = self.locate(at.pid, position.ip) else { return Ok(()) };
        if self.registers.places.len() > MOST_PLACES {
            self.registers.places.clear();
        }
        let key = (module, offset.0, position.ip.0);
        if !self.registers.places.contains_key(&key) {
            let Some(place) = self.place(module, offset, position.ip) else { return Ok(()) };
            self.registers.places.insert(key, place);
        }
        let Some(place) = self.registers.places.get(&key) else { return Ok(()) };
        let stack = position.user.map_or(&[][..], |stack| stack.bytes);
        let slots: Vec<Option<u64>> =
            place.slots.iter().map(|slot| read_slot(*slot, registers, stack)).collect();
        // Full, or of another process that had this thread id.
        let ended = |piece: &Piece| piece.encoder.size() >= PIECE_BYTES || piece.pid != at.pid;
        if self.registers.open.get(&at.tid).is_some_and(ended)
            && let Some(piece) = self.registers.open.remove(&at.tid)
        {
            self.sink.push(piece.fact(at.tid))?;
        }
        let new = || Piece { pid: at.pid, time: at.time, encoder: RegisterEncoder::default() };
        let piece = self.registers.open.entry(at.tid).or_insert_with(new);
        let (time, cpu_time) = (at.time, seen.cpu_time);
        piece.encoder.push(&SampledState { time, cpu_time, place, registers, slots: &slots });
        Ok(())
    }

    /// Tells what was kept since the last call.
    pub(super) fn tell_registers(&mut self) -> Result<(), SinkError> {
        let mut open: Vec<(Tid, Piece)> = self.registers.open.drain().collect();
        open.sort_by_key(|(tid, piece)| (piece.time, *tid));
        open.into_iter().try_for_each(|(tid, piece)| self.sink.push(piece.fact(tid)))
    }

    fn place(&self, module: ModuleId, offset: FileOffset, ip: RemoteAddr) -> Option<SampledPlace> {
        let file = self.modules.file(module)?;
        let before = BYTES_BEFORE.min(offset.0).min(ip.0);
        let start = usize::try_from(offset.0 - before).ok()?;
        let length = usize::try_from(before + BYTES_BEHIND).ok()?;
        let bytes = file.get(start..)?;
        let bytes = bytes.get(..length).unwrap_or(bytes);
        let wanted = wanted(&CodeBytes { start: RemoteAddr(ip.0 - before), bytes }, ip);
        let registers = wanted.registers.bits();
        Some(SampledPlace { module, offset, address: ip, registers, slots: wanted.slots })
    }
}

/// A word of the stack, where the copy has it.
fn read_slot(slot: Slot, registers: &[u64; Gpr::COUNT], stack: &[u8]) -> Option<u64> {
    let stack_pointer = registers[Gpr::RSP.number()];
    let base = match slot.base {
        SlotBase::StackPointer => stack_pointer,
        SlotBase::FramePointer => registers[Gpr::RBP.number()],
    };
    let address = base.wrapping_add(i64::from(slot.displacement).cast_unsigned());
    let bytes = stack.get(usize::try_from(address.checked_sub(stack_pointer)?).ok()?..)?;
    match slot.wide {
        true => bytes.first_chunk().map(|word| u64::from_le_bytes(*word)),
        false => bytes.first_chunk().map(|word| u64::from(u32::from_le_bytes(*word))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_stack_are_read_where_the_copy_has_them() {
        let mut registers = [0; Gpr::COUNT];
        (registers[4], registers[5]) = (0x7000, 0x7010);
        let stack: Vec<u8> = (0..32).collect();
        let read = |base, displacement, wide| {
            read_slot(Slot { base, displacement, wide }, &registers, &stack)
        };
        assert_eq!(read(SlotBase::StackPointer, 4, false), Some(0x0706_0504));
        assert_eq!(read(SlotBase::FramePointer, -8, true), Some(0x0f0e_0d0c_0b0a_0908));
        assert_eq!(read(SlotBase::FramePointer, -20, false), None);
        assert_eq!(read(SlotBase::FramePointer, 12, true), None);
        assert_eq!(read(SlotBase::FramePointer, 12, false), Some(0x1f1e_1d1c));
    }
}
