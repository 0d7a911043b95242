//! Units of debug information, and the entries in them by reference.
//!
//! What for: a type may be in another unit, in the common file of `dwz`, or in a unit of its own that a signature names;
//! a function is found by its address. What not: what entries mean.
//! Assumptions: none about the bytes. Sources: DWARF 5, 3.1 (units), 7.5.4 (references); the forms of `dwz` as gimli
//! reads them.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use addr2line::gimli;
use gimli::{AttributeValue, DebuggingInformationEntry, UnitHeader, UnitOffset, UnitType};

use super::Dwarf;
use crate::budget::BudgetedReader;
use crate::elf::LinkAddress;

pub(super) type Reader<'a> = BudgetedReader<'a>;
pub(super) type Unit<'a> = gimli::Unit<Reader<'a>>;
pub(super) type Entry<'a> = DebuggingInformationEntry<Reader<'a>>;
pub(super) type Value<'a> = AttributeValue<Reader<'a>>;

/// Entries below one that are looked at, at most; the largest functions of real programs have some ten thousand.
const ENTRIES_LIMIT: usize = 1 << 18;

/// Longest chain of references that say "the same as that".
const CHAIN_LIMIT: usize = 8;

/// A debugging entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct DieRef {
    /// Number of its unit.
    pub(super) unit: usize,
    /// Where in the unit.
    pub(super) offset: UnitOffset,
}

/// Which section a unit is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Section {
    Info,
    Types,
    Alternate,
}

struct Slot<'a> {
    section: Section,
    header: UnitHeader<Reader<'a>>,
    unit: OnceCell<Option<Rc<Unit<'a>>>>,
    functions: OnceCell<Vec<Extent>>,
}

/// A part of a function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Extent {
    begin: LinkAddress,
    end: LinkAddress,
    offset: usize,
}

/// Addresses of code, `begin` inclusive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct CodeRange {
    pub(super) begin: LinkAddress,
    pub(super) end: LinkAddress,
}

impl CodeRange {
    pub(super) fn holds(&self, address: LinkAddress) -> bool {
        self.begin <= address && address < self.end
    }
}

/// Code of a unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct UnitRange {
    code: CodeRange,
    unit: usize,
}

/// A function.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) die: DieRef,
    /// Its code, the part with its entry first.
    pub(super) ranges: Vec<CodeRange>,
}

/// All units of a module.
pub(super) struct Units<'a> {
    pub(super) dwarf: &'a Dwarf<'a>,
    slots: Vec<Slot<'a>>,
    /// Code of units, sorted by start.
    ranges: Vec<UnitRange>,
    signatures: HashMap<u64, DieRef>,
}

impl<'a> Units<'a> {
    /// Reads the headers of all units, and which code each covers.
    pub(super) fn new(dwarf: &'a Dwarf<'a>) -> Units<'a> {
        let mut units =
            Units { dwarf, slots: Vec::new(), ranges: Vec::new(), signatures: HashMap::new() };
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            units.add(Section::Info, header);
        }
        let mut headers = dwarf.type_units();
        while let Ok(Some(header)) = headers.next() {
            units.add(Section::Types, header);
        }
        if let Some(alternate) = dwarf.sup() {
            let mut headers = alternate.units();
            while let Ok(Some(header)) = headers.next() {
                units.add(Section::Alternate, header);
            }
        }
        for number in 0..units.slots.len() {
            units.read_ranges(number);
        }
        units.ranges.sort_unstable();
        units
    }

    fn add(&mut self, section: Section, header: UnitHeader<Reader<'a>>) {
        let number = self.slots.len();
        if let UnitType::Type { type_signature, type_offset } = header.type_() {
            let die = DieRef { unit: number, offset: type_offset };
            self.signatures.insert(type_signature.0, die);
        }
        let (unit, functions) = (OnceCell::new(), OnceCell::new());
        self.slots.push(Slot { section, header, unit, functions });
    }

    fn read_ranges(&mut self, number: usize) {
        let header = &self.slots[number].header;
        let has_code = self.slots[number].section == Section::Info
            && matches!(header.type_(), UnitType::Compilation | UnitType::Skeleton(_));
        // Not kept: thousands of units of which few are needed again.
        let Some(unit) = has_code.then(|| self.dwarf.unit(*header).ok()).flatten() else {
            return;
        };
        let Ok(mut ranges) = self.dwarf.unit_ranges(&unit) else { return };
        while let Ok(Some(range)) = ranges.next() {
            // Linkers leave the ranges of functions that they removed at 0.
            if range.begin < range.end && range.begin > 0 {
                let (begin, end) = (LinkAddress(range.begin), LinkAddress(range.end));
                self.ranges.push(UnitRange { code: CodeRange { begin, end }, unit: number });
            }
        }
    }

    /// How many units there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The unit with this number.
    pub(super) fn unit(&self, number: usize) -> Option<Rc<Unit<'a>>> {
        let slot = self.slots.get(number)?;
        let read = || {
            let dwarf = match slot.section {
                Section::Alternate => self.dwarf.sup()?,
                Section::Info | Section::Types => self.dwarf,
            };
            dwarf.unit(slot.header).ok().map(Rc::new)
        };
        slot.unit.get_or_init(read).clone()
    }

    /// The entry at `die`.
    pub(super) fn entry(&self, die: DieRef) -> Option<Entry<'a>> {
        let unit = self.unit(die.unit)?;
        let entry = unit.entry(die.offset).ok()?;
        Some(entry)
    }

    /// What a reference of an entry of unit `from` leads to.
    pub(super) fn reference(&self, from: usize, value: &Value<'a>) -> Option<DieRef> {
        let own = self.slots.get(from)?.section;
        match value {
            AttributeValue::UnitRef(offset) => Some(DieRef { unit: from, offset: *offset }),
            AttributeValue::DebugInfoRef(offset) => {
                let section =
                    if own == Section::Alternate { Section::Alternate } else { Section::Info };
                self.at(section, offset.0)
            }
            AttributeValue::DebugInfoRefSup(offset) => self.at(Section::Alternate, offset.0),
            AttributeValue::DebugTypesRef(signature) => self.signatures.get(&signature.0).copied(),
            _ => None,
        }
    }

    fn at(&self, section: Section, offset: usize) -> Option<DieRef> {
        let start = |slot: &Slot<'a>| slot.header.offset().0;
        // Units are sorted by section, then by offset: `new` reads them in this order.
        let first = self.slots.partition_point(|slot| (slot.section as u8) < section as u8);
        let rest = &self.slots[first..];
        let count = rest.partition_point(|slot| slot.section == section && start(slot) <= offset);
        let unit = first + count.checked_sub(1)?;
        let offset = UnitOffset(offset - start(&self.slots[unit]));
        offset.is_in_bounds(&self.slots[unit].header).then_some(DieRef { unit, offset })
    }

    /// What attribute `name` of the entry refers to.
    pub(super) fn link(&self, unit: usize, entry: &Entry<'a>, name: gimli::DwAt) -> Option<DieRef> {
        self.reference(unit, &entry.attr_value(name)?)
    }

    /// The entry's own text.
    pub(super) fn text(
        &self,
        unit: usize,
        entry: &Entry<'a>,
        name: gimli::DwAt,
    ) -> Option<&'a [u8]> {
        let value = entry.attr_value(name)?;
        let dwarf = match self.slots.get(unit)?.section {
            Section::Alternate => self.dwarf.sup()?,
            Section::Info | Section::Types => self.dwarf,
        };
        let text = dwarf.attr_string(&*self.unit(unit)?, value).ok()?;
        Some(text.rest())
    }

    /// `find` of the entry, or of the ones that it is an instance or completion of.
    pub(super) fn inherited<T>(
        &self,
        die: DieRef,
        find: impl Fn(usize, &Entry<'a>) -> Option<T>,
    ) -> Option<T> {
        let mut at = die;
        for _ in 0..CHAIN_LIMIT {
            let entry = self.entry(at)?;
            if let Some(found) = find(at.unit, &entry) {
                return Some(found);
            }
            let up = |name| self.link(at.unit, &entry, name);
            at = up(gimli::DW_AT_abstract_origin).or_else(|| up(gimli::DW_AT_specification))?;
        }
        None
    }

    /// Visits the entries below `die`, parents first, with their depth (1 for children). `visit` says whether to go below
    /// the entry.
    pub(super) fn descend(
        &self,
        die: DieRef,
        visit: &mut dyn FnMut(isize, &Entry<'a>) -> bool,
    ) -> Option<()> {
        let unit = self.unit(die.unit)?;
        let mut raw = unit.entries_raw(Some(die.offset)).ok()?;
        let mut entry = Entry::default();
        raw.read_entry(&mut entry).ok()?;
        let mut closed = isize::MAX;
        for _ in 0..ENTRIES_LIMIT {
            let depth = raw.next_depth();
            if raw.is_empty() || depth <= 0 {
                break;
            }
            if depth <= closed {
                closed = isize::MAX;
            }
            let real = raw.read_entry(&mut entry).ok()?;
            if real && !entry.is_null() && depth <= closed && !visit(depth, &entry) {
                closed = depth;
            }
        }
        Some(())
    }

    /// Whether a unit is C or Fortran: no exceptions leave its functions, and its names have no paths.
    pub(super) fn is_plain(&self, unit: usize) -> bool {
        use gimli::{DW_LANG_C, DW_LANG_C11, DW_LANG_C17, DW_LANG_C89, DW_LANG_C99};
        let c = [DW_LANG_C, DW_LANG_C89, DW_LANG_C99, DW_LANG_C11, DW_LANG_C17];
        let plain = self.language(unit).is_some_and(|language| c.contains(&language));
        plain || self.is_fortran(unit)
    }

    /// Whether arrays of a unit count from 1 unless they say otherwise (DWARF 5, table 7.17).
    pub(super) fn is_fortran(&self, unit: usize) -> bool {
        let fortran = [
            gimli::DW_LANG_Fortran77,
            gimli::DW_LANG_Fortran90,
            gimli::DW_LANG_Fortran95,
            gimli::DW_LANG_Fortran03,
            gimli::DW_LANG_Fortran08,
        ];
        self.language(unit).is_some_and(|language| fortran.contains(&language))
    }

    fn language(&self, unit: usize) -> Option<gimli::DwLang> {
        let unit = self.unit(unit)?;
        let root = unit.entry(unit.header.root_offset()).ok()?;
        match root.attr_value(gimli::DW_AT_language)? {
            AttributeValue::Language(language) => Some(language),
            _ => None,
        }
    }

    /// The function whose code holds `address`.
    pub(super) fn function_at(&self, address: LinkAddress) -> Option<Function> {
        let behind = self.ranges.partition_point(|range| range.code.begin <= address);
        // Ranges of units do not nest in real files; looking back a little is for those that do.
        let near = self.ranges[..behind].iter().rev().take(4);
        near.filter(|range| address < range.code.end)
            .find_map(|range| self.function_in(range.unit, address))
    }

    fn function_in(&self, number: usize, address: LinkAddress) -> Option<Function> {
        let extents = self.slots[number].functions.get_or_init(|| self.functions(number));
        let behind = extents.partition_point(|extent| extent.begin <= address);
        let near = extents[..behind].iter().rev().take(4);
        // Of two that cover it, the inner one begins later.
        let extent = near.clone().find(|extent| address < extent.end)?;
        let die = DieRef { unit: number, offset: UnitOffset(extent.offset) };
        let entry = self.entry(die)?;
        Some(Function { die, ranges: self.code_of(number, &entry) })
    }

    /// The address ranges of an entry, as they are written: the first holds a function's entry.
    pub(super) fn code_of(&self, number: usize, entry: &Entry<'a>) -> Vec<CodeRange> {
        let mut found = Vec::new();
        let Some(unit) = self.unit(number) else { return found };
        let Ok(mut ranges) = self.dwarf.die_ranges(&unit, entry) else { return found };
        while let Ok(Some(range)) = ranges.next() {
            if range.begin < range.end && range.begin > 0 && found.len() < ENTRIES_LIMIT {
                let (begin, end) = (LinkAddress(range.begin), LinkAddress(range.end));
                found.push(CodeRange { begin, end });
            }
        }
        found
    }

    /// The functions of a unit by address, as far as its entries can be read.
    fn functions(&self, number: usize) -> Vec<Extent> {
        let mut found = Vec::new();
        self.each_tagged(number, gimli::DW_TAG_subprogram, &mut |offset, entry| {
            let extent =
                |code: CodeRange| Extent { begin: code.begin, end: code.end, offset: offset.0 };
            found.extend(self.code_of(number, entry).into_iter().map(extent));
        });
        found.sort_unstable();
        found
    }

    /// Visits the entries of a unit that have this tag, as far as they can be read.
    pub(super) fn each_tagged(
        &self,
        number: usize,
        tag: gimli::DwTag,
        visit: &mut dyn FnMut(UnitOffset, &Entry<'a>),
    ) -> Option<()> {
        let unit = self.unit(number)?;
        let mut raw = unit.entries_raw(None).ok()?;
        while !raw.is_empty() {
            let offset = raw.next_offset();
            let Some(abbreviation) = raw.read_abbreviation().ok()? else { continue };
            if abbreviation.tag() == tag {
                visit(offset, &unit.entry(offset).ok()?);
            }
            raw.skip_attributes(abbreviation.attributes()).ok()?;
        }
        Some(())
    }
}
