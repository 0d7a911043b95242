//! The agent's file as a process gets it: its segments, and the words to be filled in.
//!
//! What for: in a running process no dynamic linker loads the agent. What not: mapping it (`burst::guest`). Source:
//! System V gABI, chapter 5; AMD64 supplement, 4.4.1: GLOB_DAT and JUMP_SLOT hold a symbol's address, RELATIVE holds
//! base and addend, 64 a symbol's address and addend.

use std::collections::HashMap;

use base::{FileOffset, RemoteAddr};
use burst::Segment;
use object::elf::{PF_W, PF_X, PT_LOAD, R_X86_64_64};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object, ObjectSymbol, ObjectSymbolTable, RelocationFlags};

const PAGE: u64 = 4096;

/// The value of a word.
enum Word {
    /// An address of the agent's own.
    Own(u64),
    /// A function of the C library, with an addend.
    Foreign(String, u64),
}

/// The agent's file.
pub struct Image {
    /// Its pieces.
    pub segments: Vec<Segment>,
    /// Bytes from its first address to its last.
    pub span: u64,
    /// Where in the file the code begins.
    pub code: FileOffset,
    own: HashMap<String, u64>,
    words: Vec<(u64, Word)>,
    /// Ranges of memory that must be zero although a segment of the file covers them.
    zeroes: Vec<(u64, u64)>,
}

impl Image {
    /// Reads the agent's file; `None` if it is not ours.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Image> {
        let elf = ElfFile64::<Endianness>::parse(bytes).ok()?;
        let endian = elf.endian();
        let (mut segments, mut zeroes, mut span) = (Vec::new(), Vec::new(), 0);
        for header in elf.elf_program_headers() {
            if header.p_type(endian) != PT_LOAD {
                continue;
            }
            let (at, offset) = (header.p_vaddr(endian), header.p_offset(endian));
            let (in_file, in_memory) = (header.p_filesz(endian), header.p_memsz(endian));
            let flags = header.p_flags(endian);
            segments.push(Segment {
                at: at & !(PAGE - 1),
                offset: FileOffset(offset & !(PAGE - 1)),
                length: (at % PAGE + in_file).next_multiple_of(PAGE),
                executable: flags.contains(PF_X),
                writable: flags.contains(PF_W),
            });
            if in_memory > in_file {
                zeroes.push((at + in_file, (at + in_file).next_multiple_of(PAGE)));
            }
            span = span.max((at + in_memory).next_multiple_of(PAGE));
        }
        // Add a page of the file after all segments: otherwise the kernel merges the zeroes with adjacent memory of
        // the program, and the two cannot be distinguished.
        segments.push(Segment {
            at: span,
            offset: FileOffset(0),
            length: PAGE,
            executable: false,
            writable: false,
        });
        span += PAGE;
        let code = segments.iter().find(|segment| segment.executable)?.offset;
        let defined = elf.dynamic_symbols().filter(|symbol| symbol.is_definition());
        let own = defined
            .filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address())))
            .collect();
        let words = words(&elf)?;
        Some(Image { segments, span, code, own, words, zeroes })
    }

    /// Functions that the agent replaces: it has a function of this name, and a word for the one that it passes calls
    /// on to.
    pub fn replaced(&self) -> impl Iterator<Item = &str> {
        let names = self.own.keys().filter_map(|name| name.strip_prefix("fathom_real_"));
        names.filter(|name| self.own.contains_key(*name))
    }

    /// The address of an agent's symbol in a process that has the agent at `base`.
    #[must_use]
    pub fn address(&self, name: &str, base: RemoteAddr) -> Option<RemoteAddr> {
        self.own.get(name).map(|at| base.offset(*at))
    }

    /// The functions of the C library that it calls.
    #[must_use]
    pub fn needed(&self) -> Vec<&str> {
        let foreign = self.words.iter().filter_map(|(_, word)| match word {
            Word::Foreign(name, _) if !self.own.contains_key(&format!("fathom_{name}")) => {
                Some(name.as_str())
            }
            _ => None,
        });
        foreign.collect()
    }

    /// The words to write when the agent is at `base`; functions that the C library lacks become 0.
    pub fn filled(
        &self,
        base: RemoteAddr,
        library: &HashMap<String, RemoteAddr>,
    ) -> impl Iterator<Item = (RemoteAddr, Vec<u8>)> {
        let zeroes = self.zeroes.iter().map(move |(from, to)| {
            (base.offset(*from), vec![0; usize::try_from(to - from).unwrap_or(0)])
        });
        let words = self.words.iter().map(move |(at, word)| {
            let value = match word {
                Word::Own(to) => base.0.wrapping_add(*to),
                Word::Foreign(name, addend) => {
                    let own = self.address(&format!("fathom_{name}"), base);
                    let found = own.or_else(|| library.get(name).copied());
                    found.map_or(0, |found| found.0.wrapping_add(*addend))
                }
            };
            (base.offset(*at), value.to_le_bytes().to_vec())
        });
        zeroes.chain(words)
    }
}

fn words(elf: &ElfFile64<'_>) -> Option<Vec<(u64, Word)>> {
    let symbols = elf.dynamic_symbol_table()?;
    let mut words = Vec::new();
    for (at, relocation) in elf.dynamic_relocations()? {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { return None };
        let addend = relocation.addend().cast_unsigned();
        let word = match relocation.target() {
            object::RelocationTarget::Symbol(index) => {
                let symbol = symbols.symbol_by_index(index).ok()?;
                let addend = if r_type == R_X86_64_64 { addend } else { 0 };
                match symbol.is_definition() {
                    true => Word::Own(symbol.address().wrapping_add(addend)),
                    false => Word::Foreign(symbol.name().ok()?.to_owned(), addend),
                }
            }
            _ => Word::Own(addend),
        };
        words.push((at, word));
    }
    Some(words)
}
