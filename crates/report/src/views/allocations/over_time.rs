//! `allocations -g time`: the heap per second.

use analysis::heap::{HeapBin, heap_over_time, is_exact};

use super::super::columns::{figure, missing, name};
use super::{Request, empty, notes};
use crate::table::{Cell, CellStyle, Table};

pub(super) fn table(request: &Request<'_>) -> Table {
    let bins = heap_over_time(request.profile, request.selection);
    let columns = vec![
        name("start", "Start"),
        name("end", "End"),
        figure("allocations", "Allocations", "count"),
        figure("bytes_allocated", "Bytes allocated", "bytes"),
        figure("frees", "Frees", "count"),
        figure("bytes_freed", "Bytes freed", "bytes"),
        figure("live", "Live at the end of it", "bytes"),
    ];
    let row = |bin: &HeapBin| {
        let mut cells = vec![Cell::Seconds(bin.start.seconds()), Cell::Seconds(bin.end.seconds())];
        let figures = [&bin.allocations, &bin.bytes, &bin.frees, &bin.freed, &bin.live];
        cells.extend(figures.map(|metric| Cell::metric(metric.clone())));
        cells
    };
    Table {
        view: "allocations",
        result: request.options.result_name.clone(),
        rows: bins.iter().map(row).collect(),
        total: missing(columns.len()),
        columns,
        notes: remarks(request),
        title: request.title("heap allocations over time"),
        text_columns: vec![
            CellStyle::Start("start").titled("from"),
            CellStyle::Count("allocations").titled("blocks"),
            CellStyle::Bytes("bytes_allocated").titled("bytes"),
            CellStyle::Count("frees").titled("frees"),
            CellStyle::Bytes("bytes_freed").titled("freed"),
            CellStyle::Bytes("live").titled("live"),
            CellStyle::Bar("live").titled(""),
        ],
        page: usize::MAX,
        empty: empty(request),
    }
}

fn remarks(request: &Request<'_>) -> Vec<String> {
    let recording = request.profile.recording;
    let mut notes = Vec::new();
    if is_exact(recording) {
        notes.push(
            "Blocks were summed up about once a second. Seconds without a change have no row."
                .to_owned(),
        );
        notes.extend(notes::of_threads(request, &[]));
    } else if !recording.allocations.is_empty() {
        notes.push(
            "From blocks that have a record: large ones, and smaller ones drawn at random. `-k stacks=all` counts \
             every block."
                .to_owned(),
        );
    }
    notes.extend(notes::of_processes(request));
    notes
}
