//! Names of types as a programmer writes them.
//!
//! What for: `node` for `struct node`, `grid::cell<double>` with its name spaces, `node*`. What not: names of functions.
//! Assumptions: names come from files, so they are cut and cleaned; the entries around a type are found by one pass over
//! its unit, which is made only for languages whose names have paths.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use addr2line::gimli;

use super::model::{Kind, Model};
use super::units::{DieRef, Units};

/// Longest name that is kept, bytes.
const NAME_LIMIT: usize = 400;
/// Deepest nesting of a name: pointers to pointers, name spaces.
const DEPTH_LIMIT: usize = 16;

/// A name space or class: its entries lie between two offsets of its unit.
#[derive(Clone, Debug)]
struct Scope {
    begin: usize,
    end: usize,
    name: Rc<str>,
}

/// Names found so far.
#[derive(Default)]
pub(super) struct Names {
    types: RefCell<HashMap<DieRef, Option<Rc<str>>>>,
    scopes: RefCell<HashMap<usize, Rc<Vec<Scope>>>>,
}

/// Text from a file for a reader: whole characters, no control characters, not too long.
pub(super) fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(NAME_LIMIT)];
    let text = String::from_utf8_lossy(cut);
    text.chars().map(|one| if one.is_control() { '?' } else { one }).collect()
}

impl Model<'_> {
    /// The name of the type at `die`; `None` where it has none.
    pub(super) fn name(&self, die: DieRef) -> Option<Rc<str>> {
        self.name_within(die, DEPTH_LIMIT)
    }

    fn name_within(&self, die: DieRef, depth: usize) -> Option<Rc<str>> {
        let depth = depth.checked_sub(1)?;
        if let Some(known) = self.names.types.borrow().get(&die) {
            return known.clone();
        }
        let found = self.compose(die, depth).map(Rc::from);
        self.names.types.borrow_mut().insert(die, found.clone());
        found
    }

    fn compose(&self, die: DieRef, depth: usize) -> Option<String> {
        let found = self.get(die)?;
        let own = |die| {
            let text = |unit, entry: &_| self.units.text(unit, entry, gimli::DW_AT_name);
            self.units.inherited(die, text).filter(|name| !name.is_empty()).map(shown)
        };
        if let Some(name) = own(found.die) {
            return Some(self.path(found.die) + &name);
        }
        match found.kind {
            Kind::Pointer(Some(target)) => {
                let known = self.name_within(target, depth).map(|name| name.to_string());
                // It may be declared only.
                Some(known.or_else(|| own(target))? + "*")
            }
            Kind::Pointer(None) => Some("void*".to_owned()),
            Kind::Array(element) | Kind::Descriptor(element) => {
                Some(format!("{}[]", self.name_within(element, depth)?))
            }
            // `typedef struct { ... } node;`
            Kind::Record { .. } | Kind::Scalar => {
                let alias = self.alias_of(found.die)?;
                Some(self.path(alias) + &own(alias)?)
            }
        }
    }

    /// `space::outer::` in front of an entry's name.
    fn path(&self, die: DieRef) -> String {
        if self.units.is_plain(die.unit) {
            return String::new();
        }
        let known = self.names.scopes.borrow().get(&die.unit).cloned();
        let scopes = known.unwrap_or_else(|| {
            let read = Rc::new(scopes(&self.units, die.unit));
            self.names.scopes.borrow_mut().insert(die.unit, Rc::clone(&read));
            read
        });
        let offset = die.offset.0;
        let around = scopes.iter().filter(|scope| scope.begin < offset && offset < scope.end);
        around.take(DEPTH_LIMIT).map(|scope| format!("{}::", scope.name)).collect()
    }
}

/// The name spaces and classes of a unit, outer ones first.
fn scopes(units: &Units<'_>, number: usize) -> Vec<Scope> {
    let mut found: Vec<Scope> = Vec::new();
    let read = |found: &mut Vec<Scope>| -> Option<()> {
        let unit = units.unit(number)?;
        let mut raw = unit.entries_raw(None).ok()?;
        let mut open: Vec<(isize, usize)> = Vec::new();
        while !raw.is_empty() {
            let (offset, depth) = (raw.next_offset(), raw.next_depth());
            while let Some((_, scope)) = open.pop_if(|(outer, _)| depth <= *outer) {
                found[scope].end = offset.0;
            }
            let Some(abbreviation) = raw.read_abbreviation().ok()? else { continue };
            let scope = matches!(
                abbreviation.tag(),
                gimli::DW_TAG_namespace
                    | gimli::DW_TAG_structure_type
                    | gimli::DW_TAG_class_type
                    | gimli::DW_TAG_union_type
                    | gimli::DW_TAG_enumeration_type
            );
            if scope && abbreviation.has_children() {
                let entry = unit.entry(offset).ok()?;
                let name = units.text(number, &entry, gimli::DW_AT_name);
                let name = name.map_or_else(|| "(anonymous)".to_owned(), shown);
                open.push((depth, found.len()));
                found.push(Scope { begin: offset.0, end: usize::MAX, name: Rc::from(name) });
            }
            raw.skip_attributes(abbreviation.attributes()).ok()?;
        }
        Some(())
    };
    // What was read before the damage serves; scopes that it left open end nowhere and must not be believed.
    if read(&mut found).is_none() {
        found.retain(|scope| scope.end != usize::MAX);
    }
    found
}
