//! One level: sets of lines, found, put in, taken out.
//!
//! What not: where lines come from and go to (`hierarchy`), who leaves a full set (`replacement`).
//!
//! A simulated line that misses everywhere costs what its look-ups cost the machine that simulates, and those are its
//! own cache misses. So a level is small and a set lies together:
//!
//! ```text
//! sets     order 8 | marks 16 | generation 4 | filled, gaps     32 bytes, never over a border of real lines
//! entries  line << 10 | state, way by way                        8 bytes a way
//! wide     above 16 ways: marks of the ways from the 17th on, and the recency order as bytes
//! ```
//!
//! A line keeps its way while it stays. A miss reads the set's head (one real line), and writes one entry. The marks, a byte
//! of each line's number, mixed, are compared 16 at a time; they spare most searches that fail the entries.
//!
//! Beginning anew costs nothing: sets carry the number of the generation that filled them, and one of an older generation
//! is empty. There are thousands of bursts, and clearing a last level would cost 0.1 ms for each.
//!
//! Assumption: addresses are canonical, of at most 57 bits (Intel SDM vol. 1, 3.3.7.1, with 5-level paging), so that 54
//! bits and their sign hold a line's number. Lines of other addresses may be taken for one another.

use base::Bytes;

use crate::config::{ColdLines, Geometry, MAX_LINES, Replacement};
use crate::marks::{LANES, Marks, mark};
use crate::replacement::Policy;
use crate::replacement::recency::{
    NARROW, at_narrow, empty_narrow, empty_wide, promote_narrow, promote_wide, renew_narrow, renew_wide,
};
use crate::state::{GONE, LineState, STATE_BITS};
use crate::tally::FillClass;

/// A line, and where it belongs in a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The line's number above the state's bits, as entries have it.
    tag: u64,
    set: usize,
    mark: u8,
}

/// Where a line lies: index into the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(usize);

/// A set's head.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Set {
    /// The recency order up to 16 ways; above, where it begins.
    order: u64,
    /// Of the first 16 ways.
    marks: Marks,
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
    /// 2^64 / sets, rounded down, where they are no power of two; else 0.
    reciprocal: u64,
    /// All bits that a line's number can have.
    line_mask: u64,
    ways: usize,
    generation: u32,
    sets: Vec<Set>,
    entries: Vec<u64>,
    /// Above 16 ways: the marks of the ways from the 17th on.
    more_marks: Vec<Marks>,
    /// Above 16 ways: the recency orders.
    orders: Vec<u8>,
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
        let power_of_two = set_count.is_power_of_two();
        Cache {
            set_count,
            reciprocal: if power_of_two { 0 } else { u64::MAX / set_count },
            line_mask: u64::MAX >> geometry.line_bytes.trailing_zeros(),
            ways,
            generation: 1,
            sets: vec![Set::default(); sets],
            entries: vec![0; lines],
            more_marks: vec![Marks::default(); sets * more_marks(ways)],
            orders: if ways > NARROW { vec![0; lines] } else { Vec::new() },
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

    /// The set in which a line lies: its number modulo the sets.
    #[inline]
    pub fn set_of(&self, line: u64) -> u64 {
        if self.reciprocal == 0 {
            return line & (self.set_count - 1);
        }
        // The quotient is right or 1 too small: line * (2^64 / sets - reciprocal) is below 2^64.
        let quotient = ((u128::from(line) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = line - quotient * self.set_count;
        if rest >= self.set_count { rest - self.set_count } else { rest }
    }

    /// What finding and filling need to know of a line.
    #[inline]
    pub fn place(&self, line: u64) -> Place {
        Place { tag: line << STATE_BITS, set: self.set_of(line) as usize, mark: mark(line) }
    }

    /// How many lines were taken out since the start, not by making room.
    pub fn removals(&self) -> u64 {
        self.removals
    }

    /// What is known about a line found.
    #[inline]
    pub fn state(&self, slot: Slot) -> LineState {
        LineState::of(self.entries[slot.0])
    }

    /// Changes it.
    #[inline]
    pub fn set_state(&mut self, slot: Slot, state: LineState) {
        let entry = &mut self.entries[slot.0];
        *entry = state.entry(*entry & !LineState::ALL);
    }

    /// A touch. A line that is found becomes its set's most recent one, and its depth before is told.
    #[inline]
    pub fn look_up(&mut self, place: Place) -> Result<(Slot, u8), FillClass> {
        let set = &self.sets[place.set];
        if set.generation != self.generation {
            return Err(self.absent(0));
        }
        let first = place.set * self.ways;
        let way = if self.ways <= NARROW {
            at_narrow(set.order, 0)
        } else {
            usize::from(self.orders[first + set.order as usize])
        };
        if self.entries[first + way] & !LineState::ALL == place.tag {
            return Ok((Slot(first + way), 0));
        }
        self.look_up_far(place)
    }

    /// The same for outer levels, where the most recent line is seldom the one and heads and entries are not in the real
    /// caches: without the head's word on the most recent way, the entries need not wait for it.
    #[inline]
    pub fn look_up_far(&mut self, place: Place) -> Result<(Slot, u8), FillClass> {
        let set = &self.sets[place.set];
        if set.generation != self.generation {
            return Err(self.absent(0));
        }
        let any = |more: &[Marks]| more.iter().any(|marks| marks.any(place.mark));
        if !set.marks.any(place.mark) && (self.ways <= NARROW || !any(self.more(place.set))) {
            return Err(self.absent(set.filled));
        }
        self.search(place)
    }

    /// The rest of a touch, apart so that the common cases are small enough to stand in their callers.
    #[inline(never)]
    fn search(&mut self, place: Place) -> Result<(Slot, u8), FillClass> {
        match self.way_of(place) {
            None => Err(self.absent(self.sets[place.set].filled)),
            Some(way) => {
                let depth = self.promote(place.set, way);
                Ok((Slot(place.set * self.ways + way), depth))
            }
        }
    }

    /// A look that changes nothing.
    pub fn find(&self, line: u64) -> Option<Slot> {
        let place = self.place(line);
        let alive = self.sets[place.set].generation == self.generation;
        let way = alive.then(|| self.way_of(place)).flatten()?;
        Some(Slot(place.set * self.ways + way))
    }

    /// Puts a line in that is not there, as its set's most recent one.
    #[inline]
    pub fn fill(&mut self, place: Place, state: LineState) -> Option<Evicted> {
        if self.sets[place.set].generation != self.generation {
            self.begin(place.set);
        }
        let set = &self.sets[place.set];
        if set.gaps > 0 {
            self.fill_gap(place, state);
            return None;
        }
        let full = usize::from(set.filled) == self.ways;
        let victim = if full { self.policy.victim(place.set, self.ways) } else { None };
        let way = match victim {
            None => self.renew(place.set),
            Some(way) => {
                self.promote(place.set, way);
                way
            }
        };
        self.policy.touched(place.set, way);
        let before = self.put(place, way, state);
        if full {
            let line = (before.cast_signed() >> STATE_BITS).cast_unsigned() & self.line_mask;
            return Some(Evicted { line, state: LineState::of(before) });
        }
        self.sets[place.set].filled += 1;
        None
    }

    /// Takes a line out; its way will be filled next.
    pub fn remove(&mut self, line: u64) -> Option<LineState> {
        let slot = self.find(line)?;
        let state = self.state(slot);
        self.entries[slot.0] |= GONE;
        self.sets[slot.0 / self.ways].gaps += 1;
        self.removals += 1;
        Some(state)
    }

    /// A set of an older generation holds no lines.
    #[cold]
    fn begin(&mut self, index: usize) {
        let set = &mut self.sets[index];
        (set.generation, set.filled, set.gaps) = (self.generation, 0, 0);
        if self.ways <= NARROW {
            set.order = empty_narrow(self.ways);
        } else {
            set.order = 0;
            empty_wide(&mut self.orders[index * self.ways..][..self.ways]);
        }
        self.policy.forget(index);
    }

    /// Fills the lowest way whose line was taken out.
    #[cold]
    fn fill_gap(&mut self, place: Place, state: LineState) {
        let set = &mut self.sets[place.set];
        set.gaps -= 1;
        let entries = &self.entries[place.set * self.ways..][..usize::from(set.filled)];
        let way = entries.iter().position(|entry| entry & GONE != 0).unwrap_or(0);
        self.promote(place.set, way);
        self.put(place, way, state);
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

    /// The way of a set of this generation that has the line.
    #[inline]
    fn way_of(&self, place: Place) -> Option<usize> {
        let set = &self.sets[place.set];
        let entries = &self.entries[place.set * self.ways..][..usize::from(set.filled)];
        let has = |way: &usize| {
            entries.get(*way).is_some_and(|entry| entry & !LineState::ALL == place.tag)
        };
        let among_first = set.marks.candidates(place.mark).find(has);
        if self.ways <= NARROW || among_first.is_some() {
            return among_first;
        }
        let ways = self.more(place.set).iter().zip(1..).filter(|(marks, _)| marks.any(place.mark));
        ways.flat_map(|(marks, nth)| marks.candidates(place.mark).map(move |way| nth * LANES + way))
            .find(has)
    }

    /// Marks of the ways from the 17th on.
    #[inline]
    fn more(&self, index: usize) -> &[Marks] {
        let more = more_marks(self.ways);
        &self.more_marks[index * more..][..more]
    }

    /// Writes a way, and tells its entry before.
    #[inline]
    fn put(&mut self, place: Place, way: usize, state: LineState) -> u64 {
        let marks = if way < LANES {
            &mut self.sets[place.set].marks
        } else {
            &mut self.more_marks[place.set * more_marks(self.ways) + way / LANES - 1]
        };
        marks.put(way, place.mark);
        std::mem::replace(&mut self.entries[place.set * self.ways + way], state.entry(place.tag))
    }

    /// Makes a way the most recent one; its depth before.
    #[inline]
    fn promote(&mut self, index: usize, way: usize) -> u8 {
        self.policy.touched(index, way);
        let set = &mut self.sets[index];
        if self.ways <= NARROW {
            return promote_narrow(&mut set.order, way);
        }
        promote_wide(&mut self.orders[index * self.ways..][..self.ways], set.order, way)
    }

    /// Makes the oldest way the most recent one, and tells which it is.
    #[inline]
    fn renew(&mut self, index: usize) -> usize {
        let set = &mut self.sets[index];
        if self.ways <= NARROW {
            return renew_narrow(&mut set.order, self.ways);
        }
        renew_wide(&self.orders[index * self.ways..][..self.ways], &mut set.order)
    }
}

/// How many vectors of marks a set has besides its head's.
fn more_marks(ways: usize) -> usize {
    ways.div_ceil(LANES) - 1
}
