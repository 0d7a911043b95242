//! System calls of the agent, by the kernel's instruction: `errno` stays unchanged, as `free` and a successful
//! `malloc` require, and no preloaded library can interpose.
//!
//! What not: error messages; the agent prints nothing. The collector reports what is missing.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::AtomicU32;

use super::arch::{self, call};
use super::libc;

fn mapped(result: isize) -> *mut u8 {
    // Errors are -1 to -4095.
    if (-4095..0).contains(&result) { core::ptr::null_mut() } else { result as *mut u8 }
}

fn map(bytes: usize, flags: usize, descriptor: isize) -> *mut u8 {
    let arguments = [0, bytes, libc::READ_AND_WRITE, flags, descriptor as usize, 0];
    // Safety: a fresh mapping at an address of the kernel's choice touches no memory of the program.
    mapped(unsafe { call(arch::SYS_MMAP, arguments) })
}

fn advise(at: *mut u8, bytes: usize, advice: usize) -> bool {
    // Safety: called with our own mappings only.
    unsafe { call(arch::SYS_MADVISE, [at as usize, bytes, advice, 0, 0, 0]) == 0 }
}

/// The C library's form of a result: the number of an error goes to `errno`, and the caller gets -1.
fn as_libc(result: isize) -> isize {
    if !(-4095..0).contains(&result) {
        return result;
    }
    // Safety: this thread's errno.
    unsafe { *libc::__errno_location() = -result as core::ffi::c_int };
    -1
}

/// mmap(2) for the program.
///
/// # Safety
/// As the C library's.
pub unsafe fn mmap(
    at: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    let [protection, flags, descriptor] = [protection, flags, descriptor].map(|word| word as usize);
    let arguments = [at as usize, length, protection, flags, descriptor, offset as usize];
    // Safety: the program's own call.
    as_libc(unsafe { call(arch::SYS_MMAP, arguments) }) as *mut c_void
}

/// munmap(2) for the program.
///
/// # Safety
/// As the C library's.
pub unsafe fn munmap(at: *mut c_void, length: usize) -> c_int {
    // Safety: the program's own call.
    as_libc(unsafe { call(arch::SYS_MUNMAP, [at as usize, length, 0, 0, 0, 0]) }) as c_int
}

/// mremap(2) for the program.
///
/// # Safety
/// As the C library's.
pub unsafe fn mremap(
    old: *mut c_void,
    old_length: usize,
    length: usize,
    flags: c_int,
    wanted: *mut c_void,
) -> *mut c_void {
    let arguments = [old as usize, old_length, length, flags as usize, wanted as usize, 0];
    // Safety: the program's own call.
    as_libc(unsafe { call(arch::SYS_MREMAP, arguments) }) as *mut c_void
}

/// Fresh zeroed private memory; null if there is none. Excluded from core dumps. With small pages, because it is used
/// sparsely: a huge page would take 2 MB where a byte is needed.
pub fn map_private(bytes: usize) -> *mut u8 {
    let at = map(bytes, libc::MAP_OUR_OWN, -1);
    if !at.is_null() {
        advise(at, bytes, libc::MADV_NOHUGEPAGE);
        advise(at, bytes, libc::MADV_DONTDUMP);
    }
    at
}

/// Unmaps memory of [`map_private`] that no other thread has seen.
pub fn unmap(at: *mut u8, bytes: usize) {
    // Safety: our own mapping.
    unsafe { call(arch::SYS_MUNMAP, [at as usize, bytes, 0, 0, 0, 0]) };
}

/// A page that reads 0 in a child after `fork` (madvise(2), MADV_WIPEONFORK, Linux 4.14); null where there is none.
pub fn page_wiped_on_fork() -> *mut u64 {
    let page = map_private(4096);
    let wiped = !page.is_null() && advise(page, 4096, libc::MADV_WIPEONFORK);
    if wiped { page.cast() } else { core::ptr::null_mut() }
}

/// Opens the shared memory; negative when it is not there.
pub fn open(path: &CStr) -> isize {
    let flags = libc::READ_WRITE_CLOSE_ON_EXEC;
    // Safety: a path that ends with NUL; a new descriptor, closed before the program runs on.
    unsafe {
        call(arch::SYS_OPENAT, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0])
    }
}

/// Closes what [`open`] gave.
pub fn close(descriptor: isize) {
    // Safety: a descriptor of our own.
    unsafe { call(arch::SYS_CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// Whether a limit of the process's address space (RLIMIT_AS, `ulimit -v`) leaves so much room that it hardly misses these bytes:
/// a program that fits into its limit alone must fit with us in it.
pub fn has_room_for(bytes: usize) -> bool {
    const ADDRESS_SPACE: usize = 9;
    const HARDLY: usize = 64;
    let mut limits = [usize::MAX; 2];
    // Safety: the kernel writes two words to live ones. Unlimited is the largest number.
    unsafe {
        call(arch::SYS_GETRLIMIT, [ADDRESS_SPACE, (&raw mut limits) as usize, 0, 0, 0, 0]);
    }
    bytes <= limits[0] / HARDLY
}

/// Maps the shared memory; null when that fails. No part of a core dump.
pub fn map_shared(descriptor: isize, bytes: usize) -> *mut u8 {
    let at = map(bytes, libc::MAP_SHARED, descriptor);
    if !at.is_null() {
        advise(at, bytes, libc::MADV_DONTDUMP);
    }
    at
}

/// Whether the file has at least this length: access to mapped bytes beyond its end would raise SIGBUS.
pub fn is_long_enough(descriptor: isize, bytes: usize) -> bool {
    // Safety: moves the position of our own descriptor, which nobody uses.
    let end = unsafe { call(arch::SYS_LSEEK, [descriptor as usize, 0, libc::SEEK_END, 0, 0, 0]) };
    end >= bytes as isize
}

/// The id of the process in its own pid name space.
pub fn process_id() -> u64 {
    // Safety: takes no arguments, cannot fail.
    unsafe { call(arch::SYS_GETPID, [0; 6]) as u64 }
}

/// The thread.
pub fn thread_id() -> u64 {
    // Safety: takes no arguments, cannot fail.
    unsafe { call(arch::SYS_GETTID, [0; 6]) as u64 }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    let mut time = libc::Timespec { seconds: 0, nanoseconds: 0 };
    // Safety: a live structure; the vdso answers without a system call, without memory, and cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(time.nanoseconds as u64)
}

/// Lets other threads run.
pub fn give_way() {
    // Safety: takes no arguments.
    unsafe { call(arch::SYS_SCHED_YIELD, [0; 6]) };
}

/// Wakes the thread that sleeps on a word of shared memory.
pub fn wake(word: &AtomicU32) {
    let at = core::ptr::from_ref(word) as usize;
    // Safety: the kernel takes the address for a name, and writes nothing.
    unsafe { call(arch::SYS_FUTEX, [at, libc::FUTEX_WAKE, 1, 0, 0, 0]) };
}

/// Whether 8 bytes at an address are readable. `rt_sigprocmask` with an invalid operation reads the new mask first
/// (kernel/signal.c): EFAULT means that it could not, EINVAL that it could; no mask changes. Filters of system calls
/// permit this call, because the C library needs it in every program.
pub fn is_readable(address: usize) -> bool {
    const NO_MEANING: usize = usize::MAX;
    // Safety: the kernel checks the address; nothing is written.
    let result = unsafe { call(arch::SYS_RT_SIGPROCMASK, [NO_MEANING, address, 0, 8, 0, 0]) };
    result == -libc::EINVAL
}
