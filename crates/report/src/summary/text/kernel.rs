//! Entries into the kernel as text, and what huge pages would change.

use super::{Page, figure, percent_with_error};
use crate::summary::Summary;
use crate::text::{count, percent, seconds};

/// From this share of the CPU time on, and this many a second, page faults are worth a remark.
const COSTLY_PERCENT: f64 = 3.0;
const COSTLY_PER_SECOND: f64 = 1000.0;
/// Huge pages that a process would fill on average.
const FILLED: f64 = 4.0;
/// Pages of 4 KiB in one of 2 MiB (x86-64, and Arm with pages of 4 KiB).
const SMALL_PAGES_IN_A_HUGE_ONE: f64 = 512.0;

pub(super) fn entries(summary: &Summary, page: &mut Page) {
    let found = &summary.kernel_entries;
    let (Some(entries), Some(rate)) = (found.count.value, found.per_second.value) else { return };
    page.heading("Entries into the kernel", "");
    page.entry("Entries", &format!("{} ({} per second)", count(entries), count(rate)));
    page.entry("  time in them", &(percent_with_error(&found.time_percent) + of(summary)));
    let [by_time, by_count] = &summary.extra.kernel_causes;
    if !by_time.is_empty() {
        page.entry("  most time", &by_time.join("; "));
    }
    page.entry("  most often", &by_count.join("; "));
    page.entry("Ready without CPU", &figure(&found.ready_without_cpu, seconds));
    if let Some(hint) = huge_page_hint(summary) {
        page.item(&hint);
    }
}

fn of(summary: &Summary) -> &'static str {
    match summary.kernel_entries.time_percent.value {
        Some(_) => " of the CPU time",
        None => "",
    }
}

/// Saving by huge pages, where page faults surely cost something, memory is mostly in small pages, and processes are large
/// enough to fill some: small memory, or memory shared with a file until it is written, gets none.
fn huge_page_hint(summary: &Summary) -> Option<String> {
    let time = &summary.page_faults.time_percent;
    let share = time.value.filter(|_| time.low.is_some_and(|low| low >= COSTLY_PERCENT))?;
    let faults = summary.page_faults.minor.value?;
    let rate = faults / summary.observed()?;
    let huge = summary.huge_page_share.value.unwrap_or(0.0);
    let small_pages = summary.host.page_bytes == 4096 && huge < 50.0;
    let processes = summary.processes.value.unwrap_or(1.0).max(1.0);
    let fills = faults / processes >= SMALL_PAGES_IN_A_HUGE_ONE * FILLED;
    (rate >= COSTLY_PER_SECOND && small_pages && fills).then(|| {
        format!(
            "{} % of the CPU time goes to {} page faults a second. With huge pages of 2 MiB there would be up to \
             {} times fewer: {} instead of {} (madvise MADV_HUGEPAGE, or GLIBC_TUNABLES=glibc.malloc.hugetlb=1).",
            percent(share),
            count(rate),
            count(SMALL_PAGES_IN_A_HUGE_ONE),
            count((faults / SMALL_PAGES_IN_A_HUGE_ONE).ceil()),
            count(faults)
        )
    })
}
