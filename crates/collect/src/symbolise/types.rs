//! Types of traced accesses: decodes code for `symbols::types`, and turns its answers into facts.
//!
//! What not: which member an address means (`symbols`). Assumption: the traced machine code is that of the file; the
//! build-id confirms it.

use std::time::{Duration, Instant};

use base::{Bytes, RemoteAddr};
use facts::AccessType;
use symbols::types::{Decoder, Operand, Register, Step, Successor, Written, typed_accesses};
use symbols::{LinkAddress, ModuleImage};
use x86::{
    Access, Address, AddressWidth, Derived, Flow, Gpr, Location, Occurrence, PointerStep, Reader,
    Segment,
};

use super::{Collector, Message};

/// Most time for the types of one module. Reading 100 MB of debug information takes seconds; accesses that are not
/// reached have no type in the report.
/// is missing then has no type in the report.
const TIME: Duration = Duration::from_secs(20);

impl Collector<'_> {
    /// Finds the types of what the job's traced instructions access.
    pub(super) fn add_types(&mut self, image: &ModuleImage<'_>) {
        let job = self.job;
        if job.typed.is_empty() {
            return;
        }
        let until = Instant::now() + TIME;
        let mut decoder = X86 { reader: Reader::new() };
        let found = typed_accesses(image, &job.typed, &mut decoder, &mut || Instant::now() < until);
        self.answer.types = found
            .into_iter()
            .filter_map(|one| {
                Some(AccessType {
                    module: job.module.id,
                    offset: one.offset,
                    access: u32::try_from(one.access).ok()?,
                    variable: one.variable,
                    type_name: one.type_name,
                    type_bytes: one.type_bytes,
                    field: one.field,
                    field_offset: one.field_offset,
                    field_bytes: one.field_bytes,
                })
            })
            .collect();
        self.looked_up += job.typed.len();
        let _ = self.sender.send(Message::Done(job.typed.len()));
    }
}

/// Instructions of this machine.
struct X86 {
    reader: Reader,
}

impl Decoder for X86 {
    fn step(&mut self, bytes: &[u8], address: LinkAddress) -> Option<Step> {
        let step = self.reader.pointer_step(bytes, RemoteAddr(address.0))?;
        Some(Step {
            length: step.length as u64,
            onward: onward(&step),
            operands: step.accesses.iter().map(operand).collect(),
            changed: step.changed.iter().map(register).collect(),
            stored: step.stored.map(|from| (0, register(from))),
            written: step.derived.iter().map(|(to, from)| (register(*to), written(from))).collect(),
        })
    }
}

/// The number of a register in debug information (System V ABI, AMD64 supplement, figure 3.36), where the first eight stand
/// in another order than in machine code.
fn register(gpr: Gpr) -> Register {
    const NUMBERS: [u8; Gpr::COUNT] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
    Register(NUMBERS[gpr.number()])
}

fn onward(step: &PointerStep) -> Successor {
    match step.flow {
        None | Some(Flow::Return) => Successor::Away,
        Some(Flow::Next) => Successor::Next,
        Some(Flow::Jump(to)) => Successor::Jump(LinkAddress(to.0)),
        Some(Flow::Conditional(to)) => Successor::Branch(LinkAddress(to.0)),
        Some(Flow::Call(to)) => Successor::Call(Some(LinkAddress(to.0))),
        Some(Flow::IndirectCall) => Successor::Call(None),
        // Through one fixed word: a function of another module, called last.
        Some(Flow::IndirectJump) if through_fixed_word(step) => Successor::Away,
        Some(Flow::IndirectJump) => Successor::Indirect,
    }
}

fn through_fixed_word(step: &PointerStep) -> bool {
    let fixed =
        |access: &Access| access.address().base.is_none() && access.address().index.is_none();
    step.accesses.first().is_some_and(fixed)
}

fn written(from: &Derived) -> Written {
    match from {
        Derived::Sum { terms, constant } => {
            let terms = terms.iter().map(|(from, factor)| (register(*from), *factor));
            Written::Sum(terms.collect(), *constant)
        }
        Derived::Loaded { access } => Written::Loaded(*access),
    }
}

/// `None` for addresses of other forms, and for accesses whose extent is not fixed.
fn operand(access: &Access) -> Option<Operand> {
    let (address, step): (&Address, u8) = match &access.place {
        Location::One(address) => (address, 0),
        Location::Lanes(lanes) => (&lanes.common, lanes.scale),
    };
    let plain = address.segment == Segment::Flat
        && address.width == AddressWidth::Bits64
        && address.extra.is_none()
        && !access.line
        && matches!(access.when, Occurrence::Always | Occurrence::Masked(_));
    plain.then(|| Operand {
        base: address.base.map(register),
        index: address.index.map(|index| (register(index.register), index.scale)),
        displacement: address.displacement.cast_signed(),
        step,
        bytes: Bytes(u64::from(access.bytes)),
    })
}

#[cfg(test)]
mod tests;
