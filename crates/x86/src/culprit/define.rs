//! The value of an overwritten register, from its definition.
//!
//! What for: unoptimised code loads a pointer from the stack, adds an index, and overwrites the sum with the loaded
//! value; the pointer is still on the stack. What not: values. Assumption: only the stores in between may have
//! changed the word on the stack. After a store through a pointer it is unknown.

use base::RemoteAddr;
use facts::{Slot, SlotBase};

use super::undo::Undo;
use super::{Sum, Surroundings, Term, WayToSample};
use crate::operand::{Access, Address, AddressWidth, Kind, Location, Segment};
use crate::pointers::Derived;
use crate::register::Gpr;

/// Most definitions that are followed, one from another.
const DEEPEST: u8 = 4;
/// Most instructions that are followed backwards.
const FARTHEST_BACK: usize = 24;

/// The instructions before one, nearest first, with the relation between the registers before each and those at the
/// sample.
struct History<'a> {
    steps: Vec<(RemoteAddr, Undo)>,
    /// The instructions from this one on, up to the sample.
    ran_after: &'a [(RemoteAddr, Undo)],
}

impl Surroundings {
    /// The address of an access of the instruction at `at`, of which a register was overwritten, as a sum of values
    /// in the sample.
    pub(super) fn defined(
        &self,
        at: RemoteAddr,
        address: &Address,
        way: &WayToSample,
    ) -> Option<Sum> {
        let plain = address.segment == Segment::Flat
            && address.width == AddressWidth::Bits64
            && address.extra.is_none();
        if !plain {
            return None;
        }
        let block = self.block(at);
        let own = block.iter().position(|one| *one == at)?;
        let mut history = History { steps: Vec::new(), ran_after: &way.ran };
        let mut before = way.undo;
        for one in block[..own].iter().rev().take(FARTHEST_BACK) {
            before = before.through(self.steps.get(one)?);
            history.steps.push((*one, before));
        }
        let mut sum = Sum { constant: address.displacement, ..Sum::default() };
        let index = address.index.map(|index| (index.register, i64::from(index.scale)));
        for (register, factor) in address.base.map(|base| (base, 1)).into_iter().chain(index) {
            self.add_register(&history, 0, &way.undo, (register, factor), DEEPEST, &mut sum)?;
        }
        Some(sum)
    }

    /// Adds a register as before the step at `from`, times a factor.
    fn add_register(
        &self,
        history: &History<'_>,
        from: usize,
        undo: &Undo,
        (register, factor): (Gpr, i64),
        depth: u8,
        sum: &mut Sum,
    ) -> Option<()> {
        if let Some((at_sample, plus)) = undo.of(register) {
            sum.constant = sum.constant.wrapping_add(plus.wrapping_mul(factor.cast_unsigned()));
            return sum.push(Term::Register(at_sample), factor);
        }
        let depth = depth.checked_sub(1)?;
        for (place, (at, before)) in history.steps.iter().enumerate().skip(from) {
            let step = self.steps.get(at)?;
            if !step.changed.contains(register) {
                continue;
            }
            let (_, value) = step.derived.iter().find(|(to, _)| *to == register)?;
            return match value {
                Derived::Sum { terms, constant } => {
                    // `lea` of an address relative to the instruction.
                    let moves = if step.relative { factor.cast_unsigned() } else { 0 };
                    sum.moves = sum.moves.wrapping_add(moves);
                    let constant = constant.wrapping_mul(factor).cast_unsigned();
                    sum.constant = sum.constant.wrapping_add(constant);
                    terms.iter().try_for_each(|(term, times)| {
                        let term = (*term, times.wrapping_mul(factor));
                        self.add_register(history, place + 1, before, term, depth, sum)
                    })
                }
                Derived::Loaded { access } => {
                    let slot = slot(step.accesses.get(*access)?, before)?;
                    // The sample has the word as it is there: no later instruction may have stored to it.
                    let mut later = history.steps[..place].iter().chain(history.ran_after);
                    let kept = later.all(|(at, before)| {
                        self.steps.get(at).is_some_and(|step| {
                            step.accesses.iter().all(|access| leaves(access, before, slot))
                        })
                    });
                    kept.then(|| sum.push(Term::Slot(slot), factor))?
                }
            };
        }
        None
    }
}

/// The loaded word of the stack, relative to the registers at the sample.
fn slot(access: &Access, before: &Undo) -> Option<Slot> {
    let (base, displacement) = on_stack(access, before)?;
    (access.bytes == 8).then_some(Slot { base, displacement, wide: true })
}

fn on_stack(access: &Access, before: &Undo) -> Option<(SlotBase, i32)> {
    let Location::One(Address {
        segment: Segment::Flat,
        base,
        index: None,
        extra: None,
        displacement,
        ..
    }) = access.place
    else {
        return None;
    };
    let (register, plus) = before.of(base?)?;
    let base = match register {
        Gpr::RSP => SlotBase::StackPointer,
        Gpr::RBP => SlotBase::FramePointer,
        _ => return None,
    };
    let displacement = displacement.wrapping_add(plus).cast_signed();
    Some((base, i32::try_from(displacement).ok()?))
}

/// Whether an access certainly leaves a word of the stack unchanged.
fn leaves(access: &Access, before: &Undo, slot: Slot) -> bool {
    if matches!(access.kind, Kind::Read | Kind::StreamingRead | Kind::Prefetch) {
        return true;
    }
    on_stack(access, before).is_some_and(|(base, displacement)| {
        let (start, end) =
            (i64::from(displacement), i64::from(displacement) + i64::from(access.bytes));
        let own = i64::from(slot.displacement);
        base == slot.base && (end <= own || own + 8 <= start)
    })
}
