//! Runs the same program several times, one run after the other, from an intermediate process.
//!
//! What for: an observer of that process and its children observes all runs alike, on one time axis. The process
//! executes no program itself, so events that begin with an execve begin with each run. What not: the number of runs.
//!
//! No further run starts after one that failed, after [`Runs::end`], or when we have died. The process ends like the
//! last run. If standard input is a file, every run reads it from the same offset.
//!
//! Assumption: between fork and execve only async-signal-safe calls are made; the signals that we took over stay
//! blocked in that process, so that they reach the program alone.

use std::io;

use base::{Nanos, Pid};

use super::{Usage, Waited, monotonic};
use crate::shared::SharedMemory;

/// Words of one run in the shared memory: its process, its start, its end, its wait status.
const RUN_WORDS: usize = 4;
const PROCESS: usize = 0;
const START: usize = 1;
const END: usize = 2;
const STATUS: usize = 3;

/// The known facts of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneRun {
    /// Its process.
    pub pid: Pid,
    /// When it was forked, CLOCK_MONOTONIC.
    pub start: Nanos,
    /// When it had ended, and how; `None` while it runs.
    pub end: Option<(Nanos, Waited)>,
}

/// The runs, as the intermediate process records them.
#[derive(Debug)]
pub struct Runs {
    /// A word that asks for the end, then those of the runs.
    memory: SharedMemory,
    wanted: usize,
}

fn word(run: usize, field: usize) -> usize {
    8 * (1 + RUN_WORDS * run + field)
}

impl Runs {
    /// For so many runs.
    ///
    /// # Errors
    /// The kernel's, where it gives no memory.
    pub fn new(wanted: u32) -> io::Result<Runs> {
        let wanted = wanted as usize;
        let memory = SharedMemory::create(c"fathom-runs", word(wanted, 0))?;
        Ok(Runs { memory, wanted })
    }

    /// How many are wanted.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// No further run is started.
    pub fn end(&self) {
        self.memory.store_u64(0, 1);
    }

    /// The runs that began so far.
    #[must_use]
    pub fn begun(&self) -> Vec<OneRun> {
        (0..self.wanted).map_while(|number| self.one(number)).collect()
    }

    fn one(&self, number: usize) -> Option<OneRun> {
        let field = |field| self.memory.load_u64(word(number, field)).filter(|value| *value > 0);
        let status = self.memory.load_u64(word(number, STATUS)).unwrap_or(0);
        Some(OneRun {
            pid: Pid(i32::try_from(field(PROCESS)?).ok()?),
            start: Nanos(field(START)?),
            end: field(END).map(|end| {
                (Nanos(end), Waited::from_status(status as libc::c_int, Usage::default()))
            }),
        })
    }

    /// Runs in the intermediate process, with `execute` in each of its children; returns the last status. `stops`:
    /// when the program is stopped, so is the intermediate process, because job control sees only that one.
    ///
    /// # Safety
    /// Only between fork and execve; `execute` must not return.
    /// Only between fork and execve; `execute` must not return.
    pub(super) unsafe fn go(
        &self,
        parent: libc::pid_t,
        stops: bool,
        execute: &dyn Fn() -> std::convert::Infallible,
        begun: &dyn Fn(),
    ) -> libc::c_int {
        // Safety: async-signal-safe calls with live arguments only.
        unsafe {
            let input = libc::lseek(libc::STDIN_FILENO, 0, libc::SEEK_CUR);
            let mut status = 0;
            for number in 0..self.wanted {
                let done = self.memory.load_u64(0) != Some(0) || libc::getppid() != parent;
                if number > 0 && (done || status != 0) {
                    break;
                }
                if number > 0 && input >= 0 {
                    libc::lseek(libc::STDIN_FILENO, input, libc::SEEK_SET);
                }
                self.memory.store_u64(word(number, START), monotonic().0);
                let pid = libc::fork();
                if pid == 0 {
                    // Written by the child: an observer that sees it execute knows that it is a run.
                    self.memory
                        .store_u64(word(number, PROCESS), libc::getpid().cast_unsigned().into());
                    execute();
                }
                if number == 0 {
                    begun();
                }
                status = if pid < 0 { 127 << 8 } else { wait(pid, stops) };
                self.memory.store_u64(word(number, STATUS), status.cast_unsigned().into());
                self.memory.store_u64(word(number, END), monotonic().0);
            }
            status
        }
    }
}

/// Waits for the end of a child.
///
/// # Safety
/// Between fork and execve; `pid` is a child's that was not waited for.
unsafe fn wait(pid: libc::pid_t, stops: bool) -> libc::c_int {
    let options = if stops { libc::WUNTRACED } else { 0 };
    let mut status = 0;
    // Safety: async-signal-safe calls with live arguments only.
    unsafe {
        loop {
            let waited = libc::waitpid(pid, &raw mut status, options);
            if waited == pid && libc::WIFSTOPPED(status) {
                libc::raise(libc::SIGSTOP);
            } else if waited == pid {
                return status;
            } else if *libc::__errno_location() != libc::EINTR {
                return 127 << 8;
            }
        }
    }
}

/// Ends the calling process as `status` tells of another.
///
/// # Safety
/// Between fork and execve.
pub(super) unsafe fn end_like(status: libc::c_int) -> ! {
    // Safety: async-signal-safe calls with live arguments only.
    unsafe {
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            // The program's own core was dumped, if one was wanted.
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::signal(signal, libc::SIG_DFL);
            let mut one: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut one);
            libc::sigaddset(&raw mut one, signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, &raw const one, std::ptr::null_mut());
            libc::raise(signal);
        }
        libc::_exit(libc::WEXITSTATUS(status))
    }
}
