//! Flushes and fences: what a program does so that data reach memory, as for persistent memory.
//!
//! What for: bursts show each flushed line, the store before it and the fence after it ([`walk`](self::walk)). What not: figures of the
//! whole program (`memory::flushes`), what to do about it (`findings::flushes`).
//!
//! Which instructions: `clflush`, `clflushopt` and `clwb` flush; non-temporal stores stand for a store and a flush; `sfence` and
//! `mfence` wait for both (Intel SDM vol. 2, CLWB and SFENCE). So does a locked access, which counts as a fence where there is
//! something to wait for.
//! *Redundant* is a flush of a line that the burst saw flushed, or written past the caches, and to which no store came since. *Alone*
//! is a fence that waits for one line or two, as one of many that follow each other over neighbouring lines.
//!
//! Assumptions: another thread may store to a line between two flushes and is not seen. So in a process with several threads a flush is
//! redundant only if its own thread had stored to the line in the burst: who flushes for others does not. Stores of the kernel and of
//! other processes are not seen; a burst ends at a system call. A store whose address is unknown makes all lines unknown.

mod walk;

pub(crate) use self::walk::{AfterFence, Counts, Event, OfBurst, Operation, Watcher};
