//! One Parquet file of a dataset: written under a temporary name, synced, then renamed; and what its footer says.
//!
//! What not: where it goes (`store`). Readers look for `*.parquet`, so they never see a half of one.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use crate::error::DatasetError;
use crate::tables::{ColumnType, TableColumns, VERSION, Value};

const VERSION_KEY: &str = "fathom.dataset";
const STATE_KEY: &str = "fathom.state";

/// What the footer says besides the columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Footer {
    /// Version of the dataset's format that wrote it.
    pub version: u64,
    /// State of the result, see [`crate::Membership`].
    pub state: String,
}

/// Writes `path` by way of `temporary`, which is removed if that fails.
pub fn write(
    path: &Path,
    temporary: &Path,
    table: &TableColumns,
    rows: &[Vec<Value>],
    state: &str,
) -> Result<(), DatasetError> {
    let put = || -> io::Result<()> {
        let file = File::create(temporary)?;
        let file = encode(file, table, rows, state).map_err(kernel_error)?;
        file.inner().sync_all()?;
        fs::rename(temporary, path)?;
        // The name, too, must survive a power cut.
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    put().map_err(|error| {
        let _ = fs::remove_file(temporary);
        DatasetError::writing(path, error)
    })
}

fn encode(
    file: File,
    table: &TableColumns,
    rows: &[Vec<Value>],
    state: &str,
) -> Result<SerializedFileWriter<File>, ParquetError> {
    let field = |(name, kind): (&str, ColumnType)| {
        let (physical, logical) = match kind {
            ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            ColumnType::Real => (Physical::DOUBLE, None),
            ColumnType::Whole => (Physical::INT64, None),
        };
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields = table.columns().map(field).collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder(table.name).with_fields(fields).build()?);
    let pairs = [(VERSION_KEY, VERSION.to_string()), (STATE_KEY, state.to_owned())];
    let properties = WriterProperties::builder()
        .set_created_by(format!("fathom {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(
            pairs.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect(),
        ))
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    if !rows.is_empty() {
        let mut group = writer.next_row_group()?;
        for (at, (_, kind)) in table.columns().enumerate() {
            write_column(&mut group, kind, rows.iter().map(|row| row.get(at)))?;
        }
        group.close()?;
    }
    // Not `into_inner`: it turns what the kernel said into text, and a full disk would not be known as one.
    writer.finish()?;
    Ok(writer)
}

fn write_column<'a>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    kind: ColumnType,
    cells: impl Iterator<Item = Option<&'a Value>> + Clone,
) -> Result<(), ParquetError> {
    let Some(mut writer) = group.next_column()? else {
        return Err(ParquetError::General("a column has no place in the schema".to_owned()));
    };
    let mut defined = Vec::new();
    let (mut texts, mut reals, mut wholes) = (Vec::new(), Vec::new(), Vec::new());
    for cell in cells {
        let before = texts.len() + reals.len() + wholes.len();
        match (kind, cell) {
            (ColumnType::Text, Some(Value::Text(text))) => {
                texts.push(ByteArray::from(text.as_str()));
            }
            (ColumnType::Real, Some(Value::Real(number))) => reals.push(*number),
            (ColumnType::Whole, Some(Value::Whole(number))) => wholes.push(*number),
            (_, cell) => debug_assert!(matches!(cell, Some(Value::Null)), "{kind:?}: {cell:?}"),
        }
        let after = texts.len() + reals.len() + wholes.len();
        defined.push(i16::from(after > before));
    }
    let levels = Some(defined.as_slice());
    match kind {
        ColumnType::Text => writer.typed::<ByteArrayType>().write_batch(&texts, levels, None),
        ColumnType::Real => writer.typed::<DoubleType>().write_batch(&reals, levels, None),
        ColumnType::Whole => writer.typed::<Int64Type>().write_batch(&wholes, levels, None),
    }?;
    writer.close()
}

/// The parquet crate wraps what the kernel said; a full disk needs its own sentence.
fn kernel_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    }
}

/// What is wrong with a file of a table: its footer, or a column of this version that it has with another type. It may lack
/// columns that later versions added. Rows are not read.
pub fn check(path: &Path, table: &TableColumns) -> Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let known: Vec<(&str, ColumnType)> = table.columns().collect();
    for column in schema.columns() {
        let physical = |kind| match kind {
            ColumnType::Text => Physical::BYTE_ARRAY,
            ColumnType::Real => Physical::DOUBLE,
            ColumnType::Whole => Physical::INT64,
        };
        let expected = known.iter().find(|(name, _)| *name == column.name());
        match expected {
            None => return Err(format!("column '{}' is none of this table", column.name())),
            Some((_, kind)) if physical(*kind) != column.physical_type() => {
                return Err(format!("column '{}' has another type", column.name()));
            }
            Some(_) => {}
        }
    }
    match footer(path) {
        Some(footer) if footer.version <= VERSION => Ok(()),
        Some(footer) => Err(format!("version {} of the dataset's format wrote it", footer.version)),
        None => Err("its footer does not say which version of Fathom wrote it".to_owned()),
    }
}

/// The footer of a file; `None` where there is no such file, or it is none of ours.
pub fn footer(path: &Path) -> Option<Footer> {
    let reader = SerializedFileReader::new(File::open(path).ok()?).ok()?;
    let pairs = reader.metadata().file_metadata().key_value_metadata()?;
    let value = |key: &str| pairs.iter().find(|pair| pair.key == key)?.value.clone();
    Some(Footer { version: value(VERSION_KEY)?.parse().ok()?, state: value(STATE_KEY)? })
}
