//! `allocations -g free-stack`: which code freed the blocks of an allocation site.

use analysis::Key;
use analysis::heap::{FreeRow, Freed, free_table, is_exact};

use super::super::columns::{names, short_columns};
use super::super::list::{BYTES, COUNT, Columns, PERCENT};
use super::{Request, empty, keys_without, notes};
use crate::table::{Cell, CellStyle, Table};

pub(super) fn table(request: &Request<'_>, keys: &[Key]) -> Table {
    let profile = request.profile;
    let found = free_table(profile, request.selection, keys);
    let keys = keys_without(Key::FreeStack, keys);
    let mut columns =
        Columns::by(request, &keys, Some(&found.paths), |row: &FreeRow| (&row.key, row.place));
    columns.name("free_stack", "Freed by", CellStyle::Stack, "freed by", |row| {
        Cell::Stack(match row.freed {
            Freed::Stack(path) => found.paths.names(&profile.stacks, path),
            Freed::Never => vec!["(not freed)".to_owned()],
        })
    });
    columns.figure("allocations", "Allocations", COUNT, "blocks", |row| &row.allocations);
    columns.figure("bytes_allocated", "Bytes allocated", BYTES, "bytes", |row| &row.bytes);
    columns.figure("bytes_percent", "Share", PERCENT, "share %", |row| &row.bytes_percent);
    columns.show(&["bytes_percent", "bytes_allocated", "allocations"]);
    // There is room for one stack: that of who asked is in JSON and CSV, its function in the text.
    columns.text.extend(short_columns(&without_stack(&keys), &keys));
    columns.show(&["free_stack"]);
    let by = format!("heap allocations by {} and free stack", names(&keys));
    let mut table = Table {
        notes: remarks(request, &keys),
        empty: if request.everything() && is_counted(request) {
            "`fathom collect memory-consumption -k stacks=all` records what frees blocks."
                .to_owned()
        } else {
            empty(request)
        },
        ..columns.table(request, "allocations", &by, &found.rows)
    };
    for (key, sum) in ["allocations", "bytes_allocated", "bytes_percent"]
        .into_iter()
        .zip(found.total.into_iter().flatten())
    {
        table.set_total(key, sum);
    }
    table
}

fn without_stack(keys: &[Key]) -> Vec<Key> {
    keys.iter().copied().filter(|key| *key != Key::CallStack).collect()
}

/// Whether blocks were counted, but not all recorded.
fn is_counted(request: &Request<'_>) -> bool {
    let recording = request.profile.recording;
    !recording.heap_totals.is_empty() && !is_exact(recording)
}

fn remarks(request: &Request<'_>, keys: &[Key]) -> Vec<String> {
    if !is_exact(request.profile.recording) {
        return Vec::new();
    }
    let mut notes = vec![
        "A row has the blocks of its code that one call stack freed. Blocks live at the end are `(not freed)`."
            .to_owned(),
    ];
    notes.extend(notes::of_freeing_time(request));
    notes.extend(notes::of_threads(request, keys));
    notes.extend(notes::of_processes(request));
    notes
}
