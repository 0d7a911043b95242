//! `latency`: how long loads take, as a histogram, or by object, function, line or module, with the simulated
//! cache levels.

use analysis::memory::{Latency, LatencyRow, LatencyStep, Memory};
use analysis::{Key, TracedCode};
use facts::Metric;

use super::Request;
use super::bandwidth::{levels_note, nothing};
use super::columns::{columns_next_to_objects, names};
use super::list::{COUNT, Columns, NANOSECONDS, PERCENT, PERCENT_ALONE};
use crate::table::{Cell, CellStyle, Table};
use crate::text::interval;

pub(crate) fn latency(request: &Request<'_>, code: &TracedCode, memory: &Memory<'_>) -> Table {
    if super::sampled::answers(request) {
        return super::sampled::latency(request, code);
    }
    match request.options.group.as_slice() {
        [] => histogram(request, memory),
        keys => by_code(request, code, memory, keys),
    }
}

fn histogram(request: &Request<'_>, memory: &Memory<'_>) -> Table {
    let found = memory.latency();
    let steps = found.as_ref().map_or(&[][..], |found| &found.histogram);
    let (notes, empty) = match &found {
        Ok(found) => (remarks(memory, found), nothing(memory)),
        Err(why) => (memory.notes.clone(), format!("n/a: {why}.")),
    };
    let what = "latency of loads, nanoseconds";
    Table {
        notes,
        empty,
        ..steps_table(request, what, ("From, ns", "To, ns"), ("from ns", "to ns"), steps)
    }
}

/// A histogram.
pub(super) fn steps_table(
    request: &Request<'_>,
    what: &str,
    (from, to): (&'static str, &'static str),
    (from_heading, to_heading): (&'static str, &'static str),
    steps: &[LatencyStep],
) -> Table {
    let mut columns = Columns::new();
    columns.name("from", from, CellStyle::Figure, from_heading, |step: &LatencyStep| {
        Cell::text(format!("{:.0}", step.from))
    });
    columns.name("to", to, CellStyle::Figure, to_heading, |step| match step.to.is_finite() {
        true => Cell::text(format!("{:.0}", step.to)),
        false => Cell::Missing,
    });
    columns.figure("load_percent", "Share of loads", PERCENT, "loads %", |step| &step.share);
    columns.show(&["from", "to", "load_percent"]);
    columns.text.push(CellStyle::Bar("load_percent").titled(""));
    Table { page: usize::MAX, ..columns.table(request, "latency", what, steps) }
}

/// ` (12 to 15)`, where there is an interval.
pub(super) fn bounds(metric: &Metric) -> String {
    let bounds = metric.low.zip(metric.high);
    bounds.map_or(String::new(), |(low, high)| format!(" ({low:.0} to {high:.0})"))
}

fn remarks(memory: &Memory<'_>, found: &Latency) -> Vec<String> {
    let one = |name: &str, metric: &Metric| {
        format!("{name} {}", interval(metric, metric.value.unwrap_or(0.0)))
    };
    let figures =
        [("mean", &found.mean), ("median", &found.p50), ("95 %", &found.p95), ("99 %", &found.p99)];
    let mut notes = vec![figures.map(|(name, metric)| one(name, metric)).join(", ")];
    notes.push(
        "timed one at a time, each fenced: native code hides a part of this by overlap or prefetch"
            .to_owned(),
    );
    if let Some(covered) = found.covered.value.filter(|covered| *covered < 95.0) {
        notes.push(format!(
            "of {covered:.0} % of the loads, those at instructions with a timed load"
        ));
    }
    notes.extend(memory.notes.iter().cloned());
    notes
}

fn by_code(request: &Request<'_>, code: &TracedCode, memory: &Memory<'_>, keys: &[Key]) -> Table {
    let without = request.without_objects();
    let found = if without.is_some() {
        Ok(Vec::new())
    } else if request.by_object() {
        memory.latency_rows_of_objects(&request.grouping(code, keys))
    } else {
        memory.latency_rows(request.selection, keys)
    };
    let mut columns = Columns::by(request, keys, None, |row: &LatencyRow| (&row.key, row.place));
    columns.figure("loads", "Loads", COUNT, "", |row| &row.loads);
    columns.figure("load_time_percent", "Share of load time", PERCENT, "load time %", |row| {
        &row.share
    });
    columns.figure("latency", "Mean latency", NANOSECONDS, "mean ns", |row| &row.latency.mean);
    columns.figure("latency_p50", "Median", NANOSECONDS, "median", |row| &row.latency.p50);
    columns.figure("latency_p95", "95 %", NANOSECONDS, "95 %", |row| &row.latency.p95);
    columns.figure("latency_p99", "99 %", NANOSECONDS, "", |row| &row.latency.p99);
    columns.figure("l1", "Loads from L1", PERCENT_ALONE, "L1 %", |row| &row.levels.l1);
    columns.figure("l2", "Loads from L2", PERCENT_ALONE, "L2 %", |row| &row.levels.l2);
    columns.figure("l3", "Loads from L3", PERCENT_ALONE, "L3 %", |row| &row.levels.l3);
    columns.figure("dram", "Loads from memory", PERCENT_ALONE, "DRAM %", |row| &row.levels.dram);
    columns.figure("beyond_l2", "Timed beyond L2", PERCENT_ALONE, "timed > L2 %", |row| {
        &row.beyond_l2
    });
    columns.show(&["load_time_percent", "latency", "latency_p50", "latency_p95"]);
    columns.show(&["l1", "l2", "l3", "dram", "beyond_l2"]);
    columns.text.extend(columns_next_to_objects(keys));
    let rows = found.as_ref().map_or(&[][..], Vec::as_slice);
    let mut notes: Vec<String> = levels_note(request).into_iter().collect();
    notes.extend(memory.notes.iter().cloned());
    if rows.iter().any(disagrees) {
        notes.push(
            "where timed and simulated levels differ: a prefetcher that had time to run ahead makes timed loads \
             fast; a cache that is smaller or more contended than measured makes them slow"
                .to_owned(),
        );
    }
    let what = format!("latency of loads by {}", names(keys));
    Table {
        notes,
        empty: match (without, &found) {
            (Some(why), _) => why,
            (None, Ok(_)) => match memory.latency() {
                Err(why) if request.everything() => format!("n/a: {why}."),
                _ => nothing(memory),
            },
            (None, Err(why)) => format!("n/a: {why}."),
        },
        ..columns.table(request, "latency", &what, rows)
    }
}

/// Whether the timed share beyond the second level lies outside of what the model says.
fn disagrees(row: &LatencyRow) -> bool {
    let bound =
        |part: fn(&Metric) -> Option<f64>| Some(part(&row.levels.l3)? + part(&row.levels.dram)?);
    let (Some(low), Some(high)) = (bound(|one| one.low), bound(|one| one.high)) else {
        return false;
    };
    let (Some(from), Some(to)) = (row.beyond_l2.low, row.beyond_l2.high) else { return false };
    to < low || high < from
}
