//! Function names by symbol table, for code without debug information.
//!
//! What for: `.symtab` of the file, else of its debug file, else `.dynsym`; sorted once, searched per address. What
//! not: names of data, demangling. Assumption: a symbol without a size extends to the next symbol or the end of its
//! section, whichever comes first: that is how assemblers and hand-written entry points use them.

use object::SymbolKind;
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};

use crate::elf::{Elf, LinkAddress};

/// How many symbols that start before an address are tried; only nested symbols need more than one.
const NESTING_LIMIT: usize = 32;

/// Where the names come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SymbolSource {
    /// `.symtab`.
    Full,
    /// `.dynsym`: exported and imported functions only.
    Exported,
    /// Nowhere.
    None,
}

/// One function.
#[derive(Clone, Copy, Debug)]
struct FunctionSymbol<'data> {
    start: LinkAddress,
    end: LinkAddress,
    name: &'data [u8],
    rank: Rank,
}

/// Which of several symbols at one address names it: the smallest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Rank {
    not_function: bool,
    without_size: bool,
    /// 0 global, 1 weak, 2 local.
    binding: u8,
    /// `malloc` before `__libc_malloc`.
    underscores: usize,
}

/// All functions of a module by address.
#[derive(Debug)]
pub(crate) struct FunctionSymbols<'data> {
    sorted: Vec<FunctionSymbol<'data>>,
    source: SymbolSource,
}

impl<'data> FunctionSymbols<'data> {
    /// Reads the best table that `main` and `debug` have.
    pub(crate) fn read(main: &Elf<'data>, debug: Option<&Elf<'data>>) -> FunctionSymbols<'data> {
        let full = [Some(main), debug].into_iter().flatten();
        for elf in full {
            let sorted = sorted(elf, elf.file().symbols());
            if !sorted.is_empty() {
                return FunctionSymbols { sorted, source: SymbolSource::Full };
            }
        }
        let sorted = sorted(main, main.file().dynamic_symbols());
        let source = if sorted.is_empty() { SymbolSource::None } else { SymbolSource::Exported };
        FunctionSymbols { sorted, source }
    }

    pub(crate) fn source(&self) -> SymbolSource {
        self.source
    }

    /// The name of the innermost function that covers `address`.
    pub(crate) fn lookup(&self, address: LinkAddress) -> Option<&'data [u8]> {
        let behind = self.sorted.partition_point(|symbol| symbol.start <= address);
        let candidates = self.sorted[..behind].iter().rev().take(NESTING_LIMIT);
        candidates.into_iter().find(|symbol| address < symbol.end).map(|symbol| symbol.name)
    }
}

fn sorted<'data, 'file>(
    elf: &'file Elf<'data>,
    symbols: object::read::SymbolIterator<'data, 'file>,
) -> Vec<FunctionSymbol<'data>> {
    // Names are found by searching for their end; symbols that all point at one long text would make that
    // quadratic.
    let mut name_bytes_left = elf.bytes().len().saturating_mul(4);
    let mut found = Vec::new();
    for symbol in symbols {
        let Some((function, name_length)) = function(elf, &symbol) else { continue };
        match name_bytes_left.checked_sub(name_length) {
            Some(left) => name_bytes_left = left,
            None => break,
        }
        found.push(function);
    }
    found.sort_unstable_by(|a, b| {
        (a.start, a.rank, a.name.len(), a.name).cmp(&(b.start, b.rank, b.name.len(), b.name))
    });
    found.dedup_by_key(|symbol| symbol.start);
    end_at_next(&mut found);
    found
}

/// The symbol as a function, and the length of its name; a symbol without a size ends with its section for now.
fn function<'data>(
    elf: &Elf<'data>,
    symbol: &object::read::Symbol<'data, '_>,
) -> Option<(FunctionSymbol<'data>, usize)> {
    let not_function = match symbol.kind() {
        SymbolKind::Text => false,
        SymbolKind::Unknown | SymbolKind::Label => true,
        _ => return None,
    };
    let section = elf.file().section_by_index(symbol.section_index()?).ok()?;
    if section.kind() != object::SectionKind::Text && !is_executable(&section) {
        return None;
    }
    let name = symbol.name_bytes().ok()?;
    // Arm marks code and data in between with `$x` and `$d`; `.L` names are the assembler's own.
    if name.is_empty() || name[0] == b'$' || name.starts_with(b".L") {
        return None;
    }
    let start = symbol.address();
    let size = symbol.size();
    let end = match size {
        0 => section.address().saturating_add(section.size()),
        size => start.saturating_add(size),
    };
    let binding = if symbol.is_weak() { 1 } else { 2 * u8::from(symbol.is_local()) };
    let underscores = name.iter().take_while(|byte| **byte == b'_').count();
    let rank = Rank { not_function, without_size: size == 0, binding, underscores };
    let function = FunctionSymbol { start: LinkAddress(start), end: LinkAddress(end), name, rank };
    Some((function, name.len()))
}

/// Debug files keep the headers of code sections without their bytes, so the flag counts, not the content.
fn is_executable(section: &object::read::Section<'_, '_>) -> bool {
    match section.flags() {
        object::SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(object::elf::SHF_EXECINSTR),
        _ => false,
    }
}

fn end_at_next(sorted: &mut [FunctionSymbol<'_>]) {
    for index in 1..sorted.len() {
        let next = sorted[index].start;
        let symbol = &mut sorted[index - 1];
        if symbol.rank.without_size {
            symbol.end = symbol.end.min(next);
        }
    }
}
