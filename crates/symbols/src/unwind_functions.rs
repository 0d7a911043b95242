//! Starts and ends of functions from unwind information, for code without symbols.
//!
//! What for: stripped modules keep `.eh_frame`, because exceptions and stack traces need it. Its frame description
//! entries (FDEs) each cover one function, or the cold part of one that the compiler moved away. What not: unwinding,
//! `.debug_frame`, compact formats of other systems. The binary search table `.eh_frame_hdr` is not used: a file may
//! lack it, gimli's search in it overflows on hostile counts, and it would save only one pass over the entries.
//!
//! Assumptions: none about the bytes; unreadable entries are left out. Source: Linux Standard Base Core, "Exception
//! Frames" (<https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/ehframechpt.html>).

use std::ops::Range;

use addr2line::gimli;
use gimli::{BaseAddresses, CieOrFde, EhFrame, UnwindSection as _};
use object::read::{Object as _, ObjectSection as _};

use crate::budget::{Budget, BudgetedReader};
use crate::elf::{Elf, LinkAddress};

/// The code that one FDE covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Extent {
    start: LinkAddress,
    end: LinkAddress,
}

/// All functions of a module by address, without names.
#[derive(Debug, Default)]
pub(crate) struct UnwindFunctions {
    sorted: Vec<Extent>,
}

impl UnwindFunctions {
    /// Reads all entries once.
    pub(crate) fn read(elf: &Elf<'_>) -> UnwindFunctions {
        let file = elf.file();
        let Some(section) = file.section_by_name(".eh_frame") else {
            return UnwindFunctions::default();
        };
        // A debug file keeps the header of the section only; then there are no bytes.
        let bytes = section.data().unwrap_or_default();
        let address_of = |name| file.section_by_name(name).map(|section| section.address());
        let mut bases = BaseAddresses::default().set_eh_frame(section.address());
        if let Some(text) = address_of(".text") {
            bases = bases.set_text(text);
        }
        if let Some(got) = address_of(".got") {
            bases = bases.set_got(got);
        }
        // Thousands of entries may share one long description; see `budget`.
        let budget = Budget::for_size(bytes.len() as u64);
        let mut frames = EhFrame::from(BudgetedReader::new(bytes, &budget));
        frames.set_address_size(if file.is_64() { 8 } else { 4 });
        let mut sorted = extents(&frames, &bases);
        sorted.sort_unstable();
        UnwindFunctions { sorted }
    }

    /// The first address of the function that covers `address`.
    pub(crate) fn start_of(&self, address: LinkAddress) -> Option<LinkAddress> {
        self.range_of(address).map(|range| range.start)
    }

    /// The addresses of the function that covers `address`.
    pub(crate) fn range_of(&self, address: LinkAddress) -> Option<Range<LinkAddress>> {
        let behind = self.sorted.partition_point(|extent| extent.start <= address);
        let last = self.sorted[..behind].last()?;
        (address < last.end).then_some(last.start..last.end)
    }
}

/// The extents of all entries up to the first whose length is damaged: from there on nothing can be found.
fn extents(frames: &EhFrame<BudgetedReader<'_>>, bases: &BaseAddresses) -> Vec<Extent> {
    let mut found = Vec::new();
    let mut entries = frames.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let start = fde.initial_address();
        // Linkers leave entries of removed functions at 0.
        if start > 0 && fde.len() > 0 {
            let end = LinkAddress(start.saturating_add(fde.len()));
            found.push(Extent { start: LinkAddress(start), end });
        }
    }
    found
}
