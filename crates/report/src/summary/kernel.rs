//! The part of the summary that comes from entries into the kernel.

use analysis::kernel::{EntryRow, entry_table, entry_time, kernel_figures};
use analysis::{Profile, Selection};
use facts::Metric;

use super::KernelSummary;
use crate::json::tidy;
use crate::text;

/// Causes that are named.
const TOP: usize = 4;

pub(super) fn kernel_part(profile: &Profile<'_>) -> KernelSummary {
    let found = kernel_figures(profile);
    let cpu = profile.cpu_scale().whole_quantity().value.filter(|cpu| *cpu > 0.0);
    let time_percent = match cpu {
        Some(cpu) if found.time.value.is_some() => {
            found.time.each("percent", |value| (value / cpu * 100.0).min(100.0))
        }
        _ => {
            let why = found.time.note.as_deref().unwrap_or("the CPU time is not known");
            Metric::unavailable("percent", why)
        }
    };
    KernelSummary {
        count: tidy(found.entries),
        per_second: tidy(found.per_second),
        time: tidy(found.time),
        time_percent: tidy(time_percent),
        switches: tidy(found.switches),
        ready_without_cpu: tidy(found.ready),
    }
}

/// Causes with the most time, and the most frequent ones, with their figures.
pub(super) fn top_causes(profile: &Profile<'_>) -> [Vec<String>; 2] {
    let table = entry_table(profile, &Selection::default(), &[], 1);
    let mut rows: Vec<(&EntryRow, String)> = table
        .rows
        .iter()
        .filter_map(|row| {
            let (cause, name) = row.key.cause.as_ref()?;
            cause.is_entry().then(|| (row, format!("{} {name}", cause.name())))
        })
        .collect();
    let timed = rows.iter().filter_map(|(row, name)| {
        let time = entry_time(profile, row).value.filter(|time| *time > 0.0)?;
        Some(format!("{name} {}", text::seconds(time)))
    });
    let by_time = timed.take(TOP).collect();
    rows.sort_by(|a, b| b.0.count.cmp(&a.0.count).then_with(|| a.1.cmp(&b.1)));
    let counted = rows.iter().filter(|(row, _)| row.count > 0);
    let by_count =
        counted.take(TOP).map(|(row, name)| format!("{name} {}", text::count(row.count as f64)));
    [by_time, by_count.collect()]
}
