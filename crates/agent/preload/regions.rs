//! Memory that the program maps itself: `mmap`, `brk` and their kin, each call with a record of its stack.
//!
//! What for: the caller and the time of a mapping; `/proc/PID/maps` shows the collector only that it exists. What
//! not: calls inside the C library (`malloc`'s own, stacks of threads) and in the dynamic linker, which bypass us;
//! the kind of mapping, which the collector looks up. A record without room is lost and counted.
//!
//! Each call is passed on unchanged. Until the C library's function is found, we make the system call that it would
//! make. The C library keeps the end of the data segment: without its `brk` and `sbrk` ours fail as theirs would.

use core::ffi::{c_int, c_void};

use super::count::ready_or_early;
use super::record::{self, Event};
use super::thread::{self, Thread};
use super::{heap, kernel, libc, real};

/// `MAP_FAILED` of sys/mman.h.
const FAILED: *mut c_void = -1isize as *mut c_void;

/// mmap(2), under both of its names: file offsets have 64 bits in either (glibc, sysdeps/unix/sysv/linux/mmap64.c).
macro_rules! mmap {
    ($name:ident, $real:ident) => {
        /// mmap(2).
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            address: *mut c_void,
            length: usize,
            protection: c_int,
            flags: c_int,
            descriptor: c_int,
            offset: i64,
        ) -> *mut c_void {
            let thread = ready_or_early();
            let at = match real::$real.get() {
                // Safety: passed on as it came.
                Some(real) => unsafe {
                    real(address, length, protection, flags, descriptor, offset)
                },
                // Safety: likewise.
                None => unsafe {
                    kernel::mmap(address, length, protection, flags, descriptor, offset)
                },
            };
            if let Some(thread) = thread.filter(|_| at != FAILED) {
                let flags = flags.cast_unsigned();
                tell(thread, heap::KIND_MAPPED, flags, kernel::now(), at, length);
            }
            at
        }
    };
}

mmap!(mmap, MMAP);
mmap!(mmap64, MMAP64);

/// munmap(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    let thread = ready_or_early();
    // Before the call: after it another thread may already have the range.
    let time = kernel::now();
    let result = match real::MUNMAP.get() {
        // Safety: passed on as it came.
        Some(real) => unsafe { real(address, length) },
        // Safety: likewise.
        None => unsafe { kernel::munmap(address, length) },
    };
    if let Some(thread) = thread.filter(|_| result == 0) {
        tell(thread, heap::KIND_UNMAPPED, 0, time, address, length);
    }
    result
}

/// mremap(2): reported as the end of the old range and a new one. With `MREMAP_DONTUNMAP` the old one stays, which
/// the collector finds at its next reading.
///
/// # Safety
/// As the C library's, whose last argument is optional: reading a register that the caller did not set is harmless.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    old: *mut c_void,
    old_length: usize,
    length: usize,
    flags: c_int,
    wanted: *mut c_void,
) -> *mut c_void {
    let thread = ready_or_early();
    let time = kernel::now();
    let at = match real::MREMAP.get() {
        // Safety: passed on as it came.
        Some(real) => unsafe { real(old, old_length, length, flags, wanted) },
        // Safety: likewise.
        None => unsafe { kernel::mremap(old, old_length, length, flags, wanted) },
    };
    if let Some(thread) = thread.filter(|_| at != FAILED) {
        tell(thread, heap::KIND_UNMAPPED, 0, time, old, old_length);
        // Mostly private memory without a file is moved; the collector corrects other cases.
        tell(thread, heap::KIND_MAPPED, libc::MAP_OUR_OWN as u32, kernel::now(), at, length);
    }
    at
}

/// brk(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brk(end: *mut c_void) -> c_int {
    let thread = ready_or_early();
    let (Some(set), Some(moved)) = (real::brk(), real::sbrk()) else {
        // Safety: this thread's errno, which the manual says is ENOMEM then.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return -1;
    };
    let time = kernel::now();
    // Safety: the first call asks for the end and moves nothing; then the program's call is passed on unchanged.
    let (before, result) = unsafe { (moved(0), set(end)) };
    if let Some(thread) = thread.filter(|_| result == 0 && before != FAILED) {
        tell_of_break(thread, time, before, (end as isize).wrapping_sub(before as isize));
    }
    result
}

/// sbrk(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sbrk(bytes: isize) -> *mut c_void {
    let thread = ready_or_early();
    let Some(moved) = real::sbrk() else {
        // Safety: as in `brk`.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return FAILED;
    };
    let time = kernel::now();
    // Safety: passed on as it came.
    let before = unsafe { moved(bytes) };
    if let Some(thread) = thread.filter(|_| before != FAILED) {
        tell_of_break(thread, time, before, bytes);
    }
    before
}

/// The data segment ended at `before`; since then its end was moved by so many bytes.
fn tell_of_break(thread: *mut Thread, time: u64, before: *mut c_void, bytes: isize) {
    if bytes > 0 {
        tell(thread, heap::KIND_BREAK, 0, time, before, bytes as usize);
    } else if bytes < 0 {
        let end = before.wrapping_byte_offset(bytes);
        tell(thread, heap::KIND_UNMAPPED, 0, time, end, bytes.unsigned_abs());
    }
}

fn tell(thread: *mut Thread, kind: u32, flags: u32, time: u64, at: *mut c_void, length: usize) {
    if !thread::wants_regions() {
        return;
    }
    let event = Event { kind, call: flags, time, address: at as usize, size: length as u64 };
    record::write(thread, &event);
}
