//! What the instructions of a burst take when all their data are in the first level.
//!
//! What for: the core part of a burst's time, with bounds. What not: the program's share of it, and what that means
//! (`bound`, `function`).
//!
//! Instructions in loops with a *core floor* take that. Others take what paths through such code took, drawn in bursts that
//! began in the same function (`collect::floor`): on average likely, the quickest and the slowest of them the bounds
//! ([`together`]). Where too few were timed they take [`USUAL`], with [`QUICKEST`] and their latencies one after the other
//! as bounds. To the upper bound comes each branch that may have been mispredicted (`branches`). To both come
//! loops without any access, of which bursts have no records: as much as samples say of the function (`silent`). No more than
//! the burst leaves.
//!
//! Lower bound of a program with one thread: its time outside of the kernel less all waits that its accesses can be, one
//! after the other, each from the level that serves it. With more threads lines may come from another core, which the cache
//! model does not know.
//!
//! Assumptions: waits for code fetch are small. Cores run no slower than the time-stamp counter, whose rate is that of the
//! base clock (SDM vol. 3, 18.17). Latency under load is at most [`LOADED`] times that of one load alone.

use std::collections::{BTreeMap, HashMap};

use base::{BlockId, BurstId};
use facts::{Burst, CoreFloor, FloorOutcome, FloorTime, Recording};

use super::Memory;
use super::bandwidth::Quantity;
use super::model::Between;
use super::work::{BurstWork, SiteWork};
use crate::interval::median;
use crate::profile::Profile;
use crate::stack::FunctionId;
use crate::traced::{Execution, Observer, SiteIndex, TracedBlock, TracedCode, replay_these};

/// Seconds that an instruction takes in code that was not timed: two per cycle at 3 GHz.
const USUAL: f64 = 0.17e-9;
/// No processor of these years is quicker: eight per cycle at 5 GHz.
const QUICKEST: f64 = 0.025e-9;
/// Cycles per second where the machine does not tell.
const SLOW_CLOCK: f64 = 2e9;
/// Seconds that a mispredicted branch costs at most: 25 cycles at 3 GHz (Fog, The microarchitecture of Intel, AMD and VIA
/// CPUs: 15 to 20 on Intel since Haswell, 18 on Zen).
const MISPREDICTED: f64 = 8e-9;
/// Fewer paths say nothing about others.
const FEWEST_PATHS: usize = 3;
/// Of the paths of a function this part must have been timed: those refused may be other code.
const TIMED_PART: f64 = 0.5;
/// How much longer a load takes at most when many are under way.
pub(super) const LOADED: f64 = 2.0;
/// Nanoseconds of a page walk at most, four loads of which two come from memory.
const WALK: f64 = 250.0;
/// Up to so many threads at a time it is one.
const ONE_THREAD: f64 = 1.05;

/// Seconds: likely, low, high.
pub(crate) type Seconds = (f64, f64, f64);

/// The median of the repetitions, with 95 % of where it may lie: from the deciles σ, and 1.2533 σ / √n for the median of n
/// (Kendall & Stuart, The Advanced Theory of Statistics, 10.12). Repetitions of one turn are alike and count as one.
pub(crate) fn seconds(time: &FloorTime) -> Seconds {
    const IN_TURN: f64 = 16.0;
    let turns = (f64::from(time.repetitions) / IN_TURN).max(1.0);
    let part = (1.96 * 1.2533 / (1.2816 * turns.sqrt())).min(1.0);
    let seconds = |picos: base::Picos| picos.0 as f64 * 1e-12;
    let [median, low, high] = [time.median, time.low, time.high].map(seconds);
    (median, median - (median - low) * part, median + (high - median) * part)
}

/// Floors of loops by block, per iteration.
pub(super) fn loops(recording: &Recording) -> HashMap<BlockId, Seconds> {
    let loops = recording.core_floors.iter().filter(|floor| floor.path.is_none());
    let measured = loops.filter_map(|floor| match &floor.outcome {
        FloorOutcome::Measured(time) => Some((floor.block, seconds(time))),
        FloorOutcome::Refused(_) => None,
    });
    measured.collect()
}

/// What instructions outside of loops with a floor take each, by the function in which bursts began.
#[derive(Debug, Default)]
pub(super) struct Paces {
    by_function: HashMap<FunctionId, Seconds>,
}

impl Paces {
    pub(super) fn read(profile: &Profile<'_>, code: &TracedCode, works: &[BurstWork]) -> Paces {
        let recording = profile.recording;
        let began = Began::read(profile, code, works);
        let mut paths: HashMap<FunctionId, Vec<Option<Seconds>>> = HashMap::new();
        for floor in &recording.core_floors {
            let Some((function, pace)) = began.pace(floor) else { continue };
            paths.entry(function).or_default().push(pace);
        }
        let mean = |(function, paths): (FunctionId, Vec<Option<Seconds>>)| {
            let timed: Vec<Seconds> = paths.iter().copied().flatten().collect();
            let enough = timed.len() >= FEWEST_PATHS
                && timed.len() as f64 >= TIMED_PART * paths.len() as f64;
            enough.then(|| (function, together(&timed)))
        };
        Paces { by_function: paths.into_iter().filter_map(mean).collect() }
    }

    fn of(&self, burst: &BurstWork) -> Option<Seconds> {
        self.by_function.get(&burst.function).copied()
    }
}

/// The mean of paths. Bounds: the quickest and the slowest path, by as much again as repetitions of one path differ, on
/// the median (that of a single path tells more about the machine's other work).
fn together(timed: &[Seconds]) -> Seconds {
    let of = |part: fn(&Seconds) -> f64| timed.iter().map(part).collect::<Vec<f64>>();
    let likely = of(|path| path.0);
    let ratio = |part: fn(&Seconds) -> f64| {
        let mut ratios = of(part);
        ratios.sort_by(f64::total_cmp);
        median(&ratios).filter(|ratio| ratio.is_finite()).unwrap_or(1.0)
    };
    let low = likely.iter().copied().fold(f64::INFINITY, f64::min) * ratio(|path| path.1 / path.0);
    let high = likely.iter().copied().fold(0.0, f64::max) * ratio(|path| path.2 / path.0);
    (likely.iter().sum::<f64>() / likely.len() as f64, low, high)
}

/// In which function the bursts of paths began.
struct Began<'a> {
    profile: &'a Profile<'a>,
    code: &'a TracedCode,
    function: Option<FunctionId>,
    by_burst: HashMap<BurstId, FunctionId>,
}

impl<'a> Began<'a> {
    fn read(profile: &'a Profile<'a>, code: &'a TracedCode, works: &[BurstWork]) -> Began<'a> {
        let recording = profile.recording;
        let paths = recording.core_floors.iter().filter_map(|floor| floor.path);
        let bursts: std::collections::HashSet<BurstId> = paths.map(|path| path.burst).collect();
        // Those that the pass left out are looked at here.
        let id = |work: &BurstWork| Some((recording.bursts.get(work.burst)?.id, work.function));
        // Where a burst came first, it began.
        let by_burst: HashMap<BurstId, FunctionId> = works.iter().rev().filter_map(id).collect();
        let unknown =
            |burst: &&Burst| bursts.contains(&burst.id) && !by_burst.contains_key(&burst.id);
        let bursts: Vec<&Burst> = recording.bursts.iter().filter(unknown).collect();
        let mut began = Began { profile, code, function: None, by_burst };
        replay_these(recording, code, &mut began, bursts.into_iter());
        began
    }

    /// What an instruction of the path took, and in which function its burst began.
    fn pace(&self, floor: &CoreFloor) -> Option<(FunctionId, Option<Seconds>)> {
        let path = floor.path.filter(|path| path.instructions > 0)?;
        let each = |time: f64| time / path.instructions as f64;
        let pace = match &floor.outcome {
            FloorOutcome::Measured(time) => {
                let (likely, low, high) = seconds(time);
                Some((each(likely), each(low), each(high)))
            }
            FloorOutcome::Refused(_) => None,
        };
        Some((*self.by_burst.get(&path.burst)?, pace))
    }
}

impl Observer for Began<'_> {
    fn begin(&mut self, _: &Burst) {
        self.function = None;
    }

    fn execute(&mut self, block: &TracedBlock, _: &Execution<'_>) {
        if self.function.is_none() {
            self.function = super::pass::began_in(self.profile, self.code, block);
        }
    }

    fn end(&mut self, burst: &Burst) {
        self.by_burst.extend(self.function.map(|function| (burst.id, function)));
    }
}

impl Memory<'_> {
    /// Core time and native time of each burst, seconds.
    pub(super) fn core_times(&self) -> (Quantity, Vec<f64>) {
        let bursts = self.passed.bursts.len();
        let mut core = Quantity::none(bursts);
        let mut native = vec![0.0; bursts];
        let (own, covered, all) = self.floored();
        let usual = if covered > 0.5 * all { own / covered } else { USUAL };
        let clock = self.profile.recording.run.host.tsc_hz.filter(|hz| *hz > 0.0);
        let cycle = clock.map_or(1.0 / SLOW_CLOCK, f64::recip);
        let (latency, timed) = (self.latencies(), self.timed.means());
        for (number, burst) in self.passed.bursts.iter().enumerate() {
            let seconds = self.strata.seconds_of(number);
            let other = (burst.instructions - burst.floor_instructions).max(0.0);
            let slowest = burst.slowest_cycles * cycle;
            let pace = self.paces.of(burst).unwrap_or((usual, QUICKEST, f64::INFINITY));
            let most = if other > 0.0 { (other * pace.2).min(slowest) } else { 0.0 };
            let other = (other * pace.0, other * pace.1, most);
            let least = (seconds - self.waits_at_most(burst, &latency, &timed)).max(0.0);
            let mispredicted = burst.mispredicted * MISPREDICTED;
            let low = (burst.floor.1 + other.1).max(least).min(seconds);
            // Of loops without accesses a burst has no records.
            let (silent, most_silent) = self.silent.share(burst.function);
            let most = burst.floor.2 + other.2 + mispredicted + most_silent * seconds;
            let high = most.min(seconds).max(low);
            let likely = (burst.floor.0 + other.0 + silent * seconds).clamp(low, high);
            self.add(&mut core, number, Between { likely, low, high });
            native[number] = seconds;
        }
        (core, native)
    }

    /// Seconds that the accesses of a burst wait at most: by the model, or as long as loads there took that were timed.
    fn waits_at_most(
        &self,
        burst: &BurstWork,
        latency: &[f64; 3],
        timed: &BTreeMap<SiteIndex, f64>,
    ) -> f64 {
        if self.running() > ONE_THREAD {
            return f64::INFINITY;
        }
        let nanos = |site: &SiteWork| {
            let walks = self.model.walks(site.site).high * (site.loads + site.stores) as f64;
            let model = self.weight(burst, site, latency).high * LOADED + walks * WALK;
            let timed = timed.get(&site.site).map_or(0.0, |mean| mean * site.loads as f64);
            model.max(timed)
        };
        burst.sites.iter().map(nanos).sum::<f64>() * 1e-9
    }

    /// Seconds and instructions in loops with a floor, and all instructions.
    fn floored(&self) -> (f64, f64, f64) {
        let bursts = self.passed.bursts.iter();
        bursts.fold((0.0, 0.0, 0.0), |(own, covered, all), burst| {
            (own + burst.floor.0, covered + burst.floor_instructions, all + burst.instructions)
        })
    }

    /// Of the instructions of these bursts, those that were timed, or that paths of their function speak for, percent.
    pub(super) fn timed_percent<'b>(&self, bursts: impl Iterator<Item = &'b BurstWork>) -> f64 {
        let (timed, all) = bursts.fold((0.0, 0.0), |(timed, all), burst| {
            let known =
                self.paces.of(burst).map_or(burst.floor_instructions, |_| burst.instructions);
            (timed + known, all + burst.instructions)
        });
        if all > 0.0 { timed / all * 100.0 } else { 0.0 }
    }
}
