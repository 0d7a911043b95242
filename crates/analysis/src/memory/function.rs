//! What memory does to each function, as compiled with all that is inlined into it.
//!
//! What for: rules that name a place. Bursts that began in a function speak for its CPU time, as in `strata`; a function
//! with fewer than [`FEWEST`] of them is left out. What not: which rule applies (`findings`).
//!
//! Weight of a site: its loads beyond the first level, each times the latency of the level that serves it. So the shares
//! of sites say where waits come from, as far as loads do not overlap and prefetchers do not hide them; stores count by
//! the lines that they fetch.
//!
//! Accesses of a burst wait no longer than it takes: where they would take longer one after the other they overlapped, and its
//! sites count in proportion. So a phase whose accesses are independent does not outweigh, by how far they overlap, one in
//! which each waits for the one before.
//!
//! Waits are of the time outside of the kernel. Lines of pages that the kernel has just cleared are not waited for (`cleared`). The whole
//! program's figures are stratified by the functions in which bursts began (`strata`): what it does first, while bursts are
//! frequent, has more than its part of them.

use std::collections::BTreeMap;

use base::Nanos;
use facts::{Evidence, Metric};
use x86::Kind;

use super::bandwidth::Quantity;
use super::bound::{IMPOSSIBLE, WHY_IMPOSSIBLE};
use super::cleared::{Cleared, no_less_than_rest, without_part};
use super::core_time::LOADED;
use super::model::Between;
use super::strata::Strata;
use super::work::{BurstWork, SiteWork};
use super::{LINE, Memory};
use crate::interval::ratio_in_order;
use crate::stack::FunctionId;
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
    pub share: Metric,
    /// Its page walks per second of the function's time.
    pub walks: Metric,
    /// What its accesses beyond the first level would take one after the other, percent of the function's time.
    pub serial: Metric,
}

/// One function.
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionMemory {
    /// Which.
    pub function: FunctionId,
    /// CPU time in its own code, seconds.
    pub time: Metric,
    /// Of that time, what its instructions do not need when all data are in the first level, percent.
    pub waits: Metric,
    /// Bytes to and from memory per second, in percent of what so many threads reach on this machine.
    pub of_reach: Metric,
    /// Of these bytes, those that were fetched for a store alone, percent.
    pub overwritten: Metric,
    /// What its accesses beyond the first level would take one after the other, each at the latency of the level that serves
    /// it, percent of its time.
    pub serial: Metric,
    /// Of its instructions those whose time without their memory is known, percent.
    pub floored: f64,
    /// By how much its loops took longer alone, without their memory, than in the program, which they cannot; 1 where they
    /// did not.
    pub excess: f64,
    /// Its sites, heaviest first.
    pub sites: Vec<SiteWeight>,
}

/// The bursts that a figure is of, in the order of time.
#[derive(Clone, Copy)]
struct Bursts<'a> {
    numbers: &'a [usize],
    /// Of all bursts; `None` for those of one function, which are one stratum.
    strata: Option<&'a Strata>,
}

impl Bursts<'_> {
    /// The ratio of sums, with the scatter of bursts.
    fn ratio(&self, part: &[f64], whole: &[f64]) -> Option<(f64, Option<(f64, f64)>)> {
        match self.strata {
            Some(strata) => strata.ratio(part, whole),
            None => {
                let pair = |at: &usize| (part[*at], whole[*at]);
                ratio_in_order(&self.numbers.iter().map(pair).collect::<Vec<_>>())
            }
        }
    }
}

/// Quantities per burst.
#[derive(Clone, Copy)]
struct Of<'a> {
    bursts: Bursts<'a>,
    evidence: Evidence,
    unit: &'static str,
    factor: f64,
}

impl Of<'_> {
    /// The ratio of sums: scatter of bursts beside the model's doubt.
    fn ratio(&self, part: &Quantity, whole: &[f64], nothing: &str) -> Metric {
        let ratio = |values: &[f64]| self.bursts.ratio(values, whole);
        let (Some((likely, interval)), Some((low, _)), Some((high, _))) =
            (ratio(&part.likely), ratio(&part.low), ratio(&part.high))
        else {
            return Metric::unavailable(self.unit, nothing);
        };
        let half = interval.map_or(likely, |(_, high)| high - likely);
        let down = (likely - low).max(0.0).hypot(half);
        let up = (high - likely).max(0.0).hypot(half);
        let interval = ((likely - down).max(0.0) * self.factor, (likely + up) * self.factor);
        let samples = self.bursts.numbers.len() as u64;
        Metric::with_interval(self.evidence, likely * self.factor, self.unit, interval, samples)
    }

    fn percent(&self, part: &Quantity, whole: &[f64], nothing: &str) -> Metric {
        let metric = self.ratio(part, whole, nothing);
        let most = |value: Option<f64>| value.map(|value| value.min(100.0));
        let (low, high) = (most(metric.low), most(metric.high));
        Metric { value: most(metric.value), low, high, ..metric }
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
        for (at, burst) in self.passed.bursts.iter().enumerate() {
            bursts.entry(burst.function).or_default().push(at);
        }
        let times = self.function_times();
        let (core, native) = self.core_times();
        let cleared = self.cleared();
        let mut found: Vec<FunctionMemory> = bursts
            .into_iter()
            .filter(|(_, bursts)| bursts.len() >= FEWEST)
            .map(|(function, mut bursts)| {
                bursts.sort_by_key(|at| self.strata.time_of(*at));
                let time = times.get(&function).copied().unwrap_or_default();
                let cleared = cleared.get(&function).cloned().unwrap_or_default();
                let bursts = Bursts { numbers: &bursts, strata: None };
                self.function((function, time, &cleared), bursts, (&core, &native))
            })
            .collect();
        found.sort_by(|a, b| b.time.value.unwrap_or(0.0).total_cmp(&a.time.value.unwrap_or(0.0)));
        let all: Vec<usize> = (0..self.passed.bursts.len()).collect();
        let mut time = Weight::default();
        times.values().for_each(|one| time.merge(one));
        let busiest = times.iter().max_by_key(|(_, time)| time.amount()).map(|(of, _)| *of);
        let began = self.passed.bursts.first().map(|burst| burst.function);
        let busiest = busiest.or(began).ok_or("no burst recorded accesses")?;
        let cleared = Cleared::all(&cleared);
        let all = Bursts { numbers: &all, strata: Some(&self.strata) };
        let whole = self.function((busiest, time, &cleared), all, (&core, &native));
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
        (function, time, cleared): (FunctionId, Weight, &Cleared),
        bursts: Bursts<'_>,
        (core, native): (&Quantity, &[f64]),
    ) -> FunctionMemory {
        let percent = Of { bursts, evidence: Evidence::Estimated, unit: "percent", factor: 100.0 };
        let numbers = bursts.numbers;
        let floors: f64 = numbers.iter().map(|at| self.passed.bursts[*at].floor.0).sum();
        let sums = self.sums(numbers);
        let time = self.profile.cpu_scale().quantity(&time);
        let seconds = time.value.unwrap_or(0.0);
        let looks: Vec<(Nanos, f64)> =
            bursts.numbers.iter().map(|at| (self.strata.time_of(*at), native[*at])).collect();
        let cleared_in = cleared.in_bursts(&looks, seconds);
        let weighed = self.site_weights(bursts, native, &cleared_in);
        let core = no_less_than_rest(core, native, &weighed.waited);
        let core = percent.percent(&core, native, "no time in its bursts");
        let rest = |value: Option<f64>| value.map(|value| (100.0 - value).max(0.0));
        let waits =
            Metric { value: rest(core.value), low: rest(core.high), high: rest(core.low), ..core };
        let of_reach = self.part_of_reach(bursts, &sums, native);
        let nothing = "it moves no data to or from memory";
        let measured: f64 = numbers.iter().map(|at| native[*at]).sum();
        let fetched = sums.overwritten.sum() / measured.max(1e-9) * seconds;
        let overwritten = percent.percent(&sums.overwritten, &sums.moved.likely, nothing);
        FunctionMemory {
            function,
            time,
            waits,
            of_reach,
            overwritten: without_part(overwritten, cleared.bytes() / fetched.max(1.0)),
            excess: (floors / measured.max(1e-9)).max(1.0),
            floored: self.timed_percent(numbers.iter().map(|at| &self.passed.bursts[*at])),
            sites: weighed.sites,
            serial: weighed.serial,
        }
    }

    /// Bytes to and from memory per second of the whole program, percent of what so many threads reach.
    #[must_use]
    pub fn of_reach(&self) -> Metric {
        let all: Vec<usize> = (0..self.passed.bursts.len()).collect();
        let native: Vec<f64> = all.iter().map(|at| self.strata.seconds_of(*at)).collect();
        let bursts = Bursts { numbers: &all, strata: Some(&self.strata) };
        self.part_of_reach(bursts, &self.sums(&all), &native)
    }

    fn part_of_reach(&self, bursts: Bursts<'_>, sums: &Sums, native: &[f64]) -> Metric {
        let written = sums.written.sum() / sums.moved.sum().max(1.0);
        // Of the seconds of each burst those that memory needs for what all threads move, if they move as much: at the rate
        // that such code reaches, and at the best.
        let (mut needed, mut least) = (Quantity::none(native.len()), Quantity::none(native.len()));
        for burst in bursts.numbers {
            let running = self.strata.running_beside(*burst).unwrap_or_else(|| self.running());
            let reached = self.reachable(running, written).zip(self.best(running));
            let Some((reach, best)) = reached else {
                return Metric::unavailable(
                    "percent",
                    "this machine's bandwidth was not measured: run `fathom machine`",
                );
            };
            let Quantity { likely, low, high } = &sums.moved;
            for (sum, rate) in [(&mut needed, reach), (&mut least, best)] {
                let seconds = |bytes: f64| bytes * running / (rate * 1e9);
                let bounds = (seconds(low[*burst]), seconds(high[*burst]));
                sum.add(*burst, seconds(likely[*burst]), bounds);
            }
        }
        let of = Of { bursts, evidence: Evidence::Estimated, unit: "percent", factor: 100.0 };
        let nothing = "no time in its bursts";
        if of.ratio(&least, native, nothing).low.is_some_and(|low| low > IMPOSSIBLE * 100.0) {
            return Metric::unavailable("percent", WHY_IMPOSSIBLE);
        }
        of.ratio(&needed, native, nothing)
    }

    fn sums(&self, bursts: &[usize]) -> Sums {
        let none = || Quantity::none(self.passed.bursts.len());
        let mut sums = Sums { moved: none(), written: none(), overwritten: none() };
        for number in bursts {
            let burst = &self.passed.bursts[*number];
            for site in &burst.sites {
                let lines = |lines| {
                    let expected = (lines, site.firsts.as_slice());
                    self.model.lines(burst.place, site.site, expected).times(LINE)
                };
                let (fills, dirtied) = (lines(&site.fills), lines(&site.dirtied));
                let streamed = Between::exactly(site.streamed as f64);
                self.add(&mut sums.moved, *number, fills.plus(dirtied).plus(streamed));
                self.add(&mut sums.written, *number, dirtied.plus(streamed));
                if self.code.sites[site.site.index()].access.kind == Kind::Write {
                    self.add(&mut sums.overwritten, *number, fills);
                }
            }
        }
        sums
    }

    /// What accesses would wait one after the other; of each burst with the bytes that were cleared in it.
    fn site_weights(&self, bursts: Bursts<'_>, native: &[f64], cleared: &[f64]) -> Weighed {
        let latency = self.latencies();
        let none = || Quantity::none(self.passed.bursts.len());
        let mut sites: BTreeMap<SiteIndex, SiteSums> = BTreeMap::new();
        let (mut executed, mut kept) = (0.0, vec![0.0; self.passed.bursts.len()]);
        let (mut serial, mut waited) = (none(), none());
        for (number, cleared) in bursts.numbers.iter().zip(cleared) {
            let burst = &self.passed.bursts[*number];
            let weights = burst.sites.iter().map(|site| self.weight(burst, site, &latency));
            let weights: Vec<Between> = weights.collect();
            let all = weights.iter().fold(Between::default(), |all, one| all.plus(*one));
            let nanos = native[*number] * 1e9;
            kept[*number] = all.likely.min(nanos);
            let part = if all.likely > 0.0 { kept[*number] / all.likely } else { 0.0 };
            let cleared = self.line_by_line(*cleared) * 1e9;
            self.add(&mut serial, *number, all);
            let most = match cleared > 0.0 {
                true => all.less(cleared).times(LOADED * 1e-9),
                // What its accesses can be waited for is known from its core time alone.
                false => Between::exactly(f64::INFINITY),
            };
            self.add(&mut waited, *number, most);
            for (site, weight) in burst.sites.iter().zip(weights) {
                let accesses = (site.loads + site.stores) as f64;
                let nothing = || SiteSums {
                    executed: 0.0,
                    kept: vec![0.0; self.passed.bursts.len()],
                    walks: none(),
                    serial: none(),
                };
                let sums = sites.entry(site.site).or_insert_with(nothing);
                sums.executed += accesses;
                sums.kept[*number] += weight.likely * part;
                let walks = self.model.walks(site.site).times(accesses);
                self.add(&mut sums.walks, *number, walks);
                self.add(&mut sums.serial, *number, weight);
                executed += accesses;
            }
        }
        let of = Of { bursts, evidence: Evidence::Simulated, unit: "percent", factor: 100.0 };
        let per_second = Of { unit: "count/s", factor: 1.0, ..of };
        let of_time = Of { factor: 100e-9, ..of };
        let mut weights: Vec<SiteWeight> = sites
            .into_iter()
            .map(|(site, SiteSums { executed: count, kept: weight, walks, serial })| SiteWeight {
                site,
                executed: count / f64::max(executed, 1.0) * 100.0,
                // Both ends of the model's doubt move a part and the whole alike: only the scatter is left.
                share: of.percent(
                    &Quantity { low: weight.clone(), high: weight.clone(), likely: weight },
                    &kept,
                    "none of its accesses goes beyond the first-level cache",
                ),
                walks: per_second.ratio(&walks, native, "no time in its bursts"),
                serial: of_time.ratio(&serial, native, "no time in its bursts"),
            })
            .collect();
        let value = |one: &SiteWeight| one.share.value.unwrap_or(0.0);
        weights.sort_by(|a, b| value(b).total_cmp(&value(a)));
        let serial = of_time.ratio(&serial, native, "no time in its bursts");
        Weighed { sites: weights, serial, waited }
    }

    /// Nanoseconds that the accesses of a burst at a site take beyond the first level, one after the other.
    pub(super) fn weight(&self, burst: &BurstWork, site: &SiteWork, latency: &[f64; 3]) -> Between {
        let served = self.model.served(burst.place, site.site);
        let touches = served.l1.plus(served.l2).plus(served.l3).plus(served.dram).likely;
        let accesses = (site.loads + site.stores) as f64;
        let per_touch = if touches > 0.0 { accesses / touches } else { 0.0 };
        let near = served.l2.times(latency[0]).plus(served.l3.times(latency[1]));
        near.plus(served.dram.times(latency[2])).times(per_touch)
    }

    /// Nanoseconds of the second level, the third and memory.
    pub(super) fn latencies(&self) -> [f64; 3] {
        let Some(found) = self.profile.recording.run.calibration.as_ref() else {
            return USUAL_LATENCY;
        };
        let level = |level: u32| {
            let cache = found.effective_caches.iter().find(|cache| cache.level == level);
            cache.and_then(|cache| cache.latency.value)
        };
        let dram = found.dram_latency.as_ref().and_then(|latency| latency.value);
        let measured = [level(2), level(3), dram];
        std::array::from_fn(|at| measured[at].unwrap_or(USUAL_LATENCY[at]))
    }
}

/// One site, per burst.
struct SiteSums {
    executed: f64,
    /// Nanoseconds that it is likely waited for, of those that the burst took.
    kept: Vec<f64>,
    walks: Quantity,
    /// Nanoseconds, one access after the other.
    serial: Quantity,
}

/// What accesses of one function would wait.
struct Weighed {
    /// Heaviest first.
    sites: Vec<SiteWeight>,
    /// One after the other, percent of its time.
    serial: Metric,
    /// Seconds of each burst that they can be waited for at most, where lines were cleared.
    waited: Quantity,
}

/// Of the bursts of one function.
struct Sums {
    /// Read and written.
    moved: Quantity,
    written: Quantity,
    overwritten: Quantity,
}
