//! A table from one list of columns: each has its names, its unit, its look in text, and what it shows of a row.
//!
//! What not: which columns a view has, in which order text shows them.

use analysis::{CallPaths, Key, LocationId, RowKey, parallel};
use facts::Metric;

use super::Request;
use super::columns::{OF_KEYS, missing, name};
use crate::table::{Cell, CellStyle, Column, Table, TextColumn};

/// Makes a column of the text from a column's key.
pub(super) type Style = fn(&'static str) -> CellStyle;

/// A unit, and how its figures look in text.
#[derive(Clone, Copy)]
pub(super) struct Unit(pub(super) &'static str, pub(super) Style);

pub(super) const SECONDS: Unit = Unit("s", CellStyle::Time);
pub(super) const COUNT: Unit = Unit("count", CellStyle::Count);
pub(super) const BYTES: Unit = Unit("bytes", CellStyle::Bytes);
/// With half of the interval.
pub(super) const PERCENT: Unit = Unit("percent", CellStyle::Percent);
pub(super) const PERCENT_ALONE: Unit = Unit("percent", CellStyle::Count);
pub(super) const NANOSECONDS: Unit = Unit("ns", CellStyle::Figure);
/// No unit.
pub(super) const WORDS: Unit = Unit("", CellStyle::Text);

/// Key, label, unit, and heading in text.
pub(super) type Figure = (&'static str, &'static str, Unit, &'static str);

/// CPU time of a row itself, in text next to a share.
pub(super) const OWN: [Figure; 2] =
    [("cpu_time", "CPU time", SECONDS, "time"), ("self_percent", "Self", PERCENT, "self %")];
/// CPU time of a row with what it calls.
pub(super) const WITH_CALLEES: [Figure; 2] =
    [("total_time", "Total time", SECONDS, "time"), ("total_percent", "Total", PERCENT, "total %")];

/// Appends cells of a row.
type Cells<'a, R> = Box<dyn Fn(&R, &mut Vec<Cell>) + Sync + 'a>;

/// The columns of rows of type `R`, in the order of JSON and CSV.
pub(super) struct Columns<'a, R> {
    columns: Vec<Column>,
    /// How they look in text.
    looks: Vec<TextColumn>,
    /// One appends the cells of one column, or of all that say what a row is.
    cells: Vec<Cells<'a, R>>,
    /// How many of the first columns say what a row is, and how many of `cells` these come from.
    names: (usize, usize),
    /// What text shows, from the left.
    pub(super) text: Vec<TextColumn>,
}

impl<'a, R> Columns<'a, R> {
    pub(super) fn new() -> Columns<'a, R> {
        let (columns, looks, cells, text) = Default::default();
        Columns { columns, looks, cells, names: (0, 0), text }
    }

    /// Columns of rows by `keys`, beginning with those that say what a row is. `paths`: of rows by call stack.
    pub(super) fn by(
        request: &'a Request<'a>,
        keys: &'a [Key],
        paths: Option<&'a CallPaths>,
        what: impl Fn(&R) -> (&RowKey, LocationId) + Copy + Sync + 'a,
    ) -> Columns<'a, R> {
        let mut list = Columns::new();
        for (of, column, cell) in OF_KEYS {
            if of.iter().any(|key| keys.contains(key)) {
                list.hidden(column, move |row| {
                    let (key, place) = what(row);
                    cell(request, key, place)
                });
            }
        }
        if keys.contains(&Key::CallStack) {
            list.hidden(name("stack", "Call stack"), move |row| {
                let path = what(row).0.stack.zip(paths);
                let names = path.map(|(path, paths)| paths.names(&request.profile.stacks, path));
                names.map_or(Cell::Missing, Cell::Stack)
            });
        }
        list.end_of_names();
        list
    }

    /// Function, file, line and module.
    pub(super) fn place(
        &mut self,
        request: &'a Request<'a>,
        place: impl Fn(&R) -> LocationId + Copy + Sync + 'a,
    ) {
        for (of, column, cell) in OF_KEYS {
            if of.contains(&Key::Function) {
                let key = RowKey::default();
                self.hidden(column, move |row| cell(request, &key, place(row)));
            }
        }
    }

    /// All columns up to here say what a row is, and have no total.
    pub(super) fn end_of_names(&mut self) {
        self.names = (self.columns.len(), self.cells.len());
    }

    /// A column without a unit. `heading`: in text; empty where only JSON and CSV have the column.
    pub(super) fn name(
        &mut self,
        key: &'static str,
        label: &'static str,
        style: Style,
        heading: &'static str,
        cell: impl Fn(&R) -> Cell + Sync + 'a,
    ) {
        self.figures([(key, label, Unit("", style), heading)], move |row| [cell(row)]);
    }

    /// A figure that rows have.
    pub(super) fn figure(
        &mut self,
        key: &'static str,
        label: &'static str,
        unit: Unit,
        heading: &'static str,
        metric: impl Fn(&R) -> &Metric + Sync + 'a,
    ) {
        self.cell(key, label, unit, heading, move |row| Cell::metric(metric(row).clone()));
    }

    /// A figure that is computed of a row, where it has one.
    pub(super) fn cell(
        &mut self,
        key: &'static str,
        label: &'static str,
        unit: Unit,
        heading: &'static str,
        cell: impl Fn(&R) -> Cell + Sync + 'a,
    ) {
        self.figures([(key, label, unit, heading)], move |row| [cell(row)]);
    }

    /// A column that text does not show by [`Columns::show`].
    fn hidden(&mut self, column: Column, cell: impl Fn(&R) -> Cell + Sync + 'a) {
        self.columns.push(column);
        self.cells.push(Box::new(move |row, cells| cells.push(cell(row))));
    }

    /// Figures whose cells come together: key, label, unit and heading of each.
    pub(super) fn figures<const N: usize>(
        &mut self,
        figures: [Figure; N],
        cells: impl Fn(&R) -> [Cell; N] + Sync + 'a,
    ) {
        for (key, label, Unit(unit, style), heading) in figures {
            self.looks.push(style(key).titled(heading));
            self.columns.push(Column { key, label, unit: (!unit.is_empty()).then_some(unit) });
        }
        self.cells.push(Box::new(move |row, row_cells| row_cells.extend(cells(row))));
    }

    /// Shows these columns next.
    pub(super) fn show(&mut self, keys: &[&str]) {
        let look =
            |key: &&str| self.looks.iter().find(|one| one.style.key() == Some(*key)).copied();
        self.text.extend(keys.iter().filter_map(look));
    }

    /// The figures of all rows together, where they are known.
    pub(super) fn total(&self, all: Option<&R>) -> Vec<Cell> {
        let (columns, names) = self.names;
        let mut cells = missing(columns);
        match all {
            Some(all) => self.cells[names..].iter().for_each(|add| add(all, &mut cells)),
            None => cells.resize(self.columns.len(), Cell::Missing),
        }
        cells
    }

    /// The cells of a row.
    fn row(&self, row: &R) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(self.columns.len());
        self.cells.iter().for_each(|add| add(row, &mut cells));
        cells
    }

    /// A table without total and notes.
    pub(super) fn table(
        self,
        request: &Request<'_>,
        view: &'static str,
        what: &str,
        rows: &[R],
    ) -> Table
    where
        R: Sync,
    {
        Table {
            view,
            result: request.options.result_name.clone(),
            rows: parallel::each(rows, |row| self.row(row)),
            total: missing(self.columns.len()),
            columns: self.columns,
            notes: Vec::new(),
            title: request.title(what),
            text_columns: self.text,
            page: 25,
            empty: String::new(),
        }
    }
}
