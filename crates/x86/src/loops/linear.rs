//! Values as linear sums of registers and stack words at the start of an iteration.
//!
//! What for: for example `rdx` = 8 x `[rbp-4]` + 16 at some instruction, on every way to it. What not: products of
//! variables, memory other than the stack.
//!
//! All arithmetic is modulo 2^bits: 64, or 32 if the value went through a 32-bit register. Reducing 2^64 to 2^32
//! commutes with sums and with products by constants, so what follows from such a value holds modulo 2^32.

use facts::Slot;

use crate::register::Gpr;

/// A variable: something with a value at the start of an iteration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Variable {
    /// A register.
    Register(Gpr),
    /// A word of the stack, relative to the value of its base at that time.
    Slot(Slot),
    /// What an instruction makes of values otherwise than by sums, by its number in the function.
    Computed(u32),
    /// What an instruction at this address left in a register, of which nothing else is known: it loaded it, for example.
    Result(u64, Gpr),
}

impl Variable {
    fn bits(self) -> u32 {
        match self {
            Variable::Slot(Slot { wide: false, .. }) => 32,
            Variable::Register(_)
            | Variable::Slot(_)
            | Variable::Computed(_)
            | Variable::Result(..) => 64,
        }
    }
}

/// A value with more variables counts as unknown.
const MOST_TERMS: usize = 4;

/// A sum of variables, each times a constant, and a constant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Linear {
    /// The variables in order, each with its factor, which is not 0.
    pub terms: Vec<(Variable, u64)>,
    /// What is added.
    pub constant: u64,
    /// The value holds modulo 2 to this power: 64 or 32.
    pub bits: u32,
}

impl Linear {
    pub(super) fn constant(constant: u64) -> Linear {
        Linear { terms: Vec::new(), constant, bits: 64 }
    }

    pub(super) fn variable(variable: Variable) -> Linear {
        Linear { terms: vec![(variable, 1)], constant: 0, bits: variable.bits() }
    }

    /// Whether it is the value of this variable.
    pub(super) fn is(&self, variable: Variable) -> bool {
        self.terms == [(variable, 1)] && self.constant == 0 && self.bits == variable.bits()
    }

    /// Its low 32 bits.
    pub(super) fn narrowed(mut self) -> Linear {
        self.bits = 32;
        self.cut()
    }

    /// With zeroes above its 32 bits: a constant is known whole.
    pub(super) fn zero_extended(mut self) -> Linear {
        if self.terms.is_empty() {
            self.bits = 64;
        }
        self
    }

    /// Reduces factors and constant to `bits`.
    fn cut(mut self) -> Linear {
        if self.bits < 64 {
            let mask = (1 << self.bits) - 1;
            self.constant &= mask;
            self.terms.iter_mut().for_each(|(_, factor)| *factor &= mask);
        }
        self.terms.retain(|(_, factor)| *factor != 0);
        self
    }

    pub(super) fn plus(&self, other: &Linear) -> Option<Linear> {
        let mut terms = self.terms.clone();
        for (variable, factor) in &other.terms {
            match terms.iter_mut().find(|(known, _)| known == variable) {
                Some((_, sum)) => *sum = sum.wrapping_add(*factor),
                None => terms.push((*variable, *factor)),
            }
        }
        terms.sort_unstable();
        let constant = self.constant.wrapping_add(other.constant);
        let sum = Linear { terms, constant, bits: self.bits.min(other.bits) }.cut();
        (sum.terms.len() <= MOST_TERMS).then_some(sum)
    }

    pub(super) fn times(&self, factor: u64) -> Linear {
        let terms = self.terms.iter().map(|(one, times)| (*one, times.wrapping_mul(factor)));
        let constant = self.constant.wrapping_mul(factor);
        Linear { terms: terms.collect(), constant, bits: self.bits }.cut()
    }

    pub(super) fn minus(&self, other: &Linear) -> Option<Linear> {
        self.plus(&other.times(u64::MAX))
    }

    /// Whether it contains what nothing is known of.
    pub(super) fn has_results(&self) -> bool {
        self.terms.iter().any(|(variable, _)| matches!(variable, Variable::Result(..)))
    }

    /// Its constant, if it has no variables.
    #[must_use]
    pub fn known(&self) -> Option<u64> {
        self.terms.is_empty().then_some(self.constant)
    }
}
