//! How much of the time is memory's.
//!
//! What for: two independent estimates, and the range that both allow. Clock samples show where the core waits (`waits`). And
//! loops were timed with all their data in the first-level cache (their *no-miss time*); native time beyond that is stall time.
//! What not: stalls on code fetch, which count as memory; mispredicted branches are core time (`core_time`); spinning: it is
//! neither, and lasts as long as what is waited for.
//!
//! memory-bound share = 1 - (core time) / (native time), both summed over bursts by strata; `core_time` has the first.
//!
//! Assumptions: one start of a loop represents all (`collect::no_miss`); hit rates of the first level do not change the core time.
//! With all data in the first level the program would take elapsed × (core time / native time), given the same threads and no
//! kernel time.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use estimate::{Bounds, Draws, Estimate, REPLICATES};
use facts::host::BandwidthPoint;
use facts::{Evidence, Metric};

use super::Memory;
use super::code_regions::CodeRegion;
use super::core_time::CoreTimes;
use super::quantity::Quantity;
use super::waits::Waited;
use super::work::SiteWork;
use crate::stack::NodeIndex;
use crate::threading::{SpinTable, SpinningFunctions};

/// A no-miss time above the native time by this factor measured something else.
pub(super) const TOO_MUCH: f64 = 1.15;
/// A wider interval says nothing, percent.
const WIDE: f64 = 80.0;
/// From this share of the peak on, bandwidth limits.
pub const NEAR_PEAK: f64 = 0.7;
/// From this share of the peak on, waits may be for the rate at which lines come: prefetchers run ahead of loads as far as they
/// can, and not all code reaches the peak.
pub(super) const NOT_NEAR: f64 = 0.35;
/// A rate certainly above this cannot be a cache's: as a share of the highest that as many threads ever reached.
pub const IMPOSSIBLE: f64 = 1.1;
/// What such a rate means.
pub const WHY_IMPOSSIBLE: &str = "its traffic exceeds what this many threads reach on this machine: part of it \
                came from a cache that the model does not know, or the machine was busy when `fathom machine` \
                measured it";
/// What a rate certainly above the highest of memory means.
pub const WHY_BEYOND: &str = "its traffic exceeds the most that as many threads reached when this machine was measured: that peak \
                is too low (`fathom machine --refresh` measures it again), or part of the traffic came from a cache that the \
                model does not know";
/// What a share of another peak is.
pub(super) const OF_BEST: &str = "of the highest rate that as many threads reached when this machine was measured: it moves more \
                than code with its mixture of reads and writes did then";
/// Page walks per second of one thread, at most: one in 10 ns.
const MOST_WALKS: f64 = 1e8;

/// No load takes this many times the latency of memory: queues at the bandwidth limit lengthen it a few times.
const MOST_LATENCIES: f64 = 20.0;

/// What a share leaves, percent.
fn rest(share: f64) -> f64 {
    (100.0 - share).clamp(0.0, 100.0)
}

/// Why there is no share of time.
pub(super) const NO_TIME: &str = "its bursts have no time";

/// Whether a kernel stores without fetching.
fn past_caches(point: &BandwidthPoint) -> bool {
    point.kernel.ends_with("-nt")
}

/// Up to this part of the traffic is as good as no writes.
pub(super) const NO_WRITES: f64 = 0.05;

/// Share of the bytes that a kernel with ordinary stores moves which it writes: each line that is stored to is read before.
fn written_part(point: &BandwidthPoint) -> f64 {
    match point.kernel.as_str() {
        "load" => 0.0,
        "add" | "triad" => 1.0 / 4.0,
        "copy" | "scale" => 1.0 / 3.0,
        _ => 1.0 / 2.0,
    }
}

/// How much of the time is memory's.
#[derive(Clone, PartialEq, Debug)]
pub struct Bound {
    /// Share of the program's CPU time, percent.
    pub memory: Metric,
    /// The same with its replicates.
    pub share: Estimate,
    /// The rest.
    pub core: Metric,
    /// Elapsed time if all data were in the first-level cache, seconds.
    pub without_misses: Metric,
    /// Elapsed time if bandwidth had no limit, seconds.
    pub without_limit: Metric,
    /// Instructions whose time without their memory is known, percent of all.
    pub covered: Metric,
    /// In which code memory's time is.
    pub(super) waits: Waits,
    /// Time that a load beyond the first level holds the program up, on average, nanoseconds.
    pub exposed: Metric,
}

/// Shares of memory's time, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Waits {
    /// In code that moves at least [`NEAR_PEAK`] of what its threads can.
    pub(super) near_peak: f64,
    /// In code that may move at least [`NOT_NEAR`] of that while it waits: all of its bytes may come then.
    pub(super) perhaps_near: f64,
    /// For lines in a row, as lines are fetched from memory in the same code.
    pub(super) in_a_row: f64,
}

/// Random numbers of what samples leave open.
const SEED: u64 = 0x7761_6974;

/// Memory's share by samples alone, percent: anywhere between the two ends.
fn by_samples(waited: &Waited) -> Estimate {
    let places = Draws::new(SEED).even();
    let at = |place: f64| 100.0 * (waited.low + (waited.high - waited.low) * place);
    Estimate::new(at(0.5), places.into_iter().map(at).collect())
}

/// The range that both estimates allow, percent, and a note. Where they exclude each other, that of the samples counts, because
/// it is of the program as it ran: a loop is timed alone, when no other thread shares its core.
fn together(floors: Estimate, waited: &Waited) -> (Estimate, Option<String>) {
    let (least, most) = (100.0 * waited.low, 100.0 * waited.high);
    let (low, high) = floors.interval();
    if low > most || high < least {
        let note =
            format!("by the no-miss times of its loops it is {low:.0} to {high:.0} % instead");
        return (by_samples(waited), Some(note));
    }
    (floors.map(|share| share.clamp(least, most)), None)
}

impl Memory<'_> {
    /// The memory-bound share.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn bound(&self) -> Result<Bound, String> {
        match self.bursts {
            None => self.replayed.bound.get_or_init(|| self.bound_of_bursts()).clone(),
            Some(_) => self.bound_of_bursts(),
        }
    }

    fn bound_of_bursts(&self) -> Result<Bound, String> {
        self.available()?;
        let waited = self.waited();
        let (mut times, why) = self.plausible_times();
        let mut spinning = SpinningFunctions::new(self.profile);
        for (at, burst) in self.passed.bursts.iter().enumerate() {
            if spinning.has(burst.function) {
                times.core[at] = Estimate::exactly(0.0);
                times.native.0[at] = Bounds::exactly(0.0);
            }
        }
        let percent = self.timed_percent(self.passed.bursts.iter());
        let core = self.strata.percent_of_time(&times.core, &times.native);
        let (share, excluded) = match (core.map(|core| core.map(rest)), &waited) {
            (Some(share), Some(waited)) => together(share, waited),
            (Some(share), None) => (share, None),
            (None, Some(waited)) => (by_samples(waited), Some(NO_TIME.to_owned())),
            (None, None) => return Err(NO_TIME.to_owned()),
        };
        let note = why.or(excluded);
        let evidence = if note.is_some() { Evidence::Sampled } else { Evidence::Estimated };
        let (low, high) = share.interval();
        if high - low > WIDE {
            return Err(format!(
                "memory's share is {low:.0} to {high:.0} %, from {} bursts; the no-miss time is measured for {percent:.0} \
                % of their instructions",
                self.strata.bursts()
            ));
        }
        let shown = |share: Estimate| {
            let metric = self.expansion().shown(share, "percent", evidence);
            Metric { note: note.clone(), ..metric }
        };
        let (memory, core) = (shown(share.clone()), shown(share.clone().map(rest)));
        let covered = Metric::with_interval(
            Evidence::Traced,
            percent,
            "percent",
            (percent, percent),
            self.strata.bursts() as u64,
        );
        Ok(Bound {
            without_misses: self.without_misses(&core),
            without_limit: self.without_limit(&times),
            exposed: self.exposed(&memory),
            waits: self.waits(&times),
            memory,
            core,
            share,
            covered,
        })
    }

    /// Core times, and why they are not by measured no-miss times, where these cannot be the program's.
    fn plausible_times(&self) -> (CoreTimes, Option<String>) {
        let times = self.core_times();
        let least: f64 = self.passed.bursts.iter().map(|burst| burst.no_miss_time.low).sum();
        let in_all = times.native.sum();
        if least <= in_all * TOO_MUCH {
            return (times, None);
        }
        let why = format!(
            "the measured no-miss time of the loops is {:.0} % longer than their native time: on repeated data they wait for \
            their own stores",
            (least / in_all - 1.0) * 100.0
        );
        (self.core_times_by_waits(), Some(why))
    }

    /// Elapsed time if bandwidth had no limit: bursts near what memory delivers would take their core time, at least, and
    /// no longer than now; others what they take.
    fn without_limit(&self, CoreTimes { core, native }: &CoreTimes) -> Metric {
        let running = self.running();
        let Some(reach) = self.reachable(running, self.written()) else {
            return Metric::unavailable("s", "this machine's bandwidth was not measured");
        };
        let moved = self.all.read.plus(&self.all.write);
        let open = Draws::new(SEED | 1 << 32).even();
        let kept = native.0.iter().zip(core.iter().zip(&moved.0));
        let kept = kept.enumerate().map(|(at, (native, (core, moved)))| {
            let rate = moved.best / native.best.max(1e-9) / 1e9 * running;
            let time = self.strata.native(at);
            if native.best <= 0.0 {
                return Estimate::exactly(0.0);
            }
            // Bandwidth does not slow down bursts far from its limit: they keep their time.
            if rate < NEAR_PEAK * reach {
                return time;
            }
            let some = |at: usize| {
                let core = core.replicate(at);
                core + (time.replicate(at) - core) * (2.0 * open[at] - 1.0).max(0.0)
            };
            Estimate::new(core.point(), (0..REPLICATES).map(some).collect())
        });
        let kept: Vec<Estimate> = kept.collect();
        match self.strata.percent_of_time(&kept, native) {
            Some(kept) => {
                self.without_misses(&self.expansion().shown(kept, "percent", Evidence::Estimated))
            }
            None => Metric::unavailable("s", NO_TIME),
        }
    }

    /// A phase near the limit is no less limited for a phase of computation next to it.
    fn waits(&self, CoreTimes { core, native }: &CoreTimes) -> Waits {
        let written = self.written();
        let mut places: BTreeMap<CodeRegion, [f64; 5]> = BTreeMap::new();
        for (at, burst) in self.passed.bursts.iter().enumerate() {
            let running = self.strata.concurrency(at).unwrap_or_else(|| self.running());
            let Some(reach) = self.reachable(running, written) else { return Waits::default() };
            let moved = self.all.read.0[at].plus(self.all.write.0[at]).best;
            let needed = moved * running / (reach * 1e9);
            let time = native.0[at].best;
            let lines = |of: fn(&SiteWork) -> u64| burst.sites.iter().map(of).sum::<u64>() as f64;
            let (fetched, followed) =
                (lines(|site| site.fills.most()), lines(|site| site.followed));
            let amounts = [time, needed, time - core[at].point(), fetched, followed];
            let all = places.entry(burst.place).or_default().iter_mut();
            all.zip(amounts).for_each(|(sum, one)| {
                *sum += self.expansion().sum(std::iter::once((at, one)));
            });
        }
        let share = |of: &dyn Fn(&[f64; 5]) -> f64| {
            let waits = |place: &[f64; 5]| place[2];
            let all: f64 = places.values().map(waits).sum();
            places.values().map(|place| waits(place) * of(place)).sum::<f64>()
                / all.max(f64::MIN_POSITIVE)
        };
        let moves =
            |needed: &f64, part: f64, time: &f64| f64::from(u8::from(*needed >= part * time));
        Waits {
            near_peak: share(&|[time, needed, ..]| moves(needed, NEAR_PEAK, time)),
            perhaps_near: share(&|[_, needed, waits, ..]| moves(needed, NOT_NEAR, waits)),
            in_a_row: share(&|[.., fetched, followed]| followed / fetched.max(1.0)),
        }
    }

    fn without_misses(&self, core: &Metric) -> Metric {
        let observed = self.profile.observed().seconds();
        let paused = self.profile.elapsed().seconds() - observed;
        let whole = self.profile.counted_cpu_seconds().unwrap_or(self.strata.cpu_seconds());
        // Time outside of the program's own code stays. So do waits in MPI, for ranks of which nothing is known here.
        let own = if whole > 0.0 { (self.strata.cpu_seconds() / whole).min(1.0) } else { 1.0 };
        let own = own * (1.0 - self.share_of_program(|table, stack| table.waits_in_mpi(stack)));
        core.each("s", |core| paused + observed * (1.0 - own * (1.0 - core / 100.0)))
    }

    fn exposed(&self, memory: &Metric) -> Metric {
        let levels = self.all_levels();
        let loads = self.executed().loads;
        let beyond = |loads: Option<f64>, l1: Option<f64>| {
            loads.zip(l1).map(|(loads, l1)| loads * (100.0 - l1) / 100.0)
        };
        if beyond(loads.value, levels.l1.value).is_none_or(|beyond| beyond < 1.0) {
            return Metric::unavailable("ns", "no load missed the first-level cache");
        }
        let nanoseconds = (1.0 - self.spinning()) * self.strata.seconds * 1e9;
        let nanos = |percent: Option<f64>, beyond: Option<f64>| {
            let (percent, beyond) = percent.zip(beyond.filter(|beyond| *beyond >= 1.0))?;
            Some(percent / 100.0 * nanoseconds / beyond)
        };
        let most = MOST_LATENCIES * self.latencies()[2];
        if nanos(memory.value, beyond(loads.value, levels.l1.value)).is_some_and(|ns| ns > most) {
            return Metric::unavailable(
                "ns",
                "it waits for more than its loads that miss L1: for lines that threads take from each other, or \
                for stores",
            );
        }
        // The more loads, the less each: the bounds of one are those of the other, reversed.
        Metric {
            value: nanos(memory.value, beyond(loads.value, levels.l1.value)),
            low: nanos(memory.low, beyond(loads.high, levels.l1.low)),
            high: nanos(memory.high, beyond(loads.low, levels.l1.high)),
            unit: "ns".to_owned(),
            ..memory.clone()
        }
    }

    /// Share of the program's time outside of the kernel in which its threads spin, 0 to 1.
    pub(super) fn spinning(&self) -> f64 {
        self.share_of_program(|table, stack| table.spins(stack))
    }

    fn share_of_program(
        &self,
        chosen: impl Fn(&mut SpinTable<'_>, Option<NodeIndex>) -> bool,
    ) -> f64 {
        let mut table = SpinTable::new(&self.profile.stacks);
        let cells = self.profile.stack_cells().iter().filter(|cell| !cell.kernel);
        let chosen = cells.filter(|cell| chosen(&mut table, cell.stack));
        let amount: f64 = chosen.map(|cell| cell.weight.amount() as f64).sum();
        amount / self.profile.whole_of_program().max(1.0)
    }

    /// Threads of the program that run at a time, while it runs; at least 1.
    pub(crate) fn running(&self) -> f64 {
        (self.strata.cpu_seconds() / self.profile.observed().seconds().max(1e-9)).max(1.0)
    }

    /// Page walks: accesses whose translation is in neither TLB, for the whole program.
    #[must_use]
    pub fn page_walks(&self) -> Metric {
        if let Err(why) = self.available() {
            return Metric::unavailable("count", why);
        }
        let (walks, _) = self.walks_and_far_loads();
        self.strata.opened(&walks, (1.0, "count"), Evidence::Simulated, MOST_WALKS)
    }

    /// Per burst: page walks, and loads that go beyond the second level of cache.
    pub(super) fn walks_and_far_loads(&self) -> (Quantity, Quantity) {
        let bursts = self.passed.bursts.len();
        let (mut walks, mut far) = (Quantity::none(bursts), Quantity::none(bursts));
        for (number, burst) in self.passed.bursts.iter().enumerate() {
            for site in &burst.sites {
                let accesses = (site.loads + site.stores) as f64;
                walks.add(number, self.model.walks(site.site).times(accesses));
                let levels = self.model.hit_levels(burst.place, site.site);
                far.add(number, levels.l3.plus(levels.dram).times(site.loads as f64));
            }
        }
        (walks, far)
    }

    /// Share of the program's bytes that it writes, 0 to 1.
    pub(super) fn written(&self) -> f64 {
        let (read, written) = (self.all.read.sum(), self.all.write.sum());
        if read + written > 0.0 { written / (read + written) } else { 0.0 }
    }

    /// Bandwidth that the program's threads can reach on this machine with its mix of reads and writes, GB/s; what
    /// [`Memory::of_reach`] is a share of.
    #[must_use]
    pub fn reach(&self) -> Metric {
        if let Err(why) = self.available() {
            return Metric::unavailable("GB/s", why);
        }
        let running = self.running();
        match self.best(running).filter(|_| self.of_reach().note.as_deref() == Some(OF_BEST)) {
            Some(best) => {
                let ends = (best, best);
                Metric::with_interval(Evidence::Calibrated, best, "GB/s", ends, 1).noted(OF_BEST)
            }
            None => self.reach_of(running, self.written()),
        }
    }

    /// Bandwidth of so many threads when this part of it is written, GB/s.
    pub(super) fn reach_of(&self, running: f64, written: f64) -> Metric {
        match self.reachable(running, written) {
            Some(rate) => {
                let machine = self.profile.machine.as_ref();
                let Bounds { best, low, high } =
                    machine.map_or(Bounds::exactly(1.0), |then| then.factor(running));
                let interval = (rate * low / best, rate * high / best);
                let reach = Metric::with_interval(Evidence::Calibrated, rate, "GB/s", interval, 1);
                match machine.filter(|_| low < high) {
                    Some(then) => Metric { note: then.note.clone(), ..reach },
                    None => reach,
                }
            }
            None => Metric::unavailable(
                "GB/s",
                "this machine's bandwidth was not measured: run `fathom machine`",
            ),
        }
    }

    /// Bandwidth of as many threads when this part of it is written, GB/s.
    pub(super) fn reachable(&self, running: f64, written: f64) -> Option<f64> {
        self.reached_by(running, written)?.bus.value
    }

    /// The best of what was measured with at most that many threads, and with as large a part that is written or less. Reads
    /// alone reach less than a mixture: writes need not be waited for.
    pub(super) fn reached_by(&self, running: f64, written: f64) -> Option<&BandwidthPoint> {
        let calibration = self.profile.calibration()?;
        let threads = running.ceil().max(1.0) as u32;
        let fewest = calibration.bandwidth.iter().map(|point| point.threads).min()?;
        // Reads and ordinary stores; non-temporal stores reach what no other code does.
        let ordinary: Vec<&BandwidthPoint> = calibration
            .bandwidth
            .iter()
            .filter(|point| point.threads <= threads.max(fewest) && !past_caches(point))
            .collect();
        let parts = || ordinary.iter().map(|point| written_part(point));
        let as_large = parts().filter(|part| *part >= written - NO_WRITES).reduce(f64::min);
        let largest = as_large.or_else(|| parts().reduce(f64::max))?;
        let like = ordinary.into_iter().filter(|point| written_part(point) <= largest);
        let known = like.filter(|point| point.bus.value.is_some());
        known.max_by(|a, b| a.bus.value.partial_cmp(&b.bus.value).unwrap_or(Ordering::Equal))
    }

    /// The highest measured bandwidth with at most this many threads, whatever they did, GB/s.
    pub(super) fn best(&self, running: f64) -> Option<f64> {
        let points = self.profile.calibration()?.bandwidth.iter();
        let fewest = points.clone().map(|point| point.threads).min()?;
        let threads = (running.ceil().max(1.0) as u32).max(fewest);
        let points = points.filter(|point| point.threads <= threads);
        points.filter_map(|point| point.bus.high.or(point.bus.value)).reduce(f64::max)
    }

    /// Factor by which the program's threads move more with non-temporal stores; `None` where that was not measured, or is at
    /// most 1.
    pub(crate) fn past_caches(&self) -> Option<f64> {
        let running = self.running();
        let threads = running.ceil().max(1.0) as u32;
        let points = self.profile.calibration()?.bandwidth.iter();
        let points = points.filter(|point| point.threads <= threads && past_caches(point));
        let most = points.filter_map(|point| point.bus.value).reduce(f64::max)?;
        Some(most / self.reachable(running, 1.0)?).filter(|ratio| *ratio > 1.0)
    }
}
