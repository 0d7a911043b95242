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
//! Copies of blocks take longer than native code, by an amount that depends on what the program does. So a block that ran in a window is
//! counted natively behind it (`native_count`): the one of which earlier windows say that its count tells most.

use std::collections::{BTreeMap, HashMap};

use base::{BlockId, RemoteAddr};
use facts::BurstFlavour;
use x86::translate::area::{COUNTERS, Displacement};

use super::Cache;

/// The start value of a counter. The fastest block, entered once per ns, uses it up in 67 ms: longer than a usual
/// window. And if the tracer dies, the thread leaves after this many entries of one block at most.
const START: u64 = 1 << 26;

/// How often blocks ran in windows, of which each counts half as much as the next.
#[derive(Debug, Default)]
pub(super) struct History {
    windows: f64,
    /// The sum of each block's counts, and that of their squares.
    sums: HashMap<BlockId, (f64, f64)>,
}

impl History {
    fn add(&mut self, entered: &[(BlockId, u64)]) {
        self.windows = self.windows / 2.0 + 1.0;
        self.sums
            .values_mut()
            .for_each(|(sum, squares)| (*sum, *squares) = (*sum / 2.0, *squares / 2.0));
        for (block, times) in entered {
            let (sum, squares) = self.sums.entry(*block).or_default();
            (*sum, *squares) = (*sum + *times as f64, *squares + (*times as f64).powi(2));
        }
        self.sums.retain(|_, (sum, _)| *sum >= 1.0);
    }

    /// The square of the relative error of a block's count in one window: how it varies from one to the next, and chance in its mean.
    fn error(&self, block: BlockId) -> f64 {
        let of = |(sum, squares): &(f64, f64)| {
            let variance = self.windows * squares / sum.powi(2) - 1.0;
            variance.max(0.0) + self.windows / sum
        };
        self.sums.get(&block).map_or(f64::INFINITY, of)
    }
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Counts {
    /// Blocks that were entered, and how often.
    pub entered: Vec<(BlockId, u64)>,
    /// A counter has a value that no block counts to: the program overwrote it.
    pub damaged: bool,
}

/// A block that runs seldom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seldom {
    /// Its id.
    pub block: BlockId,
    /// Where the jump at its end is natively.
    pub jump: RemoteAddr,
    /// Bytes from its beginning to there.
    pub offset: u32,
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

    /// How many blocks were entered since the counters were reset.
    #[must_use]
    pub fn entered_blocks(&self) -> usize {
        let slots = (0..self.blocks.len() as u32).filter_map(slot);
        slots.filter(|slot| self.space.slot(*slot) < START).count()
    }

    /// Notes what a window counted. Of the jumps that ran at most `most` times in it, returns the one whose native rate is known best by
    /// its count: by chance in that, and by how the block's counts vary from window to window. Blocks that overlap end with the same one.
    pub fn note_window(&mut self, entered: &[(BlockId, u64)], most: u64) -> Option<Seldom> {
        self.history.add(entered);
        let layouts = self.layouts.read().ok()?;
        let number = |block: BlockId| layouts.binary_search_by_key(&block, |(id, _)| *id).ok();
        let mut jumps: BTreeMap<RemoteAddr, (u64, BlockId, u32)> = BTreeMap::new();
        for (id, times) in entered {
            let Some(block) = number(*id).and_then(|number| self.blocks.get(number)) else {
                continue;
            };
            let Some(jump) = block.jump else { continue };
            let Ok(offset) = u32::try_from(jump.0.wrapping_sub(block.start.0)) else { continue };
            jumps.entry(jump).or_insert((0, *id, offset)).0 += times;
        }
        let seldom = jumps.into_iter().filter(|(_, (ran, ..))| *ran <= most);
        let error = |(_, (_, block, _)): &(_, (u64, BlockId, _))| self.history.error(*block);
        let best = seldom.min_by(|one, other| error(one).total_cmp(&error(other)));
        best.map(|(jump, (_, block, offset))| Seldom { block, jump, offset })
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
                self.ran += usize::from(!block.ran);
                block.ran = true;
            }
            match START.checked_sub(left) {
                // A block whose counter reached 0 was left before its first instruction: that entry did not run it.
                Some(entered) => counts.entered.push((*id, entered - u64::from(left == 0))),
                None => counts.damaged = true,
            }
        }
        self.entered_before = counts.entered.len();
        counts
    }
}

/// Where a block's counter is. Blocks beyond the last counter are not translated.
fn slot(number: u32) -> Option<Displacement> {
    COUNTERS.checked_add(Displacement::try_from(number).ok()?.checked_mul(8)?)
}

#[cfg(test)]
mod tests {
    use base::BlockId;

    use super::History;

    #[test]
    fn a_block_that_runs_evenly_is_a_better_clock() {
        let mut history = History::default();
        for window in 0..8 {
            let in_turns = if window % 2 == 0 { 400 } else { 0 };
            let counts = [(BlockId(0), 100), (BlockId(1), in_turns), (BlockId(2), 4)];
            history.add(&counts.into_iter().filter(|(_, times)| *times > 0).collect::<Vec<_>>());
        }
        let [even, in_turns, rare] = [0, 1, 2].map(|number| history.error(BlockId(number)));
        // One execution in a hundred by chance; one in four.
        assert!((even - 0.01).abs() < 1e-3 && (rare - 0.25).abs() < 1e-3, "{even} {rare}");
        assert!(in_turns > 0.3, "{in_turns}");
        assert_eq!(history.error(BlockId(3)), f64::INFINITY);
        // What ran in one window only.
        history.add(&[(BlockId(4), 100)]);
        assert!(history.error(BlockId(4)) > 0.9, "{}", history.error(BlockId(4)));
    }
}
