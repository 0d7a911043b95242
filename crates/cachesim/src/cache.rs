//! One level: sets of lines, found, put in, taken out.
//!
//! What not: where lines come from and go to (`hierarchy`), who leaves a full set (`replacement`).
//! Layout: tags and states in flat arrays, way by way; a line keeps its way while it stays, its place in the recency
//! order is in the set's head. An L1 hit on the most recent line reads one head and one tag.
//!
//! Beginning anew costs nothing: sets carry the number of the generation that filled them, and one of an older generation
//! is empty. There are thousands of bursts, and clearing the tags of a last level would cost 0.3 ms for each.

use base::Bytes;

use crate::config::{ColdLines, Geometry, MAX_LINES, Replacement};
use crate::replacement::Policy;
use crate::replacement::recency::{
    NARROW, at_narrow, promote_narrow, promote_wide, push_narrow, push_wide,
};
use crate::tally::FillClass;

/// The tag of a way whose line was taken out. No line has this number: line numbers are addresses shifted right.
const NO_LINE: u64 = u64::MAX;

const LOW_BITS: u128 = u128::from_le_bytes([1; NARROW]);
const HIGH_BITS: u128 = u128::from_le_bytes([0x80; NARROW]);

/// A byte that differs for most lines of a set.
fn mark(line: u64) -> u8 {
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// What is known about a line in a level.
///
/// Bits of one word, because a last level has hundreds of thousands of them, and misses there wait for memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineState(u16);

/// This copy is newer than those further out, and has to be written back.
const DIRTY: u16 = 1 << 8;
/// It was counted as dirtied since it came from DRAM.
const DIRTIED: u16 = 1 << 9;
/// Other cores may have copies.
const SHARED: u16 = 1 << 10;
/// How it came from DRAM: an age, or this.
const CLASS: u16 = 0xff;
const MISS: u16 = CLASS;

impl LineState {
    /// Fresh from DRAM.
    pub fn fetched(class: FillClass) -> LineState {
        LineState(match class {
            FillClass::Unknown { age } => u16::from(age),
            FillClass::Miss => MISS,
        })
    }

    /// How it came from DRAM.
    pub fn class(self) -> FillClass {
        match self.0 & CLASS {
            MISS => FillClass::Miss,
            age => FillClass::Unknown { age: age as u8 },
        }
    }

    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    pub fn is_dirtied(self) -> bool {
        self.0 & DIRTIED != 0
    }

    pub fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }

    /// Whether a store changes nothing: the line is dirty and no one else's.
    pub fn is_own(self) -> bool {
        self.0 & (DIRTY | SHARED) == DIRTY
    }

    pub fn shared(self, shared: bool) -> LineState {
        LineState(self.0 & !SHARED | if shared { SHARED } else { 0 })
    }

    /// After a store.
    pub fn stored(self) -> LineState {
        LineState(self.0 | DIRTY | DIRTIED)
    }

    /// What a copy further in starts with: the dirt stays where it is.
    pub fn copy(self) -> LineState {
        LineState(self.0 & !DIRTY)
    }

    /// Takes over the dirt of a copy further in, or of another core.
    pub fn absorb(&mut self, other: LineState) {
        self.0 |= other.0 & (DIRTY | DIRTIED);
    }
}

/// Where a line lies: index into the flat arrays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(usize);

/// A set's head.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    /// The recency order up to 16 ways.
    order: u64,
    /// A byte of each line's number, mixed, up to 16 ways: most searches that fail need not read the tags.
    marks: [u8; NARROW],
    generation: u32,
    /// Ways that have held a line in this generation.
    filled: u8,
    /// Of these the ones whose line was taken out.
    gaps: u8,
}

/// A line that had to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evicted {
    pub line: u64,
    pub state: LineState,
}

/// One level.
#[derive(Clone, Debug)]
pub struct Cache {
    set_count: u64,
    /// Whether a mask finds the set.
    power_of_two: bool,
    ways: usize,
    generation: u32,
    sets: Vec<Set>,
    tags: Vec<u64>,
    states: Vec<LineState>,
    /// The recency orders above 16 ways.
    wide: Vec<u8>,
    policy: Policy,
    cold: ColdLines,
    /// How many lines were taken out, not by making room.
    removals: u64,
}

impl Cache {
    /// `geometry` was checked.
    pub fn new(geometry: Geometry, replacement: Replacement, cold: ColdLines) -> Cache {
        debug_assert!(geometry.bytes <= Bytes(MAX_LINES * u64::from(geometry.line_bytes)));
        let (set_count, ways) = (geometry.sets(), geometry.ways as usize);
        let sets = set_count as usize;
        let lines = sets * ways;
        Cache {
            set_count,
            power_of_two: set_count.is_power_of_two(),
            ways,
            generation: 1,
            sets: vec![Set::default(); sets],
            tags: vec![NO_LINE; lines],
            states: vec![LineState::fetched(FillClass::Miss); lines],
            wide: if ways > NARROW { vec![0; lines] } else { Vec::new() },
            policy: Policy::new(replacement, sets, ways),
            cold,
            removals: 0,
        }
    }

    /// Empties all sets.
    pub fn forget(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            // Once in 4 billion times: sets of the first generations would come alive again.
            self.sets.fill(Set::default());
            self.generation = 1;
        }
    }

    /// The set in which a line lies.
    #[inline]
    pub fn set_of(&self, line: u64) -> u64 {
        if self.power_of_two { line & (self.set_count - 1) } else { line % self.set_count }
    }

    /// How many lines were taken out since the start, not by making room.
    pub fn removals(&self) -> u64 {
        self.removals
    }

    /// What is known about a line found.
    #[inline]
    pub fn state(&mut self, slot: Slot) -> &mut LineState {
        &mut self.states[slot.0]
    }

    /// A touch. A line that is found becomes its set's most recent one, and its depth before is told.
    #[inline]
    pub fn look_up(&mut self, line: u64) -> Result<(Slot, u8), FillClass> {
        let index = self.set_of(line) as usize;
        let set = &self.sets[index];
        if set.generation != self.generation {
            return Err(self.absent(0));
        }
        let first = index * self.ways;
        if self.ways <= NARROW {
            let recent = first + at_narrow(set.order, 0);
            if self.tags[recent] == line {
                return Ok((Slot(recent), 0));
            }
        }
        self.search(index, line)
    }

    /// The same for outer levels, where the most recent line is seldom the one and heads and tags are not in the real
    /// caches: without the head's word on the most recent way, the tags need not wait for it.
    pub fn look_up_far(&mut self, line: u64) -> Result<(Slot, u8), FillClass> {
        let index = self.set_of(line) as usize;
        if self.sets[index].generation != self.generation {
            return Err(self.absent(0));
        }
        self.search(index, line)
    }

    /// The rest of a touch, apart so that the common case is small enough to stand in its callers.
    #[inline(never)]
    fn search(&mut self, index: usize, line: u64) -> Result<(Slot, u8), FillClass> {
        let (first, filled) = (index * self.ways, self.sets[index].filled);
        match self.way_of(index, line) {
            None => Err(self.absent(filled)),
            Some(way) => Ok((Slot(first + way), self.promote(index, way))),
        }
    }

    /// A look that changes nothing.
    pub fn find(&self, line: u64) -> Option<Slot> {
        let index = self.set_of(line) as usize;
        let set = &self.sets[index];
        let first = index * self.ways;
        let alive = set.generation == self.generation;
        let way = alive.then(|| self.way_of(index, line)).flatten()?;
        Some(Slot(first + way))
    }

    /// Puts a line in that is not there, as its set's most recent one.
    pub fn fill(&mut self, line: u64, state: LineState) -> Option<Evicted> {
        let index = self.set_of(line) as usize;
        let first = index * self.ways;
        if self.sets[index].generation != self.generation {
            self.sets[index] = Set { generation: self.generation, ..Set::default() };
            self.policy.forget(index);
        }
        let set = &mut self.sets[index];
        let filled = usize::from(set.filled);
        let mut evicted = None;
        let way = if set.gaps == 0 && filled == self.ways {
            let oldest = self.oldest(index);
            let way = self.policy.victim(index, self.ways, oldest);
            let slot = first + way;
            evicted = Some(Evicted { line: self.tags[slot], state: self.states[slot] });
            self.promote(index, way);
            way
        } else if set.gaps == 0 {
            set.filled += 1;
            self.push(index, filled);
            filled
        } else {
            set.gaps -= 1;
            let way = self.way_of(index, NO_LINE).unwrap_or(0);
            self.promote(index, way);
            way
        };
        self.put(index, way, line);
        self.states[first + way] = state;
        evicted
    }

    /// Takes a line out; its way will be filled next.
    pub fn remove(&mut self, line: u64) -> Option<LineState> {
        let slot = self.find(line)?;
        let index = self.set_of(line) as usize;
        self.put(index, slot.0 % self.ways, NO_LINE);
        self.sets[index].gaps += 1;
        self.removals += 1;
        Some(self.states[slot.0])
    }

    #[inline]
    fn absent(&self, filled: u8) -> FillClass {
        match self.cold {
            ColdLines::Unknown if usize::from(filled) < self.ways => {
                FillClass::Unknown { age: filled }
            }
            _ => FillClass::Miss,
        }
    }

    /// The lowest way of a set that has the tag.
    #[inline]
    fn way_of(&self, index: usize, line: u64) -> Option<usize> {
        let (set, first) = (&self.sets[index], index * self.ways);
        let tags = &self.tags[first..first + usize::from(set.filled)];
        if self.ways > NARROW {
            return tags.iter().position(|tag| *tag == line);
        }
        // Bytes that are equal become zero. Those above a zero byte may be found falsely, which the tags tell.
        let differs = u128::from_le_bytes(set.marks) ^ (LOW_BITS * u128::from(mark(line)));
        let mut equal = differs.wrapping_sub(LOW_BITS) & !differs & HIGH_BITS;
        while equal != 0 {
            let way = equal.trailing_zeros() as usize / 8;
            if tags.get(way) == Some(&line) {
                return Some(way);
            }
            equal &= equal - 1;
        }
        None
    }

    fn put(&mut self, index: usize, way: usize, line: u64) {
        self.tags[index * self.ways + way] = line;
        if self.ways <= NARROW {
            self.sets[index].marks[way] = mark(line);
        }
    }

    #[inline]
    fn promote(&mut self, index: usize, way: usize) -> u8 {
        self.policy.touched(index, way);
        if self.ways <= NARROW {
            promote_narrow(&mut self.sets[index].order, way)
        } else {
            let first = index * self.ways;
            promote_wide(&mut self.wide[first..first + self.ways], way)
        }
    }

    #[inline]
    fn push(&mut self, index: usize, way: usize) {
        self.policy.touched(index, way);
        if self.ways <= NARROW {
            push_narrow(&mut self.sets[index].order, way);
        } else {
            let first = index * self.ways;
            push_wide(&mut self.wide[first..first + self.ways], way, way);
        }
    }

    #[inline]
    fn oldest(&self, index: usize) -> usize {
        if self.ways <= NARROW {
            at_narrow(self.sets[index].order, self.ways - 1)
        } else {
            usize::from(self.wide[(index + 1) * self.ways - 1])
        }
    }
}
