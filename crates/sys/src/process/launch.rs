//! Starts a program that waits, before its execve, until we are ready to observe it.
//!
//! ```text
//!   we                                child
//!   fork ------------------------->   setpgid, default signals, wait for a byte
//!   open perf events on its pid
//!   release: write the byte ------>   execve           (or: write errno, exit 127)
//!   read errno pipe <--------------   closed by execve: success
//! ```
//! With [`Runs`], the child forks for each run, and it is the children that execute.
//!
//! The child inherits what a shell would give it: our environment, directory, descriptors 0-2 (everything else of
//! ours is close-on-exec), and the signals that we took over. One difference remains: SIGPIPE is at its default even if
//! our starter ignored it, because Rust's runtime overwrites that before we can read it.

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::Pid;

use super::Affinity;
use super::repeat::{Runs, end_like};

/// What to start.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The file to execute, already found.
    pub file: &'a Path,
    /// Arguments, the program's name first.
    pub arguments: &'a [std::ffi::OsString],
    /// Variables that it gets in its environment besides ours, or instead of ours of the same name.
    pub environment: &'a [(OsString, OsString)],
    /// Whether the program gets a process group of its own, so that Ctrl-C reaches us alone.
    pub own_group: bool,
    /// What it gets as its standard output, instead of ours.
    pub output: Option<BorrowedFd<'a>>,
    /// The CPUs that it may use, instead of ours.
    pub affinity: Option<&'a Affinity>,
    /// Runs of it, one after the other, instead of one.
    pub runs: Option<&'a Runs>,
}

/// Why it did not start.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// An argument holds a NUL byte.
    #[error("an argument holds a NUL byte, which no program can be given")]
    NulByte,
    /// fork or pipe failed.
    #[error("cannot create a process: {0}")]
    Fork(io::Error),
    /// execve failed.
    #[error("the kernel refused to execute it: {0}")]
    Exec(io::Error),
    /// The child died before it executed the program.
    #[error("the new process died before the program started")]
    Died,
}

/// A child that waits for [`Suspended::release`]. Dropping it instead ends the child without running anything.
#[derive(Debug)]
#[must_use = "dropping it ends the child"]
pub struct Suspended {
    pid: Pid,
    go: Option<std::fs::File>,
    failed: std::fs::File,
}

impl Suspended {
    /// Forks the child.
    pub fn fork(launch: &Launch<'_>) -> Result<Suspended, LaunchError> {
        let file = c_string(launch.file.as_os_str())?;
        let arguments: Vec<CString> =
            launch.arguments.iter().map(|a| c_string(a)).collect::<Result<_, _>>()?;
        let mut pointers: Vec<*const libc::c_char> = arguments.iter().map(|a| a.as_ptr()).collect();
        pointers.push(std::ptr::null());
        let environment = environment(launch.environment)?;
        let mut variables: Vec<*const libc::c_char> =
            environment.iter().map(|variable| variable.as_ptr()).collect();
        variables.push(std::ptr::null());
        let (go_read, go_write) = pipe().map_err(LaunchError::Fork)?;
        let (failed_read, failed_write) = pipe().map_err(LaunchError::Fork)?;

        let us = i32::try_from(std::process::id()).unwrap_or(0);
        // Safety: the child calls only async-signal-safe functions (`child` below) on memory prepared before, so
        // it does not matter what other threads of ours held at this moment.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(LaunchError::Fork(io::Error::last_os_error()));
        }
        if pid == 0 {
            // Safety: see above; both lists are NULL-terminated and their strings live in our copy of the memory.
            unsafe {
                // Our end of the go pipe must not keep the pipe open in the child: it would never see us die.
                libc::close(go_write.as_raw_fd());
                await_go(
                    go_read.as_raw_fd(),
                    launch.own_group,
                    launch.output.map(|output| output.as_raw_fd()),
                );
                // CPUs that went offline since refuse it: it runs on ours then.
                let _ = launch.affinity.map(Affinity::apply);
                let failed = failed_write.as_raw_fd();
                let Some(runs) = launch.runs else { execute(&file, &pointers, &variables, failed) };
                let status = runs.go(
                    us,
                    launch.own_group,
                    &|| execute(&file, &pointers, &variables, failed),
                    // The first run's execve tells how it went by closing its own copy.
                    &|| {
                        libc::close(failed);
                    },
                );
                end_like(status)
            }
        }
        Ok(Suspended { pid: Pid(pid), go: Some(go_write.into()), failed: failed_read.into() })
    }

    /// The child's process id; valid until it was waited for.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets it execute the program and tells whether that worked. `between` is called every few milliseconds until then:
    /// a tracer must answer the child's stops meanwhile.
    pub fn release(mut self, between: &mut dyn FnMut()) -> Result<Pid, LaunchError> {
        let Some(mut go) = self.go.take() else { return Err(LaunchError::Died) };
        go.write_all(&[1]).map_err(|_| LaunchError::Died)?;
        drop(go);
        loop {
            between();
            let readable = super::poll_readable(&[self.failed.as_fd()], Duration::from_millis(5));
            if readable.is_ok_and(|readable| readable == [true]) {
                break;
            }
        }
        let mut errno = [0u8; 4];
        match self.failed.read(&mut errno) {
            Ok(0) => Ok(self.pid),
            Ok(4) => {
                self.reap();
                Err(LaunchError::Exec(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))))
            }
            _ => {
                self.reap();
                Err(LaunchError::Died)
            }
        }
    }

    fn reap(&self) {
        // Safety: no status wanted; the pid is our child's, not yet waited for.
        unsafe { libc::waitpid(self.pid.0, std::ptr::null_mut(), 0) };
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        // Closing the pipe without a byte in it makes the child exit.
        if self.go.take().is_some() {
            self.reap();
        }
    }
}

/// Runs in the child: waits until it may go on.
///
/// # Safety
/// Only between fork and exec.
unsafe fn await_go(go: libc::c_int, own_group: bool, output: Option<libc::c_int>) {
    // Safety: async-signal-safe calls with live arguments only.
    unsafe {
        if own_group {
            libc::setpgid(0, 0);
        }
        let mut byte = 0u8;
        loop {
            let got = libc::read(go, (&raw mut byte).cast(), 1);
            if got == 1 {
                break;
            }
            if got == 0 || *libc::__errno_location() != libc::EINTR {
                libc::_exit(127);
            }
        }
        if let Some(output) = output
            && libc::dup2(output, libc::STDOUT_FILENO) < 0
        {
            libc::_exit(127);
        }
    }
}

/// Runs in the child. Never returns.
///
/// # Safety
/// Only between fork and exec; `arguments` and `environment` must be NULL-terminated and everything borrowed must be alive.
unsafe fn execute(
    file: &CString,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    failed: libc::c_int,
) -> ! {
    // Safety: async-signal-safe calls with live arguments only.
    unsafe {
        // Rust ignores SIGPIPE, and what we blocked for ourselves survives exec: the program must see neither.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        if super::signal::CHILD_WAS_IGNORED.load(Ordering::Relaxed) {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        }
        let mut ours: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut ours);
        for signal in super::signal::TAKEN_OVER {
            libc::sigaddset(&raw mut ours, signal as i32);
        }
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const ours, std::ptr::null_mut());
        libc::execve(file.as_ptr(), arguments.as_ptr(), environment.as_ptr());
        let errno = *libc::__errno_location();
        libc::write(failed, (&raw const errno).cast(), 4);
        libc::_exit(127)
    }
}

/// `NAME=VALUE` of our own environment, where `more` does not say otherwise, and of `more`.
fn environment(more: &[(OsString, OsString)]) -> Result<Vec<CString>, LaunchError> {
    let ours = std::env::vars_os().filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    ours.chain(more.iter().cloned())
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            c_string(&name)
        })
        .collect()
}

fn c_string(text: &OsStr) -> Result<CString, LaunchError> {
    CString::new(text.as_bytes()).map_err(|_| LaunchError::NulByte)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // Safety: the kernel writes two descriptors into a live array of two.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // Safety: both are fresh and ours alone.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}
