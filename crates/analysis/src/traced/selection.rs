//! Which bursts a report looks at.
//!
//! What for: a report may take some seconds, and a long recording has traces for minutes of it. What not: what is done with them.
//!
//! Traces are sorted by the loop that they are mostly in, and by whether they are long. Of `N` traces of one kind that cost `c`
//! lines each, as many are looked at as is best for a total: a part in proportion to 1 / sqrt(c) (W. G. Cochran, "Sampling
//! Techniques", 3rd ed., Wiley 1977, 5.5), spread evenly over the time. Long traces show reuse, brief ones rates. One
//! loop of long runs may be as much work as the rest of the program.
//!
//! Assumption: traces of all kinds scatter alike.

use std::collections::{BTreeMap, HashSet};

use base::{BlockId, BurstId, Nanos};
use facts::{Burst, Recording, decode_records};

use super::address::Touch;
use super::code::{TracedBlock, TracedCode};
use super::stream::{Execution, Memory, Reader, Tool, all_traced};

/// A report may take so much of the program's time, but no less and no more than these, seconds.
const WORK_SHARE: f64 = 0.05;
const LEAST_WORK: f64 = 1.0;
const MOST_WORK: f64 = 3.0;
/// Lines of summarised loops that a summary gets through in a second, after it has opened the result: 83 million of LULESH (AMD Zen
/// 5, 2 CPUs). A number of its own, and not measured where the report is made, for the report must not depend on that.
const LINES_PER_SECOND: f64 = 80e6;
/// An access of a record costs as much work as this many of those lines, which are counted in addition: 3.1 to 3.5 million accesses a
/// second of sqlite, xz and python, 6 of zstd (as above).
const LINES_OF_ACCESS: u64 = 24;
/// Fewer bursts do not show how much they differ.
const FEWEST_BURSTS: usize = 5;

/// A trace with more encoded bytes is long: more than a brief one's records can take (`burst::schedule`), and less than a long
/// one's that filled its buffer do.
const LONG: u64 = 120_000;
/// Lines per encoded byte, before one of a kind was looked at: brief traces of irregular code have 9 to 14.
const LINES_PER_BYTE: f64 = 9.0;

/// Traces of one kind.
#[derive(Default)]
struct Kind<'a> {
    /// In the order in which they are looked at.
    bursts: Vec<&'a Burst>,
    bytes: u64,
    taken: usize,
    /// Lines of those that are taken.
    lines: u64,
}

impl Kind<'_> {
    /// The kind with the smallest number is next; none if all of its traces are taken.
    fn turn(&self) -> Option<f64> {
        let count = self.bursts.len() as f64;
        let cost = match self.taken {
            0 => self.bytes as f64 / count * LINES_PER_BYTE,
            taken => self.lines as f64 / taken as f64,
        };
        let is_left = self.taken < self.bursts.len();
        is_left.then(|| (self.taken as f64 + 0.5) / count * cost.sqrt())
    }
}

/// Which bursts are not looked at, because the others are work enough for this recording.
pub(super) fn too_many(recording: &Recording, code: &TracedCode) -> HashSet<BurstId> {
    let seconds =
        (Nanos(recording.run.elapsed_ns).seconds() * WORK_SHARE).clamp(LEAST_WORK, MOST_WORK);
    let most = (seconds * LINES_PER_SECOND) as u64;
    let reader = Reader::new(recording, code);
    let traces: Vec<&Burst> = all_traced(recording).collect();
    let mut kinds: BTreeMap<(Option<BlockId>, bool), Kind<'_>> = BTreeMap::new();
    for burst in evenly(&traces) {
        let pieces = reader.pieces.get(&burst.id).map_or(&[][..], Vec::as_slice);
        let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let hottest = pieces.first().and_then(|piece| hottest(piece));
        let kind = kinds.entry((hottest, bytes > LONG)).or_default();
        kind.bursts.push(burst);
        kind.bytes += bytes;
    }
    let mut kinds: Vec<Kind<'_>> = kinds.into_values().collect();
    let (mut taken, mut lines) = (0, 0);
    let (mut counter, mut memory) = (Counter(0), Memory::new(code));
    while lines < most || taken < FEWEST_BURSTS {
        let turns = kinds.iter_mut().filter_map(|kind| Some((kind.turn()?, kind)));
        let Some((_, kind)) = turns.min_by(|(a, _), (b, _)| a.total_cmp(b)) else { break };
        let burst = kind.bursts[kind.taken];
        reader.read(burst, &mut counter, &mut memory);
        let more = counter.end(burst);
        kind.lines = kind.lines.saturating_add(more);
        lines = u64::saturating_add(lines, more);
        kind.taken += 1;
        taken += 1;
    }
    let left = kinds.iter().flat_map(|kind| &kind.bursts[kind.taken..]);
    left.map(|burst| burst.id).collect()
}

/// Each beginning is spread evenly over all (van der Corput's sequence: bits of the position reversed). With several threads, two
/// successive ones stay together: they show what threads share.
fn evenly<'a>(bursts: &[&'a Burst]) -> Vec<&'a Burst> {
    let together = u32::from(bursts.iter().any(|burst| burst.tid != bursts[0].tid));
    let position = |at: u32| (at >> together).reverse_bits();
    let mut numbered: Vec<(u32, &Burst)> =
        (0u32..).map(position).zip(bursts.iter().copied()).collect();
    // Stable: the earlier of two stays the earlier.
    numbered.sort_by_key(|(position, _)| *position);
    numbered.into_iter().map(|(_, burst)| burst).collect()
}

/// The block that ran most often in some records.
fn hottest(piece: &[u8]) -> Option<BlockId> {
    let mut iterations: BTreeMap<BlockId, u64> = BTreeMap::new();
    let _ = decode_records(piece, |record| {
        let sum = iterations.entry(record.block).or_default();
        *sum = sum.saturating_add(record.iterations);
    });
    iterations.into_iter().max_by_key(|(_, iterations)| *iterations).map(|(block, _)| block)
}

/// Counts the lines that are to be looked at.
struct Counter(u64);

impl Tool for Counter {
    type OfBurst = u64;

    fn begin(&mut self, _: &Burst, _: usize) {}

    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for touch in block.accesses.iter().flat_map(|access| execution.touches(access)) {
            let lines = match touch {
                Touch::Run { stride, count, .. } => {
                    let step = stride.unsigned_abs().min(x86::LINE_BYTES.into());
                    // Within lines, `count` steps of `step` bytes; else one a step.
                    1 + (count - 1).saturating_mul(step) / u64::from(x86::LINE_BYTES)
                }
                Touch::AtLeast { .. } | Touch::Unknown { .. } => 1,
            };
            self.0 = self.0.saturating_add(lines.saturating_add(LINES_OF_ACCESS));
        }
    }

    fn end(&mut self, _: &Burst) -> u64 {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use testkit::recording::RecordingBuilder;

    use super::*;

    /// Bursts of threads, in turn, with one access each.
    fn of_threads(threads: &[i32]) -> Recording {
        let mut builder = RecordingBuilder::new();
        let module = builder.file("/program");
        // mov [rax],rbx
        let layout = "words 2; values rax@0:1; ways 1";
        let block = builder.block(1, module, 0x2000, &[0x48, 0x89, 0x18], layout);
        for tid in threads {
            builder.burst(1, *tid, &[(block, 1, vec![0x1000])]);
        }
        builder.build()
    }

    fn order(recording: &Recording) -> Vec<u32> {
        let bursts: Vec<&Burst> = all_traced(recording).collect();
        evenly(&bursts).iter().map(|burst| burst.id.0).collect()
    }

    #[test]
    fn each_beginning_is_spread_over_all() {
        assert_eq!(order(&of_threads(&[7; 8])), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert!(order(&of_threads(&[])).is_empty());
    }

    #[test]
    fn bursts_of_threads_that_follow_each_other_stay_together() {
        assert_eq!(order(&of_threads(&[7, 8, 7, 8, 7, 8, 7, 8])), [0, 1, 4, 5, 2, 3, 6, 7]);
    }

    /// A loop through 5 million lines in each of 40 bursts, and as many bursts with two accesses.
    #[test]
    fn a_loop_of_long_runs_leaves_time_for_the_rest() {
        let mut builder = RecordingBuilder::new();
        let module = builder.file("/program");
        // mov rbx,[rax]; add rax,64; cmp rax,rcx; jne
        let code = [0x48, 0x8b, 0x18, 0x48, 0x83, 0xc0, 0x40, 0x48, 0x39, 0xc8, 0x75, 0xf4];
        let layout = "words 3; values rax@0:1; ways 4; loop rax 1..2 +64; advanced 0 0 64 64";
        let block = builder.block(1, module, 0x2000, &code, layout);
        let other = builder.block(
            1,
            module,
            0x3000,
            &[0x48, 0x89, 0x18],
            "words 2; values rax@0:1; ways 1",
        );
        for _ in 0..40 {
            let lines = 5_000_000;
            builder.burst(1, 1, &[(block, lines, vec![0x1000_0000, 0x1000_0000 + lines * 64])]);
            builder.burst(1, 1, &[(other, 1, vec![0x1000]), (other, 1, vec![0x2000])]);
        }
        let recording = builder.build();
        let code = TracedCode::read(&recording);
        assert!((16..30).contains(&code.left_out.len()), "{}", code.left_out.len());
        assert!(code.left_out.iter().all(|burst| burst.0 % 2 == 0));
    }
}
