//! The agent's state per thread, and how a thread gets its slot of the shared memory.
//!
//! Where: in a table of ours, indexed by the address of the thread's control block, to which the thread pointer
//! points. Not in thread-local storage: a library with a TLS segment makes the C library allocate 16 bytes more for
//! every thread (`allocate_dtv`, glibc elf/dl-tls.c), which would change the program's allocations. A thread that
//! ends leaves its entry to the next one with a control block at that address. What not: counting (`count`), records.
//!
//! After `fork` the child shares the parent's slots. A page that the kernel wipes in the child reveals that, and the
//! child takes slots of its own before it counts anything.

use core::ffi::c_void;
use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::heap;

use super::{arch, attached, exact, heap_exact, kernel, libc, real, stack_range, thread_id};

/// The agent's state of one thread. All zero until then.
#[repr(C, align(64))]
pub struct Thread {
    /// The slot; null until the first call.
    pub slot: *mut u8,
    /// Set while this thread is in a slow part of the agent: a signal handler that allocates must not enter.
    pub busy: u64,
    /// Bytes allocated and not freed by this thread since it last reported to the process.
    pub delta: i64,
    /// The maximum of `delta` since then.
    pub most: i64,
    /// Live bytes of the process when this thread last reported.
    pub base: i64,
    /// Bytes to allocate until the next small block is drawn.
    pub until_sample: i64,
    /// State of the random numbers; never 0 once in use.
    pub random: u64,
    /// Address of the control block; 0 while the entry is free.
    block: AtomicUsize,
    /// What exact mode keeps (`walk::Walker`); null until then.
    pub walker: *mut c_void,
    /// Exact mode's last reading of the clock.
    pub reading: exact::Reading,
    /// The ring may be written up to here, as far as known.
    pub room_until: u64,
    /// The thread that took the slot.
    tid: u64,
}

const TABLE_BITS: u32 = 12;
const TABLE: usize = 1 << TABLE_BITS;
/// Most entries that are probed for a thread.
const MOST_PROBES: usize = 64;

struct Threads(core::cell::UnsafeCell<[Thread; TABLE]>);
// Safety: an entry is used by the one thread whose control block it names; `block` itself is atomic.
unsafe impl Sync for Threads {}
// Safety: all-zero bytes are a valid entry: null, zeros, a free entry.
static THREADS: Threads = Threads(core::cell::UnsafeCell::new(unsafe { core::mem::zeroed() }));

/// This thread's state.
#[inline(always)]
pub fn current() -> *mut Thread {
    let block = arch::control_block();
    // Knuth's multiplicative hash: control blocks lie a stack apart.
    let place = block.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - TABLE_BITS);
    let entry = THREADS.0.get().cast::<Thread>().wrapping_add(place);
    // Safety: `place` has TABLE_BITS bits.
    if unsafe { (*entry).block.load(Ordering::Relaxed) } == block {
        entry
    } else {
        search(block, place)
    }
}

/// The entry of a control block that is not where its hash says, or not there yet.
#[cold]
#[inline(never)]
fn search(block: usize, place: usize) -> *mut Thread {
    let first = THREADS.0.get().cast::<Thread>();
    for probe in 0..MOST_PROBES {
        let entry = first.wrapping_add((place + probe) % TABLE);
        // Safety: inside of the table.
        let owner = unsafe { &(*entry).block };
        match owner.compare_exchange(0, block, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return entry,
            Err(other) if other == block => return entry,
            Err(_) => {}
        }
    }
    // Too many: threads that share an entry are not counted. It gets no slot, since it always says that it is busy.
    let shared = first.wrapping_add(TABLE - 1);
    // Safety: inside of the table.
    unsafe {
        if (*shared).slot != NOWHERE.0.get().cast() {
            (*shared).until_sample = i64::MAX;
            (*shared).slot = NOWHERE.0.get().cast();
            count_refused();
        }
    }
    shared
}

/// The running thread's number.
pub fn id(thread: &Thread) -> u64 {
    thread_id::of(control_block(thread)).unwrap_or(thread.tid)
}

/// The address of a thread's control block.
pub fn control_block(thread: &Thread) -> usize {
    thread.block.load(Ordering::Relaxed)
}

/// Blocks of so many bytes or more get a record.
pub static LARGE_FROM: AtomicU64 = AtomicU64::new(u64::MAX);
/// Mean bytes between two sampled smaller blocks.
pub static SAMPLE_EVERY: AtomicU64 = AtomicU64::new(0);
/// Most bytes of stack in a record.
pub static STACK_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Whether frees of recorded blocks carry their stack.
pub static FREE_STACKS: AtomicU32 = AtomicU32::new(0);
/// 1 where live bytes are counted: then frees count, and every block's size is remembered.
static COUNTS_LIVE: AtomicU32 = AtomicU32::new(0);
/// Bytes by which a thread may be late in publishing what is live.
pub static SLACK: AtomicU64 = AtomicU64::new(u64::MAX);

/// Live bytes of this process, without what threads have not reported yet. Private memory: `fork` copies it.
static LIVE: AtomicI64 = AtomicI64::new(0);
/// Reads 0 after `fork` in the child. Points to [`ALWAYS_ONE`] until there is such a page.
static SAME_PROCESS: AtomicPtr<u64> = AtomicPtr::new((&raw const ALWAYS_ONE).cast_mut());
static ALWAYS_ONE: u64 = 1;
/// The shared memory; null without a collector.
static HEADER: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
/// 1 when the shared memory has regions.
static WITH_REGIONS: AtomicU32 = AtomicU32::new(0);
/// Threads of this process that have taken a slot, those that ended included.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// This process's position in the table of processes.
static PROCESS: AtomicUsize = AtomicUsize::new(0);

/// Whether live bytes are counted.
#[inline(always)]
pub fn counts_live() -> bool {
    COUNTS_LIVE.load(Ordering::Relaxed) != 0
}

/// The slot of threads that have none: nothing reads it.
#[repr(align(4096))]
struct UnusedSlot(core::cell::UnsafeCell<[u8; heap::RING_AT]>);
// Safety: only ever written by plain additions whose result nobody uses.
unsafe impl Sync for UnusedSlot {}
static NOWHERE: UnusedSlot = UnusedSlot(core::cell::UnsafeCell::new([0; heap::RING_AT]));

/// Adds to a counter of a slot.
///
/// # Safety
/// `slot` is a thread's slot (or [`NOWHERE`]) and `word` is below [`heap::RING_AT`] and a multiple of 8.
#[inline(always)]
pub unsafe fn add(slot: *mut u8, word: usize, value: u64) {
    // Safety: in the slot, as the caller makes sure of; the slot has one writer.
    unsafe { arch::add(slot, word, value) };
}

/// A word of mapped shared memory.
///
/// # Safety
/// `at + word` is a mapped, aligned word of the shared memory.
pub unsafe fn word<'a>(at: *mut u8, word: usize) -> &'a AtomicU64 {
    // Safety: as the caller makes sure of; the mapping stays for the life of the process.
    unsafe { AtomicU64::from_ptr(at.add(word).cast()) }
}

/// Whether this thread can count immediately.
#[inline(always)]
pub fn is_ready(thread: *mut Thread) -> bool {
    // Safety: a thread's own state; the page is mapped for the life of the process.
    unsafe { !(*thread).slot.is_null() && *SAME_PROCESS.load(Ordering::Relaxed) != 0 }
}

/// Makes this thread ready; `false` while it is the one that searches the real allocator.
#[cold]
#[inline(never)]
pub fn make_ready(thread: *mut Thread) -> bool {
    // Safety: a thread's own state.
    let thread = unsafe { &mut *thread };
    if thread.busy != 0 {
        // A signal handler while this thread takes its slot may use the allocator and is not counted.
        let found = attached::header().is_some() || STARTED.load(Ordering::Acquire) == READY;
        return found && real::MALLOC.get().is_some();
    }
    thread.busy = 1;
    if !start_process(control_block(thread)) {
        thread.busy = 0;
        return true;
    }
    // Safety: the page, or `ALWAYS_ONE`, is mapped for the life of the process.
    if unsafe { *SAME_PROCESS.load(Ordering::Relaxed) } == 0 {
        // The only thread of a fresh child. What its parent held, it holds.
        let live = LIVE.fetch_add(thread.delta, Ordering::Relaxed) + thread.delta;
        join_collector(live);
        // Safety: as above; never `ALWAYS_ONE`, which does not read 0.
        unsafe { *SAME_PROCESS.load(Ordering::Relaxed) = 1 };
    }
    (thread.delta, thread.most) = (0, 0);
    thread.base = LIVE.load(Ordering::Relaxed);
    thread.slot = take_slot(thread);
    thread.busy = 0;
    true
}

static STARTED: AtomicU32 = AtomicU32::new(0);
const STARTING: u32 = 1;
const READY: u32 = 2;

/// Finds the allocator and the collector, once; `false` while another thread does. A thread waits for the other only
/// if this library was preloaded: then there is one thread. In a process that ran before us, the other thread may
/// fork meanwhile, and in the child the wait would never end; so calls are passed on uncounted.
fn start_process(block: usize) -> bool {
    match STARTED.compare_exchange(0, STARTING, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            if attached::header().is_none() {
                real::find_all();
                thread_id::find(block);
            }
            let page = kernel::page_wiped_on_fork();
            // Without such a page a child could not be distinguished from its parent, so nothing is counted.
            if !page.is_null() {
                // Safety: our own fresh page.
                unsafe { *page = 1 };
                SAME_PROCESS.store(page, Ordering::Release);
                join_collector(0);
            }
            STARTED.store(READY, Ordering::Release);
        }
        Err(_) => {
            while STARTED.load(Ordering::Acquire) != READY {
                if attached::header().is_some() {
                    return false;
                }
                kernel::give_way();
            }
        }
    }
    true
}

/// Enters this process in the collector's table. If the collector is gone or there is no room, nothing is counted.
fn join_collector(inherited: i64) {
    LARGE_FROM.store(u64::MAX, Ordering::Relaxed);
    SAMPLE_EVERY.store(0, Ordering::Relaxed);
    COUNTS_LIVE.store(0, Ordering::Relaxed);
    exact::end();
    // A forked child has its parent's mapping of it.
    let kept = HEADER.swap(core::ptr::null_mut(), Ordering::AcqRel);
    let header = if kept.is_null() { shared_memory() } else { kept };
    if header.is_null() {
        return;
    }
    // Safety: words of the mapped header; the file is as long as that.
    let read = |at| unsafe { word(header, at) }.load(Ordering::Relaxed);
    if read(heap::HEADER_MAGIC) != heap::MAGIC {
        return;
    }
    // Safety: a word of the header.
    let position = unsafe { word(header, heap::HEADER_PROCESSES) }.fetch_add(1, Ordering::Relaxed);
    if position >= heap::PROCESSES as u64 {
        return;
    }
    let at = heap::PROCESSES_AT + position as usize * heap::PROCESS_BYTES;
    // Safety: words of our entry, which lies in the mapped part.
    unsafe {
        word(header, at + heap::PROCESS_INHERITED).store(inherited as u64, Ordering::Relaxed);
        word(header, at + heap::PROCESS_PID).store(kernel::process_id(), Ordering::Release);
    }
    LARGE_FROM.store(read(heap::HEADER_LARGE_FROM), Ordering::Relaxed);
    SAMPLE_EVERY.store(read(heap::HEADER_SAMPLE_EVERY), Ordering::Relaxed);
    STACK_BYTES.store(read(heap::HEADER_STACK_BYTES) as usize, Ordering::Relaxed);
    FREE_STACKS.store(read(heap::HEADER_FREE_STACKS) as u32, Ordering::Relaxed);
    COUNTS_LIVE.store(read(heap::HEADER_LIVE) as u32, Ordering::Relaxed);
    SLACK.store(read(heap::HEADER_SLACK), Ordering::Relaxed);
    PROCESS.store(position as usize, Ordering::Relaxed);
    TAKEN.store(0, Ordering::Relaxed);
    stack_range::find_first_stack();
    exact::begin(header, position as usize, WITH_REGIONS.load(Ordering::Relaxed) != 0);
    HEADER.store(header, Ordering::Release);
}

/// The shared memory; null when there is none.
fn shared_memory() -> *mut u8 {
    match attached::header() {
        Some(header) => {
            // The collector mapped as much as the mode needs.
            WITH_REGIONS.store(1, Ordering::Relaxed);
            header
        }
        None => map_shared(),
    }
}

/// Maps the shared memory that the environment names; null when there is none.
fn map_shared() -> *mut u8 {
    // Safety: a name that ends with NUL. The environment is read at the process's first allocation, before the
    // program's own code runs.
    let path = unsafe { libc::getenv(c"FATHOM_AGENT".as_ptr()) };
    if path.is_null() {
        return core::ptr::null_mut();
    }
    // Safety: getenv gives a string that ends with NUL.
    let descriptor = kernel::open(unsafe { core::ffi::CStr::from_ptr(path) });
    if descriptor < 0 {
        return core::ptr::null_mut();
    }
    let length = [heap_exact::TOTAL_BYTES, heap::TOTAL_BYTES]
        .into_iter()
        .find(|bytes| kernel::is_long_enough(descriptor, *bytes))
        .filter(|bytes| kernel::has_room_for(*bytes));
    let header =
        length.map_or(core::ptr::null_mut(), |bytes| kernel::map_shared(descriptor, bytes));
    let with_regions = u32::from(length == Some(heap_exact::TOTAL_BYTES));
    WITH_REGIONS.store(with_regions, Ordering::Relaxed);
    kernel::close(descriptor);
    header
}

/// Whether a slot is the one that nobody reads, which has no ring.
pub fn is_nowhere(slot: *mut u8) -> bool {
    slot == NOWHERE.0.get().cast()
}

/// A new slot, or nowhere.
fn take_slot(thread: &mut Thread) -> *mut u8 {
    let nowhere = NOWHERE.0.get().cast();
    let header = HEADER.load(Ordering::Acquire);
    thread.until_sample = i64::MAX;
    if header.is_null() {
        return nowhere;
    }
    let Some(number) = new_slot(header) else {
        count_refused();
        return nowhere;
    };
    TAKEN.fetch_add(1, Ordering::Relaxed);
    let slot = header.wrapping_add(heap::SLOTS_AT + number * heap::SLOT_BYTES);
    // Asked of the kernel once: a filter of system calls that comes later may end the program for it.
    thread.tid = thread_id::of(control_block(thread)).unwrap_or_else(kernel::thread_id);
    // Safety: words of a slot, all of which are mapped behind the header.
    unsafe {
        word(slot, heap::SLOT_TID).store(thread.tid, Ordering::Relaxed);
        word(slot, heap::SLOT_PEAK).store(thread.base.max(0) as u64, Ordering::Relaxed);
        let process = PROCESS.load(Ordering::Relaxed) as u64 + 1;
        word(slot, heap::SLOT_PROCESS).store(process, Ordering::Release);
    }
    thread.room_until = heap::RING_BYTES as u64;
    thread.random = kernel::now() ^ (thread as *mut Thread as u64) << 16 | 1;
    thread.until_sample =
        super::lot::next(&mut thread.random, SAMPLE_EVERY.load(Ordering::Relaxed));
    slot
}

/// Counts a thread that gets no slot.
fn count_refused() {
    let header = HEADER.load(Ordering::Acquire);
    if !header.is_null() {
        // Safety: a word of the header.
        unsafe { word(header, heap::HEADER_REFUSED) }.fetch_add(1, Ordering::Relaxed);
    }
}

fn new_slot(header: *mut u8) -> Option<usize> {
    // Safety: a word of the header.
    let taken = unsafe { word(header, heap::HEADER_SLOTS) };
    // Looked at first, so that the count does not grow without end.
    if taken.load(Ordering::Relaxed) >= heap::SLOTS as u64 {
        return None;
    }
    Some(taken.fetch_add(1, Ordering::Relaxed) as usize).filter(|number| *number < heap::SLOTS)
}

/// Publishes to the process what this thread has allocated and freed since it last did.
#[cold]
#[inline(never)]
pub fn tell(thread: *mut Thread) {
    // Safety: a thread's own state.
    let thread = unsafe { &mut *thread };
    let live = LIVE.fetch_add(thread.delta, Ordering::Relaxed) + thread.delta;
    (thread.base, thread.delta, thread.most) = (live, 0, 0);
    // Safety: a word of this thread's slot.
    unsafe { word(thread.slot, heap::SLOT_PEAK) }.fetch_max(live.max(0) as u64, Ordering::Relaxed);
}

/// Counts an event of this process that should not happen.
#[cold]
#[inline(never)]
pub fn count_for_process(of_process: usize) {
    let header = HEADER.load(Ordering::Acquire);
    if !header.is_null() {
        let at = heap::PROCESSES_AT + PROCESS.load(Ordering::Relaxed) * heap::PROCESS_BYTES;
        // Safety: a word of our entry in the mapped table.
        unsafe { word(header, at + of_process) }.fetch_add(1, Ordering::Relaxed);
    }
}

/// When the rings were read last, CLOCK_MONOTONIC; 0 when nobody will.
#[inline(always)]
pub fn last_look() -> u64 {
    let header = HEADER.load(Ordering::Acquire);
    if header.is_null() {
        return 0;
    }
    // Safety: a word of the header.
    unsafe { word(header, heap::HEADER_READER) }.load(Ordering::Relaxed)
}

/// Whether the rings are read: within the last second. A killed reader does not read them.
pub fn has_reader() -> bool {
    kernel::now().wrapping_sub(last_look()) < 1_000_000_000
}

/// Wakes the reader if it sleeps. A reader that is just falling asleep is not woken: it reads again soon by itself.
pub fn wake_reader() {
    let header = HEADER.load(Ordering::Acquire);
    if header.is_null() {
        return;
    }
    // Safety: half a word of the header, which is mapped for as long as the process lives.
    let asleep = unsafe { AtomicU32::from_ptr(header.add(heap::HEADER_ASLEEP).cast()) };
    if asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::Relaxed) != 0 {
        kernel::wake(asleep);
    }
}

/// Whether no other thread of this process ever wrote an event.
#[inline(always)]
pub fn is_alone() -> bool {
    TAKEN.load(Ordering::Relaxed) <= 1
}

/// Whether the collector records mapped memory.
pub fn wants_regions() -> bool {
    let header = HEADER.load(Ordering::Acquire);
    // Safety: a word of the header.
    !header.is_null() && unsafe { word(header, heap::HEADER_REGIONS) }.load(Ordering::Relaxed) != 0
}
