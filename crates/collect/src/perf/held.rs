//! Clock samples that wait until somebody needs their CPU less.
//!
//! What for: to unwind a sample and to record its registers takes 15 to 20 us. Where the program fills all CPUs, one of its
//! threads has to wait for that, and where threads meet at barriers all others wait for this one. So samples are only copied
//! meanwhile. They are worked off when a CPU is free, when what they refer to is about to change (`mod`), as far as there is
//! no more room, after two seconds, and after the program's end. What not: records of anything else, which are never held back.
//!
//! Of a stack only the part below its outermost frame is copied: new memory costs more than all the rest, in a virtual machine
//! some 2.4 us a page.

use std::collections::VecDeque;
use std::ops::Range;

use base::{Nanos, RemoteAddr};
use facts::GENERAL_REGISTERS;
use sys::perf::{USER_INSTRUCTION_POINTER, USER_STACK_POINTER};

use super::record::SampleRecord;
use crate::address_space::{CopiedStack, Registers};
use crate::recorder::{Moment, Position, Ticked};

/// Most bytes held, and for how long at most: when we are killed, what is held is lost.
pub(super) const MOST: usize = 32 << 20;
pub(super) const LONGEST: Nanos = Nanos(2_000_000_000);

/// Bytes that are copied above the stack pointer of the outermost frame: those of this frame.
const OUTERMOST: u64 = 512;

/// Stacks lie in pieces of this size: an allocation for each would make the heap grow page by page.
const PIECE: usize = 256 << 10;

/// A clock sample.
struct Sample {
    at: Moment,
    ip: RemoteAddr,
    weight: Nanos,
    kernel: Box<[u64]>,
    registers: Option<Registers>,
    general: Option<[u64; GENERAL_REGISTERS]>,
    /// In the first piece, when it is the oldest.
    stack: Range<usize>,
}

impl Sample {
    fn bytes(&self) -> usize {
        size_of::<Sample>() + self.kernel.len() * 8 + self.stack.len()
    }
}

/// Samples in order of time.
#[derive(Default)]
pub(super) struct Held {
    samples: VecDeque<Sample>,
    pieces: VecDeque<Vec<u8>>,
    /// A piece that was worked off: its memory is there already.
    emptied: Option<Vec<u8>>,
    bytes: usize,
}

impl Held {
    /// Copies a sample of this weight. `top`: the stack pointer in the thread's outermost frame. `native`: where it was in its own code, if it
    /// ran translated code: that may be gone when the sample is worked off. Its registers are not the program's then.
    pub(super) fn push(
        &mut self,
        at: Moment,
        sample: &SampleRecord<'_>,
        weight: Nanos,
        (top, native): (u64, Option<RemoteAddr>),
    ) {
        let mut stack = sample.stack;
        if let Some(registers) = &sample.registers
            && let Some(below) = top.checked_sub(registers[USER_STACK_POINTER])
        {
            let length = usize::try_from(below.saturating_add(OUTERMOST)).unwrap_or(usize::MAX);
            stack = stack.get(..length).unwrap_or(stack);
        }
        let has_room = |piece: &Vec<u8>| piece.len() + stack.len() <= PIECE;
        if !self.pieces.back().is_some_and(has_room) {
            let piece = self.emptied.take().unwrap_or_else(|| Vec::with_capacity(PIECE));
            self.pieces.push_back(piece);
        }
        let Some(piece) = self.pieces.back_mut() else { return };
        let from = piece.len();
        piece.extend_from_slice(stack);
        let mut sample = Sample {
            at,
            ip: sample.ip,
            weight,
            kernel: sample.kernel_chain().collect(),
            registers: sample.registers,
            general: sample.general(),
            stack: from..piece.len(),
        };
        if let Some(native) = native {
            sample.general = None;
            if let Some(registers) = &mut sample.registers {
                registers[USER_INSTRUCTION_POINTER] = native.0;
            }
            if sample.kernel.is_empty() {
                sample.ip = native;
            }
        }
        self.bytes += sample.bytes();
        self.samples.push_back(sample);
    }

    /// The oldest sample, where more bytes are held than this, or where it is older than that.
    pub(super) fn front(
        &self,
        most: usize,
        since: Nanos,
    ) -> Option<(Moment, Ticked<'_>, Position<'_>)> {
        let is_due = |sample: &&Sample| self.bytes > most || sample.at.time < since;
        let sample = self.samples.front().filter(is_due)?;
        let bytes = self.pieces.front()?.get(sample.stack.clone())?;
        let Sample { at, ip, weight, .. } = *sample;
        let user = sample.registers.as_ref().map(|registers| CopiedStack { registers, bytes });
        let seen = Ticked { weight, cpu_time: None, general: sample.general.as_ref() };
        Some((at, seen, Position { kernel: &sample.kernel, ip, user, chain: &[], guest: None }))
    }

    /// Removes it.
    pub(super) fn pop(&mut self) {
        let Some(sample) = self.samples.pop_front() else { return };
        self.bytes -= sample.bytes();
        let next = self.samples.front().map(|next| next.stack.start);
        if next.is_none_or(|start| start < sample.stack.end) {
            self.emptied = self.pieces.pop_front().map(|mut piece| {
                piece.clear();
                piece
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use base::{Pid, Tid};

    use super::super::record::{Formats, Record, parse};
    use super::*;

    /// A clock's record: time, stack pointer, and 4 KiB of stack, whose words count up.
    fn record(time: u64, rsp: u64) -> Vec<u8> {
        const KERNEL: [u64; 3] = [2, -128_i64 as u64, 0xffff_ffff_8100_0000];
        let fixed = [78, 0x1234, 5 << 32 | 4, time, 0, 1, 1_000_000];
        // No bytes of a tracepoint: a size and what fills its word.
        let mut registers = [0; 17];
        (registers[6], registers[7], registers[8]) = (0x7, rsp, 0x1234);
        let stack: Vec<u64> = (0..512).collect();
        let words =
            [&fixed[..], &KERNEL, &[4], &[2], &registers, &[4096], &stack, &[4096]].concat();
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let size = u64::try_from(bytes.len() + 8).expect("a size");
        bytes.splice(0..0, (9 | size << 48).to_le_bytes());
        bytes
    }

    fn push(held: &mut Held, time: u64, rsp: u64, top: u64) {
        let formats = Formats { clocks: HashSet::from([78]), ..Formats::default() };
        let bytes = record(time, rsp);
        let Some((time, Record::Sample(sample))) = parse(&bytes, &formats) else { panic!() };
        let at = Moment { time, pid: Pid(4), tid: Tid(5), cpu: None };
        held.push(at, &sample, Nanos(sample.period), (top, None));
    }

    #[test]
    fn a_stack_is_copied_up_to_its_outermost_frame() {
        let length = |rsp, top| {
            let mut held = Held::default();
            push(&mut held, 1, rsp, top);
            let (_, seen, position) = held.front(0, Nanos(0)).expect("a sample");
            assert_eq!((seen.weight, position.ip), (Nanos(1_000_000), RemoteAddr(0x1234)));
            assert_eq!(seen.general.map(|all| all[4]), Some(rsp));
            assert_eq!(position.kernel, [0xffff_ffff_8100_0000]);
            let stack = position.user.expect("registers").bytes;
            let words = stack.chunks(8).map(|word| word[0]);
            assert!(words.enumerate().all(|(at, word)| at as u8 == word));
            stack.len()
        };
        assert_eq!(length(0x7000, 0x7100), 0x100 + 512);
        assert_eq!(length(0x7000, 0x7fff), 4096, "all of it");
        assert_eq!(length(0x7000, 0x6fff), 4096, "another stack");
        assert_eq!(length(0x7000, u64::MAX), 4096);
    }

    #[test]
    fn translated_code_is_left_at_once() {
        let bytes = record(1, 0x7000);
        let formats = Formats { clocks: HashSet::from([78]), ..Formats::default() };
        let Some((time, Record::Sample(sample))) = parse(&bytes, &formats) else { panic!() };
        let mut held = Held::default();
        let at = Moment { time, pid: Pid(4), tid: Tid(5), cpu: None };
        held.push(at, &sample, Nanos(sample.period), (0x7000, Some(RemoteAddr(0x4321))));
        let (_, seen, position) = held.front(0, Nanos(0)).expect("a sample");
        assert!(seen.general.is_none());
        let user = position.user.expect("registers");
        assert_eq!(user.registers[USER_INSTRUCTION_POINTER], 0x4321);
        assert_eq!(position.ip, RemoteAddr(0x1234), "it was in the kernel");
    }

    #[test]
    fn samples_come_back_in_order_and_pieces_are_used_again() {
        let mut held = Held::default();
        let mut next = 0;
        for round in 0..4_u64 {
            // More than one piece.
            for time in 0..100 {
                push(&mut held, 100 * round + time, 0x7000 + 8 * time, u64::MAX);
            }
            let most = if round == 3 { 0 } else { held.bytes / 3 };
            while let Some((at, seen, position)) = held.front(most, Nanos(0)) {
                assert_eq!(at.time, Nanos(next));
                assert_eq!(seen.general.map(|all| all[4]), Some(0x7000 + 8 * (next % 100)));
                assert_eq!(position.user.map(|user| user.bytes.len()), Some(4096));
                held.pop();
                next += 1;
            }
        }
        assert_eq!((next, held.bytes), (400, 0));
        push(&mut held, 7, 0x7000, 0x7000);
        assert!(held.front(held.bytes, Nanos(7)).is_none());
        assert!(held.front(held.bytes, Nanos(8)).is_some(), "it has waited for long");
        held.pop();
        assert!(held.pieces.is_empty() && held.emptied.is_some());
        held.pop();
    }
}
