//! Two private levels and a last one, and a tally per site.
//!
//! What not: lines that leave a level (`eviction`).
//!
//! Assumptions: a touch looks in L1, then L2, then the last level. The line that it finds or fetches is inserted into all inner
//! levels, and leaves each independently (non-inclusive). While outcomes in L1 are unknown, outer levels are touched as if L1 had
//! missed, so their recency may be off by lines that L1 really had. L2 may lose lines that L1 keeps.

use crate::access::Kind;
use crate::cache::{Cache, CacheAddress, Hit};
use crate::config::Config;
use crate::state::LineState;
use crate::tally::{FillClass, SiteTally, Traffic};

/// Everything except the tallies: each outcome goes to the tally of its site.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    pub l1: Cache,
    pub l2: Option<Cache>,
    pub llc: Option<Cache>,
    pub shift: u32,
    pub traffic: Traffic,
}

/// The outcome of a touch in the first level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touched {
    /// A hit, at this depth.
    Hit(u8),
    /// A miss; the line is there now.
    Missed,
    /// The line was removed from all levels.
    Dropped,
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
            traffic: Traffic::default(),
        }
    }

    /// Empties them.
    pub fn forget(&mut self) {
        self.l1.forget();
        [&mut self.l2, &mut self.llc].into_iter().flatten().for_each(Cache::forget);
    }

    /// Simulates one line of an access whose execution was counted.
    #[inline]
    pub fn touch(&mut self, line: u64, kind: Kind, tally: &mut SiteTally) -> Touched {
        if kind.drops() {
            self.drop_line(line);
            return Touched::Dropped;
        }
        let address = self.l1.locate(line);
        match self.l1.look_up(address) {
            Ok(Hit { slot, depth }) => {
                tally.l1.add_hits(depth, 1);
                if kind.stores() {
                    let state = self.l1.state(slot);
                    if !state.is_dirty() {
                        self.l1.set_state(slot, stored(state, tally));
                    }
                }
                Touched::Hit(depth)
            }
            Err(class) => {
                tally.l1.absent.add(class);
                self.miss(address, kind, class, tally);
                Touched::Missed
            }
        }
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
                    Ok(Hit { slot, depth }) => {
                        tally.l2.add_hits(depth, 1);
                        l2.state(slot).copy()
                    }
                    Err(class) => {
                        tally.l2.absent.add(class);
                        let state = self.fetch(line, class, tally);
                        self.fill_l2(address, state);
                        state.copy()
                    }
                }
            }
        };
        if kind.stores() {
            state = stored(state, tally);
        }
        if let Some(evicted) = self.l1.fill(address, state) {
            self.traffic.l1.add(evicted.state().is_dirty());
            self.left_l1(evicted);
        }
    }

    #[inline]
    fn fill_l2(&mut self, address: CacheAddress, state: LineState) {
        if let Some(evicted) = self.l2.as_mut().and_then(|l2| l2.fill(address, state)) {
            self.traffic.l2.add(evicted.state().is_dirty());
            self.left_l2(evicted);
        }
    }

    /// Fetches a line that the private levels do not have; `class` is what the outermost of them knew.
    #[inline]
    fn fetch(&mut self, line: u64, class: FillClass, tally: &mut SiteTally) -> LineState {
        let Some(llc) = &mut self.llc else {
            tally.fills.add(class);
            return LineState::fetched(class);
        };
        let address = llc.locate(line);
        match llc.look_up_far(address) {
            Ok(Hit { slot, depth }) => {
                tally.llc.add_hits(depth, 1);
                llc.state(slot).copy()
            }
            Err(class) => {
                tally.llc.absent.add(class);
                tally.fills.add(class);
                let state = LineState::fetched(class);
                if let Some(evicted) = llc.fill(address, state) {
                    self.left_llc(evicted);
                }
                state
            }
        }
    }
}

/// The state after the first store to a clean copy.
#[inline]
fn stored(state: LineState, tally: &mut SiteTally) -> LineState {
    if !state.is_dirtied() {
        tally.dirtied.add(state.class());
    }
    state.stored()
}
