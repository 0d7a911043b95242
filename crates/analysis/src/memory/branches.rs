//! How many branches of a burst may have been mispredicted.
//!
//! What for: time that is neither memory's nor in a floor, where every branch is predicted. What not: which ones were: that
//! depends on the predictor.
//!
//! A branch that always went to the place where it went most often would be mispredicted whenever it went elsewhere. No
//! predictor of these years does worse over a burst, so that is the bound. Returns are predicted by a stack of their own and
//! do not count. A loop that was summarised is left once.

use std::collections::HashMap;

use base::BlockId;

use crate::traced::{Execution, TracedCode};

/// A block, the way by which it was left, and the block that came next.
type Step = (BlockId, u32, BlockId);

/// Where the branches of a burst went.
#[derive(Debug, Default)]
pub(super) struct Branches {
    steps: HashMap<Step, u64>,
    /// The same step again and again is counted here first: that is most of them.
    again: Option<(Step, u64)>,
    last: Option<(BlockId, u32)>,
}

impl Branches {
    pub(super) fn pass(&mut self, execution: &Execution<'_>) {
        let block = execution.block();
        if let Some((last, way)) = self.last {
            self.count((last, way, block), 1);
        }
        if execution.iterations() > 1 {
            self.count((block, 0, block), execution.iterations() - 1);
        }
        self.last = Some((block, execution.way()));
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

    #[test]
    fn one_that_goes_both_ways_may_be_mispredicted_as_often_as_it_goes_the_rarer() {
        // Left in the middle 600 times of 1000, at its end to two places.
        let ways = HashMap::from([(0, vec![300, 100]), (1, vec![600])]);
        assert_eq!(mispredicted((&[4, 2], false), &ways), 400 + 100);
        assert_eq!(mispredicted((&[4, 2], true), &ways), 400);
    }
}
