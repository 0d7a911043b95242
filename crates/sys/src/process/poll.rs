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
/// once. Then the others are waited for, for a short time: what hung up says no more when data come. A thread's events
/// hang up just before its process is known to have ended. Returns whether there is data.
pub fn wait_for_data(descriptors: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<bool> {
    let began = Instant::now();
    let events = poll_events(descriptors, timeout)?;
    if events.iter().any(|events| events & libc::POLLIN != 0) {
        return Ok(true);
    }
    let answers = descriptors.iter().zip(events);
    let others: Vec<BorrowedFd<'_>> =
        answers.filter(|(_, events)| *events == 0).map(|(descriptor, _)| *descriptor).collect();
    if others.len() == descriptors.len() {
        return Ok(false);
    }
    let rest = timeout.saturating_sub(began.elapsed());
    Ok(poll(&others, rest.min(HUNG_UP_PAUSE), libc::POLLIN)?.contains(&true))
}

/// How long to wait for the others when descriptors have hung up.
const HUNG_UP_PAUSE: Duration = Duration::from_millis(10);

fn poll(
    descriptors: &[BorrowedFd<'_>],
    timeout: Duration,
    wanted: libc::c_short,
) -> io::Result<Vec<bool>> {
    let events = poll_events(descriptors, timeout)?;
    Ok(events.into_iter().map(|events| events & wanted != 0).collect())
}

/// What each descriptor answers; nothing after the timeout or a signal.
fn poll_events(
    descriptors: &[BorrowedFd<'_>],
    timeout: Duration,
) -> io::Result<Vec<libc::c_short>> {
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
    Ok(polled.iter().map(|one| if ready > 0 { one.revents } else { 0 }).collect())
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_hung_up_has_no_data_and_the_others_are_waited_for() {
        let (hung_up, writer) = std::io::pipe().unwrap();
        drop(writer);
        let short = Duration::from_millis(2);
        assert!(!wait_for_data(&[hung_up.as_fd()], short).unwrap());
        let (other, mut writer) = std::io::pipe().unwrap();
        let both = [hung_up.as_fd(), other.as_fd()];
        assert!(!wait_for_data(&both, short).unwrap());
        let thread = std::thread::spawn(move || writer.write_all(b"1").map(|()| writer));
        while !wait_for_data(&both, Duration::from_secs(60)).unwrap() {}
        thread.join().unwrap().unwrap();
    }
}
