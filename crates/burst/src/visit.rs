//! A visit to one thread: seize, stop, let go.
//!
//! What for: between bursts nothing of the program is traced, so signals, forks and debuggers find it as if we were not
//! there; a visit lasts microseconds, a burst milliseconds. What not: what is done meanwhile.
//!
//! Invariant: a visit that ends, on whatever path, has detached the thread. A thread that would not stop (it waits
//! uninterruptibly) is let go as soon as it does, see [`Stubborn`]; when we die, the kernel lets go.

use std::io;
use std::time::{Duration, Instant};

use base::{Nanos, Tid};
use sys::trace::{self, Alarm, Happened, Registers, Stop};

use crate::refused::Refused;

/// A running thread stops within microseconds.
const PATIENCE: Duration = Duration::from_millis(20);

/// A thread that stands still.
pub struct Visit<'a> {
    /// The thread.
    pub tid: Tid,
    /// To wait with.
    pub alarm: &'a Alarm,
    /// Its registers when it stopped.
    pub native: Registers,
    /// When it was asked to stop.
    pub asked: Instant,
    left: bool,
}

/// Threads that were asked to stop and have not yet.
#[derive(Default)]
pub struct Stubborn(Vec<Tid>);

impl Stubborn {
    /// Lets go of those that have stopped by now, and takes note of those that have ended.
    pub fn release(&mut self, alarm: &Alarm) {
        self.0.retain(|tid| match alarm.wait(*tid, Duration::ZERO) {
            Ok(Happened::Stopped(stop)) => {
                let_go(*tid, signal_of(stop), alarm);
                false
            }
            Ok(Happened::Nothing) => true,
            Ok(Happened::Ended) | Err(_) => {
                reap(*tid);
                false
            }
        });
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Detaches a stopped thread. One that is killed while it stands still (by an exec of another thread, say) cannot be
/// detached, and stays as a zombie that its whole process waits for, until we take note of its end.
fn let_go(tid: Tid, signal: i32, alarm: &Alarm) {
    if trace::detach(tid, signal).is_err() {
        let _ = alarm.wait(tid, PATIENCE);
        reap(tid);
    }
}

/// Takes note of the end of a thread that we traced; but a program that we started is waited for by others.
pub fn reap(tid: Tid) {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let field = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u32>().ok()
    };
    let is_process = field("Tgid:").is_some_and(|pid| pid == tid.0.unsigned_abs());
    if !(is_process && field("PPid:") == Some(std::process::id())) {
        trace::reap(tid);
    }
}

/// The signal that a stop was made for, to be delivered when we let go.
#[must_use]
pub fn signal_of(stop: Stop) -> i32 {
    match stop {
        Stop::Signal(signal) => signal,
        _ => 0,
    }
}

/// What a thread that blocks in a system call does when it is interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// Leave it alone.
    LeaveAlone,
    /// The call is known to be restarted by the kernel as if nothing had been: bring it back in front of the call.
    InFrontOfCall,
}

impl<'a> Visit<'a> {
    /// Stops a thread in its own code.
    pub fn begin(
        tid: Tid,
        alarm: &'a Alarm,
        blocked: Blocked,
        stubborn: &mut Stubborn,
    ) -> Result<Visit<'a>, Refused> {
        // Seizing waits until no thread of the process executes another program (cred_guard_mutex, ptrace_attach in
        // kernel/ptrace.c), and that waits until every other thread of it, once dead, was reaped by its tracer: we must
        // trace none meanwhile, or both wait for ever.
        if !stubborn.is_empty() {
            return Err(Refused::NotRunning);
        }
        trace::seize_alone(tid).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Refused::NotAllowed,
            _ => Refused::NotRunning,
        })?;
        let asked = Instant::now();
        let stopped = trace::interrupt(tid).and_then(|()| alarm.wait(tid, PATIENCE));
        match stopped {
            Ok(Happened::Stopped(Stop::Interrupted)) => {}
            Ok(Happened::Stopped(stop)) => {
                let_go(tid, signal_of(stop), alarm);
                return Err(Refused::NotRunning);
            }
            Ok(Happened::Ended) => {
                reap(tid);
                return Err(Refused::NotRunning);
            }
            Ok(Happened::Nothing) | Err(_) => {
                stubborn.0.push(tid);
                return Err(Refused::NotRunning);
            }
        }
        let Ok(mut native) = Registers::of(tid) else {
            let_go(tid, 0, alarm);
            return Err(Refused::NotRunning);
        };
        if native.in_system_call()
            && !(blocked == Blocked::InFrontOfCall && native.undo_system_call())
        {
            let_go(tid, 0, alarm);
            return Err(Refused::NotRunning);
        }
        Ok(Visit { tid, alarm, native, asked, left: false })
    }

    /// Why a thread with these registers cannot run translated code.
    pub fn check(&self) -> Result<(), Refused> {
        const TRAP: u64 = 1 << 8;
        const DIRECTION: u64 = 1 << 10;
        if !self.native.is_64_bit() {
            return Err(Refused::NotLongMode);
        }
        if self.native.gs_base().0 != 0 || self.native.has_gs_selector() {
            return Err(Refused::GsInUse);
        }
        if self.native.flags() & (TRAP | DIRECTION) != 0 {
            return Err(Refused::UnusualFlags);
        }
        Ok(())
    }

    /// Lets the thread go on in its native state, with a signal that it was stopped for.
    pub fn leave(mut self, signal: i32) -> Nanos {
        self.left = true;
        let _ = self.native.set(self.tid);
        let_go(self.tid, signal, self.alarm);
        elapsed(self.asked)
    }

    /// The thread is gone.
    pub fn forget(mut self) {
        self.left = true;
        reap(self.tid);
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if !self.left {
            let _ = self.native.set(self.tid);
            let_go(self.tid, 0, self.alarm);
        }
    }
}

/// Time since a moment.
#[must_use]
pub fn elapsed(since: Instant) -> Nanos {
    Nanos(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
