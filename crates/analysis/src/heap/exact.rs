//! Rows from sums over every block: what exact mode records ([`facts::HeapStack`]).
//!
//! What for: the same table as for recorded blocks, but counted. Rows of one call chain are differences and are added, except for
//! what was live at the process's peak: the last row holds that.
//! What not: threads. Sums are per process, so a filter counts only for processes of which it selects every thread. A filter on
//! time selects rows by when they were summed up, to the second.

use std::collections::{BTreeMap, HashMap};

use facts::{LostSource, Metric, Recording};

use super::{HeapRow, HeapTable, asked_by, busiest, counted_total, heap_allocated, percent};
use crate::hotspots::{Key, RowKey};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::LocationId;

/// Whether every block of a recording was summed up.
#[must_use]
pub fn is_exact(recording: &Recording) -> bool {
    !recording.heap_stacks.is_empty()
}

/// What is summed up for a row.
#[derive(Default)]
struct Sums {
    allocations: u64,
    bytes: u64,
    frees: u64,
    freed: u64,
    temporary: u64,
    lifetime: f64,
    at_peak: u64,
    places: BTreeMap<LocationId, u64>,
}

pub(super) fn table(profile: &Profile<'_>, selection: &Selection, keys: &[Key]) -> HeapTable {
    let recording = profile.recording;
    let paths = keys.contains(&Key::CallStack).then(|| profile.stacks.call_paths());
    let mut sums: BTreeMap<RowKey, Sums> = BTreeMap::new();
    let mut all = Sums::default();
    let mut peaks: HashMap<_, (RowKey, u64)> = HashMap::new();
    for fact in &recording.heap_stacks {
        if !selection.has_whole_process(profile, fact.pid) || !selection.has_time(fact.time) {
            continue;
        }
        let asked = asked_by((profile, selection), (keys, paths.as_ref()), fact.stack, fact.call);
        let Some((mut key, place)) = asked else { continue };
        key.process = keys.contains(&Key::Process).then_some(fact.pid);
        for row in [sums.entry(key).or_default(), &mut all] {
            row.allocations = row.allocations.saturating_add(fact.allocations);
            row.bytes = row.bytes.saturating_add(fact.allocated.0);
            row.frees = row.frees.saturating_add(fact.frees);
            row.freed = row.freed.saturating_add(fact.freed.0);
            row.temporary = row.temporary.saturating_add(fact.temporary);
            row.lifetime += fact.lifetime.seconds();
            let of_place = row.places.entry(place).or_default();
            *of_place = of_place.saturating_add(fact.allocated.0);
        }
        // The peak of a chain is that of its last row: rows before state the peak until then.
        peaks.insert((fact.pid, fact.stack, fact.call), (key, fact.at_peak.0));
    }
    for (key, at_peak) in peaks.into_values() {
        for row in sums.get_mut(&key).into_iter().chain([&mut all]) {
            row.at_peak = row.at_peak.saturating_add(at_peak);
        }
    }
    let lost = recording.lost(LostSource::Allocations);
    let whole = heap_allocated(recording).1.value.filter(|bytes| *bytes > 0.0);
    let mut rows: Vec<HeapRow> =
        sums.iter().map(|(key, sums)| row(*key, sums, lost, whole, all.at_peak)).collect();
    rows.sort_by(|a, b| b.bytes.value.unwrap_or(0.0).total_cmp(&a.bytes.value.unwrap_or(0.0)));
    let mut total =
        (all.allocations > 0).then(|| row(RowKey::default(), &all, lost, whole, all.at_peak));
    if !selection.chooses_anything() {
        total = total.map(|total| counted_total(recording, total, whole));
    }
    HeapTable { rows, total, paths }
}

/// `whole`: bytes of all rows; `peak`: those at the peaks.
fn row(key: RowKey, sums: &Sums, lost: u64, whole: Option<f64>, peak: u64) -> HeapRow {
    let counted = |value: f64, unit: &str, samples: u64| Metric {
        samples,
        ..Metric::counted(value, unit).with_lost(lost)
    };
    let bytes = counted(sums.bytes as f64, "bytes", sums.allocations);
    HeapRow {
        key,
        place: busiest(&sums.places),
        allocations: counted(sums.allocations as f64, "count", sums.allocations),
        bytes_percent: percent(&bytes, whole),
        bytes,
        peak: counted(sums.at_peak as f64, "bytes", sums.allocations),
        peak_percent: match peak {
            0 => Metric::unavailable("percent", "no block was live at a peak"),
            peak => counted(sums.at_peak as f64 / peak as f64 * 100.0, "percent", sums.allocations),
        },
        live: counted(sums.bytes.saturating_sub(sums.freed) as f64, "bytes", sums.allocations),
        live_blocks: counted(
            sums.allocations.saturating_sub(sums.frees) as f64,
            "count",
            sums.allocations,
        ),
        lifetime: if sums.frees > 0 {
            counted(sums.lifetime / sums.frees as f64, "s", sums.frees)
        } else {
            Metric::unavailable("s", "no block of it was freed")
        },
        temporary: if sums.allocations > 0 {
            let share = sums.temporary as f64 / sums.allocations as f64 * 100.0;
            counted(share, "percent", sums.allocations)
        } else {
            Metric::unavailable("percent", "no block of it was allocated")
        },
    }
}
