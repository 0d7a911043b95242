//! Variables at fixed addresses.
//!
//! What for: `mov eax, [rip+counter]`. What not: thread-local ones. Assumption: it is unknown which unit defines a
//! variable, so all units are searched at the first fixed address. The budget pays for that as for all reading.

use std::cell::OnceCell;

use addr2line::gimli;
use gimli::AttributeValue;

use super::location::{Location, pieces};
use super::model::Model;
use super::units::DieRef;
use crate::elf::LinkAddress;

/// Most variables that are kept.
const VARIABLES_LIMIT: usize = 1 << 20;

/// A variable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Global {
    pub(super) start: LinkAddress,
    pub(super) die: DieRef,
}

/// Sorted by address; read at the first request.
#[derive(Default)]
pub(super) struct Globals(OnceCell<Vec<Global>>);

impl Model<'_> {
    /// The variables with the nearest start at or before `address`; more than one if the linker gave several the same
    /// address.
    pub(super) fn globals_before(&self, address: LinkAddress) -> &[Global] {
        let all = self.globals.0.get_or_init(|| self.read_globals());
        let behind = all.partition_point(|global| global.start <= address);
        let Some(last) = all[..behind].last() else { return &[] };
        let first = all[..behind].partition_point(|global| global.start < last.start);
        &all[first..behind]
    }

    fn read_globals(&self) -> Vec<Global> {
        let mut found = Vec::new();
        for unit in 0..self.units.len() {
            self.units.each_tagged(unit, gimli::DW_TAG_variable, &mut |offset, entry| {
                let Some(AttributeValue::Exprloc(place)) = entry.attr_value(gimli::DW_AT_location)
                else {
                    return;
                };
                let places = pieces(self, unit, place, None).unwrap_or_default();
                if let [piece] = &places[..]
                    && let Location::Fixed(start) = piece.place
                    && piece.is_whole()
                    && found.len() < VARIABLES_LIMIT
                {
                    found.push(Global { start, die: DieRef { unit, offset } });
                }
            });
        }
        found.sort_unstable();
        found
    }
}
