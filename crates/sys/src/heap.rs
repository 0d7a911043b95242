//! The layout of the memory that the allocation agent inside a program shares with the collector.
//!
//! What for: crate `agent` writes it, `collect::heap` reads it; both take the layout from here. What not: reading or
//! writing. Assumption: both sides are of one build ([`MAGIC`] changes with the layout). The reader trusts nothing:
//! the program can write anything anywhere in it.
//!
//! ```text
//! header      4096 bytes  words below
//! processes   PROCESSES x PROCESS_BYTES
//! slots       SLOTS x SLOT_BYTES: one per thread (and those after it at its place): counters, then its ring
//! ring        records, each a multiple of 8 bytes, none across the end:
//!             length | kind << 32, time, address, size, tid | call << 32, sp, ip, bp, stack bytes
//! regions     where every block is recorded: REGIONS x REGION_BYTES, one per process (`heap_exact`)
//! ```
//! A slot has one writer, its thread, and is never passed on to another process. So a counter is a plain addition,
//! and a thread that is killed in the middle of a record leaves the ring consistent: `HEAD` is written last.

/// Environment variable with the path of the shared memory.
pub const VARIABLE: &str = "FATHOM_AGENT";

/// First word of the header. The last byte is the version of the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"fathomH\x05");

/// Word of the header: [`MAGIC`].
pub const HEADER_MAGIC: usize = 0;
/// Word of the header: processes that entered so far; may exceed [`PROCESSES`].
pub const HEADER_PROCESSES: usize = 8;
/// Word of the header: slots taken so far; may exceed [`SLOTS`].
pub const HEADER_SLOTS: usize = 16;
/// Word of the header: threads that found no free slot and are not counted.
pub const HEADER_REFUSED: usize = 24;
/// Word of the header: blocks of this many bytes or more get a record each.
pub const HEADER_LARGE_FROM: usize = 32;
/// Word of the header: mean bytes between two sampled smaller blocks; 0 for none.
pub const HEADER_SAMPLE_EVERY: usize = 40;
/// Word of the header: bytes of stack that a record copies at most.
pub const HEADER_STACK_BYTES: usize = 48;
/// Word of the header: bytes by which a thread may be late in publishing live bytes.
pub const HEADER_SLACK: usize = 56;
/// Word of the header: 1 when frees of recorded blocks carry their stack too.
pub const HEADER_FREE_STACKS: usize = 64;
/// Word of the header: when the rings were last read, CLOCK_MONOTONIC in nanoseconds; 0 if there is no reader.
pub const HEADER_READER: usize = 72;

/// Word of the header: 1 if every block is recorded, with stacks that the agent unwinds itself.
pub const HEADER_EXACT: usize = 80;
/// Word of the header: 1 when times of exact events are the processor's time-stamp counter, else they are nanoseconds.
pub const HEADER_TICKS: usize = 88;
/// Word of the header: 1 when calls of `mmap`, `brk` and their kin get a record each.
pub const HEADER_REGIONS: usize = 96;
/// Half a word of the header: 1 while the reader sleeps and wants to be woken (futex(2)) when a ring holds
/// [`WAKE_BYTES`]; the thread that wakes it sets it to 0.
pub const HEADER_ASLEEP: usize = 104;
/// Word of the header: 1 when live bytes are counted, for which the size of every block is remembered until it is freed.
pub const HEADER_LIVE: usize = 112;

/// Where the table of processes begins.
pub const PROCESSES_AT: usize = 4096;
/// Most processes that are distinguished.
pub const PROCESSES: usize = 1024;
/// Bytes of an entry.
pub const PROCESS_BYTES: usize = 64;
/// Word of a process: its id.
pub const PROCESS_PID: usize = 0;
/// Word of a process: live bytes that it had from its parent when it was forked; 0 where they are not counted.
pub const PROCESS_INHERITED: usize = 8;
/// Word of a process: frees of blocks whose allocation was not observed.
pub const PROCESS_UNKNOWN_FREES: usize = 16;
/// Word of a process: blocks whose size could not be stored, for lack of memory.
pub const PROCESS_FORGOTTEN: usize = 24;
/// Word of a process: blocks whose stack is named by a caller's node, because the tree of its region was full.
pub const PROCESS_TREE_FULL: usize = 32;

/// Where the slots begin.
pub const SLOTS_AT: usize = PROCESSES_AT + PROCESSES * PROCESS_BYTES;
/// Most threads that are counted, including ended ones unless a later one took their place.
pub const SLOTS: usize = 1024;
/// Word of a slot: index of its process in the table, plus 1; 0 while it is free.
pub const SLOT_PROCESS: usize = 8;
/// Word of a slot: bytes ever written to the ring.
pub const SLOT_HEAD: usize = 16;
/// Word of a slot: bytes ever read from the ring; the collector's.
pub const SLOT_TAIL: usize = 24;
/// Word of a slot: records of blocks that found no room.
pub const SLOT_LOST: usize = 32;
/// Word of a slot: blocks freed, where live bytes are counted.
pub const SLOT_FREES: usize = 40;
/// Word of a slot: bytes in them, as asked for.
pub const SLOT_FREED_BYTES: usize = 48;
/// Word of a slot: most live bytes of the process that this thread has observed.
pub const SLOT_PEAK: usize = 56;
/// Word of a slot: the thread that took it.
pub const SLOT_TID: usize = 64;
/// Word of a slot: records of mapped memory that found no room.
pub const SLOT_LOST_REGIONS: usize = 72;
/// Where a slot's size classes begin: for each the blocks and the bytes asked for, 16 bytes.
pub const SLOT_CLASSES: usize = 128;
/// Size classes: class 0 for 0 bytes, class n for sizes of n binary digits (2^(n-1) to 2^n - 1).
pub const CLASSES: usize = 65;
/// Where a slot's ring begins.
pub const RING_AT: usize = 4096;
/// Bytes of a ring.
pub const RING_BYTES: usize = 256 << 10;
/// Bytes in a ring for which the reader is woken: the rest of the ring holds records that arrive until it runs.
pub const WAKE_BYTES: u64 = RING_BYTES as u64 / 2;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = RING_AT + RING_BYTES;
/// Bytes of it all. The file is sparse: only what threads use takes memory.
pub const TOTAL_BYTES: usize = SLOTS_AT + SLOTS * SLOT_BYTES;

/// Bytes of a record without its stack.
pub const RECORD_BYTES: usize = 64;
/// Kind of a record: nothing, up to the end of the ring.
pub const KIND_PADDING: u32 = 0;
/// Kind of a record: a block was allocated because it is large, or every block is recorded.
pub const KIND_ALLOCATED: u32 = 1;
/// Kind of a record: a smaller block was allocated and drawn at random.
pub const KIND_SAMPLED: u32 = 2;
/// Kind of a record: a block that has a record was freed.
pub const KIND_FREED: u32 = 3;
/// Kind of a record: the program mapped memory. The word of the call holds the flags of mmap(2).
pub const KIND_MAPPED: u32 = 16;
/// Kind of a record: the program unmapped memory.
pub const KIND_UNMAPPED: u32 = 17;
/// Kind of a record: the program moved the end of its data segment upwards, by brk(2).
pub const KIND_BREAK: u32 = 18;

/// Most bytes of stack in a record: a ring has room for two of them.
pub const MAX_STACK_BYTES: usize = 65_000;

/// The function of the C library that was called, as records number it.
pub const CALL_MALLOC: u32 = 0;
/// `calloc`.
pub const CALL_CALLOC: u32 = 1;
/// `realloc`, `reallocarray`.
pub const CALL_REALLOC: u32 = 2;
/// `posix_memalign`, `aligned_alloc`, `memalign`, `valloc`, `pvalloc`.
pub const CALL_ALIGNED: u32 = 3;
/// Functions of libpmemobj.
pub const CALL_PERSISTENT: u32 = 8;
