//! `reuse`: how much cache and how many translations code needs; `working-set`: which memory bursts touched.

use std::borrow::Cow;
use std::collections::HashMap;

use analysis::accesses::{AccessRow, Accesses};
use analysis::reuse::{
    CacheSize, Footprint, Reuse, ReuseRow, TlbSizes, cache_sizes, reuse_of_objects,
};
use analysis::{Key, RowKey, TracedCode};
use base::Bytes;
use facts::Metric;

use super::Request;
use super::columns::{columns_of_objects, names, short_columns};
use super::list::{BYTES, COUNT, Columns, PERCENT, PERCENT_ALONE};
use crate::table::{Cell, CellStyle, Table};
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
const LEVELS: [(u32, &str, &str, &str); 3] = [
    (1, "miss_l1", "Miss at L1", "L1 miss %"),
    (2, "miss_l2", "Miss at L2", "L2 miss %"),
    (3, "miss_l3", "Miss at L3", ""),
];

/// Accesses of code, and those of them to data that was accessed before.
type Row<'a> = (&'a AccessRow, &'a ReuseRow);

pub(crate) fn reuse(request: &Request<'_>, code: &TracedCode) -> Table {
    let profile = request.profile;
    let keys = keys_of_reuse(&request.options.group);
    let caches = cache_sizes(&profile.recording.run);
    let tlb = TlbSizes::of(&profile.recording.run.host);
    let without = request.without_objects();
    let (accesses, found) = if without.is_some() {
        (Accesses::default(), Cow::default())
    } else {
        let (grouping, selection) = (request.grouping(code, keys), request.selection);
        let found = match (request.by_object(), keys) {
            (true, _) => Cow::Owned(reuse_of_objects(&grouping, &caches, tlb)),
            (false, [Key::Function]) => request.prepared.reuse(selection),
            (false, _) => {
                Cow::Owned(analysis::reuse::reuse(profile, code, selection, keys, &caches, tlb))
            }
        };
        (request.prepared.accesses(&grouping).0, found)
    };
    let by_key: HashMap<RowKey, &ReuseRow> = found.rows.iter().map(|row| (row.key, row)).collect();
    let rows: Vec<Row<'_>> =
        accesses.rows.iter().filter_map(|row| Some((row, *by_key.get(&row.key)?))).collect();
    let columns = columns(request, keys, &caches);
    let conclusion = rows.first().and_then(|(row, reused)| conclusion(request, keys, row, reused));
    let what = format!("reuse of memory by {}", names(keys));
    Table {
        notes: conclusion.into_iter().chain(notes(&found, &caches, tlb)).collect(),
        empty: without.unwrap_or_else(|| empty(request)),
        ..columns.table(request, "reuse", &what, &rows)
    }
}

/// Rows are by function unless other keys were typed.
pub(super) fn keys_of_reuse(typed: &[Key]) -> &[Key] {
    if typed.is_empty() { &[Key::Function] } else { typed }
}

fn empty(request: &Request<'_>) -> String {
    if request.everything() {
        "No memory accesses were traced.".to_owned()
    } else {
        "No traced memory accesses match the filter.".to_owned()
    }
}

fn columns<'a>(
    request: &'a Request<'a>,
    keys: &'a [Key],
    caches: &'a [CacheSize],
) -> Columns<'a, Row<'a>> {
    let mut columns = Columns::by(request, keys, None, |(row, _): &Row<'a>| (&row.key, row.place));
    columns.figure("accesses", "Accesses", COUNT, "", |(row, _)| &row.accesses);
    columns.figure("access_percent", "Share", PERCENT, "share %", |(row, _)| &row.share);
    for (level, key, label, heading) in LEVELS {
        let cache = caches.iter().find(|cache| cache.level == level);
        columns.cell(key, label, PERCENT, heading, move |(_, reused)| {
            Cell::metric(match cache {
                Some(cache) => reused.curve.miss(cache.bytes),
                None => Metric::unavailable("percent", "the machine does not report this cache"),
            })
        });
    }
    columns.cell("fitting_bytes", "Fits in", BYTES, "block for", |(_, reused)| {
        Cell::metric(reused.curve.fitting())
    });
    columns.figure("lines_per_burst", "Lines per burst", COUNT, "", |(row, _)| &row.lines);
    columns.figure("line_use_percent", "Bytes used", PERCENT_ALONE, "used %", |(row, _)| {
        &row.line_use
    });
    let mut pages = |key, label, unit, heading, metric: fn(&ReuseRow) -> &Metric| {
        columns.figure(key, label, unit, heading, move |(_, reused)| metric(reused));
    };
    pages("pages_4k", "4 KiB pages per burst", COUNT, "", |row| &row.small_pages.pages);
    pages("tlb_4k_first_miss", "TLB miss, 4 KiB, first level", PERCENT, "", |row| {
        &row.small_pages.first_miss
    });
    pages("tlb_4k_second_miss", "TLB miss, 4 KiB, second level", PERCENT, "TLB miss %", |row| {
        &row.small_pages.second_miss
    });
    pages("pages_2m", "2 MiB pages per burst", COUNT, "", |row| &row.large_pages.pages);
    pages("tlb_2m_first_miss", "TLB miss, 2 MiB, first level", PERCENT, "", |row| {
        &row.large_pages.first_miss
    });
    pages("tlb_2m_second_miss", "TLB miss, 2 MiB, second level", PERCENT, "", |row| {
        &row.large_pages.second_miss
    });
    for (size, key, label) in CURVE {
        columns.cell(key, label, PERCENT, "", move |(_, reused)| {
            Cell::metric(reused.curve.miss(Bytes(size)))
        });
    }
    columns.show(&["access_percent", "miss_l1", "miss_l2", "fitting_bytes", "line_use_percent"]);
    columns.show(&["tlb_4k_second_miss"]);
    columns.text.extend(columns_of_objects(keys));
    columns.text.extend(short_columns(keys, keys));
    columns
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

pub(crate) fn working_set(request: &Request<'_>) -> Table {
    let profile = request.profile;
    let found = request.prepared.reuse(request.selection);
    let mut columns = Columns::new();
    columns.name("start", "Start", CellStyle::Start, "start", |one: &Footprint| {
        Cell::Seconds(one.time.seconds())
    });
    columns.name("thread", "Thread", CellStyle::Text, "thread", |one| {
        let thread = profile.threads.find(one.pid, one.tid);
        let label = thread.map(|thread| profile.threads.get(thread).label());
        Cell::text(label.unwrap_or_else(|| one.tid.to_string()))
    });
    columns.figure("pages_4k", "4 KiB pages", COUNT, "4K pages", |one| &one.small_pages);
    columns.figure("pages_4k_so_far", "4 KiB pages so far", COUNT, "so far", |one| {
        &one.small_pages_so_far
    });
    columns.figure("working_set_pages", "Working set, 4 KiB pages", COUNT, "working set", |one| {
        &one.working_set
    });
    columns.figure("pages_2m", "2 MiB pages", COUNT, "2M pages", |one| &one.large_pages);
    columns.figure("pages_2m_so_far", "2 MiB pages so far", COUNT, "so far", |one| {
        &one.large_pages_so_far
    });
    columns.show(&["start", "pages_4k", "pages_4k_so_far", "working_set_pages", "pages_2m"]);
    columns.show(&["pages_2m_so_far", "thread"]);
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
    Table {
        notes,
        page: 40,
        empty: empty(request),
        ..columns.table(request, "working-set", "memory touched by bursts", &found.footprints)
    }
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
