//! The layout of a thread's area, as displacements from the base of gs.
//!
//! What for: translated code keeps all data that is not the program's in one area per thread, which it reaches
//! through gs (a program that uses gs itself is refused). This file is the only agreement between the code and the
//! tracer. What not: mapping the area into the program (`burst::space`).
//!
//! ```text
//! 0x000     slots (below)
//! 0x1000    counters, one u64 per block (flavour Count)
//! TABLE     65,536 addresses of table entries, by the low 16 bits of a native address
//! after it  records, from the tracer's value of the reserved register up to its value of LIMIT
//! ```

/// A displacement from the base of gs.
pub type Displacement = i32;

/// A block whose record pointer is at or above this leaves translated code. It checks once, so
/// [`MOST_WORDS`](super::MOST_WORDS) words after it must be writable. The distance to the pointer is below 2^55
/// bytes.
pub const LIMIT: Displacement = 0x00;
/// The same, negated (two's complement), for blocks that must not change the flags.
pub const NEGATIVE_LIMIT: Displacement = 0x08;
/// The native value of the reserved register while that holds the record pointer.
pub const RESERVED: Displacement = 0x10;
/// The record pointer while the reserved register holds its native value.
pub const POINTER: Displacement = 0x18;
/// First of four slots for registers that code borrows briefly.
pub const SPILL: Displacement = 0x20;
/// Native address at which the program continues after it has left through [`Common::exit`](super::Common).
pub const TARGET: Displacement = 0x40;
/// Number of the exit (u32), [`MISS`](super::MISS) for an indirect target without a block.
pub const EXIT: Displacement = 0x48;
/// Native rax, rcx, r11 during the system call of an exit.
pub const EXIT_RAX: Displacement = 0x50;
/// See [`EXIT_RAX`].
pub const EXIT_RCX: Displacement = 0x58;
/// See [`EXIT_RAX`].
pub const EXIT_R11: Displacement = 0x60;
/// Not 0: a tracer looks at [`ASKED`] all the time.
pub const HEARD: Displacement = 0xc0;
/// Native rdx while an exit asks.
pub const EXIT_RDX: Displacement = 0xd8;
/// Not 0: the thread waits at an exit for an [`ANSWER`], since the time-stamp counter had these lower 32 bits.
pub const ASKED: Displacement = 0xc8;
/// 0 until there is an answer: the address at which the thread goes on, or [`CALL`].
pub const ANSWER: Displacement = 0xd0;
/// The [`ANSWER`] that the thread shall make its call, and stop.
pub const CALL: u64 = 1;
/// A random number by which the tracer knows its area again.
pub const COOKIE: Displacement = 0x70;
/// First of the temporary values of a record that cannot be stored at once (8 values of 8 bytes).
pub const TEMPORARY: Displacement = 0x80;
/// Counter of block 0. Counters count down; a block whose counter reaches 0 leaves translated code.
pub const COUNTERS: Displacement = 0x1000;
/// Number of blocks with a counter.
pub const COUNTER_COUNT: usize = 0x7e00;
/// Addresses of table entries.
pub const TABLE: Displacement = 0x4_0000;
/// Number of entries.
pub const TABLE_ENTRIES: usize = 0x1_0000;
/// First byte after the table.
pub const TABLE_END: Displacement = TABLE + 8 * 0x1_0000;
