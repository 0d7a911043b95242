//! The variables of a function, and the location of each per code address.
//!
//! What for: parameters and local variables, including those of blocks and of inlined functions. What not: values.
//! Assumption: nested functions have look-ups of their own, so their entries are left out here. Source: DWARF 5, 3.3
//! (functions), 3.4 (blocks), 3.3.8 (inlined), 2.6.2 (location lists).

use std::rc::Rc;

use addr2line::gimli;
use gimli::AttributeValue;

use super::Register;
use super::location::{FrameBase, Location, Piece, pieces, register};
use super::member::Span;
use super::model::{Kind, Model, POINTER_BYTES};
use super::units::{CodeRange, DieRef, Entry, Function};
use super::value::{Pointer, Target};
use crate::elf::LinkAddress;

/// Most places of variables in a function.
const PLACES_LIMIT: usize = 1 << 17;

/// What memory of a variable counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    Frame,
    Register(Register),
}

/// A variable in memory.
#[derive(Clone, Debug)]
pub(super) struct InMemory {
    pub(super) range: CodeRange,
    pub(super) base: Base,
    pub(super) offset: i64,
    pub(super) of: DieRef,
    /// There is a pointer to it.
    pub(super) behind: bool,
    pub(super) name: Option<Rc<str>>,
}

/// A register that holds a pointer variable, or a part of a variable that is a pointer.
#[derive(Clone, Debug)]
pub(super) struct InRegister {
    pub(super) range: CodeRange,
    pub(super) register: Register,
    pub(super) pointer: Pointer,
    pub(super) name: Option<Rc<str>>,
}

/// All of a function.
#[derive(Default)]
pub(super) struct Variables {
    pub(super) memory: Vec<InMemory>,
    pub(super) registers: Vec<InRegister>,
}

/// The variables of `function`.
pub(super) fn variables(model: &Model<'_>, function: &Function) -> Variables {
    let mut found = Variables::default();
    let Some(entry) = model.units.entry(function.die) else { return found };
    let base = frame_base(model, function.die.unit, &entry);
    // The open scopes, with their depth.
    let mut scopes = vec![(0, function.ranges.clone())];
    let unit = function.die.unit;
    model.units.descend(function.die, &mut |depth, entry| {
        scopes.truncate(scopes.partition_point(|(outer, _)| *outer < depth).max(1));
        match entry.tag() {
            gimli::DW_TAG_formal_parameter | gimli::DW_TAG_variable => {
                let scope = scopes.last().map_or(&[][..], |(_, ranges)| ranges);
                found.add(model, unit, entry, scope, base);
                false
            }
            gimli::DW_TAG_lexical_block
            | gimli::DW_TAG_inlined_subroutine
            | gimli::DW_TAG_try_block
            | gimli::DW_TAG_catch_block => {
                let ranges = model.units.code_of(unit, entry);
                if !ranges.is_empty() {
                    scopes.push((depth, ranges));
                }
                true
            }
            _ => false,
        }
    });
    found
}

fn frame_base(model: &Model<'_>, unit: usize, entry: &Entry<'_>) -> Option<FrameBase> {
    let AttributeValue::Exprloc(base) = entry.attr_value(gimli::DW_AT_frame_base)? else {
        return None;
    };
    let unit = model.units.unit(unit)?;
    let mut operations = base.operations(unit.encoding());
    match (operations.next().ok()??, operations.next().ok()?) {
        (gimli::Operation::CallFrameCFA, None) => Some(FrameBase::Frame),
        (gimli::Operation::Register { register: number }, None) => {
            Some(FrameBase::Register(register(number)?))
        }
        _ => None,
    }
}

impl Variables {
    fn add(
        &mut self,
        model: &Model<'_>,
        unit: usize,
        entry: &Entry<'_>,
        scope: &[CodeRange],
        base: Option<FrameBase>,
    ) -> Option<()> {
        let place = entry.attr_value(gimli::DW_AT_location)?;
        let die = DieRef { unit, offset: entry.offset() };
        let units = &model.units;
        let of = units.inherited(die, |unit, entry| units.link(unit, entry, gimli::DW_AT_type))?;
        let name = units.inherited(die, |unit, entry| units.text(unit, entry, gimli::DW_AT_name));
        let name = name.map(super::names::shown).map(Rc::from);
        if let AttributeValue::Exprloc(place) = place {
            for piece in pieces(model, unit, place, base)? {
                for range in scope {
                    self.put(model, *range, piece, of, &name, base);
                }
            }
            return Some(());
        }
        let read = units.unit(unit)?;
        let mut list = units.dwarf.attr_locations(&read, place).ok()??;
        while let Some(one) = list.next().ok()? {
            let (begin, end) = (LinkAddress(one.range.begin), LinkAddress(one.range.end));
            for piece in pieces(model, unit, one.data, base).unwrap_or_default() {
                self.put(model, CodeRange { begin, end }, piece, of, &name, base);
            }
        }
        Some(())
    }

    fn put(
        &mut self,
        model: &Model<'_>,
        range: CodeRange,
        piece: Piece,
        of: DieRef,
        name: &Option<Rc<str>>,
        base: Option<FrameBase>,
    ) {
        if range.begin >= range.end || self.memory.len() + self.registers.len() >= PLACES_LIMIT {
            return;
        }
        let name = name.clone();
        let in_memory = |base, offset: i64| {
            // Only a part of it: then its start is not there, but the part's place says where it would be.
            let offset = offset.checked_sub_unsigned(piece.start)?;
            let whole = piece.bytes.is_none();
            whole.then_some(InMemory {
                range,
                base,
                offset,
                of,
                behind: piece.behind,
                name: name.clone(),
            })
        };
        match piece.place {
            // `globals` has these.
            Location::Fixed(_) => {}
            Location::Frame(offset) => self.memory.extend(in_memory(Base::Frame, offset)),
            Location::Memory(register, offset) => {
                self.memory.extend(in_memory(Base::Register(register), offset));
                // Of the frame's own registers, all variables on the stack would say so.
                let framed =
                    register == Register::RSP || Some(FrameBase::Register(register)) == base;
                let seed = (!framed && piece.is_whole()).then(|| model.own(of)).flatten();
                if let Some((target, offset)) = seed.zip(offset.checked_neg()) {
                    let pointer = Pointer { target: Target::Type(target), offset, step: 0 };
                    self.registers.push(InRegister { range, register, pointer, name });
                }
            }
            Location::Value(register, offset) => {
                let Some((target, of_offset)) =
                    pointed_to(model, of, piece).zip(offset.checked_neg())
                else {
                    return;
                };
                let pointer = Pointer { target: Target::Type(target), offset: of_offset, step: 0 };
                self.registers.push(InRegister { range, register, pointer, name });
            }
        }
    }
}

/// The target type of the pointer that a variable, or this part of it, is. Pointers to something without a size have none.
fn pointed_to(model: &Model<'_>, of: DieRef, piece: Piece) -> Option<DieRef> {
    let target = match piece.bytes {
        None => match model.get(of)?.kind {
            Kind::Pointer(target) => target,
            _ => return pointed_by_only_member(model, of),
        },
        Some(bytes) if bytes == POINTER_BYTES => {
            let offset = i64::try_from(piece.start).ok()?;
            model.member_at(of, Span { offset, step: 0, bytes }, false)?.leaf.target
        }
        Some(_) => None,
    }?;
    model.own(target)
}

/// A structure that is nothing but a pointer is passed like one: `NonNull<T>`, `std::unique_ptr`, an iterator.
fn pointed_by_only_member(model: &Model<'_>, of: DieRef) -> Option<DieRef> {
    let span = Span { offset: 0, step: 0, bytes: POINTER_BYTES };
    let target = (model.get(of)?.bytes == POINTER_BYTES)
        .then(|| model.member_at(of, span, false)?.leaf.target)
        .flatten()?;
    model.own(target)
}
