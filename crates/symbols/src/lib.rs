//! From a module offset to frames, with inlined functions.
//!
//! What for: turns the bytes of an ELF file (and of its separate debug files), of `/proc/kallsyms` and of
//! `/tmp/perf-PID.map` into the function at an address, the functions into which it was inlined, and their source
//! lines; and into the types that memory accesses touch ([`types`]). What not: files and environment:
//! [`debug_file_candidates`] lists paths, and the caller opens them (`collect::symbolise`). Unwinding. `.dwo`/`.dwp`
//! files (reported as a [`Problem`]) and `.gnu_debugdata` (xz).
//!
//! Assumptions: little-endian ELF. All input is hostile until checked: work is bounded by the size of the input
//! (`budget`), and no input makes it panic.

#![forbid(unsafe_code)]

mod assigned;
mod budget;
mod demangle;
mod elf;
mod error;
mod function_symbols;
mod kallsyms;
mod perf_map;
mod plt;
mod search;
mod table;
pub mod types;
mod unwind_functions;
mod variables;

pub use assigned::assigned;
pub use demangle::{Demangle, function_name};
pub use elf::{AlternateLink, DebugLink, Elf, LinkAddress, build_id_of_notes, hex};
pub use error::{Error, Problem};
pub use kallsyms::{KERNEL_SYMBOLS_LIMIT, KernelSymbols};
pub use perf_map::{PERF_MAP_LIMIT, PerfMap};
pub use search::{
    DebugFileMismatch, alternate_file_candidates, check_alternate_file, check_debug_file,
    debug_file_candidates,
};
pub use table::{ModuleImage, SourceFrame, SymbolTable};
pub use variables::{LoadBias, Variable, Variables, variables};
