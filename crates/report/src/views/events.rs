//! `events`: what counters of the hardware and the kernel counted in the whole run; by code, how often each happened where, from
//! samples.
//!
//! What not: what an event means.

use analysis::counted::{Counted, counted, counted_in};
use analysis::counted_code::{CountedCode, CountedRow};
use facts::{NoteSubject, Recording};

use super::Request;
use super::columns::{names, text_columns};
use super::list::{COUNT, Columns, PERCENT, Unit};
use crate::table::{Cell, CellStyle, Table};

pub(crate) fn events(request: &Request<'_>) -> Table {
    if !request.options.group.is_empty() {
        return of_code(request);
    }
    let recording = request.profile.recording;
    let mut columns: Columns<'_, Counted<'_>> = Columns::new();
    columns.name("event", "Event", CellStyle::Text, "event", |one| Cell::text(&*one.event.name));
    let number = Unit("count", CellStyle::Measure);
    columns.figure("count", "Count", number, "count", |one| &one.count);
    let title = "time with a counter %";
    columns.figure("counter_percent", "Time with a counter", PERCENT, title, |one| &one.share);
    let place = |one: &Counted<'_>| Cell::text(counted_in(recording, one.event));
    columns.name("counted_in", "Counted in", CellStyle::Text, "counted in", place);
    columns.name("event_group", "Group", CellStyle::Text, "", |one| {
        Cell::Number(u64::from(one.event.group))
    });
    columns.show(&["event", "count", "counter_percent", "counted_in"]);
    let notes = remarks(recording);
    let empty = match notes.is_empty() {
        true => {
            "n/a: no events were asked for; `fathom collect ANALYSIS -k event-config=page-faults,cycles -- PROGRAM` counts some."
        }
        false => "n/a: none of the events that were asked for could be counted.",
    };
    Table {
        notes,
        page: 200,
        empty: empty.to_owned(),
        ..columns.table(request, "events", "counted events", &counted(recording))
    }
}

/// A row for each event and piece of code.
fn of_code(request: &Request<'_>) -> Table {
    type Row<'a> = (usize, &'a str, &'a CountedRow);
    let keys = request.options.group.as_slice();
    let code = CountedCode::new(request.profile, request.selection, keys);
    let rows_of = |(at, _): (usize, &facts::CountedEvent)| {
        let rows = code.rows.iter().filter(|row| row.samples(at) > 0);
        let mut rows: Vec<&CountedRow> = rows.collect();
        rows.sort_by(|a, b| {
            let of = |row: &CountedRow| code.percent(row, at).value.unwrap_or(0.0);
            of(b).total_cmp(&of(a)).then_with(|| a.key.cmp(&b.key))
        });
        (at, rows)
    };
    let all: Vec<(usize, Vec<&CountedRow>)> = code.sampled().map(rows_of).collect();
    let events = &request.profile.recording.counted_events;
    let rows: Vec<Row<'_>> = all
        .iter()
        .flat_map(|(at, rows)| rows.iter().map(|row| (*at, events[*at].name.as_str(), *row)))
        .collect();
    let paths = code.paths.as_ref();
    let mut columns =
        Columns::by(request, keys, paths, |(_, _, row): &Row<'_>| (&row.key, row.place));
    columns.name("event", "Event", CellStyle::Text, "event", |(_, name, _)| Cell::text(*name));
    columns
        .cell("count", "Count", COUNT, "count", |(at, _, row)| Cell::metric(code.count(row, *at)));
    columns.cell("event_percent", "Share of the event", PERCENT, "share %", |(at, _, row)| {
        Cell::metric(code.percent(row, *at))
    });
    columns.name("samples", "Samples", CellStyle::Number, "samples", |(at, _, row)| {
        Cell::Number(row.samples(*at))
    });
    columns.show(&["event", "event_percent", "count", "samples"]);
    columns.text.extend(text_columns(keys));
    let empty = match request.everything() {
        true => {
            "n/a: no samples of counted events: `perf record -e cycles,instructions` takes some, and `fathom import` reads them."
        }
        false => "No samples of counted events match the filter.",
    };
    Table {
        notes: remarks(request.profile.recording),
        empty: empty.to_owned(),
        ..columns.table(request, "events", &format!("counted events by {}", names(keys)), &rows)
    }
}

/// What the collection says about events that were not counted, or not well.
pub(super) fn remarks(recording: &Recording) -> Vec<String> {
    let subjects = [NoteSubject::CountedEvents, NoteSubject::TopDown];
    let notes = recording.run.notes.iter();
    notes.filter(|note| subjects.iter().any(|subject| subject.has(note))).cloned().collect()
}
