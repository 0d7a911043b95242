//! Loops in the branch stacks that the hardware recorded (LBR of Intel and AMD, BRBE of Arm).
//!
//! What for: how often each branch went back, and how often a run of its loop began, as sums over all stacks. What not: the stacks
//! themselves; how a run is recognised (`import`).

use base::{Pid, StackId};

/// A branch that goes back, in all branch stacks of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BranchLoop {
    /// The process.
    pub pid: Pid,
    /// A frame at the branch.
    pub branch: Option<StackId>,
    /// A frame at its target, where the loop begins.
    pub head: Option<StackId>,
    /// How often stacks have it.
    pub taken: u64,
    /// How many stacks have it.
    pub stacks: u64,
    /// Number of `taken` before which the stack shows what ran.
    pub decided: u64,
    /// Number of these before which the thread was outside the loop.
    pub starts: u64,
    /// Sum over stacks of the square of `decided`.
    pub decided_squares: u64,
    /// Sum over stacks of the product of `decided` and `starts`.
    pub products: u64,
    /// Sum over stacks of the square of `starts`.
    pub starts_squares: u64,
}
