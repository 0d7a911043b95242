//! The functions with the most CPU time.

use super::super::TopFunction;
use super::{Page, Summary, quoted};
use crate::table::{Cell, CellStyle, Column, Table};

/// At most `most` of them.
pub(super) fn top_functions(summary: &Summary, page: &mut Page, most: usize) {
    let of = if summary.sampling.samples > 0 {
        "share of the CPU time: self, and total with the functions that it calls"
    } else {
        ""
    };
    page.heading("Top functions", of);
    if summary.top_functions.is_empty() {
        page.item(&format!("n/a: there are {}", summary.extra.why_no_samples));
        return;
    }
    let shown = most.min(summary.top_functions.len());
    page.grid(&functions_table(&summary.top_functions[..shown]));
    let more = summary.extra.more_functions + summary.top_functions.len() - shown;
    if more > 0 {
        let command = format!("fathom report hotspots -r {}", quoted(&summary.result));
        page.more(&format!("{more} more"), &command);
    }
}

fn functions_table(functions: &[TopFunction]) -> Table {
    let keys = ["function", "file", "line", "module", "self_percent", "total_percent"];
    let columns = keys.map(|key| Column { key, label: key, unit: None }).to_vec();
    let row = |function: &TopFunction| {
        vec![
            Cell::text(function.function.clone()),
            Cell::text_or_missing(function.file.as_deref()),
            function.line.map_or(Cell::Missing, |line| Cell::Number(u64::from(line))),
            Cell::text(function.module.clone()),
            Cell::Metric(function.self_percent.clone()),
            Cell::Metric(function.total_percent.clone()),
        ]
    };
    Table {
        view: "summary",
        result: String::new(),
        rows: functions.iter().map(row).collect(),
        total: vec![Cell::Missing; columns.len()],
        columns,
        notes: Vec::new(),
        title: String::new(),
        text_columns: vec![
            CellStyle::Percent("self_percent").titled("self %"),
            CellStyle::Percent("total_percent").titled("total %"),
            CellStyle::Function("function", None).titled("function"),
            CellStyle::SourceLine.titled("source"),
            CellStyle::Text("module").titled("module"),
        ],
        page: usize::MAX,
        empty: String::new(),
    }
}
