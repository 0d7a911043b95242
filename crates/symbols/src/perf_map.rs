//! Names of JIT-compiled code, `/tmp/perf-PID.map`, and of a process's data in the same form.
//!
//! What for: absolute address in one process to the name that its JIT compiler, or itself, wrote. What not: jitdump, source
//! lines. Assumptions: lines are `START SIZE NAME`, numbers in hex without (sometimes with) `0x`, names to the end of
//! the line (Linux: tools/perf/Documentation/jit-interface.txt). Code moves and is replaced without notice, so the
//! later of two overlapping entries is right. The profiled process writes the file: it is hostile until checked.

use std::collections::BTreeMap;

use base::{Bytes, RemoteAddr};

use crate::demangle::Demangler;
use crate::{Demangle, Error, function_name};

/// Largest text that is parsed.
pub const PERF_MAP_LIMIT: Bytes = Bytes(256 << 20);

/// Longest range that is believed, bytes: data may be as large as memory.
const LONGEST: u64 = 1 << 44;

#[derive(Clone, Copy, Debug)]
struct Entry<'text> {
    end: u64,
    name: &'text [u8],
}

/// JIT-compiled functions of one process by address.
#[derive(Debug)]
pub struct PerfMap<'text> {
    /// By start; never overlapping.
    entries: BTreeMap<u64, Entry<'text>>,
    skipped: usize,
    demangler: Demangler,
}

impl<'text> PerfMap<'text> {
    /// Parses the text of a perf map. Lines that are not understood are skipped and counted.
    ///
    /// # Errors
    /// [`Error::TooLarge`] past [`PERF_MAP_LIMIT`].
    pub fn parse(text: &'text [u8]) -> Result<PerfMap<'text>, Error> {
        let actual = Bytes(text.len() as u64);
        if actual > PERF_MAP_LIMIT {
            return Err(Error::TooLarge { actual, limit: PERF_MAP_LIMIT });
        }
        let mut map = PerfMap {
            entries: BTreeMap::new(),
            skipped: 0,
            demangler: Demangler::new(Demangle::Yes),
        };
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match entry(line) {
                Some((start, entry)) => map.insert(start, entry),
                None => map.skipped += 1,
            }
        }
        Ok(map)
    }

    /// The function at `address`.
    #[must_use]
    pub fn lookup(&self, address: RemoteAddr, demangle: Demangle) -> Option<String> {
        let (_, entry) = self.entries.range(..=address.0).next_back()?;
        (address.0 < entry.end).then(|| match demangle {
            Demangle::Yes => self.demangler.name(entry.name),
            Demangle::No => function_name(entry.name, Demangle::No),
        })
    }

    /// All ranges with their names, by address. None overlap.
    pub fn ranges(&self) -> impl Iterator<Item = (RemoteAddr, Bytes, String)> + '_ {
        self.entries.iter().map(|(start, Entry { end, name })| {
            (RemoteAddr(*start), Bytes(end - start), function_name(name, Demangle::No))
        })
    }

    /// How many lines were not understood.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Inserts `new` and removes what it covers. Each entry is inserted once and removed at most once, so all
    /// insertions take n log n.
    fn insert(&mut self, start: u64, new: Entry<'text>) {
        if let Some((before, entry)) =
            self.entries.range(..start).next_back().map(|(at, e)| (*at, *e))
            && entry.end > start
        {
            // The later line is right: the code that was here has been replaced.
            self.entries.insert(before, Entry { end: start, name: entry.name });
            if entry.end > new.end {
                self.entries.insert(new.end, entry);
            }
        }
        while let Some((at, entry)) =
            self.entries.range(start..new.end).next().map(|(at, e)| (*at, *e))
        {
            self.entries.remove(&at);
            if entry.end > new.end {
                self.entries.insert(new.end, entry);
            }
        }
        self.entries.insert(start, new);
    }
}

fn entry(line: &[u8]) -> Option<(u64, Entry<'_>)> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let start = number(words.next()?)?;
    let size = number(words.next()?)?;
    let name = words.next()?.trim_ascii();
    if size == 0 || size > LONGEST || name.is_empty() {
        return None;
    }
    Some((start, Entry { end: start.checked_add(size)?, name }))
}

fn number(word: &[u8]) -> Option<u64> {
    let word = std::str::from_utf8(word).ok()?;
    let digits = word.strip_prefix("0x").unwrap_or(word);
    // from_str_radix would take a sign.
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(map: &PerfMap<'_>, addresses: std::ops::Range<u64>) -> String {
        let names = addresses.map(|address| map.lookup(RemoteAddr(address), Demangle::Yes));
        names.map(|name| name.unwrap_or_else(|| "-".to_owned())).collect::<Vec<_>>().join("")
    }

    #[test]
    fn later_entries_win() {
        let map = PerfMap::parse(b"10 8 a\n12 2 b\n0x16 4 c\n19 1 d\n").unwrap();
        assert_eq!(shown(&map, 0xf..0x1b), "-aabbaaccc".to_owned() + "d-");
        let covering = PerfMap::parse(b"10 2 a\n12 2 b\n14 4 c\nf 7 all\n").unwrap();
        assert_eq!(shown(&covering, 0xe..0x19), "-allallallallallallallcc-");
        let ranges: Vec<_> =
            covering.ranges().map(|(at, size, name)| (at.0, size.0, name)).collect();
        assert_eq!(ranges, [(0xf, 7, "all".to_owned()), (0x16, 2, "c".to_owned())]);
    }

    #[test]
    fn names_keep_their_spaces() {
        let map = PerfMap::parse(b"1000 10 LazyCompile:~sum of file.js:1:2\r\n").unwrap();
        let name = map.lookup(RemoteAddr(0x1000), Demangle::Yes);
        assert_eq!(name.as_deref(), Some("LazyCompile:~sum of file.js:1:2"));
    }

    #[test]
    fn hostile_lines_are_skipped_and_counted() {
        let text = b"\n10\n10 0 empty\nffffffffffffffff 2 wraps\n10 ffffffffffff huge\n-1 10 sign\n\xff\xfe\n10 10 \n20 1 ok\n";
        let map = PerfMap::parse(text).unwrap();
        assert_eq!(map.skipped(), 7);
        assert_eq!(shown(&map, 0x1f..0x22), "-ok-");
    }
}
