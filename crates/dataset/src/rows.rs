//! The rows of a result: the figures of its views, as `fathom report` shows them, and its manifest.
//!
//! What for: nothing is computed here. A figure's value, interval and evidence are those of the view; its variance is what its
//! interval says. What not: files (`store`).
//!
//! Assumption for the variance: the interval of 95 % is that of a normal number, so that its half is 1.96 standard deviations.
//! `docs/format/dataset.md` says what pooling with it assumes.

use std::path::Path;

use facts::{Metric, Recording, Run};
use report::{Cell, Document, Key, Options, Prepared, ReportError, Summary, View, build_prepared};

use crate::identity::Identity;
use crate::tables::{ColumnType, TABLES, TableColumns, Value};

/// Standard deviations from one end of a 95 % interval to the other, of a normal number.
const DEVIATIONS: f64 = 2.0 * 1.959_964;

/// Labels that the user gives the machine and the run, e.g. `rack` is `r12`.
pub type Labels = std::collections::BTreeMap<String, String>;

/// The rows of a result, by table.
#[derive(Clone, PartialEq, Debug)]
pub struct Rows([Vec<Vec<Value>>; 7]);

impl Rows {
    /// Rows from elsewhere than a recording, by the names of their tables. What no table is called is left out.
    #[must_use]
    pub fn of_tables(mut rows: std::collections::BTreeMap<&str, Vec<Vec<Value>>>) -> Rows {
        Rows(TABLES.map(|table| rows.remove(table.name).unwrap_or_default()))
    }

    /// Those of a table.
    pub(crate) fn of(&self, table: &TableColumns) -> &[Vec<Value>] {
        let at = TABLES.iter().position(|known| known == table);
        at.map_or(&[], |at| &self.0[at])
    }
}

/// A view whose figures go into a table.
struct Source {
    table: &'static str,
    view: View,
    group: &'static [Key],
    figures: &'static [&'static str],
}

const MOVED: &[&str] = &["dram_read", "dram_write", "loads", "stores"];
const TIME: &[&str] = &["cpu_time", "total_time"];
/// Rows by object in functions and lines: only so the view has the time of waiting for memory.
const STALLED: &[&str] = &["stall_time"];
const OF_OBJECTS: &[&str] = &[
    "stall_time",
    "remote_percent",
    "loads",
    "stores",
    "dram_read",
    "dram_write",
    "latency",
    "line_use_percent",
    "page_faults",
    "huge_pages",
    "blocks",
    "object_bytes",
];

const SOURCES: [Source; 10] = [
    source("functions", View::Hotspots, &[Key::Function], TIME),
    source("functions", View::Bandwidth, &[Key::Function], MOVED),
    source("functions", View::Latency, &[Key::Function], &["latency"]),
    source("functions", View::Objects, &[Key::Object, Key::Function], STALLED),
    source("lines", View::Hotspots, &[Key::SourceLine], &["cpu_time"]),
    source("lines", View::Bandwidth, &[Key::SourceLine], MOVED),
    source("lines", View::Objects, &[Key::Object, Key::SourceLine], STALLED),
    source("objects", View::Objects, &[Key::Object], OF_OBJECTS),
    source("bandwidth", View::Bandwidth, &[], &["read", "write"]),
    source("findings", View::Findings, &[], &["predicted_gain"]),
];

const fn source(
    table: &'static str,
    view: View,
    group: &'static [Key],
    figures: &'static [&'static str],
) -> Source {
    Source { table, view, group, figures }
}

/// The rows of a result. `name`: its directory, as the user typed it.
///
/// # Errors
/// When a view cannot be made; none of the views here can fail so.
pub fn rows(
    recording: &Recording,
    identity: &Identity,
    name: &str,
    labels: &Labels,
) -> Result<Rows, ReportError> {
    let prepared = Prepared::new(recording);
    let build = |view, group: &[Key]| {
        let options = Options {
            view,
            group: group.to_vec(),
            result_name: name.to_owned(),
            ..Options::default()
        };
        build_prepared(&prepared, &options, &|_| None)
    };
    let mut all = TABLES.map(|_| Vec::new());
    let mut put = |table: &str, rows: Vec<Vec<Value>>| {
        let at = TABLES.iter().position(|known| known.name == table);
        at.into_iter().for_each(|at| all[at].extend_from_slice(&rows));
    };
    for source in &SOURCES {
        if let Document::Table(view) = build(source.view, source.group)? {
            put(source.table, figures_of(&view, source, &identity.run));
        }
    }
    if let Document::Summary(summary) = build(View::Summary, &[])? {
        let figure = |(path, metric): &(String, Metric)| {
            let mut row = vec![Value::Text(identity.run.clone())];
            add_figure(&mut row, path, metric);
            row
        };
        put("figures", summary.metrics().iter().map(figure).collect());
        put("runs", vec![run_row(&recording.run, &summary, identity, labels)]);
    }
    Ok(Rows(all))
}

/// A row for each figure of each row of a view.
fn figures_of(view: &report::Table, source: &Source, run: &str) -> Vec<Vec<Value>> {
    let own = TableColumns::named(source.table).map_or(&[][..], TableColumns::own);
    let mut rows = Vec::new();
    for cells in &view.rows {
        let cell = |name: &str| view.column(name).map(|at| &cells[at]);
        let own = own.iter().map(|(name, kind)| value(cell(name), *kind));
        let head: Vec<Value> = std::iter::once(Value::Text(run.to_owned())).chain(own).collect();
        for name in source.figures {
            if let Some(Cell::Metric(metric)) = cell(name) {
                let mut row = head.clone();
                add_figure(&mut row, name, metric);
                rows.push(row);
            }
        }
    }
    rows
}

fn value(cell: Option<&Cell>, kind: ColumnType) -> Value {
    match (kind, cell) {
        (ColumnType::Text, Some(Cell::Text(text))) => Value::Text(text.clone()),
        (ColumnType::Whole, Some(Cell::Number(number))) => Value::whole(Some(*number)),
        (ColumnType::Real, Some(Cell::Seconds(number))) => Value::real(Some(*number)),
        _ => Value::Null,
    }
}

fn add_figure(row: &mut Vec<Value>, name: &str, metric: &Metric) {
    row.extend([
        Value::Text(name.to_owned()),
        Value::Text(metric.unit.clone()),
        Value::real(metric.value),
        Value::real(metric.low),
        Value::real(metric.high),
        Value::real(variance(metric)),
        Value::text(metric.evidence.map(facts::Evidence::name)),
        Value::whole(metric.value.map(|_| metric.samples)),
        Value::text(metric.note.as_deref()),
    ]);
}

/// Variance of the estimate; 0 for exact counts, `None` where an end of the interval is not known.
fn variance(metric: &Metric) -> Option<f64> {
    let (low, high) = (metric.low?, metric.high?);
    metric.value.map(|_| ((high - low) / DEVIATIONS).powi(2))
}

fn run_row(run: &Run, summary: &Summary, identity: &Identity, labels: &Labels) -> Vec<Value> {
    let rank = run.rank.as_ref();
    let program = run.command.first().map(|path| {
        let name = Path::new(path).file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    });
    let number = |number: Option<u32>| Value::whole(number.map(u64::from));
    let known = |text: &str| Value::text(Some(text).filter(|text| !text.is_empty()));
    let labelled: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let host = run.host_name.as_deref().or(labels.get("host").map(String::as_str));
    vec![
        Value::Text(identity.run.clone()),
        known(&summary.result),
        Value::text(program.as_deref()),
        known(&run.command.join(" ")),
        Value::text(host),
        Value::text(rank.and_then(|rank| rank.job.as_deref())),
        number(rank.map(|rank| rank.rank)),
        number(rank.and_then(|rank| rank.ranks)),
        number(rank.and_then(|rank| rank.local_rank)),
        Value::text(labels.get("rack").map(String::as_str)),
        known(&labelled.join(",")),
        Value::Real(run.started_unix as f64 + f64::from(run.started_part_ns) * 1e-9),
        Value::text(Some(summary.state)),
        summary.exit_code.map_or(Value::Null, |code| Value::Whole(code.into())),
        Value::whole(Some(summary.runs)),
        Value::text(summary.classification),
        known(&run.host.cpu),
        number(Some(run.host.logical_cpus).filter(|cpus| *cpus > 0)),
        Value::whole(Some(run.host.memory_bytes).filter(|bytes| *bytes > 0)),
        Value::whole(Some(run.host.numa_nodes.len() as u64).filter(|nodes| *nodes > 0)),
        known(&run.host.kernel),
        known(&run.host.os),
        Value::text(run.host.hypervisor.as_deref()),
        known(&run.fathom_version),
        number(Some(run.schema)),
    ]
}
