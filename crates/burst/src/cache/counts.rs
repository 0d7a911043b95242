//! The counters of flavour Count: how often each block was entered.
//!
//! What for: reads the counters after a window, and resets them. What not: the code that counts (`x86::translate`,
//! counting).
//!
//! A block counts down before its first instruction. Blocks of this flavour are basic blocks (`Limits::BASIC`), which
//! are left only at their end: so one number per block is the exact count of each of its instructions. In a
//! superblock it would overstate the instructions after a side exit, and a counter per side exit would cost as much
//! as the one of the basic block. The end of a window is not exact: the block in which it ends is counted whole.

use base::{BlockId, RemoteAddr};
use facts::BurstFlavour;
use x86::translate::area::{COUNTERS, Displacement};

use super::Cache;

/// The start value of a counter. The fastest block, entered once per ns, uses it up in 67 ms: longer than a usual
/// window. And if the tracer dies, the thread leaves after this many entries of one block at most.
const START: u64 = 1 << 26;

/// What was counted.
#[derive(Debug, Default)]
pub struct Counts {
    /// Blocks that were entered, and how often.
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

    /// How many blocks were entered since the counters were reset.
    #[must_use]
    pub fn entered_blocks(&self) -> usize {
        let slots = (0..self.blocks.len() as u32).filter_map(slot);
        slots.filter(|slot| self.space.slot(*slot) < START).count()
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
