//! What one access touches, from the values of its registers and the variables in scope.
//!
//! What for: collects every reading of an address and answers only if they agree. What not: following values
//! (`flow`).
//!
//! Readings: a variable at a fixed address; one on the stack or relative to a register; the target of a followed
//! pointer; the target of each pointer variable in the base register. Of readings that agree, the one with the
//! largest type is the answer: `node.link.next` rather than `link.next`.

use std::rc::Rc;

use super::flow::{Flow, State};
use super::member::{MemberMatch, Span};
use super::units::DieRef;
use super::value::{Number, Pointer, Target, Value};
use super::variables::{Base, InMemory};
use super::{Operand, Register};
use crate::elf::LinkAddress;

/// A reading of an address.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) found: MemberMatch,
    pub(super) variable: Option<Rc<str>>,
}

/// What is known of an access.
#[derive(Default)]
pub(super) struct Resolved {
    pub(super) answer: Option<Answer>,
    /// All readings say that a pointer to this is there.
    pub(super) target: Option<DieRef>,
}

impl Flow<'_, '_> {
    /// What `operand` touches if the registers hold `state` before instruction `number`.
    pub(super) fn resolve(&self, number: usize, state: &State, operand: &Operand) -> Resolved {
        let mut readings = Vec::new();
        let bytes = operand.bytes.0;
        let looks = self.variables.memory.len() as u64 + 1;
        let Some(left) = self.effort.get().checked_sub(looks).filter(|_| bytes > 0) else {
            return Resolved::default();
        };
        self.effort.set(left);
        match address(operand, state) {
            Value::Number(at) => self.fixed(at, bytes, &mut readings),
            Value::Pointer(Pointer { target: Target::Frame, offset, step }) => {
                self.stack(number, state, Span { offset, step, bytes }, &mut readings);
            }
            Value::Pointer(Pointer { target: Target::Type(of), offset, step }) => {
                let found = self.model.member_at(of, Span { offset, step, bytes }, true);
                readings.extend(found.map(|found| Answer { found, variable: None }));
            }
            Value::Opaque => {}
        }
        self.by_variables(number, state, operand, &mut readings);
        self.agreed(readings)
    }

    fn fixed(&self, at: Number, bytes: u64, readings: &mut Vec<Answer>) {
        // The first page is never mapped: a small constant is an index.
        if at.fixed < 0x1000 {
            return;
        }
        let address = LinkAddress(at.fixed.cast_unsigned());
        for global in self.model.globals_before(address) {
            let offset = address.0.wrapping_sub(global.start.0).cast_signed();
            let span = Span { offset, step: at.step.unsigned_abs(), bytes };
            let units = &self.model.units;
            let read = || {
                let link = |unit, entry: &_| units.link(unit, entry, addr2line::gimli::DW_AT_type);
                let of = units.inherited(global.die, link)?;
                let found = self.model.member_at(of, span, false)?;
                let name = |unit, entry: &_| units.text(unit, entry, addr2line::gimli::DW_AT_name);
                let name = units.inherited(global.die, name).map(super::names::shown);
                Some(Answer { found, variable: name.map(Rc::from) })
            };
            readings.extend(read());
        }
    }

    /// Variables at places of the stack frame.
    fn stack(&self, number: usize, state: &State, span: Span, readings: &mut Vec<Answer>) {
        for variable in self.in_memory(number) {
            let base = match variable.base {
                Base::Frame => Some(0),
                Base::Register(register) => match state[register.index()] {
                    Value::Pointer(Pointer { target: Target::Frame, offset, step: 0 }) => {
                        Some(offset)
                    }
                    _ => None,
                },
            };
            let offset = base
                .and_then(|base| base.checked_add(variable.offset))
                .and_then(|start| span.offset.checked_sub(start));
            let Some(offset) = offset else { continue };
            readings.extend(self.in_variable(variable, Span { offset, ..span }));
        }
    }

    fn in_variable(&self, variable: &InMemory, span: Span) -> Option<Answer> {
        if variable.behind {
            return self.behind(variable, span);
        }
        let found = self.model.member_at(variable.of, span, false)?;
        Some(Answer { found, variable: variable.name.clone() })
    }

    /// The pointer that stands where the variable would: it has no name of its own.
    fn behind(&self, variable: &InMemory, span: Span) -> Option<Answer> {
        let here = span == Span { offset: 0, step: 0, bytes: super::model::POINTER_BYTES };
        here.then_some(())?;
        let outer = self.model.get(variable.of)?;
        let leaf = super::member::pointer_to(outer.die);
        Some(Answer { found: MemberMatch { outer, leaf, hidden: true }, variable: None })
    }

    fn in_memory(&self, number: usize) -> impl Iterator<Item = &InMemory> {
        let at = self.code.steps[number].0;
        self.variables.memory.iter().filter(move |variable| variable.range.holds(at))
    }

    /// Variables that the operand's own registers hold pointers to, or lie at.
    fn by_variables(
        &self,
        number: usize,
        state: &State,
        operand: &Operand,
        readings: &mut Vec<Answer>,
    ) {
        let bytes = operand.bytes.0;
        let mut registers: Vec<Register> = operand.base.into_iter().collect();
        registers.extend(operand.index.filter(|(_, scale)| *scale == 1).map(|(index, _)| index));
        for register in registers {
            let assume = |pointer| {
                let mut state = *state;
                state[register.index()] = Value::Pointer(pointer);
                match address(operand, &state) {
                    Value::Pointer(at) => Some(Span { offset: at.offset, step: at.step, bytes }),
                    _ => None,
                }
            };
            // A known stack address is one, whatever points to it: `stack` has given the better answer.
            let framed = matches!(
                state[register.index()],
                Value::Pointer(Pointer { target: Target::Frame, .. })
            );
            for one in self.in_registers(number).filter(|one| one.register == register) {
                let Target::Type(of) = one.pointer.target else { continue };
                let found =
                    assume(one.pointer).and_then(|span| self.model.member_at(of, span, true));
                let variable = one.name.clone();
                readings.extend(found.map(|found| Answer { found, variable }));
            }
            if framed {
                continue;
            }
            let here = self.in_memory(number).filter(|one| one.base == Base::Register(register));
            for variable in here {
                let Some(offset) = variable.offset.checked_neg() else { continue };
                let pointer = Pointer { target: Target::Type(variable.of), offset, step: 0 };
                let span = assume(pointer);
                readings.extend(span.and_then(|span| self.in_variable(variable, span)));
            }
        }
    }

    fn agreed(&self, readings: Vec<Answer>) -> Resolved {
        let target = readings.first().and_then(|one| one.found.leaf.target);
        let same = |one: &Answer| self.same_type(one.found.leaf.target, target);
        let target = target.filter(|_| readings.iter().all(same));
        let mut shown = readings.into_iter().filter(|one| !one.found.hidden);
        let Some(mut best) = shown.next() else { return Resolved { answer: None, target } };
        for other in shown {
            if !self.agree(&best.found, &other.found) {
                return Resolved { answer: None, target };
            }
            let rank = |one: &Answer| (one.found.outer.bytes, one.variable.is_some());
            if rank(&other) > rank(&best) {
                best = other;
            }
        }
        Resolved { answer: Some(best), target }
    }

    fn same_type(&self, a: Option<DieRef>, b: Option<DieRef>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) if a != b => {
                let name = |die| self.model.name(die);
                name(a).is_some() && name(a) == name(b)
            }
            (a, b) => a == b,
        }
    }

    /// Whether two readings mean the same bytes by the same name.
    fn agree(&self, a: &MemberMatch, b: &MemberMatch) -> bool {
        if a.leaf.scalar.is_none() || b.leaf.scalar.is_none() {
            return self.same_type(Some(a.outer.die), Some(b.outer.die)) && a.leaf == b.leaf;
        }
        let last = |found: &MemberMatch| {
            let name = found.leaf.path.rsplit('.').next().unwrap_or_default();
            name.trim_end_matches("[]").to_owned()
        };
        let (one, other) = (last(a), last(b));
        self.same_type(a.leaf.scalar, b.leaf.scalar)
            && (one.is_empty() || other.is_empty() || one == other)
    }
}

/// The address of an operand.
fn address(operand: &Operand, state: &State) -> Value {
    let base = operand.base.map(|base| state[base.index()]);
    let index = operand.index.map(|(index, scale)| state[index.index()].times(i64::from(scale)));
    let fixed = Value::constant(operand.displacement).plus(Value::multiple(operand.step));
    [base, index].into_iter().flatten().fold(fixed, Value::plus)
}
