//! ptrace(2) and reading another process's memory.
//!
//! What for: the requests that a tracer needs, typed, so that `tracee` holds only life-cycle rules.
//! What not: those rules. Every call here acts on a thread that is seized by the *calling thread*; the kernel refuses
//! others with ESRCH.

mod kept;
mod memory;
// Moving threads to other code is for bursts.
#[cfg(target_arch = "x86_64")]
mod registers;
mod wait;

use std::io;

use base::{Nanos, Pid, RemoteAddr, Tid};

pub use crate::arch::{StoppedRegisters, stopped_registers as registers};
pub use kept::{dispatches_system_calls, in_restartable_sequence};
pub use memory::{overwrite, read_pieces};
#[cfg(target_arch = "x86_64")]
pub use registers::{GENERAL_REGISTERS, Registers};
pub use wait::{Alarm, Happened, reap};

use crate::process::{Usage, Waited};

/// Why a traced thread stopped (waitpid status, `ptrace(2)` "Stopped states").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// A signal is about to be delivered.
    Signal(i32),
    /// Job control stopped the whole process (PTRACE_EVENT_STOP with a stopping signal).
    Group(i32),
    /// Our interrupt, or a new thread's first stop (PTRACE_EVENT_STOP with SIGTRAP).
    Interrupted,
    /// It created a thread or process with this id.
    Child(Tid),
    /// It executed another program; the thread had this id before.
    Exec(Tid),
    /// It is about to make a system call, or has made one (only after [`resume_to_system_call`] or
    /// [`resume_and_catch_system_call`]).
    SystemCall,
    /// Anything else: continue it.
    Other,
}

/// What happened to some traced thread or child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// It stands still and waits for us.
    Stopped(Tid, Stop),
    /// It is gone.
    Ended(Tid, Waited),
}

/// Seizes a thread without stopping it; its later threads, children and exec are reported. Without PTRACE_O_EXITKILL,
/// so that the kernel lets the program continue when we die.
pub fn seize(tid: Tid) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC;
    request(libc::PTRACE_SEIZE, tid, 0, options as usize)
}

/// Asks a running thread to stop soon (PTRACE_EVENT_STOP).
pub fn interrupt(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets a stopped thread go on, delivering `signal` (0: none).
pub fn resume(tid: Tid, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, usize::try_from(signal).unwrap_or(0))
}

/// Leaves a thread in its group stop while staying informed (PTRACE_LISTEN).
pub fn listen(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, tid, 0, 0)
}

/// Detaches a stopped thread, delivering `signal` (0: none).
pub fn detach(tid: Tid, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, usize::try_from(signal).unwrap_or(0))
}

/// Seizes one thread alone, without stopping it: neither its children nor its exec are followed. Our death releases
/// it.
pub fn seize_alone(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, libc::PTRACE_O_TRACESYSGOOD as usize)
}

/// Lets a stopped thread continue until the entry or exit of its next system call, delivering `signal` (0: none).
pub fn resume_to_system_call(tid: Tid, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, 0, usize::try_from(signal).unwrap_or(0))
}

/// Lets a stopped thread continue until the entry of its next system call, which is not executed (PTRACE_SYSEMU).
pub fn resume_and_catch_system_call(tid: Tid) -> io::Result<()> {
    const PTRACE_SYSEMU: libc::c_uint = 31; // arch/x86/include/uapi/asm/ptrace-abi.h
    request(PTRACE_SYSEMU, tid, 0, 0)
}

fn request(request: libc::c_uint, tid: Tid, address: usize, data: usize) -> io::Result<()> {
    // Safety: none of the requests that reach this function takes a pointer into our memory.
    if unsafe { libc::ptrace(request, tid.0, address, data) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The next event of any child or traced thread, if there is one. Never blocks: a thread-group leader that ended
/// before its threads reports nothing, and waiting for it would hang.
pub fn look_at_any() -> io::Result<Option<Event>> {
    look(-1)
}

/// The same for one thread.
pub fn look_at(tid: Tid) -> io::Result<Option<Event>> {
    look(tid.0)
}

fn look(target: i32) -> io::Result<Option<Event>> {
    let flags = libc::__WALL | libc::WNOHANG;
    let mut status = 0;
    // Safety: plain data, all zeroes is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let got = loop {
        // Safety: live out-pointers.
        let got = unsafe { libc::wait4(target, &raw mut status, flags, &raw mut usage) };
        let error = io::Error::last_os_error();
        if got >= 0 {
            break got;
        }
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Ok(None),
            _ => return Err(error),
        }
    };
    if got == 0 {
        return Ok(None);
    }
    let tid = Tid(got);
    Ok(Some(if libc::WIFSTOPPED(status) {
        Event::Stopped(tid, stop_reason(tid, status))
    } else {
        Event::Ended(tid, Waited::from_status(status, Usage::from_kernel(&usage)))
    }))
}

fn stop_reason(tid: Tid, status: libc::c_int) -> Stop {
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        // PTRACE_O_TRACESYSGOOD
        0 if signal == libc::SIGTRAP | 0x80 => Stop::SystemCall,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Stop::Interrupted,
        libc::PTRACE_EVENT_STOP => Stop::Group(signal),
        libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
            message(tid).map_or(Stop::Other, Stop::Child)
        }
        libc::PTRACE_EVENT_EXEC => message(tid).map_or(Stop::Other, Stop::Exec),
        _ => Stop::Other,
    }
}

fn message(tid: Tid) -> Option<Tid> {
    let mut value: libc::c_ulong = 0;
    // Safety: the kernel writes one unsigned long to a live one.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid.0, 0, &raw mut value) };
    if result < 0 { None } else { i32::try_from(value).ok().map(Tid) }
}

/// Copies memory of another process; returns how much could be read from `address` on (0 when nothing is mapped
/// there).
pub fn read_memory(pid: Pid, address: RemoteAddr, into: &mut [u8]) -> usize {
    let Ok(remote) = usize::try_from(address.0) else { return 0 };
    // The kernel stops at the first page that it cannot read, and counts whole elements: one per page.
    let page = crate::process::page_size();
    let mut pieces = Vec::new();
    let mut done = 0;
    while done < into.len() {
        let Some(at) = remote.checked_add(done) else { break };
        let length = (page - at % page).min(into.len() - done);
        pieces.push(libc::iovec { iov_base: at as *mut libc::c_void, iov_len: length });
        done += length;
    }
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: done };
    // Safety: the local vector covers `into`, exclusively borrowed; the remote ones are only read by the kernel, in
    // the other process.
    let got = unsafe {
        libc::process_vm_readv(
            pid.0,
            &raw const local,
            1,
            pieces.as_ptr(),
            pieces.len() as libc::c_ulong,
            0,
        )
    };
    usize::try_from(got).unwrap_or(0)
}

/// Replaces the address in a pending SIGFPE or SIGILL by that of the native instruction (`si_addr`, see
/// sigaction(2)).
pub fn set_faulting_instruction(tid: Tid, address: RemoteAddr) -> io::Result<()> {
    // Safety: plain data, all zeroes is valid.
    let mut information: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // Safety: the kernel fills a live structure of exactly this type.
    if unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tid.0, 0, &raw mut information) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // Only what the processor raised carries an address; what somebody sent carries its sender (SI_FROMUSER: <= 0).
    if information.si_code <= 0 {
        return Ok(());
    }
    // Safety: on 64-bit Linux `si_addr` is the pointer at offset 16 of the 128-byte structure
    // (include/uapi/asm-generic/siginfo.h), well within it and aligned.
    unsafe { (&raw mut information).cast::<u64>().add(2).write(address.0) };
    // Safety: the kernel reads a live structure of exactly this type.
    if unsafe { libc::ptrace(libc::PTRACE_SETSIGINFO, tid.0, 0, &raw const information) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The address of the fault that stopped a thread by a signal: `None` where somebody sent the signal.
#[must_use]
pub fn fault_address(tid: Tid) -> Option<RemoteAddr> {
    // Safety: plain data, all zeroes is valid.
    let mut information: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // Safety: the kernel fills a live structure of exactly this type.
    let got = unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tid.0, 0, &raw mut information) };
    // As above; a fault in an address that is not canonical has none (SI_KERNEL), and says 0.
    // Safety: every form of the structure may be read as bytes; `si_addr` is valid for what the processor raised.
    (got >= 0 && information.si_code > 0)
        .then(|| RemoteAddr(unsafe { information.si_addr() } as u64))
}

/// CPU time of one thread as the scheduler keeps it: `/proc/PID/task/TID/schedstat`, first field.
#[must_use]
pub fn scheduled_time(pid: Pid, tid: Tid) -> Option<Nanos> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok().map(Nanos)
}
