//! Blocks that leave no records: none of their instructions accesses memory.
//!
//! What for: what they do to chains of loads, between two blocks that have records (`chain`). What not: their time, which bursts do
//! not show.

use std::collections::HashMap;
use std::sync::Arc;

use base::{Pid, RemoteAddr};
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
}

impl UnrecordedBlock {
    /// Its code.
    pub(super) fn new(pid: Pid, code: &x86::Block) -> UnrecordedBlock {
        let (targets, chains) = (targets(code), Arc::new(Chains::of(code)));
        UnrecordedBlock { pid, start: code.start, targets, chains }
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
