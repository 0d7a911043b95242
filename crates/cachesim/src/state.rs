//! What is known about a line in a level, packed into the low bits of its entry.
//!
//! What not: which line it is; the bits above say that (`cache`).

use crate::tally::{DEPTHS, FillClass};

/// Bits of an entry below the line's number.
pub const STATE_BITS: u32 = 10;
/// A state, of which none has this bit: the way's line was taken out. No search finds such an entry.
pub const GONE: u64 = 1 << 9;

/// What is known about a line in a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineState(u64);

/// How it came from DRAM: an age, or [`MISS`]. Tallies do not tell ages from [`DEPTHS`] on apart.
const CLASS: u64 = 0x3f;
const MISS: u64 = CLASS;
/// This copy is newer than those further out, and has to be written back.
const DIRTY: u64 = 1 << 6;
/// It was counted as dirtied since it came from DRAM.
const DIRTIED: u64 = 1 << 7;
/// Other cores may have copies.
const SHARED: u64 = 1 << 8;

impl LineState {
    /// All bits of states.
    pub const ALL: u64 = CLASS | DIRTY | DIRTIED | SHARED;

    /// Fresh from DRAM.
    #[inline]
    pub fn fetched(class: FillClass) -> LineState {
        LineState(match class {
            FillClass::Unknown { age } => u64::from(age).min(DEPTHS as u64),
            FillClass::Miss => MISS,
        })
    }

    /// The state in an entry.
    #[inline]
    pub fn of(entry: u64) -> LineState {
        LineState(entry & LineState::ALL)
    }

    /// The entry of a line with this state; `tag` is its number above [`STATE_BITS`].
    #[inline]
    pub fn entry(self, tag: u64) -> u64 {
        tag | self.0
    }

    /// How it came from DRAM.
    pub fn class(self) -> FillClass {
        match self.0 & CLASS {
            MISS => FillClass::Miss,
            age => FillClass::Unknown { age: age as u8 },
        }
    }

    #[inline]
    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    #[inline]
    pub fn is_dirtied(self) -> bool {
        self.0 & DIRTIED != 0
    }

    pub fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }

    /// Whether a store changes nothing: the line is dirty and no one else's.
    #[inline]
    pub fn is_own(self) -> bool {
        self.0 & (DIRTY | SHARED) == DIRTY
    }

    #[inline]
    pub fn shared(self, shared: bool) -> LineState {
        LineState(self.0 & !SHARED | if shared { SHARED } else { 0 })
    }

    /// After a store.
    #[inline]
    pub fn stored(self) -> LineState {
        LineState(self.0 | DIRTY | DIRTIED)
    }

    /// What a copy further in starts with: the dirt stays where it is.
    #[inline]
    pub fn copy(self) -> LineState {
        LineState(self.0 & !DIRTY)
    }

    /// With the dirt of a copy further in, or of another core.
    #[inline]
    pub fn absorb(self, other: LineState) -> LineState {
        LineState(self.0 | other.0 & (DIRTY | DIRTIED))
    }
}
