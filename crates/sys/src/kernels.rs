//! Hand-written loops whose work is known by arithmetic: the measuring kernels of the calibration.
//!
//! What for: memory kernels that move a known number of bytes, chases of a known number of dependent loads,
//! arithmetic of a known number of operations; with the memory, the pinning and the CPU identification that they
//! need. What not: timing, statistics, choice of sizes (`calibrate`).
//!
//! Assumptions: on x86-64 every timed loop is inline assembly. So a debug build measures the same machine as a
//! release build, and no optimiser can remove a loop whose result is not used. On aarch64 chases and branches are; others are
//! plain Rust loops guarded by `black_box`, whose rates depend on the compiler.

mod branches;
mod buffer;
mod chase;
mod cpu;
mod flops;
mod operations;
mod stream;
mod timed;
mod waits;

pub use branches::branches;
pub use buffer::{Buffer, Pages};
pub use chase::{Chase, Cycle, Spacing};
pub use cpu::{
    cpuid, page_bytes, pin_current_thread, read_trace_clock, read_tsc, thread_minor_faults,
};
pub use flops::{FlopMethod, Precision, multiply_add};
pub use operations::{Operation, operate};
pub use stream::{Kernel, Simd, sweep, sweep_again, sweep_by, sweep_in_pieces};
pub use timed::time_cached_loads;
pub use waits::{Wait, WaitedAt, wait_for};

use base::{Bytes, CpuId, NodeId};

/// Why a measuring kernel cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel refused memory.
    #[error(
        "cannot map {bytes} for measuring: {source}; free memory or raise the limit (ulimit -v, cgroup memory)"
    )]
    Map {
        /// How much was asked for.
        bytes: Bytes,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// The thread may not run on that CPU.
    #[error("cannot run on CPU {cpu}: {source}; it is offline or outside our cpuset")]
    Pin {
        /// The CPU.
        cpu: CpuId,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// Memory may not be placed on that node.
    #[error("cannot place memory on node {node}: {source}; {}", unbound(source))]
    Bind {
        /// The node.
        node: NodeId,
        /// The kernel's reason.
        source: std::io::Error,
    },
}

/// The remedy for a refused `mbind` or `set_mempolicy`, and who can apply it.
#[must_use]
pub fn unbound(source: &std::io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EPERM) => {
            "this container's seccomp profile does not permit mbind and set_mempolicy: give it CAP_SYS_NICE (docker run --cap-add SYS_NICE)"
        }
        Some(libc::ENOSYS) => "this kernel has no NUMA support (CONFIG_NUMA)",
        Some(libc::EINVAL) => {
            "the node is offline or outside our cpuset: allow it in cpuset.mems of our cgroup"
        }
        _ => "see mbind(2)",
    }
}
