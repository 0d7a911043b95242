//! Every burst's records in order.
//!
//! What for: one pass over all records in bounded memory, for whoever wants to see what happened. What not: sums.
//! Assumption: a record that does not fit its block, names one that is not known, or claims more than a core can do in
//! the burst's time, is left out and counted. So the work is bounded by the time that bursts took, whatever a file says.

use std::collections::{HashMap, HashSet};

use base::{BlockId, BurstId, Nanos};
use facts::{Burst, BurstFlavour, Record, Recording, decode_records};

use super::address::Touch;
use super::code::{TracedAccess, TracedBlock, TracedCode};

/// Iterations that no core exceeds in a nanosecond: one taken branch per cycle and thread (Fog, The microarchitecture of
/// Intel, AMD and VIA CPUs, 3), of which the newest cores can do two, at 4 GHz.
const ITERATIONS_PER_NANO: u64 = 8;
/// Bytes that no repeated string instruction exceeds in a nanosecond: a line per cycle at 8 GHz.
const BYTES_PER_NANO: u64 = 512;
/// Longer bursts are none: the longest that can be asked for takes 100 ms, and stopping it may take as long again.
const LONGEST_NANOS: u64 = 200_000_000;

/// A report may take so much of the program's time, but no less and no more than these, seconds.
const WORK_SHARE: f64 = 0.05;
const LEAST_WORK: f64 = 1.0;
const MOST_WORK: f64 = 3.0;
/// Lines of traced accesses that a summary, in which each is looked at some ten times, gets through in a second, with the
/// opening of the result and what else it needs: bench/results/after-end.md. A number of its own, and not measured where the
/// report is made, for the report must not depend on that.
const LINES_PER_SECOND: f64 = 16e6;
/// An access of a record takes as long as so many lines of a loop, which are counted besides.
const LINES_OF_ACCESS: u64 = 8;
/// Fewer bursts tell nothing of how much they differ.
const FEWEST_BURSTS: usize = 5;

/// Who sees the records go by.
pub(crate) trait Observer {
    /// A burst begins.
    fn begin(&mut self, burst: &Burst);
    /// A block was executed, or a loop of one block.
    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>);
    /// The burst is over.
    fn end(&mut self, burst: &Burst);
    /// Whether it has seen enough.
    fn is_full(&self) -> bool {
        false
    }
}

/// One execution of a block, or one run of a loop.
pub(crate) struct Execution<'a> {
    record: &'a Record<'a>,
    fs_base: u64,
    /// Instructions executed in the last iteration.
    executed: usize,
    /// Bytes that one instruction can go through in the time of the burst.
    most_bytes: u64,
}

impl Execution<'_> {
    /// Which block.
    pub(crate) fn block(&self) -> BlockId {
        self.record.block
    }

    /// By which way it was left; 0 is its end.
    pub(crate) fn way(&self) -> u32 {
        self.record.way
    }

    /// How often the block was entered.
    pub(crate) fn iterations(&self) -> u64 {
        self.record.iterations
    }

    /// Cycles that all iterations take at most, with their data in the first level.
    pub(crate) fn slowest(&self, block: &TracedBlock) -> f64 {
        let of = |way: usize| block.slowest.get(way).copied().unwrap_or(f64::INFINITY);
        let whole = self.record.iterations.saturating_sub(1);
        // Infinity times nothing is no number.
        let before = if whole > 0 { whole as f64 * of(0) } else { 0.0 };
        before + of(self.record.way as usize)
    }

    /// How many of the block's instructions ran in the last iteration; in those before, all did.
    pub(crate) fn executed(&self) -> usize {
        self.executed
    }

    /// How often an instruction of the block ran, by its position.
    pub(crate) fn times(&self, instruction: usize) -> u64 {
        let cut = u64::from(instruction >= self.executed);
        self.record.iterations.saturating_sub(cut)
    }

    /// The addresses of one access, over all iterations. A repeated string whose counter says more than fits into the
    /// burst was interrupted: where, nobody knows.
    pub(crate) fn touches(&self, access: &TracedAccess, mut take: impl FnMut(Touch)) {
        let times = self.times(access.instruction);
        access.form.touches(self.record, self.fs_base, times, |touch| match touch {
            Touch::Run { start, count, bytes, .. }
                if count > times && count.saturating_mul(u64::from(bytes)) > self.most_bytes =>
            {
                take(Touch::AtLeast { start, bytes });
            }
            touch => take(touch),
        });
    }
}

/// What could not be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Damage {
    /// Records of unknown blocks, that do not fit theirs, or that claim more than fits into the burst.
    pub(crate) records: u64,
    /// Pieces of records that do not decode to their end.
    pub(crate) pieces: u64,
}

/// The encoded records of each burst, in order.
pub(crate) fn pieces_by_burst(recording: &Recording) -> HashMap<BurstId, Vec<&[u8]>> {
    let mut pieces: HashMap<BurstId, Vec<&[u8]>> = HashMap::new();
    for records in &recording.records {
        pieces.entry(records.burst).or_default().push(&records.bytes);
    }
    pieces
}

/// The bursts that recorded addresses and are looked at, in the order of the recording.
pub(crate) fn traced_bursts<'a>(
    recording: &'a Recording,
    code: &'a TracedCode,
) -> impl Iterator<Item = &'a Burst> {
    let looked_at = |burst: &&Burst| !code.left_out.contains(&burst.id);
    all_traced(recording).filter(looked_at)
}

fn all_traced(recording: &Recording) -> impl Iterator<Item = &Burst> {
    let traced = |burst: &&Burst| burst.flavour == BurstFlavour::Trace && !burst.records_lost;
    recording.bursts.iter().filter(traced)
}

/// Which bursts are not looked at, because the others are work enough for this recording.
pub(super) fn too_many(recording: &Recording, code: &TracedCode) -> HashSet<BurstId> {
    let seconds =
        (Nanos(recording.run.elapsed_ns).seconds() * WORK_SHARE).clamp(LEAST_WORK, MOST_WORK);
    let most = (seconds * LINES_PER_SECOND) as u64;
    let bursts = evenly_spread(all_traced(recording).collect());
    let mut counter = Counter { bursts: 0, lines: 0, most };
    replay_these(recording, code, &mut counter, bursts.iter().copied());
    bursts[counter.bursts..].iter().map(|burst| burst.id).collect()
}

/// Counts what is to be looked at.
struct Counter {
    bursts: usize,
    lines: u64,
    most: u64,
}

impl Observer for Counter {
    fn is_full(&self) -> bool {
        self.lines >= self.most && self.bursts >= FEWEST_BURSTS
    }
    fn begin(&mut self, _: &Burst) {
        self.bursts += 1;
    }
    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>) {
        for access in &block.accesses {
            execution.touches(access, |touch| {
                let lines = match touch {
                    Touch::Run { stride, count, .. } => {
                        let step = stride.unsigned_abs().min(x86::LINE_BYTES.into());
                        // Within lines, `count` steps of `step` bytes; else one a step.
                        1 + (count - 1).saturating_mul(step) / u64::from(x86::LINE_BYTES)
                    }
                    Touch::AtLeast { .. } | Touch::Unknown { .. } => 1,
                };
                self.lines = self.lines.saturating_add(lines.saturating_add(LINES_OF_ACCESS));
            });
        }
    }
    fn end(&mut self, _: &Burst) {}
}

/// In an order of which each beginning is spread evenly over all (van der Corput's sequence: bits of the position reversed).
/// Of several threads, two that follow each other stay together: they tell what threads share.
fn evenly_spread(bursts: Vec<&Burst>) -> Vec<&Burst> {
    let together = u32::from(bursts.iter().any(|burst| burst.tid != bursts[0].tid));
    let position = |at: u32| (at >> together).reverse_bits();
    let mut numbered: Vec<(u32, &Burst)> = (0u32..).map(position).zip(bursts).collect();
    // Stable: the earlier of two stays the earlier.
    numbered.sort_by_key(|(position, _)| *position);
    numbered.into_iter().map(|(_, burst)| burst).collect()
}

/// Goes through all bursts that recorded addresses and are looked at, in the order of the recording.
pub(crate) fn replay(
    recording: &Recording,
    code: &TracedCode,
    observer: &mut impl Observer,
) -> Damage {
    replay_these(recording, code, observer, traced_bursts(recording, code))
}

/// Goes through these bursts, in this order, until the observer has enough.
pub(crate) fn replay_these<'a>(
    recording: &Recording,
    code: &TracedCode,
    observer: &mut impl Observer,
    bursts: impl Iterator<Item = &'a Burst>,
) -> Damage {
    let pieces = pieces_by_burst(recording);
    let mut damage = Damage::default();
    for burst in bursts {
        if observer.is_full() {
            break;
        }
        observer.begin(burst);
        let nanos = burst.elapsed.0.min(LONGEST_NANOS);
        let mut iterations_left = nanos * ITERATIONS_PER_NANO;
        for piece in pieces.get(&burst.id).map_or(&[][..], Vec::as_slice) {
            let decoded = decode_records(piece, |record| {
                let block = code.blocks.get(&record.block).filter(|block| block.pid == burst.pid);
                let left = iterations_left.checked_sub(record.iterations);
                let fits = || {
                    let block = block?;
                    Some((block, left?, execution(block, record, burst, nanos)?))
                };
                match fits() {
                    Some((block, left, execution)) => {
                        iterations_left = left;
                        observer.execute(block, &execution);
                    }
                    None => damage.records += 1,
                }
            });
            damage.pieces += u64::from(decoded.is_err());
        }
        observer.end(burst);
    }
    damage
}

/// `None` when the record cannot be one of this block.
fn execution<'a>(
    block: &TracedBlock,
    record: &'a Record<'a>,
    burst: &Burst,
    nanos: u64,
) -> Option<Execution<'a>> {
    let executed = *block.ways.get(record.way as usize)?;
    // A loop that was stopped in its first iteration has completed none.
    let fits = record.values.len() == block.values && (record.iterations == 1 || block.loops);
    let most_bytes = nanos * BYTES_PER_NANO;
    fits.then_some(Execution { record, fs_base: burst.fs_base.0, executed, most_bytes })
}

#[cfg(test)]
mod tests {
    use base::{Pid, RemoteAddr, Tid};
    use facts::BurstEnd;

    use super::*;

    fn order(tids: &[i32]) -> Vec<u32> {
        let burst = |(id, tid): (_, &i32)| Burst {
            id: BurstId(id),
            time: Nanos(0),
            pid: Pid(1),
            tid: Tid(*tid),
            flavour: BurstFlavour::Trace,
            end: BurstEnd::Full,
            elapsed: Nanos(1),
            cpu_time: None,
            stand_still: Nanos(0),
            stops: 1,
            fs_base: RemoteAddr(0),
            records: 0,
            records_lost: false,
        };
        let bursts: Vec<Burst> = (0..).zip(tids).map(burst).collect();
        evenly_spread(bursts.iter().collect()).iter().map(|burst| burst.id.0).collect()
    }

    #[test]
    fn each_beginning_is_spread_over_all() {
        assert_eq!(order(&[7; 8]), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert!(order(&[]).is_empty());
    }

    #[test]
    fn bursts_of_threads_that_follow_each_other_stay_together() {
        assert_eq!(order(&[7, 8, 7, 8, 7, 8, 7, 8]), [0, 1, 4, 5, 2, 3, 6, 7]);
    }
}
