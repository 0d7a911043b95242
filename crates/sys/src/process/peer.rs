//! Who is at the other end of a Unix socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use base::Pid;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its process.
    pub pid: Pid,
    /// The user of the process.
    pub user: u32,
}

/// The other end of a connection as of when it connected or began to listen (SO_PEERCRED of unix(7)).
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<Peer> {
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
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer { pid: Pid(who.pid), user: who.uid })
}
