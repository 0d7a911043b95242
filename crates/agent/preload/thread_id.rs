//! The number of the running thread, without a system call.
//!
//! What for: records name their thread. A program may set a filter that kills it at `gettid`, and so we must not call
//! that.
//!
//! How: the C library keeps the number in the thread's control block and corrects it in a forked child. It gives the
//! place to debuggers by `_thread_db_pthread_tid` (glibc, nptl/db_info.c): three 32-bit words, the bits of the field,
//! their number, and its offset. We cannot verify it with the kernel: a program's first block may come after its
//! filter.
//!
//! What not: other C libraries. There the kernel is asked when a thread takes its slot, and a later thread with a
//! control block at the same address keeps that number.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::libc;

/// Offset of the number in the control block; 0 when not known. Exported for the collector (`attached`).
#[unsafe(export_name = "fathom_thread_id")]
static OFFSET: AtomicUsize = AtomicUsize::new(0);
/// Control blocks are smaller: 2304 bytes in glibc 2.36.
const MOST_BYTES: usize = 4096;

/// Finds the offset of the number, with the running thread's `block`.
pub fn find(block: usize) {
    let name = c"_thread_db_pthread_tid";
    // Safety: a name that ends with NUL; the C library lies behind us.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }.cast::<[u32; 3]>();
    if found.is_null() {
        return;
    }
    // Safety: the C library's own constant, which has three words under this name (head of the file).
    let [bits, count, offset] = unsafe { found.read_unaligned() };
    let offset = offset as usize;
    let fits = bits == 32 && count == 1 && offset != 0 && offset < MOST_BYTES;
    if fits && read(block, offset) != 0 {
        OFFSET.store(offset, Ordering::Relaxed);
    }
}

fn read(block: usize, offset: usize) -> u64 {
    // Safety: inside of the running thread's control block, as the C library says of itself.
    u64::from(unsafe { ((block + offset) as *const u32).read_unaligned() })
}

/// The number of the running thread, whose control block is `block`; `None` where the C library does not say.
pub fn of(block: usize) -> Option<u64> {
    match OFFSET.load(Ordering::Relaxed) {
        0 => None,
        offset => Some(read(block, offset)),
    }
}
