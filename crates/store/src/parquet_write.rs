//! A table on its way to disk as Parquet: row groups of bounded size, zstd, plain types.
//!
//! Types are those that DuckDB, pandas and Polars read without a hint: UINT_64, UINT_32, INT_32, BOOLEAN and UTF8,
//! BYTE_ARRAY for bytes, OPTIONAL where a fact has an `Option`. Enums are words, through a dictionary.
//! Memory: one row group of at most [`GROUP_BYTES`] plus one row, and its encoded pages.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};

use crate::columns::{ColumnBuffer, TableBuffer, Values, texts};
use crate::crc32::Crc32;
use crate::error::StoreError;
use crate::journal::create_file;
use crate::manifest::TableSeal;
use crate::schema::{Column, ColumnKind, Shape};
use crate::table::Table;

/// A row group ends when its values reach this many bytes or [`GROUP_ROWS`] rows.
const GROUP_BYTES: usize = 2 << 20;
/// A row group ends at this many rows.
pub const GROUP_ROWS: usize = 64 << 10;

/// Level 9 made a recording of 120,000 samples 0.6 % smaller and its conversion 2.8 times as long.
const LEVEL: i32 = 3;

/// A file that counts and checksums what goes into it.
struct SealedFile {
    file: File,
    bytes: u64,
    crc: Crc32,
}

impl Write for SealedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.crc.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The physical and logical type of a column.
pub fn parquet_type(column: &Column) -> (Physical, Option<LogicalType>) {
    match column.kind {
        ColumnKind::U64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
        ColumnKind::U32 => (Physical::INT32, Some(LogicalType::integer(32, false))),
        ColumnKind::I32 => (Physical::INT32, Some(LogicalType::integer(32, true))),
        ColumnKind::Bool => (Physical::BOOLEAN, None),
        ColumnKind::Word(_) | ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnKind::Bytes => (Physical::BYTE_ARRAY, None),
    }
}

fn schema(table: Table) -> Result<Type, ParquetError> {
    let fields = table
        .columns()
        .iter()
        .map(|column| {
            let (physical, logical) = parquet_type(column);
            let repetition =
                if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
            Type::primitive_type_builder(column.name, physical)
                .with_repetition(repetition)
                .with_logical_type(logical)
                .build()
                .map(Arc::new)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder(table.name()).with_fields(fields).build()
}

fn properties(table: Table) -> Result<WriterProperties, ParquetError> {
    let metadata = [
        ("fathom.schema", facts::SCHEMA_VERSION.to_string()),
        ("fathom.table", table.name().to_owned()),
    ];
    let mut builder = WriterProperties::builder()
        .set_created_by(format!("fathom {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // Tables are read whole, so an index of pages would only take room.
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(
            metadata.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect(),
        ));
    if matches!(table, Table::Sample | Table::Fault | Table::MemorySample | Table::EventSample) {
        let by_time = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
        builder = builder.set_sorting_columns(Some(vec![by_time]));
    }
    for column in table.columns() {
        let path = ColumnPath::from(column.name);
        builder = match column.shape {
            Shape::Repeating => builder,
            // Times and ids: their differences take a few bits each, while a dictionary would hold nearly every
            // value.
            Shape::Rising => builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Shape::Opaque => builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path, EnabledStatistics::None),
        };
    }
    Ok(builder.build())
}

/// Writes one table.
pub struct TableWriter {
    path: PathBuf,
    file: SerializedFileWriter<SealedFile>,
    buffer: TableBuffer,
    rows: u64,
}

impl TableWriter {
    /// Starts the table's file in `directory`.
    pub fn create(directory: &Path, table: Table) -> Result<TableWriter, StoreError> {
        let path = directory.join(table.file_name());
        let file = SealedFile { file: create_file(&path)?, bytes: 0, crc: Crc32::new() };
        let start = || {
            let schema = Arc::new(schema(table)?);
            SerializedFileWriter::new(file, schema, Arc::new(properties(table)?))
        };
        let file = start().map_err(|error| write_error(&path, error))?;
        Ok(TableWriter { path, file, buffer: TableBuffer::new(table.columns()), rows: 0 })
    }

    /// Adds the row of this table whose cells `put` gives.
    pub fn push(&mut self, put: impl FnOnce(&mut TableBuffer)) -> Result<(), StoreError> {
        put(&mut self.buffer);
        self.buffer.end_put();
        self.rows += 1;
        if self.buffer.rows() >= GROUP_ROWS || self.buffer.bytes() >= GROUP_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), StoreError> {
        let result = write_group(&mut self.file, &self.buffer);
        self.buffer.clear();
        result.map_err(|error| write_error(&self.path, error))
    }

    /// Writes the rest and the footer.
    pub fn finish(mut self) -> Result<TableSeal, StoreError> {
        if self.buffer.rows() > 0 {
            self.write_group()?;
        }
        // Not `into_inner`: it turns what the kernel said into text.
        self.file.finish().map_err(|error| write_error(&self.path, error))?;
        let sealed = self.file.inner();
        // The journal is going to be removed: a power cut after that must not find empty tables.
        sealed.file.sync_data().map_err(|source| StoreError::writing(&self.path, source))?;
        Ok(TableSeal { rows: self.rows, bytes: sealed.bytes, crc32: sealed.crc.value() })
    }
}

fn write_group(
    file: &mut SerializedFileWriter<SealedFile>,
    buffer: &TableBuffer,
) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    for column in &buffer.columns {
        let Some(mut writer) = group.next_column()? else {
            return Err(ParquetError::General("a column has no place in the schema".to_owned()));
        };
        write_column(&mut writer, column)?;
        writer.close()?;
    }
    group.close()?;
    Ok(())
}

fn write_column(
    writer: &mut SerializedColumnWriter<'_>,
    column: &ColumnBuffer,
) -> Result<(), ParquetError> {
    let levels = column.column.nullable.then_some(&column.defined[..]);
    match (&column.values, column.column.kind) {
        (Values::Long(values), _) => writer.typed::<Int64Type>().write_batch(values, levels, None),
        (Values::Int(values), _) => writer.typed::<Int32Type>().write_batch(values, levels, None),
        (Values::Bool(values), _) => writer.typed::<BoolType>().write_batch(values, levels, None),
        (Values::Word(positions), ColumnKind::Word(words)) => {
            let words: Vec<ByteArray> = words.iter().map(|&word| ByteArray::from(word)).collect();
            let values: Vec<ByteArray> =
                positions.iter().map(|&position| words[usize::from(position)].clone()).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, levels, None)
        }
        (Values::Word(_), _) => Ok(0),
        (Values::Text(text, ends), _) => {
            let values: Vec<ByteArray> = texts(text, ends).map(ByteArray::from).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, levels, None)
        }
        (Values::Bytes(cells), _) => {
            let values: Vec<ByteArray> = cells.iter().cloned().map(ByteArray::from).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, levels, None)
        }
    }
    .map(drop)
}

/// The parquet crate wraps what the kernel said; dig it out, because "disk full" needs its own sentence.
fn write_error(path: &Path, error: ParquetError) -> StoreError {
    let source = match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    };
    StoreError::writing(path, source)
}

/// Removes whatever tables stand in `directory`; best effort, for a conversion that failed.
pub fn remove_tables(directory: &Path) {
    for table in Table::ALL {
        let _ = fs::remove_file(directory.join(table.file_name()));
    }
}
