//! The kernel's own symbol list, `/proc/kallsyms`.
//!
//! What for: absolute kernel address to function name, with the module's name in brackets. What not: source lines,
//! which need the kernel's debug package.
//!
//! How: the list has 120,000 to 250,000 lines, and a recording some hundred kernel addresses. So the text is read
//! once, piece by piece, and of each line only the address is parsed, unless it is the nearest so far below a wanted
//! address. Assumptions: lines are `ADDRESS TYPE NAME[\t[MODULE]]` with `nm`'s letters (kernel: kernel/kallsyms.c,
//! `s_show`); other lines are skipped. Without the right to see them the kernel prints all addresses as zero
//! (`kptr_restrict`, kernel: Documentation/admin-guide/sysctl/kernel.rst).

use base::{Bytes, RemoteAddr};

use crate::Error;

/// Largest text that is parsed; a distribution kernel with all modules has about 15 MB.
pub const KERNEL_SYMBOLS_LIMIT: Bytes = Bytes(64 << 20);

/// Longest plausible function, bytes: after the last symbol of the kernel or of a module the list has a long gap.
const LONGEST_FUNCTION: u64 = 256 << 10;

/// A longer line is invalid; the kernel's names have at most 512 bytes (KSYM_NAME_LEN).
const LONGEST_LINE: usize = 2048;

#[derive(Clone, Debug)]
struct Symbol {
    start: u64,
    /// `None` for data: it only ends the function before it.
    name: Option<String>,
    /// Which of several names at one address is shown: the smallest, of equals the first.
    rank: u8,
}

/// The functions of the running kernel that some addresses lie in.
#[derive(Debug)]
pub struct KernelSymbols {
    /// The wanted addresses, ascending, each with the nearest symbol at or below it so far and above the address
    /// before.
    wanted: Vec<(u64, Option<Symbol>)>,
    /// The end of a piece of text that is not a whole line yet.
    rest: Vec<u8>,
    read: u64,
    symbols: usize,
    functions: usize,
    shown: bool,
}

impl KernelSymbols {
    /// Begins, for these addresses.
    #[must_use]
    pub fn of(addresses: impl IntoIterator<Item = RemoteAddr>) -> KernelSymbols {
        let mut wanted: Vec<_> = addresses.into_iter().map(|address| (address.0, None)).collect();
        wanted.sort_unstable_by_key(|(address, _)| *address);
        wanted.dedup_by_key(|(address, _)| *address);
        KernelSymbols { wanted, rest: Vec::new(), read: 0, symbols: 0, functions: 0, shown: false }
    }

    /// Takes the next piece of the text of `/proc/kallsyms`, cut anywhere.
    ///
    /// # Errors
    /// [`Error::TooLarge`] past [`KERNEL_SYMBOLS_LIMIT`].
    pub fn read(&mut self, text: &[u8]) -> Result<(), Error> {
        self.read = self.read.saturating_add(text.len() as u64);
        if self.read > KERNEL_SYMBOLS_LIMIT.0 {
            return Err(Error::TooLarge { actual: Bytes(self.read), limit: KERNEL_SYMBOLS_LIMIT });
        }
        let Some((head, after)) = cut(text, |text| text.iter().position(|byte| *byte == b'\n'))
        else {
            self.keep(text);
            return Ok(());
        };
        let mut first = std::mem::take(&mut self.rest);
        first.extend_from_slice(head);
        self.line(&first);
        let whole = after.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        for line in after[..whole].split(|byte| *byte == b'\n') {
            self.line(line);
        }
        self.keep(&after[whole..]);
        Ok(())
    }

    fn keep(&mut self, text: &[u8]) {
        // A text without ends of lines must not fill the memory.
        if self.rest.len() < LONGEST_LINE {
            self.rest.extend_from_slice(text);
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Some((address, rest)) = cut(line, |line| line.iter().position(|byte| *byte == b' '))
        else {
            return;
        };
        let (Some(start), Some((kind, name))) = (hexadecimal(address), rest.split_first()) else {
            return;
        };
        let (is_function, rank) = match kind {
            b'T' => (true, 0),
            b't' => (true, 1),
            b'W' | b'w' => (true, 2),
            // Absolute symbols are offsets and constants, not addresses.
            b'A' | b'a' => return,
            _ => (false, 3),
        };
        let Some(name) = name.strip_prefix(b" ").filter(|name| !name.is_empty()) else { return };
        self.symbols += 1;
        self.shown |= start != 0;
        self.functions += usize::from(is_function);
        // Below the first address that is not below it; the others have it from there in the end.
        let behind = self.wanted.partition_point(|(address, _)| *address < start);
        let Some((_, nearest)) = self.wanted.get_mut(behind) else { return };
        let place = (start, std::cmp::Reverse(rank));
        if nearest.as_ref().is_none_or(|known| place > (known.start, std::cmp::Reverse(known.rank)))
        {
            let name = is_function.then(|| shown(&String::from_utf8_lossy(name)));
            *nearest = Some(Symbol { start, name, rank });
        }
    }

    /// Ends the text. Returns the number of functions in it.
    ///
    /// # Errors
    /// [`Error::KernelAddressesHidden`] if all addresses are zero, [`Error::NoKernelSymbols`] if there is no
    /// function.
    pub fn finish(&mut self) -> Result<usize, Error> {
        let last = std::mem::take(&mut self.rest);
        self.line(&last);
        if self.symbols > 0 && !self.shown {
            return Err(Error::KernelAddressesHidden { symbols: self.symbols });
        }
        if self.functions == 0 {
            return Err(Error::NoKernelSymbols);
        }
        // The nearest symbol below an address is also below all later addresses.
        let mut nearest: Option<Symbol> = None;
        for (_, symbol) in &mut self.wanted {
            match symbol {
                Some(found) => nearest = Some(found.clone()),
                None => symbol.clone_from(&nearest),
            }
        }
        Ok(self.functions)
    }

    /// The function at `address`, one of those wanted, as `name` or `name [module]`; for the end of reading.
    #[must_use]
    pub fn lookup(&self, address: RemoteAddr) -> Option<String> {
        let at = self.wanted.binary_search_by_key(&address.0, |(address, _)| *address).ok()?;
        let symbol = self.wanted[at].1.as_ref()?;
        symbol.name.clone().filter(|_| address.0 - symbol.start < LONGEST_FUNCTION)
    }
}

/// A text before and behind the byte at a place.
fn cut(text: &[u8], at: impl Fn(&[u8]) -> Option<usize>) -> Option<(&[u8], &[u8])> {
    let at = at(text)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits
        .iter()
        .try_fold(0u64, |sum, digit| Some(sum << 4 | u64::from(char::from(*digit).to_digit(16)?)))
}

/// `NAME` or `NAME [MODULE]`.
fn shown(rest: &str) -> String {
    let mut words = rest.split_ascii_whitespace();
    let name = words.next().unwrap_or_default();
    let module = words.next().filter(|word| word.starts_with('[') && word.ends_with(']'));
    module.map_or_else(|| name.to_owned(), |module| format!("{name} {module}"))
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

    const WANTED: [u64; 7] = [
        0,
        0xffff_ffff_8100_0001,
        0xffff_ffff_8100_02ff,
        0xffff_ffff_8100_0300,
        0xffff_ffff_8100_0410,
        0xffff_ffff_c000_0010,
        u64::MAX,
    ];

    fn named<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (usize, Vec<Option<String>>) {
        let mut symbols = KernelSymbols::of(WANTED.map(RemoteAddr));
        pieces.into_iter().try_for_each(|piece| symbols.read(piece)).unwrap();
        let functions = symbols.finish().unwrap();
        (functions, WANTED.iter().map(|address| symbols.lookup(RemoteAddr(*address))).collect())
    }

    #[test]
    fn functions_by_address() {
        let expected = [
            None,
            Some("_stext"),
            Some("do_fault"),
            None,
            Some("weak_one"),
            Some("ext4_read [ext4]"),
            None,
        ];
        let expected = expected.map(|name| name.map(str::to_owned)).to_vec();
        assert_eq!(named([TEXT.as_bytes()]), (5, expected.clone()));
        // However the text is cut, and in whichever order its lines come.
        for size in 1..TEXT.len() {
            assert_eq!(named(TEXT.as_bytes().chunks(size)), (5, expected.clone()), "{size}");
        }
        let lines: Vec<&str> = TEXT.lines().rev().collect();
        let backwards = lines.iter().flat_map(|line| [line.as_bytes(), b"\n"]);
        assert_eq!(named(backwards), (5, expected));
    }

    #[test]
    fn hidden_addresses_are_named() {
        let read = |text: &str| {
            let mut symbols = KernelSymbols::of([RemoteAddr(1)]);
            symbols.read(text.as_bytes()).unwrap();
            symbols.finish()
        };
        let text = "0000000000000000 T _stext\n0000000000000000 t do_fault\n";
        assert_eq!(read(text), Err(Error::KernelAddressesHidden { symbols: 2 }));
        assert_eq!(read(""), Err(Error::NoKernelSymbols));
        assert_eq!(read("ffffffff81000300 D data"), Err(Error::NoKernelSymbols));
    }

    #[test]
    fn a_line_that_does_not_end_takes_little_memory() {
        let mut symbols = KernelSymbols::of([RemoteAddr(1)]);
        let piece = vec![b'a'; 1 << 20];
        let pieces = KERNEL_SYMBOLS_LIMIT.0 / piece.len() as u64;
        (0..pieces).try_for_each(|_| symbols.read(&piece)).unwrap();
        assert!(symbols.rest.len() <= LONGEST_LINE + piece.len());
        assert!(matches!(symbols.read(&piece), Err(Error::TooLarge { .. })));
    }
}
