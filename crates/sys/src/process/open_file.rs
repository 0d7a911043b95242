//! Open files of another process, by what calls on them may do.
//!
//! What for: a thread may be stopped in a read or write only where the stop cannot change the call's result. What not: what the
//! files hold.

use std::ffi::CString;
use std::mem::MaybeUninit;

use base::Tid;

/// File systems of whose regular files reads and writes end with their whole result: they wait for a disk only, and only a fatal
/// signal cuts them short (`filemap_read` and `generic_perform_write`, mm/filemap.c). Magic numbers of statfs(2). Not here:
/// pseudo file systems, whose reads may wait for anything, and those of networks or in user space.
const ON_DISK: [i64; 5] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x794c_7630, // overlayfs
];
/// Major number of the kernel's memory devices, and the minor numbers of `/dev/null` and `/dev/zero`
/// (Documentation/admin-guide/devices.txt).
const MEMORY: u32 = 1;
const NULL_AND_ZERO: [u32; 2] = [3, 5];

/// Whether reads and writes of this open file wait for nothing but a disk, and no stop cuts them short. False where it is unknown.
#[must_use]
pub fn is_never_cut_short(tid: Tid, descriptor: u32) -> bool {
    let Ok(path) = CString::new(format!("/proc/{tid}/fd/{descriptor}")) else { return false };
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // Safety: a string that ends in zero, and a live structure, which the kernel fills in if it returns 0.
    if unsafe { libc::stat(path.as_ptr(), status.as_mut_ptr()) } != 0 {
        return false;
    }
    // Safety: filled in.
    let status = unsafe { status.assume_init() };
    match status.st_mode & libc::S_IFMT {
        libc::S_IFCHR => {
            libc::major(status.st_rdev) == MEMORY
                && NULL_AND_ZERO.contains(&libc::minor(status.st_rdev))
        }
        libc::S_IFREG => {
            let mut system = MaybeUninit::<libc::statfs>::uninit();
            // Safety: as above.
            let done = unsafe { libc::statfs(path.as_ptr(), system.as_mut_ptr()) };
            // Safety: filled in if 0 was returned, and looked at only then.
            done == 0 && ON_DISK.contains(&unsafe { system.assume_init() }.f_type)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use super::*;

    #[test]
    fn files_on_disks_and_null_differ_from_what_waits() {
        // Safety: no arguments.
        let own = Tid(unsafe { libc::gettid() });
        let of = |file: &OwnedFd| is_never_cut_short(own, file.as_raw_fd().cast_unsigned());
        let open = |path: &str| OwnedFd::from(File::open(path).expect(path));
        assert!(of(&open("/dev/null")) && of(&open("/dev/zero")));
        assert!(!of(&open("/dev/urandom")) && !of(&open("/proc/self/status")));
        let (reader, writer) = std::io::pipe().expect("a pipe");
        assert!(!of(&reader.into()) && !of(&writer.into()));
        assert!(!is_never_cut_short(own, u32::MAX), "not open");
        assert!(!is_never_cut_short(Tid(0), 0), "no thread");
        // tmpfs (memfd_create(2)).
        // Safety: a string that ends in zero.
        let memory = unsafe { libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC) };
        // Safety: open, and nobody else's.
        let memory = unsafe { OwnedFd::from_raw_fd(memory) };
        assert!(of(&memory), "a regular file");
    }
}
