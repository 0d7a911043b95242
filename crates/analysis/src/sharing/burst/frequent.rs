//! Lines that are visited often enough, from spans of many lines that were visited as a whole.
//!
//! What for: a sweep over the starts and ends of spans gives the visits of each line, without going through the lines of each
//! span. What not: by which thread, and which bytes.

use std::collections::{BTreeMap, BTreeSet};

use crate::traced::{LINE, SiteIndex};

/// Bytes in a row that a site went through.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Span {
    pub(super) site: SiteIndex,
    pub(super) start: u64,
    /// The first byte after it; what is beyond the end of the address space is left out.
    end: u64,
}

impl Span {
    pub(super) fn new(site: SiteIndex, start: u64, bytes: u64) -> Span {
        Span { site, start, end: start.saturating_add(bytes) }
    }

    pub(super) fn first_line(self) -> u64 {
        self.start / LINE
    }

    pub(super) fn last_line(self) -> u64 {
        self.end.saturating_sub(1).max(self.start) / LINE
    }

    /// Where it ends in one of its lines.
    pub(super) fn end_in(self, line: u64) -> u64 {
        self.end.min((line * LINE).saturating_add(LINE))
    }
}

/// Lines that spans (each with its visits) and visits of single lines visit `least` times or more, at least 1.
pub(super) fn frequent_lines(
    spans: &[(Span, u64)],
    alone: impl Iterator<Item = (u64, u64)>,
    least: u64,
) -> BTreeSet<u64> {
    // From each line on: how many visits more, and less, than the line before has.
    let mut changes: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (span, visits) in spans {
        let begins = &mut changes.entry(span.first_line()).or_default().0;
        *begins = begins.saturating_add(*visits);
        let ends = &mut changes.entry(span.last_line() + 1).or_default().1;
        *ends = ends.saturating_add(*visits);
    }
    let mut frequent = BTreeSet::new();
    let mut visits_from: Vec<(u64, u64)> = Vec::with_capacity(changes.len());
    let (mut visits, mut from) = (0u64, 0);
    for (line, (begins, ends)) in changes {
        if visits >= least {
            frequent.extend(from..line);
        }
        visits = visits.saturating_add(begins).saturating_sub(ends);
        from = line;
        visits_from.push((line, visits));
    }
    for (line, own) in alone {
        let behind = visits_from.partition_point(|(from, _)| *from <= line);
        let covered = behind.checked_sub(1).map_or(0, |at| visits_from[at].1);
        if own.saturating_add(covered) >= least {
            frequent.insert(line);
        }
    }
    frequent
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line by line, which needs no thought.
    fn by_hand(spans: &[(Span, u64)], alone: &[(u64, u64)], least: u64) -> BTreeSet<u64> {
        let mut visits: BTreeMap<u64, u64> = alone.iter().copied().collect();
        for (span, count) in spans {
            for line in span.first_line()..=span.last_line() {
                *visits.entry(line).or_default() += count;
            }
        }
        visits.into_iter().filter(|(_, count)| *count >= least).map(|(line, _)| line).collect()
    }

    #[test]
    fn a_sweep_counts_as_going_through_all_lines_does() {
        let span = |start, bytes, count| (Span::new(SiteIndex::new(0), start, bytes), count);
        let cases = [
            vec![],
            vec![span(0, 640, 3), span(128, 64, 2), span(127, 2, 2), span(640, 1, 5)],
            vec![span(64, 64, 4), span(128, 64, 4), span(100, 1, 1), span(0, 10_000, 1)],
            vec![span(u64::MAX - 100, 101, 9), span(1 << 40, 4096, 2), span(1 << 40, 70, 3)],
        ];
        for spans in cases {
            for alone in [vec![], vec![(0, 1), (2, 2), (9, 1), (1 << 34, 3), (7777, 5)]] {
                for least in 1..=6 {
                    let found = frequent_lines(&spans, alone.iter().copied(), least);
                    assert_eq!(
                        found,
                        by_hand(&spans, &alone, least),
                        "{spans:?} {alone:?} {least}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_span_ends_in_each_of_its_lines() {
        let span = Span::new(SiteIndex::new(0), 100, 100);
        assert_eq!((span.first_line(), span.last_line()), (1, 3));
        assert_eq!([1, 2, 3].map(|line| span.end_in(line)), [128, 192, 200]);
        let last = Span::new(SiteIndex::new(0), u64::MAX - 3, 8);
        assert_eq!(last.end_in(last.last_line()), u64::MAX);
    }
}
