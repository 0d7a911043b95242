//! `cross-check`: where bursts and the hardware disagree, figure by figure.
//!
//! What not: the judgement (`analysis::cross_check`).

use analysis::Profile;
use analysis::cross_check::{Agreement, Check, cross_check as checks};
use analysis::memory::Memory;
use facts::NoteSubject;

use super::Request;
use super::list::{Columns, Unit};
use crate::table::{Cell, CellStyle, Table};
use crate::text::interval;

/// Each row has a unit of its own.
const OF_ROW: Unit = Unit("", CellStyle::Interval);
const RATIO: Unit = Unit("ratio", CellStyle::Figure);

pub(crate) fn cross_check(request: &Request<'_>, memory: &Memory<'_>) -> Table {
    let found = checks(request.profile, memory);
    let mut columns = Columns::new();
    columns
        .name("figure", "Figure", CellStyle::Text, "figure", |row: &Check| Cell::text(row.figure));
    columns.figure("by_bursts", "By bursts", OF_ROW, "by bursts", |row| &row.bursts);
    columns
        .figure("by_hardware", "By the hardware", OF_ROW, "by the hardware", |row| &row.hardware);
    columns.figure("bursts_over_hardware", "Bursts / hardware", RATIO, "ratio", |row| &row.ratio);
    columns.name("agreement", "Agreement", CellStyle::Text, "they", |row| {
        Cell::text(row.agreement.name())
    });
    columns.name("counted_by", "Counted by", CellStyle::Text, "by what of the hardware", |row| {
        Cell::text(row.source)
    });
    columns.show(&["figure", "by_bursts", "by_hardware", "agreement"]);
    let mut notes: Vec<String> = Vec::new();
    if found.iter().any(|row| row.at_most) {
        notes.push(
            "where the hardware sees more than the program, they differ only if bursts say more"
                .to_owned(),
        );
    }
    for row in found.iter().filter(|row| row.agreement == Agreement::Unknown) {
        let why =
            [&row.hardware, &row.bursts].into_iter().find_map(|metric| metric.note.as_deref());
        notes.push(format!("{}: {}", row.figure, why.unwrap_or("an interval is not known")));
    }
    let of_hardware =
        [NoteSubject::SampledLoads, NoteSubject::MachineTraffic, NoteSubject::CountedEvents];
    let remarks = request.profile.recording.run.notes.iter();
    notes.extend(remarks.filter(|note| of_hardware.iter().any(|one| one.has(note))).cloned());
    let empty = match memory.bursts() {
        None => format!("n/a: there are no bursts to compare with: {}.", memory.missing().unwrap_or("none was taken")),
        Some(_) => "n/a: the hardware counted and sampled nothing next to the bursts: `fathom run` does so where the cores have a PMU \
                    (`fathom doctor`)."
            .to_owned(),
    };
    Table {
        notes,
        empty,
        ..columns.table(
            request,
            "cross-check",
            "bursts against counters and sampled accesses",
            &found,
        )
    }
}

/// For the summary: `bursts and the hardware agree on 4 figures and differ on 1: loads from DRAM, counters: 12 % (10 % to 14 %) by
/// bursts, 3 % by the hardware`.
pub(crate) fn disagreements(profile: &Profile<'_>, memory: &Memory<'_>) -> Option<String> {
    let found = checks(profile, memory);
    let of = |wanted| found.iter().filter(move |row| row.agreement == wanted);
    let (agree, differ) = (of(Agreement::Agree).count(), of(Agreement::Differ).count());
    let figures =
        |number| if number == 1 { "1 figure".to_owned() } else { format!("{number} figures") };
    let says = |row: &Check| {
        let [bursts, hardware] = [&row.bursts, &row.hardware]
            .map(|metric| interval(metric, metric.value.unwrap_or(f64::NAN)));
        format!("{}: {bursts} by bursts, {hardware} by the hardware", row.figure)
    };
    match (agree, differ) {
        (0, 0) => None,
        (agree, 0) => Some(format!("bursts and the hardware agree on {}", figures(agree))),
        (agree, differ) => {
            let all: Vec<String> = of(Agreement::Differ).map(says).collect();
            Some(format!(
                "bursts and the hardware agree on {} and differ on {differ}: {}",
                figures(agree),
                all.join("; ")
            ))
        }
    }
}
