//! The invariants of regions, variables and types of accesses.

use std::collections::HashSet;

use base::{Bytes, RemoteAddr};

use super::{Report, Subject};

pub(super) fn ranges_proper(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    let regions = recording.regions.iter().map(|one| ("region", one.start, one.bytes));
    let ends = recording.region_ends.iter().map(|one| ("end of a region", one.start, one.bytes));
    let globals = recording.globals.iter().map(|one| ("variable", one.start, one.bytes));
    let pages = recording.pages.iter().map(|one| ("drawn page", one.address, one.stands_for));
    for (what, start, bytes) in regions.chain(ends).chain(globals).chain(pages) {
        let (RemoteAddr(start), Bytes(bytes)) = (start, bytes);
        if bytes == 0 || start.checked_add(bytes).is_none() {
            report.add(|| format!("a {what} of {bytes} bytes at {start:#x}"));
        }
    }
}

pub(super) fn types_proper(subject: &Subject<'_>, report: &mut Report) {
    let mut seen = HashSet::new();
    for typed in &subject.recording.access_types {
        let (module, offset, access) = (typed.module, typed.offset.0, typed.access);
        if !seen.insert((module, offset, access)) {
            report.add(|| format!("access {access} at {offset:#x} of module {module} again"));
        }
        let (from, bytes, whole) = (typed.field_offset.0, typed.field_bytes.0, typed.type_bytes.0);
        if from.checked_add(bytes).is_none_or(|end| end > whole) {
            report.add(|| format!("{bytes} bytes at {from} of a type of {whole} bytes"));
        }
    }
}
