//! perf_event_open: opening events and reading their ring buffers.
//!
//! What for: the attribute structure, the system call, the counters and the ring, behind safe types.
//! What not: what to open and why (`collect::perf`), and the meaning of the records (`collect::perf::record`).
//!
//! Source of every layout here: `include/uapi/linux/perf_event.h` and `perf_event_open(2)`.

mod attr;
mod event;
mod ring;

pub use attr::{Attr, Flag, PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE, SampleField, SoftwareEvent};
pub use event::{
    Counting, Event, FakeOpen, GroupCounts, OpenTarget, fake_open, fake_switched, open,
    open_counting_lost, open_in_group,
};
pub use ring::Ring;

use crate::arch::FIRST_ARGUMENT;
pub use crate::arch::{
    ALL_REGISTERS, GENERAL_REGISTERS, SAMPLED_REGISTERS, USER_INSTRUCTION_POINTER,
    USER_REGISTER_COUNT, USER_REGISTERS, USER_STACK_POINTER, user_registers,
};

/// How many registers a selection has in front of the one with bit `bit`.
const fn position(selection: u64, bit: u64) -> usize {
    (selection & (bit - 1)).count_ones() as usize
}

/// Where [`USER_REGISTERS`] and the first argument stand among [`ALL_REGISTERS`].
#[must_use]
pub fn positions_in_all() -> ([usize; USER_REGISTER_COUNT], usize) {
    let mut bits = (0..64).map(|bit| 1u64 << bit).filter(|bit| USER_REGISTERS & bit != 0);
    let places = std::array::from_fn(|_| position(ALL_REGISTERS, bits.next().unwrap_or(1)));
    (places, position(ALL_REGISTERS, FIRST_ARGUMENT))
}
