//! A program that we started: its end, its signals, and the terminal that it may want to use.
//!
//! What for: when we run in the foreground of a terminal, Ctrl-C must reach us alone: the first one stops the
//! collection, not the program. So the program gets a process group of its own, and we do job control like a shell:
//! ```text
//!   the program stops because it wants the terminal   we have it: hand it over, continue the program
//!                                                     we are in the background: stop like any background job, then as above
//!   Ctrl-Z while it has the terminal                  take the terminal back, stop ourselves; when continued, hand over again
//!   Ctrl-Z while we have it                           stop the program, stop ourselves; when continued, continue it
//!   the program ends                                  take the terminal back, if the program still has it
//! ```
//! What not: starting the program (`sys::process`). Elsewhere (a background job, cron, CI, a service) the program
//! stays in our group and none of this is needed.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use base::Pid;
use facts::{ExitKind, ResourceUse};
use sys::process::{self, ProcessFd, Runs, Signal, StopFor, Terminal, Usage, Waited};

/// The terminal in whose foreground we were started.
#[derive(Debug)]
pub struct JobControl {
    terminal: Terminal,
    ours: Pid,
}

impl JobControl {
    /// Job control, if there is a terminal and we are in its foreground.
    #[must_use]
    pub fn at_terminal() -> Option<JobControl> {
        let terminal = Terminal::open()?;
        let ours = process::own_group();
        (terminal.foreground() == Some(ours)).then_some(JobControl { terminal, ours })
    }
}

/// The running child.
#[derive(Debug)]
pub struct LaunchedProgram {
    pid: Pid,
    ended: Option<(ExitKind, ResourceUse)>,
    fd: Option<ProcessFd>,
    /// Present when the program has a process group of its own.
    job: Option<JobControl>,
    /// For several runs: the child is the process that starts them; it passes no signal on.
    runs: Option<Runs>,
}

impl LaunchedProgram {
    /// Takes charge of a child that has just begun to execute; with `job`, in a group of its own.
    #[must_use]
    pub fn new(pid: Pid, job: Option<JobControl>, runs: Option<Runs>) -> LaunchedProgram {
        LaunchedProgram { pid, ended: None, fd: ProcessFd::open(pid).ok(), job, runs }
    }

    /// Its runs, where there are several.
    #[must_use]
    pub fn runs(&self) -> Option<&Runs> {
        self.runs.as_ref()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Readable when the program has ended; `None` on kernels without pidfd, where one must poll.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// How it ended, once it has.
    #[must_use]
    pub fn ended(&self) -> Option<&(ExitKind, ResourceUse)> {
        self.ended.as_ref()
    }

    /// Checks whether it ended or stopped for the terminal.
    pub fn look(&mut self) {
        if self.ended.is_some() {
            return;
        }
        match process::try_wait(self.pid) {
            Ok(waited) => self.note(waited),
            // Another waiter reaped it: it is gone, its exit code unknown.
            Err(_) => self.end(ExitKind::Unknown, &Usage::default()),
        }
    }

    /// Takes over what another waiter (the ptrace sampler) learned.
    pub fn note(&mut self, waited: Waited) {
        match waited {
            Waited::Running => {}
            Waited::Stopped(signal) => self.stopped(signal),
            Waited::Exited(code, usage) => self.end(ExitKind::Code(code), &usage),
            Waited::Killed(signal, usage) => self.end(ExitKind::Signal(signal), &usage),
        }
    }

    fn end(&mut self, exit: ExitKind, usage: &Usage) {
        self.ended = Some((exit, resource_use(usage)));
        self.take_terminal_back();
    }

    fn stopped(&mut self, signal: i32) {
        const SIGTTIN: i32 = 21;
        const SIGTTOU: i32 = 22;
        let Some(job) = &self.job else { return };
        if signal == SIGTTIN || signal == SIGTTOU {
            if job.terminal.foreground() != Some(job.ours) {
                process::stop_self(StopFor::TerminalInput);
            }
            self.hand_over_terminal();
        } else if job.terminal.foreground() == Some(self.pid) {
            self.take_terminal_back();
            process::stop_self(StopFor::TerminalStop);
            self.hand_over_terminal();
        }
    }

    /// Gives the terminal to the program, if we have it, and continues the program.
    fn hand_over_terminal(&self) {
        if let Some(job) = &self.job
            && job.terminal.foreground() == Some(job.ours)
        {
            let _ = job.terminal.give_to(self.pid);
        }
        self.signal(Signal::Continue);
    }

    fn take_terminal_back(&self) {
        if let Some(job) = &self.job
            && job.terminal.foreground() == Some(self.pid)
        {
            let _ = job.terminal.give_to(job.ours);
        }
    }

    /// Answers a signal that was sent to us: passes it on, or both obey it.
    pub fn pass_on(&mut self, signal: Signal) {
        match signal {
            Signal::TerminalStop => self.pause(),
            Signal::Child => {}
            signal => self.signal(signal),
        }
    }

    /// Ctrl-Z: both stop, and continue together.
    fn pause(&mut self) {
        self.signal(Signal::TerminalStop);
        // The stop is reported once. Taken here, it is not mistaken for one of the program's own later.
        let asked = Instant::now();
        while self.job.is_some()
            && self.ended.is_none()
            && asked.elapsed() < Duration::from_millis(100)
        {
            match process::try_wait(self.pid) {
                Ok(Waited::Running) => std::thread::sleep(Duration::from_millis(1)),
                Ok(Waited::Stopped(_)) | Err(_) => break,
                Ok(ended) => self.note(ended),
            }
        }
        process::stop_self(StopFor::TerminalStop);
        self.signal(Signal::Continue);
    }

    /// Sends a signal to the program and, where it has a group of its own, to its children.
    pub fn signal(&self, signal: Signal) {
        if self.ended.is_some() {
            return;
        }
        if let Some(runs) = &self.runs
            && matches!(
                signal,
                Signal::Interrupt
                    | Signal::Terminate
                    | Signal::HangUp
                    | Signal::Quit
                    | Signal::Kill
            )
        {
            runs.end();
        }
        let _ = match self.job {
            Some(_) => process::kill_group(self.pid, signal),
            None => process::kill(self.running(), signal),
        };
    }

    /// The process that executes the program.
    fn running(&self) -> Pid {
        let last = self.runs.as_ref().and_then(|runs| runs.begun().pop());
        last.filter(|run| run.end.is_none()).map_or(self.pid, |run| run.pid)
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
