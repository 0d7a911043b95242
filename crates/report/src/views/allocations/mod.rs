//! `allocations`: heap blocks per key, by free stack, by size, by lifetime, and over time.

mod frees;
mod lifetimes;
mod notes;
mod over_time;
mod size_classes;

use analysis::Key;
use analysis::heap::{HeapRow, heap_allocated, heap_table};

use super::Request;
use super::columns::{names, short_columns};
use super::list::{BYTES, COUNT, Columns, PERCENT, SECONDS};
use crate::table::Table;

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
    let paths = found.paths.as_ref();
    let mut columns = Columns::by(request, keys, paths, |row: &HeapRow| (&row.key, row.place));
    columns.figure("allocations", "Allocations", COUNT, "blocks", |row| &row.allocations);
    columns.figure("bytes_allocated", "Bytes allocated", BYTES, "bytes", |row| &row.bytes);
    columns.figure("bytes_percent", "Share", PERCENT, "share %", |row| &row.bytes_percent);
    columns.figure("peak_bytes", "Peak", BYTES, "peak", |row| &row.peak);
    columns.figure("peak_percent", "Share of the peak", PERCENT, "", |row| &row.peak_percent);
    columns.figure("live_at_end", "Live at the end", BYTES, "at end", |row| &row.live);
    columns.figure("live_blocks", "Blocks live at the end", COUNT, "", |row| &row.live_blocks);
    columns.figure("lifetime", "Mean lifetime", SECONDS, "lifetime", |row| &row.lifetime);
    columns.figure("temporary_percent", "Temporary", PERCENT, "temporary %", |row| &row.temporary);
    columns.show(&["bytes_percent", "bytes_allocated", "allocations", "peak_bytes", "live_at_end"]);
    // Where rows have short names, there is room.
    if keys.iter().all(|key| matches!(key, Key::Call | Key::Process | Key::Thread)) {
        columns.show(&["lifetime", "temporary_percent"]);
    }
    columns.text.extend(short_columns(keys, keys));
    let by = format!("heap allocations by {}", names(keys));
    Table {
        total: columns.total(found.total.as_ref()),
        notes: notes::of_code(request, keys, &found),
        empty: empty(request),
        ..columns.table(request, "allocations", &by, &found.rows)
    }
}

/// Those of `keys` that say which code asked for blocks, where `other` divides the rows further; functions when there is none.
fn keys_without(other: Key, keys: &[Key]) -> Vec<Key> {
    let keys: Vec<Key> = keys.iter().copied().filter(|key| *key != other).collect();
    if keys.is_empty() { vec![Key::Function] } else { keys }
}

/// What to say of a table without rows.
fn empty(request: &Request<'_>) -> String {
    match heap_allocated(request.profile.recording).1.note {
        Some(why) if request.everything() => format!("No heap blocks were recorded: {why}."),
        _ if request.everything() => "No heap blocks were recorded.".to_owned(),
        _ => "No recorded heap blocks match the filter.".to_owned(),
    }
}
