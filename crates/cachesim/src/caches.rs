//! Private levels per core, one last level for all cores, and a tally per site.
//!
//! What not: lines that leave a level (`inclusion`), copies in other cores (`sharing`).
//!
//! Assumptions: a touch looks in L1, then L2, then the last level. The line that it finds or fetches is inserted into
//! all inner levels; with [`Inclusion::Victim`] not into the last level. While outcomes in L1 are unknown, outer
//! levels are touched as if L1 had missed, so their recency may be off by lines that L1 really had. L2 may lose lines
//! that L1 keeps, except with [`Inclusion::Victim`].

use std::collections::BTreeMap;

use crate::access::{Kind, SiteId, Thread};
use crate::cache::{Cache, CacheAddress, Hit};
use crate::config::{Config, Inclusion};
use crate::prefetch::Prefetcher;
use crate::state::LineState;
use crate::tally::{FillClass, SiteTally, Traffic};

/// A core's own levels.
#[derive(Clone, Debug)]
pub(crate) struct Private {
    pub l1: Cache,
    pub l2: Option<Cache>,
}

/// Everything except the tallies: each outcome goes to the tally of its site.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    pub cores: Vec<Private>,
    pub llc: Option<Cache>,
    pub inclusion: Inclusion,
    pub shift: u32,
    prefetcher: Prefetcher,
    /// One core, three levels that are not inclusive, LRU, no prefetcher: the usual configuration of an analysis, and
    /// the fast path.
    pub plain: bool,
    pub traffic: Traffic,
    /// Line number -> copies that were invalidated. Ordered, so that results are reproducible.
    pub contended: BTreeMap<u64, u64>,
}

/// One line of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub core: usize,
    pub line: u64,
    pub kind: Kind,
    pub site: SiteId,
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

/// Why a line is fetched. Prefetches have no outcomes, only traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    Demand,
    Prefetch,
}

impl Caches {
    /// Empty ones; `config` was checked.
    pub fn new(config: &Config) -> Caches {
        let Config { replacement, cold, frames, .. } = *config;
        let cache = |geometry| Cache::new(geometry, replacement, cold, frames);
        let private = Private { l1: cache(config.l1), l2: config.l2.map(cache) };
        Caches {
            cores: vec![private; config.cores as usize],
            llc: config.llc.map(cache),
            inclusion: config.inclusion,
            shift: config.l1.line_bytes.trailing_zeros(),
            prefetcher: Prefetcher::new(config.prefetch),
            plain: config.is_plain(),
            traffic: Traffic::default(),
            contended: BTreeMap::new(),
        }
    }

    /// Empties them.
    pub fn forget(&mut self) {
        for core in &mut self.cores {
            core.l1.forget();
            core.l2.iter_mut().for_each(Cache::forget);
        }
        self.llc.iter_mut().for_each(Cache::forget);
        self.prefetcher.forget();
    }

    pub fn prefetches(&self) -> bool {
        !matches!(self.prefetcher, Prefetcher::Off)
    }

    #[inline]
    pub fn core_of(&self, thread: Thread) -> usize {
        if self.cores.len() == 1 { 0 } else { thread.0 as usize % self.cores.len() }
    }

    /// Simulates one line of an access whose execution was counted.
    #[inline]
    pub fn touch(&mut self, touch: Touch, tally: &mut SiteTally) -> Touched {
        if self.plain {
            self.touch_as::<true>(Touch { core: 0, ..touch }, tally)
        } else {
            self.touch_any(touch, tally)
        }
    }

    /// A function of its own, so that the fast path stays small.
    #[inline(never)]
    fn touch_any(&mut self, touch: Touch, tally: &mut SiteTally) -> Touched {
        self.touch_as::<false>(touch, tally)
    }

    /// `PLAIN` lets the compiler leave out everything that [`Caches::plain`] ones do not need.
    #[inline(always)]
    fn touch_as<const PLAIN: bool>(&mut self, touch: Touch, tally: &mut SiteTally) -> Touched {
        let Touch { core, line, kind, site } = touch;
        if kind.drops() {
            self.drop_line(line);
            return Touched::Dropped;
        }
        let l1 = &mut self.cores[core].l1;
        let address = l1.locate(line);
        match l1.look_up(address) {
            Ok(Hit { slot, depth }) => {
                tally.l1.add_hits(depth, 1);
                if kind.stores() {
                    let state = l1.state(slot);
                    if !state.is_own() {
                        let state = self.store::<PLAIN>(core, line, state, tally);
                        // Nothing else in this L1 changed: the slot is still the line's.
                        self.cores[core].l1.set_state(slot, state);
                    }
                }
                Touched::Hit(depth)
            }
            Err(class) => {
                tally.l1.absent.add(class);
                self.miss::<PLAIN>(core, address, kind, class, tally);
                if !PLAIN && let Some(next) = self.prefetcher.missed(line, site, self.shift) {
                    self.prefetch(core, next, tally);
                }
                Touched::Missed
            }
        }
    }

    /// The first store to a copy that is clean, or that other cores may have too.
    #[inline]
    fn store<const PLAIN: bool>(
        &mut self,
        core: usize,
        line: u64,
        state: LineState,
        tally: &mut SiteTally,
    ) -> LineState {
        let mut state = state;
        if !PLAIN && state.is_shared() {
            state = self.invalidate_others(core, line, state.shared(false), tally);
        }
        if !state.is_dirtied() {
            tally.dirtied.add(state.class());
        }
        state.stored()
    }

    /// A line that L1 does not have.
    #[inline(never)]
    fn miss<const PLAIN: bool>(
        &mut self,
        core: usize,
        address: CacheAddress,
        kind: Kind,
        class: FillClass,
        tally: &mut SiteTally,
    ) {
        let line = address.line;
        let mut state = match &mut self.cores[core].l2 {
            None => self.fetch::<PLAIN>(core, line, class, Cause::Demand, tally),
            Some(l2) => {
                let address = l2.locate(line);
                match l2.look_up_far(address) {
                    Ok(Hit { slot, depth }) => {
                        tally.l2.add_hits(depth, 1);
                        l2.state(slot).copy()
                    }
                    Err(class) => {
                        tally.l2.absent.add(class);
                        let state = self.fetch::<PLAIN>(core, line, class, Cause::Demand, tally);
                        self.fill_l2::<PLAIN>(core, address, state);
                        state.copy()
                    }
                }
            }
        };
        if kind.stores() {
            state = self.store::<PLAIN>(core, line, state, tally);
        }
        if let Some(evicted) = self.cores[core].l1.fill(address, state) {
            self.traffic.l1.add(evicted.state().is_dirty());
            self.left_l1::<PLAIN>(core, evicted);
        }
    }

    /// Fetches a line into L2 unless the core has it.
    #[inline(never)]
    fn prefetch(&mut self, core: usize, line: u64, tally: &mut SiteTally) {
        let Private { l1, l2 } = &mut self.cores[core];
        let Some(l2) = l2 else { return };
        if l1.find(line).is_none() && l2.find(line).is_none() {
            let address = l2.locate(line);
            // Without a last level, the state of L2 decides the class.
            let class = l2.look_up_far(address).err().unwrap_or(FillClass::Miss);
            let state = self.fetch::<false>(core, line, class, Cause::Prefetch, tally);
            self.fill_l2::<false>(core, address, state);
        }
    }

    #[inline]
    fn fill_l2<const PLAIN: bool>(&mut self, core: usize, address: CacheAddress, state: LineState) {
        let l2 = self.cores[core].l2.as_mut();
        if let Some(evicted) = l2.and_then(|l2| l2.fill(address, state)) {
            self.traffic.l2.add(evicted.state().is_dirty());
            self.left_l2::<PLAIN>(core, evicted);
        }
    }

    /// Fetches a line that the core's private levels do not have; `class` is what the outermost of them knew.
    #[inline]
    fn fetch<const PLAIN: bool>(
        &mut self,
        core: usize,
        line: u64,
        class: FillClass,
        cause: Cause,
        tally: &mut SiteTally,
    ) -> LineState {
        let demanded = u64::from(cause == Cause::Demand);
        let elsewhere =
            if !PLAIN && self.cores.len() > 1 { self.share_with(core, line) } else { None };
        // The copies in the last level and in DRAM are older.
        if let Some(state) = elsewhere.filter(|state| state.is_dirty()) {
            tally.remote += demanded;
            return state;
        }
        let victim_cache = !PLAIN && self.inclusion == Inclusion::Victim;
        let Some(llc) = &mut self.llc else {
            return Caches::fetched(elsewhere, class, demanded, tally);
        };
        let address = llc.locate(line);
        match llc.look_up_far(address) {
            Ok(Hit { slot, depth }) => {
                tally.llc.add_hits(depth, demanded);
                let found = llc.state(slot);
                let state = if victim_cache {
                    // Lines of a victim cache move: they are in it or in the private levels.
                    llc.remove(line);
                    found
                } else {
                    found.copy()
                };
                if PLAIN { state } else { state.shared(elsewhere.is_some()) }
            }
            Err(class) => {
                if cause == Cause::Demand {
                    tally.llc.absent.add(class);
                }
                let state = Caches::fetched(elsewhere, class, demanded, tally);
                if !victim_cache && elsewhere.is_none() {
                    self.fill_llc::<PLAIN>(address, state);
                }
                state
            }
        }
    }

    /// Fetches a line that the last level does not have: from another core, or from DRAM.
    #[inline]
    fn fetched(
        elsewhere: Option<LineState>,
        class: FillClass,
        demanded: u64,
        tally: &mut SiteTally,
    ) -> LineState {
        if let Some(state) = elsewhere {
            tally.remote += demanded;
            return state;
        }
        tally.fills.add(class);
        tally.prefetched += 1 - demanded;
        LineState::fetched(class)
    }

    /// Puts a line into the last level, if there is one.
    #[inline]
    pub fn fill_llc<const PLAIN: bool>(&mut self, address: CacheAddress, state: LineState) {
        if let Some(evicted) = self.llc.as_mut().and_then(|llc| llc.fill(address, state)) {
            self.left_llc::<PLAIN>(evicted);
        }
    }
}
