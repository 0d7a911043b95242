//! The kernel's description of its tracepoints: the file system `tracefs`.
//!
//! What for: `events/CATEGORY/NAME/format` tells a tracepoint's number and fields. Where nobody mounted it, it is
//! mounted for us alone (fsopen(2), fsmount(2), Linux 5.2): the mount hangs in no directory, no other process sees it,
//! and it is gone when the descriptor is closed. What not: what the files say (`collect::perf::tracepoint`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

/// Where an administrator's mount is found (`Documentation/trace/ftrace.rst`), the second on kernels before 4.1.
const USUAL_PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Access to it.
#[derive(Debug)]
pub struct TraceFs {
    root: PathBuf,
    /// Keeps a mount of our own alive.
    _mount: Option<OwnedFd>,
}

impl TraceFs {
    /// Finds it, or mounts it for ourselves. EPERM, EACCES: only root may; ENODEV: this kernel has no tracing.
    pub fn open() -> io::Result<TraceFs> {
        for place in USUAL_PLACES {
            // The directory is there even when nothing is mounted on it.
            if std::fs::read_dir(format!("{place}/events")).is_ok() {
                return Ok(TraceFs { root: PathBuf::from(place), _mount: None });
            }
        }
        let mount = mount_detached()?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(TraceFs { root, _mount: Some(mount) })
    }

    /// The text of a file, named from its root.
    pub fn read(&self, file: &str) -> io::Result<String> {
        std::fs::read_to_string(self.root.join(file))
    }
}

fn mount_detached() -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_long = 1; // FSOPEN_CLOEXEC and FSMOUNT_CLOEXEC, linux/mount.h
    const CREATE: libc::c_long = 6; // FSCONFIG_CMD_CREATE
    // Safety: a constant NUL-terminated string and an integer.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), CLOSE_ON_EXEC) };
    let context = owned(context)?;
    let nothing = std::ptr::null::<libc::c_char>();
    // Safety: this command takes neither key nor value.
    let created = unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, nothing, nothing, 0)
    };
    if created < 0 {
        return Err(io::Error::last_os_error());
    }
    let no_attributes = 0;
    // Safety: integers only.
    owned(unsafe {
        libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOSE_ON_EXEC, no_attributes)
    })
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // Safety: a descriptor that the kernel just gave to us and nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
