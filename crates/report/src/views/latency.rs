//! `latency`: how long loads take, as a histogram, or by object, function, line or module, with the simulated
//! cache levels.

use analysis::memory::{Latency, LatencyRow, Memory};
use analysis::{Key, TracedCode};
use facts::Metric;

use super::Request;
use super::bandwidth::{levels_note, nothing};
use super::columns::{
    cells_of_key, cells_of_objects, columns_next_to_objects, figure, missing, name, names, of_keys,
    of_objects,
};
use crate::table::{Cell, CellStyle, Table};

pub(crate) fn latency(request: &Request<'_>, code: &TracedCode, memory: &Memory<'_>) -> Table {
    if super::sampled::answers(request) {
        return super::sampled::latency(request, code);
    }
    let table = match request.options.group.as_slice() {
        [] => histogram(request, memory),
        keys => by_code(request, code, memory, keys),
    };
    table.limited(request.options.limit)
}

fn histogram(request: &Request<'_>, memory: &Memory<'_>) -> Table {
    let found = memory.latency();
    let steps = found.as_ref().map_or(&[][..], |found| &found.histogram);
    let row = |(from, to, share): &(f64, f64, Metric)| {
        let to = if to.is_finite() { Cell::text(format!("{to:.0}")) } else { Cell::Missing };
        vec![Cell::text(format!("{from:.0}")), to, Cell::metric(share.clone())]
    };
    let (notes, empty) = match &found {
        Ok(found) => (remarks(memory, found), nothing(memory)),
        Err(why) => (memory.notes.clone(), format!("n/a: {why}.")),
    };
    Table {
        view: "latency",
        result: request.options.result_name.clone(),
        columns: vec![
            name("from", "From, ns"),
            name("to", "To, ns"),
            figure("load_percent", "Share of loads", "percent"),
        ],
        rows: steps.iter().map(row).collect(),
        total: missing(3),
        notes,
        title: request.title("latency of loads, nanoseconds"),
        text_columns: vec![
            CellStyle::Figure("from").titled("from ns"),
            CellStyle::Figure("to").titled("to ns"),
            CellStyle::Percent("load_percent").titled("loads %"),
            CellStyle::Bar("load_percent").titled(""),
        ],
        page: usize::MAX,
        empty,
    }
}

fn remarks(memory: &Memory<'_>, found: &Latency) -> Vec<String> {
    let one = |name: &str, metric: &Metric| {
        let value = metric.value.unwrap_or(0.0);
        let bounds = metric.low.zip(metric.high);
        let bounds =
            bounds.map_or(String::new(), |(low, high)| format!(" ({low:.0} to {high:.0})"));
        format!("{name} {value:.1} ns{bounds}")
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
    let mut columns = of_objects(keys);
    columns.extend(of_keys(keys));
    columns.extend([
        figure("loads", "Loads", "count"),
        figure("load_time_percent", "Share of load time", "percent"),
        figure("latency", "Mean latency", "ns"),
        figure("latency_p50", "Median", "ns"),
        figure("latency_p95", "95 %", "ns"),
        figure("latency_p99", "99 %", "ns"),
        figure("l1", "Loads from L1", "percent"),
        figure("l2", "Loads from L2", "percent"),
        figure("l3", "Loads from L3", "percent"),
        figure("dram", "Loads from memory", "percent"),
        figure("beyond_l2", "Timed beyond L2", "percent"),
    ]);
    let row = |row: &LatencyRow| {
        let mut cells = cells_of_objects(request, keys, &row.key);
        cells.extend(cells_of_key(request.profile, keys, &row.key, row.place, None));
        let (latency, levels) = (&row.latency, &row.levels);
        let figures = [
            &row.loads,
            &row.share,
            &latency.mean,
            &latency.p50,
            &latency.p95,
            &latency.p99,
            &levels.l1,
            &levels.l2,
            &levels.l3,
            &levels.dram,
            &row.beyond_l2,
        ];
        cells.extend(figures.map(|metric| Cell::metric(metric.clone())));
        cells
    };
    let mut shown = vec![
        CellStyle::Percent("load_time_percent").titled("load time %"),
        CellStyle::Figure("latency").titled("mean ns"),
        CellStyle::Figure("latency_p50").titled("median"),
        CellStyle::Figure("latency_p95").titled("95 %"),
        CellStyle::Count("l1").titled("L1 %"),
        CellStyle::Count("l2").titled("L2 %"),
        CellStyle::Count("l3").titled("L3 %"),
        CellStyle::Count("dram").titled("DRAM %"),
        CellStyle::Count("beyond_l2").titled("timed > L2 %"),
    ];
    shown.extend(columns_next_to_objects(keys));
    let by = names(keys);
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
    Table {
        view: "latency",
        result: request.options.result_name.clone(),
        rows: rows.iter().map(row).collect(),
        total: missing(columns.len()),
        columns,
        notes,
        title: request.title(&format!("latency of loads by {by}")),
        text_columns: shown,
        page: 25,
        empty: match (without, &found) {
            (Some(why), _) => why,
            (None, Ok(_)) => match memory.latency() {
                Err(why) if request.everything() => format!("n/a: {why}."),
                _ => nothing(memory),
            },
            (None, Err(why)) => format!("n/a: {why}."),
        },
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
