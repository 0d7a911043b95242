//! `uarch`: the top-down tree of the whole run, from counted events.
//!
//! What not: formulas and thresholds (`analysis::uarch`); the counts themselves (`events`).

use analysis::counted::counted;
use analysis::uarch::{NodeShare, ThresholdState, tree};

use super::Request;
use super::events::remarks;
use super::list::{Columns, PERCENT};
use crate::table::{Cell, CellStyle, Table};

pub(crate) fn uarch(request: &Request<'_>) -> Table {
    let recording = request.profile.recording;
    let mut notes = Vec::new();
    let (nodes, empty) = match tree(recording) {
        Ok(tree) => {
            notes.extend(cycles_per_instruction(request));
            let cpu = tree.cpu;
            notes.push(format!("Nodes and formulas are the maker's for {cpu}; so are thresholds, which AMD does not give."));
            let memory = "Accesses, latency, bandwidth, reuse, sharing, objects and roofline need `fathom run -- PROGRAM`.";
            notes.push(memory.to_owned());
            (tree.nodes, String::new())
        }
        Err(why) => (Vec::new(), format!("n/a: {why}.")),
    };
    notes.extend(remarks(recording));
    Table {
        notes,
        page: 200,
        empty,
        ..columns().table(
            request,
            "uarch",
            "where the core's pipeline slots and cycles went",
            &nodes,
        )
    }
}

fn columns<'a>() -> Columns<'a, NodeShare> {
    let mut columns: Columns<'_, NodeShare> = Columns::new();
    columns.name("node", "Node", CellStyle::Text, "", |node| Cell::text(node.path.join("/")));
    let style = |key| CellStyle::Function(key, Some("level"));
    columns
        .name("title", "Title", style, "node", |node| Cell::text(*node.path.last().unwrap_or(&"")));
    columns.name("level", "Level", CellStyle::Text, "", |node| {
        Cell::Number(node.path.len() as u64 - 1)
    });
    columns.figure("percent", "Share", PERCENT, "share %", |node| &node.share);
    columns.name("share_of", "Of", CellStyle::Text, "of", |node| Cell::text(node.of));
    columns.name("flagged", "ThresholdState its threshold", CellStyle::Text, "over", |node| {
        Cell::text_or_missing(node.over.map(ThresholdState::name))
    });
    columns.name("next", "What to look at next", CellStyle::Text, "next", |node| {
        let may_matter = node.share.value.is_some() && node.over != Some(ThresholdState::No);
        Cell::text_or_missing(node.next.filter(|_| may_matter))
    });
    columns.name("metric", "The maker's name", CellStyle::Text, "", |node| Cell::text(node.name));
    columns.show(&["title", "percent", "share_of", "flagged", "next"]);
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
