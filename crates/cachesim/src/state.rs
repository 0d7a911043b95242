//! The content of a way: a line's number and its state, in one word.
//!
//! ```text
//! bits 63..10 number of the line | 9 gone | 8..7 - | 6 dirtied | 5..0 class
//! ```
//!
//! Assumption: addresses are canonical, of at most 57 bits (Intel SDM vol. 1, 3.3.7.1, with 5-level paging), so that
//! 54 bits and their sign hold a line's number. Lines of other addresses may be confused.

use std::num::NonZeroU64;

use crate::tally::{DEPTHS, FillClass};

/// The content of a way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry(NonZeroU64);

/// The state of a line in a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineState(u64);

/// The way's line was removed. No search finds such an entry.
const GONE: u64 = 1 << 9;
/// How it came from DRAM: an age plus 1, or [`MISS`]. Tallies do not distinguish ages from [`DEPTHS`] on.
const CLASS: u64 = 0x3f;
const MISS: u64 = CLASS;
/// It was counted as dirtied since it came from DRAM, or was written back.
const DIRTIED: u64 = 1 << 6;

/// All bits of states.
const STATE: u64 = CLASS | DIRTIED;
const STATE_BITS: u32 = 10;

impl Entry {
    /// The entry of a way without a line.
    pub const GONE: Entry = Entry(NonZeroU64::MIN.saturating_add(GONE));

    #[inline]
    pub fn new(line: u64, state: LineState) -> Entry {
        // No class is 0.
        Entry(NonZeroU64::new((line << STATE_BITS) | state.0).unwrap_or(Entry::GONE.0))
    }

    /// Whether it is a line's.
    #[inline]
    pub fn is_of(self, line: u64) -> bool {
        self.0.get() & !STATE == line << STATE_BITS
    }

    pub fn is_gone(self) -> bool {
        self.0.get() & GONE != 0
    }

    #[inline]
    pub fn state(self) -> LineState {
        LineState(self.0.get() & STATE)
    }

    /// The same line with another state.
    #[inline]
    pub fn with(self, state: LineState) -> Entry {
        Entry(NonZeroU64::new((self.0.get() & !STATE) | state.0).unwrap_or(Entry::GONE.0))
    }

    /// The number of its line, which has `1 << shift` bytes.
    #[inline]
    pub fn line(self, shift: u32) -> u64 {
        // An arithmetic shift: the upper bits of kernel addresses are all set.
        (self.0.get().cast_signed() >> STATE_BITS).cast_unsigned() & (u64::MAX >> shift)
    }
}

impl LineState {
    /// Fresh from DRAM.
    #[inline]
    pub fn fetched(class: FillClass) -> LineState {
        LineState(match class {
            FillClass::Unknown { age } => u64::from(age).min(DEPTHS as u64) + 1,
            FillClass::Miss => MISS,
        })
    }

    /// How it came from DRAM.
    pub fn class(self) -> FillClass {
        match self.0 & CLASS {
            MISS => FillClass::Miss,
            age => FillClass::Unknown { age: (age - 1) as u8 },
        }
    }

    #[inline]
    pub fn is_dirtied(self) -> bool {
        self.0 & DIRTIED != 0
    }

    /// The state after a store.
    #[inline]
    pub fn stored(self) -> LineState {
        LineState(self.0 | DIRTIED)
    }

    /// The state after a write-back: the next store is counted again.
    pub fn cleaned(self) -> LineState {
        LineState(self.0 & !DIRTIED)
    }
}
