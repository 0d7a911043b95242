//! For tests: the golden check, recordings written by hand, a schema validator.
//!
//! A dev-dependency only; nothing here ships.

#![forbid(unsafe_code)]

pub mod golden;
pub mod programs;
pub mod recording;
pub mod schema;
