//! What differs by processor in both libraries, on x86-64: system calls, registers, and single instructions.
//!
//! What not: exact mode, which is written for this architecture as a whole (`exact`, `step`).

/// Bits of the addresses of user space without an explicit request (Linux, x86/x86_64/5level-paging).
pub const ADDRESS_BITS: u32 = 47;

// asm/unistd_64.h.
pub const SYS_MMAP: usize = 9;
pub const SYS_CLOSE: usize = 3;
pub const SYS_LSEEK: usize = 8;
pub const SYS_MUNMAP: usize = 11;
pub const SYS_MREMAP: usize = 25;
pub const SYS_RT_SIGPROCMASK: usize = 14;
pub const SYS_SCHED_YIELD: usize = 24;
pub const SYS_MADVISE: usize = 28;
pub const SYS_GETPID: usize = 39;
pub const SYS_GETRLIMIT: usize = 97;
pub const SYS_GETTID: usize = 186;
pub const SYS_FUTEX: usize = 202;
pub const SYS_OPENAT: usize = 257;

/// A system call (syscall(2)): its result, or the negative number of the error.
///
/// # Safety
/// The effect of the call must be safe for the program at any moment.
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let result: isize;
    // Safety: the kernel's convention: it changes rax, rcx and r11 and nothing else.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0], in("rsi") arguments[1], in("rdx") arguments[2],
            in("r10") arguments[3], in("r8") arguments[4], in("r9") arguments[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Ends the process by an illegal instruction.
#[cfg(not(clippy))]
pub fn trap() {
    // Safety: nothing is executed behind it.
    unsafe { core::arch::asm!("ud2", options(nomem, nostack)) };
}

/// The address of the running thread's control block.
#[inline(always)]
pub fn control_block() -> usize {
    let block: usize;
    // Safety: the first word of the control block is its own address (System V ABI for x86-64, thread-local storage).
    unsafe {
        core::arch::asm!("mov {0}, qword ptr fs:[0]", out(reg) block, options(nostack, readonly, pure, preserves_flags));
    }
    block
}

/// From the control block to the C library's own structure of a thread, which it begins here (glibc, nptl/descr.h).
pub fn thread_structure(_: impl Fn(&core::ffi::CStr) -> Option<usize>) -> Option<usize> {
    Some(0)
}

/// Adds to a word of this thread alone: one instruction, so that a signal handler that allocates loses nothing.
///
/// # Safety
/// `at + word` is a mapped, aligned word that no other thread writes.
#[inline(always)]
pub unsafe fn add(at: *mut u8, word: usize, value: u64) {
    // Safety: as the caller says.
    unsafe {
        core::arch::asm!("add qword ptr [{0} + {1}], {2}", in(reg) at, in(reg) word, in(reg) value, options(nostack));
    }
}

/// Stack pointer, instruction pointer and frame pointer, here.
#[inline(always)]
pub fn registers() -> [usize; 3] {
    let (ip, sp, bp): (usize, usize, usize);
    // Safety: reads registers only.
    unsafe {
        core::arch::asm!("lea {0}, [rip]", "mov {1}, rsp", "mov {2}, rbp", out(reg) ip, out(reg) sp, out(reg) bp,
            options(nomem, nostack, preserves_flags));
    }
    [sp, ip, bp]
}
