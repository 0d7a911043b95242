//! Marks regions and moments of a program for Fathom, a memory profiler.
//!
//! ```
//! use fathom_regions::{in_region, mark, region};
//!
//! let solved = in_region(c"solve", || 6 * 7);
//! mark(c"second phase");
//! {
//!     let _assemble = region(c"assemble"); // ends with the block
//! }
//! # assert_eq!(solved, 42);
//! ```
//!
//! Regions nest, per thread. Names are texts of your choice, the fewer the better: 255 different ones have room. Not for signal
//! handlers.
//!
//! Without Fathom a call is a load and a branch. Under Fathom the first call loads a library of it, which the variable
//! `FATHOM_REGIONS` names; begin and end then take some 50 ns each, a mark or a pause some 50 microseconds. In static programs
//! calls do nothing.
//!
//! What not: regions that begin in one thread and end in another. A guard that an async task holds across `await` would do so:
//! it is not `Send`, and the compiler refuses it.

#![warn(missing_docs)]
#![cfg_attr(
    not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(feature = "disable"))),
    forbid(unsafe_code)
)]

use std::ffi::CStr;
use std::marker::PhantomData;

/// A region of this thread that ends when it is dropped.
#[derive(Debug)]
#[must_use = "the region ends when this is dropped: let _name = region(...)"]
pub struct Region {
    /// It ends in the thread in which it began.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Region {
    #[inline]
    fn drop(&mut self) {
        hooks::end();
    }
}

/// Begins a region of this thread.
#[inline]
pub fn region(name: &CStr) -> Region {
    hooks::begin(name);
    Region { of_this_thread: PhantomData }
}

/// Calls a function in a region.
#[inline]
pub fn in_region<R>(name: &CStr, call: impl FnOnce() -> R) -> R {
    let _region = region(name);
    call()
}

/// Names this moment: it is on the timeline.
#[inline]
pub fn mark(name: &CStr) {
    hooks::mark(name);
}

/// From now on nothing is observed, as after `fathom command pause`.
#[inline]
pub fn pause() {
    hooks::pause();
}

/// From now on all is observed again. With `fathom collect --start-paused` nothing is before the first of these.
#[inline]
pub fn resume() {
    hooks::resume();
}

/// The functions of Fathom's library, which is not linked: it is looked for at the first call.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(feature = "disable")))]
mod hooks {
    use std::ffi::{c_char, c_int, c_ulong, c_void, CStr};
    use std::mem::transmute;
    use std::sync::OnceLock;

    extern "C" {
        fn dlopen(path: *const c_char, mode: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
        fn getauxval(kind: c_ulong) -> c_ulong;
    }

    const RTLD_NOW: c_int = 2;
    const AT_BASE: c_ulong = 7;
    const AT_SECURE: c_ulong = 23;

    type WithName = extern "C" fn(*const c_char);
    type WithoutName = extern "C" fn();

    struct Hooks {
        begin: WithName,
        end: WithoutName,
        mark: WithName,
        pause: WithoutName,
        resume: WithoutName,
    }

    /// Threads that come at once find the same.
    static HOOKS: OnceLock<Option<Hooks>> = OnceLock::new();

    #[inline]
    fn hooks() -> Option<&'static Hooks> {
        HOOKS.get_or_init(load).as_ref()
    }

    #[cold]
    fn load() -> Option<Hooks> {
        // Safety: it reads the auxiliary vector.
        let value = |kind| unsafe { getauxval(kind) };
        // A static program has no loader: what it has of dlopen is not safe to use. A privileged one trusts no variable.
        if value(AT_BASE) == 0 || value(AT_SECURE) != 0 {
            return None;
        }
        let path = std::env::var_os("FATHOM_REGIONS").filter(|path| !path.is_empty())?;
        let path = std::ffi::CString::new(path.into_encoded_bytes()).ok()?;
        // Safety: a text that ends with a zero. The variable is Fathom's word for a library of its own, whose start needs nothing.
        let library = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        let symbol = |name: &CStr| {
            // Safety: a library that was opened and is never closed, and a text that ends with a zero.
            let address = unsafe { dlsym(library, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        // Safety: functions of these names in Fathom's library have these types (`crates/agent/regions/lib.rs`).
        unsafe {
            Some(Hooks {
                begin: transmute::<*mut c_void, WithName>(symbol(c"fathom_hook_begin")?),
                end: transmute::<*mut c_void, WithoutName>(symbol(c"fathom_hook_end")?),
                mark: transmute::<*mut c_void, WithName>(symbol(c"fathom_hook_mark")?),
                pause: transmute::<*mut c_void, WithoutName>(symbol(c"fathom_hook_pause")?),
                resume: transmute::<*mut c_void, WithoutName>(symbol(c"fathom_hook_resume")?),
            })
        }
    }

    #[inline]
    pub(crate) fn begin(name: &CStr) {
        if let Some(hooks) = hooks() {
            (hooks.begin)(name.as_ptr());
        }
    }

    #[inline]
    pub(crate) fn end() {
        if let Some(hooks) = hooks() {
            (hooks.end)();
        }
    }

    #[inline]
    pub(crate) fn mark(name: &CStr) {
        if let Some(hooks) = hooks() {
            (hooks.mark)(name.as_ptr());
        }
    }

    #[inline]
    pub(crate) fn pause() {
        if let Some(hooks) = hooks() {
            (hooks.pause)();
        }
    }

    #[inline]
    pub(crate) fn resume() {
        if let Some(hooks) = hooks() {
            (hooks.resume)();
        }
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(feature = "disable"))))]
mod hooks {
    use std::ffi::CStr;

    #[inline]
    pub(crate) fn begin(_: &CStr) {}
    #[inline]
    pub(crate) fn end() {}
    #[inline]
    pub(crate) fn mark(_: &CStr) {}
    #[inline]
    pub(crate) fn pause() {}
    #[inline]
    pub(crate) fn resume() {}
}
