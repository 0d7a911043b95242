//! What differs by processor architecture in the kernel's interfaces for samples and stopped threads: registers.
//!
//! What for: one file per architecture, with the same names. What not: measuring kernels (`kernels`), and what only x86-64
//! has: timing of code (`no_miss`), moving threads to other code (`trace::Registers`).

#[cfg_attr(target_arch = "x86_64", path = "arch/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "arch/aarch64.rs")]
mod here;

pub use here::*;

/// How many registers [`USER_REGISTERS`] selects.
pub const USER_REGISTER_COUNT: usize = USER_REGISTERS.count_ones() as usize;

/// The registers of a sample: the first argument, then [`USER_REGISTERS`].
pub const SAMPLED_REGISTERS: u64 = FIRST_ARGUMENT | USER_REGISTERS;

/// Registers of a stopped thread that sampling needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoppedRegisters {
    /// All registers, in the order of [`USER_REGISTERS`].
    pub unwinding: [u64; USER_REGISTER_COUNT],
    /// By their numbers in the encoding, as in [`GENERAL_REGISTERS`].
    pub general: Option<[u64; 16]>,
    /// Stack pointer.
    pub stack_pointer: base::RemoteAddr,
    /// Instruction pointer.
    pub instruction_pointer: base::RemoteAddr,
    /// Whether it was inside a system call when it stopped.
    pub in_system_call: bool,
    /// Whether it runs 64-bit code.
    pub is_64_bit: bool,
}
