//! `uarch`: the top-down tree of the whole run, from counted events; by code, its first levels and cycles per instruction, from
//! samples of such events.
//!
//! What not: formulas and thresholds (`analysis::uarch`); the counts themselves (`events`).

use super::Request;
use super::columns::{names, short_columns};
use super::events::remarks;
use super::list::{COUNT, Columns, Figure, PERCENT, PERCENT_ALONE, Unit};
use crate::table::{Cell, CellStyle, Table};
use analysis::counted::counted;
use analysis::uarch::{CodeRow, NodeShare, ThresholdState, Tree, by_code, trees, trees_of_samples};

/// Nodes of the first two levels as columns, with the names that Intel's and AMD's tables give them.
const NODES: [(Figure, &[&str]); 13] = [
    (("retiring", "Retiring", PERCENT_ALONE, "retire %"), &["retiring"]),
    (
        ("light_operations", "Light Operations", PERCENT_ALONE, ""),
        &["light_operations", "retiring_fastpath"],
    ),
    (
        ("heavy_operations", "Heavy Operations", PERCENT_ALONE, ""),
        &["heavy_operations", "retiring_microcode"],
    ),
    (("frontend_bound", "Front-End Bound", PERCENT_ALONE, "front %"), &["frontend_bound"]),
    (
        ("fetch_latency", "Front-End Latency", PERCENT_ALONE, ""),
        &["fetch_latency", "frontend_bound_latency"],
    ),
    (
        ("fetch_bandwidth", "Front-End Bandwidth", PERCENT_ALONE, ""),
        &["fetch_bandwidth", "frontend_bound_bandwidth"],
    ),
    (("bad_speculation", "Bad Speculation", PERCENT_ALONE, "spec %"), &["bad_speculation"]),
    (
        ("branch_mispredicts", "Branch Mispredict", PERCENT_ALONE, ""),
        &["branch_mispredicts", "bad_speculation_mispredicts"],
    ),
    (
        ("machine_clears", "Machine Clears", PERCENT_ALONE, ""),
        &["machine_clears", "bad_speculation_pipeline_restarts"],
    ),
    (("backend_bound", "Back-End Bound", PERCENT_ALONE, "back %"), &["backend_bound"]),
    (
        ("memory_bound", "Memory Bound", PERCENT_ALONE, "memory %"),
        &["memory_bound", "backend_bound_memory", "backend_mem_bound"],
    ),
    (
        ("core_bound", "Core Bound", PERCENT_ALONE, ""),
        &["core_bound", "backend_bound_cpu", "backend_core_bound"],
    ),
    (("smt_contention", "SMT Contention", PERCENT_ALONE, ""), &["smt_contention"]),
];

pub(crate) fn uarch(request: &Request<'_>) -> Table {
    if !request.options.group.is_empty() {
        return of_code(request);
    }
    let recording = request.profile.recording;
    let mut notes = Vec::new();
    let (nodes, empty) = match found(request) {
        Ok(trees) => {
            notes.extend(cycles_per_instruction(request));
            let cpu = trees.iter().map(|tree| tree.cpu).collect::<Vec<_>>().join(" and ");
            notes.push(format!("Nodes and formulas are the maker's for {cpu}; so are thresholds, which AMD and Arm do not give."));
            let sampled = !recording.memory_samples.is_empty();
            let memory = "Accesses, latency, bandwidth, reuse, sharing, objects and roofline need `fathom run -- PROGRAM`.";
            notes.push(match sampled {
                true => "Loads and stores that the hardware sampled: `report latency -g function`, `report objects`, `report sharing`.".to_owned(),
                false => memory.to_owned(),
            });
            let nodes = |tree: Tree| tree.nodes.into_iter().map(move |node| (tree.cores, node));
            (trees.into_iter().flat_map(nodes).collect(), String::new())
        }
        Err(why) => (Vec::new(), format!("n/a: {why}.")),
    };
    notes.extend(remarks(recording));
    Table {
        notes,
        page: 200,
        empty,
        ..columns(&nodes, !recording.memory_samples.is_empty()).table(
            request,
            "uarch",
            "where the core's pipeline slots and cycles went",
            &nodes,
        )
    }
}

/// From counts where they are known, of chosen code from samples.
fn found(request: &Request<'_>) -> Result<Vec<Tree>, String> {
    let of_samples = || trees_of_samples(request.profile, request.selection);
    let sampled = !request.profile.recording.event_samples.is_empty();
    match request.everything() {
        true => trees(request.profile.recording)
            .or_else(|why| if sampled { of_samples() } else { Err(why) }),
        false if sampled => of_samples(),
        false => Err("the tree of a part of the run needs samples of its events".to_owned()),
    }
}

fn of_code(request: &Request<'_>) -> Table {
    let keys = request.options.group.as_slice();
    let found = by_code(request.profile, request.selection, keys);
    let mut notes = Vec::new();
    let (rows, paths, empty) = match &found {
        Ok(found) => {
            notes.push(match &found.table {
                Ok(cpu) if !has_shares(&found.rows) => format!(
                    "From samples of events. Too few events of the top-down tree of {cpu} were sampled for shares of pipeline slots."
                ),
                Ok(cpu) => format!(
                    "From samples of events. Shares are of pipeline slots; formulas and thresholds are the maker's for {cpu}."
                ),
                Err(why) => format!("From samples of events. No top-down tree: {why}."),
            });
            (found.rows.as_slice(), found.paths.as_ref(), request.empty("samples of events"))
        }
        Err(why) => (&[][..], None, format!("n/a: {why}.")),
    };
    let mut columns = Columns::by(request, keys, paths, |row: &CodeRow| (&row.key, row.place));
    columns.figure("clockticks", "Clockticks", COUNT, "", |row| &row.cycles);
    columns.figure("cycles_percent", "Share of cycles", PERCENT, "cycles %", |row| {
        &row.cycles_percent
    });
    columns.figure("instructions", "Instructions retired", COUNT, "", |row| &row.instructions);
    let ratio = Unit("ratio", CellStyle::Ratio);
    columns.figure("cpi", "CPI rate", ratio, "CPI", |row| &row.cpi);
    for ((key, label, unit, heading), names) in NODES {
        columns.cell(key, label, unit, heading, move |row| {
            let node = row.nodes.iter().find(|node| names.contains(&node.name));
            node.map_or(Cell::Missing, |node| Cell::metric(node.share.clone()))
        });
    }
    columns.name("flagged", "Over its threshold", CellStyle::Text, "over", |row| {
        Cell::text_or_missing(flagged(&row.nodes).as_deref())
    });
    columns.name("samples", "Samples of cycles", CellStyle::Number, "", |row| {
        Cell::Number(row.samples)
    });
    columns.show(&["cycles_percent", "cpi"]);
    if has_shares(rows) {
        columns.show(&["retiring", "backend_bound", "memory_bound", "frontend_bound"]);
        columns.show(&["bad_speculation"]);
    }
    if rows.iter().any(|row| flagged(&row.nodes).is_some()) {
        columns.show(&["flagged"]);
    }
    columns.text.extend(short_columns(keys, keys));
    notes.extend(remarks(request.profile.recording));
    let title = format!("cycles per instruction and pipeline slots by {}", names(keys));
    Table { notes, empty, ..columns.table(request, "uarch", &title, rows) }
}

/// Whether any row has a part of the tree.
fn has_shares(rows: &[CodeRow]) -> bool {
    rows.iter().any(|row| row.nodes.iter().any(|node| node.share.value.is_some()))
}

/// The deepest nodes that are over their thresholds.
fn flagged(nodes: &[NodeShare]) -> Option<String> {
    let over = |node: &&NodeShare| node.over == Some(ThresholdState::Yes);
    let deepest = |node: &&NodeShare| {
        let below = |other: &NodeShare| {
            other.path.len() > node.path.len() && other.path.starts_with(&node.path)
        };
        !nodes.iter().any(|other| over(&other) && below(other))
    };
    let titles = nodes.iter().filter(over).filter(deepest);
    let titles: Vec<&str> = titles.filter_map(|node| node.path.last().copied()).collect();
    (!titles.is_empty()).then(|| titles.join(", "))
}

/// A node, and the cores that it is of where a machine has several kinds.
type Row = (Option<&'static str>, NodeShare);

/// `sampled`: whether the result has sampled accesses.
fn columns<'a>(rows: &[Row], sampled: bool) -> Columns<'a, Row> {
    let mut columns: Columns<'_, Row> = Columns::new();
    columns.name("node", "Node", CellStyle::Text, "", |(_, node)| Cell::text(node.path.join("/")));
    let style = |key| CellStyle::Function(key, Some("level"));
    columns.name("title", "Title", style, "node", |(_, node)| {
        Cell::text(*node.path.last().unwrap_or(&""))
    });
    columns.name("level", "Level", CellStyle::Text, "", |(_, node)| {
        Cell::Number(node.path.len() as u64 - 1)
    });
    columns.figure("percent", "Share", PERCENT, "share %", |(_, node)| &node.share);
    columns.name("share_of", "Of", CellStyle::Text, "of", |(_, node)| Cell::text(node.of));
    columns.name("flagged", "Over its threshold", CellStyle::Text, "over", |(_, node)| {
        Cell::text_or_missing(node.over.map(ThresholdState::name))
    });
    columns.name("next", "What to look at next", CellStyle::Text, "next", move |(_, node)| {
        let may_matter = node.share.value.is_some() && node.over != Some(ThresholdState::No);
        let next = node.next.filter(|_| may_matter);
        Cell::text_or_missing(match sampled {
            // The result at hand has it.
            true => next.map(|next| next.strip_prefix("fathom run: ").unwrap_or(next)),
            false => next,
        })
    });
    columns
        .name("metric", "The maker's name", CellStyle::Text, "", |(_, node)| Cell::text(node.name));
    columns.name("cores", "Kind of cores", CellStyle::Text, "cores", |(cores, _)| {
        Cell::text_or_missing(*cores)
    });
    columns.show(&["title", "percent", "share_of", "flagged", "next"]);
    if rows.iter().any(|(cores, _)| cores.is_some()) {
        columns.show(&["cores"]);
    }
    columns
}

/// `Cycles per instruction (CPI): 0.83.`, where both were counted.
fn cycles_per_instruction(request: &Request<'_>) -> Option<String> {
    let all = counted(request.profile.recording);
    let count = |name: &str| all.iter().find(|one| one.event.name == name)?.count.value;
    let (cycles, instructions) = (count("cycles")?, count("instructions")?);
    let cpi = (instructions > 0.0).then_some(cycles / instructions)?;
    Some(format!("Cycles per instruction (CPI): {cpi:.2}."))
}
