//! The most memory that a process had mapped at once by calls of its own: what huge pages for it must hold.
//!
//! What for: the size of a pool, exact where each call was seen. What not: heap blocks, also where malloc maps memory for them
//! (`heap`); stacks; pages of files. Mapped is not touched: a program may reserve more than it uses.

use std::collections::BTreeMap;

use facts::{LostSource, Metric, Recording};

use super::build::is_attached;
use super::index::Entry;
use super::{NOT_COLLECTED, ObjectKind, Objects};

impl Objects {
    /// Most bytes mapped at once, in the process where that is the most. *Counted*; at least that where calls were lost, or seen from an
    /// attach on only.
    #[must_use]
    pub fn most_mapped(&self, recording: &Recording) -> Metric {
        if recording.regions.is_empty() {
            return Metric::unavailable("bytes", NOT_COLLECTED);
        }
        let own: Vec<bool> = self
            .all
            .iter()
            .map(|object| {
                object.kind == ObjectKind::Mapping
                    && object.stack.is_some()
                    && !object.name.starts_with('/')
            })
            .collect();
        let most = self.spaces.values().map(|space| {
            peak(space.regions.entries(), &|entry| entry.what.is_some_and(|id| own[id.index()]))
        });
        let found = Metric::counted(most.max().unwrap_or(0) as f64, "bytes");
        match recording.lost(LostSource::Regions) {
            _ if is_attached(recording) => {
                found.noted("at least: what was mapped before the attach is not in it")
            }
            0 => found,
            lost => found
                .noted(&format!("at least: {lost} calls that map or unmap memory have no record")),
        }
    }
}

/// Most bytes at once of the ranges that count. A range takes the place of what was there before.
fn peak(by_time: &[Entry], counts: &dyn Fn(&Entry) -> bool) -> u64 {
    // Where they begin, and their first address after it.
    let mut there: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut now, mut most) = (0, 0);
    for entry in by_time {
        let (start, end) = (entry.start.0, entry.end.0);
        let below = there.range(..end).rev().take_while(|(_, behind)| **behind > start);
        let gone: Vec<(u64, u64)> = below.map(|(from, behind)| (*from, *behind)).collect();
        for (from, behind) in gone {
            there.remove(&from);
            now -= behind.min(end) - from.max(start);
            if from < start {
                there.insert(from, start);
            }
            if behind > end {
                there.insert(end, behind);
            }
        }
        if counts(entry) {
            there.insert(start, end);
            now += end - start;
        }
        most = most.max(now);
    }
    most
}

#[cfg(test)]
mod tests {
    use base::{Nanos, RemoteAddr};

    use super::super::ObjectId;
    use super::*;

    #[test]
    fn what_is_mapped_over_or_unmapped_in_part_does_not_count_twice() {
        let range = |start: u64, end: u64, what: Option<usize>| Entry {
            start: RemoteAddr(start),
            end: RemoteAddr(end),
            from: Nanos(0),
            until: Nanos(u64::MAX),
            what: what.map(ObjectId::new),
            weight: 1.0,
        };
        let most = |ranges: &[Entry]| peak(ranges, &|entry| entry.what == Some(ObjectId::new(1)));
        assert_eq!(most(&[]), 0);
        // Half of it anew, then the middle unmapped and 20 more.
        let mut all = vec![range(0, 100, Some(1)), range(50, 150, Some(1))];
        assert_eq!(most(&all), 150);
        all.extend([range(40, 60, None), range(200, 210, Some(1))]);
        assert_eq!(most(&all), 150);
        all.push(range(300, 315, Some(1)));
        assert_eq!(most(&all), 155);
        // A file in place of it, and another process's program.
        all.extend([range(0, 1000, Some(2)), range(0, u64::MAX, None), range(0, 120, Some(1))]);
        assert_eq!(most(&all), 155);
    }
}
