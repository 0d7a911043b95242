//! `fathom machine`: what the machine is, and its measured performance.
//!
//! What not: measuring (`calibrate`).

use analysis::page_costs::walk_cost;
use base::Bytes;
use facts::Metric;
use facts::host::{
    Cache, CacheKind, Calibration, Host, LatencyPoint, LoadedLatency, NodePair, SampleDistance,
};
use serde::Serialize;
use serde_json::Value;

use crate::modules;
use crate::table::{Cell, CellStyle, Column, Table, TextColumn};
use crate::text::{self, Paint, bytes, number, printable, seconds, wrap};

/// Width of the names before figures.
const LABEL: usize = 18;
const LEVELS: &str = "Caches and load latency";
const NO_LEVEL: &str = "no level could be measured";

/// The machine. In JSON the three parts under their names.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MachineReport {
    /// What it is.
    pub host: Host,
    /// What it was measured to do.
    pub calibration: Calibration,
    /// Its hardware counters; in JSON only, the text about them is the caller's.
    pub counters: Value,
}

/// One line per figure of the calibration; points of curves are named by what they are.
pub(crate) fn metrics(machine: &MachineReport) -> Vec<(String, Metric)> {
    let calibration = &machine.calibration;
    let mut found = crate::json::metrics(machine);
    for point in &calibration.bandwidth {
        let name = format!("calibration.bandwidth.{}.{}_threads", point.kernel, point.threads);
        found.push((format!("{name}.program"), point.program.clone()));
        found.push((format!("{name}.bus"), point.bus.clone()));
    }
    for cache in &calibration.effective_caches {
        let name = format!("calibration.effective_caches.l{}", cache.level);
        found.push((format!("{name}.bytes"), cache.bytes.clone()));
        found.push((format!("{name}.latency"), cache.latency.clone()));
    }
    for point in &calibration.level_bandwidth {
        let name = format!(
            "calibration.level_bandwidth.l{}.{}.{}_threads",
            point.level, point.kernel, point.threads
        );
        found.push((name, point.rate.clone()));
    }
    for pair in &calibration.node_pairs {
        let name = format!("calibration.node_pairs.{}_to_{}", pair.from, pair.to);
        found.push((format!("{name}.latency"), pair.latency.clone()));
        found.push((format!("{name}.one_thread"), pair.one_thread.clone()));
        found.push((format!("{name}.all_threads"), pair.all_threads.clone()));
        for (at, point) in pair.loaded.iter().enumerate() {
            let name = format!("{name}.loaded.{}", at + 1);
            found.push((format!("{name}.rate"), point.rate.clone()));
            found.push((format!("{name}.latency"), point.latency.clone()));
        }
    }
    for (at, point) in calibration.loaded_latency.iter().enumerate() {
        let before = calibration.loaded_latency[..at].iter();
        let number = before.filter(|one| one.threads == point.threads).count() + 1;
        let name = format!("calibration.loaded_latency.{}_threads.{number}", point.threads);
        found.push((format!("{name}.rate"), point.rate.clone()));
        found.push((format!("{name}.latency"), point.latency.clone()));
    }
    for point in &calibration.ladder {
        let name = format!("calibration.ladder.{}_bytes.{}_pages", point.bytes, point.page_bytes);
        found.push((name, point.latency.clone()));
    }
    for one in &calibration.operations {
        let name = format!("calibration.operations.{}.{}_bits", one.operation, one.bits);
        found.push((format!("{name}.each"), one.each.clone()));
        found
            .extend(one.latency.iter().map(|latency| (format!("{name}.latency"), latency.clone())));
    }
    for point in &calibration.flops {
        let name = format!(
            "calibration.flops.{}.{}.{}_threads",
            point.simd, point.precision, point.threads
        );
        found.push((name, point.rate.clone()));
    }
    found
}

/// For people.
pub(crate) fn text(machine: &MachineReport, width: usize, paint: Paint) -> String {
    let (host, calibration) = (&machine.host, &machine.calibration);
    let mut out = what_it_is(host, width, paint);
    out += &section(
        paint,
        "Memory bandwidth",
        bandwidth(calibration),
        width,
        "no kernel could be measured",
    );
    let peak = calibration.peak();
    let rate = figure(peak.as_ref().map(|peak| peak.rate), |value| text::rate(value, "GB/s"));
    let by = peak.and_then(|peak| peak.reached_by);
    let by = by.map(|pass| format!(" ({pass}; the rows above are medians)"));
    out += &entry("Peak", &format!("{rate}{}", by.unwrap_or_default()), width);
    if let Some(theory) = modules::theoretical(host, calibration) {
        out += &entry("Theoretical peak", &theory, width);
    }
    out += &section(paint, LEVELS, caches(host, calibration), width, NO_LEVEL);
    out += &memory_of_nodes(host, calibration, width, paint);
    out += &section(paint, "Load latency by size", ladder(calibration), width, "not measured");
    let loaded = under_load(calibration);
    out += &section(
        paint,
        "Load latency under load",
        loaded,
        width,
        "it takes two CPUs; `fathom machine --refresh` measures it",
    );
    out += &section(paint, "Arithmetic", flops(calibration), width, "not measured");
    out += &format!("\n{}\n", paint.bold("What single events cost"));
    let fault = |metric: Option<&Metric>| figure(metric, |nanos| seconds(nanos * 1e-9));
    out += &entry("New 4 KiB page", &fault(calibration.page_fault_4k.as_ref()), width);
    out += &entry("New 2 MiB page", &fault(calibration.page_fault_2m.as_ref()), width);
    out += &entry("One page walk", &page_walk(host, calibration), width);
    out += &entry("Branch missed", &fault(calibration.branch_miss.as_ref()), width);
    out += &entry("One clock sample", &fault(calibration.sample_cost.as_ref()), width);
    if !calibration.sample_distances.is_empty() {
        out += &entry("Samples stand", &distances(calibration), width);
    }
    if !calibration.notes.is_empty() {
        out += &format!("\n{}\n", paint.bold("Notes"));
    }
    for note in &calibration.notes {
        for (at, line) in wrap(&printable(note), width - 4).iter().enumerate() {
            out += &format!("{}{line}\n", if at == 0 { "  - " } else { "    " });
        }
    }
    out
}

/// What caches and the memory of each node give, as text.
pub(crate) fn measured_by_level_and_node(
    host: &Host,
    calibration: &Calibration,
    width: usize,
) -> String {
    let paint = Paint { colour: false };
    let levels = caches(host, calibration);
    let mut out = section(paint, LEVELS, levels, width, NO_LEVEL);
    out += &memory_of_nodes(host, calibration, width, paint);
    out
}

/// What address translation adds to a load far from the caches, and whether a hypervisor's tables are part of it.
fn page_walk(host: &Host, calibration: &Calibration) -> String {
    let cost = match walk_cost(calibration, None) {
        Some(cost) => format!(
            "{} more per load with 4 KiB pages than with 2 MiB pages, far beyond the caches",
            figure(Some(&cost), |nanos| seconds(nanos * 1e-9))
        ),
        None => {
            "n/a (no latency with pages of 4 KiB and of 2 MiB was measured, or they do not differ)"
                .to_owned()
        }
    };
    // AMD APM vol. 2, 15.25, and Intel SDM vol. 3, 28.3: each of four levels of the guest has an address to translate.
    match &host.hypervisor {
        Some(name) => format!(
            "{cost}; this is a virtual machine ({name}): where it has nested paging, a walk loads up to 24 entries instead of 4"
        ),
        None => cost,
    }
}

/// `load: 86 % one instruction; ...`: where most samples stand that waited.
fn distances(calibration: &Calibration) -> String {
    let one = |found: &SampleDistance| {
        let shares = found.percent.iter().map(|share| share.value.unwrap_or(0.0)).enumerate();
        let (distance, share) = shares.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let by = match distance {
            0 => "at it",
            1 => "one instruction after it",
            2 => "two after it",
            _ => "three after it",
        };
        Some(format!("{}: {} % {by}", found.kind, text::percent(share)))
    };
    let all: Vec<String> = calibration.sample_distances.iter().filter_map(one).collect();
    all.join("; ")
}

fn figure(metric: Option<&Metric>, show: impl Fn(f64) -> String) -> String {
    match metric {
        Some(Metric { value: Some(value), .. }) => show(*value),
        Some(Metric { note: Some(why), .. }) => format!("n/a ({why})"),
        _ => "n/a (not measured on this machine)".to_owned(),
    }
}

fn entry(label: &str, text: &str, width: usize) -> String {
    let mut out = String::new();
    for (at, line) in wrap(&printable(text), width - LABEL - 2).iter().enumerate() {
        let label = if at == 0 { label } else { "" };
        out += &format!("  {label:<LABEL$}{line}\n");
    }
    out
}

fn section(paint: Paint, heading: &str, mut table: Table, width: usize, empty: &str) -> String {
    table.empty = format!("n/a: {empty}");
    format!("\n{}{}", paint.bold(heading), text::table(&table, width, paint))
}

fn what_it_is(host: &Host, width: usize, paint: Paint) -> String {
    let known = |text: &str| if text.is_empty() { "not known".to_owned() } else { text.to_owned() };
    let list = |names: &[String], none: &str| {
        if names.is_empty() { none.to_owned() } else { names.join(", ") }
    };
    let plural =
        |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let mut out = paint.bold("This machine") + "\n\n";
    out += &entry("Processor", &known(&host.cpu), width);
    let mut cpus = format!(
        "{} on {} in {}",
        plural(u64::from(host.logical_cpus), "CPU"),
        plural(u64::from(host.cores), "core"),
        plural(u64::from(host.sockets), "socket")
    );
    if !host.allowed_cpus.is_empty() && host.allowed_cpus.len() < host.logical_cpus as usize {
        cpus += &format!("; {} allowed here", host.allowed_cpus.len());
    }
    if let Some(quota) = host.cpu_quota {
        cpus += &format!("; limited to {} CPUs' time by the container", number(quota));
    }
    out += &entry("CPUs", &cpus, width);
    let mut nodes = plural(host.numa_nodes.len() as u64, "NUMA node");
    let without_cpus = host.memory_nodes().filter(|node| node.cpus.is_empty()).count();
    match (host.memory_nodes().count(), without_cpus) {
        (1, _) => nodes += ", so none of it is remote",
        (_, 0) => {}
        (_, memory_only) => nodes += &format!(", {memory_only} of them without CPUs"),
    }
    out += &entry(
        "Memory",
        &format!("{} in {nodes}; pages of {}", Bytes(host.memory_bytes), Bytes(host.page_bytes)),
        width,
    );
    out += &entry("Modules", &modules::modules(host), width);
    if let Some(tiers) = modules::tiers(host) {
        out += &entry("Kinds of memory", &tiers, width);
    }
    let transparent = host.huge_pages.transparent.as_deref().unwrap_or("not supported");
    let pools: Vec<String> = host
        .huge_pages
        .pools
        .iter()
        .filter(|(_, pages, _)| *pages > 0)
        .map(|(size, pages, free)| format!("{pages} of {} reserved, {free} free", Bytes(*size)))
        .collect();
    out += &entry(
        "Huge pages",
        &format!("transparent: {transparent}; {}", list(&pools, "none reserved")),
        width,
    );
    let at = match (&host.hypervisor, &host.container) {
        (Some(hypervisor), Some(container)) => {
            format!(", virtual machine ({hypervisor}), container ({container})")
        }
        (Some(hypervisor), None) => format!(", virtual machine ({hypervisor})"),
        (None, Some(container)) => format!(", container ({container})"),
        (None, None) => String::new(),
    };
    out +=
        &entry("System", &format!("{}, Linux {}{at}", known(&host.os), known(&host.kernel)), width);
    out += &entry("Hardware counters", &list(&host.pmu, "none"), width);
    out += &entry("SIMD", &list(&host.simd, "not known"), width);
    out
}

/// A table without title; its columns are `(key, style, label)`.
fn table(text_columns: Vec<TextColumn>, keys: &[&'static str], rows: Vec<Vec<Cell>>) -> Table {
    let columns: Vec<Column> =
        keys.iter().map(|key| Column { key, label: key, unit: None }).collect();
    Table {
        view: "machine",
        result: String::new(),
        total: vec![Cell::Missing; columns.len()],
        columns,
        rows,
        notes: Vec::new(),
        title: String::new(),
        text_columns,
        page: usize::MAX,
        empty: String::new(),
    }
}

/// Only the figure: why it is missing stands in the notes, and would break the columns.
fn cell(metric: &Metric, show: impl Fn(f64) -> String) -> Cell {
    Cell::text(metric.value.map_or("n/a".to_owned(), show))
}

fn rate(metric: &Metric) -> Cell {
    cell(metric, number)
}

fn bandwidth(calibration: &Calibration) -> Table {
    let row = |point: &facts::host::BandwidthPoint| {
        vec![
            Cell::text(point.kernel.clone()),
            Cell::Number(u64::from(point.threads)),
            rate(&point.program),
            rate(&point.bus),
            Cell::Metric(point.bus.clone()),
        ]
    };
    let text_columns = vec![
        CellStyle::Text("kernel").titled("kernel"),
        CellStyle::Number("threads").titled("threads"),
        CellStyle::Figure("program").titled("program GB/s"),
        CellStyle::Figure("bus").titled("bus GB/s"),
        CellStyle::Bar("bar").titled(""),
    ];
    let keys = ["kernel", "threads", "program", "bus", "bar"];
    table(text_columns, &keys, calibration.bandwidth.iter().map(row).collect())
}

fn caches(host: &Host, calibration: &Calibration) -> Table {
    let of_level = |level: u32| {
        let is_data = |cache: &&Cache| cache.level == level && cache.kind != CacheKind::Instruction;
        host.caches.iter().find(is_data)
    };
    let measured = &calibration.level_bandwidth;
    let all = measured.iter().map(|point| point.threads).max();
    // Reading; what stores reach is in JSON.
    let delivers = |level: u32, threads: Option<u32>| {
        let same = measured.iter().find(|point| {
            point.level == level && Some(point.threads) == threads && point.kernel == "load"
        });
        same.map_or(Cell::Missing, |point| rate(&point.rate))
    };
    let mut rows = Vec::new();
    for cache in &calibration.effective_caches {
        let reported = of_level(cache.level).map_or(Cell::text("n/a"), |cache| {
            let bytes = Bytes(cache.bytes);
            Cell::text(match cache.shared_by {
                1 => format!("{bytes}, one per CPU"),
                cpus => format!("{bytes}, {cpus} CPUs share one"),
            })
        });
        rows.push(vec![
            Cell::text(format!("L{}", cache.level)),
            rate(&cache.latency),
            delivers(cache.level, Some(1)),
            delivers(cache.level, all),
            cell(&cache.bytes, bytes),
            reported,
        ]);
    }
    if let Some(latency) = &calibration.dram_latency {
        let first = [Cell::text("DRAM"), rate(latency)];
        rows.push(first.into_iter().chain(std::iter::repeat_n(Cell::Missing, 4)).collect());
    }
    let mut text_columns = vec![
        CellStyle::Text("level").titled("level"),
        CellStyle::Figure("latency").titled("ns per load"),
        CellStyle::Figure("one").titled("GB/s, 1 thread"),
        CellStyle::Figure("all").titled("all threads"),
        CellStyle::Figure("effective").titled("measured size"),
        CellStyle::Text("reported").titled("size reported by the system"),
    ];
    if measured.is_empty() {
        text_columns.drain(2..4);
    }
    table(text_columns, &["level", "latency", "one", "all", "effective", "reported"], rows)
}

/// Each node with CPUs and each with memory. Nothing where all memory is in one node: the first lines say so.
fn memory_of_nodes(host: &Host, calibration: &Calibration, width: usize, paint: Paint) -> String {
    if host.memory_nodes().count() < 2 {
        return String::new();
    }
    let pairs = &calibration.node_pairs;
    let node = |id: u32| host.numa_nodes.iter().find(|node| node.id == id);
    let of_pair = |pair: &NodePair| {
        let place = match node(pair.to) {
            Some(to) if to.cpus.is_empty() => "no CPUs",
            _ if pair.from == pair.to => "local",
            _ => "remote",
        };
        let to = host.numa_nodes.iter().position(|node| node.id == pair.to);
        let distance = node(pair.from).and_then(|from| from.distances.get(to?).copied());
        let own = pairs.iter().find(|one| (one.from, one.to) == (pair.from, pair.from));
        let times = own.and_then(|own| Some(pair.latency.value? / own.latency.value?));
        vec![
            Cell::Number(u64::from(pair.from)),
            Cell::Number(u64::from(pair.to)),
            Cell::text(place),
            distance.map_or(Cell::Missing, |distance| Cell::Number(u64::from(distance))),
            rate(&pair.latency),
            times.map_or(Cell::Missing, |times| Cell::text(number(times))),
            rate(&pair.one_thread),
            rate(&pair.all_threads),
        ]
    };
    let text_columns = vec![
        CellStyle::Number("from").titled("CPUs of"),
        CellStyle::Number("to").titled("memory of"),
        CellStyle::Text("place").titled(""),
        CellStyle::Number("distance").titled("distance"),
        CellStyle::Figure("latency").titled("ns/load"),
        CellStyle::Figure("times").titled("times own"),
        CellStyle::Figure("one").titled("GB/s, 1 thread"),
        CellStyle::Figure("all").titled("all threads"),
    ];
    let keys = ["from", "to", "place", "distance", "latency", "times", "one", "all"];
    let rows = table(text_columns, &keys, pairs.iter().map(of_pair).collect());
    let empty = "an earlier version measured this machine: `fathom machine --refresh`";
    let mut out = section(paint, "Memory by NUMA node", rows, width, empty);
    if pairs.iter().any(|pair| !pair.loaded.is_empty()) {
        let loaded = nodes_under_load(pairs);
        out += &section(paint, "Load latency under load by NUMA node", loaded, width, "");
    }
    // One reason mostly holds for all of them.
    let mut reasons: Vec<&str> = Vec::new();
    for pair in pairs {
        let why = pair.latency.note.as_deref().filter(|_| pair.latency.value.is_none());
        reasons.extend(why.filter(|why| !reasons.contains(why)));
    }
    for why in reasons {
        out += &entry("Not measured", why, width);
    }
    out
}

/// One row per pair of nodes and rate.
fn nodes_under_load(pairs: &[NodePair]) -> Table {
    let row = |(pair, point): (&NodePair, &LoadedLatency)| {
        let mut cells = vec![Cell::Number(u64::from(pair.from)), Cell::Number(u64::from(pair.to))];
        cells.extend(loaded_cells(point, pair.loaded.first(), pair.knee()));
        cells
    };
    let rows = pairs.iter().flat_map(|pair| pair.loaded.iter().map(move |point| (pair, point)));
    let mut text_columns = vec![
        CellStyle::Number("from").titled("CPUs of"),
        CellStyle::Number("to").titled("memory of"),
    ];
    text_columns.extend(loaded_columns());
    let keys = ["from", "to", "rate", "latency", "times", "bar", "knee"];
    table(text_columns, &keys, rows.map(row).collect())
}

/// A point of a curve, next to that without load.
fn loaded_cells(
    point: &LoadedLatency,
    idle: Option<&LoadedLatency>,
    knee: Option<&LoadedLatency>,
) -> [Cell; 5] {
    let times = idle.and_then(|idle| Some(point.latency.value? / idle.latency.value?));
    [
        rate(&point.rate),
        rate(&point.latency),
        times.map_or(Cell::Missing, |times| Cell::text(number(times))),
        Cell::Metric(point.latency.clone()),
        Cell::text(if knee == Some(point) { "knee" } else { "" }),
    ]
}

fn loaded_columns() -> [TextColumn; 5] {
    [
        CellStyle::Figure("rate").titled("GB/s read"),
        CellStyle::Figure("latency").titled("ns per load"),
        CellStyle::Figure("times").titled("times idle"),
        CellStyle::Bar("bar").titled(""),
        CellStyle::Text("knee").titled(""),
    ]
}

/// One row per rate; a mark where the latency begins to rise.
fn under_load(calibration: &Calibration) -> Table {
    let row = |point: &LoadedLatency| {
        let idle = calibration.under_load(point.threads).next();
        let mut cells = vec![Cell::Number(u64::from(point.threads))];
        cells.extend(loaded_cells(point, idle, calibration.knee(point.threads)));
        cells
    };
    let mut text_columns = vec![CellStyle::Number("threads").titled("threads")];
    text_columns.extend(loaded_columns());
    let keys = ["threads", "rate", "latency", "times", "bar", "knee"];
    table(text_columns, &keys, calibration.loaded_latency.iter().map(row).collect())
}

/// One row per size; the page sizes stand side by side, so that what huge pages save is seen at a glance.
fn ladder(calibration: &Calibration) -> Table {
    let mut page_sizes: Vec<u64> =
        calibration.ladder.iter().map(|point| point.page_bytes).collect();
    page_sizes.sort_unstable();
    page_sizes.dedup();
    let mut sizes: Vec<u64> = calibration.ladder.iter().map(|point| point.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    // The table's columns have fixed names; two page sizes are measured, and pages of 1 GiB where there are some.
    const KEYS: [(&str, &str); 3] =
        [("small", "small_bar"), ("large", "large_bar"), ("giant", "giant_bar")];
    let measured: Vec<_> = KEYS.into_iter().zip(page_sizes).collect();
    let row = |size: &u64| {
        let mut cells = vec![Cell::text(Bytes(*size).to_string())];
        for (_, page) in &measured {
            let same = |point: &&LatencyPoint| point.bytes == *size && point.page_bytes == *page;
            match calibration.ladder.iter().find(same) {
                Some(point) => {
                    cells.extend([rate(&point.latency), Cell::Metric(point.latency.clone())])
                }
                None => cells.extend([Cell::Missing, Cell::Missing]),
            }
        }
        cells
    };
    let mut text_columns = vec![CellStyle::Figure("size").titled("size")];
    let mut keys = vec!["size"];
    for ((key, bar), page) in &measured {
        text_columns.push(CellStyle::Figure(key).titled(page_heading(*page)));
        text_columns.push(CellStyle::Bar(bar).titled(""));
        keys.extend([*key, *bar]);
    }
    table(text_columns, &keys, sizes.iter().map(row).collect())
}

/// Headings of columns are fixed words: one per page size of x86-64 and aarch64.
fn page_heading(page_bytes: u64) -> &'static str {
    match page_bytes >> 10 {
        4 => "ns, 4 KiB pages",
        16 => "ns, 16 KiB pages",
        64 => "ns, 64 KiB pages",
        2_048 => "ns, 2 MiB pages",
        32_768 => "ns, 32 MiB pages",
        524_288 => "ns, 512 MiB pages",
        1_048_576 => "ns, 1 GiB pages",
        _ => "ns, larger pages",
    }
}

fn flops(calibration: &Calibration) -> Table {
    let row = |point: &facts::host::FlopsPoint| {
        vec![
            Cell::text(point.simd.clone()),
            Cell::text(point.precision.clone()),
            Cell::Number(u64::from(point.threads)),
            rate(&point.rate),
            Cell::Metric(point.rate.clone()),
        ]
    };
    let text_columns = vec![
        CellStyle::Text("simd").titled("instructions"),
        CellStyle::Text("precision").titled("precision"),
        CellStyle::Number("threads").titled("threads"),
        CellStyle::Figure("rate").titled("GFLOP/s"),
        CellStyle::Bar("bar").titled(""),
    ];
    let keys = ["simd", "precision", "threads", "rate", "bar"];
    table(text_columns, &keys, calibration.flops.iter().map(row).collect())
}
