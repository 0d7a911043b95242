//! View models, and their text, JSON and CSV: what a user or a program reads of a recording.
//!
//! What for: the API boundary. [`build`] makes a [`Document`] of plain data; the command line, the web page and tests render it.
//! What not: files (a closure supplies source text), clocks, terminals (width and colour are arguments).
//!
//! Reports are byte-stable: the same recording and options give the same bytes.

#![forbid(unsafe_code)]

mod answer;
mod arrange;
mod assembly;
pub mod consistency;
mod csv;
pub mod diff;
mod error;
mod findings;
mod json;
mod machine;
mod modules;
mod moments;
mod options;
mod platform;
mod platform_svg;
mod points;
mod prepared;
pub mod ranks;
pub mod scale;
mod stacks;
pub mod summary;
mod table;
mod text;
pub mod trials;
mod views;

pub use analysis::assembly::{CodeOf, FunctionCode};
pub use analysis::memory::Bands;
pub use analysis::parallel::each_long;
pub use analysis::placement::Topology;
pub use analysis::{Filter, Key};
pub use answer::{Answer, AnswerColumn, AnswerKind};
pub use assembly::assemblies;
pub use diff::Diff;
pub use error::ReportError;
pub use machine::MachineReport;
pub use moments::moments;
pub use options::{Options, View, parse_bands, parse_filter, parse_keys};
pub use platform::platform;
pub use platform_svg::machine_svg;
pub use points::points;
pub use prepared::Prepared;
pub use scale::Scale;
pub use stacks::stacks;
pub use summary::{Summary, signal_name};
pub use table::{Cell, Column, Table};

use analysis::{Selection, TracedCode};
use facts::Recording;
use facts::host::{Calibration, Host};

/// A view, ready to be rendered.
pub enum Document {
    /// The summary of a whole recording.
    Summary(Box<Summary>),
    /// Any other view.
    Table(Box<Table>),
    /// The machine.
    Machine(Box<MachineReport>),
    /// What changed between two sets of results.
    Diff(Box<Diff>),
    /// How a program scales.
    Scale(Box<Scale>),
}

impl Document {
    /// Text for people, at most `width` columns wide (60 at least), with ANSI colours if `colour`.
    #[must_use]
    pub fn text(&self, width: usize, colour: bool) -> String {
        let (width, paint) = (width.max(60), text::Paint { colour });
        match self {
            Document::Summary(summary) => summary::text(summary, width, paint),
            Document::Table(table) => text::table(table, width, paint),
            Document::Machine(machine) => machine::text(machine, width, paint),
            Document::Diff(diff) => diff.text(width, paint),
            Document::Scale(scale) => scale.text(width, paint),
        }
    }

    /// Markdown as GitHub and GitLab show it; of the summary the first screen, unless its details were asked for.
    #[must_use]
    pub fn markdown(&self) -> String {
        let width = text::markdown::FENCED_WIDTH;
        match self {
            Document::Summary(summary) => summary::markdown(summary),
            Document::Table(table) => text::markdown::view(table),
            Document::Diff(diff) => diff.markdown(),
            Document::Machine(_) | Document::Scale(_) => {
                text::markdown::fenced(&self.text(width, false))
            }
        }
    }

    /// JSON, indented, with a newline at the end. The summary's schema is `docs/format/summary.schema.json`.
    #[must_use]
    pub fn json(&self) -> String {
        match self {
            Document::Summary(summary) => json::render(summary),
            Document::Table(table) => json::render(table),
            Document::Machine(machine) => json::render(machine),
            Document::Diff(diff) => diff.json(),
            Document::Scale(scale) => scale.json(),
        }
    }

    /// The same, not yet a text.
    #[must_use]
    pub fn value(&self) -> serde_json::Value {
        let value = match self {
            Document::Summary(summary) => serde_json::to_value(summary),
            Document::Table(table) => serde_json::to_value(table),
            Document::Machine(_) | Document::Diff(_) | Document::Scale(_) => {
                serde_json::from_str(&self.json())
            }
        };
        value.unwrap_or_default()
    }

    /// CSV (RFC 4180, lines end in `\n`). A metric becomes four columns: `key`, `key_low`, `key_high`,
    /// `key_evidence`. The summary and the machine have one line per metric; a diff is two tables with an empty line
    /// between them.
    #[must_use]
    pub fn csv(&self) -> String {
        match self {
            Document::Summary(summary) => csv::metrics(summary.metrics()),
            Document::Table(table) => csv::table(table),
            Document::Machine(machine) => csv::metrics(machine::metrics(machine)),
            Document::Diff(diff) => csv::table(&diff.totals) + "\n" + &csv::table(&diff.table),
            Document::Scale(scale) => csv::table(&scale.table),
        }
    }
}

/// Makes a view of a recording. `sources` returns the text of a source file, given the path that debug
/// information names, or `None`; relative paths are tried against the run's working directory first.
///
/// # Errors
/// When the options ask for something that the view or the recording does not have.
pub fn build(
    recording: &Recording,
    options: &Options,
    sources: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<Document, ReportError> {
    options.check()?;
    let judges = matches!(options.view, View::Summary | View::Findings);
    let mut prepared = Prepared::with(recording, options.view.is_traced(), judges);
    prepared.profile.stacks.add_wrappers(&options.wrappers);
    build_prepared(&prepared, options, sources)
}

/// The same from a recording that was made ready before.
///
/// # Errors
/// As [`build`].
pub fn build_prepared(
    prepared: &Prepared<'_>,
    options: &Options,
    sources: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<Document, ReportError> {
    options.check()?;
    // All rows are sorted, not those of a page.
    let whole = Options { limit: None, ..options.clone() };
    let (options, limit) = match &options.sort {
        Some(_) => (&whole, options.limit),
        None => (options, None),
    };
    let Prepared { profile, code, .. } = prepared;
    let mut selection = Selection::resolve(profile, &options.filters)?;
    if options.filters.iter().any(|filter| matches!(filter, Filter::Object(_))) {
        selection.choose_objects(prepared.objects(), &options.filters)?;
    }
    if selection.chooses_nodes() {
        prepared.recorded_nodes().map_err(|why| ReportError::NodesUnknown { why })?;
    }
    let request = views::Request { prepared, profile, selection: &selection, options, sources };
    if options.view == View::Summary {
        let mut summary = Summary::new(prepared, &options.result_name);
        summary.extra.detail = options.detail;
        return Ok(Document::Summary(Box::new(summary)));
    }
    let mut table = match options.group.contains(&Key::Region) {
        true => views::by_region(&request, |request| table(request, code)),
        false => table(&request, code),
    };
    table.notes.extend(request.regions_note());
    let table = match &options.sort {
        Some(key) => table.sorted(key)?.limited(limit),
        // Of rows over time, the limit is on their number of steps.
        None if options.view.is_over_time(&options.group) => table,
        None => table.limited(options.limit),
    };
    let table = match options.columns.as_slice() {
        [] => table,
        columns => table.with_columns(columns)?,
    };
    Ok(Document::Table(Box::new(table)))
}

/// The table of a view, without what the user asked for of any.
fn table(request: &views::Request<'_>, code: &TracedCode) -> Table {
    let memory = || request.prepared.memory_of(request.selection);
    match request.options.view {
        // The summary is no table.
        View::Summary | View::Hotspots => views::hotspots(request),
        View::Callers => views::callers(request),
        View::Callees => views::callees(request),
        View::Source => views::source(request),
        View::Faults => views::faults(request),
        View::Allocations => views::allocations(request),
        View::Kernel => views::kernel(request),
        View::Timeline => views::timeline(request),
        View::Threads => views::threads(request),
        View::Waits => views::waits(request),
        View::Accesses => views::accesses(request, code),
        View::Bandwidth => views::bandwidth(request, code, &memory()),
        View::Latency => views::latency(request, code, &memory()),
        View::Reuse => views::reuse(request, code),
        View::Sharing => views::sharing(request),
        View::Flushes => views::flushes(request, code, &memory()),
        View::Roofline => views::roofline(request, code, &memory()),
        View::WorkingSet => views::working_set(request),
        View::Findings => views::findings(request),
        View::Objects => views::objects(request, code),
        View::Pace => views::pace(request),
        View::Nodes => views::nodes(request),
        View::Regions => views::regions(request),
        View::Events => views::events(request),
        View::Uarch => views::uarch(request),
        View::CrossCheck => views::cross_check(request, &memory()),
    }
}

/// What `fathom machine` shows: what the machine is, what it was measured to do, and its hardware counters, which only JSON has.
#[must_use]
pub fn machine(host: &Host, calibration: &Calibration, counters: serde_json::Value) -> Document {
    Document::Machine(Box::new(MachineReport {
        host: host.clone(),
        calibration: calibration.clone(),
        counters,
    }))
}
