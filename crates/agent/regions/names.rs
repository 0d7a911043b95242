//! Numbers for the names of regions, which are the same in all processes of a program.
//!
//! How: the table is in the shared memory; a name is searched from the place that its hash says, and written by whoever
//! comes first. What not: removing names.

use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use super::marked::{NAME_BUSY, NAME_BYTES, NAME_FREE, NAME_READY, NAME_TEXT, NAMES_AT, REGIONS};

/// What no name has: the region that stands for all that found no room.
const OTHERS: usize = REGIONS - 1;
/// A name being written is waited for so often; the thread may have been killed meanwhile.
const PATIENCE: u32 = 10_000;

/// The number of a name. `memory` is the start of the shared memory.
pub fn number(memory: *mut u8, domain: &[u8], name: &[u8]) -> usize {
    let domain = domain.get(..NAME_TEXT / 2).unwrap_or(domain);
    let name = name.get(..NAME_TEXT - domain.len()).unwrap_or(name);
    // FNV-1a.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = domain.iter().fold(0xcbf2_9ce4_8422_2325, step);
    let hash = name.iter().fold(hash ^ 0xff, step);
    let lengths = domain.len() as u64 | (name.len() as u64) << 32;
    for probe in 0..OTHERS {
        let number = ((hash >> 20) as usize).wrapping_add(probe) % OTHERS;
        let entry = memory.wrapping_add(NAMES_AT + number * NAME_BYTES);
        // Safety: in the shared memory and aligned; it is accessed by atomics, and by bytes that a state guards.
        let (state, stored) = unsafe {
            (AtomicU64::from_ptr(entry.cast()), AtomicU64::from_ptr(entry.wrapping_add(8).cast()))
        };
        let at = entry.wrapping_add(16);
        let free =
            state.compare_exchange(NAME_FREE, NAME_BUSY, Ordering::Acquire, Ordering::Acquire);
        if free.is_ok() {
            stored.store(lengths, Ordering::Relaxed);
            // Safety: nobody else writes a busy entry, and both fit, as they were cut off above.
            unsafe {
                ptr::copy_nonoverlapping(domain.as_ptr(), at, domain.len());
                ptr::copy_nonoverlapping(name.as_ptr(), at.wrapping_add(domain.len()), name.len());
            }
            state.store(NAME_READY, Ordering::Release);
            return number;
        }
        let mut waited = 0;
        while state.load(Ordering::Acquire) == NAME_BUSY && waited < PATIENCE {
            waited += 1;
            core::hint::spin_loop();
        }
        if state.load(Ordering::Acquire) == NAME_READY
            && stored.load(Ordering::Relaxed) == lengths
            && is_there(at, domain)
            && is_there(at.wrapping_add(domain.len()), name)
        {
            return number;
        }
    }
    OTHERS
}

/// The name of a region, without its domain; empty where it has none.
pub fn name<'a>(memory: *mut u8, number: usize) -> &'a [u8] {
    let entry = memory.wrapping_add(NAMES_AT + number.min(OTHERS) * NAME_BYTES);
    // Safety: in the shared memory and aligned.
    let (state, lengths) = unsafe {
        (AtomicU64::from_ptr(entry.cast()), AtomicU64::from_ptr(entry.wrapping_add(8).cast()))
    };
    let lengths = lengths.load(Ordering::Relaxed);
    let (domain, name) = (lengths as u32 as usize, (lengths >> 32) as usize);
    if state.load(Ordering::Acquire) != NAME_READY || domain.saturating_add(name) > NAME_TEXT {
        return &[];
    }
    // Safety: inside of the entry, whose bytes do not change any more.
    unsafe { core::slice::from_raw_parts(entry.wrapping_add(16 + domain), name) }
}

fn is_there(at: *const u8, bytes: &[u8]) -> bool {
    // Safety: inside of an entry, whose bytes do not change any more.
    bytes.iter().enumerate().all(|(index, byte)| unsafe { *at.wrapping_add(index) } == *byte)
}
