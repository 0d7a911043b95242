//! What happens to a line that leaves a level.
//!
//! What not: which line leaves (`replacement`). Assumptions: a clean line is dropped, except into a victim cache,
//! which takes all. A dirty line goes to the nearest outer level that has it, without becoming more recent there. A
//! level that does not have it is skipped, so write-backs never evict other lines. If no outer level has it, it is
//! written to DRAM.
//!
//! * Inclusive: a line that leaves the last level also removes the private copies; a dirty copy is written back with
//!   it.
//! * Non-inclusive: it does not. A private copy that was dirtied before can thus be written to DRAM twice in one
//!   stay, which the count of dirtied lines includes once.
//! * Victim: a line that leaves L2 also leaves L1, so that a line is either in a core's private levels or in the last
//!   level. With several cores that share lines it may be in both; then the same holds as for non-inclusive caches.

use crate::caches::Caches;
use crate::config::Inclusion;
use crate::state::{Entry, LineState};

impl Caches {
    /// A line left a core's L1.
    #[inline]
    pub fn left_l1<const PLAIN: bool>(&mut self, core: usize, evicted: Entry) {
        let (line, state) = (evicted.line(self.shift), evicted.state());
        if self.nothing_to_tell::<PLAIN>(state) {
            return;
        }
        let l2 = self.cores[core].l2.as_mut();
        match l2.map(|l2| (l2.find(line), l2)) {
            None => self.left_private(line, state),
            Some((Some(slot), l2)) => l2.set_state(slot, l2.state(slot).absorb(state)),
            Some((None, _)) if state.is_dirty() => self.left_private(line, state),
            Some((None, _)) => {}
        }
    }

    /// Whether the outer copies have the same state already. Saves most evictions a search.
    fn nothing_to_tell<const PLAIN: bool>(&self, state: LineState) -> bool {
        !state.is_dirtied() && (PLAIN || self.inclusion != Inclusion::Victim)
    }

    /// A line left a core's L2.
    #[inline]
    pub fn left_l2<const PLAIN: bool>(&mut self, core: usize, evicted: Entry) {
        let (line, mut state) = (evicted.line(self.shift), evicted.state());
        if !PLAIN
            && self.inclusion == Inclusion::Victim
            && let Some(inner) = self.cores[core].l1.remove(line)
        {
            state = state.absorb(inner);
        }
        if self.nothing_to_tell::<PLAIN>(state) {
            return;
        }
        self.left_private(line, state);
    }

    /// A line left the private levels, or at least the copy with this state did.
    fn left_private(&mut self, line: u64, state: LineState) {
        let slot = self.llc.as_ref().and_then(|llc| llc.find(line));
        match (&mut self.llc, slot) {
            (Some(llc), Some(slot)) => llc.set_state(slot, llc.state(slot).absorb(state)),
            (Some(llc), None) if self.inclusion == Inclusion::Victim => {
                let address = llc.locate(line);
                self.fill_llc::<false>(address, state.shared(false));
            }
            _ => self.traffic.written_lines += u64::from(state.is_dirty()),
        }
    }

    /// A line left the last level.
    #[inline]
    pub fn left_llc<const PLAIN: bool>(&mut self, evicted: Entry) {
        let (line, mut state) = (evicted.line(self.shift), evicted.state());
        if !PLAIN && self.inclusion == Inclusion::Inclusive {
            for core in 0..self.cores.len() {
                if let Some(inner) = self.remove_private(core, line) {
                    state = state.absorb(inner);
                }
            }
        }
        self.traffic.llc.add(state.is_dirty());
        self.traffic.written_lines += u64::from(state.is_dirty());
    }

    /// A line leaves all levels; a dirty one is written to DRAM.
    #[inline(never)]
    pub fn drop_line(&mut self, line: u64) {
        let mut dirty = false;
        for core in 0..self.cores.len() {
            dirty |= self.remove_private(core, line).is_some_and(|state| state.is_dirty());
        }
        let last = self.llc.as_mut().and_then(|llc| llc.remove(line));
        dirty |= last.is_some_and(|state| state.is_dirty());
        self.traffic.written_lines += u64::from(dirty);
    }

    /// Removes a line from a core's levels; returns the state of both, dirty if either is.
    pub fn remove_private(&mut self, core: usize, line: u64) -> Option<LineState> {
        let core = &mut self.cores[core];
        let inner = core.l1.remove(line);
        let outer = core.l2.as_mut().and_then(|l2| l2.remove(line));
        let (state, other) = (inner.or(outer)?, outer.or(inner)?);
        Some(state.absorb(other))
    }
}
