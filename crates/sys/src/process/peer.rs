//! Who is at the other end of a Unix socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use base::Pid;

/// The process at the other end of a connection, and its user, as of when it connected or began to listen (SO_PEERCRED
/// of unix(7)).
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<(Pid, u32)> {
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // Safety: a live structure and its size; the kernel writes at most that many bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut size,
        )
    };
    if result == 0 { Ok((Pid(who.pid), who.uid)) } else { Err(io::Error::last_os_error()) }
}
