//! Copies records out of the agent's rings, on a thread of its own: a ring has room for some thirty records with
//! their stacks, and a thread that allocates large blocks fills it within a millisecond.
//!
//! What not: the meaning of records. Here they are only separated, checked and kept until they are taken.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base::{Bytes, Nanos, Pid, ThreadId, Tid};
use facts::AllocationCall;
use sys::shared::SharedMemory;
use sys::{heap, heap_exact};

use super::exact::Reader;
use super::merge::Cursor;
use crate::address_space::Registers;

/// What happened to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// It was allocated.
    Allocated {
        /// How.
        call: AllocationCall,
        /// Bytes asked for.
        size: Bytes,
        /// Whether it was drawn at random.
        by_lot: bool,
    },
    /// It was freed.
    Freed,
    /// Not a block: the program mapped memory there.
    Mapped {
        /// Bytes asked for.
        bytes: Bytes,
        /// Flags of mmap(2).
        flags: u32,
    },
    /// The same, by moving the end of the data segment.
    Grown {
        /// The growth.
        bytes: Bytes,
    },
    /// The program unmapped memory there.
    Unmapped {
        /// Bytes that the call named.
        bytes: Bytes,
    },
}

/// A record, checked as far as possible on its own.
#[derive(Clone, Debug)]
pub struct RawRecord {
    /// CLOCK_MONOTONIC.
    pub time: Nanos,
    /// The entry of the process: one per program that it executed.
    pub process: u32,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The block.
    pub address: u64,
    /// What happened to it.
    pub happened: Happened,
    /// Registers in the agent, for unwinding.
    pub registers: Registers,
    /// The stack from there on; empty when none was copied.
    pub stack: Vec<u8>,
}

/// Most memory of records that wait to be taken; beyond, they stay in their rings.
const MOST_WAITING: usize = 256 << 20;

/// Time between two readings when nothing wakes us: the recorder gets records that much late. A reading costs some 20
/// microseconds in a virtual machine.
const LONGEST: Duration = Duration::from_millis(50);

// Exact mode, in which nothing wakes us: a ring is full of events within a millisecond.
const BUSY: Duration = Duration::from_micros(50);
// Waking up costs some microseconds: too much for a few events.
const FEW: Duration = Duration::from_micros(200);
const MANY: usize = heap::RING_BYTES / heap_exact::EVENT_BYTES / 8;
const IDLE: Duration = Duration::from_millis(2);

struct State {
    memory: SharedMemory,
    records: Mutex<Vec<RawRecord>>,
    waiting_bytes: AtomicU64,
    /// All earlier records were read (CLOCK_MONOTONIC).
    read_until: AtomicU64,
    /// Rings whose content was invalid and was left out.
    broken: AtomicU64,
    stop: AtomicBool,
    /// In exact mode.
    exact: Option<Reader>,
}

/// The thread that reads.
pub struct Drain {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Drain {
    /// Starts the thread.
    pub fn start(memory: SharedMemory, exact: Option<Reader>) -> std::io::Result<Drain> {
        let state = Arc::new(State {
            memory,
            records: Mutex::default(),
            waiting_bytes: AtomicU64::new(0),
            read_until: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            exact,
        });
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("heap".to_owned());
        let thread = Some(thread.spawn(move || shared.run())?);
        Ok(Drain { state, thread })
    }

    /// All records written before this time can be taken.
    pub fn read_until(&self) -> Nanos {
        Nanos(self.state.read_until.load(Ordering::Acquire))
    }

    /// The records read since the last call.
    pub fn take(&mut self) -> Vec<RawRecord> {
        let mut records = self.state.records.lock().unwrap_or_else(PoisonError::into_inner);
        self.state.waiting_bytes.store(0, Ordering::Relaxed);
        std::mem::take(&mut records)
    }

    /// Reads the remaining records and ends.
    pub fn stop(&mut self) -> Vec<RawRecord> {
        self.state.stop.store(true, Ordering::Release);
        self.state.memory.wake_u32(heap::HEADER_ASLEEP);
        if let Some(thread) = self.thread.take() {
            // A panic there has lost records, which are not counted; the totals are in the shared memory.
            let _ = thread.join();
        }
        self.take()
    }

    /// Blocks whose record found no room, and records that could not be read.
    pub fn lost(&self) -> u64 {
        let memory = &self.state.memory;
        let lost = slots(memory).map(|slot| memory.load_u64(slot + heap::SLOT_LOST).unwrap_or(0));
        lost.fold(self.state.broken.load(Ordering::Relaxed), u64::saturating_add)
    }

    /// Records of mapped memory that found no room.
    pub fn lost_regions(&self) -> u64 {
        let memory = &self.state.memory;
        let lost =
            slots(memory).map(|slot| memory.load_u64(slot + heap::SLOT_LOST_REGIONS).unwrap_or(0));
        lost.fold(0, u64::saturating_add)
    }

    /// In exact mode, the events that were read.
    pub fn exact(&self) -> Option<&Reader> {
        self.state.exact.as_ref()
    }

    /// The shared memory.
    pub fn memory(&self) -> &SharedMemory {
        &self.state.memory
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.stop();
    }
}

impl State {
    fn run(&self) {
        let mut pause = BUSY;
        loop {
            let last = self.stop.load(Ordering::Acquire);
            let began = sys::process::monotonic();
            // Writers that wait for a reader see by this that there is one.
            self.memory.store_u64(heap::HEADER_READER, if last { 0 } else { began.0 });
            let found = match &self.exact {
                Some(exact) => exact.read(&self.memory, last, |cursor| self.read_other(cursor)),
                None => slots(&self.memory).map(|slot| self.read_ring(slot)).sum::<usize>(),
            };
            self.read_until.store(began.0, Ordering::Release);
            if last {
                return;
            }
            let Some(exact) = &self.exact else {
                self.sleep();
                continue;
            };
            pause = match found {
                0 => (pause * 2).min(IDLE),
                _ if found < MANY && !exact.is_learning() => FEW,
                _ => BUSY,
            };
            std::thread::sleep(pause);
        }
    }

    /// Sleeps until a ring is well filled, or until records in some ring are old enough.
    fn sleep(&self) {
        self.memory.store_u32(heap::HEADER_ASLEEP, 1);
        // Check the flag after the sleep is announced: a thread that wants us to stop sets the flag first and wakes
        // us then.
        fence(Ordering::SeqCst);
        if !self.stop.load(Ordering::Acquire) {
            self.memory.wait_u32(heap::HEADER_ASLEEP, 1, LONGEST);
        }
    }

    /// Takes a record that is no event of exact mode; returns its length, or `None` if it is invalid.
    fn read_other(&self, cursor: &Cursor) -> Option<u64> {
        let left = cursor.head.wrapping_sub(cursor.tail);
        match self.read_record(cursor.slot, cursor.tail, left, cursor.process) {
            Some((length, record)) => {
                self.records.lock().unwrap_or_else(PoisonError::into_inner).extend(record);
                Some(length)
            }
            None => {
                self.broken.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Copies the content of a ring; returns the number of records.
    fn read_ring(&self, slot: usize) -> usize {
        let word = |at: usize| self.memory.load_u64(slot + at).unwrap_or(0);
        let (head, mut tail) = (word(heap::SLOT_HEAD), word(heap::SLOT_TAIL));
        if head == tail || self.waiting_bytes.load(Ordering::Relaxed) > MOST_WAITING as u64 {
            return 0;
        }
        let process = word(heap::SLOT_PROCESS).checked_sub(1).and_then(|n| u32::try_from(n).ok());
        let mut found = Vec::new();
        while tail != head {
            let left = head.wrapping_sub(tail);
            let read = process.filter(|_| left <= heap::RING_BYTES as u64);
            match read.and_then(|process| self.read_record(slot, tail, left, process)) {
                Some((length, record)) => {
                    tail = tail.wrapping_add(length);
                    found.extend(record);
                }
                None => {
                    // The program has overwritten it. No further record can be located.
                    self.broken.fetch_add(1, Ordering::Relaxed);
                    tail = head;
                }
            }
        }
        self.memory.store_u64(slot + heap::SLOT_TAIL, tail);
        let bytes: usize = found.iter().map(|record| record.stack.len() + 128).sum();
        self.waiting_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let count = found.len();
        self.records.lock().unwrap_or_else(PoisonError::into_inner).append(&mut found);
        count
    }

    /// The record at `tail`, of which `left` bytes are available: its length, and its content unless it is padding.
    fn read_record(
        &self,
        slot: usize,
        tail: u64,
        left: u64,
        process: u32,
    ) -> Option<(u64, Option<RawRecord>)> {
        let in_ring = (tail % heap::RING_BYTES as u64) as usize;
        let at = slot + heap::RING_AT + in_ring;
        let first = self.memory.load_u64(at)?;
        let (length, kind) = (first & 0xffff_ffff, (first >> 32) as u32);
        let until_end = (heap::RING_BYTES - in_ring) as u64;
        // The program can write here: a length that the agent never writes ends the reading of this ring, not of the others.
        if length == 0 || !length.is_multiple_of(8) || length > left.min(until_end) {
            return None;
        }
        if kind == heap::KIND_PADDING {
            return Some((length, None));
        }
        let bytes = usize::try_from(length).ok()?.checked_sub(heap::RECORD_BYTES)?;
        let [_, time, address, size, ids, sp, ip, bp] = self.memory.array(at)?;
        let by_lot = kind == heap::KIND_SAMPLED;
        let happened = match kind {
            heap::KIND_ALLOCATED | heap::KIND_SAMPLED => Happened::Allocated {
                call: super::call((ids >> 32) as u32),
                size: Bytes(size),
                by_lot,
            },
            heap::KIND_FREED => Happened::Freed,
            heap::KIND_MAPPED => Happened::Mapped { bytes: Bytes(size), flags: (ids >> 32) as u32 },
            heap::KIND_BREAK => Happened::Grown { bytes: Bytes(size) },
            heap::KIND_UNMAPPED => Happened::Unmapped { bytes: Bytes(size) },
            _ => return None,
        };
        let ThreadId { pid, tid } = super::ids(pid(&self.memory, process as usize), ids as u32);
        let stack = self.memory.bytes(at + heap::RECORD_BYTES, bytes / 8);
        let registers = sys::perf::user_registers(bp, sp, ip);
        Some((
            length,
            Some(RawRecord {
                time: Nanos(time),
                process,
                pid,
                tid,
                address,
                happened,
                registers,
                stack,
            }),
        ))
    }
}

/// The offsets of the slots in use.
pub fn slots(memory: &SharedMemory) -> impl Iterator<Item = usize> + use<> {
    let taken = usize::try_from(memory.load_u64(heap::HEADER_SLOTS).unwrap_or(0));
    (0..taken.unwrap_or(usize::MAX).min(heap::SLOTS))
        .map(|number| heap::SLOTS_AT + number * heap::SLOT_BYTES)
}

/// The id of a process in the table.
pub fn pid(memory: &SharedMemory, number: usize) -> Pid {
    let at = heap::PROCESSES_AT + number.min(heap::PROCESSES - 1) * heap::PROCESS_BYTES;
    let pid = memory.load_u64(at + heap::PROCESS_PID).unwrap_or(0);
    Pid(i32::try_from(pid).unwrap_or(0))
}
