//! The memory of single pages of another process: its NUMA node, and whether it is part of a huge page.
//!
//! What for: the memory that a program really got. What not: which pages to ask about. Assumptions: the caller may
//! trace the process (ptrace(2), access mode `PTRACE_MODE_READ`). Pages change: an answer holds for the moment of its
//! call.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use base::{NodeId, Pid, RemoteAddr};

use super::page_size;

/// The NUMA nodes of pages of a process, in the order of `pages`; `None` for pages without memory, and for the
/// kernel's zero page. Uses move_pages(2), which moves nothing if it is given no nodes.
///
/// # Errors
/// The kernel's: `ENOSYS` without NUMA support, `EPERM`, `ESRCH`.
pub fn nodes_of(pid: Pid, pages: &[RemoteAddr]) -> io::Result<Vec<Option<NodeId>>> {
    let addresses: Vec<u64> = pages.iter().map(|page| page.0).collect();
    let mut status = vec![-1i32; pages.len()];
    // Safety: both arrays live and have the stated number of elements of the size that the kernel reads and writes (a
    // pointer, an int). Without nodes nothing is moved.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid.0,
            addresses.len(),
            addresses.as_ptr(),
            std::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // A negative status is an errno.
    Ok(status.into_iter().map(|node| u32::try_from(node).ok().map(NodeId)).collect())
}

/// `struct pm_scan_arg` of include/uapi/linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    region_count: u64,
    most_pages: u64,
    inverted: u64,
    wanted: u64,
    any_of: u64,
    reported: u64,
}

/// `struct page_region` of the same file.
#[repr(C)]
#[derive(Default)]
struct ScannedRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong =
    3 << 30 | (size_of::<Scan>() as libc::c_ulong) << 16 | (b'f' as libc::c_ulong) << 8 | 16;
/// The page has memory; it is part of a huge page (`PAGE_IS_PRESENT`, `PAGE_IS_HUGE`).
const PRESENT: u64 = 1 << 3;
const HUGE: u64 = 1 << 6;

/// `/proc/PID/pagemap` of a process, open.
#[derive(Debug)]
pub struct PageMap(File);

impl PageMap {
    /// Opens it.
    ///
    /// # Errors
    /// The kernel's: `EACCES`, `ENOENT`.
    pub fn open(pid: Pid) -> io::Result<PageMap> {
        File::open(format!("/proc/{pid}/pagemap")).map(PageMap)
    }

    /// Whether the base page at `page` is part of a huge page, transparent or of hugetlbfs, that is mapped as one;
    /// `None` if it has no memory. Uses the ioctl `PAGEMAP_SCAN` (Documentation/admin-guide/mm/pagemap.rst).
    ///
    /// # Errors
    /// The kernel's: `ENOTTY` before Linux 6.7.
    pub fn is_huge(&self, page: RemoteAddr) -> io::Result<Option<bool>> {
        let mut region = ScannedRegion::default();
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start: page.0,
            end: page.0.saturating_add(page_size() as u64),
            regions: &raw mut region as u64,
            region_count: 1,
            wanted: PRESENT,
            reported: PRESENT | HUGE,
            ..Scan::default()
        };
        // Safety: the kernel reads and writes one live structure of the size that is in it, and at most one region at the
        // address given there, which lives as long. It only reads the process's page tables: no flag asks for more.
        let found = unsafe { libc::ioctl(self.0.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        match found {
            ..0 => Err(io::Error::last_os_error()),
            0 => Ok(None),
            _ => Ok(Some(region.categories & HUGE != 0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One's own memory: what was written to lies on a node that exists; what was not, on none.
    #[test]
    fn own_pages_have_a_node_once_they_are_touched() {
        let bytes = page_size();
        let mut memory = vec![1u8; 4 * bytes];
        memory[2 * bytes] = 7;
        let inside = (memory.as_ptr() as usize).next_multiple_of(bytes) as u64;
        let own = Pid(std::process::id().cast_signed());
        match nodes_of(own, &[RemoteAddr(inside), RemoteAddr(0)]) {
            Ok(nodes) => assert!(nodes[0].is_some() && nodes[1].is_none(), "{nodes:?}"),
            Err(error) => println!("skipped: move_pages: {error}"),
        }
        let huge = PageMap::open(own)
            .and_then(|map| Ok((map.is_huge(RemoteAddr(inside))?, map.is_huge(RemoteAddr(0))?)));
        match huge {
            Ok((inside, nothing)) => assert!(inside.is_some() && nothing.is_none()),
            Err(error) => println!("skipped: PAGEMAP_SCAN: {error}"),
        }
        assert_eq!(memory[2 * bytes], 7);
    }
}
