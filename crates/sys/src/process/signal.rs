//! Signals as data (signalfd), sending them, and the controlling terminal's foreground group.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Pid;

/// The signals that a profiler at a terminal deals with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
#[expect(missing_docs, reason = "the POSIX names")]
pub enum Signal {
    Interrupt = libc::SIGINT,
    Terminate = libc::SIGTERM,
    HangUp = libc::SIGHUP,
    Quit = libc::SIGQUIT,
    TerminalStop = libc::SIGTSTP,
    Child = libc::SIGCHLD,
    Continue = libc::SIGCONT,
    Kill = libc::SIGKILL,
    User1 = libc::SIGUSR1,
    User2 = libc::SIGUSR2,
    WindowChange = libc::SIGWINCH,
}

/// What a collection takes over while it runs, and a launched program gets back.
pub const TAKEN_OVER: [Signal; 10] = [
    Signal::Interrupt,
    Signal::Terminate,
    Signal::HangUp,
    Signal::Quit,
    Signal::User1,
    Signal::User2,
    Signal::WindowChange,
    Signal::TerminalStop,
    Signal::Child,
    Signal::Continue,
];

/// A signal that was sent to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received(pub Signal);

/// Blocks a set of signals and delivers them as readable data. Must be made before other threads are, because
/// they inherit the mask. The mask is put back on drop.
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
    mask_before: libc::sigset_t,
}

impl SignalFd {
    /// Takes over the signals of `TAKEN_OVER`, but for those that our starter made us ignore (nohup, a shell's
    /// background job): they stay ignored, as for any program.
    pub fn take_over() -> io::Result<SignalFd> {
        // Where our starter ignores SIGCHLD, children would vanish without an exit code. The program gets it back.
        CHILD_WAS_IGNORED.store(is_ignored(Signal::Child), Ordering::Relaxed);
        // Safety: the default disposition involves no code of ours.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        SignalFd::of(&TAKEN_OVER)
    }

    /// Takes over these signals only, but for those that our starter made us ignore.
    ///
    /// # Errors
    /// The kernel's, of signalfd(2).
    pub fn of(signals: &[Signal]) -> io::Result<SignalFd> {
        let wanted: Vec<Signal> =
            signals.iter().copied().filter(|signal| !is_ignored(*signal)).collect();
        // Safety: sigset_t is plain data, initialised by sigemptyset before use; both sets are live.
        let (set, mask_before) = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in wanted {
                libc::sigaddset(&raw mut set, signal as i32);
            }
            if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            (set, before)
        };
        // Safety: a live set; -1 asks for a new descriptor.
        let fd =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // Safety: fresh and ours alone.
        Ok(SignalFd { fd: unsafe { OwnedFd::from_raw_fd(fd) }, mask_before })
    }

    /// Lets a command begin with the signals as they were before they were taken over: a child inherits the mask.
    pub fn hand_back(&self, command: &mut Command) {
        let before = self.mask_before;
        let put_back = move || {
            // Safety: a live set that pthread_sigmask gave us; the call is async-signal-safe.
            match unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut())
            } {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        };
        // Safety: between fork and exec the closure makes one async-signal-safe call, on memory of its own.
        unsafe { command.pre_exec(put_back) };
    }

    /// The next waiting signal, if any.
    #[must_use]
    pub fn next(&self) -> Option<Received> {
        // Safety: plain data for which all zeroes is valid; the kernel fills in at most its size.
        let mut information: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        // Safety: `size` bytes of a live structure.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut information).cast(), size) };
        if usize::try_from(got) != Ok(size) {
            return None;
        }
        let number = i32::try_from(information.ssi_signo).ok()?;
        TAKEN_OVER.into_iter().find(|signal| *signal as i32 == number).map(Received)
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for SignalFd {
    fn drop(&mut self) {
        // What waits was meant for the collection, which is over: it must not kill us now.
        while self.next().is_some() {}
        // Safety: the mask that pthread_sigmask gave us before.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.mask_before,
                std::ptr::null_mut(),
            )
        };
    }
}

/// Sends a signal to a process. A process that is gone already is no error.
pub fn kill(pid: Pid, signal: Signal) -> io::Result<()> {
    send(pid.0, signal)
}

/// Sends a signal to the process group that `leader` was given, or, where it has left that group, to it alone.
pub fn kill_group(leader: Pid, signal: Signal) -> io::Result<()> {
    // Safety: integers only; the group is a child's, never 0 or 1.
    if leader.0 > 1 && unsafe { libc::kill(-leader.0, signal as i32) } == 0 {
        return Ok(());
    }
    send(leader.0, signal)
}

fn send(target: i32, signal: Signal) -> io::Result<()> {
    if target == 0 || target == -1 {
        // These mean "everybody": never what a profiler wants.
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Safety: integers only.
    if unsafe { libc::kill(target, signal as i32) } < 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ESRCH) {
            return Err(error);
        }
    }
    Ok(())
}

/// Whether our starter ignored SIGCHLD; a launched program must find it so again.
pub(super) static CHILD_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

fn is_ignored(signal: Signal) -> bool {
    // Safety: plain data, filled by the call; a null new action only asks.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal as i32, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Why this process is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopFor {
    /// Ctrl-Z: only this process; the terminal sent it to the rest of our group itself.
    TerminalStop,
    /// A background job that wants to read the terminal: the whole group, as the kernel does.
    TerminalInput,
}

/// Stops this process as job control would; returns when it is continued. In an orphaned group, where nobody could
/// continue it, the kernel ignores the signal and this returns at once.
pub fn stop_self(reason: StopFor) {
    let signal = match reason {
        StopFor::TerminalStop => libc::SIGTSTP,
        StopFor::TerminalInput => libc::SIGTTIN,
    };
    // Safety: sets are initialised before use and live on our stack; the disposition is the default one.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, &raw mut before);
        match reason {
            StopFor::TerminalStop => libc::raise(signal),
            StopFor::TerminalInput => libc::kill(0, signal),
        };
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
}

/// Our process group.
#[must_use]
pub fn own_group() -> Pid {
    // Safety: no arguments, cannot fail.
    Pid(unsafe { libc::getpgrp() })
}

/// The controlling terminal, wherever standard input comes from.
#[derive(Debug)]
pub struct Terminal(std::fs::File);

impl Terminal {
    /// Opens it; `None` when there is none (cron, a service, a container without -t).
    #[must_use]
    pub fn open() -> Option<Terminal> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK);
        options.open("/dev/tty").ok().map(Terminal)
    }

    /// Its foreground process group.
    #[must_use]
    pub fn foreground(&self) -> Option<Pid> {
        // Safety: integers only.
        let group = unsafe { libc::tcgetpgrp(self.0.as_raw_fd()) };
        (group > 0).then_some(Pid(group))
    }

    /// Makes `group` its foreground process group.
    pub fn give_to(&self, group: Pid) -> io::Result<()> {
        // A background process that changes the foreground group is stopped by SIGTTOU unless it blocks it.
        // Safety: sets are initialised before use and live on our stack.
        let result = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGTTOU);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            let result = libc::tcsetpgrp(self.0.as_raw_fd(), group.0);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            result
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
