//! The life cycle of a traced program: seize, follow, stop briefly, leave.
//!
//! What for: each rule of ptrace that keeps tracing invisible to the program is implemented here, once. Signals are
//! passed on, job-control stops stay stops, new threads are followed, and leaving restores the untraced state. What
//! not: what to read while a thread is stopped (the caller's closure), and when to stop it.
//!
//! Invariants:
//! 1. No thread is left stopped: every stop that we receive is answered in the same call, and [`Tracees`] detaches on
//!    drop. When we are killed the kernel detaches for us (no PTRACE_O_EXITKILL).
//! 2. A signal that the program would have received is delivered, once, in the same order.
//! 3. Nothing here blocks without a limit.
//!
//! Assumption: all calls come from one thread; the kernel binds tracees to it.

#![forbid(unsafe_code)]

pub mod cgroup;
pub mod maps;
pub mod random;
pub mod status;

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use base::{Pid, ThreadId, Tid};
use sys::process::Waited;
use sys::trace::{self, Event, Stop, StoppedRegisters};

/// An event in the program's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// A thread (`pid` as its creator's) or a process (`pid` new) was born.
    Born {
        /// Its process.
        pid: Pid,
        /// Itself.
        tid: Tid,
    },
    /// A process executed another program; all its other threads are gone.
    Executed {
        /// The process.
        pid: Pid,
    },
    /// Job control stopped a process (reported once per thread): Ctrl-Z, or a background process at the terminal.
    Stopped {
        /// The process.
        pid: Pid,
        /// The stopping signal.
        signal: i32,
    },
    /// A thread ended; for a process's first thread with the process's status.
    Ended {
        /// Its process.
        pid: Pid,
        /// Itself.
        tid: Tid,
        /// How.
        how: Waited,
    },
}

/// Why a process cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum SeizeError {
    /// ptrace is forbidden, or somebody else (a debugger) traces it.
    #[error("ptrace of process {pid} is not permitted here ({error})")]
    Refused {
        /// The process.
        pid: Pid,
        /// The kernel's word.
        error: io::Error,
    },
    /// No such process.
    #[error("there is no process {0}")]
    Gone(Pid),
}

/// How long one thread may take to reach a stop that we asked for. It takes microseconds unless the thread is in an
/// uninterruptible wait; then we go on without it.
const STOP_PATIENCE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
struct Thread {
    pid: Pid,
    /// We asked for a stop that has not arrived yet.
    stop_asked: bool,
}

/// All threads that we trace.
#[derive(Debug, Default)]
pub struct Tracees {
    threads: BTreeMap<Tid, Thread>,
}

impl Tracees {
    /// Seizes every thread of a process without stopping any.
    pub fn seize(pid: Pid) -> Result<Tracees, SeizeError> {
        let mut tracees = Tracees::default();
        // Threads may be born while we list them; those born after their creator was seized are reported.
        for _ in 0..100 {
            let listed = threads_of(pid).map_err(|_| SeizeError::Gone(pid))?;
            let new: Vec<Tid> =
                listed.into_iter().filter(|tid| !tracees.threads.contains_key(tid)).collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                match trace::seize(tid) {
                    Ok(()) => {
                        tracees.threads.insert(tid, Thread { pid, stop_asked: false });
                    }
                    // Ended meanwhile, or seized automatically because its creator already was.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(_) if !tracees.threads.is_empty() => {}
                    // ESRCH, which has no `ErrorKind`: there is no such thread.
                    Err(error) if error.raw_os_error() == Some(3) => {}
                    Err(error) => return Err(SeizeError::Refused { pid, error }),
                }
            }
        }
        if tracees.threads.is_empty() { Err(SeizeError::Gone(pid)) } else { Ok(tracees) }
    }

    /// All threads with their processes.
    pub fn threads(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.threads.iter().map(|(tid, thread)| ThreadId::new(thread.pid, *tid))
    }

    /// Answers all pending stops, so that no thread stays stopped longer than until this call.
    pub fn settle(&mut self, news: &mut dyn FnMut(News)) {
        while let Ok(Some(event)) = trace::look_at_any() {
            self.answer(event, news);
        }
    }

    /// Stops one thread, lets `look` see it, and lets it go on. `None` when it did not stop: it ended, is stopped by
    /// job control, or waits uninterruptibly.
    pub fn while_stopped<T>(
        &mut self,
        tid: Tid,
        news: &mut dyn FnMut(News),
        look: impl FnOnce(&StoppedRegisters) -> T,
    ) -> Option<T> {
        self.stop(tid, news)?;
        let seen = trace::registers(tid).ok().map(|registers| look(&registers));
        let _ = trace::resume(tid, 0);
        seen
    }

    /// Brings a thread to our own stop.
    fn stop(&mut self, tid: Tid, news: &mut dyn FnMut(News)) -> Option<()> {
        let thread = self.threads.get_mut(&tid)?;
        if !thread.stop_asked {
            trace::interrupt(tid).ok()?;
            thread.stop_asked = true;
        }
        let asked = Instant::now();
        while asked.elapsed() < STOP_PATIENCE {
            match trace::look_at(tid).ok()? {
                Some(Event::Stopped(_, Stop::Interrupted)) => {
                    self.threads.get_mut(&tid)?.stop_asked = false;
                    return Some(());
                }
                Some(event) => {
                    let job_control = matches!(event, Event::Stopped(_, Stop::Group(_)));
                    self.answer(event, news);
                    if job_control || !self.threads.contains_key(&tid) {
                        return None;
                    }
                }
                None => std::thread::yield_now(),
            }
        }
        None
    }

    fn answer(&mut self, event: Event, news: &mut dyn FnMut(News)) {
        let (tid, stop) = match event {
            Event::Ended(tid, how) => {
                if let Some(thread) = self.threads.remove(&tid) {
                    news(News::Ended { pid: thread.pid, tid, how });
                }
                return;
            }
            Event::Stopped(tid, stop) => (tid, stop),
        };
        match stop {
            Stop::Signal(signal) => {
                // Delivered now: without the tracer it would have come at this point.
                let _ = trace::resume(tid, signal);
            }
            Stop::Group(signal) => {
                // It stays stopped, and a SIGCONT is still reported (ptrace(2), PTRACE_LISTEN).
                let _ = trace::listen(tid);
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.stop_asked = false;
                    news(News::Stopped { pid: thread.pid, signal });
                }
            }
            Stop::Interrupted => {
                self.known_or_new(tid, news);
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.stop_asked = false;
                }
                let _ = trace::resume(tid, 0);
            }
            Stop::Child(child) => {
                self.known_or_new(child, news);
                let _ = trace::resume(tid, 0);
            }
            Stop::Exec(_) => {
                self.executed(tid, news);
                let _ = trace::resume(tid, 0);
            }
            Stop::Other | Stop::SystemCall => {
                let _ = trace::resume(tid, 0);
            }
        }
    }

    fn known_or_new(&mut self, tid: Tid, news: &mut dyn FnMut(News)) {
        if self.threads.contains_key(&tid) {
            return;
        }
        // A thread that is gone already is reported as ended soon; its process then matters to nobody.
        let pid = process_of(tid).unwrap_or(Pid(tid.0));
        self.threads.insert(tid, Thread { pid, stop_asked: false });
        news(News::Born { pid, tid });
    }

    /// After an exec the thread carries its process's id, and its former companions are gone.
    fn executed(&mut self, tid: Tid, news: &mut dyn FnMut(News)) {
        let pid = Pid(tid.0);
        self.threads.retain(|other, thread| thread.pid != pid || *other == tid);
        self.threads.entry(tid).or_insert(Thread { pid, stop_asked: false });
        news(News::Executed { pid });
    }

    /// Leaves all threads running untraced.
    pub fn detach(&mut self, news: &mut dyn FnMut(News)) {
        while let Some((tid, _)) =
            self.threads.first_key_value().map(|(tid, thread)| (*tid, *thread))
        {
            self.detach_one(tid, news);
            self.threads.remove(&tid);
        }
    }

    fn detach_one(&mut self, tid: Tid, news: &mut dyn FnMut(News)) {
        if trace::interrupt(tid).is_err() {
            return;
        }
        let asked = Instant::now();
        while asked.elapsed() < STOP_PATIENCE {
            match trace::look_at(tid) {
                Ok(Some(Event::Stopped(_, Stop::Interrupted | Stop::Group(_)))) => {
                    let _ = trace::detach(tid, 0);
                    return;
                }
                Ok(Some(event)) => {
                    self.answer(event, news);
                    if !self.threads.contains_key(&tid) {
                        return;
                    }
                }
                Ok(None) => std::thread::yield_now(),
                Err(_) => return,
            }
        }
        // It waits uninterruptibly: the kernel detaches it when our thread ends.
    }
}

impl Drop for Tracees {
    fn drop(&mut self) {
        self.detach(&mut |_| {});
    }
}

/// Lists a process's threads.
pub fn threads_of(pid: Pid) -> io::Result<Vec<Tid>> {
    let mut threads = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        if let Some(tid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            threads.push(Tid(tid));
        }
    }
    Ok(threads)
}

/// The process that a thread belongs to.
#[must_use]
pub fn process_of(tid: Tid) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status::field(&status, "Tgid:")?.parse().ok().map(Pid)
}
