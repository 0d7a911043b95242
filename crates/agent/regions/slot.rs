//! A thread's slot of the shared memory: the regions it is in, the passes it made.
//!
//! What not: names (`names`), reading (the collector).

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::marked::{
    CELL_BEGIN, CELL_BYTES, CELL_DEPTH, CELL_END, CELL_INSIDE, CELL_LENGTHS, CELL_LONGEST,
    CELL_OWN, CELL_PASSES, CELL_SHORTEST, CELLS_AT, HEADER_BATCH, HEADER_LONG_FROM, HEADER_MAGIC,
    HEADER_PAUSED, HEADER_REFUSED, MAGIC, MEMORY_VARIABLE, OPEN_WORDS, RING_AT, RING_ROWS,
    ROW_WORDS, SLOT_BYTES, SLOT_DEPTH, SLOT_HEAD, SLOT_PID, SLOT_STACK, SLOT_TAIL, SLOT_TID,
    SLOT_TOO_DEEP, SLOT_USED, SLOTS, SLOTS_AT, STACK, TOTAL_BYTES, length_class,
};
use super::{kernel, libc, names};

unsafe extern "C" {
    fn pthread_key_create(key: *mut c_uint, end: extern "C" fn(*mut c_void)) -> c_int;
    fn pthread_getspecific(key: c_uint) -> *mut c_void;
    fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
    fn pthread_atfork(
        before: *const c_void,
        parent: *const c_void,
        child: extern "C" fn(),
    ) -> c_int;
}

/// The shared memory; null where there is none.
static MEMORY: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// Under which the C library keeps a thread's slot.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Runs when the library is loaded: once, and before any call.
#[cfg(not(clippy))]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = start;

#[cfg_attr(clippy, expect(dead_code, reason = "the constructor is no part of lints"))]
extern "C" fn start() {
    let mut variable = [0u8; 32];
    variable.iter_mut().zip(MEMORY_VARIABLE.bytes()).for_each(|(place, byte)| *place = byte);
    // Safety: a name that ends with NUL.
    let path = unsafe { libc::getenv(variable.as_ptr().cast()) };
    if path.is_null() {
        return;
    }
    // Safety: the C library's own text, which ends with NUL.
    let descriptor = kernel::open(unsafe { core::ffi::CStr::from_ptr(path) });
    if descriptor < 0 {
        return;
    }
    let memory = match kernel::is_long_enough(descriptor, TOTAL_BYTES) {
        true => kernel::map_shared(descriptor, TOTAL_BYTES),
        false => ptr::null_mut(),
    };
    kernel::close(descriptor);
    let mut key = 0;
    // Safety: a live number; `thread_ends` and `forked` live as long as the library, which is never unloaded.
    let ready = !memory.is_null()
        && word(memory, HEADER_MAGIC).load(Ordering::Relaxed) == MAGIC
        && unsafe {
            pthread_key_create(&raw mut key, thread_ends) == 0
                && pthread_atfork(ptr::null(), ptr::null(), forked) == 0
        };
    if ready {
        KEY.store(key, Ordering::Relaxed);
        MEMORY.store(memory, Ordering::Release);
    }
}

/// A child has the parent's mapping, but no slot of its own yet.
extern "C" fn forked() {
    // Safety: our own key.
    unsafe { pthread_setspecific(KEY.load(Ordering::Relaxed), ptr::null()) };
}

/// A word of the shared memory.
fn word<'a>(base: *mut u8, offset: usize) -> &'a AtomicU64 {
    // Safety: all offsets are multiples of 8 within the mapping, which stays for good.
    unsafe { AtomicU64::from_ptr(base.wrapping_add(offset).cast()) }
}

fn get(base: *mut u8, offset: usize) -> u64 {
    word(base, offset).load(Ordering::Relaxed)
}

fn set(base: *mut u8, offset: usize, value: u64) {
    word(base, offset).store(value, Ordering::Relaxed);
}

/// This thread's slot; null where there is none.
#[inline]
fn own(memory: *mut u8) -> *mut u8 {
    // Safety: our own key.
    let slot = unsafe { pthread_getspecific(KEY.load(Ordering::Relaxed)) };
    if slot.is_null() { take(memory) } else { slot.cast() }
}

#[cold]
fn take(memory: *mut u8) -> *mut u8 {
    let (pid, tid) = (kernel::process_id(), kernel::thread_id());
    for number in 0..SLOTS {
        let slot = memory.wrapping_add(SLOTS_AT + number * SLOT_BYTES);
        let owner = word(slot, SLOT_PID);
        let first = owner.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_err_and(|owner| owner != pid) {
            continue;
        }
        let taken = word(slot, SLOT_TID);
        if taken.compare_exchange(0, tid, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            // Safety: our own key.
            unsafe { pthread_setspecific(KEY.load(Ordering::Relaxed), slot.cast()) };
            return slot;
        }
    }
    word(memory, HEADER_REFUSED).fetch_add(1, Ordering::Relaxed);
    ptr::null_mut()
}

/// A thread ends: what it leaves open ends with it, and its slot is free for the next one.
extern "C" fn thread_ends(slot: *mut c_void) {
    let slot: *mut u8 = slot.cast();
    let memory = MEMORY.load(Ordering::Acquire);
    let now = kernel::now();
    while get(slot, SLOT_DEPTH) > 0 {
        leave(memory, slot, now);
    }
    let mut is_empty = true;
    for region in 0..super::marked::REGIONS {
        let cell = slot.wrapping_add(CELLS_AT + region * CELL_BYTES);
        if is_used(slot, region) && get(cell, CELL_PASSES) > 0 {
            is_empty &= tell_batch(slot, region, cell);
        }
    }
    if is_empty {
        word(slot, SLOT_TID).store(0, Ordering::Release);
    }
}

/// Whether a thread of the slot passed a region.
fn is_used(slot: *mut u8, region: usize) -> bool {
    get(slot, SLOT_USED + region / 64 * 8) >> (region % 64) & 1 == 1
}

/// This thread enters a region.
pub fn begin(domain: &[u8], name: &[u8]) {
    let memory = MEMORY.load(Ordering::Acquire);
    if !memory.is_null() && !name.is_empty() {
        enter(memory, names::number(memory, domain, name));
    }
}

/// The same by the region's number.
pub fn begin_number(number: usize) {
    let memory = MEMORY.load(Ordering::Acquire);
    if !memory.is_null() && number < super::marked::REGIONS {
        enter(memory, number);
    }
}

/// The number of a region's name; `None` where nothing is counted.
pub fn number(domain: &[u8], name: &[u8]) -> Option<usize> {
    let memory = MEMORY.load(Ordering::Acquire);
    (!memory.is_null() && !name.is_empty()).then(|| names::number(memory, domain, name))
}

/// The name with a number, without its domain; empty where there is none.
pub fn name<'a>(number: usize) -> &'a [u8] {
    let memory = MEMORY.load(Ordering::Acquire);
    if memory.is_null() { &[] } else { names::name(memory, number) }
}

fn enter(memory: *mut u8, region: usize) {
    let slot = own(memory);
    if slot.is_null() {
        return;
    }
    let depth = get(slot, SLOT_DEPTH) as usize;
    if depth < STACK {
        let open = SLOT_STACK + depth * OPEN_WORDS * 8;
        set(slot, open, region as u64);
        set(slot, open + 16, 0);
        set(slot, open + 8, kernel::now());
    }
    // Last: a reader that sees the depth also sees the open region.
    word(slot, SLOT_DEPTH).store(depth as u64 + 1, Ordering::Release);
}

/// This thread leaves the region that it entered last.
pub fn end() {
    let memory = MEMORY.load(Ordering::Acquire);
    if memory.is_null() {
        return;
    }
    let now = kernel::now();
    let slot = own(memory);
    if !slot.is_null() && get(slot, SLOT_DEPTH) > 0 {
        leave(memory, slot, now);
    }
}

fn leave(memory: *mut u8, slot: *mut u8, now: u64) {
    let depth = (get(slot, SLOT_DEPTH) as usize).wrapping_sub(1);
    set(slot, SLOT_DEPTH, depth as u64);
    if depth >= STACK {
        set(slot, SLOT_TOO_DEEP, get(slot, SLOT_TOO_DEEP).wrapping_add(1));
        return;
    }
    let open = SLOT_STACK + depth * OPEN_WORDS * 8;
    let (region, begin, within) = (
        get(slot, open) as usize % super::marked::REGIONS,
        get(slot, open + 8),
        get(slot, open + 16),
    );
    let inside = now.saturating_sub(begin);
    if depth > 0 {
        let around = open - OPEN_WORDS * 8 + 16;
        set(slot, around, get(slot, around).wrapping_add(inside));
    }
    let paused = get(memory, HEADER_PAUSED);
    // It began in the pause that still lasts, so it lies in it and does not count.
    if paused != 0 && begin >= paused {
        return;
    }
    let own = inside.saturating_sub(within);
    let used = SLOT_USED + region / 64 * 8;
    set(slot, used, get(slot, used) | 1 << (region % 64));
    let cell = slot.wrapping_add(CELLS_AT + region * CELL_BYTES);
    let class = CELL_LENGTHS + length_class(inside) * 8;
    set(cell, class, get(cell, class).wrapping_add(1));
    // 0 stands for none yet, so the shortest is kept plus 1.
    let shortest = get(cell, CELL_SHORTEST);
    if shortest == 0 || inside < shortest - 1 {
        set(cell, CELL_SHORTEST, inside.wrapping_add(1));
    }
    if inside > get(cell, CELL_LONGEST) {
        set(cell, CELL_LONGEST, inside);
    }
    let passes = get(cell, CELL_PASSES);
    if inside >= get(memory, HEADER_LONG_FROM) {
        // The batch goes first, so that rows of a region are in order of time. Without room in the ring the pass joins the
        // batch: nothing is lost.
        let written = (passes == 0 || tell_batch(slot, region, cell))
            && tell(slot, [begin, inside, region as u64 | (depth as u64) << 32, 1, inside, own]);
        if written {
            return;
        }
    }
    let passes = get(cell, CELL_PASSES);
    if passes == 0 {
        set(cell, CELL_BEGIN, begin);
        set(cell, CELL_INSIDE, 0);
        set(cell, CELL_OWN, 0);
    }
    set(cell, CELL_END, now);
    set(cell, CELL_DEPTH, depth as u64);
    set(cell, CELL_INSIDE, get(cell, CELL_INSIDE).wrapping_add(inside));
    set(cell, CELL_OWN, get(cell, CELL_OWN).wrapping_add(own));
    // Last: a reader that sees the new number also sees the sums that belong to it.
    word(cell, CELL_PASSES).store(passes + 1, Ordering::Release);
    if now.saturating_sub(get(cell, CELL_BEGIN)) >= get(memory, HEADER_BATCH) {
        tell_batch(slot, region, cell);
    }
}

/// Makes a row of a batch; false where the ring is full, and the batch goes on.
fn tell_batch(slot: *mut u8, region: usize, cell: *mut u8) -> bool {
    let begin = get(cell, CELL_BEGIN);
    let of = region as u64 | get(cell, CELL_DEPTH) << 32;
    let span = get(cell, CELL_END).saturating_sub(begin);
    let sums = (get(cell, CELL_PASSES), get(cell, CELL_INSIDE), get(cell, CELL_OWN));
    let written = tell(slot, [begin, span, of, sums.0, sums.1, sums.2]);
    if written {
        set(cell, CELL_PASSES, 0);
    }
    written
}

fn tell(slot: *mut u8, row: [u64; 6]) -> bool {
    let head = get(slot, SLOT_HEAD);
    if head.wrapping_sub(word(slot, SLOT_TAIL).load(Ordering::Acquire)) >= RING_ROWS as u64 {
        return false;
    }
    let at = RING_AT + (head as usize % RING_ROWS) * ROW_WORDS * 8;
    let [begin, span, of, passes, inside, own] = row;
    for (index, value) in
        [begin, span, of, get(slot, SLOT_TID), passes, inside, own].iter().enumerate()
    {
        set(slot, at + index * 8, *value);
    }
    word(slot, SLOT_HEAD).store(head.wrapping_add(1), Ordering::Release);
    true
}
