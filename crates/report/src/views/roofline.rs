//! `roofline`: floating-point operations against the bytes that loads and stores move.

use std::collections::HashMap;

use analysis::memory::{Memory, MemoryRow};
use analysis::roofline::{Peaks, Roof, WorkRow};
use analysis::{Key, RowKey, TracedCode};
use facts::Metric;

use super::Request;
use super::columns::{names, short_columns};
use super::list::{BYTES, COUNT, Columns, Figure, PERCENT, PERCENT_ALONE, Unit, WORDS};
use crate::table::{Cell, CellStyle, Table};
use crate::text;

pub(crate) fn roofline(request: &Request<'_>, code: &TracedCode, memory: &Memory<'_>) -> Table {
    let profile = request.profile;
    let keys = match request.options.group.as_slice() {
        [] => &[Key::Function][..],
        keys => keys,
    };
    let found = analysis::roofline::roofline(profile, code, request.selection, keys);
    let native = Native::of(request, memory, keys);
    let mut columns = Columns::by(request, keys, None, |row: &WorkRow| (&row.key, row.place));
    columns.figure("flops", "Operations", COUNT, "FLOP", |row| &row.flops);
    columns.figure("flop_percent", "Share", PERCENT, "share %", |row| &row.share);
    columns
        .figure("double_percent", "Double precision", PERCENT_ALONE, "double %", |row| &row.double);
    columns.figure("loads", "Loads", COUNT, "", |row| &row.loads);
    columns.figure("stores", "Stores", COUNT, "", |row| &row.stores);
    columns.figure("bytes_moved", "Bytes moved", BYTES, "", |row| &row.bytes);
    columns.figure("intensity", "Intensity", INTENSITY, "FLOP/byte", |row| &row.intensity);
    columns.figures(NATIVE, |row| native.cells(row));
    columns.show(&["flop_percent", "flops", "double_percent", "intensity", "dram_intensity"]);
    columns.show(&["flop_rate", "roof", "bound"]);
    columns.text.extend(short_columns(keys, keys));
    let what = format!("arithmetic and memory traffic by {}", names(keys));
    Table {
        notes: notes(request, found.bursts),
        empty: if request.everything() {
            "No floating-point operations were traced.".to_owned()
        } else {
            "No traced floating-point operations match the filter.".to_owned()
        },
        ..columns.table(request, "roofline", &what, &found.rows)
    }
}

const INTENSITY: Unit = Unit("FLOP/byte", CellStyle::Ratio);
const RATE: Unit = Unit("GFLOP/s", CellStyle::Figure);
const NATIVE: [Figure; 4] = [
    ("dram_intensity", "Intensity, from memory", INTENSITY, "of DRAM"),
    ("flop_rate", "Rate", RATE, "GFLOP/s"),
    ("roof", "Roof", RATE, "roof"),
    ("bound", "Bound by", WORDS, "bound by"),
];

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
        let in_bursts =
            |metric: &Metric| metric.each(&metric.unit, |value| value * traced / executed);
        let intensity = row.dram_intensity(&in_bursts(&whole.moved));
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
