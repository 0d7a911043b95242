//! Counting: the path that every call takes.
//!
//! What for: two additions per allocation. Where live bytes are counted, also two per free and a byte of shadow, which is
//! seldom in a cache when a block is freed: 60 to 100 ns a pair in a large heap of small blocks, against 10 without
//! (bench: Zen 4). All other work is behind a rarely taken branch. What not: records (`record`) and events (`exact`).

use core::ffi::c_void;
use core::sync::atomic::Ordering;

use super::heap;

use super::heap_exact::{EVENT_ALLOCATED, EVENT_DRAWN, EVENT_LARGE};
use super::record::{self, Event};
use super::shadow::{self, Block};
use super::thread::{self, Thread};
use super::{exact, kernel, lot};

/// This thread's state, ready to count; `None` until the real allocator has been found.
#[inline(always)]
pub fn ready_or_early() -> Option<*mut Thread> {
    let thread = thread::current();
    (thread::is_ready(thread) || thread::make_ready(thread)).then_some(thread)
}

/// Counts a block that the allocator returned; null is no block.
#[inline(always)]
pub fn allocated(thread: *mut Thread, block: *mut c_void, size: usize, call: u32) {
    if block.is_null() {
        return;
    }
    let (address, size) = (block as usize, size as u64);
    let class = (u64::BITS - size.leading_zeros()) as usize;
    // Safety: a thread's own state and slot; `class` is at most 64.
    unsafe {
        let slot = (*thread).slot;
        if slot.is_null() {
            return;
        }
        thread::add(slot, heap::SLOT_CLASSES + 16 * class, 1);
        thread::add(slot, heap::SLOT_CLASSES + 16 * class + 8, size);
        let left = (*thread).until_sample.wrapping_sub(size as i64);
        (*thread).until_sample = left;
        let drawn = size >= thread::LARGE_FROM.load(Ordering::Relaxed) || left < 0;
        let recorded = if exact::is_on() {
            let kind = if drawn { draw(thread, size) } else { EVENT_ALLOCATED };
            exact::allocated(thread, address, size, call, kind)
        } else {
            drawn && record_allocation(thread, address, size, call)
        };
        let counts_live = thread::counts_live();
        if !(counts_live || recorded) {
            // The free of an earlier block there was not seen.
            if shadow::has_record_near(address) {
                shadow::take(address);
            }
            return;
        }
        if !shadow::remember(address, Block { size, recorded }) {
            thread::count_for_process(heap::PROCESS_FORGOTTEN);
        }
        if counts_live {
            add_live(thread, size);
        }
    }
}

/// Adds a block to what is live, and notes the peak.
#[inline(always)]
fn add_live(thread: *mut Thread, size: u64) {
    // Safety: a thread's own state and slot, which is not null.
    unsafe {
        let state = &mut *thread;
        let delta = state.delta.wrapping_add(size as i64);
        state.delta = delta;
        if delta > state.most {
            state.most = delta;
            let live = state.base.wrapping_add(delta);
            let peak = thread::word(state.slot, heap::SLOT_PEAK);
            // Signed: frees by other threads may be reported before this thread's allocations.
            if live > peak.load(Ordering::Relaxed) as i64 {
                peak.store(live as u64, Ordering::Relaxed);
            }
        }
        publish_live(thread, delta);
    }
}

/// Publishes this thread's change of live bytes to the process once it is large enough.
#[inline(always)]
fn publish_live(thread: *mut Thread, delta: i64) {
    // One comparison for both directions.
    if delta.unsigned_abs() > thread::SLACK.load(Ordering::Relaxed) {
        thread::tell(thread);
    }
}

/// Whether a block is large or drawn; prepares the next draw.
#[cold]
#[inline(never)]
fn draw(thread: *mut Thread, size: u64) -> u32 {
    let large = size >= thread::LARGE_FROM.load(Ordering::Relaxed);
    // Safety: a thread's own state.
    let state = unsafe { &mut *thread };
    if large {
        // Large blocks do not take part in the draw.
        state.until_sample = state.until_sample.wrapping_add(size as i64);
    } else {
        state.until_sample =
            lot::next(&mut state.random, thread::SAMPLE_EVERY.load(Ordering::Relaxed));
    }
    if large { EVENT_LARGE } else { EVENT_DRAWN }
}

/// Records a block that is large or drawn at random.
#[cold]
#[inline(never)]
fn record_allocation(thread: *mut Thread, address: usize, size: u64, call: u32) -> bool {
    let large = draw(thread, size) == EVENT_LARGE;
    let kind = if large { heap::KIND_ALLOCATED } else { heap::KIND_SAMPLED };
    record::write(thread, &Event { kind, call, time: kernel::now(), address, size })
}

/// Counts a block that is about to be freed.
#[inline(always)]
pub fn freed(thread: *mut Thread, block: *mut c_void) {
    if is_remembered(block) {
        gone(thread, block, Released { block: shadow::take(block as usize), time: 0 });
    }
}

/// Whether the shadow has to be read for a block: the only part of a free that often waits for memory.
#[inline(always)]
fn is_remembered(block: *mut c_void) -> bool {
    thread::counts_live() || shadow::has_record_near(block as usize)
}

/// A block that was removed from the shadow.
pub struct Released {
    block: Option<Block>,
    /// Its time, if it has a record.
    time: u64,
}

/// Removes a block from the shadow before the allocator gets it back: after that it may be another thread's.
pub fn released(thread: *mut Thread, block: *mut c_void) -> Released {
    let block = is_remembered(block).then(|| shadow::take(block as usize)).flatten();
    // Safety: a thread's own state.
    let thread = unsafe { &mut *thread };
    let time = match block {
        Some(Block { recorded: true, .. }) if exact::is_on() => exact::stamp(thread),
        Some(Block { recorded: true, .. }) => kernel::now(),
        _ => 0,
    };
    Released { block, time }
}

/// Counts a block that `realloc` freed, or restores it in the shadow when `realloc` failed.
pub fn give_back_or_restore(
    thread: *mut Thread,
    block: *mut c_void,
    released: Released,
    failed: bool,
) {
    match released.block {
        Some(before) if failed => {
            shadow::remember(block as usize, before);
        }
        _ if failed => {}
        _ => gone(thread, block, released),
    }
}

#[inline(always)]
fn gone(thread: *mut Thread, address: *mut c_void, released: Released) {
    let counts_live = thread::counts_live();
    let Some(Block { size, recorded }) = released.block else {
        if counts_live {
            thread::count_for_process(heap::PROCESS_UNKNOWN_FREES);
        }
        return;
    };
    // Safety: a thread's own state and slot.
    unsafe {
        let slot = (*thread).slot;
        if slot.is_null() {
            return;
        }
        if recorded && exact::is_on() {
            exact::freed(thread, address as usize, size, released.time);
        } else if recorded {
            record_free(thread, address as usize, size, released.time);
        }
        if counts_live {
            thread::add(slot, heap::SLOT_FREES, 1);
            thread::add(slot, heap::SLOT_FREED_BYTES, size);
            let delta = (*thread).delta.wrapping_sub(size as i64);
            (*thread).delta = delta;
            publish_live(thread, delta);
        }
    }
}

#[cold]
#[inline(never)]
fn record_free(thread: *mut Thread, address: usize, size: u64, time: u64) {
    let time = if time == 0 { kernel::now() } else { time };
    record::write(thread, &Event { kind: heap::KIND_FREED, call: 0, time, address, size });
}
