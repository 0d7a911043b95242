//! Straight-line copies of instructions, to be timed without misses.
//!
//! What for: the *no-miss time* of a loop, or of a path through several blocks. [`unroll`] writes the instructions
//! several times in a row, so that no condition has to be true (Chen et al., "BHive: A Benchmark Suite and
//! Measurement Framework for Validating x86-64 Basic Block Performance Models", IISWC 2019). What not: running them
//! (`sys::no_miss`).
//!
//! Assumptions:
//! * Registers carry over from copy to copy as from iteration to iteration, so dependency chains over iterations
//!   remain.
//! * Only its offset in the page distinguishes one datum from another (`sys::no_miss`). So an operand relative to rip
//!   that is out of reach, for example on a path from a program into a library, may be in another page.
//! * A branch becomes the same branch to the next instruction. It costs what a branch costs and continues there
//!   whatever its condition. A mispredicted branch of the program is not in the no-miss time.
//! * But the back edge of a loop becomes the opposite branch, which is not taken, and a jump a `nop`. A loop takes
//!   one branch again and again, one per cycle. Many different branches close to each other are predicted at half
//!   that rate or less (Fog, The microarchitecture of Intel, AMD and VIA CPUs, 3: the branch target buffer), and
//!   loops of a few instructions seemed to take twice their time. So what takes less than a cycle here takes one in
//!   the program.
//! * A followed call becomes a push of 0, the matching return an addition to rsp. The return's load is left out,
//!   because it is always predicted. So are the jumps, and the loads of indirect jumps and calls.
//! * A straight copy is fetched from the µop cache or the decoders, a tight loop perhaps from a loop buffer. The
//!   difference matters in loops of a few instructions only.

use base::RemoteAddr;
use iced_x86::{Decoder, DecoderOptions};

use crate::block::Block;
use crate::code::{CodeSource, Window};
use crate::instruction::{Flow, Instruction};
use crate::moved::{moved, pointing};
use crate::operand::Kind;
use crate::refusal::Refusal;

/// The target of an operand relative to rip whose own target is out of reach: this far from the code.
const INSTEAD: u64 = 256 << 20;
const PAGE: u64 = 4096;

/// A block on a path, and how many of its instructions ran.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a, C: ?Sized> {
    /// The block.
    pub block: &'a Block,
    /// The source of its bytes.
    pub code: &'a C,
    /// The number of its instructions that ran.
    pub executed: usize,
}

/// A location on a path: the number of the part, counted on over all copies, and the index of an instruction in its block.
pub type PathLocation = (usize, usize);

/// Consecutive copies of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unrolled {
    /// The code; it runs to its end.
    pub bytes: Vec<u8>,
    /// The number of copies.
    pub iterations: usize,
}

/// Why there is nothing to time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotTimeable {
    /// It has an instruction that bypasses the caches: non-temporal stores, flushes, write-backs.
    #[error("bypasses the caches on purpose")]
    PastCaches,
    /// It cannot be copied.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Writes `copies` consecutive copies of `path` for the address `at`. `before` gives what goes in front of the instruction of a place, for
/// an address.
///
/// # Errors
/// [`NotTimeable`]: time without misses has no meaning for it, or it cannot be copied.
pub fn unroll<C: CodeSource + ?Sized>(
    path: &[Part<'_, C>],
    at: RemoteAddr,
    copies: usize,
    mut before: impl FnMut(PathLocation, RemoteAddr) -> Vec<u8>,
) -> Result<Unrolled, NotTimeable> {
    let mut bytes = Vec::new();
    let address = |bytes: &Vec<u8>| RemoteAddr(at.0.wrapping_add(bytes.len() as u64));
    let parts = std::iter::repeat_n(path, copies).flatten();
    for (number, part) in parts.enumerate() {
        let executed = part.block.instructions.iter().take(part.executed);
        for (index, instruction) in executed.enumerate() {
            if instruction.accesses().iter().any(|access| is_past_caches(access.kind)) {
                return Err(NotTimeable::PastCaches);
            }
            let window = Window::read(part.code, instruction.address());
            bytes.extend(before((number, index), address(&bytes)));
            bytes.extend(straight(part.block, instruction, window.bytes(), address(&bytes))?);
        }
    }
    Ok(Unrolled { bytes, iterations: copies })
}

fn is_past_caches(kind: Kind) -> bool {
    match kind {
        Kind::StreamingWrite | Kind::Flush | Kind::WriteBack | Kind::Demote => true,
        Kind::Read
        | Kind::Write
        | Kind::ReadWrite
        | Kind::StreamingRead
        | Kind::Prefetch
        | Kind::PrefetchWrite => false,
    }
}

/// One instruction, such that the next one follows.
pub(crate) fn straight(
    block: &Block,
    instruction: &Instruction,
    bytes: &[u8],
    to: RemoteAddr,
) -> Result<Vec<u8>, Refusal> {
    match instruction.flow() {
        Flow::Jump(target) if target == block.start => Ok(vec![0x90]),
        // In the program this branch is mostly taken. The next copy follows here, so the opposite
        // condition makes it one that is mostly not taken.
        Flow::Conditional(target) if target == block.start => {
            onwards(instruction, bytes).map(|bytes| opposite(instruction, bytes))
        }
        Flow::Next => match moved(instruction, bytes, to) {
            Err(Refusal::TooFar) => {
                let in_page = instruction.raw.ip_rel_memory_address() % PAGE;
                // The same offset in a page, and so the same set of the first-level cache.
                let instead = (to.0 & !(PAGE - 1)).wrapping_add(INSTEAD + in_page);
                pointing(instruction, bytes, to, RemoteAddr(instead))
            }
            moved => moved,
        },
        Flow::Jump(_) | Flow::Conditional(_) => onwards(instruction, bytes),
        // push 0 (SDM vol. 2, PUSH imm32)
        Flow::Call(_) | Flow::IndirectCall => Ok(vec![0x68, 0, 0, 0, 0]),
        Flow::Return => {
            // `ret n` removes n more bytes from the stack (SDM vol. 2, RET). lea does not change the flags.
            let off_stack = 8 + i32::from(instruction.raw.immediate16());
            let lea = [0x48, 0x8d, 0xa4, 0x24]; // lea rsp, [rsp + disp32]
            Ok([&lea[..], &off_stack.to_le_bytes()].concat())
        }
        Flow::IndirectJump => Ok(vec![0xeb, 0]), // jmp on (SDM vol. 2, JMP rel8)
    }
}

/// The branch with a displacement of 0.
fn onwards(instruction: &Instruction, bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut bytes = bytes.get(..instruction.length()).ok_or(Refusal::MissingBytes)?.to_vec();
    let mut decoder = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE);
    let raw = decoder.decode();
    let field = decoder.get_constant_offsets(&raw);
    let end = field.immediate_offset() + field.immediate_size();
    let distance = bytes.get_mut(field.immediate_offset()..end).ok_or(Refusal::MissingBytes)?;
    distance.fill(0);
    Ok(bytes)
}

/// The branch on the opposite condition; `loop` and `jrcxz` have none. Conditions come in pairs that differ in the
/// lowest bit of the opcode, which precedes the displacement (SDM vol. 2, Jcc).
fn opposite(instruction: &Instruction, mut bytes: Vec<u8>) -> Vec<u8> {
    let distance = if instruction.raw.is_jcc_near() { 4 } else { 1 };
    let has_opposite = instruction.raw.is_jcc_short_or_near();
    let opcode = bytes.len().checked_sub(distance + 1).filter(|_| has_opposite);
    if let Some(opcode) = opcode.and_then(|at| bytes.get_mut(at)) {
        *opcode ^= 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodeBytes, Limits, Reader, read_block};

    const AT: RemoteAddr = RemoteAddr(0x1000);
    const TO: RemoteAddr = RemoteAddr(0x4000_0000);

    fn unrolled(bytes: &[u8], iterations: usize) -> Result<Unrolled, NotTimeable> {
        let code = CodeBytes { start: AT, bytes };
        let block = read_block(&mut Reader::new(), &code, AT, &Limits::SUPER);
        let executed = block.instructions.len();
        unroll(&[Part { block: &block, code: &code, executed }], TO, iterations, |_, _| Vec::new())
    }

    #[test]
    fn operands_stay_and_branches_go_on() {
        // mov rax, [rip+0x100]; je +2; nop; nop; jmp to the start
        let bytes = [0x48, 0x8b, 0x05, 0, 1, 0, 0, 0x74, 2, 0x90, 0x90, 0xeb, 0xf3];
        let found = unrolled(&bytes, 3).unwrap();
        assert_eq!((found.bytes.len(), found.iterations), (36, 3));
        let target = AT.0 + 7 + 0x100;
        for (number, copy) in found.bytes.chunks(12).enumerate() {
            let next = TO.0 + 12 * number as u64 + 7;
            let displacement = i32::from_le_bytes(copy[3..7].try_into().unwrap());
            assert_eq!(next.wrapping_add_signed(displacement.into()), target);
            assert_eq!(copy[7..], [0x74, 0, 0x90, 0x90, 0x90]);
        }
    }

    #[test]
    fn near_branches_go_on_too() {
        // nop; jne to the start, with 32 bits and with 8: not taken while the loop goes round
        let found = unrolled(&[0x90, 0x0f, 0x85, 0xf9, 0xff, 0xff, 0xff], 1).unwrap();
        assert_eq!(found.bytes, [0x90, 0x0f, 0x84, 0, 0, 0, 0]);
        assert_eq!(unrolled(&[0x90, 0x75, 0xfd], 1).unwrap().bytes, [0x90, 0x74, 0]);
        // loop to itself
        assert_eq!(unrolled(&[0xe2, 0xfe], 2).unwrap().bytes, [0xe2, 0, 0xe2, 0]);
    }

    #[test]
    fn calls_leave_the_stack_as_it_was() {
        // call f; jmp to the call; f: ret 16
        let found = unrolled(&[0xe8, 2, 0, 0, 0, 0xeb, 0xf9, 0xc2, 16, 0], 1).unwrap();
        let expected = [0x68, 0, 0, 0, 0, 0x48, 0x8d, 0xa4, 0x24, 24, 0, 0, 0, 0x90];
        assert_eq!(found.bytes, expected);
    }

    #[test]
    fn what_cannot_be_timed_is_refused() {
        // movnti [rdi], rax; jmp back; clflush [rdi]; jmp back
        assert_eq!(
            unrolled(&[0x48, 0x0f, 0xc3, 0x07, 0xeb, 0xfa], 1),
            Err(NotTimeable::PastCaches)
        );
        assert_eq!(unrolled(&[0x0f, 0xae, 0x3f, 0xeb, 0xfb], 1), Err(NotTimeable::PastCaches));
    }

    #[test]
    fn an_operand_out_of_reach_keeps_its_place_in_the_page() {
        let bytes = [0x48, 0x8b, 0x05, 0, 0, 0, 0, 0xeb, 0xf7]; // mov rax, [rip]; jmp back
        let code = CodeBytes { start: AT, bytes: &bytes };
        let block = read_block(&mut Reader::new(), &code, AT, &Limits::SUPER);
        let far = RemoteAddr(1 << 40);
        let part = Part { block: &block, code: &code, executed: 1 };
        let found = unroll(&[part], far, 1, |_, _| Vec::new()).unwrap();
        let displacement = i32::from_le_bytes(found.bytes[3..7].try_into().unwrap());
        let operand = (far.0 + 7).wrapping_add_signed(displacement.into());
        assert_eq!(operand, far.0 + INSTEAD + (AT.0 + 7) % PAGE);
    }

    #[test]
    fn a_path_goes_through_blocks_as_far_as_each_went() {
        // nop; jmp rax: not to its end, then to it
        let code = CodeBytes { start: AT, bytes: &[0x90, 0xff, 0xe0] };
        let block = read_block(&mut Reader::new(), &code, AT, &Limits::SUPER);
        let part = |executed| Part { block: &block, code: &code, executed };
        let mut places = Vec::new();
        let found = unroll(&[part(1), part(2)], TO, 2, |place, at| {
            places.push((place, at.0 - TO.0));
            if place == (2, 0) { vec![0xcc] } else { Vec::new() }
        });
        assert_eq!(found.unwrap().bytes, [0x90, 0x90, 0xeb, 0, 0xcc, 0x90, 0x90, 0xeb, 0]);
        let expected =
            [((0, 0), 0), ((1, 0), 1), ((1, 1), 2), ((2, 0), 4), ((3, 0), 6), ((3, 1), 7)];
        assert_eq!(places, expected);
    }
}
