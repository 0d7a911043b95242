//! A Parquet table back into rows. The file is hostile until proven otherwise.
//!
//! What bounds the damage a file can do: the footer must describe exactly our columns; a column chunk must lie in
//! the file; pages are bounded by `pages.rs`; rows are bounded by the file's size ([`row_bound`]) and texts by
//! [`text_bound`]. What the parquet crate does with bytes inside those bounds may still be a panic (its decoders
//! assert), so that the reading of a table is wrapped in `catch_unwind`.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::basic::Compression;
use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};

use crate::columns::{ColumnBuffer, TableBuffer, Values};
use crate::crc32::Crc32;
use crate::error::{Problem, StoreError};
use crate::manifest::TableSeal;
use crate::pages::CheckedPages;
use crate::parquet_write::{GROUP_ROWS, parquet_type};
use crate::schema::{ColumnKind, MAX_BLOB_BYTES, MAX_TEXT_BYTES, Row};
use crate::upgrade::lacks_later_columns_only;

/// Most rows that a file of this size can honestly hold. Times alone take more than a bit per row in any real
/// recording; synthetic ones with equal rows get the constant.
fn row_bound(file_bytes: u64) -> u64 {
    (1 << 20) + file_bytes.saturating_mul(16)
}

/// Most bytes of text, or of cells of bytes, that a file of this size can honestly hold: repeated names compress very well.
fn text_bound(file_bytes: u64) -> u64 {
    (16 << 20) + file_bytes.saturating_mul(1024)
}

/// Reads all rows of a table.
///
/// # Errors
/// `Damaged` when the file is missing, foreign or broken; `Read` when the kernel refuses.
/// A file that differs from its seal but still reads is a [`Problem`].
pub fn read_table<R: Row>(
    directory: &Path,
    file_name: &str,
    seal: Option<&TableSeal>,
    problems: &mut Vec<Problem>,
) -> Result<Vec<R>, StoreError> {
    let path = directory.join(file_name);
    let file = File::open(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => StoreError::damaged(&path, "the file is missing"),
        _ => StoreError::reading(&path, error),
    })?;
    let metadata = file.metadata().map_err(|error| StoreError::reading(&path, error))?;
    if !metadata.is_file() {
        return Err(StoreError::damaged(&path, "it is not a regular file"));
    }
    let what = compare_with_seal(&file, metadata.len(), seal)
        .map_err(|error| StoreError::reading(&path, error))?;
    // AssertUnwindSafe: a panic leaves nothing that is used again; rows read until then are dropped.
    let rows = catch_unwind(AssertUnwindSafe(|| read_rows::<R>(&file, metadata.len())))
        .unwrap_or_else(|_| Err(damaged("its pages do not decode")))
        .map_err(|error| StoreError::damaged(&path, error.to_string()))?;
    let what = what.or_else(|| {
        seal.filter(|seal| seal.rows != rows.len() as u64)
            .map(|seal| format!("{} rows instead of {}", rows.len(), seal.rows))
    });
    if let Some(what) = what {
        problems.push(Problem::Changed { file: file_name.to_owned(), what });
    }
    Ok(rows)
}

/// What differs from the seal, in words.
fn compare_with_seal(
    file: &File,
    bytes: u64,
    seal: Option<&TableSeal>,
) -> std::io::Result<Option<String>> {
    let Some(seal) = seal else { return Ok(Some("run.json does not list it".to_owned())) };
    if seal.bytes != bytes {
        return Ok(Some(format!("{bytes} bytes instead of {}", seal.bytes)));
    }
    let mut crc = Crc32::new();
    let mut buffer = vec![0; 64 << 10];
    let mut reader = file;
    loop {
        let length = reader.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        crc.update(&buffer[..length]);
    }
    Ok((crc.value() != seal.crc32)
        .then(|| format!("CRC-32 {:08x} instead of {:08x}", crc.value(), seal.crc32)))
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

fn read_rows<R: Row>(file: &File, file_bytes: u64) -> Result<Vec<R>, ParquetError> {
    let metadata = ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Skip)
        .parse_and_finish(file)?;
    check_columns::<R>(&metadata)?;
    // Over all groups: a footer of some kilobytes can list thousands of them.
    let mut rows_left = row_bound(file_bytes);
    let mut text_left = text_bound(file_bytes);
    let mut rows = Vec::new();
    for group in metadata.row_groups() {
        let count = u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
        rows_left = rows_left
            .checked_sub(count)
            .filter(|_| count <= GROUP_ROWS as u64)
            .ok_or_else(|| damaged(&format!("it claims {count} rows in a group")))?;
        read_group(file, file_bytes, group, &mut rows, &mut text_left)?;
    }
    Ok(rows)
}

fn check_columns<R: Row>(metadata: &ParquetMetaData) -> Result<(), ParquetError> {
    let schema = metadata.file_metadata().schema_descr();
    let same = lacks_later_columns_only(schema.num_columns(), R::COLUMNS)
        && schema.columns().iter().zip(R::COLUMNS).all(|(found, expected)| {
            found.path().parts() == [expected.name]
                && found.physical_type() == parquet_type(expected).0
                && found.max_def_level() <= i16::from(expected.nullable)
                && found.max_rep_level() == 0
        });
    if same { Ok(()) } else { Err(damaged("its columns are not those of this table")) }
}

fn read_group<R: Row>(
    file: &File,
    file_bytes: u64,
    group: &RowGroupMetaData,
    rows: &mut Vec<R>,
    text_left: &mut u64,
) -> Result<(), ParquetError> {
    let count = usize::try_from(group.num_rows()).map_err(|_| damaged("it has negative rows"))?;
    if group.num_columns() > R::COLUMNS.len() {
        return Err(damaged("a row group has more columns than its table"));
    }
    let mut buffer = TableBuffer::new(R::COLUMNS);
    // Columns that this version of the table did not have: every row is without a value.
    for later in buffer.columns.iter_mut().skip(group.num_columns()) {
        later.defined = vec![0; count];
    }
    for (column, chunk) in buffer.columns.iter_mut().zip(group.columns()) {
        let pages = CheckedPages::new(chunk_bytes(file, file_bytes, chunk)?, count)?;
        read_column(column, chunk, Box::new(pages), count, text_left)?;
        // A column that could not be NULL in an earlier version.
        if column.column.nullable && chunk.column_descr().max_def_level() == 0 {
            column.defined = vec![1; count];
        }
    }
    if !buffer.filled(count) {
        return Err(damaged("its columns have different lengths"));
    }
    rows.try_reserve(count).map_err(|_| damaged("it needs more memory than there is"))?;
    for _ in 0..count {
        rows.push(R::take(&mut buffer).map_err(|error| ParquetError::External(Box::new(error)))?);
        buffer.end_take();
    }
    Ok(())
}

/// The bytes of a column chunk, which must lie in the file.
fn chunk_bytes(
    file: &File,
    file_bytes: u64,
    chunk: &ColumnChunkMetaData,
) -> Result<Vec<u8>, ParquetError> {
    if !matches!(chunk.compression(), Compression::ZSTD(_)) {
        return Err(damaged("a column is not compressed with zstd"));
    }
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let range = u64::try_from(start)
        .ok()
        .zip(u64::try_from(chunk.compressed_size()).ok())
        .filter(|(start, length)| start.checked_add(*length).is_some_and(|end| end <= file_bytes));
    let Some((start, length)) = range else {
        return Err(damaged("a column lies outside the file"));
    };
    let mut bytes = Vec::new();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(length).map_err(|_| damaged("it needs more memory than there is"))?;
    bytes.resize(length, 0);
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

fn read_column(
    column: &mut ColumnBuffer,
    chunk: &ColumnChunkMetaData,
    pages: Box<dyn PageReader>,
    rows: usize,
    text_left: &mut u64,
) -> Result<(), ParquetError> {
    let levels = &mut column.defined;
    match &mut column.values {
        Values::Long(values) => read_values::<Int64Type>(chunk, pages, rows, levels, values),
        Values::Int(values) => read_values::<Int32Type>(chunk, pages, rows, levels, values),
        Values::Bool(values) => read_values::<BoolType>(chunk, pages, rows, levels, values),
        Values::Word(positions) => {
            let ColumnKind::Word(words) = column.column.kind else { return Ok(()) };
            let mut found = Vec::new();
            read_values::<ByteArrayType>(chunk, pages, rows, levels, &mut found)?;
            word_positions(words, &found, positions)
        }
        Values::Text(all, ends) => {
            let mut found = Vec::new();
            read_values::<ByteArrayType>(chunk, pages, rows, levels, &mut found)?;
            collect_texts(&found, all, ends, text_left)
        }
        Values::Bytes(cells) => {
            let mut found = Vec::new();
            read_values::<ByteArrayType>(chunk, pages, rows, levels, &mut found)?;
            for value in &found {
                take_from(text_left, value.data(), MAX_BLOB_BYTES)?;
                cells.push(value.data().to_owned());
            }
            Ok(())
        }
    }
}

fn read_values<T: DataType>(
    chunk: &ColumnChunkMetaData,
    pages: Box<dyn PageReader>,
    rows: usize,
    levels: &mut Vec<i16>,
    values: &mut Vec<T::T>,
) -> Result<(), ParquetError> {
    let mut reader = ColumnReaderImpl::<T>::new(chunk.column_descr_ptr(), pages);
    let (records, _, _) = reader.read_records(rows, Some(levels), None, values)?;
    if records == rows { Ok(()) } else { Err(damaged("a column ends before its last row")) }
}

fn word_positions(
    words: &[&str],
    found: &[ByteArray],
    positions: &mut Vec<u8>,
) -> Result<(), ParquetError> {
    positions.reserve(found.len());
    for value in found {
        let position = words.iter().position(|word| word.as_bytes() == value.data());
        positions.push(position.ok_or_else(|| damaged("a column holds an unknown word"))? as u8);
    }
    Ok(())
}

fn collect_texts(
    found: &[ByteArray],
    all: &mut String,
    ends: &mut Vec<usize>,
    text_left: &mut u64,
) -> Result<(), ParquetError> {
    for value in found {
        let text = std::str::from_utf8(value.data()).map_err(|_| damaged("a text is not UTF-8"))?;
        take_from(text_left, value.data(), MAX_TEXT_BYTES)?;
        all.push_str(text);
        ends.push(all.len());
    }
    Ok(())
}

/// Takes the length of one cell, at most `most`, from what a table of this size may hold.
fn take_from(text_left: &mut u64, cell: &[u8], most: usize) -> Result<(), ParquetError> {
    *text_left = text_left
        .checked_sub(cell.len() as u64)
        .filter(|_| cell.len() <= most)
        .ok_or_else(|| damaged("it holds more text than Fathom writes"))?;
    Ok(())
}
