//! Runs one step of a round: a command of Fathom as a child process with a limit of CPU time, ended when it must not go on.
//!
//! What for: a crash, a leak or a kill of a child never ends the watch, and the kernel counts the cost of each. What not: which
//! commands a round has (`round`).

use std::cell::Cell;
use std::ffi::OsString;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use base::{Nanos, Pid};
use collect::busy::cpu_time;
use sys::process::{ProcessFd, Signal, SignalFd, kill, wait_for_data};

/// Interval between checks of the off file and the limit.
const LOOK: Duration = Duration::from_millis(200);
/// After the first signal a collection lets its program go at once, but may still name functions. The second one ends that.
const SECOND: Duration = Duration::from_millis(600);
/// Nothing of ours takes longer than this to end.
const LAST: Duration = Duration::from_secs(5);

/// Why something must not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The off file is there.
    Off,
    /// Somebody asked us to end.
    Signal,
    /// The budget of this hour is used up.
    Budget,
}

/// How a command ended.
pub struct Ended {
    pub status: ExitStatus,
    pub output: Vec<u8>,
    /// What it said on stderr.
    pub said: String,
    /// Why we ended it.
    pub stopped: Option<Stop>,
}

impl Ended {
    /// The first line that it said, or how it ended.
    pub fn why(&self) -> String {
        let said = self.said.lines().find(|line| !line.trim().is_empty());
        let said = said.map(|line| line.trim_start_matches("fathom: ").to_owned());
        said.unwrap_or_else(|| format!("it ended with {}", self.status))
    }
}

/// Looks at what ends the watch or what it does.
pub struct Guard<'a> {
    pub signals: &'a SignalFd,
    pub off_file: &'a Path,
    /// Whether a signal asked us to end; it stays so.
    asked: Cell<bool>,
}

impl Guard<'_> {
    pub fn new<'a>(signals: &'a SignalFd, off_file: &'a Path) -> Guard<'a> {
        Guard { signals, off_file, asked: Cell::new(false) }
    }

    /// Whether the off file is there. A file that cannot be examined counts as there.
    pub fn stop(&self) -> Option<Stop> {
        if self.signals.next().is_some() {
            self.asked.set(true);
        }
        if self.asked.get() {
            return Some(Stop::Signal);
        }
        (!matches!(self.off_file.try_exists(), Ok(false))).then_some(Stop::Off)
    }

    /// Sleeps, and returns earlier only when a signal asks us to end.
    pub fn sleep(&self, time: Duration) -> Option<Stop> {
        let began = Instant::now();
        loop {
            let asked = self.stop().filter(|stop| *stop == Stop::Signal);
            let left = time.saturating_sub(began.elapsed());
            if asked.is_some() || left.is_zero() {
                return asked;
            }
            // Rounded up: poll(2) counts milliseconds. A failure to wait makes the loop busy, but right.
            let _ = wait_for_data(&[self.signals.as_fd()], left + Duration::from_micros(999));
        }
    }

    /// Runs `fathom WORDS` to its end, or until it must not go on: it may use `limit` of CPU time. `urgent`: it stops threads of
    /// others, so that it must get a CPU at once; all else has a lower priority.
    pub fn run(&self, words: &[OsString], urgent: bool, limit: Nanos) -> std::io::Result<Ended> {
        // Also after an upgrade this is our own version.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("fathom").args(words).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for us; we end it in our own way.
        command.process_group(0);
        self.signals.hand_back(&mut command);
        std::thread::scope(|scope| {
            let start = || {
                if !urgent {
                    sys::process::be_modest();
                }
                command.spawn()
            };
            // A thread's priority is for good, and its child has it from the start.
            let started = scope.spawn(start).join();
            let mut child = started.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
            let read = move || {
                let mut bytes = Vec::new();
                out.as_mut().map(|out| out.read_to_end(&mut bytes));
                bytes
            };
            let out = scope.spawn(read);
            let read = move || {
                let mut bytes = Vec::new();
                err.as_mut().map(|err| err.read_to_end(&mut bytes));
                bytes
            };
            let err = scope.spawn(read);
            let pid = Pid(child.id().cast_signed());
            let stopped = self.until_it_ends(pid, limit);
            let status = child.wait()?;
            let [output, said] = [out, err].map(|reader| reader.join().unwrap_or_default());
            Ok(Ended { status, output, said: String::from_utf8_lossy(&said).into_owned(), stopped })
        })
    }

    /// Returns when a child is about to end, and why it was asked to.
    fn until_it_ends(&self, pid: Pid, limit: Nanos) -> Option<Stop> {
        let ended = ProcessFd::open(pid).ok();
        let mut asked: Option<(Stop, Instant)> = None;
        let mut sent = 0;
        loop {
            let descriptors: Vec<_> = ended.iter().map(AsFd::as_fd).collect();
            let is_over = match wait_for_data(&descriptors, LOOK) {
                Ok(true) => true,
                // Without pidfd_open: a zombie is left until it is waited for.
                _ => tracee::status::has_ended(base::Tid(pid.0)),
            };
            if is_over {
                return asked.map(|(why, _)| why);
            }
            let over = || cpu_time(pid).is_some_and(|used| used > limit).then_some(Stop::Budget);
            if asked.is_none()
                && let Some(why) = self.stop().or_else(over)
            {
                asked = Some((why, Instant::now()));
            }
            let since = asked.map(|(_, when)| when.elapsed());
            let due = [Duration::ZERO, SECOND, LAST];
            if since.is_some_and(|since| due.get(sent).is_some_and(|due| since >= *due)) {
                // It may be gone: that is no error.
                // Not SIGINT: a shell that started us in its background has made us, and what we start, ignore it.
                let _ = kill(pid, [Signal::Terminate, Signal::Terminate, Signal::Kill][sent]);
                sent += 1;
            }
        }
    }
}
