//! `faults`: page faults per key.

use analysis::Key;
use analysis::TracedCode;
use analysis::faults::{
    FaultRow, FaultScales, fault_cost, fault_scales, fault_table, fault_table_of_objects,
};

use super::Request;
use super::columns::{
    cells_of_key, cells_of_objects, columns_next_to_objects, figure, missing, names, of_keys,
    of_objects,
};
use crate::table::{Cell, CellStyle, Table};
use crate::text;

pub(crate) fn faults(request: &Request<'_>) -> Table {
    let profile = request.profile;
    let keys: &[Key] = match request.options.group.as_slice() {
        [] => &[Key::Function],
        keys => keys,
    };
    let code = TracedCode::default();
    let found = match keys.contains(&Key::Object) {
        true => fault_table_of_objects(&request.grouping(&code, keys)),
        false => fault_table(profile, request.selection, keys),
    };
    let without = request.without_objects();
    let scales = fault_scales(profile.recording);
    let mut columns = of_objects(keys);
    columns.extend(of_keys(keys));
    let key_columns = columns.len();
    columns.extend([
        figure("page_faults", "Page faults", "count"),
        figure("fault_percent", "Share", "percent"),
        figure("minor_faults", "Minor", "count"),
        figure("major_faults", "Major", "count"),
    ]);
    let mut rows = Vec::with_capacity(found.rows.len());
    for row in found.rows.iter().filter(|_| without.is_none()) {
        let stack = row
            .key
            .stack
            .zip(found.paths.as_ref())
            .map(|(path, paths)| paths.names(&profile.stacks, path));
        let mut cells = cells_of_objects(request, keys, &row.key);
        cells.extend(cells_of_key(profile, keys, &row.key, row.place, stack));
        cells.extend(count_cells(&scales, row));
        rows.push(cells);
    }
    let mut total = missing(key_columns);
    let sums = &found.selected;
    let row = FaultRow {
        key: analysis::RowKey::default(),
        place: profile.stacks.innermost(None),
        all: sums.all,
        minor: sums.minor,
        major: sums.major,
    };
    let mut sums = count_cells(&scales, &row);
    if request.everything() {
        sums[1] = Cell::metric(scales.all.whole_percent());
    }
    total.extend(sums);
    let mut shown = vec![
        CellStyle::Count("page_faults").titled("faults"),
        CellStyle::Percent("fault_percent").titled("share %"),
        CellStyle::Count("major_faults").titled("major"),
    ];
    shown.extend(columns_next_to_objects(keys));
    Table {
        view: "faults",
        result: request.options.result_name.clone(),
        columns,
        rows,
        total,
        notes: notes(request),
        title: request.title(&format!("page faults by {}", names(keys))),
        text_columns: shown,
        page: 25,
        empty: if let Some(why) = without {
            why
        } else if request.selection.chooses_anything() {
            "No page faults match the filter.".to_owned()
        } else {
            "No page faults were recorded.".to_owned()
        },
    }
}

/// A kind that did not occur at all is 0, not unknown.
fn count_cells(scales: &FaultScales, row: &FaultRow) -> [Cell; 4] {
    let part = |scale: &analysis::Scale, part: &analysis::Weight| {
        if scale.whole().is_empty() && !scales.all.whole().is_empty() {
            return Cell::metric(facts::Metric::counted(0.0, "count"));
        }
        Cell::metric(scale.quantity(part))
    };
    [
        part(&scales.all, &row.all),
        Cell::metric(scales.all.percent(&row.all)),
        part(&scales.minor, &row.minor),
        part(&scales.major, &row.major),
    ]
}

fn notes(request: &Request<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let cost = fault_cost(request.profile);
    match (cost.percent.value, cost.time.value) {
        (Some(percent), Some(time)) => notes.push(format!(
            "Handling them took {} = {} % of the CPU time ({}).",
            text::seconds(time),
            text::percent(percent),
            cost.percent.evidence.map_or("", facts::Evidence::name)
        )),
        _ => notes.push(format!(
            "Their cost is not available: {}.",
            cost.percent.note.unwrap_or_default()
        )),
    }
    let lost = request.profile.recording.lost(facts::LostSource::Faults);
    if lost > 0 {
        notes.push(format!("{lost} fault records were lost: rows are scaled to the counted total where there is one."));
    }
    notes
}
