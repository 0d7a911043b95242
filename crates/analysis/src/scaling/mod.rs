//! How a program's time depends on its number of threads: laws fitted to measured times, the number from which more threads do
//! not help, and the gain of one more.
//!
//! What for: the figures of `fathom scale`. What not: no program is run here, no text.
//!
//! Intervals are those of a bootstrap of residuals (Davison and Hinkley, "Bootstrap Methods and their Application", Cambridge
//! 1997, section 6.2.4): relative deviations of all runs from the median of their thread count, pooled over thread counts, since
//! each has few runs. Assumption: runs vary by a similar share at every thread count. With one run per thread count there are
//! no intervals.
//!
//! The random numbers have a fixed seed: the same times give the same figures.

mod laws;

pub use laws::{Fit, Law};

use estimate::interval::median;

/// A figure with its 95 % interval, where runs were repeated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Its interval.
    pub interval: Option<(f64, f64)>,
}

/// Runs with one number of threads.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// How many threads, 1 or more.
    pub threads: u32,
    /// Seconds of each run, more than 0.
    pub seconds: Vec<f64>,
}

/// One row of the table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// How many threads.
    pub threads: u32,
    /// Median of its runs.
    pub seconds: Estimate,
    /// Against the smallest number of threads.
    pub speedup: Estimate,
    /// Share of the ideal speed-up, 1 when threads are used fully.
    pub efficiency: Estimate,
}

/// Where more threads stop to help.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Saturation {
    /// The number of threads that reaches the limit of the machine or of the program.
    pub threads: Estimate,
    /// By the law of a roof, which may lie between two measured numbers; or the smallest measured number with [`NEARLY_ALL`] of
    /// the largest speed-up.
    pub from_law: bool,
}

/// Gain of one thread more than the largest measured number, by the best law.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NextThread {
    /// That number of threads.
    pub threads: u32,
    /// Predicted seconds.
    pub seconds: Estimate,
    /// Relative gain over one thread less; negative when slower.
    pub gain: Estimate,
}

/// All results of the measured times.
#[derive(Clone, PartialEq, Debug)]
pub struct Scaling {
    /// By rising number of threads.
    pub rows: Vec<Row>,
    /// The laws that could be fitted, best first.
    pub fits: Vec<Fit>,
    /// Where more threads stop to help; `None` when the most threads that were measured still do.
    pub saturation: Option<Saturation>,
    /// By the best law.
    pub next: Option<NextThread>,
    /// Standard deviation between runs as a share of their time; `None` without repeats.
    pub spread: Option<f64>,
}

/// A figure whose interval begins below this share of the largest may be anything.
const TELLING: f64 = 0.5;
/// This share of the largest speed-up counts as all of it.
pub const NEARLY_ALL: f64 = 0.95;
const REPLICATES: usize = 1000;

/// Works out everything; `None` without a point that has a time.
#[must_use]
pub fn scaling(points: &[Point]) -> Option<Scaling> {
    let measured = Measured::of(points)?;
    let medians = measured.medians();
    // Medians that other runs of the same program might have given.
    let mut replicates: Vec<Vec<f64>> = Vec::new();
    if let Some(residuals) = measured.residuals() {
        let mut chance = Chance(0x5eed);
        for _ in 0..REPLICATES {
            replicates.push(measured.resampled(&medians, &residuals, &mut chance));
        }
    }
    let base = (f64::from(measured.threads[0]), medians[0]);
    let rows = (0..medians.len()).map(|at| {
        let ideal = f64::from(measured.threads[at]) / base.0;
        let times = || replicates.iter().map(move |times| times[at]);
        let ratios = || replicates.iter().map(move |times| times[0] / times[at]);
        Row {
            threads: measured.threads[at],
            seconds: estimate(medians[at], times().collect()),
            speedup: estimate(base.1 / medians[at], ratios().collect()),
            efficiency: estimate(
                base.1 / medians[at] / ideal,
                ratios().map(|ratio| ratio / ideal).collect(),
            ),
        }
    });
    let fits = laws::fits(&measured.threads, &medians, &replicates);
    Some(Scaling {
        rows: rows.collect(),
        saturation: saturation(&measured.threads, &medians, &fits, &replicates),
        next: next(&measured.threads, &medians, &fits, &replicates),
        spread: measured.residuals().map(|residuals| {
            let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
            (squares / residuals.len() as f64).sqrt()
        }),
        fits,
    })
}

/// How much more speed the second hardware threads of cores bring.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HardwareThreads {
    /// The most measured threads that have a core each.
    pub cores: u32,
    /// The most measured threads that have a CPU each.
    pub cpus: u32,
    /// Relative gain of the second against the first; negative when slower.
    pub gain: Estimate,
}

/// What threads beyond one a core gain; `None` where cores have one hardware thread each, or no number on one side was measured.
#[must_use]
pub fn hardware_threads(points: &[Point], cores: u32, cpus: u32) -> Option<HardwareThreads> {
    let most = |from: u32, to: u32| {
        points.iter().filter(|point| (from..=to).contains(&point.threads)).max_by_key(|p| p.threads)
    };
    let (without, with) = (most(1, cores)?, most(cores + 1, cpus)?);
    let rows = against(std::slice::from_ref(without), std::slice::from_ref(with))?;
    let less_one = |estimate: Estimate| Estimate {
        value: estimate.value - 1.0,
        interval: estimate.interval.map(|(low, high)| (low - 1.0, high - 1.0)),
    };
    let gain = less_one(rows.first()?.speedup);
    Some(HardwareThreads { cores: without.threads, cpus: with.threads, gain })
}

/// The times of one sweep with speed-ups against the smallest number of threads of another; `None` where one has no time.
#[must_use]
pub fn against(base: &[Point], points: &[Point]) -> Option<Vec<Row>> {
    let (base, measured) = (Measured::of(base)?, Measured::of(points)?);
    let (base_medians, medians) = (base.medians(), measured.medians());
    let residuals = base.residuals().zip(measured.residuals());
    let mut drawn: Vec<(f64, Vec<f64>)> = Vec::new();
    if let Some((of_base, of_points)) = residuals {
        let mut chance = Chance(0x5eed);
        for _ in 0..REPLICATES {
            let first = base.resampled(&base_medians, &of_base, &mut chance)[0];
            drawn.push((first, measured.resampled(&medians, &of_points, &mut chance)));
        }
    }
    let rows = (0..medians.len()).map(|at| {
        let ideal = f64::from(measured.threads[at]) / f64::from(base.threads[0]);
        let ratios = || drawn.iter().map(move |(first, times)| first / times[at]);
        Row {
            threads: measured.threads[at],
            seconds: estimate(medians[at], drawn.iter().map(|(_, times)| times[at]).collect()),
            speedup: estimate(base_medians[0] / medians[at], ratios().collect()),
            efficiency: estimate(
                base_medians[0] / medians[at] / ideal,
                ratios().map(|ratio| ratio / ideal).collect(),
            ),
        }
    });
    Some(rows.collect())
}

/// The least number of threads whose figure is nearly all of the largest: by value, or because its interval reaches the
/// largest and is not so wide that it says nothing ([`TELLING`]). `None` for fewer than two figures, or when only the
/// most threads have it: then it is not known to be all.
#[must_use]
pub fn saturation_of(figures: &[(u32, Estimate)]) -> Option<u32> {
    let largest = figures.iter().map(|(_, figure)| figure.value).fold(0.0, f64::max);
    let reaches = |figure: &Estimate| {
        figure.value >= NEARLY_ALL * largest
            || figure
                .interval
                .is_some_and(|(low, high)| low >= TELLING * largest && high >= largest)
    };
    let first = figures.iter().position(|(_, figure)| reaches(figure))?;
    (first + 1 < figures.len()).then(|| figures[first].0)
}

fn saturation(
    threads: &[u32],
    medians: &[f64],
    fits: &[Fit],
    replicates: &[Vec<f64>],
) -> Option<Saturation> {
    if let Some(roof) = fits.first().filter(|fit| fit.law == Law::Roof) {
        let most = f64::from(*threads.last()?);
        let found = roof.saturation?;
        return (found.value < most).then_some(Saturation { threads: found, from_law: true });
    }
    let least = |times: &[f64]| -> Option<usize> {
        let fastest = times.iter().copied().fold(f64::INFINITY, f64::min);
        times.iter().position(|time| fastest / time >= NEARLY_ALL)
    };
    let first = least(medians)?;
    if first + 1 == threads.len() {
        return None;
    }
    let drawn = replicates.iter().filter_map(|times| least(times));
    let drawn = drawn.map(|at| f64::from(threads[at])).collect();
    Some(Saturation { threads: estimate(f64::from(threads[first]), drawn), from_law: false })
}

fn next(
    threads: &[u32],
    medians: &[f64],
    fits: &[Fit],
    replicates: &[Vec<f64>],
) -> Option<NextThread> {
    let best = fits.first()?;
    let next = threads.last()?.checked_add(1)?;
    let law = best.law;
    // The law says how the time goes on from the last measured one; its error there is not carried along.
    let of = |coefficients: [f64; 3], last: f64| {
        let (after, before) =
            (law.seconds(coefficients, next), law.seconds(coefficients, next - 1));
        (last * after / before, before / after - 1.0)
    };
    let last = medians.len() - 1;
    let (seconds, gain) = of(best.coefficients, medians[last]);
    let drawn: Vec<(f64, f64)> = replicates
        .iter()
        .filter_map(|times| Some(of(laws::fit(law, threads, times)?.0, times[last])))
        .collect();
    Some(NextThread {
        threads: next,
        seconds: estimate(seconds, drawn.iter().map(|(seconds, _)| *seconds).collect()),
        gain: estimate(gain, drawn.iter().map(|(_, gain)| *gain).collect()),
    })
}

struct Measured {
    threads: Vec<u32>,
    seconds: Vec<Vec<f64>>,
}

impl Measured {
    /// Times by rising number of threads; those that are none are left out.
    fn of(points: &[Point]) -> Option<Measured> {
        let mut sorted: std::collections::BTreeMap<u32, Vec<f64>> = Default::default();
        for point in points.iter().filter(|point| point.threads > 0) {
            let times =
                point.seconds.iter().copied().filter(|time| time.is_finite() && *time > 0.0);
            sorted.entry(point.threads).or_default().extend(times);
        }
        sorted.retain(|_, times| !times.is_empty());
        sorted.values_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let (threads, seconds): (Vec<u32>, Vec<Vec<f64>>) = sorted.into_iter().unzip();
        (!threads.is_empty()).then_some(Measured { threads, seconds })
    }

    fn medians(&self) -> Vec<f64> {
        self.seconds.iter().filter_map(|times| median(times)).collect()
    }

    /// Relative deviations of repeated runs from their median, widened by what estimating that took from them.
    fn residuals(&self) -> Option<Vec<f64>> {
        let of = |times: &Vec<f64>| -> Vec<f64> {
            let (Some(middle), n) = (median(times), times.len() as f64) else { return Vec::new() };
            if times.len() < 2 {
                return Vec::new();
            }
            times.iter().map(|time| (time / middle - 1.0) * (n / (n - 1.0)).sqrt()).collect()
        };
        let residuals: Vec<f64> = self.seconds.iter().flat_map(of).collect();
        (!residuals.is_empty()).then_some(residuals)
    }

    fn resampled(&self, medians: &[f64], residuals: &[f64], chance: &mut Chance) -> Vec<f64> {
        let one = |(times, middle): (&Vec<f64>, &f64)| {
            let draw = |_| (1.0 + residuals[chance.below(residuals.len())]).max(1e-3);
            let mut drawn: Vec<f64> = (0..times.len()).map(draw).collect();
            drawn.sort_by(f64::total_cmp);
            middle * median(&drawn).unwrap_or(1.0)
        };
        self.seconds.iter().zip(medians).map(one).collect()
    }
}

/// A figure with the middle 95 % of what replicates gave.
pub(crate) fn estimate(value: f64, mut drawn: Vec<f64>) -> Estimate {
    drawn.retain(|value| value.is_finite());
    drawn.sort_by(f64::total_cmp);
    let last = drawn.len().saturating_sub(1) as f64;
    let at = |share: f64| drawn[(last * share).round() as usize];
    // Replicates of a skewed figure may all be on one side of it: the interval includes the figure in any case.
    let interval = (drawn.len() > 1).then(|| (at(0.025).min(value), at(0.975).max(value)));
    Estimate { value, interval }
}

/// Splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

#[cfg(test)]
mod tests;
