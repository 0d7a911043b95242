//! The length of the chain of loads behind an address: each load needs the value of the one before.
//!
//! What for: distinguishes a pointer chase (list, tree, `i = next[i]`), whose loads wait for each other, from other irregular
//! accesses (`a[index[i]]`: chains of two), which the processor overlaps.
//!
//! The rule: each register has a *depth*, 0 at the start of a burst, and so have the status flags together: an address may result
//! from comparing (`cmp` and `sbb`, `setcc` or `cmov` in a search tree), also many keys at a time (`pcmpgt`, `pmovmskb`). A
//! load's own depth is the largest depth of the registers in its address. What an instruction writes gets the largest depth of
//! what it reads and of (own depth + 1) of its loads. An access chases if its depth is larger than at its execution before. A
//! pointer that many loads found, and that then stays, does not chase ([`Chase`]). What not: conditional branches, on which the
//! processor speculates without waiting for a load; and values that pass through memory: a chase whose pointer is kept on the
//! stack (code built without optimisation) is missed. So every reported chase is one; others may be missed.

use std::sync::Arc;

use base::{BlockId, RemoteAddr};
use x86::{Block, Flags, Gpr, Instruction, Kind, MaskRegister, Source, VectorRegister, sources};

use super::code::{SiteIndex, TracedBlock, TracedCode};

/// An address that needs this many loads in sequence is part of a chase.
const CHASE_DEPTH: u32 = 4;

/// Where the vector registers are among all that has a depth, the masks, and the flags.
const VECTORS: usize = Gpr::COUNT;
const MASKS: usize = VECTORS + VectorRegister::COUNT;
const FLAGS: usize = MASKS + MaskRegister::COUNT;
const SLOTS: usize = FLAGS + 1;

/// Depths of rax..r15, v0..v31, k0..k7, and of the flags.
type Depths = [u32; SLOTS];

/// Which accesses chase, record by record.
#[derive(Debug)]
pub(crate) struct Chase {
    depths: Depths,
    /// Kept for its memory.
    after: Vec<u32>,
    /// Number of the burst, so that nothing has to be emptied.
    burst: u32,
    /// By site: the last burst with it, and its depth there.
    last: Vec<(u32, u32)>,
    /// The block before, where blocks without records may follow it.
    before: Option<BlockId>,
}

impl Chase {
    pub(crate) fn new(sites: usize) -> Chase {
        let (depths, last) = ([0; SLOTS], vec![(0, 0); sites]);
        Chase { depths, after: Vec::new(), burst: 0, last, before: None }
    }

    /// A burst begins.
    pub(crate) fn begin(&mut self) {
        self.depths = [0; SLOTS];
        self.burst = self.burst.wrapping_add(1);
        self.before = None;
    }

    /// A block begins: what lies between it and the one before, and left no records, has run.
    pub(crate) fn enter(&mut self, code: &TracedCode, block: &TracedBlock) {
        let Some(before) = self.before.take().and_then(|id| code.blocks.get(&id)) else { return };
        let way = before.behind.iter().find(|way| way.to == block.start);
        for chains in way.map_or(&[][..], |way| way.chains.as_slice()) {
            chains.leave(&mut self.depths, &mut self.after);
        }
    }

    /// Whether an access of the block at hand stands at the end of a chain that has grown since it ran before.
    pub(crate) fn grows(&mut self, site: SiteIndex, depth: &Depth) -> bool {
        let depth = depth.at(&self.depths);
        let last = &mut self.last[site.index()];
        let before = if last.0 == self.burst { last.1 } else { 0 };
        *last = (self.burst, depth);
        depth >= CHASE_DEPTH && depth > before
    }

    /// The block is over.
    pub(crate) fn leave(&mut self, id: BlockId, block: &TracedBlock) {
        block.chains.leave(&mut self.depths, &mut self.after);
        self.before = (!block.behind.is_empty()).then_some(id);
    }
}

/// max(constant, depth of each slot at the block's start + its number); slots that are not named have no influence.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Depth {
    constant: u32,
    slots: Vec<(u8, u32)>,
}

impl Depth {
    fn of(slot: usize) -> Depth {
        Depth { constant: 0, slots: vec![(slot as u8, 0)] }
    }

    /// At least as deep as `other`, and `more`.
    fn raise(&mut self, other: &Depth, more: u32) {
        self.constant = self.constant.max(other.constant.saturating_add(more));
        for (slot, depth) in &other.slots {
            let depth = depth.saturating_add(more);
            match self.slots.binary_search_by_key(slot, |known| known.0) {
                Ok(at) => self.slots[at].1 = self.slots[at].1.max(depth),
                Err(at) => self.slots.insert(at, (*slot, depth)),
            }
        }
    }

    /// The value, given the depths at the block's start.
    fn at(&self, start: &Depths) -> u32 {
        let of = |(slot, more): &(u8, u32)| start[usize::from(*slot)].saturating_add(*more);
        self.slots.iter().map(of).fold(self.constant, u32::max)
    }
}

/// The depths of all slots within a block; `None` where nothing wrote to one yet.
type SlotDepths = [Option<Depth>; SLOTS];

/// Blocks without records that lead from one with records to the next.
#[derive(Clone, Debug)]
pub(crate) struct UnrecordedPath {
    /// Where the next begins.
    pub(crate) to: RemoteAddr,
    /// What they leave, in order.
    pub(crate) chains: Vec<Arc<Chains>>,
}

/// The depths of a block's accesses, and what it leaves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Chains {
    /// In the order of the block's accesses.
    pub(crate) accesses: Vec<Depth>,
    /// What changes, with its depth after the block.
    left: Vec<(u8, Depth)>,
}

impl Chains {
    pub(crate) fn of(block: &Block) -> Chains {
        let mut now: SlotDepths = std::array::from_fn(|_| None);
        let mut accesses = Vec::new();
        for instruction in &block.instructions {
            let mut written = own_depths(instruction, &now, &mut accesses);
            read(instruction).for_each(|slot| raise(&mut written, &now, slot));
            for (slot, killed) in changed(instruction) {
                let mut left = written.clone();
                // A partial or conditional write may leave the old value.
                if !killed {
                    raise(&mut left, &now, slot);
                }
                now[slot] = Some(left);
            }
        }
        let changed = (0u8..).zip(now).filter_map(|(slot, now)| Some((slot, now?)));
        let changed = changed.filter(|(slot, now)| *now != Depth::of((*slot).into()));
        Chains { accesses, left: changed.collect() }
    }

    /// The depths after the block. All are those of its start until `after` has what changes.
    fn leave(&self, depths: &mut Depths, after: &mut Vec<u32>) {
        after.clear();
        after.extend(self.left.iter().map(|(_, depth)| depth.at(depths)));
        let changed = self.left.iter().zip(after);
        changed.for_each(|((slot, _), depth)| depths[usize::from(*slot)] = *depth);
    }
}

/// The slots that a value may depend on.
fn read(instruction: &Instruction) -> impl Iterator<Item = usize> {
    let effect = *instruction.registers();
    let flags = instruction.flags().read != Flags::NONE;
    let general = effect.read.iter().map(Gpr::number);
    let vectors = bits(effect.vectors_read).map(|number| VECTORS + number);
    let masks = bits(effect.masks_read.into()).map(|number| MASKS + number);
    general.chain(vectors).chain(masks).chain(flags.then_some(FLAGS))
}

/// The slots that change, and whether nothing of what was there before is left.
fn changed(instruction: &Instruction) -> impl Iterator<Item = (usize, bool)> {
    let effect = *instruction.registers();
    let flags = instruction.flags();
    let written = flags.written.union(flags.undefined);
    let all = written.contains(Flags::STATUS) && !flags.conditional;
    let general = effect.changed.iter().map(move |one| (one.number(), effect.killed.contains(one)));
    let replaced = |changed: u32, read: u32, first: usize| {
        bits(changed).map(move |number| (first + number, read >> number & 1 == 0))
    };
    let vectors = replaced(effect.vectors_changed, effect.vectors_read, VECTORS);
    let masks = replaced(effect.masks_changed.into(), effect.masks_read.into(), MASKS);
    let flags = (written != Flags::NONE).then_some((FLAGS, all));
    general.chain(vectors).chain(masks).chain(flags)
}

fn bits(set: u32) -> impl Iterator<Item = usize> {
    (0..u32::BITS as usize).filter(move |number| set >> number & 1 != 0)
}

/// At least as deep as a slot is now.
fn raise(depth: &mut Depth, now: &SlotDepths, slot: usize) {
    match &now[slot] {
        Some(written) => depth.raise(written, 0),
        None => depth.raise(&Depth::of(slot), 0),
    }
}

/// Adds the depths of the instruction's accesses to `accesses`; returns that of what it loads.
fn own_depths(instruction: &Instruction, now: &SlotDepths, accesses: &mut Vec<Depth>) -> Depth {
    let mut loaded = Depth::default();
    for access in instruction.accesses() {
        let mut own = Depth::default();
        for source in sources(access) {
            match source {
                Source::General(register) => raise(&mut own, now, register.number()),
                Source::Vector(register) => raise(&mut own, now, VECTORS + register.number()),
                _ => {}
            }
        }
        if matches!(access.kind, Kind::Read | Kind::ReadWrite | Kind::StreamingRead) {
            loaded.raise(&own, 1);
        }
        accesses.push(own);
    }
    loaded
}
