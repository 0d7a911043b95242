//! How many branches of a burst were mispredicted.
//!
//! What for: time that is neither memory's nor in a no-miss time, in which every branch is predicted. What not: the cost of one
//! (`core_time`).
//!
//! *Best value*: those that a predictor of our own misses. It uses the longest of several path histories that it has met before
//! (as in A. Seznec and P. Michaud, A case for (partially) tagged geometric history length branch prediction, Journal of
//! Instruction-Level Parallelism 8, 2006). It starts each burst empty, and a first encounter does not count.
//! *At most*: every execution of a branch that does not go to its most frequent target. No current predictor does worse over a
//! burst, so that is the bound. Returns have a predictor stack of their own and do not count. Each iteration of a summarised loop is
//! a branch; behind [`LONGEST`] of them the path is the same again and again, and the end is mispredicted.

use std::collections::HashMap;

use base::{BlockId, BurstId, mixed};

use crate::traced::{Execution, TracedBlock, TracedCode};

/// Steps of the path by which the predictor's tables go, and bits of each.
const HISTORIES: [u32; 4] = [0, 3, 8, 24];
/// Four bits distinguish most successors of a block; with 24 steps a history is 96 bits, which are mixed into an index.
const BITS: u32 = 4;
/// Entries of a table, a power of two: more than processors have, for ours are filled by fewer branches.
const ENTRIES: usize = 1 << 12;
/// What an entry's confidence counts up to.
const SURE: u8 = 3;

/// Iterations after which the path consists of nothing else.
const LONGEST: u64 = HISTORIES[HISTORIES.len() - 1] as u64;

/// A block, the way by which it was left, and the block that came next.
type Step = (BlockId, u32, BlockId);

/// Where the branches of a burst went.
#[derive(Debug, Default)]
pub(super) struct Branches {
    steps: HashMap<Step, u64>,
    /// The same step again and again is counted here first: that is most of them.
    again: Option<(Step, u64)>,
    /// The block that ran last, by which way it was left, and whether that was a return.
    last: Option<(BlockId, u32, bool)>,
    predictor: Predictor,
}

/// Remembers where the branches of a burst went.
#[derive(Debug)]
struct Predictor {
    tables: [Vec<Entry>; HISTORIES.len()],
    /// Bursts are passed in any order, on several CPUs: so no state passes from one to the next.
    burst: BurstId,
    /// History of branches with more than one target: the last step in the lowest bits.
    path: u128,
}

/// Where a branch went after this path.
#[derive(Clone, Copy, Default, Debug)]
struct Entry {
    /// Tag of branch and path; 0: empty.
    tag: u64,
    next: u64,
    sure: u8,
    /// It went elsewhere before.
    varies: bool,
}

impl Default for Predictor {
    fn default() -> Predictor {
        let table = || vec![Entry::default(); ENTRIES];
        let tables = std::array::from_fn(|_| table());
        Predictor { tables, burst: BurstId(0), path: 0 }
    }
}

impl Predictor {
    /// Whether this predicts that a block is left by this way to this block; takes note of it.
    fn predicts(&mut self, (block, way, next): Step) -> bool {
        let next = mixed(u64::from(next.0) << 32 | u64::from(way));
        let code = u64::from(self.burst.0) << 32 | u64::from(block.0);
        let slots: [(usize, u64); HISTORIES.len()] = HISTORIES.map(|steps| {
            let path = self.path & ((1u128 << (steps * BITS)) - 1);
            let tag = mixed(mixed(mixed(code) ^ path as u64) ^ (path >> 64) as u64) | 1;
            (tag as usize / 2 % ENTRIES, tag)
        });
        let entries = self.tables.iter().zip(slots).map(|(table, (at, tag))| (table[at], tag));
        let longest = entries.enumerate().rfind(|(_, (entry, tag))| entry.tag == *tag);
        let right = longest.is_none_or(|(_, (entry, _))| entry.next == next);
        // A longer path is only remembered where this one was wrong.
        let known = longest.map_or(0, |(level, _)| level + usize::from(!right));
        for (table, (at, tag)) in self.tables.iter_mut().zip(slots).take(known + 1) {
            table[at].note(tag, next);
        }
        if self.tables[0][slots[0].0].varies {
            self.path = self.path << BITS | u128::from(next & ((1 << BITS) - 1));
        }
        right
    }
}

impl Entry {
    fn note(&mut self, tag: u64, next: u64) {
        if self.tag != tag {
            *self = Entry { tag, next, sure: 0, varies: false };
        } else if self.next == next {
            self.sure = (self.sure + 1).min(SURE);
        } else {
            self.varies = true;
            match self.sure {
                0 => self.next = next,
                _ => self.sure -= 1,
            }
        }
    }
}

impl Branches {
    /// A burst begins; the one before was taken.
    pub(super) fn begin(&mut self, burst: BurstId) {
        (self.predictor.burst, self.predictor.path) = (burst, 0);
    }

    /// Best value of the mispredicted branches: with their block that of the way there, and those of its own iterations.
    pub(super) fn pass(
        &mut self,
        block: &TracedBlock,
        execution: &Execution<'_>,
    ) -> [(BlockId, u32); 2] {
        let returns = block.returns && execution.way() == 0;
        let block = execution.block();
        let before = self.last.map_or(block, |(before, ..)| before);
        let [there, own] = self.step(block, execution.way(), returns, execution.iterations());
        [(before, there), (block, own)]
    }

    fn step(&mut self, block: BlockId, way: u32, returns: bool, iterations: u64) -> [u32; 2] {
        let mut there = 0;
        let mut own = 0;
        if let Some((last, way, returns)) = self.last.take() {
            self.count((last, way, block), 1);
            // Where a return leads is predicted; that the block came to it, and not to an exit before, is to be.
            let next = if returns { last } else { block };
            there = u32::from(!self.predictor.predicts((last, way, next)));
        }
        if iterations > 1 {
            let back = (block, 0, block);
            self.count(back, iterations - 1);
            let rounds = 0..(iterations - 1).min(LONGEST);
            own = rounds.map(|_| u32::from(!self.predictor.predicts(back))).sum();
            own += u32::from(iterations - 1 > LONGEST);
        }
        self.last = Some((block, way, returns));
        [there, own]
    }

    fn count(&mut self, step: Step, times: u64) {
        match &mut self.again {
            Some((same, so_far)) if *same == step => *so_far += times,
            again => {
                if let Some((step, times)) = again.replace((step, times)) {
                    *self.steps.entry(step).or_default() += times;
                }
            }
        }
    }

    /// Mispredicted ones at most; forgets the burst.
    pub(super) fn take(&mut self, code: &TracedCode) -> f64 {
        if let Some((step, times)) = self.again.take() {
            *self.steps.entry(step).or_default() += times;
        }
        self.last = None;
        let mut blocks: HashMap<BlockId, HashMap<u32, Vec<u64>>> = HashMap::new();
        for ((block, way, _), times) in self.steps.drain() {
            blocks.entry(block).or_default().entry(way).or_default().push(times);
        }
        let of = |(block, ways): (&BlockId, &HashMap<u32, Vec<u64>>)| {
            code.blocks
                .get(block)
                .map_or(0, |block| mispredicted((&block.ways, block.returns), ways))
        };
        blocks.iter().map(of).sum::<u64>() as f64
    }
}

/// Exits of one block, by the position of its ways out and whether its end returns: how often it was left by each way, once for
/// each block that came next.
fn mispredicted((ends, returns): (&[usize], bool), ways: &HashMap<u32, Vec<u64>>) -> u64 {
    let end = |way: u32| ends.get(way as usize).copied().unwrap_or(0);
    let times = |next: &Vec<u64>| next.iter().sum::<u64>();
    let mut most = 0;
    for (way, next) in ways {
        let left = times(next);
        most += if *way == 0 {
            let often = next.iter().copied().max().unwrap_or(0);
            if returns { 0 } else { left - often }
        } else {
            let further = ways.iter().filter(|(other, _)| **other == 0 || end(**other) > end(*way));
            left.min(further.map(|(_, next)| times(next)).sum())
        };
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Branches {
        fn missed(&mut self, block: BlockId, way: u32, returns: bool, iterations: u64) -> u32 {
            self.step(block, way, returns, iterations).iter().sum()
        }
    }

    #[test]
    fn a_branch_that_always_goes_the_same_way_is_predicted() {
        let same = HashMap::from([(0, vec![1000])]);
        assert_eq!(mispredicted((&[4], false), &same), 0);
        let exit = HashMap::from([(0, vec![1000]), (1, vec![3])]);
        assert_eq!(mispredicted((&[4, 2], false), &exit), 3);
    }

    /// Number of mispredictions in the last 1000 of 2000 runs of a loop with so many iterations, another block in between.
    fn missed_of_runs(iterations: impl Fn(u64) -> u64) -> u32 {
        let mut branches = Branches::default();
        let run = |number| {
            let own = branches.missed(BlockId(0), 0, false, iterations(number));
            own + branches.missed(BlockId(1), 0, false, 1)
        };
        (0..2000).map(run).skip(1000).sum()
    }

    #[test]
    fn a_short_loop_that_runs_equally_often_each_time_is_predicted() {
        assert_eq!(missed_of_runs(|_| 3), 0);
        assert_eq!(missed_of_runs(|_| 17), 0);
        assert_eq!(missed_of_runs(|_| 100), 1000, "its end is");
        assert_eq!(missed_of_runs(|number| 3 + number % 2), 0);
        // On or out, by chance: half of these, and there are two per run.
        let chance = missed_of_runs(|number| 1 + u64::from(mixed(number).trailing_zeros()));
        assert!((700..1100).contains(&chance), "{chance}");
    }

    /// Number of mispredictions in the last 1000 steps of a block that goes to these others and back.
    fn missed(next: impl Fn(u32) -> u32) -> u32 {
        let mut branches = Branches::default();
        let mut missed = 0;
        for number in 0..4000 {
            let there = branches.missed(BlockId(0), 0, false, 1);
            let back = branches.missed(BlockId(next(number)), 0, false, 1);
            missed += if number < 3000 { 0 } else { there + back };
        }
        missed
    }

    #[test]
    fn what_repeats_is_predicted_and_chance_is_not() {
        assert_eq!(missed(|_| 1), 0);
        assert_eq!(missed(|number| 1 + number % 2), 0);
        let period = [1, 2, 2, 1, 1, 1, 2, 1, 2, 2, 2];
        assert!(missed(|number| period[number as usize % period.len()]) < 20);
        let chance = missed(|number| 1 + (mixed(u64::from(number)) % 2) as u32);
        assert!((400..600).contains(&chance), "{chance}");
        let seldom = missed(|number| 1 + u32::from(mixed(u64::from(number)).is_multiple_of(10)));
        assert!((70..190).contains(&seldom), "{seldom}");
    }

    /// Which burst comes after which is a matter of chance, where several CPUs pass them.
    #[test]
    fn what_a_burst_missed_does_not_depend_on_others() {
        let missed = |branches: &mut Branches, burst| {
            branches.begin(BurstId(burst));
            let next = |number: u64| BlockId(1 + (mixed(number / 3) % 3) as u32);
            let there = |number| {
                [
                    branches.missed(BlockId(0), 0, false, 1),
                    branches.missed(next(number), 0, false, 1),
                ]
            };
            let sum: u32 = (0..500).flat_map(there).sum();
            branches.last = None;
            sum
        };
        let in_order = |bursts: [u32; 2]| {
            let mut branches = Branches::default();
            bursts.map(|burst| missed(&mut branches, burst))
        };
        let [first, second] = in_order([1, 2]);
        assert!(first > 20, "{first}");
        assert_eq!(in_order([2, 1]), [second, first]);
    }

    #[test]
    fn a_return_behind_a_branch_is_one_of_its_ways() {
        let mut branches = Branches::default();
        let mut missed = 0;
        for number in 0..2000u64 {
            let chance = mixed(number).is_multiple_of(2);
            let callers = BlockId(1 + (number % 7) as u32);
            missed += branches.missed(callers, 0, false, 1);
            missed += branches.missed(BlockId(0), u32::from(!chance), chance, 1);
            if !chance {
                missed += branches.missed(BlockId(9), 0, true, 1);
            }
        }
        assert!((900..1200).contains(&missed), "{missed}");
    }

    #[test]
    fn one_that_goes_both_ways_may_be_mispredicted_as_often_as_it_goes_the_rarer() {
        // Left in the middle 600 times of 1000, at its end to two places.
        let ways = HashMap::from([(0, vec![300, 100]), (1, vec![600])]);
        assert_eq!(mispredicted((&[4, 2], false), &ways), 400 + 100);
        assert_eq!(mispredicted((&[4, 2], true), &ways), 400);
    }
}
