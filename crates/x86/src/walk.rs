//! From bytes to blocks.
//!
//! What for: [`read_block`] decides how far a block extends; [`read_pieces`] reads a stored block again. What not:
//! guessing indirect targets; unrolling loops.
//!
//! Assumptions: the bytes may be hostile (data taken for code), so every walk is bounded. Forward branches are mostly
//! not taken, backward ones mostly are, because compilers lay code out so.

use base::RemoteAddr;

use crate::block::{Block, End, Limits};
use crate::code::{CodeBytes, CodeSource};
use crate::instruction::{Flow, Instruction, NotRead, Reader};

/// Reads the block that begins at `start`.
#[must_use]
pub fn read_block<C: CodeSource + ?Sized>(
    reader: &mut Reader,
    code: &C,
    start: RemoteAddr,
    limits: &Limits,
) -> Block {
    let mut walk = Walk::new(start);
    let mut at = start;
    let end = loop {
        match walk.step(reader, code, at, limits) {
            Step::On(next) => at = next,
            Step::End(end) => break end,
        }
    };
    Block { start, instructions: walk.instructions, end }
}

/// Reads the block whose instructions lie in `pieces`, consecutively in each piece. `None` if the pieces contain
/// anything but whole instructions of which each leads to the next.
#[must_use]
pub fn read_pieces(reader: &mut Reader, pieces: &[CodeBytes<'_>]) -> Option<Block> {
    let start = pieces.first()?.start;
    let mut walk = Walk::new(start);
    let mut next = start;
    for piece in pieces {
        next = piece.start;
        // Stored pieces may be hostile: one may claim to lie across the end of the address space.
        let end = RemoteAddr(piece.start.0.checked_add(piece.bytes.len() as u64)?);
        while next < end {
            let instruction = reader.instruction(piece, next).ok()?;
            if !walk.goes_on_at(next) {
                return None;
            }
            next = instruction.next_address();
            walk.instructions.push(instruction);
        }
    }
    let end = walk.end_behind(next);
    (!walk.instructions.is_empty()).then_some(Block { start, instructions: walk.instructions, end })
}

enum Step {
    On(RemoteAddr),
    End(End),
}

/// Instructions of most blocks at most.
const USUAL: usize = 32;

struct Walk {
    start: RemoteAddr,
    instructions: Vec<Instruction>,
    bytes: usize,
    followed: usize,
    passed: usize,
    /// The followed calls that have not returned yet: their return address, and their caller's number.
    calls: Vec<(RemoteAddr, usize)>,
    /// The number of the current call; 0 for the block's own code.
    call: usize,
    /// Number of calls followed.
    entered: usize,
    /// The number of its call, for each instruction.
    call_of: Vec<usize>,
}

impl Walk {
    fn new(start: RemoteAddr) -> Walk {
        Walk {
            start,
            instructions: Vec::with_capacity(USUAL),
            bytes: 0,
            followed: 0,
            passed: 0,
            calls: Vec::new(),
            call: 0,
            entered: 0,
            call_of: Vec::with_capacity(USUAL),
        }
    }

    fn step<C: CodeSource + ?Sized>(
        &mut self,
        reader: &mut Reader,
        code: &C,
        at: RemoteAddr,
        limits: &Limits,
    ) -> Step {
        if self.instructions.len() >= limits.instructions {
            return Step::End(End::FallThrough(at));
        }
        let instruction = match reader.instruction(code, at) {
            Ok(instruction) => instruction,
            Err(NotRead::Refused(why)) => return Step::End(End::Refused { at, why }),
            Err(NotRead::MissingBytes) => return Step::End(End::MissingBytes(at)),
        };
        self.bytes += instruction.length();
        if self.bytes > limits.bytes {
            return Step::End(End::FallThrough(at));
        }
        let next = instruction.next_address();
        let flow = instruction.flow();
        self.instructions.push(instruction);
        self.call_of.push(self.call);
        match flow {
            Flow::Next => Step::On(next),
            Flow::Conditional(taken) if self.may_pass(taken, next, limits) => Step::On(next),
            Flow::Jump(_) | Flow::Call(_) | Flow::Return if self.followed < limits.follow => {
                match self.follow(flow, next) {
                    Some(target) => Step::On(target),
                    None => Step::End(self.end_behind(next)),
                }
            }
            _ => Step::End(self.end_behind(next)),
        }
    }

    /// The address at which the block continues after a jump, call or return. A target in the same call that is
    /// already in the block closes a loop. Following it would only unroll the loop, and a loop whose back edge is the
    /// end of its block can be summarised.
    fn follow(&mut self, flow: Flow, next: RemoteAddr) -> Option<RemoteAddr> {
        let target = match flow {
            Flow::Jump(target) => target,
            // A recursive call would be followed again and again.
            Flow::Call(target) if !self.recurses(target) => {
                self.calls.push((next, self.call));
                self.entered += 1;
                self.call = self.entered;
                target
            }
            Flow::Return => {
                let (target, caller) = self.calls.pop()?;
                self.call = caller;
                target
            }
            _ => return None,
        };
        self.followed += 1;
        (!self.is_known(target)).then_some(target)
    }

    /// Whether the current call contains `target`.
    fn is_known(&self, target: RemoteAddr) -> bool {
        // By call: a function that is called twice may be in the block twice.
        let mut numbered = self.instructions.iter().zip(&self.call_of);
        numbered.any(|(one, call)| *call == self.call && one.address() == target)
    }

    /// Whether a call that has not returned contains `target`.
    fn recurses(&self, target: RemoteAddr) -> bool {
        let active =
            |call: &usize| *call == self.call || self.calls.iter().any(|(_, one)| one == call);
        let mut numbered = self.instructions.iter().zip(&self.call_of);
        numbered.any(|(one, call)| active(call) && one.address() == target)
    }

    /// Whether the block continues after the conditional branch that was read last. A backward branch closes a loop,
    /// and so does one right before the block's start: the block ends there, so that the loop can be summarised.
    /// `loop` and `jrcxz` have no form that reaches a side exit.
    fn may_pass(&mut self, taken: RemoteAddr, next: RemoteAddr, limits: &Limits) -> bool {
        let is_jcc = self.instructions.last().is_some_and(|one| one.raw.is_jcc_short_or_near());
        let pass = is_jcc
            && taken > next
            && next != self.start
            && self.passed < limits.branches
            && !self.is_known(taken);
        self.passed += usize::from(pass);
        pass
    }

    /// Whether `target` may come next in a block that was given in pieces.
    fn goes_on_at(&mut self, target: RemoteAddr) -> bool {
        let Some(last) = self.instructions.last() else { return true };
        let next = last.next_address();
        match last.flow() {
            Flow::Next | Flow::Conditional(_) => next == target,
            Flow::Jump(to) => to == target,
            Flow::Call(to) => {
                self.calls.push((next, self.call));
                to == target
            }
            Flow::Return => self.calls.pop().is_some_and(|(back, _)| back == target),
            // No block goes on behind these: their targets are unknown when it is read.
            Flow::IndirectJump | Flow::IndirectCall => false,
        }
    }

    /// The end of a block after the instruction that was read last.
    fn end_behind(&self, next: RemoteAddr) -> End {
        match self.instructions.last().map_or(Flow::Next, Instruction::flow) {
            Flow::Next => End::FallThrough(next),
            Flow::Jump(target) => End::Jump(target),
            Flow::Call(target) => End::Call { target, return_to: next },
            Flow::Conditional(taken) => End::Conditional { taken, not_taken: next },
            Flow::IndirectJump => End::IndirectJump,
            Flow::IndirectCall => End::IndirectCall { return_to: next },
            Flow::Return => End::Return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Refusal, Vectors};

    const AT: RemoteAddr = RemoteAddr(0x1000);

    fn read(bytes: &[u8], limits: Limits) -> (usize, End) {
        let code = CodeBytes { start: AT, bytes };
        let block = read_block(&mut Reader::new(), &code, AT, &limits);
        (block.instructions.len(), block.end)
    }

    #[test]
    fn limits_end_a_block_in_front_of_an_instruction() {
        let nops = [0x90; 8];
        let few = Limits { instructions: 3, ..Limits::BASIC };
        assert_eq!(read(&nops, few), (3, End::FallThrough(RemoteAddr(0x1003))));
        // mov rax, [rdi] has three bytes; a third one would make nine.
        let loads = [0x48, 0x8b, 0x07].repeat(4);
        let short = Limits { bytes: 8, ..Limits::BASIC };
        assert_eq!(read(&loads, short), (2, End::FallThrough(RemoteAddr(0x1006))));
        let none = Limits { instructions: 0, ..Limits::BASIC };
        assert_eq!(read(&nops, none), (0, End::FallThrough(AT)));
    }

    #[test]
    fn as_many_jumps_are_followed_as_allowed() {
        // jmp +0, four times, then ret
        let chain = [0xeb, 0, 0xeb, 0, 0xeb, 0, 0xeb, 0, 0xc3];
        assert_eq!(read(&chain, Limits::BASIC), (1, End::Jump(RemoteAddr(0x1002))));
        let two = Limits { follow: 2, ..Limits::BASIC };
        assert_eq!(read(&chain, two), (3, End::Jump(RemoteAddr(0x1006))));
        assert_eq!(read(&chain, Limits::SUPER), (5, End::Return));
    }

    #[test]
    fn a_loop_of_jumps_ends() {
        // nop; jmp to the nop, by way of another jmp
        let around = [0x90, 0xeb, 0x00, 0xeb, 0xfb];
        assert_eq!(read(&around, Limits::SUPER), (3, End::Jump(AT)));
        // jmp into the middle of an earlier instruction: overlapping code, bounded by the number of jumps
        let overlap = [0x66, 0x90, 0xeb, 0xfd];
        let (count, _) = read(&overlap, Limits::SUPER);
        assert!(count <= 2 * (Limits::SUPER.follow + 2));
    }

    #[test]
    fn the_limit_of_bytes_also_ends_followed_code() {
        let mut reader = Reader::new();
        let bytes = [0x90, 0xeb, 0x00, 0x90, 0x90, 0x90];
        let code = CodeBytes { start: AT, bytes: &bytes };
        let block = read_block(&mut reader, &code, AT, &Limits { bytes: 4, ..Limits::SUPER });
        assert_eq!(block.byte_length(), 4);
        assert_eq!(block.end, End::FallThrough(RemoteAddr(0x1004)));
    }

    #[test]
    fn a_block_goes_on_behind_branches_forward_only() {
        // je +1; nop; jne +1; nop; ret
        let forward = [0x74, 0x01, 0x90, 0x75, 0x01, 0x90, 0xc3];
        assert_eq!(read(&forward, Limits::SUPER), (5, End::Return));
        let one = Limits { branches: 1, ..Limits::SUPER };
        let not_taken = RemoteAddr(0x1005);
        let conditional = End::Conditional { taken: RemoteAddr(0x1006), not_taken };
        assert_eq!(read(&forward, one), (3, conditional));
        // nop; je back to it; ret
        let end = End::Conditional { taken: AT, not_taken: RemoteAddr(0x1003) };
        assert_eq!(read(&[0x90, 0x74, 0xfd, 0xc3], Limits::SUPER), (2, end));
        // jrcxz +1; nop; ret
        assert_eq!(read(&[0xe3, 0x01, 0x90, 0xc3], Limits::SUPER).0, 1);
    }

    #[test]
    fn a_function_may_be_called_twice_but_not_from_itself() {
        // call f; call f; ret; f: nop; ret
        let twice = [0xe8, 6, 0, 0, 0, 0xe8, 1, 0, 0, 0, 0xc3, 0x90, 0xc3];
        assert_eq!(read(&twice, Limits::SUPER), (7, End::Return));
        // nop; call to the nop
        let end = End::Call { target: AT, return_to: RemoteAddr(0x1006) };
        assert_eq!(read(&[0x90, 0xe8, 0xfa, 0xff, 0xff, 0xff], Limits::SUPER), (2, end));
    }

    #[test]
    fn side_exits_are_those_in_front_of_others() {
        let exits = |bytes: &[u8]| -> Vec<usize> {
            let code = CodeBytes { start: AT, bytes };
            read_block(&mut Reader::new(), &code, AT, &Limits::SUPER).side_exits().collect()
        };
        // call f; ret; f: je +1; nop; ret
        assert_eq!(exits(&[0xe8, 1, 0, 0, 0, 0xc3, 0x74, 0x01, 0x90, 0xc3]), [1, 3]);
        // je +1, and nothing behind; je back
        assert_eq!(exits(&[0x74, 0x01]), [0]);
        assert_eq!(exits(&[0x90, 0x74, 0xfd]), []);
    }

    #[test]
    fn a_block_is_read_again_from_its_pieces() {
        // call f; je +0x10; (end)   f: nop; ret
        let (start, callee) = ([0xe8, 0xfb, 0x0f, 0, 0], [0x90, 0xc3]);
        let rest = [0x74, 0x10, 0x90];
        let pieces = [
            CodeBytes { start: AT, bytes: &start },
            CodeBytes { start: RemoteAddr(0x2000), bytes: &callee },
            CodeBytes { start: RemoteAddr(0x1005), bytes: &rest },
        ];
        let block = read_pieces(&mut Reader::new(), &pieces).unwrap();
        let end = End::FallThrough(RemoteAddr(0x1008));
        assert_eq!((block.instructions.len(), block.end), (5, end));
        let read = |pieces: &[CodeBytes<'_>]| read_pieces(&mut Reader::new(), pieces).is_some();
        // Half of an instruction, a return to elsewhere, no pieces.
        assert!(!read(&[CodeBytes { start: AT, bytes: &start[..4] }]));
        assert!(!read(&[pieces[0], pieces[1], CodeBytes { start: AT, bytes: &rest }]));
        assert!(!read(&[]));
    }

    /// jz over one instruction; vmovups zmm, [rdi]; ret: what a program does that asks the processor first.
    #[test]
    fn a_block_ends_in_front_of_what_the_processor_does_not_have() {
        let bytes = [0x74, 0x06, 0x62, 0xf1, 0x7c, 0x48, 0x10, 0x07, 0xc3];
        let code = CodeBytes { start: AT, bytes: &bytes };
        let end = |vectors| {
            let mut reader = Reader::of_processor(vectors);
            let block = read_block(&mut reader, &code, AT, &Limits::SUPER);
            (block.instructions.len(), block.end)
        };
        assert_eq!(end(Vectors::Avx512), (3, End::Return));
        let refused = End::Refused { at: RemoteAddr(AT.0 + 2), why: Refusal::NotOnThisProcessor };
        assert_eq!(end(Vectors::Avx), (1, refused));
    }
}
