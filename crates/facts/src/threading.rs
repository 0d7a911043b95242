//! What threads did while they did not run: waits, and how the time of threads divides.
//!
//! What for: `collect threading`. The kernel reports every switch of a thread to and from a CPU. What is stored is
//! divided into windows, so that a program with 200,000 switches a second has no more rows than one with few: sums
//! are exact, and only the times inside a window are lost. What not: why a thread waited. The names of the stack's
//! functions show that, and analysis reads them.

use base::{Nanos, Pid, RemoteAddr, StackId, Tid};

/// How a thread left its CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitKind {
    /// It waited for something. The subsequent wait for a CPU is included: see [`ThreadTime::queued`].
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
    /// The time over which they are spread, from `time` on; for a single one its length.
    pub span: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Whether it waited for something or for a CPU.
    pub kind: WaitKind,
    /// How many waits these are; 1 or more.
    pub waits: u64,
    /// Their total time. The longest of several is shorter than twice the shortest.
    pub waited: Nanos,
    /// First argument of the system call in which the thread waited: the address of a futex, or a file descriptor.
    /// `None` without a stack. Meaningless if the thread was in a page fault.
    pub object: Option<RemoteAddr>,
    /// Innermost frame of the stack with which it waited. `None` for preemptions, and where stacks were not copied,
    /// to limit the cost.
    pub stack: Option<StackId>,
}

/// A thread that ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Waker {
    /// Its process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Where it was at that time.
    pub stack: Option<StackId>,
}

/// A wait, or several alike that were shorter than a window, that a thread of the program ended. Waits without such a
/// row were ended from outside: by a timer, a device, another program.
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
    /// The thread that ended it; `None`: an interrupt on a thread of the program, so something outside.
    pub waker: Option<Waker>,
    /// Number of waits that these represent; 1 or more.
    pub wakes: u64,
    /// Their total time.
    pub waited: Nanos,
    /// Number of `wakes` that were observed; all of them at moderate rates.
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
    /// How long it waited for a CPU since this thread's previous row with this value (the second field of
    /// `/proc/PID/task/TID/schedstat`). The kernel includes the time after a preemption, and the time between the end
    /// of a wait and running again. `None` if it was not read.
    pub queued: Option<Nanos>,
}

/// How long exactly this many threads were on CPUs at once, within a window. The rows of a window add up to its
/// length.
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

/// The name of a variable at which threads waited.
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
