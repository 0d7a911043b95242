//! `callers` and `callees`: trees of functions.

use analysis::calltree::{CallRow, CallTree, Direction, call_tree};

use super::Request;
use super::columns::time_cells;
use super::list::{Columns, OWN, WITH_CALLEES};
use crate::table::{Cell, CellStyle, Table};

/// Smaller nodes are left out: they are noise, and there are many.
const SMALLEST_SHARE: f64 = 0.005;

pub(crate) fn callers(request: &Request<'_>) -> Table {
    tree(request, Direction::Callers)
}

pub(crate) fn callees(request: &Request<'_>) -> Table {
    tree(request, Direction::Callees)
}

fn tree(request: &Request<'_>, direction: Direction) -> Table {
    let profile = request.profile;
    let tree = call_tree(profile, request.selection, direction, SMALLEST_SHARE);
    let scale = profile.cpu_scale();
    let focused = request.selection.chooses_places();
    let (view, what) = match (direction, focused) {
        (Direction::Callers, false) => ("callers", "functions and their callers (bottom-up)"),
        (Direction::Callers, true) => ("callers", "callers"),
        (Direction::Callees, false) => {
            ("callees", "outermost functions and their callees (top-down)")
        }
        (Direction::Callees, true) => ("callees", "what is called"),
    };
    let mut columns = Columns::new();
    columns.name("level", "Level", CellStyle::Number, "", |row: &CallRow| {
        Cell::Number(row.level as u64)
    });
    columns.place(request, |row| row.place);
    columns.end_of_names();
    columns.figures(WITH_CALLEES, |row| time_cells(&scale, &row.total_time));
    columns.figures(OWN, |row| match direction == Direction::Callers && row.level > 0 {
        // A caller is only passed through on the way to its callee.
        true => [Cell::Missing, Cell::Missing],
        false => time_cells(&scale, &row.self_time),
    });
    columns.show(&["total_percent", "total_time", "self_percent"]);
    columns.text.push(CellStyle::Function("function", Some("level")).titled("function"));
    // No module: deep trees need the room for names.
    columns.text.push(CellStyle::SourceLine.titled("source"));
    let mut notes = request.sampling_notes();
    notes.extend(pruned_note(&tree));
    let mut table = Table {
        notes,
        page: 40,
        empty: request.empty("samples"),
        ..columns.table(request, view, what, &tree.rows)
    };
    // Of what the tree is of; a time of its own has a function only.
    table.set_total("total_time", scale.quantity(&tree.selected));
    table.set_total("total_percent", scale.percent(&tree.selected));
    request.set_whole_time(&mut table);
    table
}

fn pruned_note(tree: &CallTree) -> Option<String> {
    let percent = SMALLEST_SHARE * 100.0;
    let branches = if tree.pruned == 1 { "branch" } else { "branches" };
    (tree.pruned > 0).then(|| {
        format!(
            "Left out of the tree, not of the sums: {} {branches} below {percent} % of the CPU time.",
            tree.pruned
        )
    })
}
