//! Count windows: what each did, and between which bounds its native time lies.
//!
//! What for: the pairs of a window and the burst in front of it. What not: what all windows say of a region of the code
//! (`native`), what counters take (`counters`), what allocations show (`allocation_clock`).

use std::collections::{BTreeMap, HashMap};

use base::{BlockId, BurstId, CodeAddress, FileOffset, Nanos, Pid, Tid};
use estimate::Bounds;
use estimate::parameters::{COLD_BLOCK, JUMPS_ON, LOOKS_UP, SLOWER_NATIVELY};
use facts::{Burst, BurstEnd, BurstFlavour, Recording, decode_records};

use super::code_regions::{CodeRegion, CodeRegions};
use super::core_time::{branch_miss, cycle, quickest};
use super::counters::{NativeShare, Natively, Windows};
use super::native::{COLD, Speed, Work, running, taken_off, tells_rates, toll};
use crate::traced::{CountedBlock, TracedCode, WayOn, pieces_by_burst};

/// Seconds that a counter usually takes. Where its loop waits for a chain of its own it overlaps with that chain: in loops whose
/// pace is known 0.05, 0.4 and 0.5 ns were seen (AMD Zen 4), in tight ones 0.8 (Xeon), in one full of stores 1.1 (AMD Zen 5).
const USUAL_PER_COUNT: f64 = 0.4e-9;
/// Usual share of a window's time that counters take in code of short blocks, where they overlap with other instructions, and
/// its upper bound.
const USUAL_SHARE: f64 = 0.35;
const MOST_SHARE: f64 = 0.7;
/// At least this share of warm code's time is native. Code that calls and returns all the time took four times as long in copies (a loop of
/// Python without cache misses, four instructions per cycle: 0.87 s natively).
const LEAST_NATIVE: f64 = 0.15;
/// Seconds that a counter takes at most: a load, a decrement and a store that waits for the load, 6 cycles at 4 GHz.
const MOST_PER_COUNT: f64 = 1.5e-9;
/// The first execution of a block waits for at most this many times the usual.
const MOST_COLD: f64 = 3.0;
/// At least this share of a window is not waits for cold code.
const LEAST_WARM: f64 = 0.05;
/// A window later than this after a burst is no pair with it.
const NEAR: Nanos = Nanos(50_000_000);
/// From this version on, windows before chose the blocks that count in a sparse one.
const CHOSEN_BEFORE: u32 = 14;

/// A window and the burst before it, or sums of many.
#[derive(Debug)]
pub(super) struct Pair {
    /// When the window began.
    pub(super) time: Nanos,
    /// Where most of its instructions ran.
    pub(super) place: CodeRegion,
    /// Instructions and seconds in the burst; one a second where there is none.
    pub(super) traced: (f64, f64),
    /// The same in the window.
    pub(super) counted: (f64, f64),
    /// Seconds that passed in the window, without the usual time of its stops: what it took at most.
    pub(super) passed: f64,
    /// Counted blocks.
    pub(super) blocks: f64,
    /// Seconds that their copies' ways to the next block take longer than native ones.
    pub(super) ways_on: Bounds,
    /// Seconds that its instructions take at least.
    pub(super) least: f64,
    /// Seconds that it waited for code that was not in a cache.
    pub(super) cold: Bounds,
    pub(super) pid: Pid,
    /// It, and what came behind it.
    pub(super) windows: Windows,
    /// What of its time is native.
    pub(super) share: Option<NativeShare>,
    /// Its instructions by region.
    pub(super) by_place: BTreeMap<CodeRegion, f64>,
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
    let mut running: HashMap<(BlockId, Option<u32>), Vec<BlockId>> = HashMap::new();
    let mut counts = HashMap::new();
    for count in &recording.native_counts {
        let blocks = running.entry((count.block, count.offset)).or_insert_with(|| {
            let at = code.counted.get(&count.block).and_then(|block| block.start);
            let within = u64::from(count.offset.unwrap_or(0));
            let at = at.and_then(|at| {
                let offset = FileOffset(at.offset.0.checked_add(within)?);
                Some(CodeAddress { offset, ..at })
            });
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
pub(super) fn pairs<'w>(
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
        let windows = Windows { full: (counted, seconds), sparse, native };
        let most = by_place.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let place = most.map(|(place, _)| *place).or_else(|| work.map(|work| work.place));
        if let Some(place) = place.filter(|_| instructions > 0.0) {
            let pair = Pair {
                time: window.time,
                place,
                traced: work.map_or((1.0, 1.0), |work| (work.instructions, work.seconds)),
                counted: (instructions, seconds),
                passed: seconds.max(window.in_code().seconds() - taken_off),
                blocks,
                ways_on,
                // A core may take a comparison and the branch behind it as one instruction.
                least: (instructions - blocks).max(0.0) * quickest,
                cold,
                pid: window.pid,
                windows,
                share: None,
                by_place,
            };
            pairs.push((work, pair));
        }
    }
    pairs
}

/// Whether a sparse window tells what counters took. One that ended while caches were still cold from the tracer shows the tracer. One
/// that a call ended shows what runs in front of such calls, which the full window did not come to, or it would have ended there.
pub(super) fn tells_counters(sparse: &Burst) -> bool {
    running(sparse).seconds() >= COLD && sparse.end == BurstEnd::Time
}

impl Pair {
    /// Seconds of the window if each counter took so long, all of them no more than this share of it, and cold code so long.
    fn without_counters(&self, each: f64, share: f64, cold: f64) -> f64 {
        let warm = (self.counted.1 - cold).max(LEAST_WARM * self.counted.1);
        warm - (self.blocks * each).min(warm * share)
    }

    /// Whether the window lasted for longer than caches are cold.
    pub(super) fn is_long(&self) -> bool {
        self.counted.1 >= COLD
    }

    /// Native seconds of what the window did: at most `passed`, or where a measured share says so, [`SLOWER_NATIVELY`] times that.
    pub(super) fn between(&self, passed: f64) -> Bounds {
        let native = |seconds: f64, ways_on: f64| (seconds - ways_on).max(LEAST_NATIVE * seconds);
        let (cold, seconds, ways_on) = (self.cold, self.counted.1, self.ways_on);
        let guessed = Bounds {
            best: self.without_counters(USUAL_PER_COUNT, USUAL_SHARE, cold.best),
            low: self.without_counters(MOST_PER_COUNT, MOST_SHARE, cold.high),
            high: passed,
        };
        let without_ways = |time: Bounds| {
            let high = native(time.high, ways_on.low);
            let low = native(time.low, ways_on.high).max(self.least).min(high);
            Bounds { best: native(time.best, ways_on.best).clamp(low, high), low, high }
        };
        let Some(share) = self.share else { return without_ways(guessed) };
        let (best, low) = (seconds * share.best, (seconds * share.low).max(self.least));
        let high = (passed * share.high).max(low);
        let measured = Bounds { best: best.clamp(low, high), low, high };
        if !share.is_whole {
            return without_ways(guessed.with_measured(measured));
        }
        let guessed = without_ways(guessed);
        Bounds { high: SLOWER_NATIVELY.value * guessed.high, ..guessed }.with_measured(measured)
    }

    /// Native seconds, as far as what is not known of them is the same in all windows, and how far they are off besides in windows of the
    /// same group, as a logarithm.
    pub(super) fn common_part(&self, native: Bounds) -> (Bounds, f64) {
        let Some(share) = self.share.filter(|_| native.low > 0.0) else { return (native, 0.0) };
        let common = (1.0 - share.own.powi(2)).max(0.0).sqrt();
        let part = |end: f64| native.best * (end / native.best).powf(common);
        let off = (native.high / native.low).ln() / 2.0 * share.own;
        (Bounds { low: part(native.low), high: part(native.high), ..native }, off)
    }

    /// Ratio of the burst's time to that of its own window; the scatter of bursts tells how likely it is for others.
    pub(super) fn speed(&self, native: Bounds) -> Option<Speed> {
        let speed = |seconds: f64| self.counted.0 / seconds / (self.traced.0 / self.traced.1);
        let speed = Speed::between(speed(native.best), speed(native.high), speed(native.low));
        let is_one = |speed: f64| speed.is_finite() && speed > 0.0;
        [speed.low, speed.best, speed.high].into_iter().all(is_one).then_some(speed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of 250 ns in which counters and look-ups may have taken more than that: its instructions take 100 ns at least.
    #[test]
    fn no_window_is_shorter_than_its_instructions() {
        let pair = |least: f64| Pair {
            time: Nanos(0),
            place: CodeRegion::Loop(0),
            traced: (1.0, 1.0),
            counted: (1000.0, 250e-9),
            passed: 250e-9,
            blocks: 250.0,
            ways_on: Bounds { best: 50e-9, low: 0.0, high: 500e-9 },
            least,
            cold: Bounds::exactly(0.0),
            pid: Pid(1),
            windows: Windows::default(),
            share: None,
            by_place: BTreeMap::new(),
        };
        let of = |least: f64| pair(least).between(250e-9);
        let free = of(0.0);
        assert!(free.low < 30e-9 && free.low < free.best && free.best < free.high, "{free:?}");
        assert_eq!(of(100e-9), Bounds { low: 100e-9, ..free });
        assert_eq!(of(200e-9), Bounds { low: 200e-9, best: 200e-9, high: 250e-9 });
        assert_eq!(of(300e-9), Bounds::exactly(250e-9));
    }
}
