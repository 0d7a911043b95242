//! The heap of a running process where it cannot be recorded: in place of `heap::attach` on architectures on which Fathom
//! brings nothing into running processes.
//!
//! What for: the same interface, of which nothing but the reason can ever exist. What not: programs that Fathom starts;
//! their heap is recorded everywhere.

use std::convert::Infallible;

use base::{Nanos, Pid};
use sys::shared::SharedMemory;

use super::HeapOptions;

/// Why the heap of a process is not recorded.
#[derive(Debug, thiserror::Error)]
pub enum NoHeap {
    /// Nothing brings the library into a running process here.
    #[error(
        "unavailable on aarch64: the library that counts blocks is brought into running processes on x86-64 only; start the program with fathom"
    )]
    Architecture,
    /// The shared memory cannot be read here.
    #[error("the shared memory cannot be read: {0}")]
    Memory(#[from] std::io::Error),
}

/// A process with the library in it.
pub struct Attached(Infallible);

impl Attached {
    /// Says why it cannot be brought.
    ///
    /// # Errors
    /// Always.
    pub fn bring(_: Pid, _: &HeapOptions, _: usize) -> Result<(Attached, SharedMemory), NoHeap> {
        Err(NoHeap::Architecture)
    }

    /// Looks for new files.
    pub fn look(&mut self, _: Nanos) {
        match self.0 {}
    }

    /// Leads calls back.
    pub fn put_back(&self, _: impl Iterator<Item = Pid>) {
        match self.0 {}
    }

    /// Remarks.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        match self.0 {}
    }
}
