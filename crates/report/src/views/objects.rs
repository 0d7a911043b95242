//! `objects`: memory objects with what was done to them and what that cost, or parts of them and the code that uses them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use analysis::memory::{Latency, Memory};
use analysis::objects::{NOT_COLLECTED, Object, ObjectKind, ObjectRow, ObjectTable, object_table};
use analysis::{Key, RowKey, TracedCode};
use facts::{Evidence, Metric};

use super::Request;
use super::accesses::stride;
use super::columns::{
    cells_of_key, cells_of_objects, figure, looks_of_objects, missing, name, names, of_keys,
    of_objects, short_looks,
};
use crate::table::{Cell, Column, Look, Table};
use crate::text;

/// Steps of the latency histogram with less than this share are not told, %.
const LEAST_STEP: f64 = 1.0;

/// Figures of each row.
const FIGURES: [(&str, &str, Option<&str>); 24] = [
    ("accesses", "Traced accesses", Some("count")),
    ("access_percent", "Share of accesses", Some("percent")),
    ("loads", "Loads", Some("count")),
    ("stores", "Stores", Some("count")),
    ("dram_read", "Read from memory", Some("bytes")),
    ("dram_write", "Written to memory", Some("bytes")),
    ("dram_percent", "Share of traffic", Some("percent")),
    ("object_percent", "Share of the object's traffic", Some("percent")),
    ("latency", "Mean latency", Some("ns")),
    ("latency_p50", "Median", Some("ns")),
    ("latency_p95", "95 %", Some("ns")),
    ("latency_p99", "99 %", Some("ns")),
    ("latency_histogram", "Loads by latency", None),
    ("stride", "Stride", None),
    ("stride_bytes", "Stride", Some("bytes")),
    ("line_use_percent", "Bytes of lines used", Some("percent")),
    ("sharing", "Sharing", None),
    ("shared_lines", "Shared lines", Some("count")),
    ("page_faults", "Page faults", Some("count")),
    ("page_size", "Page size", Some("bytes")),
    ("numa_node", "NUMA node", Some("count")),
    ("blocks", "Blocks", Some("count")),
    ("object_bytes", "Bytes", Some("bytes")),
    ("type_bytes_used", "Bytes of a value used", None),
];

pub(crate) fn objects(request: &Request<'_>, code: &TracedCode) -> Table {
    let keys = with_object(&request.options.group);
    let grouping = request.grouping(code, &keys);
    let memory = Memory::with_objects(request.profile, code, request.objects, grouping.pieces());
    let found = object_table(&grouping, &memory);
    let rows = if request.objects.any() { sorted(&found, &keys) } else { Vec::new() };
    let by_code = of_keys(&keys);
    let mut columns: Vec<Column> = of_objects(&keys);
    columns.extend(by_code);
    let of_key = columns.len();
    columns.extend(FIGURES.map(|(key, label, unit)| match unit {
        Some(unit) => figure(key, label, unit),
        None => name(key, label),
    }));
    columns.push(name("allocation_stack", "Allocated by"));
    let of_object = traffic_by_object(&found);
    let cells = |(key, row): &(RowKey, &ObjectRow)| {
        let mut cells = cells_of_objects(request, &keys, key);
        cells.extend(cells_of_key(request.profile, &keys, key, row.place(), None));
        let whole = key.object.and_then(|object| of_object.get(&object)).copied().unwrap_or(0.0);
        cells.extend(figures(request, &found, key, row, whole));
        cells
    };
    let table = Table {
        view: "objects",
        result: request.options.result_name.clone(),
        rows: rows.iter().map(cells).collect(),
        total: total(request, &found, &memory, of_key, columns.len()),
        columns,
        notes: if rows.is_empty() { Vec::new() } else { notes(request, &found, &memory) },
        title: request.title(&format!("memory objects{}", by(&keys))),
        looks: shown(request, &keys, &rows),
        page: 25,
        empty: if !request.objects.any() {
            format!("n/a: {NOT_COLLECTED}.")
        } else {
            "No traced memory accesses match the filter.".to_owned()
        },
    };
    table.limited(request.options.limit)
}

/// Every row is of an object, whether or not that was typed.
fn with_object(keys: &[Key]) -> Vec<Key> {
    let mut keys = keys.to_vec();
    if !keys.contains(&Key::Object) {
        keys.insert(0, Key::Object);
    }
    keys
}

fn by(keys: &[Key]) -> String {
    if keys == [Key::Object] { String::new() } else { format!(" by {}", names(keys)) }
}

/// Most traffic first, then most accesses; with several keys the rows of what the first says stay together.
fn sorted<'a>(found: &'a ObjectTable, keys: &[Key]) -> Vec<(RowKey, &'a ObjectRow)> {
    let first = |key: &RowKey| match keys.first() {
        Some(Key::Object) | None => RowKey { object: key.object, ..RowKey::default() },
        Some(Key::Function) => RowKey { function: key.function, ..RowKey::default() },
        Some(Key::SourceLine) => RowKey { line: key.line, ..RowKey::default() },
        Some(Key::Module) => RowKey { module: key.module, ..RowKey::default() },
        Some(_) => RowKey { piece: key.piece, field: key.field, ..RowKey::default() },
    };
    let mut sums: BTreeMap<RowKey, [f64; 3]> = BTreeMap::new();
    for (key, row) in &found.rows {
        let sum = sums.entry(first(key)).or_default();
        sum.iter_mut().zip(row.weight()).for_each(|(sum, more)| *sum += more);
    }
    let mut rows: Vec<(RowKey, &ObjectRow)> =
        found.rows.iter().map(|(key, row)| (*key, row)).collect();
    let falling = |a: [f64; 3], b: [f64; 3]| b.partial_cmp(&a).unwrap_or(Ordering::Equal);
    rows.sort_by(|(a, one), (b, other)| {
        falling(sums[&first(a)], sums[&first(b)])
            .then_with(|| first(a).cmp(&first(b)))
            .then_with(|| falling(one.weight(), other.weight()))
    });
    rows
}

/// Bytes moved of each object, over all its rows.
fn traffic_by_object(found: &ObjectTable) -> BTreeMap<analysis::objects::ObjectId, f64> {
    let mut sums = BTreeMap::new();
    for (key, row) in &found.rows {
        if let Some(object) = key.object {
            *sums.entry(object).or_default() += row.weight()[0];
        }
    }
    sums
}

fn figures(
    request: &Request<'_>,
    found: &ObjectTable,
    key: &RowKey,
    row: &ObjectRow,
    whole: f64,
) -> Vec<Cell> {
    let object = key.object.map(|id| request.objects.get(id));
    let mut cells: Vec<Cell> = Vec::with_capacity(FIGURES.len() + 1);
    cells.extend(traced(row));
    cells.extend(moved(found, row, whole));
    cells.extend(latency(found, row));
    cells.extend(pattern(row));
    let used = row.used.map(|(used, of)| format!("{} of {}", used.0, of.0));
    let figure = |metric| Cell::metric(metric);
    cells.extend([
        Cell::text_or_missing(row.sharing.map(analysis::sharing::Sharing::name)),
        figure(traced_count(row.shared_lines as f64, row)),
        figure(found.fault_scale.quantity(&row.faults)),
        figure(page_size(object)),
        figure(Metric::unavailable("count", "the NUMA node of pages is not collected")),
        object.map_or(Cell::Missing, |object| figure(blocks(object))),
        object.map_or(Cell::Missing, |object| figure(object_bytes(object))),
        Cell::text_or_missing(used.as_deref()),
    ]);
    let stacks = &request.profile.stacks;
    let frames = object.and_then(|object| object.stack).map(|stack| {
        let name = |place| stacks.function_of(place).name.clone();
        stacks.frames(Some(stack)).map(name).collect()
    });
    cells.push(frames.map_or(Cell::Missing, Cell::Stack));
    cells
}

const NOT_TRACED: &str = "no burst saw an access to it";

fn traced(row: &ObjectRow) -> [Cell; 2] {
    let part = |unit, metric: Option<&Metric>| {
        Cell::metric(metric.cloned().unwrap_or_else(|| Metric::unavailable(unit, NOT_TRACED)))
    };
    let accesses = row.accesses.as_ref();
    [
        part("count", accesses.map(|row| &row.accesses)),
        part("percent", accesses.map(|row| &row.share)),
    ]
}

fn moved(found: &ObjectTable, row: &ObjectRow, whole: f64) -> [Cell; 6] {
    let why = found.missing.as_deref().unwrap_or(NOT_TRACED);
    let memory = row.memory.as_ref();
    let part = |unit, metric: Option<&Metric>| {
        Cell::metric(metric.cloned().unwrap_or_else(|| Metric::unavailable(unit, why)))
    };
    let bytes = row.weight()[0];
    let of_object = if memory.is_some() && whole > 0.0 {
        Metric {
            low: None,
            high: None,
            evidence: Some(Evidence::Estimated),
            note: Some("of two estimates, without an interval".to_owned()),
            ..Metric::counted(bytes / whole * 100.0, "percent")
        }
    } else {
        Metric::unavailable("percent", "the object moved no data to or from memory")
    };
    [
        part("count", memory.map(|row| &row.loads)),
        part("count", memory.map(|row| &row.stores)),
        part("bytes", memory.map(|row| &row.read)),
        part("bytes", memory.map(|row| &row.write)),
        part("percent", memory.map(|row| &row.share)),
        Cell::metric(of_object),
    ]
}

fn latency(found: &ObjectTable, row: &ObjectRow) -> [Cell; 5] {
    let why = found.missing.as_deref().unwrap_or(NOT_TRACED);
    let latency = match row.memory.as_ref().map(|row| &row.latency) {
        Some(Ok(latency)) => latency,
        other => {
            let why = other.and_then(|one| one.as_ref().err()).map_or(why, String::as_str);
            let none = || Cell::metric(Metric::unavailable("ns", why));
            return [none(), none(), none(), none(), Cell::Missing];
        }
    };
    let figure = |metric: &Metric| Cell::metric(metric.clone());
    [
        figure(&latency.mean),
        figure(&latency.p50),
        figure(&latency.p95),
        figure(&latency.p99),
        Cell::text(histogram(latency)),
    ]
}

/// `2-5 ns 71 %, 100-150 ns 29 %`.
fn histogram(latency: &Latency) -> String {
    let steps = latency.histogram.iter().filter_map(|(from, to, share)| {
        let share = share.value.filter(|share| *share >= LEAST_STEP)?;
        let to = if to.is_finite() { format!("-{to:.0}") } else { " and more".to_owned() };
        Some(format!("{from:.0}{to} ns {share:.0} %"))
    });
    steps.collect::<Vec<_>>().join(", ")
}

fn pattern(row: &ObjectRow) -> [Cell; 3] {
    let Some(row) = &row.accesses else {
        let missing = |unit| Cell::metric(Metric::unavailable(unit, NOT_TRACED));
        return [Cell::Missing, missing("bytes"), missing("percent")];
    };
    [
        Cell::text(stride(row.pattern)),
        Cell::metric(row.stride.clone()),
        Cell::metric(row.line_use.clone()),
    ]
}

fn traced_count(value: f64, row: &ObjectRow) -> Metric {
    if row.accesses.is_none() {
        return Metric::unavailable("count", NOT_TRACED);
    }
    Metric { evidence: Some(Evidence::Traced), ..Metric::counted(value, "count") }
}

fn page_size(object: Option<&Object>) -> Metric {
    match object.and_then(|object| object.page) {
        Some(page) => Metric::counted(page.0 as f64, "bytes"),
        None => Metric::unavailable(
            "bytes",
            "the kernel chooses it page by page, and which it chose is not collected by address",
        ),
    }
}

/// How many blocks, stacks or mappings.
fn blocks(object: &Object) -> Metric {
    estimated(object, object.blocks, "count")
}

/// Bytes of an object, as asked for: of all its blocks together, whether or not they lived at one time.
pub(crate) fn object_bytes(object: &Object) -> Metric {
    estimated(object, object.bytes, "bytes")
}

fn estimated(object: &Object, value: f64, unit: &str) -> Metric {
    if object.kind == ObjectKind::Unknown {
        return Metric::unavailable(unit, "it is no range of memory that was recorded");
    }
    if object.blocks == object.ranges as f64 {
        return Metric::counted(value, unit);
    }
    Metric {
        low: None,
        high: None,
        evidence: Some(Evidence::Sampled),
        samples: object.ranges,
        note: Some("small blocks were drawn by lot: `allocations` has the interval".to_owned()),
        ..Metric::counted(value, unit)
    }
}

/// `(1 block of 64 MiB)`, `(1000 blocks of 64 B)`, `(12 blocks, 3 MiB)`; nothing for variables and stacks.
pub(crate) fn extent(object: &Object) -> String {
    let about = if object.blocks == object.ranges as f64 { "" } else { "about " };
    let count = text::count(object.blocks.round());
    let size = |bytes: f64| text::bytes(bytes);
    match object.kind {
        ObjectKind::Heap if object.ranges == 1 && about.is_empty() => {
            format!("(1 block of {})", size(object.bytes))
        }
        ObjectKind::Heap if object.smallest == object.largest => {
            format!("({about}{count} blocks of {})", size(object.largest.0 as f64))
        }
        ObjectKind::Heap => format!("({about}{count} blocks, {})", size(object.bytes)),
        _ => format!("({})", size(object.bytes)),
    }
}

fn shown(
    request: &Request<'_>,
    keys: &[Key],
    rows: &[(RowKey, &ObjectRow)],
) -> Vec<(Look, &'static str)> {
    let alone = keys == [Key::Object];
    let mut shown =
        vec![(Look::Count("access_percent"), "share %"), (Look::Count("dram_percent"), "DRAM %")];
    if alone {
        shown.push((Look::Count("loads"), "loads"));
        shown.push((Look::Count("stores"), "stores"));
    } else {
        shown.push((Look::Count("object_percent"), "of object"));
    }
    shown.push((Look::Figure("latency"), "ns"));
    if keys.contains(&Key::Field) {
        shown.push((Look::Text("type_bytes_used"), "used"));
    } else {
        shown.push((Look::Figure("stride"), "stride"));
    }
    if rows.iter().any(|(_, row)| row.sharing.is_some()) {
        shown.push((Look::Text("sharing"), "sharing"));
    }
    if alone {
        shown.push((Look::Count("blocks"), "blocks"));
        shown.push((Look::Bytes("object_bytes"), "size"));
    }
    let (object, code) = (looks_of_objects(keys), short_looks(keys, &request.options.group));
    match keys.first() {
        Some(Key::Function | Key::SourceLine | Key::Module) => {
            shown.extend(code);
            shown.extend(object);
        }
        _ => {
            shown.extend(object);
            shown.extend(code);
        }
    }
    shown
}

/// What the whole program did, when nothing is filtered out.
fn total(
    request: &Request<'_>,
    found: &ObjectTable,
    memory: &Memory<'_>,
    of_key: usize,
    columns: usize,
) -> Vec<Cell> {
    let mut total = missing(of_key);
    if request.everything() && request.objects.any() && found.accesses.total > 0 {
        let traced = |value, unit| Metric {
            evidence: Some(Evidence::Traced),
            samples: found.accesses.bursts,
            ..Metric::counted(value, unit)
        };
        let (loads, stores) = memory.executed();
        total.extend(
            [traced(found.accesses.total as f64, "count"), traced(100.0, "percent"), loads, stores]
                .map(Cell::metric),
        );
    }
    total.extend(missing(columns - total.len()));
    total
}

fn notes(request: &Request<'_>, found: &ObjectTable, memory: &Memory<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let shares = found.shares(|id| request.objects.get(id).kind);
    let of = |named: bool| -> f64 {
        shares.iter().filter(|(kind, _)| kind.is_named() == named).map(|(_, share)| share).sum()
    };
    let rest: Vec<String> = shares
        .iter()
        .filter(|(kind, share)| !kind.is_named() && **share > 0.0)
        .map(|(kind, share)| {
            let what = match kind {
                ObjectKind::SmallBlocks => "in heap memory without a record of its own",
                ObjectKind::Unseen => "in memory of which nobody saw who mapped it",
                _ => "at addresses of nothing that was recorded",
            };
            format!("{} % {what}", text::percent(*share))
        })
        .collect();
    if found.accesses.total > 0 {
        let rest = if rest.is_empty() { String::new() } else { format!("; {}", rest.join(", ")) };
        notes.push(format!(
            "{} % of all traced accesses are to objects with a name{rest}.",
            text::percent(of(true))
        ));
    }
    if let Some(why) = &found.missing {
        notes.push(format!("loads, stores, traffic and latency: n/a, {why}"));
    }
    if request.options.group.contains(&Key::Field) && !request.profile.types.any() {
        notes.push(
            "no types are known: the program has no debug information (compile with -g), or it was not read".to_owned(),
        );
    }
    notes.extend(memory.notes.iter().cloned());
    notes
}
