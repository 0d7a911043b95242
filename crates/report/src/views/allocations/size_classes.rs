//! `allocations -g size-class`: heap blocks by size.

use analysis::heap::{SizeClassRow, size_class_table};

use super::super::list::{BYTES, COUNT, Columns, PERCENT};
use super::{Request, empty};
use crate::table::{Cell, CellStyle, Table};

pub(super) fn table(request: &Request<'_>, by_process: bool) -> Table {
    let (rows, sums) = size_class_table(request.profile, request.selection, by_process);
    let mut columns = Columns::new();
    if by_process {
        columns.name("process", "Process", CellStyle::Text, "process", |row: &SizeClassRow| {
            let label = |pid| Cell::text(request.profile.threads.process_label(pid));
            row.process.map_or(Cell::Missing, label)
        });
    }
    columns
        .name("size_class", "Sizes", CellStyle::Figure, "bytes each", |row| Cell::text(sizes(row)));
    columns.end_of_names();
    columns.figure("allocations", "Allocations", COUNT, "blocks", |row| &row.allocations);
    columns.figure("allocations_percent", "Share of blocks", PERCENT, "of blocks %", |row| {
        &row.allocations_percent
    });
    columns.figure("bytes_allocated", "Bytes allocated", BYTES, "bytes", |row| &row.bytes);
    columns.figure("bytes_percent", "Share", PERCENT, "share %", |row| &row.bytes_percent);
    columns.show(&["size_class", "allocations", "allocations_percent", "bytes_allocated"]);
    columns.show(&["bytes_percent", "process"]);
    if !by_process {
        columns.text.push(CellStyle::Bar("allocations").titled(""));
    }
    let has_other = !request.everything() && rows.is_empty();
    let says =
        "Counted at every call. A class holds the sizes with the same number of binary digits.";
    Table {
        total: columns.total(sums.as_ref()),
        notes: sums.iter().map(|_| says.to_owned()).collect(),
        page: usize::MAX,
        empty: if has_other {
            "Sizes are counted per process: filters on code, time or single threads do not apply to them."
                .to_owned()
        } else {
            empty(request)
        },
        ..columns.table(request, "allocations", "heap allocations by size", &rows)
    }
}

/// `16-31`, or one size.
fn sizes(row: &SizeClassRow) -> String {
    let (smallest, largest) = (row.smallest.0, row.largest.0);
    if smallest == largest { largest.to_string() } else { format!("{smallest}-{largest}") }
}
