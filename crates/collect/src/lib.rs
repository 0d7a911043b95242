//! Live sources: observes a running program and pushes facts into a [`facts::Sink`].
//!
//! What for: launch or attach; sampling by perf events, else by ptrace, else from `/proc` alone; page faults, heap blocks,
//! polled levels; and symbols, after the collection.
//! What not: conclusions (`analysis`), files of results (`store`), printing.
//!
//! What an architecture lacks is absent by whole modules: `absent` has those that take their places and say why.
//!
//! Entry points: [`session::launch`], [`session::attach`], [`probe::look`], [`symbolise`].

#![forbid(unsafe_code)]

pub mod accesses;
pub mod address_space;
pub mod branches;
#[cfg_attr(not(target_arch = "x86_64"), path = "absent/bursts.rs")]
pub mod bursts;
pub mod busy;
pub mod control;
pub mod counting;
mod first_checks;
mod gauges;
pub mod heap;
mod kernel;
pub mod launched;
mod long_waits;
mod marked;
mod modules;
#[cfg_attr(not(target_arch = "x86_64"), path = "absent/no_miss.rs")]
pub mod no_miss;
mod online_cpus;
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
pub mod spe;
mod stacks;
pub mod symbolise;
mod tracefs;
pub mod wait_objects;

pub use modules::{HeldFiles, Recorded};
