//! The one description of a table's columns, and the two traits through which a row passes in and out of an
//! encoding.
//!
//! What for: the journal (varints) and Parquet (column chunks) must never disagree on what a fact consists of.
//! Each kind of fact implements [`Row`] once, in `tables.rs`; each encoding implements [`RowSink`] and
//! [`RowSource`] once.
//! What not: no bytes and no files here.

/// Longest text of one cell, in bytes; longer ones (some C++ template names) are clipped when written.
/// It bounds what a hostile file can make a reader allocate for one cell.
pub const MAX_TEXT_BYTES: usize = 64 << 10;

/// Most bytes of one cell of bytes. Longer ones are refused before they reach a row: half of them would mean nothing.
/// A frame of the journal must have room for one.
pub const MAX_BLOB_BYTES: usize = 512 << 10;

/// Most columns that any table has.
pub const MAX_COLUMNS: usize = 17;

/// What a table is called, and how a result deals with it.
pub struct TableHead {
    /// Its name.
    pub name: &'static str,
    /// The version of the format that has it first.
    pub since: u32,
    /// How far a result may fill up before its rows are refused.
    pub room: Room,
}

/// How far a result may fill up before rows of a kind are refused (`writer.rs` has the bounds).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// There may be any number of them: refused first.
    Bulk,
    /// They name or sum up others.
    Names,
    /// Few, and what totals come from: never refused.
    Always,
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    /// Unsigned 64-bit: times, addresses, sizes, counts.
    U64,
    /// Unsigned 32-bit: ids, lines.
    U32,
    /// Signed 32-bit: the kernel's pids.
    I32,
    /// True or false.
    Bool,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Text.
    Text,
    /// Bytes that only Fathom reads; the page about the format says how.
    Bytes,
}

/// How the values of a column behave, which decides its Parquet encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Mostly rising, by small steps: stored as differences.
    Rising,
    /// The same values again and again: stored through a dictionary.
    Repeating,
    /// Each value another: stored as it is.
    Opaque,
}

/// One column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name, the same in every reader; a unit is part of the name (`time_ns`).
    pub name: &'static str,
    /// What it holds.
    pub kind: ColumnKind,
    /// Whether a row may have no value.
    pub nullable: bool,
    /// How its values behave.
    pub shape: Shape,
}

impl Column {
    /// A column that always has a value.
    pub(crate) const fn new(name: &'static str, kind: ColumnKind, shape: Shape) -> Column {
        Column { name, kind, nullable: false, shape }
    }

    /// A column that may be empty.
    pub(crate) const fn nullable(name: &'static str, kind: ColumnKind) -> Column {
        Column { name, kind, nullable: true, shape: Shape::Repeating }
    }
}

/// One value on its way into or out of an encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// Unsigned 64-bit.
    U64(u64),
    /// Unsigned 32-bit.
    U32(u32),
    /// Signed 32-bit.
    I32(i32),
    /// True or false.
    Bool(bool),
    /// Position in the column's list of words.
    Word(u8),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// Why bytes are not a row.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The bytes end inside a row.
    #[error("the data end inside a row")]
    Truncated,
    /// A tag that no table has.
    #[error("a row has the unknown tag {0}")]
    UnknownTag(u8),
    /// A value that its column cannot hold.
    #[error("column {column} of a row holds a value outside its range")]
    OutOfRange {
        /// Position of the column, from 0.
        column: usize,
    },
    /// Text longer than [`MAX_TEXT_BYTES`].
    #[error("a text of {bytes} bytes is longer than {MAX_TEXT_BYTES}")]
    LongText {
        /// Its claimed length.
        bytes: u64,
    },
    /// Bytes longer than [`MAX_BLOB_BYTES`].
    #[error("a cell of {bytes} bytes is longer than {MAX_BLOB_BYTES}")]
    LongBytes {
        /// Their claimed length.
        bytes: u64,
    },
    /// Text that is not UTF-8.
    #[error("a text is not UTF-8")]
    NotUtf8,
}

/// An enum that is stored as a word.
pub trait Word: Copy + 'static {
    /// The words; the position is stored in the journal and is part of the format.
    const WORDS: &'static [&'static str];
    /// Position of this value's word.
    fn position(self) -> u8;
    /// The value at a position.
    fn at(position: u8) -> Option<Self>;
}

/// At most [`MAX_TEXT_BYTES`] of a text.
pub fn clipped(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Takes the cells of one row, in the order of its columns.
pub trait RowSink {
    /// Takes the next cell. `Null` only in nullable columns.
    fn cell(&mut self, cell: Cell<'_>);

    /// An enum as its word.
    fn word<W: Word>(&mut self, value: W) {
        self.cell(Cell::Word(value.position()));
    }

    /// A text, clipped to [`MAX_TEXT_BYTES`].
    fn text(&mut self, text: &str) {
        self.cell(Cell::Text(clipped(text)));
    }

    /// A text or nothing.
    fn optional_text(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.cell(Cell::Null),
        }
    }

    /// A number or nothing.
    fn optional_u32(&mut self, value: Option<u32>) {
        self.cell(value.map_or(Cell::Null, Cell::U32));
    }

    /// A large number or nothing.
    fn optional_u64(&mut self, value: Option<u64>) {
        self.cell(value.map_or(Cell::Null, Cell::U64));
    }

    /// A pid or nothing.
    fn optional_i32(&mut self, value: Option<i32>) {
        self.cell(value.map_or(Cell::Null, Cell::I32));
    }
}

/// Gives the cells of one row, in the order of its columns.
pub trait RowSource {
    /// The next cell.
    fn cell(&mut self) -> Result<Cell<'_>, RowError>;

    /// Position of the cell given last, for errors.
    fn column(&self) -> usize;

    /// A U64 cell.
    fn u64(&mut self) -> Result<u64, RowError> {
        self.optional_u64()?.ok_or_else(|| self.out_of_range())
    }

    /// A U32 cell.
    fn u32(&mut self) -> Result<u32, RowError> {
        self.optional_u32()?.ok_or_else(|| self.out_of_range())
    }

    /// An I32 cell.
    fn i32(&mut self) -> Result<i32, RowError> {
        self.optional_i32()?.ok_or_else(|| self.out_of_range())
    }

    /// A Word cell.
    fn word<W: Word>(&mut self) -> Result<W, RowError> {
        let value = match self.cell()? {
            Cell::Word(position) => W::at(position),
            _ => None,
        };
        value.ok_or_else(|| self.out_of_range())
    }

    /// A Text cell.
    fn text(&mut self) -> Result<String, RowError> {
        self.optional_text()?.ok_or_else(|| self.out_of_range())
    }

    /// A nullable Text cell.
    fn optional_text(&mut self) -> Result<Option<String>, RowError> {
        match self.cell()? {
            Cell::Text(text) => Ok(Some(text.to_owned())),
            Cell::Null => Ok(None),
            _ => Err(self.out_of_range()),
        }
    }

    /// A Bytes cell.
    fn bytes(&mut self) -> Result<Vec<u8>, RowError> {
        match self.cell()? {
            Cell::Bytes(bytes) => Ok(bytes.to_owned()),
            _ => Err(self.out_of_range()),
        }
    }

    /// A nullable U64 cell.
    fn optional_u64(&mut self) -> Result<Option<u64>, RowError> {
        match self.cell()? {
            Cell::U64(value) => Ok(Some(value)),
            Cell::Null => Ok(None),
            _ => Err(self.out_of_range()),
        }
    }

    /// A nullable U32 cell.
    fn optional_u32(&mut self) -> Result<Option<u32>, RowError> {
        match self.cell()? {
            Cell::U32(value) => Ok(Some(value)),
            Cell::Null => Ok(None),
            _ => Err(self.out_of_range()),
        }
    }

    /// A nullable I32 cell.
    fn optional_i32(&mut self) -> Result<Option<i32>, RowError> {
        match self.cell()? {
            Cell::I32(value) => Ok(Some(value)),
            Cell::Null => Ok(None),
            _ => Err(self.out_of_range()),
        }
    }

    /// The error for the cell given last.
    fn out_of_range(&self) -> RowError {
        RowError::OutOfRange { column: self.column() }
    }
}

/// A kind of fact as a row of its table. Every kind in [`facts::every_kind_of_fact`] is one.
pub trait Row: Sized {
    /// Name and the like of its table.
    const HEAD: TableHead;
    /// Its columns, in the order in which `put` gives and `take` takes the cells.
    const COLUMNS: &'static [Column];
    /// Gives the cells of this row.
    fn put<S: RowSink>(&self, row: &mut S);
    /// Builds a row from its cells.
    fn take<S: RowSource>(row: &mut S) -> Result<Self, RowError>;
}
