//! Latency of memory under load: dependent loads of one thread while others read at a rate that is kept.
//!
//! What for: memory answers later the more is asked of it; near its bandwidth several times later. A program near its
//! bandwidth waits for that latency, not for the one that a single chase shows. What not: stores, caches; which node's memory it is (`nodes` has its own bound to each).
//!
//! Assumptions: readers keep a rate by waiting after each 16 KiB, so that their load is even from microsecond to microsecond. The
//! rate of a point is what was read, whatever was wanted; so a point holds also where others took a CPU.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::{Bytes, CpuId};
use facts::host::{CacheKind, Calibration, Host, LoadedLatency};
use sys::kernels::{
    Buffer, Chase, Cycle, Kernel, KernelError, Pages, Simd, Spacing, sweep, sweep_by,
};

use crate::plan::Plan;
use crate::statistics::Repeats;
use crate::{Progress, ladder, workers};

/// Parts of the highest rate of the readers.
const LEVELS: [f64; 7] = [0.0, 0.15, 0.35, 0.55, 0.75, 0.9, 1.0];
/// Repeats of a point, the length of one without load, and the least of them where the time is up.
const REPEATS: usize = 9;
const LEAST_REPEATS: usize = 3;
const CHASE: Duration = Duration::from_millis(4);
/// Until a new rate is kept.
const SETTLE: Duration = Duration::from_micros(300);
/// Loads that bring the chase's TLB entries into the caches.
const WARM_LOADS: u64 = 20_000;
/// What a reader reads at once.
const PIECE: Bytes = Bytes(16 << 10);
/// Memory of the chase, and the least of a reader; both as a multiple of the last cache, so that few loads hit in it.
const LARGEST: u64 = 1 << 30;
const SMALLEST: u64 = 64 << 20;
const TIMES_CACHE: u64 = 4;
/// Below this part of the wanted rate a repeat counts as disturbed.
const KEPT: f64 = 0.8;
/// A reader that fell behind by more reads no faster to make up for it.
const BEHIND: Duration = Duration::from_micros(100);
const SEED: u64 = 0x5EED_0003;

/// What the readers must know, and what they say.
struct Shared {
    /// GB/s of each reader, as the bits of a number; 0: it waits.
    pace: AtomicU64,
    bytes: AtomicU64,
    is_over: AtomicBool,
}

impl Shared {
    fn pace(&self) -> f64 {
        f64::from_bits(self.pace.load(Ordering::Relaxed))
    }
}

/// Measures with each number of threads, within about `time`.
pub(crate) fn measure(
    host: &Host,
    plan: &Plan,
    time: Duration,
    progress: &mut Progress<'_>,
    calibration: &mut Calibration,
) {
    let counts: Vec<usize> =
        plan.thread_counts.iter().copied().filter(|count| *count > 1).collect();
    if counts.is_empty() {
        calibration.notes.push("no latency under load: that takes two CPUs".to_owned());
    }
    let started = Instant::now();
    for (number, threads) in counts.iter().enumerate() {
        let done = (number + 1) as f64 / counts.len() as f64;
        let found = with_threads(host, plan, *threads, started + time.mul_f64(done));
        match found {
            Ok(points) => calibration.loaded_latency.extend(points),
            Err(why) => calibration
                .notes
                .push(format!("no latency under load with {threads} threads: {why}")),
        }
        progress.part_done(done);
    }
}

fn with_threads(
    host: &Host,
    plan: &Plan,
    threads: usize,
    deadline: Instant,
) -> Result<Vec<LoadedLatency>, String> {
    let [chased, read] = sizes(host, plan, threads as u64 - 1)?;
    let map = |bytes| Buffer::map(bytes, Pages::Huge).map_err(|error| error.to_string());
    let chase = map(chased)?;
    let parts = (1..threads).map(|_| map(read)).collect::<Result<Vec<Buffer>, String>>()?;
    curve(&plan.cpus, chase, parts, deadline)
}

/// The curve of a chase on the first of these CPUs, while the next ones read a part each.
pub(crate) fn curve(
    cpus: &[CpuId],
    mut chase: Buffer,
    mut parts: Vec<Buffer>,
    deadline: Instant,
) -> Result<Vec<LoadedLatency>, String> {
    let threads = parts.len() + 1;
    let cycle = Cycle::random(u32::try_from(chase.size().0 / 64).unwrap_or(u32::MAX), SEED);
    let shared = Shared {
        pace: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    let jobs: Vec<(CpuId, Job<'_>)> = std::iter::once(Job::Chase(&mut chase))
        .chain(parts.iter_mut().map(Job::Read))
        .zip(cpus)
        .map(|(job, cpu)| (*cpu, job))
        .collect();
    let done = workers::together(jobs, |job| match job {
        Job::Chase(buffer) => {
            let points = points(buffer, &cycle, &shared, threads - 1, deadline);
            shared.is_over.store(true, Ordering::Relaxed);
            points
        }
        Job::Read(buffer) => {
            read_until_it_is_over(buffer, &shared);
            None
        }
    });
    let done = done.map_err(|error: KernelError| error.to_string())?;
    let found = done.results.into_iter().flatten().next();
    let found = found.ok_or_else(|| "the chase does not fit into its memory".to_owned())?;
    let point = |(rate, latency): (Repeats, Repeats)| LoadedLatency {
        threads: threads as u32,
        rate: rate.median_metric(1.0, "GB/s"),
        latency: latency.median_metric(1.0, "ns"),
    };
    Ok(found.into_iter().map(point).collect())
}

/// What a thread does.
enum Job<'a> {
    Chase(&'a mut Buffer),
    Read(&'a mut Buffer),
}

/// Bytes of the chase and of each reader, which together are at most what we may take.
fn sizes(host: &Host, plan: &Plan, readers: u64) -> Result<[Bytes; 2], String> {
    let data = host.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
    let last = data.max_by_key(|cache| cache.level).map_or(0, |cache| cache.bytes);
    let wanted = last.saturating_mul(TIMES_CACHE).clamp(SMALLEST, LARGEST);
    let wanted = if plan.hurried { SMALLEST } else { wanted };
    let chased = wanted.min(plan.memory.0 / 2);
    let read = (wanted / readers).max(SMALLEST / 4).min(plan.memory.0 / 2 / readers);
    match chased < SMALLEST / 4 || read < SMALLEST / 16 {
        true => Err(format!("{} of memory are too few for it", plan.memory)),
        false => Ok([chased, read].map(|bytes| Bytes(bytes >> 21 << 21))),
    }
}

/// Rates and latencies of each level; `None` where the chase does not fit.
fn points(
    buffer: &mut Buffer,
    cycle: &Cycle,
    shared: &Shared,
    readers: usize,
    deadline: Instant,
) -> Option<Vec<(Repeats, Repeats)>> {
    let mut chase = Chase::lay(buffer, cycle, Spacing::Line)?;
    let set = |pace: f64| {
        shared.pace.store(pace.to_bits(), Ordering::Relaxed);
        let since = Instant::now();
        while since.elapsed() < SETTLE {
            spin_loop();
        }
    };
    // Readers that are not there yet have nothing to say: they begin with stores to their memory.
    set(f64::INFINITY);
    let began = Instant::now();
    while shared.bytes.load(Ordering::Relaxed) == 0 && began.elapsed() < Duration::from_secs(2) {
        spin_loop();
    }
    ladder::timed(&mut chase, WARM_LOADS);
    // Interference only makes slower.
    let full = (0..LEAST_REPEATS).map(|_| one(&mut chase, WARM_LOADS, shared).0);
    let highest = full.fold(0.0, f64::max);
    set(0.0);
    let (_, alone, _) = one(&mut chase, WARM_LOADS, shared);
    let loads = (CHASE.as_nanos() as f64 / alone.max(0.1)) as u64;
    let mut found = LEVELS.map(|_| (Repeats::default(), Repeats::default()));
    for number in 0..REPEATS {
        if number >= LEAST_REPEATS && Instant::now() > deadline {
            break;
        }
        for (level, (rates, latencies)) in LEVELS.iter().zip(&mut found) {
            set(if *level < 1.0 { highest / readers as f64 * level } else { f64::INFINITY });
            let (rate, latency, disturbed) = one(&mut chase, loads, shared);
            // Others had the CPU of a reader.
            let disturbed = disturbed || rate < KEPT * highest * level;
            rates.push(rate, disturbed);
            latencies.push(latency, disturbed);
        }
    }
    Some(found.into())
}

/// GB/s of all threads and nanoseconds per load of a walk, and whether it was disturbed.
fn one(chase: &mut Chase<'_>, loads: u64, shared: &Shared) -> (f64, f64, bool) {
    let (before, began) = (shared.bytes.load(Ordering::Relaxed), Instant::now());
    let (latency, disturbed) = ladder::timed(chase, loads);
    let (after, elapsed) = (shared.bytes.load(Ordering::Relaxed), began.elapsed());
    let bytes = (after - before + loads * 64) as f64;
    (bytes / elapsed.as_nanos().max(1) as f64, latency, disturbed)
}

fn read_until_it_is_over(buffer: &mut Buffer, shared: &Shared) {
    let simd = Simd::available().last().copied().unwrap_or(Simd::Baseline);
    // No zeros: memory of equal zero pages may be treated specially by hypervisors.
    sweep(Kernel::Store, simd, buffer);
    let mut due = Instant::now();
    while !shared.is_over.load(Ordering::Relaxed) {
        sweep_by(Kernel::Load, simd, buffer, PIECE, &mut |elements| {
            let bytes = Kernel::Load.bus_bytes(elements).0;
            shared.bytes.fetch_add(bytes, Ordering::Relaxed);
            let pace = shared.pace();
            if pace.is_finite() && pace > 0.0 {
                due += Duration::from_nanos((bytes as f64 / pace) as u64);
            }
            let now = Instant::now();
            if pace == f64::INFINITY || due + BEHIND < now {
                due = now;
            }
            let waits = || shared.pace() == 0.0 || Instant::now() < due;
            while waits()
                && shared.pace() < f64::INFINITY
                && !shared.is_over.load(Ordering::Relaxed)
            {
                spin_loop();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(cpus: usize, memory: u64) -> Plan {
        Plan {
            cpus: (0..cpus).map(|cpu| CpuId(cpu as u32)).collect(),
            nodes: vec![0; cpus],
            thread_counts: vec![1, cpus],
            memory: Bytes(memory),
            hurried: true,
        }
    }

    #[test]
    fn no_more_memory_is_taken_than_is_allowed() {
        let host = Host::default();
        let of = |cpus, memory, readers| sizes(&host, &plan(cpus, memory), readers);
        assert_eq!(of(2, 1 << 40, 1), Ok([Bytes(64 << 20), Bytes(64 << 20)]));
        assert_eq!(of(9, 1 << 40, 8), Ok([Bytes(64 << 20), Bytes(16 << 20)]));
        assert_eq!(of(9, 64 << 20, 4), Ok([Bytes(32 << 20), Bytes(8 << 20)]));
        assert!(of(9, 16 << 20, 8).is_err());
    }

    #[test]
    fn every_level_has_a_rate_and_a_latency() {
        let (host, _) = crate::host();
        if host.logical_cpus < 2 {
            println!("skipped: this takes two CPUs");
            return;
        }
        let found =
            with_threads(&host, &plan(2, 256 << 20), 2, Instant::now()).expect("it is measured");
        assert_eq!(found.len(), LEVELS.len());
        let value = |metric: &facts::Metric| metric.value.expect("a value");
        for point in &found {
            assert!(point.threads == 2 && value(&point.latency) > 0.0, "{point:?}");
            assert!(value(&point.rate) > 0.0, "{point:?}");
        }
    }
}
