//! Copies of a line in the private levels of several cores.
//!
//! Assumptions: coherence as in MESI, by line. A store invalidates all other copies and must search for them: that
//! costs time for every store to a shared line. A core that misses gets a dirty copy from the core that has it, and
//! with it the duty to write it back (as the Owned state of MOESI moves; in MESI the last level would take it). A
//! clean copy is used only if the last level has none. Threads alternate in the order in which their accesses are
//! given. What not: the time of transfers, and copies in other sockets.

use crate::caches::Caches;
use crate::state::LineState;
use crate::tally::SiteTally;

impl Caches {
    /// Whether other cores have a line that this core is about to fetch; returns the initial state of its copy. All
    /// copies are then shared; a dirty one becomes clean, because the new copy takes over.
    #[inline(never)]
    pub fn share_with(&mut self, core: usize, line: u64) -> Option<LineState> {
        let mut found: Option<LineState> = None;
        for (number, other) in self.cores.iter_mut().enumerate() {
            if number == core {
                continue;
            }
            for level in [Some(&mut other.l1), other.l2.as_mut()].into_iter().flatten() {
                let Some(slot) = level.find(line) else { continue };
                let state = level.state(slot);
                let taken = found.map_or(state, |before| state.absorb(before));
                found = Some(taken.shared(true));
                level.set_state(slot, state.copy().shared(true));
            }
        }
        found
    }

    /// Invalidates the copies of other cores, because a core stores to the line. Returns its own state, dirty if any
    /// copy was.
    #[inline(never)]
    pub fn invalidate_others(
        &mut self,
        core: usize,
        line: u64,
        state: LineState,
        tally: &mut SiteTally,
    ) -> LineState {
        let (mut state, mut copies) = (state, 0);
        for other in (0..self.cores.len()).filter(|other| *other != core) {
            if let Some(theirs) = self.remove_private(other, line) {
                copies += 1;
                state = state.absorb(theirs);
            }
        }
        if copies > 0 {
            tally.invalidations += copies;
            *self.contended.entry(line).or_insert(0) += copies;
        }
        state
    }
}
