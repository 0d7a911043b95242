//! DRAM bandwidth: totals, over time, and how long each rate lasted.
//!
//! What for: the figures that a counter of the memory controller would give for one program, from bursts: bytes that miss all
//! caches per second of native time, times the CPU time of the code. What not: traffic of the kernel, of other programs, of
//! instruction fetch and of page walks.
//!
//! Over time, bursts near a moment decide how the total of the run is divided; the bins add up to it.
//!
//! Definitions: the *observed maximum* is the largest mean over three bins in a row, so that the scatter of one bin sets no
//! record. *Bound time* is the share of elapsed time in bins whose rate is at least [`Bands::high`] of what as many threads
//! reach.

use base::Nanos;
use estimate::Estimate;
use facts::host::Calibration;
use facts::{Evidence, Metric, Sample};

use super::bins::Bins;
use super::quantity::Quantity;
use super::strata::Strata;
use crate::profile::{PAUSED, Profile};
use crate::selection::Selection;

/// Why a filter on regions has no rate in a bin.
const OUTSIDE: &str = "no thread was in the region";
/// Bytes per GB.
const GIGA: f64 = 1e9;
/// Length of a bin, unless there were more than [`MOST_BINS`].
const BIN: Nanos = Nanos(100_000_000);
/// Longer recordings have longer bins, so that work and output stay bounded.
const MOST_BINS: u64 = 10_000;
/// GB/s that one thread moves at most, where that was not measured.
pub(super) const MOST_OF_ONE_THREAD: f64 = 40.0;
/// Bins in a row whose mean can be the observed maximum.
const STEADY: usize = 3;

/// The shares of the bandwidth that the program's threads can reach from which a rate is called medium and high.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bands {
    /// Medium from here on, 0..1.
    pub medium: f64,
    /// High from here on, 0..1.
    pub high: f64,
}

impl Default for Bands {
    /// 30 % and 70 % of it.
    fn default() -> Bands {
        Bands { medium: 0.3, high: 0.7 }
    }
}

/// One bin of time.
#[derive(Clone, PartialEq, Debug)]
pub struct BandwidthBin {
    /// From.
    pub start: Nanos,
    /// To.
    pub end: Nanos,
    /// GB/s read from memory.
    pub read: Metric,
    /// GB/s written to memory.
    pub write: Metric,
    /// How much of it was observed.
    pub observed: Nanos,
    /// Both directions, GB/s.
    pub total: Metric,
    /// Bandwidth that as many threads as ran can reach when this part of it is written, GB/s.
    pub reachable: Metric,
}

impl BandwidthBin {
    /// Share of the moved bytes that is written; `None` where nothing moves.
    pub(super) fn written(&self) -> Option<f64> {
        let (read, written) = (self.read.value?, self.write.value?);
        (read + written > 0.0).then(|| written / (read + written))
    }
}

/// Threads that ran at a time in each of these bins: CPU time of the selected samples over the length.
pub(super) fn running_in(
    profile: &Profile<'_>,
    selection: &Selection,
    bins: &[BandwidthBin],
) -> Vec<f64> {
    let mut sums = vec![0.0; bins.len()];
    for sample in &profile.recording.samples {
        if !is_selected(profile, selection, sample) {
            continue;
        }
        // The clock is read last: what comes after the end is of the last bin.
        let at = bins.partition_point(|bin| bin.end <= sample.time).min(bins.len().max(1) - 1);
        if let Some(sum) = sums.get_mut(at) {
            *sum += sample.weight.seconds();
        }
    }
    let length = |bin: &BandwidthBin| bin.observed.seconds().max(1e-9);
    bins.iter().zip(sums).map(|(bin, sum)| sum / length(bin)).collect()
}

/// A step of the histogram.
#[derive(Clone, PartialEq, Debug)]
pub struct BandwidthStep {
    /// From, GB/s.
    pub from: f64,
    /// To, GB/s.
    pub to: f64,
    /// Time at such rates, seconds.
    pub time: Metric,
}

/// Everything about bandwidth.
#[derive(Clone, PartialEq, Debug)]
pub struct Bandwidth {
    /// Both directions, GB/s, over elapsed time.
    pub average: Metric,
    /// Read, GB/s.
    pub read: Metric,
    /// Written, GB/s.
    pub write: Metric,
    /// The largest steady rate, GB/s.
    pub observed_max: Metric,
    /// Elapsed time in the high band, percent.
    pub bound_time: Metric,
    /// Over time.
    pub bins: Vec<BandwidthBin>,
    /// How long at which rate.
    pub histogram: Vec<BandwidthStep>,
    /// The bounds of medium and high, GB/s, when the machine was measured.
    pub bands: Option<(f64, f64)>,
}

/// Computes it from what each burst read and wrote. `strata` are of what the selection has of time and threads; `reach` is
/// what as many threads can move when this part of it is written.
pub(crate) fn bandwidth(
    profile: &Profile<'_>,
    (strata, selection): (&Strata, &Selection),
    (read, write): (&Quantity, &Quantity),
    (reach, shares): (Option<f64>, Bands),
) -> Bandwidth {
    let elapsed = selection.observed(profile).seconds().max(1e-9);
    let most = most_of_one_thread(profile);
    let rate = |quantity: &Quantity| {
        strata.opened(quantity, (elapsed * GIGA, "GB/s"), Evidence::Estimated, most)
    };
    let bands = reach.map(|reach| (reach * shares.medium, reach * shares.high));
    let bins = over_time(profile, (strata, selection), read, write);
    let seen: Vec<&BandwidthBin> = bins.iter().filter(|bin| bin.observed > Nanos(0)).collect();
    let rates: Vec<Metric> = seen.iter().map(|bin| bin.total.clone()).collect();
    let average = rate(&read.plus(write));
    // One direction is not more than both, also where none was seen.
    let part = |quantity: &Quantity| {
        let part = rate(quantity);
        let high = part.high.zip(average.high).map(|(part, both)| part.min(both));
        Metric { high, ..part }
    };
    let observed_max = observed_max(&rates, &average);
    Bandwidth {
        read: part(read),
        write: part(write),
        average,
        observed_max,
        bound_time: bound_time(&seen, &rates, elapsed, bands),
        histogram: histogram(&seen, &rates, reach),
        bins,
        bands,
    }
}

/// From when to when.
fn selected_time(profile: &Profile<'_>, selection: &Selection) -> (Nanos, Nanos) {
    let elapsed = profile.elapsed();
    let (from, to) = selection.time().unwrap_or((Nanos(0), elapsed));
    (from.min(elapsed), to.min(elapsed))
}

/// Whether a sample is of the selected threads and time.
fn is_selected(profile: &Profile<'_>, selection: &Selection, sample: &Sample) -> bool {
    let has = || {
        let thread = profile.threads.find(sample.pid, sample.tid);
        thread.is_some_and(|thread| selection.has(thread, sample.time))
    };
    selection.has_time(sample.time) && (!selection.chooses_threads() || has())
}

/// Rates per bin. Of those at the ends of the selected time the part in it.
fn over_time(
    profile: &Profile<'_>,
    (strata, selection): (&Strata, &Selection),
    read: &Quantity,
    write: &Quantity,
) -> Vec<BandwidthBin> {
    let length = profile.elapsed();
    let bins = Bins { width: BIN.max(Nanos(length.0.div_ceil(MOST_BINS))), length };
    let chosen = |sample: &Sample| is_selected(profile, selection, sample);
    let (from, to) = selected_time(profile, selection);
    let mut totals = Vec::with_capacity(bins.count());
    let mean = strata.mean_second();
    let means = [read, write].map(|quantity| mean.total(quantity));
    strata.over_time(profile, &bins, chosen, |expansion, unseen| {
        totals.push(
            [(read, &means[0]), (write, &means[1])]
                .map(|(quantity, mean)| expansion.total(quantity) + &(mean.clone() * unseen)),
        );
    });
    // A few bursts near in time speak for a bin, all of them for the run: what the bins add up to differs by chance from the
    // total, which is known better. So they share it out.
    let factors = [(0, read), (1, write)].map(|(at, quantity)| {
        let sum: f64 = totals.iter().map(|totals: &[Estimate; 2]| totals[at].point()).sum();
        let total = strata.expansion().total(quantity).point();
        if sum > 0.0 && total > 0.0 { total / sum } else { 1.0 }
    });
    let bin = |(index, [read, write]): (usize, [Estimate; 2])| {
        let (start, end) = (bins.start(index).max(from), bins.end(index).min(to));
        let observed = selection.observed_in(profile, start, end);
        // What the machine reaches, `Memory` knows.
        let reachable = Metric::unavailable("GB/s", "this machine's bandwidth was not measured");
        if observed == Nanos(0) && end > start {
            let paused = profile.observed_in(start, end) == Nanos(0);
            let none = Metric::unavailable("GB/s", if paused { PAUSED } else { OUTSIDE });
            let [read, write, total] = [none.clone(), none.clone(), none];
            return BandwidthBin { start, end, read, write, observed, total, reachable };
        }
        let per = observed.seconds().max(1e-9) * GIGA;
        let (read, write) = (read * (factors[0] / per), write * (factors[1] / per));
        let shown = |rate: Estimate| strata.expansion().shown(rate, "GB/s", Evidence::Estimated);
        let total = shown(read.clone() + &write);
        BandwidthBin {
            start,
            end,
            read: shown(read),
            write: shown(write),
            observed,
            total,
            reachable,
        }
    };
    let is_in =
        |(index, _): &(usize, [Estimate; 2])| bins.start(*index) < to && from < bins.end(*index);
    totals.into_iter().enumerate().filter(is_in).map(bin).collect()
}

/// What one thread moves at most, bytes per second.
pub(super) fn most_of_one_thread(profile: &Profile<'_>) -> f64 {
    let calibration = profile.calibration();
    calibration.and_then(one_thread).unwrap_or(MOST_OF_ONE_THREAD) * GIGA
}

/// Bandwidth of one thread with ordinary loads and stores, GB/s, at most.
fn one_thread(calibration: &Calibration) -> Option<f64> {
    let points = calibration.bandwidth.iter().filter(|point| point.threads == 1);
    points.filter_map(|point| point.bus.value).reduce(f64::max)
}

/// The largest of means is no less than the mean of all, which is known from more than its bins.
fn observed_max(rates: &[Metric], average: &Metric) -> Metric {
    let mean = |window: &[Metric]| {
        let mean = |part: fn(&Metric) -> Option<f64>| {
            window.iter().filter_map(part).sum::<f64>() / window.len() as f64
        };
        (mean(|one| one.value), mean(|one| one.low), mean(|one| one.high))
    };
    // The largest is at least the largest lower bound of any, and at most the largest upper one.
    let windows = rates.windows(STEADY.min(rates.len()).max(1)).map(mean);
    let best =
        windows.reduce(|best, next| (best.0.max(next.0), best.1.max(next.1), best.2.max(next.2)));
    let Some((value, low, high)) = best else {
        return Metric::unavailable("GB/s", "the recording has no length");
    };
    let samples = rates.first().map_or(0, |rate| rate.samples);
    let least = |largest: f64, mean: Option<f64>| largest.max(mean.unwrap_or(largest));
    let (value, ends) =
        (least(value, average.value), (least(low, average.low), least(high, average.high)));
    Metric::with_interval(Evidence::Estimated, value, "GB/s", ends, samples)
}

fn bound_time(
    bins: &[&BandwidthBin],
    rates: &[Metric],
    elapsed: f64,
    bands: Option<(f64, f64)>,
) -> Metric {
    let Some((_, high)) = bands else {
        return Metric::unavailable(
            "percent",
            "what this machine reaches is not known: run `fathom machine`",
        );
    };
    let share = |part: fn(&Metric) -> Option<f64>| {
        let in_band =
            bins.iter().zip(rates).filter(|(_, rate)| part(rate).is_some_and(|rate| rate >= high));
        in_band.map(|(bin, _)| bin.observed.seconds()).sum::<f64>() / elapsed * 100.0
    };
    let samples = rates.first().map_or(0, |rate| rate.samples);
    let interval = (share(|rate| rate.low), share(|rate| rate.high));
    Metric::with_interval(
        Evidence::Estimated,
        share(|rate| rate.value),
        "percent",
        interval,
        samples,
    )
}

/// Twenty steps up to what the threads reach, or up to the largest rate.
fn histogram(bins: &[&BandwidthBin], rates: &[Metric], reach: Option<f64>) -> Vec<BandwidthStep> {
    const STEPS: usize = 20;
    let largest = rates.iter().filter_map(|rate| rate.value).fold(0.0, f64::max);
    let top = reach.unwrap_or(0.0).max(largest);
    if top <= 0.0 {
        return Vec::new();
    }
    let width = top / STEPS as f64;
    let step = |rate: Option<f64>| Some(((rate? / width) as usize).min(STEPS - 1));
    let mut times = [(0.0, 0.0, 0.0); STEPS];
    for (bin, rate) in bins.iter().zip(rates) {
        let seconds = bin.observed.seconds();
        let (Some(best), Some(low), Some(high)) =
            (step(rate.value), step(rate.low), step(rate.high))
        else {
            continue;
        };
        times[best].0 += seconds;
        // For certain where the whole interval is in one step, perhaps in each that it reaches.
        if low == high {
            times[low].1 += seconds;
        }
        times[low..=high].iter_mut().for_each(|time| time.2 += seconds);
    }
    let samples = rates.first().map_or(0, |rate| rate.samples);
    (0..STEPS)
        .map(|at| {
            let (best, low, high) = times[at];
            let time = Metric::with_interval(Evidence::Estimated, best, "s", (low, high), samples);
            BandwidthStep { from: at as f64 * width, to: (at + 1) as f64 * width, time }
        })
        .collect()
}
