//! The code of a process: where it is, a copy of its bytes, and whether they are unchanged.
//!
//! What for: only code in private read-only mappings of files, and the vdso, is translated. Its bytes are compared
//! with the process's memory before every burst, and again after the stop where pages faulted in between
//! (`Program::is_as_compared`).
//!
//! Within the milliseconds of a burst, another thread may replace a library. So in a process of several threads, code of a
//! library is translated only with a [`Witness`], which translated code compares whenever it comes in by an indirect branch:
//! decision 0010. The program itself and the vdso stay. What not: changes by another thread *within* a file's mapping that leave
//! its witness alone. Programs that patch themselves do so in anonymous or writable memory, which is refused.

use std::cell::OnceCell;
use std::path::Path;

use base::{Pid, RemoteAddr};
use object::{Object, ObjectSection, ObjectSegment};
use sys::map::FileMap;
use sys::trace::{read_memory, read_pieces};
use tracee::maps;
use x86::CodeSource;
use x86::translate::Witness;

use crate::remote_call::{CAVE_BYTES, is_left_behind};
use crate::witness::witness_in;

const PAGE: u64 = 4096;
/// Bounds our memory; no program in practice has a larger text.
const LARGEST_RANGE: u64 = 1 << 30;
/// Most restartable sequences read from one file.
const MOST_SEQUENCES: usize = 4096;

type Page = Option<Box<[u8]>>;

/// One executable mapping.
struct Range {
    start: RemoteAddr,
    end: RemoteAddr,
    pages: Vec<OnceCell<Page>>,
    witness: Option<Witness>,
}

/// Any mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First address.
    pub start: RemoteAddr,
    /// First address behind it.
    pub end: RemoteAddr,
}

impl Extent {
    fn holds(&self, address: RemoteAddr) -> bool {
        self.start <= address && address < self.end
    }
}

/// The code of one process.
pub struct CodeMap {
    pid: Pid,
    ranges: Vec<Range>,
    /// Every mapping, by address.
    extents: Vec<Extent>,
    /// Code may be replaced at any time: there are several threads.
    changeable: bool,
    /// Restartable sequences (rseq(2)) that files declare.
    sequences: Vec<Extent>,
    /// Room to compare in.
    now: Vec<u8>,
}

/// Free places for what we bring into a process. Searched while the process runs: with many mappings the search takes
/// long.
pub struct Places {
    text: String,
    map: CodeMap,
    cave: Option<RemoteAddr>,
}

impl Places {
    /// Looks at a process.
    #[must_use]
    pub fn of(pid: Pid) -> Places {
        let text = maps::read(pid);
        let map = CodeMap::parse(pid, &text, false, false);
        let cave = map.cave(CAVE_BYTES);
        Places { text, map, cave }
    }

    /// Whether the process still has the same mappings.
    #[must_use]
    pub fn hold(&self) -> bool {
        maps::read(self.map.pid) == self.text
    }

    /// A place for calls on our behalf: see [`CodeMap::cave`].
    #[must_use]
    pub fn cave(&self) -> Option<RemoteAddr> {
        self.cave
    }

    /// Room for code: see [`CodeMap::gap_near`].
    #[must_use]
    pub fn gap_near(&self, near: RemoteAddr, size: u64, reach: u64) -> Option<RemoteAddr> {
        self.map.gap_near(near, size, reach)
    }
}

impl CodeMap {
    /// Reads the mappings of a process, and what their files declare; no bytes yet. `changeable`: other threads of the process
    /// may replace code while one runs it.
    #[must_use]
    pub fn read(pid: Pid, changeable: bool) -> CodeMap {
        CodeMap::parse(pid, &maps::read(pid), true, changeable)
    }

    fn parse(pid: Pid, text: &str, with_sequences: bool, changeable: bool) -> CodeMap {
        // The program may have no path: one in a memfd, which is executed as any file is.
        let executed = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let (ranges, extents, sequences) = (Vec::new(), Vec::new(), Vec::new());
        let now = Vec::new();
        let mut map = CodeMap { pid, ranges, extents, changeable, sequences, now };
        // The start of the file of the lines that follow, and its witness.
        let mut head: Option<(maps::MapsLine<'_>, OnceCell<Option<Witness>>)> = None;
        for line in text.lines().filter_map(maps::parse_line) {
            map.extents.push(Extent { start: line.start, end: line.end });
            if line.offset.0 == 0 && line.inode != 0 && line.readable {
                head = Some((line, OnceCell::new()));
            }
            if !line.executable {
                continue;
            }
            let odd = ["/memfd:", "/dev/", "/SYSV"].iter().any(|odd| line.name.starts_with(odd));
            let is_program = executed.as_os_str() == line.name;
            let of_file = line.inode != 0 && line.name.starts_with('/') && (is_program || !odd);
            let length = line.end.0 - line.start.0;
            if line.writable || !(of_file || line.name == "[vdso]") || length > LARGEST_RANGE {
                continue;
            }
            let is_head =
                |head: &maps::MapsLine<'_>| (head.inode, head.name) == (line.inode, line.name);
            let own = head.as_ref().filter(|(head, _)| changeable && is_head(head));
            let witness = own.and_then(|(head, witness)| {
                *witness.get_or_init(|| witness_in(pid, head.start, head.end))
            });
            if changeable && of_file && !is_program && witness.is_none() {
                continue;
            }
            let witness = witness.filter(|_| !is_program);
            let pages = (0..length.div_ceil(PAGE)).map(|_| OnceCell::new()).collect();
            map.ranges.push(Range { start: line.start, end: line.end, pages, witness });
            if of_file && with_sequences {
                let path = match is_program {
                    true => format!("/proc/{pid}/exe"),
                    false => format!("/proc/{pid}/root{}", line.name),
                };
                map.note_sequences(Path::new(&path), &line);
            }
        }
        map
    }

    /// Reads the mappings again: libraries come and go. Keeps the bytes of mappings that stayed. Returns false when
    /// code that was read is no longer mapped.
    pub fn update(&mut self) -> bool {
        let mut new = CodeMap::read(self.pid, self.changeable);
        let mut kept = true;
        for old in std::mem::take(&mut self.ranges) {
            let same = |range: &&mut Range| {
                (range.start, range.end, range.witness) == (old.start, old.end, old.witness)
            };
            match new.ranges.iter_mut().find(same) {
                Some(range) => range.pages = old.pages,
                None => kept &= old.pages.iter().all(|page| page.get().is_none()),
            }
        }
        *self = new;
        kept
    }

    /// Whether other threads of the process may replace code while one runs it.
    #[must_use]
    pub fn is_changeable(&self) -> bool {
        self.changeable
    }

    /// What tells whether the code at this address is still what was read, if it may be replaced.
    #[must_use]
    pub fn witness(&self, address: RemoteAddr) -> Option<Witness> {
        self.range(address)?.witness
    }

    /// Whether the code at this address is still of the library of which it was read. For a thread that stands still in front
    /// of it.
    #[must_use]
    pub fn is_there(&self, address: RemoteAddr) -> bool {
        self.witness(address).is_none_or(|witness| {
            let mut word = [0; 4];
            read_memory(self.pid, witness.at, &mut word) == word.len()
                && u32::from_le_bytes(word) == witness.word
        })
    }

    /// Whether code at this address may be translated.
    #[must_use]
    pub fn holds(&self, address: RemoteAddr) -> bool {
        self.range(address).is_some()
    }

    /// Whether any code lies in these bytes.
    #[must_use]
    pub fn has_code_in(&self, start: RemoteAddr, bytes: u64) -> bool {
        let end = start.0.saturating_add(bytes);
        self.ranges.iter().any(|range| range.start.0 < end && start < range.end)
    }

    /// Whether it lies in a restartable sequence.
    #[must_use]
    pub fn in_sequence(&self, address: RemoteAddr) -> bool {
        self.sequences.iter().any(|sequence| sequence.holds(address))
    }

    fn range(&self, address: RemoteAddr) -> Option<&Range> {
        let behind = self.ranges.partition_point(|range| range.start <= address);
        self.ranges.get(behind.checked_sub(1)?).filter(|range| address < range.end)
    }

    /// Whether the process still has all bytes that were read.
    #[must_use]
    pub fn is_unchanged(&mut self) -> bool {
        let read = |range: &Range| {
            let start = range.start;
            range
                .pages
                .iter()
                .enumerate()
                .filter_map(move |(number, page)| {
                    let bytes = page.get()?.as_deref()?;
                    Some((RemoteAddr(start.0 + number as u64 * PAGE), bytes.len()))
                })
                .collect::<Vec<_>>()
        };
        let mut witnesses: Vec<Witness> =
            self.ranges.iter().filter_map(|range| range.witness).collect();
        witnesses.dedup();
        let word = |witness: &Witness| (witness.at, size_of::<u32>());
        let pieces: Vec<(RemoteAddr, usize)> =
            self.ranges.iter().flat_map(read).chain(witnesses.iter().map(word)).collect();
        self.now.resize(pieces.iter().map(|(_, length)| length).sum(), 0);
        if !read_pieces(self.pid, &pieces, &mut self.now) {
            return false;
        }
        let known = self
            .ranges
            .iter()
            .flat_map(|range| range.pages.iter().filter_map(|page| page.get()?.as_deref()));
        let mut rest = self.now.as_slice();
        let are_pages_same = known.into_iter().all(|page| {
            let (here, behind) = rest.split_at(page.len());
            rest = behind;
            here == page
        });
        let words = witnesses.iter().flat_map(|witness| witness.word.to_le_bytes());
        are_pages_same && rest.iter().copied().eq(words)
    }

    /// A free place for `size` bytes within `reach` of the code around `near`, with no heap or stack growing into it:
    /// below the code if possible, else as far above as reach allows.
    #[must_use]
    pub fn gap_near(&self, near: RemoteAddr, size: u64, reach: u64) -> Option<RemoteAddr> {
        /// The lowest pages stay free: a null pointer with an offset must fault as before.
        const LOWEST: u64 = 64 << 20;
        /// Stacks and heaps grow into the space next to them: keep this far away.
        const MARGIN: u64 = 4 << 20;
        let fits = |low: u64, high: u64| high.checked_sub(low).is_some_and(|gap| gap >= size);
        let mut low = LOWEST;
        let mut gaps = Vec::new();
        for extent in &self.extents {
            gaps.push((low, extent.start.0));
            low = low.max(extent.end.0);
        }
        gaps.push((low, 1 << 47));
        let gaps: Vec<(u64, u64)> = gaps
            .into_iter()
            .map(|(low, high)| (low.saturating_add(MARGIN), high.saturating_sub(MARGIN)))
            .collect();
        let lowest = near.0.saturating_sub(reach);
        let below = gaps.iter().rev().filter(|(low, _)| *low < near.0).find_map(|(low, high)| {
            let (low, high) = ((*low).max(lowest), (*high).min(near.0));
            fits(low, high).then(|| high - size)
        });
        let highest = near.0.saturating_add(reach).min(1 << 47);
        let above = || {
            gaps.iter().rev().filter(|(_, high)| *high > near.0).find_map(|(low, high)| {
                let (low, high) = ((*low).max(near.0), (*high).min(highest));
                fits(low, high).then(|| high - size)
            })
        };
        below.or_else(above).map(|address| RemoteAddr(address & !(PAGE - 1)))
    }

    /// Padding after the code of some file: unused zeroes in executable memory, aligned to 8 bytes. Padding that a
    /// killed tracer has used is skipped; there is more in front of it.
    #[must_use]
    pub fn cave(&self, length: u64) -> Option<RemoteAddr> {
        self.ranges.iter().find_map(|range| {
            let mut end = range.end;
            loop {
                let at = RemoteAddr((end.0.checked_sub(length + 8)?) & !7);
                // Padding lies in the last page of the code, between its end and the page boundary.
                if at < range.start || range.end.0 - at.0 > PAGE {
                    return None;
                }
                let mut bytes = vec![1; usize::try_from(end.0 - at.0).ok()?];
                if read_memory(self.pid, at, &mut bytes) != bytes.len() {
                    return None;
                }
                if bytes.iter().all(|byte| *byte == 0) {
                    return Some(at);
                }
                if !is_left_behind(&bytes) {
                    return None;
                }
                end = at;
            }
        })
    }

    /// Reads the restartable sequences of a file. Their descriptors are in the section `__rseq_cs` (librseq,
    /// rseq-x86-64.h), relocated when the file was loaded: struct rseq_cs of include/uapi/linux/rseq.h.
    fn note_sequences(&mut self, path: &Path, line: &maps::MapsLine<'_>) {
        let Some(found) = FileMap::open(path).ok().and_then(|file| declared(&file, line)) else {
            return;
        };
        let (at, length) = found;
        let mut bytes = vec![0; length.min(32 * MOST_SEQUENCES)];
        let got = read_memory(self.pid, at, &mut bytes);
        for descriptor in bytes[..got].chunks_exact(32) {
            let word = |from: usize| {
                let mut word = [0; 8];
                word.copy_from_slice(&descriptor[from..from + 8]);
                u64::from_le_bytes(word)
            };
            let (start, length) = (word(8), word(16));
            let end = RemoteAddr(start.saturating_add(length));
            self.sequences.push(Extent { start: RemoteAddr(start), end });
        }
    }
}

/// Where the descriptors of a mapped file lie in memory.
fn declared(file: &FileMap, line: &maps::MapsLine<'_>) -> Option<(RemoteAddr, usize)> {
    let object = object::File::parse(&**file).ok()?;
    let section = object.section_by_name("__rseq_cs")?;
    let segment = object.segments().find(|segment| {
        let (offset, size) = segment.file_range();
        offset & !(PAGE - 1) <= line.offset.0 && line.offset.0 < offset.saturating_add(size)
    })?;
    let (offset, _) = segment.file_range();
    let bias = line
        .start
        .0
        .wrapping_sub(line.offset.0)
        .wrapping_sub(segment.address())
        .wrapping_add(offset);
    let at = RemoteAddr(bias.wrapping_add(section.address()));
    Some((at, usize::try_from(section.size()).ok()?))
}

impl CodeSource for CodeMap {
    fn bytes_at(&self, address: RemoteAddr) -> &[u8] {
        let Some(range) = self.range(address) else { return &[] };
        if self.in_sequence(address) {
            return &[];
        }
        let offset = address.0 - range.start.0;
        let (number, within) = (offset / PAGE, (offset % PAGE) as usize);
        let Some(page) = usize::try_from(number).ok().and_then(|n| range.pages.get(n)) else {
            return &[];
        };
        let read = || {
            let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
            let at = RemoteAddr(range.start.0 + number * PAGE);
            (read_memory(self.pid, at, &mut bytes) == bytes.len()).then_some(bytes)
        };
        let bytes = match page.get() {
            Some(bytes) => bytes,
            None => {
                let bytes = read();
                // Of a running program: another thread may have put other code here, which is not this library's.
                if !self.is_there(address) {
                    return &[];
                }
                page.get_or_init(|| bytes)
            }
        };
        bytes.as_deref().and_then(|bytes| bytes.get(within..)).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn map(extents: &[(u64, u64)]) -> CodeMap {
        let extent =
            |(start, end): &(u64, u64)| Extent { start: RemoteAddr(*start), end: RemoteAddr(*end) };
        let extents = extents.iter().map(extent).collect();
        let (ranges, sequences, now) = (Vec::new(), Vec::new(), Vec::new());
        CodeMap { pid: Pid(0), ranges, extents, changeable: false, sequences, now }
    }

    fn gap(extents: &[(u64, u64)], near: u64, size: u64) -> Option<u64> {
        map(extents).gap_near(RemoteAddr(near), size, GIB).map(|at| at.0)
    }

    const LIBRARY: (u64, u64) = (0x7f00_0000_0000, 0x7f00_0010_0000);

    #[test]
    fn a_gap_lies_below_the_code_if_it_can() {
        let near = LIBRARY.0 + 0x1234;
        assert_eq!(gap(&[LIBRARY], near, 16 * MIB), Some(LIBRARY.0 - 20 * MIB));
        // A mapping below that leaves too little room between the margins.
        let low = (LIBRARY.0 - 30 * MIB, LIBRARY.0 - 22 * MIB);
        assert_eq!(gap(&[low, LIBRARY], near, 16 * MIB), Some(low.0 - 20 * MIB));
        // Just enough.
        let low = (LIBRARY.0 - 30 * MIB, LIBRARY.0 - 24 * MIB);
        assert_eq!(gap(&[low, LIBRARY], near, 16 * MIB), Some(LIBRARY.0 - 20 * MIB));
    }

    #[test]
    fn a_gap_lies_above_the_code_else() {
        // A program at a fixed address: below it the first pages stay free; its heap grows from above it.
        let program = (0x40_0000, 0x50_0000);
        let at = gap(&[program, (0x60_0000, 0x70_0000)], program.0, 16 * MIB);
        assert_eq!(at, Some(program.0 + GIB - 16 * MIB));
        // What lies there already is kept away from.
        let library = (900 * MIB, 901 * MIB);
        let at = gap(&[program, library, (950 * MIB, 2 * GIB)], program.0, 16 * MIB);
        assert_eq!(at, Some(950 * MIB - 20 * MIB));
    }

    #[test]
    fn a_gap_out_of_reach_is_none() {
        let wall = [(LIBRARY.0 - 2 * GIB, LIBRARY.1), (LIBRARY.1, LIBRARY.1 + 2 * GIB)];
        assert_eq!(gap(&wall, LIBRARY.0, 16 * MIB), None);
        assert_eq!(gap(&[LIBRARY], LIBRARY.0, 2 * GIB), None);
        // Every gap is in reach, aligned and clear of mappings.
        let mut crowd: Vec<_> =
            (1..400).map(|n| LIBRARY.0 - n * 17 * MIB).map(|start| (start, start + MIB)).collect();
        crowd.reverse();
        crowd.push((LIBRARY.1 + 100 * MIB, LIBRARY.1 + 2 * GIB));
        let at = gap(&crowd, LIBRARY.0, 16 * MIB).expect("above the code");
        assert_eq!((at % PAGE, at), (0, LIBRARY.1 + 80 * MIB));
    }

    /// The mappings of this process: its own code can be read, and padding is found in it.
    #[test]
    fn own_code_is_found() {
        let pid = Pid(std::process::id().cast_signed());
        for changeable in [false, true] {
            check_own_code(CodeMap::read(pid, changeable));
        }
    }

    fn check_own_code(mut own: CodeMap) {
        let here = own_code_is_found as fn() as usize as u64;
        assert!(own.holds(RemoteAddr(here)) && !own.in_sequence(RemoteAddr(here)));
        assert!(!own.bytes_at(RemoteAddr(here)).is_empty());
        let data = Box::new(0u64);
        let data = RemoteAddr(std::ptr::from_ref(&*data) as u64);
        assert!(!own.holds(data) && own.bytes_at(data).is_empty());
        assert!(own.is_unchanged());
        assert!(own.update() && own.is_unchanged());
        let cave = own.cave(120).expect("the last page of some code is not full");
        assert_eq!(cave.0 % 8, 0);
        assert!(own.holds(cave) && own.bytes_at(cave).iter().take(120).all(|byte| *byte == 0));
        // The program itself stays; a library may go.
        assert_eq!(own.witness(RemoteAddr(here)), None);
        let witness = own.ranges.iter().find_map(|range| Some((range.start, range.witness?)));
        assert_eq!(witness.is_some(), own.changeable && own.ranges.len() > 2);
        let Some((start, mut witness)) = witness else { return };
        assert!(own.is_there(start) && own.is_unchanged());
        witness.word ^= 1;
        own.ranges.iter_mut().for_each(|range| range.witness = range.witness.map(|_| witness));
        assert!(!own.is_there(start) && own.is_there(RemoteAddr(here)) && !own.is_unchanged());
        assert!(!own.update() && own.is_unchanged(), "the code of the library is read anew");
    }
}
