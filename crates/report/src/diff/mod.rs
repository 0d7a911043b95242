//! `fathom diff`: what changed between two sets of results of a program, also of different builds.
//!
//! What for: [`RunFigures::of`] takes from each result its summary and one table, so that many results need not be in
//! memory at once; [`Diff::new`] compares them. What not: no statistics (`analysis::compare`), no files.
//!
//! Assumption: results of a side are repeated runs of one program under one load.

mod align;
mod gate;
mod notes;
mod pairs;
mod rows;
#[cfg(test)]
mod tests;

pub use gate::{Gate, GateResult, Outcome};

use analysis::Key;
use analysis::compare::{LEVEL, holm};
use facts::{Metric, Recording};
use serde::Serialize;

use crate::summary::Summary;
use crate::table::Table;
use crate::text::markdown;
use crate::{Document, Options, ReportError, View, build, json, text};
use pairs::Pairs;
use rows::Compared;

/// What a diff needs of one result.
pub struct RunFigures {
    pub(crate) summary: Summary,
    pub(crate) totals: Vec<(String, Metric)>,
    pub(crate) table: Table,
    /// Nanoseconds since 1970.
    pub(crate) started: u128,
}

/// Views whose rows can be compared, with the figure that is compared unless another is asked for.
const VIEWS: [(View, &str); 5] = [
    (View::Hotspots, "cpu_time"),
    (View::Bandwidth, "dram_read"),
    (View::Allocations, "bytes_allocated"),
    (View::Faults, "page_faults"),
    (View::Latency, "latency"),
];

/// What to compare by, besides the totals.
#[derive(Clone, PartialEq, Debug)]
pub struct DiffOptions {
    /// View, grouping and filters of the table.
    pub table: Options,
    /// Key of the table's column that is compared.
    pub metric: String,
}

impl DiffOptions {
    /// Checks a request. `metric` `None`: the view's first figure. No grouping means by function; lines are always
    /// compared within their functions.
    ///
    /// # Errors
    /// When rows of the view, or groups of this kind, are not the same things in another run.
    pub fn new(mut table: Options, metric: Option<String>) -> Result<DiffOptions, ReportError> {
        let Some((_, usual)) = VIEWS.iter().find(|(view, _)| *view == table.view) else {
            return Err(ReportError::UnknownView {
                name: table.view.name().to_owned(),
                possible: VIEWS.map(|(view, _)| view.name()).join(", "),
            });
        };
        // Ids of threads and processes differ from run to run.
        let comparable = [Key::Function, Key::SourceLine, Key::Module, Key::CallStack];
        if let Some(key) = table.group.iter().find(|key| !comparable.contains(key)) {
            return Err(ReportError::GroupNotPossible {
                view: "diff",
                key: key.name(),
                possible: "'function', 'source-line', 'module' and 'call-stack'".to_owned(),
            });
        }
        let by_line = table.group.contains(&Key::SourceLine);
        if table.group.is_empty() || (by_line && !table.group.contains(&Key::Function)) {
            table.group.insert(0, Key::Function);
        }
        table.limit = None;
        Ok(DiffOptions { metric: metric.unwrap_or_else(|| (*usual).to_owned()), table })
    }
}

impl RunFigures {
    /// Takes the figures of one result; `name` is what the user calls it.
    ///
    /// # Errors
    /// When the options ask for something that the result does not have.
    pub fn of(
        recording: &Recording,
        name: &str,
        options: &DiffOptions,
    ) -> Result<RunFigures, ReportError> {
        let of = |view: Options| {
            build(recording, &Options { result_name: name.to_owned(), ..view }, &|_| None)
        };
        let Document::Table(table) = of(options.table.clone())? else {
            unreachable!("DiffOptions has let pass views that are tables only")
        };
        if !table.columns.iter().any(|column| column.key == options.metric && column.unit.is_some())
        {
            let figures = table.columns.iter().filter(|column| column.unit.is_some());
            return Err(ReportError::NoSuchFigure {
                name: options.metric.clone(),
                possible: figures.map(|column| column.key).collect::<Vec<_>>().join(", "),
            });
        }
        let Document::Summary(summary) = of(Options::default())? else {
            unreachable!("the default view is the summary")
        };
        Ok(RunFigures {
            totals: summary.metrics(),
            summary: *summary,
            table: *table,
            started: u128::from(recording.run.started_unix) * 1_000_000_000
                + u128::from(recording.run.started_part_ns),
        })
    }
}

/// The totals that are shown and tested, where either side has them: what happened, not what the profiler did.
const TOTALS: [&str; 25] = [
    "elapsed",
    "cpu_time",
    "kernel_time_percent",
    "page_faults.minor",
    "page_faults.major",
    "page_faults.time",
    "context_switches",
    "threads",
    "peak_resident",
    "huge_page_share",
    "dram_bandwidth.average",
    "dram_bandwidth.observed_max",
    "memory_bound",
    "average_load_latency",
    "exposed_load_latency",
    "loads",
    "stores",
    "levels.l3",
    "levels.dram",
    "remote_accesses",
    "dtlb.misses",
    "flops",
    "heap.allocations",
    "heap.bytes_allocated",
    "heap.peak_bytes",
];

/// Rows with less than this share of the whole are not tested: each test makes the others harder to pass.
const LEAST_SHARE: f64 = 0.005;

/// What changed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Diff {
    /// `diff`.
    pub view: &'static str,
    /// Results of the base.
    pub base: Vec<String>,
    /// Results of the new side.
    pub new: Vec<String>,
    /// Figures of whole runs.
    pub totals: Table,
    /// Figures by function, line or module.
    pub table: Table,
    /// What became of the gates.
    pub gates: Vec<GateResult>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

impl Diff {
    /// Compares the results `base` with `new`; neither is empty. `limit`: most rows by function.
    ///
    /// # Errors
    /// When a gate names a figure that the results do not have.
    pub fn new(
        base: &[RunFigures],
        new: &[RunFigures],
        options: &DiffOptions,
        gates: &[Gate],
        limit: Option<usize>,
    ) -> Result<Diff, ReportError> {
        let pairs = Pairs::of(base, new);
        let mut totals: Vec<Compared> =
            TOTALS.iter().filter_map(|path| rows::total(path, base, new, &pairs)).collect();
        let aligned = align::align(base, new, options).into_iter();
        let mut parts: Vec<Compared> = aligned.map(|row| rows::part(row, &pairs)).collect();
        rows::leave_out_small(&mut parts, LEAST_SHARE);
        judge(&mut totals, &mut parts);
        rows::sort(&mut parts);
        let gates = gates
            .iter()
            .map(|gate| gate.result((base, new), &pairs, &parts))
            .collect::<Result<_, ReportError>>()?;
        let names = |side: &[RunFigures]| -> Vec<String> {
            side.iter().map(|run| run.summary.result.clone()).collect()
        };
        Ok(Diff {
            view: "diff",
            notes: notes::notes(base, new, &pairs, &totals, &parts),
            totals: rows::totals_table(&totals, base, new),
            table: rows::parts_table(parts, options, limit),
            base: names(base),
            new: names(new),
            gates,
        })
    }

    pub(crate) fn text(&self, width: usize, paint: text::Paint) -> String {
        let table = Table { notes: self.notes.clone(), ..self.table.clone() };
        let mut out = text::table(&self.totals, width, paint);
        out.push('\n');
        out += &text::table(&table, width, paint);
        for (at, gate) in self.gates.iter().enumerate() {
            if at == 0 {
                out.push('\n');
            }
            out += &format!("  {}\n", gate.sentence());
        }
        out
    }

    /// The answer first: what became of the gates, and what changed.
    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("### {}\n\n", markdown::escaped(&self.totals.title));
        out.extend(self.gates.iter().map(GateResult::markdown));
        if !self.gates.is_empty() {
            out.push('\n');
        }
        out += &markdown::grid(&self.totals);
        out += &format!("\n#### {}\n\n", markdown::escaped(&self.table.title));
        out += &markdown::grid(&self.table);
        out + &markdown::notes(&self.notes)
    }

    pub(crate) fn json(&self) -> String {
        json::render(self)
    }
}

/// Adjusts the tests so that all of them together alarm in at most [`LEVEL`] of the comparisons without any change. Half
/// of that is for the elapsed time, the question that most have; the other half for everything else, by Holm.
fn judge(totals: &mut [Compared], parts: &mut [Compared]) {
    let mut others = Vec::new();
    for row in totals.iter_mut().chain(parts.iter_mut()).filter(|row| row.tested) {
        let Some(p) = row.comparison.as_ref().and_then(|comparison| comparison.p) else { continue };
        if row.name == "elapsed" {
            row.p = Some((p * 2.0).min(1.0));
        } else {
            others.push((row, p));
        }
    }
    let adjusted = holm(&others.iter().map(|(_, p)| *p).collect::<Vec<f64>>());
    for ((row, _), p) in others.into_iter().zip(adjusted) {
        row.p = Some((p * 2.0).min(1.0));
    }
    for row in totals.iter_mut().chain(parts.iter_mut()) {
        row.judge(LEVEL);
    }
}
