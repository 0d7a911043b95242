//! What fresh pages cost now, just before a run.
//!
//! What for: a page of 2 MiB is cheap while such blocks are free, and dear where the kernel must move pages out of the way or a
//! hypervisor must find memory, which changes from minute to minute. The calibration may be hours old, and touches the same
//! memory again and again. What not: what follows for a program (`analysis::page_costs`).
//!
//! Nothing is prepared: the first pages come from the kernel's free lists, as the program's would. They are given back at
//! the end.

use std::time::{Duration, Instant};

use base::{Bytes, CpuId};
use facts::host::{Host, PageReading};
use sys::kernels::{Buffer, KernelError, Pages, page_bytes};

use crate::plan::available;
use crate::{live, workers};

/// Enough pages to meet dear ones, and few enough to be gone in a few milliseconds where they are cheap.
const LARGE_SIZE: Bytes = Bytes(64 << 20);
const SMALL_SIZE: Bytes = Bytes(8 << 20);
const LARGE_PAGE: Bytes = Bytes(2 << 20);
/// Where pages are dear, fewer are touched.
const LARGE_UNTIL: Duration = Duration::from_millis(30);
const SMALL_UNTIL: Duration = Duration::from_millis(10);
/// A reading takes at most this share of the available memory.
const MEMORY_SHARE: u64 = 16;

/// Takes a reading on a CPU that we may use, in some 10 ms and never much longer than 40.
///
/// # Errors
/// Why it was not possible.
pub fn read(host: &Host) -> Result<PageReading, String> {
    let free = available(host, &mut Vec::new());
    let all = Bytes(LARGE_SIZE.0 + SMALL_SIZE.0);
    if all.0 > free.0 / MEMORY_SHARE {
        return Err(format!("it needs {all} and only {free} is available"));
    }
    if page_bytes().0 != 4096 {
        return Err(format!("pages of this machine have {}, not 4 KiB", page_bytes()));
    }
    let buddyinfo = live::read("/proc/buddyinfo").unwrap_or_default();
    let free_large = machine::free_blocks(&buddyinfo, page_bytes().0, LARGE_PAGE.0);
    let cpu = CpuId(host.allowed_cpus.first().copied().unwrap_or_default());
    let touched = workers::alone(cpu, || {
        let large = touch(Pages::Huge, LARGE_SIZE, LARGE_UNTIL)?;
        let small = touch(Pages::Base, SMALL_SIZE, SMALL_UNTIL)?;
        Ok::<_, KernelError>((large, small))
    });
    let (large, small) = touched.and_then(|touched| touched).map_err(|error| error.to_string())?;
    let refused = large.iter().filter(|(_, faults)| *faults > 1).count();
    // Folios of 16 KiB and more take fewer faults than there are pages: the time is that of the pages.
    let per_page = |(nanos, _): &(f64, u64)| nanos / (LARGE_PAGE.0 / page_bytes().0) as f64;
    Ok(PageReading {
        small: small.iter().map(per_page).collect(),
        large: large.iter().map(|(nanos, _)| *nanos).collect(),
        refused: refused as u32,
        free_large,
    })
}

/// Nanoseconds and faults for each 2 MiB, until the time is over.
fn touch(pages: Pages, size: Bytes, limit: Duration) -> Result<Vec<(f64, u64)>, KernelError> {
    let mut buffer = Buffer::map(size, pages)?;
    let started = Instant::now();
    let mut touched = Vec::new();
    for number in 0..size.0 / LARGE_PAGE.0 {
        if started.elapsed() > limit {
            break;
        }
        let start = Bytes(number * LARGE_PAGE.0);
        let (faults, watched) = workers::watched(|| buffer.touch_pages(start, LARGE_PAGE));
        // Waiting for the kernel's own threads counts, waiting for another program's turn does not. Both look alike here:
        // what disturbed one of many pages is in the spread of all.
        touched.push((watched.elapsed.as_nanos() as f64, faults));
    }
    Ok(touched)
}
