//! The layout of the memory in which a program's marked regions are counted.
//!
//! What for: the library inside the program (`crates/agent/regions`) writes it, `collect::marked` reads it; both take the
//! layout from here. What not: reading or writing. Assumption: both sides are of one build. The reader trusts nothing:
//! the program can write anything anywhere in it.
//!
//! ```text
//! header   4096 bytes  words below
//! names    REGIONS x NAME_BYTES: state, length of the domain, length of the name, then both
//! slots    SLOTS x SLOT_BYTES, one per thread: header and stack of open regions, ring of rows, cells
//! row      ROW_WORDS words: begin, span, region | depth << 32, tid, passes, inside, own, 0
//! cell     one per region: the batch of short passes that is not a row yet, then how many passes had each length
//! ```
//! A slot has one writer at a time. A ring that is full costs nothing: its passes stay in the batch of their cell.

/// Environment variable with the path of the library, for `fathom.h`.
pub const LIBRARY_VARIABLE: &str = "FATHOM_REGIONS";
/// Environment variable with the path of the shared memory.
pub const MEMORY_VARIABLE: &str = "FATHOM_REGIONS_MEMORY";

/// First word of the header. The last byte is the version of the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"fathomR\x01");
/// Word of the header: [`MAGIC`].
pub const HEADER_MAGIC: usize = 0;
/// Word of the header: threads that found no slot and are not counted.
pub const HEADER_REFUSED: usize = 8;
/// Word of the header: passes of this many nanoseconds or more get a row each.
pub const HEADER_LONG_FROM: usize = 16;
/// Word of the header: a batch of shorter ones becomes a row when it is this old, nanoseconds.
pub const HEADER_BATCH: usize = 24;
/// Word of the header: since when nothing is to be observed, CLOCK_MONOTONIC in nanoseconds; 0 while it is.
pub const HEADER_PAUSED: usize = 32;

/// Where the names begin.
pub const NAMES_AT: usize = 4096;
/// Most regions. The last one stands for all that found no room.
pub const REGIONS: usize = 256;
/// Bytes of a name: a word of state, a word of lengths (domain | name << 32), then the text.
pub const NAME_BYTES: usize = 256;
/// Most bytes of domain and name together; what is longer is cut off.
pub const NAME_TEXT: usize = NAME_BYTES - 16;
/// State of a name: nothing there yet; else being written, or ready.
pub const NAME_FREE: u64 = 0;
/// State of a name: a thread writes it.
pub const NAME_BUSY: u64 = 1;
/// State of a name: it does not change any more.
pub const NAME_READY: u64 = 2;

/// Where the slots begin.
pub const SLOTS_AT: usize = NAMES_AT + REGIONS * NAME_BYTES;
/// Most threads at a time.
pub const SLOTS: usize = 512;
/// Word of a slot: the thread that has it, 0 while it is free.
pub const SLOT_TID: usize = 0;
/// Word of a slot: its process, which keeps it for good: the lengths in its cells are of this process.
pub const SLOT_PID: usize = 8;
/// Word of a slot: rows ever written to the ring.
pub const SLOT_HEAD: usize = 16;
/// Word of a slot: rows ever read from it; the collector's.
pub const SLOT_TAIL: usize = 24;
/// Word of a slot: regions that the thread is in. Those beyond [`STACK`] are counted here only.
pub const SLOT_DEPTH: usize = 32;
/// Word of a slot: passes at a depth beyond [`STACK`], which are not counted.
pub const SLOT_TOO_DEEP: usize = 40;
/// Where its stack begins: per open region its number, when it began, and the time in regions within.
pub const SLOT_STACK: usize = 128;
/// Most regions within each other.
pub const STACK: usize = 64;
/// Words of an open region.
pub const OPEN_WORDS: usize = 3;
/// Where its bits begin, one per region that was passed: other cells were never touched, and reading one would bring its
/// page in.
pub const SLOT_USED: usize = SLOT_STACK + STACK * OPEN_WORDS * 8;
/// Where its ring begins.
pub const RING_AT: usize = 4096;
/// Rows of a ring.
pub const RING_ROWS: usize = 1024;
/// Words of a row.
pub const ROW_WORDS: usize = 8;
/// Where its cells begin.
pub const CELLS_AT: usize = RING_AT + RING_ROWS * ROW_WORDS * 8;
/// Bytes of a cell.
pub const CELL_BYTES: usize = 4096;
/// Word of a cell: begin of the batch.
pub const CELL_BEGIN: usize = 0;
/// Word of a cell: end of its last pass.
pub const CELL_END: usize = 8;
/// Word of a cell: passes in the batch.
pub const CELL_PASSES: usize = 16;
/// Word of a cell: time in them.
pub const CELL_INSIDE: usize = 24;
/// Word of a cell: of it not in a region within.
pub const CELL_OWN: usize = 32;
/// Word of a cell: regions around the last pass.
pub const CELL_DEPTH: usize = 40;
/// Word of a cell: the shortest pass ever, plus 1; 0 while there was none.
pub const CELL_SHORTEST: usize = 48;
/// Word of a cell: the longest pass ever.
pub const CELL_LONGEST: usize = 56;
/// Where a cell's numbers of passes by length begin.
pub const CELL_LENGTHS: usize = 128;
/// Lengths: eight per power of two, the last without an upper end.
pub const LENGTHS: usize = 496;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = CELLS_AT + REGIONS * CELL_BYTES;
/// Bytes of it all. The file is sparse: only what threads use takes memory.
pub const TOTAL_BYTES: usize = SLOTS_AT + SLOTS * SLOT_BYTES;

/// The class of a length in nanoseconds: below 8 each its own, then eight per power of two.
#[must_use]
pub const fn length_class(nanos: u64) -> usize {
    if nanos < 8 {
        return nanos as usize;
    }
    let digits = 63 - nanos.leading_zeros() as usize;
    let class = (digits - 2) * 8 + ((nanos >> (digits - 3)) & 7) as usize;
    if class < LENGTHS { class } else { LENGTHS - 1 }
}

/// The shortest length of a class, nanoseconds.
#[must_use]
pub const fn class_start(class: usize) -> u64 {
    match class {
        0..8 => class as u64,
        _ => (8 + (class as u64 & 7)) << (class / 8 - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_one_class() {
        for class in 0..LENGTHS {
            assert_eq!(length_class(class_start(class)), class);
        }
        for class in 1..LENGTHS {
            let (before, start) = (class_start(class - 1), class_start(class));
            assert_eq!(length_class(start - 1), class - 1);
            assert!(start - before <= before / 8 + 1, "a class is at most an eighth wide");
        }
        assert_eq!(length_class(u64::MAX), LENGTHS - 1);
        const { assert!(CELL_LENGTHS + LENGTHS * 8 == CELL_BYTES) };
        const { assert!(SLOT_USED + REGIONS / 8 <= RING_AT) };
    }
}
