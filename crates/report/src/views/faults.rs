//! `faults`: page faults per key.

use analysis::faults::{FaultRow, fault_cost, fault_scales, fault_table, fault_table_of_objects};
use analysis::{Key, Scale, TracedCode, Weight};

use super::Request;
use super::columns::{columns_next_to_objects, names};
use super::list::{COUNT, Columns, PERCENT};
use crate::table::{Cell, Table};
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
    // A kind that did not occur at all is 0, not unknown.
    let count = |scale: &Scale, part: &Weight| {
        if scale.whole().is_empty() && !scales.all.whole().is_empty() {
            return Cell::metric(facts::Metric::counted(0.0, "count"));
        }
        Cell::metric(scale.quantity(part))
    };
    let paths = found.paths.as_ref();
    let mut columns = Columns::by(request, keys, paths, |row: &FaultRow| (&row.key, row.place));
    columns.cell("page_faults", "Page faults", COUNT, "faults", |row| count(&scales.all, &row.all));
    columns.cell("fault_percent", "Share", PERCENT, "share %", |row| {
        Cell::metric(scales.all.percent(&row.all))
    });
    columns.cell("minor_faults", "Minor", COUNT, "", |row| count(&scales.minor, &row.minor));
    columns.cell("major_faults", "Major", COUNT, "major", |row| count(&scales.major, &row.major));
    columns.show(&["page_faults", "fault_percent", "major_faults"]);
    columns.text.extend(columns_next_to_objects(keys));
    let sums = &found.selected;
    let total = columns.total(Some(&FaultRow {
        key: analysis::RowKey::default(),
        place: profile.stacks.innermost(None),
        all: sums.all,
        minor: sums.minor,
        major: sums.major,
    }));
    let rows = if without.is_none() { found.rows.as_slice() } else { &[] };
    let mut table = Table {
        total,
        notes: notes(request),
        empty: if let Some(why) = &without {
            why.clone()
        } else if request.selection.chooses_anything() {
            "No page faults match the filter.".to_owned()
        } else {
            "No page faults were recorded.".to_owned()
        },
        ..columns.table(request, "faults", &format!("page faults by {}", names(keys)), rows)
    };
    if request.everything() {
        table.set_total("fault_percent", scales.all.whole_percent());
    }
    table
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
