//! What happens to a line that leaves a level.
//!
//! What not: which line leaves (`sets`). Assumptions: a clean line is dropped. A dirty line goes to the nearest outer level that has
//! it, without becoming more recent there. A level that does not have it is skipped, so write-backs never evict other lines. If no
//! outer level has it, it is written to DRAM. A private copy that was dirtied before its line left the last level can thus be
//! written to DRAM twice in one stay, which the count of dirtied lines includes once.

use crate::caches::Caches;
use crate::state::{Entry, LineState};

impl Caches {
    /// A line left L1.
    #[inline]
    pub fn left_l1(&mut self, evicted: Entry) {
        let (line, state) = (evicted.line(self.shift), evicted.state());
        // The outer copies of others have the same state already: that saves most evictions a search.
        if !state.is_dirtied() {
            return;
        }
        match self.l2.as_mut().map(|l2| (l2.find(line), l2)) {
            Some((Some(slot), l2)) => l2.set_state(slot, l2.state(slot).absorb(state)),
            Some((None, _)) if !state.is_dirty() => {}
            _ => self.left_private(line, state),
        }
    }

    /// A line left L2.
    #[inline]
    pub fn left_l2(&mut self, evicted: Entry) {
        if evicted.state().is_dirtied() {
            self.left_private(evicted.line(self.shift), evicted.state());
        }
    }

    /// A line left the private levels, or at least the copy with this state did.
    fn left_private(&mut self, line: u64, state: LineState) {
        match self.llc.as_mut().map(|llc| (llc.find(line), llc)) {
            Some((Some(slot), llc)) => llc.set_state(slot, llc.state(slot).absorb(state)),
            _ => self.traffic.written_lines += u64::from(state.is_dirty()),
        }
    }

    /// A line left the last level.
    #[inline]
    pub fn left_llc(&mut self, evicted: Entry) {
        let dirty = evicted.state().is_dirty();
        self.traffic.llc.add(dirty);
        self.traffic.written_lines += u64::from(dirty);
    }

    /// A line leaves all levels; a dirty one is written to DRAM.
    #[inline(never)]
    pub fn drop_line(&mut self, line: u64) {
        let outer = [&mut self.l2, &mut self.llc].into_iter().flatten();
        let removed = [&mut self.l1].into_iter().chain(outer).map(|level| level.remove(line));
        let dirty = removed.fold(false, |dirty, one| dirty | one.is_some_and(LineState::is_dirty));
        self.traffic.written_lines += u64::from(dirty);
    }
}
