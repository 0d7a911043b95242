//! The region library: what `fathom.h`, ITT and NVTX call inside a program, while a collection runs.
//!
//! What for: regions of the program's code with their begins and ends, counted in shared memory (`sys::marked`); marks,
//! pauses and their ends, passed to the collector over its socket (`steer`). Nothing loads it by itself: the program's own
//! stubs find it by an environment variable, at the first call. A program without marks never has it.
//!
//! Rules, because this code runs inside of another program: no allocation, no lock, `errno` may change as with any
//! library, and nothing may panic: a panic that the compiler can imagine needs a function that no program has, and the
//! library would not load (a test loads it). Where the collector is gone, calls count into memory that nobody reads. Not for signal
//! handlers: a handler that interrupts a call of its own thread would spoil that thread's counts.
//!
//! A pass takes two readings of the clock and some stores. Its length is counted exactly; a long one becomes a row, short
//! ones of a region that follow each other become one row together. So ten million passes cost no more room than the
//! time in which they happen.

#![cfg_attr(not(clippy), no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

#[allow(dead_code, reason = "shared with the heap library, which needs other parts of it")]
#[cfg_attr(target_arch = "x86_64", path = "../preload/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "../preload/aarch64.rs")]
mod arch;
mod itt;
mod kept;
#[allow(dead_code, reason = "shared with the heap library, which needs other parts of it")]
#[path = "../preload/kernel.rs"]
mod kernel;
#[allow(dead_code, reason = "as above")]
#[path = "../preload/libc.rs"]
mod libc;
#[allow(dead_code, reason = "as above; the collector needs other parts of it")]
#[path = "../../sys/src/marked.rs"]
mod marked;
mod names;
mod nvtx;
mod slot;
mod steer;

use core::ffi::{CStr, c_char};

/// Nothing here panics. If it did, the program would end here.
#[cfg(not(clippy))]
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        arch::trap();
    }
}

/// A text of the program as bytes; empty for null.
///
/// # Safety
/// Null, or a text that ends with NUL and lives as long as the result.
unsafe fn text<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // Safety: as the caller says.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// This thread enters a region.
///
/// # Safety
/// Null or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fathom_hook_begin(name: *const c_char) {
    // Safety: as the caller says.
    slot::begin(b"", unsafe { text(name) });
}

/// This thread leaves the region that it entered last.
#[unsafe(no_mangle)]
pub extern "C" fn fathom_hook_end() {
    slot::end();
}

/// Names this moment.
///
/// # Safety
/// Null or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fathom_hook_mark(name: *const c_char) {
    // Safety: as the caller says.
    steer::mark(unsafe { text(name) });
}

/// Nothing is to be observed from now on.
#[unsafe(no_mangle)]
pub extern "C" fn fathom_hook_pause() {
    steer::ask(b"pause\n");
}

/// Everything is to be observed again.
#[unsafe(no_mangle)]
pub extern "C" fn fathom_hook_resume() {
    steer::ask(b"resume\n");
}
