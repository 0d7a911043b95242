//! Newtypes for addresses, ids and units that every other crate uses, a hash and a map of numbers, and a field of CSV.
//!
//! What for: an address in the profiled process, an offset in a file and a count of nanoseconds are all 64-bit integers.
//! Confusing two of them is the classical bug of a profiler; here it does not compile.
//! What not: I/O, dependencies, the meaning of the numbers.

#![forbid(unsafe_code)]

mod address;
mod csv;
mod id;
mod index_map;
mod mix;
mod units;

pub use address::{CodeAddress, FileOffset, RemoteAddr};
pub use csv::csv_field;
pub use id::{
    AllocationId, BlockId, BurstId, CpuId, ModuleId, NodeId, Pid, StackId, ThreadId, Tid,
};
pub use index_map::{IndexMap, IndexSet};
pub use mix::mixed;
pub use units::{Bytes, Nanos, Picos};
