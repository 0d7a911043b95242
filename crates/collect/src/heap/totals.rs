//! The agent's counts per process and size class, as rows with the increase since the last reading.
//!
//! What for: rows are written about once a second, so that little is lost if we are killed. A row of one second may
//! be inexact, because an agent may be between counting a call and its bytes. The sums of all rows are exact. What
//! not: single blocks; they have records.

use std::collections::BTreeMap;

use base::{Bytes, Pid};
use facts::{Fact, HeapTotal, SizeClass};
use sys::heap;
use sys::shared::SharedMemory;

use super::exact::Reader;
use super::rings;

/// The counts of a process so far.
#[derive(Clone, Default)]
pub struct Entry {
    /// Its sums.
    pub total: HeapTotal,
    /// Blocks and bytes by class.
    classes: BTreeMap<usize, (u64, u64)>,
    slots: u64,
}

/// The counts that were written.
#[derive(Default)]
pub struct Totals {
    written: Vec<Entry>,
}

impl Totals {
    /// Rows with the counts since the last call; a new process has one in any case.
    pub fn rows(&mut self, memory: &SharedMemory, slack: u64, exact: Option<&Reader>) -> Vec<Fact> {
        let mut now = counted(memory, slack);
        for (number, Entry { total, .. }) in now.iter_mut().enumerate() {
            // Blocks that a child inherited from its parent are in no record.
            let peak = exact.filter(|_| total.inherited == Bytes(0));
            if let Some(peak) = peak.and_then(|exact| exact.peak(number)) {
                (total.peak, total.peak_doubt) = (Some(peak), Bytes(0));
            }
        }
        let mut rows = Vec::new();
        for (number, entry) in now.iter().enumerate() {
            let before = self.written.get(number).cloned().unwrap_or_default();
            let is_new = before.total.pid != entry.total.pid;
            let total = since(&entry.total, &before.total);
            let has_grown = total.allocations > 0 || total.frees.is_some_and(|frees| frees > 0);
            let others = [total.inherited.0, total.unknown_frees, total.forgotten];
            if is_new
                || has_grown
                || others.iter().any(|count| *count > 0)
                || entry.total.peak != before.total.peak
            {
                rows.push(Fact::HeapTotal(total));
            }
            for (class, (blocks, bytes)) in &entry.classes {
                let (blocks_before, bytes_before) =
                    before.classes.get(class).copied().unwrap_or_default();
                if *blocks > blocks_before {
                    rows.push(Fact::SizeClass(SizeClass {
                        pid: total.pid,
                        largest: Bytes(u64::MAX.checked_shr(64 - *class as u32).unwrap_or(0)),
                        allocations: blocks - blocks_before,
                        allocated: Bytes(bytes.saturating_sub(bytes_before)),
                    }));
                }
            }
        }
        self.written = now;
        rows
    }

    /// The processes at the last call.
    pub fn processes(&self) -> impl Iterator<Item = &HeapTotal> {
        self.written.iter().map(|entry| &entry.total)
    }
}

fn since(now: &HeapTotal, before: &HeapTotal) -> HeapTotal {
    let less = |now: u64, before: u64| now.saturating_sub(before);
    HeapTotal {
        pid: now.pid,
        allocations: less(now.allocations, before.allocations),
        allocated: Bytes(less(now.allocated.0, before.allocated.0)),
        frees: now.frees.map(|frees| less(frees, before.frees.unwrap_or(0))),
        freed: now.freed.map(|freed| Bytes(less(freed.0, before.freed.unwrap_or_default().0))),
        inherited: Bytes(less(now.inherited.0, before.inherited.0)),
        peak: now.peak,
        peak_doubt: now.peak_doubt,
        unknown_frees: less(now.unknown_frees, before.unknown_frees),
        forgotten: less(now.forgotten, before.forgotten),
    }
}

/// The counts so far, per entry of the table of processes.
fn counted(memory: &SharedMemory, slack: u64) -> Vec<Entry> {
    let word = |at: usize| memory.load_u64(at).unwrap_or(0);
    let processes = usize::try_from(word(heap::HEADER_PROCESSES)).unwrap_or(usize::MAX);
    let mut entries: Vec<Entry> =
        (0..processes.min(heap::PROCESSES)).map(|number| process(memory, number)).collect();
    let of = |entries: &mut Vec<Entry>, slot: usize| {
        let number = word(slot + heap::SLOT_PROCESS).checked_sub(1)?;
        usize::try_from(number).ok().filter(|number| *number < entries.len())
    };
    // Frees are read before allocations: so no free is counted whose allocation is not.
    let slots: Vec<usize> = rings::slots(memory).collect();
    for slot in &slots {
        let Some(number) = of(&mut entries, *slot) else { continue };
        let total = &mut entries[number].total;
        total.frees = total.frees.map(|frees| frees.saturating_add(word(slot + heap::SLOT_FREES)));
        total.freed = total.freed.map(|freed| plus(freed, word(slot + heap::SLOT_FREED_BYTES)));
    }
    for slot in slots {
        let Some(number) = of(&mut entries, slot) else { continue };
        let Entry { total, classes, slots } = &mut entries[number];
        *slots += 1;
        for class in 0..heap::CLASSES {
            let at = slot + heap::SLOT_CLASSES + 16 * class;
            let (blocks, bytes) = (word(at), word(at + 8));
            if blocks > 0 {
                let sum = classes.entry(class).or_default();
                *sum = (sum.0.saturating_add(blocks), sum.1.saturating_add(bytes));
                total.allocations = total.allocations.saturating_add(blocks);
                total.allocated = plus(total.allocated, bytes);
            }
        }
        total.peak = total.peak.map(|peak| peak.max(Bytes(word(slot + heap::SLOT_PEAK))));
    }
    for Entry { total, slots, .. } in &mut entries {
        // Each thread may be late by this much, except that a single thread is never late.
        total.peak_doubt = Bytes(if *slots > 1 { slots.saturating_mul(slack) } else { 0 });
    }
    entries
}

fn process(memory: &SharedMemory, number: usize) -> Entry {
    let at = heap::PROCESSES_AT + number * heap::PROCESS_BYTES;
    let word = |of: usize| memory.load_u64(at + of).unwrap_or(0);
    let pid: Pid = rings::pid(memory, number);
    let live = (memory.load_u64(heap::HEADER_LIVE) == Some(1)).then_some(Bytes(0));
    let total = HeapTotal {
        pid,
        frees: live.map(|_| 0),
        freed: live,
        peak: live,
        inherited: Bytes(word(heap::PROCESS_INHERITED)),
        unknown_frees: word(heap::PROCESS_UNKNOWN_FREES),
        forgotten: word(heap::PROCESS_FORGOTTEN),
        ..HeapTotal::default()
    };
    Entry { total, ..Entry::default() }
}

fn plus(sum: Bytes, bytes: u64) -> Bytes {
    Bytes(sum.0.saturating_add(bytes))
}
