//! Sets with all line numbers moved by a constant, for `jump`.
//!
//! Assumption: least recently used lines leave, so that which way a line lies in does not matter.

use crate::marks::mark;
use crate::replacement::recency::Order;
use crate::sets::{Set, Sets};

impl<const N: usize, O: Order> Sets<N, O> {
    /// Whether these are the sets before, with `lines` added to each line's number.
    pub fn is_moved(&self, before: &Sets<N, O>, lines: i64) -> bool {
        let by = self.sets_by(lines);
        let (end, begin) = before.sets.split_at(before.sets.len() - by);
        let was = begin.iter().chain(end);
        self.sets.iter().zip(was).all(|(set, was)| self.is_set_moved(set, was, lines))
    }

    fn is_set_moved(&self, set: &Set<N, O>, was: &Set<N, O>, lines: i64) -> bool {
        let alive = |set: &Set<N, O>| set.generation == self.generation;
        if !alive(set) || !alive(was) {
            return alive(set) == alive(was);
        }
        let pairs = set.order.ways(self.ways).zip(was.order.ways(self.ways));
        let same = |(way, before): (usize, usize)| {
            let (entry, before) = (set.entry(way), was.entry(before));
            entry == before.moved(lines) && !entry.is_gone()
        };
        set.filled == was.filled && pairs.take(usize::from(set.filled)).all(same)
    }

    /// Adds `lines` to each line's number.
    pub fn move_by(&mut self, lines: i64) {
        let by = self.sets_by(lines);
        self.sets.rotate_right(by);
        for set in self.sets.iter_mut().filter(|set| set.generation == self.generation) {
            for way in 0..usize::from(set.filled) {
                let entry = set.entry(way).moved(lines);
                set.entries[way % N] = entry;
                set.marks.put(way, mark(entry.line(0)));
            }
        }
    }

    /// By how many sets a line moves to the right.
    fn sets_by(&self, lines: i64) -> usize {
        i128::from(lines).rem_euclid(i128::from(self.set_count)) as usize
    }
}
