//! Bandwidth of each level of cache, with one thread and with all: passes over a set that the level holds and the one above
//! it does not.
//!
//! A level's bandwidth counts the lines that come from it into the level above, also those that are fetched to be stored to.
//! Lines that are written back are not counted. In the first level it counts the bytes that the program loads and stores. There
//! are two kernels, one that only reads and one that writes half of its lines, because write-backs may share a path with
//! fetches.
//!
//! The set must fit into the level, so its size follows from the size that the ladder shows: that is what a program gets. It
//! must also exceed the level above, whose size is taken as the larger of the ladder's and the system's: that level may hold
//! more than a chase shows.
//!
//! Assumptions: as many threads share one cache as its instances leave to each; a set of [`BEYOND`] times the level above finds
//! next to nothing of it there (with LRU nothing; with random replacement 6 %).

use std::time::{Duration, Instant};

use base::Bytes;
use facts::Metric;
use facts::host::{CacheKind, Calibration, Host, LevelBandwidth};
use sys::kernels::{Buffer, Kernel, KernelError, Pages, Simd, sweep_again};

use crate::plan::Plan;
use crate::statistics::Repeats;
use crate::workers;

const KERNELS: [Kernel; 2] = [Kernel::Load, Kernel::Copy];
/// Size of a set in sizes of the level above, if it may have that, and at least.
const BEYOND: f64 = 3.0;
const LEAST_BEYOND: f64 = 2.0;
/// Length of a repeat: below a time slice of the scheduler, and well beyond the start of its threads.
const REPEAT: Duration = Duration::from_millis(2);
const REPEATS: usize = 7;
const TRIES: usize = 21;

/// What is passed.
struct Point {
    level: u32,
    threads: usize,
    /// Bytes per thread, or why there is no such set.
    set: Result<u64, String>,
}

/// Measures all levels that the ladder shows.
pub(crate) fn measure(host: &Host, plan: &Plan, deadline: Instant, calibration: &mut Calibration) {
    let all = plan.cpus.len();
    let counts = if all > 1 { vec![1, all] } else { vec![1] };
    let points: Vec<Point> = calibration
        .effective_caches
        .iter()
        .flat_map(|cache| counts.iter().map(|threads| (cache.level, *threads)))
        .map(|(level, threads)| Point {
            level,
            threads,
            set: set(host, calibration, level, threads),
        })
        .collect();
    let largest = points.iter().filter_map(|point| point.set.as_ref().ok()).max().copied();
    let bytes = Bytes(largest.unwrap_or_default());
    if bytes.0.saturating_mul(all as u64) > plan.memory.0 {
        calibration.notes.push("no bandwidth of caches: too little free memory".to_owned());
        return;
    }
    match passes(plan, &points, bytes, deadline) {
        Ok(measured) => calibration.level_bandwidth = measured,
        Err(error) => calibration.notes.push(format!("no bandwidth of caches: {error}")),
    }
}

/// Bytes that each of so many threads passes over, so that they come from this level.
fn set(host: &Host, found: &Calibration, level: u32, threads: usize) -> Result<u64, String> {
    let claimed = |level: u32| {
        let data = host.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
        data.into_iter().find(|cache| cache.level == level)
    };
    let shown = |level: u32| {
        let cache = found.effective_caches.iter().find(|cache| cache.level == level)?;
        Some((cache.bytes.value?, cache.bytes.high.or(cache.bytes.value)?))
    };
    let sharers = |level: u32| {
        let instances = claimed(level).map_or(1, |cache| cache.instances.max(1));
        threads.div_ceil(instances as usize) as f64
    };
    let Some((holds, most)) = shown(level) else {
        return Err("its size is not known".to_owned());
    };
    // Half of what the ladder shows, so that the set surely stays.
    let (part, most) = (holds / sharers(level) / 2.0, most / sharers(level));
    let above = |level: u32| {
        let claimed = claimed(level).map_or(0.0, |cache| cache.bytes as f64);
        shown(level).map_or(claimed, |(_, most)| most.max(claimed)) / sharers(level)
    };
    let above = if level > 1 { above(level - 1) } else { 0.0 };
    let wanted = part.max(BEYOND * above).min(most);
    match wanted >= LEAST_BEYOND * above {
        true => Ok(wanted as u64),
        false => {
            Err("each thread's part of it is hardly more than the level above holds".to_owned())
        }
    }
}

/// Repeats of all points by turns, so that slow moments hit all alike.
fn passes(
    plan: &Plan,
    points: &[Point],
    bytes: Bytes,
    deadline: Instant,
) -> Result<Vec<LevelBandwidth>, KernelError> {
    let simd = Simd::available().last().copied().unwrap_or(Simd::Baseline);
    let mut buffers = Vec::new();
    for cpu in &plan.cpus {
        buffers.push((*cpu, Buffer::map(bytes, Pages::Huge)?));
    }
    let jobs = buffers.iter_mut().map(|(cpu, buffer)| (*cpu, buffer)).collect();
    workers::together(jobs, |buffer: &mut Buffer| buffer.touch_each_page())?;
    let runs = points.iter().flat_map(|point| KERNELS.map(|kernel| (point, kernel)));
    let mut runs: Vec<_> =
        runs.map(|(point, kernel)| (point, kernel, Repeats::default())).collect();
    for attempt in 0..TRIES {
        // Two rounds in any case.
        let late = attempt > 1 && Instant::now() > deadline;
        if late
            || runs
                .iter()
                .all(|(point, _, done)| point.set.is_err() || done.undisturbed() >= REPEATS)
        {
            break;
        }
        for (point, kernel, repeats) in &mut runs {
            let Ok(set) = point.set else { continue };
            if repeats.undisturbed() >= REPEATS {
                continue;
            }
            let jobs = buffers.iter_mut().take(point.threads).map(|(cpu, buffer)| (*cpu, buffer));
            let rate = |buffer: &mut Buffer| rate_of_passes(*kernel, simd, buffer, Bytes(set));
            let done = workers::together(jobs.collect(), rate)?;
            repeats.push(done.results.iter().sum(), done.disturbed);
        }
    }
    let rate = |point: &Point, repeats: &Repeats| match &point.set {
        Ok(set) => {
            let metric = repeats.median_metric(1.0, "GB/s");
            let how = format!("{} vectors, passes over {} per thread", simd.name(), Bytes(*set));
            let notes = metric.note.iter().cloned().chain([how]).collect::<Vec<_>>().join("; ");
            metric.noted(&notes)
        }
        Err(why) => Metric::unavailable("GB/s", why),
    };
    let row = |(point, kernel, repeats): (&Point, Kernel, Repeats)| LevelBandwidth {
        level: point.level,
        kernel: kernel.name().to_owned(),
        threads: point.threads as u32,
        rate: rate(point, &repeats),
    };
    Ok(runs.into_iter().map(row).collect())
}

/// GB/s of one thread, over the set again and again for a while, once it lies where it belongs.
fn rate_of_passes(kernel: Kernel, simd: Simd, buffer: &mut Buffer, set: Bytes) -> f64 {
    sweep_again(kernel, simd, buffer, set, 2);
    // Several passes between two looks at the clock, which takes some 20 ns.
    let times = ((1 << 20) / set.0.max(1)).max(1);
    let (begin, mut elements) = (Instant::now(), 0);
    loop {
        elements += sweep_again(kernel, simd, buffer, set, times);
        let elapsed = begin.elapsed();
        if elapsed >= REPEAT {
            return kernel.program_bytes(elements).0 as f64 / elapsed.as_secs_f64() / 1e9;
        }
    }
}

#[cfg(test)]
mod tests {
    use facts::Evidence;
    use facts::host::{Cache, EffectiveCache};

    use super::*;

    const KIB: u64 = 1 << 10;

    /// A virtual machine of four cores with a last level of which it gets a part.
    fn machine(last: u64) -> (Host, Calibration) {
        let cache = |level, bytes, instances| Cache {
            level,
            kind: CacheKind::Unified,
            bytes,
            line_bytes: 64,
            ways: None,
            shared_by: 4 / instances,
            instances,
        };
        let caches =
            vec![cache(1, 32 * KIB, 4), cache(2, 1024 * KIB, 4), cache(3, 32_768 * KIB, 1)];
        let shown = |level, bytes: u64| {
            let size = bytes as f64;
            let bytes =
                Metric::with_interval(Evidence::Calibrated, size, "bytes", (size, 1.5 * size), 1);
            EffectiveCache { level, latency: Metric::unavailable("ns", "not asked"), bytes }
        };
        let effective_caches = vec![shown(1, 32 * KIB), shown(2, 512 * KIB), shown(3, last)];
        (
            Host { caches, ..Host::default() },
            Calibration { effective_caches, ..Calibration::default() },
        )
    }

    #[test]
    fn a_set_stays_in_its_level_and_leaves_the_one_above() {
        let (host, found) = machine(8192 * KIB);
        let set = |level, threads| set(&host, &found, level, threads).map(|bytes| bytes / KIB);
        assert_eq!([set(1, 1), set(1, 4), set(2, 1), set(2, 4)], [16, 16, 256, 256].map(Ok));
        assert_eq!([set(3, 1), set(3, 2)], [4096, 3072].map(Ok));
        // Three times as much as the second level claims to hold, as long as all of it may still be held; that is two times.
        assert_eq!(set(3, 4), Ok(3072));
        assert!(set(4, 1).is_err());
    }

    #[test]
    fn a_level_that_is_hardly_larger_than_the_one_above_has_no_bandwidth() {
        let (host, found) = machine(4096 * KIB);
        assert_eq!(set(&host, &found, 3, 2).map(|bytes| bytes / KIB), Ok(3072));
        let why = set(&host, &found, 3, 4).expect_err("1.5 MiB each");
        assert!(why.contains("hardly more"), "{why}");
    }
}
