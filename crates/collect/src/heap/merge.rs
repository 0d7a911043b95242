//! The events of exact mode from all rings, in order of time.
//!
//! What for: another thread may free a block than the one that allocated it, and peaks are of all threads together.
//! What not: the meaning of events (`aggregate`). Other records in the same rings are passed on unchanged.
//!
//! How: only events older than [`LAG`] are taken, because a thread may still be between taking its time and writing
//! it. An event of a thread that is held up longer comes too late; `aggregate` tolerates that.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::Tid;
use sys::heap;
use sys::heap_exact as layout;
use sys::shared::SharedMemory;

use super::aggregate::Event;
use crate::address_space::Registers;

/// Ticks or nanoseconds for which events stay in their rings: 20 to 50 us.
pub const LAG: u64 = 50_000;

/// The stack of an event that has no node.
#[derive(Clone, Debug)]
pub struct CopiedEvent {
    /// Registers right after the return into the program, in the order of `sys::perf::USER_REGISTERS`.
    pub registers: Registers,
    /// Memory from that stack pointer on.
    pub stack: Vec<u8>,
    /// The return address without rule, and the generation.
    pub missing: u64,
}

/// The next content of a ring.
pub enum RingContent {
    /// An event, and its stack if it has no node. Few have a stack, so it is boxed to keep the rest small.
    Event(Event, Option<Box<CopiedEvent>>),
    /// A record for `rings`.
    Other,
    /// Padding.
    Nothing,
}

/// Reading position in a ring.
pub struct Cursor {
    /// Where the slot begins.
    pub slot: usize,
    /// Its number.
    pub number: u32,
    /// The process, by its entry in the table.
    pub process: u32,
    /// Bytes ever read.
    pub tail: u64,
    /// Bytes ever written.
    pub head: u64,
    /// The thread that took the slot, or that identified itself last.
    pub tid: Tid,
}

impl Cursor {
    /// The cursor of a slot that has something to read; `None` also if its content is impossible.
    pub fn of(memory: &SharedMemory, slot: usize) -> Option<Cursor> {
        let word = |at: usize| memory.load_u64(slot + at).unwrap_or(0);
        let process = u32::try_from(word(heap::SLOT_PROCESS).checked_sub(1)?).ok()?;
        let (head, tail) = (word(heap::SLOT_HEAD), word(heap::SLOT_TAIL));
        let number = u32::try_from((slot - heap::SLOTS_AT) / heap::SLOT_BYTES).ok()?;
        let fits = process < heap::PROCESSES as u32;
        let tid = Tid(i32::try_from(word(heap::SLOT_TID)).unwrap_or(0));
        (head != tail && fits).then_some(Cursor { slot, number, process, tail, head, tid })
    }

    fn at(&self) -> usize {
        self.slot + heap::RING_AT + (self.tail % heap::RING_BYTES as u64) as usize
    }

    /// The time of the next event; 0 for a record without time, which need not wait; `None` at the end.
    pub fn time(&self, memory: &SharedMemory) -> Option<u64> {
        if self.tail == self.head {
            return None;
        }
        let [first] = memory.array(self.at())?;
        if first >> 16 & 0xff == 0 {
            return Some(0);
        }
        memory.load_u64(self.at() + 8)
    }

    /// The next record and its length; `None` if it is invalid.
    #[inline]
    pub fn read(&self, memory: &SharedMemory) -> Option<(u64, RingContent)> {
        let left = self.head.wrapping_sub(self.tail);
        let until_end = (heap::RING_BYTES - (self.tail % heap::RING_BYTES as u64) as usize) as u64;
        // The program can write the head, too.
        if left > heap::RING_BYTES as u64 {
            return None;
        }
        let at = self.at();
        let first = memory.load_u64(at)?;
        let kind = (first >> 16) as u32 & 0xff;
        if kind == 0 {
            let other = if (first >> 32) as u32 == heap::KIND_PADDING {
                RingContent::Nothing
            } else {
                RingContent::Other
            };
            let length = first & 0xffff_ffff;
            return (length != 0 && length <= left.min(until_end)).then_some((length, other));
        }
        let length = first & 0xffff;
        if length < layout::EVENT_BYTES as u64
            || !length.is_multiple_of(8)
            || length > left.min(until_end)
            || !(layout::EVENT_ALLOCATED..=layout::EVENT_FREED).contains(&kind)
        {
            return None;
        }
        let [_, time, address, size] = memory.array(at)?;
        let (call, node) = ((first >> 24) as u8, (first >> 32) as u32);
        let (process, slot) = (self.process, self.number);
        let tid = self.tid;
        let event = Event { time, process, slot, tid, address, size, kind, call, node };
        let length = length as usize;
        let copied = (length >= layout::EVENT_STACK_BYTES).then(|| copied(memory, at, length));
        // An impossible node becomes a site of its own without stack.
        let event = if node as usize >= layout::NODES {
            Event { node: layout::NO_NODE, ..event }
        } else {
            event
        };
        Some((length as u64, RingContent::Event(event, copied.flatten().map(Box::new))))
    }
}

fn copied(memory: &SharedMemory, at: usize, length: usize) -> Option<CopiedEvent> {
    let [ip, sp, bp, missing] = memory.array(at + layout::EVENT_BYTES)?;
    let words = (length - layout::EVENT_STACK_BYTES) / 8;
    let stack = memory.words(at + layout::EVENT_STACK_BYTES, words);
    let stack = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
    Some(CopiedEvent { registers: sys::perf::user_registers(bp, sp, ip), stack, missing })
}

/// Calls `take` with the cursor whose next event is the oldest, again and again, until all remaining events are
/// younger than `until`. `take` moves the cursor's tail, by at least one event, up to the given time. Publishes to
/// the writers what was read.
pub fn in_order(
    memory: &SharedMemory,
    cursors: &mut [Cursor],
    until: u64,
    mut take: impl FnMut(&mut Cursor, u64),
) {
    let mut waiting: BinaryHeap<Reverse<(u64, usize)>> = cursors
        .iter()
        .enumerate()
        .filter_map(|(number, cursor)| Some(Reverse((cursor.time(memory)?, number))))
        .collect();
    while let Some(Reverse((time, number))) = waiting.pop() {
        if time > until {
            break;
        }
        let next = waiting.peek().map_or(until, |Reverse((time, _))| (*time).min(until));
        let cursor = &mut cursors[number];
        take(cursor, next.max(time));
        if let Some(time) = cursor.time(memory) {
            waiting.push(Reverse((time, number)));
        }
    }
    for cursor in cursors {
        memory.store_u64(cursor.slot + heap::SLOT_TAIL, cursor.tail);
    }
}
