//! Records: one block allocated or freed, with a copy of the stack that the collector unwinds.
//!
//! Why copies: unwinding here would need unwind tables, memory and time of the program. Copying 8 KiB takes a
//! microsecond, and only large and drawn blocks are recorded. The registers are the agent's own; the collector
//! unwinds through the agent's functions and leaves them out.
//!
//! If a ring is full, the record is lost and counted. For the record of a large block the thread first waits briefly
//! for the reader. What not: modes in which every block is recorded (`exact`).

use core::sync::atomic::Ordering;

use super::heap;

use super::thread::{self, Thread};
use super::{arch, kernel, stack_range};

/// The content of a record.
pub struct Event {
    /// One of `heap::KIND_*`.
    pub kind: u32,
    /// One of `heap::CALL_*`.
    pub call: u32,
    /// When.
    pub time: u64,
    /// The block.
    pub address: usize,
    /// Bytes asked for.
    pub size: u64,
}

/// Writes a record with the caller's stack; `false` if it was lost.
#[cold]
#[inline(never)]
pub fn write(thread: *mut Thread, event: &Event) -> bool {
    // Safety: a thread's own state.
    let thread = unsafe { &mut *thread };
    // There is none yet: this thread, or another one that starts the process, is about to take it.
    if thread.slot.is_null() || thread::is_nowhere(thread.slot) {
        return false;
    }
    let lost =
        if event.kind < heap::KIND_MAPPED { heap::SLOT_LOST } else { heap::SLOT_LOST_REGIONS };
    if thread.busy != 0 {
        // A signal handler inside of this function: the ring has one writer at a time.
        // Safety: this thread's slot.
        unsafe { thread::add(thread.slot, lost, 1) };
        return false;
    }
    thread.busy = 1;
    let registers = arch::registers();
    let [sp, ..] = registers;
    let wanted = match event.kind {
        heap::KIND_FREED if thread::FREE_STACKS.load(Ordering::Relaxed) == 0 => 0,
        _ => thread::STACK_BYTES.load(Ordering::Relaxed).min(heap::MAX_STACK_BYTES),
    };
    let stack_bytes = readable(thread, sp, wanted);
    let written = put(thread, event, registers, stack_bytes);
    if !written {
        // Safety: this thread's slot.
        unsafe { thread::add(thread.slot, lost, 1) };
    }
    thread.busy = 0;
    written
}

/// Number of `wanted` bytes from the stack pointer on that are readable: up to the end of the stack, which the
/// program may have created itself. Whole words.
pub fn readable(thread: &Thread, sp: usize, wanted: usize) -> usize {
    const PAGE: usize = 4096;
    let wanted = stack_range::before_end(sp, thread::control_block(thread), wanted);
    let mut end = (sp & !(PAGE - 1)) + PAGE;
    while end < sp + wanted && kernel::is_readable(end) {
        end += PAGE;
    }
    (end - sp).min(wanted) & !7
}

/// How long a thread waits for room, ns: where every block is recorded, large blocks, other blocks.
const PATIENCE: [u64; 3] = [50_000_000, 2_000_000, 0];

fn put(thread: &Thread, event: &Event, registers: [usize; 3], stack_bytes: usize) -> bool {
    let slot = thread.slot;
    let length = heap::RECORD_BYTES + stack_bytes;
    // Safety: words of this thread's slot.
    let (head, tail) =
        unsafe { (thread::word(slot, heap::SLOT_HEAD), thread::word(slot, heap::SLOT_TAIL)) };
    let mut at = head.load(Ordering::Relaxed);
    let left = heap::RING_BYTES - (at % heap::RING_BYTES as u64) as usize;
    let padding = if left < length { left } else { 0 };
    let needed = (length + padding) as u64;
    let has_room = || {
        at.wrapping_add(needed).wrapping_sub(tail.load(Ordering::Acquire))
            <= heap::RING_BYTES as u64
    };
    let [every, large, drawn] = PATIENCE;
    let patience = match event.kind {
        _ if thread::FREE_STACKS.load(Ordering::Relaxed) != 0 => every,
        heap::KIND_ALLOCATED => large,
        _ => drawn,
    };
    while !has_room() {
        let waited = kernel::now().wrapping_sub(event.time);
        if waited >= patience || !thread::has_reader() {
            return false;
        }
        thread::wake_reader();
        kernel::give_way();
    }
    // Safety: the ring of this thread's slot; `has_room` made sure that the reader is done with these bytes, and none
    // goes beyond the ring's end: `padding` took care. The stack bytes were found readable and are this thread's.
    unsafe {
        let ring = slot.add(heap::RING_AT);
        let place = |at: u64| ring.add((at % heap::RING_BYTES as u64) as usize);
        if padding > 0 {
            place(at).cast::<u64>().write(padding as u64 | u64::from(heap::KIND_PADDING) << 32);
            at = at.wrapping_add(padding as u64);
        }
        let tid = thread::id(thread);
        let [sp, ip, bp] = registers.map(|register| register as u64);
        place(at).cast::<[u64; 8]>().write([
            length as u64 | u64::from(event.kind) << 32,
            event.time,
            event.address as u64,
            event.size,
            (tid & 0xffff_ffff) | u64::from(event.call) << 32,
            sp,
            ip,
            bp,
        ]);
        let from = registers[0] as *const u64;
        core::ptr::copy_nonoverlapping(
            from,
            place(at).add(heap::RECORD_BYTES).cast::<u64>(),
            stack_bytes / 8,
        );
    }
    let end = at.wrapping_add(length as u64);
    head.store(end, Ordering::Release);
    if end.wrapping_sub(tail.load(Ordering::Relaxed)) >= heap::WAKE_BYTES {
        thread::wake_reader();
    }
    true
}
