//! The cost of a minor page fault: touching fresh anonymous memory, page by page, on one CPU.
//!
//! What for: it includes the kernel's work for the fault, above all zeroing the page; for 2 MB pages that is nearly
//! everything. What not: freeing the memory.

use base::Bytes;
use facts::Metric;
use facts::host::Calibration;
use sys::kernels::{Buffer, KernelError, Pages, page_bytes};
use sys::process::thread_cpu_time;

use crate::plan::Plan;
use crate::statistics::median_metric;
use crate::workers;

/// Repeats, and sizes: large enough that the work per call does not count, small enough to be free on most machines.
const REPEATS: usize = 9;
const BASE_SIZE: Bytes = Bytes(16 << 20);
const HUGE_SIZE: Bytes = Bytes(64 << 20);
const HUGE_PAGE: u64 = 2 << 20;

/// Measures both page sizes.
pub(crate) fn measure(plan: &Plan, calibration: &mut Calibration) {
    if plan.memory < HUGE_SIZE {
        calibration
            .notes
            .push(format!("no page-fault cost: less than {HUGE_SIZE} are free for it"));
        return;
    }
    let outcome = workers::alone(plan.cpus[0], || {
        let base = cost(Pages::Base, BASE_SIZE, page_bytes())?;
        let huge = cost(Pages::Huge, HUGE_SIZE, Bytes(HUGE_PAGE))?;
        Ok::<_, KernelError>((base, huge))
    });
    match outcome {
        Ok(Ok((base, huge))) => {
            if base.is_none() {
                calibration.notes.push(
                    "no cost of a base-page fault: the kernel maps several pages per fault"
                        .to_owned(),
                );
            }
            if huge.is_none() {
                calibration.notes.push("no cost of a 2 MB fault: the kernel gives no such pages (transparent_hugepage is never, or memory is fragmented)".to_owned());
            }
            calibration.page_fault_4k = base;
            calibration.page_fault_2m = huge;
        }
        Ok(Err(error)) | Err(error) => {
            calibration.notes.push(format!("no page-fault cost: {error}"))
        }
    }
}

/// Nanoseconds per fault; `None` when the number of faults is not one per page within 10 %.
fn cost(pages: Pages, size: Bytes, page: Bytes) -> Result<Option<Metric>, KernelError> {
    let mut samples = Vec::new();
    for _ in 0..REPEATS {
        let mut buffer = Buffer::map(size, pages)?;
        // CPU time: it includes the kernel's work for us, and not what other programs do in between.
        let before = thread_cpu_time();
        let faults = buffer.touch_each_page();
        let cost = thread_cpu_time().saturating_sub(before);
        let expected = (buffer.size().0 / page.0) as f64;
        if (faults as f64 - expected).abs() <= 0.1 * expected + 2.0 {
            samples.push(cost.0 as f64 / faults.max(1) as f64);
        }
    }
    Ok((!samples.is_empty()).then(|| median_metric(&samples, "ns")))
}
