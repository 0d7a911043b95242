//! `events`: what counters of the hardware and the kernel counted in the whole run.
//!
//! What not: what an event means; figures per function.

use analysis::counted::{Counted, counted};

use facts::{NoteSubject, Recording};

use super::Request;
use super::list::{Columns, PERCENT, Unit};
use crate::table::{Cell, CellStyle, Table};

pub(crate) fn events(request: &Request<'_>) -> Table {
    let recording = request.profile.recording;
    let mut columns: Columns<'_, Counted<'_>> = Columns::new();
    columns.name("event", "Event", CellStyle::Text, "event", |one| Cell::text(&*one.event.name));
    let number = Unit("count", CellStyle::Measure);
    columns.figure("count", "Count", number, "count", |one| &one.count);
    let title = "time with a counter %";
    columns.figure("counter_percent", "Time with a counter", PERCENT, title, |one| &one.share);
    let place = |one: &Counted<'_>| {
        Cell::text(if one.event.kernel { "program and kernel" } else { "program" })
    };
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

/// What the collection says about events that were not counted, or not well.
pub(super) fn remarks(recording: &Recording) -> Vec<String> {
    let subjects = [NoteSubject::CountedEvents, NoteSubject::TopDown];
    let notes = recording.run.notes.iter();
    notes.filter(|note| subjects.iter().any(|subject| subject.has(note))).cloned().collect()
}
