//! A loop that keeps in registers what it loads again in each iteration.
//!
//! What for: what such loads cost. Compilers load a pointer, a length or a sum anew after each store that might have changed
//! it; a programmer knows better. [`keep`] finds the places of a loop that have one address in all iterations, and writes the
//! loop with registers in their stead, to be timed beside the loop as it is. What not: whether the program may do so: other
//! stores of the loop, or another thread, may write there. Only traces tell.
//!
//! ```text
//! mov rdx, [rdi+8]          mov rdx, r9
//! mov rcx, [rdi]            mov rcx, r10          r9 and r10, which the loop does not use,
//! mov [rcx+rdx], al         mov [rcx+rdx], al     hold [rdi+8] and [rdi] from the start on
//! add qword [rdi+8], 1      add r9, 1
//! ```
//!
//! Nothing is kept of
//! * a loop that calls, pushes, or spills registers (an operand at a fixed distance from rsp, or below an unchanged rbp): it is
//!   short of registers, or was not optimised, and then source code changes nothing;
//! * a loop without any store: nothing made the compiler load again, so it was told to (`volatile`, atomic);
//! * a loop with an atomic instruction, a fence or `pause`: threads speak to each other there.
//!
//! Assumptions: what is not loaded again is a move from a register here, for which a compiler would have no instruction at all:
//! the time saved is on the low side. Iterations behind the first.

mod edit;
mod expression;

use std::collections::BTreeSet;

use base::RemoteAddr;
use iced_x86::{InstructionInfoFactory, Mnemonic};

use self::edit::Spare;
use self::expression::{Place, Places};
use crate::block::Block;
use crate::code::{CodeSource, Window};
use crate::contents::Contents;
use crate::evaluate::State;
use crate::floor::{NoFloor, Part, Unrolled, straight};
use crate::instruction::Flow;
use crate::operand::{Access, Kind};
use crate::register::Gpr;

/// The instructions of a loop, some with a register instead of their memory operand.
#[derive(Clone, Debug)]
pub struct Kept {
    /// By position in the block: what stands there instead.
    edited: Vec<Option<iced_x86::Instruction>>,
    held: Vec<(Place, Spare)>,
    accesses: Vec<KeptAccess>,
}

/// Places that a loop loads and stores, and that stay where they are: what it carries from iteration to iteration in memory.
#[derive(Clone, Debug)]
pub struct Carried(Vec<Place>);

/// An access that is none any more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeptAccess {
    /// Position of its instruction in the block.
    pub instruction: usize,
    /// Which place, from 0; accesses of one place are of the same bytes.
    pub place: usize,
}

/// An access to a place whose address is known in symbols.
struct Candidate {
    instruction: usize,
    kind: Kind,
    place: Place,
    /// Its instruction has no other, and it happens once.
    alone: bool,
}

/// The loop `block`, which leads back to its start, with registers for what it loads again and again; `None` where there is
/// nothing to keep, no register for it, or a reason not to (see above).
#[must_use]
pub fn keep(block: &Block) -> Option<Kept> {
    let instructions = &block.instructions;
    let stores = |access: &Access| matches!(access.kind, Kind::Write | Kind::ReadWrite);
    let any_store = instructions.iter().flat_map(|one| one.accesses()).any(stores);
    if !any_store || instructions.iter().any(|one| forbids(one, block)) {
        return None;
    }
    let candidates = candidates(block);
    let mut spares = Spare::of(block, &mut InstructionInfoFactory::new());
    let mut kept = Kept { edited: vec![None; instructions.len()], held: vec![], accesses: vec![] };
    for place in worth_keeping(&candidates) {
        let of_place: Vec<usize> =
            accesses_of(&candidates, &place).map(|one| one.instruction).collect();
        let edit = |spare: &Spare| {
            let one =
                |at: &usize| Some((*at, edit::edited(&instructions[*at].raw, *spare, &place)?));
            of_place.iter().map(one).collect::<Option<Vec<_>>>()
        };
        let found = spares.iter().enumerate().find_map(|(at, spare)| Some((at, edit(spare)?)));
        let Some((at, edits)) = found else { continue };
        let number = kept.held.len();
        kept.held.push((place, spares.remove(at)));
        for (instruction, edited) in edits {
            kept.edited[instruction] = Some(edited);
            kept.accesses.push(KeptAccess { instruction, place: number });
        }
    }
    kept.accesses.sort_unstable();
    (!kept.held.is_empty()).then_some(kept)
}

/// What the loop `block` carries on in memory.
#[must_use]
pub fn carried(block: &Block) -> Carried {
    let candidates = candidates(block);
    let places: BTreeSet<&Place> = candidates.iter().map(|one| &one.place).collect();
    let loads = |one: &Candidate| matches!(one.kind, Kind::Read | Kind::ReadWrite);
    let carries = |place: &&&Place| {
        is_stored(&candidates, place) && accesses_of(&candidates, place).any(loads)
    };
    Carried(places.iter().filter(carries).map(|place| (*place).clone()).collect())
}

impl Carried {
    /// Code that stores there what memory holds at the start, so that each run of the loop begins alike. It uses rax and rcx.
    #[must_use]
    pub fn restored(&self, state: &State, contents: &Contents, word: u64) -> Vec<u8> {
        let mut code = Vec::new();
        for place in &self.0 {
            let mut at = place.address(state, contents, word);
            for piece in place.held(state, contents, word).chunks(8) {
                let mut value = [0; 8];
                value.iter_mut().zip(piece).for_each(|(to, from)| *to = *from);
                code.extend([0x48, 0xb8]); // mov rax, imm64
                code.extend(at.to_le_bytes());
                code.extend([0x48, 0xb9]); // mov rcx, imm64
                code.extend(value);
                code.extend(match piece.len() {
                    8 => &[0x48, 0x89, 8][..], // mov [rax], rcx; likewise ecx, cx, cl
                    4 => &[0x89, 8],
                    2 => &[0x66, 0x89, 8],
                    _ => &[0x88, 8],
                });
                at = at.wrapping_add(piece.len() as u64);
            }
        }
        code
    }
}

impl Kept {
    /// The accesses that are spared, in the order of the block.
    #[must_use]
    pub fn accesses(&self) -> &[KeptAccess] {
        &self.accesses
    }

    /// Puts what memory holds at the start into the registers that stand for it. `word` is what each word holds that is not in
    /// `contents`.
    pub fn hold(&self, state: &mut State, contents: &Contents, word: u64) {
        for (place, spare) in &self.held {
            let bytes = place.held(state, contents, word);
            match spare {
                Spare::General(register) => {
                    let mut low = [0; 8];
                    low.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
                    state.set(*register, u64::from_le_bytes(low));
                }
                Spare::Vector(number) => {
                    let vector = state.vectors[usize::from(*number)].iter_mut();
                    vector.zip(&bytes).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }

    /// As [`unroll`](crate::unroll), for the loop of which it was made.
    ///
    /// # Errors
    /// [`NoFloor`], likewise.
    pub fn unroll<C: CodeSource + ?Sized>(
        &self,
        part: &Part<'_, C>,
        at: RemoteAddr,
        copies: usize,
    ) -> Result<Unrolled, NoFloor> {
        let mut bytes = Vec::new();
        for _ in 0..copies {
            for (instruction, edited) in part.block.instructions.iter().zip(&self.edited) {
                let to = RemoteAddr(at.0.wrapping_add(bytes.len() as u64));
                match edited {
                    Some(edited) => bytes.extend(edit::encoded(edited, to)?),
                    None => {
                        let window = Window::read(part.code, instruction.address());
                        bytes.extend(straight(part.block, instruction, window.bytes(), to)?);
                    }
                }
            }
        }
        Ok(Unrolled { bytes, iterations: copies })
    }
}

/// Whether a loop with this instruction is left alone.
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

/// The accesses whose address is the same in each iteration.
fn candidates(block: &Block) -> Vec<Candidate> {
    let mut stored = BTreeSet::new();
    loop {
        let mut found = Vec::new();
        Places::new(block, &stored).visit(|instruction, access, place| {
            let accesses = block.instructions[instruction].accesses();
            let access: &Access = &accesses[access];
            let once = access.when == crate::When::Always && !access.line;
            let alone = accesses.len() == 1 && once;
            found.push(Candidate { instruction, kind: access.kind, place, alone });
        });
        // What turns out to be stored is nothing that stays as it was, so that less is known.
        let writes = found.iter().filter(|one| one.kind != Kind::Read);
        let known = stored.len();
        stored.extend(writes.map(|one| one.place.clone()));
        if stored.len() == known {
            return found;
        }
    }
}

/// Places that are loaded and may be kept: those first that are stored, too, for what is loaded there waits for the store; then
/// those that are loaded most.
fn worth_keeping(candidates: &[Candidate]) -> Vec<Place> {
    let places: BTreeSet<&Place> = candidates.iter().map(|one| &one.place).collect();
    let plain = |one: &Candidate| {
        one.alone && matches!(one.kind, Kind::Read | Kind::Write | Kind::ReadWrite)
    };
    let mut worth: Vec<(bool, usize, &Place)> = Vec::new();
    for place in &places {
        let all: Vec<&Candidate> = accesses_of(candidates, place).collect();
        let stored = is_stored(candidates, place);
        let mut others = places.iter().filter(|other| *other != place && other.overlaps(place));
        let loaded = all.iter().any(|one| one.kind != Kind::Write);
        let apart = others.all(|other| !stored && !is_stored(candidates, other));
        if loaded && apart && all.iter().all(|one| plain(one)) {
            worth.push((!stored, all.len(), place));
        }
    }
    worth.sort_by_key(|(only_loaded, count, _)| (*only_loaded, std::cmp::Reverse(*count)));
    worth.into_iter().map(|(_, _, place)| place.clone()).collect()
}

fn is_stored(candidates: &[Candidate], place: &Place) -> bool {
    accesses_of(candidates, place).any(|one| one.kind != Kind::Read)
}

fn accesses_of<'a>(
    candidates: &'a [Candidate],
    place: &'a Place,
) -> impl Iterator<Item = &'a Candidate> {
    candidates.iter().filter(move |one| one.place == *place)
}

#[cfg(test)]
mod tests;
