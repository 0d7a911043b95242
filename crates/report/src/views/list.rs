//! A table from one list of columns: each has its names, its unit, its look in text, and what it shows of a row.
//!
//! What not: which columns a view has, in which order text shows them.

use analysis::{CallPaths, Key, LocationId, RowKey};
use facts::Metric;

use super::Request;
use super::columns::{cells_of_key, cells_of_objects, missing, name, of_keys, of_objects};
use crate::table::{Cell, CellStyle, Column, Table, TextColumn};

/// Makes a column of the text from a column's key.
type Style = fn(&'static str) -> CellStyle;

/// A unit, and how its figures look in text.
#[derive(Clone, Copy)]
pub(super) struct Unit(pub(super) &'static str, pub(super) Style);

pub(super) const COUNT: Unit = Unit("count", CellStyle::Count);
pub(super) const BYTES: Unit = Unit("bytes", CellStyle::Bytes);
/// With half of the interval.
pub(super) const PERCENT: Unit = Unit("percent", CellStyle::Percent);
pub(super) const PERCENT_ALONE: Unit = Unit("percent", CellStyle::Count);
pub(super) const NANOSECONDS: Unit = Unit("ns", CellStyle::Figure);

/// Appends cells of a row.
type Cells<'a, R> = Box<dyn Fn(&R, &mut Vec<Cell>) + Sync + 'a>;

/// The columns of rows of type `R`, in the order of JSON and CSV.
pub(super) struct Columns<'a, R> {
    columns: Vec<Column>,
    /// How they look in text.
    looks: Vec<TextColumn>,
    /// One appends the cells of one column, or of all that say what a row is.
    cells: Vec<Cells<'a, R>>,
    /// What text shows, from the left.
    pub(super) text: Vec<TextColumn>,
}

impl<'a, R> Columns<'a, R> {
    pub(super) fn new() -> Columns<'a, R> {
        let (columns, looks, cells, text) = Default::default();
        Columns { columns, looks, cells, text }
    }

    /// Of rows by `keys`, beginning with the columns that say what a row is. `paths`: of rows by call stack.
    pub(super) fn by(
        request: &'a Request<'a>,
        keys: &'a [Key],
        paths: Option<&'a CallPaths>,
        what: impl Fn(&R) -> (&RowKey, LocationId) + Sync + 'a,
    ) -> Columns<'a, R> {
        let mut list = Columns::new();
        list.columns = of_objects(keys).into_iter().chain(of_keys(keys)).collect();
        let profile = request.profile;
        list.cells.push(Box::new(move |row, cells| {
            let (key, place) = what(row);
            let stack =
                key.stack.zip(paths).map(|(path, paths)| paths.names(&profile.stacks, path));
            cells.extend(cells_of_objects(request, keys, key));
            cells.extend(cells_of_key(profile, keys, key, place, stack));
        }));
        list
    }

    fn add(
        &mut self,
        column: Column,
        (style, heading): (Style, &'static str),
        cell: impl Fn(&R) -> Cell + Sync + 'a,
    ) {
        self.looks.push(style(column.key).titled(heading));
        self.columns.push(column);
        self.cells.push(Box::new(move |row, cells| cells.push(cell(row))));
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
        self.add(name(key, label), (style, heading), cell);
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
        Unit(unit, style): Unit,
        heading: &'static str,
        cell: impl Fn(&R) -> Cell + Sync + 'a,
    ) {
        self.add(Column { key, label, unit: Some(unit) }, (style, heading), cell);
    }

    /// Columns whose cells come together; text does not show them by [`Columns::show`].
    pub(super) fn several<C: IntoIterator<Item = Cell>>(
        &mut self,
        columns: impl IntoIterator<Item = Column>,
        cells: impl Fn(&R) -> C + Sync + 'a,
    ) {
        self.columns.extend(columns);
        self.cells.push(Box::new(move |row, row_cells| row_cells.extend(cells(row))));
    }

    /// Shows these columns next.
    pub(super) fn show(&mut self, keys: &[&str]) {
        let look =
            |key: &&str| self.looks.iter().find(|one| one.style.key() == Some(*key)).copied();
        self.text.extend(keys.iter().filter_map(look));
    }

    /// The cells of a row.
    fn row(&self, row: &R) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(self.columns.len());
        self.cells.iter().for_each(|add| add(row, &mut cells));
        cells
    }

    /// A table without total and notes.
    pub(super) fn table<'r>(
        self,
        request: &Request<'_>,
        view: &'static str,
        what: &str,
        rows: impl IntoIterator<Item = &'r R>,
    ) -> Table
    where
        R: 'r,
    {
        Table {
            view,
            result: request.options.result_name.clone(),
            rows: rows.into_iter().map(|row| self.row(row)).collect(),
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
