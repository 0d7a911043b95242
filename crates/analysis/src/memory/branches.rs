//! How many branches of a burst may have been mispredicted.
//!
//! What for: time that is neither memory's nor in a floor, where every branch is predicted. What not: which ones were: that
//! depends on the predictor.
//!
//! A branch that always went to the place where it went most often would be mispredicted whenever it went elsewhere. No
//! predictor of these years does worse over a burst, so that is the bound. Returns are predicted by a stack of their own and
//! do not count. A loop that was summarised is left once; one that runs as often as the last time, and that is at most
//! [`SHORT`] times, is predicted: predictors remember that many branches and more (Fog, The microarchitecture of Intel, AMD and
//! VIA CPUs, 3: since Haswell and Zen, long patterns that repeat).

use std::collections::HashMap;

use base::BlockId;

use crate::traced::{Execution, TracedCode};

/// Iterations of a loop whose end is predicted when they are as many as the last time.
const SHORT: u64 = 16;

/// A block, the way by which it was left, and the block that came next.
type Step = (BlockId, u32, BlockId);

/// Where the branches of a burst went.
#[derive(Debug, Default)]
pub(super) struct Branches {
    steps: HashMap<Step, u64>,
    /// The same step again and again is counted here first: that is most of them.
    again: Option<(Step, u64)>,
    last: Option<(BlockId, u32)>,
    /// How often loops of one block ran the last time.
    runs: HashMap<BlockId, u64>,
}

impl Branches {
    pub(super) fn pass(&mut self, execution: &Execution<'_>) {
        self.step(execution.block(), execution.way(), execution.iterations());
    }

    fn step(&mut self, block: BlockId, way: u32, iterations: u64) {
        if let Some((last, way)) = self.last.take() {
            self.count((last, way, block), 1);
        }
        if iterations > 1 {
            let as_before = self.runs.insert(block, iterations) == Some(iterations);
            if as_before && iterations <= SHORT {
                return;
            }
            self.count((block, 0, block), iterations - 1);
        }
        self.last = Some((block, way));
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
        self.runs.clear();
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

/// Of one block, by where its ways out are and whether its end returns: how often it was left by each way, once for each
/// block that came next.
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

    #[test]
    fn a_branch_that_always_goes_the_same_way_is_predicted() {
        let same = HashMap::from([(0, vec![1000])]);
        assert_eq!(mispredicted((&[4], false), &same), 0);
        let exit = HashMap::from([(0, vec![1000]), (1, vec![3])]);
        assert_eq!(mispredicted((&[4, 2], false), &exit), 3);
    }

    /// Steps that are counted, of a loop that runs so often each time, with another block in between.
    fn counted(runs: &[u64]) -> u64 {
        let mut branches = Branches::default();
        for iterations in runs {
            branches.step(BlockId(0), 0, *iterations);
            branches.step(BlockId(1), 0, 1);
        }
        let (_, last) = branches.again.unwrap();
        last + branches.steps.values().sum::<u64>()
    }

    #[test]
    fn a_short_loop_that_runs_as_often_as_the_last_time_is_predicted() {
        // Twice around and out, then only from the other block to the loop.
        assert_eq!(counted(&[3, 3, 3]), 2 + 1 + 1 + 1);
        // Each time anew.
        assert_eq!(counted(&[3, 4, 3]), (2 + 1) + (1 + 3 + 1) + (1 + 2 + 1));
        assert_eq!(counted(&[17, 17]), (16 + 1) + (1 + 16 + 1));
    }

    #[test]
    fn one_that_goes_both_ways_may_be_mispredicted_as_often_as_it_goes_the_rarer() {
        // Left in the middle 600 times of 1000, at its end to two places.
        let ways = HashMap::from([(0, vec![300, 100]), (1, vec![600])]);
        assert_eq!(mispredicted((&[4, 2], false), &ways), 400 + 100);
        assert_eq!(mispredicted((&[4, 2], true), &ways), 400);
    }
}
