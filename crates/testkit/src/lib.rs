//! For tests: the golden check, recordings written by hand, a schema validator.
//!
//! What not: shipped code; it is a dev-dependency only.

#![forbid(unsafe_code)]

pub mod fixtures;
pub mod golden;
pub mod programs;
pub mod recording;
pub mod schema;
