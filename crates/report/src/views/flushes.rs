//! `flushes`: cache lines that the program flushes, and the fences that wait for them, by function, line, module or object.
//!
//! What not: traffic; what a flush writes is in `bandwidth` and `objects`.

use analysis::memory::{FlushPlace, FlushRow, FlushTable, Memory, flushes_any};
use analysis::{Key, TracedCode};

use super::Request;
use super::columns::{columns_of_objects, names, short_columns};
use super::list::{COUNT, Columns, PERCENT, SECONDS, Unit};
use crate::table::{CellStyle, Table};

const RATE: Unit = Unit("count/s", CellStyle::Count);

pub(crate) fn flushes(request: &Request<'_>, code: &TracedCode, memory: &Memory<'_>) -> Table {
    let asked = request.options.group.as_slice();
    let keys = if asked.is_empty() { &[Key::Function] } else { asked };
    let grouping = request.grouping(code, keys);
    let without = request.without_objects();
    let found = memory.flushes(&grouping, FlushPlace::Own);
    let why = found.as_ref().err().map(|why| format!("n/a: {why}."));
    let found = found.ok().filter(|_| without.is_none()).unwrap_or_default();
    let mut columns = Columns::by(request, keys, None, |row: &FlushRow| (&row.key, row.place));
    columns.figure("flush_time", "CPU time at them", SECONDS, "time", |row| &row.time);
    columns.figure("flush_time_percent", "Share of CPU time", PERCENT, "time %", |row| {
        &row.time_percent
    });
    columns.figure("flushes_per_second", "Flushes", RATE, "flushes/s", |row| &row.flushes);
    columns.figure("redundant_percent", "Redundant", PERCENT, "redundant %", |row| &row.redundant);
    columns.figure("past_caches_per_second", "Non-temporal stores", RATE, "", |row| &row.streamed);
    columns.figure("fences_per_second", "Fences", RATE, "fences/s", |row| &row.fences);
    columns.figure("lines_per_fence", "Lines per fence", COUNT, "lines/fence", |row| {
        &row.lines_per_fence
    });
    columns
        .figure("alone_percent", "Fences for a line or two", PERCENT, "alone %", |row| &row.alone);
    columns.show(&["flush_time", "flushes_per_second", "redundant_percent"]);
    columns.show(&["fences_per_second", "lines_per_fence", "alone_percent"]);
    columns.text.extend(columns_of_objects(keys));
    columns.text.extend(short_columns(keys, keys));
    let what = format!("flushed cache lines and fences by {}", names(keys));
    Table {
        notes: notes(&found, memory),
        empty: without.or(why).unwrap_or_else(|| match (flushes_any(code), request.everything()) {
            (false, _) => "The program flushed no cache line in any burst.".to_owned(),
            (true, true) => "No burst that counts came to a flush or fence.".to_owned(),
            (true, false) => "No flush or fence matches the filter.".to_owned(),
        }),
        ..columns.table(request, "flushes", &what, &found.rows)
    }
}

fn notes(found: &FlushTable, memory: &Memory<'_>) -> Vec<String> {
    if found.rows.is_empty() {
        return Vec::new();
    }
    let mut notes = memory.notes.clone();
    notes.push(format!(
        "From {} bursts. Redundant: the line was not dirty. Alone: one of many fences in a row that wait for a line or two. Time: \
         samples at the instruction, at the one after it, or at the first store after a fence.",
        found.bursts
    ));
    if found.unused > 0 {
        notes.push(format!(
            "{} records or blocks could not be used: a store in them may make a flush look redundant.",
            found.unused
        ));
    }
    notes
}
