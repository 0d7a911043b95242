//! Loops in bursts: iterations per second of their own time, and iterations per iteration of the enclosing loop.
//!
//! What for: a second estimate of the pace that shares nothing with registers but the thread's CPU clock. And where a loop has no
//! odometer but its enclosing loop has one, the trip count.
//! What not: a correction. Translated code runs somewhat slower than native code, the more so the shorter its iterations are.
//! For a speed only bursts count whose blocks all lie in the loop: in others the loop's share of the time is unknown. For a trip
//! count all do.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::{BlockId, BurstId, CodeAddress, IndexMap, Nanos};
use facts::{Block, Burst, BurstEnd, BurstFlavour, Evidence, Metric, Recording, decode_records};
use x86::Reader;
use x86::translate::RecordLayout;

use super::code::{Code, LoopId};
use crate::parallel;
use crate::traced::{instructions, pieces_by_burst};
use estimate::interval::{Z_95, ratio_and_half};

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

/// One burst.
#[derive(Debug)]
struct Counted {
    /// Iterations of each loop.
    passes: BTreeMap<LoopId, f64>,
    /// Whether blocks were counted in it that access no memory: it is a count window.
    all_counted: bool,
    /// The loops in which any of its code ran.
    met: BTreeSet<LoopId>,
    /// Its CPU time, if that is known.
    time: Option<Nanos>,
    /// It ended at a system call.
    at_call: bool,
}

impl Counted {
    /// Iterations of a loop; of one that calls several functions, if loops of this one ran.
    fn of(&self, one: LoopId) -> f64 {
        let runs = |callee| self.met.iter().any(|met| met.function == callee);
        let passes = self.passes.get(&one.whole()).filter(|_| one.callee.is_none_or(runs));
        passes.copied().unwrap_or(0.0)
    }
}

/// Iterations of loops in bursts and count windows.
#[derive(Debug, Default)]
pub(super) struct BurstCounts {
    /// Speeds in those whose blocks all lie in one loop: of windows, and of bursts that traced accesses.
    windows: BTreeMap<LoopId, Speed>,
    traced: BTreeMap<LoopId, Speed>,
    bursts: BTreeMap<BurstId, Counted>,
}

/// Iterations per iteration of the loop around.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Trips {
    pub ratio: f64,
    /// Half of its 95 % interval.
    pub half: f64,
    /// What shows it, and how many of these.
    pub by: Witness,
    pub seen: usize,
}

/// Who tells trips.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Witness {
    Bursts,
    Samples,
}

impl Trips {
    /// Half of its interval, as a part of it.
    pub(super) fn relative(&self) -> f64 {
        self.half / self.ratio
    }

    /// Of a pace that follows from them.
    pub(super) fn evidence(&self) -> Evidence {
        match self.by {
            Witness::Bursts => Evidence::Estimated,
            Witness::Samples => Evidence::Sampled,
        }
    }

    pub(super) fn metric(&self) -> Metric {
        let interval = (self.ratio - self.half, self.ratio + self.half);
        Metric::with_interval(self.evidence(), self.ratio, "count", interval, self.seen as u64)
    }
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
        let pieces = pieces_by_burst(recording);
        let bursts: Vec<&Burst> =
            recording.bursts.iter().filter(|burst| !burst.records_lost).collect();
        let all = parallel::each(&bursts, |burst| {
            let pieces = pieces.get(&burst.id).map_or(&[][..], Vec::as_slice);
            executions(pieces)
        });
        let mut seen = BurstCounts::default();
        for (burst, ran) in bursts.into_iter().zip(&all) {
            let ran: Vec<(&Translated, u32, f64)> = ran
                .iter()
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
            let time =
                burst.cpu_time.map(|time| time.min(burst.in_code())).filter(|time| time.0 > 0);
            let met: BTreeSet<LoopId> =
                ran.iter().flat_map(|(block, ..)| block.around.iter().copied()).collect();
            for one in met.iter().copied() {
                let all_in = ran.iter().all(|(block, ..)| block.around.contains(&one));
                if let Some(time) = time.filter(|_| all_in) {
                    let iterations = passes.get(&one).copied().unwrap_or(0.0);
                    speeds.entry(one).or_default().add(iterations, time);
                }
            }
            let all_counted = burst.flavour == BurstFlavour::Count;
            let at_call = burst.end == BurstEnd::Native;
            seen.bursts.insert(burst.id, Counted { passes, all_counted, met, time, at_call });
        }
        seen
    }

    /// Iterations of a loop in a burst that traced accesses, as far as any were seen.
    pub(super) fn traced(&self, burst: BurstId, one: LoopId) -> Option<f64> {
        let burst = self.bursts.get(&burst)?;
        burst.passes.get(&one).copied().filter(|_| !burst.all_counted)
    }

    /// How the pace compares with bursts and count windows, in words.
    pub(super) fn in_words(&self, one: LoopId, rate: f64) -> Option<String> {
        let kinds = [(&self.traced, "burst"), (&self.windows, "window")];
        let words = kinds.iter().filter_map(|(speeds, name)| {
            let speed = speeds.get(&one).filter(|speed| speed.iterations > 0.0 && rate > 0.0)?;
            let part = speed.iterations / speed.seconds / rate;
            let plural = if speed.bursts == 1 { "" } else { "s" };
            Some(format!("{part:.2} in {} {name}{plural}", speed.bursts))
        });
        let words: Vec<String> = words.collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Iterations per second of a loop at least: translated code is no quicker than native code, and other code took a part
    /// of the time. `is_inside` says which loops run only within this one; a burst in one of these counts, for few of those in
    /// a slow loop see the code around its inner ones. By traces or by windows, whichever says more; `None` with too few.
    pub(super) fn at_least(&self, one: LoopId, is_inside: impl Fn(&LoopId) -> bool) -> Option<f64> {
        let mut kinds = [Speed::default(); 2];
        for burst in self.bursts.values() {
            let inside = burst.met.iter().any(|met| *met == one || is_inside(met));
            if let Some(time) = burst.time.filter(|_| inside) {
                let iterations = burst.of(one);
                kinds[usize::from(burst.all_counted)].add(iterations, time);
            }
        }
        let enough = kinds.iter().filter(|speed| speed.bursts >= LEAST_BURSTS as u32);
        // Which iterations a burst met is chance.
        let least = |speed: &Speed| speed.iterations - Z_95 * speed.iterations.sqrt();
        enough.map(|speed| least(speed).max(0.0) / speed.seconds).reduce(f64::max)
    }

    /// Passes of one loop over those of the loops around it together: a ratio of sums over bursts, its variance linearised
    /// (Cochran, Sampling Techniques, 6.4). Of a burst that ends at a system call, the last pass of a loop around may end there, too, each time:
    /// then it is no more than half as long, on average, as it would be if the burst had begun with it.
    pub(super) fn trips(&self, code: &Code, inner: LoopId, outer: &[LoopId]) -> Option<Trips> {
        // Of a loop without a record in each iteration only count windows tell.
        let traced =
            outer.iter().chain([&inner]).all(|one| code.last_per_iteration(*one, true).is_some());
        let bursts = self.bursts.values().filter(|burst| traced || burst.all_counted);
        let mut cut = 0;
        let both = bursts.map(|burst| {
            let outer = outer.iter().map(|one| burst.of(*one)).sum::<f64>();
            cut += usize::from(burst.at_call && outer > 0.0);
            (burst.of(inner), outer)
        });
        let both: Vec<(f64, f64)> =
            both.filter(|(inner, outer)| *inner > 0.0 || *outer > 0.0).collect();
        let outer: f64 = both.iter().map(|one| one.1).sum();
        if both.len() < LEAST_BURSTS || outer < FEWEST_ITERATIONS {
            return None;
        }
        let (ratio, half) = ratio_and_half(&both, 0.0).filter(|(ratio, _)| *ratio > 0.0)?;
        let most = outer / (outer - cut as f64 / 2.0);
        let (middle, open) = ((1.0 + most) / 2.0, (most - 1.0) / 2.0);
        let half = (half? * middle).hypot(ratio * open);
        Some(Trips { ratio: ratio * middle, half, by: Witness::Bursts, seen: both.len() })
    }
}

/// How often blocks of a burst were left, by their ways out.
fn executions(pieces: &[&[u8]]) -> IndexMap<(BlockId, u32), f64> {
    let mut counts: IndexMap<(BlockId, u32), f64> = IndexMap::default();
    for piece in pieces {
        // What does not decode is left out; `verify` reports it.
        let _ = decode_records(piece, |record| {
            // The way out is that of the last iteration; those before ran the whole block, which is way 0.
            *counts.entry((record.block, 0)).or_default() +=
                record.iterations.saturating_sub(1) as f64;
            *counts.entry((record.block, record.way)).or_default() += 1.0;
        });
    }
    counts
}

/// The loops whose iterations an instruction counts.
struct Telling(HashMap<CodeAddress, Vec<LoopId>>);

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
    let CodeAddress { module, offset } = *places.first()?;
    let of_place = |(at, place)| {
        let loops = telling.0.get(place).into_iter().flatten();
        loops.map(move |one| (*one, at))
    };
    let tells = places.iter().enumerate().flat_map(of_place).collect();
    // Blocks that are counted are left at their ends only.
    let all_counted = block.flavour == BurstFlavour::Count;
    let ways = if all_counted { vec![places.len()] } else { layout.ways };
    Some(Translated { around: code.functions.around_byte(module, offset), tells, ways })
}
