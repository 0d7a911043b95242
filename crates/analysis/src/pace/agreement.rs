//! Loops in bursts: iterations per second of their own time, and iterations per iteration of the enclosing loop.
//!
//! What for: a second estimate of the pace that shares nothing with registers but the thread's CPU clock. And where a loop has no
//! odometer but its enclosing loop has one, the trip count.
//! What not: a correction. Translated code runs somewhat slower than native code, the more so the shorter its iterations are.
//! For a speed only bursts count whose blocks all lie in the loop: in others the loop's share of the time is unknown. For a trip
//! count all do.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::{BlockId, BurstId, FileOffset, ModuleId, Nanos};
use facts::{Block, BurstFlavour, Recording, decode_records};
use x86::Reader;
use x86::translate::RecordLayout;

use super::code::{Code, LoopId};
use crate::index_map::IndexMap;
use crate::traced::instructions;
use estimate::interval::ratio_and_half;

/// Fewer bursts have no scatter to speak of.
const LEAST_BURSTS: usize = 3;
/// Iterations of a loop that bursts must have seen in all, if they are to tell what there is to one: of fewer, chance decides
/// whether a burst met one.
pub(super) const FEWEST_ITERATIONS: f64 = 20.0;

/// Iterations of a loop and the CPU time of the bursts in it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Speed {
    iterations: f64,
    seconds: f64,
    bursts: u32,
}

impl Speed {
    fn add(&mut self, iterations: f64, time: Nanos) {
        self.iterations += iterations;
        self.seconds += time.seconds();
        self.bursts += 1;
    }
}

/// Of windows, or of bursts that traced accesses, by loop.
#[derive(Debug, Default)]
struct Speeds {
    /// Of those whose blocks all lie in it.
    within: BTreeMap<LoopId, Speed>,
    /// Of all in which any of its code ran, with the time of all else in them.
    touched: BTreeMap<LoopId, Speed>,
}

/// Iterations of loops in bursts and count windows.
#[derive(Debug, Default)]
pub(super) struct BurstCounts {
    windows: Speeds,
    traced: Speeds,
    /// Iterations of each loop, by burst, and whether blocks were counted in it that access no memory.
    passes: BTreeMap<BurstId, (BTreeMap<LoopId, f64>, bool)>,
}

/// Iterations per iteration of the loop around.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Trips {
    pub ratio: f64,
    /// Half of its 95 % interval.
    pub half: f64,
    pub bursts: usize,
}

/// A translated block: the loops around it, and those of which it runs the instruction that tells their iterations, with its
/// place among the block's.
struct Translated {
    around: Vec<LoopId>,
    tells: Vec<(LoopId, usize)>,
    /// Instructions that run, by the way out.
    ways: Vec<usize>,
}

impl BurstCounts {
    pub(super) fn new(recording: &Recording, code: &Code) -> BurstCounts {
        let flavours = [BurstFlavour::Count, BurstFlavour::Trace];
        let blocks = recording.blocks.iter().filter(|block| flavours.contains(&block.flavour));
        let mut reader = Reader::new();
        let telling = [Telling::new(code, false), Telling::new(code, true)];
        let blocks: HashMap<BlockId, Translated> = blocks
            .filter_map(|block| {
                let telling = &telling[usize::from(block.flavour == BurstFlavour::Trace)];
                Some((block.id, translated((code, telling), block, &mut reader)?))
            })
            .collect();
        let mut runs: HashMap<BurstId, IndexMap<(BlockId, u32), f64>> = HashMap::new();
        for records in &recording.records {
            let counts = runs.entry(records.burst).or_default();
            // What does not decode is left out; `verify` reports it.
            let _ = decode_records(&records.bytes, |record| {
                // The way out is that of the last iteration; those before ran the whole block, which is way 0.
                *counts.entry((record.block, 0)).or_default() +=
                    record.iterations.saturating_sub(1) as f64;
                *counts.entry((record.block, record.way)).or_default() += 1.0;
            });
        }
        let mut seen = BurstCounts::default();
        for burst in recording.bursts.iter().filter(|burst| !burst.records_lost) {
            let ran = runs.get(&burst.id).into_iter().flatten();
            let ran: Vec<(&Translated, u32, f64)> = ran
                .filter_map(|((block, way), count)| Some((blocks.get(block)?, *way, *count)))
                .collect();
            let mut passes: BTreeMap<LoopId, f64> = BTreeMap::new();
            for (block, way, count) in &ran {
                let executed = block.ways.get(*way as usize).copied().unwrap_or(0);
                for (one, _) in block.tells.iter().filter(|(_, at)| *at < executed) {
                    *passes.entry(*one).or_default() += count;
                }
            }
            let speeds = match burst.flavour {
                BurstFlavour::Count => &mut seen.windows,
                BurstFlavour::Trace => &mut seen.traced,
                BurstFlavour::Timed | BurstFlavour::Sparse => continue,
            };
            let time = burst.cpu_time.map(|time| time.min(burst.elapsed)).filter(|time| time.0 > 0);
            if let Some(time) = time {
                let any: BTreeSet<LoopId> =
                    ran.iter().flat_map(|(block, ..)| block.around.iter().copied()).collect();
                for one in any {
                    let iterations = passes.get(&one).copied().unwrap_or(0.0);
                    speeds.touched.entry(one).or_default().add(iterations, time);
                    if ran.iter().all(|(block, ..)| block.around.contains(&one)) {
                        speeds.within.entry(one).or_default().add(iterations, time);
                    }
                }
            }
            seen.passes.insert(burst.id, (passes, burst.flavour == BurstFlavour::Count));
        }
        seen
    }

    /// Iterations of a loop in a burst that traced accesses, as far as any were seen.
    pub(super) fn traced(&self, burst: BurstId, one: LoopId) -> Option<f64> {
        let (passes, all_counted) = self.passes.get(&burst)?;
        passes.get(&one).copied().filter(|_| !all_counted)
    }

    /// How the pace compares with bursts and count windows, in words.
    pub(super) fn in_words(&self, one: LoopId, rate: f64) -> Option<String> {
        let kinds = [(&self.traced, "burst"), (&self.windows, "window")];
        let words = kinds.iter().filter_map(|(speeds, name)| {
            let speed =
                speeds.within.get(&one).filter(|speed| speed.iterations > 0.0 && rate > 0.0)?;
            let part = speed.iterations / speed.seconds / rate;
            let plural = if speed.bursts == 1 { "" } else { "s" };
            Some(format!("{part:.2} in {} {name}{plural}", speed.bursts))
        });
        let words: Vec<String> = words.collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Iterations per second where translated code ran, at least: it is no quicker than native code, and other code took a part
    /// of the time. The faster of traces and windows. `None` with too few bursts.
    pub(super) fn at_least(&self, one: LoopId) -> Option<f64> {
        let kinds = [&self.traced, &self.windows];
        let kinds = kinds.into_iter().filter_map(|speeds| speeds.touched.get(&one));
        let observed =
            kinds.filter(|speed| speed.bursts >= LEAST_BURSTS as u32 && speed.seconds > 0.0);
        observed.map(|speed| speed.iterations / speed.seconds).reduce(f64::max)
    }

    /// Passes of one loop over those of one around it. Where traces and count windows disagree, neither is believed.
    pub(super) fn trips(&self, code: &Code, inner: LoopId, outer: LoopId) -> Option<Trips> {
        let traced = [inner, outer].iter().all(|one| code.last_per_iteration(*one, true).is_some());
        if !traced {
            return self.trips_in(inner, outer, |all_counted| all_counted);
        }
        let kinds = [true, false].map(|counted| self.trips_in(inner, outer, |of| of == counted));
        if let [Some(windows), Some(traces)] = kinds
            && (windows.ratio - traces.ratio).abs() > windows.half + traces.half
        {
            return None;
        }
        self.trips_in(inner, outer, |_| true)
    }

    /// A ratio of sums over bursts, its variance linearised (Cochran, Sampling Techniques, 6.4).
    fn trips_in(
        &self,
        inner: LoopId,
        outer: LoopId,
        counts: impl Fn(bool) -> bool,
    ) -> Option<Trips> {
        let count = |passes: &BTreeMap<LoopId, f64>, one| passes.get(&one).copied().unwrap_or(0.0);
        let both = self.passes.values().filter(|(_, all_counted)| counts(*all_counted));
        let both = both.map(|(passes, _)| (count(passes, inner), count(passes, outer)));
        let both: Vec<(f64, f64)> =
            both.filter(|(inner, outer)| *inner > 0.0 || *outer > 0.0).collect();
        let outer: f64 = both.iter().map(|one| one.1).sum();
        if both.len() < LEAST_BURSTS || outer < FEWEST_ITERATIONS {
            return None;
        }
        let (ratio, half) = ratio_and_half(&both, 0.0).filter(|(ratio, _)| *ratio > 0.0)?;
        Some(Trips { ratio, half: half?, bursts: both.len() })
    }
}

/// The loops whose iterations an instruction counts.
struct Telling(HashMap<(ModuleId, FileOffset), Vec<LoopId>>);

impl Telling {
    /// `with_memory`: only code that accesses memory leaves a record. A count window asks the same instruction where
    /// there is one: an instruction behind the loop's exit counts one pass less per run, and most of the passes of a
    /// loop that seldom iterates.
    fn new(code: &Code, with_memory: bool) -> Telling {
        let mut found: HashMap<_, Vec<LoopId>> = HashMap::new();
        for one in code.all() {
            let any = || code.last_per_iteration(one, false).filter(|_| !with_memory);
            if let Some(place) = code.last_per_iteration(one, true).or_else(any) {
                found.entry(place).or_default().push(one);
            }
        }
        Telling(found)
    }
}

fn translated(
    (code, telling): (&Code, &Telling),
    block: &Block,
    reader: &mut Reader,
) -> Option<Translated> {
    let layout: RecordLayout = block.record.parse().ok()?;
    let (_, places) = instructions(&block.pieces, reader)?;
    let (module, offset) = *places.first()?;
    let of_place = |(at, place)| {
        let loops = telling.0.get(place).into_iter().flatten();
        loops.map(move |one| (*one, at))
    };
    let tells = places.iter().enumerate().flat_map(of_place).collect();
    // Blocks that are counted are left at their ends only.
    let all_counted = block.flavour == BurstFlavour::Count;
    let ways = if all_counted { vec![places.len()] } else { layout.ways };
    Some(Translated { around: code.around_byte(module, offset), tells, ways })
}
