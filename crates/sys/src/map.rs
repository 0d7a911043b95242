//! Read-only file mappings.
//!
//! What for: debug information of large programs is read in place instead of being copied to the heap.
//! What not: shared or writable mappings (each user of those has its own module here).

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::path::Path;

/// A whole file, mapped read-only and private.
///
/// Assumption: the file is not truncated while we read it. A program that is rebuilt *in place* under our
/// hands would turn a read behind the new end into SIGBUS; linkers and package managers write a new file and
/// rename it, which leaves this mapping on the old one.
#[derive(Debug)]
pub struct FileMap {
    start: *const u8,
    length: usize,
}

// Safety: the mapping is read-only for its whole life and owned by this value; bytes that nobody writes may be
// read from any thread.
unsafe impl Send for FileMap {}
// Safety: as above, shared reads only.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps `path`. Refuses what is not a regular file (a FIFO or device would hang or lie about its size).
    pub fn open(path: &Path) -> io::Result<FileMap> {
        let (file, length) = open_regular(path)?;
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if length == 0 {
            return Ok(FileMap { start: std::ptr::NonNull::<u8>::dangling().as_ptr(), length: 0 });
        }
        // Safety: a fresh private read-only mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(FileMap { start: start.cast(), length })
    }
}

/// Opens a file with its length. Refuses what is not a regular file.
///
/// # Errors
/// Those of open(2), and `InvalidInput`.
pub fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    use std::os::unix::fs::OpenOptionsExt;
    // A FIFO would block in open until somebody writes.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok((file, metadata.len()))
}

impl Deref for FileMap {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // Safety: `start..start + length` is our live mapping (or dangling with length 0, which is allowed).
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        if self.length > 0 {
            // Safety: exactly the range that mmap gave us; no slice of it can outlive `self`.
            unsafe { libc::munmap(self.start.cast_mut().cast(), self.length) };
        }
    }
}
