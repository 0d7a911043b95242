//! Types as debug information describes them, reduced to what addresses need.
//!
//! What for: sizes, members and elements, through all `typedef`, `const` and the like. What not: names (`names`), the
//! member at an offset (`member`). Assumptions: none about the bytes: chains and tables are bounded, and an invalid
//! type is `None`. Source: DWARF 5, chapter 5; 5.7.6 for members, 5.5 for arrays, 5.7.10 for variants.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use addr2line::gimli;
use gimli::{AttributeValue, Operation};

use super::Dwarf;
use super::globals::Globals;
use super::names::Names;
use super::units::{DieRef, Entry, Units};

/// Longest chain of `typedef`, `const` and so on; in real programs it has fewer than ten.
const ALIAS_LIMIT: usize = 64;
/// Most members of a structure.
const MEMBERS_LIMIT: usize = 1 << 14;
/// Most bytes of a type: half of the address space, so that offsets within have a sign.
const BYTES_LIMIT: u64 = i64::MAX.cast_unsigned();
/// Bytes of a pointer.
pub(super) const POINTER_BYTES: u64 = 8;

/// The kind of a type.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A number, an enumeration.
    Scalar,
    /// A pointer or reference; to nothing known for `void*`.
    Pointer(Option<DieRef>),
    /// A structure, class or union.
    Record { members: Vec<Member>, union: bool },
    /// Elements side by side, in all dimensions; of unknown number where `bytes` of the type is 0.
    Array(DieRef),
    /// A Fortran array with a descriptor, whose first word points to the elements.
    Descriptor(DieRef),
}

/// The bits of a bit-field.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitField {
    /// The first one, from the start of the structure.
    pub(super) first: u64,
    pub(super) size: u64,
}

/// A member, or a base class, or one way that a variant may be.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// `None` for what has no name in the source: an anonymous structure or union, a base class.
    pub(super) name: Option<Rc<str>>,
    /// Bytes from the start of the structure.
    pub(super) offset: u64,
    pub(super) bits: Option<BitField>,
    pub(super) of: DieRef,
}

/// A type.
#[derive(Clone, Debug)]
pub(super) struct Type {
    /// Its entry.
    pub(super) die: DieRef,
    /// The outermost `typedef` on the way, which names a structure that has no other name.
    pub(super) alias: Option<DieRef>,
    pub(super) kind: Kind,
    /// Its size; 0 for an array of unknown length.
    pub(super) bytes: u64,
}

/// The types of a module, read when they are asked for.
pub(super) struct Model<'a> {
    pub(super) units: Units<'a>,
    pub(super) names: Names,
    pub(super) globals: Globals,
    known: RefCell<HashMap<DieRef, Option<Rc<Type>>>>,
    /// Number of members that may still be examined for one answer; see `member`.
    pub(super) effort: Cell<u32>,
    /// The `typedef` that names a type, by its own entry.
    aliases: RefCell<HashMap<DieRef, DieRef>>,
}

impl<'a> Model<'a> {
    pub(super) fn new(dwarf: &'a Dwarf<'a>) -> Model<'a> {
        Model {
            units: Units::new(dwarf),
            names: Names::default(),
            globals: Globals::default(),
            known: RefCell::default(),
            effort: Cell::new(0),
            aliases: RefCell::default(),
        }
    }

    /// The type at `die`, behind aliases.
    pub(super) fn get(&self, die: DieRef) -> Option<Rc<Type>> {
        if let Some(known) = self.known.borrow().get(&die) {
            return known.clone();
        }
        let found = self.read(die).map(Rc::new);
        if let Some((own, alias)) = found.as_ref().and_then(|found| Some((found.die, found.alias?)))
        {
            self.aliases.borrow_mut().entry(own).or_insert(alias);
        }
        // Also that there is none: an invalid type may be asked for by every access.
        self.known.borrow_mut().insert(die, found.clone());
        found
    }

    /// The entry of the type itself, behind aliases; `None` for what has no size, as `void`.
    pub(super) fn own(&self, die: DieRef) -> Option<DieRef> {
        Some(self.get(die)?.die)
    }

    /// The first `typedef` that was met of the type at `die`.
    pub(super) fn alias_of(&self, die: DieRef) -> Option<DieRef> {
        self.aliases.borrow().get(&die).copied()
    }

    fn read(&self, die: DieRef) -> Option<Type> {
        let (mut at, mut alias) = (die, None);
        for _ in 0..ALIAS_LIMIT {
            let entry = self.units.entry(at)?;
            let next = || self.units.link(at.unit, &entry, gimli::DW_AT_type);
            match entry.tag() {
                gimli::DW_TAG_typedef => {
                    alias = alias.or(Some(at));
                    at = next()?;
                }
                gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type
                | gimli::DW_TAG_immutable_type
                | gimli::DW_TAG_packed_type => at = next()?,
                // Described in a unit of its own.
                _ if entry.attr_value(gimli::DW_AT_signature).is_some() => {
                    at = self.units.link(at.unit, &entry, gimli::DW_AT_signature)?;
                }
                // Described elsewhere, without a reference.
                _ if entry.attr_value(gimli::DW_AT_declaration).is_some() => return None,
                _ => return self.described(at, alias, &entry),
            }
        }
        None
    }

    fn described(&self, die: DieRef, alias: Option<DieRef>, entry: &Entry<'a>) -> Option<Type> {
        let link = || self.units.link(die.unit, entry, gimli::DW_AT_type);
        let size = number(entry, gimli::DW_AT_byte_size);
        let (kind, bytes) = match entry.tag() {
            gimli::DW_TAG_base_type | gimli::DW_TAG_enumeration_type => (Kind::Scalar, size?),
            gimli::DW_TAG_subrange_type => (Kind::Scalar, size?),
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => {
                let bytes = size.unwrap_or(POINTER_BYTES);
                (Kind::Pointer(link()), (bytes == POINTER_BYTES).then_some(bytes)?)
            }
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => {
                (self.record(die, false), size?)
            }
            gimli::DW_TAG_union_type => (self.record(die, true), size?),
            gimli::DW_TAG_array_type => return self.array(die, alias, entry, link()?),
            _ => return None,
        };
        (1..=BYTES_LIMIT).contains(&bytes).then_some(Type { die, alias, kind, bytes })
    }

    fn record(&self, die: DieRef, union: bool) -> Kind {
        let mut members = Vec::new();
        self.units.descend(die, &mut |_, entry| match entry.tag() {
            gimli::DW_TAG_member | gimli::DW_TAG_inheritance => {
                if members.len() < MEMBERS_LIMIT {
                    members.extend(self.member(die.unit, entry));
                }
                false
            }
            // Members that depend on a value (Rust's enumerations, Ada): all of them, as if in a union.
            gimli::DW_TAG_variant_part | gimli::DW_TAG_variant => true,
            _ => false,
        });
        Kind::Record { members, union }
    }

    fn member(&self, unit: usize, entry: &Entry<'a>) -> Option<Member> {
        if entry.attr_value(gimli::DW_AT_declaration).is_some() {
            return None; // A static member: elsewhere.
        }
        let of = self.units.link(unit, entry, gimli::DW_AT_type)?;
        let inherited = entry.tag() == gimli::DW_TAG_inheritance;
        let name = self.units.text(unit, entry, gimli::DW_AT_name).filter(|name| !name.is_empty());
        let name = name.filter(|_| !inherited).map(super::names::shown).map(Rc::from);
        let offset = match entry.attr_value(gimli::DW_AT_data_member_location) {
            None => 0,
            // DWARF 2: an expression that adds the offset to the address of the structure.
            Some(AttributeValue::Exprloc(place)) => {
                let unit = self.units.unit(unit)?;
                let mut operations = place.operations(unit.encoding());
                match (operations.next().ok()??, operations.next().ok()?) {
                    (Operation::PlusConstant { value }, None) => value,
                    _ => return None, // A virtual base: its place is in the object.
                }
            }
            Some(value) => value.udata_value()?,
        };
        let bits = number(entry, gimli::DW_AT_bit_size).map(|size| {
            let first = match number(entry, gimli::DW_AT_data_bit_offset) {
                Some(first) => first,
                // DWARF 3, 5.5.6: counted from the most significant bit of the storage unit.
                None => {
                    let from_top = number(entry, gimli::DW_AT_bit_offset)?;
                    let storage = number(entry, gimli::DW_AT_byte_size)
                        .or_else(|| Some(self.get(of)?.bytes))?;
                    let unit_bits = storage.checked_mul(8)?;
                    offset
                        .checked_mul(8)?
                        .checked_add(unit_bits.checked_sub(from_top)?.checked_sub(size)?)?
                }
            };
            Some(BitField { first, size })
        });
        let bits = match bits {
            Some(bits) => Some(bits?),
            None => None,
        };
        Some(Member { name, offset, bits, of })
    }

    fn array(
        &self,
        die: DieRef,
        alias: Option<DieRef>,
        entry: &Entry<'a>,
        element: DieRef,
    ) -> Option<Type> {
        if entry.attr_value(gimli::DW_AT_data_location).is_some() {
            return Some(Type {
                die,
                alias,
                kind: Kind::Descriptor(element),
                bytes: POINTER_BYTES,
            });
        }
        let vector = entry.attr_value(gimli::DW_AT_GNU_vector).is_some();
        let declared = number(entry, gimli::DW_AT_byte_size).filter(|_| vector);
        let counted = || self.get(element)?.bytes.checked_mul(self.elements(die).unwrap_or(0));
        let bytes = declared.or_else(counted).filter(|bytes| *bytes <= BYTES_LIMIT)?;
        Some(Type { die, alias, kind: Kind::Array(element), bytes })
    }

    /// The product of all dimensions; `None` when one is not a constant.
    fn elements(&self, die: DieRef) -> Option<u64> {
        let mut product = Some(1_u64);
        self.units.descend(die, &mut |_, entry| {
            if entry.tag() == gimli::DW_TAG_subrange_type {
                let signed = |name| match entry.attr_value(name)? {
                    AttributeValue::Exprloc(_) | AttributeValue::UnitRef(_) => None,
                    value => {
                        value.sdata_value().or_else(|| i64::try_from(value.udata_value()?).ok())
                    }
                };
                let from = || match entry.attr_value(gimli::DW_AT_lower_bound) {
                    None => Some(i64::from(self.units.is_fortran(die.unit))),
                    Some(_) => signed(gimli::DW_AT_lower_bound),
                };
                let bounds =
                    || signed(gimli::DW_AT_upper_bound)?.checked_sub(from()?)?.checked_add(1);
                let count = signed(gimli::DW_AT_count).or_else(bounds);
                let count = count.and_then(|count| u64::try_from(count).ok());
                product =
                    product.zip(count).and_then(|(product, count)| product.checked_mul(count));
            }
            false
        });
        product
    }
}

/// The attribute's number.
pub(super) fn number(entry: &Entry<'_>, name: gimli::DwAt) -> Option<u64> {
    entry.attr_value(name)?.udata_value()
}
