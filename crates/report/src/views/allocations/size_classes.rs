//! `allocations -g size-class`: heap blocks by size.

use analysis::heap::{SizeClassRow, size_class_table};

use super::super::columns::{figure, name};
use super::{Request, empty, total};
use crate::table::{Cell, CellStyle, Table};

pub(super) fn table(request: &Request<'_>, by_process: bool) -> Table {
    let (rows, sums) = size_class_table(request.profile, request.selection, by_process);
    let process = by_process.then_some(name("process", "Process"));
    let mut columns: Vec<_> = process.into_iter().collect();
    columns.push(name("size_class", "Sizes"));
    columns.extend([
        figure("allocations", "Allocations", "count"),
        figure("allocations_percent", "Share of blocks", "percent"),
        figure("bytes_allocated", "Bytes allocated", "bytes"),
        figure("bytes_percent", "Share", "percent"),
    ]);
    let cells = |row: &SizeClassRow| {
        let label = |pid| Cell::text(request.profile.threads.process_label(pid));
        let mut cells: Vec<Cell> = row.process.map(label).into_iter().collect();
        cells.push(Cell::text(sizes(row)));
        cells.extend(figures(row));
        cells
    };
    let mut text_columns = vec![
        CellStyle::Figure("size_class").titled("bytes each"),
        CellStyle::Count("allocations").titled("blocks"),
        CellStyle::Percent("allocations_percent").titled("of blocks %"),
        CellStyle::Bytes("bytes_allocated").titled("bytes"),
        CellStyle::Percent("bytes_percent").titled("share %"),
    ];
    text_columns.push(if by_process {
        CellStyle::Text("process").titled("process")
    } else {
        CellStyle::Bar("allocations").titled("")
    });
    let has_other = !request.everything() && rows.is_empty();
    Table {
        view: "allocations",
        result: request.options.result_name.clone(),
        rows: rows.iter().map(cells).collect(),
        total: total(columns.len(), sums.as_ref().map(figures)),
        columns,
        notes: if sums.is_some() {
            vec![
                "Counted at every call. A class holds the sizes with the same number of binary digits."
                    .to_owned(),
            ]
        } else {
            Vec::new()
        },
        title: request.title("heap allocations by size"),
        text_columns,
        page: usize::MAX,
        empty: if has_other {
            "Sizes are counted per process: filters on code, time or single threads do not apply to them."
                .to_owned()
        } else {
            empty(request)
        },
    }
}

/// `16-31`, or one size.
fn sizes(row: &SizeClassRow) -> String {
    let (smallest, largest) = (row.smallest.0, row.largest.0);
    if smallest == largest { largest.to_string() } else { format!("{smallest}-{largest}") }
}

fn figures(row: &SizeClassRow) -> [Cell; 4] {
    [&row.allocations, &row.allocations_percent, &row.bytes, &row.bytes_percent]
        .map(|metric| Cell::metric(metric.clone()))
}
