//! Where a function saved its caller's registers, from unwind tables.
//!
//! What for: loops of callers count in callee-saved registers (System V AMD64 ABI, 3.2.1); the unwinder restores rsp
//! and rbp only. What not: those two, reading the words (`recorder::registers`), code without `.eh_frame_hdr`.
//!
//! Assumption: a register that the tables do not name has its caller's value, because compilers leave out what does
//! not change. The bytes are untrusted: where the parser of the tables panics, there is no answer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use base::RemoteAddr;
use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindSection as _,
};

use super::AddressSpace;
use crate::modules::UnwindSections;

/// Callee-saved registers without rsp and rbp, by their number in the encoding: rbx, r12..r15.
pub const LASTING: [usize; 5] = [3, 12, 13, 14, 15];
/// The same by DWARF's numbers (System V AMD64 ABI, figure 3.36).
const DWARF: [u16; 5] = [3, 12, 13, 14, 15];

/// The place of the caller's value of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Saved {
    /// Still in the register.
    Same,
    /// In the word at the CFA plus this. The CFA is the caller's rsp after the return.
    InFrame(i64),
    /// Unknown.
    Nowhere,
}

impl AddressSpace {
    /// For each of [`LASTING`], at an address of code.
    #[must_use]
    pub fn saved(&self, address: RemoteAddr) -> [Saved; LASTING.len()] {
        let nowhere = [Saved::Nowhere; LASTING.len()];
        let Some((start, mapped)) = self.mapped.range(..=address.0).next_back() else {
            return nowhere;
        };
        let Some(unwind) = mapped.module.unwind.as_ref().filter(|_| address.0 < mapped.end) else {
            return nowhere;
        };
        let offset = (address.0 - start).checked_add(mapped.file_offset);
        let Some(stated) = offset.and_then(|offset| unwind.stated_address(offset)) else {
            return nowhere;
        };
        let read = catch_unwind(AssertUnwindSafe(|| read(unwind, stated)));
        read.ok().flatten().unwrap_or(nowhere)
    }
}

fn read(unwind: &UnwindSections, address: u64) -> Option<[Saved; LASTING.len()]> {
    let sections = &unwind.sections;
    let (header, frames) = (sections.eh_frame_hdr.as_ref()?, sections.eh_frame.as_ref()?);
    let mut bases = BaseAddresses::default()
        .set_eh_frame_hdr(sections.eh_frame_hdr_svma.as_ref()?.start)
        .set_eh_frame(sections.eh_frame_svma.as_ref()?.start);
    if let Some(text) = &sections.text_svma {
        bases = bases.set_text(text.start);
    }
    if let Some(got) = &sections.got_svma {
        bases = bases.set_got(got.start);
    }
    let frames = EhFrame::new(frames, LittleEndian);
    let header = EhFrameHdr::new(header, LittleEndian).parse(&bases, 8).ok()?;
    let mut context = UnwindContext::new();
    let row = header.table()?.unwind_info_for_address(
        &frames,
        &bases,
        &mut context,
        address,
        EhFrame::cie_from_offset,
    );
    let row = row.ok()?;
    Some(DWARF.map(|number| match row.register(Register(number)) {
        None | Some(RegisterRule::SameValue) => Saved::Same,
        Some(RegisterRule::Offset(from_cfa)) => Saved::InFrame(from_cfa),
        Some(_) => Saved::Nowhere,
    }))
}

#[cfg(test)]
mod tests {
    use base::Pid;

    use super::*;
    use crate::modules::ModuleTable;

    #[test]
    fn a_function_of_libc_says_where_it_saved_what() {
        // qsort_r of glibc calls back and so saves registers; somewhere in it all of them are on the stack.
        let maps = tracee::maps::read(Pid(std::process::id() as i32));
        let libc = maps.lines().filter_map(tracee::maps::parse_line);
        let mut libc = libc.filter(|line| line.executable && line.name.contains("/libc.so"));
        let Some(code) = libc.next() else { return println!("skipped: this test has no libc.so") };
        let mut facts = Vec::new();
        let nowhere = RemoteAddr(0)..RemoteAddr(0);
        let module = ModuleTable::default().of_mapping(Pid(1), code.name, &nowhere, &mut facts);
        let mut space = AddressSpace::default();
        space.map(code.start, code.end, code.offset, &module.unwrap());
        let length = code.end.0 - code.start.0;
        let found = (0..length).step_by(64).map(|at| space.saved(RemoteAddr(code.start.0 + at)));
        let found: Vec<_> = found.collect();
        let all_saved = |saved: &[Saved; 5]| {
            saved.iter().all(|one| matches!(one, Saved::InFrame(at) if (-64..0).contains(at)))
        };
        assert!(found.iter().any(all_saved));
        assert!(found.contains(&[Saved::Same; 5]));
        assert_eq!(space.saved(RemoteAddr(code.end.0)), [Saved::Nowhere; 5]);
    }
}
