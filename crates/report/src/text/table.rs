//! Tables in text: aligned columns that fit the width.
//!
//! Columns of figures keep their natural width. Names, locations and other text shrink, the widest first. Where that is not
//! enough, figures are left out, the last first, and named below the table: wrapped lines cannot be read.

use facts::Metric;

use super::{
    PROSE, Paint, bytes, count, cut_middle, fit, interval, measure, number, percent, plus_minus,
    printable, seconds, shorten_function, shorten_path, wrap,
};
use crate::table::{Cell, CellStyle, Table};

const GAP: usize = 2;
const BAR_WIDTH: usize = 24;
/// Frames of a stack that are printed; the rest is counted.
const STACK_FRAMES: usize = 12;

/// The whole view.
pub(crate) fn table(table: &Table, width: usize, paint: Paint) -> String {
    let mut out = String::new();
    for line in table.title.lines() {
        out += &format!("{}\n", paint.bold(&fit(&printable(line), width)));
    }
    out.push('\n');
    if table.rows.is_empty() {
        wrap(&table.empty, width.min(PROSE) - 2)
            .iter()
            .for_each(|line| out += &format!("  {line}\n"));
    } else {
        out += &grid(table, width, paint);
    }
    let hidden = table.rows.len().saturating_sub(table.page);
    if hidden > 0 {
        out += &paint.faint(&format!("  … {hidden} more rows: --limit {}\n", table.rows.len()));
    }
    if !table.notes.is_empty() {
        out.push('\n');
    }
    for note in &table.notes {
        for (at, line) in wrap(&printable(note), width.min(PROSE) - 4).iter().enumerate() {
            out += &format!("{}{line}\n", if at == 0 { "  - " } else { "    " });
        }
    }
    out
}

fn grid(table: &Table, width: usize, paint: Paint) -> String {
    let shown = &table.rows[..table.rows.len().min(table.page)];
    let mut columns: Vec<Drawn> = table
        .text_columns
        .iter()
        .map(|one| Drawn::new(table, shown, one.style, one.title))
        .collect();
    let left_out = make_room(&mut columns, width);
    let mut out = String::new();
    let headings = columns.iter().map(|column| vec![column.label.to_owned()]).collect();
    out += &paint.faint(line(&columns, headings).trim_end_matches('\n'));
    out.push('\n');
    let mut last = None;
    for row in shown {
        if is_gap(table, row, &mut last) {
            out += &paint.faint("  …");
            out.push('\n');
        }
        let cells = columns.iter().map(|column| column.cell(table, row)).collect();
        out += &line(&columns, cells);
    }
    if table.total.iter().any(|cell| *cell != Cell::Missing) {
        // A bar of the sum would say nothing about the bars above it.
        let of_total = |column: &Drawn| match column.style {
            CellStyle::Bar(_) => vec![String::new()],
            _ => column.cell(table, &table.total),
        };
        let cells = columns.iter().map(of_total).collect();
        out += &paint.bold(line(&columns, cells).trim_end_matches('\n'));
        out.push('\n');
    }
    if !left_out.is_empty() {
        let more = format!("… no room for {}", left_out.join(", "));
        for line in wrap(&more, width.saturating_sub(2)) {
            out += &paint.faint(&format!("  {line}"));
            out.push('\n');
        }
    }
    out
}

/// Whether lines of code are left out before this row.
fn is_gap(table: &Table, row: &[Cell], last: &mut Option<u64>) -> bool {
    let is_code = table.text_columns.iter().any(|one| matches!(one.style, CellStyle::Code(_)));
    let line = table.column("line").filter(|_| is_code).map(|at| &row[at]);
    let Some(Cell::Number(line)) = line else { return false };
    let before = last.replace(*line);
    before.is_some_and(|before| before + 1 < *line)
}

/// A column of the text, with what it needs to draw its cells.
pub(super) struct Drawn {
    pub(super) style: CellStyle,
    pub(super) label: &'static str,
    width: usize,
    /// The width that it would have with room for all.
    natural: usize,
    /// Characters of the error part of percentages, so that the signs stand below each other.
    error_width: usize,
    largest: f64,
}

impl Drawn {
    pub(super) fn new(
        table: &Table,
        rows: &[Vec<Cell>],
        style: CellStyle,
        label: &'static str,
    ) -> Drawn {
        let mut column =
            Drawn { style, label, width: usize::MAX, natural: 0, error_width: 0, largest: 0.0 };
        let all = || rows.iter().chain([&table.total]);
        for row in all() {
            if let CellStyle::Percent(key) | CellStyle::Bar(key) = style
                && let Some(metric) = metric(table, row, key)
            {
                column.error_width = column.error_width.max(plus_minus(metric).chars().count());
                if rows.iter().any(|shown| std::ptr::eq(shown, row)) {
                    column.largest = column.largest.max(metric.value.unwrap_or(0.0));
                }
            }
        }
        let widest =
            |lines: Vec<String>| lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let natural = all().map(|row| widest(column.cell(table, row))).max().unwrap_or(0);
        column.natural = natural.max(label.chars().count());
        column.width = column.natural;
        column
    }

    /// The least width that still says something; `None` for columns that do not give way.
    fn least_width(&self) -> Option<usize> {
        match self.style {
            CellStyle::Function(..) | CellStyle::Stack(_) => Some(16),
            CellStyle::SourceLine | CellStyle::Code(_) => Some(12),
            CellStyle::Text(_) => Some(10),
            _ => None,
        }
    }

    /// Columns with a larger share keep more of their width when room is short.
    fn share(&self) -> usize {
        match self.style {
            CellStyle::Function(..) | CellStyle::Stack(_) | CellStyle::Code(_) => 3,
            _ => 2,
        }
    }

    pub(super) fn is_right_aligned(&self) -> bool {
        matches!(
            self.style,
            CellStyle::Percent(_)
                | CellStyle::Time(_)
                | CellStyle::Saving(_)
                | CellStyle::Count(_)
                | CellStyle::Bytes(_)
                | CellStyle::Ratio(_)
                | CellStyle::Measure(_)
                | CellStyle::Change(..)
                | CellStyle::Interval(_)
                | CellStyle::Start(_)
                | CellStyle::Number(_)
                | CellStyle::Figure(_)
        )
    }

    pub(super) fn cell(&self, table: &Table, row: &[Cell]) -> Vec<String> {
        let cell = |key| table.column(key).map_or(&Cell::Missing, |at| &row[at]);
        let figure = |key, show: &dyn Fn(&Metric, f64) -> String| match cell(key) {
            Cell::Metric(metric) => {
                metric.value.map_or("n/a".to_owned(), |value| show(metric, value))
            }
            _ => String::new(),
        };
        let text = match self.style {
            CellStyle::Percent(key) => figure(key, &|metric, value| {
                format!(
                    "{}{:<width$}",
                    percent(value),
                    plus_minus(metric),
                    width = self.error_width
                )
            }),
            CellStyle::Time(key) => figure(key, &|_, value| seconds(value)),
            CellStyle::Saving(key) => {
                figure(key, &|metric, value| match metric.low.zip(metric.high) {
                    Some((low, high)) if low < 0.0 && high > 0.0 => format!("≤ {}", seconds(high)),
                    _ => seconds(value),
                })
            }
            CellStyle::Count(key) => figure(key, &|_, value| count(value)),
            CellStyle::Bytes(key) => figure(key, &|_, value| bytes(value)),
            CellStyle::Ratio(key) => figure(key, &|_, value| number(value)),
            CellStyle::Measure(key) => figure(key, &|metric, value| measure(value, &metric.unit)),
            CellStyle::Change(key, difference) => match cell(key) {
                Cell::Metric(Metric { value: None, .. }) => figure(difference, &no_percent),
                _ => figure(key, &change),
            },
            CellStyle::Interval(key) => figure(key, &interval),
            CellStyle::Bar(key) => figure(key, &|_, value| bar(value, self.largest)),
            CellStyle::Start(key) => match cell(key) {
                Cell::Seconds(at) => format!("{at:.3} s"),
                _ => String::new(),
            },
            CellStyle::Number(key) => match cell(key) {
                Cell::Number(number) => number.to_string(),
                _ => String::new(),
            },
            CellStyle::Text(key) | CellStyle::Figure(key) => match cell(key) {
                Cell::Text(text) => cut_middle(&printable(text), self.width),
                Cell::Metric(_) => figure(key, &|_, value| number(value)),
                _ => String::new(),
            },
            CellStyle::Code(key) => match cell(key) {
                Cell::Text(text) => fit(&printable(text), self.width),
                _ => String::new(),
            },
            CellStyle::Function(key, level) => {
                let indent = match level.map(cell) {
                    // Deep trees would push the names out; the level is in JSON.
                    Some(Cell::Number(level)) => (*level as usize * 2).min(40),
                    _ => 0,
                };
                let Cell::Text(name) = cell(key) else { return vec![String::new()] };
                let room = self.width.saturating_sub(indent).max(8);
                " ".repeat(indent) + &shorten_function(&printable(name), room)
            }
            CellStyle::SourceLine => place(cell("file"), cell("line"), self.width),
            CellStyle::Stack(key) => return self.stack(cell(key)),
        };
        vec![text]
    }

    fn stack(&self, cell: &Cell) -> Vec<String> {
        let Cell::Stack(frames) = cell else { return vec![String::new()] };
        let shorten = |frame: &String| {
            shorten_function(&printable(frame), self.width.saturating_sub(2).max(8))
        };
        let mut lines: Vec<String> = frames.iter().take(STACK_FRAMES).map(shorten).collect();
        lines.iter_mut().skip(1).for_each(|line| line.insert_str(0, "< "));
        if frames.len() > STACK_FRAMES {
            lines.push(format!("< … {} more", frames.len() - STACK_FRAMES));
        }
        lines
    }
}

fn metric<'a>(table: &Table, row: &'a [Cell], key: &str) -> Option<&'a Metric> {
    match &row[table.column(key)?] {
        Cell::Metric(metric) => Some(metric),
        _ => None,
    }
}

/// `+3.1 (+2.4 to +3.8)`.
fn change(metric: &Metric, value: f64) -> String {
    match (metric.low, metric.high) {
        (Some(low), Some(high)) if low < high => format!("{value:+.1} ({low:+.1} to {high:+.1})"),
        _ => format!("{value:+.1}"),
    }
}

/// `- (+40.0 ms)`.
fn no_percent(difference: &Metric, value: f64) -> String {
    let (sign, size) =
        (if value < 0.0 { "-" } else { "+" }, measure(value.abs(), &difference.unit));
    // Of what is too small for a figure only that is said.
    format!("- ({}{size})", if size.starts_with('<') { "" } else { sign })
}

fn bar(value: f64, largest: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if largest <= 0.0 || value <= 0.0 {
        return String::new();
    }
    let eighths = ((value / largest).min(1.0) * BAR_WIDTH as f64 * 8.0).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn place(file: &Cell, line: &Cell, width: usize) -> String {
    match (file, line) {
        (Cell::Text(file), Cell::Number(line)) => {
            let line = format!(":{line}");
            shorten_path(&printable(file), width.saturating_sub(line.len()).max(4)) + &line
        }
        (Cell::Text(file), _) => shorten_path(&printable(file), width),
        _ => String::new(),
    }
}

/// Makes columns fit; returns what those are called that had to go.
fn make_room(columns: &mut Vec<Drawn>, width: usize) -> Vec<&'static str> {
    let mut left_out = Vec::new();
    while !fit_widths(columns, width) {
        let names =
            |column: &Drawn| matches!(column.style, CellStyle::Number(_) | CellStyle::Start(_));
        let figure = |column: &Drawn| column.least_width().is_none() && !names(column);
        // The first says what rows are sorted by.
        let Some(last) = columns.iter().rposition(figure).filter(|last| *last > 0) else { break };
        let label = columns.remove(last).label;
        // A bar has none, and adds no information.
        if !label.is_empty() {
            left_out.insert(0, label);
        }
        // With a column less, others may need no shortening: they are fitted anew.
        columns.iter_mut().for_each(|column| column.width = column.natural);
    }
    left_out
}

/// Takes from the widest column that can give until everything fits, or nothing can: then it is false.
fn fit_widths(columns: &mut [Drawn], width: usize) -> bool {
    let gaps = GAP * columns.len();
    loop {
        let used: usize = columns.iter().map(|column| column.width).sum::<usize>() + gaps;
        let Some(excess) = used.checked_sub(width).filter(|excess| *excess > 0) else {
            return true;
        };
        let can_give =
            |column: &&mut Drawn| column.least_width().is_some_and(|least| column.width > least);
        let Some(widest) = columns
            .iter_mut()
            .filter(can_give)
            // 6: a multiple of all shares, so that nothing is lost by rounding.
            .max_by_key(|column| column.width * 6 / column.share())
        else {
            return false;
        };
        // In small steps, so that two wide columns share what is missing.
        let least = widest.least_width().unwrap_or(widest.width);
        widest.width -= excess.min(4).min(widest.width - least);
    }
}

fn line(columns: &[Drawn], cells: Vec<Vec<String>>) -> String {
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = String::new();
    for at in 0..height {
        let mut text = String::new();
        for (column, cell) in columns.iter().zip(&cells) {
            let part = cell.get(at).map_or("", String::as_str);
            let padding = " ".repeat(column.width.saturating_sub(part.chars().count()));
            text += &" ".repeat(GAP);
            if column.is_right_aligned() {
                text += &padding;
                text += part;
            } else {
                text += part;
                text += &padding;
            }
        }
        out += text.trim_end();
        out.push('\n');
    }
    out
}
