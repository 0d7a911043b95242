//! Floating-point operations of an instruction.
//!
//! What for: arithmetic intensity. It counts what Intel's events FP_ARITH_INST_RETIRED count (perfmon, event
//! descriptions of Skylake and later), so that figures are comparable. Per element these are one for add, subtract,
//! multiply, divide, square root, minimum, maximum, reciprocal (also of the root) and range; two for a fused
//! multiply-add and for the dot products `dpps` and `dppd`. Beyond these events: x87 (one per instruction), complex
//! half precision (the real operations), and dot products of bf16 pairs (two multiply-adds per sum).
//!
//! What not: comparisons, conversions, rounding, moves, sign changes and bit operations; x87 functions whose number
//! of steps is not documented (`fsin`, `fprem`); 3DNow!; and tiles (AMX), whose size is not in the instruction.
//!
//! Assumption: all lanes of a masked instruction count, because the mask is data. The figure is then an upper bound.

use std::fmt;

use iced_x86::{Instruction as Raw, Mnemonic, Register};

use crate::instruction::Instruction;

/// The format of the numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Precision {
    /// 16 bits.
    Half,
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
    /// 80 bits: x87.
    Extended,
}

/// The floating-point operations of one execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flops {
    /// The precision of the results.
    pub precision: Precision,
    /// Their number, at least 1.
    pub operations: u32,
    /// Several elements at a time.
    pub vector: bool,
    /// A mask may switch lanes off: the number is an upper bound.
    pub masked: bool,
}

impl fmt::Display for Flops {
    /// `8 double`, `at most 16 single`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precision = match self.precision {
            Precision::Half => "half",
            Precision::Single => "single",
            Precision::Double => "double",
            Precision::Extended => "extended",
        };
        let bound = if self.masked { "at most " } else { "" };
        write!(out, "{bound}{} {precision}", self.operations)
    }
}

impl Instruction {
    /// Its floating-point operations; `None` if it has none that are counted.
    #[must_use]
    pub fn flops(&self) -> Option<Flops> {
        of(&self.raw)
    }
}

/// Mnemonics without leading `v`, trailing format and operand order of multiply-adds; operations per element, and of
/// the scalar form.
const VECTOR: &[(&str, u32, u32)] = &[
    ("add", 1, 1),
    ("sub", 1, 1),
    ("mul", 1, 1),
    ("div", 1, 1),
    ("sqrt", 1, 1),
    ("min", 1, 1),
    ("max", 1, 1),
    ("rcp", 1, 1),
    ("rcp14", 1, 1),
    ("rcp28", 1, 1),
    ("rsqrt", 1, 1),
    ("rsqrt14", 1, 1),
    ("rsqrt28", 1, 1),
    ("range", 1, 1),
    ("addsub", 1, 1),
    ("hadd", 1, 1),
    ("hsub", 1, 1),
    ("dp", 2, 2),
    ("fmadd", 2, 2),
    ("fmsub", 2, 2),
    ("fnmadd", 2, 2),
    ("fnmsub", 2, 2),
    ("fmaddsub", 2, 2),
    ("fmsubadd", 2, 2),
    // Four multiply-adds in a row.
    ("4fmadd", 8, 8),
    ("4fnmadd", 8, 8),
    // Two products of bf16 per sum.
    ("dpbf16", 4, 4),
    // A pair of elements is a complex number: 4 multiplications and 2 additions, with a sum 2 more.
    ("fmulc", 3, 6),
    ("fcmulc", 3, 6),
    ("fmaddc", 4, 8),
    ("fcmaddc", 4, 8),
];

fn of(raw: &Raw) -> Option<Flops> {
    if is_x87(raw.mnemonic()) {
        return Some(Flops {
            precision: Precision::Extended,
            operations: 1,
            vector: false,
            masked: false,
        });
    }
    let name = format!("{:?}", raw.mnemonic()).to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    let (root, format) = name.split_at_checked(name.len().checked_sub(2)?)?;
    let (packed, precision, bytes) = match format {
        "ps" => (true, Precision::Single, 4),
        "pd" => (true, Precision::Double, 8),
        "ph" => (true, Precision::Half, 2),
        "ss" => (false, Precision::Single, 4),
        "sd" => (false, Precision::Double, 8),
        "sh" => (false, Precision::Half, 2),
        _ => return None,
    };
    let root =
        ["132", "213", "231"].iter().find_map(|order| root.strip_suffix(order)).unwrap_or(root);
    let (_, per_element, scalar) = VECTOR.iter().find(|(known, ..)| *known == root)?;
    let width = u32::try_from(raw.op0_register().size()).ok()?;
    let operations = if packed { per_element * (width / bytes) } else { *scalar };
    let masked = raw.op_mask() != Register::None;
    (operations > 0).then_some(Flops { precision, operations, vector: packed, masked })
}

fn is_x87(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Fadd
            | M::Faddp
            | M::Fiadd
            | M::Fsub
            | M::Fsubp
            | M::Fisub
            | M::Fsubr
            | M::Fsubrp
            | M::Fisubr
            | M::Fmul
            | M::Fmulp
            | M::Fimul
            | M::Fdiv
            | M::Fdivp
            | M::Fidiv
            | M::Fdivr
            | M::Fdivrp
            | M::Fidivr
            | M::Fsqrt
    )
}
