//! The burst tracer: exact memory accesses of a running native program, without hardware counters.
//!
//! What for: from time to time, one thread of the program runs a translated copy of its own code for up to some
//! milliseconds. The copy records the addresses of reads and writes. Then the thread continues natively. What not:
//! decoding and translation (`x86`), the meaning of records (`analysis`), their storage (`store`).
//!
//! ```text
//! tracer    start, observations, stop
//! worker    the tracing thread: begins bursts and publishes their records
//!   budget    the rate of bursts, from their cost; displaced: what of our own work it pays for; stop_cost: the CPU time
//!             that a burst spends on its stops
//!   odometers     words of the program's memory that rise as it works
//!   schedule  which of three flavours: a trace of addresses, a count of blocks, timed loads; and how long
//!   picker    chooses a thread in proportion to CPU time
//!   program   per process: code_map (what may be translated; witness: whether it is still there), space (shared memory), cache (blocks)
//!   visit     seize, stop, let go; remote_call: system calls of the program on our behalf; placement: on the CPU of the thread, or off it
//!   run       one burst: enter, answer stops, give the native state back; run::call: system calls behind which it goes on;
//!             run::ask: code for which the thread does not stop
//! guest     (with quiet_stop) a library and shared memory brought into a process, for the heap of one that is attached to
//! native_addresses  native addresses of translated code, for samplers
//! drain     records -> facts, in a thread of low priority
//! ```
//!
//! The program is never harmed:
//! 1. Between bursts nothing is traced. In a burst every stop, of whatever kind, ends in exact native registers
//!    (`Cache::native`), set by one call. Then the thread is released.
//! 2. We raise no signal in the program and change no signal mask. Translated code leaves by a harmless system call
//!    that the tracer catches at its entry. If the tracer is dead, the call returns and the code continues natively
//!    by itself. So `kill -9` of all our processes at any moment leaves the program running; only mappings stay
//!    behind.
//! 3. What cannot be done safely is refused by name ([`Refused`]).
//!
//! Assumptions: Linux 5.3 or later on x86-64, for all ptrace requests that are used. Code does not change during the
//! milliseconds of a burst unless the program changes it in memory that it may write, or replaces a library (`witness`).

#![forbid(unsafe_code)]

mod budget;
mod cache;
mod code_map;
mod displaced;
mod drain;
mod guest;
mod native_addresses;
mod odometers;
mod picker;
mod placement;
mod program;
mod quiet_stop;
mod refused;
mod remote_call;
mod run;
mod schedule;
mod space;
mod stop_cost;
mod tracer;
mod visit;
mod witness;
mod worker;

pub use cache::{NewBlock, Piece};
pub use guest::{Guest, NotBrought, Segment, Wanted, bring};
pub use native_addresses::{NativeAddresses, is_our_mapping};
pub use refused::Refused;
pub use tracer::{Cost, Observation, Options, Tracer};
