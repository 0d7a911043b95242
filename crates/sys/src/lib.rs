//! The only door to the kernel and the CPU.
//!
//! What for: every raw system call, every memory mapping and every hand-written machine instruction of Fathom
//! stands here, behind safe types; each `unsafe` block says in words why it holds *here*.
//! What not: no policy (what to open, when to retry) and no parsing of what the kernel says beyond its ABI.

pub mod bpf;
pub mod floor;
pub mod heap;
pub mod heap_exact;
pub mod kernels;
pub mod map;
mod own_child;
pub mod perf;
pub mod process;
pub mod sandbox;
pub mod shared;
pub mod trace;
