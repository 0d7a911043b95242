//! What is at an address at a time, among ranges that come and go.
//!
//! What for: one [`Layer`] per kind of range (heap blocks, variables, regions): millions of look-ups over millions of ranges.
//! What not: which layer comes first (`space`).
//!
//! The rule: of all ranges that hold the address and began before the end of the requested time, the last one decides: it is there,
//! or it ended before. An older one below it is gone, whether or not its end was recorded: two things are not at one address at
//! once. A range without content is a hole: an unmapping.
//!
//! How: the ends of all ranges cut the addresses into pieces; a segment tree over the pieces (J. L. Bentley, "Solutions to
//! Klee's rectangle problems", Carnegie-Mellon University 1977) keeps each range in at most two nodes per level, sorted by
//! time. A look-up goes from a piece to the root, with one binary search per node: O(log² n), and O(n log n) memory, whatever
//! overlaps.

use base::{Nanos, RemoteAddr};

/// A range of addresses, from one time to another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Entry {
    /// First address.
    pub(super) start: RemoteAddr,
    /// First address after it. Empty ranges are dropped.
    pub(super) end: RemoteAddr,
    pub(super) from: Nanos,
    /// When it ended; `Nanos(u64::MAX)` when that was not seen.
    pub(super) until: Nanos,
    /// `None` for a hole.
    pub(super) what: Option<super::ObjectId>,
    /// How many ranges it represents.
    pub(super) weight: f64,
}

/// A stretch of time, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
}

/// Addresses of which the same answer holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) start: RemoteAddr,
    /// The last one: an extent may reach the end of the addresses.
    pub(crate) last: RemoteAddr,
}

impl Extent {
    pub(super) const ALL: Extent = Extent { start: RemoteAddr(0), last: RemoteAddr(u64::MAX) };

    pub(crate) fn has(&self, address: RemoteAddr) -> bool {
        self.start <= address && address <= self.last
    }

    /// What both have; they have an address in common.
    pub(super) fn and(self, other: Extent) -> Extent {
        Extent { start: self.start.max(other.start), last: self.last.min(other.last) }
    }
}

/// Ranges of one kind in one process.
#[derive(Debug, Default)]
pub(super) struct Layer {
    /// By time; of those that begin at one time, as they were given.
    entries: Vec<Entry>,
    /// Where the pieces begin. The last piece ends with the addresses.
    points: Vec<RemoteAddr>,
    /// The entries of tree node n are `items[bounds[n]..bounds[n + 1]]`, by time. Leaves come after the inner nodes.
    bounds: Vec<u32>,
    items: Vec<u32>,
}

impl Layer {
    pub(super) fn new(mut entries: Vec<Entry>) -> Layer {
        entries.retain(|entry| entry.start < entry.end);
        entries.sort_by_key(|entry| entry.from);
        let mut points: Vec<RemoteAddr> =
            entries.iter().flat_map(|entry| [entry.start, entry.end]).collect();
        points.sort_unstable();
        points.dedup();
        let mut layer = Layer { entries, points, bounds: Vec::new(), items: Vec::new() };
        let mut counts = vec![0u32; 2 * layer.points.len() + 1];
        for entry in &layer.entries {
            layer.nodes(entry, |node| counts[node + 1] += 1);
        }
        for node in 1..counts.len() {
            counts[node] += counts[node - 1];
        }
        let mut items = vec![0; counts.last().map_or(0, |all| *all as usize)];
        let mut next = counts.clone();
        for (number, entry) in (0u32..).zip(&layer.entries) {
            layer.nodes(entry, |node| {
                items[next[node] as usize] = number;
                next[node] += 1;
            });
        }
        (layer.bounds, layer.items) = (counts, items);
        layer
    }

    /// All of them, by time.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The nodes that together cover an entry.
    fn nodes(&self, entry: &Entry, mut take: impl FnMut(usize)) {
        let leaves = self.points.len();
        let leaf = |address| self.points.partition_point(|point| *point < address) + leaves;
        let (mut low, mut high) = (leaf(entry.start), leaf(entry.end));
        while low < high {
            if low % 2 == 1 {
                take(low);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                take(high);
            }
            (low, high) = (low / 2, high / 2);
        }
    }

    /// What is at an address in a stretch of time, and the addresses around for which the same is true.
    pub(super) fn find(&self, address: RemoteAddr, window: Window) -> (Option<&Entry>, Extent) {
        let behind = self.points.partition_point(|point| *point <= address);
        let mut extent = Extent::ALL;
        if let Some(point) = self.points.get(behind) {
            extent.last = RemoteAddr(point.0 - 1);
        }
        let Some(piece) = behind.checked_sub(1) else { return (None, extent) };
        extent.start = self.points[piece];
        // The tree is an array: leaves stand from `points.len()` on, and the parent of a node at half its number.
        let mut node = piece + self.points.len();
        let mut last: Option<u32> = None;
        while node > 0 {
            let items = &self.items[self.bounds[node] as usize..self.bounds[node + 1] as usize];
            let begun = |item: &u32| self.entries[*item as usize].from <= window.end;
            let found = items.partition_point(begun).checked_sub(1).map(|at| items[at]);
            // Entries are numbered in order of time.
            last = last.max(found);
            node /= 2;
        }
        let entry = last.map(|number| &self.entries[number as usize]);
        let there = |entry: &&Entry| entry.what.is_some() && entry.until >= window.start;
        (entry.filter(there), extent)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ObjectId;
    use super::super::tests::Numbers;
    use super::*;

    /// The rule, as it is written above.
    fn plainly(entries: &[Entry], address: RemoteAddr, window: Window) -> Option<ObjectId> {
        let holds = |entry: &&Entry| entry.start <= address && address < entry.end;
        let begun = |entry: &&Entry| entry.from <= window.end;
        let last = entries.iter().filter(holds).filter(begun);
        let last = last.enumerate().max_by_key(|(at, entry)| (entry.from, *at))?.1;
        last.what.filter(|_| last.until >= window.start)
    }

    /// Ranges that overlap in every way, ends seen and not, holes, addresses used again.
    #[test]
    fn it_agrees_with_a_plain_search() {
        for seed in 1..=60 {
            let mut numbers = Numbers(seed * 0x9e37_79b9);
            let space = 8 + numbers.below(400);
            let entries: Vec<Entry> = (0..numbers.below(120))
                .map(|id| {
                    let start = numbers.below(space);
                    let end = start + numbers.below(space / 2);
                    let from = numbers.below(50);
                    let seen = numbers.below(3) > 0;
                    Entry {
                        start: RemoteAddr(start),
                        end: RemoteAddr(end),
                        from: Nanos(from),
                        until: Nanos(if seen { from + numbers.below(30) } else { u64::MAX }),
                        what: (numbers.below(5) > 0).then(|| ObjectId::new(id as usize)),
                        weight: 1.0,
                    }
                })
                .collect();
            let layer = Layer::new(entries.clone());
            for address in 0..space * 2 {
                let start = numbers.below(90);
                let window = Window { start: Nanos(start), end: Nanos(start + numbers.below(4)) };
                let (found, extent) = layer.find(RemoteAddr(address), window);
                let expected = plainly(&entries, RemoteAddr(address), window);
                assert_eq!(found.and_then(|entry| entry.what), expected, "{seed} {address}");
                assert!(extent.has(RemoteAddr(address)));
                for near in [extent.start, extent.last] {
                    let same = plainly(&entries, near, window);
                    assert_eq!(same, expected, "{seed} {address} {near}");
                }
            }
        }
    }

    #[test]
    fn nothing_is_nowhere() {
        let window = Window { start: Nanos(0), end: Nanos(9) };
        assert_eq!(Layer::new(Vec::new()).find(RemoteAddr(5), window), (None, Extent::ALL));
    }
}
