//! The text of `/proc/PID/maps` as ranges with their backing.
//!
//! What for: the one place that knows how the kernel names mappings (`proc_pid_maps(5)`, fs/proc/task_mmu.c,
//! mm/mmap.c). What not: reading, comparing.
//!
//! Assumption: the text is untrusted, since names are the program's. Left out: our own mappings, and memory without
//! access rights (guard pages, reservations), which becomes a region when it gets access rights.

use std::sync::Arc;

use base::{Bytes, RemoteAddr};
use facts::RegionKind;
use tracee::maps::{self, MapsLine};

use super::known::{Backing, Range};
use crate::recorder::is_our_agent;

/// Most lines read. A program may have 65,530 mappings unless vm.max_map_count was raised.
const MOST_LINES: usize = 200_000;
/// A larger inaccessible range below another one is no guard: it may be the unused rest of a heap of glibc's malloc.
const LARGEST_GUARD: u64 = 1 << 20;

/// A mounted hugetlbfs: where, and the size of its pages.
pub type HugeMount = (String, Option<Bytes>);

/// What was mapped at a moment.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// All that is mapped, accessible or not; ascending.
    pub mapped: Vec<(RemoteAddr, RemoteAddr)>,
    /// What can be accessed.
    pub ranges: Vec<Range>,
    /// Where ranges begin right behind a guard: those may be stacks.
    pub guarded: Vec<RemoteAddr>,
}

impl Snapshot {
    /// Parses the text of maps; skips malformed lines.
    #[must_use]
    pub fn parse(text: &str, huge: &[HugeMount], default_page: Option<Bytes>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        // The name of the line before: mostly the same.
        let mut name: Arc<str> = "".into();
        let mut guard_end = None;
        let mut behind_agent = None;
        for line in text.lines().take(MOST_LINES).filter_map(maps::parse_line) {
            let (start, end) = (line.start, line.end);
            if snapshot.mapped.last().is_some_and(|(_, last)| *last > start) {
                // No kernel says so.
                continue;
            }
            snapshot.mapped.push((start, end));
            let accessible = line.readable || line.writable || line.executable;
            let guards = !accessible && end.0 - start.0 <= LARGEST_GUARD;
            let guarded =
                guard_end.replace(if guards { end } else { RemoteAddr(0) }) == Some(start);
            let agent = is_our_agent(line.name);
            // The agent's .bss follows its data.
            let is_bss = line.name.is_empty() && behind_agent == Some(start);
            behind_agent = (agent && line.writable).then_some(end);
            if agent || is_bss || crate::bursts::is_our_mapping(line.name) || !accessible {
                continue;
            }
            let (kind, page) = kind_of(&line, huge, default_page);
            if *name != *line.name {
                name = line.name.into();
            }
            let backing = Backing { kind, name: Arc::clone(&name), page };
            if guarded && line.writable && kind == RegionKind::Anonymous && line.name.is_empty() {
                snapshot.guarded.push(start);
            }
            snapshot.ranges.push(Range { start, end, offset: line.offset, backing });
        }
        snapshot
    }

    /// The range that holds an address.
    #[must_use]
    pub fn holding(&self, address: RemoteAddr) -> Option<&Range> {
        let behind = self.ranges.partition_point(|range| range.start <= address);
        self.ranges.get(behind.checked_sub(1)?).filter(|range| address < range.end)
    }
}

fn kind_of(
    line: &MapsLine<'_>,
    huge: &[HugeMount],
    default_page: Option<Bytes>,
) -> (RegionKind, Option<Bytes>) {
    let name = line.name;
    if name.starts_with("/anon_hugepage") {
        return (RegionKind::Huge, default_page);
    }
    let below = |place: &str| name.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'));
    if let Some((_, page)) = huge.iter().find(|(place, _)| below(place)) {
        return (RegionKind::Huge, *page);
    }
    let without_file = ["/memfd:", "/dev/zero", "/SYSV", "[anon_shmem:"];
    let kind = match name {
        "[heap]" => RegionKind::Break,
        _ if name.starts_with("[stack") => RegionKind::Stack,
        _ if without_file.iter().any(|special| name.starts_with(special)) => RegionKind::Shared,
        _ if name.is_empty() || name.starts_with("[anon:") => match line.shared {
            true => RegionKind::Shared,
            false => RegionKind::Anonymous,
        },
        // A module, a file, or what the kernel maps like one: [vdso], [vvar].
        _ => RegionKind::File,
    };
    (kind, None)
}

/// The hugetlbfs mounts in `/proc/PID/mounts` (`proc_pid_mounts(5)`; `Documentation/admin-guide/mm/hugetlbpage.rst`).
/// A mount point with a blank in its name, which the kernel writes as `\040`, is not found.
#[must_use]
pub fn huge_mounts(text: &str) -> Vec<HugeMount> {
    let mounts = text.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (place, kind, options) = (fields.nth(1)?, fields.next()?, fields.next()?);
        let size = options.split(',').find_map(|option| option.strip_prefix("pagesize="));
        let place = place.trim_end_matches('/');
        (kind == "hugetlbfs").then(|| (place.to_owned(), size.and_then(bytes_of)))
    });
    mounts.collect()
}

/// `2M`, `1G`, `512K`.
fn bytes_of(text: &str) -> Option<Bytes> {
    let unit = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|bytes| *bytes > 0).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::super::known::KnownRanges;
    use super::*;

    const MAPS: &str = "\
55d0c0de1000-55d0c0de5000 r-xp 00001000 fe:00 131093 /usr/bin/my program
55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 
7f0000021000-7f0004000000 ---p 00000000 00:00 0 
7f0100000000-7f0100001000 ---p 00000000 00:00 0 
7f0100001000-7f0100801000 rw-p 00000000 00:00 0 
7f0110000000-7f0110200000 rw-s 00000000 00:0f 77 /anon_hugepage (deleted)
7f0120000000-7f0120200000 rw-s 00000000 00:2f 78 /mnt/huge/pool
7f0120200000-7f0120400000 rw-s 00000000 00:2f 79 /mnt/hugely
7f0130000000-7f0130001000 rw-s 00000000 00:01 5 /dev/zero (deleted)
7f0130001000-7f0130002000 rw-s 00000000 00:01 6 /memfd:cache (deleted)
7f0140000000-7f0140003000 r--p 00000000 fe:00 9 /home/u/.cache/fathom/libfathom_agent-0123.so
7f0140003000-7f0140004000 rw-p 00003000 fe:00 9 /home/u/.cache/fathom/libfathom_agent-0123.so
7f0140004000-7f0141003000 rw-p 00000000 00:00 0 
7f0141003000-7f0141004000 r--p 00000000 fe:00 9 /home/u/.cache/fathom/libfathom_agent-0123.so
7f0141004000-7f0141005000 rw-s 00000000 00:01 7 /memfd:fathom-heap (deleted)
7f0141005000-7f0141006000 ---p 00000000 00:00 0 
7f0141006000-7f0141806000 rw-p 00000000 00:00 0 
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
7ffd00030000-7ffd00032000 r-xp 00000000 00:00 0 [vdso]
garbage
7ffd00020000-7ffd00040000 rw-p 00000000 00:00 0 [overlaps]
";

    #[test]
    fn each_mapping_has_its_kind() {
        let huge = vec![("/mnt/huge".to_owned(), Some(Bytes(1 << 30)))];
        let snapshot = Snapshot::parse(MAPS, &huge, Some(Bytes(2 << 20)));
        let found: Vec<String> = snapshot
            .ranges
            .iter()
            .map(|range| {
                let page = range.backing.page.map_or(0, |page| page.0 >> 20);
                format!("{} {:?} {page} {:?}", range.start, range.backing.kind, range.backing.name)
            })
            .collect();
        assert_eq!(
            found,
            [
                "0x55d0c0de1000 File 0 \"/usr/bin/my program\"",
                "0x55d0c1000000 Break 0 \"[heap]\"",
                "0x7f0000000000 Anonymous 0 \"\"",
                "0x7f0100001000 Anonymous 0 \"\"",
                "0x7f0110000000 Huge 2 \"/anon_hugepage (deleted)\"",
                "0x7f0120000000 Huge 1024 \"/mnt/huge/pool\"",
                "0x7f0120200000 File 0 \"/mnt/hugely\"",
                "0x7f0130000000 Shared 0 \"/dev/zero (deleted)\"",
                "0x7f0130001000 Shared 0 \"/memfd:cache (deleted)\"",
                "0x7f0141006000 Anonymous 0 \"\"",
                "0x7ffd00000000 Stack 0 \"[stack]\"",
                "0x7ffd00030000 File 0 \"[vdso]\"",
            ]
        );
        let guarded = [0x7f01_0000_1000, 0x7f01_4100_6000].map(RemoteAddr);
        assert_eq!(snapshot.guarded, guarded);
        assert_eq!(snapshot.mapped.len(), 20);
        assert_eq!(
            snapshot.holding(RemoteAddr(0x7f01_0000_1fff)).map(|range| range.end),
            Some(RemoteAddr(0x7f01_0080_1000))
        );
        assert_eq!(snapshot.holding(RemoteAddr(0x7f01_0000_0fff)), None);
    }

    /// Whatever the text is, ranges are ordered, and their reports add up: after a reading everything is known.
    #[test]
    fn any_text_gives_ranges_in_order() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut below = |bound: usize| {
            // xorshift64* (Vigna 2016): a failure repeats.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound as u64) as usize
        };
        let mut known = KnownRanges::default();
        for _ in 0..3000 {
            let mut text = MAPS.as_bytes().to_vec();
            for _ in 0..=below(20) {
                let at = below(text.len());
                text[at] = b"0123456789abcdef- rwxps[]/\n"[below(27)];
            }
            let text = String::from_utf8_lossy(&text);
            let snapshot = Snapshot::parse(&text, &huge_mounts(&text), None);
            for (start, end) in known.ended(&snapshot.mapped) {
                assert!(start < end && known.remove(start, end));
            }
            let mut last = RemoteAddr(0);
            for range in &snapshot.ranges {
                assert!(last <= range.start && range.start < range.end);
                last = range.end;
                for new in known.news(range) {
                    assert!(new.range.start < new.range.end && new.range.end <= range.end);
                    known.insert(&new.range, base::Nanos(0));
                }
                assert_eq!(known.news(range), []);
            }
        }
    }

    #[test]
    fn hugetlbfs_is_found_among_the_mounts() {
        let text = "proc /proc proc rw 0 0\n\
                    hugetlbfs /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0\n\
                    none /mnt/g/ hugetlbfs rw,pagesize=1024M,size=2G 0 0\n\
                    none /mnt/odd hugetlbfs rw,pagesize=99999999999999999999M 0 0\nshort\n";
        assert_eq!(
            huge_mounts(text),
            [
                ("/dev/hugepages".to_owned(), Some(Bytes(2 << 20))),
                ("/mnt/g".to_owned(), Some(Bytes(1 << 30))),
                ("/mnt/odd".to_owned(), None),
            ]
        );
    }
}
