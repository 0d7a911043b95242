//! Waiting for one traced thread, with a deadline.
//!
//! What for: a burst waits until its thread stops or its time is over, whichever is first, without polling (which
//! would take CPU time from the program). What not: the meaning of a stop.

use std::io;
use std::sync::Once;
use std::time::Duration;

use base::Tid;

use super::{Stop, stop_reason};

/// A shorter wait sleeps: the timer and its signal cost some 10 us, and a thread that stops meanwhile is stopped no
/// longer than that.
const SHORT: Duration = Duration::from_micros(100);

/// What a thread did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// It stopped.
    Stopped(Stop),
    /// It ended; not reaped yet: see [`reap`].
    Ended,
    /// Nothing, until the deadline.
    Nothing,
}

/// A timer that interrupts blocking calls of the thread that made it.
#[derive(Debug)]
pub struct Alarm {
    timer: libc::timer_t,
}

/// A real-time signal that neither libc (the first two) nor anything else in this process uses.
fn alarm_signal() -> i32 {
    libc::SIGRTMIN() + 7
}

extern "C" fn do_nothing(_: libc::c_int) {}

impl Alarm {
    /// A timer for the calling thread, not running.
    pub fn new() -> io::Result<Alarm> {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| {
            // Safety: plain data, all zeroes is valid; without SA_RESTART blocking calls return EINTR.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = do_nothing as extern "C" fn(libc::c_int) as usize;
            // Safety: a live structure and a handler that does nothing, which any moment allows.
            unsafe { libc::sigaction(alarm_signal(), &raw const action, std::ptr::null_mut()) };
        });
        // Safety: plain data, all zeroes is valid.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = alarm_signal();
        // Safety: no arguments.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // Safety: live in- and out-pointers.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) } < 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(Alarm { timer })
    }

    /// Interrupts after `time` (at least 1 ns), and then again and again: an interruption may come just before the
    /// call that it is meant for.
    fn start(&self, time: Duration) {
        const AGAIN: Duration = Duration::from_micros(200);
        self.set(time.max(Duration::from_nanos(1)), AGAIN);
    }

    fn stop(&self) {
        self.set(Duration::ZERO, Duration::ZERO);
    }

    fn set(&self, first: Duration, again: Duration) {
        let spec = |time: Duration| libc::timespec {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(time.subsec_nanos()),
        };
        let setting = libc::itimerspec { it_value: spec(first), it_interval: spec(again) };
        // Safety: our own timer, a live structure.
        unsafe { libc::timer_settime(self.timer, 0, &raw const setting, std::ptr::null_mut()) };
    }

    /// Waits until a traced thread stops or ends, at most `time`.
    pub fn wait(&self, tid: Tid, time: Duration) -> io::Result<Happened> {
        if time < SHORT {
            if let Some(happened) = look(tid, libc::WNOHANG)? {
                return Ok(happened);
            }
            // A sleep of no time takes 50 us.
            if time.is_zero() {
                return Ok(Happened::Nothing);
            }
            std::thread::sleep(time);
            return Ok(look(tid, libc::WNOHANG)?.unwrap_or(Happened::Nothing));
        }
        // Who has just been let go or asked to stop is hardly there yet: nobody looks before the timer runs.
        let began = std::time::Instant::now();
        self.start(time);
        let happened = loop {
            match look(tid, 0) {
                Ok(Some(happened)) => break Ok(happened),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
            if began.elapsed() >= time {
                break Ok(Happened::Nothing);
            }
        };
        self.stop();
        happened
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // Safety: our own timer, deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}

fn look(tid: Tid, flags: i32) -> io::Result<Option<Happened>> {
    let id = libc::id_t::try_from(tid.0).map_err(|_| io::ErrorKind::InvalidInput)?;
    // Safety: plain data, all zeroes is valid.
    let mut information: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // An end is only observed (WNOWAIT), so that a program's exit code reaches the process that waits for it. So is a stop:
    // the request that lets the thread go on forgets it, seen by a wait or not (ptrace_resume in kernel/ptrace.c).
    let wanted = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL | flags;
    // Safety: a live out-pointer.
    if unsafe { libc::waitid(libc::P_PID, id, &raw mut information, wanted) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // Safety: waitid filled it in as for SIGCHLD, or left it zero.
    if unsafe { information.si_pid() } == 0 {
        return Ok(None);
    }
    if matches!(information.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED) {
        return Ok(Some(Happened::Ended));
    }
    // Safety: as above.
    let code = unsafe { information.si_status() };
    // The word that waitpid(2) would give: 0x7f for a stop, the signal and the event above it.
    Ok(Some(Happened::Stopped(stop_reason(tid, code << 8 | 0x7f))))
}

/// Reaps a traced thread that has ended, so that the kernel detaches it and notifies its parent; does nothing while
/// it lives.
pub fn reap(tid: Tid) {
    if !matches!(look(tid, libc::WNOHANG), Ok(Some(Happened::Ended))) {
        return;
    }
    let mut status = 0;
    // Safety: a live out-pointer.
    unsafe { libc::waitpid(tid.0, &raw mut status, libc::__WALL | libc::WNOHANG) };
}
