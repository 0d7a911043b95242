//! The folder of a dataset: makes it, adds a result, keeps the reasons why others were left out.
//!
//! ```text
//! DATASET/dataset.json                                             the version
//! DATASET/TABLE/date=D/host=H/job=J/rank=R/analysis=A/RUN.parquet  the rows of one result
//! DATASET/TABLE/date=.../schema-V.parquet                          no rows: every table has a file with all columns
//! DATASET/quarantine/NAME.json                                     a result that was left out, and why
//! ```
//! The file of `runs` is the last that a result gets: a result without it is not in the dataset, and questions join `runs`.
//! What a killed process left is overwritten when the same result is added again.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use facts::RunState;
use serde_json::{Value as Json, json};

use crate::error::DatasetError;
use crate::identity::{Identity, UNKNOWN};
use crate::parquet_file::{self, Footer};
use crate::rows::Rows;
use crate::tables::{PARTITIONS, TABLES, TableColumns, VERSION};

/// Its version file.
pub const VERSION_FILE: &str = "dataset.json";
const QUARANTINE: &str = "quarantine";
const VERSION_FIELD: &str = "fathom_dataset";

/// What [`Dataset::verify`] saw.
#[derive(Debug, Default)]
pub struct Verified {
    /// Results that are whole.
    pub results: usize,
    /// Results that were left out.
    pub quarantined: usize,
    /// Files that cannot be read, and why.
    pub damaged: Vec<(PathBuf, String)>,
    /// Files of results that a killed process did not finish: no question reads them.
    pub leftovers: Vec<PathBuf>,
}

/// A dataset that this version can read and add to.
#[derive(Debug)]
pub struct Dataset {
    path: PathBuf,
}

/// Whether a result is in the dataset already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Membership {
    /// It is not.
    No,
    /// It is, as it would be added now.
    Whole,
    /// It is, but what is added now has more: it was incomplete, or an earlier version added it.
    Less,
}

impl Dataset {
    /// Opens one.
    ///
    /// # Errors
    /// When it is not there, newer or damaged.
    pub fn open(path: &Path) -> Result<Dataset, DatasetError> {
        let file = path.join(VERSION_FILE);
        let damaged = |what: String| DatasetError::Damaged { path: file.clone(), what };
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = path.to_owned();
                let is_there = path.is_dir();
                return Err(match is_there {
                    true => DatasetError::NotADataset { path },
                    false => DatasetError::Missing { path },
                });
            }
            Err(error) => return Err(damaged(error.to_string())),
        };
        let content: Json =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let version = content[VERSION_FIELD].as_u64();
        let found = version.ok_or_else(|| damaged("it names no version".to_owned()))?;
        if found > VERSION {
            return Err(DatasetError::Newer { path: file, found, known: VERSION });
        }
        let dataset = Dataset { path: path.to_owned() };
        Ok(dataset)
    }

    /// Opens one to add to it; makes it where the directory is empty or not there, and raises its version.
    ///
    /// # Errors
    /// As [`Dataset::open`], and when it cannot be written.
    pub fn create(path: &Path) -> Result<Dataset, DatasetError> {
        let dataset = match Dataset::open(path) {
            // Another process may have made it since: its version is there before anything else.
            Err(DatasetError::NotADataset { .. }) if !is_empty(path) => Dataset::open(path)?,
            Err(DatasetError::NotADataset { .. } | DatasetError::Missing { .. }) => {
                Dataset { path: path.to_owned() }
            }
            opened => opened?,
        };
        // Before the tables: a directory that got only some of them is a dataset to go on with.
        let version = json!({ VERSION_FIELD: VERSION, "partitions": PARTITIONS });
        make_folder(path)?;
        replace(&path.join(VERSION_FILE), &version)?;
        for table in &TABLES {
            let file = dataset.schema_file(table);
            if !file.exists() {
                dataset.write(&file, table, &[], "")?;
            }
        }
        Ok(dataset)
    }

    fn folder(&self, table: &TableColumns, parts: &[String; 5]) -> PathBuf {
        let folder = self.path.join(table.name);
        PARTITIONS
            .iter()
            .zip(parts)
            .fold(folder, |folder, (name, value)| folder.join(format!("{name}={value}")))
    }

    fn file(&self, table: &TableColumns, identity: &Identity) -> PathBuf {
        self.folder(table, &identity.parts).join(format!("{}.parquet", identity.run))
    }

    /// Where the files of a result are, below the dataset's folder; that of `runs` is the last.
    #[must_use]
    pub fn files(&self, identity: &Identity) -> Vec<PathBuf> {
        let files = TABLES.iter().map(|table| self.file(table, identity));
        files.map(|file| self.below(&file)).collect()
    }

    /// Where the files without rows are.
    #[must_use]
    pub fn schema_files(&self) -> Vec<PathBuf> {
        TABLES.iter().map(|table| self.below(&self.schema_file(table))).collect()
    }

    fn below(&self, file: &Path) -> PathBuf {
        file.strip_prefix(&self.path).unwrap_or(file).to_owned()
    }

    fn schema_file(&self, table: &TableColumns) -> PathBuf {
        let nowhere = PARTITIONS.map(|_| UNKNOWN.to_owned());
        self.folder(table, &nowhere).join(format!("schema-{VERSION}.parquet"))
    }

    /// Whether a result is there already.
    #[must_use]
    pub fn holds(&self, identity: &Identity, state: RunState) -> Membership {
        let [.., runs] = &TABLES;
        match parquet_file::footer(&self.file(runs, identity)) {
            None => Membership::No,
            Some(Footer { version, .. }) if version < VERSION => Membership::Less,
            Some(Footer { state: held, .. }) => {
                let gains = held == state_name(RunState::Incomplete) && state == RunState::Complete;
                if gains { Membership::Less } else { Membership::Whole }
            }
        }
    }

    /// Adds a result: each file at once, the one of `runs` last.
    ///
    /// # Errors
    /// When a file cannot be written. The dataset is then as it was, but for files that no question reads.
    pub fn add(
        &self,
        identity: &Identity,
        rows: &Rows,
        state: RunState,
    ) -> Result<(), DatasetError> {
        for table in &TABLES {
            let file = self.file(table, identity);
            match rows.of(table) {
                // Of one that was incomplete.
                [] => drop(fs::remove_file(&file)),
                found => self.write(&file, table, found, state_name(state))?,
            }
        }
        Ok(())
    }

    fn write(
        &self,
        file: &Path,
        table: &TableColumns,
        rows: &[Vec<crate::Value>],
        state: &str,
    ) -> Result<(), DatasetError> {
        make_folder(file.parent().unwrap_or(&self.path))?;
        // Readers of Spark skip names with a dot in front, those of others take `*.parquet`.
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let temporary = file.with_file_name(format!(".{name}.{}.new", std::process::id()));
        remove_leftovers(file, &name);
        parquet_file::write(file, &temporary, table, rows, state)
    }

    /// Keeps the reason why a result was left out. The result stays as it is.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn quarantine(&self, result: &Path, reason: &str) -> Result<PathBuf, DatasetError> {
        let file = self.quarantine_file(result);
        make_folder(&self.path.join(QUARANTINE))?;
        let version = env!("CARGO_PKG_VERSION");
        let result = result.display().to_string();
        replace(&file, &json!({ "result": result, "reason": reason, "fathom_version": version }))?;
        Ok(file)
    }

    /// Forgets that a result was left out.
    pub fn release(&self, result: &Path) {
        let _ = fs::remove_file(self.quarantine_file(result));
    }

    /// Looks at all files.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn verify(&self) -> Result<Verified, DatasetError> {
        let mut found = Verified::default();
        let [others @ .., runs] = &TABLES;
        let mut whole = BTreeSet::new();
        for table in [runs].into_iter().chain(others) {
            let root = self.path.join(table.name);
            let mut files = Vec::new();
            files_below(&root, PARTITIONS.len(), &mut files)
                .map_err(|source| DatasetError::Read { path: root.clone(), source })?;
            files.sort();
            for file in files {
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let inside = file.strip_prefix(&root).unwrap_or(&file).to_owned();
                if name.ends_with(".new") {
                    found.leftovers.push(file);
                    continue;
                }
                match parquet_file::check(&file, table) {
                    Err(what) => found.damaged.push((file, what)),
                    Ok(()) if name.starts_with("schema-") => {}
                    Ok(()) if table.name == runs.name => drop(whole.insert(inside)),
                    Ok(()) if whole.contains(&inside) => {}
                    Ok(()) => found.leftovers.push(file),
                }
            }
        }
        found.results = whole.len();
        let quarantine = self.path.join(QUARANTINE);
        found.quarantined = fs::read_dir(quarantine).map_or(0, Iterator::count);
        Ok(found)
    }

    /// Where the reason is kept why a result was left out.
    #[must_use]
    pub fn quarantine_file(&self, result: &Path) -> PathBuf {
        let name = crate::identity::file_name(&result.to_string_lossy());
        self.path.join(QUARANTINE).join(format!("{name}.json"))
    }
}

/// All files this many folders below.
fn files_below(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true if depth > 0 => files_below(&path, depth - 1, files)?,
            true => {}
            false => files.push(path),
        }
    }
    Ok(())
}

fn state_name(state: RunState) -> &'static str {
    match state {
        RunState::Complete => "complete",
        RunState::Incomplete => "incomplete",
    }
}

/// Whether the folder holds only what a process left that was killed while it made a dataset.
fn is_empty(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.filter_map(Result::ok).all(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let process = name.strip_prefix(VERSION_FILE).and_then(|rest| rest.strip_suffix(".new"));
        process.is_some_and(|process| {
            if is_gone(process.trim_start_matches('.')) {
                let _ = fs::remove_file(entry.path());
            }
            true
        })
    })
}

/// Whether no process has this number.
fn is_gone(process: &str) -> bool {
    process != "self" && !Path::new("/proc").join(process).exists()
}

fn make_folder(folder: &Path) -> Result<(), DatasetError> {
    fs::create_dir_all(folder).map_err(|error| DatasetError::writing(folder, error))
}

/// Removes temporary files of this name whose process is gone.
fn remove_leftovers(file: &Path, name: &str) {
    let start = format!(".{name}.");
    let entries = file.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in entries.into_iter().flatten().filter_map(Result::ok) {
        let found = entry.file_name();
        let found = found.to_string_lossy();
        let process = found.strip_prefix(&start).and_then(|rest| rest.strip_suffix(".new"));
        if process.is_some_and(is_gone) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A small JSON file, at once.
fn replace(path: &Path, content: &Json) -> Result<(), DatasetError> {
    let temporary = path.with_extension(format!("json.{}.new", std::process::id()));
    let put = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(format!("{content:#}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    put().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        DatasetError::writing(path, error)
    })
}
