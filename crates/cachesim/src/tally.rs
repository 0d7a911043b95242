//! The results: counts per site and level.
//!
//! What not: estimates. The user of a hit rate decides how to treat unknown outcomes.

use std::ops::AddAssign;

use crate::access::{Access, Kind};

/// Depths that are distinguished. Deeper hits count as the deepest; only TLBs have more ways.
pub const DEPTHS: usize = 32;

/// What is known about a line that a level does not have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FillClass {
    /// Its set had seen only `age` distinct lines since the start, fewer than it has ways: the line may have been there.
    Unknown {
        /// 0..ways, at most [`DEPTHS`].
        age: u8,
    },
    /// It was not there.
    Miss,
}

/// Outcomes of the touches of one site in one level. An access that crosses lines makes one outcome per line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LevelTally {
    /// Hits by depth: how many other lines of the set were touched since the line itself was; 0 is the set's most
    /// recent line. Touches are those that reach this level.
    pub hits: [u64; DEPTHS],
    /// Touches of lines that were not found, as in [`FillTally`].
    pub absent: FillTally,
}

impl LevelTally {
    /// All touches that reached this level.
    #[must_use]
    pub fn touches(&self) -> u64 {
        self.hits.iter().sum::<u64>() + self.absent.total()
    }

    #[inline]
    pub(crate) fn add_hits(&mut self, depth: u8, count: u64) {
        let hits = &mut self.hits[usize::from(depth).min(DEPTHS - 1)];
        *hits = hits.saturating_add(count);
    }
}

/// Lines by [`FillClass`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FillTally {
    /// [`FillClass::Unknown`] by age.
    pub unknown: [u64; DEPTHS + 1],
    /// [`FillClass::Miss`].
    pub misses: u64,
}

impl Default for FillTally {
    fn default() -> FillTally {
        FillTally { unknown: [0; DEPTHS + 1], misses: 0 }
    }
}

impl FillTally {
    /// Sum over all classes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.unknown.iter().sum::<u64>() + self.misses
    }

    #[inline]
    pub(crate) fn add(&mut self, class: FillClass) {
        match class {
            FillClass::Unknown { age } => self.unknown[usize::from(age).min(DEPTHS)] += 1,
            FillClass::Miss => self.misses += 1,
        }
    }
}

/// Everything about a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SiteTally {
    /// Executions that load, once each however many lines they touch.
    pub loads: u64,
    /// Executions that store, without those that bypass the caches. A read-write counts as load and store.
    pub stores: u64,
    /// Executions that store and bypass the caches.
    pub streaming_stores: u64,
    /// Bytes written to DRAM by these; the processor combines them to whole lines.
    pub streaming_bytes: u64,
    /// First level.
    pub l1: LevelTally,
    /// Second level; all zero without one.
    pub l2: LevelTally,
    /// Last level; all zero without one.
    pub llc: LevelTally,
    /// Lines fetched from DRAM, by what the last level knew about them: the lines read if all unknown ones were
    /// misses.
    pub fills: FillTally,
    /// Of all of these, those that follow another one in a row.
    pub followed: u64,
    /// Lines that became dirty: the first store to a line since it came from DRAM or was written back, with the class of its fill. Each
    /// such line is written to DRAM once, whether the simulation reaches that point or not.
    pub dirtied: FillTally,
}

impl SiteTally {
    /// Counts a line from DRAM.
    #[inline]
    pub(crate) fn fill(&mut self, class: FillClass, follows: bool) {
        self.fills.add(class);
        self.followed += u64::from(follows);
    }

    /// Counts executions of an access of this site.
    #[inline]
    pub(crate) fn count(&mut self, access: &Access, executions: u64) {
        // Saturating: a damaged recording may claim any number of iterations.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        match access.kind {
            Kind::Read | Kind::StreamingRead => add(&mut self.loads, executions),
            Kind::Write => add(&mut self.stores, executions),
            Kind::ReadWrite => {
                add(&mut self.loads, executions);
                add(&mut self.stores, executions);
            }
            Kind::StreamingWrite => {
                add(&mut self.streaming_stores, executions);
                let bytes = executions.saturating_mul(u64::from(access.bytes));
                add(&mut self.streaming_bytes, bytes);
            }
            Kind::Prefetch | Kind::Flush | Kind::WriteBack => {}
        }
    }
}

/// Adds the growth of a count since `before`, multiplied. Saturating, as counts are.
fn repeat(count: &mut u64, before: u64, times: u64) {
    *count = count.saturating_add((*count - before).saturating_mul(times));
}

impl FillTally {
    fn repeat(&mut self, before: &FillTally, times: u64) {
        for (count, before) in self.unknown.iter_mut().zip(&before.unknown) {
            repeat(count, *before, times);
        }
        repeat(&mut self.misses, before.misses, times);
    }
}

impl LevelTally {
    fn repeat(&mut self, before: &LevelTally, times: u64) {
        for (count, before) in self.hits.iter_mut().zip(&before.hits) {
            repeat(count, *before, times);
        }
        self.absent.repeat(&before.absent, times);
    }
}

impl SiteTally {
    /// Adds the effect of accesses since `before`, multiplied. Executions do not change.
    pub(crate) fn repeat(&mut self, before: &SiteTally, times: u64) {
        self.l1.repeat(&before.l1, times);
        self.l2.repeat(&before.l2, times);
        self.llc.repeat(&before.llc, times);
        self.fills.repeat(&before.fills, times);
        repeat(&mut self.followed, before.followed, times);
        self.dirtied.repeat(&before.dirtied, times);
    }
}

impl AddAssign<&FillTally> for FillTally {
    fn add_assign(&mut self, other: &FillTally) {
        for (sum, more) in self.unknown.iter_mut().zip(&other.unknown) {
            *sum += more;
        }
        self.misses += other.misses;
    }
}

impl AddAssign<&LevelTally> for LevelTally {
    fn add_assign(&mut self, other: &LevelTally) {
        for (sum, more) in self.hits.iter_mut().zip(&other.hits) {
            *sum += more;
        }
        self.absent += &other.absent;
    }
}
