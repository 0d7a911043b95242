//! Memory bandwidth: each kernel at several numbers of threads, then the best ones once more.
//!
//! What for: the peak, and what fewer threads reach. What not: the kernels themselves (`sys::kernels`). One sample is
//! one pass of all threads over the whole working set, timed from the first start to the last end. If other programs
//! had a CPU meanwhile, the sample is a good one among all [`WINDOW`] consecutive pieces of one thread, with what the
//! others passed in that time: a whole pass would measure how long they waited. The samples of all points are taken
//! in rounds, so that slow seconds of a shared machine affect all points alike.
//!
//! The peak is the best *bus* rate of the kernels whose bus traffic is certain (`load`, `store-nt`, `copy-nt`,
//! `triad-nt`). Ordinary stores are left out: whether they cost a write-allocate read depends on the CPU and the
//! load, so their bus rate may be overstated by a third (see `sys::kernels::Kernel::bus_traffic_is_certain`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base::{Bytes, CpuId};
use facts::Metric;
use facts::host::{BandwidthPoint, CacheKind, Calibration, Host};
use sys::kernels::{Buffer, Kernel, KernelError, Pages, Simd, sweep, sweep_in_pieces};

use crate::plan::Plan;
use crate::statistics::{Repeats, best_metric, median};
use crate::{Progress, workers};

/// Smallest and largest working set.
const SMALLEST_SET: u64 = 1 << 30;
const LARGEST_SET: u64 = 4 << 30;
/// The working set is this many times all last-level caches as claimed (STREAM's rule asks for 4 per array; the
/// claim is usually an overstatement), and as measured.
const TIMES_CLAIMED: u64 = 4;
const TIMES_EFFECTIVE: f64 = 8.0;
/// Share of the time for rounds over all points; the rest goes to the candidates for the peak.
const ROUNDS_SHARE: f64 = 0.7;
/// The first round may end so much later than its share of the time.
const GRACE: Duration = Duration::from_secs(3);
/// Candidates for the peak.
const CANDIDATES: usize = 3;
/// Alternating passes over half and whole working set, to see whether the size still matters.
const SIZE_CHECKS: usize = 5;
/// More than this, and the half set profits from caches.
const SIZE_TOLERANCE: f64 = 1.05;

/// Pieces of 8 MiB per thread, 1 to 4 ms, over which the rate of a disturbed pass is taken: well beyond what the
/// first-level and second-level caches hold, and within a time slice.
const WINDOW: usize = 4;

/// What is run: the key of the samples.
type Point = (Kernel, usize, Simd);

/// Program GB/s of all passes, by point.
type Samples = BTreeMap<Point, Repeats>;

/// The working set: two buffers per CPU, first touched there.
struct Pool {
    parts: Vec<Part>,
}

struct Part {
    cpu: CpuId,
    node: usize,
    halves: [Buffer; 2],
}

/// How much of the pool a pass covers.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    Whole,
    Half,
}

/// Measures all points and the peak.
pub(crate) fn measure(
    host: &Host,
    plan: &Plan,
    deadline: Instant,
    progress: &mut Progress<'_>,
    calibration: &mut Calibration,
) {
    let wanted = working_set(host, calibration);
    let limit = if plan.hurried { SMALLEST_SET / 4 } else { wanted };
    let size = Bytes(wanted.min(limit).min(plan.memory.0));
    if size.0 < wanted {
        calibration.notes.push(format!(
            "bandwidth was measured over {size}; {} would be sure to leave the caches, but there is no time or no free memory for it",
            Bytes(wanted)
        ));
    }
    let outcome = Pool::populate(plan, size).and_then(|mut pool| {
        let samples = rounds(plan, &mut pool, deadline, progress)?;
        let check = peak_size_check(&mut pool, &samples)?;
        Ok((samples, check))
    });
    match outcome {
        Ok((samples, check)) => {
            fill(plan, size, &samples, calibration);
            calibration.notes.extend(check);
        }
        Err(error) => calibration.notes.push(format!("no bandwidth: {error}")),
    }
}

/// Bytes that are well beyond all last-level caches together, as claimed and as measured.
fn working_set(host: &Host, calibration: &Calibration) -> u64 {
    let farthest = host.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
    let last_level = farthest.clone().map(|cache| cache.level).max().unwrap_or(0);
    let last = farthest.filter(|cache| cache.level == last_level);
    let claimed: u64 =
        last.clone().map(|cache| cache.bytes.saturating_mul(u64::from(cache.instances))).sum();
    let instances: u32 = last.map(|cache| cache.instances).sum();
    let effective =
        calibration.effective_caches.last().and_then(|cache| cache.bytes.high).unwrap_or(0.0);
    let effective = effective * TIMES_EFFECTIVE * f64::from(instances.max(1));
    claimed.saturating_mul(TIMES_CLAIMED).max(effective as u64).clamp(SMALLEST_SET, LARGEST_SET)
}

impl Pool {
    /// Maps the working set and has each CPU touch its own part.
    fn populate(plan: &Plan, size: Bytes) -> Result<Pool, KernelError> {
        let half = Bytes(size.0 / plan.cpus.len() as u64 / 2);
        let mut parts = Vec::new();
        for (cpu, node) in plan.cpus.iter().zip(&plan.nodes) {
            let halves = [Buffer::map(half, Pages::Huge)?, Buffer::map(half, Pages::Huge)?];
            parts.push(Part { cpu: *cpu, node: *node, halves });
        }
        let jobs = parts.iter_mut().map(|part| (part.cpu, &mut part.halves)).collect();
        workers::together(jobs, |halves: &mut [Buffer; 2]| {
            for buffer in halves {
                buffer.touch_each_page();
                // No zeros: memory of equal zero pages may be treated specially by hypervisors.
                sweep(Kernel::Store, Simd::Baseline, buffer);
            }
        })?;
        Ok(Pool { parts })
    }

    /// The buffers that each of the first `threads` CPUs passes: its own, and its share of those of the idle CPUs
    /// of its node, so that few threads face as much memory per node as all do.
    fn jobs(&mut self, threads: usize, extent: Extent) -> Vec<(CpuId, Vec<&mut Buffer>)> {
        let threads = threads.clamp(1, self.parts.len());
        let (active, idle) = self.parts.split_at_mut(threads);
        let mut owners: Vec<(usize, CpuId, Vec<&mut Buffer>)> = Vec::new();
        for part in active {
            owners.push((part.node, part.cpu, chosen(&mut part.halves, extent)));
        }
        for part in idle {
            let on_node = owners.iter_mut().filter(|(node, ..)| *node == part.node);
            if let Some((.., buffers)) = on_node.min_by_key(|(.., buffers)| buffers.len()) {
                buffers.extend(chosen(&mut part.halves, extent));
            }
        }
        owners.into_iter().map(|(_, cpu, buffers)| (cpu, buffers)).collect()
    }

    /// One pass: program GB/s, and whether it was disturbed.
    fn pass(
        &mut self,
        (kernel, threads, simd): Point,
        extent: Extent,
    ) -> Result<(f64, bool), KernelError> {
        let done = workers::together(self.jobs(threads, extent), |buffers: Vec<&mut Buffer>| {
            let mut pieces = Vec::new();
            let mut begin = Instant::now();
            for buffer in buffers {
                sweep_in_pieces(kernel, simd, buffer, &mut |elements| {
                    let end = Instant::now();
                    pieces.push(Piece { begin, end, elements: elements as f64 });
                    begin = end;
                });
            }
            pieces
        })?;
        let all: f64 = done.results.iter().flatten().map(|piece| piece.elements).sum();
        let whole = all / done.elapsed.as_secs_f64();
        let rate = if done.disturbed { good_window(&done.results).max(whole) } else { whole };
        Ok((rate * kernel.program_bytes_per_element() as f64 / 1e9, done.disturbed))
    }
}

/// A part of a thread's pass.
struct Piece {
    begin: Instant,
    end: Instant,
    elements: f64,
}

impl Piece {
    /// How many of its elements were passed between these, if as many in any time.
    fn within(&self, begin: Instant, end: Instant) -> f64 {
        let common = self.end.min(end).saturating_duration_since(self.begin.max(begin));
        let length = self.end.saturating_duration_since(self.begin).as_secs_f64();
        self.elements * common.as_secs_f64() / length.max(1e-9)
    }
}

/// Elements per second of all threads during [`WINDOW`] consecutive pieces of one of them: the ninth decile of all
/// such windows. The best of hundreds would be luck: a virtual machine that was stopped may be faster afterwards.
fn good_window(threads: &[Vec<Piece>]) -> f64 {
    let windows = threads.iter().flat_map(|pieces| pieces.windows(WINDOW));
    let rate = |window: &[Piece]| {
        let (begin, end) = (window[0].begin, window[WINDOW - 1].end);
        let during = |pieces: &Vec<Piece>| {
            let first = pieces.partition_point(|piece| piece.end <= begin);
            let running = pieces[first..].iter().take_while(|piece| piece.begin < end);
            running.map(|piece| piece.within(begin, end)).sum::<f64>()
        };
        let elements: f64 = threads.iter().map(during).sum();
        elements / end.saturating_duration_since(begin).as_secs_f64().max(1e-9)
    };
    let mut rates: Vec<f64> = windows.map(rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() * 9 / 10).copied().unwrap_or(0.0)
}

fn chosen(halves: &mut [Buffer; 2], extent: Extent) -> Vec<&mut Buffer> {
    let count = if extent == Extent::Whole { 2 } else { 1 };
    halves.iter_mut().take(count).collect()
}

/// Points in order of importance, in case time runs out: all threads, one thread, then a few kernels at the numbers
/// between.
fn points(plan: &Plan) -> Vec<Point> {
    let widest = Simd::available().last().copied().unwrap_or(Simd::Baseline);
    let all = plan.cpus.len();
    let mut points: Vec<Point> = kernels().map(|kernel| (kernel, all, widest)).collect();
    if all > 1 {
        points.extend(kernels().map(|kernel| (kernel, 1, widest)));
    }
    for threads in plan.thread_counts.iter().filter(|threads| **threads > 1 && **threads < all) {
        points.extend(
            [Kernel::Load, Kernel::Triad, Kernel::TriadNt].map(|kernel| (kernel, *threads, widest)),
        );
    }
    points
}

/// All kernels that this architecture has; without assembly there are no non-temporal stores.
fn kernels() -> impl Iterator<Item = Kernel> {
    let has_non_temporal = cfg!(target_arch = "x86_64");
    Kernel::ALL
        .into_iter()
        .filter(move |kernel| has_non_temporal || !kernel.name().ends_with("-nt"))
}

/// Takes samples until the time is up: rounds over all points, then over the candidates for the peak.
fn rounds(
    plan: &Plan,
    pool: &mut Pool,
    deadline: Instant,
    progress: &mut Progress<'_>,
) -> Result<Samples, KernelError> {
    let started = Instant::now();
    let length = deadline.saturating_duration_since(started);
    let rounds_end = started + length.mul_f64(ROUNDS_SHARE);
    let mut samples = Samples::new();
    for point in points(plan).iter().cycle() {
        // The first round is finished, unless it is very slow.
        let now = Instant::now();
        let first_round = !samples.contains_key(point);
        if now > rounds_end && !(first_round && now < deadline.max(started) + GRACE) {
            break;
        }
        let (rate, disturbed) = pool.pass(*point, Extent::Whole)?;
        samples.entry(*point).or_default().push(rate, disturbed);
        progress.part_done(started.elapsed().as_secs_f64() / length.as_secs_f64().max(1e-9));
    }
    let candidates = candidates(&samples);
    for point in candidates.iter().cycle() {
        if Instant::now() > deadline {
            break;
        }
        let (rate, disturbed) = pool.pass(*point, Extent::Whole)?;
        samples.entry(*point).or_default().push(rate, disturbed);
        progress.part_done(started.elapsed().as_secs_f64() / length.as_secs_f64().max(1e-9));
    }
    Ok(samples)
}

/// The best bus rates of kernels with certain traffic, at any number of threads, each in all wider SIMD sets.
fn candidates(samples: &Samples) -> Vec<Point> {
    let mut ranked: Vec<(f64, Point)> =
        certain(samples).map(|(rate, point)| (rate, *point)).collect();
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let mut simds = Simd::available();
    if simds.len() > 1 {
        simds.remove(0);
    }
    ranked
        .iter()
        .take(CANDIDATES)
        .flat_map(|(_, (kernel, threads, _))| simds.iter().map(|simd| (*kernel, *threads, *simd)))
        .collect()
}

/// Best bus rate and point of each point with certain traffic.
fn certain(samples: &Samples) -> impl Iterator<Item = (f64, &Point)> {
    samples
        .iter()
        .filter(|((kernel, ..), _)| kernel.bus_traffic_is_certain())
        .filter_map(|(point, rates)| Some((rates.best()? * bus_factor(point.0), point)))
}

/// Bus bytes per program byte.
pub(crate) fn bus_factor(kernel: Kernel) -> f64 {
    kernel.bus_bytes_per_element() as f64 / kernel.program_bytes_per_element() as f64
}

/// Whether the best point gets faster on half the working set; a note if so.
fn peak_size_check(pool: &mut Pool, samples: &Samples) -> Result<Option<String>, KernelError> {
    let Some((_, point)) = certain(samples).max_by(|(a, _), (b, _)| a.total_cmp(b)) else {
        return Ok(None);
    };
    let (mut whole, mut half) = (Vec::new(), Vec::new());
    for _ in 0..SIZE_CHECKS {
        whole.push(pool.pass(*point, Extent::Whole)?.0);
        half.push(pool.pass(*point, Extent::Half)?.0);
    }
    let (Some(whole), Some(half)) = (median(&whole), median(&half)) else { return Ok(None) };
    Ok((half > SIZE_TOLERANCE * whole).then(|| {
        format!("half the working set is {:.0} % faster: caches still have a part in the bandwidth peak", (half / whole - 1.0) * 100.0)
    }))
}

/// Turns the samples into points and the peak.
fn fill(plan: &Plan, size: Bytes, samples: &Samples, calibration: &mut Calibration) {
    for kernel in kernels() {
        for threads in &plan.thread_counts {
            if let Some((simd, rates)) = widest_best(samples, kernel, *threads) {
                let how = format!("{} vectors, passes over {size}", simd.name());
                let bus_note = if kernel.bus_traffic_is_certain() {
                    how.clone()
                } else {
                    format!(
                        "{how}; assumes a write-allocate read for each store, which some CPUs avoid under load"
                    )
                };
                calibration.bandwidth.push(BandwidthPoint {
                    kernel: kernel.name().to_owned(),
                    threads: *threads as u32,
                    program: noted(rates.median_metric(1.0, "GB/s"), &how),
                    bus: noted(rates.median_metric(bus_factor(kernel), "GB/s"), &bus_note),
                });
            }
        }
    }
    let Some((_, (kernel, threads, simd))) =
        certain(samples).max_by(|(a, _), (b, _)| a.total_cmp(b))
    else {
        calibration.notes.push(
            "no kernel with certain bus traffic could be measured: no bandwidth peak".to_owned(),
        );
        return;
    };
    let repeats = &samples[&(*kernel, *threads, *simd)];
    let rates = repeats.values(bus_factor(*kernel));
    let usual = median(&rates).unwrap_or_default();
    let name = if *threads == 1 { "thread" } else { "threads" };
    calibration.peak_kernel = Some(format!("{}, {threads} {name}", kernel.name()));
    calibration.dram_bandwidth_peak = best_metric(&rates, "GB/s").map(|peak| {
        peak.noted(&format!(
            "best of {} passes over {size} with {} vectors; the median pass reached {usual:.1} GB/s",
            rates.len(),
            simd.name()
        ))
    });
    read_ceiling(usual, kernel, samples, calibration);
}

/// Adds to the remark that a metric may already carry.
fn noted(metric: Metric, remark: &str) -> Metric {
    let all = metric.note.iter().map(String::as_str).chain([remark]).collect::<Vec<_>>().join("; ");
    metric.noted(&all)
}

/// Most programs mostly read: if reading alone stays well below the peak, the reader must know.
fn read_ceiling(peak: f64, peak_kernel: &Kernel, samples: &Samples, calibration: &mut Calibration) {
    let reads = samples.iter().filter(|((kernel, ..), _)| *kernel == Kernel::Load);
    let best = reads.filter_map(|(_, rates)| median(&rates.values(1.0))).max_by(f64::total_cmp);
    if let Some(best) = best.filter(|best| *best < 0.9 * peak) {
        calibration.notes.push(format!(
            "reads alone reach {best:.1} GB/s, {:.0} % of what {} usually reaches: a program that mostly reads is at its limit there",
            best / peak * 100.0,
            peak_kernel.name()
        ));
    }
}

/// The SIMD set with the best median for this kernel and number of threads.
fn widest_best(samples: &Samples, kernel: Kernel, threads: usize) -> Option<(Simd, &Repeats)> {
    let same = samples.iter().filter(|((k, t, _), _)| (*k, *t) == (kernel, threads));
    let ranked =
        same.filter_map(|((.., simd), rates)| Some((median(&rates.values(1.0))?, *simd, rates)));
    ranked.max_by(|(a, ..), (b, ..)| a.total_cmp(b)).map(|(_, simd, rates)| (simd, rates))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads, a piece a millisecond each while they run: the first is stopped from 10 to 30, the second from 20 to 40.
    #[test]
    fn a_disturbed_pass_counts_where_all_threads_ran() {
        let start = Instant::now();
        let at = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        let pieces = |stopped: u64| {
            (0..40u64)
                .map(|number| {
                    let shift = |number: u64| number + if number > stopped { 20 } else { 0 };
                    Piece { begin: at(shift(number)), end: at(shift(number + 1)), elements: 5.0 }
                })
                .collect::<Vec<_>>()
        };
        let threads = [pieces(10), pieces(20)];
        assert!((good_window(&threads) - 10_000.0).abs() < 1e-6);
        assert!((good_window(&threads[..1]) - 5_000.0).abs() < 1e-6);
        assert_eq!(good_window(&[Vec::new()]), 0.0);
    }
}
