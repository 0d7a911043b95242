//! `hotspots`: self and total time per key.

use analysis::Key;

use super::Request;
use super::columns::{
    CPU_TIME, SELF_PERCENT, TOTAL_PERCENT, TOTAL_TIME, cells_of_key, missing, names, of_keys,
    text_columns, time_cells, total_cells,
};
use crate::assembly::SKID;
use crate::table::{CellStyle, Table};

pub(crate) fn hotspots(request: &Request<'_>) -> Table {
    let profile = request.profile;
    let keys: &[Key] = match request.options.group.as_slice() {
        [] => &[Key::Function],
        keys => keys,
    };
    let found = analysis::hotspots::hotspots(profile, request.selection, keys);
    let scale = profile.cpu_scale();
    // The total of a call stack is that of its innermost function with just these callers: its own time.
    let with_total = !keys.contains(&Key::CallStack);
    let mut columns = of_keys(keys);
    let key_columns = columns.len();
    columns.extend([CPU_TIME, SELF_PERCENT]);
    if with_total {
        columns.extend([TOTAL_TIME, TOTAL_PERCENT]);
    }
    let mut rows = Vec::with_capacity(found.rows.len());
    for row in &found.rows {
        let stack = row
            .key
            .stack
            .zip(found.paths.as_ref())
            .map(|(path, paths)| paths.names(&profile.stacks, path));
        let mut cells = cells_of_key(profile, keys, &row.key, row.place, stack);
        cells.extend(time_cells(&scale, &row.self_time));
        if with_total {
            cells.extend(time_cells(&scale, &row.total_time));
        }
        rows.push(cells);
    }
    let mut own = analysis::Weight::default();
    found.rows.iter().for_each(|row| own.merge(&row.self_time));
    let mut total = missing(key_columns);
    total.extend(total_cells(&scale, &own, request.everything()));
    if with_total {
        total.extend(total_cells(&scale, &found.selected, request.everything()));
    }
    let mut shown = vec![
        CellStyle::Percent("self_percent").titled("self %"),
        CellStyle::Time("cpu_time").titled("time"),
    ];
    if with_total {
        shown.push(CellStyle::Percent("total_percent").titled("total %"));
    }
    shown.extend(text_columns(keys));
    let mut notes = request.sampling_notes();
    if keys.contains(&Key::SourceLine) {
        notes.push(SKID.to_owned());
    }
    Table {
        view: "hotspots",
        result: request.options.result_name.clone(),
        columns,
        rows,
        total,
        notes,
        title: request.title(&format!("CPU time by {}", names(keys))),
        text_columns: shown,
        page: 25,
        empty: request.empty("samples"),
    }
}
