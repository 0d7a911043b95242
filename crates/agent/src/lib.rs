//! The heap library, as bytes: it is loaded into programs to count their heap blocks.
//!
//! What for: `fathom` embeds it and writes it to a file when needed, so that there is nothing to install.
//! What not: its code (`preload/`, compiled by `build.rs`); the use of its counts (`collect::heap`).

#![deny(unsafe_op_in_unsafe_fn)]
#![allow(clippy::duplicate_mod, reason = "both libraries have these files")]

/// A shared object for this machine's C library.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libfathom_agent.so"));

/// The region library: what `fathom.h`, ITT and NVTX call.
pub const REGIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libfathom_regions.so"));

/// The placement library: what `fathom place` preloads to put large blocks on other NUMA nodes.
pub const PLACEMENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libfathom_placement.so"));

// For the lints: `preload/` is no crate of cargo's. Never part of a program, whose `malloc` it would be.
#[cfg(clippy)]
#[allow(
    dead_code,
    clashing_extern_declarations,
    reason = "its constructor is not built here; other types of C's functions"
)]
#[path = "../placement/lib.rs"]
mod placement;
#[cfg(clippy)]
#[path = "../preload/lib.rs"]
mod preload;
#[cfg(clippy)]
#[path = "../regions/lib.rs"]
mod regions;
