//! Blocks in pools of libpmemobj: counted and recorded like heap blocks, as a kind of their own.
//!
//! What for: the functions that allocate and free single objects, outside and inside transactions (libpmemobj(7)), reserve them,
//! and make the root object. The objects of a pool that is opened count as allocated by `pmemobj_open`: from then on they are in the
//! program's memory. What not: lists. Objects that an aborted transaction frees still count as live, and so do cancelled reservations,
//! and everything in a pool when it is closed. A deferred free counts when it is asked for.
//!
//! A program without the library never gets here. The library's functions are looked up at the first call, not
//! earlier: a failed search would leave its message for the program's next `dlerror`. A transaction's function may
//! leave by `longjmp`, past our frames, which hold nothing that must be dropped.

use core::ffi::{CStr, c_char, c_int, c_void};

use super::count::{self, allocated, freed, give_back_or_restore, ready_or_early};
use super::heap::CALL_PERSISTENT;
use super::libc;
use super::real::RealFunction;

/// `PMEMoid` of libpmemobj/base.h: a pool and an offset in it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Oid {
    pool: u64,
    offset: u64,
}

const NULL: Oid = Oid { pool: 0, offset: 0 };
const FAILED: c_int = -1;

type Direct = unsafe extern "C" fn(Oid) -> *mut c_void;
static DIRECT: RealFunction<Direct> = RealFunction::new();

/// Where an object lies; null for none.
fn address(oid: Oid) -> *mut c_void {
    if oid.offset == 0 {
        return core::ptr::null_mut();
    }
    match DIRECT.get_or_find(c"pmemobj_direct") {
        // Safety: an OID that the library gave, or that the program passes to it.
        Some(direct) => unsafe { direct(oid) },
        None => core::ptr::null_mut(),
    }
}

fn count_new(oid: Oid, size: usize) {
    let block = address(oid);
    if let Some(thread) = ready_or_early() {
        allocated(thread, block, size, CALL_PERSISTENT);
    }
}

fn count_freed(oid: Oid) {
    let block = address(oid);
    if let Some(thread) = ready_or_early().filter(|_| !block.is_null()) {
        freed(thread, block);
    }
}

/// Counts the effect of a function that moves an object; `call` returns whether it succeeded, and the object's new
/// place.
fn count_moved(old: Oid, size: usize, call: impl FnOnce() -> (bool, Oid)) {
    let block = address(old);
    let thread = ready_or_early();
    let counted = thread.filter(|_| !block.is_null());
    let before = counted.map(|thread| count::released(thread, block));
    let (failed, new) = call();
    let Some(thread) = thread else { return };
    if let Some(before) = before {
        give_back_or_restore(thread, block, before, failed);
    }
    if !failed && size != 0 {
        allocated(thread, address(new), size, CALL_PERSISTENT);
    }
}

/// What `to` points to.
///
/// # Safety
/// Null, or an OID that the program passes to the library to be read.
unsafe fn read(to: *const Oid) -> Oid {
    // Safety: as the caller makes sure of.
    if to.is_null() { NULL } else { unsafe { *to } }
}

/// Bytes of a text with its end, which the library has copied just now.
fn text_bytes(text: *const c_char) -> usize {
    // Safety: the library has read it to its end, and nobody may have changed it since: it is the caller's argument.
    unsafe { CStr::from_ptr(text) }.to_bytes_with_nul().len()
}

/// The program calls the library, but there is none: the call fails.
fn missing() -> c_int {
    // Safety: this thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    FAILED
}

/// A function that stores a new object's OID where the program wants it; without such a place the object has no
/// address yet.
macro_rules! allocate_into {
    ($name:ident, ($($argument:ident: $type:ty),*), $size:expr) => {
        /// libpmemobj's; see pmemobj_alloc(3).
        ///
        /// # Safety
        /// As the library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            pool: *mut c_void,
            to: *mut Oid,
            $($argument: $type),*
        ) -> c_int {
            type Function = unsafe extern "C" fn(*mut c_void, *mut Oid, $($type),*) -> c_int;
            static REAL: RealFunction<Function> = RealFunction::new();
            const NAME: &CStr = name_of(concat!(stringify!($name), "\0"));
            let Some(real) = REAL.get_or_find(NAME) else { return missing() };
            // Safety: passed on as it came.
            let result = unsafe { real(pool, to, $($argument),*) };
            if result == 0 {
                // Safety: on success the library has written it, if it is not null.
                count_new(unsafe { read(to) }, $size);
            }
            result
        }
    };
}

allocate_into!(pmemobj_alloc,
    (size: usize, kind: u64, constructor: *mut c_void, argument: *mut c_void), size);
allocate_into!(pmemobj_xalloc,
    (size: usize, kind: u64, flags: u64, constructor: *mut c_void, argument: *mut c_void), size);
allocate_into!(pmemobj_zalloc, (size: usize, kind: u64), size);
allocate_into!(pmemobj_strdup, (text: *const c_char, kind: u64), text_bytes(text));

/// A function that moves the object whose OID is stored by the program.
macro_rules! move_at {
    ($name:ident) => {
        /// libpmemobj's; see pmemobj_alloc(3).
        ///
        /// # Safety
        /// As the library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            pool: *mut c_void,
            at: *mut Oid,
            size: usize,
            kind: u64,
        ) -> c_int {
            type Function = unsafe extern "C" fn(*mut c_void, *mut Oid, usize, u64) -> c_int;
            static REAL: RealFunction<Function> = RealFunction::new();
            const NAME: &CStr = name_of(concat!(stringify!($name), "\0"));
            let Some(real) = REAL.get_or_find(NAME) else { return missing() };
            let mut result = FAILED;
            // Safety: the library reads it, too.
            count_moved(unsafe { read(at) }, size, || {
                // Safety: passed on as it came; afterwards it is written.
                unsafe {
                    result = real(pool, at, size, kind);
                    (result != 0, read(at))
                }
            });
            result
        }
    };
}

move_at!(pmemobj_realloc);
move_at!(pmemobj_zrealloc);

/// A function that returns the OID of a new object.
macro_rules! allocate {
    ($name:ident, ($($argument:ident: $type:ty),*), $size:expr) => {
        /// libpmemobj's; see pmemobj_tx_alloc(3).
        ///
        /// # Safety
        /// As the library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> Oid {
            static REAL: RealFunction<unsafe extern "C" fn($($type),*) -> Oid> = RealFunction::new();
            const NAME: &CStr = name_of(concat!(stringify!($name), "\0"));
            let Some(real) = REAL.get_or_find(NAME) else {
                missing();
                return NULL;
            };
            // Safety: passed on as it came.
            let oid = unsafe { real($($argument),*) };
            if oid.offset != 0 {
                count_new(oid, $size);
            }
            oid
        }
    };
}

allocate!(pmemobj_tx_alloc, (size: usize, kind: u64), size);
allocate!(pmemobj_tx_zalloc, (size: usize, kind: u64), size);
allocate!(pmemobj_tx_xalloc, (size: usize, kind: u64, flags: u64), size);
allocate!(pmemobj_reserve, (pool: *mut c_void, action: *mut c_void, size: usize, kind: u64), size);
allocate!(pmemobj_xreserve,
    (pool: *mut c_void, action: *mut c_void, size: usize, kind: u64, flags: u64), size);
allocate!(pmemobj_tx_strdup, (text: *const c_char, kind: u64), text_bytes(text));

/// A transaction's function that moves an object.
macro_rules! move_object {
    ($name:ident) => {
        /// libpmemobj's; see pmemobj_tx_alloc(3).
        ///
        /// # Safety
        /// As the library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(old: Oid, size: usize, kind: u64) -> Oid {
            static REAL: RealFunction<unsafe extern "C" fn(Oid, usize, u64) -> Oid> =
                RealFunction::new();
            const NAME: &CStr = name_of(concat!(stringify!($name), "\0"));
            let Some(real) = REAL.get_or_find(NAME) else {
                missing();
                return NULL;
            };
            let mut new = NULL;
            count_moved(old, size, || {
                // Safety: passed on as it came.
                new = unsafe { real(old, size, kind) };
                (new.offset == 0 && size != 0, new)
            });
            new
        }
    };
}

move_object!(pmemobj_tx_realloc);
move_object!(pmemobj_tx_zrealloc);

/// pmemobj_free(3).
///
/// # Safety
/// As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_free(at: *mut Oid) {
    static REAL: RealFunction<unsafe extern "C" fn(*mut Oid)> = RealFunction::new();
    let Some(real) = REAL.get_or_find(c"pmemobj_free") else { return };
    // Safety: the library reads it, too; passed on as it came.
    unsafe {
        count_freed(read(at));
        real(at);
    }
}

/// pmemobj_tx_free(3): the object is gone when the transaction is committed; it is counted here.
///
/// # Safety
/// As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_tx_free(oid: Oid) -> c_int {
    static REAL: RealFunction<unsafe extern "C" fn(Oid) -> c_int> = RealFunction::new();
    let Some(real) = REAL.get_or_find(c"pmemobj_tx_free") else { return missing() };
    count_freed(oid);
    // Safety: passed on as it came.
    unsafe { real(oid) }
}

/// pmemobj_tx_xfree(3).
///
/// # Safety
/// As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_tx_xfree(oid: Oid, flags: u64) -> c_int {
    static REAL: RealFunction<unsafe extern "C" fn(Oid, u64) -> c_int> = RealFunction::new();
    let Some(real) = REAL.get_or_find(c"pmemobj_tx_xfree") else { return missing() };
    count_freed(oid);
    // Safety: passed on as it came.
    unsafe { real(oid, flags) }
}

/// pmemobj_defer_free(3): it is freed when the action is published; it is counted here.
///
/// # Safety
/// As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_defer_free(pool: *mut c_void, oid: Oid, action: *mut c_void) {
    static REAL: RealFunction<unsafe extern "C" fn(*mut c_void, Oid, *mut c_void)> =
        RealFunction::new();
    let Some(real) = REAL.get_or_find(c"pmemobj_defer_free") else { return };
    count_freed(oid);
    // Safety: passed on as it came.
    unsafe { real(pool, oid, action) };
}

type RootSize = unsafe extern "C" fn(*mut c_void) -> usize;
static ROOT_SIZE: RealFunction<RootSize> = RealFunction::new();
type Root = unsafe extern "C" fn(*mut c_void, usize) -> Oid;
static ROOT: RealFunction<Root> = RealFunction::new();

/// Bytes of a pool's root object; 0 for none.
///
/// # Safety
/// A pool that is open.
unsafe fn root_bytes(pool: *mut c_void) -> usize {
    // Safety: as the caller says.
    ROOT_SIZE.get_or_find(c"pmemobj_root_size").map_or(0, |size| unsafe { size(pool) })
}

/// pmemobj_root(3): makes it at the first call, and enlarges it where more is asked for.
///
/// # Safety
/// As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_root(pool: *mut c_void, size: usize) -> Oid {
    let Some(real) = ROOT.get_or_find(c"pmemobj_root") else {
        missing();
        return NULL;
    };
    // Safety: passed on as it came, as below.
    let before = unsafe { root_bytes(pool) };
    if before >= size {
        // Safety: as above.
        return unsafe { real(pool, size) };
    }
    // Safety: as above.
    let old = if before > 0 { unsafe { real(pool, before) } } else { NULL };
    let mut root = NULL;
    count_moved(old, size, || {
        // Safety: as above.
        root = unsafe { real(pool, size) };
        (root.offset == 0, root)
    });
    root
}

/// So many objects of a pool that is opened are looked at: each look reads a page of it.
const OPENED: usize = 16_384;

/// pmemobj_open(3).
///
/// # Safety
/// As the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemobj_open(path: *const c_char, layout: *const c_char) -> *mut c_void {
    type Open = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut c_void;
    static REAL: RealFunction<Open> = RealFunction::new();
    static FIRST: RealFunction<unsafe extern "C" fn(*mut c_void) -> Oid> = RealFunction::new();
    static NEXT: RealFunction<unsafe extern "C" fn(Oid) -> Oid> = RealFunction::new();
    static SIZE: RealFunction<unsafe extern "C" fn(Oid) -> usize> = RealFunction::new();
    let Some(real) = REAL.get_or_find(c"pmemobj_open") else {
        missing();
        return core::ptr::null_mut();
    };
    // Safety: passed on as it came.
    let pool = unsafe { real(path, layout) };
    let functions = (
        FIRST.get_or_find(c"pmemobj_first"),
        NEXT.get_or_find(c"pmemobj_next"),
        SIZE.get_or_find(c"pmemobj_alloc_usable_size"),
        ROOT.get_or_find(c"pmemobj_root"),
    );
    if let (false, (Some(first), Some(next), Some(size), Some(root))) = (pool.is_null(), functions)
    {
        // Safety: a pool that is open, and objects that the library names.
        unsafe {
            let bytes = root_bytes(pool);
            if bytes > 0 {
                count_new(root(pool, bytes), bytes);
            }
            let mut object = first(pool);
            for _ in 0..OPENED {
                if object.offset == 0 {
                    break;
                }
                count_new(object, size(object));
                object = next(object);
            }
        }
    }
    pool
}

/// A name with its end, as text; checked when this is compiled.
const fn name_of(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}
