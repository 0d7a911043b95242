//! The model of every view but the summary: columns, rows, notes.
//!
//! What not: layout (`text`), figures (`analysis`).

use facts::Metric;
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::json::tidy;

/// A column of a [`Table`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Column {
    /// Its name in rows; fixed, see `docs/glossary`.
    pub key: &'static str,
    /// Its heading.
    pub label: &'static str,
    /// The unit of its metrics; `None` for text.
    pub unit: Option<&'static str>,
}

/// A value of a row.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// A name.
    Text(String),
    /// An ordinal: a line number, a level of a tree.
    Number(u64),
    /// A position in time, seconds from the start of the recording.
    Seconds(f64),
    /// A probability, 0 to 1.
    Probability(f64),
    /// Frames of a stack, innermost first.
    Stack(Vec<String>),
    /// A figure with its evidence.
    Metric(Metric),
    /// Nothing: the thing has no such property, e.g. no source file is known.
    Missing,
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    pub(crate) fn text_or_missing(text: Option<&str>) -> Cell {
        text.map_or(Cell::Missing, Cell::text)
    }

    pub(crate) fn metric(metric: Metric) -> Cell {
        Cell::Metric(tidy(metric))
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Text(text) => text.serialize(serializer),
            Cell::Number(number) => number.serialize(serializer),
            Cell::Seconds(number) | Cell::Probability(number) => number.serialize(serializer),
            Cell::Stack(frames) => frames.serialize(serializer),
            Cell::Metric(metric) => metric.serialize(serializer),
            Cell::Missing => serializer.serialize_none(),
        }
    }
}

/// How a column appears in text: it may join two columns of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CellStyle {
    /// A percentage with its half interval.
    Percent(&'static str),
    /// A time.
    Time(&'static str),
    /// A time that is saved: where it may be lost as well, what is saved at most.
    Saving(&'static str),
    /// A count.
    Count(&'static str),
    /// A size.
    Bytes(&'static str),
    /// Any other figure, with three digits.
    Ratio(&'static str),
    /// A figure in its own unit, which may differ from row to row.
    Measure(&'static str),
    /// A change in percent with its interval; where that says nothing, the difference in the other column.
    Change(&'static str, &'static str),
    /// A figure in its own unit with its interval.
    Interval(&'static str),
    /// A time axis: start of the row.
    Start(&'static str),
    /// A function, indented by the level in the other column if there is one.
    Function(&'static str, Option<&'static str>),
    /// `file:line`.
    SourceLine,
    /// Any text.
    Text(&'static str),
    /// Text that is a figure: aligned at the right.
    Figure(&'static str),
    /// A number.
    Number(&'static str),
    /// Code as it is, cut at the right.
    Code(&'static str),
    /// A stack, one frame per line. Only as the last column.
    Stack(&'static str),
    /// A bar whose full length is the largest value of the column.
    Bar(&'static str),
}

/// A column of a table in text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TextColumn {
    /// What it shows.
    pub(crate) style: CellStyle,
    /// Its heading.
    pub(crate) title: &'static str,
}

impl CellStyle {
    /// A column of this style.
    pub(crate) const fn titled(self, title: &'static str) -> TextColumn {
        TextColumn { style: self, title }
    }

    /// The column of the model that it shows, or shows first.
    pub(crate) fn key(self) -> Option<&'static str> {
        match self {
            CellStyle::Percent(key)
            | CellStyle::Time(key)
            | CellStyle::Saving(key)
            | CellStyle::Count(key)
            | CellStyle::Bytes(key)
            | CellStyle::Ratio(key)
            | CellStyle::Measure(key)
            | CellStyle::Change(key, _)
            | CellStyle::Interval(key)
            | CellStyle::Start(key)
            | CellStyle::Function(key, _)
            | CellStyle::Text(key)
            | CellStyle::Figure(key)
            | CellStyle::Number(key)
            | CellStyle::Code(key)
            | CellStyle::Stack(key) => Some(key),
            CellStyle::SourceLine | CellStyle::Bar(_) => None,
        }
    }
}

/// A view as a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// The view's name.
    pub view: &'static str,
    /// The result's name.
    pub result: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// One value per column in each row.
    pub rows: Vec<Vec<Cell>>,
    /// What the rows are parts of; `Missing` where a sum makes no sense.
    pub total: Vec<Cell>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
    /// Text only: the heading.
    pub(crate) title: String,
    /// Text only: the columns shown, with their headings.
    pub(crate) text_columns: Vec<TextColumn>,
    /// Text only: most rows without `--limit`.
    pub(crate) page: usize,
    /// What to say when there are no rows; in JSON only then.
    pub(crate) empty: String,
}

impl Table {
    /// Position of a column.
    #[must_use]
    pub fn column(&self, key: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.key == key)
    }

    /// Sets a figure of the row of totals.
    pub(crate) fn set_total(&mut self, key: &str, metric: Metric) {
        if let Some(at) = self.column(key) {
            self.total[at] = Cell::metric(metric);
        }
    }

    /// Cuts the rows to `limit`, and says so.
    pub(crate) fn limited(mut self, limit: Option<usize>) -> Table {
        if let Some(limit) = limit.filter(|limit| *limit < self.rows.len()) {
            self.notes.push(format!("{limit} of {} rows; the total is of all.", self.rows.len()));
            self.rows.truncate(limit);
            self.empty = "A limit of 0 shows no rows.".to_owned();
            self.page = usize::MAX;
        } else if limit.is_some() {
            self.page = usize::MAX;
        }
        self
    }
}

struct RowView<'a>(&'a [Column], &'a [Cell]);

impl Serialize for RowView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (column, cell) in self.0.iter().zip(self.1) {
            map.serialize_entry(column.key, cell)?;
        }
        map.end()
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows: Vec<RowView<'_>> =
            self.rows.iter().map(|row| RowView(&self.columns, row)).collect();
        let none = rows.is_empty();
        let mut table = serializer.serialize_struct("Table", 6 + usize::from(none))?;
        table.serialize_field("view", self.view)?;
        table.serialize_field("result", &self.result)?;
        table.serialize_field("columns", &self.columns)?;
        table.serialize_field("rows", &rows)?;
        table.serialize_field("total", &RowView(&self.columns, &self.total))?;
        table.serialize_field("notes", &self.notes)?;
        if none {
            table.serialize_field("empty", &self.empty)?;
        }
        table.end()
    }
}
