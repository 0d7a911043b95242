//! Distinct cache lines and bytes of many accesses, without visiting them one by one.
//!
//! What for: a loop that runs a million times is one *run*: an address, a stride, a count. Any run splits into at most 64 runs
//! whose stride is a multiple of the line size, each with a fixed offset in its lines. Runs with the same stride in lines and
//! the same remainder then overlap like intervals, and one sweep counts them. Short runs and single accesses go into a list
//! of lines, which is put in order now and then.
//! Exactness: exact as long as all long runs have one stride in lines. Otherwise the lines of each stride are exact, and the
//! union lies between the largest of them and their sum.
//! What not: which lines a cache holds.

use std::collections::{BTreeMap, HashMap};

use crate::traced::{LINE, Run, lines_of};

/// A shorter run goes into the table, line by line.
const SHORT_RUN: u64 = 64;
/// Fewer lines are not put in order before all of them are.
const UNORDERED: usize = 128;

/// At least and at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Bounds {
    pub(super) low: u64,
    pub(super) high: u64,
}

/// What was touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Extent {
    pub(super) lines: Bounds,
    pub(super) bytes: Bounds,
}

/// Lines `remainder + stride × i` for i in `first..end`, of each the bytes in `mask`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    first: u64,
    end: u64,
    mask: u64,
}

/// Stride in lines, and remainder.
type Class = (u64, u64);

/// Touched lines.
#[derive(Debug, Default)]
pub(super) struct LineSet {
    /// Lines with their masks, the first ones in order and each once. A table by hash would miss the cache at each new line.
    singles: Vec<(u64, u64)>,
    ordered: usize,
    runs: HashMap<Class, Vec<Piece>>,
}

impl LineSet {
    /// Adds `bytes` bytes at `address`. Bytes beyond the end of the address space are left out.
    pub(super) fn add(&mut self, address: u64, bytes: u32) {
        lines_of(address, u64::from(bytes)).for_each(|(line, mask)| self.touch(line, mask));
    }

    fn touch(&mut self, line: u64, mask: u64) {
        match self.singles.last_mut() {
            Some(last) if last.0 == line => last.1 |= mask,
            _ => {
                if self.singles.len() >= UNORDERED.max(2 * self.ordered) {
                    self.put_in_order();
                }
                self.singles.push((line, mask));
            }
        }
    }

    /// For several measures of it.
    pub(super) fn put_in_order(&mut self) {
        united(&mut self.singles);
        self.ordered = self.singles.len();
    }

    /// Adds a run. `false` when it leaves the address space: then nothing is added.
    pub(super) fn add_run(&mut self, run: &Run) -> bool {
        let Some((low, high)) = run.ends() else { return false };
        let Run { count, bytes, .. } = *run;
        let stride = run.stride.unsigned_abs();
        if stride == 0 {
            self.add(low, bytes);
        } else if count <= SHORT_RUN {
            (0..count).for_each(|number| self.add(low + number * stride, bytes));
        } else if stride <= u64::from(bytes) {
            self.add_contiguous(low, (high - low).saturating_add(u64::from(bytes)));
        } else {
            self.add_sparse(low, stride, count, bytes);
        }
        true
    }

    fn add_contiguous(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        let (first, behind) = (start.div_ceil(LINE), end / LINE);
        for (edge, length) in [
            (start, first.saturating_mul(LINE).min(end) - start),
            (behind * LINE, end.saturating_sub(behind.max(first).saturating_mul(LINE))),
        ] {
            lines_of(edge, length).for_each(|(line, mask)| self.touch(line, mask));
        }
        if first < behind {
            let piece = Piece { first, end: behind, mask: u64::MAX };
            self.runs.entry((1, 0)).or_default().push(piece);
        }
    }

    /// `stride × count` is in the address space and `count` at least 64, so that nothing here overflows.
    fn add_sparse(&mut self, start: u64, stride: u64, count: u64, bytes: u32) {
        // So many steps lead to the same place in a line.
        let period = LINE >> stride.trailing_zeros().min(LINE.trailing_zeros());
        let lines_per_step = stride * period / LINE;
        for phase in 0..period {
            let steps = (count - phase).div_ceil(period);
            for (line, mask) in lines_of(start + phase * stride, u64::from(bytes)) {
                let class = (lines_per_step, line % lines_per_step);
                let first = line / lines_per_step;
                let piece = Piece { first, end: first + steps, mask };
                self.runs.entry(class).or_default().push(piece);
            }
        }
    }

    /// Empties the set.
    pub(super) fn clear(&mut self) {
        self.singles.clear();
        self.runs.clear();
        self.ordered = 0;
    }
}

/// What is in any of these sets.
pub(super) fn measure(sets: &[&LineSet]) -> Extent {
    let mut pieces: HashMap<Class, Vec<&[Piece]>> = HashMap::new();
    for (class, of_class) in sets.iter().flat_map(|set| &set.runs) {
        pieces.entry(*class).or_default().push(of_class);
    }
    let runs: HashMap<Class, Vec<Piece>> =
        pieces.into_iter().map(|(class, pieces)| (class, sweep(&pieces))).collect();
    let mut by_stride: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for ((stride, _), pieces) in &runs {
        let sum = by_stride.entry(*stride).or_default();
        for piece in pieces {
            sum.0 += piece.end - piece.first;
            sum.1 += (piece.end - piece.first) * u64::from(piece.mask.count_ones());
        }
    }
    let mut extent = Extent::default();
    for (lines, bytes) in by_stride.values() {
        extent.lines.low = extent.lines.low.max(*lines);
        extent.lines.high += lines;
        extent.bytes.low = extent.bytes.low.max(*bytes);
        extent.bytes.high += bytes;
    }
    let strides: Vec<u64> = by_stride.into_keys().collect();
    let mut add = |line: u64, mask: u64| {
        let in_runs = strides.iter().filter_map(|stride| {
            let pieces = runs.get(&(*stride, line % stride))?;
            found(pieces, line / stride)
        });
        let covered = in_runs.reduce(|all, mask| all | mask);
        extent.add(u64::from(covered.is_none()), mask & !covered.unwrap_or(0));
    };
    let mut singles = sets.iter().map(|set| set.singles.as_slice()).collect::<Vec<_>>().concat();
    united(&mut singles);
    singles.into_iter().for_each(|(line, mask)| add(line, mask));
    extent
}

/// In order, each line once. The sort merges stretches that are in order already.
fn united(lines: &mut Vec<(u64, u64)>) {
    lines.sort_by_key(|(line, _)| *line);
    lines.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 |= later.1;
        }
        same
    });
}

impl Extent {
    fn add(&mut self, lines: u64, mask: u64) {
        let bytes = u64::from(mask.count_ones());
        self.lines.low += lines;
        self.lines.high += lines;
        self.bytes.low += bytes;
        self.bytes.high += bytes;
    }
}

/// The union: disjoint pieces in rising order, of each the bytes that any of the overlapping ones touches.
fn sweep(pieces: &[&[Piece]]) -> Vec<Piece> {
    // A mask begins (true) or ends at a place.
    let mut events: Vec<(u64, bool, u64)> = Vec::new();
    for piece in pieces.iter().copied().flatten() {
        events.push((piece.first, true, piece.mask));
        events.push((piece.end, false, piece.mask));
    }
    events.sort_unstable();
    let mut active: BTreeMap<u64, u64> = BTreeMap::new();
    let mut union = Vec::new();
    let mut from = 0;
    for (at, begins, mask) in events {
        if at > from && !active.is_empty() {
            let mask = active.keys().fold(0, |all, mask| all | mask);
            push(&mut union, Piece { first: from, end: at, mask });
        }
        from = at;
        let count = active.entry(mask).or_default();
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            active.remove(&mask);
        }
    }
    union
}

fn push(union: &mut Vec<Piece>, piece: Piece) {
    match union.last_mut() {
        Some(last) if last.end == piece.first && last.mask == piece.mask => last.end = piece.end,
        _ => union.push(piece),
    }
}

/// The touched bytes of line `index` of a class.
fn found(pieces: &[Piece], index: u64) -> Option<u64> {
    let behind = pieces.partition_point(|piece| piece.first <= index);
    let piece = pieces.get(behind.checked_sub(1)?)?;
    (index < piece.end).then_some(piece.mask)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Byte by byte, which needs no thought.
    fn by_hand(runs: &[(u64, i64, u64, u32)]) -> (u64, u64) {
        let mut bytes = HashSet::new();
        for (start, stride, count, size) in runs {
            for number in 0..*count {
                let at = start.wrapping_add_signed(stride * number as i64);
                bytes.extend((0..u64::from(*size)).map(|byte| at + byte));
            }
        }
        let lines: HashSet<u64> = bytes.iter().map(|byte| byte / LINE).collect();
        (lines.len() as u64, bytes.len() as u64)
    }

    fn run(start: u64, stride: i64, count: u64, bytes: u32) -> Run {
        Run { start, stride, count, bytes }
    }

    fn measured(runs: &[(u64, i64, u64, u32)]) -> Extent {
        let mut set = LineSet::default();
        for (start, stride, count, bytes) in runs {
            assert!(set.add_run(&run(*start, *stride, *count, *bytes)));
        }
        measure(&[&set])
    }

    #[test]
    fn runs_of_one_stride_are_exact() {
        let cases: [&[(u64, i64, u64, u32)]; 9] = [
            &[(0x1000, 8, 1000, 8)],
            &[(0x1004, 8, 1000, 8), (0x1800, 8, 1000, 8), (0x9004, 8, 1000, 8)],
            &[(0x1003, 24, 500, 8), (0x103b, 24, 500, 8)],
            &[(0x1000, 72, 300, 16), (0x1008, 72, 300, 16), (0x1000, 72, 5, 4)],
            // A matrix by columns: neighbouring columns share lines.
            &[(0x1_0000, 4096, 200, 8), (0x1_0008, 4096, 200, 8), (0x1_0040, 4096, 200, 8)],
            &[(0x1_0000, 8000, 200, 8), (0x1_0008, 8000, 200, 8)],
            &[(0x9_0000, -64, 300, 4), (0x9_0004, -64, 300, 4)],
            &[(0x1001, 67, 300, 65)],
            &[(0x1000, 0, 1_000_000, 8), (0x1000, 1, 70, 1)],
        ];
        for runs in cases {
            let few: Vec<(u64, i64, u64, u32)> = runs
                .iter()
                .map(|(start, stride, count, bytes)| {
                    (*start, *stride, if *stride == 0 { 1 } else { *count }, *bytes)
                })
                .collect();
            let (lines, bytes) = by_hand(&few);
            let exact = |value| Bounds { low: value, high: value };
            let expected = Extent { lines: exact(lines), bytes: exact(bytes) };
            assert_eq!(measured(runs), expected, "{runs:?}");
        }
    }

    #[test]
    fn runs_of_different_strides_are_bounded() {
        let runs = [(0x1000, 192, 500, 8), (0x1000, 128, 700, 8), (0x1008, 24, 10, 8)];
        let (lines, bytes) = by_hand(&runs);
        let found = measured(&runs);
        assert!(found.lines.low <= lines && lines <= found.lines.high, "{found:?} {lines}");
        assert!(found.bytes.low <= bytes && bytes <= found.bytes.high, "{found:?} {bytes}");
        assert!(found.lines.low >= 700 && found.lines.high <= 1210, "{found:?}");
    }

    #[test]
    fn absurd_runs_are_refused_and_huge_ones_cost_nothing() {
        let mut set = LineSet::default();
        assert!(!set.add_run(&run(1, -8, 1000, 8)));
        assert!(!set.add_run(&run(0, i64::MIN, 3, 8)));
        assert!(!set.add_run(&run(0, 8, 0, 8)));
        assert!(!set.add_run(&run(u64::MAX - 100, 8, 1000, 8)));
        assert_eq!(measure(&[&set]), Extent::default());
        assert!(set.add_run(&run(0, 8, 1 << 60, 8)));
        assert!(set.add_run(&run(0, 1 << 57, 65, 8)));
        assert_eq!(measure(&[&set]).lines.high, (1 << 57) + 65);
        set.clear();
        set.add(u64::MAX - 3, 8);
        assert_eq!(measure(&[&set]).lines.high, 1);
    }

    #[test]
    fn several_sets_measure_as_one_with_all_runs() {
        let runs = [(0x1000, 8, 1000, 8), (0x1004, 72, 40, 16), (0x9_0000, -64, 300, 4)];
        let more = [(0x1010, 0, 1, 4), (0x1004, 72, 20, 8), (0x9_0004, -64, 300, 4)];
        let more_still = [(0x2000, 72, 30, 4), (0x20_0000, 4096, 50, 8)];
        let parts: [&[(u64, i64, u64, u32)]; 3] = [&runs, &more, &more_still];
        let mut sets: [LineSet; 3] = std::array::from_fn(|_| LineSet::default());
        for (set, runs) in sets.iter_mut().zip(parts) {
            for (start, stride, count, bytes) in runs {
                assert!(set.add_run(&run(*start, *stride, *count, *bytes)));
            }
        }
        let all: Vec<&LineSet> = sets.iter().collect();
        assert_eq!(measure(&all), measured(&parts.concat()));
        assert_eq!(measure(&[]), Extent::default());
        sets[0].clear();
        assert_eq!(measure(&[&sets[0]]), Extent::default());
    }
}
