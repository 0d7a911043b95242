//! Variables of a module, with their addresses, from its symbol table.
//!
//! What for: `.symtab` of the file, else of its debug file, else `.dynsym`. Data without a symbol is named by its
//! section, so that data of a stripped file has at least that name. What not: thread-local variables, which have no
//! address of their own; local variables of functions; types (DWARF). A static variable of a C function keeps the
//! compiler's name (`counter.0`), one of a C++ function is `function()::counter`. Assumption: symbols and sections
//! may be false; work and results are bounded by the size of the file and by `most`. Source: System V gABI, "Symbol
//! Table" and "Sections".

use std::borrow::Cow;
use std::cmp::Reverse;

use base::{Bytes, FileOffset, RemoteAddr};
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};
use object::{SectionFlags, SymbolKind, elf};

use crate::demangle::{Demangle, Demangler};
use crate::elf::{Elf, LinkAddress};

/// Smaller gaps between symbols are padding.
const LEAST_GAP: u64 = 64;

/// What the loader added to a module's addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LoadBias(u64);

/// A variable, or a part of a section without one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    start: LinkAddress,
    /// At least 1.
    pub bytes: Bytes,
    /// Demangled, or `[.bss of MODULE]`.
    pub name: String,
}

impl Variable {
    /// Where it lies when its module was moved by that much.
    #[must_use]
    pub fn address(&self, moved: LoadBias) -> RemoteAddr {
        RemoteAddr(self.start.0.wrapping_add(moved.0))
    }
}

/// The variables of a module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Variables {
    /// By address; they do not overlap.
    pub list: Vec<Variable>,
    /// How many more there are, all smaller.
    pub left_out: usize,
}

impl Variables {
    /// The name at `address` of a process that has the module moved by that much: `lock`, or `table+0x28` inside of a
    /// variable.
    #[must_use]
    pub fn at(&self, address: RemoteAddr, moved: LoadBias) -> Option<String> {
        let wanted = address.0.wrapping_sub(moved.0);
        let next = self.list.partition_point(|variable| variable.start.0 <= wanted);
        let variable = self.list.get(next.checked_sub(1)?)?;
        match wanted - variable.start.0 {
            0 => Some(variable.name.clone()),
            inside if inside < variable.bytes.0 => Some(format!("{}+{inside:#x}", variable.name)),
            _ => None,
        }
    }
}

impl Elf<'_> {
    /// Distance by which the loader moved the module, if `offset` of it, which is code, is mapped at `start`. `None` when no
    /// code is there.
    #[must_use]
    pub fn load_bias(&self, start: RemoteAddr, offset: FileOffset) -> Option<LoadBias> {
        self.address_of_mapped_code(offset).map(|address| LoadBias(start.0.wrapping_sub(address.0)))
    }
}

/// One symbol, or a part of a section.
struct NamedRange<'data> {
    start: u64,
    end: u64,
    name: Cow<'data, [u8]>,
    /// Which of several at one address names it: the smallest.
    rank: (u8, usize),
}

/// The variables of `main`, whose separate debug file is `debug`; `module` is its name for the reader. Of more than
/// `most` the largest are taken.
#[must_use]
pub fn variables(
    main: &Elf<'_>,
    debug: Option<&Elf<'_>>,
    module: &str,
    demangle: Demangle,
    most: usize,
) -> Variables {
    let full = [Some(main), debug].into_iter().flatten();
    let mut named = full
        .map(|elf| data_symbols(elf, elf.file().symbols()))
        .find(|found| !found.is_empty())
        .unwrap_or_else(|| data_symbols(main, main.file().dynamic_symbols()));
    without_overlaps(&mut named);
    let gaps = gaps(main, &named, module);
    named.extend(gaps);
    let left_out = named.len().saturating_sub(most);
    if left_out > 0 {
        named.sort_unstable_by_key(|range| (Reverse(range.end - range.start), range.start));
        named.truncate(most);
    }
    named.sort_unstable_by_key(|range| range.start);
    let demangler = Demangler::new(demangle);
    let list = named.into_iter().map(|range| Variable {
        start: LinkAddress(range.start),
        bytes: Bytes(range.end - range.start),
        name: demangler.name(&range.name),
    });
    Variables { list: list.collect(), left_out }
}

fn data_symbols<'data, 'file>(
    elf: &'file Elf<'data>,
    symbols: object::read::SymbolIterator<'data, 'file>,
) -> Vec<NamedRange<'data>> {
    // As for functions: symbols that all point at one long text would take quadratic time.
    let mut name_bytes_left = elf.bytes().len().saturating_mul(4);
    let mut found = Vec::new();
    for symbol in symbols {
        // STT_COMMON is a variable too; STT_TLS has a kind of its own.
        if !matches!(symbol.kind(), SymbolKind::Data) || symbol.size() == 0 {
            continue;
        }
        // Undefined and absolute ones have no section.
        let Some(_) = symbol.section_index() else { continue };
        let Ok(name) = symbol.name_bytes() else { continue };
        match name_bytes_left.checked_sub(name.len()) {
            Some(left) => name_bytes_left = left,
            None => break,
        }
        // `stdout@GLIBC_2.2.5`: a variable of a library that the linker copied into the program.
        let name = name.split(|byte| *byte == b'@').next().unwrap_or(name);
        let start = symbol.address();
        let Some(end) = start.checked_add(symbol.size()) else { continue };
        if name.is_empty() || name.starts_with(b".L") {
            continue;
        }
        let binding = if symbol.is_weak() { 1 } else { 2 * u8::from(symbol.is_local()) };
        let underscores = name.iter().take_while(|byte| **byte == b'_').count();
        found.push(NamedRange { start, end, name: name.into(), rank: (binding, underscores) });
    }
    found
}

/// Of several that begin at one address the largest stays, of equal ones the best name; what begins inside of another is
/// a part of it.
fn without_overlaps(ranges: &mut Vec<NamedRange<'_>>) {
    ranges.sort_unstable_by(|a, b| {
        let key = (a.start, Reverse(a.end), a.rank, &a.name);
        key.cmp(&(b.start, Reverse(b.end), b.rank, &b.name))
    });
    let mut end = 0;
    ranges.retain(|range| {
        let stays = range.start >= end;
        end = if stays { range.end } else { end };
        stays
    });
}

/// Parts of the sections with data that lie in none of the symbols, which are sorted.
fn gaps<'data>(elf: &Elf<'_>, named: &[NamedRange<'_>], module: &str) -> Vec<NamedRange<'data>> {
    let mut gaps = Vec::new();
    let mut sections: Vec<(u64, u64, String)> = Vec::new();
    for section in elf.file().sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        let is = |flag| sh_flags.contains(flag);
        let Ok(name) = section.name() else { continue };
        let holds_data = is(elf::SHF_WRITE) || name.starts_with(".rodata");
        if !is(elf::SHF_ALLOC) || is(elf::SHF_TLS) || is(elf::SHF_EXECINSTR) || !holds_data {
            continue;
        }
        let end = section.address().saturating_add(section.size());
        // Names are shown: a hostile one may be long.
        let name: String =
            name.chars().filter(|letter| letter.is_ascii_graphic()).take(40).collect();
        sections.push((section.address(), end, format!("[{name} of {module}]")));
    }
    sections.sort();
    // Sections may overlap: each byte is reported once.
    let mut reported = 0;
    for (start, end, name) in sections {
        let mut at = start.max(reported);
        reported = reported.max(end);
        let first = named.partition_point(|range| range.end <= at);
        let inside = named[first..].iter().take_while(|range| range.start < end);
        let ends = inside.map(|range| (range.start, range.end)).chain([(end, end)]);
        for (next, behind) in ends {
            if next > at && next - at >= LEAST_GAP {
                let name = name.clone().into_bytes().into();
                gaps.push(NamedRange { start: at, end: next, name, rank: (0, 0) });
            }
            at = at.max(behind);
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_variable_or_inside_of_one_or_none() {
        let variable = |start, bytes, name: &str| Variable {
            start: LinkAddress(start),
            bytes: Bytes(bytes),
            name: name.to_owned(),
        };
        let list = vec![variable(0x4000, 40, "lock"), variable(0x4040, 128, "table")];
        let variables = Variables { list, left_out: 0 };
        let at = |address| variables.at(RemoteAddr(address), LoadBias(0x5555_0000_0000));
        assert_eq!(at(0x5555_0000_4000).as_deref(), Some("lock"));
        assert_eq!(at(0x5555_0000_4068).as_deref(), Some("table+0x28"));
        assert_eq!(at(0x5555_0000_4030), None);
        assert_eq!(at(0x10), None);
    }

    #[test]
    fn each_byte_belongs_to_one_name() {
        let symbol = |start, end, name: &'static str, rank| NamedRange {
            start,
            end,
            name: name.as_bytes().into(),
            rank,
        };
        let mut found = vec![
            symbol(0x20, 0x28, "__environ", (0, 2)),
            symbol(0x20, 0x28, "environ", (1, 0)),
            symbol(0x20, 0x28, "_environ", (0, 1)),
            symbol(0x08, 0x10, "inner", (0, 0)),
            symbol(0x00, 0x04, "head", (0, 0)),
            symbol(0x18, 0x24, "across", (0, 0)),
            symbol(0x00, 0x20, "outer", (0, 0)),
        ];
        without_overlaps(&mut found);
        let names: Vec<_> =
            found.iter().map(|found| String::from_utf8_lossy(&found.name)).collect();
        assert_eq!(names, ["outer", "_environ"]);
    }
}
