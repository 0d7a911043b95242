//! A program that we started: its end, its signals, and the terminal that it may want to read.
//!
//! Ctrl-C must reach us alone (the first one stops the collection, not the program), so the program gets a process
//! group of its own. A background group that reads the terminal is stopped by SIGTTIN (or SIGTTOU); then we hand it
//! the terminal as a shell would, and from then on Ctrl-C goes to the program, which is what its user expects.

use std::os::fd::{AsFd, BorrowedFd};

use base::Pid;
use facts::{ExitKind, ResourceUse};
use sys::process::{self, ProcessFd, Signal, Usage, Waited};

/// The running child.
#[derive(Debug)]
pub struct LaunchedProgram {
    pid: Pid,
    ended: Option<(ExitKind, ResourceUse)>,
    fd: Option<ProcessFd>,
    /// Our own group, when the terminal was ours to give.
    terminal_owner: Option<Pid>,
    terminal_given: bool,
}

impl LaunchedProgram {
    /// Takes charge of a child that has just begun to execute.
    pub fn new(pid: Pid) -> LaunchedProgram {
        LaunchedProgram {
            pid,
            ended: None,
            fd: ProcessFd::open(pid).ok(),
            terminal_owner: process::foreground_group(),
            terminal_given: false,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Readable when it has ended; `None` on kernels without pidfd, where one must look now and then.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// How it ended, once it has.
    #[must_use]
    pub fn ended(&self) -> Option<&(ExitKind, ResourceUse)> {
        self.ended.as_ref()
    }

    /// Looks whether it ended or stopped for the terminal.
    pub fn look(&mut self) {
        if self.ended.is_some() {
            return;
        }
        match process::try_wait(self.pid) {
            Ok(waited) => self.note(waited),
            // Somebody else waited for it: it is gone, its code unknown.
            Err(_) => {
                self.ended = Some((ExitKind::Unknown, ResourceUse::default()));
                self.take_terminal_back();
            }
        }
    }

    /// Takes over what another waiter (the ptrace sampler) learned.
    pub fn note(&mut self, waited: Waited) {
        match waited {
            Waited::Running => {}
            Waited::Stopped(signal) => self.stopped(signal),
            Waited::Exited(code, usage) => {
                self.ended = Some((ExitKind::Code(code), resource_use(&usage)))
            }
            Waited::Killed(signal, usage) => {
                self.ended = Some((ExitKind::Signal(signal), resource_use(&usage)))
            }
        }
        if self.ended.is_some() {
            self.take_terminal_back();
        }
    }

    fn stopped(&mut self, signal: i32) {
        const SIGTTIN: i32 = 21;
        const SIGTTOU: i32 = 22;
        let wants_terminal = signal == SIGTTIN || signal == SIGTTOU;
        if wants_terminal
            && self.terminal_owner.is_some()
            && process::give_terminal_to(self.pid).is_ok()
        {
            self.terminal_given = true;
            let _ = process::kill_group(self.pid, Signal::Continue);
        }
    }

    fn take_terminal_back(&mut self) {
        if let (true, Some(owner)) = (self.terminal_given, self.terminal_owner) {
            let _ = process::give_terminal_to(owner);
            self.terminal_given = false;
        }
    }

    /// Sends a signal to the program and its children.
    pub fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            let _ = process::kill_group(self.pid, signal);
        }
    }
}

impl Drop for LaunchedProgram {
    fn drop(&mut self) {
        self.take_terminal_back();
    }
}

fn resource_use(usage: &Usage) -> ResourceUse {
    ResourceUse {
        user_ns: usage.user.0,
        system_ns: usage.system.0,
        minor_faults: usage.minor_faults,
        major_faults: usage.major_faults,
        peak_resident_bytes: usage.peak_resident_bytes,
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
    }
}
