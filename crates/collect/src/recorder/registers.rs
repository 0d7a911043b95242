//! Registers at clock samples, as far as the code there gives them a meaning: where a thread ran or had entered the
//! kernel, and in the frames of callers whose call lies in a loop.
//!
//! What for: pieces of one second and one thread each, which analysis reads (`facts::SampleRegisters`). What not:
//! which registers have a meaning (`x86::wanted`), worked out once per address.
//!
//! Left out: samples in translated code, whose registers are not the program's. Code without a file, whose bytes
//! change while it runs. Words below rsp, which the kernel does not copy (`perf_output_sample_ustack`,
//! kernel/events/core.c, copies from the stack pointer on): variables of unoptimised functions without calls lie
//! there.

use base::{CodeAddress, IndexMap, Nanos, Pid, RemoteAddr, Tid};
use facts::{
    Fact, RegisterEncoder, SampleRegisters, SampledFrame, SampledPlace, SampledState, SinkError,
    Slot, SlotBase,
};
use x86::{BYTES_AROUND, CodeBytes, Gpr, Wanted, wanted, wanted_of_caller};

use super::{Moment, Position, Recorder, Ticked};
use crate::address_space::{LASTING, Saved, UserFrame};

/// Most bytes of a piece.
const PIECE_BYTES: usize = 64 << 10;

/// Beyond this number of known addresses (about 200 bytes each) all are forgotten and worked out again.
const MOST_PLACES: usize = 50_000;

/// Most callers of a sample that are kept, innermost first: each costs three to five bytes.
const MOST_CALLERS: usize = 8;

const RSP: usize = 4;
const RBP: usize = 5;

/// Known addresses with what is kept there, and pieces that are not written yet.
#[derive(Default)]
pub(super) struct Pieces {
    /// By place in the file, address, and frame with the registers that are known. `None`: nothing is kept.
    places: IndexMap<(CodeAddress, u64, u64), Option<SampledPlace>>,
    /// What has a meaning at an offset of a module, in callers or not: each process has the offset at another
    /// address.
    wanted: IndexMap<(CodeAddress, bool), Option<Wanted>>,
    /// Where functions saved registers, by module and offset.
    saved: IndexMap<CodeAddress, [Saved; LASTING.len()]>,
    open: IndexMap<Tid, Piece>,
    /// Of the frame that is being noted; kept for its memory.
    slots: Vec<Option<u64>>,
}

/// An instruction of a running process.
#[derive(Clone, Copy)]
struct Instruction {
    code: CodeAddress,
    ip: RemoteAddr,
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

/// A piece of stack and where it begins.
#[derive(Clone, Copy)]
struct Copied<'a> {
    from: u64,
    bytes: &'a [u8],
}

impl Recorder<'_> {
    /// Records the registers of a clock sample whose stack was unwound last.
    pub(super) fn note_registers(
        &mut self,
        at: Moment,
        seen: Ticked<'_>,
        position: Position<'_>,
    ) -> Result<(), SinkError> {
        let (Some(registers), Some(user)) = (seen.general, position.user) else { return Ok(()) };
        let ip = RemoteAddr(user.registers[sys::perf::USER_INSTRUCTION_POINTER]);
        let native = self.native(at.pid, ip);
        let Some(code) = self.locate(at.pid, ip).filter(|_| native.is_none()) else {
            return Ok(());
        };
        if self.registers.places.len().max(self.registers.saved.len()) > MOST_PLACES {
            self.registers.places.clear();
            self.registers.wanted.clear();
            self.registers.saved.clear();
        }
        // The piece is full, or belongs to another process that had this thread id.
        let ended = |piece: &Piece| piece.encoder.size() >= PIECE_BYTES || piece.pid != at.pid;
        if self.registers.open.get(&at.tid).is_some_and(ended)
            && let Some(piece) = self.registers.open.remove(&at.tid)
        {
            self.sink.push(piece.fact(at.tid))?;
        }
        let frame =
            if position.kernel.is_empty() { SampledFrame::Own } else { SampledFrame::Kernel };
        let stack = Copied { from: registers[RSP], bytes: user.bytes };
        if self.note_frame(
            at,
            seen.cpu_time,
            Instruction { code, ip },
            frame,
            (registers, u16::MAX),
            stack,
        ) {
            self.note_callers(at, registers, stack);
        }
        Ok(())
    }

    /// Restores the registers of callers, frame by frame, and records those of frames that count something.
    fn note_callers(&mut self, at: Moment, registers: &[u64; Gpr::COUNT], stack: Copied<'_>) {
        let frames = std::mem::take(&mut self.user_frames);
        let mut lasting = LASTING.map(|number| Some(registers[number]));
        let mut kept = 0;
        for pair in frames.windows(2) {
            let [UserFrame { address, found: Some(code), .. }, caller] = pair else {
                break;
            };
            let spaces = &self.spaces;
            let read = || spaces.get(&at.pid).map(|space| space.saved(*address));
            let saved = match self.registers.saved.get(code) {
                Some(saved) => *saved,
                None => {
                    let saved = read().unwrap_or([Saved::Nowhere; LASTING.len()]);
                    self.registers.saved.insert(*code, saved);
                    saved
                }
            };
            // From the innermost frame outwards: each callee either left a register alone, or saved its caller's value in its
            // frame. A value that is lost once stays unknown for all outer frames.
            for (value, saved) in lasting.iter_mut().zip(saved) {
                *value = match saved {
                    Saved::Same => *value,
                    Saved::InFrame(from_cfa) => {
                        let at = caller.stack_pointer.wrapping_add(from_cfa.cast_unsigned());
                        stack.word(at)
                    }
                    Saved::Nowhere => None,
                };
            }
            let Some(code) = caller.found else { break };
            let mut restored = [0; Gpr::COUNT];
            (restored[RSP], restored[RBP]) = (caller.stack_pointer, caller.frame_pointer);
            let mut known = 1 << RSP | 1 << RBP;
            for (number, value) in LASTING.into_iter().zip(lasting) {
                restored[number] = value.unwrap_or(0);
                known |= u16::from(value.is_some()) << number;
            }
            let place = Instruction { code, ip: caller.address };
            let taken =
                self.note_frame(at, None, place, SampledFrame::Caller, (&restored, known), stack);
            kept += usize::from(taken);
            if kept == MOST_CALLERS {
                break;
            }
        }
        self.user_frames = frames;
    }

    /// Records those of a frame's registers that are in `known`; returns whether any register has a meaning there.
    fn note_frame(
        &mut self,
        at: Moment,
        cpu_time: Option<Nanos>,
        instruction: Instruction,
        frame: SampledFrame,
        (registers, known): (&[u64; Gpr::COUNT], u16),
        stack: Copied<'_>,
    ) -> bool {
        let Instruction { code, ip } = instruction;
        let key = (code, ip.0, (frame as u64) << 16 | u64::from(known));
        if !self.registers.places.contains_key(&key) {
            let place = self
                .place(instruction, frame)
                .map(|place| SampledPlace { registers: place.registers & known, ..place });
            self.registers.places.insert(key, place);
        }
        let Some(Some(place)) = self.registers.places.get(&key) else { return false };
        let slots = &mut self.registers.slots;
        slots.clear();
        slots.extend(place.slots.iter().map(|slot| stack.slot(*slot, registers)));
        let new = || Piece { pid: at.pid, time: at.time, encoder: RegisterEncoder::default() };
        let piece = self.registers.open.entry(at.tid).or_insert_with(new);
        let time = at.time;
        piece.encoder.push(&SampledState { time, cpu_time, place, registers, slots });
        true
    }

    /// Writes what was kept since the last call.
    pub(super) fn tell_registers(&mut self) -> Result<(), SinkError> {
        let mut open: Vec<(Tid, Piece)> = self.registers.open.drain().collect();
        open.sort_by_key(|(tid, piece)| (piece.time, *tid));
        open.into_iter().try_for_each(|(tid, piece)| self.sink.push(piece.fact(tid)))
    }

    fn place(&mut self, instruction: Instruction, frame: SampledFrame) -> Option<SampledPlace> {
        let calls = frame == SampledFrame::Caller;
        let key = (instruction.code, calls);
        if !self.registers.wanted.contains_key(&key) {
            let wanted = self.wanted_at(instruction, calls);
            self.registers.wanted.insert(key, wanted);
        }
        let Wanted { registers, slots } = self.registers.wanted.get(&key)?.as_ref()?;
        let (registers, slots) = (registers.bits(), slots.clone());
        let Instruction { code: CodeAddress { module, offset }, ip: address } = instruction;
        Some(SampledPlace { module, offset, address, registers, slots, frame })
    }

    fn wanted_at(&self, instruction: Instruction, calls: bool) -> Option<Wanted> {
        let Instruction { code: CodeAddress { module, offset }, ip } = instruction;
        let file = self.modules.file(module)?;
        let before = BYTES_AROUND.min(offset.0).min(ip.0);
        let start = usize::try_from(offset.0 - before).ok()?;
        let length = usize::try_from(before + BYTES_AROUND).ok()?;
        let bytes = file.get(start..)?;
        let bytes = bytes.get(..length).unwrap_or(bytes);
        let code = CodeBytes { start: RemoteAddr(ip.0 - before), bytes };
        match calls {
            true => wanted_of_caller(&code, RemoteAddr(ip.0.checked_add(1)?)),
            false => Some(wanted(&code, ip)),
        }
    }
}

impl Copied<'_> {
    /// The bytes from an address on, where the copy has it.
    fn rest(&self, address: u64) -> Option<&[u8]> {
        self.bytes.get(usize::try_from(address.checked_sub(self.from)?).ok()?..)
    }

    fn word(&self, address: u64) -> Option<u64> {
        self.rest(address)?.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// A word of the stack in a frame with these registers.
    fn slot(&self, slot: Slot, registers: &[u64; Gpr::COUNT]) -> Option<u64> {
        let base = match slot.base {
            SlotBase::StackPointer => registers[RSP],
            SlotBase::FramePointer => registers[RBP],
        };
        let address = base.wrapping_add(i64::from(slot.displacement).cast_unsigned());
        match slot.wide {
            true => self.word(address),
            false => {
                let word = self.rest(address)?.first_chunk();
                word.map(|word| u64::from(u32::from_le_bytes(*word)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_stack_are_read_where_the_copy_has_them() {
        let mut registers = [0; Gpr::COUNT];
        (registers[RSP], registers[RBP]) = (0x7000, 0x7010);
        let bytes: Vec<u8> = (0..32).collect();
        let stack = Copied { from: 0x7000, bytes: &bytes };
        let read =
            |base, displacement, wide| stack.slot(Slot { base, displacement, wide }, &registers);
        assert_eq!(read(SlotBase::StackPointer, 4, false), Some(0x0706_0504));
        assert_eq!(read(SlotBase::FramePointer, -8, true), Some(0x0f0e_0d0c_0b0a_0908));
        assert_eq!(read(SlotBase::FramePointer, -20, false), None);
        assert_eq!(read(SlotBase::FramePointer, 12, true), None);
        assert_eq!(read(SlotBase::FramePointer, 12, false), Some(0x1f1e_1d1c));
    }
}
