//! Registers of x86-64: in samples (`arch/x86/include/uapi/asm/perf_regs.h`), and of stopped threads.
//!
//! What not: other architectures; each has a file with the same names.

use std::io;

use base::{RemoteAddr, Tid};

use super::StoppedRegisters;

/// Bits of `sample_regs_user` and their order for the three registers that unwinding needs: bp, sp, ip.
pub const USER_REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// Bit of the register that holds the first argument of a system call (`syscall(2)`), di: in a sample taken inside of one, what
/// the thread waits at. Its bit is below those of [`USER_REGISTERS`], so that it comes first in a sample.
pub(crate) const FIRST_ARGUMENT: u64 = 1 << 5;

/// Which of [`USER_REGISTERS`] is the instruction pointer.
pub const USER_INSTRUCTION_POINTER: usize = 2;
/// Which of them is the stack pointer.
pub const USER_STACK_POINTER: usize = 1;

/// Bits of `sample_regs_user` of all general registers and the instruction pointer: ax bx cx dx si di bp sp ip, r8..r15.
pub const ALL_REGISTERS: u64 = 0x1ff | 0xff << 16;

/// Where the general registers stand among [`ALL_REGISTERS`], by their numbers in the encoding: rax rcx rdx rbx rsp rbp rsi
/// rdi r8..r15. `None` where the code around a sample is not decoded, so that they would have no meaning.
pub const GENERAL_REGISTERS: Option<[usize; 16]> =
    Some([0, 2, 3, 1, 7, 6, 4, 5, 9, 10, 11, 12, 13, 14, 15, 16]);

/// In the order of [`USER_REGISTERS`].
#[must_use]
pub fn user_registers(
    frame_pointer: u64,
    stack_pointer: u64,
    instruction_pointer: u64,
) -> [u64; 3] {
    [frame_pointer, stack_pointer, instruction_pointer]
}

/// Registers of a stopped thread.
pub fn stopped_registers(tid: Tid) -> io::Result<StoppedRegisters> {
    const USER_CODE_SEGMENT_64: u64 = 0x33; // arch/x86/include/asm/segment.h, __USER_CS
    // Safety: plain data, all zeroes is valid.
    let mut regs: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // Safety: the kernel fills a live structure of exactly this type.
    if unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid.0, 0, &raw mut regs) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(StoppedRegisters {
        unwinding: [regs.rbp, regs.rsp, regs.rip],
        general: Some([
            regs.rax, regs.rcx, regs.rdx, regs.rbx, regs.rsp, regs.rbp, regs.rsi, regs.rdi,
            regs.r8, regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
        ]),
        stack_pointer: RemoteAddr(regs.rsp),
        instruction_pointer: RemoteAddr(regs.rip),
        in_system_call: regs.orig_rax.cast_signed() >= 0,
        is_64_bit: regs.cs == USER_CODE_SEGMENT_64,
    })
}
