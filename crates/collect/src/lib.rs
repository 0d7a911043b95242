//! Live sources: what is observed on a running program goes from here into a [`facts::Sink`].
//!
//! What for: launching or attaching, sampling (perf events, else ptrace, else /proc alone), page faults, heap blocks, polled levels,
//! and, after the collection, symbols for what was seen.
//! What not: no conclusions (that is `analysis`), no files of results (`store`), no printing.
//!
//! Entry points: [`session::launch`], [`session::attach`], [`probe::look`], [`symbolise`].

#![forbid(unsafe_code)]

pub mod address_space;
pub mod bursts;
mod first_checks;
pub mod floor;
mod gauges;
pub mod heap;
mod kernel;
pub mod launched;
mod long_waits;
mod modules;
pub mod perf;
mod polled_threads;
pub mod preload;
pub mod probe;
mod proc_status;
pub mod program;
mod ptrace_sampler;
pub mod recorder;
mod regions;
pub mod session;
mod source;
mod stacks;
pub mod symbolise;
mod tracefs;
pub mod wait_objects;

pub use modules::HeldFiles;
