//! Registers of aarch64: in samples (`arch/arm64/include/uapi/asm/perf_regs.h`), and of stopped threads.
//!
//! What not: other architectures; each has a file with the same names.

use std::io;

use base::{RemoteAddr, Tid};

use super::StoppedRegisters;

/// Bits of `sample_regs_user` and their order for the registers that unwinding needs: x29 (frame pointer), lr, sp, pc.
pub const USER_REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;

/// Bit of the register that holds the first argument of a system call (`syscall(2)`), x0, until the call returns: in a sample
/// taken inside of one, what the thread waits at. Its bit is below those of [`USER_REGISTERS`], so that it comes first.
pub(crate) const FIRST_ARGUMENT: u64 = 1;

/// Which of [`USER_REGISTERS`] is the instruction pointer.
pub const USER_INSTRUCTION_POINTER: usize = 3;
/// Which of them is the stack pointer.
pub const USER_STACK_POINTER: usize = 2;

/// What samples of clocks have: no more than others, because nothing here decodes the code around them.
pub const ALL_REGISTERS: u64 = super::SAMPLED_REGISTERS;

/// Where the general registers stand among [`ALL_REGISTERS`]: nothing here decodes the code that would give them a meaning.
pub const GENERAL_REGISTERS: Option<[usize; 16]> = None;

/// In the order of [`USER_REGISTERS`]. Without lr: past the beginning of a function its frame has the return address.
#[must_use]
pub fn user_registers(
    frame_pointer: u64,
    stack_pointer: u64,
    instruction_pointer: u64,
) -> [u64; 4] {
    [frame_pointer, 0, stack_pointer, instruction_pointer]
}

/// Reads a set of registers (include/uapi/linux/elf.h) into a value; `None` if the kernel filled less or has no such set.
fn register_set<T: Copy>(tid: Tid, set: usize, mut value: T) -> io::Result<(T, usize)> {
    let mut piece = libc::iovec { iov_base: (&raw mut value).cast(), iov_len: size_of::<T>() };
    // Safety: the vector covers a live value of plain integers; the kernel writes no more and sets the length written.
    if unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid.0, set, &raw mut piece) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((value, piece.iov_len))
}

/// Registers of a stopped thread.
pub fn stopped_registers(tid: Tid) -> io::Result<StoppedRegisters> {
    const NT_PRSTATUS: usize = 1;
    const NT_ARM_SYSTEM_CALL: usize = 0x404;
    // x0..x30, sp, pc, pstate (struct user_pt_regs, arch/arm64/include/uapi/asm/ptrace.h)
    let (regs, filled) = register_set(tid, NT_PRSTATUS, [0u64; 34])?;
    let is_64_bit = filled == size_of_val(&regs);
    // The number of the call that the thread is in; -1 outside of any.
    let (call, _) = register_set(tid, NT_ARM_SYSTEM_CALL, -1i32)?;
    let [fp, lr, sp, pc] = [29, 30, 31, 32].map(|number| regs[number]);
    Ok(StoppedRegisters {
        unwinding: [fp, lr, sp, pc],
        general: None,
        stack_pointer: RemoteAddr(sp),
        instruction_pointer: RemoteAddr(pc),
        in_system_call: call >= 0,
        is_64_bit,
    })
}
