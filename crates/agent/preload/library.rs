//! Unloading of libraries: rules learned from their code must not be applied to other code at the same addresses.
//!
//! What not: the rules (`tree`).

use core::ffi::{c_int, c_void};

use super::{exact, real};

/// dlclose(3).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    let Some(close) = real::dlclose() else { return -1 };
    // Before the call, because another thread may map something there as soon as the library is gone; and after it,
    // because until then threads have continued to learn from its code.
    exact::new_generation();
    // Safety: passed on as it came.
    let result = unsafe { close(handle) };
    exact::new_generation();
    result
}
