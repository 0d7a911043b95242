//! What the machine was measured to do at most: the roofs of a roofline plot.
//!
//! What for: roofs of each level of cache, of memory and of arithmetic, for one thread and for all; and what limits some code,
//! which has its own mixture of reads and writes, of vectors and scalars, and its own number of threads. What not: what the code
//! does (`roofline`).
//!
//! Roof of code at a level = bandwidth of the level x operations per byte that comes from it or through it (Williams, Waterman,
//! Patterson, CACM 52, 2009; a roof per level: Yang, Kurth, Williams, "Hierarchical Roofline analysis for GPUs", 2020). Roof of
//! its arithmetic = 1 / sum (share of a kind of operation / peak of that kind): kinds share the pipes of the core.

use std::collections::BTreeSet;

use estimate::Bounds;
use facts::host::FlopsPoint;
use facts::{Evidence, Metric};

use super::level_rates::of_threads;
use super::rows::MemoryRow;
use super::{LINE, Memory};

/// What may limit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Limit {
    /// Operations on single elements.
    Scalar,
    /// Those on the widest vectors.
    Vector,
    /// A level of cache.
    Level(u32),
    /// Memory.
    Dram,
}

impl Limit {
    /// Its name.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Limit::Scalar => "scalar".to_owned(),
            Limit::Vector => "vector".to_owned(),
            Limit::Level(level) => format!("L{level}"),
            Limit::Dram => "DRAM".to_owned(),
        }
    }
}

/// A roof.
#[derive(Clone, PartialEq, Debug)]
pub struct Roof {
    /// Of what.
    pub limit: Limit,
    /// Of arithmetic: of double precision.
    pub double: bool,
    /// Threads that reach it together.
    pub threads: u32,
    /// For arithmetic the instruction set; else the kernel, which reads and writes as the program does.
    pub like: Option<String>,
    /// GB/s or GFLOP/s.
    pub rate: Metric,
}

/// The kinds of floating-point operations, as parts of all of some code.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Mix {
    /// In double precision, scalar and vector.
    pub double: [f64; 2],
    /// In single precision.
    pub single: [f64; 2],
}

/// What limits a row.
#[derive(Clone, PartialEq, Debug)]
pub struct RowRoofs {
    /// Threads of the program that run while it does.
    pub threads: f64,
    /// For the second and third level and memory: bytes that came from it or through it over the whole run, and the GB/s that
    /// as many threads reach with this mix of reads and writes. In the first level, the bytes are the program's own loads and
    /// stores.
    pub levels: Vec<(Limit, Option<Metric>, Metric)>,
}

const NOT_MEASURED: &str = "not measured on this machine: run `fathom machine --refresh`";

fn shown(bounds: Bounds, unit: &str) -> Metric {
    Metric::with_interval(Evidence::Calibrated, bounds.best, unit, (bounds.low, bounds.high), 1)
}

fn ends(metric: &Metric) -> Option<Bounds> {
    let best = metric.value?;
    Some(Bounds { best, low: metric.low.unwrap_or(best), high: metric.high.unwrap_or(best) })
}

impl Memory<'_> {
    /// With one thread and with all. A roof that was not measured has no rate, and a reason.
    #[must_use]
    pub fn roofs(&self) -> Vec<Roof> {
        let Some(found) = self.profile.calibration() else {
            return Vec::new();
        };
        let kernel = self.level_rates()[0].kernel;
        let threads = |all: Option<u32>| BTreeSet::from([1, all.unwrap_or(1)]);
        let mut roofs = Vec::new();
        let mut add = |limit, double, threads, best: Option<(&str, &Metric)>, unit| {
            roofs.push(Roof {
                limit,
                double,
                threads,
                like: best.map(|(like, _)| like.to_owned()),
                rate: best
                    .map_or(Metric::unavailable(unit, NOT_MEASURED), |(_, rate)| rate.clone()),
            });
        };
        let points = &found.level_bandwidth;
        for level in 1..=3 {
            for threads in threads(points.iter().map(|point| point.threads).max()) {
                let same = points.iter().filter(|point| {
                    (point.level, point.threads) == (level, threads)
                        && kernel.is_none_or(|kernel| point.kernel == kernel)
                });
                let best = same.reduce(|a, b| if b.rate.value > a.rate.value { b } else { a });
                let best = best.map(|point| (point.kernel.as_str(), &point.rate));
                add(Limit::Level(level), false, threads, best, "GB/s");
            }
        }
        for threads in threads(found.bandwidth.iter().map(|point| point.threads).max()) {
            let best = self.reached_by(f64::from(threads), self.written());
            let best = best.map(|point| (point.kernel.as_str(), &point.bus));
            add(Limit::Dram, false, threads, best, "GB/s");
        }
        for limit in [Limit::Scalar, Limit::Vector] {
            for double in [true, false] {
                for threads in threads(found.flops.iter().map(|point| point.threads).max()) {
                    let best = self.flops_point(limit, double, threads);
                    let best = best.map(|point| (point.simd.as_str(), &point.rate));
                    add(limit, double, threads, best, "GFLOP/s");
                }
            }
        }
        roofs
    }

    fn flops_point(&self, limit: Limit, double: bool, threads: u32) -> Option<&FlopsPoint> {
        let found = self.profile.calibration()?;
        let precision = if double { "double" } else { "single" };
        let same = found.flops.iter().filter(|point| {
            point.precision == precision
                && point.threads == threads
                && (point.simd == "scalar") == (limit == Limit::Scalar)
                && point.rate.value.is_some()
        });
        same.reduce(|a, b| if b.rate.value > a.rate.value { b } else { a })
    }

    /// GFLOP/s that this number of threads reaches with these kinds of operations, and which kind takes most of that time.
    #[must_use]
    pub fn arithmetic_roof(&self, mix: &Mix, threads: f64) -> Option<(Limit, Metric)> {
        let found = self.profile.calibration()?;
        let all = found.flops.iter().map(|point| point.threads).max()?;
        // Of a billion operations, seconds; those of scalars apart.
        let mut seconds = [Bounds::default(); 2];
        for (double, parts) in [(true, mix.double), (false, mix.single)] {
            for ((limit, part), sum) in
                [Limit::Scalar, Limit::Vector].into_iter().zip(parts).zip(&mut seconds)
            {
                if part > 0.0 {
                    let of = |threads| ends(&self.flops_point(limit, double, threads)?.rate);
                    let peak = of_threads(of(1).or_else(|| of(all)), of(all), threads)?;
                    let time = |rate: f64| part / rate.max(f64::MIN_POSITIVE);
                    let (best, low, high) = (time(peak.best), time(peak.high), time(peak.low));
                    *sum = sum.plus(Bounds { best, low, high });
                }
            }
        }
        let sum = seconds[0].plus(seconds[1]);
        let roof = Bounds { best: 1.0 / sum.best, low: 1.0 / sum.high, high: 1.0 / sum.low };
        let limit = if seconds[0].best > seconds[1].best { Limit::Scalar } else { Limit::Vector };
        roof.best.is_finite().then(|| (limit, shown(roof, "GFLOP/s")))
    }

    /// What limits some code.
    #[must_use]
    pub fn roofs_of(&self, row: &MemoryRow) -> RowRoofs {
        let threads = self.threads_at(row);
        let [second, third] = self.level_rates_of(row.sites.iter().copied());
        let kernel = second.kernel;
        let reach = |level| {
            let found = self.level_reach(level, threads, kernel);
            found.map_or(Metric::unavailable("GB/s", NOT_MEASURED), |rate| shown(rate, "GB/s"))
        };
        let (read, written) = (row.read.value.unwrap_or(0.0), row.write.value.unwrap_or(0.0));
        let written = written / (read + written).max(LINE);
        let dram = self.reached_by(threads, written).map(|point| point.bus.clone());
        let dram = dram.unwrap_or_else(|| Metric::unavailable("GB/s", NOT_MEASURED));
        let levels = vec![
            (Limit::Level(1), None, reach(1)),
            (Limit::Level(2), Some(second.fetched), reach(2)),
            (Limit::Level(3), Some(third.fetched), reach(3)),
            (Limit::Dram, Some(row.moved.clone()), dram),
        ];
        RowRoofs { threads, levels }
    }

    /// Threads that run while this code does: the mean over its accesses.
    fn threads_at(&self, row: &MemoryRow) -> f64 {
        let (mut all, mut running) = (0.0, 0.0);
        for site in &row.sites {
            for (number, _, work) in self.works_of(*site) {
                let accesses = (work.loads + work.stores) as f64;
                let accesses = self.expansion().sum(std::iter::once((number, accesses)));
                let at = self.strata.concurrency(number).unwrap_or_else(|| self.running());
                all += accesses;
                running += accesses * at;
            }
        }
        if all > 0.0 { running / all } else { self.running() }
    }
}
