//! The kernel's own symbol list, `/proc/kallsyms`.
//!
//! What for: absolute kernel address to function name, with the module's name in brackets.
//! What not: no source lines (those need the kernel's debug package).
//! Assumptions: lines are `ADDRESS TYPE NAME[\t[MODULE]]` in `nm`'s letters (kernel: kernel/kallsyms.c,
//! `s_show`); lines that are not are skipped. Without the right to see them the kernel prints all addresses as
//! zero (`kptr_restrict`, kernel: Documentation/admin-guide/sysctl/kernel.rst).

use base::{Bytes, RemoteAddr};

use crate::Error;

/// Largest text that is parsed; a distribution kernel with all modules has about 15 MB.
pub const KERNEL_SYMBOLS_LIMIT: Bytes = Bytes(64 << 20);

/// Longest function that is believed, bytes: behind the last symbol of the kernel or of a module the list names
/// nothing for a long way.
const LONGEST_FUNCTION: u64 = 256 << 10;

#[derive(Debug)]
struct Symbol<'text> {
    start: u64,
    /// `None` for data: it only ends the function before it.
    name: Option<&'text str>,
    module: Option<&'text str>,
    /// Which of several names at one address is shown: the smallest.
    rank: u8,
}

/// The functions of the running kernel by address.
#[derive(Debug)]
pub struct KernelSymbols<'text> {
    sorted: Vec<Symbol<'text>>,
}

impl<'text> KernelSymbols<'text> {
    /// Parses the text of `/proc/kallsyms`.
    ///
    /// # Errors
    /// [`Error::KernelAddressesHidden`] when all addresses are zero, [`Error::NoKernelSymbols`] when there is no
    /// function, [`Error::TooLarge`] past [`KERNEL_SYMBOLS_LIMIT`].
    pub fn parse(text: &'text str) -> Result<KernelSymbols<'text>, Error> {
        let actual = Bytes(text.len() as u64);
        if actual > KERNEL_SYMBOLS_LIMIT {
            return Err(Error::TooLarge { actual, limit: KERNEL_SYMBOLS_LIMIT });
        }
        let mut sorted: Vec<_> = text.lines().filter_map(symbol).collect();
        if !sorted.is_empty() && sorted.iter().all(|symbol| symbol.start == 0) {
            return Err(Error::KernelAddressesHidden { symbols: sorted.len() });
        }
        if sorted.iter().all(|symbol| symbol.name.is_none()) {
            return Err(Error::NoKernelSymbols);
        }
        // Stable, so that of equals the first in the list stays.
        sorted.sort_by_key(|symbol| (symbol.start, symbol.rank));
        sorted.dedup_by_key(|symbol| symbol.start);
        Ok(KernelSymbols { sorted })
    }

    /// The function at `address`, as `name` or `name [module]`.
    #[must_use]
    pub fn lookup(&self, address: RemoteAddr) -> Option<String> {
        let behind = self.sorted.partition_point(|symbol| symbol.start <= address.0);
        let symbol = self.sorted[..behind].last()?;
        let name = symbol.name.filter(|_| address.0 - symbol.start < LONGEST_FUNCTION)?;
        Some(match symbol.module {
            Some(module) => format!("{name} {module}"),
            None => name.to_owned(),
        })
    }

    /// How many functions are known.
    #[must_use]
    pub fn functions(&self) -> usize {
        self.sorted.iter().filter(|symbol| symbol.name.is_some()).count()
    }
}

fn symbol(line: &str) -> Option<Symbol<'_>> {
    let mut words = line.split_ascii_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let name = words.next()?;
    let module = words.next().filter(|word| word.starts_with('[') && word.ends_with(']'));
    // Absolute symbols ("a") are offsets and constants, not places.
    let (name, rank) = match kind {
        "T" => (Some(name), 0),
        "t" => (Some(name), 1),
        "W" | "w" => (Some(name), 2),
        "A" | "a" => return None,
        _ => (None, 3),
    };
    Some(Symbol { start, name, module, rank })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 t local_alias
ffffffff81000000 T _stext
ffffffff81000100 t do_fault
ffffffff81000300 D some_data
ffffffff81000400 W weak_one
garbage
zzzz T bad_address
ffffffffc0000000 t ext4_read\t[ext4]
";

    #[test]
    fn functions_by_address() {
        let symbols = KernelSymbols::parse(TEXT).unwrap();
        let shown = [
            0,
            0xffff_ffff_8100_0001,
            0xffff_ffff_8100_02ff,
            0xffff_ffff_8100_0300,
            0xffff_ffff_8100_0410,
        ]
        .map(|address| symbols.lookup(RemoteAddr(address)));
        let expected = [None, Some("_stext"), Some("do_fault"), None, Some("weak_one")]
            .map(|name| name.map(str::to_owned));
        assert_eq!(shown, expected);
        let in_module = symbols.lookup(RemoteAddr(0xffff_ffff_c000_0010));
        assert_eq!(in_module.as_deref(), Some("ext4_read [ext4]"));
        assert_eq!(symbols.lookup(RemoteAddr(u64::MAX)), None);
        assert_eq!(symbols.functions(), 4);
    }

    #[test]
    fn hidden_addresses_are_named() {
        let text = "0000000000000000 T _stext\n0000000000000000 t do_fault\n";
        assert_eq!(
            KernelSymbols::parse(text).unwrap_err(),
            Error::KernelAddressesHidden { symbols: 2 }
        );
        assert_eq!(KernelSymbols::parse("").unwrap_err(), Error::NoKernelSymbols);
    }
}
