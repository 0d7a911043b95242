//! Variables by address: the data symbols of an ELF file.
//!
//! What for: the name of a lock that threads waited at, from its address in the process.
//! What not: types and members (an address inside of a structure is its name plus an offset), thread-local variables, and
//! what lies on the heap or a stack.
//! Assumption: the file is hostile: symbols may overlap, be without size, or reach anywhere. Work is linear in their number.

use base::{FileOffset, RemoteAddr};
use object::read::{Object as _, ObjectSymbol as _};

use crate::elf::Elf;

/// A symbol without a size is taken for one of at most so many bytes.
const LARGEST_WITHOUT_SIZE: u64 = 4096;

struct Variable {
    start: u64,
    size: u64,
    name: String,
}

/// The variables of a file.
pub struct Variables {
    /// By start.
    variables: Vec<Variable>,
    /// Executable segments: start in the file, end in the file, stated address.
    code: Vec<(u64, u64, u64)>,
}

impl Variables {
    /// Reads the symbol table, or the dynamic one where that is all there is.
    #[must_use]
    pub fn new(elf: &Elf<'_>) -> Variables {
        let file = elf.file();
        let is_data = |symbol: &object::Symbol<'_, '_>| {
            symbol.kind() == object::SymbolKind::Data && symbol.address() != 0
        };
        let mut variables: Vec<Variable> = file
            .symbols()
            .filter(is_data)
            .chain(file.dynamic_symbols().filter(is_data))
            .filter_map(|symbol| {
                let name = symbol.name().ok()?.to_owned();
                Some(Variable { start: symbol.address(), size: symbol.size(), name })
            })
            .collect();
        // Of several names of one address the first in the alphabet, so that the answer is always the same.
        variables.sort_by(|a, b| (a.start, &a.name).cmp(&(b.start, &b.name)));
        variables.dedup_by_key(|variable| variable.start);
        Variables { variables, code: elf.code_segments().collect() }
    }

    /// The name at `address` of a process that has the file's code at offset `offset` mapped at `mapped`: `lock`, or
    /// `table+0x28` inside of a variable.
    #[must_use]
    pub fn at(
        &self,
        address: RemoteAddr,
        mapped: RemoteAddr,
        offset: FileOffset,
    ) -> Option<String> {
        // Mappings are rounded to pages, so they may begin a little before their segment does.
        let holds =
            |(start, end, _): &&(u64, u64, u64)| start & !0xfff <= offset.0 && offset.0 < *end;
        let (start, _, stated) = self.code.iter().find(holds)?;
        let mapped_stated = stated.wrapping_sub(*start).wrapping_add(offset.0);
        let wanted = address.0.wrapping_sub(mapped.0).wrapping_add(mapped_stated);
        let next = self.variables.partition_point(|variable| variable.start <= wanted);
        let variable = self.variables.get(next.checked_sub(1)?)?;
        let inside = wanted - variable.start;
        let size = if variable.size > 0 { variable.size } else { LARGEST_WITHOUT_SIZE };
        match inside {
            0 => Some(variable.name.clone()),
            inside if inside < size => Some(format!("{}+{inside:#x}", variable.name)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_variable_or_inside_of_one_or_none() {
        let variable = |start, size, name: &str| Variable { start, size, name: name.to_owned() };
        let variables = vec![variable(0x4000, 40, "lock"), variable(0x4040, 128, "table")];
        let variables = Variables { variables, code: vec![(0x1010, 0x2000, 0x1010)] };
        let at = |address| {
            variables.at(RemoteAddr(address), RemoteAddr(0x5555_0000_1000), FileOffset(0x1000))
        };
        assert_eq!(at(0x5555_0000_4000).as_deref(), Some("lock"));
        assert_eq!(at(0x5555_0000_4068).as_deref(), Some("table+0x28"));
        assert_eq!(at(0x5555_0000_4030), None);
        assert_eq!(at(0x10), None);
    }
}
