//! Whether the kernel lets a process take pages away and give them to the thread that uses them next.
//!
//! What not: doing so; the placement library does, inside the program (`agent/placement`).

use std::io;

const API: u64 = 0xaa;
/// `UFFDIO_API` of linux/userfaultfd.h: _IOWR(0xAA, 0x3F, 24 bytes).
const IOCTL_API: u64 = 0xc018_aa3f;
const FEATURE_THREAD_ID: u64 = 1 << 8;

/// What stands against it.
///
/// # Errors
/// The kernel's: userfaultfd(2), mremap(2).
pub fn next_touch_works() -> io::Result<()> {
    // Safety: no pointer; the file is closed below.
    let file = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut wanted = [API, FEATURE_THREAD_ID, 0];
    // Safety: `struct uffdio_api` has these three words.
    let answered = unsafe { libc::syscall(libc::SYS_ioctl, file, IOCTL_API, wanted.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // Safety: ours, and not used any more.
    unsafe { libc::syscall(libc::SYS_close, file) };
    if answered < 0 {
        return Err(error);
    }
    const PAGE: usize = 4096;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let own = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let both = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
    // Safety: a page of our own; nobody else knows it, and both places of it are given back.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), PAGE, access, own, -1, 0);
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // The kernel takes the new address for a wish, and refuses an odd one.
        let moved = libc::mremap(page, PAGE, PAGE, both, std::ptr::null_mut::<libc::c_void>());
        let error = io::Error::last_os_error();
        libc::munmap(page, PAGE);
        if moved == libc::MAP_FAILED {
            return Err(error);
        }
        libc::munmap(moved, PAGE);
    }
    Ok(())
}

/// What would enable it.
#[must_use]
pub fn no_next_touch(error: &io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::EPERM) => {
            "it takes CAP_SYS_PTRACE or sudo sysctl vm.unprivileged_userfaultfd=1; a container's seccomp profile may forbid it as well"
        }
        Some(libc::ENOSYS) => "this kernel is built without CONFIG_USERFAULTFD",
        Some(libc::EINVAL) => "it takes Linux 5.7",
        _ => "see userfaultfd(2)",
    };
    format!("the kernel gives no userfaultfd ({error}): {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_works_or_says_what_is_missing() {
        if let Err(error) = next_touch_works() {
            println!("skipped: {}", no_next_touch(&error));
        }
        let refused = no_next_touch(&io::Error::from_raw_os_error(libc::EPERM));
        assert!(refused.contains("vm.unprivileged_userfaultfd=1"), "{refused}");
    }
}
