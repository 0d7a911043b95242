//! Touched units (lines or pages) in program order, from runs of addresses.
//!
//! What for: a summarised loop is a handful of concurrent runs. Visiting every access would take seconds per burst; a run of
//! 8-byte loads enters a new line only every eighth time. So only those *events* are merged in order. The accesses between them
//! are *repeats*: their unit was touched one iteration before, so at most as many other units lie in between as the loop has
//! accesses.
//! Assumption: the order of units is that of their events; a repeat does not move its unit. That displaces a unit by at most the
//! number of the loop's accesses.
//! What not: what a distance means.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Accesses of one instruction, from `start` on every `stride` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stream {
    /// Their row; `None` where no row was requested, but distances of others depend on them.
    pub(super) row: Option<usize>,
    pub(super) start: u64,
    pub(super) stride: i64,
    pub(super) count: u64,
    /// At least 1.
    pub(super) bytes: u32,
    /// The iteration of the first one.
    pub(super) iteration: u64,
    /// Those with the same number that stand together go on side by side.
    pub(super) group: usize,
}

impl Stream {
    /// The lowest and the highest touched byte; `None` when it leaves the address space.
    fn ends(&self) -> Option<(u64, u64)> {
        let span = self.stride.unsigned_abs().checked_mul(self.count.checked_sub(1)?)?;
        let last = u64::from(self.bytes).checked_sub(1)?;
        if self.stride < 0 {
            Some((self.start.checked_sub(span)?, self.start.checked_add(last)?))
        } else {
            Some((self.start, self.start.checked_add(span)?.checked_add(last)?))
        }
    }

    /// Whether it can be gone through.
    pub(super) fn is_sound(&self) -> bool {
        self.ends().is_some()
    }
}

/// The receiver of the events.
pub(super) trait Sink {
    /// Whether this unit is followed; asked in order within a stream only.
    fn follows(&self, unit: u64) -> bool;
    /// A unit that the stream did not touch one iteration before; those that are followed in the program's order.
    fn touch(&mut self, row: Option<usize>, unit: u64);
    /// Number of events of the whole stream, and repeats with at most `others` other accesses in between. `dropped`
    /// accesses were not gone through, for the budget was used up.
    fn totals(&mut self, row: Option<usize>, totals: Totals);
}

/// How the accesses of a stream divide.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Totals {
    pub(super) events: u64,
    pub(super) repeats: u64,
    pub(super) others: usize,
    pub(super) dropped: u64,
}

/// Goes through the events of `streams`, with units of 2^`shift` bytes. All are sound. `budget` is lowered by the number
/// of events; at 0 the rest is dropped.
pub(super) fn run(streams: &[Stream], shift: u32, budget: &mut u64, sink: &mut impl Sink) {
    for group in streams.chunk_by(|a, b| a.group == b.group) {
        if group.iter().all(|one| one.count == 1 && one.iteration == 0) {
            group.iter().for_each(|one| single(one, shift, budget, sink));
        } else {
            merge(group, shift, budget, sink);
        }
    }
}

/// One access, which needs no merging: most code is no loop.
fn single(stream: &Stream, shift: u32, budget: &mut u64, sink: &mut impl Sink) {
    let mut cursor = Cursor::new(stream, shift);
    cursor.advance(budget, sink);
    cursor.take(sink);
    sink.totals(stream.row, cursor.totals(1));
}

fn merge(group: &[Stream], shift: u32, budget: &mut u64, sink: &mut impl Sink) {
    let mut cursors: Vec<Cursor> = group.iter().map(|one| Cursor::new(one, shift)).collect();
    let mut heap = BinaryHeap::with_capacity(cursors.len());
    for (order, cursor) in cursors.iter_mut().enumerate() {
        if cursor.advance(budget, sink) {
            heap.push(Reverse((cursor.iteration(), order)));
        }
    }
    while let Some(mut next) = heap.peek_mut() {
        let Reverse((_, order)) = *next;
        let cursor = &mut cursors[order];
        cursor.take(sink);
        if cursor.advance(budget, sink) {
            *next = Reverse((cursor.iteration(), order));
        } else {
            std::collections::binary_heap::PeekMut::pop(next);
        }
    }
    for cursor in &cursors {
        sink.totals(cursor.stream.row, cursor.totals(group.len()));
    }
}

/// A place in a stream.
struct Cursor {
    stream: Stream,
    shift: u32,
    /// The element of the event at hand, and its address.
    element: u64,
    at: u64,
    /// Its units that are new, the first and the last.
    new: (u64, u64),
    /// All its units.
    units: Option<(u64, u64)>,
    /// Events so far, and elements that had one.
    events: u64,
    elements: u64,
    cut: bool,
}

impl Cursor {
    fn new(stream: &Stream, shift: u32) -> Cursor {
        Cursor {
            stream: *stream,
            shift,
            element: 0,
            at: stream.start,
            new: (0, 0),
            units: None,
            events: 0,
            elements: 0,
            cut: false,
        }
    }

    fn iteration(&self) -> u64 {
        self.stream.iteration.saturating_add(self.element)
    }

    /// To the next event of which a unit is followed.
    fn advance(&mut self, budget: &mut u64, sink: &impl Sink) -> bool {
        while let Some(element) = self.next_element() {
            if *budget == 0 {
                self.cut = true;
                return false;
            }
            self.enter(element);
            let events = self.new.1 - self.new.0 + 1;
            *budget = budget.saturating_sub(events);
            self.events += events;
            self.elements += 1;
            // An access touches few units, but a hostile file may claim 4 GB.
            if (self.new.0..=self.new.1).take(64).any(|unit| sink.follows(unit)) {
                return true;
            }
        }
        false
    }

    /// Gives the followed units of the event at hand. The sample may have become smaller since it was found.
    fn take(&self, sink: &mut impl Sink) {
        if self.elements == 0 || self.cut {
            return;
        }
        for unit in (self.new.0..=self.new.1).take(64) {
            if sink.follows(unit) {
                sink.touch(self.stream.row, unit);
            }
        }
    }

    /// The next element that touches a unit which the one before did not.
    fn next_element(&self) -> Option<u64> {
        let Stream { stride, count, bytes, .. } = self.stream;
        if self.units.is_none() {
            return (count > 0).then_some(0);
        }
        let step = stride.unsigned_abs();
        if step == 0 {
            return None;
        }
        // Bytes that the end which leaves first can move without leaving its unit.
        let mask = (1u64 << self.shift) - 1;
        let room = if stride > 0 {
            mask - (self.at.wrapping_add(u64::from(bytes) - 1) & mask)
        } else {
            self.at & mask
        };
        // Units have at most 2 MiB: the short division is the fast one.
        let steps = if room < step { 0 } else { room as u32 / step as u32 };
        let element = self.element.saturating_add(u64::from(steps) + 1);
        (element < count).then_some(element)
    }

    fn enter(&mut self, element: u64) {
        let Stream { stride, bytes, .. } = self.stream;
        let moved = stride.cast_unsigned().wrapping_mul(element - self.element);
        let at = self.at.wrapping_add(moved);
        let units = (at >> self.shift, (at + u64::from(bytes - 1)) >> self.shift);
        self.new = match self.units {
            Some((_, last)) if stride > 0 => (units.0.max(last + 1), units.1),
            Some((first, _)) => (units.0, units.1.min(first.saturating_sub(1))),
            None => units,
        };
        (self.element, self.at, self.units) = (element, at, Some(units));
    }

    fn totals(&self, accesses: usize) -> Totals {
        // Where the budget ended, how the rest divides is not known.
        let rest = self.stream.count - self.elements;
        let (repeats, dropped) = if self.cut { (0, rest) } else { (rest, 0) };
        Totals { events: self.events, repeats, others: accesses.saturating_sub(1), dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Recorder {
        touches: Vec<(usize, u64)>,
        totals: Vec<Totals>,
    }

    impl Sink for Recorder {
        fn follows(&self, _: u64) -> bool {
            true
        }
        fn touch(&mut self, row: Option<usize>, unit: u64) {
            self.touches.push((row.unwrap(), unit));
        }
        fn totals(&mut self, _: Option<usize>, totals: Totals) {
            self.totals.push(totals);
        }
    }

    fn stream(row: usize, start: u64, stride: i64, count: u64, bytes: u32) -> Stream {
        Stream { row: Some(row), start, stride, count, bytes, iteration: 0, group: 0 }
    }

    /// Element by element, which needs no thought.
    fn by_hand(streams: &[Stream], shift: u32) -> Vec<(usize, u64)> {
        let mut touches = Vec::new();
        let longest = streams.iter().map(|one| one.iteration + one.count).max().unwrap();
        let units = |one: &Stream, element: u64| {
            let at = one.start.wrapping_add_signed(one.stride * element as i64);
            (at >> shift)..=((at + u64::from(one.bytes) - 1) >> shift)
        };
        for iteration in 0..longest {
            for one in streams {
                let Some(element) = iteration.checked_sub(one.iteration) else { continue };
                if element >= one.count {
                    continue;
                }
                let before = element.checked_sub(1).map(|before| units(one, before));
                let new = |unit: &u64| !before.as_ref().is_some_and(|last| last.contains(unit));
                let found = units(one, element).filter(new);
                touches.extend(found.map(|unit| (one.row.unwrap(), unit)));
            }
        }
        touches
    }

    fn check(streams: &[Stream]) {
        for shift in [6, 12] {
            let mut seen = Recorder::default();
            let mut budget = 1 << 40;
            run(streams, shift, &mut budget, &mut seen);
            assert_eq!(seen.touches, by_hand(streams, shift), "{streams:?} {shift}");
            assert_eq!((1 << 40) - budget, seen.touches.len() as u64);
            for (totals, one) in seen.totals.iter().zip(streams) {
                assert!(totals.events + totals.repeats >= one.count && totals.dropped == 0);
            }
        }
    }

    #[test]
    fn events_come_in_the_order_of_the_program() {
        check(&[stream(0, 0x1000, 8, 100, 8), stream(1, 0x9008, 8, 100, 8)]);
        check(&[stream(0, 0x1004, 8, 100, 8), stream(1, 0x9008, -8, 100, 16)]);
        check(&[stream(0, 0x1000, 4096, 50, 8), stream(1, 0x2fff, 24, 500, 8)]);
        check(&[stream(0, 0x9000, -100, 50, 64), stream(1, 0x2000, 1, 500, 1)]);
        check(&[stream(0, 0x9000, 3, 300, 200), stream(1, 0x2000, 0, 500, 8)]);
        check(&[stream(0, 0x9001, 64, 300, 64), stream(1, 0x9001, -64, 300, 64)]);
        let late = Stream { iteration: 7, ..stream(1, 0x4000, 64, 20, 8) };
        check(&[stream(0, 0x1000, 16, 100, 8), late]);
        let other = Stream { group: 1, ..stream(0, 0x1030, 0, 1, 32) };
        let mut seen = Recorder::default();
        run(&[stream(0, 0x1000, 64, 3, 8), other], 6, &mut 100, &mut seen);
        assert_eq!(seen.touches.iter().map(|one| one.1).collect::<Vec<_>>(), [64, 65, 66, 64, 65]);
    }

    #[test]
    fn absurd_runs_end_with_the_budget() {
        assert!(!stream(0, 1, -8, 1000, 8).is_sound());
        assert!(!stream(0, 0, i64::MIN, 3, 8).is_sound());
        assert!(!stream(0, 0, 8, 1000, 0).is_sound());
        assert!(!stream(0, 0, 8, 0, 8).is_sound());
        assert!(!stream(0, u64::MAX - 3, 0, 1, 8).is_sound());
        for one in [stream(0, 0, 8, 1 << 60, 8), stream(0, u64::MAX - 63, 0, 1 << 60, 64)] {
            assert!(one.is_sound());
            let mut seen = Recorder::default();
            run(&[one, stream(0, 0, 8, 1000, 8)], 6, &mut 1000, &mut seen);
            assert!(seen.touches.len() <= 1001, "{}", seen.touches.len());
        }
        let mut seen = Recorder::default();
        run(&[stream(0, 0, 64, 10, 8)], 6, &mut 4, &mut seen);
        assert_eq!((seen.totals[0].events, seen.totals[0].dropped), (4, 6));
        assert_eq!(seen.touches.len(), 4);
    }
}
