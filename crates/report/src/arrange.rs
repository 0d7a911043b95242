//! Rows in another order, and a selection of columns: the same for every view.
//!
//! What not: figures. Assumption: rows of a tree have a column `level` and come parents first; there, siblings are sorted.

use std::cmp::Ordering;

use crate::ReportError;
use crate::table::{Cell, CellStyle, Column, Table};

/// The column that makes rows a tree.
const LEVEL: &str = "level";

impl Table {
    /// Sorts by a column: figures from the largest on, text by letters, what is missing last. Equal ones stay in order.
    ///
    /// # Errors
    /// There is no such column.
    pub(crate) fn sorted(mut self, key: &str) -> Result<Table, ReportError> {
        self.find(key)?;
        self.sort_by(key);
        Ok(self)
    }

    /// Sorts by a column that it has.
    pub(crate) fn sort_by(&mut self, key: &str) {
        if let Some(by) = self.column(key) {
            let rows = std::mem::take(&mut self.rows);
            self.rows = siblings(rows, self.column(LEVEL), by);
        }
    }

    /// Leaves columns out.
    pub(crate) fn without(mut self, is_left_out: impl Fn(&str) -> bool) -> Table {
        let kept: Vec<bool> = self.columns.iter().map(|one| !is_left_out(one.key)).collect();
        let all = self.rows.iter_mut().chain([&mut self.total]);
        all.for_each(|row| retain(row, &kept));
        retain(&mut self.columns, &kept);
        self
    }

    /// Keeps these columns, in this order.
    ///
    /// # Errors
    /// One is not there.
    pub(crate) fn with_columns(mut self, keys: &[String]) -> Result<Table, ReportError> {
        let kept: Vec<usize> = keys.iter().map(|key| self.find(key)).collect::<Result<_, _>>()?;
        let text_columns = kept.iter().map(|at| self.style(*at).titled(self.heading(*at)));
        self.text_columns = text_columns.collect();
        let pick = |row: &Vec<Cell>| kept.iter().map(|at| row[*at].clone()).collect::<Vec<Cell>>();
        self.rows = self.rows.iter().map(pick).collect();
        self.total = pick(&self.total);
        self.columns = kept.iter().map(|at| self.columns[*at]).collect();
        Ok(self)
    }

    fn find(&self, key: &str) -> Result<usize, ReportError> {
        self.column(key).ok_or_else(|| {
            let possible: Vec<&str> = self.columns.iter().map(|column| column.key).collect();
            ReportError::NoSuchColumn {
                view: self.view,
                name: key.to_owned(),
                possible: possible.join(", "),
            }
        })
    }

    /// As the view shows the column, or as its unit asks for.
    fn style(&self, at: usize) -> CellStyle {
        let Column { key, unit, .. } = self.columns[at];
        let own =
            self.text_columns.iter().map(|one| one.style).find(|style| style.key() == Some(key));
        if let Some(own) = own {
            // Its level may not be there.
            return if let CellStyle::Function(key, _) = own { CellStyle::Text(key) } else { own };
        }
        match unit {
            Some("s") => CellStyle::Time(key),
            Some("percent") => CellStyle::Percent(key),
            Some("count") => CellStyle::Count(key),
            Some("bytes") => CellStyle::Bytes(key),
            Some(_) => CellStyle::Measure(key),
            None => match self.rows.iter().map(|row| &row[at]).find(|cell| **cell != Cell::Missing)
            {
                Some(Cell::Number(_)) => CellStyle::Number(key),
                Some(Cell::Stack(_)) => CellStyle::Stack(key),
                Some(Cell::Seconds(_)) => CellStyle::Start(key),
                _ => CellStyle::Text(key),
            },
        }
    }

    fn heading(&self, at: usize) -> &'static str {
        let Column { key, label, .. } = self.columns[at];
        let own = self.text_columns.iter().find(|one| one.style.key() == Some(key));
        own.map_or(label, |one| one.title)
    }
}

fn retain<T>(all: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    all.retain(|_| kept.next().copied().unwrap_or(true));
}

/// Sorted rows; of a tree each with those below it.
fn siblings(rows: Vec<Vec<Cell>>, level: Option<usize>, by: usize) -> Vec<Vec<Cell>> {
    let depth = |row: &[Cell]| match level.map(|at| &row[at]) {
        Some(Cell::Number(depth)) => *depth,
        _ => 0,
    };
    let top = rows.iter().map(|row| depth(row)).min().unwrap_or(0);
    let mut families: Vec<Vec<Vec<Cell>>> = Vec::new();
    for row in rows {
        match families.last_mut() {
            Some(family) if depth(&row) > top => family.push(row),
            _ => families.push(vec![row]),
        }
    }
    families.sort_by(|one, other| order(&one[0][by], &other[0][by]));
    let sorted = families.into_iter().flat_map(|mut family| {
        let below = family.split_off(1);
        if !below.is_empty() {
            family.extend(siblings(below, level, by));
        }
        family
    });
    sorted.collect()
}

fn order(one: &Cell, other: &Cell) -> Ordering {
    match (text(one), text(other)) {
        (Some(one), Some(other)) => one.cmp(other),
        (None, None) => number(other).total_cmp(&number(one)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
    }
}

fn text(cell: &Cell) -> Option<&str> {
    match cell {
        Cell::Text(text) => Some(text),
        Cell::Stack(frames) => frames.first().map(String::as_str),
        _ => None,
    }
}

/// What is missing is less than all figures.
fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Number(number) => *number as f64,
        Cell::Seconds(number) | Cell::Probability(number) => *number,
        Cell::Metric(metric) => metric.value.unwrap_or(f64::NEG_INFINITY),
        Cell::Text(_) | Cell::Stack(_) | Cell::Missing => f64::NEG_INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use facts::Metric;

    use super::*;

    fn table(rows: &[(&str, Option<f64>, u64)]) -> Table {
        let column = |key, unit| Column { key, label: key, unit };
        let row = |(name, value, level): &(&str, Option<f64>, u64)| {
            let metric = match value {
                Some(value) => Metric::counted(*value, "bytes"),
                None => Metric::unavailable("bytes", "unknown"),
            };
            vec![Cell::text(*name), Cell::Metric(metric), Cell::Number(*level)]
        };
        Table {
            view: "test",
            result: String::new(),
            columns: vec![
                column("name", None),
                column("size", Some("bytes")),
                column("level", None),
            ],
            rows: rows.iter().map(row).collect(),
            total: vec![Cell::Missing, Cell::Missing, Cell::Missing],
            notes: Vec::new(),
            title: String::new(),
            text_columns: vec![CellStyle::Function("name", Some("level")).titled("who")],
            page: 9,
            empty: String::new(),
        }
    }

    fn names(table: &Table) -> String {
        let names = table.rows.iter().map(|row| match &row[0] {
            Cell::Text(name) => name.as_str(),
            _ => "?",
        });
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn figures_fall_text_rises_and_what_is_missing_is_last() {
        let rows = [("c", None, 0), ("b", Some(1.0), 0), ("a", Some(2.0), 0), ("d", Some(2.0), 0)];
        assert_eq!(names(&table(&rows).sorted("size").unwrap()), "a d b c");
        assert_eq!(names(&table(&rows).sorted("name").unwrap()), "a b c d");
        let wrong = table(&rows).sorted("sise").unwrap_err().to_string();
        assert!(wrong.contains("'sise'") && wrong.contains("name, size, level"), "{wrong}");
    }

    #[test]
    fn rows_of_a_tree_stay_below_their_parents() {
        let rows = [
            ("a", Some(1.0), 0),
            ("b", Some(1.0), 1),
            ("c", Some(9.0), 1),
            ("d", Some(5.0), 2),
            ("e", Some(2.0), 0),
        ];
        assert_eq!(names(&table(&rows).sorted("size").unwrap()), "e a c d b");
    }

    #[test]
    fn columns_come_in_the_order_that_was_asked_for() {
        let keys = ["size".to_owned(), "name".to_owned()];
        let found = table(&[("a", Some(1.0), 0)]).with_columns(&keys).unwrap();
        assert_eq!(found.columns.iter().map(|column| column.key).collect::<Vec<_>>(), keys);
        assert_eq!(
            found.text_columns,
            [CellStyle::Bytes("size").titled("size"), CellStyle::Text("name").titled("who")]
        );
        assert_eq!((found.rows[0].len(), found.total.len()), (2, 2));
    }
}
