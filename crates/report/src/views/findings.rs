//! `findings`: what is slow for a known reason, and the undecided rules.

use analysis::findings::{Figures, RULES};
use analysis::summary::overview;
use analysis::{Selection, parallel};

use super::Request;
use super::columns::{figure, missing, name};
use crate::findings::{FindingSummary, UndecidedSummary, nothing_found, summaries, undecided};
use crate::table::{Cell, CellStyle, Table};

pub(crate) fn findings(request: &Request<'_>) -> Table {
    let Request { prepared, profile, .. } = *request;
    let judged = prepared.judged(|| {
        let (found, memory) = parallel::both(|| overview(profile), || prepared.memory());
        let shared = || prepared.shared(&Selection::default());
        Figures::new(profile, &prepared.code, &memory, request.objects(), &found, shared)
    });
    let found = summaries(judged, &request.options.result_name);
    let columns = vec![
        name("id", "Finding"),
        name("severity", "Severity"),
        figure("predicted_gain", "Saves", "s"),
        name("title", "What"),
        name("function", "Function"),
        name("file", "File"),
        name("line", "Line"),
        name("object", "Object"),
        name("proofs", "Evidence"),
        name("advice", "Advice"),
        name("next_command", "Next"),
    ];
    let mut notes: Vec<String> = (1..).zip(&found).flat_map(|(at, one)| remarks(at, one)).collect();
    let judgeable = RULES.len() - judged.unjudged.len();
    notes.push(format!("{judgeable} of {} rules could be judged.", RULES.len()));
    let line =
        |one: &UndecidedSummary| format!("Undecided: {}: {}.", one.rules.join(", "), one.reason);
    let undecided = undecided(judged);
    notes.extend(undecided.iter().map(line));
    Table {
        view: "findings",
        result: request.options.result_name.clone(),
        total: missing(columns.len()),
        columns,
        rows: found.iter().map(cells).collect(),
        notes,
        title: request.title("findings, by the elapsed time that they would save"),
        text_columns: vec![
            CellStyle::Text("severity").titled("severity"),
            CellStyle::Time("predicted_gain").titled("saves"),
            CellStyle::Text("id").titled("finding"),
            CellStyle::Function("function", None).titled("function"),
            CellStyle::SourceLine.titled("source"),
        ],
        page: 25,
        empty: nothing_found(&undecided),
    }
}

fn cells(one: &FindingSummary) -> Vec<Cell> {
    let place = &one.place;
    vec![
        Cell::text(one.id),
        Cell::text(one.severity),
        Cell::metric(one.predicted_gain.clone()),
        Cell::text(one.title.clone()),
        Cell::text_or_missing(place.function.as_deref()),
        Cell::text_or_missing(place.file.as_deref()),
        place.line.map_or(Cell::Missing, |line| Cell::Number(u64::from(line))),
        Cell::text_or_missing(place.object.as_deref()),
        Cell::Stack(one.proofs()),
        Cell::text(one.advice.clone()),
        Cell::text(one.next_command.clone()),
    ]
}

/// What the columns have no room for.
fn remarks(at: usize, one: &FindingSummary) -> [String; 3] {
    let gain = one.gain();
    let gain = if gain.is_empty() { gain } else { format!("; {gain}") };
    [
        format!("{at}. {}: {}{gain}. {}", one.id, one.title, one.advice),
        format!("   evidence: {}", one.proofs().join("; ")),
        format!("   next: {}", one.next_command),
    ]
}
