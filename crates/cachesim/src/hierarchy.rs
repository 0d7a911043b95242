//! Private levels per core, one last level for all, and a tally per site.
//!
//! What not: what happens to lines that leave a level (`inclusion`) and to copies in other cores (`sharing`).
//!
//! Assumptions: a touch looks into L1, then L2, then the last level, and what it finds or fetches comes into all levels
//! further in; with [`Inclusion::Victim`] not into the last. While outcomes in L1 are unknown, outer levels are touched as
//! if it had missed, so their recency may be off by lines that L1 really had. L2 may lose lines that L1 keeps, except with
//! [`Inclusion::Victim`].

use std::collections::BTreeMap;

use base::RemoteAddr;

use crate::access::{Access, Kind, SiteId, Span, Thread};
use crate::cache::Cache;
use crate::config::{Config, ConfigError, Inclusion};
use crate::prefetch::Prefetcher;
use crate::state::LineState;
use crate::tally::{FillClass, SiteTally, Traffic};

/// A core's own levels.
#[derive(Clone, Debug)]
pub(crate) struct Private {
    pub l1: Cache,
    pub l2: Option<Cache>,
}

/// A simulated cache hierarchy.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    pub(crate) cores: Vec<Private>,
    pub(crate) llc: Option<Cache>,
    pub(crate) inclusion: Inclusion,
    pub(crate) shift: u32,
    prefetcher: Prefetcher,
    pub(crate) tallies: Vec<SiteTally>,
    pub(crate) traffic: Traffic,
    /// Line number -> copies made invalid. Ordered, so that what is told from it is the same each time.
    pub(crate) contended: BTreeMap<u64, u64>,
}

/// What a touch did in the first level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touched {
    /// It was there, at this depth.
    Hit(u8),
    /// It was not, and is now.
    Missed,
    /// The line was sent out of all levels.
    Dropped,
}

/// Why a line is fetched. Prefetches have no outcomes, only traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    Demand,
    Prefetch,
}

impl Hierarchy {
    /// Empty caches.
    ///
    /// # Errors
    /// What of the configuration cannot be simulated.
    pub fn new(config: &Config) -> Result<Hierarchy, ConfigError> {
        config.check()?;
        let cache = |geometry| Cache::new(geometry, config.replacement, config.cold);
        let private = Private { l1: cache(config.l1), l2: config.l2.map(cache) };
        Ok(Hierarchy {
            cores: vec![private; config.cores as usize],
            llc: config.llc.map(cache),
            inclusion: config.inclusion,
            shift: config.l1.line_bytes.trailing_zeros(),
            prefetcher: Prefetcher::new(config.prefetch),
            tallies: Vec::new(),
            traffic: Traffic::default(),
            contended: BTreeMap::new(),
        })
    }

    /// Empties the caches at once, as between bursts; the tallies stay.
    pub fn forget(&mut self) {
        for core in &mut self.cores {
            core.l1.forget();
            core.l2.iter_mut().for_each(Cache::forget);
        }
        self.llc.iter_mut().for_each(Cache::forget);
        self.prefetcher.forget();
    }

    /// The tally of each site, in the order of their numbers.
    #[must_use]
    pub fn tallies(&self) -> &[SiteTally] {
        &self.tallies
    }

    /// What left the levels.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// First addresses of lines of which stores made copies in other cores invalid, with the number of these copies.
    pub fn contended_lines(&self) -> impl Iterator<Item = (RemoteAddr, u64)> {
        self.contended.iter().map(|(line, copies)| (RemoteAddr(line << self.shift), *copies))
    }

    /// The tallies and the traffic since the last call, which start again at zero. The caches stay as they are.
    pub fn take_tallies(&mut self) -> (Vec<SiteTally>, Traffic) {
        (std::mem::take(&mut self.tallies), std::mem::take(&mut self.traffic))
    }

    /// The tally of one site since the last call, which starts again at zero. The caches stay as they are.
    pub fn take_tally(&mut self, site: SiteId) -> SiteTally {
        self.tallies.get_mut(site.0 as usize).map(std::mem::take).unwrap_or_default()
    }

    /// Simulates an access of a thread.
    #[inline]
    pub fn access(&mut self, thread: Thread, access: &Access) {
        self.count(access, 1);
        let core = self.core_of(thread);
        for line in Span::of(access, self.shift).iter(self.shift) {
            self.touch(core, line, access.kind, access.site);
        }
    }

    pub(crate) fn prefetches(&self) -> bool {
        !matches!(self.prefetcher, Prefetcher::Off)
    }

    #[inline]
    pub(crate) fn core_of(&self, thread: Thread) -> usize {
        if self.cores.len() == 1 { 0 } else { thread.0 as usize % self.cores.len() }
    }

    /// Counts executions of an access.
    #[inline]
    pub(crate) fn count(&mut self, access: &Access, executions: u64) {
        let site = access.site.0 as usize;
        if site >= self.tallies.len() {
            self.tallies.resize(site + 1, SiteTally::default());
        }
        let tally = &mut self.tallies[site];
        // Saturating: a damaged recording may claim any number of iterations.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        match access.kind {
            Kind::Read | Kind::StreamingRead => add(&mut tally.loads, executions),
            Kind::Write => add(&mut tally.stores, executions),
            Kind::ReadWrite => {
                add(&mut tally.loads, executions);
                add(&mut tally.stores, executions);
            }
            Kind::StreamingWrite => {
                add(&mut tally.streaming_stores, executions);
                let bytes = executions.saturating_mul(u64::from(access.bytes));
                add(&mut tally.streaming_bytes, bytes);
            }
            Kind::Prefetch | Kind::Flush => add(&mut tally.hints, executions),
        }
    }

    /// One line of an access whose site was counted.
    #[inline]
    pub(crate) fn touch(&mut self, core: usize, line: u64, kind: Kind, site: SiteId) -> Touched {
        if kind.drops() {
            self.drop_line(line);
            return Touched::Dropped;
        }
        let l1 = &mut self.cores[core].l1;
        match l1.look_up(l1.place(line)) {
            Ok((slot, depth)) => {
                self.tallies[site.0 as usize].l1.add_hits(depth, 1);
                if kind.stores() {
                    let state = l1.state(slot);
                    if !state.is_own() {
                        let state = self.store(core, line, site, state);
                        // Nothing else in this L1 changed: the slot is still the line's.
                        self.cores[core].l1.set_state(slot, state);
                    }
                }
                Touched::Hit(depth)
            }
            Err(class) => {
                self.tallies[site.0 as usize].l1.absent.add(class);
                self.miss(core, line, kind, site, class);
                Touched::Missed
            }
        }
    }

    /// The first store to a copy that is clean, or that other cores may have too.
    fn store(&mut self, core: usize, line: u64, site: SiteId, state: LineState) -> LineState {
        let mut state = state;
        if state.is_shared() {
            state = state.shared(false);
            self.invalidate_others(core, line, site, &mut state);
        }
        if !state.is_dirtied() {
            self.tallies[site.0 as usize].dirtied.add(state.class());
        }
        state.stored()
    }

    /// A line that L1 does not have.
    fn miss(&mut self, core: usize, line: u64, kind: Kind, site: SiteId, class: FillClass) {
        let mut state = match &mut self.cores[core].l2 {
            None => self.fetch(core, line, site, class, Cause::Demand),
            Some(l2) => match l2.look_up_far(l2.place(line)) {
                Ok((slot, depth)) => {
                    let state = l2.state(slot).copy();
                    self.tallies[site.0 as usize].l2.add_hits(depth, 1);
                    state
                }
                Err(class) => {
                    self.tallies[site.0 as usize].l2.absent.add(class);
                    let state = self.fetch(core, line, site, class, Cause::Demand);
                    self.fill_l2(core, line, state);
                    state.copy()
                }
            },
        };
        if kind.stores() {
            state = self.store(core, line, site, state);
        }
        let l1 = &mut self.cores[core].l1;
        if let Some(evicted) = l1.fill(l1.place(line), state) {
            self.traffic.l1.add(evicted.state.is_dirty());
            self.left_l1(core, evicted);
        }
        if let Some(next) = self.prefetcher.missed(line, site, self.shift) {
            self.prefetch(core, next, site);
        }
    }

    /// Fetches a line into L2 unless the core has it.
    fn prefetch(&mut self, core: usize, line: u64, site: SiteId) {
        let Private { l1, l2 } = &mut self.cores[core];
        let Some(l2) = l2 else { return };
        if l1.find(line).is_none() && l2.find(line).is_none() {
            // Without a last level, what L2 knows decides the class.
            let class = l2.look_up_far(l2.place(line)).err().unwrap_or(FillClass::Miss);
            let state = self.fetch(core, line, site, class, Cause::Prefetch);
            self.fill_l2(core, line, state);
        }
    }

    pub(crate) fn fill_l2(&mut self, core: usize, line: u64, state: LineState) {
        let l2 = self.cores[core].l2.as_mut();
        if let Some(evicted) = l2.and_then(|l2| l2.fill(l2.place(line), state)) {
            self.traffic.l2.add(evicted.state.is_dirty());
            self.left_l2(core, evicted);
        }
    }

    /// A line that the core's private levels do not have; `class` is what the outer one of them knew.
    fn fetch(
        &mut self,
        core: usize,
        line: u64,
        site: SiteId,
        class: FillClass,
        cause: Cause,
    ) -> LineState {
        let tally = site.0 as usize;
        let demanded = u64::from(cause == Cause::Demand);
        let elsewhere = self.share_with(core, line);
        if let Some(state) = elsewhere.filter(|state| state.is_dirty()) {
            self.tallies[tally].remote += demanded;
            return state;
        }
        let victim_cache = self.inclusion == Inclusion::Victim;
        let mut class = class;
        if let Some(llc) = &mut self.llc {
            match llc.look_up_far(llc.place(line)) {
                Ok((slot, depth)) => {
                    self.tallies[tally].llc.add_hits(depth, demanded);
                    let found = llc.state(slot);
                    let state = if victim_cache {
                        llc.remove(line);
                        found
                    } else {
                        found.copy()
                    };
                    return state.shared(elsewhere.is_some());
                }
                Err(unknown) => class = unknown,
            }
            if cause == Cause::Demand {
                self.tallies[tally].llc.absent.add(class);
            }
        }
        if let Some(state) = elsewhere {
            self.tallies[tally].remote += demanded;
            return state;
        }
        self.tallies[tally].fills.add(class);
        self.tallies[tally].prefetched += 1 - demanded;
        let state = LineState::fetched(class);
        if !victim_cache {
            self.fill_llc(line, state);
        }
        state
    }

    /// Puts a line into the last level, if there is one.
    pub(crate) fn fill_llc(&mut self, line: u64, state: LineState) {
        if let Some(evicted) = self.llc.as_mut().and_then(|llc| llc.fill(llc.place(line), state)) {
            self.left_llc(evicted);
        }
    }

    /// A line leaves all levels; a dirty one is written to DRAM.
    fn drop_line(&mut self, line: u64) {
        let mut dirty = false;
        for core in 0..self.cores.len() {
            dirty |= self.remove_private(core, line).is_some_and(|state| state.is_dirty());
        }
        let last = self.llc.as_mut().and_then(|llc| llc.remove(line));
        dirty |= last.is_some_and(|state| state.is_dirty());
        self.traffic.written_lines += u64::from(dirty);
    }

    /// Takes a line out of a core's levels; what is returned has the dirt of both.
    pub(crate) fn remove_private(&mut self, core: usize, line: u64) -> Option<LineState> {
        let core = &mut self.cores[core];
        let inner = core.l1.remove(line);
        let outer = core.l2.as_mut().and_then(|l2| l2.remove(line));
        let (state, other) = (inner.or(outer)?, outer.or(inner)?);
        Some(state.absorb(other))
    }
}
