//! The result directory: written while a program runs, read at any time later.
//!
//! What for: `Writer` is the collectors' [`facts::Sink`]; it appends every fact to one compressed journal, which
//! survives the death of the profiler, and converts the journal into one Parquet table per kind of fact at the end.
//! [`open`] reads a [`facts::Recording`] from either; [`verify`] checks the invariants.
//! What not: the meaning of facts, reading `/proc`, terminal output.
//! The layout is described in `docs/format/result-directory.md`, the reasons in
//! `docs/decisions/0003-journal-then-parquet.md`.
//!
//! Assumption: one writer per directory. Readers may come at any time; they write nothing but [`Answer`]s.

#![forbid(unsafe_code)]

mod answers;
mod columns;
mod compact;
mod convert;
mod crc32;
mod directory;
mod error;
mod journal;
mod manifest;
mod open;
mod pages;
mod parquet_read;
mod parquet_write;
mod repair;
mod rows;
mod schema;
mod table;
mod tables;
mod thin;
mod upgrade;
mod value;
mod varint;
mod verify;
mod words;
mod writer;

pub use answers::{Answer, Answers};
pub use directory::{next_free, size_on_disk};
pub use error::{Problem, StoreError};
pub use manifest::{read_run, replace_run};
pub use open::{Opened, open};
pub use rows::{rows_json, tables_json};
pub use schema::{Column, ColumnKind, Shape};
pub use table::Table;
pub use verify::{INVARIANTS, Invariant, Violation, verify};
pub use writer::{Finished, LEAST_LIMIT, Writer};
