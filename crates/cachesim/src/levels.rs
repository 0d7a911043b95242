//! The three levels and the policy between them: two private levels and a last one, and a tally per site.
//!
//! Assumptions: a touch looks in L1, then L2, then the last level. The line that it finds or fetches is inserted into all inner
//! levels, and leaves each independently (non-inclusive). While outcomes in L1 are unknown, outer levels are touched as if L1 had
//! missed, so their recency may be off by lines that L1 really had. L2 may lose lines that L1 keeps. A line that was stored to tells
//! so to the nearest outer level that has it when it leaves, without becoming more recent there.

use crate::access::Kind;
use crate::cache::{Cache, CacheAddress};
use crate::config::Config;
use crate::state::{Entry, LineState};
use crate::streams::Streams;
use crate::tally::{FillClass, SiteTally};

/// Everything except the tallies: each outcome goes to the tally of its site.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    pub l1: Cache,
    pub l2: Option<Cache>,
    pub llc: Option<Cache>,
    pub shift: u32,
    fetched: Streams,
}

/// The outcome of a touch in the first level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touched {
    /// A hit, at this depth.
    Hit(u8),
    /// A miss; the line is there now.
    Missed,
    /// The line was removed from all levels, or cleaned in all.
    NotEntered,
}

impl Caches {
    /// Empty ones; `config` was checked.
    pub fn new(config: &Config) -> Caches {
        let cache = |geometry| Cache::new(geometry, config.cold, config.frames);
        Caches {
            l1: cache(config.l1),
            l2: config.l2.map(cache),
            llc: config.llc.map(cache),
            shift: config.l1.line_bytes.trailing_zeros(),
            fetched: Streams::new(),
        }
    }

    /// Empties them.
    pub fn forget(&mut self) {
        self.l1.forget();
        [&mut self.l2, &mut self.llc].into_iter().flatten().for_each(Cache::forget);
        self.fetched = Streams::new();
    }

    /// Simulates one line of an access whose execution was counted.
    #[inline]
    pub fn touch(&mut self, line: u64, kind: Kind, tally: &mut SiteTally) -> Touched {
        if !kind.enters() {
            self.leave(line, kind);
            return Touched::NotEntered;
        }
        let address = self.l1.locate(line);
        match self.l1.look_up(address) {
            Ok(hit) => {
                tally.l1.add_hits(hit.depth(), 1);
                if kind.stores() {
                    let slot = hit.slot();
                    let state = self.l1.state(slot);
                    // Only the first store to a clean line is counted: it makes one write-back, however many follow.
                    if !state.is_dirtied() {
                        self.l1.set_state(slot, stored(state, tally));
                    }
                }
                Touched::Hit(hit.depth())
            }
            Err(class) => {
                tally.l1.absent.add(class);
                self.miss(address, kind, class, tally);
                Touched::Missed
            }
        }
    }

    #[inline(never)]
    fn leave(&mut self, line: u64, kind: Kind) {
        let outer = [&mut self.l2, &mut self.llc].into_iter().flatten();
        std::iter::once(&mut self.l1).chain(outer).for_each(|level| match kind {
            Kind::WriteBack => level.clean(line),
            _ => level.remove(line),
        });
    }

    /// A line that L1 does not have.
    #[inline(never)]
    fn miss(&mut self, address: CacheAddress, kind: Kind, class: FillClass, tally: &mut SiteTally) {
        let line = address.line;
        let mut state = match &mut self.l2 {
            None => self.fetch(line, class, tally),
            Some(l2) => {
                let address = l2.locate(line);
                match l2.look_up_far(address) {
                    Ok(hit) => {
                        tally.l2.add_hits(hit.depth(), 1);
                        l2.state(hit.slot())
                    }
                    Err(class) => {
                        tally.l2.absent.add(class);
                        let state = self.fetch(line, class, tally);
                        self.fill_l2(address, state);
                        state
                    }
                }
            }
        };
        if kind.stores() {
            state = stored(state, tally);
        }
        if let Some(evicted) = self.l1.fill(address, state) {
            left(evicted, self.shift, [&mut self.l2, &mut self.llc]);
        }
    }

    #[inline]
    fn fill_l2(&mut self, address: CacheAddress, state: LineState) {
        if let Some(evicted) = self.l2.as_mut().and_then(|l2| l2.fill(address, state)) {
            left(evicted, self.shift, [&mut self.llc]);
        }
    }

    /// Fetches a line that the private levels do not have; `class` is what the outermost of them knew.
    #[inline]
    fn fetch(&mut self, line: u64, class: FillClass, tally: &mut SiteTally) -> LineState {
        let Some(llc) = &mut self.llc else {
            tally.fill(class, self.fetched.follows(line, self.shift));
            return LineState::fetched(class);
        };
        let address = llc.locate(line);
        match llc.look_up_far(address) {
            Ok(hit) => {
                tally.llc.add_hits(hit.depth(), 1);
                llc.state(hit.slot())
            }
            Err(class) => {
                tally.llc.absent.add(class);
                tally.fill(class, self.fetched.follows(line, self.shift));
                let state = LineState::fetched(class);
                llc.fill(address, state);
                state
            }
        }
    }
}

/// A line left a level.
#[inline]
fn left<const N: usize>(evicted: Entry, shift: u32, outer: [&mut Option<Cache>; N]) {
    // The outer copies of others have the same state already: that saves most evictions a search.
    if !evicted.state().is_dirtied() {
        return;
    }
    let line = evicted.line(shift);
    let copy = outer.into_iter().flatten().find_map(|level| Some((level.find(line)?, level)));
    if let Some((slot, level)) = copy {
        level.set_state(slot, level.state(slot).stored());
    }
}

/// The state after a store.
#[inline]
fn stored(state: LineState, tally: &mut SiteTally) -> LineState {
    if !state.is_dirtied() {
        tally.dirtied.add(state.class());
    }
    state.stored()
}
