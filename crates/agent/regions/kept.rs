//! Names that a program gives us once and then knows by a handle: domains and strings of ITT, domains of NVTX.
//!
//! How: each name is kept once, for good, in memory of our own. What not: numbers of regions (`names`).

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// `__itt_domain` (ittnotify.h).
#[repr(C)]
pub struct Domain {
    flags: c_int,
    pub name: *const c_char,
    wide_and_reserved: [*const c_void; 4],
}

/// `__itt_string_handle` (ittnotify.h).
#[repr(C)]
pub struct Handle {
    pub text: *const c_char,
    wide_and_reserved: [*const c_void; 4],
}

/// A name, as each of them wants to see it. The text follows.
#[repr(C)]
pub struct KeptName {
    pub domain: Domain,
    pub handle: Handle,
    next: *mut KeptName,
}

/// Room for some thousand names.
const BYTES: usize = 256 << 10;
struct Room(UnsafeCell<[u64; BYTES / 8]>);
// Safety: each part is written once, by whoever got it.
unsafe impl Sync for Room {}
static ROOM: Room = Room(UnsafeCell::new([0; BYTES / 8]));
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static FIRST: AtomicPtr<KeptName> = AtomicPtr::new(ptr::null_mut());

/// The kept name; null where there is no room. Threads that come at once may keep a name twice: both mean the same.
pub fn keep(name: &[u8]) -> *const KeptName {
    let first = FIRST.load(Ordering::Acquire);
    let mut at = first;
    while !at.is_null() {
        // Safety: kept names do not change, and their texts end with NUL.
        unsafe {
            if CStr::from_ptr((*at).handle.text).to_bytes() == name {
                return at;
            }
            at = (*at).next;
        }
    }
    let bytes = size_of::<KeptName>() + name.len().min(BYTES) + 1;
    let place = TAKEN.fetch_add(bytes.next_multiple_of(8), Ordering::Relaxed);
    if place >= BYTES || bytes > BYTES - place {
        // It must not grow until it begins anew.
        TAKEN.store(BYTES, Ordering::Relaxed);
        return ptr::null();
    }
    let kept = ROOM.0.get().cast::<u8>().wrapping_add(place).cast::<KeptName>();
    let text = kept.wrapping_add(1).cast::<u8>();
    let none = [ptr::null(); 4];
    // Safety: an aligned part of our own that is as long; what follows the text is zero.
    unsafe {
        ptr::copy_nonoverlapping(name.as_ptr(), text, name.len());
        let domain = Domain { flags: 1, name: text.cast(), wide_and_reserved: none };
        let handle = Handle { text: text.cast(), wide_and_reserved: none };
        kept.write(KeptName { domain, handle, next: first });
    }
    let mut before = first;
    while let Err(other) = FIRST.compare_exchange(before, kept, Ordering::AcqRel, Ordering::Acquire)
    {
        before = other;
        // Safety: ours alone until it is in the list.
        unsafe { (*kept).next = before };
    }
    kept
}
