//! perf_event_open: opening events and reading their ring buffers.
//!
//! What for: the attribute structure, the system call, the counters and the ring, behind safe types.
//! What not: what to open and why (`collect::perf`), and the meaning of the records (`collect::perf::record`).
//!
//! Source of every layout here: `include/uapi/linux/perf_event.h` and `perf_event_open(2)`.

mod attr;
mod event;
mod ring;

pub use attr::{Attr, Flag, PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE, SampleField, SoftwareEvent};
pub use event::{
    Counting, Event, FakeOpen, GroupCounts, OpenTarget, fake_open, open, open_counting_lost,
    open_in_group,
};
pub use ring::Ring;

/// Bits of `sample_regs_user` and their order for the three registers that unwinding needs.
/// x86-64: `arch/x86/include/uapi/asm/perf_regs.h`; aarch64: `arch/arm64/include/uapi/asm/perf_regs.h`.
#[cfg(target_arch = "x86_64")]
pub const USER_REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8; // bp, sp, ip
/// x29 (frame pointer), lr, sp, pc.
#[cfg(target_arch = "aarch64")]
pub const USER_REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;

/// Bit of the register that holds the first argument of a system call (`syscall(2)`): in a sample taken inside of one, what
/// the thread waits at. Its bit is below those of [`USER_REGISTERS`], so that it comes first in a sample.
#[cfg(target_arch = "x86_64")]
const FIRST_ARGUMENT: u64 = 1 << 5; // di
/// x0: holds the argument until the system call returns.
#[cfg(target_arch = "aarch64")]
const FIRST_ARGUMENT: u64 = 1 << 0;

/// The registers of a sample: the first argument, then [`USER_REGISTERS`].
pub const SAMPLED_REGISTERS: u64 = FIRST_ARGUMENT | USER_REGISTERS;

/// How many registers [`USER_REGISTERS`] selects.
pub const USER_REGISTER_COUNT: usize = USER_REGISTERS.count_ones() as usize;
/// Which of them is the instruction pointer.
pub const USER_INSTRUCTION_POINTER: usize = 2;
/// Which of them is the stack pointer.
pub const USER_STACK_POINTER: usize = if cfg!(target_arch = "x86_64") { 1 } else { 2 };

/// Bits of `sample_regs_user` of all general registers and the instruction pointer.
#[cfg(target_arch = "x86_64")]
pub const ALL_REGISTERS: u64 = 0x1ff | 0xff << 16; // ax bx cx dx si di bp sp ip, r8..r15
/// x0..x30, sp, pc.
#[cfg(target_arch = "aarch64")]
pub const ALL_REGISTERS: u64 = (1 << 33) - 1;

/// How many registers a selection has in front of the one with bit `bit`.
const fn position(selection: u64, bit: u64) -> usize {
    (selection & (bit - 1)).count_ones() as usize
}

/// Where [`USER_REGISTERS`] and the first argument stand among [`ALL_REGISTERS`].
#[must_use]
pub fn positions_in_all() -> ([usize; USER_REGISTER_COUNT], usize) {
    let mut bits = (0..64).map(|bit| 1u64 << bit).filter(|bit| USER_REGISTERS & bit != 0);
    let places = std::array::from_fn(|_| position(ALL_REGISTERS, bits.next().unwrap_or(1)));
    (places, position(ALL_REGISTERS, FIRST_ARGUMENT))
}

/// Where the general registers stand among [`ALL_REGISTERS`], by their numbers in the encoding: rax rcx rdx rbx rsp rbp rsi
/// rdi r8..r15.
#[cfg(target_arch = "x86_64")]
pub const GENERAL_REGISTERS: [usize; 16] = [0, 2, 3, 1, 7, 6, 4, 5, 9, 10, 11, 12, 13, 14, 15, 16];
