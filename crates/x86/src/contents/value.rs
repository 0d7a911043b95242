//! The content of a register as an expression over loaded bytes, and the bytes that give it a certain value.
//!
//! What for: a histogram, a hash table or a ring computes its addresses from data with `and`, shifts, multiplications
//! and remainders by a constant, which compilers build from these. What not: which instruction computes what
//! (`formula`).
//!
//! An expression is not inverted exactly. [`Value::guesses`] walks from the result to the bytes, one invertible step
//! of each kind at a time, and takes a remainder for its dividend. The caller evaluates the expression again to check
//! a guess.

use std::rc::Rc;

use base::RemoteAddr;

/// Larger expressions count as unknown.
const LARGEST: u32 = 48;
/// Most guesses per expression.
const MOST_GUESSES: usize = 16;

/// Bytes that are loaded into a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub(super) address: u64,
    /// 1 to 8.
    pub(super) bytes: u32,
    /// Sign-extended, else zero-extended.
    pub(super) signed: bool,
}

impl Cell {
    pub(super) fn addresses(self) -> impl Iterator<Item = RemoteAddr> {
        (0..u64::from(self.bytes)).map(move |byte| RemoteAddr(self.address.wrapping_add(byte)))
    }

    /// The lowest bytes of `value`, extended as by the load.
    pub(super) fn widened(self, value: u64) -> u64 {
        extended(value, 8 * self.bytes, self.signed)
    }
}

/// The lowest bits of `value`, extended.
fn extended(value: u64, bits: u32, signed: bool) -> u64 {
    let unused = 64u32.saturating_sub(bits);
    let high = value.checked_shl(unused).unwrap_or(0);
    let by_sign = || (high.cast_signed() >> unused.min(63)).cast_unsigned();
    if signed { by_sign() } else { high.checked_shr(unused).unwrap_or(0) }
}

/// An operation on two values of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Plus,
    Minus,
    Times,
    /// The upper half of the product.
    High,
    And,
    Or,
    Xor,
    Left,
    Right,
    /// An arithmetic shift.
    RightSigned,
    /// The lowest bits of the first value, as many as the second says, sign-extended.
    Signed,
}

impl Operation {
    fn of(self, a: u64, b: u64) -> u64 {
        let bits = b as u32;
        match self {
            Operation::Plus => a.wrapping_add(b),
            Operation::Minus => a.wrapping_sub(b),
            Operation::Times => a.wrapping_mul(b),
            Operation::High => ((u128::from(a) * u128::from(b)) >> 64) as u64,
            Operation::And => a & b,
            Operation::Or => a | b,
            Operation::Xor => a ^ b,
            Operation::Left => a.checked_shl(bits).unwrap_or(0),
            Operation::Right => a.checked_shr(bits).unwrap_or(0),
            Operation::RightSigned => (a.cast_signed() >> bits.min(63)).cast_unsigned(),
            Operation::Signed => extended(a, bits, true),
        }
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Known(u64),
    Loaded(Cell),
    Made(Rc<Made>),
}

/// An operation and its operands.
#[derive(Debug)]
pub(super) struct Made {
    operation: Operation,
    a: Value,
    b: Value,
    size: u32,
}

impl Value {
    fn size(&self) -> u32 {
        match self {
            Value::Known(_) | Value::Loaded(_) => 1,
            Value::Made(made) => made.size,
        }
    }

    /// `None` if it would be too large.
    pub(super) fn made(operation: Operation, a: Value, b: Value) -> Option<Value> {
        if let (Value::Known(a), Value::Known(b)) = (&a, &b) {
            return Some(Value::Known(operation.of(*a, *b)));
        }
        let size = 1 + a.size() + b.size();
        (size <= LARGEST).then(|| Value::Made(Rc::new(Made { operation, a, b, size })))
    }

    /// Its value when bytes hold what `held` returns.
    pub(super) fn when(&self, held: &impl Fn(Cell) -> u64) -> u64 {
        match self {
            Value::Known(value) => *value,
            Value::Loaded(cell) => held(*cell),
            Value::Made(made) => made.operation.of(made.a.when(held), made.b.when(held)),
        }
    }

    /// Whether it mixes bits, so that going back fails: the upper bits of a product, or bits that are combined with others
    /// of the same load.
    pub(super) fn is_mixed(&self) -> bool {
        let Value::Made(made) = self else { return false };
        let here = match made.operation {
            Operation::Right | Operation::RightSigned => made.a.has(Operation::Times),
            Operation::High => made.a.loads() || made.b.loads(),
            Operation::Xor => made.a.loads() && made.b.loads(),
            _ => false,
        };
        here || made.a.is_mixed() || made.b.is_mixed()
    }

    fn has(&self, operation: Operation) -> bool {
        let Value::Made(made) = self else { return false };
        made.operation == operation || made.a.has(operation) || made.b.has(operation)
    }

    fn loads(&self) -> bool {
        let mut any = false;
        self.cells(&mut |_| any = true);
        any
    }

    /// Calls `see` with each loaded cell in it.
    pub(super) fn cells(&self, see: &mut impl FnMut(Cell)) {
        match self {
            Value::Known(_) => {}
            Value::Loaded(cell) => see(*cell),
            Value::Made(made) => {
                made.a.cells(see);
                made.b.cells(see);
            }
        }
    }

    /// For each of its loads, values that may make it `target` while all others keep theirs.
    pub(super) fn guesses(&self, target: u64, held: &impl Fn(Cell) -> u64) -> Vec<(Cell, u64)> {
        let mut found = Vec::new();
        self.guess(target, held, &mut found);
        found
    }

    fn guess(&self, target: u64, held: &impl Fn(Cell) -> u64, found: &mut Vec<(Cell, u64)>) {
        let made = match self {
            Value::Known(_) => return,
            Value::Loaded(cell) => {
                if found.len() < MOST_GUESSES {
                    found.push((*cell, cell.widened(target)));
                }
                return;
            }
            Value::Made(made) => made,
        };
        let (a, b) = (made.a.when(held), made.b.when(held));
        let bits = b as u32;
        let back = match made.operation {
            Operation::Plus => target.wrapping_sub(b),
            Operation::Minus => target.wrapping_add(b),
            // An exact quotient first, as that of small numbers. Otherwise modulo 2^64, where each
            // odd factor has an inverse.
            Operation::Times => match target.checked_rem(b) {
                Some(0) => target / b,
                _ => target.wrapping_mul(inverse(b)),
            },
            Operation::And | Operation::Signed => target,
            // Bits that the other operand sets need not come from this one.
            Operation::Or => target & !b,
            Operation::Xor => target ^ b,
            Operation::Left => target.checked_shr(bits).unwrap_or(0),
            Operation::Right | Operation::RightSigned => target.checked_shl(bits).unwrap_or(0),
            // Part of a quotient by a constant; a remainder is solved where it is subtracted.
            Operation::High => return,
        };
        made.a.guess(back, held, found);
        match made.operation {
            Operation::Plus => made.b.guess(target.wrapping_sub(a), held, found),
            Operation::Minus => {
                // x - m * (x / m)
                made.a.guess(target, held, found);
                made.b.guess(a.wrapping_sub(target), held, found);
            }
            Operation::And => made.b.guess(target, held, found),
            Operation::Xor => made.b.guess(target ^ a, held, found),
            _ => {}
        }
    }
}

/// The inverse of an odd number modulo 2^64, by Newton's method: each step doubles the number of correct bits
/// (Warren, Hacker's Delight, 10-16).
fn inverse(odd: u64) -> u64 {
    (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: Cell = Cell { address: 0x1000, bytes: 4, signed: false };

    fn made(operation: Operation, a: &Value, b: u64) -> Value {
        Value::made(operation, a.clone(), Value::Known(b)).unwrap()
    }

    /// The value of the cell that gives this.
    fn solved(value: &Value, target: u64) -> Option<u64> {
        let guesses = value.guesses(target, &|_| 0x1234_5600);
        let fits = |(_, guess): &&(Cell, u64)| {
            CELL.widened(*guess) == *guess && value.when(&|_| *guess) == target
        };
        guesses.iter().find(fits).map(|(_, guess)| *guess)
    }

    #[test]
    fn hashes_have_the_bytes_that_give_them() {
        let hash = made(Operation::Times, &Value::Loaded(CELL), 0x9e37_79b1);
        let hash = made(Operation::And, &hash, 0xffff_ffff);
        let slot = made(Operation::Right, &hash, 20);
        let held = solved(&slot, 5).unwrap() as u32;
        assert_eq!(held.wrapping_mul(0x9e37_79b1) >> 20, 5);
        assert!(solved(&made(Operation::And, &Value::Loaded(CELL), 63), 17) == Some(17));
        assert_eq!(solved(&made(Operation::And, &Value::Loaded(CELL), 63), 64), None);
        let shifted = made(Operation::Right, &Value::Loaded(CELL), 8);
        assert_eq!(solved(&shifted, 0x1234), Some(0x12_3400));
    }

    #[test]
    fn a_remainder_is_its_own() {
        let x = Value::Loaded(CELL);
        let quotient = made(Operation::Right, &made(Operation::Times, &x, 0xcccc_cccd), 35);
        let product = made(Operation::Times, &quotient, 10);
        let remainder = Value::made(Operation::Minus, x, product).unwrap();
        assert_eq!(remainder.when(&|_| 77), 7);
        assert_eq!(solved(&remainder, 8).unwrap() % 10, 8);
        assert_eq!(solved(&remainder, 10), None);
    }

    #[test]
    fn odd_numbers_have_an_inverse() {
        for odd in [1, 3, 0x9e37_79b9_7f4a_7c15, u64::MAX] {
            assert_eq!(odd.wrapping_mul(inverse(odd)), 1, "{odd}");
        }
    }
}
