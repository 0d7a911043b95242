//! Declarations of the C library and of the kernel's numbers (`linux/include/uapi`, `asm/unistd_64.h`, `asm-generic/unistd.h`).

use core::ffi::{c_char, c_int, c_long, c_void};

#[link(name = "c")]
unsafe extern "C" {
    pub fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    pub fn getenv(name: *const c_char) -> *const c_char;
    pub fn syscall(number: c_long, ...) -> c_long;
    pub fn __errno_location() -> *mut c_int;
    pub fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    pub fn read(file: c_int, to: *mut c_void, bytes: usize) -> isize;
    pub fn close(file: c_int) -> c_int;
    pub fn poll(files: *mut PollFile, count: u64, milliseconds: c_int) -> c_int;
    pub fn sched_yield() -> c_int;
    pub fn clock_gettime(clock: c_int, to: *mut Timespec) -> c_int;
    pub fn pthread_sigmask(how: c_int, set: *const [u64; 16], old: *mut [u64; 16]) -> c_int;
    pub fn exit(code: c_int) -> !;
}

/// `struct timespec`.
#[repr(C)]
pub struct Timespec {
    pub seconds: i64,
    pub nanoseconds: i64,
}

/// `struct pollfd`.
#[repr(C)]
pub struct PollFile {
    pub file: c_int,
    pub events: i16,
    pub found: i16,
}

pub const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
pub const ENOMEM: c_int = 12;
pub const MAP_FIXED: c_int = 0x10;
/// MAP_TYPE, MAP_ANONYMOUS, MAP_HUGETLB, MAP_GROWSDOWN.
pub const MAP_KIND: c_int = 0xf | 0x20 | 0x4_0000 | 0x100;
pub const MAP_PRIVATE_ANONYMOUS: c_int = 0x2 | 0x20;
pub const READ_WRITE: c_int = 3;
/// MREMAP_MAYMOVE | MREMAP_DONTUNMAP (Linux 5.7).
pub const MOVE_AND_KEEP: c_long = 1 | 4;
pub const MADV_DONTNEED: c_long = 4;
/// MPOL_MF_MOVE.
pub const MOVE: c_long = 2;
pub const CLOCK_MONOTONIC: c_int = 1;
pub const POLL_IN: i16 = 1;
pub const SIG_SETMASK: c_int = 2;
/// O_CLOEXEC | O_NONBLOCK.
pub const CLOSE_ON_EXEC_AND_NOT_BLOCKING: c_long = 0o2_004_000;
pub const O_CLOEXEC: c_int = 0o2_000_000;

#[cfg(target_arch = "x86_64")]
mod number {
    use core::ffi::c_long;
    pub const MMAP: c_long = 9;
    pub const MUNMAP: c_long = 11;
    pub const IOCTL: c_long = 16;
    pub const MREMAP: c_long = 25;
    pub const MADVISE: c_long = 28;
    pub const MBIND: c_long = 237;
    pub const SET_MEMPOLICY: c_long = 238;
    pub const MOVE_PAGES: c_long = 279;
    pub const USERFAULTFD: c_long = 323;
}
#[cfg(target_arch = "aarch64")]
mod number {
    use core::ffi::c_long;
    pub const IOCTL: c_long = 29;
    pub const MUNMAP: c_long = 215;
    pub const MREMAP: c_long = 216;
    pub const MMAP: c_long = 222;
    pub const MADVISE: c_long = 233;
    pub const MBIND: c_long = 235;
    pub const SET_MEMPOLICY: c_long = 237;
    pub const MOVE_PAGES: c_long = 239;
    pub const USERFAULTFD: c_long = 282;
}
pub use number::*;

/// Runs something that may set errno, and restores it.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    // Safety: this thread's errno.
    let errno = unsafe { __errno_location() };
    // Safety: as above.
    let before = unsafe { *errno };
    let result = work();
    // Safety: as above.
    unsafe { *errno = before };
    result
}

/// Memory of our own, zeroed; 0 where there is none.
pub fn own_memory(bytes: usize) -> usize {
    // Safety: a new private mapping.
    let at = unsafe { syscall(MMAP, 0usize, bytes, 3usize, 0x22usize, -1isize, 0usize) };
    usize::try_from(at).unwrap_or(0)
}

/// Milliseconds since some moment.
pub fn now() -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // Safety: it writes both words.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut time) };
    (time.seconds as u64).wrapping_mul(1000).wrapping_add(time.nanoseconds as u64 / 1_000_000)
}

/// The beginning of a file of /proc.
pub fn beginning(path: &[u8], to: &mut [u8; 512]) -> usize {
    // Safety: a path that ends with NUL, and a buffer of that size.
    unsafe {
        let file = open(path.as_ptr().cast(), O_CLOEXEC);
        if file < 0 {
            return 0;
        }
        let got = read(file, to.as_mut_ptr().cast(), to.len());
        close(file);
        usize::try_from(got).unwrap_or(0)
    }
}
