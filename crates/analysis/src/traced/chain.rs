//! How many loads, each of whose address needs what the one before loaded, stand behind an address.
//!
//! What for: telling a pointer chase (list, tree, `i = next[i]`), whose loads wait for each other, from other irregular
//! accesses (`a[index[i]]`: two in a row, then anew), which the processor overlaps.
//!
//! The rule: each general register has a *depth*, 0 at the start of a burst. A load's own depth is the largest depth of
//! the registers in its address. What an instruction writes to registers gets the largest depth of the registers that it
//! reads and of (own depth + 1) of its loads. Depths stop at 255.
//! Left out: values that pass through memory or vector registers: a chase whose pointer is kept on the stack (code built
//! without optimisation) is not seen. So a chase that is told is one; others may be missed.

use x86::{Block, GprSet, Instruction, Kind, Source, sources};

/// An address that needs so many loads, one after the other, is part of a chase.
pub(crate) const CHASE_DEPTH: u8 = 4;

/// Depths of rax..r15.
pub(crate) type Depths = [u8; x86::Gpr::COUNT];

/// max(constant, depth of each register at the block's start + its number), `None` for registers without influence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sum {
    constant: u8,
    registers: [Option<u8>; x86::Gpr::COUNT],
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
    constant: u8,
    registers: Vec<(u8, u8)>,
}

impl Depth {
    /// The value, given the depths at the block's start.
    pub(crate) fn at(&self, start: &Depths) -> u8 {
        let of = |(register, more): &(u8, u8)| start[usize::from(*register)].saturating_add(*more);
        self.registers.iter().map(of).fold(self.constant, u8::max)
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
    pub(crate) fn leave(&self, start: &Depths) -> Depths {
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
