//! The basic blocks of a function, and its natural loops with their nesting.
//!
//! What for: which instructions belong to which loop. What not: their effects.
//!
//! How: instructions are read linearly from the function's first byte, as compilers lay them out. A back edge leads
//! to a block that dominates its source (Aho, Lam, Sethi, Ullman, Compilers, 9.6). Dominators are computed as by
//! Cooper, Harvey and Kennedy, A Simple, Fast Dominance Algorithm (2001). Blocks without a visible predecessor (cases
//! of a jump table, landing pads) count as successors of the function's entry. Loops with two entries are not found.
//!
//! Hazard: data between instructions ends the reading there.

use std::collections::{BTreeMap, BTreeSet};

use base::RemoteAddr;
use iced_x86::{Instruction, Mnemonic};

use crate::code::{CodeBytes, CodeSource as _};
use crate::instruction::{Flow, decode, flow};

/// Most instructions of a function that are read: 64 KiB of code have fewer.
const MOST_INSTRUCTIONS: usize = 40_000;

/// A basic block.
pub(super) struct Block {
    /// Its instructions, by position in [`Graph::instructions`].
    pub range: std::ops::Range<usize>,
    /// Blocks that may follow.
    pub next: Vec<usize>,
}

/// A natural loop.
#[derive(Clone, Debug)]
pub(super) struct Natural {
    /// The block through which all ways into it lead.
    pub header: usize,
    /// All its blocks, those of inner loops included.
    pub blocks: BTreeSet<usize>,
    /// Blocks with an edge back to the header.
    pub latches: Vec<usize>,
    /// The smallest loop around it, by index.
    pub parent: Option<usize>,
}

/// Where an instruction is in its function.
pub(super) struct Location {
    /// Its block, by position in [`Graph::blocks`].
    pub block: usize,
    /// By position in [`Graph::instructions`].
    pub instruction: usize,
}

/// A function's blocks.
pub(super) struct Graph {
    pub instructions: Vec<Instruction>,
    pub blocks: Vec<Block>,
    /// The place of each block in reverse post-order: except along back edges, a block comes after those in front of it.
    pub order: Vec<usize>,
}

impl Graph {
    pub(super) fn read(code: &CodeBytes<'_>) -> Graph {
        let instructions = read_instructions(code);
        let by_address: BTreeMap<u64, usize> =
            instructions.iter().enumerate().map(|(at, one)| (one.ip(), at)).collect();
        let mut starts: BTreeSet<usize> = [0].into();
        for (at, instruction) in instructions.iter().enumerate() {
            if let Some(target) = target(instruction) {
                starts.extend(by_address.get(&target.0));
            }
            if ends_block(instruction) {
                starts.insert(at + 1);
            }
        }
        let starts: Vec<usize> = starts.into_iter().filter(|at| *at < instructions.len()).collect();
        let block_at = |at: usize| starts.partition_point(|start| *start <= at).checked_sub(1);
        let mut blocks = Vec::new();
        for (number, start) in starts.iter().enumerate() {
            let end = starts.get(number + 1).copied().unwrap_or(instructions.len());
            let Some(last) = instructions.get(end.wrapping_sub(1)) else { continue };
            let jump =
                target(last).and_then(|to| by_address.get(&to.0)).and_then(|at| block_at(*at));
            let mut next: Vec<usize> = jump.into_iter().collect();
            if goes_on(last) && number + 1 < starts.len() && !next.contains(&(number + 1)) {
                next.push(number + 1);
            }
            blocks.push(Block { range: *start..end, next });
        }
        let mut graph = Graph { instructions, order: vec![0; blocks.len()], blocks };
        graph.cut_padding();
        for (at, block) in graph.post_order().into_iter().rev().enumerate() {
            graph.order[block] = at;
        }
        graph
    }

    /// Code between a jump and the next aligned block is padding that never runs: it has no successors.
    fn cut_padding(&mut self) {
        let before = self.predecessors();
        for (block, before) in self.blocks.iter_mut().zip(&before).skip(1) {
            let mut inside = self.instructions[block.range.clone()].iter();
            if before.is_empty() && inside.all(|one| one.mnemonic() == Mnemonic::Nop) {
                block.next.clear();
            }
        }
    }

    /// The place of the instruction at `address`.
    pub(super) fn locate(&self, address: RemoteAddr) -> Option<Location> {
        let instruction =
            self.instructions.binary_search_by_key(&address.0, Instruction::ip).ok()?;
        let block = self.blocks.partition_point(|block| block.range.start <= instruction);
        Some(Location { block: block.checked_sub(1)?, instruction })
    }

    /// All loops, outer ones before inner ones.
    pub(super) fn loops(&self) -> Vec<Natural> {
        let before = self.predecessors();
        let dominators = self.dominators(&before);
        let dominates = |above: usize, mut block: usize| {
            // Block 0 is its own dominator: the walk ends there.
            while block != above && block != 0 {
                block = dominators[block];
            }
            block == above
        };
        let mut latches: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (from, block) in self.blocks.iter().enumerate() {
            for to in block.next.iter().filter(|to| dominates(**to, from)) {
                latches.entry(*to).or_default().push(from);
            }
        }
        let mut loops: Vec<Natural> = latches
            .into_iter()
            .map(|(header, latches)| {
                let blocks = body(header, &latches, &before);
                Natural { header, blocks, latches, parent: None }
            })
            .collect();
        loops.sort_by_key(|one| (std::cmp::Reverse(one.blocks.len()), one.header));
        for inner in 1..loops.len() {
            let header = loops[inner].header;
            // The smallest of the larger loops; two loops of one size are disjoint.
            let around = (0..inner).rev().find(|outer| {
                loops[*outer].header != header && loops[*outer].blocks.contains(&header)
            });
            loops[inner].parent = around;
        }
        loops
    }

    /// The blocks of `within` through which every iteration passes, in order of execution.
    pub(super) fn unavoidable(&self, natural: &Natural, within: &[usize]) -> Vec<usize> {
        // Number of blocks that an iteration reaches without this one, if it cannot complete without it: fewer where
        // it comes earlier.
        let reached_without =
            |block: usize| {
                let mut seen = BTreeSet::from([natural.header]);
                let mut open = vec![natural.header];
                while let Some(at) = open.pop().filter(|_| block != natural.header) {
                    if natural.latches.contains(&at) && at != block {
                        return None;
                    }
                    let next = self.blocks[at].next.iter().copied();
                    open.extend(next.filter(|to| {
                        *to != block && natural.blocks.contains(to) && seen.insert(*to)
                    }));
                }
                Some(seen.len() - usize::from(block == natural.header))
            };
        let found = within.iter().filter_map(|block| Some((reached_without(*block)?, *block)));
        let mut found: Vec<(usize, usize)> = found.collect();
        found.sort_unstable();
        found.into_iter().map(|(_, block)| block).collect()
    }

    /// The blocks in front of each block.
    pub(super) fn predecessors(&self) -> Vec<Vec<usize>> {
        let mut before = vec![Vec::new(); self.blocks.len()];
        for (from, block) in self.blocks.iter().enumerate() {
            block.next.iter().for_each(|to| before[*to].push(from));
        }
        before
    }

    /// The immediate dominator of each block; 0, the entry, for itself and for blocks without predecessor.
    fn dominators(&self, before: &[Vec<usize>]) -> Vec<usize> {
        let order = self.post_order();
        let mut position = vec![0; self.blocks.len()];
        order.iter().enumerate().for_each(|(at, block)| position[*block] = at);
        let mut dominators: Vec<Option<usize>> = vec![None; self.blocks.len()];
        if let Some(entry) = dominators.first_mut() {
            *entry = Some(0);
        }
        let mut changed = true;
        while changed {
            changed = false;
            for &block in order.iter().rev().filter(|block| **block != 0) {
                // Blocks without a visible predecessor count as successors of the entry.
                let orphan = before[block].is_empty().then_some(0);
                let known =
                    before[block].iter().copied().filter(|from| dominators[*from].is_some());
                // Each step leads nearer to the entry, which is last.
                let above = |block: usize| {
                    let next = dominators[block].filter(|next| position[*next] > position[block]);
                    next.unwrap_or(0)
                };
                let new = known.chain(orphan).reduce(|mut left, mut right| {
                    while left != right {
                        if position[left] < position[right] {
                            left = above(left);
                        } else {
                            right = above(right);
                        }
                    }
                    left
                });
                if new.is_some() && dominators[block] != new {
                    dominators[block] = new;
                    changed = true;
                }
            }
        }
        dominators.into_iter().map(|dominator| dominator.unwrap_or(0)).collect()
    }

    /// The blocks in post-order. The entry is last, so that it dominates the blocks that only a jump table leads to.
    fn post_order(&self) -> Vec<usize> {
        let (mut order, mut seen) = (Vec::new(), vec![false; self.blocks.len()]);
        let orphans: Vec<usize> = {
            let before = self.predecessors();
            (1..self.blocks.len()).filter(|block| before[*block].is_empty()).collect()
        };
        if let Some(entry) = seen.first_mut() {
            // The entry comes last, whatever branches back to it.
            *entry = true;
        }
        for root in orphans.into_iter().chain([0]).filter(|root| *root < self.blocks.len()) {
            seen[root] = true;
            let mut open = vec![(root, 0)];
            while let Some((block, edge)) = open.last_mut() {
                match self.blocks[*block].next.get(*edge) {
                    Some(&next) => {
                        *edge += 1;
                        if !std::mem::replace(&mut seen[next], true) {
                            open.push((next, 0));
                        }
                    }
                    None => {
                        order.push(*block);
                        open.pop();
                    }
                }
            }
        }
        order
    }
}

fn body(header: usize, latches: &[usize], before: &[Vec<usize>]) -> BTreeSet<usize> {
    let mut blocks = BTreeSet::from([header]);
    let mut open = latches.to_vec();
    while let Some(block) = open.pop() {
        if blocks.insert(block) {
            open.extend(&before[block]);
        }
    }
    blocks
}

fn read_instructions(code: &CodeBytes<'_>) -> Vec<Instruction> {
    let mut found = Vec::new();
    let mut at = code.start;
    while found.len() < MOST_INSTRUCTIONS {
        let bytes = code.bytes_at(at);
        let bytes = bytes.get(..crate::code::LONGEST_INSTRUCTION).unwrap_or(bytes);
        let Ok(instruction) = decode(bytes, at) else { break };
        at = RemoteAddr(instruction.next_ip());
        found.push(instruction);
    }
    found
}

/// The target of a jump, if it is known.
fn target(instruction: &Instruction) -> Option<RemoteAddr> {
    match flow(instruction) {
        Flow::Jump(to) | Flow::Conditional(to) => Some(to),
        _ => None,
    }
}

fn ends_block(instruction: &Instruction) -> bool {
    match flow(instruction) {
        Flow::Jump(_) | Flow::Conditional(_) | Flow::IndirectJump | Flow::Return => true,
        Flow::Next | Flow::Call(_) | Flow::IndirectCall => !goes_on(instruction),
    }
}

/// Whether the next instruction may follow.
fn goes_on(instruction: &Instruction) -> bool {
    let stops = matches!(instruction.mnemonic(), Mnemonic::Ud2 | Mnemonic::Hlt | Mnemonic::Int3);
    !stops && !matches!(flow(instruction), Flow::Jump(_) | Flow::IndirectJump | Flow::Return)
}
