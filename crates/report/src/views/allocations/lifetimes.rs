//! `allocations -g lifetime`: how long the blocks of each row lived.

use analysis::Key;
use analysis::heap::{LifetimeRow, Lived, is_exact, lifetime_table};
use base::Nanos;

use super::super::columns::{names, short_columns};
use super::super::list::{BYTES, COUNT, Columns, PERCENT};
use super::{Request, empty, keys_without, notes};
use crate::table::{Cell, CellStyle, Table};
use crate::text;

pub(super) fn table(request: &Request<'_>, keys: &[Key]) -> Table {
    let profile = request.profile;
    let found = lifetime_table(profile, request.selection, keys);
    let keys = keys_without(Key::Lifetime, keys);
    let mut columns =
        Columns::by(request, &keys, Some(&found.paths), |row: &LifetimeRow| (&row.key, row.place));
    columns.name("lifetime_class", "Lifetime", CellStyle::Figure, "lived", |row| class(row.lived));
    let mut end = |key, label, end: fn((Nanos, Nanos)) -> Nanos| {
        columns.name(key, label, CellStyle::Start, "", move |row| {
            row.lived.range().map_or(Cell::Missing, |range| Cell::Seconds(end(range).seconds()))
        });
    };
    end("lifetime_from", "From", |(shortest, _)| shortest);
    end("lifetime_to", "To", |(_, longest)| longest);
    columns.end_of_names();
    columns.figure("allocations", "Allocations", COUNT, "blocks", |row| &row.allocations);
    columns.figure("allocations_percent", "Share of blocks", PERCENT, "of blocks %", |row| {
        &row.allocations_percent
    });
    columns.figure("bytes_allocated", "Bytes allocated", BYTES, "bytes", |row| &row.bytes);
    columns.figure("bytes_percent", "Share", PERCENT, "", |row| &row.bytes_percent);
    columns.figure("temporary_percent", "Temporary", PERCENT, "temporary %", |row| &row.temporary);
    columns.show(&["allocations", "allocations_percent", "bytes_allocated", "temporary_percent"]);
    columns.show(&["lifetime_class"]);
    columns.text.extend(short_columns(&keys, &keys));
    let by = format!("heap allocations by {} and lifetime", names(&keys));
    Table {
        total: columns.total(found.total.as_ref()),
        notes: remarks(request),
        page: 50,
        empty: if is_old(request) {
            "This result was recorded before lifetimes were kept.".to_owned()
        } else {
            empty(request)
        },
        ..columns.table(request, "allocations", &by, &found.rows)
    }
}

/// The class in words.
fn class(lived: Lived) -> Cell {
    Cell::text(match lived.range() {
        // By where the next class begins: a power of two reads better than what is one less.
        Some((_, Nanos(longest))) => {
            format!("< {}", text::seconds(Nanos(longest.saturating_add(1)).seconds()))
        }
        None => "(not freed)".to_owned(),
    })
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
