//! Why events cannot be opened, by what the user can do about it.
//!
//! What not: what is used instead (`source`).

use std::io;

/// Why the events could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Not allowed: perf_event_paranoid, seccomp, another user's process.
    #[error("perf_event_open is not permitted here ({0})")]
    Refused(io::Error),
    /// Not built into this kernel, or filtered by a sandbox.
    #[error("perf_event_open does not exist here ({0})")]
    Missing(io::Error),
    /// The process ended meanwhile.
    #[error("the process ended before it could be observed")]
    Gone,
    /// Out of descriptors, memory or locked memory.
    #[error("perf_event_open failed: {0}")]
    Failed(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        match error.raw_os_error() {
            Some(libc_errno::EACCES | libc_errno::EPERM) => OpenError::Refused(error),
            Some(libc_errno::ENOSYS | libc_errno::ENOENT | libc_errno::EOPNOTSUPP) => {
                OpenError::Missing(error)
            }
            Some(libc_errno::ESRCH) => OpenError::Gone,
            _ => OpenError::Failed(error),
        }
    }
}

/// `errno` values (asm-generic/errno-base.h, errno.h); the only ones distinguished here.
pub(crate) mod libc_errno {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const ESRCH: i32 = 3;
    pub const EACCES: i32 = 13;
    pub const EBUSY: i32 = 16;
    pub const ENODEV: i32 = 19;
    pub const EINVAL: i32 = 22;
    pub const ENOSPC: i32 = 28;
    pub const ENOSYS: i32 = 38;
    pub const EOPNOTSUPP: i32 = 95;
}
