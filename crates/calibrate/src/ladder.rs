//! The latency ladder: a random pointer chase over sizes from 4 KiB to 512 MiB, or beyond the caches that the machine claims, with 2 MB
//! and with base pages, and over the large sizes with a page of 1 GB where the pool of these has a free one.
//!
//! What not: reading cache sizes from it (`machine::ladder`). A chase starts warm if that is affordable (a full round
//! before the timed part). Beyond [`WARM_LOADS`] loads the round is cut short. The slots of the cycle are then mostly
//! met for the first time since they were written, which near the size of the last cache shows a higher latency than
//! the steady state.

use std::time::{Duration, Instant};

use base::{Bytes, CpuId};
use facts::host::{Cache, Calibration, Host, LatencyPoint};
use sys::kernels::{Buffer, Chase, Cycle, KernelError, Pages, Spacing, page_bytes};

use crate::plan::Plan;
use crate::statistics::{Repeats, median};
use crate::{Progress, workers};

/// From well within any first level to well beyond the last level that one core reaches: 512 MiB, and more where the machine
/// claims a last level that holds that. A virtual machine with 480 MiB by its own word had 6.
const SMALLEST: u64 = 4 << 10;
const LARGEST: u64 = 512 << 20;
const LARGEST_OF_ALL: u64 = 4 << 30;
/// Above this size only powers of two: no cache boundary is expected there, and each point costs 0.3 s.
const FINE_UP_TO: u64 = 64 << 20;
/// Undisturbed repeats wanted per point, and tries for them.
const REPEATS: usize = 9;
const TRIES: usize = 36;
/// Length of a repeat for sizes that stay in the caches, and beyond them: well below the time slice of the
/// kernel's scheduler (3 ms), so that many repeats pass undisturbed even on a busy machine.
const REPEAT_SMALL: Duration = Duration::from_millis(1);
const REPEAT_LARGE: Duration = Duration::from_millis(4);
const SMALL: u64 = 8 << 20;
/// Loads of the warming lap at most: about 0.3 s on the slowest memory.
const WARM_LOADS: u64 = 2 << 20;
/// Any single-cycle permutation will do; a fixed one makes runs comparable.
const SEED: u64 = 0x5EED_0001;
/// x86-64 and AArch64 with base pages of 4 KiB.
const HUGE_PAGE: u64 = 2 << 20;
const GIANT_PAGE: u64 = 1 << 30;
/// Sizes from here on tell what larger pages save; below, the TLBs hold all pages of 2 MB.
const GIANT_FROM: u64 = 16 << 20;

/// Why there is no step of these pages.
const NO_GIANT: &str = "the latency ladder has no pages of 1 GB: the pool of these has no free one (as root: echo 1 > \
                        /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages, or hugepagesz=1G hugepages=1 at boot)";

/// The largest size to chase.
fn largest(claimed: &[Cache]) -> u64 {
    let beyond = machine::ladder::outgrows(claimed) as u64;
    beyond.clamp(LARGEST, LARGEST_OF_ALL).next_power_of_two()
}

/// Sizes to chase, ascending.
fn sizes(limit: Bytes) -> Vec<Bytes> {
    let powers = std::iter::successors(Some(SMALLEST), |size| Some(size * 2))
        .take_while(|size| *size <= LARGEST_OF_ALL);
    powers
        .flat_map(|size| [Some(size), (size < FINE_UP_TO).then_some(size + size / 2)])
        .flatten()
        .filter(|size| *size <= limit.0)
        .map(Bytes)
        .collect()
}

/// Memory of one page kind, and what was measured on it.
struct Rung {
    buffer: Buffer,
    page_bytes: u64,
    points: Vec<LatencyPoint>,
}

/// Measures both ladders and what they say about the caches.
pub(crate) fn measure(
    host: &Host,
    plan: &Plan,
    deadline: Instant,
    progress: &mut Progress<'_>,
    calibration: &mut Calibration,
) {
    // Two buffers at the same time.
    let wanted = largest(&host.caches);
    let limit = if plan.hurried { FINE_UP_TO } else { wanted };
    let sizes = sizes(Bytes((plan.memory.0 / 2).min(limit)));
    if sizes.last().is_none_or(|largest| largest.0 < wanted) {
        let largest = sizes.last().copied().unwrap_or_default();
        calibration.notes.push(format!(
            "the latency ladder ends at {largest}: there is no time or no free memory for more"
        ));
    }
    let (rungs, notes) = match climb(plan.cpus[0], &sizes, deadline, progress) {
        Ok(climbed) => climbed,
        Err(error) => {
            calibration.notes.push(format!("no latency ladder: {error}"));
            return;
        }
    };
    calibration.notes.extend(notes);
    // 2 MB pages keep the TLBs out of the picture; base pages must do where there are none.
    let complete = rungs.iter().filter(|rung| rung.page_bytes < GIANT_PAGE);
    let clearest = complete.max_by_key(|rung| rung.page_bytes);
    let points = clearest.map(|rung| rung.points.as_slice()).unwrap_or_default();
    let reading = machine::ladder::read(points, &host.caches);
    calibration.effective_caches = reading.caches;
    calibration.dram_latency = reading.memory;
    calibration.notes.extend(reading.notes);
    calibration.ladder = rungs.into_iter().flat_map(|rung| rung.points).collect();
    calibration.ladder.sort_by_key(|point| (std::cmp::Reverse(point.page_bytes), point.bytes));
}

/// Goes through the sizes. What is timed runs pinned to `cpu`, which also touches the memory first.
fn climb(
    cpu: CpuId,
    sizes: &[Bytes],
    deadline: Instant,
    progress: &mut Progress<'_>,
) -> Result<(Vec<Rung>, Vec<String>), KernelError> {
    let mut notes = Vec::new();
    let largest = sizes.last().copied().unwrap_or(Bytes(SMALLEST));
    let mut rungs = workers::alone(cpu, || set_up(largest, &mut notes))??;
    let started = Instant::now();
    // The largest first: it gives the latency of memory. Then upwards, as far as the time allows.
    let order = sizes.last().into_iter().chain(sizes.iter().take(sizes.len().saturating_sub(1)));
    for (index, size) in order.enumerate() {
        // A size costs about twice the one before: skip while there is time for what follows.
        if index > 0
            && size.0 > FINE_UP_TO
            && Instant::now() + started.elapsed().mul_f64(0.2) > deadline
        {
            notes.push(format!("the latency ladder skips sizes from {size} on: out of time"));
            break;
        }
        workers::alone(cpu, || chase_all(&mut rungs, *size, deadline))?;
        progress.part_done((index + 1) as f64 / sizes.len() as f64);
    }
    Ok((rungs, notes))
}

/// Memory of both page kinds, as far as they can be had.
fn set_up(largest: Bytes, notes: &mut Vec<String>) -> Result<Vec<Rung>, KernelError> {
    let mut rungs = Vec::new();
    for (pages, page_bytes) in [(Pages::Huge, HUGE_PAGE), (Pages::Base, page_bytes().0)] {
        let mut buffer = Buffer::map(largest, pages)?;
        let faults = buffer.touch_each_page();
        // Without huge pages (refused, or memory too fragmented) there are up to 512 times as many faults.
        if pages == Pages::Huge && faults > 2 * buffer.size().0 / HUGE_PAGE + 8 {
            notes.push(format!(
                "the kernel gave no 2 MB pages ({faults} faults for {}): latencies include TLB misses",
                buffer.size()
            ));
            continue;
        }
        rungs.push(Rung { buffer, page_bytes, points: Vec::new() });
    }
    if largest.0 >= GIANT_FROM {
        match Buffer::map(largest, Pages::Giant) {
            Ok(buffer) => rungs.push(Rung { buffer, page_bytes: GIANT_PAGE, points: Vec::new() }),
            Err(_) => notes.push(NO_GIANT.to_owned()),
        }
    }
    Ok(rungs)
}

/// One size on all page kinds.
fn chase_all(rungs: &mut [Rung], size: Bytes, deadline: Instant) {
    let cycle = Cycle::random(u32::try_from(size.0 / 64).unwrap_or(u32::MAX), SEED);
    let wanted = |rung: &&mut Rung| rung.page_bytes < GIANT_PAGE || size.0 >= GIANT_FROM;
    for rung in rungs.iter_mut().filter(wanted) {
        if let Some(mut chase) = Chase::lay(&mut rung.buffer, &cycle, Spacing::Line) {
            let latency = repeats(&mut chase, size, deadline).median_metric(1.0, "ns");
            rung.points.push(LatencyPoint { bytes: size.0, page_bytes: rung.page_bytes, latency });
        }
    }
}

/// Nanoseconds per load of each repeat.
fn repeats(chase: &mut Chase<'_>, size: Bytes, deadline: Instant) -> Repeats {
    let slots = u64::from(chase.slots());
    let (warm, _) = timed(chase, slots.min(WARM_LOADS));
    let length = if size.0 <= SMALL { REPEAT_SMALL } else { REPEAT_LARGE };
    // Two more looks after the warming lap, which itself may have been ten times slower.
    let looks = [warm, timed(chase, 1000).0, timed(chase, 1000).0];
    let estimate = median(&looks).unwrap_or(warm).max(0.1);
    let loads = (length.as_nanos() as f64 / estimate) as u64;
    let mut repeats = Repeats::default();
    for attempt in 0..TRIES {
        let (latency, disturbed) = timed(chase, loads);
        repeats.push(latency, disturbed);
        let late = attempt >= REPEATS / 2 && Instant::now() > deadline;
        if late || repeats.undisturbed() == REPEATS {
            break;
        }
    }
    repeats
}

/// Nanoseconds per load of one walk, and whether the walk was interrupted; then only the time on the CPU counts,
/// which still contains the misses that the others caused. A kernel that counts that time in ticks, as in an emulated machine, may
/// say that a short walk took none: then all of the time does.
pub(crate) fn timed(chase: &mut Chase<'_>, loads: u64) -> (f64, bool) {
    let (made, watched) = workers::watched(|| chase.walk(loads));
    let on_cpu = watched.disturbed && !watched.on_cpu.is_zero();
    let time = if on_cpu { watched.on_cpu } else { watched.elapsed };
    (time.as_nanos() as f64 / made as f64, watched.disturbed)
}

#[cfg(test)]
mod tests {
    use facts::host::CacheKind;

    use super::*;

    #[test]
    fn sizes_are_fine_in_the_caches_and_coarse_beyond() {
        let all = sizes(Bytes(largest(&[])));
        assert_eq!(all.first(), Some(&Bytes(4096)));
        assert_eq!(all.get(1), Some(&Bytes(6144)));
        assert_eq!(all.last(), Some(&Bytes(512 << 20)));
        assert_eq!(all.len(), 32);
        assert_eq!(sizes(Bytes(10_000)), [Bytes(4096), Bytes(6144), Bytes(8192)]);
        assert_eq!(sizes(Bytes(0)), []);
    }

    #[test]
    fn the_largest_size_is_beyond_the_caches_claimed() {
        let claims = |mib: u64| {
            let (bytes, kind) = (mib << 20, CacheKind::Unified);
            let claimed = Cache {
                level: 3,
                kind,
                bytes,
                line_bytes: 64,
                ways: None,
                shared_by: 2,
                instances: 1,
            };
            largest(&[claimed]) >> 20
        };
        assert_eq!(
            [0, 32, 260, 480, 1152, u64::MAX >> 20].map(claims),
            [512, 512, 512, 1024, 2048, 4096]
        );
    }
}
