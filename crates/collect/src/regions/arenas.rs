//! Recognises further heaps of glibc's malloc among anonymous mappings: those of threads, or where the first heap
//! could not grow.
//!
//! What for: the C library maps them itself, so no call is observed; accesses in them are to heap blocks. What not:
//! the first heap, which the kernel names; heaps of other allocators; the mappings of single large blocks.
//!
//! Facts (glibc malloc/arena.c, 2.10 to 2.41): such a heap begins at a multiple of HEAP_MAX_SIZE, which is 64 MiB
//! with 8-byte pointers unless a tunable selects huge pages, with a `heap_info`: `ar_ptr`, `prev`, `size`,
//! `mprotect_size`, 8 bytes each. The first `mprotect_size` bytes are writable, the rest is inaccessible. `ar_ptr` is
//! the same in all heaps of an arena. It points right after the `heap_info` of the first heap, whose `prev` is null;
//! that structure has 32 or 48 bytes.
//!
//! The memory is the program's and untrusted: a range counts only if all of this holds. A heap that is read while it
//! changes stays anonymous memory until the next reading.

use base::{Pid, RemoteAddr};
use facts::RegionKind;
use sys::trace::read_pieces;

use super::known::Range;

/// What such a range is called.
pub const NAME: &str = "[arena]";
const HEAP_MAX: u64 = 64 << 20;
const PAGE: u64 = 4096;
const WORDS: usize = 4;
/// Most heaps of an arena that are followed back to the first.
const MOST_HEAPS: usize = 4096;

type HeapInfo = [u64; WORDS];

/// Sets kind and name of the ranges that are such heaps.
pub fn name(pid: Pid, ranges: &mut [Range]) {
    let read = |at: RemoteAddr| {
        let mut bytes = [0; 8 * WORDS];
        read_pieces(pid, &[(at, bytes.len())], &mut bytes).then(|| words(&bytes))
    };
    name_by(ranges, read);
}

fn words(bytes: &[u8; 8 * WORDS]) -> HeapInfo {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|number| u64::from_le_bytes(words[number]))
}

fn name_by(ranges: &mut [Range], read: impl Fn(RemoteAddr) -> Option<HeapInfo>) {
    for range in ranges {
        let length = range.end.0 - range.start.0;
        let may_be = range.backing.kind == RegionKind::Anonymous && range.backing.name.is_empty();
        if may_be && length <= HEAP_MAX && is_heap(range.start, length, &read) {
            (range.backing.kind, range.backing.name) = (RegionKind::Break, NAME.into());
        }
    }
}

fn is_heap(start: RemoteAddr, length: u64, read: &impl Fn(RemoteAddr) -> Option<HeapInfo>) -> bool {
    if !start.0.is_multiple_of(HEAP_MAX) {
        return false;
    }
    let Some([arena, mut prev, size, accessible]) = read(start) else { return false };
    let fits = size > 0 && size.is_multiple_of(PAGE) && size <= accessible;
    if !fits || accessible != length {
        return false;
    }
    let mut first = start.0;
    for _ in 0..MOST_HEAPS {
        if prev == 0 {
            return [32, 48].map(|header| first + header).contains(&arena);
        }
        first = prev;
        if !first.is_multiple_of(HEAP_MAX) {
            return false;
        }
        match read(RemoteAddr(first)) {
            Some([same, before, ..]) if same == arena => prev = before,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use base::FileOffset;

    use super::super::known::Backing;
    use super::super::snapshot::Snapshot;
    use super::*;

    const FIRST: u64 = 5 * HEAP_MAX;
    const SECOND: u64 = 9 * HEAP_MAX;

    fn kinds(infos: &[(u64, HeapInfo)], ranges: &[(u64, u64)]) -> Vec<RegionKind> {
        let infos: HashMap<u64, HeapInfo> = infos.iter().copied().collect();
        let backing = Backing { kind: RegionKind::Anonymous, name: "".into(), page: None };
        let range = |(start, length): &(u64, u64)| Range {
            start: RemoteAddr(*start),
            end: RemoteAddr(start + length),
            offset: FileOffset(0),
            backing: backing.clone(),
        };
        let mut ranges: Vec<Range> = ranges.iter().map(range).collect();
        name_by(&mut ranges, |at| infos.get(&at.0).copied());
        ranges.iter().map(|range| range.backing.kind).collect()
    }

    #[test]
    fn heaps_are_known_by_what_they_say_of_themselves() {
        use RegionKind::{Anonymous, Break};
        let first = (FIRST, [FIRST + 48, 0, 0x20_000, 0x21_000]);
        let second = (SECOND, [FIRST + 48, FIRST, HEAP_MAX, HEAP_MAX]);
        let ranges = [(FIRST, 0x21_000), (SECOND, HEAP_MAX)];
        assert_eq!(kinds(&[first, second], &ranges), [Break, Break]);
        let of_old_glibc = (FIRST, [FIRST + 32, 0, 0x21_000, 0x21_000]);
        assert_eq!(kinds(&[of_old_glibc], &ranges[..1]), [Break]);
        // Without the first one, with another length, at another place, with other contents.
        assert_eq!(kinds(&[second], &ranges), [Anonymous, Anonymous]);
        assert_eq!(kinds(&[first], &[(FIRST, 0x22_000)]), [Anonymous]);
        let adjacent = (FIRST + PAGE, [FIRST + PAGE + 48, 0, 0x20_000, 0x21_000]);
        assert_eq!(kinds(&[adjacent], &[(FIRST + PAGE, 0x21_000)]), [Anonymous]);
        assert_eq!(kinds(&[(FIRST, [0; 4])], &ranges[..1]), [Anonymous]);
        // Each says that the other comes before it.
        let circle = [
            (FIRST, [FIRST + 48, SECOND, HEAP_MAX, HEAP_MAX]),
            (SECOND, [FIRST + 48, FIRST, HEAP_MAX, HEAP_MAX]),
        ];
        assert_eq!(kinds(&circle, &[(SECOND, HEAP_MAX)]), [Anonymous]);
    }

    /// A thread of this process asks for a block, and gets it from a heap that is not the first one.
    #[test]
    fn the_heap_of_a_thread_is_found() {
        let own = Pid(std::process::id().cast_signed());
        std::thread::spawn(move || {
            let block = vec![1_u8; 1000];
            let at = block.as_ptr() as u64;
            // Another thread may be making it larger just now.
            let found = (0..100).any(|_| {
                let mut ranges = Snapshot::parse(&tracee::maps::read(own), &[], None).ranges;
                name(own, &mut ranges);
                let mut holding =
                    ranges.iter().filter(|range| range.start.0 <= at && at < range.end.0);
                holding.any(|range| range.backing.kind == RegionKind::Break)
            });
            assert!(found, "{at:x} {}", tracee::maps::read(own));
        })
        .join()
        .unwrap();
    }
}
