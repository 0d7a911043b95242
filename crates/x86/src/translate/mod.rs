//! Translates blocks into machine code that does the same and records.
//!
//! What for: [`translate`] writes the copy of one block for one address; [`common_code`] writes the code that all
//! copies of a region share. Every byte of both has its native state ([`States`]), so that a thread that is stopped
//! anywhere gets its native registers back. What not: placing, linking and running the code (crate `burst`).
//!
//! The model, with its assumptions:
//! 1. One general register is *reserved*: it holds the record pointer, and its native value is in [`area::RESERVED`].
//!    Flavour `Count` reserves none.
//! 2. Flags, the stack below rsp and registers change only where the state says so.
//! 3. The thread has the direction flag clear, does not use gs, and no instruction changes the base of fs.
//! 4. Translated code raises no signal and no fault. A block leaves by a system call (getpid) that a living tracer
//!    catches at its entry; without a tracer it returns, and the stub continues at the native address. Every block
//!    checks the room for records (or counts down), so a thread leaves translated code once the tracer is dead. The
//!    only exception is a loop that does not end natively either.

use base::RemoteAddr;

use crate::block::{Block, End};
use crate::code::{CodeSource, Window};
use crate::refusal::Refusal;
use crate::register::Gpr;
use crate::roots::Root;
use plan::Plan;
use writer::Writer;

pub mod area;
mod branches;
mod common;
mod counting;
mod emit;
mod layout_text;
mod parts;
mod plan;
mod record;
mod reserved;
mod saved;
mod side_exit;
mod summary;
mod timed;
mod writer;
mod written;

pub use common::common_code;
pub use layout_text::{LayoutError, MOST_WORDS};
pub use parts::Parts;
pub use saved::Saved;
pub use written::WrittenWord;

/// The purpose of a copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Flavour {
    /// Records the roots of each block; of a summarised loop those of the first iteration and the number of
    /// iterations.
    Trace,
    /// Counts each block.
    Count,
    /// Times one load of the block with rdtsc; records its roots and the cycles.
    Timed {
        /// Chooses the load: number `pick` modulo the block's loads that can be timed.
        pick: u32,
    },
}

/// The exit number of an indirect jump to an address without a block.
pub const MISS: u32 = u32::MAX;

/// The destination of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Address of its first byte.
    pub at: RemoteAddr,
    /// Address of its cold part.
    pub cold: RemoteAddr,
    /// The block number in its records, below 2^31; for `Count` below [`area::COUNTER_COUNT`].
    pub block: u32,
    /// The number of its first exit.
    pub first_exit: u32,
    /// The purpose.
    pub flavour: Flavour,
    /// The shared code of this flavour, within 2 GiB of both parts.
    pub common: Common,
    /// The register that holds the record pointer.
    pub reserved: Gpr,
    /// For code that another thread may replace.
    pub witness: Option<Witness>,
}

/// A word of the program's memory that tells whether the code from which a block was copied is still where it was: part of
/// its library's build id, for example. Code whose way in is an indirect branch compares it there, and goes to
/// [`Common::miss`] if it has changed. Whoever replaces a library makes sure that no thread is in it, so no thread can miss the
/// change once it is inside; and a thread that comes in later has synchronised with who replaced it, so it reads the new word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Witness {
    /// Where it is, in readable memory.
    pub at: RemoteAddr,
    /// What it is.
    pub word: u32,
}

/// Addresses of shared code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Common {
    /// Continues at [`area::TARGET`], where a tracer takes over. Entered in native state, except that the reserved
    /// register holds the record pointer.
    pub exit: RemoteAddr,
    /// Continues at the address in rcx; rcx and rax are in the first two spill slots.
    pub miss: RemoteAddr,
}

/// A copy of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Translation {
    /// The code: the hot part, then the cold one.
    pub bytes: Vec<u8>,
    /// Where they lie.
    pub parts: Parts,
    /// Offset at which links and the tracer enter: native state, except that the reserved register holds the record
    /// pointer and [`area::RESERVED`] its native value.
    pub entry: usize,
    /// The code at whose beginning the table enters: the native target in rcx, rcx and rax in the first two spill slots. It leads
    /// to `entry`. In it, only the read of the [`Witness`] can fault.
    pub table: std::ops::Range<usize>,
    /// Offset of an address, aligned to 8 bytes, which is [`Common::miss`]: there it goes on if the target is not this block's start.
    /// It may be changed to the table entry of another block, wherever that is.
    pub chain: usize,
    /// Ways out to known addresses.
    pub exits: Vec<Exit>,
    /// Constants among the code, at the end of the hot part.
    pub constants: std::ops::Range<usize>,
    /// The native state at each byte.
    pub states: States,
    /// The layout of its records.
    pub record: RecordLayout,
    /// `Trace`: words to which it stores.
    pub written: Vec<WrittenWord>,
}

/// A way out of a block to a known native address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// Its number.
    pub number: u32,
    /// The native address at which the program continues.
    pub target: RemoteAddr,
    /// Offset of the rel32 that may be changed to lead to another block's entry. It is aligned to 4 bytes, so that a
    /// running thread sees the old or the new value.
    pub link: usize,
    /// Offset of the stub to which it leads at first: the stub sets [`area::TARGET`] and [`area::EXIT`] and jumps to
    /// [`Common::exit`].
    pub stub: usize,
    /// Whether `link` exists. It does not for the exit at the head of a block, taken when there is no room or the
    /// counter is used up: that one must always reach the tracer. `link` is then `stub`.
    pub linkable: bool,
}

/// The native registers at one point of a copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// The native instruction pointer.
    pub rip: NativeRip,
    /// Registers whose native value is in a slot; all others hold their own value.
    pub saved: Saved,
    /// Index of the block's instruction that executes next, when `rip` belongs to one.
    pub instruction: Option<usize>,
    /// The record pointer is past this block's record: its values up to `instruction` are there.
    pub recorded: bool,
    /// The record pointer is in [`area::POINTER`], not in the reserved register.
    pub pointer_in_slot: bool,
    /// In a summarised loop whose record does not have the number of iterations yet. For [`Iterations::Counter`], the
    /// register's *native* value stands for the word `end`. For [`Iterations::Word`], the value of the reserved
    /// register stands for the word, and includes the iteration of `instruction`. Without an `instruction`, exactly
    /// that many iterations are complete.
    pub looping: bool,
}

/// The native instruction pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NativeRip {
    /// This address.
    Known(RemoteAddr),
    /// The value of a register (as it is, not as saved) plus a constant, modulo 2^64.
    Register(Gpr, u64),
    /// The value in this slot.
    Slot(area::Displacement),
}

/// States by offset.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct States {
    /// Offset from which each state holds, until the next one's; ascending.
    pub from: Vec<(usize, State)>,
}

impl States {
    /// The state before the byte at `offset`, which must be the first byte of an instruction.
    #[must_use]
    pub fn at(&self, offset: usize) -> Option<&State> {
        let behind = self.from.partition_point(|(from, _)| *from <= offset);
        self.from.get(behind.checked_sub(1)?).map(|(_, state)| state)
    }
}

/// The layout of a copy's records, in words of 8 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordLayout {
    /// Words of a record: a header (block number in the low half, way in the high half), then values. 0: none.
    pub words: usize,
    /// The values, in the order of words. Of a mask register only the bits of the lanes that the block's accesses
    /// have are valid. Values that need no word are not here: the base of fs, and the direction flag, which is clear.
    pub values: Vec<RecordedValue>,
    /// Number of instructions executed, by way: way 0 is the end of the block, others are its side exits in order.
    /// For a summarised loop, in the last iteration, which counts.
    pub ways: Vec<usize>,
    /// For a summarised loop.
    pub iterations: Option<Iterations>,
    /// `Timed`: the timed access (index into the block's accesses) and the word of its time stamps: the lower 32 bits
    /// of the time-stamp counter before it are in the lower half, those after it in the upper half. The difference,
    /// modulo 2^32, includes the cost of the fences. The values are then those directly before the instruction of the
    /// access.
    pub timed: Option<(usize, usize)>,
}

/// A value of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedValue {
    /// The root.
    pub root: Root,
    /// First word.
    pub word: usize,
    /// Number of words: 1; for vectors up to 8.
    pub words: usize,
}

/// How a record gives the number of iterations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Iterations {
    /// (word `end` - word `start`) / stride, in arithmetic of 64 or 32 bits.
    Counter {
        /// The counting register.
        register: Gpr,
        /// Word of its value at the start of the first iteration.
        start: usize,
        /// Word of its value after the last one.
        end: usize,
        /// Its step per iteration.
        stride: u64,
        /// It counts modulo 2^32.
        narrow: bool,
        /// Its advance since the start of an iteration, before each instruction.
        advanced: Vec<u64>,
    },
    /// This word is the number itself. While the loop runs, the reserved register holds it.
    Word(usize),
}

/// The code that all copies of one flavour in a region share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommonCode {
    /// The code.
    pub bytes: Vec<u8>,
    /// Offset of [`Common::exit`].
    pub exit: usize,
    /// Offset of [`Common::miss`].
    pub miss: usize,
    /// The native state at each byte.
    pub states: States,
}

/// Writes the copy of `block` for one address. `code` is the source from which the block was read.
///
/// # Errors
/// The block is empty or has an instruction that cannot be copied, or a displacement or a branch does not reach.
///
/// # Panics
/// If `site.reserved` is not one of rbx, rbp, r12..r15: instructions use the other registers implicitly.
pub fn translate<C: CodeSource + ?Sized>(
    block: &Block,
    code: &C,
    site: &Site,
) -> Result<Translation, Refusal> {
    let Some(first) = block.instructions.first() else {
        return Err(match block.end {
            End::Refused { why, .. } => why,
            _ => Refusal::MissingBytes,
        });
    };
    debug_assert_eq!(first.address(), block.start);
    assert!(may_be_reserved(site.reserved), "{} cannot be reserved", site.reserved);
    let plan = match site.flavour {
        Flavour::Trace => plan::trace(block, site.reserved),
        Flavour::Timed { pick } => plan::timed(block, pick),
        Flavour::Count => Plan::default(),
    };
    if plan.layout.words > MOST_WORDS {
        return Err(Refusal::TooManyValues);
    }
    let bytes = block.instructions.iter().map(|one| Window::read(code, one.address())).collect();
    Writer::new(block, bytes, site).write(plan)
}

fn may_be_reserved(register: Gpr) -> bool {
    matches!(register.number(), 3 | 5 | 12..=15)
}
