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

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{arch, libc};

/// Offset of the number from the control block (wrapping); 0 when not known. Exported for the collector (`attached`).
#[unsafe(export_name = "fathom_thread_id")]
static OFFSET: AtomicUsize = AtomicUsize::new(0);
/// Control blocks are smaller: 2304 bytes in glibc 2.36.
const MOST_BYTES: usize = 4096;

/// Finds the offset of the number, with the running thread's `block`.
pub fn find(block: usize) {
    let Some([bits, count, offset]) = constant::<3>(c"_thread_db_pthread_tid") else { return };
    let structure = arch::thread_structure(|name| {
        constant::<1>(name).map(|[bytes]| bytes as usize).filter(|bytes| *bytes < MOST_BYTES)
    });
    let Some(structure) = structure else { return };
    let fits = bits == 32 && count == 1 && offset != 0 && (offset as usize) < MOST_BYTES;
    let offset = structure.wrapping_add(offset as usize);
    if fits && read(block, offset) != 0 {
        OFFSET.store(offset, Ordering::Relaxed);
    }
}

/// What the C library tells debuggers under this name.
fn constant<const WORDS: usize>(name: &CStr) -> Option<[u32; WORDS]> {
    // Safety: a name that ends with NUL; the C library lies behind us.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }.cast::<[u32; WORDS]>();
    // Safety: the C library's own constant, which has that many words under this name (head of the file).
    (!found.is_null()).then(|| unsafe { found.read_unaligned() })
}

fn read(block: usize, offset: usize) -> u64 {
    // Safety: inside of the running thread's structure, as the C library says of itself.
    u64::from(unsafe { (block.wrapping_add(offset) as *const u32).read_unaligned() })
}

/// The number of the running thread, whose control block is `block`; `None` where the C library does not say.
pub fn of(block: usize) -> Option<u64> {
    match OFFSET.load(Ordering::Relaxed) {
        0 => None,
        offset => Some(read(block, offset)),
    }
}
