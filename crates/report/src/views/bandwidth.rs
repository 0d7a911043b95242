//! `bandwidth`: traffic between caches and memory over time, or by object, function, line, module or thread.

use analysis::memory::{BandwidthBin, Memory, MemoryRow, ThreadTraffic};
use analysis::{Key, TracedCode};
use facts::Metric;

use super::Request;
use super::columns::{columns_next_to_objects, names};
use super::list::{BYTES, COUNT, Columns, Figure, PERCENT, PERCENT_ALONE, Unit};
use crate::table::{Cell, CellStyle, Table};
use crate::text::rate;

const RATE: Unit = Unit("GB/s", CellStyle::Measure);

/// Bins shown in text.
const PAGE: usize = 60;

pub(crate) fn bandwidth(request: &Request<'_>, code: &TracedCode, memory: &Memory<'_>) -> Table {
    let keys = request.options.group.as_slice();
    match keys {
        [] => over_time(request, memory),
        [Key::Thread] => by_thread(request, memory),
        _ => by_code(request, code, memory, keys),
    }
}

fn over_time(request: &Request<'_>, memory: &Memory<'_>) -> Table {
    let found = memory.bandwidth(request.options.bands);
    let bins: &[BandwidthBin] = found.as_ref().map_or(&[], |found| &found.bins);
    let mut columns = Columns::new();
    columns.name("start", "Start", CellStyle::Start, "from", |bin: &BandwidthBin| {
        Cell::Seconds(bin.start.seconds())
    });
    columns.name("end", "End", CellStyle::Start, "", |bin| Cell::Seconds(bin.end.seconds()));
    columns.figure("read", "Read", RATE, "read", |bin| &bin.read);
    columns.figure("write", "Write", RATE, "write", |bin| &bin.write);
    columns.figure("total", "Both", RATE, "both", |bin| &bin.total);
    columns.figure("reachable", "Reachable", RATE, "", |bin| &bin.reachable);
    columns.show(&["start", "read", "write", "total"]);
    columns.text.push(CellStyle::Bar("total").titled(""));
    let mut table = Table {
        notes: request.over_time_notes(memory.notes.clone()),
        page: PAGE,
        empty: nothing(memory),
        ..columns.table(request, "bandwidth", "traffic with memory over time", bins)
    };
    if let Ok(found) = &found {
        table.set_total("read", found.read.clone());
        table.set_total("write", found.write.clone());
        table.set_total("total", found.average.clone());
        table.set_total("reachable", memory.reach());
        table.notes.extend(found.bands.map(|(medium, high)| {
            format!(
                "rates from {} are medium, from {} on high (--bands sets other shares of the peak)",
                rate(medium, "GB/s"),
                rate(high, "GB/s")
            )
        }));
    }
    table
}

const OF_LEVELS: [Figure; 4] = [
    ("l2_fetched", "Fetched from L2 or beyond", BYTES, ""),
    ("l2_of_reachable", "L2, of what it delivers", PERCENT, ""),
    ("l3_fetched", "Fetched from L3 or beyond", BYTES, ""),
    ("l3_of_reachable", "L3, of what it delivers", PERCENT, ""),
];

fn by_code(request: &Request<'_>, code: &TracedCode, memory: &Memory<'_>, keys: &[Key]) -> Table {
    let without = request.without_objects();
    let found = if without.is_some() {
        Vec::new()
    } else if request.by_object() {
        memory.rows_of_objects(&request.grouping(code, keys)).unwrap_or_default()
    } else {
        memory.rows(request.selection, keys).unwrap_or_default()
    };
    let mut columns = Columns::by(request, keys, None, |row: &MemoryRow| (&row.key, row.place));
    columns.figure("dram_read", "Read from memory", BYTES, "read", |row| &row.read);
    columns.figure("dram_write", "Written to memory", BYTES, "written", |row| &row.write);
    columns.figure("dram_percent", "Share of traffic", PERCENT, "traffic %", |row| &row.share);
    columns.figure("loads", "Loads", COUNT, "loads", |row| &row.loads);
    columns.figure("stores", "Stores", COUNT, "", |row| &row.stores);
    columns.figure("l1", "Loads from L1", PERCENT_ALONE, "L1 %", |row| &row.levels.l1);
    columns.figure("l2", "Loads from L2", PERCENT_ALONE, "L2 %", |row| &row.levels.l2);
    columns.figure("l3", "Loads from L3", PERCENT_ALONE, "L3 %", |row| &row.levels.l3);
    columns.figure("dram", "Loads from memory", PERCENT_ALONE, "DRAM %", |row| &row.levels.dram);
    columns.figures(OF_LEVELS, |row| match request.by_object() {
        true => OF_LEVELS.map(|_| Cell::Missing),
        // Of the instructions, whatever object they go to.
        false => {
            let [l2, l3] = memory.level_rates_of(row.sites().iter().copied());
            [
                l2.fetched,
                Metric::clone(&l2.of_reachable),
                l3.fetched,
                Metric::clone(&l3.of_reachable),
            ]
            .map(Cell::metric)
        }
    });
    columns.show(&["dram_percent", "dram_read", "dram_write", "loads", "l1", "l2", "l3", "dram"]);
    columns.text.extend(columns_next_to_objects(keys));
    let by = format!("traffic with memory by {}", names(keys));
    Table {
        notes: levels_note(request).into_iter().chain(memory.notes.iter().cloned()).collect(),
        empty: without.unwrap_or_else(|| nothing(memory)),
        ..columns.table(request, "bandwidth", &by, &found)
    }
}

/// Limits of rows by object.
pub(super) fn levels_note(request: &Request<'_>) -> Option<String> {
    request.by_object().then(|| {
        "hit levels are those of the instructions: an instruction that accesses several objects has the same \
         levels in each".to_owned()
    })
}

fn by_thread(request: &Request<'_>, memory: &Memory<'_>) -> Table {
    let (found, empty) = match memory.by_thread(request.selection) {
        Ok(found) => (found, nothing(memory)),
        Err(why) => (Vec::new(), format!("n/a: {why}.")),
    };
    let label = |row: &ThreadTraffic| Cell::text(request.profile.threads.get(row.thread).label());
    let mut columns = Columns::new();
    columns.name("thread", "Thread", CellStyle::Text, "thread", label);
    columns.figure("dram_read", "Read from memory", BYTES, "read", |row| &row.read);
    columns.figure("dram_write", "Written to memory", BYTES, "written", |row| &row.written);
    columns.show(&["dram_read", "dram_write"]);
    columns.text.push(CellStyle::Bar("dram_read").titled(""));
    columns.show(&["thread"]);
    Table {
        notes: memory.notes.clone(),
        empty,
        ..columns.table(request, "bandwidth", "traffic with memory by thread", &found)
    }
}

/// What to say when there are no rows.
pub(super) fn nothing(memory: &Memory<'_>) -> String {
    match memory.missing() {
        Some(why) => format!("n/a: {why}."),
        None => "No traced memory accesses match the filter.".to_owned(),
    }
}
