//! `allocations -g time`: the heap per second.

use analysis::heap::{HeapBin, heap_over_time, is_exact};

use super::super::list::{BYTES, COUNT, Columns};
use super::{Request, empty, notes};
use crate::table::{Cell, CellStyle, Table};

pub(super) fn table(request: &Request<'_>) -> Table {
    let bins = heap_over_time(request.profile, request.selection);
    let mut columns = Columns::new();
    columns.name("start", "Start", CellStyle::Start, "from", |bin: &HeapBin| {
        Cell::Seconds(bin.start.seconds())
    });
    columns.name("end", "End", CellStyle::Start, "", |bin| Cell::Seconds(bin.end.seconds()));
    columns.figure("allocations", "Allocations", COUNT, "blocks", |bin| &bin.allocations);
    columns.figure("bytes_allocated", "Bytes allocated", BYTES, "bytes", |bin| &bin.bytes);
    columns.figure("frees", "Frees", COUNT, "frees", |bin| &bin.frees);
    columns.figure("bytes_freed", "Bytes freed", BYTES, "freed", |bin| &bin.freed);
    columns.figure("live", "Live at the end of it", BYTES, "live", |bin| &bin.live);
    columns.show(&["start", "allocations", "bytes_allocated", "frees", "bytes_freed", "live"]);
    columns.text.push(CellStyle::Bar("live").titled(""));
    Table {
        notes: remarks(request),
        page: usize::MAX,
        empty: empty(request),
        ..columns.table(request, "allocations", "heap allocations over time", &bins)
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
