//! System calls of the agent, by the `syscall` instruction: `errno` stays as it was, which `free` and a successful
//! `malloc` must not change, and no function stands between that a preloaded library could interpose.
//!
//! What not: error messages; the agent says nothing to the program's user. The collector finds what is missing.

use core::ffi::CStr;

/// A system call (syscall(2), x86-64): its result, or minus the error's number.
///
/// # Safety
/// What the call does must be fine for the program at any moment.
unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
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

fn mapped(result: isize) -> *mut u8 {
    // Errors are -1 to -4095.
    if (-4095..0).contains(&result) { core::ptr::null_mut() } else { result as *mut u8 }
}

fn map(bytes: usize, flags: i32, descriptor: isize) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let arguments = [0, bytes, access as usize, flags as usize, descriptor as usize, 0];
    // Safety: a fresh mapping at an address of the kernel's choice touches no memory of the program.
    mapped(unsafe { call(libc::SYS_mmap, arguments) })
}

fn advise(at: *mut u8, bytes: usize, advice: i32) -> bool {
    // Safety: called with our own mappings only.
    unsafe { call(libc::SYS_madvise, [at as usize, bytes, advice as usize, 0, 0, 0]) == 0 }
}

/// Fresh zeroed memory of our own; null when there is none. No part of a core dump. In small pages: it is used
/// sparsely, and a huge page would take 2 MB where a byte is needed.
pub fn map_private(bytes: usize) -> *mut u8 {
    let at = map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1);
    if !at.is_null() {
        advise(at, bytes, libc::MADV_NOHUGEPAGE);
        advise(at, bytes, libc::MADV_DONTDUMP);
    }
    at
}

/// Gives back what [`map_private`] gave and nobody has seen.
pub fn unmap(at: *mut u8, bytes: usize) {
    // Safety: our own mapping.
    unsafe { call(libc::SYS_munmap, [at as usize, bytes, 0, 0, 0, 0]) };
}

/// A page that reads 0 in a child after `fork` (madvise(2), MADV_WIPEONFORK, Linux 4.14); null where there is none.
pub fn page_wiped_on_fork() -> *mut u64 {
    let page = map_private(4096);
    let wiped = !page.is_null() && advise(page, 4096, libc::MADV_WIPEONFORK);
    if wiped { page.cast() } else { core::ptr::null_mut() }
}

/// Opens the shared memory; negative when it is not there.
pub fn open(path: &CStr) -> isize {
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as usize;
    // Safety: a path that ends with NUL; a new descriptor, closed before the program runs on.
    unsafe {
        call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0])
    }
}

/// Closes what [`open`] gave.
pub fn close(descriptor: isize) {
    // Safety: a descriptor of our own.
    unsafe { call(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// Maps the shared memory; null when that fails. No part of a core dump.
pub fn map_shared(descriptor: isize, bytes: usize) -> *mut u8 {
    let at = map(bytes, libc::MAP_SHARED, descriptor);
    if !at.is_null() {
        advise(at, bytes, libc::MADV_DONTDUMP);
    }
    at
}

/// Whether the file is at least so long: mapped bytes behind its end would be a SIGBUS.
pub fn is_long_enough(descriptor: isize, bytes: usize) -> bool {
    // Safety: moves the position of our own descriptor, which nobody uses.
    let end = unsafe {
        call(libc::SYS_lseek, [descriptor as usize, 0, libc::SEEK_END as usize, 0, 0, 0])
    };
    end >= bytes as isize
}

/// The process, as the kernel numbers it here.
pub fn process_id() -> u64 {
    // Safety: takes no arguments, cannot fail.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u64 }
}

/// The thread.
pub fn thread_id() -> u64 {
    // Safety: takes no arguments, cannot fail.
    unsafe { call(libc::SYS_gettid, [0; 6]) as u64 }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Safety: a live structure; the vdso answers without a system call, without memory, and cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Lets others run.
pub fn give_way() {
    // Safety: takes no arguments.
    unsafe { call(libc::SYS_sched_yield, [0; 6]) };
}

/// Whether 8 bytes at an address can be read. `rt_sigprocmask` with a meaning it does not know reads the new mask
/// first (kernel/signal.c): EFAULT says that it could not, EINVAL that it could; no mask changes. Filters of system
/// calls let this one pass: the C library needs it in every program.
pub fn is_readable(address: usize) -> bool {
    const NO_MEANING: usize = usize::MAX;
    // Safety: the kernel checks the address; nothing is written.
    let result = unsafe { call(libc::SYS_rt_sigprocmask, [NO_MEANING, address, 0, 8, 0, 0]) };
    result == -(libc::EINVAL as isize)
}
