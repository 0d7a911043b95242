//! The no-miss time of a burst: what its instructions take with all their data in the first-level cache.
//!
//! What for: the core part of a burst's time, with bounds. What not: the program's share of it, and what that means (`bound`,
//! `function`).
//!
//! Instructions in loops take the measured no-miss time of the loop. Others take what paths through such code took, drawn in
//! bursts that began in the same function, or in any where these are too few (`path_paces`). Where too few
//! were timed they take [`USUAL`], with [`QUICKEST`] and the sum of their latencies as bounds. To these come mispredicted
//! branches (`branches`, corrected by `predictors`), each with what it waits for ([`branch_cost`]). The sum is at most the
//! native time of the burst. The parts are measured apart, so each stands somewhere between its own ends in a replicate.
//!
//! Lower bound of a program with one thread: its time outside the kernel less all possible waits of its accesses, in sequence,
//! each with the latency of its hit level; hits in the first level are core time. With more threads lines may come from another core, which the cache model does not
//! know.
//!
//! Assumptions: waits for code fetch are small. Cores run no slower than the time-stamp counter, whose rate is that of the base
//! clock (SDM vol. 3, 18.17). Latency under load is at most [`LOADED`] times that of one load alone.

use std::collections::{BTreeMap, HashMap};

use base::BlockId;
use estimate::parameters::{LATER_SPEED, UNRESOLVED};
use estimate::ratios::Ratio;
use estimate::{Bounds, Draws, Estimate, REPLICATES};
use facts::{Evidence, IterationTime, Metric, NoMissOutcome, Recording};

use super::Memory;
use super::predictors::Predictors;
use super::quantity::Quantity;
use super::work::{BurstWork, SiteWork};
use crate::traced::SiteIndex;

/// Seconds that an instruction takes in code that was not timed: two per cycle at 3 GHz.
const USUAL: f64 = 0.17e-9;
/// No processor of these years is quicker: eight per cycle at 5 GHz.
const QUICKEST: f64 = 0.025e-9;
/// Cycles per second where the machine does not report it.
const SLOW_CLOCK: f64 = 2e9;
/// Seconds that a mispredicted branch costs where the machine was not measured, usually, at least and at most: 18, 10 and 25
/// cycles at 4, 5 and 3 GHz (Fog, The microarchitecture of Intel, AMD and VIA CPUs: 15 to 20 on Intel since Haswell, 18 on Zen;
/// fewer where the way back is in the cache of decoded instructions).
const MISPREDICTED: Bounds = Bounds { best: 4.5e-9, low: 2e-9, high: 8e-9 };
/// Relative error of the cost in a program against that of the measured loop: code that is not decoded yet takes some cycles
/// more, and other work that continues meanwhile some less.
const MISPREDICTED_OFF: f64 = 0.25;
/// Factor by which a load takes longer, at most, when many are in flight.
pub(super) const LOADED: f64 = 2.0;
/// Nanoseconds of a page walk at most, four loads of which two come from memory.
const WALK: f64 = 250.0;
/// Random numbers of core times.
const SEED: u64 = 0x0063_6f72_6500;
/// Up to this mean concurrency the program counts as one thread.
pub(super) const ONE_THREAD: f64 = 1.05;

/// The median of the repetitions, with 95 % of where it may lie: from the deciles σ, and 1.2533 σ / √n for the median of n
/// (Kendall & Stuart, The Advanced Theory of Statistics, 10.12). Repetitions of one turn are alike and count as one.
pub(crate) fn seconds(time: &IterationTime) -> Bounds {
    // Repetitions of a turn that count: `QUICK` of `collect::no_miss::timing`.
    const IN_TURN: f64 = 8.0;
    let turns = (f64::from(time.repetitions) / IN_TURN).max(1.0);
    // 1.2816: as many standard deviations from the mean lie the deciles of a normal distribution.
    let part = (1.96 * 1.2533 / (1.2816 * turns.sqrt())).min(1.0);
    let seconds = |picos: base::Picos| picos.0 as f64 * 1e-12;
    let [median, low, high] = [time.median, time.low, time.high].map(seconds);
    Bounds {
        best: median,
        low: median - (median - low) * part,
        high: median + (high - median) * part,
    }
}

/// Seconds of a cycle of the time-stamp counter.
pub(super) fn cycle(recording: &Recording) -> f64 {
    let clock = recording.run.host.tsc_hz.filter(|hz| *hz > 0.0);
    clock.map_or(1.0 / SLOW_CLOCK, f64::recip)
}

/// Seconds of an instruction where a core runs as many as it can, none of which waits; 0 where that was not measured. It is a
/// difference of two times, of which a disturbed one may make the lower end negative: then that end says nothing.
pub(super) fn quickest(recording: &Recording) -> f64 {
    let operations = recording.run.calibration.iter().flat_map(|one| &one.operations);
    let mut each = operations.filter(|one| one.operation == "instruction").map(|one| &one.each);
    let least = |each: &Metric| each.low.filter(|low| *low > 0.0).or(each.value);
    each.next().and_then(least).map_or(0.0, |nanos| nanos.max(0.0) * 1e-9)
}

/// Seconds that a mispredicted branch costs.
pub(super) fn branch_miss(recording: &Recording) -> Bounds {
    let measured =
        recording.run.calibration.as_ref().and_then(|found| found.branch_miss.as_ref()?.value);
    measured.filter(|nanos| *nanos > 0.0).map_or(MISPREDICTED, |nanos| {
        let of = |part: f64| nanos * part * 1e-9;
        Bounds { best: of(1.0), low: of(1.0 - MISPREDICTED_OFF), high: of(1.0 + MISPREDICTED_OFF) }
    })
}

/// No-miss times of loops by block, seconds per iteration.
pub(super) fn loops(recording: &Recording) -> HashMap<BlockId, Bounds> {
    let loops = recording.no_miss_times.iter().filter(|one| one.path.is_none());
    let measured = loops.filter_map(|one| match &one.outcome {
        NoMissOutcome::Measured(time) => Some((one.block, seconds(time))),
        NoMissOutcome::Refused(_) => None,
    });
    measured.collect()
}

/// What branches at the ends of loops wait for, seconds.
pub(super) fn resolutions(recording: &Recording) -> HashMap<BlockId, f64> {
    let loops = recording.no_miss_times.iter().filter(|one| one.path.is_none());
    let measured = loops.filter_map(|one| Some((one.block, one.resolution?)));
    measured
        .map(|(block, one)| (block, one.time.0 as f64 * 1e-12 / f64::from(one.blocks)))
        .collect()
}

/// Seconds that a mispredicted branch costs in a burst: those of the measured loop, in which it waits for nothing, and those that it
/// waits: at the ends of loops, or elsewhere in its function. Where these were not measured, up to [`UNRESOLVED`] times the former.
fn branch_cost(
    burst: &BurstWork,
    (loops, elsewhere): (Bounds, Option<&Ratio>),
    place: f64,
    at: Option<usize>,
) -> f64 {
    let all = burst.mispredicted.max(f64::MIN_POSITIVE);
    let (known, open) = (burst.resolved / all, burst.unresolved / all);
    let more = |most: f64| {
        let best = loops.best + known;
        let of = |end: f64| best * end / loops.best;
        Bounds { best, low: of(loops.low), high: of(loops.high) + most }.at(place)
    };
    match elsewhere {
        Some(waits) => more(0.0) + open * waits.at(at) * loops.at(place) / loops.best,
        None => more(open * UNRESOLVED.value * loops.best),
    }
}

/// Where each part of core times stands between its ends: loops, paths, the number of mispredicted branches, the cost of one, the
/// core's speed. They are measured apart, and none is off because another is.
fn parts() -> [Vec<f64>; 5] {
    std::array::from_fn(|at| Draws::new(SEED | at as u64).measured())
}

/// Times of each burst, seconds.
pub(super) struct CoreTimes {
    /// With all data in L1.
    pub(super) core: Vec<Estimate>,
    /// As in the program.
    pub(super) native: Quantity,
}

impl Memory<'_> {
    pub(super) fn core_times(&self) -> CoreTimes {
        let drawn = parts();
        // Where nothing was timed, only the ends are known.
        let open = Draws::new(SEED | drawn.len() as u64).anywhere();
        let (own, covered, all) = self.no_miss_sums();
        let usual = if covered > 0.5 * all { own / covered } else { USUAL };
        let cycle = cycle(self.profile.recording);
        let (latency, timed) = (self.latencies(), self.timed.mean_waits());
        let miss = branch_miss(self.profile.recording);
        let predictors = Predictors::read(self.profile.recording, &self.passed, miss.best);
        let (drawn, open, predictors) = (&drawn, &open, &predictors);
        self.each_core_time(|burst| {
            let other = (burst.instructions - burst.no_miss_instructions).max(0.0);
            let slowest = burst.slowest_cycles * cycle;
            let unknown = Bounds { best: usual, low: QUICKEST, high: f64::INFINITY };
            let known = self.paces.of(burst);
            let missed = self.missed(burst, predictors, miss);
            let waits = self.waits_at_most(burst, &latency, &timed);
            move |time: f64, at: Option<usize>| {
                let place = |of: &[f64]| at.map_or(0.0, |at| of[at]);
                let [loops, paths, branches, cost, later] = drawn.each_ref().map(|of| place(of));
                let others = match known {
                    Some(pace) => (other * pace.at(paths, at)).min(slowest),
                    None => {
                        let most = if other > 0.0 { slowest } else { 0.0 };
                        let ends = Bounds {
                            best: other * unknown.best,
                            low: other * unknown.low,
                            high: most,
                        };
                        ends.at(place(open))
                    }
                };
                let sum = burst.no_miss_time.at(loops) + others + missed([branches, cost], at);
                let sum = sum * (1.0 + LATER_SPEED.value * later);
                // No less than the time that waits cannot explain, whatever the parts say.
                sum.max(time - waits).clamp(0.0, time)
            }
        })
    }

    /// The same by waits alone, where no-miss times are not those of the program: anywhere between the time that waits cannot
    /// explain and all of it.
    pub(super) fn core_times_by_waits(&self) -> CoreTimes {
        let open = &Draws::new(SEED).even();
        let (latency, timed) = (self.latencies(), self.timed.mean_waits());
        self.each_core_time(|burst| {
            let waits = self.waits_at_most(burst, &latency, &timed);
            move |time: f64, at: Option<usize>| {
                time - waits.min(time) * at.map_or(0.5, |at| open[at])
            }
        })
    }

    /// Of each burst by its time, and the number of the replicate; `None`: the best value.
    fn each_core_time<'b, C>(&'b self, of: impl Fn(&'b BurstWork) -> C) -> CoreTimes
    where
        C: Fn(f64, Option<usize>) -> f64,
    {
        let bursts = &self.passed.bursts;
        let (mut core, mut native) = (Vec::new(), Quantity::none(bursts.len()));
        for (number, burst) in bursts.iter().enumerate() {
            let of_burst = of(burst);
            let (seconds, time) = (self.strata.seconds_of(number), self.strata.native(number));
            let drawn = (0..REPLICATES).map(|at| of_burst(time.replicate(at), Some(at)));
            core.push(Estimate::new(of_burst(seconds, None), drawn.collect()));
            native.add(number, Bounds::exactly(seconds));
        }
        CoreTimes { core, native }
    }

    /// Seconds that mispredicted branches cost in a burst, by where their number and the cost of one (`miss`, where it waits for nothing)
    /// stand between their ends.
    fn missed<'b>(
        &'b self,
        burst: &'b BurstWork,
        predictors: &'b Predictors,
        miss: Bounds,
    ) -> impl Fn([f64; 2], Option<usize>) -> f64 + 'b {
        let (predictor, waits) = (predictors.of(burst.function), self.paces.resolution(burst));
        move |[branches, cost], at| {
            let number = burst.mispredicted * predictor.at(branches, at);
            number.min(burst.most_mispredicted) * branch_cost(burst, (miss, waits), cost, at)
        }
    }

    /// Seconds of CPU time that mispredicted branches cost.
    #[must_use]
    pub fn mispredicted(&self) -> Metric {
        if let Some(why) = self.missing() {
            return Metric::unavailable("s", why);
        }
        let miss = branch_miss(self.profile.recording);
        let predictors = Predictors::read(self.profile.recording, &self.passed, miss.best);
        let [_, _, branches, cost, _] = parts();
        let each = self.passed.bursts.iter().map(|burst| {
            let missed = self.missed(burst, &predictors, miss);
            let at = |at: usize| missed([branches[at], cost[at]], Some(at));
            Estimate::new(missed([0.0; 2], None), (0..REPLICATES).map(at).collect())
        });
        let each: Vec<Estimate> = each.collect();
        self.expansion().shown(self.expansion().drawn(&each), "s", Evidence::Estimated)
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

    /// Seconds and instructions in loops with a no-miss time, and all instructions.
    fn no_miss_sums(&self) -> (f64, f64, f64) {
        let bursts = self.passed.bursts.iter();
        bursts.fold((0.0, 0.0, 0.0), |(own, covered, all), burst| {
            (
                own + burst.no_miss_time.best,
                covered + burst.no_miss_instructions,
                all + burst.instructions,
            )
        })
    }

    /// Share of the instructions of these bursts that was timed, or that timed paths of their function represent, percent.
    pub(super) fn timed_percent<'b>(&self, bursts: impl Iterator<Item = &'b BurstWork>) -> f64 {
        let (timed, all) = bursts.fold((0.0, 0.0), |(timed, all), burst| {
            let known =
                self.paces.of(burst).map_or(burst.no_miss_instructions, |_| burst.instructions);
            (timed + known, all + burst.instructions)
        });
        if all > 0.0 { timed / all * 100.0 } else { 0.0 }
    }
}
