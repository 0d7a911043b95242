//! `bandwidth`: traffic between caches and memory over time, or by object, function, line, module or thread.

use analysis::memory::{BandwidthBin, Memory, MemoryRow};
use analysis::{Key, TracedCode};
use facts::Metric;

use super::Request;
use super::columns::{
    cells_of_key, cells_of_objects, columns_next_to_objects, figure, missing, name, names, of_keys,
    of_objects,
};
use crate::table::{Cell, CellStyle, Table};
use crate::text::rate;

/// Bins shown in text.
const PAGE: usize = 60;

pub(crate) fn bandwidth(request: &Request<'_>, code: &TracedCode, memory: &Memory<'_>) -> Table {
    let keys = request.options.group.as_slice();
    let table = match keys {
        [] => over_time(request, memory),
        [Key::Thread] => by_thread(request, memory),
        _ => by_code(request, code, memory, keys),
    };
    table.limited(request.options.limit)
}

fn over_time(request: &Request<'_>, memory: &Memory<'_>) -> Table {
    let found = memory.bandwidth(request.options.bands);
    let bins: &[BandwidthBin] = found.as_ref().map_or(&[], |found| &found.bins);
    let row = |bin: &BandwidthBin| {
        vec![
            Cell::Seconds(bin.start.seconds()),
            Cell::Seconds(bin.end.seconds()),
            Cell::metric(bin.read.clone()),
            Cell::metric(bin.write.clone()),
            Cell::metric(bin.total.clone()),
            Cell::metric(bin.reachable.clone()),
        ]
    };
    let mut notes = memory.notes.clone();
    let mut total = missing(6);
    if let Ok(found) = &found {
        let read = Cell::metric(found.read.clone());
        total = vec![
            Cell::Missing,
            Cell::Missing,
            read,
            Cell::metric(found.write.clone()),
            Cell::metric(found.average.clone()),
            Cell::metric(memory.reach()),
        ];
        notes.extend(found.bands.map(|(medium, high)| {
            format!(
                "rates from {} are medium, from {} on high (--bands sets other shares of the peak)",
                rate(medium, "GB/s"),
                rate(high, "GB/s")
            )
        }));
    }
    Table {
        view: "bandwidth",
        result: request.options.result_name.clone(),
        columns: vec![
            name("start", "Start"),
            name("end", "End"),
            figure("read", "Read", "GB/s"),
            figure("write", "Write", "GB/s"),
            figure("total", "Both", "GB/s"),
            figure("reachable", "Reachable", "GB/s"),
        ],
        rows: bins.iter().map(row).collect(),
        total,
        notes,
        title: request.title("traffic with memory over time"),
        text_columns: vec![
            CellStyle::Start("start").titled("from"),
            CellStyle::Measure("read").titled("read"),
            CellStyle::Measure("write").titled("write"),
            CellStyle::Measure("total").titled("both"),
            CellStyle::Bar("total").titled(""),
        ],
        page: PAGE,
        empty: nothing(memory),
    }
}

/// Columns of figures that rows by code have.
const FIGURES: [(&str, &str, &str); 13] = [
    ("dram_read", "Read from memory", "bytes"),
    ("dram_write", "Written to memory", "bytes"),
    ("dram_percent", "Share of traffic", "percent"),
    ("loads", "Loads", "count"),
    ("stores", "Stores", "count"),
    ("l1", "Loads from L1", "percent"),
    ("l2", "Loads from L2", "percent"),
    ("l3", "Loads from L3", "percent"),
    ("dram", "Loads from memory", "percent"),
    ("l2_fetched", "Fetched from L2 or beyond", "bytes"),
    ("l2_of_reachable", "L2, of what it delivers", "percent"),
    ("l3_fetched", "Fetched from L3 or beyond", "bytes"),
    ("l3_of_reachable", "L3, of what it delivers", "percent"),
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
    let mut columns = of_objects(keys);
    columns.extend(of_keys(keys));
    columns.extend(FIGURES.map(|(key, label, unit)| figure(key, label, unit)));
    let row = |row: &MemoryRow| {
        let mut cells = cells_of_objects(request, keys, &row.key);
        cells.extend(cells_of_key(request.profile, keys, &row.key, row.place, None));
        cells.extend(figures(row));
        // Of the instructions, whatever object they go to.
        match request.by_object() {
            true => cells.extend(missing(4)),
            false => cells.extend(
                memory.level_rates_of(row.sites().iter().copied()).into_iter().flat_map(|level| {
                    [level.fetched, Metric::clone(&level.of_reachable)].map(Cell::metric)
                }),
            ),
        }
        cells
    };
    let mut shown = vec![
        CellStyle::Percent("dram_percent").titled("traffic %"),
        CellStyle::Bytes("dram_read").titled("read"),
        CellStyle::Bytes("dram_write").titled("written"),
        CellStyle::Count("loads").titled("loads"),
        CellStyle::Count("l1").titled("L1 %"),
        CellStyle::Count("l2").titled("L2 %"),
        CellStyle::Count("l3").titled("L3 %"),
        CellStyle::Count("dram").titled("DRAM %"),
    ];
    shown.extend(columns_next_to_objects(keys));
    let by = names(keys);
    Table {
        view: "bandwidth",
        result: request.options.result_name.clone(),
        rows: found.iter().map(row).collect(),
        total: missing(columns.len()),
        columns,
        notes: levels_note(request).into_iter().chain(memory.notes.iter().cloned()).collect(),
        title: request.title(&format!("traffic with memory by {by}")),
        text_columns: shown,
        page: 25,
        empty: without.unwrap_or_else(|| nothing(memory)),
    }
}

/// Limits of rows by object.
pub(super) fn levels_note(request: &Request<'_>) -> Option<String> {
    request.by_object().then(|| {
        "hit levels are those of the instructions: an instruction that accesses several objects has the same \
         levels in each".to_owned()
    })
}

fn figures(row: &MemoryRow) -> [Cell; 9] {
    [
        &row.read,
        &row.write,
        &row.share,
        &row.loads,
        &row.stores,
        &row.levels.l1,
        &row.levels.l2,
        &row.levels.l3,
        &row.levels.dram,
    ]
    .map(|metric: &Metric| Cell::metric(metric.clone()))
}

fn by_thread(request: &Request<'_>, memory: &Memory<'_>) -> Table {
    let (found, empty) = match memory.by_thread(request.selection) {
        Ok(found) => (found, nothing(memory)),
        Err(why) => (Vec::new(), format!("n/a: {why}.")),
    };
    let row = |(thread, read, write): (analysis::ThreadIndex, Metric, Metric)| {
        vec![
            Cell::text(request.profile.threads.get(thread).label()),
            Cell::metric(read),
            Cell::metric(write),
        ]
    };
    Table {
        view: "bandwidth",
        result: request.options.result_name.clone(),
        columns: vec![
            name("thread", "Thread"),
            figure("dram_read", "Read from memory", "bytes"),
            figure("dram_write", "Written to memory", "bytes"),
        ],
        rows: found.into_iter().map(row).collect(),
        total: missing(3),
        notes: memory.notes.clone(),
        title: request.title("traffic with memory by thread"),
        text_columns: vec![
            CellStyle::Bytes("dram_read").titled("read"),
            CellStyle::Bytes("dram_write").titled("written"),
            CellStyle::Bar("dram_read").titled(""),
            CellStyle::Text("thread").titled("thread"),
        ],
        page: 25,
        empty,
    }
}

/// What to say when there are no rows.
pub(super) fn nothing(memory: &Memory<'_>) -> String {
    match memory.missing() {
        Some(why) => format!("n/a: {why}."),
        None => "No traced memory accesses match the filter.".to_owned(),
    }
}
