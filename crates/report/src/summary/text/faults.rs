//! Page faults, and the largest amounts of memory: resident, on the heap, in huge pages.

use facts::{Evidence, Metric};

use super::{Page, Summary, figure, percent_with_error};
use crate::text::{bytes, count, percent, printable, shorten_function, shorten_path};

pub(super) fn memory_and_faults(summary: &Summary, page: &mut Page) {
    let faults = &summary.page_faults;
    page.heading("Page faults and memory", "");
    page.entry("Page faults", &fault_counts(summary));
    let how = faults.time_percent.evidence.map_or(String::new(), |evidence| match evidence {
        Evidence::Estimated => {
            " of the CPU time (estimated: count × measured cost of one)".to_owned()
        }
        _ => " of the CPU time".to_owned(),
    });
    let note = faults.time.note.as_ref().filter(|_| faults.minor.high == Some(0.0));
    let how = how + &note.map_or(String::new(), |note| format!(", {note}"));
    page.entry("  time in them", &(percent_with_error(&faults.time_percent) + &how));
    if let Some(top) = &summary.extra.top_faults {
        let line = top.line.map(|line| format!(":{line}")).unwrap_or_default();
        let place = top
            .file
            .as_ref()
            .map(|file| format!(" ({}{line})", shorten_path(&printable(file), 36)));
        let function = shorten_function(&printable(&top.function), 30);
        let of_them = format!("{} % of them", percent(top.percent));
        page.entry("  most in", &format!("{function}{}, {of_them}", place.unwrap_or_default()));
    }
    page.entry(
        "Largest size",
        &figure(&summary.peak_resident, |value| match between(&summary.peak_resident) {
            // The pages of bursts are in the kernel's figure, if they were there at that time.
            Some((low, high)) => format!("{} resident", range(&bytes(low), &bytes(high))),
            None => format!("{} resident", bytes(value)),
        }),
    );
    let heap = &summary.heap;
    if let (Some(blocks), Some(total), Some(_)) =
        (heap.allocations.value, heap.bytes_allocated.value, heap.peak_bytes.value)
    {
        let plural = if blocks == 1.0 { "" } else { "s" };
        let (blocks, total, peak) = (count(blocks), bytes(total), most_live(summary));
        page.entry("Heap", &format!("peak {peak}; {total} in {blocks} block{plural} in total"));
        let pages = |metric: &Metric| metric.value.filter(|pages| *pages > 0.0).map(count);
        if let (Some(small), Some(large)) =
            (pages(&heap.huge_pages_2mb), pages(&heap.huge_pages_1gb))
        {
            let held = format!("{small} of 2 MB, or {large} of 1 GB, would hold the peak");
            page.entry("  as huge pages", &held);
        }
    }
    page.entry(
        "In huge pages",
        &figure(&summary.huge_page_share, |value| {
            format!("{} % of anonymous memory", percent(value))
        }),
    );
}

/// The most that was live on the heap.
pub(super) fn most_live(summary: &Summary) -> String {
    let peak = &summary.heap.peak_bytes;
    match (peak.evidence, peak.low, peak.high) {
        (Some(Evidence::Sampled), Some(low), Some(high)) => range(&bytes(low), &bytes(high)),
        _ => figure(peak, bytes),
    }
}

/// The bounds of a count that is not exact.
fn between(metric: &Metric) -> Option<(f64, f64)> {
    let counted = metric.evidence == Some(Evidence::Counted);
    metric.low.zip(metric.high).filter(|(low, high)| counted && low < high)
}

fn fault_counts(summary: &Summary) -> String {
    let faults = &summary.page_faults;
    if faults.minor.value.is_none() && faults.major.value.is_none() {
        return figure(&faults.minor, count);
    }
    let rate = faults.minor.value.zip(summary.observed());
    // A few over seconds are not none a second.
    let rate = rate.map(|(minor, observed)| minor / observed).filter(|rate| *rate >= 0.5);
    let rate = rate.map(|rate| format!(" ({} per second)", count(rate)));
    let minor = match between(&faults.minor) {
        Some((low, high)) => range(&count(low), &count(high)),
        None => figure(&faults.minor, count),
    };
    format!(
        "{minor} minor{}, {} major (waited for a disk)",
        rate.unwrap_or_default(),
        figure(&faults.major, count)
    )
}

/// `91 to 107`; once where both are written alike.
fn range(low: &str, high: &str) -> String {
    if low == high { low.to_owned() } else { format!("{low} to {high}") }
}
