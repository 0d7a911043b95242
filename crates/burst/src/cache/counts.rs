//! The counters of flavour Count: how often each block was entered.
//!
//! What for: reads the counters after a window, and resets them. What not: the code that counts (`x86::translate`,
//! counting).
//!
//! A block counts down before its first instruction. Blocks of this flavour are basic blocks (`Limits::BASIC`), which
//! are left only at their end: so one number per block is the exact count of each of its instructions. In a
//! superblock it would overstate the instructions after a side exit, and a counter per side exit would cost as much
//! as the one of the basic block. The end of a window is not exact: the block in which it ends is counted whole.
//!
//! Counters slow code down by an unknown amount: by nothing during a wait for memory, by a third in a tight loop. So
//! a sparse window follows each window in which all blocks count. In it, only blocks that run seldom count
//! ([`Cache::thin_out`]). The rates of these in both windows give the cost of the other counters.
//!
//! Links bypass the counter of a block that does not count. Entries through the table meet a jump over it, which
//! costs about as much as the counter. Blocks are changed while the only thread that may be in them is stopped. If it
//! is stopped inside a counter, it continues there: only the first bytes of the counter change.

use base::{BlockId, RemoteAddr};
use facts::BurstFlavour;
use x86::translate::area::{COUNTERS, Displacement};

use super::Cache;

/// The start value of a counter. The fastest block, entered once per ns, uses it up in 67 ms: longer than a usual
/// window. And if the tracer dies, the thread leaves after this many entries of one block at most.
const START: u64 = 1 << 26;
/// Bytes of the jump over a counter.
pub(super) const JUMP: usize = 2;
/// At most one part in so many of a window's count stays counted: the counters then take a thirtieth of the time.
const STAYS: u64 = 32;
/// At least this many must: the statistical error is then 3 %.
const FEWEST: u64 = 1000;
/// If more than this share stayed counted, the two windows would hardly differ.
const MOST: f64 = 2.0 / 3.0;

/// What was counted.
#[derive(Debug, Default)]
pub struct Counts {
    /// Blocks that were entered, and how often; 0 for blocks that did not count.
    pub entered: Vec<(BlockId, u64)>,
    /// A counter has a value that no block counts to: the program overwrote it.
    pub damaged: bool,
}

impl Cache {
    /// Starts the counter of a new block.
    pub(super) fn start_counter(&self, number: u32) {
        if let Some(slot) = slot(number) {
            self.space.set_slot(slot, START);
        }
    }

    /// Whether the block at this address was left because its counter is used up.
    #[must_use]
    pub fn has_used_up(&self, native: RemoteAddr) -> bool {
        if self.of != BurstFlavour::Count {
            return false;
        }
        let number = self.by_start.get(&native).copied();
        number.and_then(slot).is_some_and(|slot| self.space.slot(slot) == 0)
    }

    /// The counts since the last call, when from now on only blocks that ran seldom count; `None` where that would
    /// change little. The thread is stopped.
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

    /// Makes all blocks count again. No thread is in them.
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

    /// The counts since the last call; resets the counters.
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
                // The thread was stopped inside its counter, and continued there.
                continue;
            }
            match START.checked_sub(left) {
                // A block whose counter reached 0 was left before its first instruction: that entry did not run it.
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
