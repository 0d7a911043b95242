//! The only access to the kernel and the CPU.
//!
//! What for: every raw system call, memory mapping and hand-written machine instruction of Fathom is here, behind
//! safe types, except those of the library inside other programs (`agent`). Each `unsafe` block says why it holds
//! *here*. What not: policy (what to open, when to retry), and parsing beyond the kernel's ABI.

pub mod arch;
pub mod bpf;
pub mod heap;
pub mod heap_exact;
pub mod kernels;
pub mod map;
pub mod marked;
#[cfg(target_arch = "x86_64")]
pub mod no_miss;
#[cfg(target_arch = "x86_64")]
mod own_child;
pub mod perf;
pub mod process;
#[cfg(target_arch = "x86_64")]
pub mod sandbox;
pub mod shared;
pub mod trace;
