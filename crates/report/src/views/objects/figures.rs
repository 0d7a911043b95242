//! The figures of a row of `objects`, and how large an object is.

use analysis::RowKey;
use analysis::memory::Latency;
use analysis::objects::{HUGE_PAGE, Object, ObjectKind, ObjectPages, ObjectRow, ObjectTable};
use analysis::stalls::StallRow;
use base::{Bytes, NodeId};
use facts::{Evidence, Metric};

use super::super::Request;
use super::super::accesses::stride;
use crate::table::Cell;
use crate::text;

/// Steps of the latency histogram with less than this share are left out, %.
const LEAST_STEP: f64 = 1.0;

/// Figures of each row.
pub(super) const FIGURES: [(&str, &str, Option<&str>); 32] = [
    ("stall_time", "CPU time at its accesses", Some("s")),
    ("stall_percent", "Share of all CPU time", Some("percent")),
    ("remote_percent", "Part for another node", Some("percent")),
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
    ("type_bytes_used", "Bytes used of a value", Some("bytes")),
    ("type_bytes", "Bytes of a value", Some("bytes")),
    (
        "object_access_percent",
        "Share of accesses of the object, small blocks estimated",
        Some("percent"),
    ),
    ("huge_pages", "In huge pages", Some("percent")),
    ("nodes", "On NUMA nodes", None),
    ("element_type", "Type of its elements", None),
];

/// The cells of [`FIGURES`], and the allocation stack. `whole` is the traffic of the row's object.
pub(super) fn figures(
    request: &Request<'_>,
    found: &ObjectTable,
    key: &RowKey,
    row: &ObjectRow,
    whole: f64,
) -> Vec<Cell> {
    let object = key.object.map(|id| request.objects().get(id));
    let pages = key.object.and_then(|id| found.pages.get(&id)).cloned();
    let pages = pages.unwrap_or_else(|| ObjectPages::unknown(request.profile));
    let mut cells: Vec<Cell> = Vec::with_capacity(FIGURES.len() + 1);
    cells.extend(stalled(request, found, row.stall));
    cells.extend(traced(row));
    cells.extend(moved(found, row, whole));
    cells.extend(latency(found, row));
    cells.extend(pattern(row));
    let used = row.used.map(|used| (used.used, used.of)).unzip();
    let figure = |metric| Cell::metric(metric);
    cells.extend([
        Cell::text_or_missing(row.sharing.map(analysis::sharing::Sharing::name)),
        figure(traced_count(row.shared_lines as f64, row)),
        figure(found.fault_scale.quantity(&row.faults)),
        figure(page_size(request, object, &pages)),
        figure(main_node(&pages)),
        object.map_or(Cell::Missing, |object| figure(blocks(object))),
        object.map_or(Cell::Missing, |object| figure(object_bytes(object))),
        figure(of_value(used.0)),
        figure(of_value(used.1)),
        figure(with_unrecorded(found, key, row)),
        figure(pages.huge.clone()),
        pages.nodes.as_ref().map_or(Cell::Missing, |nodes| Cell::text(shares(nodes))),
        key.object
            .filter(|_| object.is_some_and(|object| object.kind.has_elements()))
            .and_then(|id| found.element_types.get(&id))
            .map_or(Cell::Missing, |name| Cell::text(name.clone())),
    ]);
    let stacks = &request.profile.stacks;
    let frames = object.and_then(|object| object.stack).map(|stack| {
        let name = |place| stacks.function_of(place).name.clone();
        stacks.frames(Some(stack)).map(name).collect()
    });
    cells.push(frames.map_or(Cell::Missing, Cell::Stack));
    cells
}

/// Its share of accesses with those of its blocks that have no record, of whole objects.
fn with_unrecorded(found: &ObjectTable, key: &RowKey, row: &ObjectRow) -> Metric {
    let whole = RowKey { object: key.object, ..RowKey::default() } == *key;
    let estimated = key.object.and_then(|object| found.with_unrecorded.get(&object));
    match (whole, estimated, &row.accesses) {
        (false, ..) => Metric::unavailable("percent", "known for whole objects only"),
        (true, Some(estimated), _) => estimated.clone(),
        (true, None, Some(row)) => row.share.clone(),
        (true, None, None) => Metric::unavailable("percent", NOT_TRACED),
    }
}

const NOT_TRACED: &str = "no burst recorded an access to it";

fn stalled(request: &Request<'_>, found: &ObjectTable, row: Option<StallRow>) -> [Cell; 3] {
    let row = match found.stalls {
        Ok(_) => row.unwrap_or_default(),
        Err(why) => {
            return ["s", "percent", "percent"]
                .map(|unit| Cell::metric(Metric::unavailable(unit, why)));
        }
    };
    let scale = request.profile.cpu_scale();
    let nodes = request.profile.recording.run.host.numa_nodes.len();
    let among = &request.prepared.stalls().totals.among;
    let [time, share] = ["s", "percent"].map(|unit| row.metric(&scale, unit, among));
    [time, share, row.remote_percent(nodes)].map(Cell::metric)
}

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
    let bytes = row.traffic();
    let of_object = if memory.is_some() && whole > 0.0 {
        Metric {
            low: None,
            high: None,
            evidence: Some(Evidence::Estimated),
            note: Some("ratio of two estimates, without an interval".to_owned()),
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

fn of_value(bytes: Option<Bytes>) -> Metric {
    match bytes {
        Some(bytes) => {
            Metric { evidence: Some(Evidence::Traced), ..Metric::counted(bytes.0 as f64, "bytes") }
        }
        None => Metric::unavailable("bytes", "no type is known, or rows are not by type or field"),
    }
}

/// Where it is fixed, that; else the size that more of its memory has.
fn page_size(request: &Request<'_>, object: Option<&Object>, pages: &ObjectPages) -> Metric {
    if let Some(page) = object.and_then(|object| object.page) {
        return Metric::counted(page.0 as f64, "bytes");
    }
    let huge = &pages.huge;
    let Some(percent) = huge.value else {
        return Metric::unavailable("bytes", huge.note.as_deref().unwrap_or_default());
    };
    let base = request.profile.recording.run.host.page_bytes;
    let bytes = if percent > 50.0 { HUGE_PAGE } else { base };
    most(bytes as f64, "bytes", huge)
        .noted(&format!("{} % of its memory is in huge pages", text::percent(percent)))
}

/// The node that most of its memory is on.
fn main_node(pages: &ObjectPages) -> Metric {
    let nodes = match &pages.nodes {
        Ok(nodes) => nodes.as_slice(),
        Err(why) => return Metric::unavailable("count", why),
    };
    nodes.first().map_or_else(
        || Metric::unavailable("count", "none of its pages was sampled"),
        |(node, share)| {
            let percent = text::percent(share.value.unwrap_or(0.0));
            most(f64::from(node.0), "count", share)
                .noted(&format!("{percent} % of its memory is resident"))
        },
    )
}

/// What is true of most of what was drawn: no amount, so without an interval.
fn most(value: f64, unit: &str, share: &Metric) -> Metric {
    Metric {
        low: None,
        high: None,
        evidence: share.evidence,
        samples: share.samples,
        ..Metric::counted(value, unit)
    }
}

/// `0: 75 % (70 to 79), 1: 25 % (21 to 30)`.
fn shares(nodes: &[(NodeId, Metric)]) -> String {
    let one = |(node, share): &(NodeId, Metric)| {
        let [value, low, high] =
            [share.value, share.low, share.high].map(|one| text::percent(one.unwrap_or(0.0)));
        format!("{node}: {value} % ({low} to {high})")
    };
    nodes.iter().map(one).collect::<Vec<_>>().join(", ")
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
        return Metric::unavailable(unit, "its range of memory was not recorded");
    }
    if object.blocks == object.ranges as f64 {
        return Metric::counted(value, unit);
    }
    Metric {
        low: None,
        high: None,
        evidence: Some(Evidence::Sampled),
        samples: object.ranges,
        note: Some("small blocks were drawn at random: `allocations` has the interval".to_owned()),
        ..Metric::counted(value, unit)
    }
}

/// `(1 block of 64 MiB)`, `(double, 1000 blocks of 64 B)`, `(12 blocks, 3 MiB)`; of variables and stacks only their bytes.
pub(crate) fn extent(object: &Object, element_type: Option<&str>) -> String {
    let about = if object.blocks == object.ranges as f64 { "" } else { "about " };
    let count = text::count(object.blocks.round());
    let size = |bytes: f64| text::bytes(bytes);
    let extent = match object.kind {
        ObjectKind::Heap if object.ranges == 1 && about.is_empty() => {
            format!("1 block of {}", size(object.bytes))
        }
        ObjectKind::Heap if object.smallest == object.largest => {
            format!("{about}{count} blocks of {}", size(object.largest.0 as f64))
        }
        ObjectKind::Heap => format!("{about}{count} blocks, {}", size(object.bytes)),
        _ => size(object.bytes),
    };
    match element_type {
        Some(name) => format!("({}, {extent})", text::shorten_function(name, TYPE)),
        None => format!("({extent})"),
    }
}

/// Columns of a type's name next to its object.
const TYPE: usize = 30;
