//! `pace`: the loops in which the time went, and how fast they run natively.

use analysis::core_limits::{LoopLimit, loop_limits};
use analysis::pace::{LoopPace, loops};
use facts::{Evidence, Metric};

use super::Request;
use super::columns::{figure, missing};
use crate::summary::words;
use crate::table::{Cell, CellStyle, Column, Table};

const fn plain(key: &'static str, label: &'static str) -> Column {
    Column { key, label, unit: None }
}

pub(crate) fn pace(request: &Request<'_>) -> Table {
    let recording = request.profile.recording;
    if recording.sample_registers.is_empty() && !recording.branch_loops.is_empty() {
        return super::sampled::loops(request);
    }
    let found = loops(request.profile.recording);
    let limits = loop_limits(request.profile.recording, &found);
    let columns = vec![
        plain("function", "Function"),
        plain("file", "File"),
        plain("line", "Line"),
        plain("depth", "Depth"),
        figure("cpu_time", "CPU time", "s"),
        figure("iterations_per_second", "Iterations/s", "count/s"),
        figure("iteration_time", "Time of an iteration", "s"),
        figure("trip_count", "Trip count", "count"),
        figure("iterations", "Iterations", "count"),
        plain("odometer", "By"),
        plain("agreement", "Agreement"),
        plain("limit", "Limited by"),
        figure("limit_time", "What that needs", "s"),
        figure("core_time", "An iteration without misses", "s"),
    ];
    let total = missing(columns.len());
    Table {
        view: "pace",
        result: request.options.result_name.clone(),
        columns,
        rows: found.iter().zip(&limits).map(|(row, limit)| cells(row, limit.as_ref())).collect(),
        total,
        notes: notes(&found),
        title: request.title("native pace of loops"),
        text_columns: vec![
            CellStyle::Time("cpu_time").titled("CPU time"),
            CellStyle::Measure("iterations_per_second").titled("iterations/s"),
            CellStyle::Time("iteration_time").titled("each"),
            CellStyle::Count("trip_count").titled("trips"),
            CellStyle::Text("odometer").titled("by"),
            CellStyle::Text("agreement").titled("agreement"),
            CellStyle::Text("limit").titled("limit of the core"),
            CellStyle::Function("function", Some("depth")).titled("function"),
            CellStyle::SourceLine.titled("loop at"),
        ],
        page: 25,
        empty: empty(request),
    }
}

fn cells(row: &LoopPace, limit: Option<&LoopLimit>) -> Vec<Cell> {
    let words = limit.map(|limit| words(limit.cause.name(), limit.instruction.as_deref()));
    let time = |of: fn(&LoopLimit) -> &Metric| {
        limit.map_or(Cell::Missing, |limit| Cell::metric(of(limit).clone()))
    };
    vec![
        Cell::text(row.function.clone()),
        Cell::text_or_missing(row.file.as_deref()),
        row.line.map_or(Cell::Missing, |line| Cell::Number(u64::from(line))),
        Cell::Number(row.depth as u64),
        Cell::metric(row.cpu_time.clone()),
        Cell::metric(row.iterations_per_second.clone()),
        Cell::metric(row.iteration_time.clone()),
        Cell::metric(row.trip_count.clone()),
        Cell::metric(row.iterations.clone()),
        Cell::text_or_missing(row.odometer.as_deref()),
        Cell::text_or_missing(row.agreement.as_deref()),
        Cell::text_or_missing(words.as_deref()),
        time(|limit| &limit.bound),
        time(|limit| &limit.time),
    ]
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
