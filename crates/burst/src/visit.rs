//! A visit to one thread: seize, stop, release.
//!
//! What for: between bursts no thread is traced, so signals, forks and debuggers find the program as without us. A
//! visit lasts microseconds, a burst milliseconds. What not: the work during a visit.
//!
//! Invariant: a visit that ends, on whatever path, has detached the thread. The exceptions are a thread that does not
//! stop (it waits uninterruptibly) and one that was killed and has not ended: [`Watch`] checks these again until they
//! are detached. When we die, the kernel releases them.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::{Duration, Instant};

use base::{Nanos, Tid};
use sys::trace::{self, Alarm, Happened, Registers, Stop};
use tracee::status::{field, has_ended};

use crate::picker::Clock;
use crate::refused::Refused;

/// A running thread stops within microseconds.
const PATIENCE: Duration = Duration::from_millis(20);

/// A thread stops within this time, and we learn of it, if both have a CPU. One that takes longer is in the kernel,
/// where it finishes its own work before it stops: filling a huge page takes milliseconds in a virtual machine.
const SOON: Duration = Duration::from_micros(200);

/// A stopped thread.
pub struct Visit<'a> {
    /// The thread.
    pub tid: Tid,
    /// Waits for its stops.
    pub watch: &'a Watch,
    /// Its registers when it stopped.
    pub native: Registers,
    /// If `native` is in front of a system call: the registers inside that call.
    in_call: Option<Registers>,
    /// When it was asked to stop.
    pub asked: Instant,
    /// The earliest time at which it may have stopped.
    pub since: Instant,
    /// Its CPU time when it stopped, where that was read.
    pub used: Option<Nanos>,
    left: bool,
}

/// Waits for stops, and keeps the threads that are still waited for: asked to stop, or killed, and not there yet.
pub struct Watch {
    /// Interrupts our waiting.
    pub alarm: Alarm,
    /// The clock of our own thread.
    clock: Option<Clock>,
    late: RefCell<Vec<Tid>>,
    abandoned: Cell<bool>,
}

impl Watch {
    /// For the calling thread.
    pub fn new() -> io::Result<Watch> {
        let (late, abandoned) = (RefCell::default(), Cell::default());
        Ok(Watch { alarm: Alarm::new()?, clock: Clock::own(), late, abandoned })
    }

    /// Lets go of those that have stopped by now, and takes note of those that have ended.
    pub fn release(&self) {
        for tid in self.late.take() {
            match self.alarm.wait(tid, Duration::ZERO) {
                Ok(Happened::Stopped(stop)) => self.let_go(tid, signal_of(stop)),
                // After an exec of another thread the number may belong to a thread that is not traced.
                Ok(Happened::Nothing) if trace::interrupt(tid).is_ok() => {
                    self.late.borrow_mut().push(tid);
                }
                Ok(Happened::Nothing | Happened::Ended) | Err(_) => reap(tid),
            }
        }
    }

    /// How long we have waited for a CPU so far.
    fn waited(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.clock.as_ref()?.read()?.waited.0))
    }

    /// Whether a thread is waited for while it is still traced.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.late.borrow().is_empty()
    }

    /// Whether a thread was given up: only the end of the tracer releases it.
    #[must_use]
    pub fn has_abandoned(&self) -> bool {
        self.abandoned.get()
    }

    /// Detaches a stopped thread. A thread that is killed while it is stopped (by an exec of another thread, for
    /// example) cannot be detached.
    fn let_go(&self, tid: Tid, signal: i32) {
        // The thread may have begun to wait just as it was asked to stop, or have stopped late.
        if let Ok(mut registers) = Registers::of(tid)
            && registers.keep_waiting()
        {
            let _ = registers.set(tid);
        }
        self.detach(tid, signal);
    }

    fn detach(&self, tid: Tid, signal: i32) {
        if trace::detach(tid, signal).is_err() {
            self.bury(tid);
        }
    }

    /// Waits for the end of a dying thread. Until then its whole process waits for us, and so does whoever waits for
    /// the process. That takes seconds while the process writes a core file.
    fn bury(&self, tid: Tid) {
        match self.alarm.wait(tid, PATIENCE) {
            Ok(Happened::Nothing) => self.late.borrow_mut().push(tid),
            _ => reap(tid),
        }
    }
}

/// Reaps a thread that we traced, but not a program that we started: others wait for that.
pub fn reap(tid: Tid) {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let number = |name| field(&status, name)?.parse::<u32>().ok();
    let is_process = number("Tgid:") == Some(tid.0.unsigned_abs());
    if !(is_process && number("PPid:") == Some(std::process::id())) {
        trace::reap(tid);
    }
}

/// The signal that caused a stop, to be delivered on release.
#[must_use]
pub fn signal_of(stop: Stop) -> i32 {
    match stop {
        Stop::Signal(signal) => signal,
        _ => 0,
    }
}

/// What to do with a thread that blocks in a system call when it is interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// Leave it alone.
    LeaveAlone,
    /// The kernel is known to restart the call unchanged: move the thread to in front of the call.
    InFrontOfCall,
}

impl<'a> Visit<'a> {
    /// Stops a thread in its own code.
    pub fn begin(tid: Tid, watch: &'a Watch, blocked: Blocked) -> Result<Visit<'a>, Refused> {
        // Seizing waits until no thread of the process executes another program (cred_guard_mutex, ptrace_attach in
        // kernel/ptrace.c). That execution waits until the tracer of every other thread of the process has reaped it.
        // So we must trace none meanwhile, or both wait without end.
        if watch.is_waiting() {
            return Err(Refused::NotRunning);
        }
        trace::seize_alone(tid).map_err(|error| match error.kind() {
            // The kernel gives this error also for a thread that is about to end (ptrace_attach in kernel/ptrace.c).
            io::ErrorKind::PermissionDenied if !has_ended(tid) => Refused::NotAllowed,
            _ => Refused::NotRunning,
        })?;
        let waited_before = watch.waited();
        let asked = Instant::now();
        let stopped = trace::interrupt(tid).and_then(|()| watch.alarm.wait(tid, PATIENCE));
        let now = Instant::now();
        let late = || Some(watch.waited()?.saturating_sub(waited_before?));
        // Mostly there is nothing to subtract; the thread stands still meanwhile.
        let is_soon = now.duration_since(asked) <= SOON;
        let since = if is_soon { asked } else { stands_since(asked, now, late()) };
        match stopped {
            Ok(Happened::Stopped(Stop::Interrupted)) => {}
            Ok(Happened::Stopped(stop)) => {
                watch.let_go(tid, signal_of(stop));
                return Err(Refused::NotRunning);
            }
            Ok(Happened::Ended) => {
                reap(tid);
                return Err(Refused::NotRunning);
            }
            Ok(Happened::Nothing) | Err(_) => {
                watch.late.borrow_mut().push(tid);
                return Err(Refused::NotRunning);
            }
        }
        let Ok(mut native) = Registers::of(tid) else {
            watch.let_go(tid, 0);
            return Err(Refused::NotRunning);
        };
        // At once: if we died now, the call would be cut short.
        if blocked == Blocked::InFrontOfCall && native.keep_waiting() && native.set(tid).is_err() {
            watch.let_go(tid, 0);
            return Err(Refused::NotRunning);
        }
        let in_call = native.in_system_call().then_some(native);
        if in_call.is_some() && !(blocked == Blocked::InFrontOfCall && native.undo_system_call()) {
            watch.let_go(tid, 0);
            return Err(Refused::NotRunning);
        }
        Ok(Visit { tid, watch, native, in_call, asked, since, used: None, left: false })
    }

    /// Why a thread with these registers cannot run translated code.
    pub fn check_registers(&self) -> Result<(), Refused> {
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

    /// Why a thread in this state cannot run translated code or make calls for us.
    pub fn check(&self) -> Result<(), Refused> {
        self.check_registers()?;
        // Such a thread sees system calls before a tracer does: the program would get ours as signals.
        if trace::dispatches_system_calls(self.tid) {
            return Err(Refused::SystemCallFilter);
        }
        // When the thread continues, the kernel checks its address. It would find it outside the sequence and not
        // restart the sequence.
        if trace::in_restartable_sequence(self.tid, self.native.instruction_pointer()) {
            return Err(Refused::RestartableSequence);
        }
        Ok(())
    }

    /// Lets the thread continue in its native state, with the signal that stopped it.
    pub fn leave(mut self, signal: i32) -> Nanos {
        self.left = true;
        match self.in_call {
            Some(in_call) if signal == 0 => self.leave_in_call(&in_call),
            // With a signal the kernel decides, as always, whether the call continues or ends with EINTR.
            in_call => {
                let native = in_call.unwrap_or(self.native);
                match native.set(self.tid) {
                    Ok(()) if !native.in_system_call() => self.watch.detach(self.tid, signal),
                    _ => self.watch.let_go(self.tid, signal),
                }
            }
        }
        elapsed(self.since)
    }

    /// Makes the kernel decide whether the call continues or ends with EINTR, as it does without a tracer: a signal
    /// may have come that was not delivered yet. The kernel decides on its way out of a stop for signals (get_signal
    /// in kernel/signal.c, then arch_do_signal_or_restart), so the thread stops once more. We request that stop
    /// before we set the registers: if we die in between, the kernel still gets to that point.
    fn leave_in_call(&self, in_call: &Registers) {
        let (tid, alarm) = (self.tid, &self.watch.alarm);
        let stopped = trace::interrupt(tid)
            .and_then(|()| in_call.set(tid))
            .and_then(|()| trace::resume(tid, 0))
            .and_then(|()| alarm.wait(tid, PATIENCE));
        match stopped {
            Ok(Happened::Stopped(stop)) => self.watch.let_go(tid, signal_of(stop)),
            Ok(Happened::Ended) => reap(tid),
            Ok(Happened::Nothing) => self.watch.late.borrow_mut().push(tid),
            Err(_) => self.watch.let_go(tid, 0),
        }
    }

    /// The thread is gone, or will be at once.
    pub fn forget(mut self) {
        self.left = true;
        self.watch.bury(self.tid);
    }

    /// The thread does not stop. It continues by itself as soon as it has no tracer, so the tracer must end.
    pub fn abandon(mut self) {
        self.left = true;
        self.watch.abandoned.set(true);
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if !self.left {
            let _ = self.native.set(self.tid);
            self.watch.let_go(self.tid, 0);
        }
    }
}

/// The earliest time at which a thread may have stopped, when it was asked to stop at `asked` and is seen to be
/// stopped `now`. Of our wait, that is the part in which we waited for a CPU ourselves, plus [`SOON`]. All of it
/// where `late` is unknown.
fn stands_since(asked: Instant, now: Instant, late: Option<Duration>) -> Instant {
    let since = late.and_then(|late| now.checked_sub(late + SOON));
    since.map_or(asked, |since| since.max(asked))
}

/// Time since a moment.
#[must_use]
pub fn elapsed(since: Instant) -> Nanos {
    Nanos(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_does_before_it_stops_is_its_own() {
        let asked = Instant::now();
        let stood = |micros, late: Option<u64>| {
            let now = asked + Duration::from_micros(micros);
            (now - stands_since(asked, now, late.map(Duration::from_micros))).as_micros()
        };
        assert_eq!(stood(80, Some(0)), 80);
        assert_eq!(stood(3000, Some(0)), 200, "it was in the kernel");
        assert_eq!(stood(3000, Some(1000)), 1200, "we had no CPU for a while");
        assert_eq!(stood(3000, Some(9000)), 3000);
        assert_eq!(stood(3000, None), 3000);
    }
}
