//! The answer to a question about many results, as a view like the others.
//!
//! What for: text, JSON and CSV of rows that a query engine computed. What not: the question and the engine (`dataset`, cli).

use facts::Metric;

use crate::Document;
use crate::table::{Cell, CellStyle, Column, Table};

/// What a column of an answer holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerKind {
    /// A name.
    Text,
    /// A number of things.
    Count,
    /// A figure with its interval.
    Metric,
}

/// A column of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnswerColumn {
    /// Its key.
    pub key: &'static str,
    /// Its heading.
    pub label: &'static str,
    /// Whether text shows it.
    pub shown: bool,
    /// What it holds.
    pub kind: AnswerKind,
    /// Unit of a metric; `None` where each row has its own.
    pub unit: Option<&'static str>,
}

/// An answer.
pub struct Answer {
    /// The question's name.
    pub question: &'static str,
    /// What it asks.
    pub about: String,
    /// The dataset's name.
    pub dataset: String,
    /// Columns.
    pub columns: Vec<AnswerColumn>,
    /// A cell per column in each row.
    pub rows: Vec<Vec<Cell>>,
    /// Remarks.
    pub notes: Vec<String>,
    /// What to say without rows.
    pub empty: String,
}

/// Units that figures have; a column needs one that is known when it is compiled.
const UNITS: [&str; 11] = [
    "s",
    "ns",
    "bytes",
    "GB/s",
    "percent",
    "count",
    "count/s",
    "FLOP/s",
    "FLOP/byte",
    "cycles",
    "",
];

impl Answer {
    /// The view.
    #[must_use]
    pub fn document(self) -> Document {
        let unit_of_rows = |at: usize| {
            let units = self.rows.iter().filter_map(|row| match &row[at] {
                Cell::Metric(Metric { unit, .. }) => UNITS.iter().find(|known| *known == unit),
                _ => None,
            });
            units.copied().next().unwrap_or("")
        };
        let column = |(at, column): (usize, &AnswerColumn)| Column {
            key: column.key,
            label: column.label,
            unit: match column.kind {
                AnswerKind::Metric => Some(column.unit.unwrap_or_else(|| unit_of_rows(at))),
                AnswerKind::Text | AnswerKind::Count => None,
            },
        };
        let columns: Vec<Column> = self.columns.iter().enumerate().map(column).collect();
        let look = |column: &AnswerColumn| {
            let style = match (column.kind, column.key) {
                (AnswerKind::Metric, key) => CellStyle::Interval(key),
                (AnswerKind::Count, key) => CellStyle::Number(key),
                (AnswerKind::Text, "function") => CellStyle::Function("function", None),
                (AnswerKind::Text, key) => CellStyle::Text(key),
            };
            style.titled(column.label)
        };
        let tidy = |cell: Cell| match cell {
            Cell::Metric(metric) => Cell::metric(metric),
            cell => cell,
        };
        Document::Table(Box::new(Table {
            view: self.question,
            title: format!("{}: {}", self.dataset, self.about),
            result: self.dataset,
            total: vec![Cell::Missing; columns.len()],
            text_columns: self.columns.iter().filter(|column| column.shown).map(look).collect(),
            columns,
            rows: self.rows.into_iter().map(|row| row.into_iter().map(tidy).collect()).collect(),
            notes: self.notes,
            page: 25,
            empty: self.empty,
        }))
    }
}
