//! Rows as columns in memory: the form between facts and Parquet.
//!
//! What not: the encodings on disk (`parquet_read`, `parquet_write`).

use crate::schema::{Cell, Column, ColumnKind, RowError, RowSink, RowSource};

/// Values of one column. Unsigned numbers are kept as the signed ones that Parquet stores, bit by bit.
#[derive(Debug)]
pub enum Values {
    /// U64.
    Long(Vec<i64>),
    /// U32 and I32.
    Int(Vec<i32>),
    /// Bool.
    Bool(Vec<bool>),
    /// Positions of words.
    Word(Vec<u8>),
    /// All texts in one string, and where each ends.
    Text(String, Vec<usize>),
    /// Cells of bytes.
    Bytes(Vec<Vec<u8>>),
}

impl Values {
    fn new(kind: ColumnKind) -> Values {
        match kind {
            ColumnKind::U64 => Values::Long(Vec::new()),
            ColumnKind::U32 | ColumnKind::I32 => Values::Int(Vec::new()),
            ColumnKind::Bool => Values::Bool(Vec::new()),
            ColumnKind::Word(_) => Values::Word(Vec::new()),
            ColumnKind::Text => Values::Text(String::new(), Vec::new()),
            ColumnKind::Bytes => Values::Bytes(Vec::new()),
        }
    }

    fn clear(&mut self) {
        match self {
            Values::Long(values) => values.clear(),
            Values::Int(values) => values.clear(),
            Values::Bool(values) => values.clear(),
            Values::Word(values) => values.clear(),
            Values::Text(text, ends) => {
                text.clear();
                ends.clear();
            }
            Values::Bytes(values) => values.clear(),
        }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        match self {
            Values::Long(values) => values.len(),
            Values::Int(values) => values.len(),
            Values::Bool(values) => values.len(),
            Values::Word(values) => values.len(),
            Values::Text(_, ends) => ends.len(),
            Values::Bytes(values) => values.len(),
        }
    }
}

/// The texts of a text column.
pub fn texts<'a>(text: &'a str, ends: &'a [usize]) -> impl Iterator<Item = &'a str> {
    ends.iter().scan(0, move |start, &end| {
        let piece = text.get(*start..end);
        *start = end;
        piece
    })
}

/// One column: its values, and which rows have one.
#[derive(Debug)]
pub struct ColumnBuffer {
    /// What it is.
    pub column: Column,
    /// The values of the rows that have one.
    pub values: Values,
    /// Parquet definition levels: 1 where a row has a value. Empty unless the column is nullable.
    pub defined: Vec<i16>,
    next_value: usize,
}

/// The columns of a table.
#[derive(Debug)]
pub struct TableBuffer {
    /// In the table's order.
    pub columns: Vec<ColumnBuffer>,
    rows: usize,
    bytes: usize,
    /// Column of the next cell, and row being read.
    at: usize,
    row: usize,
}

impl TableBuffer {
    /// An empty buffer for these columns.
    pub fn new(columns: &[Column]) -> TableBuffer {
        let columns = columns
            .iter()
            .map(|&column| ColumnBuffer {
                column,
                values: Values::new(column.kind),
                defined: Vec::new(),
                next_value: 0,
            })
            .collect();
        TableBuffer { columns, rows: 0, bytes: 0, at: 0, row: 0 }
    }

    /// Rows held.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the values held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all rows, keeps the memory.
    pub fn clear(&mut self) {
        for column in &mut self.columns {
            column.values.clear();
            column.defined.clear();
            column.next_value = 0;
        }
        (self.rows, self.bytes, self.at, self.row) = (0, 0, 0, 0);
    }

    /// Declares that `rows` rows were put into the columns from outside and are to be read from the first.
    /// `false` when a column does not have exactly that many.
    pub fn filled(&mut self, rows: usize) -> bool {
        self.rows = rows;
        self.columns.iter().all(|column| {
            if column.column.nullable {
                let defined = column.defined.iter().filter(|&&level| level == 1).count();
                column.defined.len() == rows && column.values.len() == defined
            } else {
                column.values.len() == rows
            }
        })
    }

    /// Ends the row that was put.
    pub fn end_put(&mut self) {
        debug_assert_eq!(self.at, self.columns.len(), "a row has one cell per column");
        self.at = 0;
        self.rows += 1;
    }

    /// Ends the row that was taken.
    pub fn end_take(&mut self) {
        self.at = 0;
        self.row += 1;
    }
}

impl RowSink for TableBuffer {
    fn cell(&mut self, cell: Cell<'_>) {
        let column = &mut self.columns[self.at];
        self.at += 1;
        if column.column.nullable {
            column.defined.push(i16::from(cell != Cell::Null));
        }
        self.bytes += match (&mut column.values, cell) {
            (Values::Long(values), Cell::U64(value)) => {
                values.push(value as i64);
                8
            }
            (Values::Int(values), Cell::U32(value)) => {
                values.push(value as i32);
                4
            }
            (Values::Int(values), Cell::I32(value)) => {
                values.push(value);
                4
            }
            (Values::Bool(values), Cell::Bool(value)) => {
                values.push(value);
                1
            }
            (Values::Word(values), Cell::Word(position)) => {
                values.push(position);
                1
            }
            (Values::Text(all, ends), Cell::Text(text)) => {
                all.push_str(text);
                ends.push(all.len());
                text.len() + 8
            }
            (Values::Bytes(values), Cell::Bytes(bytes)) => {
                values.push(bytes.to_owned());
                bytes.len() + 8
            }
            // Its definition level.
            (_, Cell::Null) => 2,
            (_, cell) => {
                debug_assert!(false, "column {} cannot hold {cell:?}", column.column.name);
                0
            }
        };
    }
}

impl RowSource for TableBuffer {
    fn cell(&mut self) -> Result<Cell<'_>, RowError> {
        let column = self.columns.get_mut(self.at).ok_or(RowError::Truncated)?;
        self.at += 1;
        if column.column.nullable && column.defined.get(self.row).is_none_or(|&level| level != 1) {
            return Ok(Cell::Null);
        }
        let at = column.next_value;
        column.next_value += 1;
        let cell = match &column.values {
            Values::Long(values) => values.get(at).map(|&value| Cell::U64(value as u64)),
            Values::Int(values) if column.column.kind == ColumnKind::I32 => {
                values.get(at).map(|&value| Cell::I32(value))
            }
            Values::Int(values) => values.get(at).map(|&value| Cell::U32(value as u32)),
            Values::Bool(values) => values.get(at).map(|&value| Cell::Bool(value)),
            Values::Word(values) => values.get(at).map(|&position| Cell::Word(position)),
            Values::Text(all, ends) => {
                let start = if at == 0 { Some(0) } else { ends.get(at - 1).copied() };
                start
                    .zip(ends.get(at))
                    .and_then(|(start, &end)| all.get(start..end))
                    .map(Cell::Text)
            }
            Values::Bytes(values) => values.get(at).map(|bytes| Cell::Bytes(bytes)),
        };
        cell.ok_or(RowError::Truncated)
    }

    fn column(&self) -> usize {
        self.at.saturating_sub(1)
    }
}
