//! How much faster code runs natively than in a burst that records addresses.
//!
//! What for: rates. A burst's own time is too long where recording slows the code down. Directly after some of them, a
//! window of the same thread only counts blocks, which costs far less; the program is in the same phase. Instructions
//! per second in those windows over those in the bursts in front of them is by how much bursts are slower.
//! What not: the time of single instructions.
//!
//! The rule: native seconds of a burst = its CPU time / max(1, ratio), the ratio being one of sums over the pairs of a
//! function, or of all where a function has few. At least 1, for both are slower than native code: loops that are
//! summarised run at native speed in a burst, and slower in a window, which counts each iteration.
//! A window's time is taken without what its counters usually cost.
//! Bounds: not below 1. Not above the ratio with [`MOST_PER_COUNT`] for each counted block taken off the window's time; of
//! bursts with few records, and where there are no windows, not above the burst's time without [`MOST_PER_RECORD`] for each
//! record and [`MOST_PER_BURST`].
//!
//! Assumptions: instructions of one function take the same time in both; CPU time is schedstat's, which has the thread's
//! own part of stops in it, alike in both.

use std::collections::HashMap;

use base::{BurstId, Nanos, Tid};
use facts::{BurstFlavour, Recording, decode_records};

use crate::stack::FunctionId;
use crate::traced::TracedCode;

/// Seconds that a record takes at most: two and a half times what a loop of small blocks shows (bench/results/burst-inside).
const MOST_PER_RECORD: f64 = 2.5e-9;
/// Seconds that entering, leaving and warming up a burst take at most.
const MOST_PER_BURST: f64 = 60e-6;
/// More than this is no comparison of the same code.
const MOST: f64 = 30.0;
/// Seconds that a counter usually takes, between 0.35 (calls) and 0.8 (tight loops) on the machine of bench/results.
const USUAL_PER_COUNT: f64 = 0.6e-9;
/// In code of short blocks counters run beside other instructions: of a window's time they usually take no more than this,
/// and at most that.
const USUAL_SHARE: f64 = 0.5;
const MOST_SHARE: f64 = 0.7;
/// Records that can take less than this share of a burst are few.
const FEW: f64 = 0.02;
/// Seconds: blocks that take longer than this hide a part of their counters.
const HIDING: f64 = 5e-9;
/// Seconds that a counter takes at most: a load, a decrement and a store that waits for the load, 6 cycles at 4 GHz.
const MOST_PER_COUNT: f64 = 1.5e-9;
/// A window later than this after a burst is no pair with it.
const NEAR: Nanos = Nanos(50_000_000);
/// With fewer pairs, those of all functions speak.
const FEWEST: usize = 3;

/// What a burst did, as far as speed is concerned.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Work {
    pub(crate) burst: BurstId,
    pub(crate) tid: Tid,
    pub(crate) time: Nanos,
    pub(crate) function: FunctionId,
    /// CPU time in it.
    pub(crate) seconds: f64,
    pub(crate) instructions: f64,
    pub(crate) records: f64,
}

/// Factor by which native code is faster.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Speed {
    pub(crate) likely: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pairs {
    count: usize,
    /// Instructions and seconds in bursts.
    traced: (f64, f64),
    /// The same in windows.
    counted: (f64, f64),
    /// Counted blocks.
    blocks: f64,
}

/// Speeds by function.
#[derive(Debug, Default)]
pub(crate) struct Speeds {
    of: HashMap<FunctionId, Pairs>,
    all: Pairs,
}

impl Speeds {
    /// Finds the pairs. `works` are bursts in the order of time.
    pub(crate) fn new(recording: &Recording, code: &TracedCode, works: &[Work]) -> Speeds {
        let mut pieces: HashMap<BurstId, Vec<&[u8]>> = HashMap::new();
        for records in &recording.records {
            pieces.entry(records.burst).or_default().push(&records.bytes);
        }
        let mut last: HashMap<Tid, Vec<&Work>> = HashMap::new();
        works.iter().for_each(|work| last.entry(work.tid).or_default().push(work));
        let mut speeds = Speeds::default();
        let counting =
            |burst: &&facts::Burst| burst.flavour == BurstFlavour::Count && !burst.records_lost;
        for window in recording.bursts.iter().filter(counting) {
            let before = last.get(&window.tid).map_or(&[][..], Vec::as_slice);
            let near = before.partition_point(|work| work.time <= window.time);
            let Some(work) = near.checked_sub(1).map(|index| before[index]) else { continue };
            let seconds = window.cpu_time.unwrap_or(window.elapsed).seconds();
            if window.time - work.time > NEAR || seconds <= 0.0 || work.seconds <= 0.0 {
                continue;
            }
            let (mut instructions, mut blocks) = (0.0, 0.0);
            for piece in pieces.get(&window.id).map_or(&[][..], Vec::as_slice) {
                let _ = decode_records(piece, |record| {
                    let length = code.counted.get(&record.block).copied().unwrap_or(0);
                    instructions += record.iterations as f64 * length as f64;
                    blocks += record.iterations as f64;
                });
            }
            if instructions > 0.0 {
                let pair = Pairs {
                    count: 1,
                    traced: (work.instructions, work.seconds),
                    counted: (instructions, seconds),
                    blocks,
                };
                speeds.of.entry(work.function).or_default().add(&pair);
                speeds.all.add(&pair);
            }
        }
        speeds
    }

    /// How much faster than in this burst.
    pub(crate) fn of(&self, work: &Work) -> Speed {
        let own = self.of.get(&work.function).filter(|pairs| pairs.count >= FEWEST);
        let pairs = own.unwrap_or(&self.all);
        let instrumentation = work.records * MOST_PER_RECORD + MOST_PER_BURST;
        let most = work.seconds / (work.seconds - instrumentation).max(work.seconds / MOST);
        match pairs.ratio() {
            Some((ratio, highest)) => {
                // A burst of summarised loops runs at native speed, whatever a window says that counts each iteration.
                let limit =
                    if work.records * MOST_PER_RECORD < FEW * work.seconds { most } else { MOST };
                let likely = ratio.clamp(1.0, limit);
                // Windows have their own scatter: a tenth of what they say is open.
                let low = 1.0 + (likely - 1.0) * 0.9;
                Speed { likely, low, high: highest.min(limit).max(likely) }
            }
            None => Speed { likely: f64::midpoint(1.0, most.min(1.1)), low: 1.0, high: most },
        }
    }
}

impl Pairs {
    fn add(&mut self, other: &Pairs) {
        self.count += other.count;
        self.traced = (self.traced.0 + other.traced.0, self.traced.1 + other.traced.1);
        self.counted = (self.counted.0 + other.counted.0, self.counted.1 + other.counted.1);
        self.blocks += other.blocks;
    }

    /// Instructions per second in windows over those in bursts, without the counters' usual time, and without the most that
    /// they can take.
    fn ratio(&self) -> Option<(f64, f64)> {
        let traced = self.traced.0 / self.traced.1;
        let rate = |seconds: f64| self.counted.0 / seconds / traced;
        let without = |each: f64, share: f64| {
            self.counted.1 - (self.blocks * each).min(self.counted.1 * share)
        };
        // Where blocks wait for memory, the counter's own wait is hidden behind it.
        let shown = (HIDING * self.blocks / self.counted.1).min(1.0);
        let usual = without(USUAL_PER_COUNT * shown, USUAL_SHARE);
        let least = without(MOST_PER_COUNT, MOST_SHARE);
        (self.count > 0 && traced > 0.0).then(|| (rate(usual), rate(least)))
    }
}
