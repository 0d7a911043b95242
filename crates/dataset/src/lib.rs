//! A dataset: the figures of many results as Parquet files that query engines read.
//!
//! What for: [`rows`] takes the figures of a result from the views of `fathom report`; [`Dataset`] adds them to a folder, so that
//! a result is there once and whole, or not at all. What not: opening results (cli), computing figures (analysis), an engine of
//! our own: queries run in programs that exist.
//!
//! Layout: `docs/format/dataset.md`. Assumption: files never change after they got their name; several processes may add to
//! one dataset at a time.

#![forbid(unsafe_code)]

mod dialect;
mod error;
mod identity;
mod parquet_file;
mod questions;
mod rows;
mod store;
mod tables;

pub use dialect::Dialect;
pub use error::DatasetError;
pub use identity::{Identity, date};
pub use questions::{AnswerColumn, COMMON, Parameter, Question, questions};
pub use rows::{Labels, Rows, rows};
pub use store::{Dataset, Membership, VERSION_FILE, Verified};
pub use tables::{ColumnType, PARTITIONS, TABLES, TableColumns, VERSION, Value};
