//! How long what bursts did takes natively.
//!
//! What for: native seconds of what bursts did. A burst's own time is too long where recording slows the code down. After many
//! bursts, a count window of the same thread only counts blocks, which costs far less: windows tell how long an instruction of
//! each region of the code takes ([`each`]).
//! What not: the time of single instructions.
//!
//! The rule: native seconds of what a burst did in a region = its instructions there x the time of one there, by all windows. So a
//! total is that of the region's time, which samples tell, over what windows find per instruction, times what bursts find: windows
//! are longer than bursts, and where a region runs fast at one time and slowly at another, the bursts of each do not matter. (Loads of
//! six runs of Lua alike, of 8.1 G: 6.6 to 23 G by the time of each burst, 6.5 to 8.2 G by windows.)
//! In loops with a pace it is iterations / pace. For regions in fewer than [`FEWEST`] windows: the rest of the burst's time, which is
//! its instructions / instructions per second in the window after it; without a window, its CPU time / the slow-down of other bursts.
//! The cost of a window's counters is deducted from its time: as a sparse window after it shows (`counters`), else the usual
//! cost. So is that of what copies of blocks do besides: a jump to the block behind a branch that is not taken, and a look-up of
//! where returns lead ([`way_on`]). A window in which many blocks ran is followed at once by another one, which counts in its place:
//! in the first the copies were cold. Of a window that had no such successor, their waits are deducted, which are hardly known.
//! Such a rest in several regions is divided in proportion to its instructions in each, times the mean time of an instruction there,
//! which samples of the whole run show.
//! Bounds: the scatter of windows, and counters that cost nothing or the most that they can. For bursts without windows: the
//! scatter of other slow-downs, which are at least 1, and at most those that leave out [`MOST_PER_CALLING_RECORD`] for each
//! record, [`MOST_PER_BURST`], and [`EXTRA`], where a burst's time is of use.
//!
//! Native code is never faster than with all its data in the first level, as its loops were timed (`collect::no_miss`), nor than the
//! core runs instructions of which none waits ([`quickest`]). No speed is known better than to [`SPEED_OFF`].
//!
//! A window's CPU time is schedstat's. A virtual machine deducts the time that its host stole from it, in steps of up to a
//! tenth of a millisecond: 0 was seen for 26,000 instructions. So the upper bound of a single window's time is all the time that
//! passed. Windows of a region scatter by it, which is a part of their interval. (In a run of seven minutes, 60 to 140 us passed in
//! each window besides its CPU time, nearly alike in all: the thread's way out of a stop, and the tracer's to the next one.)
//!
//! Assumptions: instructions of one region take the same time in both. What windows miss of their cost, they miss in all regions: one
//! draw in all of a replicate (`expansion`).

use std::collections::{BTreeMap, HashMap};

use base::{BlockId, BurstId, CodeAddress, Nanos, Tid};
use estimate::Bounds;
use facts::{Burst, BurstEnd, BurstFlavour, Recording, decode_records};

use super::bound::TOO_MUCH;
use super::code_regions::{CodeRegion, CodeRegions};
use super::core_time::{branch_miss, cycle, quickest};
use super::counters::{NativeShare, NativeShares, Natively, Windows};
use super::work::BurstWork;
use crate::traced::{CountedBlock, TracedCode, WayOn, pieces_by_burst};
use estimate::interval::mean_and_half;
use estimate::parameters::{COLD_BLOCK, JUMPS_ON, LOOKS_UP, SPEED_OFF};
use estimate::student::quantile_95;

/// Seconds: a burst that left our code at once says little.
const SHORTEST: f64 = 1e-6;

/// Lower bound of a burst's time outside loops with a pace: this share of what its instructions there would take at the burst's
/// mean. Both times have errors of some percent, and their difference may be small.
const LEAST_REST: f64 = 0.1;

/// Seconds until a second-level cache of 1 MiB is filled again, at 15 ns per line from the third level. Times of shorter bursts
/// show nothing.
const COLD: f64 = 250e-6;

/// Seconds that a record takes at most: two and a half times what a loop of small blocks shows (bench/results/burst-inside).
const MOST_PER_RECORD: f64 = 2.5e-9;
/// The same in code that calls and returns: recursive calls show 3.1 ns a record, and calls by pointer, each of which looks up
/// where it leads, 4.7 (the same results: fib, qsort); by a third more.
const MOST_PER_CALLING_RECORD: f64 = 6e-9;
/// Factor by which a burst may be slower besides: caches and TLBs that it shares with its records (the same results: a chase
/// through memory, upper end).
const EXTRA: f64 = 1.2;
/// Seconds that entering, leaving and warming up a burst take at most. Where the tracer measured what the first two usually
/// take and took that off, as much again: one stop in ten takes twice the usual (bench/results/stop-parts).
const MOST_PER_BURST: f64 = 60e-6;
/// Seconds that entering and leaving usually take: bursts of two stops and three records show 13 to 22 µs with the stops.
const USUAL_PER_BURST: f64 = 15e-6;
/// Seconds of the thread's CPU time that a stop for new code takes: 2 to 6 µs in bursts of a hundred records on a quiet
/// machine, 17 to 24 where other programs have its CPUs and caches meanwhile. The larger: bursts with many stops are left out
/// rather than taken for slow code.
const PER_STOP: f64 = 20e-6;
/// A stop for new code takes up to so many times what an empty burst shows: 40 us for that, and 60 to 200 us for each such stop, on a
/// virtual machine where wake-ups and timers are slow.
const MOST_PER_STOP: f64 = 5.0;
/// Stops of a burst that meets no new code: one on the way in and one on the way out.
const FEWEST_STOPS: u32 = 2;
/// A burst of which more than this share may be the tracer's gives no rates.
const MOST_TRACING: f64 = 0.5;
/// More than this is no comparison of the same code.
const MOST: f64 = 30.0;
/// Seconds that a counter usually takes. Where its loop waits for a chain of its own it overlaps with that chain: in loops whose
/// pace is known 0.05, 0.4 and 0.5 ns were seen (AMD Zen 4), in tight ones 0.8 (Xeon), in one full of stores 1.1 (AMD Zen 5).
const USUAL_PER_COUNT: f64 = 0.4e-9;
/// Usual share of a window's time that counters take in code of short blocks, where they overlap with other instructions, and
/// its upper bound.
const USUAL_SHARE: f64 = 0.35;
const MOST_SHARE: f64 = 0.7;
/// Records that can take less than this share of a burst are few.
const FEW: f64 = 0.02;
/// Seconds that an instruction takes in code that waits for little.
const PER_INSTRUCTION: f64 = 1e-9;
/// Seconds that a counter takes at most: a load, a decrement and a store that waits for the load, 6 cycles at 4 GHz.
const MOST_PER_COUNT: f64 = 1.5e-9;
/// With more accesses per instruction a burst has repeated string instructions, or gathers.
const MOST_ACCESSES: f64 = 4.0;
/// The first execution of a block waits for at most this many times the usual.
const MOST_COLD: f64 = 3.0;
/// At least this share of a window is not waits for cold code.
const LEAST_WARM: f64 = 0.05;
/// A window later than this after a burst is no pair with it.
const NEAR: Nanos = Nanos(50_000_000);
/// From this version on, windows before chose the blocks that count in a sparse one.
const CHOSEN_BEFORE: u32 = 14;
/// With fewer windows a region has no rate, and with fewer bursts there is no usual slow-down.
const FEWEST: usize = 3;

/// What a burst did, as far as speed is concerned.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Work {
    pub(crate) burst: BurstId,
    pub(crate) tid: Tid,
    pub(crate) time: Nanos,
    /// Where most of its instructions ran.
    pub(crate) place: CodeRegion,
    /// CPU time in it.
    pub(crate) seconds: f64,
    pub(crate) instructions: f64,
    /// What its loops take with all their data in the first level, seconds.
    pub(crate) no_miss: Bounds,
    pub(crate) records: f64,
    pub(crate) stops: u32,
    /// Loads and stores.
    pub(crate) accesses: f64,
    /// Its time is no measure: caches were cold, or most of it was not the program's.
    pub(crate) is_untimed: bool,
    /// Most of its time was not the program's.
    pub(crate) is_foreign: bool,
}

/// Factor by which native code is faster.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Speed {
    pub(crate) best: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Speed {
    /// As fast as in the burst, exactly.
    pub(crate) const KNOWN: Speed = Speed { best: 1.0, low: 1.0, high: 1.0 };

    /// Native seconds over their best value, where the speed stands at `place` between its ends, -1 to 1.
    pub(crate) fn time_at(&self, place: f64) -> f64 {
        let end = if place < 0.0 { self.low } else { self.high };
        (self.best / end).powf(place.abs())
    }

    /// Native code is no quicker than with all its data in the first level. If it surely was, that time is wrong: on repeated
    /// data a loop may wait for its own stores.
    fn with_misses(self, work: &Work) -> Speed {
        let most = |no_miss: f64| (work.seconds / no_miss).max(1.0);
        let [usual, most] = [work.no_miss.low, work.no_miss.low / TOO_MUCH].map(most);
        if self.low > usual {
            return self;
        }
        let best = self.best.min(usual);
        Speed { best, low: self.low.min(best), high: self.high.min(most).max(best) }
    }
}

/// What a burst did in one place natively: seconds of the program's own time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Part {
    pub(crate) seconds: f64,
    pub(crate) speed: Speed,
}

/// Native time of each burst in each region. In a loop with a pace it follows from the number of iterations, whatever the burst
/// took for them. The rest of the burst's time is divided by instructions, each as long as it takes in its region.
pub(crate) fn native_parts(
    all: &[BurstWork],
    works: &[Work],
    speeds: &Speeds,
    places: &CodeRegions,
) -> Vec<Part> {
    let mut parts = Vec::with_capacity(all.len());
    let bursts = || all.chunk_by(|one, next| one.burst == next.burst).zip(works);
    let native = |whole: &Work| whole.seconds / speeds.of(whole).best;
    // Instructions of each place in a second of all: bursts begin at random moments, and each counts alike.
    let mut instructions: HashMap<CodeRegion, f64> = HashMap::new();
    for (of_burst, whole) in bursts() {
        let seconds = native(whole).max(SHORTEST);
        for work in of_burst {
            *instructions.entry(work.place).or_default() += work.instructions / seconds;
        }
    }
    let mean = |place: CodeRegion| {
        let Some(share) = places.share(place) else { return 1.0 };
        let of = instructions.get(&place).copied().filter(|count| *count > 0.0);
        of.map_or(0.0, |count| share / count)
    };
    for (of_burst, whole) in bursts() {
        let (speed, id) = (speeds.of(whole), whole.burst);
        let native = native(whole);
        // A burst of summarised loops runs at native speed, and windows, which count each iteration, know it less.
        let is_slowed = whole.is_untimed || is_slowed(whole);
        let known = |work: &BurstWork| match places.paced(work.place) {
            Some(paced) => Some((places.iterations(id, work.place) * paced.seconds, Speed::KNOWN)),
            None => {
                let (each, speed) = *speeds.each.get(&work.place).filter(|_| is_slowed)?;
                Some((work.instructions * each * places.own_share(work.place), speed))
            }
        };
        // In a burst also the kernel's time passes.
        let with_kernel = |work| Some(known(work)?.0 / places.own_share(work.place));
        let in_known: f64 = of_burst.iter().filter_map(with_kernel).sum();
        let long = |work: &BurstWork| work.instructions * mean(work.place);
        let others: f64 = of_burst.iter().filter(|work| known(work).is_none()).map(long).sum();
        let whole: f64 = of_burst.iter().map(long).sum();
        let part = |of: f64, whole: f64| if whole > 0.0 { of / whole } else { 0.0 };
        // The burst's own time tells it, or else the known parts' and what samples say of both.
        let usual = in_known * part(others, whole - others);
        let rest = (native - in_known)
            .max(LEAST_REST * native * part(others, whole))
            .max(LEAST_REST * usual);
        let part = |work: &BurstWork| match known(work) {
            Some((seconds, speed)) => Part { seconds, speed },
            None => {
                let seconds = rest * part(long(work), others);
                Part { seconds: seconds * places.own_share(work.place), speed }
            }
        };
        parts.extend(of_burst.iter().map(part));
    }
    parts
}

/// A window and the burst before it, or sums of many.
#[derive(Debug)]
struct Pair {
    /// Where most of the window's instructions ran.
    place: CodeRegion,
    /// Instructions and seconds in the burst; one a second where there is none.
    traced: (f64, f64),
    /// The same in the window.
    counted: (f64, f64),
    /// Seconds that passed in the window, without the usual time of its stops: what it took at most.
    passed: f64,
    /// Counted blocks.
    blocks: f64,
    /// Seconds that their copies' ways to the next block take longer than native ones.
    ways_on: Bounds,
    /// Seconds that its instructions take at least.
    least: f64,
    /// Seconds that it waited for code that was not in a cache.
    cold: Bounds,
    /// It, and what came behind it.
    windows: Option<Windows>,
    /// Its instructions by region.
    by_place: BTreeMap<CodeRegion, f64>,
}

/// Speeds of bursts.
#[derive(Debug, Default)]
pub(crate) struct Speeds {
    /// For bursts with a window right after them.
    own: HashMap<BurstId, Speed>,
    /// Native seconds of an instruction in regions, by all windows.
    each: HashMap<CodeRegion, (f64, Speed)>,
    /// Slow-downs that windows show for the bursts of all regions: those that show how fast code is, and the others.
    usual: [Option<Speed>; 2],
    /// Seconds that entering and leaving a burst take at most.
    most_per_burst: f64,
}

impl Speeds {
    /// From the pairs of each region. `works` are bursts in the order of time.
    pub(crate) fn new(
        recording: &Recording,
        (code, places): (&TracedCode, &CodeRegions),
        works: &[Work],
    ) -> Speeds {
        let mut pairs = pairs(recording, (code, places), works);
        // A window that ended while caches were cold tells a rate only where all do: threads that meet every few
        // microseconds have no longer ones.
        let mut long: HashMap<CodeRegion, usize> = HashMap::new();
        for (_, pair) in pairs.iter().filter(|(_, pair)| pair.is_long()) {
            *long.entry(pair.place).or_default() += 1;
        }
        pairs.retain(|(_, pair)| {
            pair.is_long() || long.get(&pair.place).is_none_or(|count| *count < FEWEST)
        });
        let windows = |(_, pair): &mut (_, Pair)| Some((pair.place, pair.windows.take()?));
        let shares = NativeShares::new(pairs.iter_mut().filter_map(windows));
        let each = each(&pairs, &shares, places);
        let (mut own, mut all) = (HashMap::new(), [Vec::new(), Vec::new()]);
        for (work, pair) in pairs {
            let slowed = work.filter(|work| is_slowed(work));
            if let Some((work, speed)) = slowed.zip(pair.speed(shares.of(pair.place))) {
                all[usize::from(work.is_untimed)].push(speed.best.ln());
                own.insert(work.burst, speed);
            }
        }
        Speeds {
            own,
            each,
            usual: all.map(|logarithms| usual_speed(&logarithms)),
            most_per_burst: toll(recording).unwrap_or(MOST_PER_BURST),
        }
    }

    /// How much faster than in this burst.
    pub(crate) fn of(&self, work: &Work) -> Speed {
        let Speed { best, low, high } = self.by_windows(work).unwrap_or_else(|| self.by_time(work));
        let off = 1.0 + SPEED_OFF.value;
        Speed { best, low: low.min(best / off), high: high.max(best * off) }.with_misses(work)
    }

    /// Whether windows of its region tell how long a burst took natively, whatever it took.
    pub(super) fn is_counted(&self, work: &Work) -> bool {
        self.each.contains_key(&work.place) || self.by_windows(work).is_some()
    }

    fn by_windows(&self, work: &Work) -> Option<Speed> {
        // A repeated string instruction is not one like others.
        let is_like_others = work.accesses <= MOST_ACCESSES * work.instructions;
        self.own.get(&work.burst).copied().filter(|_| is_like_others)
    }

    /// Native seconds by the burst's own time and the slow-down of bursts in other regions.
    fn by_time(&self, work: &Work) -> Speed {
        // Of cold bursts only the bounds are known: as fast as they were, and as fast as code without misses.
        let (best, most) = match work.is_untimed {
            true => ((work.seconds / work.no_miss.low).clamp(1.0, MOST).sqrt(), MOST),
            false => (1.0, self.slowest(work)),
        };
        let usual = self.usual[usize::from(work.is_untimed)];
        let usual = usual.unwrap_or(Speed { best, low: 1.0, high: most });
        let best = usual.best.clamp(1.0, most);
        Speed { best, low: usual.low.clamp(1.0, best), high: usual.high.clamp(best, most) }
    }

    /// Upper bound of a burst's slow-down, whatever windows show.
    fn slowest(&self, work: &Work) -> f64 {
        let each = if is_slowed(work) { MOST_PER_CALLING_RECORD } else { MOST_PER_RECORD };
        let stops = f64::from(work.stops.saturating_sub(2)) * PER_STOP;
        let ours = work.records * each + stops + self.most_per_burst;
        (EXTRA * work.seconds / (work.seconds - ours).max(work.seconds / MOST)).min(MOST)
    }
}

/// Range of the slow-down of one more burst, from the logarithms of those of some: where one more lies, with 95 %.
fn usual_speed(logarithms: &[f64]) -> Option<Speed> {
    if logarithms.len() < FEWEST {
        return None;
    }
    let (mean, half) = mean_and_half(logarithms, 1.0)?;
    Some(Speed { best: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

/// Whether a burst took longer by its records, and not only its window by counters. New code makes bursts long by stops.
fn is_slowed(work: &Work) -> bool {
    work.records * MOST_PER_RECORD >= FEW * work.seconds.min(work.instructions * PER_INSTRUCTION)
}

/// CPU time of a thread in a burst. The kernel's clock may be late when it begins, and then has time of before in it: it is
/// not longer than the burst.
pub(crate) fn running(burst: &Burst) -> Nanos {
    let passed = burst.in_code();
    let own = passed - burst.stand_still.min(passed);
    // None at all is what a host stole.
    let counted = burst.cpu_time.filter(|cpu| cpu.0 > 0);
    counted.map_or(own, |cpu| cpu.min(passed))
}

/// Seconds of stops that were taken off a burst's CPU time.
fn taken_off(burst: &Burst, toll: Option<f64>) -> f64 {
    toll.unwrap_or(0.0) * f64::from(burst.entered())
}

/// Whether a burst's CPU time is mostly the program's. One that meets new code again and again has stops in it and little
/// else: its accesses per second would be far too few.
pub(crate) fn tells_rates(burst: &Burst, toll: Option<f64>) -> bool {
    // Where the tracer took all of the CPU time off for its stops, the time that passed is of these, too.
    let nothing_left = burst.cpu_time == Some(Nanos(0)) && burst.entered() >= FEWEST_STOPS;
    let running = if nothing_left { 0.0 } else { running(burst).seconds() };
    // In calls a thread stops for no new code.
    let is_new = burst.in_calls.is_none_or(|time| time.0 == 0);
    let new_code = if is_new { f64::from(burst.entered().saturating_sub(1)) } else { 0.0 };
    match toll {
        // What stops for new code take besides may be several times that.
        Some(toll) => {
            taken_off(burst, Some(toll)) <= running
                && new_code * (MOST_PER_STOP * toll).max(PER_STOP) <= MOST_TRACING * running
        }
        None => {
            USUAL_PER_BURST + f64::from(burst.entered() + 1) * PER_STOP <= MOST_TRACING * running
        }
    }
}

/// Whether a burst tells only what code does, and not how fast: it ended, by its records, while caches were still cold from the tracer's
/// own work.
pub(super) fn is_cold(burst: &Burst) -> bool {
    burst.end == BurstEnd::Full && running(burst).seconds() < COLD
}

/// Seconds that were taken off a burst's CPU time for each way into translated code and out again. Each takes some: where the
/// median is 0, the thread's clock did not show it, and it is unknown.
pub(crate) fn toll(recording: &Recording) -> Option<f64> {
    let toll = recording.run.own_cost.burst_toll_ns.filter(|toll| *toll > 0);
    toll.map(|toll| Nanos(toll).seconds())
}

/// Seconds by which the copy of a block takes longer than native code to come to the next one, without its counter, for a cycle of the
/// time-stamp counter and a mispredicted branch that take so long. A look-up ends in an indirect jump, which each time may go
/// elsewhere than the core expects; of native returns it expects the right address (Intel, Optimization Reference Manual, 3.4.1.4).
fn way_on(way: WayOn, cycle: f64, missed: f64) -> Bounds {
    let most_twice = |cycles: f64| Bounds { best: cycles, low: 0.0, high: 2.0 * cycles };
    match way {
        WayOn::Alike => Bounds::exactly(0.0),
        WayOn::Jump => most_twice(JUMPS_ON.value * cycle),
        WayOn::LookUp => {
            let looks_up = most_twice(LOOKS_UP.value * cycle);
            Bounds { high: looks_up.high + missed, ..looks_up }
        }
    }
}

/// What native code takes at most: each access waits for memory and a page walk, one after the other, and behind each instruction a
/// branch was mispredicted. A burst that took longer has time in it that is not the program's: of stops, of questions for code, or of a
/// host that does not say what it takes.
#[derive(Clone, Copy)]
pub(super) struct Slowest {
    /// Seconds of an access; unknown where the latency ladder was not measured.
    access: Option<f64>,
    instruction: f64,
}

impl Slowest {
    pub(super) fn of(recording: &Recording) -> Slowest {
        let ladder = recording.run.calibration.iter().flat_map(|one| &one.ladder);
        let longest = ladder.filter_map(|point| point.latency.value).max_by(f64::total_cmp);
        Slowest {
            access: longest.map(|nanos| nanos * 1e-9),
            instruction: branch_miss(recording).high,
        }
    }

    /// Whether so many instructions with so many accesses can have taken so long.
    pub(super) fn allows(self, seconds: f64, instructions: f64, accesses: f64) -> bool {
        let most = |access| instructions * self.instruction + accesses * access;
        self.access.is_none_or(|access| seconds <= most(access))
    }
}

/// What was counted natively behind windows.
fn native_counts(recording: &Recording, code: &TracedCode) -> HashMap<BurstId, Natively> {
    let cost = recording.run.own_cost.execution_ns.map_or(0.0, |cost| Nanos(cost).seconds());
    let mut running: HashMap<BlockId, Vec<BlockId>> = HashMap::new();
    let mut counts = HashMap::new();
    for count in &recording.native_counts {
        let blocks = running.entry(count.block).or_insert_with(|| {
            let at = code.counted.get(&count.block).and_then(|block| block.start);
            let runs = |block: &CountedBlock| {
                let ((at, start), behind) = at.zip(block.start).zip(block.behind)?;
                let is_there = at.module == start.module;
                (is_there && (start.offset..behind.offset).contains(&at.offset)).then_some(())
            };
            let blocks = code.counted.iter().filter(|(_, block)| runs(block).is_some());
            let mut blocks: Vec<BlockId> = blocks.map(|(id, _)| *id).collect();
            blocks.sort_unstable();
            blocks
        });
        let native = Natively::new(blocks.clone(), count.executions, count.time.seconds(), cost);
        counts.insert(count.burst, native);
    }
    counts
}

/// All windows, each with the burst in front of it where that one was looked at: a report that leaves traces out to save time needs
/// no less of windows, which cost it little.
fn pairs<'w>(
    recording: &Recording,
    (code, places): (&TracedCode, &CodeRegions),
    works: &'w [Work],
) -> Vec<(Option<&'w Work>, Pair)> {
    let (pieces, toll) = (pieces_by_burst(recording), toll(recording));
    let (cycle, missed) = (cycle(recording), branch_miss(recording).best);
    let (quickest, slowest) = (quickest(recording), Slowest::of(recording));
    let mut last: HashMap<Tid, Vec<&'w Work>> = HashMap::new();
    works.iter().for_each(|work| last.entry(work.tid).or_default().push(work));
    let mut pairs = Vec::new();
    let counting = |burst: &&Burst| burst.flavour == BurstFlavour::Count && !burst.records_lost;
    let sparse: HashMap<BurstId, &Burst> = recording
        .bursts
        .iter()
        .filter(|burst| burst.flavour == BurstFlavour::Sparse && !burst.records_lost)
        .filter(|_| recording.run.schema >= CHOSEN_BEFORE)
        .map(|burst| (burst.id, burst))
        .collect();
    let counts = |burst: BurstId| {
        let mut counts: HashMap<BlockId, u64> = HashMap::new();
        for piece in pieces.get(&burst).map_or(&[][..], Vec::as_slice) {
            let _ = decode_records(piece, |record| {
                *counts.entry(record.block).or_default() += record.iterations;
            });
        }
        counts
    };
    let native = native_counts(recording, code);
    let full: HashMap<BurstId, &Burst> = recording
        .bursts
        .iter()
        .filter(|burst| burst.flavour == BurstFlavour::Count)
        .map(|burst| (burst.id, burst))
        .collect();
    let is_followed = |one: &Burst| {
        let next = full.get(&BurstId(one.id.0.wrapping_add(1)));
        next.is_some_and(|next| next.tid == one.tid && next.time == one.time + one.elapsed)
    };
    for window in recording.bursts.iter().filter(counting) {
        let before = last.get(&window.tid).map_or(&[][..], Vec::as_slice);
        let near = before.partition_point(|work| work.time <= window.time);
        // A window speaks for a burst only while the program is in the same phase.
        let is_near = |work: &&Work| window.time - work.time <= NEAR && work.seconds > 0.0;
        let work = near.checked_sub(1).map(|index| before[index]).filter(is_near);
        let seconds = running(window).seconds();
        if seconds <= 0.0 || !tells_rates(window, toll) {
            continue;
        }
        // It met new code at once, while caches were cold from the tracer.
        if window.end == BurstEnd::Untranslated && seconds < COLD {
            continue;
        }
        // The code was cold, and the next window shows how fast it is.
        if is_followed(window) {
            continue;
        }
        let follows = window.id.0.checked_sub(1).and_then(|id| full.get(&BurstId(id)));
        let is_warm = follows.is_some_and(|before| is_followed(before));
        let taken_off = taken_off(window, toll);
        let (mut instructions, mut accesses) = (0.0, 0.0);
        let (mut blocks, mut ways_on) = (0.0, Bounds::exactly(0.0));
        let mut by_place: BTreeMap<CodeRegion, f64> = BTreeMap::new();
        let counted = counts(window.id);
        // A sparse window behind it tells what warm code takes.
        let cold = if is_warm { 0.0 } else { counted.len() as f64 * COLD_BLOCK.value };
        let cold = Bounds { best: cold, low: 0.0, high: MOST_COLD * cold };
        let mut begun: HashMap<CodeAddress, f64> = HashMap::new();
        for (id, times) in &counted {
            if let Some(start) = code.counted.get(id).and_then(|block| block.start) {
                *begun.entry(start).or_default() += *times as f64;
            }
        }
        for (id, times) in &counted {
            let times = *times as f64;
            blocks += times;
            if let Some(block) = code.counted.get(id) {
                let own = times * block.instructions as f64;
                instructions += own;
                accesses += times * block.accesses;
                // What is behind a block ran as often as it went on there, at least.
                let behind = block.behind.and_then(|at| begun.get(&at)).copied().unwrap_or(0.0);
                let most = if block.way_on == WayOn::Jump { times.min(behind) } else { times };
                ways_on = ways_on.plus(way_on(block.way_on, cycle, missed).times(most));
                // Where several loops call a function, its counts do not tell which did.
                let place = places.of_counted(*id).filter(|one| !places.is_shared(*one));
                if let Some(place) = place {
                    *by_place.entry(place).or_default() += own;
                }
            }
        }
        if !slowest.allows(seconds, instructions, accesses) {
            continue;
        }
        // It comes at once.
        let behind = sparse.get(&BurstId(window.id.0.wrapping_add(1)));
        let behind = behind.filter(|one| one.tid == window.tid && one.pid == window.pid);
        let behind = behind.filter(|one| tells_counters(one));
        let sparse = behind.map(|one| (counts(one.id), running(one).seconds()));
        let native = behind.and_then(|one| native.get(&one.id)).cloned();
        let windows = Windows { full: (counted.clone(), seconds), sparse, native };
        let most = by_place.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let place = most.map(|(place, _)| *place).or_else(|| work.map(|work| work.place));
        if let Some(place) = place.filter(|_| instructions > 0.0) {
            let pair = Pair {
                place,
                traced: work.map_or((1.0, 1.0), |work| (work.instructions, work.seconds)),
                counted: (instructions, seconds),
                passed: seconds.max(window.in_code().seconds() - taken_off),
                blocks,
                ways_on,
                // A core may take a comparison and the branch behind it as one instruction.
                least: (instructions - blocks).max(0.0) * quickest,
                cold,
                windows: Some(windows),
                by_place,
            };
            pairs.push((work, pair));
        }
    }
    pairs
}

/// Whether a sparse window tells what counters took. One that ended while caches were still cold from the tracer shows the tracer. One
/// that a call ended shows what runs in front of such calls, which the full window did not come to, or it would have ended there.
fn tells_counters(sparse: &Burst) -> bool {
    running(sparse).seconds() >= COLD && sparse.end == BurstEnd::Time
}

impl Pair {
    /// Seconds of the window if each counter took so long, all of them no more than this share of it, and cold code so long.
    fn without_counters(&self, each: f64, share: f64, cold: f64) -> f64 {
        let warm = (self.counted.1 - cold).max(LEAST_WARM * self.counted.1);
        warm - (self.blocks * each).min(warm * share)
    }

    /// Whether the window lasted for longer than caches are cold.
    fn is_long(&self) -> bool {
        self.counted.1 >= COLD
    }

    /// Native seconds of what the window did: at most `passed`.
    fn native(&self, share: Option<NativeShare>, passed: f64) -> Bounds {
        let native =
            |seconds: f64, ways_on: f64| (seconds - ways_on).max((1.0 - MOST_SHARE) * seconds);
        let is_whole = share.is_some_and(|share| share.is_whole);
        let ways_on = if is_whole { Bounds::exactly(0.0) } else { self.ways_on };
        let (cold, seconds) = (self.cold, self.counted.1);
        let [best, least, most] = match share {
            Some(share) => [seconds * share.best, seconds * share.low, passed * share.high],
            None => [
                self.without_counters(USUAL_PER_COUNT, USUAL_SHARE, cold.best),
                self.without_counters(MOST_PER_COUNT, MOST_SHARE, cold.high),
                passed,
            ],
        };
        let high = native(most, ways_on.low);
        let low = native(least, ways_on.high).max(self.least).min(high);
        Bounds { best: native(best, ways_on.best).clamp(low, high), low, high }
    }

    /// Ratio of the burst's time to that of its own window; the scatter of bursts tells how likely it is for others.
    fn speed(&self, share: Option<NativeShare>) -> Option<Speed> {
        let native = self.native(share, self.passed);
        let speed = |seconds: f64| self.counted.0 / seconds / (self.traced.0 / self.traced.1);
        let speed =
            Speed { best: speed(native.best), low: speed(native.high), high: speed(native.low) };
        let is_one = |speed: f64| speed.is_finite() && speed > 0.0;
        [speed.low, speed.best, speed.high].into_iter().all(is_one).then_some(speed)
    }
}

/// Native seconds of an instruction in each region, and how they are uncertain, by all windows in which the region ran. A window of
/// several regions is divided in proportion to its instructions in each, times their relative time: the share of the program's
/// time that samples find in the region, over its instructions in all windows; where no sample fell, the mean.
fn each(
    pairs: &[(Option<&Work>, Pair)],
    shares: &NativeShares,
    places: &CodeRegions,
) -> HashMap<CodeRegion, (f64, Speed)> {
    let mut counts: BTreeMap<CodeRegion, f64> = BTreeMap::new();
    for (place, count) in pairs.iter().flat_map(|(_, pair)| &pair.by_place) {
        *counts.entry(*place).or_default() += count;
    }
    let sampled: f64 = counts.keys().filter_map(|place| places.sampled(*place)).sum();
    let mean = if sampled > 0.0 { sampled / counts.values().sum::<f64>() } else { 1.0 };
    // Half a sample over three instructions would be microseconds each: without a sample, a region is like the others.
    let relative =
        |place: &CodeRegion| places.sampled(*place).map_or(mean, |share| share / counts[place]);
    let mut parts: BTreeMap<CodeRegion, Vec<(f64, Bounds)>> = BTreeMap::new();
    for (_, pair) in pairs {
        let native = pair.native(shares.of(pair.place), pair.counted.1);
        let long = |(place, count): (&CodeRegion, &f64)| count * relative(place);
        let known: f64 = pair.by_place.values().sum();
        // Instructions of no region, or of one of several, take the mean time.
        let all = pair.by_place.iter().map(long).sum::<f64>() * pair.counted.0 / known;
        for one in pair.by_place.iter().filter(|(_, count)| **count > 0.0) {
            let seconds = native.times(long(one) / all);
            parts.entry(*one.0).or_default().push((*one.1, seconds));
        }
    }
    let each = |(place, parts): (CodeRegion, Vec<(f64, Bounds)>)| {
        let (count, n) = (counts[&place], parts.len() as f64);
        let seconds = parts.iter().map(|(_, seconds)| *seconds).reduce(Bounds::plus)?;
        // The variance is that of a ratio, linearised (Cochran 1977, 6.4).
        let residual = |(own, native): &(f64, Bounds)| native.best / seconds.best - own / count;
        let squares: f64 = parts.iter().map(|part| residual(part).powi(2)).sum();
        let scatter = quantile_95(n - 1.0) * (squares * n / (n - 1.0)).sqrt();
        let scatter = scatter.exp().clamp(1.0 + SPEED_OFF.value, MOST);
        let low = seconds.best / seconds.high / scatter;
        let high = seconds.best / seconds.low * scatter;
        let is_known = parts.len() >= FEWEST && seconds.low > 0.0;
        is_known.then_some((place, (seconds.best / count, Speed { best: 1.0, low, high })))
    };
    parts.into_iter().filter_map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of 250 ns in which counters and look-ups may have taken more than that: its instructions take 100 ns at least.
    #[test]
    fn no_window_is_shorter_than_its_instructions() {
        let pair = |least: f64| Pair {
            place: CodeRegion::Loop(0),
            traced: (1.0, 1.0),
            counted: (1000.0, 250e-9),
            passed: 250e-9,
            blocks: 250.0,
            ways_on: Bounds { best: 50e-9, low: 0.0, high: 500e-9 },
            least,
            cold: Bounds::exactly(0.0),
            windows: None,
            by_place: BTreeMap::new(),
        };
        let of = |least: f64| pair(least).native(None, 250e-9);
        let free = of(0.0);
        assert!(free.low < 30e-9 && free.low < free.best && free.best < free.high, "{free:?}");
        assert_eq!(of(100e-9), Bounds { low: 100e-9, ..free });
        assert_eq!(of(200e-9), Bounds { low: 200e-9, best: 200e-9, high: 250e-9 });
        assert_eq!(of(300e-9), Bounds::exactly(250e-9));
    }

    #[test]
    fn bursts_that_were_cut_short_or_stopped_often_tell_no_rates() {
        let mut builder = testkit::recording::RecordingBuilder::new();
        builder.burst(1, 1, &[]);
        let recording = builder.build();
        let of = |cpu_time, stops| Burst {
            cpu_time: Some(Nanos(cpu_time)),
            elapsed: Nanos(8_000_000),
            stand_still: Nanos(6_900_000),
            stops,
            ..recording.bursts[0].clone()
        };
        let sparse = |end| tells_counters(&Burst { end, ..of(800_000, 2) });
        assert!(sparse(BurstEnd::Time) && !sparse(BurstEnd::Native));
        assert!(!tells_counters(&of(200_000, 2)), "caches were cold");
        let toll = Some(6e-6);
        assert!(!tells_rates(&of(0, 66), toll));
        assert!(tells_rates(&of(4_500_000, 66), toll));
        assert!(!tells_rates(&of(800_000, 66), toll), "65 stops for new code");
        let calls = Burst { in_calls: Some(Nanos(1)), entries: Some(66), ..of(800_000, 140) };
        assert!(tells_rates(&calls, toll));
        // A window of two stops: a host stole the thread's time.
        assert!(tells_rates(&of(0, 2), toll));
    }
}
