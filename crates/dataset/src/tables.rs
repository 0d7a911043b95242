//! The tables of a dataset and their columns: one list for files, for the schemas that engines are given, and for the page about the
//! format.
//!
//! What not: bytes (`parquet_file`), where figures come from (`rows`).
//!
//! Every column is nullable, and a new one goes to the end with a new [`VERSION`]: files of earlier versions read as NULL there.
//! Types are those that all engines have: text, 64-bit floating point, signed integers.

/// Version of the dataset's format.
pub const VERSION: u64 = 1;

/// Keys in the path of a file, outermost first.
pub const PARTITIONS: [&str; 5] = ["date", "host", "job", "rank", "analysis"];

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnType {
    /// UTF-8.
    Text,
    /// A 64-bit floating-point number.
    Real,
    /// A signed 64-bit number.
    Whole,
}

/// A value of a row.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Not known, or not measured.
    Null,
    /// Text.
    Text(String),
    /// A number.
    Real(f64),
    /// An ordinal, a size, a count.
    Whole(i64),
}

impl Value {
    /// A text or nothing.
    pub(crate) fn text(text: Option<&str>) -> Value {
        text.map_or(Value::Null, |text| Value::Text(text.to_owned()))
    }

    /// A number or nothing; what is no number is not known.
    pub(crate) fn real(number: Option<f64>) -> Value {
        number.filter(|number| number.is_finite()).map_or(Value::Null, Value::Real)
    }

    /// A count or nothing.
    pub(crate) fn whole(number: Option<u64>) -> Value {
        number.and_then(|number| number.try_into().ok()).map_or(Value::Null, Value::Whole)
    }
}

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableColumns {
    /// Its folder.
    pub name: &'static str,
    /// What a row is of, before its figure.
    own: &'static [(&'static str, ColumnType)],
    /// Whether rows are figures.
    figures: bool,
}

use ColumnType::{Real, Text, Whole};

/// The figure of a row. The variance is that of the estimate, from its interval.
const FIGURE: [(&str, ColumnType); 9] = [
    ("figure", Text),
    ("unit", Text),
    ("value", Real),
    ("low", Real),
    ("high", Real),
    ("variance", Real),
    ("evidence", Text),
    ("samples", Whole),
    ("note", Text),
];

const RUN: (&str, ColumnType) = ("run", Text);
const PLACE: [(&str, ColumnType); 3] = [("function", Text), ("file", Text), ("line", Whole)];

/// All tables; `runs` is the last that a result gets.
pub const TABLES: [TableColumns; 7] = [
    TableColumns { name: "figures", own: &[], figures: true },
    TableColumns {
        name: "functions",
        own: &[PLACE[0], PLACE[1], PLACE[2], ("module", Text), ("object", Text)],
        figures: true,
    },
    TableColumns { name: "lines", own: &[PLACE[1], PLACE[2], ("object", Text)], figures: true },
    TableColumns {
        name: "objects",
        own: &[("object", Text), ("object_kind", Text), ("element_type", Text)],
        figures: true,
    },
    TableColumns { name: "bandwidth", own: &[("start", Real), ("end", Real)], figures: true },
    TableColumns {
        name: "findings",
        own: &[
            ("id", Text),
            ("severity", Text),
            ("title", Text),
            PLACE[0],
            PLACE[1],
            PLACE[2],
            ("object", Text),
            ("advice", Text),
        ],
        figures: true,
    },
    TableColumns {
        name: "runs",
        own: &[
            ("result", Text),
            ("program", Text),
            ("command", Text),
            ("host_name", Text),
            ("job_name", Text),
            ("mpi_rank", Whole),
            ("mpi_ranks", Whole),
            ("mpi_local_rank", Whole),
            ("rack", Text),
            ("labels", Text),
            ("started", Real),
            ("state", Text),
            ("exit_code", Whole),
            ("times", Whole),
            ("classification", Text),
            ("cpu", Text),
            ("logical_cpus", Whole),
            ("memory_bytes", Whole),
            ("numa_nodes", Whole),
            ("kernel", Text),
            ("os", Text),
            ("virtualised", Text),
            ("fathom_version", Text),
            ("result_format", Whole),
        ],
        figures: false,
    },
];

impl TableColumns {
    /// The columns of its files, in order.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, ColumnType)> {
        let figure = FIGURE.into_iter().filter(|_| self.figures);
        std::iter::once(RUN).chain(self.own.iter().copied()).chain(figure)
    }

    /// The columns between the run and the figure.
    pub(crate) fn own(&self) -> &'static [(&'static str, ColumnType)] {
        self.own
    }

    /// The table with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static TableColumns> {
        TABLES.iter().find(|table| table.name == name)
    }
}
