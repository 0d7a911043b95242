//! NVTX 3 (NVIDIA Tools Extension): push and pop ranges and marks. Its header loads the library that `NVTX_INJECTION64_PATH`
//! names and calls `InitializeInjectionNvtx2`.
//!
//! Layouts: `nvtxTypes.h` and `nvToolsExt.h` of github.com/NVIDIA/NVTX. What not: ranges by `nvtxRangeStart`, which may end
//! on another thread, names of devices and threads, texts of wide characters.

use core::ffi::{c_char, c_int, c_uint, c_void};

use super::kept::keep;
use super::{slot, steer, text};

/// `NvtxExportTableCallbacks`.
#[repr(C)]
pub struct Callbacks {
    size: usize,
    table_of: unsafe extern "C" fn(c_int, *mut *mut *mut *const c_void, *mut c_uint) -> c_int,
}

/// `nvtxEventAttributes_t`, as far as we read it.
#[repr(C)]
pub struct Event {
    version_and_size: u32,
    category: u32,
    color: [u32; 2],
    payload_type: [u32; 2],
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

const EXPORT_CALLBACKS: u32 = 1;
const MODULE_CORE: c_int = 1;
const MODULE_CORE_2: c_int = 5;
const MESSAGE_ASCII: i32 = 1;
const MESSAGE_REGISTERED: i32 = 3;

/// Called by the header at its first use: puts our functions in place of its own.
///
/// # Safety
/// The header's function, which gives the table of callbacks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(
    export: unsafe extern "C" fn(u32) -> *const Callbacks,
) -> c_int {
    // Safety: as the caller says.
    let callbacks = unsafe { export(EXPORT_CALLBACKS) };
    if callbacks.is_null() {
        return 0;
    }
    let core: [(usize, *const c_void); 5] = [
        (1, mark_event as *const c_void),
        (2, mark_text as *const c_void),
        (8, push_event as *const c_void),
        (9, push_text as *const c_void),
        (11, pop as *const c_void),
    ];
    let of_domains: [(usize, *const c_void); 5] = [
        (1, domain_mark as *const c_void),
        (4, domain_push as *const c_void),
        (5, domain_pop as *const c_void),
        (10, register_string as *const c_void),
        (12, create_domain as *const c_void),
    ];
    for (module, ours) in [(MODULE_CORE, core), (MODULE_CORE_2, of_domains)] {
        let (mut table, mut size) = (core::ptr::null_mut(), 0);
        // Safety: live values; the header's function writes both.
        if unsafe { ((*callbacks).table_of)(module, &raw mut table, &raw mut size) } != 1 {
            continue;
        }
        for (number, function) in ours {
            if number < size as usize {
                // Safety: the entry of the function with this number.
                unsafe { **table.wrapping_add(number) = function };
            }
        }
    }
    1
}

/// A text that was registered is the number of the region of this name in its domain, plus 1.
fn handle(number: Option<usize>) -> *const c_void {
    number.map_or(1, |number| number + 1) as *const c_void
}

extern "C" fn mark_text(name: *const c_char) {
    // Safety: a text of the program.
    steer::mark(unsafe { text(name) });
}

extern "C" fn mark_event(event: *const Event) {
    // Safety: a structure of the program.
    match unsafe { event.as_ref() } {
        Some(event) if event.message_type == MESSAGE_REGISTERED => {
            steer::mark(slot::name((event.message as usize).wrapping_sub(1)));
        }
        Some(event) if event.message_type == MESSAGE_ASCII => {
            // Safety: likewise a text.
            steer::mark(unsafe { text(event.message) });
        }
        _ => {}
    }
}

extern "C" fn domain_mark(_: *const c_void, event: *const Event) {
    mark_event(event);
}

extern "C" fn push_text(name: *const c_char) -> c_int {
    // Safety: a text of the program.
    slot::begin(b"", unsafe { text(name) });
    0
}

extern "C" fn push_event(event: *const Event) -> c_int {
    domain_push(core::ptr::null(), event)
}

extern "C" fn domain_push(domain: *const c_void, event: *const Event) -> c_int {
    // Safety: a structure of the program.
    match unsafe { event.as_ref() } {
        Some(event) if event.message_type == MESSAGE_REGISTERED => {
            slot::begin_number((event.message as usize).wrapping_sub(1));
        }
        Some(event) if event.message_type == MESSAGE_ASCII => {
            // Safety: likewise a text, and the domain that `create_domain` gave.
            unsafe { slot::begin(text(domain.cast()), text(event.message)) };
        }
        // A range without a text still has an end.
        _ => slot::begin(b"", b"(without a name)"),
    }
    0
}

extern "C" fn pop() -> c_int {
    slot::end();
    0
}

extern "C" fn domain_pop(_: *const c_void) -> c_int {
    slot::end();
    0
}

extern "C" fn register_string(domain: *const c_void, name: *const c_char) -> *const c_void {
    // Safety: texts of the program.
    handle(unsafe { slot::number(text(domain.cast()), text(name)) })
}

/// A domain is the text of its name; the global one, null, where there is no room.
extern "C" fn create_domain(name: *const c_char) -> *const c_void {
    // Safety: a text of the program.
    let kept = keep(unsafe { text(name) });
    // Safety: null, or kept for good.
    unsafe { kept.as_ref() }.map_or(core::ptr::null(), |kept| kept.handle.text.cast())
}
