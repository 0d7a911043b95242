//! In place of `exact` on aarch64, where no stack is followed inside the program: no event for every block.
//!
//! Why: the rules of `step` hold where a return address lies in front of the caller's frame. On aarch64 functions keep it
//! where they like. The collector does not ask for this mode there (`heap`), and says so.

use super::thread::Thread;

/// What exact mode remembers of the clock.
pub struct Reading;

/// Whether every block is recorded.
#[inline(always)]
pub fn is_on() -> bool {
    false
}

/// A time for an event of this thread.
pub fn stamp(_: &mut Thread) -> u64 {
    super::kernel::now()
}

/// Resets it in a process.
pub fn begin(_: *mut u8, _: usize, _: bool) {}

/// Nothing is recorded from here on.
pub fn end() {}

/// Addresses may refer to other code from now on.
pub fn new_generation() {}

/// Reports an allocated block; never called.
pub fn allocated(_: *mut Thread, _: usize, _: u64, _: u32, _: u32) -> bool {
    false
}

/// Reports a freed block; never called.
pub fn freed(_: *mut Thread, _: usize, _: u64, _: u64) {}
