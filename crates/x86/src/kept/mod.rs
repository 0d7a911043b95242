//! A loop that keeps in registers what it would load again in each iteration.
//!
//! What for: the cost of such loads. A compiler loads a pointer, a length or a sum again after each store that might
//! have changed it; a programmer knows better. [`keep`] finds the memory of a loop that has one address in all
//! iterations. It writes the loop with registers in place of that memory, to be timed next to the original loop. What
//! not: whether the program may do so: other stores of the loop, or another thread, may write there. Only traces show
//! that.
//!
//! ```text
//! mov rdx, [rdi+8]
//! mov rcx, [rdi]                                  r9 and r10, which the loop does not use,
//! mov [rcx+rdx], al         mov [r10+r9], al      hold [rdi+8] and [rdi] from the start on
//! add qword [rdi+8], 1      add r9, 1
//! ```
//!
//! Instructions that only fetched such a value, or that computed from it a value that is the same in each iteration,
//! are removed (`body`): a pointer that leads to another needs no register if only the other one is used.
//!
//! Nothing is kept of
//! * a loop that calls, pushes, or spills registers (an operand at a fixed distance from rsp, or below an unchanged
//!   rbp): it lacks registers or is unoptimised, and a change of its source would not help;
//! * a loop without any store: then the source requires the loads (`volatile`, atomic);
//! * a loop with an atomic instruction, a fence or `pause`: it communicates with other threads.
//!
//! Assumptions: a compiler would do the same or better: what is loaded and changed by one instruction each is a move
//! from a register here. The loop is past its first iteration.

mod body;
mod edit;
mod expression;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use base::RemoteAddr;
use iced_x86::{Instruction, Mnemonic};

use self::body::{Body, Line};
use self::edit::FreeRegister;
use self::expression::{InvariantValues, MemoryRange, Registers, Sum};
use crate::block::Block;
use crate::code::{CodeSource, Window};
use crate::contents::Contents;
use crate::evaluate::State;
use crate::instruction::Flow;
use crate::operand::{Access, Kind};
use crate::register::{Gpr, GprSet};
use crate::unroll::{NotTimeable, Part, Unrolled, straight};

/// Number of registers. One that becomes free is used again.
const MOST_HELD: usize = Gpr::COUNT + FreeRegister::VECTORS as usize;

/// The instructions of a loop: some have a register in place of their memory operand, some are removed.
#[derive(Clone, Debug)]
pub struct Kept {
    /// By index in the block.
    lines: Vec<Line>,
    held: Vec<(HeldValue, FreeRegister)>,
    accesses: Vec<KeptAccess>,
}

/// The value of a register from the start on.
#[derive(Clone, Debug)]
enum HeldValue {
    /// The content of memory there.
    Bytes(MemoryRange),
    /// The value that the instruction with this index gives this register in each iteration.
    Value(usize, Gpr, Sum),
}

/// Locations with a constant address that a loop loads and stores: what it carries in memory from iteration to
/// iteration.
#[derive(Clone, Debug)]
pub struct Carried(Vec<MemoryRange>);

/// An access that was removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeptAccess {
    /// Index of its instruction in the block.
    pub instruction: usize,
    /// The location, from 0; accesses to one location are to the same bytes.
    pub place: usize,
}

/// An access with a known symbolic address.
struct Candidate {
    instruction: usize,
    kind: Kind,
    range: MemoryRange,
    /// Its instruction has no other access, and it happens once.
    alone: bool,
}

/// The loop `block`, which branches back to its start, with registers in place of what it loads again and again.
/// `None` if there is nothing to keep, no register for it, or a reason not to (see above).
#[must_use]
pub fn keep(block: &Block) -> Option<Kept> {
    let instructions = &block.instructions;
    let stores = |access: &Access| matches!(access.kind, Kind::Write | Kind::ReadWrite);
    let any_store = instructions.iter().flat_map(|one| one.accesses()).any(stores);
    if !any_store || instructions.iter().any(|one| forbids(one, block)) {
        return None;
    }
    let Invariant { candidates, known, values } = Invariant::of(block);
    let mut wanted = worth_keeping(&candidates, values);
    let mut body = Body::new(block, &known);
    let mut held: Vec<(HeldValue, FreeRegister)> = Vec::new();
    let mut edited = BTreeSet::new();
    while held.len() < MOST_HELD {
        let free_registers = body.free_registers();
        let fits = |(at, one): (usize, &HeldValue)| {
            let edits =
                |free: &FreeRegister| Some((at, *free, edits(&body, &candidates, one, *free)?));
            free_registers.iter().find_map(edits)
        };
        let Some((at, free, edits)) = wanted.iter().enumerate().find_map(fits) else { break };
        for (instruction, raw) in edits {
            body.replace(instruction, raw);
            edited.insert(instruction);
        }
        held.push((wanted.remove(at), free));
        // What is removed may free registers, which the next value can have.
        body.settle(held.iter().filter_map(|(_, free)| free.general()).collect());
    }
    let ranges: BTreeSet<&MemoryRange> = candidates.iter().map(|one| &one.range).collect();
    let numbers: BTreeMap<&MemoryRange, usize> = ranges.into_iter().zip(0..).collect();
    let saved = |one: &&Candidate| edited.contains(&one.instruction) || !body.has(one.instruction);
    let access = |one: &Candidate| {
        Some(KeptAccess { instruction: one.instruction, place: *numbers.get(&one.range)? })
    };
    let mut accesses: Vec<KeptAccess> =
        candidates.iter().filter(saved).filter_map(access).collect();
    accesses.sort_unstable();
    (!held.is_empty()).then(|| Kept { lines: body.lines(), held, accesses })
}

/// The instructions to replace so that `free` holds this value; `None` if that is impossible, or if no remaining
/// instruction needs it.
fn edits(
    body: &Body,
    candidates: &[Candidate],
    what: &HeldValue,
    free: FreeRegister,
) -> Option<Vec<(usize, Instruction)>> {
    let edits: Vec<(usize, Instruction)> = match what {
        HeldValue::Bytes(range) => {
            let there = accesses_of(candidates, range)
                .filter_map(|one| Some((one.instruction, body.now(one.instruction)?)));
            let edit =
                |(at, raw): (usize, &Instruction)| Some((at, edit::edited(raw, free, range)?));
            there.map(edit).collect::<Option<_>>()?
        }
        HeldValue::Value(at, to, _) => {
            let copy = body.now(*at).and_then(|_| edit::copy(*to, free));
            copy.map(|copy| (*at, copy)).into_iter().collect()
        }
    };
    (!edits.is_empty()).then_some(edits)
}

/// What the loop `block` carries in memory.
#[must_use]
pub fn carried(block: &Block) -> Carried {
    let Invariant { candidates, .. } = Invariant::of(block);
    let ranges: BTreeSet<&MemoryRange> = candidates.iter().map(|one| &one.range).collect();
    let loads = |one: &Candidate| matches!(one.kind, Kind::Read | Kind::ReadWrite);
    let carries = |range: &&&MemoryRange| {
        is_stored(&candidates, range) && accesses_of(&candidates, range).any(loads)
    };
    Carried(ranges.iter().filter(carries).map(|range| (*range).clone()).collect())
}

impl Carried {
    /// The bytes there at the start, where each run of the loop has to find them ([`restored`](crate::restored)).
    #[must_use]
    pub fn held(&self, state: &State, contents: &Contents, word: u64) -> Contents {
        let bytes = |range: &MemoryRange| {
            let at = range.address(state, contents, word);
            let held = range.held(state, contents, word);
            (0..).zip(held).map(move |(byte, value)| (RemoteAddr(at.wrapping_add(byte)), value))
        };
        self.0.iter().flat_map(bytes).collect()
    }
}

impl Kept {
    /// The removed accesses, in the order of the block.
    #[must_use]
    pub fn accesses(&self) -> &[KeptAccess] {
        &self.accesses
    }

    /// Loads the registers that replace memory with its content at the start. Each word that is not in `contents`
    /// holds `word`.
    pub fn hold(&self, state: &mut State, contents: &Contents, word: u64) {
        // A register on the way to that address may itself have become one that replaces memory.
        let before = state.clone();
        for (held, free) in &self.held {
            let bytes = match held {
                HeldValue::Bytes(range) => range.held(&before, contents, word),
                HeldValue::Value(.., sum) => {
                    sum.value(&before, contents, word).to_le_bytes().to_vec()
                }
            };
            match free {
                FreeRegister::General(register) => {
                    let mut low = [0; 8];
                    low.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
                    state.set(*register, u64::from_le_bytes(low));
                }
                FreeRegister::Vector(number) => {
                    let vector = state.vectors[usize::from(*number)].iter_mut();
                    vector.zip(&bytes).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }

    /// As [`unroll`](crate::unroll), for the loop of which it was made.
    ///
    /// # Errors
    /// [`NotTimeable`], likewise.
    pub fn unroll<C: CodeSource + ?Sized>(
        &self,
        part: &Part<'_, C>,
        at: RemoteAddr,
        copies: usize,
    ) -> Result<Unrolled, NotTimeable> {
        let mut bytes = Vec::new();
        for _ in 0..copies {
            for (instruction, line) in part.block.instructions.iter().zip(&self.lines) {
                let to = RemoteAddr(at.0.wrapping_add(bytes.len() as u64));
                match line {
                    Line::Instead(edited) => bytes.extend(edit::encoded(edited, to)?),
                    Line::Own => {
                        let window = Window::read(part.code, instruction.address());
                        bytes.extend(straight(part.block, instruction, window.bytes(), to)?);
                    }
                    Line::Gone => {}
                }
            }
        }
        Ok(Unrolled { bytes, iterations: copies })
    }
}

/// Whether a loop with this instruction is not rewritten.
fn forbids(instruction: &crate::Instruction, block: &Block) -> bool {
    use Mnemonic::{Lfence, Mfence, Pause, Serialize, Sfence};
    let fence = matches!(instruction.raw.mnemonic(), Lfence | Mfence | Sfence | Pause | Serialize);
    let straight = matches!(instruction.flow(), Flow::Next | Flow::Conditional(_) | Flow::Jump(_));
    let rbp_stays = || {
        let changes = |one: &crate::Instruction| one.registers().changed.contains(Gpr::RBP);
        !block.instructions.iter().any(changes)
    };
    let on_frame = |access: &Access| {
        let address = access.address();
        let below = || address.displacement.cast_signed() < 0 && rbp_stays();
        let fixed = address.index.is_none();
        fixed && (address.base == Some(Gpr::RSP) || address.base == Some(Gpr::RBP) && below())
    };
    let accesses = instruction.accesses();
    fence || !straight || accesses.iter().any(|access| access.locked || on_frame(access))
}

/// A value computed from what was loaded.
struct Computed {
    instruction: usize,
    register: Gpr,
    value: Sum,
}

/// What is the same in each iteration.
#[derive(Default)]
struct Invariant {
    /// The accesses with such an address.
    candidates: Vec<Candidate>,
    /// The registers with such a value, after each instruction.
    known: Vec<GprSet>,
    values: Vec<Computed>,
}

impl Invariant {
    fn of(block: &Block) -> Invariant {
        let mut stored = BTreeSet::new();
        loop {
            let mut found = Invariant::default();
            InvariantValues::new(block, &stored).visit(
                |instruction, access, range| {
                    let accesses = block.instructions[instruction].accesses();
                    let access: &Access = &accesses[access];
                    let once = access.when == crate::Occurrence::Always && !access.line;
                    let alone = accesses.len() == 1 && once;
                    let kind = access.kind;
                    found.candidates.push(Candidate { instruction, kind, range, alone });
                },
                |instruction, registers| {
                    found.known.push(known(registers));
                    let one = &block.instructions[instruction];
                    let value = computed(one, registers);
                    found.values.extend(value.map(|(register, value)| Computed {
                        instruction,
                        register,
                        value,
                    }));
                },
            );
            // A location that turns out to be stored does not keep its value, so less is known than assumed.
            let writes = found.candidates.iter().filter(|one| one.kind != Kind::Read);
            let known = stored.len();
            stored.extend(writes.map(|one| one.range.clone()));
            if stored.len() == known {
                return found;
            }
        }
    }
}

fn known(registers: &Registers) -> GprSet {
    Gpr::all().filter(|register| registers[register.number()].is_some()).collect()
}

/// The register that the instruction computes without an access of its own, and its value, if it follows from loaded
/// values.
fn computed(instruction: &crate::Instruction, registers: &Registers) -> Option<(Gpr, Sum)> {
    let mut changed = instruction.registers().changed.iter();
    let to = changed.next().filter(|_| instruction.accesses().is_empty())?;
    let sum = registers[to.number()].as_ref().filter(|sum| sum.depth() > 0)?;
    changed.next().is_none().then(|| (to, sum.clone()))
}

/// What may be kept, most useful first: locations that are loaded and stored, because the load waits for the store;
/// then values at the end of the longest chains of loads, because the earlier loads become unnecessary; then what is
/// loaded most.
fn worth_keeping(candidates: &[Candidate], values: Vec<Computed>) -> Vec<HeldValue> {
    let ranges: BTreeSet<&MemoryRange> = candidates.iter().map(|one| &one.range).collect();
    let plain = |one: &Candidate| {
        one.alone && matches!(one.kind, Kind::Read | Kind::Write | Kind::ReadWrite)
    };
    let mut worth = Vec::new();
    for range in &ranges {
        let all: Vec<&Candidate> = accesses_of(candidates, range).collect();
        let stored = is_stored(candidates, range);
        let mut others = ranges.iter().filter(|other| *other != range && other.overlaps(range));
        let loaded = all.iter().any(|one| one.kind != Kind::Write);
        let apart = others.all(|other| !stored && !is_stored(candidates, other));
        if loaded && apart && all.iter().all(|one| plain(one)) {
            let order = (stored, range.depth(), 0, all.len());
            worth.push((order, HeldValue::Bytes((*range).clone())));
        }
    }
    for Computed { instruction, register, value } in values {
        // The last value of a chain.
        let order = (false, value.depth(), 1 + instruction, 1);
        worth.push((order, HeldValue::Value(instruction, register, value)));
    }
    worth.sort_by_key(|(order, _)| Reverse(*order));
    worth.into_iter().map(|(_, what)| what).collect()
}

fn is_stored(candidates: &[Candidate], range: &MemoryRange) -> bool {
    accesses_of(candidates, range).any(|one| one.kind != Kind::Read)
}

fn accesses_of<'a>(
    candidates: &'a [Candidate],
    range: &'a MemoryRange,
) -> impl Iterator<Item = &'a Candidate> {
    candidates.iter().filter(move |one| one.range == *range)
}

#[cfg(test)]
mod tests;
