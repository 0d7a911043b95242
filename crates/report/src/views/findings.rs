//! `findings`: what is slow for a known reason, and the undecided rules.

use analysis::findings::{Figures, RULES};
use analysis::summary::overview;
use analysis::{Selection, parallel};

use super::Request;
use super::list::{Columns, Unit};
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
    let mut columns = Columns::new();
    columns.name("id", "Finding", CellStyle::Text, "finding", |one: &FindingSummary| {
        Cell::text(one.id)
    });
    columns
        .name("severity", "Severity", CellStyle::Text, "severity", |one| Cell::text(one.severity));
    columns.figure("predicted_gain", "Saves", Unit("s", CellStyle::Saving), "saves", |one| {
        &one.predicted_gain
    });
    columns.name("title", "What", CellStyle::Text, "", |one| Cell::text(one.title.clone()));
    columns.name("function", "Function", CellStyle::Text, "", |one| {
        Cell::text_or_missing(one.place.function.as_deref())
    });
    columns.name("file", "File", CellStyle::Text, "", |one| {
        Cell::text_or_missing(one.place.file.as_deref())
    });
    columns.name("line", "Line", CellStyle::Number, "", |one| {
        one.place.line.map_or(Cell::Missing, |line| Cell::Number(u64::from(line)))
    });
    columns.name("object", "Object", CellStyle::Text, "", |one| {
        Cell::text_or_missing(one.place.object.as_deref())
    });
    columns.name("proofs", "Evidence", CellStyle::Stack, "", |one| Cell::Stack(one.proofs()));
    columns.name("advice", "Advice", CellStyle::Text, "", |one| Cell::text(one.advice.clone()));
    columns.name("next_command", "Next", CellStyle::Text, "", |one| {
        Cell::text(one.next_command.clone())
    });
    columns.show(&["severity", "predicted_gain", "id"]);
    columns.text.push(CellStyle::Function("function", None).titled("function"));
    columns.text.push(CellStyle::SourceLine.titled("source"));
    let mut notes: Vec<String> = (1..).zip(&found).flat_map(|(at, one)| remarks(at, one)).collect();
    let judgeable = RULES.len() - judged.unjudged.len();
    notes.push(format!("{judgeable} of {} rules could be judged.", RULES.len()));
    let line =
        |one: &UndecidedSummary| format!("Undecided: {}: {}.", one.rules.join(", "), one.reason);
    let undecided = undecided(judged);
    notes.extend(undecided.iter().map(line));
    let what = "findings, by the elapsed time that they would save";
    let empty = nothing_found(&undecided);
    Table { notes, empty, ..columns.table(request, "findings", what, &found) }
}

/// What the columns have no room for.
fn remarks(at: usize, one: &FindingSummary) -> [String; 3] {
    let gain = one.gain();
    let gain = if gain.is_empty() { gain } else { format!("; {gain}") };
    [
        format!("{at}. {}: {}{gain}. {}", one.id, one.short_title(), one.advice),
        format!("   evidence: {}", one.proofs().join("; ")),
        format!("   next: {}", one.next_command),
    ]
}
