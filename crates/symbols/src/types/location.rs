//! The place of a variable, from its location expression.
//!
//! What for: the forms that compilers write for variables with a place: in memory relative to a register, the stack
//! frame or a fixed address, behind a pointer that is there, or in a register. What not: everything else (values
//! without a place, values at entry, implicit pointers), for which the answer is `None`. Source: DWARF 5, 2.5 and
//! 2.6.

use addr2line::gimli;
use gimli::{Expression, Operation};

use super::Register;
use super::model::Model;
use super::units::Reader;
use crate::elf::LinkAddress;

/// Most operations of an expression.
const OPERATIONS_LIMIT: usize = 64;

/// The frame base of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FrameBase {
    /// The value of the stack pointer before the call (DWARF's canonical frame address).
    Frame,
    /// The value of this register.
    Register(Register),
}

/// A place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Location {
    /// Memory at this address.
    Fixed(LinkAddress),
    /// Memory at the canonical frame address plus this.
    Frame(i64),
    /// Memory at the register's value plus this.
    Memory(Register, i64),
    /// No memory: the register's value plus this.
    Value(Register, i64),
}

/// A place of a variable, or of a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) place: Location,
    /// A pointer to the variable is there, not the variable.
    pub(super) behind: bool,
    /// First byte of the part.
    pub(super) start: u64,
    /// Its length, `None` for the whole variable.
    pub(super) bytes: Option<u64>,
}

impl Piece {
    /// Whether it is all of the variable, in that place itself.
    pub(super) fn is_whole(&self) -> bool {
        self.bytes.is_none() && !self.behind
    }
}

/// The register of this number, when it is one that is followed.
pub(super) fn register(number: gimli::Register) -> Option<Register> {
    u8::try_from(number.0).ok().filter(|one| usize::from(*one) < Register::COUNT).map(Register)
}

#[derive(Default)]
struct Machine {
    place: Option<Location>,
    behind: bool,
    constant: Option<i64>,
}

/// The parts of a variable that have a place; `None` when the expression has another form. `base` is the frame base.
pub(super) fn pieces(
    model: &Model<'_>,
    unit: usize,
    expression: Expression<Reader<'_>>,
    base: Option<FrameBase>,
) -> Option<Vec<Piece>> {
    let unit = model.units.unit(unit)?;
    let mut operations = expression.operations(unit.encoding());
    let mut found = Vec::new();
    let (mut machine, mut start) = (Machine::default(), 0_u64);
    for _ in 0..OPERATIONS_LIMIT {
        let Some(operation) = operations.next().ok()? else {
            if found.is_empty() {
                found.extend(machine.piece(0, None));
            }
            return Some(found);
        };
        match operation {
            Operation::Piece { size_in_bits, bit_offset: None | Some(0) } => {
                let bytes = size_in_bits / 8;
                found.extend(machine.piece(start, Some(bytes)));
                start = start.checked_add(bytes)?;
                machine = Machine::default();
            }
            Operation::AddressIndex { index } => {
                let address = model.units.dwarf.address(&unit, index).ok()?;
                machine.place = Some(Location::Fixed(LinkAddress(address)));
            }
            other => machine.step(&other, base)?,
        }
    }
    None
}

impl Machine {
    fn piece(&self, start: u64, bytes: Option<u64>) -> Option<Piece> {
        Some(Piece { place: self.place?, behind: self.behind, start, bytes })
    }

    fn step(&mut self, operation: &Operation<Reader<'_>>, base: Option<FrameBase>) -> Option<()> {
        let fresh = self.place.is_none() && self.constant.is_none();
        match operation {
            Operation::Register { register: number } if fresh => {
                self.place = Some(Location::Value(register(*number)?, 0));
            }
            Operation::RegisterOffset { register: number, offset, base_type }
                if fresh && base_type.0 == 0 =>
            {
                self.place = Some(Location::Memory(register(*number)?, *offset));
            }
            Operation::FrameOffset { offset } if fresh => {
                self.place = Some(match base? {
                    FrameBase::Frame => Location::Frame(*offset),
                    FrameBase::Register(register) => Location::Memory(register, *offset),
                });
            }
            Operation::CallFrameCFA if fresh => self.place = Some(Location::Frame(0)),
            Operation::Address { address } if fresh => {
                self.place = Some(Location::Fixed(LinkAddress(*address)));
            }
            Operation::PlusConstant { value } => self.add(value.cast_signed())?,
            Operation::UnsignedConstant { value } if self.constant.is_none() => {
                self.constant = Some(value.cast_signed());
            }
            Operation::SignedConstant { value } if self.constant.is_none() => {
                self.constant = Some(*value);
            }
            Operation::Plus => {
                let constant = self.constant.take()?;
                self.add(constant)?;
            }
            Operation::Minus => {
                let constant = self.constant.take()?;
                self.add(constant.checked_neg()?)?;
            }
            Operation::Deref { size: 8, space: false, .. }
                if !self.behind && self.constant.is_none() =>
            {
                if matches!(self.place?, Location::Value(..)) {
                    return None;
                }
                self.behind = true;
            }
            Operation::StackValue if !self.behind && self.constant.is_none() => {
                let Location::Memory(register, offset) = self.place? else { return None };
                self.place = Some(Location::Value(register, offset));
            }
            Operation::Nop => {}
            _ => return None,
        }
        Some(())
    }

    fn add(&mut self, constant: i64) -> Option<()> {
        // Behind a pointer, the constant would be added to what it points to: no variable is there.
        if self.behind || self.constant.is_some() {
            return None;
        }
        self.place = Some(match self.place? {
            Location::Fixed(LinkAddress(at)) => {
                Location::Fixed(LinkAddress(at.wrapping_add(constant.cast_unsigned())))
            }
            Location::Frame(offset) => Location::Frame(offset.checked_add(constant)?),
            Location::Memory(register, offset) => {
                Location::Memory(register, offset.checked_add(constant)?)
            }
            Location::Value(..) => return None,
        });
        Some(())
    }
}
