//! What memory does to each function, as compiled with all that is inlined into it.
//!
//! What for: rules that name a location. Bursts that began in a function represent its CPU time, as in `strata`; a function with
//! fewer than [`FEWEST`] of them is left out. What not: which rule applies (`findings`).
//!
//! Weight of a site: its loads that miss L1, each times the latency of its hit level. So the shares of sites show where waits come
//! from, as far as loads do not overlap and prefetchers do not hide them. Stores count by the lines that they fetch.
//!
//! Accesses of a burst wait no longer than the burst takes: if their latencies add up to more, they overlapped, and its sites
//! count in proportion. So a phase with independent accesses does not outweigh, by its overlap, a phase in which each access
//! waits for the one before.
//!
//! Waits are of the time outside the kernel. Lines of pages that the kernel has just zeroed are not waited for (`zeroed`). The
//! whole program's figures are stratified by the functions in which bursts began (`strata`): the program's start, when bursts are
//! frequent, has more than its part of them.

use std::collections::BTreeMap;

use base::Nanos;
use estimate::{Bounds, Estimate};
use facts::{Evidence, Metric};
use x86::Kind;

use super::bound::{NO_TIME, OF_BEST, WHY_BEYOND};
use super::core_time::{CoreTimes, LOADED};
use super::expansion::Expansion;
use super::quantity::Quantity;
use super::work::{BurstWork, SiteWork};
use super::zeroed::{Zeroed, no_less_than_rest};
use super::{LINE, Memory};
use crate::figure::{Figure, spread};
use crate::stack::FunctionId;
use crate::threading::SpinningFunctions;
use crate::traced::SiteIndex;
use crate::weight::Weight;

/// Fewer bursts make no figure with an interval worth reading.
const FEWEST: usize = 3;
/// Nanoseconds of the levels beyond the first, where the machine was not measured.
const USUAL_LATENCY: [f64; 3] = [4.0, 20.0, 100.0];

/// A site's part in its function.
#[derive(Clone, PartialEq, Debug)]
pub struct SiteWeight {
    /// The site.
    pub site: SiteIndex,
    /// Executions, of all accesses of the function, percent.
    pub executed: f64,
    /// Its part of the function's waits, percent.
    pub share: Figure,
    /// Its page walks per second of the function's time.
    pub walks: Figure,
    /// Summed latency of its accesses beyond the first level, percent of the function's time.
    pub serial: Metric,
}

/// One function.
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionMemory {
    /// Which.
    pub function: FunctionId,
    /// CPU time in its own code, seconds.
    pub time: Metric,
    /// Share of that time beyond the no-miss time, percent.
    pub waits: Figure,
    /// Bytes to and from memory per second, in percent of the bandwidth reachable with as many threads on this machine.
    pub of_reach: Figure,
    /// Share of these bytes that was fetched only for a store, percent.
    pub overwritten: Figure,
    /// Summed latency of its accesses beyond the first level, each at that of its hit level, percent of its time.
    pub serial: Metric,
    /// Share of its instructions with a known no-miss time, percent.
    pub timed_percent: f64,
    /// Factor by which its loops took longer alone, without their memory, than in the program, which is impossible for the same
    /// code; 1 where they did not.
    pub excess: f64,
    /// Its sites, heaviest first.
    pub sites: Vec<SiteWeight>,
}

/// The bursts of the figures, in the order of time, and what they represent.
#[derive(Clone, Copy)]
struct Bursts<'a> {
    numbers: &'a [usize],
    expansion: &'a Expansion,
    /// Native seconds, of each and in all.
    native: &'a Quantity,
    seconds: &'a Estimate,
}

impl Bursts<'_> {
    /// Per second of native time, times `factor`.
    fn per_second(&self, part: &Quantity, factor: (f64, &str), evidence: Evidence) -> Figure {
        self.expansion.ratio(part, self.seconds, factor, evidence, NO_TIME)
    }
}

impl Memory<'_> {
    /// The whole program as if it were the function with most of the time, and all functions in which enough bursts
    /// began, most CPU time first.
    ///
    /// # Errors
    /// Why there are none.
    pub fn functions(&self) -> Result<(FunctionMemory, Vec<FunctionMemory>), String> {
        self.available()?;
        let mut bursts: BTreeMap<FunctionId, Vec<usize>> = BTreeMap::new();
        // Code that only waits for others is no place to improve.
        let mut spinning = SpinningFunctions::new(self.profile);
        for (at, burst) in self.passed.bursts.iter().enumerate() {
            if !spinning.has(burst.function) {
                bursts.entry(burst.function).or_default().push(at);
            }
        }
        let times = self.function_times();
        let CoreTimes { core, native } = self.core_times();
        let zeroed = self.zeroed();
        let mut found: Vec<FunctionMemory> = bursts
            .into_iter()
            .filter(|(_, bursts)| bursts.len() >= FEWEST)
            .map(|(function, mut bursts)| {
                bursts.sort_by_key(|at| self.strata.time_of(*at));
                let time = times.get(&function).copied().unwrap_or_default();
                let zeroed = zeroed.get(&function).cloned().unwrap_or_default();
                let expansion = self.strata.expansion_of(&bursts);
                let seconds = expansion.time(&native);
                let bursts = Bursts {
                    numbers: &bursts,
                    expansion: &expansion,
                    native: &native,
                    seconds: &seconds,
                };
                self.function((function, time, &zeroed), bursts, &core)
            })
            .collect();
        found.sort_by(|a, b| b.time.value.unwrap_or(0.0).total_cmp(&a.time.value.unwrap_or(0.0)));
        let all: Vec<usize> = (0..self.passed.bursts.len()).collect();
        let mut time = Weight::default();
        times.values().for_each(|one| time.merge(one));
        let busiest = times.iter().filter(|(function, _)| !spinning.has(**function));
        let busiest = busiest.max_by_key(|(_, time)| time.amount()).map(|(of, _)| *of);
        let began = self.passed.bursts.first().map(|burst| burst.function);
        let busiest = busiest.or(began).ok_or("no burst recorded accesses")?;
        let zeroed = Zeroed::all(&zeroed);
        let seconds = self.expansion().time(&native);
        let (expansion, native) = (self.expansion(), &native);
        let all = Bursts { numbers: &all, expansion, native, seconds: &seconds };
        let whole = self.function((busiest, time, &zeroed), all, &core);
        Ok((whole, found))
    }

    /// Samples by compiled function, without those in the kernel.
    fn function_times(&self) -> BTreeMap<FunctionId, Weight> {
        let mut times: BTreeMap<FunctionId, Weight> = BTreeMap::new();
        for cell in self.profile.stack_cells().iter().filter(|cell| !cell.kernel) {
            let time = times.entry(self.profile.stacks.compiled_user(cell.stack)).or_default();
            time.merge(&cell.weight);
        }
        times
    }

    fn function(
        &self,
        (function, time, zeroed): (FunctionId, Weight, &Zeroed),
        bursts: Bursts<'_>,
        core: &[Estimate],
    ) -> FunctionMemory {
        let Bursts { expansion, native, .. } = bursts;
        let numbers = bursts.numbers;
        let no_miss: f64 = numbers.iter().map(|at| self.passed.bursts[*at].no_miss_time.best).sum();
        let sums = self.sums(numbers);
        let time = self.profile.cpu_scale().quantity(&time);
        let seconds = time.value.unwrap_or(0.0);
        let observations: Vec<(Nanos, f64)> =
            numbers.iter().map(|at| (self.strata.time_of(*at), native.0[*at].best)).collect();
        let zeroed_in = zeroed.in_bursts(&observations, seconds);
        let weighed = self.site_weights(bursts, &zeroed_in);
        let mut kept = vec![Estimate::exactly(0.0); core.len()];
        for at in numbers {
            let waited = self.strata.drawn(*at, weighed.waited.0[*at]);
            kept[*at] = no_less_than_rest(&core[*at], &self.strata.native(*at), &waited);
        }
        let core =
            expansion.share(expansion.drawn(&kept), bursts.seconds, Evidence::Estimated, NO_TIME);
        let waits = core.map(|core| (100.0 - core).max(0.0));
        let of_reach = self.part_of_reach(bursts, &sums);
        let nothing = "it moves no data to or from memory";
        let measured: f64 = numbers.iter().map(|at| native.0[*at].best).sum();
        let moved = expansion.total(&sums.moved);
        let overwritten =
            expansion.percent(&sums.overwritten, &moved, Evidence::Estimated, nothing);
        FunctionMemory {
            function,
            time,
            waits,
            of_reach,
            overwritten,
            excess: (no_miss / measured.max(1e-9)).max(1.0),
            timed_percent: self.timed_percent(numbers.iter().map(|at| &self.passed.bursts[*at])),
            sites: weighed.sites,
            serial: weighed.serial,
        }
    }

    /// Bytes to and from memory per second of the whole program, percent of the bandwidth reachable with as many threads.
    #[must_use]
    pub fn of_reach(&self) -> Figure {
        let all: Vec<usize> = (0..self.passed.bursts.len()).collect();
        let native = Quantity::exactly(all.iter().map(|at| self.strata.seconds_of(*at)));
        let (expansion, seconds) = (self.expansion(), self.expansion().time(&native));
        let bursts = Bursts { numbers: &all, expansion, native: &native, seconds: &seconds };
        self.part_of_reach(bursts, &self.sums(&all))
    }

    /// How surely the speed of the memory at this run is known, as a factor.
    fn speed_doubt(&self, running: f64) -> Estimate {
        let machine = self.profile.machine.as_ref();
        let Some(Bounds { best, low, high }) = machine.map(|then| then.factor(running)) else {
            return Estimate::exactly(1.0);
        };
        spread([low / best, 1.0, high / best], OF_SPEED)
    }

    fn part_of_reach(&self, bursts: Bursts<'_>, sums: &Sums) -> Figure {
        let written = sums.written.sum() / sums.moved.sum().max(1.0);
        // Of the seconds of each burst those that memory needs for what all threads move, if they move as much: at the rate
        // that such code reaches, and at the best.
        let none = || Quantity::none(self.passed.bursts.len());
        let (mut needed, mut least) = (none(), none());
        for burst in bursts.numbers {
            let running = self.strata.concurrency(*burst).unwrap_or_else(|| self.running());
            let reached = self.reachable(running, written).zip(self.best(running));
            let Some((reach, best)) = reached else {
                return Metric::unavailable(
                    "percent",
                    "this machine's bandwidth was not measured: run `fathom machine`",
                )
                .into();
            };
            for (sum, rate) in [(&mut needed, reach), (&mut least, best)] {
                sum.add(*burst, sums.moved.0[*burst].times(running / (rate * 1e9)));
            }
        }
        let doubt = self.speed_doubt(self.running());
        let share =
            |part| bursts.per_second(part, (100.0, "percent"), Evidence::Estimated).over(&doubt);
        let is_beyond = |share: &Figure| share.low.is_some_and(|low| low > 100.0);
        let of_reach = share(&needed);
        if !is_beyond(&of_reach) {
            return of_reach;
        }
        // No code of its mixture was as quick when the machine was measured; some other code may have been.
        match share(&least) {
            of_best if is_beyond(&of_best) => Metric::unavailable("percent", WHY_BEYOND).into(),
            of_best => of_best.noted(OF_BEST),
        }
    }

    fn sums(&self, bursts: &[usize]) -> Sums {
        let none = || Quantity::none(self.passed.bursts.len());
        let mut sums = Sums { moved: none(), written: none(), overwritten: none() };
        for number in bursts {
            let burst = &self.passed.bursts[*number];
            for site in &burst.sites {
                let fills = self.model.fetched(burst, site, &site.fills).times(LINE);
                let dirtied = self.model.dirtied(burst, site, &site.dirtied).times(LINE);
                let streamed = Bounds::exactly(site.streamed as f64);
                sums.moved.add(*number, fills.plus(dirtied).plus(streamed));
                sums.written.add(*number, dirtied.plus(streamed));
                if self.code.sites[site.site.index()].access.kind == Kind::Write {
                    sums.overwritten.add(*number, fills);
                }
            }
        }
        sums
    }

    /// Summed latencies; by burst, with the bytes that the kernel zeroed during it.
    fn site_weights(&self, bursts: Bursts<'_>, zeroed: &[f64]) -> Weighed {
        let latency = self.latencies();
        let none = || Quantity::none(self.passed.bursts.len());
        let mut sites: BTreeMap<SiteIndex, Vec<SiteInBurst>> = BTreeMap::new();
        let (mut executed, mut kept) = (0.0, none());
        let (mut serial, mut waited) = (none(), none());
        for (number, zeroed) in bursts.numbers.iter().zip(zeroed) {
            let burst = &self.passed.bursts[*number];
            let weights = burst.sites.iter().map(|site| self.weight(burst, site, &latency));
            let weights: Vec<Bounds> = weights.collect();
            let all = weights.iter().fold(Bounds::default(), |all, one| all.plus(*one));
            let most = all.best.min(bursts.native.0[*number].best * 1e9);
            kept.add(*number, Bounds::exactly(most));
            let part = if all.best > 0.0 { most / all.best } else { 0.0 };
            let zeroed = self.line_by_line(*zeroed) * 1e9;
            serial.add(*number, all);
            let most = match zeroed > 0.0 {
                true => all.less(zeroed).times(LOADED * 1e-9),
                // What its accesses can be waited for is known from its core time alone.
                false => Bounds::exactly(f64::INFINITY),
            };
            waited.add(*number, most);
            for (site, weight) in burst.sites.iter().zip(weights) {
                let accesses = (site.loads + site.stores) as f64;
                let weighed = SiteInBurst { number: *number, accesses, weight, part };
                sites.entry(site.site).or_default().push(weighed);
                executed += accesses;
            }
        }
        let nothing = "none of its accesses misses the first-level cache";
        let kept = bursts.expansion.total(&kept);
        let of_time =
            |part: &Quantity| bursts.per_second(part, (100e-9, "percent"), Evidence::Simulated);
        // One set for all sites: a long recording has thousands of them, and as many bursts.
        let mut of_site = [none(), none(), none()];
        let weigh = |(site, bursts_of): (SiteIndex, Vec<SiteInBurst>)| {
            let [weights, walks, serial] = &mut of_site;
            let of_one = self.model.walks(site);
            for SiteInBurst { number, accesses, weight, part } in &bursts_of {
                // Both ends of the model's doubt move a part and the whole alike: only the scatter is left.
                weights.add(*number, Bounds::exactly(weight.best * part));
                walks.add(*number, of_one.times(*accesses));
                serial.add(*number, *weight);
            }
            let count: f64 = bursts_of.iter().map(|of| of.accesses).sum();
            let weighed = SiteWeight {
                site,
                executed: count / f64::max(executed, 1.0) * 100.0,
                share: bursts.expansion.percent(weights, &kept, Evidence::Simulated, nothing),
                walks: bursts.per_second(walks, (1.0, "count/s"), Evidence::Simulated),
                serial: of_time(serial).metric(),
            };
            for of in &mut of_site {
                bursts_of.iter().for_each(|burst| of.clear(burst.number));
            }
            weighed
        };
        let mut weights: Vec<SiteWeight> = sites.into_iter().map(weigh).collect();
        let value = |one: &SiteWeight| one.share.value.unwrap_or(0.0);
        weights.sort_by(|a, b| value(b).total_cmp(&value(a)));
        let serial = of_time(&serial).metric();
        Weighed { sites: weights, serial, waited }
    }

    /// Nanoseconds that the accesses of a burst at a site take beyond the first level, one after the other.
    pub(super) fn weight(&self, burst: &BurstWork, site: &SiteWork, latency: &[f64; 3]) -> Bounds {
        let levels = self.model.hit_levels(burst.place, site.site);
        let near = levels.l2.times(latency[0]).plus(levels.l3.times(latency[1]));
        near.plus(levels.dram.times(latency[2])).times(site.loads.max(site.stores) as f64)
    }

    /// Nanoseconds of the second level, the third and memory.
    pub(super) fn latencies(&self) -> [f64; 3] {
        let Some(found) = self.profile.calibration() else {
            return USUAL_LATENCY;
        };
        let dram = found.dram_latency.as_ref().and_then(|latency| latency.value);
        let measured = [found.cache_latency(2), found.cache_latency(3), dram];
        std::array::from_fn(|at| measured[at].unwrap_or(USUAL_LATENCY[at]))
    }
}

/// One site in a burst.
struct SiteInBurst {
    /// The burst's.
    number: usize,
    accesses: f64,
    /// Nanoseconds, one access after the other, and the part of them that the burst waits.
    weight: Bounds,
    part: f64,
}

/// The number of the draws that say how fast memory was. Caches have those of their levels.
const OF_SPEED: usize = 0;

/// Summed latencies of the accesses of one function.
struct Weighed {
    /// Heaviest first.
    sites: Vec<SiteWeight>,
    /// One after the other, percent of its time.
    serial: Metric,
    /// Seconds of each burst that they can be waited for at most, where lines were zeroed.
    waited: Quantity,
}

/// The bursts of one function.
struct Sums {
    /// Read and written.
    moved: Quantity,
    written: Quantity,
    overwritten: Quantity,
}
