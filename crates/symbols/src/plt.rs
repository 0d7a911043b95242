//! Names for the linker's stubs: `malloc@plt`.
//!
//! What for: calls into shared libraries pass through stubs that have no symbol; samples in them would count for the
//! function before. What not: other architectures than x86-64; the header for lazy binding, which all functions
//! share. Assumption: a stub jumps through a slot of the global offset table (`jmp *slot(%rip)`, ff 25 disp32), and a
//! dynamic relocation with a symbol fills this slot (System V ABI, AMD64 supplement, chapter 5.2). The order of stubs
//! and relocations differs between linkers, so it is not used.

use std::collections::HashMap;

use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _};
use object::{Architecture, RelocationTarget, SymbolIndex};

use crate::elf::{Elf, LinkAddress};

/// Relocations looked at; the largest browsers have some hundred thousand with symbols.
const RELOCATIONS_LIMIT: usize = 1 << 21;

/// One section of stubs.
#[derive(Debug)]
struct StubSection<'data> {
    start: u64,
    code: &'data [u8],
}

/// The stubs of a module.
#[derive(Debug, Default)]
pub(crate) struct Stubs<'data> {
    sections: Vec<StubSection<'data>>,
    slots: HashMap<u64, SymbolIndex>,
}

impl<'data> Stubs<'data> {
    pub(crate) fn read(elf: &Elf<'data>) -> Stubs<'data> {
        let file = elf.file();
        if file.architecture() != Architecture::X86_64 {
            return Stubs::default();
        }
        let sections: Vec<_> = [".plt", ".plt.sec", ".plt.got", ".plt.bnd"]
            .into_iter()
            .filter_map(|name| file.section_by_name(name))
            .filter_map(|section| {
                Some(StubSection { start: section.address(), code: section.data().ok()? })
            })
            .collect();
        let relocations = file.dynamic_relocations().filter(|_| !sections.is_empty());
        let slots = relocations
            .into_iter()
            .flatten()
            .take(RELOCATIONS_LIMIT)
            .filter_map(|(slot, relocation)| match relocation.target() {
                RelocationTarget::Symbol(index) => Some((slot, index)),
                _ => None,
            })
            .collect();
        Stubs { sections, slots }
    }

    /// The name of the function that the stub at `address` leads to.
    pub(crate) fn lookup(&self, elf: &Elf<'data>, address: LinkAddress) -> Option<&'data [u8]> {
        let section = self.sections.iter().find(|section| {
            address.0.checked_sub(section.start).is_some_and(|at| at < section.code.len() as u64)
        })?;
        let at = usize::try_from(address.0 - section.start).ok()?;
        // Stubs are 16 bytes long, in `.plt.got` without branch tracking 8.
        let stub = [8, 16].into_iter().find_map(|size| {
            let begin = at - at % size;
            let slot =
                jump_slot(section.code.get(begin..begin + size)?, section.start + begin as u64)?;
            self.slots.get(&slot)
        })?;
        let symbols = elf.file().dynamic_symbol_table()?;
        let name = symbols.symbol_by_index(*stub).ok()?.name_bytes().ok()?;
        (!name.is_empty()).then_some(name)
    }
}

/// The slot that the stub with these bytes, at `start`, jumps through.
fn jump_slot(stub: &[u8], start: u64) -> Option<u64> {
    // endbr64 and the bnd prefix may stand before the jump.
    let after_endbr = stub.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(stub);
    let jump = after_endbr.strip_prefix(&[0xf2]).unwrap_or(after_endbr);
    let displacement = jump.strip_prefix(&[0xff, 0x25])?.get(..4)?;
    let displacement = i32::from_le_bytes(displacement.try_into().ok()?);
    let next_instruction = start.wrapping_add((stub.len() - jump.len() + 6) as u64);
    Some(next_instruction.wrapping_add_signed(i64::from(displacement)))
}
