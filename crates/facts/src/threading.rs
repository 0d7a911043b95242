//! What threads did when they did not run: waits, and how the time of threads divides.
//!
//! What for: `collect threading`. The kernel announces every switch of a thread to and from a CPU; what is stored is cut
//! into windows, so that a program that switches 200,000 times a second leaves no more rows than one that hardly does:
//! sums are exact, only the times inside of a window are given up.
//! What not: why a thread waited. That is in the names of the stack's functions, which analysis reads.

use base::{Nanos, Pid, RemoteAddr, StackId, Tid};

/// How a thread came off its CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitKind {
    /// It waited for something. What it waits for the CPU after that is in here too: see [`ThreadTime::queued`].
    Blocked,
    /// It could have run: the scheduler took it off its CPU (`PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`, Linux 4.17), or had
    /// not put it on one since it was born.
    Preempted,
}

/// One wait of a thread, or several alike that were shorter than a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// When the wait began; of several, the beginning of the window in which they ended.
    pub time: Nanos,
    /// The time over which they are spread, from `time` on: of a single one its length.
    pub span: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Whether it waited for something or for a CPU.
    pub kind: WaitKind,
    /// How many waits these are; 1 or more.
    pub waits: u64,
    /// How long all of them took together. Of several, the longest is shorter than twice the shortest.
    pub waited: Nanos,
    /// First argument of the system call in which the thread waited: the address of a futex, or a file descriptor.
    /// `None` without a stack. It means nothing where the thread served a page fault.
    pub object: Option<RemoteAddr>,
    /// Innermost frame of the stack with which it waited. `None` of preemptions, and where stacks were not copied, to keep
    /// the cost down.
    pub stack: Option<StackId>,
}

/// A thread that ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Waker {
    /// Its process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Where it was as it did.
    pub stack: Option<StackId>,
}

/// A thread of the program ended a wait, or several alike that were shorter than a window. Waits without such a row were
/// ended by others: a timer, a device, another program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wake {
    /// As of [`Wait::time`].
    pub time: Nanos,
    /// As of [`Wait::span`].
    pub span: Nanos,
    /// The process that waited.
    pub pid: Pid,
    /// The thread that waited.
    pub tid: Tid,
    /// As of [`Wait::object`].
    pub object: Option<RemoteAddr>,
    /// As of [`Wait::stack`].
    pub stack: Option<StackId>,
    /// Who ended it; `None`: an interrupt that came upon a thread of the program, so others.
    pub waker: Option<Waker>,
    /// How many waits these stand for; 1 or more.
    pub wakes: u64,
    /// How long all of them took together.
    pub waited: Nanos,
    /// How many of `wakes` were looked at; all at moderate rates.
    pub seen: u64,
}

/// How long a thread ran within a window of time. There is none for windows in which it did not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadTime {
    /// Beginning of the window.
    pub time: Nanos,
    /// Length of the window.
    pub span: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// How long it was on a CPU; at most `span`.
    pub running: Nanos,
    /// How long it waited for a CPU since the row of this thread before that has this (the second field of
    /// `/proc/PID/task/TID/schedstat`). The kernel counts here the time after a preemption and the time between the end of
    /// a wait and its running again. `None` where it was not read.
    pub queued: Option<Nanos>,
}

/// How long exactly so many threads were on CPUs at once, within a window of time. The rows of a window add up to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Concurrency {
    /// Beginning of the window.
    pub time: Nanos,
    /// Length of the window.
    pub span: Nanos,
    /// How many threads of the program ran at once.
    pub running: u32,
    /// For how long.
    pub duration: Nanos,
}

/// The name of a variable that threads waited at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitObject {
    /// The process in which the address holds.
    pub pid: Pid,
    /// The address, as in [`Wait::object`].
    pub address: RemoteAddr,
    /// The variable's name, with an offset (`table+0x28`) when the address lies inside of it.
    pub name: String,
    /// Path of the program or library that has the variable.
    pub module: String,
}
