//! The real allocator: the functions that the program would call without us, and a small reserve for the time before
//! they are found.
//!
//! What for: `dlsym` itself may call `calloc` (glibc before 2.34 does for its error buffer), so its first calls get
//! blocks of the reserve, which are never freed. What not: counting. The word of each function is exported: in a
//! process that ran before us the collector writes it (`attached`).

use core::ffi::{CStr, c_char, c_int, c_void};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::libc;

/// A function of type `F`, found by `dlsym`; 0 until then.
pub struct RealFunction<F>(AtomicUsize, PhantomData<F>);

impl<F: Copy> RealFunction<F> {
    /// Not looked up yet.
    pub const fn new() -> RealFunction<F> {
        RealFunction(AtomicUsize::new(0), PhantomData)
    }

    fn find(&self, name: &CStr) {
        // Safety: a name that ends with NUL; RTLD_NEXT looks behind our own library, so it cannot find us.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        self.0.store(found as usize, Ordering::Relaxed);
    }

    /// The function, looked up at the first call, also in libraries that only our caller can see.
    pub fn get_or_find(&self, name: &CStr) -> Option<F> {
        if self.get().is_none() {
            self.find(name);
        }
        self.get().or_else(|| {
            let handle = pmemobj_library();
            // Safety: a handle of a loaded library, and a name that ends with NUL.
            let found = (!handle.is_null()).then(|| unsafe { libc::dlsym(handle, name.as_ptr()) });
            self.0.store(found? as usize, Ordering::Relaxed);
            self.get()
        })
    }

    /// The function; `None` if the allocator does not have it or it was not looked up yet.
    #[inline(always)]
    pub fn get(&self) -> Option<F> {
        let address = self.0.load(Ordering::Relaxed);
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        // Safety: `F` is a function pointer, as wide as its address, and `dlsym` found the address under the name that
        // has this type in the C library (malloc(3)).
        (address != 0).then(|| unsafe { core::mem::transmute_copy::<usize, F>(&address) })
    }
}

/// `malloc`, `valloc`.
pub type Allocate = unsafe extern "C" fn(usize) -> *mut c_void;
/// `calloc`, `aligned_alloc`.
pub type AllocateTwo = unsafe extern "C" fn(usize, usize) -> *mut c_void;
/// `realloc`.
pub type Reallocate = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
/// `free`.
pub type Free = unsafe extern "C" fn(*mut c_void);
/// `dlclose`.
pub type Close = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `posix_memalign`.
pub type AllocateInto = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;

/// `mmap`.
pub type Map = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void;
/// `munmap`.
pub type Unmap = unsafe extern "C" fn(*mut c_void, usize) -> c_int;
/// `mremap`.
pub type Remap = unsafe extern "C" fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void;

/// `brk`.
pub type SetBreak = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `sbrk`.
pub type MoveBreak = unsafe extern "C" fn(isize) -> *mut c_void;

/// `malloc`.
#[unsafe(export_name = "fathom_real_malloc")]
pub static MALLOC: RealFunction<Allocate> = RealFunction::new();
/// `calloc`.
#[unsafe(export_name = "fathom_real_calloc")]
pub static CALLOC: RealFunction<AllocateTwo> = RealFunction::new();
/// `realloc`.
#[unsafe(export_name = "fathom_real_realloc")]
pub static REALLOC: RealFunction<Reallocate> = RealFunction::new();
/// `free`.
#[unsafe(export_name = "fathom_real_free")]
pub static FREE: RealFunction<Free> = RealFunction::new();
/// `posix_memalign`.
#[unsafe(export_name = "fathom_real_posix_memalign")]
pub static POSIX_MEMALIGN: RealFunction<AllocateInto> = RealFunction::new();
/// `aligned_alloc`.
#[unsafe(export_name = "fathom_real_aligned_alloc")]
pub static ALIGNED_ALLOC: RealFunction<AllocateTwo> = RealFunction::new();
/// `memalign`.
#[unsafe(export_name = "fathom_real_memalign")]
pub static MEMALIGN: RealFunction<AllocateTwo> = RealFunction::new();
/// `valloc`.
#[unsafe(export_name = "fathom_real_valloc")]
pub static VALLOC: RealFunction<Allocate> = RealFunction::new();
/// `pvalloc`.
#[unsafe(export_name = "fathom_real_pvalloc")]
pub static PVALLOC: RealFunction<Allocate> = RealFunction::new();
/// `mmap`.
#[unsafe(export_name = "fathom_real_mmap")]
pub static MMAP: RealFunction<Map> = RealFunction::new();
/// `mmap64`.
#[unsafe(export_name = "fathom_real_mmap64")]
pub static MMAP64: RealFunction<Map> = RealFunction::new();
/// `munmap`.
#[unsafe(export_name = "fathom_real_munmap")]
pub static MUNMAP: RealFunction<Unmap> = RealFunction::new();
/// `mremap`.
#[unsafe(export_name = "fathom_real_mremap")]
pub static MREMAP: RealFunction<Remap> = RealFunction::new();

static BRK: RealFunction<SetBreak> = RealFunction::new();
static SBRK: RealFunction<MoveBreak> = RealFunction::new();
#[unsafe(export_name = "fathom_real_dlclose")]
static DLCLOSE: RealFunction<Close> = RealFunction::new();

/// `dlclose`; looked up when called, because before glibc 2.34 it is in a library that may be loaded late.
pub fn dlclose() -> Option<Close> {
    if DLCLOSE.get().is_none() {
        DLCLOSE.find(c"dlclose");
    }
    DLCLOSE.get()
}

/// `brk`, looked up when called: few programs use it.
pub fn brk() -> Option<SetBreak> {
    if BRK.get().is_none() {
        BRK.find(c"brk");
    }
    BRK.get()
}

/// `sbrk`, likewise.
pub fn sbrk() -> Option<MoveBreak> {
    if SBRK.get().is_none() {
        SBRK.find(c"sbrk");
    }
    SBRK.get()
}

/// Looks all of them up.
pub fn find_all() {
    MALLOC.find(c"malloc");
    CALLOC.find(c"calloc");
    REALLOC.find(c"realloc");
    FREE.find(c"free");
    POSIX_MEMALIGN.find(c"posix_memalign");
    ALIGNED_ALLOC.find(c"aligned_alloc");
    MEMALIGN.find(c"memalign");
    VALLOC.find(c"valloc");
    PVALLOC.find(c"pvalloc");
    MMAP.find(c"mmap");
    MMAP64.find(c"mmap64");
    MUNMAP.find(c"munmap");
    MREMAP.find(c"mremap");
}

/// libpmemobj, where it was loaded out of sight of [`libc::RTLD_NEXT`] (dlopen(3), RTLD_LOCAL); null where it is not there.
fn pmemobj_library() -> *mut c_void {
    type Open = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    // By name: before glibc 2.34 it stands in a library that we must not need.
    static OPEN: RealFunction<Open> = RealFunction::new();
    if OPEN.get().is_none() {
        OPEN.find(c"dlopen");
    }
    match OPEN.get() {
        // Safety: a name that ends with NUL; with RTLD_NOLOAD nothing is loaded and no code of a library runs.
        Some(open) => unsafe {
            open(c"libpmemobj.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD)
        },
        None => core::ptr::null_mut(),
    }
}

const RESERVE_BYTES: usize = 64 << 10;

#[repr(align(4096))]
struct Reserve(core::cell::UnsafeCell<[u8; RESERVE_BYTES]>);
// Safety: each byte is handed out once, by an atomic addition; we never look at what is in it.
unsafe impl Sync for Reserve {}
static RESERVE: Reserve = Reserve(core::cell::UnsafeCell::new([0; RESERVE_BYTES]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Zeroed bytes of the reserve, aligned to 16; null when it is used up.
pub fn from_reserve(bytes: usize) -> *mut c_void {
    let whole = bytes.min(RESERVE_BYTES).next_multiple_of(16);
    let at = USED.fetch_add(whole, Ordering::Relaxed);
    if at.saturating_add(whole) > RESERVE_BYTES || bytes > RESERVE_BYTES {
        return core::ptr::null_mut();
    }
    RESERVE.0.get().cast::<u8>().wrapping_add(at).cast()
}

/// Number of bytes from `address` to the end of the reserve; `None` for an address outside.
#[inline(always)]
pub fn reserve_behind(address: usize) -> Option<usize> {
    let inside = address.wrapping_sub(RESERVE.0.get() as usize);
    (inside < RESERVE_BYTES).then(|| RESERVE_BYTES - inside)
}
