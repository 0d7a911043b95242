//! What differs by processor in both libraries, on aarch64: system calls, registers, and single instructions.
//!
//! What not: exact mode and running processes, which are written for x86-64 (`without_exact`, `without_attached`).

/// Bits of the addresses of user space without an explicit request (Linux, arch/arm64/memory.rst).
pub const ADDRESS_BITS: u32 = 48;

// asm-generic/unistd.h.
pub const SYS_OPENAT: usize = 56;
pub const SYS_CLOSE: usize = 57;
pub const SYS_LSEEK: usize = 62;
pub const SYS_FUTEX: usize = 98;
pub const SYS_SCHED_YIELD: usize = 124;
pub const SYS_RT_SIGPROCMASK: usize = 135;
pub const SYS_GETRLIMIT: usize = 163;
pub const SYS_GETPID: usize = 172;
pub const SYS_GETTID: usize = 178;
pub const SYS_MUNMAP: usize = 215;
pub const SYS_MREMAP: usize = 216;
pub const SYS_MMAP: usize = 222;
pub const SYS_MADVISE: usize = 233;

/// A system call (syscall(2)): its result, or the negative number of the error.
///
/// # Safety
/// The effect of the call must be safe for the program at any moment.
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let result: isize;
    // Safety: the kernel's convention: it changes x0 and nothing else.
    unsafe {
        core::arch::asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") arguments[0] as isize => result,
            in("x1") arguments[1], in("x2") arguments[2],
            in("x3") arguments[3], in("x4") arguments[4], in("x5") arguments[5],
            options(nostack),
        );
    }
    result
}

/// Ends the process by an illegal instruction.
#[cfg(not(clippy))]
pub fn trap() {
    // Safety: nothing is executed behind it.
    unsafe { core::arch::asm!("udf #0", options(nomem, nostack)) };
}

/// The address of the running thread's control block.
#[inline(always)]
pub fn control_block() -> usize {
    let block: usize;
    // Safety: the thread pointer (ELF for the Arm 64-bit Architecture, thread-local storage); reading it changes nothing.
    unsafe {
        core::arch::asm!("mrs {0}, tpidr_el0", out(reg) block, options(nostack, nomem, pure, preserves_flags));
    }
    block
}

/// From the control block to the C library's own structure of a thread, which ends here (TLS_DTV_AT_TP in glibc,
/// sysdeps/aarch64/nptl/tls.h). `constant` reads what the library tells debuggers.
pub fn thread_structure(constant: impl Fn(&core::ffi::CStr) -> Option<usize>) -> Option<usize> {
    constant(c"_thread_db_sizeof_pthread").map(usize::wrapping_neg)
}

/// Adds to a word of this thread alone. A signal handler between the load and the store takes the reservation away, and the
/// addition is tried again; so one that allocates loses nothing.
///
/// # Safety
/// `at + word` is a mapped, aligned word that no other thread writes.
#[inline(always)]
pub unsafe fn add(at: *mut u8, word: usize, value: u64) {
    // Safety: as the caller says; registers only else. It ends: without an interruption the store succeeds.
    unsafe {
        core::arch::asm!(
            "2:",
            "ldxr {old}, [{at}]",
            "add {old}, {old}, {value}",
            "stxr {failed:w}, {old}, [{at}]",
            "cbnz {failed:w}, 2b",
            at = in(reg) at.wrapping_add(word),
            value = in(reg) value,
            old = out(reg) _,
            failed = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Stack pointer, instruction pointer and frame pointer, here.
#[inline(always)]
pub fn registers() -> [usize; 3] {
    let (pc, sp, fp): (usize, usize, usize);
    // Safety: reads registers only.
    unsafe {
        core::arch::asm!("adr {0}, .", "mov {1}, sp", "mov {2}, x29", out(reg) pc, out(reg) sp, out(reg) fp,
            options(nomem, nostack, preserves_flags));
    }
    [sp, pc, fp]
}
