//! State of a thread that the kernel keeps and reads whenever the thread continues.
//!
//! What for: a tracer that moves a thread to other code must know this state. What not: changing it.

use base::{Pid, RemoteAddr, Tid};

use super::memory::read_pieces;

/// Reads a structure of `N` words of a stopped thread (include/uapi/linux/ptrace.h). `None` on kernels without it.
fn words<const N: usize>(request: libc::c_uint, tid: Tid) -> Option<[u64; N]> {
    let mut words = [0u64; N];
    // Safety: both requests take the size of a live structure, and write at most that many bytes.
    let got = unsafe { libc::ptrace(request, tid.0, size_of_val(&words), words.as_mut_ptr()) };
    (got >= 0).then_some(words)
}

/// Whether system calls of a stopped thread may reach the program as SIGSYS before a tracer sees them (syscall user
/// dispatch, Documentation/admin-guide/syscall-user-dispatch.rst). Kernels before 6.4 do not say.
#[must_use]
pub fn dispatches_system_calls(tid: Tid) -> bool {
    const PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG: libc::c_uint = 0x4211;
    // struct ptrace_sud_config: mode, selector, offset, length
    words::<4>(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tid).is_some_and(|[mode, ..]| mode != 0)
}

/// Whether a stopped thread at this address is in a restartable sequence that it has registered with the kernel (rseq(2),
/// include/uapi/linux/rseq.h). Kernels before 5.13 do not tell.
#[must_use]
pub fn in_restartable_sequence(tid: Tid, address: RemoteAddr) -> bool {
    const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
    // struct ptrace_rseq_configuration begins with the address of the thread's struct rseq.
    let Some([rseq, ..]) = words::<3>(PTRACE_GET_RSEQ_CONFIGURATION, tid) else { return false };
    let word = |at: u64| {
        let mut bytes = [0; 8];
        read_pieces(Pid(tid.0), &[(RemoteAddr(at), 8)], &mut bytes)
            .then(|| u64::from_le_bytes(bytes))
    };
    // struct rseq: cpu_id_start, cpu_id, rseq_cs. struct rseq_cs: version, flags, start_ip, post_commit_offset.
    let sequence = (rseq != 0).then(|| word(rseq.wrapping_add(8))).flatten();
    let Some(sequence) = sequence.filter(|sequence| *sequence != 0) else { return false };
    let bounds = word(sequence.wrapping_add(8)).zip(word(sequence.wrapping_add(16)));
    bounds.is_some_and(|(start, length)| address.0.wrapping_sub(start) < length)
}
