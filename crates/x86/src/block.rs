//! Runs of instructions that are entered at the top only.
//!
//! What for: the unit of translation and of recording. A *basic block* ends at the first branch; a *superblock* follows
//! direct jumps and calls into their targets, comes back from followed calls, and goes on behind conditional branches that
//! lead forward, because every block costs a record. What not: guessing other indirect targets; unrolling loops.
//! Assumptions: hostile bytes are possible (data taken for code), so every walk is bounded; a branch forward is mostly not
//! taken, one backward mostly is (compilers lay code out so); a followed `call` pushes its native return address, which the
//! program may change, so a copy must check where the `ret` that matches it leads.

use base::RemoteAddr;

use crate::instruction::{Flow, Instruction};
use crate::refusal::Refusal;

/// How far a block may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most instructions. 0 gives empty blocks.
    pub instructions: usize,
    /// Most bytes of instructions.
    pub bytes: usize,
    /// Most direct jumps and calls to follow, and returns from these; 0 for basic blocks.
    pub follow: usize,
    /// Most conditional branches to go on behind; 0 for basic blocks.
    pub branches: usize,
}

impl Limits {
    /// Basic blocks: nothing is followed.
    pub const BASIC: Limits = Limits { instructions: 256, bytes: 2048, follow: 0, branches: 0 };
    /// Superblocks. Eight is a guess to be measured: each followed branch saves a record and lengthens translation.
    pub const SUPER: Limits = Limits { instructions: 256, bytes: 2048, follow: 8, branches: 4 };
}

/// How a block ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A limit was reached; the program goes on here.
    FallThrough(RemoteAddr),
    /// The last instruction jumps here.
    Jump(RemoteAddr),
    /// The last instruction is `jcc`, `loop` or `jrcxz`.
    Conditional {
        /// Where it goes when the condition holds.
        taken: RemoteAddr,
        /// Where it goes when not.
        not_taken: RemoteAddr,
    },
    /// The last instruction calls.
    Call {
        /// The function.
        target: RemoteAddr,
        /// The address it pushes.
        return_to: RemoteAddr,
    },
    /// The last instruction jumps through a register or memory.
    IndirectJump,
    /// The last instruction calls through a register or memory.
    IndirectCall {
        /// The address it pushes.
        return_to: RemoteAddr,
    },
    /// The last instruction is `ret`.
    Return,
    /// In front of an instruction that must run natively; it is not part of the block.
    Refused {
        /// Where it lies.
        at: RemoteAddr,
        /// Why.
        why: Refusal,
    },
    /// In front of an instruction of which not all bytes are there (the end of a mapping).
    MissingBytes(RemoteAddr),
}

/// Instructions that run one after the other. Where a direct jump or call was followed, the next instruction is its
/// target, and behind the `ret` that matches a followed call the one behind that call. A conditional branch that is not the
/// last instruction is a *side exit*: when it is taken, what comes behind it does not run. So is such a `ret`, when it
/// leads elsewhere.
#[derive(Clone, Debug)]
pub struct Block {
    /// Where it begins.
    pub start: RemoteAddr,
    /// The instructions in order of execution; empty when the first one cannot be had.
    pub instructions: Vec<Instruction>,
    /// How it ends.
    pub end: End,
}

impl Block {
    /// Bytes of all instructions together.
    #[must_use]
    pub fn byte_length(&self) -> usize {
        self.instructions.iter().map(Instruction::length).sum()
    }

    /// Numbers of the instructions that may leave the block although others follow, rising.
    pub fn side_exits(&self) -> impl Iterator<Item = usize> + '_ {
        let inner = self.instructions.len().saturating_sub(1);
        let ends_behind = usize::from(!self.end.is_last_instruction());
        let numbered = self.instructions.iter().enumerate().take(inner + ends_behind);
        let may_leave =
            |one: &Instruction| matches!(one.flow(), Flow::Conditional(_) | Flow::Return);
        numbered.filter(move |(_, one)| may_leave(one)).map(|(number, _)| number)
    }
}

impl End {
    /// Whether the last instruction of the block is its end; otherwise the end lies behind it.
    #[must_use]
    pub fn is_last_instruction(&self) -> bool {
        !matches!(self, End::FallThrough(_) | End::Refused { .. } | End::MissingBytes(_))
    }
}
