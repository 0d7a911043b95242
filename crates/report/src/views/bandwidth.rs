//! `bandwidth`: traffic between caches and memory over time, or by object, function, line, module or thread; that of the whole machine
//! next to it, or by socket and link between sockets.

use analysis::core_traffic::CoreTraffic;
use analysis::machine_traffic::{DomainTraffic, MachineTraffic};
use analysis::memory::{BandwidthBin, Memory, MemoryRow, PartRow, ThreadTraffic};
use analysis::placement::RecordedNodes;
use analysis::{Key, TracedCode, name_of_node};
use base::{Nanos, NodeId};
use facts::{Metric, NoteSubject};

use super::Request;
use super::columns::{columns_next_to_objects, names};
use super::list::{BYTES, COUNT, Columns, Figure, PERCENT, PERCENT_ALONE, Unit};
use crate::table::{Cell, CellStyle, Table};
use crate::text::rate;

const RATE: Unit = Unit("GB/s", CellStyle::Measure);

const GIGA: f64 = 1e9;
const BY_NODE: &str = "Nodes: the program's own traffic, estimated: what missed the caches of the model, by the NUMA node of the nearest page that was drawn.";

/// Bins shown in text.
const PAGE: usize = 60;

pub(crate) fn bandwidth(request: &Request<'_>, code: &TracedCode, memory: &Memory<'_>) -> Table {
    let keys = request.options.group.as_slice();
    match keys {
        [] if request.selection.chooses_nodes() => {
            over_time(request, &request.memory(&request.grouping(code, keys)))
        }
        [] => over_time(request, memory),
        [Key::Thread] => by_thread(request, memory),
        [Key::BandwidthDomain] => by_domain(request, code),
        [Key::BandwidthDomain, Key::Time] | [Key::Time, Key::BandwidthDomain] => {
            by_node_over_time(request, code)
        }
        _ => by_code(request, code, memory, keys),
    }
}

/// A bin of the program's traffic, and what the whole machine read, wrote and sent between its sockets then.
type Row = (BandwidthBin, Option<[Metric; 3]>);

fn over_time(request: &Request<'_>, memory: &Memory<'_>) -> Table {
    let found = memory.bandwidth(request.options.bands);
    let machine = MachineTraffic::new(request.profile.recording);
    let cores = cores(request, machine.as_ref()).filter(|_| found.is_err());
    let bins = found.as_ref().ok().map(|found| &found.bins);
    let rows = rows(request, memory, bins, (machine.as_ref(), cores.as_ref()));
    let mut columns = Columns::new();
    columns.name("start", "Start", CellStyle::Start, "from", |(bin, _): &Row| {
        Cell::Seconds(bin.start.seconds())
    });
    columns.name("end", "End", CellStyle::Start, "", |(bin, _)| Cell::Seconds(bin.end.seconds()));
    columns.figure("read", "Read", RATE, "read", |(bin, _)| &bin.read);
    columns.figure("write", "Write", RATE, "write", |(bin, _)| &bin.write);
    columns.figure("total", "Both", RATE, "both", |(bin, _)| &bin.total);
    columns.figure("reachable", "Reachable", RATE, "", |(bin, _)| &bin.reachable);
    let nodes = remote_in(request);
    columns.cell("remote_accesses", "To another NUMA node", PERCENT, "remote", |(bin, _): &Row| {
        let share = |nodes: &&RecordedNodes| nodes.remote_in(request.selection, bin.start, bin.end);
        nodes.as_ref().ok().map(share).map_or(Cell::Missing, Cell::metric)
    });
    let of_machine = |way: usize| {
        move |(_, rates): &Row| {
            rates.as_ref().map_or(Cell::Missing, |rates| Cell::metric(rates[way].clone()))
        }
    };
    columns.cell("machine_read", "Read by all", RATE, "all read", of_machine(0));
    columns.cell("machine_write", "Written by all", RATE, "all write", of_machine(1));
    columns.cell("machine_links", "Between sockets", RATE, "links", of_machine(2));
    columns.show(&["start"]);
    let program = found.is_ok();
    if program {
        columns.show(&["read", "write", "total"]);
        if nodes.is_ok() {
            columns.show(&["remote_accesses"]);
        }
    }
    if cores.is_some() {
        columns.show(&["read"]);
    }
    let [memory_counted, links] = machine.as_ref().map_or([false; 2], MachineTraffic::has);
    if memory_counted {
        columns.show(&["machine_read", "machine_write"]);
    }
    if links {
        columns.show(&["machine_links"]);
    }
    let bar = match (program, memory_counted || !links) {
        (true, _) => "total",
        _ if cores.is_some() => "read",
        (_, true) => "machine_read",
        _ => "machine_links",
    };
    columns.text.push(CellStyle::Bar(bar).titled(""));
    let mut table = Table {
        notes: request.over_time_notes(memory.notes.clone()),
        page: PAGE,
        empty: nothing(memory),
        ..columns.table(request, "bandwidth", "traffic with memory over time", &rows)
    };
    let remote = |nodes: &RecordedNodes| {
        nodes.remote_in(request.selection, Nanos(0), request.profile.elapsed())
    };
    let unavailable = |why| Metric::unavailable("percent", why);
    table.set_total("remote_accesses", nodes.map_or_else(unavailable, remote));
    if let Some(machine) = &machine {
        if let Some(all) = machine.domains().into_iter().find(|one| one.socket.is_none()) {
            table.set_total("machine_read", all.read);
            table.set_total("machine_write", all.write);
        }
        let why = memory.missing().filter(|_| !program);
        table.notes.extend(why.map(|why| format!("The program's own traffic is n/a: {why}.")));
        table.notes.push(
            "All: counted by the memory controllers and the links between sockets, other programs, the kernel and devices included.".to_owned(),
        );
    }
    table.notes.extend(not_counted(request));
    table.notes.extend(request.selection.chooses_nodes().then(|| BY_NODE.to_owned()));
    if let Some(cores) = &cores {
        table.set_total("read", cores.domain().read);
        table.notes.push(by_cores(cores));
    }
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

/// Accesses by NUMA node of the selected time and threads.
fn remote_in<'a>(request: &Request<'a>) -> Result<&'a RecordedNodes, &'static str> {
    let selection = request.selection;
    let part =
        selection.chooses_places() || selection.chooses_objects() || selection.chooses_nodes();
    if !part {
        request.prepared.recorded_nodes()
    } else {
        Err("known for all code and objects together only")
    }
}

/// How sure the estimate is, and of what it is.
fn by_cores(cores: &CoreTraffic<'_>) -> String {
    let read = cores.domain().read;
    let shown = |end: Option<f64>| end.map(|end| rate(end, "GB/s"));
    let between = match (shown(read.low), shown(read.high)) {
        (Some(low), Some(high)) => format!("between {low} and {high}"),
        (Some(low), None) => format!("at least {low}"),
        _ => "n/a".to_owned(),
    };
    format!(
        "Read: {between}, estimated from misses of the cores because no memory controller was counted: no less than what surely \
         missed, no more than all that the cores asked of the last cache. No event of a core tells what is written."
    )
}

/// What the cores tell where nothing else counted memory: of all that ran.
fn cores<'a>(
    request: &Request<'a>,
    machine: Option<&MachineTraffic<'_>>,
) -> Option<CoreTraffic<'a>> {
    let counted = machine.is_some_and(|machine| machine.has()[0]);
    CoreTraffic::new(request.profile.recording).filter(|_| !counted && request.everything())
}

/// The program's bins; without any, the readings of the cores or of the machine's counters.
fn rows(
    request: &Request<'_>,
    memory: &Memory<'_>,
    bins: Option<&Vec<BandwidthBin>>,
    (machine, cores): (Option<&MachineTraffic<'_>>, Option<&CoreTraffic<'_>>),
) -> Vec<Row> {
    let rates = |start, end| machine.map(|machine| machine.rates(start, end));
    if let Some(bins) = bins {
        return bins.iter().map(|bin| (bin.clone(), rates(bin.start, bin.end))).collect();
    }
    let none = Metric::unavailable("GB/s", memory.missing().unwrap_or("it was not traced"));
    let of_machine = || {
        let steps = machine.map(MachineTraffic::steps).unwrap_or_default();
        steps.into_iter().map(|(start, end)| (start, end, none.clone())).collect()
    };
    let of_cores = |cores: &CoreTraffic<'_>| -> Vec<(Nanos, Nanos, Metric)> {
        cores.over_time().into_iter().map(|one| (one.start, one.end, one.read)).collect()
    };
    let steps = cores.map_or_else(of_machine, of_cores);
    let chosen = steps.into_iter().filter(|(start, ..)| request.selection.has_time(*start));
    let row = |(start, end, read): (Nanos, Nanos, Metric)| {
        let (write, total, reachable) = (none.clone(), none.clone(), none.clone());
        let observed = Nanos(end.0 - start.0);
        let bin = BandwidthBin { start, end, read, write, observed, total, reachable };
        (bin, rates(start, end))
    };
    chosen.map(row).collect()
}

/// Why the machine's counters were not read.
fn not_counted(request: &Request<'_>) -> impl Iterator<Item = String> {
    let notes = request.profile.recording.run.notes.iter();
    notes.filter(|note| NoteSubject::MachineTraffic.has(note)).cloned()
}

/// A domain with its name.
type Domain = (String, DomainTraffic);

fn domain_of_machine(traffic: DomainTraffic) -> Domain {
    let what = traffic.link.as_deref().unwrap_or("DRAM");
    let name = match traffic.socket {
        None if traffic.by_cores => "DRAM, by the cores' misses".to_owned(),
        None => format!("{what}, all sockets"),
        Some(socket) => format!("{what}, socket {socket}"),
    };
    (name, traffic)
}

/// The program's own traffic with the memory of each node.
fn domains_of_nodes(request: &Request<'_>, code: &TracedCode) -> Result<Vec<Domain>, String> {
    request.prepared.recorded_nodes()?;
    let grouping = request.grouping(code, &[Key::BandwidthDomain]);
    let memory = request.memory(&grouping);
    let mut rows = memory.part_rows(&grouping)?;
    rows.sort_by_key(|row| (row.key.node.is_none(), row.key.node));
    let bytes = request.selection.observed(request.profile).seconds().max(1e-9) * GIGA;
    let domain = |row: &PartRow| {
        let rate = |metric: &Metric| metric.times(1.0 / bytes, "GB/s");
        let unknown = |unit| Metric::unavailable(unit, "known for memory controllers and links");
        let traffic = DomainTraffic {
            by_cores: false,
            socket: None,
            link: None,
            read: rate(&row.read),
            write: rate(&row.write),
            total: rate(&row.moved),
            observed_max: unknown("GB/s"),
            limit: unknown("GB/s"),
            limit_percent: unknown("percent"),
            bytes: row.moved.clone(),
        };
        (name_of_node(row.key.node), traffic)
    };
    Ok(rows.iter().map(domain).collect())
}

/// The program's traffic with the memory of each node over time.
fn by_node_over_time(request: &Request<'_>, code: &TracedCode) -> Table {
    type OfNode = (Option<NodeId>, BandwidthBin);
    let grouping = request.grouping(code, &[Key::BandwidthDomain]);
    let found = request.prepared.recorded_nodes().map_err(str::to_owned).and_then(|_| {
        let memory = request.memory(&grouping);
        memory.bandwidth_by_node().map_err(str::to_owned)
    });
    let of_nodes = found.as_ref().map_or(&[][..], Vec::as_slice);
    let bins =
        of_nodes.iter().flat_map(|(node, bins)| bins.iter().map(move |bin| (*node, bin.clone())));
    let mut rows: Vec<OfNode> = bins.collect();
    rows.sort_by_key(|(node, bin)| (bin.start, node.is_none(), *node));
    let mut columns = Columns::new();
    columns.name("start", "Start", CellStyle::Start, "from", |(_, bin): &OfNode| {
        Cell::Seconds(bin.start.seconds())
    });
    columns.name("end", "End", CellStyle::Start, "", |(_, bin)| Cell::Seconds(bin.end.seconds()));
    columns.name("bandwidth_domain", "Bandwidth domain", CellStyle::Text, "domain", |(node, _)| {
        Cell::text(name_of_node(*node))
    });
    columns.figure("read", "Read", RATE, "read", |(_, bin)| &bin.read);
    columns.figure("write", "Write", RATE, "write", |(_, bin)| &bin.write);
    columns.figure("total", "Both", RATE, "both", |(_, bin)| &bin.total);
    columns.show(&["start", "bandwidth_domain", "read", "write", "total"]);
    columns.text.push(CellStyle::Bar("total").titled(""));
    let why =
        found.as_ref().err().cloned().unwrap_or_else(|| "no burst accessed memory".to_owned());
    Table {
        notes: vec![BY_NODE.to_owned()],
        page: PAGE,
        empty: format!("n/a: {why}."),
        ..columns.table(
            request,
            "bandwidth",
            "traffic with the memory of each node over time",
            &rows,
        )
    }
}

fn by_domain(request: &Request<'_>, code: &TracedCode) -> Table {
    let machine = MachineTraffic::new(request.profile.recording);
    let cores = cores(request, machine.as_ref());
    let of_machine = machine.as_ref().map(MachineTraffic::domains).unwrap_or_default();
    let of_machine = cores.iter().map(CoreTraffic::domain).chain(of_machine);
    let of_machine = of_machine.filter(|_| !request.selection.chooses_nodes());
    let mut found: Vec<Domain> = of_machine.map(domain_of_machine).collect();
    let nodes = domains_of_nodes(request, code);
    found.extend(nodes.iter().flatten().cloned());
    let mut columns = Columns::new();
    columns.name(
        "bandwidth_domain",
        "Bandwidth domain",
        CellStyle::Text,
        "domain",
        |row: &Domain| Cell::text(row.0.clone()),
    );
    columns.figure("read", "Read", RATE, "read", |(_, row)| &row.read);
    columns.figure("write", "Write", RATE, "write", |(_, row)| &row.write);
    columns.figure("total", "Both", RATE, "both", |(_, row)| &row.total);
    columns
        .figure("observed_max", "Observed maximum", RATE, "maximum", |(_, row)| &row.observed_max);
    columns.figure("dram_bytes", "Bytes moved", BYTES, "bytes", |(_, row)| &row.bytes);
    columns.figure("limit", "Limit of a direction", RATE, "limit", |(_, row)| &row.limit);
    columns.figure("limit_percent", "Of the limit", PERCENT_ALONE, "limit %", |(_, row)| {
        &row.limit_percent
    });
    columns.show(&["bandwidth_domain", "read", "write", "total", "observed_max"]);
    let links = found.iter().any(|(_, row)| row.link.is_some());
    if links {
        columns.show(&["limit", "limit_percent"]);
    }
    columns.show(&["dram_bytes"]);
    columns.text.push(CellStyle::Bar("total").titled(""));
    let empty = "n/a: memory controllers were not counted: `fathom run` counts them where the kernel shows them \
                 (`fathom machine`) and this user may count the whole machine.";
    let mut notes: Vec<String> = not_counted(request).collect();
    if machine.is_some() {
        notes.push("Counted: all programs, the kernel and devices. Of the program alone: `report bandwidth`.".to_owned());
    }
    notes.extend(cores.as_ref().map(by_cores));
    let several = request.profile.recording.run.host.memory_nodes().count() > 1;
    match &nodes {
        Ok(_) => notes.push(BY_NODE.to_owned()),
        Err(_) if !several => {}
        Err(why) => notes.push(format!("The program's traffic by NUMA node is n/a: {why}.")),
    }
    if links {
        notes.push("Links: what the socket received (read) and sent (write); limit and maximum are of one direction.".to_owned());
    }
    Table {
        notes,
        empty: empty.to_owned(),
        ..columns.table(request, "bandwidth", "traffic with memory by bandwidth domain", &found)
    }
}

const OF_LEVELS: [Figure; 4] = [
    ("l2_fetched", "Fetched from L2 or beyond", BYTES, ""),
    ("l2_of_reachable", "L2, of what it delivers", PERCENT, ""),
    ("l3_fetched", "Fetched from L3 or beyond", BYTES, ""),
    ("l3_of_reachable", "L3, of what it delivers", PERCENT, ""),
];

fn by_code(request: &Request<'_>, code: &TracedCode, memory: &Memory<'_>, keys: &[Key]) -> Table {
    let grouping = request.grouping(code, keys);
    let by_node = keys.contains(&Key::BandwidthDomain) || request.selection.chooses_nodes();
    let of_parts = by_node || request.by_object();
    let nodes = request.prepared.recorded_nodes().err().filter(|_| by_node);
    let without = nodes.map(|why| format!("n/a: {why}.")).or_else(|| request.without_objects());
    let found = if without.is_some() {
        Vec::new()
    } else if of_parts {
        request.memory(&grouping).rows_of_objects(&grouping).unwrap_or_default()
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
    columns.figures(OF_LEVELS, |row| match of_parts {
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
        notes: {
            let by_node = by_node.then(|| BY_NODE.to_owned()).into_iter();
            let notes = by_node.chain(levels_note(request));
            notes.chain(memory.notes.iter().cloned()).collect()
        },
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
