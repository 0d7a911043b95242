//! `run.json`: the manifest, always replaced as a whole.
//!
//! It holds `facts::Run` and, once the recording is complete, one seal per table (rows, bytes, CRC-32), so that a
//! table that was cut, exchanged or damaged is noticed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use facts::{Run, RunState};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::journal::{check_schema, create_file};

/// The manifest's name in the result directory.
pub const MANIFEST_FILE: &str = "run.json";
const TEMPORARY_FILE: &str = "run.json.new";

/// A manifest with thousands of calibration points stays far below this.
const LIMIT_BYTES: u64 = 16 << 20;

/// What a table's file held when it was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TableSeal {
    /// Rows.
    pub rows: u64,
    /// Size of the file.
    pub bytes: u64,
    /// CRC-32 of the file (as zlib computes it).
    pub crc32: u32,
}

/// The content of `run.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// What every reader wants.
    #[serde(flatten)]
    pub run: Run,
    /// One entry per table; empty while the recording is incomplete.
    #[serde(default)]
    pub tables: BTreeMap<String, TableSeal>,
}

/// Only the version: the rest of a newer manifest may look different.
#[derive(Deserialize)]
struct VersionOnly {
    schema: u32,
}

/// What a result says about itself, without its tables.
///
/// # Errors
/// As [`crate::open`].
pub fn read_run(directory: &Path) -> Result<Run, StoreError> {
    read(directory).map(|manifest| manifest.run)
}

/// Replaces what a closed recording says about itself (the machine's figures, measured after the program) and keeps
/// its tables and their seals.
///
/// # Errors
/// When the manifest cannot be read or written; it is then as it was.
pub fn replace_run(directory: &Path, run: &Run) -> Result<(), StoreError> {
    let tables = read(directory)?.tables;
    write(directory, &Manifest { run: run.clone(), tables }).map(|_| ())
}

/// Writes the manifest; a reader sees the old one or the new one. Returns its size.
///
/// One that says "complete" is on the disk when this returns, because the journal is removed next.
pub fn write(directory: &Path, manifest: &Manifest) -> Result<u64, StoreError> {
    let path = directory.join(MANIFEST_FILE);
    let temporary = directory.join(TEMPORARY_FILE);
    let put = || -> io::Result<u64> {
        let mut text = serde_json::to_vec_pretty(manifest)?;
        text.push(b'\n');
        let mut file = create_file(&temporary).map_err(io::Error::other)?;
        file.write_all(&text)?;
        if manifest.run.state == RunState::Complete {
            file.sync_data()?;
        }
        fs::rename(&temporary, &path)?;
        if manifest.run.state == RunState::Complete {
            // The new name is content of the directory, which is synced on its own (fsync(2)).
            File::open(directory)?.sync_all()?;
        }
        Ok(text.len() as u64)
    };
    put().map_err(|source| {
        // The old manifest remains valid; a leftover would only confuse.
        let _ = fs::remove_file(&temporary);
        match source.downcast::<StoreError>() {
            Ok(error) => error,
            Err(source) => StoreError::writing(&path, source),
        }
    })
}

/// Reads and checks the manifest.
pub fn read(directory: &Path) -> Result<Manifest, StoreError> {
    let path = directory.join(MANIFEST_FILE);
    let text = match read_bounded(&path) {
        Ok(text) => text,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Err(StoreError::NotAResult { path: directory.to_owned() });
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(StoreError::damaged(&path, error.to_string()));
        }
        Err(error) => return Err(StoreError::reading(&path, error)),
    };
    let broken = |error: serde_json::Error| StoreError::damaged(&path, error.to_string());
    let version: VersionOnly = serde_json::from_slice(&text).map_err(broken)?;
    check_schema(&path, version.schema)?;
    serde_json::from_slice(&text).map_err(broken)
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > LIMIT_BYTES {
        let what = format!("it is not a regular file of at most {LIMIT_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let mut text = Vec::new();
    file.take(LIMIT_BYTES).read_to_end(&mut text)?;
    Ok(text)
}
