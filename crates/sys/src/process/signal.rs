//! Signals as data (signalfd), sending them, and the terminal's foreground group.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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
}

/// What a collection takes over while it runs, and a launched program gets back.
pub const TAKEN_OVER: [Signal; 6] = [
    Signal::Interrupt,
    Signal::Terminate,
    Signal::HangUp,
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
    /// Takes over the signals of `TAKEN_OVER`.
    pub fn take_over() -> io::Result<SignalFd> {
        // Safety: sigset_t is plain data, initialised by sigemptyset before use; both sets are live.
        let (set, mask_before) = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in TAKEN_OVER {
                libc::sigaddset(&raw mut set, signal as i32);
            }
            if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            (set, before)
        };
        // Where our starter ignores SIGCHLD, children would vanish without an exit code.
        // Safety: the default disposition involves no code of ours.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        // Safety: a live set; -1 asks for a new descriptor.
        let fd =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // Safety: fresh and ours alone.
        Ok(SignalFd { fd: unsafe { OwnedFd::from_raw_fd(fd) }, mask_before })
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
        // Safety: the mask that pthread_sigmask told us before.
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

/// Sends a signal to the process group that `leader` leads.
pub fn kill_group(leader: Pid, signal: Signal) -> io::Result<()> {
    send(-leader.0, signal)
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

/// Stops this process as Ctrl-Z would; returns when it is continued.
pub fn stop_self() {
    // Safety: no arguments in memory.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// The foreground process group of the terminal on standard input, when there is one and it is ours.
#[must_use]
pub fn foreground_group() -> Option<Pid> {
    // Safety: integers only.
    let group = unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) };
    // Safety: no arguments.
    let ours = unsafe { libc::getpgrp() };
    (group > 0 && group == ours).then_some(Pid(group))
}

/// Makes `group` the foreground process group of the terminal on standard input.
pub fn give_terminal_to(group: Pid) -> io::Result<()> {
    // A background process that changes the foreground group is stopped by SIGTTOU unless it blocks it.
    // Safety: sets are initialised before use and live on our stack.
    let result = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
        let result = libc::tcsetpgrp(libc::STDIN_FILENO, group.0);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
