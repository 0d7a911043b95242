//! The allocation agent: a library that is preloaded into the program and counts its heap blocks.
//!
//! What for: `malloc` and its kin stand here in front of the program's allocator. Each call is passed on unchanged.
//! Then sizes are counted exactly, and some blocks get a record with their stack (`record`), or all of them an event
//! with the name of the stack (`exact`). What not: decisions and unwind tables; the collector has them and reads the
//! shared memory (`sys::heap`).
//!
//! Rules, because this code runs inside `malloc` of another program: it allocates nothing from the program's heap
//! (its own memory comes from `mmap`), takes no lock, calls nothing that could allocate, keeps `errno`, and never
//! panics (arithmetic wraps). It may be entered before `main`, in a signal handler, while a thread ends, and in a
//! forked child. If anything is missing (no collector, no memory), calls are passed on and nothing is counted.
//!
//! System calls that the agent makes; the program's filter (seccomp(2)) may kill the program at one of them:
//! - before `main`, in a constructor (or at an earlier block): `openat`, `lseek`, `mmap`, `madvise`, `close`,
//!   `getpid`. In a process that ran before us only `mmap`, `madvise`, `getpid`, at its first block from then on;
//! - in a forked child `getpid`; with another C library than glibc `gettid` at a thread's first block (`thread_id`);
//! - when a block is the first in its 64 MiB of addresses, whose shadow is then mapped: `mmap` and two `madvise`; in
//!   exact mode also at a thread's first block;
//! - when a stack is copied, and in exact mode at the first walk of a thread's stack: `rt_sigprocmask` for each page
//!   of it, to test whether it is readable (`kernel::is_readable`). Where only some blocks have records: at each
//!   record;
//! - where only some blocks have records, when a quarter of a ring is in use and the collector sleeps: `futex`, to
//!   wake it;
//! - when a ring is full: `sched_yield`. Where the kernel's clock is not in the vdso: `clock_gettime` at each record.
//!
//! There are none at any other call.
//!
//! Exact: blocks and bytes requested, per size class; frees and their bytes; live bytes. The peak of the live bytes
//! is exact while one thread allocates; with several, each may publish its change some KiB late (`thread::SLACK`).
//! Times are accurate to nanoseconds; in exact mode, while one thread allocates, to a microsecond or two
//! (`exact::stamp`). Not observed: an allocator that is linked into the program itself, whose `malloc` takes
//! precedence.
//!
//! When preloaded, the dynamic linker finds these functions. In a running process the collector maps this library
//! itself and redirects calls here (`attached`); then no function that looks something up is ever called.

#![cfg_attr(not(clippy), no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;
#[cfg_attr(target_arch = "aarch64", path = "without_attached.rs")]
mod attached;
mod count;
#[cfg_attr(target_arch = "aarch64", path = "without_exact.rs")]
mod exact;
#[allow(dead_code, reason = "the page is shared with the collector, which needs other parts of it")]
#[path = "../../sys/src/heap.rs"]
mod heap;
#[allow(dead_code, reason = "as above")]
#[path = "../../sys/src/heap_exact.rs"]
mod heap_exact;
mod kernel;
mod libc;
mod library;
mod lot;
mod memkind;
#[cfg(target_arch = "x86_64")]
mod memo;
mod pmemobj;
mod real;
mod record;
mod regions;
mod shadow;
#[cfg_attr(target_arch = "aarch64", allow(dead_code, reason = "walks need the rest of it"))]
mod stack_range;
#[cfg(target_arch = "x86_64")]
mod step;
mod thread;
mod thread_id;
#[cfg(target_arch = "x86_64")]
mod tree;
#[cfg(target_arch = "x86_64")]
mod walk;

use core::ffi::{c_int, c_void};

use count::{allocated, freed, give_back_or_restore, ready_or_early};
use heap::{CALL_ALIGNED, CALL_CALLOC, CALL_MALLOC, CALL_REALLOC};

/// Nothing here panics. If it did, the program would end here.
#[cfg(not(clippy))]
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        arch::trap();
    }
}

/// Runs before `main`: makes the system calls of the start before the program can set a filter.
#[cfg(not(clippy))]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = start;

#[cfg(not(clippy))]
extern "C" fn start() {
    ready_or_early();
}

/// malloc(3).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    let (Some(thread), Some(real)) = (ready_or_early(), real::MALLOC.get()) else {
        return real::from_reserve(size);
    };
    // Safety: passed on as it came.
    let block = unsafe { real(size) };
    allocated(thread, block, size, CALL_MALLOC);
    block
}

/// calloc(3).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let (Some(thread), Some(real)) = (ready_or_early(), real::CALLOC.get()) else {
        return real::from_reserve(count.saturating_mul(size));
    };
    // Safety: passed on as it came.
    let block = unsafe { real(count, size) };
    // No overflow: the allocator would have returned null.
    allocated(thread, block, count.wrapping_mul(size), CALL_CALLOC);
    block
}

/// realloc(3): counts as a free and an allocation, even in place.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(old: *mut c_void, size: usize) -> *mut c_void {
    let (Some(thread), Some(real)) = (ready_or_early(), real::REALLOC.get()) else {
        return real::from_reserve(size);
    };
    if let Some(room) = real::reserve_behind(old as usize) {
        // Safety: a fresh block; what is copied lies in the reserve, which is as long as `room`.
        return unsafe {
            let block = malloc(size);
            if !block.is_null() {
                core::ptr::copy_nonoverlapping(old.cast::<u8>(), block.cast(), room.min(size));
            }
            block
        };
    }
    let before = (!old.is_null()).then(|| count::released(thread, old));
    // Safety: passed on as it came.
    let block = unsafe { real(old, size) };
    if let Some(before) = before {
        give_back_or_restore(thread, old, before, block.is_null() && size != 0);
    }
    allocated(thread, block, size, CALL_REALLOC);
    block
}

/// reallocarray(3).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(old: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // Safety: `realloc` with the same contract.
        Some(bytes) => unsafe { realloc(old, bytes) },
        None => {
            // Safety: this thread's errno, which the manual says is ENOMEM now.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            core::ptr::null_mut()
        }
    }
}

/// free(3).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() || real::reserve_behind(block as usize).is_some() {
        return;
    }
    let (Some(thread), Some(real)) = (ready_or_early(), real::FREE.get()) else { return };
    freed(thread, block);
    // Safety: passed on as it came.
    unsafe { real(block) };
}

/// free_sized of C23: the size is the caller's claim and is not used.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, _size: usize) {
    // Safety: the same contract.
    unsafe { free(block) };
}

/// free_aligned_sized of C23.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _alignment: usize, _size: usize) {
    // Safety: the same contract.
    unsafe { free(block) };
}

/// posix_memalign(3).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    to: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    let (Some(thread), Some(real)) = (ready_or_early(), real::POSIX_MEMALIGN.get()) else {
        return libc::ENOMEM;
    };
    // Safety: passed on as it came.
    let error = unsafe { real(to, alignment, size) };
    if error == 0 {
        // Safety: on success the allocator has written it.
        allocated(thread, unsafe { *to }, size, CALL_ALIGNED);
    }
    error
}

/// A function of one size, or of an alignment and a size.
macro_rules! aligned {
    ($name:ident, $real:ident, ($($before:ident)?), $doc:literal) => {
        #[doc = $doc]
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($before: usize,)? size: usize) -> *mut c_void {
            let (Some(thread), Some(real)) = (ready_or_early(), real::$real.get()) else {
                return core::ptr::null_mut();
            };
            // Safety: passed on as it came.
            let block = unsafe { real($($before,)? size) };
            allocated(thread, block, size, CALL_ALIGNED);
            block
        }
    };
}

aligned!(aligned_alloc, ALIGNED_ALLOC, (alignment), "aligned_alloc(3).");
aligned!(memalign, MEMALIGN, (alignment), "memalign(3).");
aligned!(valloc, VALLOC, (), "valloc(3).");
aligned!(pvalloc, PVALLOC, (), "pvalloc(3).");
