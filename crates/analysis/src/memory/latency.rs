//! How long loads take, from timed loads.
//!
//! What for: distribution of load latencies, of the whole program and by code. In bursts of their own, one load of each block is
//! timed by two readings of the time-stamp counter, fenced, so that nothing overlaps it.
//! What not: how much of that time the processor hides by overlap (`bound`). Prefetchers have more time to run ahead than
//! natively, so streams look like hits in the first level.
//!
//! latency = cycles between the readings - the same for a load that hits in L1 + L1's latency.
//! Every timed load of a site represents (loads of the site) / (timed loads of the site) loads. Intervals take bursts as clusters
//! (Cochran 1977, 9A.2); those of quantiles are Woodruff's (J. Am. Stat. Assoc. 47 (1952) 635-646) with the design effect of
//! the mean.
//!
//! Assumptions: the time-stamp counter runs at one rate; its steps (10 ns on AMD's Zen) make single values uncertain, not means
//! ([`TimerStep`]); an interrupt between the readings makes an outlier: values beyond [`LONGEST`] are left out.

use std::collections::{BTreeMap, HashMap, HashSet};

use base::BurstId;
use facts::{BurstFlavour, Evidence, Metric, decode_records};

use super::Memory;
use super::levels::LevelShares;
use super::rows::MemoryRow;
use super::timer_step::{TimerStep, WithinBounds};
use crate::hotspots::{Key, RowKey};
use crate::objects::{Objects, Part, Pieces, Units};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::LocationId;
use crate::traced::{SiteIndex, TracedCode};
use estimate::interval::{Z_95, effective_count, wilson};

/// Longer is no memory access, nanoseconds.
const LONGEST: f64 = 20_000.0;
/// A hit in the first level, nanoseconds, where the machine was not measured.
const FIRST_LEVEL: f64 = 1.5;
/// Quantiles are sought as finely, nanoseconds.
const FINEST: f64 = 0.1;
/// Fewer timed loads make no figure.
const FEWEST: usize = 30;
/// Bounds of the histogram's steps, nanoseconds.
const STEPS: [f64; 14] =
    [0.0, 2.0, 5.0, 10.0, 20.0, 30.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 500.0, 1000.0];

/// One timed load.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Timed {
    burst: BurstId,
    nanos: f64,
    /// What it loaded from, where objects are distinguished.
    part: Option<Part>,
}

/// One timed load as it was recorded.
struct Raw {
    site: SiteIndex,
    burst: BurstId,
    cycles: u32,
    part: Option<Part>,
}

/// All timed loads, by site.
#[derive(Debug, Default)]
pub(super) struct TimedLoads {
    by_site: BTreeMap<SiteIndex, Vec<Timed>>,
    timer_step: TimerStep,
    /// A hit in the first level, nanoseconds: no load is faster. Where times seem so, the overhead of a reading was measured too high.
    hit: f64,
}

/// A distribution of latencies, nanoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Latency {
    /// Mean.
    pub mean: Metric,
    /// Half of all loads are quicker.
    pub p50: Metric,
    /// 95 % are.
    pub p95: Metric,
    /// 99 % are.
    pub p99: Metric,
    /// Loads at sites that were timed, percent of all loads.
    pub covered: Metric,
    /// Its steps, shortest latency first.
    pub histogram: Vec<LatencyStep>,
}

/// A step of a histogram of latencies.
#[derive(Clone, PartialEq, Debug)]
pub struct LatencyStep {
    /// Shortest latency of the step.
    pub from: f64,
    /// The first beyond it; infinite for the last step.
    pub to: f64,
    /// Share of the loads, percent.
    pub share: Metric,
}

/// Latency by code.
#[derive(Clone, PartialEq, Debug)]
pub struct LatencyRow {
    /// What it is.
    pub key: RowKey,
    /// The place in it with the most loads.
    pub place: LocationId,
    /// Loads executed.
    pub loads: Metric,
    /// Share of the time of all loads, percent.
    pub share: Metric,
    /// Their latency.
    pub latency: Latency,
    /// Their hit levels, simulated.
    pub levels: LevelShares,
    /// Loads that took longer than the second level does, percent, to compare with the simulated levels.
    pub beyond_l2: Metric,
}

impl TimedLoads {
    /// Reads them all.
    pub(super) fn read(
        profile: &Profile<'_>,
        code: &TracedCode,
        objects: Option<(&Objects, Pieces)>,
    ) -> TimedLoads {
        let recording = profile.recording;
        let mut loads = TimedLoads::default();
        let Some(hertz) = recording.run.host.tsc_hz.filter(|hertz| *hertz > 0.0) else {
            return loads;
        };
        let timed =
            |burst: &&facts::Burst| burst.flavour == BurstFlavour::Timed && !burst.records_lost;
        let bursts: HashMap<BurstId, &facts::Burst> =
            recording.bursts.iter().filter(timed).map(|burst| (burst.id, burst)).collect();
        let mut units = objects.map(|_| Units::new(code.sites.len(), objects));
        let mut raw: Vec<Raw> = Vec::new();
        for records in &recording.records {
            let Some(burst) = bursts.get(&records.burst) else { continue };
            units.iter_mut().for_each(|units| units.begin(burst));
            let _ = decode_records(&records.bytes, |record| {
                let Some(load) = code.timed.get(&record.block) else { return };
                let Some(stamps) = record.values.get(load.stamps) else { return };
                let cycles = ((stamps >> 32) as u32).wrapping_sub(*stamps as u32);
                let address = || load.address(&code.sites, record.values, burst.fs_base);
                let part = units.as_ref().and_then(|units| Some(units.locate(address()?).0));
                raw.push(Raw { site: load.site, burst: records.burst, cycles, part });
            });
        }
        let overhead = recording.run.collector.timed_load_overhead_cycles;
        let nanos_per_cycle = 1e9 / hertz;
        loads.timer_step = TimerStep::of(raw.iter().map(|one| one.cycles), nanos_per_cycle);
        let step = loads.timer_step.step();
        let measured = overhead.map(|overhead| {
            overhead.mean.filter(|_| step > 0.0).unwrap_or(f64::from(overhead.median))
        });
        let hit = hit_cycles(&raw, measured, step / nanos_per_cycle);
        let first = level_nanos(profile, 1).unwrap_or(FIRST_LEVEL);
        loads.hit = first;
        for Raw { site, burst, cycles, part } in raw {
            let nanos = ((f64::from(cycles) - hit) * nanos_per_cycle + first).max(first - step);
            if nanos <= LONGEST {
                loads.by_site.entry(site).or_default().push(Timed { burst, nanos, part });
            }
        }
        loads
    }

    /// None of them yet.
    fn none(&self) -> Weighted {
        Weighted {
            loads: Vec::new(),
            sum: 0.0,
            all: 0.0,
            timer_step: self.timer_step,
            hit: self.hit,
        }
    }

    /// By how much the loads of each site that were timed took longer than hits in the first level, on average, nanoseconds.
    pub(super) fn mean_waits(&self) -> BTreeMap<SiteIndex, f64> {
        let mean = |loads: &Vec<Timed>| {
            let mean = loads.iter().map(|one| one.nanos).sum::<f64>() / loads.len().max(1) as f64;
            (mean - self.hit).max(0.0)
        };
        self.by_site.iter().map(|(site, loads)| (*site, mean(loads))).collect()
    }
}

/// Shown time of a hit in the first level: that measured when the collection began, but at most the 5 % quantile of the timed
/// loads, because a hit takes the least time of all. Most of it is the fences. `step` of the counter: a load may take so much
/// longer than it shows.
fn hit_cycles(raw: &[Raw], measured: Option<f64>, step: f64) -> f64 {
    let mut cycles: Vec<u32> = raw.iter().map(|one| one.cycles).collect();
    cycles.sort_unstable();
    let quick = cycles.get(cycles.len() / 20).copied().map_or(0.0, f64::from);
    measured.map_or(quick + step / 2.0, |measured| measured.min(quick + step))
}

fn level_nanos(profile: &Profile<'_>, level: u32) -> Option<f64> {
    profile.calibration()?.cache_latency(level)
}

/// Loads with a weight each.
pub(super) struct Weighted {
    loads: Vec<(f64, f64, BurstId)>,
    /// Sum of the weights.
    sum: f64,
    /// Loads of all sites, timed or not.
    all: f64,
    timer_step: TimerStep,
    /// The least that a load takes.
    hit: f64,
}

impl Weighted {
    /// Adds code that executes `loads` loads over the run, of which these were timed.
    fn add<'a>(&mut self, executed: f64, timed: impl ExactSizeIterator<Item = &'a Timed>) {
        self.all += executed;
        let weight = executed / timed.len().max(1) as f64;
        if weight > 0.0 && timed.len() > 0 {
            self.sum += executed;
            self.loads.extend(timed.map(|one| (one.nanos, weight, one.burst)));
        }
    }

    fn sorted(mut self) -> Weighted {
        self.loads.sort_by(|a, b| a.0.total_cmp(&b.0));
        self
    }

    /// As the times are, however short.
    fn timed_mean(&self) -> f64 {
        self.loads.iter().map(|(nanos, weight, _)| nanos * weight).sum::<f64>() / self.sum
    }

    fn mean(&self) -> f64 {
        self.timed_mean().max(self.hit)
    }

    /// Standard error of the mean with bursts as clusters, and how often larger its square is than without.
    fn error(&self) -> (f64, f64) {
        let mean = self.timed_mean();
        let mut clusters: BTreeMap<BurstId, f64> = BTreeMap::new();
        let mut plain = 0.0;
        for (nanos, weight, burst) in &self.loads {
            let residual = weight * (nanos - mean);
            *clusters.entry(*burst).or_default() += residual;
            plain += residual * residual;
        }
        let n = clusters.len() as f64;
        if clusters.len() < 2 {
            return (mean.abs(), f64::INFINITY);
        }
        let squares: f64 = clusters.values().map(|sum| sum * sum).sum::<f64>() * n / (n - 1.0);
        let effect = if plain > 0.0 { (squares / plain).max(1.0) } else { 1.0 };
        (squares.sqrt() / self.sum, effect)
    }

    fn metric(&self, value: f64, unit: &str, interval: (f64, f64)) -> Metric {
        Metric::with_interval(Evidence::Timed, value, unit, interval, self.loads.len() as u64)
    }

    /// How many independent loads carry as much information.
    fn effective(&self, effect: f64) -> f64 {
        let squares: f64 = self.loads.iter().map(|(_, weight, _)| weight * weight).sum();
        effective_count(self.sum, squares) / effect
    }

    /// The latency below which this share of loads is. The loads are sorted.
    fn at(&self, share: f64) -> f64 {
        let mut left = share.clamp(0.0, 1.0) * self.sum;
        for (nanos, weight, _) in &self.loads {
            left -= weight;
            if left <= 0.0 {
                return *nanos;
            }
        }
        self.loads.last().map_or(0.0, |(nanos, _, _)| *nanos)
    }

    /// The same within a step of the counter, as the histogram spreads times over it.
    fn within_step(&self, share: f64) -> f64 {
        let (middle, step) = (self.at(share), self.timer_step.step());
        let below = |nanos: f64| {
            let part = |(shown, weight, _): &(f64, f64, BurstId)| {
                self.timer_step.within(*shown, 0.0, nanos).best * weight
            };
            self.loads.iter().map(part).sum::<f64>()
        };
        let (mut low, mut high) = (middle - step, middle + step);
        while high - low > FINEST {
            let half = f64::midpoint(low, high);
            if below(half) < share * self.sum { low = half } else { high = half }
        }
        high
    }

    fn quantile(&self, share: f64, effective: f64) -> Metric {
        let half = Z_95 * (share * (1.0 - share) / effective.max(1.0)).sqrt();
        let (low, high) = (self.at(share - half), self.at(share + half));
        let interval = ((low - self.timer_step.step()).max(0.0), high + self.timer_step.step());
        self.metric(self.within_step(share).max(self.hit), "ns", interval)
    }

    /// Share of loads that take from `from` on and less than `to` nanoseconds, percent.
    fn share(&self, effective: f64, from: f64, to: f64) -> Metric {
        let within = |(nanos, weight, _): &(f64, f64, BurstId)| {
            self.timer_step.within(*nanos, from, to).times(weight / self.sum)
        };
        let share = self.loads.iter().map(within).sum::<WithinBounds>();
        let interval = |share: f64| wilson(share.min(1.0), effective);
        let (low, high) = (interval(share.sure).0, interval(share.possible).1);
        self.metric(share.best.min(1.0) * 100.0, "percent", (low * 100.0, high * 100.0))
    }

    fn latency(&self) -> Latency {
        let mean = self.mean();
        let (error, effect) = self.error();
        let effective = self.effective(effect);
        // What times are too short by, they may be anywhere.
        let half = Z_95 * error + (mean - self.timed_mean());
        let covered = Metric::with_interval(
            Evidence::Estimated,
            self.sum / self.all * 100.0,
            "percent",
            (self.sum / self.all * 100.0, self.sum / self.all * 100.0),
            self.loads.len() as u64,
        );
        let step = |at: usize| {
            let (from, to) = (STEPS[at], STEPS.get(at + 1).copied().unwrap_or(f64::INFINITY));
            LatencyStep { from, to, share: self.share(effective, from, to) }
        };
        Latency {
            mean: self.metric(mean, "ns", ((mean - half).max(0.0), mean + half)),
            p50: self.quantile(0.5, effective),
            p95: self.quantile(0.95, effective),
            p99: self.quantile(0.99, effective),
            covered,
            histogram: (0..STEPS.len()).map(step).collect(),
        }
    }
}

impl Memory<'_> {
    fn weighted(&self, sites: impl Iterator<Item = SiteIndex>) -> Weighted {
        let mut weighted = self.timed.none();
        for site in sites {
            let timed = self.timed.by_site.get(&site).map_or(&[][..], Vec::as_slice);
            let timed: Vec<&Timed> = timed.iter().filter(|one| self.has_burst(one.burst)).collect();
            weighted.add(self.loads_of(site), timed.into_iter());
        }
        weighted.sorted()
    }

    /// Loads of some sites from some parts of objects, with how many each of these executes over the run.
    pub(super) fn weighted_of_parts(
        &self,
        loads: impl Iterator<Item = (SiteIndex, Part, f64)>,
        chosen: &HashSet<BurstId>,
    ) -> Weighted {
        let mut weighted = self.timed.none();
        for (site, part, executed) in loads {
            let timed = self.timed.by_site.get(&site).map_or(&[][..], Vec::as_slice);
            let of_part = |one: &&Timed| one.part == Some(part) && chosen.contains(&one.burst);
            let timed: Vec<&Timed> = timed.iter().filter(of_part).collect();
            weighted.add(executed, timed.into_iter());
        }
        weighted.sorted()
    }

    /// Loads of a site over the whole run.
    fn loads_of(&self, site: SiteIndex) -> f64 {
        self.loads.get(&site).copied().unwrap_or(0.0)
    }

    /// Latency of all loads that are selected.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn latency(&self) -> Result<Latency, String> {
        self.available()?;
        let chosen = |site: &SiteIndex| self.selection.has_place(self.place(*site));
        self.enough(&self.weighted(self.loads.keys().copied().filter(chosen)))
    }

    pub(super) fn enough(&self, weighted: &Weighted) -> Result<Latency, String> {
        let count = weighted.loads.len();
        if self.profile.recording.run.host.tsc_hz.is_none() {
            return Err("the frequency of the time-stamp counter is unknown here".to_owned());
        }
        if count < FEWEST {
            return Err(format!("only {count} loads were timed, {FEWEST} are needed"));
        }
        Ok(weighted.latency())
    }

    /// Latency by code, largest share of the time of loads first.
    ///
    /// # Errors
    /// Why there are no rows.
    pub fn latency_rows(
        &self,
        selection: &Selection,
        keys: &[Key],
    ) -> Result<Vec<LatencyRow>, String> {
        self.available()?;
        let keys = if keys.is_empty() { &[Key::Function] } else { keys };
        let rows = self.rows(selection, keys)?.into_iter();
        Ok(self.with_latency(rows.map(|row| {
            let weighted = self.weighted(row.sites().iter().copied());
            (row, weighted)
        })))
    }

    /// The rows of which enough loads were timed, largest share of the time of loads first.
    pub(super) fn with_latency(
        &self,
        code: impl Iterator<Item = (MemoryRow, Weighted)>,
    ) -> Vec<LatencyRow> {
        let all = self.weighted(self.loads.keys().copied());
        let whole = all.mean() * all.sum;
        let second = level_nanos(self.profile, 2).zip(level_nanos(self.profile, 3));
        let mut rows = Vec::new();
        for (row, weighted) in code {
            let Ok(latency) = self.enough(&weighted) else { continue };
            let (_, effect) = weighted.error();
            let effective = weighted.effective(effect);
            let part = weighted.mean() * weighted.sum / whole * 100.0;
            let scaled =
                |nanos: Option<f64>| nanos.map(|nanos| nanos * weighted.sum / whole * 100.0);
            let share = Metric {
                low: scaled(latency.mean.low),
                high: scaled(latency.mean.high).map(|high| high.min(100.0)),
                ..weighted.metric(part, "percent", (part, part))
            };
            let beyond_l2 = match second {
                // Half-way between the two on a scale of factors.
                Some((two, three)) => {
                    weighted.share(effective, (two * three).sqrt(), f64::INFINITY)
                }
                None => Metric::unavailable(
                    "percent",
                    "this machine's cache latencies were not measured",
                ),
            };
            rows.push(LatencyRow {
                key: row.key,
                place: row.place,
                loads: row.traffic.loads,
                share,
                latency,
                levels: row.levels,
                beyond_l2,
            });
        }
        rows.sort_by(|a, b| {
            b.share.value.partial_cmp(&a.share.value).unwrap_or(std::cmp::Ordering::Equal)
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_the_histogram_where_the_counter_has_steps() {
        let timer_step = TimerStep::of([10, 20, 30].into_iter(), 1.0);
        let loads = (0..90).map(|at| (f64::from(at % 3) * 10.0 + 5.0, 1.0, BurstId(at)));
        let mut all =
            Weighted { loads: loads.collect(), sum: 90.0, all: 90.0, timer_step, hit: 1.0 }
                .sorted();
        let below = |all: &Weighted, nanos: Option<f64>| {
            all.share(90.0, 0.0, nanos.expect("a quantile")).value.expect("a share")
        };
        let Latency { p50, p95, .. } = all.latency();
        assert!((below(&all, p50.value) - 50.0).abs() < 1.0, "{p50:?}");
        assert!((below(&all, p95.value) - 95.0).abs() < 1.0, "{p95:?}");
        assert!(p95.low < p95.value && p95.value < p95.high);
        // Without steps they are times that were seen.
        all.timer_step = TimerStep::default();
        assert_eq!(all.latency().p50.value, Some(15.0));
    }
}
