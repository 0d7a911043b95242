//! A loop's instructions in a row, to be timed without its data.
//!
//! What for: the *core floor* of a loop. [`unroll`] writes its body several times in a row, so that no trip count has to
//! come true (Chen et al., "BHive: A Benchmark Suite and Measurement Framework for Validating x86-64 Basic Block
//! Performance Models", IISWC 2019). What not: running it (`sys::floor`).
//!
//! Assumptions:
//! * Registers go on from copy to copy as from iteration to iteration, so chains over iterations are kept.
//! * A branch becomes the same branch to the instruction behind it: it costs what a branch costs, and goes on whatever its
//!   condition. A mispredicted branch of the program is not in the floor.
//! * A followed call becomes a push of 0, the matching return an addition to rsp: the return's load, which is always
//!   predicted, is left out, and so are the jumps.
//! * A straight copy is fetched from the µop cache or decoders, a tight loop perhaps from a loop buffer; the difference
//!   shows in loops of a few instructions only.

use base::RemoteAddr;
use iced_x86::{Decoder, DecoderOptions};

use crate::block::Block;
use crate::code::{CodeSource, Window};
use crate::instruction::{Flow, Instruction};
use crate::moved::moved;
use crate::operand::Kind;
use crate::refusal::Refusal;
use crate::roots::{find_roots, self_loop};

/// Copies of a loop's body in a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unrolled {
    /// The code; runs to its end. All copies have the same length.
    pub bytes: Vec<u8>,
    /// How many copies there are.
    pub iterations: usize,
}

/// Why there is nothing to time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoFloor {
    /// The block does not lead back to its start.
    #[error("no loop of one block")]
    NoLoop,
    /// It has an instruction whose purpose is memory itself: non-temporal stores, flushes, write-backs.
    #[error("goes past the caches on purpose")]
    PastCaches,
    /// It cannot be copied.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Writes `block`, read from `code`, `iterations` times for the address `at`.
///
/// # Errors
/// [`NoFloor`]: it is no loop of its own, or nothing that time without memory would mean something for.
pub fn unroll<C: CodeSource + ?Sized>(
    block: &Block,
    code: &C,
    at: RemoteAddr,
    iterations: usize,
) -> Result<Unrolled, NoFloor> {
    if self_loop(block, &find_roots(block)).is_none() {
        return Err(NoFloor::NoLoop);
    }
    let mut accesses = block.instructions.iter().flat_map(Instruction::accesses);
    if accesses.any(|access| is_past_caches(access.kind)) {
        return Err(NoFloor::PastCaches);
    }
    let mut bytes = Vec::new();
    for _ in 0..iterations {
        for instruction in &block.instructions {
            let window = Window::read(code, instruction.address());
            let to = RemoteAddr(at.0.wrapping_add(bytes.len() as u64));
            bytes.extend(straight(instruction, window.bytes(), to)?);
        }
    }
    Ok(Unrolled { bytes, iterations })
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

/// One instruction that leads to the one behind it.
fn straight(instruction: &Instruction, bytes: &[u8], to: RemoteAddr) -> Result<Vec<u8>, Refusal> {
    match instruction.flow() {
        Flow::Next => moved(instruction, bytes, to),
        Flow::Jump(_) | Flow::Conditional(_) => onwards(instruction, bytes),
        Flow::Call(_) => Ok(vec![0x68, 0, 0, 0, 0]), // push 0 (SDM vol. 2, PUSH imm32)
        Flow::Return => {
            // `ret n` takes n bytes more off the stack (SDM vol. 2, RET). lea, because the flags stay as they are.
            let off_stack = 8 + i32::from(instruction.raw.immediate16());
            let lea = [0x48, 0x8d, 0xa4, 0x24]; // lea rsp, [rsp + disp32]
            Ok([&lea[..], &off_stack.to_le_bytes()].concat())
        }
        // Only ever the end of a block, which is then no loop.
        Flow::IndirectJump | Flow::IndirectCall => Err(Refusal::MissingBytes),
    }
}

/// The branch with a distance of 0.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodeBytes, Limits, Reader, read_block};

    const AT: RemoteAddr = RemoteAddr(0x1000);
    const TO: RemoteAddr = RemoteAddr(0x4000_0000);

    fn unrolled(bytes: &[u8], iterations: usize) -> Result<Unrolled, NoFloor> {
        let code = CodeBytes { start: AT, bytes };
        let block = read_block(&mut Reader::new(), &code, AT, &Limits::SUPER);
        unroll(&block, &code, TO, iterations)
    }

    #[test]
    fn operands_stay_and_branches_go_on() {
        // mov rax, [rip+0x100]; je +2; nop; nop; jmp to the start
        let bytes = [0x48, 0x8b, 0x05, 0, 1, 0, 0, 0x74, 2, 0x90, 0x90, 0xeb, 0xf3];
        let found = unrolled(&bytes, 3).unwrap();
        assert_eq!((found.bytes.len(), found.iterations), (39, 3));
        let target = AT.0 + 7 + 0x100;
        for (number, copy) in found.bytes.chunks(13).enumerate() {
            let next = TO.0 + 13 * number as u64 + 7;
            let displacement = i32::from_le_bytes(copy[3..7].try_into().unwrap());
            assert_eq!(next.wrapping_add_signed(displacement.into()), target);
            assert_eq!(copy[7..], [0x74, 0, 0x90, 0x90, 0xeb, 0]);
        }
    }

    #[test]
    fn near_branches_go_on_too() {
        // nop; jne to the start, with 32 bits
        let found = unrolled(&[0x90, 0x0f, 0x85, 0xf9, 0xff, 0xff, 0xff], 1).unwrap();
        assert_eq!(found.bytes, [0x90, 0x0f, 0x85, 0, 0, 0, 0]);
        // loop to itself
        assert_eq!(unrolled(&[0xe2, 0xfe], 2).unwrap().bytes, [0xe2, 0, 0xe2, 0]);
    }

    #[test]
    fn calls_leave_the_stack_as_it_was() {
        // call f; jmp to the call; f: ret 16
        let found = unrolled(&[0xe8, 2, 0, 0, 0, 0xeb, 0xf9, 0xc2, 16, 0], 1).unwrap();
        let expected = [0x68, 0, 0, 0, 0, 0x48, 0x8d, 0xa4, 0x24, 24, 0, 0, 0, 0xeb, 0];
        assert_eq!(found.bytes, expected);
    }

    #[test]
    fn what_has_no_floor_is_refused() {
        assert_eq!(unrolled(&[0x90, 0xc3], 1), Err(NoFloor::NoLoop));
        // movnti [rdi], rax; jmp back; clflush [rdi]; jmp back
        assert_eq!(unrolled(&[0x48, 0x0f, 0xc3, 0x07, 0xeb, 0xfa], 1), Err(NoFloor::PastCaches));
        assert_eq!(unrolled(&[0x0f, 0xae, 0x3f, 0xeb, 0xfb], 1), Err(NoFloor::PastCaches));
        // mov rax, [rip]; jmp back, with code out of reach
        let bytes = [0x48, 0x8b, 0x05, 0, 0, 0, 0, 0xeb, 0xf7];
        let code = CodeBytes { start: AT, bytes: &bytes };
        let block = read_block(&mut Reader::new(), &code, AT, &Limits::SUPER);
        let far = unroll(&block, &code, RemoteAddr(1 << 40), 1);
        assert_eq!(far, Err(NoFloor::Refused(Refusal::TooFar)));
    }
}
