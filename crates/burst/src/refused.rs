//! Why a thread was not traced: one word per reason, counted in the result.
//!
//! What for: the result states which share of the running time was traceable, and the reasons for the rest. What not: why
//! a single instruction cannot be copied (`x86::Refusal`), which is one of the reasons.

use x86::Refusal;

/// Why a burst did not begin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Refused {
    /// The code is not in a file, or its memory is writable: it may be made while the program runs.
    JitCode,
    /// The program uses gs itself.
    GsInUse,
    /// Single-stepped, or strings run downwards.
    UnusualFlags,
    /// Not 64-bit code.
    NotLongMode,
    /// A shadow stack (Intel CET) watches returns.
    ShadowStack,
    /// The program filters its own system calls.
    SystemCallFilter,
    /// The kernel would not let the program map our code.
    NoRoom,
    /// It runs in its creator's memory until it executes another program (vfork).
    BorrowedMemory,
    /// It stopped running before it could be stopped, or was in a system call.
    NotRunning,
    /// It waits so often that stopping it could cut a wait short.
    WaitsOften,
    /// Another tracer (a debugger) is attached, or ptrace is not allowed.
    NotAllowed,
    /// A restartable sequence: kernel and program share assumptions on its addresses.
    RestartableSequence,
    /// An instruction that runs natively only.
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
