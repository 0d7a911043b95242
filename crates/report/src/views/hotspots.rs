//! `hotspots`: self and total time per key.

use analysis::hotspots::Hotspot;
use analysis::{Key, RowKey, Weight};

use super::Request;
use super::columns::{names, text_columns, time_cells};
use super::list::{Columns, OWN, WITH_CALLEES};
use crate::assembly::SKID;
use crate::table::Table;

pub(crate) fn hotspots(request: &Request<'_>) -> Table {
    let profile = request.profile;
    let keys: &[Key] = match request.options.group.as_slice() {
        [] => &[Key::Function],
        keys => keys,
    };
    let found = analysis::hotspots::hotspots(profile, request.selection, keys);
    let scale = profile.cpu_scale();
    let paths = found.paths.as_ref();
    let mut columns = Columns::by(request, keys, paths, |row: &Hotspot| (&row.key, row.place));
    columns.figures(OWN, |row| time_cells(&scale, &row.self_time));
    // The total of a call stack is that of its innermost function with just these callers: its own time.
    if !keys.contains(&Key::CallStack) {
        columns.figures(WITH_CALLEES, |row| time_cells(&scale, &row.total_time));
    }
    columns.show(&["self_percent", "cpu_time", "total_percent"]);
    columns.text.extend(text_columns(keys));
    let mut self_time = Weight::default();
    found.rows.iter().for_each(|row| self_time.merge(&row.self_time));
    let place = profile.stacks.innermost(None);
    let all = Hotspot { key: RowKey::default(), place, self_time, total_time: found.selected };
    let total = columns.total(Some(&all));
    let mut notes = request.sampling_notes();
    if keys.contains(&Key::SourceLine) {
        notes.push(SKID.to_owned());
    }
    let by = format!("CPU time by {}", names(keys));
    let mut table = Table {
        total,
        notes,
        empty: request.empty("samples"),
        ..columns.table(request, "hotspots", &by, &found.rows)
    };
    request.set_whole_time(&mut table);
    table
}
