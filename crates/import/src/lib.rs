//! Recordings of other tools become facts, as those of our own collectors do.
//!
//! What for: `perf.data` of Linux perf, in file and pipe mode, also compressed, and of simpleperf. Its processes, mappings and samples go
//! through the same [`collect::recorder::Recorder`] as live ones, so every view reads them alike. And tables of `likwid-perfctr -O`
//! ([`likwid`]). What not: names of
//! functions (`collect::symbolise`), the result directory (`store`), conclusions.
//!
//! Everything in such a file is an allegation. The sizes that it states are checked before the parser believes them
//! ([`perf_data`]), a panic of the parser is an error of the file, and a file of this machine's disk stands for a recorded one
//! only if its build-id says so.

#![forbid(unsafe_code)]

mod likwid;
mod perf_data;

use std::path::{Path, PathBuf};

use base::Nanos;
use collect::HeldFiles;
use collect::symbolise::Elsewhere;
use facts::{Sink, SinkError, Source};

pub use perf_data::perf_data;

/// Reads a recording of another tool into `sink`.
///
/// # Errors
/// See [`ImportError`]. Facts may have been pushed before one is found.
pub fn import(path: &Path, sink: &mut dyn Sink) -> Result<Imported, ImportError> {
    match perf_data(path, sink) {
        Err(ImportError::NotPerfData(_)) => likwid::likwid(path, sink),
        result => result,
    }
}

/// What was imported besides the facts.
#[derive(Default)]
pub struct Imported {
    /// The file and its events.
    pub source: Source,
    /// The recorded program and its arguments, else perf's own.
    pub command: Vec<String>,
    /// From the first record to the last.
    pub elapsed: Nanos,
    /// Start, seconds since 1970; 0 if the file does not say it.
    pub started_unix: u64,
    /// Time between samples of a running thread: the median.
    pub period: Nanos,
    /// Whether time inside the kernel was sampled.
    pub kernel_samples: bool,
    /// Bytes of user stack copied per sample.
    pub stack_bytes: u32,
    /// Kernel release, CPU, architecture and number of CPUs, as far as the file says them.
    pub machine: RecordedMachine,
    /// Files of this machine that are certainly those of the recording.
    pub files: HeldFiles,
    /// What cannot be named here.
    pub elsewhere: Elsewhere,
    /// Sentences for the reader.
    pub notes: Vec<String>,
}

/// The machine of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordedMachine {
    /// `uname -n`.
    pub host: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub architecture: String,
    /// Its processor.
    pub cpu: String,
    /// The processor's vendor, and `family/model/stepping` in decimal digits; of x86 only.
    pub cpu_id: Option<(String, String)>,
    /// Cores with a CPU, where it says which CPUs share one; else 0.
    pub cores: u32,
    /// CPUs online.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
}

/// Why nothing was imported.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// The file could not be read.
    #[error("{path} cannot be read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is something else.
    #[error(
        "{0} is no perf.data file, because it begins with other bytes than PERFILE2, and has no table of `likwid-perfctr -O`"
    )]
    NotPerfData(PathBuf),
    /// Something in it contradicts itself.
    #[error("{path} is damaged or truncated: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// No event of it measures time, counts anything or has memory accesses.
    #[error(
        "no event of {path} measures time (cpu-clock, task-clock, cycles), counts anything or samples memory accesses: it has {events}. Record with `perf record -g -- PROGRAM`, or \
         with `-e cpu-clock` where there are no counters"
    )]
    NoTime {
        /// The file.
        path: PathBuf,
        /// Its events.
        events: String,
    },
    /// The result could not be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
}
