//! How fast lines come from each level of cache, against what this machine was measured to deliver from it.
//!
//! What for: a program whose data lies in a cache may be held up by the bandwidth of that cache. What not: memory's
//! (`bandwidth`, `function`), which asks for the mixture of reads and writes as well.
//!
//! A level delivers every line that the levels above it miss, whether it holds the line or fetches it from further out. Lines
//! that are written back are not counted, neither here nor in the measurement.
//!
//! Assumption: n threads together reach at most n times the bandwidth of one thread, and at most that of all threads.

use std::collections::BTreeSet;

use estimate::{Bounds, Estimate};
use facts::host::LevelBandwidth;
use facts::{Evidence, Metric};
use x86::Kind;

use super::bound::{IMPOSSIBLE, NO_TIME, NO_WRITES, WHY_IMPOSSIBLE};
use super::core_time::ONE_THREAD;
use super::quantity::Quantity;
use super::rows::opened;
use super::{LINE, Memory};
use crate::figure::{Figure, spread};
use crate::traced::SiteIndex;

/// Lines that are written are half of those of the kernel that writes; from half of that on code counts like it.
const WRITES: f64 = 0.25;
const NOT_MEASURED: &str =
    "this machine's caches were not measured: run `fathom machine --refresh`";

/// What a level of cache delivers.
#[derive(Clone, PartialEq, Debug)]
pub struct LevelRate {
    /// 2 or 3.
    pub level: u32,
    /// Bytes of lines that came from it or through it, over the whole run.
    pub fetched: Metric,
    /// GB/s while this code runs, all threads together.
    pub rate: Metric,
    /// What so many threads reach, GB/s.
    pub reachable: Metric,
    /// Percent of that.
    pub of_reachable: Figure,
    /// The kernel that it is compared with; `None`: whichever reaches most.
    pub(super) kernel: Option<&'static str>,
}

/// A level whose bandwidth limits.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct NearLimit {
    pub(super) level: u32,
    /// Percent of what so many threads reach there.
    pub(super) of_reach: Estimate,
    pub(super) why: String,
}

impl Memory<'_> {
    /// The second and the third level, of the whole program.
    #[must_use]
    pub fn level_rates(&self) -> [LevelRate; 2] {
        let rates = || self.level_rates_of(self.passed.sites.keys().copied());
        match self.bursts {
            None => self.replayed.level_rates.get_or_init(rates).clone(),
            Some(_) => rates(),
        }
    }

    /// The same of the code of some sites.
    #[must_use]
    pub fn level_rates_of(&self, sites: impl Iterator<Item = SiteIndex>) -> [LevelRate; 2] {
        if let Err(why) = self.available() {
            let none = |unit| Metric::unavailable(unit, why);
            return [2, 3].map(|level| LevelRate {
                level,
                fetched: none("bytes"),
                rate: none("GB/s"),
                reachable: none("GB/s"),
                of_reachable: none("percent").into(),
                kernel: None,
            });
        }
        let none = || Quantity::none(self.passed.bursts.len());
        let (mut lines, mut executed) = ([none(), none()], none());
        let mut at = BTreeSet::new();
        // Lines, of which for stores; accesses, of which stores.
        let (mut all, mut stored, mut accesses, mut stores) = (0.0, 0.0, 0.0, 0.0);
        for site in sites {
            for (number, burst, work) in self.works_of(site) {
                at.insert(number);
                let levels = self.model.hit_levels(burst.place, site);
                executed.add(number, Bounds::exactly((work.loads + work.stores) as f64));
                let part = work.loads.max(work.stores) as f64;
                let far = through(levels.l3, levels.dram);
                let passed = [through(levels.l2, far), far].map(|lines| lines.times(part * LINE));
                for (sum, lines) in lines.iter_mut().zip(passed) {
                    sum.add(number, lines);
                }
                all += passed[0].best;
                let kind = self.code.sites[site.index()].access.kind;
                stored += if kind == Kind::Read { 0.0 } else { passed[0].best };
                accesses += (work.loads + work.stores) as f64;
                stores += work.stores as f64;
            }
        }
        let part = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let kernel = match part(stored, all) {
            written if written >= WRITES => Some("copy"),
            _ if part(stores, accesses) < NO_WRITES => Some("load"),
            _ => None,
        };
        let [second, third] = lines;
        [(2, second), (3, third)]
            .map(|(level, lines)| self.level_rate(level, (&lines, &executed), &at, kernel))
    }

    /// Of these bytes, which so many accesses fetched, in these observations.
    fn level_rate(
        &self,
        level: u32,
        (bytes, executed): (&Quantity, &Quantity),
        at: &BTreeSet<usize>,
        kernel: Option<&'static str>,
    ) -> LevelRate {
        let none = || Quantity::none(self.passed.bursts.len());
        let (mut native, mut together, mut needed) = (none(), none(), none());
        let mut all_known = true;
        for burst in at {
            let running = self.strata.concurrency(*burst).unwrap_or_else(|| self.running());
            native.add(*burst, Bounds::exactly(self.strata.seconds_of(*burst)));
            together.add(*burst, bytes.0[*burst].times(running));
            match self.level_reach(level, running, kernel) {
                Some(Bounds { best: reach, .. }) => {
                    needed.add(*burst, bytes.0[*burst].times(running / (reach * 1e9)));
                }
                None => all_known = false,
            }
        }
        let (expansion, evidence) = (self.expansion(), Evidence::Simulated);
        let seconds = expansion.time(&native);
        let per_second = |part: &Quantity, factor: (f64, &str)| {
            expansion.ratio(part, &seconds, factor, evidence, NO_TIME)
        };
        let measured = self.level_reach(level, self.running(), kernel);
        let of_reachable = match &measured {
            Some(reach) if all_known && seconds.point() > 0.0 => {
                let doubt = spread([reach.low, reach.best, reach.high], level as usize);
                let share = expansion.total(&needed) / &seconds / &doubt * (100.0 * reach.best);
                Figure::new(expansion.shown(share.clone(), "percent", evidence), share)
            }
            _ => Metric::unavailable("percent", NOT_MEASURED).into(),
        };
        // Each access fetches a line at most.
        let fetched = expansion.metric(bytes, (1.0, "bytes"), evidence);
        let most = expansion.metric(executed, (LINE, "bytes"), evidence).high.unwrap_or(0.0);
        let (fetched, more) = opened(fetched, executed, most);
        let more = more.filter(|_| seconds.point() > 0.0);
        let more = more.map(|bytes| bytes * 1e-9 * self.running() / seconds.point());
        let wider = |metric: Metric, high: Option<f64>| match (metric.value, high) {
            (Some(_), Some(high)) => {
                Metric { high: Some(high), note: fetched.note.clone(), ..metric }
            }
            _ => metric,
        };
        let of_reachable: Figure = match (more, &measured) {
            (Some(rate), Some(reach)) if of_reachable.value.is_some() => {
                let high = (rate / reach.best * 100.0).min(100.0);
                wider(Metric::clone(&of_reachable), Some(high)).into()
            }
            _ => of_reachable,
        };
        let impossible = of_reachable.low.is_some_and(|low| low > IMPOSSIBLE * 100.0);
        LevelRate {
            level,
            rate: wider(per_second(&together, (1e-9, "GB/s")).metric(), more),
            fetched,
            reachable: match measured {
                Some(Bounds { best, low, high }) => {
                    let ends = (low, high);
                    Metric::with_interval(Evidence::Calibrated, best, "GB/s", ends, 1)
                }
                None => Metric::unavailable("GB/s", NOT_MEASURED),
            },
            of_reachable: match impossible {
                true => Metric::unavailable("percent", WHY_IMPOSSIBLE).into(),
                false => of_reachable,
            },
            kernel,
        }
    }

    /// Bandwidth of so many threads from a level, GB/s, with code like this kernel, or like any.
    pub(super) fn level_reach(
        &self,
        level: u32,
        running: f64,
        kernel: Option<&str>,
    ) -> Option<Bounds> {
        let points = &self.profile.calibration()?.level_bandwidth;
        reach(points, level, running, kernel)
    }

    /// The level of cache that is used most.
    pub(super) fn near_level(&self) -> Option<NearLimit> {
        let near = |rate: LevelRate| {
            let of_reach = rate.of_reachable.drawn(0)?;
            let value = rate.rate.value?;
            let why = format!(
                "{value:.1} GB/s from L{} while it runs, {:.0} % of what this many threads reach there",
                rate.level,
                of_reach.point()
            );
            Some(NearLimit { level: rate.level, of_reach, why })
        };
        let found = self.level_rates().into_iter().filter_map(near);
        found.max_by(|a, b| a.of_reach.point().total_cmp(&b.of_reach.point()))
    }
}

/// Lines of two levels together: that which is surely in the one is no more in the other.
fn through(near: Bounds, far: Bounds) -> Bounds {
    let best = near.best + far.best;
    Bounds { best, low: (near.low + far.high).min(best), high: (near.high + far.low).max(best) }
}

fn reach(
    points: &[LevelBandwidth],
    level: u32,
    running: f64,
    kernel: Option<&str>,
) -> Option<Bounds> {
    let of = |threads: u32| {
        let same = points.iter().filter(|point| {
            point.level == level
                && point.threads == threads
                && kernel.is_none_or(|kernel| point.kernel == kernel)
        });
        let rates = same.filter_map(|point| {
            let Metric { value, low, high, .. } = point.rate;
            Some(Bounds { best: value?, low: low?, high: high? })
        });
        rates.reduce(|a, b| if b.best > a.best { b } else { a })
    };
    let all = points.iter().map(|point| point.threads).max()?;
    of_threads(of(1), of(all), running)
}

/// Bandwidth of so many threads, from that of one and that of all.
pub(super) fn of_threads(one: Option<Bounds>, all: Option<Bounds>, running: f64) -> Option<Bounds> {
    let one = one?;
    if running <= ONE_THREAD {
        return Some(one);
    }
    let (all, alike) = (all?, one.times(running));
    Some(if all.best < alike.best { all } else { alike })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(kernel: &str, threads: u32, rate: Option<f64>) -> LevelBandwidth {
        let rate = rate.map_or(Metric::unavailable("GB/s", "too small"), |rate| {
            Metric::with_interval(Evidence::Calibrated, rate, "GB/s", (rate, rate), 7)
        });
        LevelBandwidth { level: 3, kernel: kernel.to_owned(), threads, rate }
    }

    #[test]
    fn threads_reach_no_more_than_all_nor_than_as_many_times_one() {
        let rates = [("load", 1, 50.0), ("copy", 1, 40.0), ("load", 8, 200.0), ("copy", 8, 150.0)];
        let points = rates.map(|(kernel, threads, rate)| machine(kernel, threads, Some(rate)));
        let of = |running, kernel| Some(reach(&points, 3, running, kernel)?.best);
        assert_eq!([of(1.0, Some("load")), of(1.0, Some("copy"))], [Some(50.0), Some(40.0)]);
        assert_eq!([of(2.5, Some("load")), of(2.5, None)], [Some(125.0); 2]);
        assert_eq!([of(8.0, Some("copy")), of(8.0, None)], [Some(150.0), Some(200.0)]);
        assert_eq!(reach(&points, 2, 1.0, None), None);
        assert_eq!(reach(&[], 3, 1.0, None), None);
    }

    #[test]
    fn what_all_threads_reach_may_be_unknown() {
        let points = [machine("load", 1, Some(50.0)), machine("load", 2, None)];
        assert_eq!(reach(&points, 3, 1.0, None), Some(Bounds::exactly(50.0)));
        assert_eq!(reach(&points, 3, 2.0, None), None);
    }

    #[test]
    fn what_is_surely_near_is_not_far() {
        let bounds = |best, low, high| Bounds { best, low, high };
        // Ten lines beyond the second level: it is unknown whether from the third or from memory.
        assert_eq!(
            through(bounds(5.0, 0.0, 10.0), bounds(5.0, 0.0, 10.0)),
            bounds(10.0, 10.0, 10.0)
        );
    }
}
