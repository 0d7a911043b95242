//! The state that the collector writes when it brings this library into a running process.
//!
//! What for: no dynamic linker loads the library there, and the process looks up nothing in it. The collector maps
//! the segments, relocates them (`collect::heap::attach`), and writes these words and those of `real` and
//! `thread_id`. Only then does it redirect calls of the program here, by words that it changes one byte at a time.
//! What not: how that is done (`burst::guest`).
//!
//! Rules of this mode: no block comes from the reserve, because after the collector has left, the allocator gets
//! every block back. The dynamic linker does not know this library, so `dlsym` must not be called from it. The
//! functions that it needs of the C library are called by address. `memcpy` and `memset` have several implementations
//! there, chosen when a library is loaded; so the library has its own for this mode.

use core::sync::atomic::{AtomicPtr, Ordering};

/// Address of the shared memory; null when the library was preloaded.
#[unsafe(export_name = "fathom_header")]
static HEADER: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

/// The shared memory that the collector mapped; `None` when the library was preloaded.
#[inline(always)]
pub fn header() -> Option<*mut u8> {
    let header = HEADER.load(Ordering::Acquire);
    (!header.is_null()).then_some(header)
}

/// memcpy(3).
///
/// # Safety
/// As the C library's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fathom_memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    core::arch::naked_asm!("mov rax, rdi", "mov rcx, rdx", "rep movsb", "ret")
}

/// memset(3).
///
/// # Safety
/// As the C library's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fathom_memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8 {
    core::arch::naked_asm!(
        "mov r8, rdi",
        "mov eax, esi",
        "mov rcx, rdx",
        "rep stosb",
        "mov rax, r8",
        "ret"
    )
}
