//! Waiting for several descriptors at once, and a descriptor of a process (pidfd).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use base::Pid;

/// Waits until one of `descriptors` has something to read, its end included, or `timeout` is over; says which have. A
/// signal ends the wait early.
pub fn poll_readable(descriptors: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<bool>> {
    poll(descriptors, timeout, libc::POLLIN | libc::POLLHUP)
}

/// The same, but what only hung up (the perf event of a thread that ended) is no data: it would end every wait at
/// once. Returns whether there is data.
pub fn wait_for_data(descriptors: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<bool> {
    let began = Instant::now();
    if poll(descriptors, timeout, libc::POLLIN)?.contains(&true) {
        return Ok(true);
    }
    let rest = timeout.saturating_sub(began.elapsed());
    std::thread::sleep(rest.min(HUNG_UP_PAUSE));
    Ok(false)
}

/// How long to sleep instead of polling when descriptors have hung up.
const HUNG_UP_PAUSE: Duration = Duration::from_millis(10);

fn poll(
    descriptors: &[BorrowedFd<'_>],
    timeout: Duration,
    wanted: libc::c_short,
) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // Safety: a live array of the length that is passed.
    let ready =
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(polled.iter().map(|one| ready > 0 && one.revents & wanted != 0).collect())
}

/// A descriptor that becomes readable when its process has ended (pidfd_open(2), Linux 5.3).
#[derive(Debug)]
pub struct ProcessFd(OwnedFd);

impl ProcessFd {
    /// Opens it. ESRCH: no such process; ENOSYS: an old kernel or a sandbox.
    pub fn open(pid: Pid) -> io::Result<ProcessFd> {
        // Safety: integers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = i32::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
        // Safety: fresh from the kernel and ours alone (close-on-exec by definition).
        Ok(ProcessFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

impl AsFd for ProcessFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
