//! `reuse`: how much cache and how many translations code needs; `working-set`: which memory bursts touched.

use std::collections::HashMap;

use analysis::accesses::{AccessRow, Accesses, accesses_of_objects};
use analysis::reuse::{CacheSize, Reuse, ReuseRow, TlbSizes, cache_sizes, reuse_of_objects};
use analysis::{Key, RowKey, TracedCode};
use base::Bytes;
use facts::Metric;

use super::Request;
use super::columns::{
    cells_of_key, cells_of_objects, columns_of_objects, figure, missing, name, names, of_keys,
    of_objects, short_columns,
};
use crate::table::{Cell, CellStyle, Column, Table};
use crate::text;

/// Columns of the miss ratio curve: every other of its sizes.
const CURVE: [(u64, &str, &str); 15] = [
    (4 << 10, "miss_4k", "Miss at 4 KiB"),
    (8 << 10, "miss_8k", "Miss at 8 KiB"),
    (16 << 10, "miss_16k", "Miss at 16 KiB"),
    (32 << 10, "miss_32k", "Miss at 32 KiB"),
    (64 << 10, "miss_64k", "Miss at 64 KiB"),
    (128 << 10, "miss_128k", "Miss at 128 KiB"),
    (256 << 10, "miss_256k", "Miss at 256 KiB"),
    (512 << 10, "miss_512k", "Miss at 512 KiB"),
    (1 << 20, "miss_1m", "Miss at 1 MiB"),
    (2 << 20, "miss_2m", "Miss at 2 MiB"),
    (4 << 20, "miss_4m", "Miss at 4 MiB"),
    (8 << 20, "miss_8m", "Miss at 8 MiB"),
    (16 << 20, "miss_16m", "Miss at 16 MiB"),
    (32 << 20, "miss_32m", "Miss at 32 MiB"),
    (64 << 20, "miss_64m", "Miss at 64 MiB"),
];

/// Columns of the machine's caches, by level.
const LEVELS: [(u32, &str, &str); 3] =
    [(1, "miss_l1", "Miss at L1"), (2, "miss_l2", "Miss at L2"), (3, "miss_l3", "Miss at L3")];

pub(crate) fn reuse(request: &Request<'_>, code: &TracedCode) -> Table {
    let profile = request.profile;
    let keys = match request.options.group.as_slice() {
        [] => &[Key::Function][..],
        keys => keys,
    };
    let caches = cache_sizes(&profile.recording.run);
    let tlb = TlbSizes::of(&profile.recording.run.host);
    let without = request.without_objects();
    let (accesses, found) = if without.is_some() {
        (Accesses::default(), Reuse::default())
    } else if request.by_object() {
        let grouping = request.grouping(code, keys);
        (accesses_of_objects(&grouping).0, reuse_of_objects(&grouping, &caches, tlb))
    } else {
        let selection = request.selection;
        (
            analysis::accesses::accesses(profile, code, selection, keys),
            analysis::reuse::reuse(profile, code, selection, keys, &caches, tlb),
        )
    };
    let by_key: HashMap<RowKey, &ReuseRow> = found.rows.iter().map(|row| (row.key, row)).collect();
    let mut columns = of_objects(keys);
    columns.extend(of_keys(keys));
    columns.extend(own_columns());
    let mut rows = Vec::new();
    let mut heaviest = None;
    for row in &accesses.rows {
        let Some(reused) = by_key.get(&row.key) else { continue };
        heaviest = heaviest.or(Some((row, *reused)));
        let mut cells = cells_of_objects(request, keys, &row.key);
        cells.extend(cells_of_key(profile, keys, &row.key, row.place, None));
        cells.extend(figures(row, reused, &caches));
        rows.push(cells);
    }
    let mut shown = vec![
        CellStyle::Percent("access_percent").titled("share %"),
        CellStyle::Percent("miss_l1").titled("L1 miss %"),
        CellStyle::Percent("miss_l2").titled("L2 miss %"),
        CellStyle::Bytes("fitting_bytes").titled("block for"),
        CellStyle::Count("line_use_percent").titled("used %"),
        CellStyle::Percent("tlb_4k_second_miss").titled("TLB miss %"),
    ];
    shown.extend(columns_of_objects(keys));
    shown.extend(short_columns(keys, keys));
    let by = names(keys);
    let conclusion = heaviest.and_then(|(row, reused)| conclusion(request, keys, row, reused));
    let table = Table {
        view: "reuse",
        result: request.options.result_name.clone(),
        total: missing(columns.len()),
        columns,
        rows,
        notes: conclusion.into_iter().chain(notes(&found, &caches, tlb)).collect(),
        title: request.title(&format!("reuse of memory by {by}")),
        text_columns: shown,
        page: 25,
        empty: without.unwrap_or_else(|| empty(request)),
    };
    table.limited(request.options.limit)
}

fn empty(request: &Request<'_>) -> String {
    if request.everything() {
        "No memory accesses were traced.".to_owned()
    } else {
        "No traced memory accesses match the filter.".to_owned()
    }
}

fn own_columns() -> Vec<Column> {
    let mut columns =
        vec![figure("accesses", "Accesses", "count"), figure("access_percent", "Share", "percent")];
    columns.extend(LEVELS.map(|(_, key, label)| figure(key, label, "percent")));
    columns.extend([
        figure("fitting_bytes", "Fits in", "bytes"),
        figure("lines_per_burst", "Lines per burst", "count"),
        figure("line_use_percent", "Bytes used", "percent"),
        figure("pages_4k", "4 KiB pages per burst", "count"),
        figure("tlb_4k_first_miss", "TLB miss, 4 KiB, first level", "percent"),
        figure("tlb_4k_second_miss", "TLB miss, 4 KiB, second level", "percent"),
        figure("pages_2m", "2 MiB pages per burst", "count"),
        figure("tlb_2m_first_miss", "TLB miss, 2 MiB, first level", "percent"),
        figure("tlb_2m_second_miss", "TLB miss, 2 MiB, second level", "percent"),
    ]);
    columns.extend(CURVE.map(|(_, key, label)| figure(key, label, "percent")));
    columns
}

fn figures(row: &AccessRow, reused: &ReuseRow, caches: &[CacheSize]) -> Vec<Cell> {
    let at_level = |level: u32| match caches.iter().find(|cache| cache.level == level) {
        Some(cache) => reused.curve.miss(cache.bytes),
        None => Metric::unavailable("percent", "the machine does not report this cache"),
    };
    let mut metrics = vec![row.accesses.clone(), row.share.clone()];
    metrics.extend(LEVELS.map(|(level, ..)| at_level(level)));
    metrics.extend([reused.curve.fitting(), row.lines.clone(), row.line_use.clone()]);
    for reach in [&reused.small_pages, &reused.large_pages] {
        metrics.extend([reach.pages.clone(), reach.first_miss.clone(), reach.second_miss.clone()]);
    }
    metrics.extend(CURVE.map(|(size, ..)| reused.curve.miss(Bytes(size))));
    metrics.into_iter().map(Cell::metric).collect()
}

/// What the heaviest row wants, in one sentence.
fn conclusion(
    request: &Request<'_>,
    keys: &[Key],
    row: &AccessRow,
    reused: &ReuseRow,
) -> Option<String> {
    let stacks = &request.profile.stacks;
    let function = &stacks.function_of(row.place).name;
    let object = row.key.object.map(|id| request.objects().get(id).name.as_str());
    let what = match (object, keys.contains(&Key::Function)) {
        (Some(object), true) => format!("{function} with {object}"),
        (Some(object), false) => format!("Code that uses {object}"),
        (None, true) => function.clone(),
        (None, false) => format!("The row with {function}"),
    };
    let share = text::percent(row.share.value?);
    let fitting = reused.curve.fitting();
    Some(match fitting.value {
        Some(value) => {
            let range = range(fitting.low, fitting.high).unwrap_or_default();
            format!(
                "{what} makes {share} % of the accesses; a cache of {} would hold 95 % of them{range}.",
                text::bytes(value)
            )
        }
        None => {
            format!("{what} makes {share} % of the accesses; {}.", fitting.note.unwrap_or_default())
        }
    })
}

/// ` (between 32 MiB and 48 MiB)`; nothing where both ends print the same.
fn range(low: Option<f64>, high: Option<f64>) -> Option<String> {
    let (low, high) = (text::bytes(low?), text::bytes(high?));
    (low != high).then(|| format!(" (between {low} and {high})"))
}

fn notes(found: &Reuse, caches: &[CacheSize], tlb: TlbSizes) -> Vec<String> {
    let mut notes = Vec::new();
    let (read, asked) = found.bursts;
    if read == 0 {
        return notes;
    }
    let sizes: Vec<String> =
        caches.iter().map(|cache| format!("L{} {}", cache.level, cache.bytes)).collect();
    let sizes = if sizes.is_empty() { "no cache is known".to_owned() } else { sizes.join(", ") };
    notes.push(format!(
        "Modelled: fully associative, least recently used, one thread, no prefetching. {sizes}; TLB {} and {} \
         translations. n/a: bursts are too short for distances of that size.",
        tlb.first_small, tlb.second
    ));
    if read < asked {
        notes.push(format!("{read} of {asked} bursts were used, evenly spaced."));
    }
    let unknown: u64 = found.rows.iter().map(|row| row.unknown).fold(0, u64::saturating_add);
    if unknown > 0 {
        notes.push(format!("{} accesses have unknown distances.", text::count(unknown as f64)));
    }
    notes
}

pub(crate) fn working_set(request: &Request<'_>, code: &TracedCode) -> Table {
    let profile = request.profile;
    let tlb = TlbSizes::of(&profile.recording.run.host);
    let keys = [Key::Module];
    let found = analysis::reuse::reuse(profile, code, request.selection, &keys, &[], tlb);
    let columns = vec![
        Column { key: "start", label: "Start", unit: None },
        name("thread", "Thread"),
        figure("pages_4k", "4 KiB pages", "count"),
        figure("pages_4k_so_far", "4 KiB pages so far", "count"),
        figure("working_set_pages", "Working set, 4 KiB pages", "count"),
        figure("pages_2m", "2 MiB pages", "count"),
        figure("pages_2m_so_far", "2 MiB pages so far", "count"),
    ];
    let rows = found.footprints.iter().map(|one| {
        let thread = profile.threads.find(one.pid, one.tid);
        let label = thread.map(|thread| profile.threads.get(thread).label());
        let mut cells = vec![
            Cell::Seconds(one.time.seconds()),
            Cell::text(label.unwrap_or_else(|| one.tid.to_string())),
        ];
        let metrics = [
            &one.small_pages,
            &one.small_pages_so_far,
            &one.working_set,
            &one.large_pages,
            &one.large_pages_so_far,
        ];
        cells.extend(metrics.map(|metric| Cell::metric(metric.clone())));
        cells
    });
    let mut notes = Vec::new();
    if !found.footprints.is_empty() {
        notes.push(
            "Pages that bursts touched. The working set is estimated from the pages that two bursts of a thread, \
             at most 250 ms apart, have in common."
                .to_owned(),
        );
    }
    let (read, asked) = found.bursts;
    if read < asked {
        notes.push(format!("{read} of {asked} bursts were used, evenly spaced."));
    }
    let table = Table {
        view: "working-set",
        result: request.options.result_name.clone(),
        total: missing(columns.len()),
        columns,
        rows: rows.collect(),
        notes,
        title: request.title("memory touched by bursts"),
        text_columns: vec![
            CellStyle::Start("start").titled("start"),
            CellStyle::Count("pages_4k").titled("4K pages"),
            CellStyle::Count("pages_4k_so_far").titled("so far"),
            CellStyle::Count("working_set_pages").titled("working set"),
            CellStyle::Count("pages_2m").titled("2M pages"),
            CellStyle::Count("pages_2m_so_far").titled("so far"),
            CellStyle::Text("thread").titled("thread"),
        ],
        page: 40,
        empty: empty(request),
    };
    table.limited(request.options.limit)
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn a_range_is_named_where_its_ends_read_differently() {
        let mebibytes = |number: f64| Some(number * 1048576.0);
        let expected = " (between 32 MiB and 48 MiB)".to_owned();
        assert_eq!(range(mebibytes(32.0), mebibytes(48.0)), Some(expected));
        assert_eq!(range(mebibytes(32.0), mebibytes(32.001)), None);
        assert_eq!(range(None, mebibytes(48.0)), None);
    }
}
