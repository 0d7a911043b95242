//! `roofline`: floating-point operations against the bytes that loads and stores move.

use analysis::roofline::{Peaks, WorkRow};
use analysis::{Key, TracedCode};

use super::Request;
use super::columns::{cells_of_key, figure, looks, missing, of_keys};
use crate::table::{Cell, Look, Table};
use crate::text;

pub(crate) fn roofline(request: &Request<'_>, code: &TracedCode) -> Table {
    let profile = request.profile;
    let keys = match request.options.group.as_slice() {
        [] => &[Key::Function][..],
        keys => keys,
    };
    let found = analysis::roofline::roofline(profile, code, request.selection, keys);
    let mut columns = of_keys(keys);
    columns.extend([
        figure("flops", "Operations", "count"),
        figure("flop_percent", "Share", "percent"),
        figure("double_percent", "Double precision", "percent"),
        figure("loads", "Loads", "count"),
        figure("stores", "Stores", "count"),
        figure("bytes_moved", "Bytes moved", "bytes"),
        figure("intensity", "Intensity", "FLOP/byte"),
    ]);
    let rows = found.rows.iter().map(|row| {
        let mut cells = cells_of_key(profile, keys, &row.key, row.place, None);
        cells.extend(figures(row));
        cells
    });
    let mut shown = vec![
        (Look::Percent("flop_percent"), "share %"),
        (Look::Count("flops"), "FLOP"),
        (Look::Count("double_percent"), "double %"),
        (Look::Bytes("bytes_moved"), "bytes"),
        (Look::Ratio("intensity"), "FLOP/byte"),
    ];
    // The module is in JSON: figures and names would not fit on a line.
    let fits =
        |(look, _): &(Look, &str)| *look != Look::Text("module") || keys.contains(&Key::Module);
    shown.extend(looks(keys).into_iter().filter(fits));
    let by = keys.iter().map(|key| key.name()).collect::<Vec<_>>().join(", ");
    let table = Table {
        view: "roofline",
        result: request.options.result_name.clone(),
        total: missing(columns.len()),
        columns,
        rows: rows.collect(),
        notes: notes(request, found.bursts),
        title: request.title(&format!("arithmetic and memory traffic by {by}")),
        looks: shown,
        page: 25,
        empty: if request.everything() {
            "No floating-point operations were traced.".to_owned()
        } else {
            "No traced floating-point operations match the filter.".to_owned()
        },
    };
    table.limited(request.options.limit)
}

fn figures(row: &WorkRow) -> [Cell; 7] {
    [&row.flops, &row.share, &row.double, &row.loads, &row.stores, &row.bytes, &row.intensity]
        .map(|metric| Cell::metric(metric.clone()))
}

fn notes(request: &Request<'_>, bursts: u64) -> Vec<String> {
    if bursts == 0 {
        return Vec::new();
    }
    let mut notes = vec![format!(
        "Exact counts of {bursts} bursts. Bytes are those between core and first cache: of what comes from memory they \
         are the upper bound, and this intensity is the lower bound."
    )];
    let calibration = request.profile.recording.run.calibration.as_ref();
    if let Some(peaks) = calibration.and_then(Peaks::of)
        && let (Some(ridge), Some(flops), Some(bandwidth)) =
            (peaks.ridge().value, peaks.flops.value, peaks.bandwidth.value)
    {
        notes.push(format!(
            "This machine does {} GFLOP/s and moves {} GB/s from memory: below {} FLOP per byte from memory, memory \
             bounds.",
            text::number(flops),
            text::number(bandwidth),
            text::number(ridge)
        ));
    }
    notes
}
