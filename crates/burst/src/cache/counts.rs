//! The counters of flavour Count: how often each block was entered.
//!
//! What for: reading them behind a window, and starting them anew. What not: the code that counts
//! (`x86::translate`, counting).
//!
//! A block counts down before its first instruction. Blocks of this flavour are basic blocks (`Limits::BASIC`), which are
//! left only at their end: so one number per block is the exact count of each of its instructions. Of a superblock it
//! would overstate those behind a side exit, and a counter per side exit would cost as much as the basic block's.
//! What is not exact is the end of a window: the block in which it ends is counted whole.

use base::{BlockId, RemoteAddr};
use facts::BurstFlavour;
use x86::translate::area::{COUNTERS, Displacement};

use super::Cache;

/// Where counters start. A block that counts as fast as can be, about once per ns, uses it up in 67 ms, longer than a
/// window usually is; and a thread whose tracer died leaves after so many entries of one block at the latest.
const START: u64 = 1 << 26;

/// What was counted.
#[derive(Debug, Default)]
pub struct Counts {
    /// Blocks that were entered, and how often.
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
            match START.checked_sub(left) {
                // At 0 the block is left in front of its first instruction.
                Some(entered) => counts.entered.push((*id, entered - u64::from(left == 0))),
                None => counts.damaged = true,
            }
        }
        counts
    }
}

/// Where a block's counter is. Blocks beyond the last counter are not translated.
fn slot(number: u32) -> Option<Displacement> {
    COUNTERS.checked_add(Displacement::try_from(number).ok()?.checked_mul(8)?)
}
