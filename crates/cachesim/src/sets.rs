//! The sets of a level of up to N ways: look-up, fill, removal of lines.
//!
//! The least recently touched line of a full set leaves. Ways without a line are filled first: those whose line was removed, the one
//! touched longest ago before the others; then those that never held one, lowest first. In a burst these stand for the ways with
//! unknown contents, so no line of the burst leaves before its set has seen as many lines as it has ways.
//! What not: the number of ways (`cache`), the order of ways (`lru`).
//!
//! A simulated line that misses everywhere costs its look-ups, and part of these are misses of the real caches. So a set is
//! contiguous, and a look-up that misses reads only its first 32 bytes (up to 16 ways):
//!
//! ```text
//! order 8 | marks 16 | generation 4 | filled 1 | gaps 1 | -         entries 8 a way
//! ```
//!
//! A line keeps its way while it stays. The marks, a byte of each line's number, mixed, are compared all at once; most
//! look-ups that miss then read no entries.
//!
//! A reset costs nothing: sets carry the number of the generation that filled them, and one of an older generation
//! is empty. There are thousands of bursts, and emptying a last level would cost 0.1 ms for each.

use crate::cache::{CacheAddress, Hit, Slot};
use crate::config::{ColdLines, Frames, Geometry};
use crate::lru::Order;
use crate::marks::{Marks, mark};
use crate::state::{Entry, LineState};
use crate::tally::FillClass;

/// A set.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub struct Set<const N: usize, O: Order> {
    pub(crate) order: O,
    pub(crate) marks: Marks<N>,
    pub(crate) generation: u32,
    /// Ways that have held a line in this generation.
    pub(crate) filled: u8,
    /// Those of them whose line was removed.
    gaps: u8,
    pub(crate) entries: [Entry; N],
}

/// A level's sets. N is a power of two, the most ways.
#[derive(Clone, Debug)]
pub struct Sets<const N: usize, O: Order> {
    pub(crate) sets: Vec<Set<N, O>>,
    pub(crate) set_count: u64,
    /// 2^64 / sets, rounded down, where they are no power of two; else 0.
    reciprocal: u64,
    pub(crate) ways: usize,
    /// In sets with fewer lines, lines that are not found may have been there before.
    known_from: u8,
    pub(crate) generation: u32,
    /// Number of lines that were removed other than to make room.
    removals: u64,
    /// Where pages lie; as addressed too where a page has lines of all sets.
    frames: Frames,
    line_shift: u32,
}

impl<const N: usize, O: Order> Set<N, O> {
    fn new() -> Set<N, O> {
        let (order, marks) = (O::default(), Marks::default());
        Set { order, marks, generation: 0, filled: 0, gaps: 0, entries: [Entry::GONE; N] }
    }

    #[inline]
    pub(crate) fn entry(&self, way: usize) -> Entry {
        self.entries[way % N]
    }

    /// The way that has a line, of a set that is alive.
    #[inline]
    fn way_of(&self, line: u64, mark: u8) -> Option<usize> {
        let has = |way: usize| self.entry(way).is_of(line) && way < usize::from(self.filled);
        self.marks.find(mark, has)
    }

    /// The way, of those whose line was removed, that was touched longest ago.
    fn oldest_gap(&self, ways: usize) -> usize {
        let is_gap = |way: &usize| self.entry(*way).is_gone() && *way < usize::from(self.filled);
        self.order.ways(ways).filter(is_gap).last().unwrap_or(0)
    }

    /// Writes a way, and tells its entry before.
    #[inline]
    fn put(&mut self, way: usize, line: u64, state: LineState) -> Entry {
        self.marks.put(way, mark(line));
        std::mem::replace(&mut self.entries[way % N], Entry::new(line, state))
    }
}

impl<const N: usize, O: Order> Sets<N, O> {
    /// `geometry` was checked, and has at most N ways.
    pub fn new(geometry: Geometry, cold: ColdLines, frames: Frames) -> Sets<N, O> {
        let (set_count, ways) = (geometry.sets(), geometry.ways as usize);
        // If all set bits lie within a page offset, placement cannot change the set, and the hash per line is saved.
        let page = if let Frames::Scattered(page) = frames { 1 << page.shift() } else { u64::MAX };
        let within_page = set_count * u64::from(geometry.line_bytes) <= page;
        let power_of_two = set_count.is_power_of_two();
        Sets {
            sets: vec![Set::new(); set_count as usize],
            set_count,
            reciprocal: if power_of_two { 0 } else { u64::MAX / set_count },
            ways,
            known_from: if cold == ColdLines::Unknown { ways as u8 } else { 0 },
            generation: 1,
            removals: 0,
            frames: if within_page { Frames::AsAddressed } else { frames },
            line_shift: geometry.line_bytes.trailing_zeros(),
        }
    }

    pub fn forget(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            // Once in 4 billion times: sets of the first generations would come alive again.
            self.sets.fill(Set::new());
            self.generation = 1;
        }
    }

    #[inline]
    pub fn set_of(&self, line: u64) -> u64 {
        let line = self.frames.line(line, self.line_shift);
        if self.reciprocal == 0 {
            return line & (self.set_count - 1);
        }
        // The quotient is right or 1 too small: line * (2^64 / sets - reciprocal) is below 2^64.
        let quotient = ((u128::from(line) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = line - quotient * self.set_count;
        if rest >= self.set_count { rest - self.set_count } else { rest }
    }

    /// How many lines there is room for.
    pub fn lines(&self) -> u64 {
        self.set_count * self.ways as u64
    }

    pub fn removals(&self) -> u64 {
        self.removals
    }

    #[inline]
    pub fn state(&self, slot: Slot) -> LineState {
        self.sets[slot.set as usize].entry(usize::from(slot.way)).state()
    }

    #[inline]
    pub fn set_state(&mut self, slot: Slot, state: LineState) {
        let entry = &mut self.sets[slot.set as usize].entries[usize::from(slot.way) % N];
        *entry = entry.with(state);
    }

    #[inline]
    pub fn locate(&self, line: u64) -> CacheAddress {
        CacheAddress { line, set: self.set_of(line) as usize }
    }

    #[inline]
    pub fn look_up(&mut self, address: CacheAddress) -> Result<Hit, FillClass> {
        let set = &self.sets[address.set];
        let way = set.order.newest();
        // Most touches are of the most recent line: test it first, before marks and recency.
        if set.entry(way).is_of(address.line) && set.generation == self.generation {
            return Ok(Hit::new(slot(address.set, way), 0));
        }
        if set.generation != self.generation {
            return Err(self.absent(0));
        }
        self.search(address, mark(address.line))
    }

    #[inline(never)]
    pub fn look_up_far(&mut self, address: CacheAddress) -> Result<Hit, FillClass> {
        let (set, mark) = (&self.sets[address.set], mark(address.line));
        if set.generation != self.generation {
            return Err(self.absent(0));
        }
        // In outer levels most look-ups miss: the marks decide without reading entries, which are in other lines.
        if !set.marks.any(mark) {
            return Err(self.absent(set.filled));
        }
        self.search(address, mark)
    }

    /// The rest of a touch.
    #[inline]
    fn search(&mut self, address: CacheAddress, mark: u8) -> Result<Hit, FillClass> {
        let set = &mut self.sets[address.set];
        let Some(way) = set.way_of(address.line, mark) else {
            let filled = set.filled;
            return Err(self.absent(filled));
        };
        let depth = set.order.promote(way, self.ways);
        Ok(Hit::new(slot(address.set, way), depth))
    }

    pub fn find(&self, line: u64) -> Option<Slot> {
        let index = self.set_of(line) as usize;
        let set = &self.sets[index];
        let alive = set.generation == self.generation;
        let way = alive.then(|| set.way_of(line, mark(line))).flatten()?;
        Some(slot(index, way))
    }

    #[inline(never)]
    pub fn fill(&mut self, address: CacheAddress, state: LineState) -> Option<Entry> {
        let set = &mut self.sets[address.set];
        // Without gaps the oldest way is the victim: one update of the order does everything.
        if set.generation != self.generation || set.gaps > 0 {
            self.fill_any(address, state);
            return None;
        }
        let full = usize::from(set.filled) == self.ways;
        // Ways that never held a line are the oldest.
        let way = set.order.renew(self.ways);
        set.filled += u8::from(!full);
        let before = set.put(way, address.line, state);
        full.then_some(before)
    }

    /// The same where there is room: in a set of an earlier burst, or with gaps.
    #[inline(never)]
    fn fill_any(&mut self, address: CacheAddress, state: LineState) {
        let set = &mut self.sets[address.set];
        if set.generation != self.generation {
            // The set is from an earlier burst: it is emptied at its first use.
            (set.generation, set.filled, set.gaps) = (self.generation, 0, 0);
            set.order = O::empty(self.ways);
        }
        let way = if set.gaps > 0 {
            set.gaps -= 1;
            set.oldest_gap(self.ways)
        } else {
            set.filled += 1;
            usize::from(set.filled) - 1
        };
        set.order.promote(way, self.ways);
        set.put(way, address.line, state);
    }

    pub fn remove(&mut self, line: u64) {
        let Some(slot) = self.find(line) else { return };
        let set = &mut self.sets[slot.set as usize];
        // The way keeps its place in the recency order, by which gaps are filled again.
        set.entries[usize::from(slot.way) % N] = Entry::GONE;
        set.gaps += 1;
        self.removals += 1;
    }

    pub fn clean(&mut self, line: u64) {
        let Some(slot) = self.find(line) else { return };
        let state = self.state(slot);
        if state.is_dirtied() {
            self.set_state(slot, state.cleaned());
            self.removals += 1;
        }
    }

    #[inline]
    fn absent(&self, filled: u8) -> FillClass {
        if filled < self.known_from { FillClass::Unknown { age: filled } } else { FillClass::Miss }
    }
}

#[inline]
fn slot(set: usize, way: usize) -> Slot {
    // There are at most `MAX_LINES` sets and `MAX_WAYS` ways.
    Slot { set: set as u32, way: way as u8 }
}
