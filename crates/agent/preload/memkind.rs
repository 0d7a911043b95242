//! Blocks of libmemkind: counted and recorded like heap blocks, whatever their kind (persistent memory, HBM, DRAM).
//!
//! What not: its other names of the same (`hbw_*`); arenas that a program makes from a kind.
//!
//! The library has an allocator of its own, so no block is counted twice. As with libpmemobj, functions are looked up at the first call.

use core::ffi::{c_int, c_void};

use super::count::{self, allocated, freed, give_back_or_restore, ready_or_early};
use super::heap::{CALL_ALIGNED, CALL_CALLOC, CALL_MALLOC, CALL_REALLOC};
use super::libc;
use super::real::RealFunction;

fn count_new(block: *mut c_void, size: usize, call: u32) {
    if let Some(thread) = ready_or_early().filter(|_| !block.is_null()) {
        allocated(thread, block, size, call);
    }
}

/// memkind_malloc(3).
///
/// # Safety
/// As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_malloc(kind: *mut c_void, size: usize) -> *mut c_void {
    static REAL: RealFunction<unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void> =
        RealFunction::new();
    let Some(real) = REAL.get_or_find(c"memkind_malloc") else { return core::ptr::null_mut() };
    // Safety: passed on as it came.
    let block = unsafe { real(kind, size) };
    count_new(block, size, CALL_MALLOC);
    block
}

/// memkind_calloc(3).
///
/// # Safety
/// As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_calloc(
    kind: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    static REAL: RealFunction<unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void> =
        RealFunction::new();
    let Some(real) = REAL.get_or_find(c"memkind_calloc") else { return core::ptr::null_mut() };
    // Safety: passed on as it came.
    let block = unsafe { real(kind, count, size) };
    count_new(block, count.wrapping_mul(size), CALL_CALLOC);
    block
}

/// memkind_realloc(3).
///
/// # Safety
/// As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_realloc(
    kind: *mut c_void,
    old: *mut c_void,
    size: usize,
) -> *mut c_void {
    static REAL: RealFunction<
        unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void,
    > = RealFunction::new();
    let Some(real) = REAL.get_or_find(c"memkind_realloc") else { return core::ptr::null_mut() };
    let thread = ready_or_early();
    let counted = thread.filter(|_| !old.is_null());
    let before = counted.map(|thread| count::released(thread, old));
    // Safety: passed on as it came.
    let block = unsafe { real(kind, old, size) };
    if let (Some(thread), Some(before)) = (thread, before) {
        give_back_or_restore(thread, old, before, block.is_null() && size != 0);
    }
    count_new(block, size, CALL_REALLOC);
    block
}

/// memkind_posix_memalign(3).
///
/// # Safety
/// As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_posix_memalign(
    kind: *mut c_void,
    to: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    type Function = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, usize, usize) -> c_int;
    static REAL: RealFunction<Function> = RealFunction::new();
    let Some(real) = REAL.get_or_find(c"memkind_posix_memalign") else { return libc::ENOMEM };
    // Safety: passed on as it came; on success the library has written the address.
    unsafe {
        let error = real(kind, to, alignment, size);
        if error == 0 {
            count_new(*to, size, CALL_ALIGNED);
        }
        error
    }
}

/// memkind_free(3).
///
/// # Safety
/// As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_free(kind: *mut c_void, block: *mut c_void) {
    static REAL: RealFunction<unsafe extern "C" fn(*mut c_void, *mut c_void)> = RealFunction::new();
    let Some(real) = REAL.get_or_find(c"memkind_free") else { return };
    if let Some(thread) = ready_or_early().filter(|_| !block.is_null()) {
        freed(thread, block);
    }
    // Safety: passed on as it came.
    unsafe { real(kind, block) };
}
