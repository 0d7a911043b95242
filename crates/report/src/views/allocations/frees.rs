//! `allocations -g free-stack`: which code freed the blocks of an allocation site.

use analysis::Key;
use analysis::heap::{Freed, free_table, is_exact};
use facts::Metric;

use super::super::columns::{cells_of_key, figure, name, names, of_keys, short_columns};
use super::{Request, empty, keys_without, notes, total};
use crate::table::{Cell, CellStyle, Table};

pub(super) fn table(request: &Request<'_>, keys: &[Key]) -> Table {
    let profile = request.profile;
    let found = free_table(profile, request.selection, keys);
    let keys = keys_without(Key::FreeStack, keys);
    let mut columns = of_keys(&keys);
    columns.push(name("free_stack", "Freed by"));
    columns.extend([
        figure("allocations", "Allocations", "count"),
        figure("bytes_allocated", "Bytes allocated", "bytes"),
        figure("bytes_percent", "Share", "percent"),
    ]);
    let stack_of = |path| found.paths.names(&profile.stacks, path);
    let figures = |[blocks, bytes, share]: [&Metric; 3]| {
        [blocks, bytes, share].map(|metric| Cell::metric(metric.clone()))
    };
    let rows = found.rows.iter().map(|row| {
        let asked = row.key.stack.map(stack_of);
        let mut cells = cells_of_key(profile, &keys, &row.key, row.place, asked);
        cells.push(Cell::Stack(match row.freed {
            Freed::Stack(path) => stack_of(path),
            Freed::Never => vec!["(not freed)".to_owned()],
        }));
        cells.extend(figures([&row.allocations, &row.bytes, &row.bytes_percent]));
        cells
    });
    let mut text_columns = vec![
        CellStyle::Percent("bytes_percent").titled("share %"),
        CellStyle::Bytes("bytes_allocated").titled("bytes"),
        CellStyle::Count("allocations").titled("blocks"),
    ];
    // There is room for one stack: that of who asked is in JSON and CSV, its function in the text.
    text_columns.extend(short_columns(&without_stack(&keys), &keys));
    text_columns.push(CellStyle::Stack("free_stack").titled("freed by"));
    Table {
        view: "allocations",
        result: request.options.result_name.clone(),
        rows: rows.collect(),
        total: total(columns.len(), found.total.as_ref().map(|row| figures(row.each_ref()))),
        columns,
        notes: remarks(request, &keys),
        title: request.title(&format!("heap allocations by {} and free stack", names(&keys))),
        text_columns,
        page: 25,
        empty: if request.everything() && is_counted(request) {
            "`fathom collect memory-consumption -k stacks=all` records what frees blocks."
                .to_owned()
        } else {
            empty(request)
        },
    }
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
