//! Addresses that are the same in each iteration of a loop, in symbols.
//!
//! What for: sums of registers that the loop does not change and of values that it loads from such addresses. What
//! not: addresses that move; values of less than 64 bits, which count as unknown. Assumption: a store through an
//! unknown address changes none of these values.

use std::collections::{BTreeMap, BTreeSet};

use base::RemoteAddr;

use crate::block::Block;
use crate::contents::Contents;
use crate::evaluate::State;
use crate::operand::{self, Access, Address, AddressWidth, Segment};
use crate::pointers::{self, Derived};
use crate::register::{Gpr, GprSet};

/// Longer sums count as unknown: in some code sums double with each instruction.
const MOST_TERMS: usize = 32;

/// A term of a sum.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Term {
    /// A register that the loop does not change.
    Entry(Gpr),
    /// Base of thread-local data.
    FsBase,
    /// The 8 bytes at an address.
    Loaded(Box<Sum>),
}

/// Terms, each times its factor, and a constant; modulo 2^64.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Sum {
    terms: BTreeMap<Term, i64>,
    constant: i64,
}

/// Bytes at a constant address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct MemoryRange {
    at: Sum,
    /// Their number.
    pub(super) bytes: u32,
}

impl Sum {
    fn of(term: Term) -> Sum {
        Sum { terms: BTreeMap::from([(term, 1)]), constant: 0 }
    }

    fn constant(constant: i64) -> Sum {
        Sum { constant, ..Sum::default() }
    }

    fn plus(mut self, other: &Sum, times: i64) -> Sum {
        self.constant = self.constant.wrapping_add(other.constant.wrapping_mul(times));
        for (term, factor) in &other.terms {
            let sum = self.terms.entry(term.clone()).or_default();
            *sum = sum.wrapping_add(factor.wrapping_mul(times));
        }
        self.terms.retain(|_, factor| *factor != 0);
        self
    }

    /// The number of its terms, including those of the addresses of its loads.
    fn size(&self) -> usize {
        let of = |term: &Term| if let Term::Loaded(at) = term { 1 + at.size() } else { 1 };
        self.terms.keys().map(of).sum()
    }

    /// The length of the longest chain of loads in it.
    pub(super) fn depth(&self) -> usize {
        let of = |term: &Term| if let Term::Loaded(at) = term { 1 + at.depth() } else { 0 };
        self.terms.keys().map(of).max().unwrap_or(0)
    }

    /// Its value at the start. Each word of memory that is not in `contents` holds `word`.
    pub(super) fn value(&self, state: &State, contents: &Contents, word: u64) -> u64 {
        let term = |(term, factor): (&Term, &i64)| {
            let value = match term {
                Term::Entry(register) => state.get(*register),
                Term::FsBase => state.fs_base,
                Term::Loaded(at) => {
                    let at = at.value(state, contents, word);
                    u64::from_le_bytes(std::array::from_fn(|byte| held(contents, at, byte, word)))
                }
            };
            value.wrapping_mul(factor.cast_unsigned())
        };
        let terms = self.terms.iter().map(term).fold(0, u64::wrapping_add);
        self.constant.cast_unsigned().wrapping_add(terms)
    }
}

/// The byte at this distance from an address.
fn held(contents: &Contents, at: u64, byte: usize, word: u64) -> u8 {
    let at = at.wrapping_add(byte as u64);
    let default = word.to_le_bytes()[(at % 8) as usize];
    contents.get(&RemoteAddr(at)).copied().unwrap_or(default)
}

impl MemoryRange {
    /// Whether both have a byte in common, as far as the symbols show.
    pub(super) fn overlaps(&self, other: &MemoryRange) -> bool {
        let ends = |one: &MemoryRange| one.at.constant.saturating_add(i64::from(one.bytes));
        self.at.terms == other.at.terms
            && self.at.constant < ends(other)
            && other.at.constant < ends(self)
    }

    /// Whether its address is a constant in the code.
    pub(super) fn is_fixed(&self) -> bool {
        self.at.terms.is_empty()
    }

    /// The length of the chain of loads to its content, its own load included.
    pub(super) fn depth(&self) -> usize {
        1 + self.at.depth()
    }

    /// Its address.
    pub(super) fn address(&self, state: &State, contents: &Contents, word: u64) -> u64 {
        self.at.value(state, contents, word)
    }

    /// Its bytes at the start.
    pub(super) fn held(&self, state: &State, contents: &Contents, word: u64) -> Vec<u8> {
        let at = self.address(state, contents, word);
        (0..self.bytes as usize).map(|byte| held(contents, at, byte, word)).collect()
    }
}

/// The values of registers.
pub(super) type Registers = [Option<Sum>; Gpr::COUNT];

/// The values that are the same in each iteration, at the start of one.
pub(super) struct InvariantValues<'a> {
    block: &'a Block,
    /// Locations that the loop stores to.
    stored: &'a BTreeSet<MemoryRange>,
    entry: Registers,
}

impl<'a> InvariantValues<'a> {
    pub(super) fn new(block: &'a Block, stored: &'a BTreeSet<MemoryRange>) -> InvariantValues<'a> {
        let mut changed = GprSet::default();
        for register in block.instructions.iter().flat_map(|one| one.registers().changed.iter()) {
            changed.insert(register);
        }
        let mut entry: Registers = Registers::default();
        for register in Gpr::all().filter(|register| !changed.contains(*register)) {
            entry[register.number()] = Some(Sum::of(Term::Entry(register)));
        }
        let mut values = InvariantValues { block, stored, entry };
        // A value that is known at the end, whatever came before, is known at the next start. This only adds values.
        loop {
            let end = values.visit(|_, _, _| {}, |_, _| {});
            let news =
                |(before, after): (&Option<Sum>, &Option<Sum>)| before.is_none() && after.is_some();
            let any = values.entry.iter().zip(&end).any(news);
            if !any {
                return values;
            }
            for (before, after) in values.entry.iter_mut().zip(end) {
                *before = before.take().or(after);
            }
        }
    }

    /// Calls back for each access to such a location (index of the instruction, of the access in it) and with the
    /// register values after each instruction. Returns those after the last one.
    pub(super) fn visit(
        &self,
        mut see: impl FnMut(usize, usize, MemoryRange),
        mut behind: impl FnMut(usize, &Registers),
    ) -> Registers {
        let mut now = self.entry.clone();
        for (number, instruction) in self.block.instructions.iter().enumerate() {
            let accesses = instruction.accesses();
            let ranges: Vec<Option<MemoryRange>> =
                accesses.iter().map(|access| range_of(access, &now)).collect();
            for (access, range) in ranges.iter().enumerate() {
                if let Some(range) = range {
                    see(number, access, range.clone());
                }
            }
            let before = now.clone();
            for register in instruction.registers().changed.iter() {
                now[register.number()] = None;
            }
            for (to, derived) in pointers::derived(&instruction.raw, accesses) {
                now[to.number()] = match derived {
                    Derived::Sum { terms, constant } => {
                        let add = |sum: Sum, (register, times): &(Gpr, i64)| {
                            Some(sum.plus(before[register.number()].as_ref()?, *times))
                        };
                        let sum = terms.iter().try_fold(Sum::constant(constant), add);
                        // Sums of sums grow exponentially in hostile code; what grows beyond the limit is unknown.
                        sum.filter(|sum| sum.size() <= MOST_TERMS)
                    }
                    Derived::Loaded { access } => {
                        let range = ranges.get(access).cloned().flatten();
                        let stays = |range: &MemoryRange| {
                            !self.stored.iter().any(|stored| stored.overlaps(range))
                        };
                        let sum = |range: MemoryRange| Sum::of(Term::Loaded(Box::new(range.at)));
                        range.filter(stays).map(sum).filter(|sum| sum.size() <= MOST_TERMS)
                    }
                };
            }
            behind(number, &now);
        }
        now
    }
}

fn range_of(access: &Access, now: &Registers) -> Option<MemoryRange> {
    let operand::Location::One(address) = &access.place else { return None };
    let Address { segment, base, index, extra: None, displacement, width: AddressWidth::Bits64 } =
        address
    else {
        return None;
    };
    let start = match segment {
        Segment::Flat => Sum::default(),
        Segment::Fs => Sum::of(Term::FsBase),
        Segment::Gs => return None,
    };
    let mut at = start.plus(&Sum::constant(displacement.cast_signed()), 1);
    if let Some(base) = base {
        at = at.plus(now[base.number()].as_ref()?, 1);
    }
    if let Some(index) = index {
        at = at.plus(now[index.register.number()].as_ref()?, i64::from(index.scale));
    }
    Some(MemoryRange { at, bytes: access.bytes })
}
