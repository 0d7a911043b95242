//! How much of the time is memory's, and what the program is bound by.
//!
//! What for: two independent estimates, and the range that both allow. Clock samples show where the core waits (`waits`). And
//! loops were timed with all their data in the first-level cache (their *no-miss time*); native time beyond that is stall time.
//! What not: stalls on code fetch, which count as memory, and mispredicted branches, which widen the interval.
//!
//! memory-bound share = 1 - (core time) / (native time), both summed over bursts by strata; `core_time` has the first.
//!
//! Assumptions: one start of a loop represents all (`collect::no_miss`); hit rates of the first level do not change the core time.
//! With all data in the first level the program would take elapsed × (core time / native time), given the same threads and no
//! kernel time.

use estimate::{Draws, Estimate, REPLICATES};
use facts::host::BandwidthPoint;
use facts::{Evidence, Metric};

use super::Memory;
use super::bandwidth::Bandwidth;
use super::core_time::CoreTimes;
use super::quantity::Quantity;
use super::waits::Waited;
use super::work::BurstWork;

/// A no-miss time above the native time by this factor measured something else.
pub(super) const TOO_MUCH: f64 = 1.15;
/// A wider interval says nothing, percent.
const WIDE: f64 = 80.0;
/// From this share on memory is what the program waits for.
pub const BOUND_PERCENT: f64 = 40.0;
/// A lower bound below this share leaves open whether it does: a program that waits for an eighth of its time at least, and
/// perhaps for most of it, is not known to be held up.
const NOT_BOUND_PERCENT: f64 = 25.0;
/// An upper bound from here on leaves open whether it does: memory might have the larger part.
const UNDECIDED_PERCENT: f64 = 50.0;
/// From this share of the peak on, bandwidth is what limits.
pub const NEAR_PEAK: f64 = 0.7;

/// A lower bound below this share of the peak leaves that open.
const NOT_NEAR: f64 = 0.35;
/// From this probability on a cache is near its limit, and limits even where memory's share, which includes caches, is not known.
const SURE: f64 = 0.95;
/// A rate certainly above this cannot be memory's: as a share of the highest that as many threads ever reached.
pub const IMPOSSIBLE: f64 = 1.1;
/// What such a rate means.
pub const WHY_IMPOSSIBLE: &str = "its traffic exceeds what this many threads reach on this machine: part of it \
                came from a cache that the model does not know, or the machine was busy when `fathom machine` \
                measured it";
/// Page walks per second of one thread, at most: one in 10 ns.
const MOST_WALKS: f64 = 1e8;

/// No load takes this many times the latency of memory: queues at the bandwidth limit lengthen it a few times.
const MOST_LATENCIES: f64 = 20.0;
/// Of the time that memory takes, the part that page walks must explain to be its reason.
const WALKS_MATTER: f64 = 0.1;

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

/// Of the bytes that a kernel with ordinary stores moves, those that it writes: each line that is stored to is read before.
fn written_part(point: &BandwidthPoint) -> f64 {
    match point.kernel.as_str() {
        "load" => 0.0,
        "add" | "triad" => 1.0 / 4.0,
        "copy" | "scale" => 1.0 / 3.0,
        _ => 1.0 / 2.0,
    }
}

/// What limits the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The rate at which memory delivers.
    Bandwidth,
    /// The rate at which this level of cache does.
    CacheBandwidth(u32),
    /// The time that single loads take.
    Latency,
    /// Address translation.
    Tlb,
    /// Its own instructions.
    Core,
}

impl Class {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::Bandwidth | Class::CacheBandwidth(_) => "bandwidth-bound",
            Class::Latency => "latency-bound",
            Class::Tlb => "tlb-bound",
            Class::Core => "core-bound",
        }
    }

    /// Of `bandwidth-bound`, whose bandwidth that is.
    #[must_use]
    pub fn level(self) -> Option<&'static str> {
        match self {
            Class::Bandwidth => Some("DRAM"),
            Class::CacheBandwidth(level) => Some(if level == 2 { "L2" } else { "L3" }),
            Class::Latency | Class::Tlb | Class::Core => None,
        }
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
    /// Time that a load beyond the first level holds the program up, on average, nanoseconds.
    pub exposed: Metric,
}

/// Random numbers of what samples leave open.
const SEED: u64 = 0x7761_6974;

/// Memory's share by samples alone, percent: anywhere between the two ends.
fn by_samples(waited: &Waited) -> Estimate {
    let places = Draws::new(SEED).even();
    let at = |place: f64| 100.0 * (waited.low + (waited.high - waited.low) * place);
    Estimate::new(at(0.5), places.into_iter().map(at).collect())
}

/// What both witnesses allow, percent, and what must be said. Where they have nothing in common the samples count, which are of
/// the program as it ran: a loop is timed alone, when no other thread shares its core.
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
        self.available()?;
        let waited = self.waited();
        let times = self.core_times();
        let percent = self.timed_percent(self.passed.bursts.iter());
        let (share, note) = match (self.share_by_no_miss_times(&times), &waited) {
            (Ok(share), Some(waited)) => together(share, waited),
            (Ok(share), None) => (share, None),
            (Err(_), Some(waited)) => (by_samples(waited), None),
            (Err(why), None) => return Err(why),
        };
        let (low, high) = share.interval();
        if high - low > WIDE {
            return Err(format!(
                "memory's share is {low:.0} to {high:.0} %, from {} bursts; the no-miss time is measured for {percent:.0} \
                % of their instructions",
                self.strata.bursts()
            ));
        }
        let shown = |share: Estimate| {
            let metric = self.expansion().shown(share, "percent", Evidence::Estimated);
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
            memory,
            core,
            share,
            covered,
        })
    }

    /// What the program's instructions leave of its time, by loops that were timed without their memory, percent.
    fn share_by_no_miss_times(
        &self,
        CoreTimes { core, native }: &CoreTimes,
    ) -> Result<Estimate, String> {
        let least: f64 = self.passed.bursts.iter().map(|burst| burst.no_miss_time.low).sum();
        let in_all = native.sum();
        if least > in_all * TOO_MUCH {
            return Err(format!(
                "the measured no-miss time of the loops is {:.0} % longer than their native time: on repeated data \
                they wait for their own stores",
                (least / in_all - 1.0) * 100.0
            ));
        }
        let core = self.strata.percent_of_time(core, native).ok_or(NO_TIME)?;
        Ok(core.map(rest))
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

    fn without_misses(&self, core: &Metric) -> Metric {
        let elapsed = self.profile.elapsed().seconds();
        let whole = self.profile.counted_cpu_seconds().unwrap_or(self.strata.seconds);
        // Time outside of the program's own code stays.
        let own = if whole > 0.0 { (self.strata.seconds / whole).min(1.0) } else { 1.0 };
        let scale =
            |percent: Option<f64>| percent.map(|core| elapsed * (1.0 - own * (1.0 - core / 100.0)));
        Metric {
            value: scale(core.value),
            low: scale(core.low),
            high: scale(core.high),
            unit: "s".to_owned(),
            ..core.clone()
        }
    }

    fn exposed(&self, memory: &Metric) -> Metric {
        let levels = self.all_levels();
        let loads = self.executed().0;
        let beyond = |loads: Option<f64>, l1: Option<f64>| {
            loads.zip(l1).map(|(loads, l1)| loads * (100.0 - l1) / 100.0)
        };
        if beyond(loads.value, levels.l1.value).is_none_or(|beyond| beyond < 1.0) {
            return Metric::unavailable("ns", "no load missed the first-level cache");
        }
        let nanos = |percent: Option<f64>, beyond: Option<f64>| {
            let (percent, beyond) = percent.zip(beyond.filter(|beyond| *beyond >= 1.0))?;
            Some(percent / 100.0 * self.strata.seconds * 1e9 / beyond)
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

    /// What limits the program, and why, in words.
    ///
    /// # Errors
    /// Why the evidence does not decide.
    pub fn class(
        &self,
        bandwidth: &Bandwidth,
        bound: &Result<Bound, String>,
    ) -> Result<(Class, String), String> {
        let limit = self.near_the_limit(bandwidth);
        let (of_reach, least, why) = limit.ok_or("this machine's bandwidth was not measured")?;
        let open = |what: String| format!("{what}; a longer run or --repeat narrows that");
        if of_reach >= NEAR_PEAK && self.of_reach().value.is_none() {
            return Err(WHY_IMPOSSIBLE.to_owned());
        }
        if of_reach >= NEAR_PEAK {
            if least >= NOT_NEAR {
                return Ok((Class::Bandwidth, why));
            }
            let (most, least) = (100.0 * of_reach, 100.0 * least);
            return Err(open(format!(
                "it may use {least:.0} to {most:.0} % of the memory bandwidth"
            )));
        }
        let near = self.near_level().filter(|near| {
            let share = bound.as_ref().ok().and_then(|bound| bound.memory.value);
            let least = if near.surely >= SURE { NOT_BOUND_PERCENT } else { BOUND_PERCENT };
            share.map_or(near.surely >= SURE, |share| share >= least)
        });
        if let Some(near) = near {
            return Ok((Class::CacheBandwidth(near.level), near.why));
        }
        let Bound { memory, .. } = bound.as_ref().map_err(String::clone)?;
        let (Some(share), Some(low), Some(high)) = (memory.value, memory.low, memory.high) else {
            return Err(open("memory's share of its time is not known".to_owned()));
        };
        let wide = || open(format!("memory takes between {low:.0} and {high:.0} % of its time"));
        if share >= BOUND_PERCENT && low < NOT_BOUND_PERCENT {
            return Err(wide());
        }
        if share >= BOUND_PERCENT {
            let why = format!("{share:.0} % of its time exceeds its no-miss time");
            let seconds = share / 100.0 * self.strata.seconds;
            return Ok(match self.walk_share(seconds).filter(|_| !self.is_chase()) {
                Some(walks) if walks > 0.5 => {
                    let walks = (walks * 100.0).min(100.0);
                    let why =
                        format!("{why}; {walks:.0} % of the loads that miss L2 need a page walk");
                    (Class::Tlb, why)
                }
                _ => (Class::Latency, why),
            });
        }
        if high >= UNDECIDED_PERCENT {
            return Err(wide());
        }
        Ok((Class::Core, format!("{:.0} % of its time is no-miss time", 100.0 - share)))
    }

    /// Threads of the program that run at a time, while it runs; at least 1.
    pub(crate) fn running(&self) -> f64 {
        (self.strata.seconds / self.profile.elapsed().seconds().max(1e-9)).max(1.0)
    }

    /// The rate while the program runs over what as many threads reach, its lower bound, and that in words.
    fn near_the_limit(&self, bandwidth: &Bandwidth) -> Option<(f64, f64, String)> {
        let (elapsed, running) = (self.profile.elapsed().seconds(), self.running());
        let while_running = elapsed * running / self.strata.seconds;
        let rate = bandwidth.average.value? * while_running;
        let reachable = self.reachable(running, self.written())?;
        let of_reach = rate / reachable;
        let least = bandwidth.average.low? * while_running / reachable;
        let percent = of_reach * 100.0;
        let why = format!(
            "{rate:.1} GB/s while it runs, {percent:.0} % of what this many threads reach on this machine"
        );
        Some((of_reach, least, why))
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
    fn walks_and_far_loads(&self) -> (Quantity, Quantity) {
        let bursts = self.passed.bursts.len();
        let (mut walks, mut far) = (Quantity::none(bursts), Quantity::none(bursts));
        for (number, burst) in self.passed.bursts.iter().enumerate() {
            for site in &burst.sites {
                let accesses = (site.loads + site.stores) as f64;
                walks.add(number, self.model.walks(site.site).times(accesses));
                let hit_levels = self.model.hit_levels(burst.place, site.site);
                let touches = hit_levels
                    .l1
                    .plus(hit_levels.l2)
                    .plus(hit_levels.l3)
                    .plus(hit_levels.dram)
                    .best;
                if site.loads > 0 && touches > 0.0 {
                    let beyond =
                        hit_levels.l3.plus(hit_levels.dram).times(site.loads as f64 / touches);
                    far.add(number, beyond);
                }
            }
        }
        (walks, far)
    }

    /// Page walks per load that goes beyond the second level of cache; `None` where walks explain little of the seconds that
    /// memory takes.
    fn walk_share(&self, memory_seconds: f64) -> Option<f64> {
        let (walks, far) = self.walks_and_far_loads();
        let (walks, far) =
            (self.expansion().total(&walks).point(), self.expansion().total(&far).point());
        // At most, each walk takes an access to memory.
        let explained = walks * self.latencies()[2] * 1e-9;
        (far >= 1.0 && explained >= WALKS_MATTER * memory_seconds).then(|| walks / far)
    }

    /// Whether most loads wait for the one before: then the walk is but a part of each wait.
    fn is_chase(&self) -> bool {
        let chased: f64 = self.passed.bursts.iter().map(|burst| burst.chased).sum();
        let loads =
            |burst: &BurstWork| burst.sites.iter().map(|site| site.loads as f64).sum::<f64>();
        chased > 0.5 * self.passed.bursts.iter().map(loads).sum::<f64>()
    }

    /// Of the bytes that the program moves, the part that it writes, 0 to 1.
    fn written(&self) -> f64 {
        let (read, written) = (self.all.read.sum(), self.all.write.sum());
        if read + written > 0.0 { written / (read + written) } else { 0.0 }
    }

    /// What the program's threads can move at most on this machine, with its mix of reads and writes, GB/s.
    #[must_use]
    pub fn reach(&self) -> Metric {
        if let Err(why) = self.available() {
            return Metric::unavailable("GB/s", why);
        }
        match self.reachable(self.running(), self.written()) {
            Some(rate) => {
                Metric { evidence: Some(Evidence::Calibrated), ..Metric::counted(rate, "GB/s") }
            }
            None => Metric::unavailable(
                "GB/s",
                "this machine's bandwidth was not measured: run `fathom machine`",
            ),
        }
    }

    /// What as many threads can move when this part of it is written, GB/s: the best of what was measured with at most that
    /// many threads, and with as large a part or less. Reads alone reach less than a mixture: writes need not be waited for.
    pub(super) fn reachable(&self, running: f64, written: f64) -> Option<f64> {
        let calibration = self.profile.recording.run.calibration.as_ref()?;
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
        let like = ordinary.iter().filter(|point| written_part(point) <= largest);
        like.filter_map(|point| point.bus.value).reduce(f64::max)
    }

    /// The highest measured bandwidth with at most this many threads, whatever they did, GB/s.
    pub(super) fn best(&self, running: f64) -> Option<f64> {
        let points = self.profile.recording.run.calibration.as_ref()?.bandwidth.iter();
        let fewest = points.clone().map(|point| point.threads).min()?;
        let threads = (running.ceil().max(1.0) as u32).max(fewest);
        let points = points.filter(|point| point.threads <= threads);
        points.filter_map(|point| point.bus.high.or(point.bus.value)).reduce(f64::max)
    }

    /// How many times as much the program's threads can move with non-temporal stores; `None` where that was not measured,
    /// or is no more.
    pub(crate) fn past_caches(&self) -> Option<f64> {
        let running = self.running();
        let threads = running.ceil().max(1.0) as u32;
        let points = self.profile.recording.run.calibration.as_ref()?.bandwidth.iter();
        let points = points.filter(|point| point.threads <= threads && past_caches(point));
        let most = points.filter_map(|point| point.bus.value).reduce(f64::max)?;
        Some(most / self.reachable(running, 1.0)?).filter(|ratio| *ratio > 1.0)
    }
}
