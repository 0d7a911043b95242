//! The agent's declarations of the C library and numbers that all architectures of Linux share (`linux/include/uapi`, glibc's headers).
//! The crate of this name is not available, because cargo does not compile this library.

use core::ffi::{c_char, c_int, c_void};

/// Point in time of `clock_gettime`.
#[repr(C)]
pub struct Timespec {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanoseconds: i64,
}

#[link(name = "c")]
unsafe extern "C" {
    /// dlsym(3).
    pub fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    /// getenv(3).
    pub fn getenv(name: *const c_char) -> *const c_char;
    /// getauxval(3).
    pub fn getauxval(kind: usize) -> usize;
    /// clock_gettime(2).
    pub fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    /// The address of this thread's errno.
    pub fn __errno_location() -> *mut c_int;
}

/// `RTLD_NEXT` of dlfcn.h.
pub const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
/// linux/auxvec.h: the address of 16 random bytes that the kernel put above the first thread's stack.
pub const AT_RANDOM: usize = 25;
/// dlfcn.h.
pub const RTLD_LAZY: c_int = 1;
/// dlfcn.h.
pub const RTLD_NOLOAD: c_int = 4;
/// errno.h.
pub const ENOMEM: c_int = 12;
/// errno.h.
pub const ENOSYS: c_int = 38;
/// errno.h.
pub const EINVAL: isize = 22;
/// time.h.
pub const CLOCK_MONOTONIC: c_int = 1;
/// linux/futex.h.
pub const FUTEX_WAKE: usize = 1;
/// fcntl.h.
pub const AT_FDCWD: isize = -100;
/// asm-generic/fcntl.h: O_RDWR | O_CLOEXEC.
pub const READ_WRITE_CLOSE_ON_EXEC: usize = 0o2_000_002;
/// stdio.h.
pub const SEEK_END: usize = 2;
/// asm-generic/mman-common.h: PROT_READ | PROT_WRITE.
pub const READ_AND_WRITE: usize = 3;
/// linux/mman.h.
pub const MAP_SHARED: usize = 1;
/// MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE.
pub const MAP_OUR_OWN: usize = 0x2 | 0x20 | 0x4000;
/// asm-generic/mman-common.h.
pub const MADV_NOHUGEPAGE: usize = 15;
/// asm-generic/mman-common.h.
pub const MADV_DONTDUMP: usize = 16;
/// asm-generic/mman-common.h.
pub const MADV_WIPEONFORK: usize = 18;
