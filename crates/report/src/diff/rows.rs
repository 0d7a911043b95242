//! One figure before and after: its comparison, its verdict, its row.

use analysis::compare::{Comparison, Side, paired, runs, single};
use facts::{Evidence, Metric};

use super::align::Aligned;
use super::pairs::Pairs;
use super::{DiffOptions, RunFigures};
use crate::table::{Cell, CellStyle, Column, Table};

/// A figure of both sides.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Compared {
    /// Path of a total, or the function.
    pub(super) name: String,
    pub(super) labels: Vec<(&'static str, Cell)>,
    pub(super) lines: Option<(Option<u64>, Option<u64>)>,
    pub(super) base: Metric,
    pub(super) new: Metric,
    pub(super) comparison: Option<Comparison>,
    /// Standard deviation between runs, as a share of the mean; the larger of both sides. Of pairs without what both runs of
    /// one have in common.
    pub(super) spread: Option<f64>,
    /// Whether it takes part in the tests.
    pub(super) tested: bool,
    /// Adjusted for all tests of this diff.
    pub(super) p: Option<f64>,
    pub(super) verdict: &'static str,
}

const MORE: &str = "more";
const LESS: &str = "less";
const UNDECIDED: &str = "no change seen";
const ONE_RUN: &str = "one run";
const BEYOND: &str = "beyond its error";
const SMALL: &str = "small";
const UNKNOWN: &str = "not in both";

impl Compared {
    pub(super) fn new(name: String, base: &[Metric], new: &[Metric], pairs: &Pairs) -> Compared {
        let quantum = match base[0].unit.as_str() {
            "count" => 1.0,
            // The kernel reports sizes in pages.
            "bytes" => 4096.0,
            _ => 0.0,
        };
        let side = |metrics: &[Metric]| {
            let values: Vec<f64> = metrics.iter().filter_map(|metric| metric.value).collect();
            Side::of(&values, quantum)
        };
        let sides = side(base).zip(side(new));
        let (whole_base, whole_new) = (whole(base, side(base)), whole(new, side(new)));
        let relative = |side: &Side| {
            (side.runs > 1 && side.mean != 0.0).then(|| side.spread / side.mean.abs())
        };
        let in_pairs = pairs.values(base, new).and_then(|(base, new)| paired(&base, &new, quantum));
        let (comparison, spread) = match (in_pairs, sides) {
            (Some((comparison, spread)), _) => (Some(comparison), Some(spread)),
            (None, Some((base, new))) => {
                (runs(&base, &new), relative(&base).zip(relative(&new)).map(|(b, n)| b.max(n)))
            }
            (None, None) => (None, None),
        };
        Compared {
            name,
            labels: Vec::new(),
            lines: None,
            comparison: comparison.or_else(|| single(&whole_base, &whole_new)),
            spread,
            base: whole_base,
            new: whole_new,
            tested: true,
            p: None,
            verdict: UNKNOWN,
        }
    }

    /// Says what the adjusted test, or the lack of one, means.
    pub(super) fn judge(&mut self, level: f64) {
        let Some(comparison) = &self.comparison else { return };
        let apart = |interval: Option<(f64, f64)>| {
            interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
        };
        self.verdict = match self.p {
            _ if !self.tested => SMALL,
            Some(p) if p < level => {
                if comparison.difference > 0.0 {
                    MORE
                } else {
                    LESS
                }
            }
            Some(_) => UNDECIDED,
            // Counted figures have no error of their own: how much runs differ is all there is to know.
            None if self.base.evidence == Some(Evidence::Counted) => ONE_RUN,
            None if apart(comparison.difference_interval) => BEYOND,
            None => ONE_RUN,
        };
    }

    pub(super) fn is_changed(&self) -> bool {
        self.verdict == MORE || self.verdict == LESS
    }

    /// Change in percent of the base.
    pub(super) fn change(&self) -> Metric {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let Some(comparison) = &self.comparison else {
            return Metric::unavailable("percent", "one of the sides does not have this figure");
        };
        let Some(ratio) = comparison.ratio else {
            return Metric::unavailable("percent", "the base is 0");
        };
        if self.base_is_nothing() {
            return Metric::unavailable("percent", "the base is below what the figure resolves");
        }
        if comparison.difference != 0.0 && is_within_its_error(&self.base) {
            return Metric::unavailable("percent", "the base is no larger than its own error");
        }
        let interval = comparison.ratio_interval;
        Metric {
            low: interval.map(|(low, _)| percent(low)),
            high: interval.map(|(_, high)| percent(high)),
            evidence: Some(Evidence::Estimated),
            ..Metric {
                samples: self.base.samples + self.new.samples,
                ..Metric::counted(percent(ratio), "percent")
            }
        }
    }

    /// Whether the base is 0, or what rounding leaves of it: a share of that says nothing.
    pub(super) fn base_is_nothing(&self) -> bool {
        self.base.value.is_some_and(|value| value.abs() < resolution(&self.base.unit))
    }

    fn difference(&self) -> Metric {
        let Some(comparison) = &self.comparison else {
            return Metric::unavailable(
                &self.base.unit,
                "one of the sides does not have this figure",
            );
        };
        let interval = comparison.difference_interval;
        Metric {
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            evidence: Some(Evidence::Estimated),
            ..Metric {
                samples: self.base.samples + self.new.samples,
                ..Metric::counted(comparison.difference, &self.base.unit)
            }
        }
    }

    /// Base, new, difference, change, p, verdict.
    fn cells(&self) -> [Cell; 6] {
        [
            Cell::metric(self.base.clone()),
            Cell::metric(self.new.clone()),
            Cell::metric(self.difference()),
            Cell::metric(self.change()),
            self.p.map_or(Cell::Missing, |p| Cell::Probability(crate::json::significant(p))),
            Cell::text(self.verdict),
        ]
    }
}

/// A smaller figure in this unit is a residue of rounding or of an estimate: half of what text shows of a percentage, one
/// of what is counted, one of the clock's nanoseconds, and a thousandth of rates and times of an access.
fn resolution(unit: &str) -> f64 {
    match unit {
        "percent" => 0.05,
        "count" | "bytes" => 1.0,
        "s" => 1e-9,
        _ => 1e-3,
    }
}

/// Whether an end of a figure's interval is as far away as 0 is.
fn is_within_its_error(metric: &Metric) -> bool {
    let ends = metric.value.zip(metric.low).zip(metric.high);
    ends.is_some_and(|((value, low), high)| (value - low).max(high - value) >= value.abs())
}

/// The figure of a side: of its one run, or the mean over runs with the interval that their spread gives.
fn whole(metrics: &[Metric], side: Option<Side>) -> Metric {
    let had: Vec<&Metric> = metrics.iter().filter(|metric| metric.value.is_some()).collect();
    match (had.as_slice(), side) {
        ([_, _, ..], Some(side)) => {
            let interval = side.interval();
            Metric {
                value: Some(side.mean),
                low: interval.map(|(low, _)| low),
                high: interval.map(|(_, high)| high),
                evidence: Some(Evidence::Estimated),
                samples: had.iter().map(|metric| metric.samples).sum(),
                lost: had.iter().map(|metric| metric.lost).sum(),
                unit: had[0].unit.clone(),
                note: Some(format!("mean of {} runs", had.len())),
            }
        }
        ([only], _) => (*only).clone(),
        _ => metrics[0].clone(),
    }
}

/// A total; `None` when neither side has it.
pub(super) fn total(
    path: &str,
    base: &[RunFigures],
    new: &[RunFigures],
    pairs: &Pairs,
) -> Option<Compared> {
    let of = |side: &[RunFigures]| -> Option<Vec<Metric>> {
        let one = |run: &RunFigures| {
            run.totals.iter().find(|(name, _)| name == path).map(|(_, metric)| metric.clone())
        };
        side.iter().map(one).collect()
    };
    let (base, new) = (of(base)?, of(new)?);
    let any = base.iter().chain(&new).any(|metric| metric.value.is_some());
    any.then(|| Compared::new(path.to_owned(), &base, &new, pairs))
}

/// A row of the table by function or other key.
pub(super) fn part(row: Aligned, pairs: &Pairs) -> Compared {
    let function = row.labels.iter().find_map(|(key, cell)| match cell {
        Cell::Text(text) if *key == "function" => Some(text.clone()),
        _ => None,
    });
    let compared = Compared::new(function.unwrap_or_default(), &row.base, &row.new, pairs);
    Compared { labels: row.labels, lines: row.lines, ..compared }
}

fn size(row: &Compared) -> f64 {
    row.base.value.unwrap_or(0.0).max(row.new.value.unwrap_or(0.0))
}

/// Takes rows out of the tests that are below a share of all rows together, judged by both sides alike.
pub(super) fn leave_out_small(rows: &mut [Compared], share: f64) {
    let weight = |row: &Compared| row.base.value.unwrap_or(0.0) + row.new.value.unwrap_or(0.0);
    let whole: f64 = rows.iter().map(weight).sum();
    for row in rows {
        row.tested = weight(row) >= whole * share;
    }
}

/// Changed rows first, then those that may have changed the most.
pub(super) fn sort(rows: &mut [Compared]) {
    let moved =
        |row: &Compared| row.comparison.map_or(0.0, |comparison| comparison.difference.abs());
    rows.sort_by(|a, b| {
        let order = |row: &Compared| (!row.is_changed(), !row.tested);
        order(a)
            .cmp(&order(b))
            .then_with(|| moved(b).total_cmp(&moved(a)))
            .then_with(|| size(b).total_cmp(&size(a)))
            .then_with(|| a.name.cmp(&b.name))
    });
}

const fn name(key: &'static str, label: &'static str) -> Column {
    Column { key, label, unit: None }
}

/// The figures of a row. `base`, `new` and `difference` have the unit of the row's own figure, which stands in each.
const FIGURES: [Column; 6] = [
    Column { key: "base", label: "Base", unit: Some("") },
    Column { key: "new", label: "New", unit: Some("") },
    Column { key: "difference", label: "Difference", unit: Some("") },
    Column { key: "change", label: "Change", unit: Some("percent") },
    name("p", "p"),
    name("verdict", "Verdict"),
];

fn side_title(side: &[RunFigures]) -> String {
    let name =
        |run: Option<&RunFigures>| run.map_or(String::new(), |run| run.summary.result.clone());
    match side.len() {
        0 | 1 => name(side.first()),
        runs => format!("{} and {} more", name(side.first()), runs - 1),
    }
}

pub(super) fn totals_table(totals: &[Compared], base: &[RunFigures], new: &[RunFigures]) -> Table {
    let row = |row: &Compared| {
        let mut cells = vec![Cell::text(row.name.clone()), Cell::text(row.base.unit.clone())];
        cells.extend(row.cells());
        cells
    };
    let mut columns = vec![name("metric", "Figure"), name("unit", "Unit")];
    columns.extend(FIGURES);
    Table {
        view: "diff",
        result: String::new(),
        total: vec![Cell::Missing; columns.len()],
        columns,
        rows: totals.iter().map(row).collect(),
        notes: Vec::new(),
        title: format!("{} -> {}: what changed", side_title(base), side_title(new)),
        text_columns: vec![
            CellStyle::Text("metric").titled("whole run"),
            CellStyle::Measure("base").titled("base"),
            CellStyle::Measure("new").titled("new"),
            CellStyle::Change("change", "difference").titled("change %"),
            CellStyle::Figure("verdict").titled(""),
        ],
        page: usize::MAX,
        empty: "The results have no figure in common.".to_owned(),
    }
}

const LABELS: [(&str, &str); 4] =
    [("function", "Function"), ("file", "File"), ("module", "Module"), ("stack", "Call stack")];

pub(super) fn parts_table(
    rows: Vec<Compared>,
    options: &DiffOptions,
    limit: Option<usize>,
) -> Table {
    let by_line = options.table.group.contains(&analysis::Key::SourceLine);
    let has = |key: &str| rows.iter().any(|row| row.labels.iter().any(|(label, _)| *label == key));
    let labels: Vec<(&str, &str)> = LABELS.into_iter().filter(|(key, _)| has(key)).collect();
    let mut columns: Vec<Column> = labels.iter().map(|(key, label)| name(key, label)).collect();
    columns.push(name("line", "Line"));
    columns.push(name("line_before", "Line before"));
    columns.extend(FIGURES);
    let cells = |row: &Compared| {
        let label = |key: &str| {
            row.labels
                .iter()
                .find(|(label, _)| *label == key)
                .map_or(Cell::Missing, |(_, cell)| cell.clone())
        };
        let mut cells: Vec<Cell> = labels.iter().map(|(key, _)| label(key)).collect();
        let number = |line: Option<u64>| line.map_or(Cell::Missing, Cell::Number);
        match row.lines {
            Some((before, after)) => cells.extend([number(after.or(before)), number(before)]),
            None => cells.extend([label("line"), Cell::Missing]),
        }
        cells.extend(row.cells());
        cells
    };
    let mut text_columns = vec![
        CellStyle::Measure("base").titled("base"),
        CellStyle::Measure("new").titled("new"),
        CellStyle::Change("change", "difference").titled("change %"),
        CellStyle::Figure("verdict").titled(""),
    ];
    if has("stack") {
        text_columns.push(CellStyle::Stack("stack").titled("call stack"));
    } else {
        let mut add = |wanted: bool, style: CellStyle, label| {
            if wanted {
                text_columns.push(style.titled(label))
            }
        };
        add(has("function"), CellStyle::Function("function", None), "function");
        add(by_line || has("function"), CellStyle::SourceLine, "source");
        add(has("module") && !has("function"), CellStyle::Text("module"), "module");
    }
    let keys: Vec<&str> = options.table.group.iter().map(|key| key.name()).collect();
    let table = Table {
        view: options.table.view.name(),
        result: String::new(),
        total: vec![Cell::Missing; columns.len()],
        rows: rows.iter().map(cells).collect(),
        columns,
        notes: Vec::new(),
        title: format!("{} by {}", options.metric, keys.join(", ")),
        text_columns,
        page: 20,
        empty: "No row is in any of the results.".to_owned(),
    };
    table.limited(limit)
}
