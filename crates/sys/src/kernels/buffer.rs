//! Memory to measure on: anonymous, private, with a chosen page size.
//!
//! What for: kernels need memory whose alignment, page size and first-touching thread are known.
//! What not: no choice of how much; the caller bounds it by what is free.

use std::io;
use std::ptr::NonNull;

use base::{Bytes, NodeId, RemoteAddr};

use super::{KernelError, page_bytes};

/// Which pages to ask the kernel for. It may refuse huge ones silently: count the faults of
/// [`Buffer::touch_each_page`] to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// Base pages only (`MADV_NOHUGEPAGE`), whatever the system's setting is.
    Base,
    /// Transparent huge pages where allowed (`MADV_HUGEPAGE`); the mapping is aligned to 2 MiB.
    Huge,
    /// Pages of 1 GiB from the reserved pool (hugetlbfs), all of them there at once; an error where it has too few.
    Giant,
}

/// Huge pages of x86-64, and of Arm with 4 KiB granules. Where they are larger the request is not met.
const HUGE_PAGE: usize = 2 << 20;
/// The largest pages of x86-64, and of Arm with 4 KiB granules.
const GIANT_PAGE: usize = 1 << 30;

/// Nodes that a mask has room for: as many as Linux can have (`MAX_NUMNODES` with the largest NODES_SHIFT, 10).
const MOST_NODES: u32 = 1024;

/// Zero-filled private memory, not backed by any page until touched. Given back on drop.
#[derive(Debug)]
pub struct Buffer {
    /// Start of the usable part, aligned to 2 MiB.
    start: NonNull<u64>,
    words: usize,
    mapping: NonNull<libc::c_void>,
    mapping_bytes: usize,
}

// Safety: the mapping is private to this value; whoever holds the value is the only one to reach it.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Maps at least `bytes` (rounded up to 2 MiB, or to 1 GiB in such pages).
    ///
    /// # Errors
    /// [`KernelError::Map`] when the kernel refuses, also for sizes that overflow the address space.
    pub fn map(bytes: Bytes, pages: Pages) -> Result<Buffer, KernelError> {
        let refused = |source| KernelError::Map { bytes, source };
        let too_large = || refused(io::Error::from(io::ErrorKind::OutOfMemory));
        // The kernel aligns what is in pages of the pool, and without MAP_NORESERVE it refuses what the pool does not have.
        let (multiple, room, flags) = match pages {
            Pages::Giant => (GIANT_PAGE, 0, libc::MAP_HUGETLB | libc::MAP_HUGE_1GB),
            _ => (HUGE_PAGE, HUGE_PAGE, libc::MAP_NORESERVE),
        };
        let usable = usize::try_from(bytes.0.max(1))
            .ok()
            .and_then(|wanted| wanted.checked_next_multiple_of(multiple))
            .ok_or_else(too_large)?;
        let mapping_bytes = usable.checked_add(room).ok_or_else(too_large)?;
        // Safety: a fresh private anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapping_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(refused(io::Error::last_os_error()));
        }
        let advice = match pages {
            Pages::Base => libc::MADV_NOHUGEPAGE,
            Pages::Huge => libc::MADV_HUGEPAGE,
            Pages::Giant => libc::MADV_POPULATE_WRITE,
        };
        // A kernel without transparent huge pages answers EINVAL: then there are base pages only, which the
        // caller notices by the number of faults.
        // Safety: advice about exactly the range we have just mapped; none changes its content, which is zeroes.
        let advised = unsafe { libc::madvise(mapping, mapping_bytes, advice) };
        let failure = io::Error::last_os_error();
        let mapping = NonNull::new(mapping).ok_or_else(too_large)?;
        let skip = mapping.align_offset(HUGE_PAGE).min(room);
        // Safety: `skip` is at most `room`, by which the mapping is longer than the usable part.
        let start = unsafe { mapping.byte_add(skip) }.cast::<u64>();
        let buffer = Buffer { start, words: usable / 8, mapping, mapping_bytes };
        // A cgroup's limit of such pages ends a process that touches more (SIGBUS). Asked ahead, the kernel says no.
        if pages == Pages::Giant && advised != 0 {
            return Err(refused(failure));
        }
        Ok(buffer)
    }

    /// Usable size.
    #[must_use]
    pub fn size(&self) -> Bytes {
        Bytes(self.words as u64 * 8)
    }

    /// Has `node` back all of it, and no other (`MPOL_BIND`). Before the first touch: pages that exist stay where they are.
    /// A node without that much free memory ends the process: ask before.
    ///
    /// # Errors
    /// [`KernelError::Bind`] when the kernel refuses.
    pub fn bind(&mut self, node: NodeId) -> Result<(), KernelError> {
        let refused = |source| KernelError::Bind { node, source };
        if node.0 >= MOST_NODES {
            return Err(refused(io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let mut mask = [0_u64; (MOST_NODES / u64::BITS) as usize];
        mask[(node.0 / u64::BITS) as usize] = 1 << (node.0 % u64::BITS);
        // Safety: sets the policy of exactly the range that we have mapped, and touches none of it; the kernel reads the
        // stated number of bits (it subtracts one) from a live array.
        let done = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.mapping.as_ptr(),
                self.mapping_bytes,
                libc::MPOL_BIND,
                mask.as_ptr(),
                libc::c_ulong::from(MOST_NODES) + 1,
                0,
            )
        };
        if done == 0 { Ok(()) } else { Err(refused(io::Error::last_os_error())) }
    }

    /// The addresses of `count` pages, evenly spread.
    #[must_use]
    pub fn some_pages(&self, count: usize) -> Vec<RemoteAddr> {
        let (start, size) = (self.start.as_ptr().addr() as u64, self.size().0);
        let page = page_bytes().0;
        let at = |number: usize| start + size / count.max(1) as u64 * number as u64 / page * page;
        (0..count).map(|number| RemoteAddr(at(number))).collect()
    }

    /// Writes one word to each base page, so that the calling thread's NUMA node backs it (first touch), and
    /// returns how many minor faults that took: one per base page, or one per 2 MiB where huge pages were had.
    pub fn touch_each_page(&mut self) -> u64 {
        self.touch_pages(Bytes(0), self.size())
    }

    /// The same for `size` bytes from `start` on, as far as there are so many.
    pub fn touch_pages(&mut self, start: Bytes, size: Bytes) -> u64 {
        let before = super::thread_minor_faults();
        let step = (page_bytes().0 as usize / 8).max(1);
        let (first, count) = (start.0 as usize / 8, size.0 as usize / 8);
        for word in self.words_mut().iter_mut().skip(first).take(count).step_by(step) {
            // Volatile: a store that nobody reads must still happen.
            // Safety: `word` is an exclusive reference into our live mapping.
            unsafe { std::ptr::write_volatile(word, 1) };
        }
        super::thread_minor_faults().saturating_sub(before)
    }

    /// The memory as integers.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // Safety: `start .. start + words` lies in our live read-write mapping, is aligned to 2 MiB, holds valid
        // integers whatever the bits, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.words) }
    }

    /// The memory as double-precision numbers; fresh memory reads 0.0.
    pub fn doubles_mut(&mut self) -> &mut [f64] {
        // Safety: as in `words_mut`; every bit pattern is a valid f64, of the same size and alignment as u64.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast::<f64>(), self.words) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Safety: exactly the range that mmap gave us; no slice of it can outlive `self`.
        unsafe { libc::munmap(self.mapping.as_ptr(), self.mapping_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_pages_fault_once_each() {
        let mut buffer = Buffer::map(Bytes(4 << 20), Pages::Base).expect("4 MiB can be mapped");
        let faults = buffer.touch_each_page();
        let pages = buffer.size().0 / page_bytes().0;
        // The kernel may map some neighbours in one go (mTHP), never more than one fault per page
        // (a few belong to the stack of the test itself).
        assert!(faults > 0 && faults <= pages + 8, "{faults} faults for {pages} pages");
        assert!(buffer.doubles_mut().iter().skip(1).step_by(512).all(|x| *x == 0.0));
    }

    /// Every machine has a node 0, unless it has no right to choose; none has a node 1023.
    #[test]
    fn memory_is_on_the_node_that_was_chosen() {
        let mut buffer = Buffer::map(Bytes(2 << 20), Pages::Base).expect("2 MiB can be mapped");
        let absent = buffer.bind(NodeId(MOST_NODES - 1)).expect_err("no such node").to_string();
        assert!(absent.starts_with("cannot place memory on node 1023: "), "{absent}");
        assert!(buffer.bind(NodeId(u32::MAX)).is_err());
        if let Err(error) = buffer.bind(NodeId(0)) {
            println!("skipped: {error}");
            return;
        }
        buffer.touch_each_page();
        let own = base::Pid(std::process::id().cast_signed());
        match crate::process::nodes_of(own, &buffer.some_pages(8)) {
            Ok(nodes) => assert_eq!(nodes, [Some(NodeId(0)); 8]),
            Err(error) => println!("skipped: move_pages: {error}"),
        }
    }

    #[test]
    fn pages_are_touched_in_part() {
        let mut buffer = Buffer::map(Bytes(4 << 20), Pages::Base).expect("4 MiB can be mapped");
        assert!(buffer.touch_pages(Bytes(2 << 20), Bytes(2 << 20)) > 0);
        let page = page_bytes().0 as usize / 8;
        let written: Vec<bool> =
            buffer.words_mut().iter().step_by(page).map(|one| *one == 1).collect();
        let (first, second) = written.split_at(written.len() / 2);
        assert!(!first.contains(&true) && !second.contains(&false));
        assert_eq!(buffer.touch_pages(Bytes(4 << 20), Bytes(u64::MAX)), 0);
    }

    /// Few machines have such pages: whether they do, or why not, is all that can be asked.
    #[test]
    fn a_giant_page_is_there_at_once_or_refused() {
        match Buffer::map(Bytes(1), Pages::Giant) {
            Ok(mut buffer) => {
                assert_eq!(buffer.size(), Bytes(GIANT_PAGE as u64));
                assert!(buffer.touch_each_page() < 8, "populated");
            }
            Err(error) => assert!(error.to_string().starts_with("cannot map "), "{error}"),
        }
    }

    #[test]
    fn absurd_sizes_are_refused_not_fatal() {
        for bytes in [u64::MAX, u64::MAX - (1 << 20), 1 << 60] {
            for pages in [Pages::Huge, Pages::Giant] {
                let error = Buffer::map(Bytes(bytes), pages).expect_err("more than there is");
                assert!(error.to_string().starts_with("cannot map "), "{error}");
            }
        }
    }
}
