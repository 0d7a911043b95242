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
//! ([`Cache::thin_out`]). The rates of these in both windows give the cost of the other counters. Windows before tell which
//! blocks run seldom: in the one that chose them, they would have run less often than usual by chance.
//!
//! Links bypass the counter of a block that does not count. Entries through the table meet a jump over it, which
//! costs about as much as the counter. Blocks are changed while the only thread that may be in them is stopped. If it
//! is stopped inside a counter, it continues there: only the first bytes of the counter change.

use std::collections::{BTreeMap, HashMap, HashSet};

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

/// What is not known of the cost of a native count, as a part of it: 1.0 to 1.6 times what it is in code that needs no caches
/// (`estimate::parameters::DISTURBED`).
const UNKNOWN_COST: f64 = 0.3;

/// How often blocks ran in windows, of which each counts half as much as the next.
#[derive(Debug, Default)]
pub(super) struct History {
    windows: f64,
    /// The sum of each block's counts, and that of their squares.
    sums: HashMap<u32, (f64, f64)>,
}

impl History {
    fn add(&mut self, entered: &[(u64, u32)]) {
        self.windows = self.windows / 2.0 + 1.0;
        self.sums
            .values_mut()
            .for_each(|(sum, squares)| (*sum, *squares) = (*sum / 2.0, *squares / 2.0));
        for (times, number) in entered {
            let (sum, squares) = self.sums.entry(*number).or_default();
            (*sum, *squares) = (*sum + *times as f64, *squares + (*times as f64).powi(2));
        }
        self.sums.retain(|_, (sum, _)| *sum >= 1.0);
    }

    /// The square of the relative error of a block's count in one window: how it varies from one to the next, and chance in its mean.
    fn error(&self, number: u32) -> f64 {
        let of = |(sum, squares): &(f64, f64)| {
            let variance = self.windows * squares / sum.powi(2) - 1.0;
            variance.max(0.0) + self.windows / sum
        };
        self.sums.get(&number).map_or(f64::INFINITY, of)
    }
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Counts {
    /// Blocks that were entered, and how often; 0 for blocks that did not count.
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
        self.entered().len()
    }

    /// How often each block was entered since its counter was reset; only those that were.
    fn entered(&self) -> Vec<(u64, u32)> {
        let count = |number: u32| {
            let left = slot(number).map_or(START, |slot| self.space.slot(slot));
            (START.saturating_sub(left), number)
        };
        (0..self.blocks.len() as u32).map(count).filter(|(times, _)| *times > 0).collect()
    }

    /// The counts since the last call, when from now on only blocks count that ran seldom in the windows before; `None` where that
    /// would change little. The thread is stopped. Of those, also the one whose native executions tell most, if it ran at most
    /// `most` times.
    pub fn thin_out(&mut self, most: u64) -> Option<(Counts, Option<Seldom>)> {
        let entered = self.entered();
        let frequent = self.frequent();
        self.history.add(&entered);
        let sum = |of: &dyn Fn(u32) -> bool| -> u64 {
            entered.iter().filter(|(_, number)| of(*number)).map(|(times, _)| times).sum()
        };
        let (all, stays) = (sum(&|_| true), sum(&|number| !frequent.contains(&number)));
        if stays as f64 > MOST * all as f64 {
            return None;
        }
        let seldom = self.steadiest(&entered, &frequent, most);
        let counts = self.take_counts();
        frequent.iter().for_each(|number| self.set_counting(*number, false));
        self.uncounted = frequent;
        Some((counts, seldom))
    }

    /// Blocks that took most of the counts of earlier windows.
    fn frequent(&self) -> HashSet<u32> {
        let sums = self.history.sums.iter();
        let mut counted: Vec<(u64, u32)> =
            sums.map(|(number, (sum, _))| (*sum as u64, *number)).collect();
        counted.sort_unstable_by(|one, other| other.cmp(one));
        let all: u64 = counted.iter().map(|(times, _)| times).sum();
        let (mut stays, mut frequent) = (all, HashSet::new());
        for (times, number) in counted {
            // Those that run least often tell most about native code (`steadiest`): none of them goes where a larger one stays.
            let less = stays - times;
            if stays <= all / STAYS || less < FEWEST {
                break;
            }
            frequent.insert(number);
            stays = less;
        }
        frequent
    }

    /// Of the jumps that ran at most `most` times, the one whose native rate is known best by its count: chance in that, how the
    /// block's counts vary from window to window, and what counting takes. Blocks that overlap end with the same one: none of
    /// these is `frequent`.
    fn steadiest(
        &self,
        entered: &[(u64, u32)],
        frequent: &HashSet<u32>,
        most: u64,
    ) -> Option<Seldom> {
        let mut jumps: BTreeMap<RemoteAddr, (u64, u32)> = BTreeMap::new();
        for (times, number) in entered {
            let Some(jump) = self.blocks[*number as usize].jump else { continue };
            let times = if frequent.contains(number) { u64::MAX } else { *times };
            let (ran, _) = jumps.entry(jump).or_insert((0, *number));
            *ran = ran.saturating_add(times);
        }
        let error = |(_, (ran, number)): &(RemoteAddr, (u64, u32))| {
            let ran = *ran as f64;
            // At most half of the time: `native_count`'s APART.
            let unknown = UNKNOWN_COST * 0.5 * ran / most as f64;
            self.history.error(*number) + unknown.powi(2)
        };
        let seldom = jumps.into_iter().filter(|(_, (ran, _))| *ran <= most);
        let (jump, (_, number)) =
            seldom.min_by(|one, other| error(one).total_cmp(&error(other)))?;
        let start = self.blocks[number as usize].start;
        let offset = u32::try_from(jump.0.checked_sub(start.0)?).ok()?;
        let block = self.layouts.read().ok()?.get(number as usize)?.0;
        Some(Seldom { block, jump, offset })
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
        let at = (block.parts.address(block.counter.start).0 - region.at.0) as usize;
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
                self.ran += usize::from(!block.ran);
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
        if self.uncounted.is_empty() {
            self.entered_before = counts.entered.len();
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

#[cfg(test)]
mod tests {
    use super::History;

    #[test]
    fn a_block_that_runs_evenly_is_a_better_clock() {
        let mut history = History::default();
        for window in 0..8 {
            let in_turns = if window % 2 == 0 { 400 } else { 0 };
            let counts = [(100, 0), (in_turns, 1), (4, 2)];
            history.add(&counts.into_iter().filter(|(times, _)| *times > 0).collect::<Vec<_>>());
        }
        let [even, in_turns, rare] = [0, 1, 2].map(|number| history.error(number));
        // One execution in a hundred by chance; one in four.
        assert!((even - 0.01).abs() < 1e-3 && (rare - 0.25).abs() < 1e-3, "{even} {rare}");
        assert!(in_turns > 0.3, "{in_turns}");
        assert_eq!(history.error(3), f64::INFINITY);
        // What ran in one window only.
        history.add(&[(100, 4)]);
        assert!(history.error(4) > 0.9, "{}", history.error(4));
    }
}
