//! `callers` and `callees`: trees of functions.

use analysis::calltree::{CallTree, Direction, call_tree};

use super::Request;
use super::columns::{
    CPU_TIME, SELF_PERCENT, TOTAL_PERCENT, TOTAL_TIME, cells_of_place, missing, name, time_cells,
    total_cells,
};
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
    let columns = vec![
        name("level", "Level"),
        name("function", "Function"),
        name("file", "File"),
        name("line", "Line"),
        name("module", "Module"),
        TOTAL_TIME,
        TOTAL_PERCENT,
        CPU_TIME,
        SELF_PERCENT,
    ];
    let mut rows = Vec::with_capacity(tree.rows.len());
    for row in &tree.rows {
        let mut cells = vec![Cell::Number(row.level as u64)];
        cells.extend(cells_of_place(profile, row.place));
        cells.extend(time_cells(&scale, &row.total_time));
        if direction == Direction::Callers && row.level > 0 {
            // A caller is only passed through on the way to its callee.
            cells.extend(missing(2));
        } else {
            cells.extend(time_cells(&scale, &row.self_time));
        }
        rows.push(cells);
    }
    let mut total = missing(5);
    total.extend(total_cells(&scale, &tree.selected, request.everything()));
    total.extend(missing(2));
    let mut notes = request.sampling_notes();
    notes.extend(pruned_note(&tree));
    Table {
        view,
        result: request.options.result_name.clone(),
        columns,
        rows,
        total,
        notes,
        title: request.title(what),
        text_columns: vec![
            CellStyle::Percent("total_percent").titled("total %"),
            CellStyle::Time("total_time").titled("time"),
            CellStyle::Percent("self_percent").titled("self %"),
            CellStyle::Function("function", Some("level")).titled("function"),
            // No module: deep trees need the room for names.
            CellStyle::SourceLine.titled("source"),
        ],
        page: 40,
        empty: request.empty("samples"),
    }
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
