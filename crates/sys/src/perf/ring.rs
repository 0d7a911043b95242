//! The ring buffer that the kernel writes records into and we read from, and the area next to it that hardware writes a trace into.
//!
//! ```text
//!   mapping: [ control page | data: 2^n pages ] [ trace: 2^m pages, a mapping of its own: the "AUX area" ]
//!   kernel writes at data_head (release), we read up to it (acquire), then store data_tail (release).
//!   The same with aux_head and aux_tail: records say which part of the trace is there.
//! ```
//! Protocol: `perf_event_open(2)`, section "MMAP layout"; memory order: `tools/include/linux/ring_buffer.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Event;

// offsetof(struct perf_event_mmap_page, data_head / data_tail): fixed by the ABI at the start of the second KiB.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
// aux_head, aux_tail, aux_offset, aux_size, likewise.
const AUX_HEAD: usize = 1056;
const AUX_TAIL: usize = 1064;
const AUX_OFFSET: usize = 1072;
const AUX_SIZE: usize = 1080;

/// A mapped ring. Unmapped on drop.
#[derive(Debug)]
pub struct Ring {
    start: *mut u8,
    page: usize,
    /// Bytes of data; a power of two.
    data: usize,
    /// A record that wraps around the end is put together here.
    joined: Vec<u8>,
    /// Start and bytes of the trace, a power of two.
    trace: Option<(*mut u8, usize)>,
}

// Safety: the mapping belongs to this value alone; the kernel is the only other party, and the head/tail protocol
// orders us against it from whichever thread holds the value.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `data_pages` (a power of two) for `event`. EPERM means that the locked-memory allowance
    /// (`/proc/sys/kernel/perf_event_mlock_kb` per CPU) does not reach that far: try a smaller one.
    pub fn map(event: &Event, data_pages: usize) -> io::Result<Ring> {
        if !data_pages.is_power_of_two() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let page = crate::process::page_size();
        let data = data_pages * page;
        // Safety: a fresh shared mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + data,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_fd().as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { start: start.cast(), page, data, joined: Vec::new(), trace: None })
    }

    /// Maps an area of `pages` (a power of two) for the trace of `event`, whose records this ring gets. EPERM: as for [`Ring::map`].
    pub fn map_trace(&mut self, event: &Event, pages: usize) -> io::Result<()> {
        if !pages.is_power_of_two() || self.trace.is_some() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (offset, bytes) = (self.page + self.data, pages * self.page);
        // The kernel compares what is mapped with these words (`perf_mmap`, kernel/events/core.c).
        self.control(AUX_OFFSET).store(offset as u64, Ordering::Relaxed);
        self.control(AUX_SIZE).store(bytes as u64, Ordering::Release);
        // Safety: a fresh shared mapping at an address of the kernel's choice. Writable, so that the kernel waits for `aux_tail`.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_fd().as_raw_fd(),
                libc::off_t::try_from(offset).map_err(io::Error::other)?,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.trace = Some((start.cast(), bytes));
        Ok(())
    }

    /// Appends a part of the trace to `taken`, as a record of this ring announces it: where it begins, counted from the beginning of
    /// all traces, and its bytes. False, and nothing is appended, where these bytes are not there.
    pub fn trace(&self, offset: u64, bytes: u64, taken: &mut Vec<u8>) -> bool {
        let Some((start, size)) = self.trace else { return false };
        let head = self.control(AUX_HEAD).load(Ordering::Acquire);
        let tail = self.control(AUX_TAIL).load(Ordering::Relaxed);
        // Both count on beyond the size.
        let (from, to) = (offset.wrapping_sub(tail), offset.wrapping_add(bytes).wrapping_sub(tail));
        let waiting = head.wrapping_sub(tail);
        if from > to || to > waiting || waiting > size as u64 {
            return false;
        }
        let (at, length) = ((offset as usize) & (size - 1), bytes as usize);
        let first = length.min(size - at);
        for (at, length) in [(at, first), (0, length - first)] {
            // Safety: inside of the mapping (`at < size`, and no more than up to its end); the hardware does not write between tail
            // and head, where this lies.
            taken.extend_from_slice(unsafe { std::slice::from_raw_parts(start.add(at), length) });
        }
        true
    }

    /// Where the trace ends now.
    #[must_use]
    pub fn trace_end(&self) -> u64 {
        self.control(AUX_HEAD).load(Ordering::Acquire)
    }

    /// Returns the space of the trace up to here to the hardware; never back.
    pub fn free_trace(&mut self, up_to: u64) {
        let tail = self.control(AUX_TAIL);
        if up_to.wrapping_sub(tail.load(Ordering::Relaxed)).cast_signed() > 0 {
            tail.store(up_to, Ordering::Release);
        }
    }

    /// Bytes of data that the ring holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.data
    }

    /// The oldest waiting record, header included; it stays until [`Ring::pop`].
    pub fn front(&mut self) -> Option<&[u8]> {
        let (at, size) = self.locate()?;
        if at + size <= self.data {
            return Some(self.slice(at, size));
        }
        let first = self.data - at;
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        joined.extend_from_slice(self.slice(at, first));
        joined.extend_from_slice(self.slice(0, size - first));
        self.joined = joined;
        Some(&self.joined)
    }

    /// Returns the space of the oldest record to the kernel.
    pub fn pop(&mut self) {
        if let Some((_, size)) = self.locate() {
            let tail = self.control(DATA_TAIL);
            tail.store(tail.load(Ordering::Relaxed).wrapping_add(size as u64), Ordering::Release);
        }
    }

    /// Calls `take` with every waiting record, oldest first, and frees its space.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        while let Some(record) = self.front() {
            take(record);
            self.pop();
        }
    }

    /// Place and size of the oldest record.
    fn locate(&self) -> Option<(usize, usize)> {
        let head = self.control(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.control(DATA_TAIL).load(Ordering::Relaxed);
        let waiting = head.wrapping_sub(tail);
        if waiting < 8 {
            return None;
        }
        let at = (tail as usize) & (self.data - 1);
        // A header is 8 bytes and records are 8-aligned, so a header never wraps. Its size is the last u16.
        let header = self.slice(at, 8);
        let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
        if size < 8 || size as u64 > waiting {
            // Impossible with a correct kernel; continuing would loop or read garbage, so all waiting records are
            // dropped.
            self.control(DATA_TAIL).store(head, Ordering::Release);
            return None;
        }
        Some((at, size))
    }

    fn control(&self, offset: usize) -> &AtomicU64 {
        // Safety: `offset` is one of the constants above, 8-aligned and inside of the control page, which
        // lives as long as `self`; the kernel accesses the word atomically too.
        unsafe { &*self.start.add(offset).cast::<AtomicU64>() }
    }

    fn slice(&self, at: usize, length: usize) -> &[u8] {
        assert!(at + length <= self.data, "ring slice {at}+{length} outside of {}", self.data);
        // Safety: inside of the data area (asserted); the kernel does not write between tail and head, and all
        // slices handed out lie there until `data_tail` is stored.
        unsafe { std::slice::from_raw_parts(self.start.add(self.page + at), length) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if let Some((start, bytes)) = self.trace {
            // Safety: exactly the range that mmap gave us. Before the ring: the trace stops with its last mapping.
            unsafe { libc::munmap(start.cast(), bytes) };
        }
        // Safety: exactly the range that mmap gave us.
        unsafe { libc::munmap(self.start.cast(), self.page + self.data) };
    }
}
