//! A dataset in an S3 store, by way of a folder of this machine.
//!
//! ```text
//! store ── dataset.json, the file of `runs` ──> folder ── the files of a result, `runs` last ──> store
//! ```
//! What for: what a dataset is, and when a result is in it, is said once, of folders (`dataset`). A store takes each object whole or
//! not at all, so that a killed process leaves what it would leave in a folder. What not: requests (`s3`).

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ::dataset::{Dataset, DatasetError, Identity, Membership, Rows, VERSION_FILE};
use facts::RunState;

use crate::exit::{CANNOT_MEASURE, Failure, USAGE};
use crate::s3::{Bucket, StoreError};

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Failure> {
        let path = std::env::temp_dir().join(format!("fathom-dataset-{}", std::process::id()));
        // Command lines may be secret.
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            let error = anyhow::anyhow!("cannot make {}: {error}", path.display());
            Failure::new(CANNOT_MEASURE, error)
        })?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A dataset in a store.
pub struct Stored {
    bucket: Bucket,
    folder: Folder,
    dataset: Dataset,
}

impl Stored {
    /// Opens one to add to it; makes it where there is nothing.
    pub fn create(bucket: Bucket) -> Result<Stored, Failure> {
        let folder = Folder::new()?;
        let version = bucket.get(VERSION_FILE).map_err(failure)?;
        if let Some(version) = &version {
            put(&folder.0.join(VERSION_FILE), version)?;
        } else if let Some(other) = others(&bucket)? {
            let error =
                format!("{} is not a dataset: it has {other}, but no {VERSION_FILE}", bucket.name);
            return Err(Failure::usage(error).hint("name an empty or a new prefix"));
        }
        let dataset =
            Dataset::create(&folder.0).map_err(|error| said_of(&bucket, &folder, error))?;
        let stored = Stored { bucket, folder, dataset };
        let new = fs::read(stored.folder.0.join(VERSION_FILE)).unwrap_or_default();
        if version.as_ref() != Some(&new) {
            // The version is the last: a store that has it has a file of each table.
            for file in stored.dataset.schema_files().iter().chain([&PathBuf::from(VERSION_FILE)]) {
                stored.send(file)?;
            }
        }
        Ok(stored)
    }

    /// Sees that one is there which this version can read.
    pub fn check(bucket: &Bucket) -> Result<(), Failure> {
        let folder = Folder::new()?;
        let Some(version) = bucket.get(VERSION_FILE).map_err(failure)? else {
            let error =
                format!("there is no dataset {}: `fathom dataset add` creates it", bucket.name);
            return Err(Failure::usage(error));
        };
        put(&folder.0.join(VERSION_FILE), &version)?;
        Dataset::open(&folder.0).map(drop).map_err(|error| said_of(bucket, &folder, error))
    }

    /// Whether a result is there already.
    pub fn holds(&self, identity: &Identity, state: RunState) -> Result<Membership, Failure> {
        let files = self.dataset.files(identity);
        let Some(runs) = files.last() else { return Ok(Membership::No) };
        let Some(bytes) = self.bucket.get(&name(runs)).map_err(failure)? else {
            return Ok(Membership::No);
        };
        put(&self.folder.0.join(runs), &bytes)?;
        Ok(self.dataset.holds(identity, state))
    }

    /// Adds a result, of which the store holds what `held` says.
    pub fn add(
        &self,
        identity: &Identity,
        rows: &Rows,
        state: RunState,
        held: Membership,
    ) -> Result<(), Failure> {
        let said = |error| said_of(&self.bucket, &self.folder, error);
        self.dataset.add(identity, rows, state).map_err(said)?;
        for file in self.dataset.files(identity) {
            let here = self.folder.0.join(&file);
            if here.is_file() {
                self.send(&file)?;
                let _ = fs::remove_file(here);
            } else if held != Membership::No {
                self.bucket.remove(&name(&file)).map_err(failure)?;
            }
        }
        Ok(())
    }

    /// Keeps the reason why a result was left out.
    pub fn quarantine(&self, result: &Path, reason: &str) -> Result<(), Failure> {
        let said = |error| said_of(&self.bucket, &self.folder, error);
        let file = self.dataset.quarantine(result, reason).map_err(said)?;
        self.send(file.strip_prefix(&self.folder.0).unwrap_or(&file))
    }

    /// Forgets that a result was left out.
    pub fn release(&self, result: &Path) -> Result<(), Failure> {
        let file = self.dataset.quarantine_file(result);
        let file = file.strip_prefix(&self.folder.0).unwrap_or(&file);
        self.bucket.remove(&name(file)).map_err(failure)
    }

    fn send(&self, file: &Path) -> Result<(), Failure> {
        let here = self.folder.0.join(file);
        let bytes = fs::read(&here).map_err(|error| {
            let error = anyhow::anyhow!("cannot read {}: {error}", here.display());
            Failure::new(CANNOT_MEASURE, error)
        })?;
        self.bucket.put(&name(file), &bytes).map_err(failure)
    }
}

/// An object that is none of a dataset which a killed process began.
fn others(bucket: &Bucket) -> Result<Option<String>, Failure> {
    let names = bucket.first_names(100).map_err(failure)?;
    let is_schema =
        |name: &String| name.rsplit('/').next().is_some_and(|end| end.starts_with("schema-"));
    Ok(names.into_iter().find(|name| !is_schema(name)))
}

/// A path as the name of an object.
fn name(file: &Path) -> String {
    file.to_string_lossy().into_owned()
}

fn put(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).and_then(|()| fs::write(file, bytes)).map_err(|error| {
        let error = anyhow::anyhow!("cannot write {}: {error}", file.display());
        Failure::new(CANNOT_MEASURE, error)
    })
}

/// What a dataset says of the folder is meant of the store.
fn said_of(bucket: &Bucket, folder: &Folder, error: DatasetError) -> Failure {
    let here = folder.0.display().to_string();
    super::failure(error).renamed(&here, &bucket.name)
}

/// The failure of a store.
pub fn failure(error: StoreError) -> Failure {
    let code = match &error {
        StoreError::Refused(_) => USAGE,
        StoreError::Away(_) => CANNOT_MEASURE,
    };
    Failure::new(code, error)
}
