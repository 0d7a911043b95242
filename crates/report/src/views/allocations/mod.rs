//! `allocations`: heap blocks per key.

use analysis::Key;
use analysis::heap::{HeapRow, HeapSums, heap_sums, heap_table};
use analysis::summary::huge_page_share;

use super::Request;
use super::columns::{cells_of_key, figure, missing, names, of_keys, short_looks};
use crate::table::{Cell, Look, Table};
use crate::text;

pub(crate) fn allocations(request: &Request<'_>) -> Table {
    let profile = request.profile;
    let keys: &[Key] = match request.options.group.as_slice() {
        [] => &[Key::Function],
        keys => keys,
    };
    let found = heap_table(profile, request.selection, keys);
    let mut columns = of_keys(keys);
    let key_columns = columns.len();
    columns.extend([
        figure("allocations", "Allocations", "count"),
        figure("bytes_allocated", "Bytes allocated", "bytes"),
        figure("bytes_percent", "Share", "percent"),
        figure("peak_bytes", "Peak", "bytes"),
        figure("live_at_end", "Live at the end", "bytes"),
        figure("lifetime", "Mean lifetime", "s"),
        figure("temporary_percent", "Temporary", "percent"),
    ]);
    let rows = found.rows.iter().map(|row| {
        let stack = row.key.stack.zip(found.paths.as_ref()).map(|(path, paths)| {
            let name = |id: analysis::FunctionId| profile.stacks.functions[id.index()].name.clone();
            paths.functions(path).map(name).collect()
        });
        let mut cells = cells_of_key(profile, keys, &row.key, row.place, stack);
        cells.extend(figures(row));
        cells
    });
    let mut total = missing(key_columns);
    match &found.total {
        Some(row) => total.extend(figures(row)),
        None => total.extend(missing(columns.len() - key_columns)),
    }
    let mut shown = vec![
        (Look::Percent("bytes_percent"), "share %"),
        (Look::Bytes("bytes_allocated"), "bytes"),
        (Look::Count("allocations"), "blocks"),
        (Look::Bytes("peak_bytes"), "peak"),
        (Look::Bytes("live_at_end"), "at end"),
    ];
    shown.extend(short_looks(keys, keys));
    let by = names(keys);
    let sums = heap_sums(profile.recording);
    let table = Table {
        view: "allocations",
        result: request.options.result_name.clone(),
        columns,
        rows: rows.collect(),
        total,
        notes: notes(request, &sums),
        title: request.title(&format!("heap allocations by {by}")),
        looks: shown,
        page: 25,
        empty: match sums.bytes.note {
            Some(why) if request.everything() => format!("No heap blocks were recorded: {why}."),
            _ if request.everything() => "No heap blocks were recorded.".to_owned(),
            _ => "No recorded heap blocks match the filter.".to_owned(),
        },
    };
    table.limited(request.options.limit)
}

fn figures(row: &HeapRow) -> [Cell; 7] {
    [
        Cell::metric(row.allocations.clone()),
        Cell::metric(row.bytes.clone()),
        Cell::metric(row.bytes_percent.clone()),
        Cell::metric(row.peak.clone()),
        Cell::metric(row.live.clone()),
        Cell::metric(row.lifetime.clone()),
        Cell::metric(row.temporary.clone()),
    ]
}

fn notes(request: &Request<'_>, sums: &HeapSums) -> Vec<String> {
    let recording = request.profile.recording;
    let (Some(bytes), Some(peak)) = (sums.bytes.value, sums.peak.value) else { return Vec::new() };
    let mut notes = vec![
        format!("In total {bytes:.0} bytes were allocated (counted at every call)."),
        format!(
            "Huge pages: all of it would fill {} pages of 2 MB or {} of 1 GB, its peak {} of 2 MB.",
            pages(bytes, 2 << 20),
            pages(bytes, 1 << 30),
            pages(peak, 2 << 20)
        ),
    ];
    if let Some(share) = huge_page_share(request.profile).value {
        let share = text::percent(share);
        notes.push(format!(
            "{share} % of the program's anonymous memory was in huge pages already."
        ));
    }
    let unknown: u64 = recording.heap_totals.iter().map(|total| total.unknown_frees).sum();
    if unknown > 0 {
        notes.push(format!("{unknown} frees were of blocks that nobody saw being allocated."));
    }
    let forgotten: u64 = recording.heap_totals.iter().map(|total| total.forgotten).sum();
    if forgotten > 0 {
        notes.push(format!("The sizes of {forgotten} blocks were not kept for want of memory: live bytes are too high."));
    }
    if analysis::heap::is_exact(recording) {
        notes.push(
            "Every block was recorded. Peak: what of a row was live when its process had the most. Temporary: freed by the thread that asked for it before it asked for another."
                .to_owned(),
        );
    }
    let lost = recording.lost(facts::LostSource::Allocations);
    if lost > 0 {
        notes.push(format!(
            "{lost} records of blocks were lost: rows are too low, the total is not."
        ));
    }
    notes
}

/// Pages of `size` bytes that hold so many bytes.
fn pages(bytes: f64, size: u64) -> u64 {
    // `as` saturates; the sums are whole numbers.
    (bytes as u64).div_ceil(size)
}
