//! The counters of flavour Count: how often each block was entered.
//!
//! What for: reading them behind a window, and starting them anew. What not: the code that counts
//! (`x86::translate`, counting).
//!
//! A block counts down before its first instruction. Blocks of this flavour are basic blocks (`Limits::BASIC`), which are
//! left only at their end: so one number per block is the exact count of each of its instructions. Of a superblock it
//! would overstate those behind a side exit, and a counter per side exit would cost as much as the basic block's.
//! What is not exact is the end of a window: the block in which it ends is counted whole.
//!
//! Counters slow code down by an unknown amount: nothing during a wait for memory, a third of the time in a tight loop. So a
//! sparse window follows each window in which all blocks count. In it, only blocks count that run seldom
//! ([`Cache::thin_out`]). How often these run per second of either window gives the cost of the other counters.
//! Links lead past the counter of a block that does not count. Entries by way of the table meet a jump over it, which costs
//! about as much as the counter. Blocks are changed while the only thread that may be in them is stopped. It may be stopped
//! inside a counter; all but the counter's first bytes stay, so it continues there.

use base::{BlockId, RemoteAddr};
use facts::BurstFlavour;
use x86::translate::area::{COUNTERS, Displacement};

use super::Cache;

/// Where counters start. A block that counts as fast as can be, about once per ns, uses it up in 67 ms, longer than a
/// window usually is; and a thread whose tracer died leaves after so many entries of one block at the latest.
const START: u64 = 1 << 26;
/// Bytes of the jump over a counter.
pub(super) const JUMP: usize = 2;
/// Of what a window counted one in so many may go on being counted: counters then take a thirtieth of what they took.
const STAYS: u64 = 32;
/// So many must: their scatter is 3 % of them.
const FEWEST: u64 = 1000;
/// Where more than this share of it would stay, the two windows would tell next to nothing.
const MOST: f64 = 2.0 / 3.0;

/// What was counted.
#[derive(Debug, Default)]
pub struct Counts {
    /// Blocks that were entered, and how often; 0 for those that did not count.
    pub entered: Vec<(BlockId, u64)>,
    /// A counter held what no block counts to: the program wrote over it.
    pub damaged: bool,
}

impl Cache {
    /// Starts the counter of a new block.
    pub(super) fn start_counter(&self, number: u32) {
        if let Some(slot) = slot(number) {
            self.space.set_slot(slot, START);
        }
    }

    /// Whether the block at this address was left at once because its counter is used up.
    #[must_use]
    pub fn has_used_up(&self, native: RemoteAddr) -> bool {
        if self.of != BurstFlavour::Count {
            return false;
        }
        let number = self.by_start.get(&native).copied();
        number.and_then(slot).is_some_and(|slot| self.space.slot(slot) == 0)
    }

    /// What was counted since the last time, where only blocks that ran seldom may count from now on; `None` where that would
    /// change little. The thread stands still.
    pub fn thin_out(&mut self) -> Option<Counts> {
        let count = |number: u32| {
            let left = slot(number).map_or(START, |slot| self.space.slot(slot));
            (START.saturating_sub(left), number)
        };
        let mut counted: Vec<(u64, u32)> =
            (0..self.blocks.len() as u32).map(count).filter(|(times, _)| *times > 0).collect();
        counted.sort_unstable_by(|one, other| other.cmp(one));
        let all: u64 = counted.iter().map(|(times, _)| times).sum();
        let (mut stays, mut uncounted) = (all, Vec::new());
        for (times, number) in counted {
            let less = stays - times;
            if stays > all / STAYS && less >= FEWEST {
                uncounted.push(number);
                stays = less;
            }
        }
        if stays as f64 > MOST * all as f64 {
            return None;
        }
        let counts = self.take_counts();
        uncounted.iter().for_each(|number| self.set_counting(*number, false));
        self.uncounted = uncounted;
        Some(counts)
    }

    /// All blocks count again. No thread is in them.
    pub fn count_all(&mut self) {
        for number in std::mem::take(&mut self.uncounted) {
            self.set_counting(number, true);
        }
    }

    fn set_counting(&mut self, number: u32, counts: bool) {
        let Some(block) = self.blocks.get_mut(number as usize) else { return };
        let over = block.counter.len().checked_sub(JUMP).and_then(|over| u8::try_from(over).ok());
        let (Some(counting), Some(over)) = (block.counting, over) else { return };
        block.counts = counts;
        let block = &self.blocks[number as usize];
        let Some(region) = self.space.regions().get(block.region) else { return };
        let at = (block.at.0 - region.at.0) as usize + block.counter.start;
        let head = if counts { counting } else { [0xeb, over] };
        self.space.memory().write(region.offset + at, &head);
        self.lead_anew(number);
    }

    /// What was counted since the last time; the counters start anew.
    pub fn take_counts(&mut self) -> Counts {
        let mut counts = Counts::default();
        let Ok(layouts) = self.layouts.read() else { return counts };
        for (number, (id, _)) in (0..).zip(layouts.iter()) {
            let Some(slot) = slot(number) else { break };
            let left = self.space.slot(slot);
            if left == START {
                continue;
            }
            self.space.set_slot(slot, START);
            if let Some(block) = self.blocks.get_mut(number as usize) {
                block.ran = true;
            }
            if self.uncounted.contains(&number) {
                // The thread stood inside of its counter, and went on in it.
                continue;
            }
            match START.checked_sub(left) {
                // At 0 the block is left in front of its first instruction.
                Some(entered) => counts.entered.push((*id, entered - u64::from(left == 0))),
                None => counts.damaged = true,
            }
        }
        let uncounted = self.uncounted.iter().filter_map(|number| layouts.get(*number as usize));
        counts.entered.extend(uncounted.map(|(id, _)| (*id, 0)));
        counts
    }
}

/// Where a block's counter is. Blocks beyond the last counter are not translated.
fn slot(number: u32) -> Option<Displacement> {
    COUNTERS.checked_add(Displacement::try_from(number).ok()?.checked_mul(8)?)
}
