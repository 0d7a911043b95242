//! What can go wrong with a dataset, in sentences for the user.
//!
//! What not: results (`store` has their errors), engines (cli).

use std::io;
use std::path::{Path, PathBuf};

/// Why a dataset cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// A folder with something else in it.
    #[error("{} is not a dataset: it has files, but no dataset.json; name an empty or a new directory", .path.display())]
    NotADataset {
        /// The directory.
        path: PathBuf,
    },
    /// No folder.
    #[error("there is no dataset {}: `fathom dataset add` creates it", .path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// Written by a later version.
    #[error("{} has version {found} of the dataset's format, this Fathom knows up to {known}: upgrade Fathom to use it", .path.display())]
    Newer {
        /// Its version file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// Ours.
        known: u64,
    },
    /// The version file is not what Fathom wrote.
    #[error("{} is damaged: {what}; write {{\"fathom_dataset\": 1}} into it", .path.display())]
    Damaged {
        /// Its version file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// No room, or a quota reached.
    #[error("no space left to write {}: free some; what was added before is whole, and the same command goes on from there", .path.display())]
    DiskFull {
        /// The file being written.
        path: PathBuf,
    },
    /// A folder of it cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Any other failure to write.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file being written.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl DatasetError {
    /// Classifies a failure to write `path`.
    pub(crate) fn writing(path: &Path, source: io::Error) -> DatasetError {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => DatasetError::DiskFull { path },
            _ => DatasetError::Write { path, source },
        }
    }
}
