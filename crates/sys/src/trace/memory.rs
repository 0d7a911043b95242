//! Reading many pieces of another process's memory, and writing where the program itself may not.
//!
//! What not: writing data of the program; translated code does its own work.

use std::io;

use base::{Pid, RemoteAddr, Tid};

/// The kernel's limit of pieces per call (UIO_MAXIOV, include/uapi/linux/uio.h).
const MOST_PIECES: usize = 1024;

/// Copies pieces of another process's memory into `into`, one after the other, by as few calls as possible. False when
/// any byte of them cannot be read.
pub fn read_pieces(pid: Pid, pieces: &[(RemoteAddr, usize)], into: &mut [u8]) -> bool {
    let mut rest = into;
    for chunk in pieces.chunks(MOST_PIECES) {
        let length: usize = chunk.iter().map(|(_, length)| length).sum();
        let Some((here, behind)) = std::mem::take(&mut rest).split_at_mut_checked(length) else {
            return false;
        };
        rest = behind;
        let remote: Vec<libc::iovec> = chunk
            .iter()
            .map(|(at, length)| libc::iovec {
                iov_base: at.0 as *mut libc::c_void,
                iov_len: *length,
            })
            .collect();
        let local = libc::iovec { iov_base: here.as_mut_ptr().cast(), iov_len: length };
        // Safety: the local vector covers `here`, exclusively borrowed; the remote ones are only read by the kernel, in
        // the other process.
        let got = unsafe {
            libc::process_vm_readv(
                pid.0,
                &raw const local,
                1,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        };
        if usize::try_from(got) != Ok(length) {
            return false;
        }
    }
    true
}

/// Writes into the memory of a stopped traced thread, also where the program may only read (PTRACE_POKEDATA): the
/// kernel gives the process a copy of the page of its own. `at` and the length must be multiples of 8.
pub fn overwrite(tid: Tid, at: RemoteAddr, bytes: &[u8]) -> io::Result<()> {
    if !at.0.is_multiple_of(8) || !bytes.len().is_multiple_of(8) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (number, word) in bytes.chunks_exact(8).enumerate() {
        let mut value = [0; 8];
        value.copy_from_slice(word);
        let address = at.0.wrapping_add(8 * number as u64);
        // Safety: POKEDATA takes both arguments as values; the memory it writes is the other process's.
        let result = unsafe {
            libc::ptrace(libc::PTRACE_POKEDATA, tid.0, address, u64::from_ne_bytes(value))
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
