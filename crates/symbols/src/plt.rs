//! Names for the linker's stubs: `malloc@plt`.
//!
//! What for: calls into shared libraries pass through stubs that have no symbol; samples in them would count for the
//! function before. What not: other architectures than x86-64 and aarch64; the header for lazy binding, which all
//! functions share. Assumption: a stub jumps through a slot of the global offset table (`jmp *slot(%rip)`, ff 25 disp32;
//! on aarch64 `adrp x16, page; ldr x17, [x16, #offset]`), and a dynamic relocation with a symbol fills this slot (System V
//! ABI, AMD64 supplement, chapter 5.2; ELF for the Arm 64-bit Architecture). The order of stubs and relocations differs
//! between linkers, so it is not used.

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
    is_aarch64: bool,
}

impl<'data> Stubs<'data> {
    pub(crate) fn read(elf: &Elf<'data>) -> Stubs<'data> {
        let file = elf.file();
        let is_aarch64 = file.architecture() == Architecture::Aarch64;
        if !is_aarch64 && file.architecture() != Architecture::X86_64 {
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
        Stubs { sections, slots, is_aarch64 }
    }

    /// The name of the function that the stub at `address` leads to.
    pub(crate) fn lookup(&self, elf: &Elf<'data>, address: LinkAddress) -> Option<&'data [u8]> {
        let section = self.sections.iter().find(|section| {
            address.0.checked_sub(section.start).is_some_and(|at| at < section.code.len() as u64)
        })?;
        let at = usize::try_from(address.0 - section.start).ok()?;
        // Stubs are 16 bytes long, in `.plt.got` without branch tracking 8.
        let of_x86_64 = |size| {
            let begin = at - at % size;
            jump_slot(section.code.get(begin..begin + size)?, section.start + begin as u64)
        };
        let stub = match self.is_aarch64 {
            true => self.slots.get(&slot_of_aarch64(section.code, at, section.start)?),
            false => [8, 16].into_iter().find_map(|size| self.slots.get(&of_x86_64(size)?)),
        }?;
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

/// The slot that the stub around the byte at `at` of a section, which begins at `start`, jumps through. A stub has 16 or 24
/// bytes, and loads from the slot at once, or after a `bti c`.
fn slot_of_aarch64(code: &[u8], at: usize, start: u64) -> Option<u64> {
    const BTI_C: u32 = 0xd503_245f;
    let word = |at: usize| code.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
    let at = at & !3;
    let first = if word(at)? == BTI_C { at + 4 } else { at };
    (0..=5).find_map(|back| {
        let begin = first.checked_sub(4 * back)?;
        let (page, load) = (word(begin)?, word(begin + 4)?);
        // Arm Architecture Reference Manual, C6.2: ADRP to x16; LDR (immediate, unsigned offset) of x17 from x16.
        if page & 0x9f00_001f != 0x9000_0010 || load & 0xffc0_03ff != 0xf940_0211 {
            return None;
        }
        let pages = (page >> 5 & 0x7_ffff) << 2 | page >> 29 & 3;
        let pages = i64::from(pages << 11).wrapping_sub(i64::from(page >> 23 & 1) << 32) >> 11;
        let here = start.wrapping_add(begin as u64) & !0xfff;
        let offset = u64::from(load >> 10 & 0xfff) * 8;
        Some(here.wrapping_add_signed(pages << 12).wrapping_add(offset))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_of_a_stub_of_aarch64_leads_to_its_slot() {
        // GNU ld 2.40 for a program at 0x890: the header, two stubs, one of a program with branch targets, and one before its slot.
        let words = [
            0xa9bf_7bf0_u32,
            0xf000_00f0,
            0xf947_fe11,
            0x913f_e210,
            0xd61f_0220,
            0xd503_201f,
            0xd503_201f,
            0xd503_201f,
            0x9000_0110,
            0xf940_0211,
            0x9100_0210,
            0xd61f_0220,
            0x9000_0110,
            0xf940_0611,
            0x9100_2210,
            0xd61f_0220,
            0xd503_245f,
            0x9000_0110,
            0xf940_0a11,
            0x9100_4210,
            0xd61f_0220,
            0xd503_201f,
            0xf0ff_fff0,
            0xf940_0211,
        ];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let slot = |at| slot_of_aarch64(&code, at, 0x890);
        assert_eq!(slot(0), None, "before the load of the header");
        assert_eq!(slot(4), Some(0x1f000 + 0xff8), "the linker's own slot, which no symbol fills");
        assert!((32..48).all(|at| slot(at) == Some(0x20000)));
        assert!((48..64).all(|at| slot(at) == Some(0x20008)));
        assert!((64..88).all(|at| slot(at) == Some(0x20010)));
        assert_eq!(slot(88), Some(0x890_u64.wrapping_sub(0x1890)), "one page down");
        assert_eq!(slot(2000), None);
    }
}
