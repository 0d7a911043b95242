//! Loops that leave no records: none of their instructions accesses memory, so no burst has their iterations.
//!
//! What for: the time of a burst may be theirs as well as its accesses'; only samples distinguish these (`memory::unrecorded`). And
//! what blocks without records do to chains of loads, between two that have some (`chain`).
//! What not: loops with an access anywhere in them.
//!
//! A translated block without any recorded word is a node; its possible successors are edges. A node is in such a loop, or on the
//! way between two, if it can be entered from such nodes and left to such nodes again and again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::{CodeAddress, Pid, RemoteAddr};
use x86::{End, Flow};

use super::chain::{Chains, UnrecordedPath};

/// From block to block without records, no further.
const FURTHEST: usize = 3;

/// A block without records.
#[derive(Debug)]
pub(super) struct UnrecordedBlock {
    pid: Pid,
    start: RemoteAddr,
    targets: Vec<RemoteAddr>,
    chains: Arc<Chains>,
    places: Vec<CodeAddress>,
}

impl UnrecordedBlock {
    /// Its code, and the positions of its instructions.
    pub(super) fn new(pid: Pid, code: &x86::Block, places: &[CodeAddress]) -> UnrecordedBlock {
        let (targets, chains) = (targets(code), Arc::new(Chains::of(code)));
        UnrecordedBlock { pid, start: code.start, targets, chains, places: places.to_vec() }
    }
}

/// Possible successors of a block, as far as its code shows them.
pub(super) fn targets(code: &x86::Block) -> Vec<RemoteAddr> {
    let left = code.instructions.iter().filter_map(|one| match one.flow() {
        Flow::Conditional(target) => Some(target),
        _ => None,
    });
    let ends: Vec<RemoteAddr> = match code.end {
        End::FallThrough(next) | End::Jump(next) => vec![next],
        End::Conditional { taken, not_taken } => vec![taken, not_taken],
        _ => Vec::new(),
    };
    left.chain(ends).collect()
}

/// Blocks without records by where they begin.
pub(super) type UnrecordedBlocks<'a> = HashMap<(Pid, RemoteAddr), &'a UnrecordedBlock>;

pub(super) fn by_start(blocks: &[UnrecordedBlock]) -> UnrecordedBlocks<'_> {
    blocks.iter().map(|block| ((block.pid, block.start), block)).collect()
}

/// The blocks without records between a block at `start`, which goes to `targets`, and the recorded blocks that follow. A block
/// that goes directly back to itself makes no second record.
pub(super) fn ways_through(
    unrecorded: &UnrecordedBlocks<'_>,
    (pid, start): (Pid, RemoteAddr),
    targets: &[RemoteAddr],
) -> Vec<UnrecordedPath> {
    let directly = |to: &RemoteAddr| *to != start && targets.contains(to);
    let mut ways: Vec<UnrecordedPath> = Vec::new();
    let mut open: Vec<(RemoteAddr, Vec<Arc<Chains>>)> =
        targets.iter().map(|target| (*target, Vec::new())).collect();
    for _ in 0..FURTHEST {
        for (at, before) in std::mem::take(&mut open) {
            let Some(block) = unrecorded.get(&(pid, at)) else { continue };
            let chains: Vec<_> = before.into_iter().chain([Arc::clone(&block.chains)]).collect();
            for to in &block.targets {
                if !directly(to) && !ways.iter().any(|way| way.to == *to) {
                    ways.push(UnrecordedPath { to: *to, chains: chains.clone() });
                    open.push((*to, chains.clone()));
                }
            }
        }
    }
    ways
}

/// Where the instructions of such loops lie.
pub(super) fn unrecorded_loops(blocks: &[UnrecordedBlock]) -> HashSet<CodeAddress> {
    let numbers: HashMap<(Pid, RemoteAddr), usize> =
        blocks.iter().enumerate().map(|(at, block)| ((block.pid, block.start), at)).collect();
    let edges: Vec<Vec<usize>> = blocks
        .iter()
        .map(|block| {
            let node = |target: &RemoteAddr| numbers.get(&(block.pid, *target)).copied();
            block.targets.iter().filter_map(node).collect()
        })
        .collect();
    let mut kept: HashSet<usize> = (0..blocks.len()).collect();
    loop {
        let entered: HashSet<usize> = kept.iter().flat_map(|from| &edges[*from]).copied().collect();
        let goes_on = |at: &usize| edges[*at].iter().any(|to| kept.contains(to));
        let next: HashSet<usize> =
            kept.iter().copied().filter(|at| entered.contains(at) && goes_on(at)).collect();
        if next.len() == kept.len() {
            break;
        }
        kept = next;
    }
    kept.into_iter().flat_map(|at| blocks[at].places.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use base::{FileOffset, ModuleId};

    use super::*;

    /// Blocks of one instruction each at these addresses, and where they go.
    fn unrecorded(blocks: &[(u64, &[u64])]) -> Vec<u64> {
        let blocks: Vec<UnrecordedBlock> = blocks
            .iter()
            .map(|(start, targets)| UnrecordedBlock {
                pid: Pid(1),
                start: RemoteAddr(*start),
                targets: targets.iter().copied().map(RemoteAddr).collect(),
                chains: Arc::default(),
                places: vec![CodeAddress::new(ModuleId(2), FileOffset(*start))],
            })
            .collect();
        let mut found: Vec<u64> =
            unrecorded_loops(&blocks).iter().map(|place| place.offset.0).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn what_can_go_round_without_a_record_is_found() {
        assert_eq!(unrecorded(&[(10, &[10, 20])]), [10]);
        // Two blocks in turn, with a way in and a way out.
        assert_eq!(unrecorded(&[(5, &[10]), (10, &[20]), (20, &[10, 30]), (30, &[40])]), [10, 20]);
        // 20 has records: it is not among them.
        assert_eq!(unrecorded(&[(10, &[20]), (30, &[10])]), [0u64; 0]);
        assert_eq!(unrecorded(&[]), [0u64; 0]);
    }
}
