//! One cache level, specialised by its number of ways.
//!
//! What not: where lines come from and go to (`hierarchy`), how sets work (`sets`). A fixed number of ways per set
//! lets the compiler leave out what sets of any size need: that is worth three variants.

use std::num::NonZeroU8;

use base::Bytes;

use crate::config::{ColdLines, Frames, Geometry, MAX_LINES, MAX_WAYS};
use crate::lru::{Nibbles, Ring};
use crate::sets::Sets;
use crate::state::{Entry, LineState};
use crate::tally::FillClass;

/// A line, and the set to which it belongs in a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheAddress {
    pub line: u64,
    pub set: usize,
}

/// The position of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    pub set: u32,
    pub way: u8,
}

/// A line that was found. A result with it fits into a register: in memory, its bytes would be written singly and read together,
/// for which a core waits until they are in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hit {
    set: u32,
    way: u8,
    depth_and_one: NonZeroU8,
}

const _: () = assert!(size_of::<Result<Hit, FillClass>>() == 8);

impl Hit {
    #[inline]
    pub fn new(Slot { set, way }: Slot, depth: u8) -> Hit {
        Hit { set, way, depth_and_one: NonZeroU8::MIN.saturating_add(depth) }
    }

    /// Where it is.
    #[inline]
    pub fn slot(self) -> Slot {
        Slot { set: self.set, way: self.way }
    }

    /// Number of more recent lines in its set.
    #[inline]
    pub fn depth(self) -> u8 {
        self.depth_and_one.get() - 1
    }
}

/// One level.
#[derive(Clone, Debug)]
pub enum Cache {
    /// Most caches.
    Narrow(Sets<16, Nibbles>),
    /// Last levels of many cores.
    Wide(Sets<32, Ring<32>>),
    /// Fully associative TLBs.
    Widest(Sets<{ MAX_WAYS as usize }, Ring<{ MAX_WAYS as usize }>>),
}

macro_rules! each {
    ($cache:expr, $sets:ident => $does:expr) => {
        match $cache {
            Cache::Narrow($sets) => $does,
            Cache::Wide($sets) => $does,
            Cache::Widest($sets) => $does,
        }
    };
}

impl Cache {
    /// `geometry` was checked.
    pub fn new(geometry: Geometry, cold: ColdLines, frames: Frames) -> Cache {
        debug_assert!(geometry.bytes <= Bytes(MAX_LINES * u64::from(geometry.line_bytes)));
        match geometry.ways {
            ..=16 => Cache::Narrow(Sets::new(geometry, cold, frames)),
            17..=32 => Cache::Wide(Sets::new(geometry, cold, frames)),
            _ => Cache::Widest(Sets::new(geometry, cold, frames)),
        }
    }

    /// Empties all sets.
    pub fn forget(&mut self) {
        each!(self, sets => sets.forget());
    }

    /// The set in which a line lies: the number of its place in memory, modulo the sets.
    #[inline]
    pub fn set_of(&self, line: u64) -> u64 {
        each!(self, sets => sets.set_of(line))
    }

    /// Number of lines that fit.
    pub fn lines(&self) -> u64 {
        each!(self, sets => sets.lines())
    }

    /// Number of lines removed or cleaned since the start, evictions not included.
    pub fn removals(&self) -> u64 {
        each!(self, sets => sets.removals())
    }

    /// The state of a line that was found.
    #[inline]
    pub fn state(&self, slot: Slot) -> LineState {
        each!(self, sets => sets.state(slot))
    }

    /// Changes it.
    #[inline]
    pub fn set_state(&mut self, slot: Slot, state: LineState) {
        each!(self, sets => sets.set_state(slot, state));
    }

    /// What a look-up and a fill of a line need to know.
    #[inline]
    pub fn locate(&self, line: u64) -> CacheAddress {
        each!(self, sets => sets.locate(line))
    }

    /// A touch. A line that is found becomes its set's most recent one, and its earlier depth is returned.
    #[inline]
    pub fn look_up(&mut self, address: CacheAddress) -> Result<Hit, FillClass> {
        each!(self, sets => sets.look_up(address))
    }

    /// The same for outer levels, where the most recent line is rarely the wanted one.
    #[inline]
    pub fn look_up_far(&mut self, address: CacheAddress) -> Result<Hit, FillClass> {
        each!(self, sets => sets.look_up_far(address))
    }

    /// A look-up that changes nothing.
    pub fn find(&self, line: u64) -> Option<Slot> {
        each!(self, sets => sets.find(line))
    }

    /// Inserts a line that is not there, as its set's most recent one.
    #[inline]
    pub fn fill(&mut self, address: CacheAddress, state: LineState) -> Option<Entry> {
        each!(self, sets => sets.fill(address, state))
    }

    /// Removes a line; its way is filled next.
    pub fn remove(&mut self, line: u64) {
        each!(self, sets => sets.remove(line));
    }

    /// A dirty line is clean afterwards; its recency is as before.
    pub fn clean(&mut self, line: u64) {
        each!(self, sets => sets.clean(line));
    }
}
