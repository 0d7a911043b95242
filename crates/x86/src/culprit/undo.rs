//! Registers before an instruction, in terms of the registers at a later sample.
//!
//! What for: an address that an instruction used, in values that a sample contains. What not: values.

use super::step::Step;
use crate::operand::{Address, ExtraTerm, Index};
use crate::pointers::Derived;
use crate::register::Gpr;

/// For each register, the one at the sample and the constant to add to it; `None` where it was overwritten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo([Option<(Gpr, u64)>; Gpr::COUNT]);

impl Undo {
    /// At the sample itself.
    pub(super) fn none() -> Undo {
        let mut same = [None; Gpr::COUNT];
        for register in Gpr::all() {
            same[register.number()] = Some((register, 0));
        }
        Undo(same)
    }

    /// A register, as one at the sample and the constant to add to it.
    pub(super) fn of(&self, register: Gpr) -> Option<(Gpr, u64)> {
        self.0[register.number()]
    }

    /// The relation before `step`, if this is the one after it.
    pub(super) fn through(&self, step: &Step) -> Undo {
        let mut before = [None; Gpr::COUNT];
        for register in Gpr::all() {
            before[register.number()] = match step.changed.contains(register) {
                false => self.0[register.number()],
                true => self.kept(step, register),
            };
        }
        if step.is_string {
            self.step_back(step, &mut before);
        }
        Undo(before)
    }

    /// The old value of a changed register, if a register after the step holds that plus a constant.
    fn kept(&self, step: &Step, register: Gpr) -> Option<(Gpr, u64)> {
        step.derived.iter().find_map(|(to, from)| {
            let Derived::Sum { terms, constant } = from else { return None };
            let (at_sample, plus) = self.0[to.number()]?;
            (terms[..] == [(register, 1)])
                .then(|| (at_sample, plus.wrapping_sub(constant.cast_unsigned())))
        })
    }

    /// The pointers of a string instruction point after its last element.
    fn step_back(&self, step: &Step, before: &mut [Option<(Gpr, u64)>; Gpr::COUNT]) {
        for access in &step.accesses {
            for register in [Gpr::RSI, Gpr::RDI] {
                if access.address().base == Some(register) && step.changed.contains(register) {
                    before[register.number()] = self.0[register.number()]
                        .map(|(own, plus)| (own, plus.wrapping_sub(u64::from(access.bytes))));
                }
            }
        }
    }

    /// An address in registers at the sample.
    ///
    /// # Errors
    /// The register that was overwritten.
    pub(super) fn address(&self, address: &Address) -> Result<Address, Gpr> {
        let of = |register: Gpr| self.0[register.number()].ok_or(register);
        let mut found = *address;
        let mut add = |plus: u64| found.displacement = found.displacement.wrapping_add(plus);
        let base = address.base.map(&of).transpose()?;
        base.iter().for_each(|(_, plus)| add(*plus));
        let index = address.index.map(|index| of(index.register).map(|at| (at, index.scale)));
        let index = index.transpose()?;
        index.iter().for_each(|((_, plus), scale)| add(plus.wrapping_mul(u64::from(*scale))));
        found.base = base.map(|(register, _)| register);
        found.index = index.map(|((register, _), scale)| Index { register, scale });
        // A part of a register, or a quotient of it: no constant results from these.
        let whole = |register: Gpr| match of(register)? {
            (at_sample, 0) => Ok(at_sample),
            _ => Err(register),
        };
        found.extra = match address.extra {
            None => None,
            Some(ExtraTerm::LowByte(register)) => Some(ExtraTerm::LowByte(whole(register)?)),
            Some(ExtraTerm::BitString { register, operand_bytes }) => {
                Some(ExtraTerm::BitString { register: whole(register)?, operand_bytes })
            }
        };
        Ok(found)
    }
}
