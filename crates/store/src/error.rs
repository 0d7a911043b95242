//! What can go wrong with a result directory, in sentences for the user.
//!
//! What not: printing them (`cli`).

use std::io;
use std::path::{Path, PathBuf};

/// Why a result cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The path is taken.
    #[error("{} exists already: a result is never overwritten; choose another directory or remove it", .path.display())]
    Exists {
        /// The path asked for.
        path: PathBuf,
    },
    /// The directory cannot be made.
    #[error("cannot create the result directory {}: {source}", .path.display())]
    Create {
        /// The path asked for.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// No room, or a quota or file size limit reached.
    #[error("no space left to write {}: free some or choose another disk; what was collected before is kept and opens as an incomplete result", .path.display())]
    DiskFull {
        /// The file being written.
        path: PathBuf,
    },
    /// The directory or its journal was removed under us.
    #[error("{} was removed while it was being written: the rest of this recording cannot be kept", .path.display())]
    Vanished {
        /// The file being written.
        path: PathBuf,
    },
    /// Any other failure to write.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file being written.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A failure to read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file being read.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The directory has no manifest.
    #[error("{} is not a result of Fathom: it has no run.json", .path.display())]
    NotAResult {
        /// The directory.
        path: PathBuf,
    },
    /// Written by a later version.
    #[error("{} has format version {found}, this Fathom reads up to {known}: upgrade Fathom to open it", .path.display())]
    Newer {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// The content is not what Fathom wrote.
    #[error("{} is damaged: {what}; restore it from a copy or record again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
}

impl StoreError {
    /// Classifies a failure to write `path`.
    pub(crate) fn writing(path: &Path, source: io::Error) -> StoreError {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => StoreError::DiskFull { path },
            io::ErrorKind::NotFound => StoreError::Vanished { path },
            _ => StoreError::Write { path, source },
        }
    }

    pub(crate) fn reading(path: &Path, source: io::Error) -> StoreError {
        StoreError::Read { path: path.to_owned(), source }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: path.to_owned(), what: what.into() }
    }

    /// The kind that an `io::Error` made from this error carries.
    fn io_kind(&self) -> io::ErrorKind {
        match self {
            StoreError::Exists { .. } => io::ErrorKind::AlreadyExists,
            StoreError::DiskFull { .. } => io::ErrorKind::StorageFull,
            StoreError::Vanished { .. } | StoreError::NotAResult { .. } => io::ErrorKind::NotFound,
            StoreError::Newer { .. } | StoreError::Damaged { .. } => io::ErrorKind::InvalidData,
            StoreError::Create { source, .. }
            | StoreError::Write { source, .. }
            | StoreError::Read { source, .. } => source.kind(),
        }
    }
}

impl From<StoreError> for facts::SinkError {
    fn from(error: StoreError) -> facts::SinkError {
        facts::SinkError::Write(io::Error::new(error.io_kind(), error))
    }
}

/// A problem that a reader of the result must know; the result opens nevertheless.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Problem {
    /// The profiler died or is still writing.
    #[error(
        "the recording was not closed properly: what was written until {milliseconds} ms after its start is shown"
    )]
    Incomplete {
        /// Time of the last fact, in milliseconds since the start.
        milliseconds: u64,
    },
    /// The end of the journal was lost.
    #[error("the last {bytes} bytes of the journal are torn or damaged and were left out ({what})")]
    TornTail {
        /// How many bytes were not used.
        bytes: u64,
        /// What stopped the reading.
        what: String,
    },
    /// A table is not the one that was written.
    #[error("{file} was changed after it was written ({what}): its figures cannot be trusted")]
    Changed {
        /// Its file.
        file: String,
        /// What differs.
        what: String,
    },
    /// References to missing rows, repaired.
    #[error("{count} {what}")]
    Repaired {
        /// How many rows.
        count: u64,
        /// What was wrong and what was done.
        what: &'static str,
    },
}
