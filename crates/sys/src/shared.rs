//! Memory that we share with the profiled program.
//!
//! What for: we write translated code here and it runs there; records are written there and read here. What not: the
//! content (crates `x86` and `burst`). Assumption: the other side may change any byte at any time, so nothing here
//! hands out a reference. Bytes are copied, and the caller checks them.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use base::Pid;

/// A shared file, mapped here for reading and writing.
#[derive(Debug)]
pub struct SharedMemory {
    file: File,
    start: *mut u8,
    length: usize,
}

// Safety: the mapping belongs to this value alone; all access goes through atomics or copies.
unsafe impl Send for SharedMemory {}
// Safety: likewise.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Opens a file descriptor of another process (`/proc/PID/fd/N`), makes the file `length` bytes long and maps it.
    pub fn of_descriptor(pid: Pid, descriptor: u64, length: usize) -> io::Result<SharedMemory> {
        let file =
            File::options().read(true).write(true).open(format!("/proc/{pid}/fd/{descriptor}"))?;
        SharedMemory::of_file(file, length)
    }

    /// Creates a file in memory, which exists until the last process that has it open or mapped ends.
    pub fn create(name: &CStr, length: usize) -> io::Result<SharedMemory> {
        // Safety: a name that ends with NUL.
        let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // Safety: a fresh descriptor that nobody else has.
        SharedMemory::of_file(unsafe { File::from_raw_fd(descriptor) }, length)
    }

    /// The path by which others can open it, as long as we live and they see our `/proc`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    fn of_file(file: File, length: usize) -> io::Result<SharedMemory> {
        file.set_len(length as u64)?;
        // Safety: a fresh shared mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedMemory { file, start: start.cast(), length })
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Device and inode of the file, which no other file has.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        let file = self.file.metadata()?;
        Ok((file.dev(), file.ino()))
    }

    fn at<T>(&self, offset: usize) -> Option<*mut u8> {
        let fits = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.length);
        // Safety: within the mapping, as just checked.
        (fits && offset.is_multiple_of(align_of::<T>())).then(|| unsafe { self.start.add(offset) })
    }

    /// Writes 8 aligned bytes at once; outside of the memory nothing happens.
    pub fn store_u64(&self, offset: usize, value: u64) {
        if let Some(at) = self.at::<AtomicU64>(offset) {
            // Safety: in the live mapping and aligned, as `at` has checked; atomics allow for other writers.
            unsafe { AtomicU64::from_ptr(at.cast()) }.store(value, Ordering::Release);
        }
    }

    /// Writes 4 aligned bytes at once; outside of the memory nothing happens.
    pub fn store_u32(&self, offset: usize, value: u32) {
        if let Some(at) = self.at::<AtomicU32>(offset) {
            // Safety: as in `store_u64`.
            unsafe { AtomicU32::from_ptr(at.cast()) }.store(value, Ordering::Release);
        }
    }

    /// Reads 8 aligned bytes; `None` outside of the memory.
    #[must_use]
    pub fn load_u64(&self, offset: usize) -> Option<u64> {
        // Safety: as in `store_u64`.
        self.at::<AtomicU64>(offset)
            .map(|at| unsafe { AtomicU64::from_ptr(at.cast()) }.load(Ordering::Acquire))
    }

    /// Sleeps while 4 aligned bytes hold `value` and nobody wakes us (futex(2)), at most `time`.
    pub fn wait_u32(&self, offset: usize, value: u32, time: Duration) {
        let Some(at) = self.at::<AtomicU32>(offset) else { return std::thread::sleep(time) };
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(time.subsec_nanos()),
        };
        // Safety: in the live mapping and aligned, as `at` has checked; the kernel reads both and writes neither.
        unsafe {
            libc::syscall(libc::SYS_futex, at, libc::FUTEX_WAIT, value, &raw const timeout, 0, 0);
        }
    }

    /// Sets 4 aligned bytes to 0, and wakes the thread that sleeps on them.
    pub fn wake_u32(&self, offset: usize) {
        self.store_u32(offset, 0);
        if let Some(at) = self.at::<AtomicU32>(offset) {
            // Safety: the kernel takes the address for a name, and writes nothing.
            unsafe { libc::syscall(libc::SYS_futex, at, libc::FUTEX_WAKE, i32::MAX, 0, 0, 0) };
        }
    }

    /// Copies `N` aligned words that the other side does not write any more; `None` outside of the memory.
    #[must_use]
    pub fn array<const N: usize>(&self, offset: usize) -> Option<[u64; N]> {
        let at = self.at::<[u64; N]>(offset)?;
        // Safety: in the live mapping and aligned, as `at` has checked; atomics allow for other writers.
        let word = |number: usize| unsafe { AtomicU64::from_ptr(at.add(8 * number).cast()) };
        Some(std::array::from_fn(|number| word(number).load(Ordering::Acquire)))
    }

    /// Writes bytes that the other side does not use yet; what lies outside of the memory is left out.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        for (number, byte) in bytes.iter().enumerate() {
            if let Some(at) = self.at::<AtomicU8>(offset + number) {
                // Safety: as in `store_u64`.
                unsafe { AtomicU8::from_ptr(at) }.store(*byte, Ordering::Relaxed);
            }
        }
    }

    /// Copies aligned words that the other side does not write any more.
    #[must_use]
    pub fn words(&self, offset: usize, count: usize) -> Vec<u64> {
        let mut words = Vec::new();
        self.copy_words(offset, count, &mut words);
        words
    }

    /// The same as bytes.
    #[must_use]
    pub fn bytes(&self, offset: usize, words: usize) -> Vec<u8> {
        let words = words.min(self.length.saturating_sub(offset) / 8);
        let mut bytes = vec![0; 8 * words];
        let (chunks, _) = bytes.as_chunks_mut::<8>();
        for (number, chunk) in chunks.iter_mut().enumerate() {
            *chunk = self.load_u64(offset + 8 * number).unwrap_or(0).to_le_bytes();
        }
        bytes
    }

    /// The same into a buffer, in place of what that holds.
    pub fn copy_words(&self, offset: usize, count: usize, words: &mut Vec<u64>) {
        let count = count.min(self.length.saturating_sub(offset) / 8);
        words.clear();
        let Some(first) = self.at::<u64>(offset).filter(|_| count > 0) else { return };
        // Safety: aligned, as `at` has checked, and `count` words lie in the live mapping; atomics allow for other writers.
        let word = |number: usize| unsafe { AtomicU64::from_ptr(first.add(8 * number).cast()) };
        words.extend((0..count).map(|number| word(number).load(Ordering::Acquire)));
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // Safety: exactly the range that mmap gave us; nothing borrows from it.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}
