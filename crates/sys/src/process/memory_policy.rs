//! On which NUMA nodes the kernel places new memory of this process, and of the program that it becomes.
//!
//! What not: memory that exists, and single ranges (`kernels::buffer`). Source: set_mempolicy(2). The policy belongs to the process: it is
//! inherited over fork and exec, and ends with it.

use std::io;

use base::NodeId;

/// A policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryPolicy {
    /// The node of the thread that touches a page first.
    Local,
    /// These nodes only.
    Bind,
    /// These nodes in turn, page by page.
    Interleave,
    /// These nodes in turn, each as many pages as its weight in /sys/kernel/mm/mempolicy/weighted_interleave (Linux 6.9).
    Weighted,
}

/// linux/mempolicy.h.
const WEIGHTED_INTERLEAVE: libc::c_int = 6;
/// Nodes that a mask has room for; kernels are built with at most 1024 (`CONFIG_NODES_SHIFT` 10).
const MOST_NODES: u32 = 1024;

/// Sets the policy of the calling thread, and so of what it starts.
///
/// # Errors
/// The kernel's; [`crate::kernels::unbound`] says what to do about it.
pub fn set_memory_policy(policy: MemoryPolicy, nodes: &[NodeId]) -> io::Result<()> {
    let mut mask = [0_u64; (MOST_NODES / u64::BITS) as usize];
    for node in nodes {
        let word = mask.get_mut((node.0 / u64::BITS) as usize);
        *word.ok_or(io::ErrorKind::InvalidInput)? |= 1 << (node.0 % u64::BITS);
    }
    let (mode, mask, bits) = match policy {
        MemoryPolicy::Local => (libc::MPOL_LOCAL, std::ptr::null(), 0),
        MemoryPolicy::Bind => (libc::MPOL_BIND, mask.as_ptr(), MOST_NODES + 1),
        MemoryPolicy::Interleave => (libc::MPOL_INTERLEAVE, mask.as_ptr(), MOST_NODES + 1),
        MemoryPolicy::Weighted => (WEIGHTED_INTERLEAVE, mask.as_ptr(), MOST_NODES + 1),
    };
    // Safety: the kernel reads the stated number of bits (it subtracts one) from a live array, or none.
    let done =
        unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask, libc::c_ulong::from(bits)) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_set_and_undone() {
        // In a thread of its own: policies are a thread's.
        let tried = std::thread::spawn(|| {
            set_memory_policy(MemoryPolicy::Interleave, &[NodeId(0)])?;
            assert!(set_memory_policy(MemoryPolicy::Bind, &[NodeId(1023)]).is_err());
            assert!(set_memory_policy(MemoryPolicy::Bind, &[NodeId(1024)]).is_err());
            set_memory_policy(MemoryPolicy::Local, &[])
        });
        if let Err(error) = tried.join().expect("no panic") {
            println!("skipped: set_mempolicy: {error}");
        }
    }
}
