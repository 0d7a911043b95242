//! `roofline`: floating-point operations against the bytes that loads and stores move.

use std::collections::HashMap;

use analysis::memory::{Memory, MemoryRow};
use analysis::roofline::{Peaks, Roof, WorkRow};
use analysis::{Key, RowKey, TracedCode};
use facts::Metric;

use super::Request;
use super::columns::{cells_of_key, figure, missing, name, names, of_keys, short_columns};
use crate::table::{Cell, CellStyle, Table};
use crate::text;

pub(crate) fn roofline(request: &Request<'_>, code: &TracedCode, memory: &Memory<'_>) -> Table {
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
        figure("dram_intensity", "Intensity, from memory", "FLOP/byte"),
        figure("flop_rate", "Rate", "GFLOP/s"),
        figure("roof", "Roof", "GFLOP/s"),
        name("bound", "Bound by"),
    ]);
    let native = Native::of(request, memory, keys);
    let rows = found.rows.iter().map(|row| {
        let mut cells = cells_of_key(profile, keys, &row.key, row.place, None);
        cells.extend(figures(row));
        cells.extend(native.cells(row));
        cells
    });
    let mut shown = vec![
        CellStyle::Percent("flop_percent").titled("share %"),
        CellStyle::Count("flops").titled("FLOP"),
        CellStyle::Count("double_percent").titled("double %"),
        CellStyle::Ratio("intensity").titled("FLOP/byte"),
        CellStyle::Ratio("dram_intensity").titled("of DRAM"),
        CellStyle::Figure("flop_rate").titled("GFLOP/s"),
        CellStyle::Figure("roof").titled("roof"),
        CellStyle::Text("bound").titled("bound by"),
    ];
    shown.extend(short_columns(keys, keys));
    let by = names(keys);
    let table = Table {
        view: "roofline",
        result: request.options.result_name.clone(),
        total: missing(columns.len()),
        columns,
        rows: rows.collect(),
        notes: notes(request, found.bursts),
        title: request.title(&format!("arithmetic and memory traffic by {by}")),
        text_columns: shown,
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

/// What the rows do in the whole run: time from samples, traffic from the cache model.
struct Native<'a> {
    rows: HashMap<RowKey, MemoryRow>,
    seconds: HashMap<RowKey, Metric>,
    peaks: Option<Peaks>,
    missing: Option<&'a str>,
}

impl Native<'_> {
    fn of<'a>(request: &Request<'a>, memory: &'a Memory<'_>, keys: &[Key]) -> Native<'a> {
        let scale = request.profile.cpu_scale();
        let found = analysis::hotspots::hotspots(request.profile, request.selection, keys);
        let seconds = found.rows.iter().map(|row| (row.key, scale.quantity(&row.self_time)));
        let rows = memory.rows(request.selection, keys).unwrap_or_default();
        let calibration = request.profile.recording.run.calibration.as_ref();
        Native {
            rows: rows.into_iter().map(|row| (row.key, row)).collect(),
            seconds: seconds.collect(),
            peaks: calibration.and_then(Peaks::of),
            missing: memory.missing(),
        }
    }

    /// Intensity, rate, roof, and what it is. The row's figures are of bursts, these of the whole run: the number of its
    /// loads and stores in both tells the factor.
    fn cells(&self, row: &WorkRow) -> [Cell; 4] {
        let why = self.missing.unwrap_or("too few accesses or samples");
        let none = |unit| Cell::metric(Metric::unavailable(unit, why));
        let missing = || [none("FLOP/byte"), none("GFLOP/s"), none("GFLOP/s"), Cell::Missing];
        let Some(whole) = self.rows.get(&row.key) else { return missing() };
        let sum = |a: &Metric, b: &Metric| a.value.zip(b.value).map(|(a, b)| a + b);
        let executed = sum(&whole.loads, &whole.stores).zip(sum(&row.loads, &row.stores));
        let Some((executed, traced)) =
            executed.filter(|(executed, traced)| *executed > 0.0 && *traced > 0.0)
        else {
            return missing();
        };
        let in_bursts = |metric: &Metric| {
            let scale = |value: Option<f64>| value.map(|value| value * traced / executed);
            Metric {
                value: scale(metric.value),
                low: scale(metric.low),
                high: scale(metric.high),
                ..metric.clone()
            }
        };
        let intensity = row.dram_intensity(&in_bursts(&whole.traffic()));
        let rate = match self.seconds.get(&row.key) {
            Some(seconds) => row.rate(&in_bursts(seconds)),
            None => Metric::unavailable("GFLOP/s", "no sample fell into it"),
        };
        let roof = self.peaks.as_ref().and_then(|peaks| peaks.roof(&intensity));
        let (roof, bound) = match roof {
            Some((roof, Roof::Memory)) => (roof, Cell::text("memory")),
            Some((roof, Roof::Arithmetic)) => (roof, Cell::text("arithmetic")),
            None => (
                Metric::unavailable(
                    "GFLOP/s",
                    "the machine's peaks are not known: run `fathom machine`",
                ),
                Cell::Missing,
            ),
        };
        [Cell::metric(intensity), Cell::metric(rate), Cell::metric(roof), bound]
    }
}

fn notes(request: &Request<'_>, bursts: u64) -> Vec<String> {
    if bursts == 0 {
        return Vec::new();
    }
    let mut notes = vec![format!(
        "Exact counts of {bursts} bursts. Bytes are those between core and L1; the second intensity \
         is per byte from memory."
    )];
    let calibration = request.profile.recording.run.calibration.as_ref();
    if let Some(peaks) = calibration.and_then(Peaks::of)
        && let (Some(ridge), Some(flops), Some(bandwidth)) =
            (peaks.ridge().value, peaks.flops.value, peaks.bandwidth.value)
    {
        notes.push(format!(
            "This machine does {} and moves {} from memory: below {} FLOP per byte from memory, memory \
             bounds.",
            text::rate(flops, "GFLOP/s"),
            text::rate(bandwidth, "GB/s"),
            text::number(ridge)
        ));
    }
    notes
}
