//! What the machine's memory could do when a program ran: the stored figures, times how much faster or slower it was then.
//!
//! What for: the one place that compares a run's readings with the calibration. All bandwidth of memory that a run is judged by
//! comes from here. What not: caches, latency and arithmetic, which stay as measured; taking readings (`calibrate::reading`).
//!
//! For each number of threads that was read: factor = mean over kernels and readings of (reading / stored point of the same kernel
//! and threads), in logarithms; between two numbers of threads it goes evenly with their logarithms. Its interval has three
//! parts: the spread of the passes, now and then; how unlike the ratios of other kernels are ([`UNLIKE`]); and the change from
//! the reading before the run to the one after it. Where each reading is as stored but for the first two, the stored points stay
//! as they are.

use std::borrow::Cow;
use std::collections::BTreeMap;

use estimate::Bounds;
use facts::host::{BandwidthPoint, Calibration, MemoryReading, ReadingMoment, ReadingPoint};
use facts::{Metric, Run};

/// Half of the interval of a factor that no reading narrows, as a logarithm: on an AMD Zen 5 virtual machine, 45 pairs of moments
/// within a minute and one of two days, the ratios of kernels with ordinary stores were within 3 to 5 % (root mean square) of the
/// mean of `load` and `triad-nt`.
const UNLIKE: f64 = 0.08;
/// A run has two readings, each of two kernels with two numbers of threads; more are not believed.
const MOST_READINGS: usize = 2;
const MOST_POINTS: usize = 16;
/// No memory is slower, or faster, GB/s; and none changes by more than this factor.
const PLAUSIBLE: std::ops::Range<f64> = 0.01..1e5;
const MOST_CHANGE: f64 = 20.0;
/// From such a factor on it matters how alike all kernels change: all should be measured again.
const FAR: f64 = 1.25;

/// What the machine could do at the time of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct MachineThen<'a> {
    calibration: Cow<'a, Calibration>,
    /// By number of threads, ascending; empty without a reading.
    factors: Vec<(u32, Bounds)>,
    /// What to know of it, if there was a reading.
    pub note: Option<String>,
}

impl<'a> MachineThen<'a> {
    /// Of this run; `None` where the machine was never measured.
    #[must_use]
    pub fn of(run: &'a Run) -> Option<MachineThen<'a>> {
        let stored = run.calibration.as_ref()?;
        let factors = factors(stored, &run.memory_readings);
        let unchanged = |calibration| MachineThen { calibration, factors: Vec::new(), note: None };
        let mut then = unchanged(Cow::Borrowed(stored));
        let Some(widest) = factors.last().map(|(_, factor)| *factor) else {
            then.note = (!run.memory_readings.is_empty()).then(|| {
                "readings of the memory's speed at this run are damaged: what the machine can do is as measured before"
                    .to_owned()
            });
            return Some(then);
        };
        let when = when(&run.memory_readings);
        if factors.iter().all(|(_, factor)| *factor == Bounds::exactly(1.0)) {
            then.note =
                Some(format!("the memory was as fast {when} as when this machine was measured"));
            return Some(then);
        }
        let far =
            [widest, factors[0].1].iter().any(|factor| !(1.0 / FAR..FAR).contains(&factor.best));
        let what = factors.iter().map(|(threads, factor)| {
            let plural = if *threads == 1 { "" } else { "s" };
            format!("{} with {threads} thread{plural}", change(*factor))
        });
        let what = what.collect::<Vec<_>>().join(", ");
        let refresh = match far {
            true => "; `fathom machine --refresh` measures all of it again",
            false => "",
        };
        then.factors = factors;
        then.note = Some(format!(
            "{when}, the memory was {what}, compared with when this machine was measured: bandwidths are as of this run{refresh}"
        ));
        then.calibration = Cow::Owned(then.scaled(stored));
        Some(then)
    }

    /// The figures of the machine, with the memory's bandwidth as of the run.
    #[must_use]
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// How many times as fast as stored the memory was for so many threads; exactly 1 where that is as stored, or unknown.
    #[must_use]
    pub fn factor(&self, threads: f64) -> Bounds {
        let one = Bounds::exactly(1.0);
        let above = self.factors.partition_point(|(count, _)| f64::from(*count) < threads);
        let Some((count, next)) = self.factors.get(above) else {
            return self.factors.last().map_or(one, |(_, last)| *last);
        };
        let Some((fewer, last)) = above.checked_sub(1).and_then(|at| self.factors.get(at)) else {
            return *next;
        };
        let (low, high) = (f64::from(*fewer).ln(), f64::from(*count).ln());
        let part = (threads.ln() - low) / (high - low);
        let between = |a: f64, b: f64| (a.ln() + (b.ln() - a.ln()) * part).exp();
        Bounds {
            best: between(last.best, next.best),
            low: between(last.low, next.low),
            high: between(last.high, next.high),
        }
    }

    fn scaled(&self, stored: &Calibration) -> Calibration {
        let mut now = stored.clone();
        for point in &mut now.bandwidth {
            let factor = self.factor(f64::from(point.threads));
            point.program = scaled(&point.program, factor);
            point.bus = scaled(&point.bus, factor);
        }
        let all = stored.bandwidth.iter().map(|point| point.threads).max().unwrap_or(1);
        let peak = now.dram_bandwidth_peak.as_ref();
        now.dram_bandwidth_peak = peak.map(|peak| scaled(peak, self.factor(f64::from(all))));
        now
    }
}

/// Either the figure's own interval or that of the factor, whichever is wider at each end.
fn scaled(metric: &Metric, factor: Bounds) -> Metric {
    let Some(value) = metric.value.filter(|_| factor != Bounds::exactly(1.0)) else {
        return metric.clone();
    };
    let (low, high) = (metric.low.unwrap_or(value), metric.high.unwrap_or(value));
    let own = metric.note.as_ref().map_or(String::new(), |note| format!("{note}; "));
    Metric {
        value: Some(value * factor.best),
        low: Some((value * factor.low).min(low * factor.best)),
        high: Some((value * factor.high).max(high * factor.best)),
        note: Some(format!(
            "{own}then {value:.1} GB/s, by a reading {} at this run",
            change(factor)
        )),
        ..metric.clone()
    }
}

fn change(factor: Bounds) -> String {
    match (factor.best - 1.0) * 100.0 {
        _ if factor == Bounds::exactly(1.0) => "as fast".to_owned(),
        percent if percent < 0.0 => format!("{:.0} % slower", -percent),
        percent => format!("{percent:.0} % faster"),
    }
}

fn when(readings: &[MemoryReading]) -> &'static str {
    let has = |moment| readings.iter().any(|reading| reading.moment == moment);
    match (has(ReadingMoment::Before), has(ReadingMoment::After)) {
        (true, true) => "before and after this run",
        (true, false) => "before this run",
        _ => "after this run",
    }
}

/// One kernel in one reading: the logarithm of its ratio, and half of its interval.
type Ratio = (f64, f64);

/// By number of threads; none where something cannot be.
fn factors(stored: &Calibration, readings: &[MemoryReading]) -> Vec<(u32, Bounds)> {
    if readings.len() > MOST_READINGS {
        return Vec::new();
    }
    // By number of threads, then by reading.
    let mut ratios: BTreeMap<u32, BTreeMap<usize, Vec<Ratio>>> = BTreeMap::new();
    for (number, reading) in readings.iter().enumerate() {
        if reading.points.len() > MOST_POINTS {
            return Vec::new();
        }
        for point in &reading.points {
            // Without undisturbed passes a point has no value.
            if point.bus.value.is_none() {
                continue;
            }
            let same = |one: &&BandwidthPoint| {
                one.kernel == point.kernel && one.threads == point.threads && one.threads > 0
            };
            let Some(ratio) = stored.bandwidth.iter().find(same).and_then(|one| ratio(point, one))
            else {
                return Vec::new();
            };
            ratios.entry(point.threads).or_default().entry(number).or_default().push(ratio);
        }
    }
    ratios.into_iter().map(|(threads, readings)| (threads, factor(&readings))).collect()
}

fn ratio(now: &ReadingPoint, then: &BandwidthPoint) -> Option<Ratio> {
    let plausible = |metric: &Metric| {
        let value = metric.value.filter(|value| PLAUSIBLE.contains(value))?;
        let ends = (metric.low.unwrap_or(value), metric.high.unwrap_or(value));
        let ordered = PLAUSIBLE.contains(&ends.0) && ends.0 <= value && value <= ends.1;
        let half = (ends.1 / ends.0).ln() / 2.0;
        (ordered && half.is_finite()).then_some((value, half))
    };
    let ((now, half), (then, other)) = (plausible(&now.bus)?, plausible(&then.bus)?);
    let change = (now / then).ln();
    (change.abs() <= MOST_CHANGE.ln()).then(|| (change, half.hypot(other)))
}

fn factor(readings: &BTreeMap<usize, Vec<Ratio>>) -> Bounds {
    let count = |of: &Vec<Ratio>| of.len().max(1) as f64;
    let mean = |of: &Vec<Ratio>| of.iter().map(|(change, _)| change).sum::<f64>() / count(of);
    let spread =
        |of: &Vec<Ratio>| of.iter().map(|(_, half)| half * half).sum::<f64>().sqrt() / count(of);
    let means = readings.values().map(mean);
    let best = means.clone().sum::<f64>() / readings.len().max(1) as f64;
    let (low, high) = means.fold((best, best), |(low, high), one| (low.min(one), high.max(one)));
    let half = readings.values().map(spread).fold(0.0, f64::max).hypot(UNLIKE);
    if low >= -half && high <= half {
        return Bounds::exactly(1.0);
    }
    Bounds { best: best.exp(), low: (low - half).exp(), high: (high + half).exp() }
}

#[cfg(test)]
mod tests {
    use facts::Evidence;

    use super::*;

    fn rate(value: f64, percent: f64) -> Metric {
        let half = value * percent / 100.0;
        let interval = (value - half, value + half);
        Metric::with_interval(Evidence::Calibrated, value, "GB/s", interval, 5)
    }

    /// One thread and two: loads at 30 and 34 GB/s, the mixture at 40 and 45.
    const STORED: [(&str, u32, f64); 5] = [
        ("load", 1, 30.0),
        ("load", 2, 34.0),
        ("triad-nt", 1, 40.0),
        ("triad-nt", 2, 45.0),
        ("triad", 4, 50.0),
    ];

    fn run(readings: Vec<MemoryReading>) -> Run {
        let point = |(kernel, threads, bus): (&str, u32, f64)| BandwidthPoint {
            kernel: kernel.to_owned(),
            threads,
            program: rate(bus, 1.0),
            bus: rate(bus, 1.0),
        };
        let calibration = Calibration {
            bandwidth: STORED.map(point).to_vec(),
            dram_bandwidth_peak: Some(rate(60.0, 1.0)),
            ..Calibration::default()
        };
        let (calibration, memory_readings) = (Some(calibration), readings);
        Run { calibration, memory_readings, ..Run::default() }
    }

    /// With one thread and with two, so many times the stored points.
    fn reading(moment: ReadingMoment, one: f64, two: f64) -> MemoryReading {
        let points = STORED[..4].iter().map(|(kernel, threads, stored)| ReadingPoint {
            kernel: (*kernel).to_owned(),
            threads: *threads,
            bus: rate(stored * if *threads == 1 { one } else { two }, 2.0),
            passes: Vec::new(),
        });
        let points = points.collect();
        MemoryReading { moment, measured_unix: 1, took_seconds: 0.06, bytes: 1 << 28, points }
    }

    fn factor(readings: Vec<MemoryReading>, threads: f64) -> [f64; 3] {
        let run = run(readings);
        let Bounds { best, low, high } = MachineThen::of(&run).expect("measured").factor(threads);
        [low, best, high].map(|end| (end * 1000.0).round() / 1000.0)
    }

    const AFTER: ReadingMoment = ReadingMoment::After;
    const BEFORE: ReadingMoment = ReadingMoment::Before;

    #[test]
    fn stored_points_follow_the_reading_of_their_number_of_threads() {
        let run = run(vec![reading(AFTER, 1.2, 1.5)]);
        let then = MachineThen::of(&run).expect("measured");
        let value = |at: usize| then.calibration().bandwidth[at].bus.value.unwrap_or(0.0);
        // What more threads than were read reach follows the most that were.
        let values = [0, 1, 2, 3, 4].map(|at| (value(at) * 10.0).round() / 10.0);
        assert_eq!(values, [36.0, 51.0, 48.0, 67.5, 75.0]);
        let peak = then.calibration().dram_bandwidth_peak.as_ref().expect("one");
        assert_eq!(peak.value.map(f64::round), Some(90.0));
        assert_eq!(
            then.note.as_deref(),
            Some(
                "after this run, the memory was 20 % faster with 1 thread, 50 % faster with 2 threads, compared with when this \
                 machine was measured: bandwidths are as of this run; `fathom machine --refresh` measures all of it again"
            )
        );
        // Half of it: 8 % of unlike kernels, with the scatter of 1 % and 2 % of two kernels.
        assert_eq!(factor(vec![reading(AFTER, 1.2, 1.5)], 1.0), [1.106, 1.2, 1.302]);
        let between = factor(vec![reading(AFTER, 1.2, 1.5)], 2_f64.sqrt());
        assert_eq!(between[1], (1.2_f64 * 1.5).sqrt().mul_add(1000.0, 0.0).round() / 1000.0);
    }

    #[test]
    fn a_reading_within_its_spread_changes_nothing() {
        for change in [0.93, 1.0, 1.07] {
            let run = run(vec![reading(BEFORE, change, change), reading(AFTER, change, change)]);
            let then = MachineThen::of(&run).expect("measured");
            assert_eq!(Some(then.calibration()), run.calibration.as_ref());
            let as_fast = "the memory was as fast before and after this run as when this machine was measured";
            assert_eq!(then.note.as_deref(), Some(as_fast));
        }
        assert!(factor(vec![reading(AFTER, 0.8, 0.8)], 1.0)[2] < 1.0);
    }

    #[test]
    fn a_change_within_the_run_widens_the_interval() {
        let found = factor(vec![reading(BEFORE, 0.8, 0.8), reading(AFTER, 1.25, 1.25)], 1.0);
        assert_eq!(found[1], 1.0);
        assert!(found[0] < 0.8 && found[2] > 1.25, "{found:?}");
    }

    #[test]
    fn without_a_reading_the_stored_figures_count() {
        let mut run = run(Vec::new());
        let then = MachineThen::of(&run).expect("measured");
        assert_eq!(then.calibration(), run.calibration.as_ref().expect("one"));
        assert_eq!((then.note.as_deref(), then.factor(2.0)), (None, Bounds::exactly(1.0)));
        run.calibration = None;
        run.memory_readings = vec![reading(AFTER, 1.2, 1.5)];
        assert_eq!(MachineThen::of(&run), None);
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let hostile = |change: &dyn Fn(&mut MemoryReading)| {
            let mut bad = reading(AFTER, 1.2, 1.5);
            change(&mut bad);
            let run = run(vec![bad]);
            let then = MachineThen::of(&run).expect("measured");
            assert_eq!(Some(then.calibration()), run.calibration.as_ref());
            assert!(then.note.as_ref().is_some_and(|note| note.contains("damaged")), "{then:?}");
        };
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300, 1e4] {
            hostile(&|bad| bad.points[1].bus = rate(value, 1.0));
        }
        hostile(&|bad| bad.points[1].bus.low = Some(1e3));
        hostile(&|bad| bad.points[1].bus.high = Some(f64::NAN));
        hostile(&|bad| bad.points[1].bus.low = Some(0.0));
        hostile(&|bad| bad.points[1].threads = 0);
        hostile(&|bad| bad.points[1].threads = u32::MAX);
        hostile(&|bad| bad.points[0].kernel = "no such".to_owned());
        hostile(&|bad| bad.points = vec![bad.points[0].clone(); 17]);
        hostile(&|bad| bad.points.clear());
        let many = vec![reading(AFTER, 1.2, 1.5); 1000];
        assert_eq!(factor(many, 1.0), [1.0; 3]);
    }
}
