//! Exact mode: an event for every block that is allocated or freed, in 32 bytes, with the node of its stack.
//!
//! What for: `walk` names the stack. Where it cannot, the event carries a copy of the stack, from which the collector
//! learns the missing rule; so stacks through a piece of code are copied only briefly. What not: sums (the collector
//! follows each block), the other modes (`record`).
//!
//! Assumption: all of this library is compiled with frame pointers (`build.rs`), so that rbp in a function that the
//! program called leads to the program's own frame: the caller's rbp is there, then the return address. If a ring is
//! full, the thread waits for the reader while there is one, for at most [`PATIENCE`].

use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::heap_exact as layout;
use super::step::Frame;
use super::thread::{self, Thread};
use super::tree::Region;
use super::walk::{Walked, Walker};
use super::{heap, kernel};

/// Nanoseconds that a thread waits for room.
const PATIENCE: u64 = 50_000_000;
/// Events of a process's only thread that may share one reading of the clock.
const SHARED: u64 = 4;
/// They share it if they follow each other this closely, in units of a stamp: a quarter of a microsecond at 2 GHz.
const CLOSE: u64 = 512;
/// Most calls inside this library between the program and an event.
const MOST_OWN_FRAMES: usize = 8;

/// This process's region; null when there is none.
static REGION: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
/// Rises when addresses may refer to other code.
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// 1 for exact mode, 3 where times are ticks of the time-stamp counter.
static MODE: AtomicUsize = AtomicUsize::new(0);
/// The range of addresses of this library.
static OWN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Whether every block is recorded.
#[inline(always)]
pub fn is_on() -> bool {
    MODE.load(Ordering::Relaxed) != 0
}

/// A reading of the clock, and the number of further events that may use it.
#[derive(Clone, Copy)]
pub struct Reading {
    time: u64,
    /// The collector's last reading at that time.
    look: u64,
    /// Number of events that may share it.
    lent: u64,
    /// Number of these that have not happened yet.
    left: u64,
}

/// A time for an event of this thread.
///
/// Reading the clock takes a quarter of the time of an event. In a process with one thread, the order of its events
/// is that of its ring, and times are needed for lifetimes only. So up to three events that follow closely get the
/// time of the one before them: at most a microsecond early if the program continues at its pace. If it pauses
/// between them, they are not earlier than the collector's last reading of the rings: 2 ms ago, unless the machine is
/// too busy for that.
/// machine is too busy for it.
#[inline(always)]
pub fn stamp(thread: &mut Thread) -> u64 {
    let look = thread::last_look();
    let reading = &mut thread.reading;
    // A signal handler may interrupt anywhere: the rest is read once.
    if let Some(left) = reading.left.checked_sub(1)
        && reading.look == look
        && thread::is_alone()
    {
        reading.left = left;
        return reading.time;
    }
    let time = read_clock();
    let events = reading.lent.saturating_sub(reading.left) + 1;
    let lent = if time.wrapping_sub(reading.time) < events * CLOSE { SHARED - 1 } else { 0 };
    *reading = Reading { time, look, lent, left: lent };
    time
}

#[inline(always)]
fn read_clock() -> u64 {
    if MODE.load(Ordering::Relaxed) & 2 != 0 {
        // Safety: reads a counter; the collector asks for it only where the kernel uses it as its clock.
        unsafe { core::arch::x86_64::_rdtsc() }
    } else {
        kernel::now()
    }
}

/// Resets it, in a process that the collector has in its table at `position`. `whole`: the mapped memory has regions.
pub fn begin(header: *mut u8, position: usize, whole: bool) {
    // Safety: words of the mapped header.
    let read = |at| unsafe { thread::word(header, at) }.load(Ordering::Relaxed);
    let on = whole && read(heap::HEADER_EXACT) != 0;
    let start = heap::TOTAL_BYTES + position * layout::REGION_BYTES;
    let region = if on && position < layout::REGIONS {
        header.wrapping_add(start)
    } else {
        core::ptr::null_mut()
    };
    new_generation();
    REGION.store(region, Ordering::Relaxed);
    if let [0, _] = OWN.each_ref().map(|word| word.load(Ordering::Relaxed)) {
        let (start, end) = own_range();
        OWN[0].store(start, Ordering::Relaxed);
        OWN[1].store(end, Ordering::Relaxed);
    }
    let ticks = usize::from(read(heap::HEADER_TICKS) != 0);
    MODE.store(if on { 1 | ticks << 1 } else { 0 }, Ordering::Release);
}

/// Nothing is recorded from here on.
pub fn end() {
    MODE.store(0, Ordering::Relaxed);
}

/// Addresses may refer to other code from now on.
pub fn new_generation() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
}

/// The range of this library's first segments, by its own ELF header (elf(5)).
fn own_range() -> (usize, usize) {
    let start: usize;
    // Safety: computes an address; the linker defines this name in every object (ld(1), lld).
    unsafe {
        core::arch::asm!("lea {0}, [rip + __ehdr_start]", out(reg) start, options(nomem, nostack, preserves_flags));
    }
    // Safety: the header of this very library, as the linker made it: offset of the program headers at 32, their number
    // at 56; each of 56 bytes with type at 0, address at 16 and size at 40.
    let end = unsafe {
        let read = |at: usize| ((start + at) as *const u64).read_unaligned() as usize;
        let (first, count) = (read(32), read(56) & 0xffff);
        let end = |number: usize| {
            let at = first + 56 * number;
            if read(at) & 0xffff_ffff == 1 { read(at + 16) + read(at + 40) } else { 0 }
        };
        (0..count).map(end).max().unwrap_or(0)
    };
    (start, start + end)
}

/// Reports an allocated block; `kind` is one of `EVENT_*`. `false` if there is no reader.
#[inline(always)]
pub fn allocated(thread: *mut Thread, address: usize, size: u64, call: u32, kind: u32) -> bool {
    // Safety: this thread's state.
    unsafe { event(thread, address, size, kind | call << 8, 0) }
}

/// Reports a freed block, at `time` if that is not 0.
#[inline(always)]
pub fn freed(thread: *mut Thread, address: usize, size: u64, time: u64) {
    // Safety: this thread's state.
    unsafe { event(thread, address, size, layout::EVENT_FREED, time) };
}

/// Passes the caller's rbp on to [`handed_over`]. In assembly, because only between two functions it is certain that
/// the caller's frame is set up and ours is not.
///
/// # Safety
/// `thread` is this thread's state; called from a function of this library.
/// `thread` is this thread's state; called from a function of this library.
#[unsafe(naked)]
unsafe extern "C" fn event(
    thread: *mut Thread,
    address: usize,
    size: u64,
    what: u32,
    time: u64,
) -> bool {
    core::arch::naked_asm!("mov r9, rbp", "jmp {handed_over}", handed_over = sym handed_over)
}

/// # Safety
/// As of [`event`]; `frame` is its caller's rbp.
unsafe extern "C" fn handed_over(
    thread: *mut Thread,
    address: usize,
    size: u64,
    what: u32,
    time: u64,
    frame: usize,
) -> bool {
    // Safety: a thread's own state.
    let thread = unsafe { &mut *thread };
    if thread::is_nowhere(thread.slot) {
        return false;
    }
    if thread.busy != 0 {
        // A signal handler inside of this function: the ring has one writer at a time.
        // Safety: this thread's slot.
        unsafe { thread::add(thread.slot, heap::SLOT_LOST, 1) };
        return false;
    }
    thread.busy = 1;
    let time = if time == 0 { stamp(thread) } else { time };
    let mut event = Event { node: layout::NO_NODE, time, address, size, what };
    let caller = caller(frame);
    let generation = GENERATION.load(Ordering::Acquire);
    let mut missing = 0;
    if let (Some(region), Some(walker)) =
        (Region::at(REGION.load(Ordering::Relaxed)), walker(thread))
    {
        match walker.walk(region, generation, caller, thread::control_block(thread)) {
            Walked::Node(node) => event.node = node,
            Walked::Caller(node) => {
                event.node = node;
                thread::count_for_process(heap::PROCESS_TREE_FULL);
            }
            Walked::NoRule(address) => missing = address,
        }
    }
    let written = if event.node == layout::NO_NODE {
        put_with_stack(thread, &event, caller, missing as u64 & 0xffff_ffff_ffff | generation << 48)
    } else {
        put(thread, &event)
    };
    if !written {
        // Safety: this thread's slot.
        unsafe { thread::add(thread.slot, heap::SLOT_LOST, 1) };
    }
    thread.busy = 0;
    written
}

struct Event {
    node: u32,
    time: u64,
    address: usize,
    size: u64,
    /// Kind | call << 8.
    what: u32,
}

impl Event {
    fn words(&self, length: usize) -> [u64; 4] {
        let first = length as u64 | u64::from(self.what) << 16 | u64::from(self.node) << 32;
        [first, self.time, self.address as u64, self.size]
    }
}

/// The frame of the program that called into this library, from rbp in it.
#[inline(always)]
fn caller(frame: usize) -> Frame {
    let mut bp = frame;
    let own = OWN.each_ref().map(|word| word.load(Ordering::Relaxed));
    let mut found = Frame { pc: 0, sp: 0, bp: 0 };
    for _ in 0..MOST_OWN_FRAMES {
        // Safety: a frame of this library, which has frame pointers (head of the file): the saved rbp, then where to return.
        let (saved, pc) = unsafe { (*(bp as *const usize), *((bp + 8) as *const usize)) };
        found = Frame { pc, sp: bp.wrapping_add(16), bp: saved };
        if pc.wrapping_sub(own[0]) >= own[1].wrapping_sub(own[0]) {
            break;
        }
        bp = saved;
    }
    found
}

/// This thread's state of its last walk; `None` if there is no memory for it.
#[inline(always)]
fn walker(thread: &mut Thread) -> Option<&'static mut Walker> {
    if thread.walker.is_null() {
        thread.walker = kernel::map_private(size_of::<Walker>()).cast();
    }
    // Safety: mapped for the life of the process, all zero at first, and this thread's alone while it is busy.
    unsafe { thread.walker.cast::<Walker>().as_mut() }
}

/// Writes an event that has a node.
#[inline(always)]
fn put(thread: &mut Thread, event: &Event) -> bool {
    if event.what & 0xff == layout::EVENT_LARGE || event.what & 0xff == layout::EVENT_DRAWN {
        // A later thread may have come to this slot; those that have a record of their own name it.
        // Safety: a word of this thread's slot.
        let last = unsafe { thread::word(thread.slot, heap::SLOT_TID) };
        last.store(thread::id(thread), Ordering::Relaxed);
    }
    write(thread, &event.words(layout::EVENT_BYTES), 0, 0)
}

/// Writes an event with a copy of the stack, from the program's frame on.
#[cold]
#[inline(never)]
fn put_with_stack(thread: &mut Thread, event: &Event, caller: Frame, missing: u64) -> bool {
    let wanted = thread::STACK_BYTES.load(Ordering::Relaxed).min(heap::MAX_STACK_BYTES);
    let bytes = super::record::readable(thread, caller.sp, wanted);
    let [first, time, address, size] = event.words(layout::EVENT_STACK_BYTES + bytes);
    let Frame { pc, sp, bp } = caller;
    let words = [first, time, address, size, pc as u64, sp as u64, bp as u64, missing];
    write(thread, &words, sp, bytes)
}

/// Writes words and then `bytes` bytes of stack from `from` on; `false` if there is no room and no reader makes any.
#[inline(always)]
fn write<const WORDS: usize>(
    thread: &mut Thread,
    words: &[u64; WORDS],
    from: usize,
    bytes: usize,
) -> bool {
    let length = 8 * WORDS + bytes;
    let slot = thread.slot;
    // Safety: a word of this thread's slot.
    let head = unsafe { thread::word(slot, heap::SLOT_HEAD) };
    let mut at = head.load(Ordering::Relaxed);
    let left = heap::RING_BYTES - (at % heap::RING_BYTES as u64) as usize;
    let padding = if left < length { left } else { 0 };
    let end = at.wrapping_add((length + padding) as u64);
    // Signed: the ring's positions wrap together.
    if end.wrapping_sub(thread.room_until) as i64 > 0 && !wait_for_room(thread, end) {
        return false;
    }
    // Safety: the ring of this thread's slot; the reader is done with these bytes, and none goes beyond the ring's end:
    // `padding` took care. The stack bytes were found readable and are this thread's.
    unsafe {
        let ring = slot.add(heap::RING_AT);
        let place = |at: u64| ring.add((at % heap::RING_BYTES as u64) as usize);
        if padding > 0 {
            place(at).cast::<u64>().write(padding as u64 | u64::from(heap::KIND_PADDING) << 32);
            at = at.wrapping_add(padding as u64);
        }
        place(at).cast::<[u64; WORDS]>().write(*words);
        if bytes > 0 {
            let to = place(at).add(8 * WORDS).cast::<u64>();
            core::ptr::copy_nonoverlapping(from as *const u64, to, bytes / 8);
        }
    }
    head.store(end, Ordering::Release);
    true
}

#[cold]
#[inline(never)]
fn wait_for_room(thread: &mut Thread, end: u64) -> bool {
    // Safety: a word of this thread's slot.
    let tail = unsafe { thread::word(thread.slot, heap::SLOT_TAIL) };
    let mut since = 0;
    loop {
        thread.room_until = tail.load(Ordering::Acquire).wrapping_add(heap::RING_BYTES as u64);
        if end.wrapping_sub(thread.room_until) as i64 <= 0 {
            return true;
        }
        let now = kernel::now();
        since = if since == 0 { now } else { since };
        if now.wrapping_sub(since) >= PATIENCE || !thread::has_reader() {
            return false;
        }
        kernel::give_way();
    }
}
