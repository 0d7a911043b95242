//! The placement library: preloaded by `fathom place`, it puts large blocks of memory on other NUMA nodes while the program runs.
//!
//! What for: `--next-touch`, where pages go to the node of the thread that uses them next, and `--object`, where one block goes to
//! given nodes. What not: which block, which nodes (`fathom place`, which passes them in [`settings::VARIABLE`]); CPUs.
//!
//! Rules. The program computes what it computes without us: a block has the same content at each moment, also for system calls. All
//! that changes is the process's own, so that it ends with it, also after `kill -9`. Small blocks cost a comparison. It allocates
//! nothing from the program's heap and never panics (a panic that the compiler can imagine needs a function that no program has).
//! Where the kernel refuses something, the block stays as it is.
//!
//! Not for programs whose devices write into a block while it moves (O_DIRECT, io_uring, RDMA): what comes in between is lost.

#![cfg_attr(not(clippy), no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

mod blocks;
mod next_touch;
mod settings;
mod system;

use core::ffi::{CStr, c_int, c_void};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};

use blocks::LARGE;

/// Nothing here panics. If it did, the program would end here.
#[cfg(not(clippy))]
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Before `main`, so that no program's filter of system calls is in the way.
#[cfg(not(clippy))]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = settings::read;

/// The C library's function of this name, found when first called.
struct Real<F>(AtomicUsize, PhantomData<F>);

impl<F: Copy> Real<F> {
    const fn new() -> Real<F> {
        Real(AtomicUsize::new(0), PhantomData)
    }

    fn get(&self, name: &CStr) -> Option<F> {
        if self.0.load(Ordering::Relaxed) == 0 {
            // Safety: a name that ends with NUL; RTLD_NEXT does not find us.
            let found = unsafe { system::dlsym(system::RTLD_NEXT, name.as_ptr()) };
            self.0.store(found as usize, Ordering::Relaxed);
        }
        let address = self.0.load(Ordering::Relaxed);
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        // Safety: `F` is a function pointer, and the function of this name has that type.
        (address != 0).then(|| unsafe { core::mem::transmute_copy::<usize, F>(&address) })
    }
}

/// A function that allocates `$size` bytes, and returns the block.
macro_rules! allocates {
    ($name:ident, $text:literal, ($($argument:ident),*), $size:expr) => {
        #[doc = concat!($text, "(3).")]
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: usize),*) -> *mut c_void {
            allocates!(@type Function, $($argument),*);
            static REAL: Real<Function> = Real::new();
            const NAME: &CStr = name_of(concat!($text, "\0"));
            let Some(real) = REAL.get(NAME) else { return core::ptr::null_mut() };
            // Safety: passed on as it came.
            let block = unsafe { real($($argument),*) };
            let size: usize = $size;
            if size >= LARGE && !block.is_null() {
                blocks::allocated(block as usize, size);
            }
            block
        }
    };
    (@type $name:ident, $a:ident) => { type $name = unsafe extern "C" fn(usize) -> *mut c_void; };
    (@type $name:ident, $a:ident, $b:ident) => { type $name = unsafe extern "C" fn(usize, usize) -> *mut c_void; };
}

allocates!(malloc, "malloc", (size), size);
allocates!(calloc, "calloc", (count, size), count.wrapping_mul(size));
allocates!(aligned_alloc, "aligned_alloc", (alignment, size), size);
allocates!(memalign, "memalign", (alignment, size), size);
allocates!(valloc, "valloc", (size), size);

/// posix_memalign(3).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    to: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    type Function = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
    static REAL: Real<Function> = Real::new();
    let Some(real) = REAL.get(c"posix_memalign") else { return system::ENOMEM };
    // Safety: passed on as it came; on success the allocator has written the address.
    unsafe {
        let error = real(to, alignment, size);
        if error == 0 && size >= LARGE {
            blocks::allocated(*to as usize, size);
        }
        error
    }
}

/// realloc(3): the block is whole again before it moves.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(old: *mut c_void, size: usize) -> *mut c_void {
    type Function = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
    static REAL: Real<Function> = Real::new();
    let Some(real) = REAL.get(c"realloc") else { return core::ptr::null_mut() };
    let known = blocks::leaves(old as usize, true);
    // Safety: passed on as it came.
    let block = unsafe { real(old, size) };
    match block.is_null() {
        // The old block is there still.
        true if known > 0 && size > 0 => blocks::allocated(old as usize, known),
        false if size >= LARGE => blocks::allocated(block as usize, size),
        _ => {}
    }
    block
}

/// free(3).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    static REAL: Real<unsafe extern "C" fn(*mut c_void)> = Real::new();
    blocks::leaves(block as usize, false);
    if let Some(real) = REAL.get(c"free") {
        // Safety: passed on as it came.
        unsafe { real(block) };
    }
}

type Map = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void;

macro_rules! maps {
    ($name:ident, $text:literal) => {
        #[doc = concat!($text, "(2): private memory without a file is a block, too.")]
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            at: *mut c_void,
            size: usize,
            access: c_int,
            flags: c_int,
            file: c_int,
            offset: i64,
        ) -> *mut c_void {
            static REAL: Real<Map> = Real::new();
            const NAME: &CStr = name_of(concat!($text, "\0"));
            let Some(real) = REAL.get(NAME) else {
                return usize::MAX as *mut c_void;
            };
            if flags & system::MAP_FIXED != 0 {
                blocks::changes(at as usize, size, false);
            }
            // Safety: passed on as it came.
            let block = unsafe { real(at, size, access, flags, file, offset) };
            let own = flags & system::MAP_KIND == system::MAP_PRIVATE_ANONYMOUS;
            if size >= LARGE && own && access == system::READ_WRITE && block as usize != usize::MAX
            {
                blocks::allocated(block as usize, size);
            }
            block
        }
    };
}

maps!(mmap, "mmap");
maps!(mmap64, "mmap64");

/// A function that changes a part of the address space: blocks there are whole before, and left alone from then on unless they stay.
macro_rules! changes {
    ($name:ident, $text:literal, $stay:literal, ($($argument:ident: $type:ty),*), $result:ty, $failed:expr) => {
        #[doc = concat!($text, "(2).")]
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(at: *mut c_void, size: usize $(, $argument: $type)*) -> $result {
            static REAL: Real<unsafe extern "C" fn(*mut c_void, usize $(, $type)*) -> $result> = Real::new();
            const NAME: &CStr = name_of(concat!($text, "\0"));
            let Some(real) = REAL.get(NAME) else { return $failed };
            blocks::changes(at as usize, size, $stay);
            // Safety: passed on as it came.
            unsafe { real(at, size $(, $argument)*) }
        }
    };
}

changes!(munmap, "munmap", false, (), c_int, -1);
changes!(mprotect, "mprotect", false, (access: c_int), c_int, -1);
changes!(madvise, "madvise", true, (advice: c_int), c_int, -1);
// The last argument is there where a flag says so; where not, the callee ignores it.
changes!(mremap, "mremap", false, (new_size: usize, flags: c_int, to: *mut c_void), *mut c_void, usize::MAX as *mut c_void);

/// pthread_create(3): from the first thread on there is someone else to use a page.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    routine: *mut c_void,
    argument: *mut c_void,
) -> c_int {
    static REAL: Real<next_touch::Create> = Real::new();
    let Some(real) = REAL.get(c"pthread_create") else { return system::ENOMEM };
    next_touch::begin(real);
    // Safety: passed on as it came.
    unsafe { real(thread, attributes, routine, argument) }
}

/// A name with its end, as text; checked when this is compiled.
const fn name_of(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}
