//! Why a thread was not traced: one word per reason, counted in the result.
//!
//! What for: the result states the share of the running time that was traceable, and the reasons for the rest. What
//! not: why a single instruction cannot be copied (`x86::Refusal`); that is one of the reasons.

use x86::Refusal;

/// Why a burst did not begin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Refused {
    /// The code is not in a file, or its memory is writable: it may be generated while the program runs. Or there are several
    /// threads, and nothing tells whether it was replaced (`witness`).
    JitCode,
    /// The program uses the gs segment, which translated code needs.
    GsInUse,
    /// The trap flag or the direction flag is set.
    UnusualFlags,
    /// Not 64-bit code.
    NotLongMode,
    /// The CPU checks returns against a shadow stack (Intel CET), which translated returns would violate.
    ShadowStack,
    /// The program filters its own system calls (seccomp).
    SystemCallFilter,
    /// The kernel did not let the program map our code, or the program's limit of address space leaves little room for it.
    NoRoom,
    /// The process runs in its creator's memory until it executes another program (vfork).
    BorrowedMemory,
    /// The thread stopped running before we stopped it, or was in a system call.
    NotRunning,
    /// The thread waits so often that a stop could cut a wait short.
    WaitsOften,
    /// Another tracer (a debugger) is attached, or ptrace is not allowed.
    NotAllowed,
    /// The thread is in a restartable sequence (rseq): the kernel checks its instruction pointer.
    RestartableSequence,
    /// An instruction that cannot be copied.
    Instruction(Refusal),
}

impl Refused {
    /// The word for the result.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Refused::JitCode => "jit code",
            Refused::GsInUse => "gs in use",
            Refused::UnusualFlags => "unusual flags",
            Refused::NotLongMode => "not 64-bit code",
            Refused::ShadowStack => "shadow stack",
            Refused::SystemCallFilter => "system call filter",
            Refused::NoRoom => "no room for code",
            Refused::BorrowedMemory => "borrowed memory",
            Refused::NotRunning => "not running",
            Refused::WaitsOften => "waits often",
            Refused::NotAllowed => "not allowed",
            Refused::RestartableSequence => "restartable sequence",
            Refused::Instruction(Refusal::SystemCall) => "system call",
            Refused::Instruction(_) => "instruction",
        }
    }
}
