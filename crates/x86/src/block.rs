//! Runs of instructions with one entry, at the top.
//!
//! What for: the unit of translation and of recording. A *basic block* ends at the first branch. A *superblock*
//! follows direct jumps and calls into their targets, returns from followed calls, and continues after conditional
//! branches that lead forward, because every block costs a record. What not: guessing other indirect targets;
//! unrolling loops.
//!
//! Assumptions: the bytes may be hostile (data taken for code), so every walk is bounded. Forward branches are mostly
//! not taken, backward ones mostly are (compilers lay code out so). A followed `call` pushes its native return
//! address, which the program may change, so a copy must check where the matching `ret` leads.

use base::RemoteAddr;

use crate::instruction::{Flow, Instruction};
use crate::refusal::Refusal;

/// The limits of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most instructions. 0 gives empty blocks.
    pub instructions: usize,
    /// Most bytes of instructions.
    pub bytes: usize,
    /// Most direct jumps and calls to follow, and returns from these; 0 for basic blocks.
    pub follow: usize,
    /// Most conditional branches after which the block continues; 0 for basic blocks.
    pub branches: usize,
}

impl Limits {
    /// Basic blocks: nothing is followed.
    pub const BASIC: Limits = Limits { instructions: 256, bytes: 2048, follow: 0, branches: 0 };
    /// Superblocks. Eight is an unmeasured choice: each followed branch saves a record and lengthens translation.
    pub const SUPER: Limits = Limits { instructions: 256, bytes: 2048, follow: 8, branches: 4 };
}

/// The end of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A limit was reached; the program continues here.
    FallThrough(RemoteAddr),
    /// The last instruction jumps here.
    Jump(RemoteAddr),
    /// The last instruction is `jcc`, `loop` or `jrcxz`.
    Conditional {
        /// The target when the condition holds.
        taken: RemoteAddr,
        /// The next address when it does not.
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
    /// Before an instruction that must run natively; it is not part of the block.
    Refused {
        /// Its address.
        at: RemoteAddr,
        /// Why.
        why: Refusal,
    },
    /// Before an instruction of which not all bytes are available (the end of a mapping).
    MissingBytes(RemoteAddr),
}

/// Instructions in order of execution. After a followed jump or call comes its target, and after the `ret` that
/// matches a followed call the instruction after that call. A conditional branch that is not the last instruction is
/// a *side exit*: if it is taken, the instructions after it do not run. Such a `ret` is one too, if it leads
/// elsewhere.
#[derive(Clone, Debug)]
pub struct Block {
    /// The address of its first instruction.
    pub start: RemoteAddr,
    /// The instructions in order of execution; empty if the first one cannot be read.
    pub instructions: Vec<Instruction>,
    /// Its end.
    pub end: End,
}

impl Block {
    /// Bytes of all instructions.
    #[must_use]
    pub fn byte_length(&self) -> usize {
        self.instructions.iter().map(Instruction::length).sum()
    }

    /// Indices of the instructions that may leave the block although others follow, ascending.
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
    /// Whether the last instruction of the block is its end; otherwise the end is after it.
    #[must_use]
    pub fn is_last_instruction(&self) -> bool {
        !matches!(self, End::FallThrough(_) | End::Refused { .. } | End::MissingBytes(_))
    }
}
