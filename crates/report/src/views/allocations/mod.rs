//! `allocations`: heap blocks per key, by free stack, by size, by lifetime, and over time.

mod frees;
mod lifetimes;
mod notes;
mod over_time;
mod size_classes;

use analysis::heap::{HeapRow, heap_sums, heap_table};
use analysis::{Key, LocationId, Profile, RowKey};

use super::Request;
use super::columns::{cells_of_key, figure, missing, name, names, of_keys, short_columns};
use crate::table::{Cell, CellStyle, Column, Table, TextColumn};

pub(crate) fn allocations(request: &Request<'_>) -> Table {
    let keys = request.options.group.as_slice();
    let has = |key| keys.contains(&key);
    match keys {
        [] => by_code(request, &[Key::Function]),
        _ if has(Key::Time) => over_time::table(request),
        _ if has(Key::SizeClass) => size_classes::table(request, has(Key::Process)),
        _ if has(Key::FreeStack) => frees::table(request, keys),
        _ if has(Key::Lifetime) => lifetimes::table(request, keys),
        keys => by_code(request, keys),
    }
}

fn by_code(request: &Request<'_>, keys: &[Key]) -> Table {
    let profile = request.profile;
    let found = heap_table(profile, request.selection, keys);
    let mut columns = key_columns(keys);
    columns.extend([
        figure("allocations", "Allocations", "count"),
        figure("bytes_allocated", "Bytes allocated", "bytes"),
        figure("bytes_percent", "Share", "percent"),
        figure("peak_bytes", "Peak", "bytes"),
        figure("peak_percent", "Share of the peak", "percent"),
        figure("live_at_end", "Live at the end", "bytes"),
        figure("live_blocks", "Blocks live at the end", "count"),
        figure("lifetime", "Mean lifetime", "s"),
        figure("temporary_percent", "Temporary", "percent"),
    ]);
    let rows = found.rows.iter().map(|row| {
        let stack = row
            .key
            .stack
            .zip(found.paths.as_ref())
            .map(|(path, paths)| paths.names(&profile.stacks, path));
        let mut cells = key_cells(profile, keys, &row.key, row.place, stack);
        cells.extend(figures(row));
        cells
    });
    Table {
        view: "allocations",
        result: request.options.result_name.clone(),
        total: total(columns.len(), found.total.as_ref().map(figures)),
        columns,
        rows: rows.collect(),
        notes: notes::of_code(request, keys, &found),
        title: request.title(&format!("heap allocations by {}", names(keys))),
        text_columns: text_columns(keys),
        page: 25,
        empty: empty(request),
    }
}

/// A call comes first: it is no part of the code's columns.
fn key_columns(keys: &[Key]) -> Vec<Column> {
    let call = keys.contains(&Key::Call).then_some(name("call", "Call"));
    call.into_iter().chain(of_keys(keys)).collect()
}

/// The cells of [`key_columns`].
fn key_cells(
    profile: &Profile<'_>,
    keys: &[Key],
    key: &RowKey,
    place: LocationId,
    stack: Option<Vec<String>>,
) -> Vec<Cell> {
    let call = key.call.map(|call| Cell::text(call.name()));
    call.into_iter().chain(cells_of_key(profile, keys, key, place, stack)).collect()
}

/// Of `keys`, those that say who asked for blocks, where rows are parted by `other` besides; functions when there is none.
fn keys_without(other: Key, keys: &[Key]) -> Vec<Key> {
    let keys: Vec<Key> = keys.iter().copied().filter(|key| *key != other).collect();
    if keys.is_empty() { vec![Key::Function] } else { keys }
}

/// The total row of a table with this many columns, whose figures come last. Without rows there are none.
fn total<const N: usize>(columns: usize, figures: Option<[Cell; N]>) -> Vec<Cell> {
    let mut cells = missing(columns - N);
    match figures {
        Some(figures) => cells.extend(figures),
        None => cells.extend(missing(N)),
    }
    cells
}

fn text_columns(keys: &[Key]) -> Vec<TextColumn> {
    let mut shown = vec![
        CellStyle::Percent("bytes_percent").titled("share %"),
        CellStyle::Bytes("bytes_allocated").titled("bytes"),
        CellStyle::Count("allocations").titled("blocks"),
        CellStyle::Bytes("peak_bytes").titled("peak"),
        CellStyle::Bytes("live_at_end").titled("at end"),
    ];
    // Where rows have short names, there is room.
    if keys.iter().all(|key| matches!(key, Key::Call | Key::Process | Key::Thread)) {
        shown.extend([
            CellStyle::Time("lifetime").titled("lifetime"),
            CellStyle::Percent("temporary_percent").titled("temporary %"),
        ]);
    }
    if keys.contains(&Key::Call) {
        shown.push(CellStyle::Text("call").titled("call"));
    }
    shown.extend(short_columns(keys, keys));
    shown
}

/// What to say of a table without rows.
fn empty(request: &Request<'_>) -> String {
    match heap_sums(request.profile.recording).bytes.note {
        Some(why) if request.everything() => format!("No heap blocks were recorded: {why}."),
        _ if request.everything() => "No heap blocks were recorded.".to_owned(),
        _ => "No recorded heap blocks match the filter.".to_owned(),
    }
}

fn figures(row: &HeapRow) -> [Cell; 9] {
    [
        &row.allocations,
        &row.bytes,
        &row.bytes_percent,
        &row.peak,
        &row.peak_percent,
        &row.live,
        &row.live_blocks,
        &row.lifetime,
        &row.temporary,
    ]
    .map(|metric| Cell::metric(metric.clone()))
}
