//! The figures of a row of `objects`, and how large an object is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use analysis::RowKey;
use analysis::memory::{Latency, LatencyStep};
use analysis::objects::{
    FirstTouch, HUGE_PAGE, Object, ObjectId, ObjectKind, ObjectPages, ObjectRow, ObjectTable,
};
use analysis::stalls::StallRow;
use base::{Bytes, NodeId};
use facts::{Evidence, Metric};

use super::super::Request;
use super::super::accesses::stride;
use super::super::list::{
    BYTES, COUNT, Columns, Figure, NANOSECONDS, PERCENT, PERCENT_ALONE, SECONDS, Unit, WORDS,
};
use crate::table::{Cell, CellStyle};
use crate::text;

/// Steps of the latency histogram with less than this share are left out, %.
const LEAST_STEP: f64 = 1.0;

const STALLED: [Figure; 3] = [
    ("stall_time", "CPU time at its accesses", SECONDS, "time"),
    ("stall_percent", "Share of all CPU time", PERCENT_ALONE, "time %"),
    ("remote_percent", "Part for another node", PERCENT_ALONE, "remote %"),
];
const TRACED: [Figure; 2] = [
    ("accesses", "Traced accesses", COUNT, ""),
    ("access_percent", "Share of accesses", PERCENT_ALONE, "share %"),
];
const MOVED: [Figure; 6] = [
    ("loads", "Loads", COUNT, "loads"),
    ("stores", "Stores", COUNT, "stores"),
    ("dram_read", "Read from memory", BYTES, ""),
    ("dram_write", "Written to memory", BYTES, ""),
    ("dram_percent", "Share of traffic", PERCENT_ALONE, "DRAM %"),
    ("object_percent", "Share of the object's traffic", PERCENT_ALONE, "of object"),
];
const LATENCY: [Figure; 5] = [
    ("latency", "Mean latency", NANOSECONDS, "ns"),
    ("latency_p50", "Median", NANOSECONDS, ""),
    ("latency_p95", "95 %", NANOSECONDS, ""),
    ("latency_p99", "99 %", NANOSECONDS, ""),
    ("latency_histogram", "Loads by latency", WORDS, ""),
];
const PATTERN: [Figure; 3] = [
    ("stride", "Stride", Unit("", CellStyle::Figure), "stride"),
    ("stride_bytes", "Stride", BYTES, ""),
    ("line_use_percent", "Bytes of lines used", PERCENT, ""),
];

/// The figures of each row. `whole` is the traffic of an object.
pub(super) fn add<'a>(
    columns: &mut Columns<'a, (RowKey, &'a ObjectRow)>,
    request: &'a Request<'a>,
    found: &'a ObjectTable,
    whole: &'a BTreeMap<ObjectId, f64>,
) {
    let object = |key: &RowKey| key.object.map(|id| request.objects().get(id));
    let pages = |key: &RowKey| match key.object.and_then(|id| found.pages.get(&id)) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(ObjectPages::unknown(request.profile)),
    };
    columns.figures(STALLED, |(_, row)| stalled(request, found, row.stall));
    columns.figures(TRACED, |(_, row)| traced(row));
    columns.figures(MOVED, |(key, row)| {
        let whole = key.object.and_then(|object| whole.get(&object)).copied();
        moved(found, row, whole.unwrap_or(0.0))
    });
    columns.figures(LATENCY, |(_, row)| latency(found, row));
    columns.figures(PATTERN, |(_, row)| pattern(row));
    columns.name("sharing", "Sharing", CellStyle::Text, "sharing", |(_, row)| {
        Cell::text_or_missing(row.sharing.map(analysis::sharing::Sharing::name))
    });
    columns.cell("shared_lines", "Shared lines", COUNT, "", |(_, row)| {
        Cell::metric(traced_count(row.shared_lines as f64, row))
    });
    columns.cell("page_faults", "Page faults", COUNT, "", |(_, row)| {
        Cell::metric(found.fault_scale.quantity(&row.faults))
    });
    columns.cell("page_size", "Page size", BYTES, "", move |(key, _)| {
        Cell::metric(page_size(request, object(key), &pages(key)))
    });
    let node = Unit("count", CellStyle::Figure);
    columns.cell("numa_node", "NUMA node", node, "node", move |(key, _)| {
        Cell::metric(main_node(&pages(key)))
    });
    columns.cell("blocks", "Blocks", COUNT, "blocks", move |(key, _)| {
        object(key).map_or(Cell::Missing, |object| Cell::metric(blocks(object)))
    });
    columns.cell("object_bytes", "Bytes", BYTES, "size", move |(key, _)| {
        object(key).map_or(Cell::Missing, |object| Cell::metric(object_bytes(object)))
    });
    columns.cell("type_bytes_used", "Bytes used of a value", BYTES, "used", |(_, row)| {
        Cell::metric(of_value(row.used.map(|used| used.used)))
    });
    columns.cell("type_bytes", "Bytes of a value", BYTES, "of", |(_, row)| {
        Cell::metric(of_value(row.used.map(|used| used.of)))
    });
    let estimated = "Share of accesses of the object, small blocks estimated";
    columns.cell("object_access_percent", estimated, PERCENT, "", |(key, row)| {
        Cell::metric(with_unrecorded(found, key, row))
    });
    columns.cell("huge_pages", "In huge pages", PERCENT_ALONE, "huge %", move |(key, _)| {
        Cell::metric(pages(key).huge.clone())
    });
    columns.name("nodes", "On NUMA nodes", CellStyle::Text, "", move |(key, _)| {
        pages(key).nodes.as_ref().map_or(Cell::Missing, |nodes| Cell::text(shares(nodes)))
    });
    let first = |key: &RowKey| found.first_touches.get(&key.object?)?.first();
    columns.name("first_thread", "First touched by", CellStyle::Text, "", move |(key, _)| {
        first(key).map_or(Cell::Missing, |one| {
            Cell::text(request.profile.threads.get(one.thread).label())
        })
    });
    columns.name("first_function", "First touched in", CellStyle::Text, "", move |(key, _)| {
        Cell::text_or_missing(first(key).and_then(|one| first_function(request, one)))
    });
    columns.cell("first_percent", "Of its first touches", PERCENT, "", move |(key, _)| {
        let unknown = || Metric::unavailable("percent", found.no_first_touch);
        Cell::metric(first(key).map_or_else(unknown, |one| one.share.clone()))
    });
    columns.name("element_type", "Type of its elements", CellStyle::Text, "", move |(key, _)| {
        key.object
            .filter(|_| object(key).is_some_and(|object| object.kind.has_elements()))
            .and_then(|id| found.element_types.get(&id))
            .map_or(Cell::Missing, |name| Cell::text(name.clone()))
    });
    columns.name("allocation_stack", "Allocated by", CellStyle::Stack, "", move |(key, _)| {
        let stacks = &request.profile.stacks;
        let name = |place| stacks.function_of(place).name.clone();
        object(key).and_then(|object| object.stack).map_or(Cell::Missing, |stack| {
            Cell::Stack(stacks.frames(Some(stack)).map(name).collect())
        })
    });
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

/// `2-5 ns 71 % (65 to 77 %), 100-150 ns 29 %`.
fn histogram(latency: &Latency) -> String {
    let steps = latency.histogram.iter().filter_map(|LatencyStep { from, to, share }| {
        let value = share.value.filter(|share| *share >= LEAST_STEP)?;
        let to = if to.is_finite() { format!("-{to:.0}") } else { " and more".to_owned() };
        let ends = share.low.zip(share.high).map(|(low, high)| (low.round(), high.round()));
        let interval = ends.filter(|(low, high)| low < high);
        let interval =
            interval.map_or(String::new(), |(low, high)| format!(" ({low:.0} to {high:.0} %)"));
        Some(format!("{from:.0}{to} ns {value:.0} %{interval}"))
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

/// In which function an object was touched first.
pub(super) fn first_function<'a>(request: &Request<'a>, touch: &FirstTouch) -> Option<&'a str> {
    let stacks = &request.profile.stacks;
    touch.place.map(|place| stacks.function_of(place).name.as_str())
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
