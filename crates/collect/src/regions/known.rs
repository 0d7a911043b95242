//! The known mappings of one process, and their difference to a new reading.
//!
//! What for: ranges of addresses, each with its backing; pure. What not: reading the process, times, facts.
//! Assumption: the kernel merges neighbours of the same kind into one mapping, so ranges are compared, not mappings.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Bytes, FileOffset, Nanos, RemoteAddr};
use facts::RegionKind;

/// What backs a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backing {
    /// Its kind.
    pub kind: RegionKind,
    /// The file, or the kernel's name; empty where there is none.
    pub name: Arc<str>,
    /// Fixed size of its pages.
    pub page: Option<Bytes>,
}

impl Backing {
    /// Memory that the program took by `brk`, as the agent reported. The kernel has one name for the whole data
    /// segment.
    pub fn of_break() -> Backing {
        Backing { kind: RegionKind::Break, name: "".into(), page: None }
    }

    fn is_of_break(&self) -> bool {
        self.kind == RegionKind::Break && self.name.is_empty()
    }

    /// Whether a reading that finds `found` here adds nothing to this.
    fn is_still(&self, found: &Backing) -> bool {
        self == found || (self.is_of_break() && found.kind == RegionKind::Break)
    }
}

/// A range as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    /// First address.
    pub start: RemoteAddr,
    /// First address after it; above `start`.
    pub end: RemoteAddr,
    /// Offset in the file of `start`.
    pub offset: FileOffset,
    /// Its backing.
    pub backing: Backing,
}

impl Range {
    fn part(&self, start: u64, end: u64) -> Range {
        let offset = FileOffset(self.offset.0.saturating_add(start - self.start.0));
        Range {
            start: RemoteAddr(start),
            end: RemoteAddr(end),
            offset,
            backing: self.backing.clone(),
        }
    }
}

/// A range that was unknown or had another backing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewRange {
    /// It.
    pub range: Range,
    /// Something else was there at the previous reading.
    pub replaces: bool,
}

struct Piece {
    end: u64,
    offset: u64,
    backing: Backing,
    since: Nanos,
}

/// All known ranges; they do not overlap.
#[derive(Default)]
pub struct KnownRanges(BTreeMap<u64, Piece>);

impl KnownRanges {
    /// From the first known address to the last.
    #[must_use]
    pub fn span(&self) -> Option<(RemoteAddr, Bytes)> {
        let (start, end) = (*self.0.keys().next()?, self.0.values().next_back()?.end);
        Some((RemoteAddr(start), Bytes(end - start)))
    }

    /// The end of the piece that holds an address, and since when it is known.
    #[must_use]
    pub fn holding(&self, address: RemoteAddr) -> Option<(RemoteAddr, Nanos)> {
        let (_, piece) = self.0.range(..=address.0).next_back()?;
        (address.0 < piece.end).then_some((RemoteAddr(piece.end), piece.since))
    }

    fn overlapping(&self, start: u64, end: u64) -> Vec<u64> {
        let before = self.0.range(..start).next_back();
        let before = before.filter(|(_, piece)| piece.end > start).map(|(at, _)| *at);
        before.into_iter().chain(self.0.range(start..end).map(|(at, _)| *at)).collect()
    }

    /// Removes a range; returns whether any of it was known.
    pub fn remove(&mut self, start: RemoteAddr, end: RemoteAddr) -> bool {
        let touched = self.overlapping(start.0, end.0);
        for at in &touched {
            let Some(piece) = self.0.remove(at) else { continue };
            if piece.end > end.0 {
                let offset = piece.offset.saturating_add(end.0 - at);
                let backing = piece.backing.clone();
                let rest = Piece { end: piece.end, offset, backing, since: piece.since };
                self.0.insert(end.0, rest);
            }
            if *at < start.0 {
                self.0.insert(*at, Piece { end: start.0, ..piece });
            }
        }
        !touched.is_empty()
    }

    /// Adds a range in place of what was there.
    pub fn insert(&mut self, range: &Range, since: Nanos) {
        if range.start >= range.end {
            return;
        }
        self.remove(range.start, range.end);
        let (end, offset, backing) = (range.end.0, range.offset.0, range.backing.clone());
        self.0.insert(range.start.0, Piece { end, offset, backing, since });
    }

    /// The known ranges that are in none of `mapped` (ascending, not overlapping).
    #[must_use]
    pub fn ended(&self, mapped: &[(RemoteAddr, RemoteAddr)]) -> Vec<(RemoteAddr, RemoteAddr)> {
        let mut ended: Vec<(RemoteAddr, RemoteAddr)> = Vec::new();
        let mut tell = |start: u64, end: u64| match ended.last_mut() {
            Some(last) if last.1.0 == start => last.1 = RemoteAddr(end),
            _ if start < end => ended.push((RemoteAddr(start), RemoteAddr(end))),
            _ => {}
        };
        for (start, piece) in &self.0 {
            let first = mapped.partition_point(|(_, end)| end.0 <= *start);
            let mut at = *start;
            for (from, to) in mapped[first..].iter().take_while(|(from, _)| from.0 < piece.end) {
                if at < from.0 {
                    tell(at, from.0);
                }
                at = at.max(to.0);
            }
            if at < piece.end {
                tell(at, piece.end);
            }
        }
        ended
    }

    /// The parts of a range that are not known with this backing. A range that grows (a stack, memory of `brk`) is
    /// reported whole, unless the program reported a part of it.
    #[must_use]
    pub fn news(&self, range: &Range) -> Vec<NewRange> {
        let mut news: Vec<NewRange> = Vec::new();
        let mut tell = |start: u64, end: u64, replaces: bool| match news.last_mut() {
            Some(last) if last.range.end.0 == start && last.replaces == replaces => {
                last.range.end = RemoteAddr(end);
            }
            _ if start < end => news.push(NewRange { range: range.part(start, end), replaces }),
            _ => {}
        };
        let (mut at, end) = (range.start.0, range.end.0);
        let mut has_reported = false;
        for start in self.overlapping(at, end) {
            let Some(piece) = self.0.get(&start) else { continue };
            tell(at, start.max(at), false);
            let (from, to) = (start.max(at), piece.end.min(end));
            let offset = piece.offset.saturating_add(from - start);
            let expected = range.offset.0.saturating_add(from - range.start.0);
            let same_place = range.backing.kind != RegionKind::File || offset == expected;
            if !piece.backing.is_still(&range.backing) || !same_place {
                tell(from, to, true);
            }
            has_reported |= piece.backing.is_of_break();
            at = to;
        }
        tell(at, end, false);
        let grows = matches!(range.backing.kind, RegionKind::Break | RegionKind::Stack);
        if grows && !has_reported && !news.is_empty() {
            let replaces = news.iter().any(|new| new.replaces);
            return vec![NewRange { range: range.clone(), replaces }];
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64, kind: RegionKind, name: &str) -> Range {
        Range {
            start: RemoteAddr(start),
            end: RemoteAddr(end),
            offset: FileOffset(0),
            backing: Backing { kind, name: name.into(), page: None },
        }
    }

    fn anonymous(start: u64, end: u64) -> Range {
        range(start, end, RegionKind::Anonymous, "")
    }

    fn news(known: &KnownRanges, range: &Range) -> Vec<(u64, u64, bool)> {
        let news = known.news(range);
        news.iter().map(|new| (new.range.start.0, new.range.end.0, new.replaces)).collect()
    }

    #[test]
    fn a_neighbour_that_the_kernel_joined_is_new_and_nothing_else() {
        let mut known = KnownRanges::default();
        known.insert(&anonymous(0x2000, 0x3000), Nanos(5));
        assert_eq!(
            news(&known, &anonymous(0x1000, 0x5000)),
            [(0x1000, 0x2000, false), (0x3000, 0x5000, false)]
        );
        assert_eq!(news(&known, &anonymous(0x2000, 0x2800)), []);
        assert_eq!(
            news(&known, &range(0x2000, 0x4000, RegionKind::File, "/f")),
            [(0x2000, 0x3000, true), (0x3000, 0x4000, false)]
        );
    }

    #[test]
    fn another_part_of_a_file_is_new() {
        let mut known = KnownRanges::default();
        let file = |offset| Range {
            offset: FileOffset(offset),
            ..range(0x1000, 0x3000, RegionKind::File, "/f")
        };
        known.insert(&file(0x4000), Nanos(0));
        assert_eq!(news(&known, &file(0x4000)), []);
        assert_eq!(news(&known, &file(0x5000)), [(0x1000, 0x3000, true)]);
        let behind = Range { start: RemoteAddr(0x2000), ..file(0x5000) };
        assert_eq!(news(&known, &behind), []);
    }

    #[test]
    fn what_grows_is_reported_as_a_whole() {
        let mut known = KnownRanges::default();
        known.insert(&range(0x1000, 0x2000, RegionKind::Break, "[heap]"), Nanos(0));
        assert_eq!(
            news(&known, &range(0x1000, 0x4000, RegionKind::Break, "[heap]")),
            [(0x1000, 0x4000, false)]
        );
        assert_eq!(news(&known, &range(0x1000, 0x2000, RegionKind::Break, "[heap]")), []);
    }

    #[test]
    fn what_the_program_took_by_brk_stays_its_own() {
        let mut known = KnownRanges::default();
        let whole = |end| range(0x1000, end, RegionKind::Break, "[heap]");
        known.insert(&whole(0x2000), Nanos(0));
        let own = Range { backing: Backing::of_break(), ..whole(0x2900) };
        known.insert(&Range { start: RemoteAddr(0x2000), ..own }, Nanos(0));
        // The data segment ends with a page.
        assert_eq!(news(&known, &whole(0x3000)), [(0x2900, 0x3000, false)]);
        known.insert(&range(0x2900, 0x3000, RegionKind::Break, "[heap]"), Nanos(0));
        assert_eq!(news(&known, &whole(0x3000)), []);
        assert_eq!(news(&known, &whole(0x5000)), [(0x3000, 0x5000, false)]);
    }

    #[test]
    fn what_is_gone_is_reported_in_as_few_parts_as_there_are() {
        let mut known = KnownRanges::default();
        known.insert(&anonymous(0x1000, 0x3000), Nanos(0));
        known.insert(&range(0x3000, 0x5000, RegionKind::File, "/f"), Nanos(0));
        known.insert(&anonymous(0x9000, 0xa000), Nanos(0));
        let at = |start, end| (RemoteAddr(start), RemoteAddr(end));
        assert_eq!(
            known.ended(&[at(0x1000, 0x2000), at(0x4000, 0x5000)]),
            [at(0x2000, 0x4000), at(0x9000, 0xa000)]
        );
        assert_eq!(known.ended(&[at(0, 0x2000), at(0x2000, 0x10000)]), []);
        assert_eq!(known.span(), Some((RemoteAddr(0x1000), Bytes(0x9000))));
        assert!(known.remove(RemoteAddr(0x2000), RemoteAddr(0x4000)));
        assert_eq!(known.holding(RemoteAddr(0x1fff)), Some((RemoteAddr(0x2000), Nanos(0))));
        assert_eq!(known.holding(RemoteAddr(0x2000)), None);
        assert_eq!(
            news(
                &known,
                &Range {
                    offset: FileOffset(0x1000),
                    ..range(0x4000, 0x5000, RegionKind::File, "/f")
                }
            ),
            []
        );
        assert!(!known.remove(RemoteAddr(0x2000), RemoteAddr(0x4000)));
    }
}
