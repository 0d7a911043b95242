//! ITT (Intel's Instrumentation and Tracing Technology): tasks, frames, pause and resume of programs that are built with its
//! static stub. The stub loads the library that `INTEL_LIBITTNOTIFY64` names and calls `__itt_api_init`.
//!
//! Layouts: `ittnotify_config.h` and `ittnotify.h` of github.com/intel/ittapi, version 3. What not: relations and metadata
//! of tasks, counters, events; overlapped tasks.

use core::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};

use super::kept::{Domain, Handle, keep};
use super::{fathom_hook_pause, fathom_hook_resume, slot, steer, text};

/// `__itt_global`, as far as we read it.
#[repr(C)]
pub struct Global {
    magic: [u8; 8],
    version: [c_ulong; 3],
    state: [c_long; 3],
    mutex: [u64; 5],
    lib: *mut c_void,
    error_handler: *mut c_void,
    dll_path: *mut c_void,
    functions: *mut Function,
}

/// `__itt_api_info`.
#[repr(C)]
pub struct Function {
    name: *const c_char,
    pointer: *mut *const c_void,
    first: *const c_void,
    none: *const c_void,
    group: c_int,
}

/// `__itt_id`, which is passed by value.
#[repr(C)]
pub struct Id([u64; 3]);

const MAGIC: [u8; 8] = [0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30];

/// Called by the stub at its first use: puts our functions in place of its own.
///
/// # Safety
/// The stub's structure, whose list ends with a null name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __itt_api_init(global: *mut Global, _groups: c_int) {
    // Safety: as the caller says.
    let global = unsafe { &*global };
    if global.magic != MAGIC || global.version[0] != 3 {
        return;
    }
    let mut function = global.functions;
    loop {
        // Safety: an entry of the list, which a null name ends.
        let one = unsafe { &*function };
        if one.name.is_null() {
            return;
        }
        // Safety: a name that ends with NUL.
        let ours = answer(unsafe { CStr::from_ptr(one.name) });
        // Safety: the stub's own pointer to a function of this name.
        unsafe { *one.pointer = ours.unwrap_or(one.none) };
        function = function.wrapping_add(1);
    }
}

fn answer(name: &CStr) -> Option<*const c_void> {
    Some(match name.to_bytes() {
        b"__itt_domain_create" => domain_create as *const c_void,
        b"__itt_string_handle_create" => string_handle_create as *const c_void,
        b"__itt_task_begin" => task_begin as *const c_void,
        b"__itt_task_end" => task_end as *const c_void,
        b"__itt_frame_begin_v3" => frame_begin as *const c_void,
        b"__itt_frame_end_v3" => frame_end as *const c_void,
        b"__itt_marker" => marker as *const c_void,
        b"__itt_pause" => fathom_hook_pause as *const c_void,
        b"__itt_resume" => fathom_hook_resume as *const c_void,
        _ => return None,
    })
}

/// The stub makes domains and strings itself only until it has a tool.
extern "C" fn domain_create(name: *const c_char) -> *const Domain {
    // Safety: a text of the program.
    let kept = keep(unsafe { text(name) });
    // Safety: null, or kept for good.
    unsafe { kept.as_ref() }.map_or(core::ptr::null(), |kept| &raw const kept.domain)
}

extern "C" fn string_handle_create(name: *const c_char) -> *const Handle {
    // Safety: a text of the program.
    let kept = keep(unsafe { text(name) });
    // Safety: null, or kept for good.
    unsafe { kept.as_ref() }.map_or(core::ptr::null(), |kept| &raw const kept.handle)
}

/// The name of a domain; empty for null.
fn domain_name<'a>(domain: *const Domain) -> &'a [u8] {
    if domain.is_null() {
        return &[];
    }
    // Safety: the stub's structure or ours, which lives for good, as does its text.
    unsafe { text((*domain).name) }
}

fn handle_text<'a>(handle: *const Handle) -> &'a [u8] {
    if handle.is_null() {
        return &[];
    }
    // Safety: likewise.
    unsafe { text((*handle).text) }
}

extern "C" fn task_begin(domain: *const Domain, _: Id, _: Id, name: *const Handle) {
    slot::begin(domain_name(domain), handle_text(name));
}

extern "C" fn task_end(_: *const Domain) {
    slot::end();
}

extern "C" fn frame_begin(domain: *const Domain, _: *const Id) {
    slot::begin(domain_name(domain), b"frame");
}

extern "C" fn frame_end(_: *const Domain, _: *const Id) {
    slot::end();
}

extern "C" fn marker(_: *const Domain, _: Id, name: *const Handle, _: c_int) {
    steer::mark(handle_text(name));
}
