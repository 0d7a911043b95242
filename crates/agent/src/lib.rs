//! The allocation agent: a library that is preloaded into programs to count their heap blocks, as bytes.
//!
//! What for: `fathom` carries it along and writes it to a file when it is wanted, so there is nothing to install.
//! What not: its code, which is in `preload/` and compiled by `build.rs`; what becomes of what it counts
//! (`collect::heap`).

#![deny(unsafe_op_in_unsafe_fn)]

/// A shared object for this machine's C library.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libfathom_agent.so"));

// For the lints: `preload/` is no crate of cargo's. Never part of a program, whose `malloc` it would be.
#[cfg(clippy)]
#[path = "../preload/lib.rs"]
mod preload;
