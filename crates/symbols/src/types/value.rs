//! The possible values of a register, as far as they matter for addresses.
//!
//! What for: the values that `flow` follows: a constant plus a multiple of `step`, or such an offset from the stack
//! frame or from the start of a typed value. What not: ranges, memory.
//!
//! Sums are modulo 2^64, like the machine's. Copies of a number that one instruction computed may be added to each
//! other (`x + 2 * x` is a multiple of 3), so a number carries its origin; the origin is dropped when its instruction
//! runs again. Differences of unknown numbers may be differences of pointers, whose sum with a pointer would be
//! another pointer: they are `Opaque`, and sums with them are unknown.

use super::units::DieRef;

/// The instruction and register in which a number was computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    pub(super) instruction: usize,
    pub(super) register: usize,
}

/// A number: `fixed` + `step` x k. With an origin, k is what was made there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Number {
    pub(super) fixed: i64,
    /// 0 for a constant.
    pub(super) step: i64,
    pub(super) origin: Option<Origin>,
}

/// The base of a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// The canonical frame address.
    Frame,
    /// The start of a value of this type.
    Type(DieRef),
}

/// `target` + `offset` + a multiple of `step`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pointer {
    pub(super) target: Target,
    pub(super) offset: i64,
    pub(super) step: u64,
}

/// The value of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    Number(Number),
    Pointer(Pointer),
    /// Nothing can be said of it and of sums with it.
    Opaque,
}

impl Value {
    /// Any number.
    pub(super) const ANY: Value = Value::Number(Number { fixed: 0, step: 1, origin: None });

    pub(super) fn constant(value: i64) -> Value {
        Value::Number(Number { fixed: value, step: 0, origin: None })
    }

    pub(super) fn made_at(instruction: usize, register: usize) -> Value {
        let origin = Some(Origin { instruction, register });
        Value::Number(Number { fixed: 0, step: 1, origin })
    }

    pub(super) fn pointer(target: Target, offset: i64) -> Value {
        Value::Pointer(Pointer { target, offset, step: 0 })
    }

    /// Some multiple of `step`; 0 for 0.
    pub(super) fn multiple(step: u8) -> Value {
        Value::Number(Number { fixed: 0, step: i64::from(step), origin: None })
    }

    pub(super) fn has_origin(self, origin: Origin) -> bool {
        matches!(self, Value::Number(Number { origin: Some(own), .. }) if own == origin)
    }

    pub(super) fn plus(self, other: Value) -> Value {
        match (self, other) {
            (Value::Opaque, _) | (_, Value::Opaque) => Value::Opaque,
            (Value::Number(a), Value::Number(b)) => a.plus(b),
            (Value::Pointer(pointer), Value::Number(number))
            | (Value::Number(number), Value::Pointer(pointer)) => Value::Pointer(Pointer {
                offset: pointer.offset.wrapping_add(number.fixed),
                step: divisor(pointer.step, number.step.unsigned_abs()),
                ..pointer
            }),
            (Value::Pointer(_), Value::Pointer(_)) => Value::Opaque,
        }
    }

    pub(super) fn times(self, factor: i64) -> Value {
        match self {
            _ if factor == 1 => self,
            Value::Number(number) if number.step == 0 => {
                Value::constant(number.fixed.wrapping_mul(factor))
            }
            // Taken off: see the head of the file.
            Value::Number(number) if factor > 0 => match number.step.checked_mul(factor) {
                Some(step) => Value::Number(Number {
                    fixed: number.fixed.wrapping_mul(factor),
                    step,
                    ..number
                }),
                None => Value::ANY,
            },
            _ => Value::Opaque,
        }
    }

    /// The common part of both; where they differ, the earlier state of `self`, so that repeated joins end.
    pub(super) fn join(self, other: Value) -> Value {
        match (self, other) {
            _ if self == other => self,
            (Value::Opaque, _) | (_, Value::Opaque) => Value::Opaque,
            (Value::Number(a), Value::Number(b)) => {
                let apart = a.fixed.abs_diff(b.fixed);
                let step = divisor(divisor(a.step.unsigned_abs(), b.step.unsigned_abs()), apart);
                // Of what has no smaller step than 2^63, nothing is known.
                let step = i64::try_from(step).unwrap_or(1);
                Value::Number(Number { fixed: a.fixed, step, origin: None })
            }
            (Value::Pointer(a), Value::Pointer(b)) if a.target == b.target => {
                let apart = a.offset.abs_diff(b.offset);
                Value::Pointer(Pointer { step: divisor(divisor(a.step, b.step), apart), ..a })
            }
            // Nobody reads through 0.
            (Value::Pointer(pointer), number) | (number, Value::Pointer(pointer))
                if number == Value::constant(0) =>
            {
                Value::Pointer(pointer)
            }
            _ => Value::Opaque,
        }
    }
}

impl Number {
    fn plus(self, other: Number) -> Value {
        let fixed = self.fixed.wrapping_add(other.fixed);
        let (step, origin) = match (self.step, other.step) {
            (0, step) => (step, other.origin),
            (step, 0) => (step, self.origin),
            (a, b) if self.origin.is_some() && self.origin == other.origin => {
                match a.checked_add(b) {
                    Some(step) => (step, self.origin),
                    None => return Value::ANY,
                }
            }
            (a, b) => {
                let step = divisor(a.unsigned_abs(), b.unsigned_abs());
                (i64::try_from(step).unwrap_or(1), None)
            }
        };
        Value::Number(Number { fixed, step, origin })
    }
}

/// The greatest common divisor; with 0, the other.
fn divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_of(value: Value) -> i64 {
        match value {
            Value::Number(number) => number.step,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_compiler_writes_for_times_48_is_a_multiple_of_48() {
        let x = Value::made_at(7, 0);
        let three = x.plus(x).plus(x);
        assert_eq!(step_of(three.times(16)), 48);
        // Two different numbers have no common factor but 16.
        let other = Value::made_at(8, 0);
        assert_eq!(step_of(x.times(32).plus(other.times(16))), 16);
    }

    #[test]
    fn a_loop_counter_that_grows_by_48_is_a_multiple_of_48() {
        let first = Value::constant(0);
        let second = first.join(first.plus(Value::constant(48)));
        let third = second.join(second.plus(Value::constant(48)));
        assert_eq!(second, third);
        assert_eq!(step_of(third), 48);
    }

    #[test]
    fn differences_and_sums_of_pointers_are_opaque() {
        let pointer = Value::pointer(Target::Frame, 8);
        assert_eq!(Value::made_at(1, 1).times(-1), Value::Opaque);
        assert_eq!(pointer.plus(pointer), Value::Opaque);
        assert_eq!(pointer.plus(Value::Opaque), Value::Opaque);
        assert_eq!(pointer.join(Value::constant(0)), pointer);
        assert_eq!(pointer.join(Value::constant(1)), Value::Opaque);
    }
}
