//! `allocations -g lifetime`: how long the blocks of each row lived.

use analysis::Key;
use analysis::heap::{LifetimeRow, Lived, is_exact, lifetime_table};
use base::Nanos;

use super::super::columns::{figure, name, names, short_columns};
use super::{Request, empty, key_cells, key_columns, keys_without, notes, total};
use crate::table::{Cell, CellStyle, Table, TextColumn};
use crate::text;

pub(super) fn table(request: &Request<'_>, keys: &[Key]) -> Table {
    let profile = request.profile;
    let found = lifetime_table(profile, request.selection, keys);
    let keys = keys_without(Key::Lifetime, keys);
    let mut columns = key_columns(&keys);
    columns.extend([
        name("lifetime_class", "Lifetime"),
        name("lifetime_from", "From"),
        name("lifetime_to", "To"),
    ]);
    columns.extend([
        figure("allocations", "Allocations", "count"),
        figure("allocations_percent", "Share of blocks", "percent"),
        figure("bytes_allocated", "Bytes allocated", "bytes"),
        figure("bytes_percent", "Share", "percent"),
        figure("temporary_percent", "Temporary", "percent"),
    ]);
    let rows = found.rows.iter().map(|row| {
        let stack = row.key.stack.map(|path| found.paths.names(&profile.stacks, path));
        let mut cells = key_cells(profile, &keys, &row.key, row.place, stack);
        cells.extend(class(row.lived));
        cells.extend(figures(row));
        cells
    });
    Table {
        view: "allocations",
        result: request.options.result_name.clone(),
        rows: rows.collect(),
        total: total(columns.len(), found.total.as_ref().map(figures)),
        columns,
        notes: remarks(request),
        title: request.title(&format!("heap allocations by {} and lifetime", names(&keys))),
        text_columns: text_columns(&keys),
        page: 50,
        empty: if is_old(request) {
            "This result was recorded before lifetimes were kept.".to_owned()
        } else {
            empty(request)
        },
    }
}

fn text_columns(keys: &[Key]) -> Vec<TextColumn> {
    let mut text_columns = vec![
        CellStyle::Count("allocations").titled("blocks"),
        CellStyle::Percent("allocations_percent").titled("of blocks %"),
        CellStyle::Bytes("bytes_allocated").titled("bytes"),
        CellStyle::Percent("temporary_percent").titled("temporary %"),
        CellStyle::Figure("lifetime_class").titled("lived"),
    ];
    if keys.contains(&Key::Call) {
        text_columns.push(CellStyle::Text("call").titled("call"));
    }
    text_columns.extend(short_columns(keys, keys));
    text_columns
}

/// The class in words, and its ends.
fn class(lived: Lived) -> [Cell; 3] {
    match lived.range() {
        Some((shortest, longest)) => [
            // By where the next class begins: a power of two reads better than what is one less.
            Cell::text(format!(
                "< {}",
                text::seconds(Nanos(longest.0.saturating_add(1)).seconds())
            )),
            Cell::Seconds(shortest.seconds()),
            Cell::Seconds(longest.seconds()),
        ],
        None => [Cell::text("(not freed)"), Cell::Missing, Cell::Missing],
    }
}

fn figures(row: &LifetimeRow) -> [Cell; 5] {
    [&row.allocations, &row.allocations_percent, &row.bytes, &row.bytes_percent, &row.temporary]
        .map(|metric| Cell::metric(metric.clone()))
}

/// Whether blocks were freed whose lifetimes the result does not hold.
fn is_old(request: &Request<'_>) -> bool {
    let recording = request.profile.recording;
    let freed = recording.heap_stacks.iter().any(|sum| sum.frees > 0);
    freed && recording.heap_lifetimes.is_empty()
}

fn remarks(request: &Request<'_>) -> Vec<String> {
    let recording = request.profile.recording;
    if recording.heap_totals.is_empty() {
        return Vec::new();
    }
    let mut remarks = vec![
        "Each class ends at twice the lifetime of the one before. Blocks live at the end are `(not freed)`."
            .to_owned(),
    ];
    if is_exact(recording) {
        remarks.push(
            "Every block was recorded. Temporary: freed by the thread that allocated it, before its next \
             allocation."
                .to_owned(),
        );
        remarks.push(
            "Lifetimes are known to a microsecond or two: shorter ones are not distinguished."
                .to_owned(),
        );
        remarks.extend(notes::of_freeing_time(request));
        remarks.extend(notes::of_threads(request, &[]));
    } else {
        let least = recording.run.knobs.get("mem-object-size-min-thres");
        let least = least.map_or_else(String::new, |bytes| format!(" ({bytes} bytes or more)"));
        remarks.push(format!(
            "Large blocks only{least}: each of them has a record. `-k stacks=all` counts every block. Temporary: \
             freed within 1 ms."
        ));
    }
    remarks.extend(notes::of_processes(request));
    remarks
}
