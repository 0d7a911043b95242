//! How many loads, each of whose address needs what the one before loaded, stand behind an address.
//!
//! What for: telling a pointer chase (list, tree, `i = next[i]`), whose loads wait for each other, from other irregular
//! accesses (`a[index[i]]`: two in a row, then anew), which the processor overlaps.
//!
//! The rule: each general register has a *depth*, 0 at the start of a burst. A load's own depth is the largest depth of
//! the registers in its address. What an instruction writes to registers gets the largest depth of the registers that it
//! reads and of (own depth + 1) of its loads. An access chases when it stands deeper than at its execution before: one
//! through a pointer that was found by many loads, and then stays, does not ([`Chase`]).
//! Left out: values that pass through memory or vector registers: a chase whose pointer is kept on the stack (code built
//! without optimisation) is not seen. So a chase that is told is one; others may be missed.

use x86::{Block, GprSet, Instruction, Kind, Source, sources};

use super::code::SiteIndex;

/// An address that needs so many loads, one after the other, is part of a chase.
const CHASE_DEPTH: u32 = 4;

/// Depths of rax..r15.
type Depths = [u32; x86::Gpr::COUNT];

/// Which accesses chase, record by record.
#[derive(Debug)]
pub(crate) struct Chase {
    depths: Depths,
    /// Number of the burst, so that nothing has to be emptied.
    burst: u32,
    /// Of each site: the last burst with it, and its depth there.
    last: Vec<(u32, u32)>,
}

impl Chase {
    pub(crate) fn new(sites: usize) -> Chase {
        Chase { depths: Depths::default(), burst: 0, last: vec![(0, 0); sites] }
    }

    /// A burst begins.
    pub(crate) fn begin(&mut self) {
        self.depths = Depths::default();
        self.burst = self.burst.wrapping_add(1);
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
    pub(crate) fn leave(&mut self, chains: &Chains) {
        self.depths = chains.leave(&self.depths);
    }
}

/// max(constant, depth of each register at the block's start + its number), `None` for registers without influence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sum {
    constant: u32,
    registers: [Option<u32>; x86::Gpr::COUNT],
}

impl Sum {
    const NONE: Sum = Sum { constant: 0, registers: [None; x86::Gpr::COUNT] };

    fn of(register: usize) -> Sum {
        let mut sum = Sum::NONE;
        sum.registers[register] = Some(0);
        sum
    }

    fn max(mut self, other: &Sum) -> Sum {
        self.constant = self.constant.max(other.constant);
        for (mine, theirs) in self.registers.iter_mut().zip(other.registers) {
            *mine = (*mine).max(theirs);
        }
        self
    }

    fn plus_one(mut self) -> Sum {
        self.constant = self.constant.saturating_add(1);
        for register in self.registers.iter_mut().flatten() {
            *register = register.saturating_add(1);
        }
        self
    }

    fn depth(&self) -> Depth {
        let registers = (0u8..).zip(self.registers);
        let registers = registers.filter_map(|(register, more)| Some((register, more?)));
        Depth { constant: self.constant, registers: registers.collect() }
    }
}

/// A [`Sum`] for quick evaluation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Depth {
    constant: u32,
    registers: Vec<(u8, u32)>,
}

impl Depth {
    /// The value, given the depths at the block's start.
    fn at(&self, start: &Depths) -> u32 {
        let of = |(register, more): &(u8, u32)| start[usize::from(*register)].saturating_add(*more);
        self.registers.iter().map(of).fold(self.constant, u32::max)
    }
}

/// The depths of a block's accesses, and what it leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chains {
    /// In the order of the block's accesses.
    pub(crate) accesses: Vec<Depth>,
    /// Registers that change, with their depth behind the block.
    left: Vec<(u8, Depth)>,
}

impl Chains {
    pub(crate) fn of(block: &Block) -> Chains {
        let mut now: [Sum; x86::Gpr::COUNT] = std::array::from_fn(Sum::of);
        let mut accesses = Vec::new();
        for instruction in &block.instructions {
            let loaded = own_depths(instruction, &now, &mut accesses);
            let effect = instruction.registers();
            let written = largest(&now, effect.read).max(&loaded);
            for register in effect.changed.iter() {
                // A partial or conditional write may leave the old value.
                let old = if effect.killed.contains(register) {
                    Sum::NONE
                } else {
                    now[register.number()]
                };
                now[register.number()] = written.max(&old);
            }
        }
        let changed =
            (0u8..).zip(now).filter(|(register, sum)| *sum != Sum::of((*register).into()));
        Chains { accesses, left: changed.map(|(register, sum)| (register, sum.depth())).collect() }
    }

    /// The depths behind the block.
    fn leave(&self, start: &Depths) -> Depths {
        let mut depths = *start;
        for (register, depth) in &self.left {
            depths[usize::from(*register)] = depth.at(start);
        }
        depths
    }
}

fn largest(now: &[Sum; x86::Gpr::COUNT], registers: GprSet) -> Sum {
    registers.iter().fold(Sum::NONE, |sum, register| sum.max(&now[register.number()]))
}

/// Adds the depths of the instruction's accesses to `accesses`; returns that of what it loads.
fn own_depths(
    instruction: &Instruction,
    now: &[Sum; x86::Gpr::COUNT],
    accesses: &mut Vec<Depth>,
) -> Sum {
    let mut loaded = Sum::NONE;
    for access in instruction.accesses() {
        let mut own = Sum::NONE;
        for source in sources(access) {
            if let Source::General(register) = source {
                own = own.max(&now[register.number()]);
            }
        }
        accesses.push(own.depth());
        if matches!(access.kind, Kind::Read | Kind::ReadWrite | Kind::StreamingRead) {
            loaded = loaded.max(&own.plus_one());
        }
    }
    loaded
}
