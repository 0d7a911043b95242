//! `pace`: the loops in which the time went, and how fast they run natively.

use std::collections::HashMap;

use analysis::Selection;
use analysis::core_limits::{LoopLimit, loop_limits};
use analysis::pace::LoopPace;
use analysis::sampled::sampled_loops;
use base::CodeAddress;
use facts::{Evidence, Metric};

use super::Request;
use super::list::{COUNT, Columns, SECONDS, Unit};
use crate::summary::words;
use crate::table::{Cell, CellStyle, Table};

const PACE: Unit = Unit("count/s", CellStyle::Measure);

pub(crate) fn pace(request: &Request<'_>) -> Table {
    let recording = request.profile.recording;
    if recording.sample_registers.is_empty() && !recording.branch_loops.is_empty() {
        return super::sampled::loops(request);
    }
    let found = request.profile.paces();
    let limits = loop_limits(request.profile.recording, found);
    type Row<'a> = (&'a LoopPace, &'a Option<LoopLimit>);
    let rows: Vec<Row<'_>> = found.iter().zip(&limits).collect();
    // The hardware's branches know loops that registers do not.
    let by_branches: HashMap<CodeAddress, Metric> =
        sampled_loops(request.profile, &Selection::default())
            .into_iter()
            .filter_map(|one| Some((one.head?, one.trip_count)))
            .collect();
    let mut columns = Columns::new();
    let depth = |key| CellStyle::Function(key, Some("depth"));
    columns.name("function", "Function", depth, "function", |(row, _): &Row<'_>| {
        Cell::text(row.function.clone())
    });
    columns.name("callee", "Calling", CellStyle::Text, "calling", |(row, _)| {
        Cell::text_or_missing(row.callee.as_deref())
    });
    columns.name("file", "File", CellStyle::Text, "", |(row, _)| {
        Cell::text_or_missing(row.file.as_deref())
    });
    columns.name("line", "Line", CellStyle::Number, "", |(row, _)| {
        row.line.map_or(Cell::Missing, |line| Cell::Number(u64::from(line)))
    });
    columns
        .name("depth", "Depth", CellStyle::Number, "", |(row, _)| Cell::Number(row.depth as u64));
    columns.figure("cpu_time", "CPU time", SECONDS, "CPU time", |(row, _)| &row.cpu_time);
    columns.figure("iterations_per_second", "Iterations/s", PACE, "iterations/s", |(row, _)| {
        &row.iterations_per_second
    });
    columns.figure("iteration_time", "Time of an iteration", SECONDS, "each", |(row, _)| {
        &row.iteration_time
    });
    columns.figure("trip_count", "Trip count", COUNT, "trips", |(row, _)| &row.trip_count);
    columns.figure("iterations", "Iterations", COUNT, "", |(row, _)| &row.iterations);
    columns.cell(
        "branch_trip_count",
        "Trip count by branches",
        COUNT,
        "by branches",
        |(row, _)| {
            by_branches.get(&row.start).map_or(Cell::Missing, |trips| Cell::metric(trips.clone()))
        },
    );
    columns.name("odometer", "By", CellStyle::Text, "by", |(row, _)| {
        Cell::text_or_missing(row.odometer.as_deref())
    });
    columns.name("agreement", "Agreement", CellStyle::Text, "agreement", |(row, _)| {
        Cell::text_or_missing(row.agreement.as_deref())
    });
    columns.name("limit", "Limited by", CellStyle::Text, "core limit", |(_, limit)| {
        let words = |limit: &LoopLimit| words(limit.cause.name(), limit.instruction.as_deref());
        Cell::text_or_missing(limit.as_ref().map(words).as_deref())
    });
    let time = |of: fn(&LoopLimit) -> &Metric| {
        move |(_, limit): &Row<'_>| {
            limit.as_ref().map_or(Cell::Missing, |limit| Cell::metric(of(limit).clone()))
        }
    };
    columns.cell("limit_time", "What that needs", SECONDS, "", time(|limit| &limit.bound));
    columns.cell(
        "core_time",
        "An iteration without misses",
        SECONDS,
        "",
        time(|limit| &limit.time),
    );
    columns.show(&["cpu_time", "iterations_per_second", "iteration_time", "trip_count"]);
    if !by_branches.is_empty() {
        columns.show(&["branch_trip_count"]);
    }
    columns.show(&["odometer", "agreement", "limit", "function"]);
    if found.iter().any(|row| row.callee.is_some()) {
        columns.show(&["callee"]);
    }
    columns.text.push(CellStyle::SourceLine.titled("loop at"));
    Table {
        notes: notes(found),
        empty: empty(request),
        ..columns.table(request, "pace", "native pace of loops", &rows)
    }
}

/// Why loops have no pace, each reason once.
fn notes(found: &[LoopPace]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let without_pace = found.iter().filter_map(|row| row.iterations_per_second.note.as_deref());
    for why in without_pace {
        let note = format!("A loop without a pace: {why}.");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let estimated =
        |row: &LoopPace| row.iterations_per_second.evidence == Some(Evidence::Estimated);
    if found.iter().any(estimated) {
        let says = "Estimated: iterations of the enclosing loop times the trip count in bursts.";
        notes.push(says.to_owned());
    }
    if !found.is_empty() {
        let says = "An iteration is one of the machine code: several of the source where the loop is unrolled or \
                vectorised.";
        notes.push(says.to_owned());
    }
    notes
}

fn empty(request: &Request<'_>) -> String {
    let recording = request.profile.recording;
    if recording.run.source.is_some() {
        "n/a: of an imported recording only branch stacks show loops (perf record -b), and this one has none of use.".to_owned()
    } else if recording.sample_registers.is_empty() {
        "n/a: the result has no registers at clock samples (recorded by an earlier Fathom, or without sampling).".to_owned()
    } else if recording.sampled_code.is_empty() {
        "n/a: the sampled code is not in the result (no file, or no unwind information).".to_owned()
    } else {
        "No loop had 0.5 % of the CPU time.".to_owned()
    }
}
