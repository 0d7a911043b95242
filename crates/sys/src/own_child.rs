//! A process that we forked and that asked to be traced.
//!
//! What for: the common part of `sandbox` and `no_miss`: wait for a stop, read registers, end it. What not: other
//! programs (`trace`), for which we must not wait without a deadline, and which we must not kill. Assumption: one
//! thread forks and uses it, because the kernel admits only the tracing thread.

use std::io;

use base::{Pid, RemoteAddr};

/// The process; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct OwnChild {
    pub(crate) pid: Pid,
}

impl OwnChild {
    /// A ptrace request whose data is a number.
    pub(crate) fn request(&self, request: libc::c_uint, data: usize) -> io::Result<()> {
        // Safety: none of the requests that come here takes a pointer into our memory.
        if unsafe { libc::ptrace(request, self.pid.0, 0, data) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Waits until it stops; the signal that stopped it, `None` if it has ended.
    pub(crate) fn wait(&self) -> io::Result<Option<i32>> {
        let mut status = 0;
        // Safety: a live out-pointer.
        while unsafe { libc::waitpid(self.pid.0, &raw mut status, libc::__WALL) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status)))
    }

    /// `si_code` and `si_addr` of the signal that stopped it.
    pub(crate) fn signal_info(&self) -> io::Result<(i32, RemoteAddr)> {
        // Safety: plain data, all zeroes is valid.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let to = &raw mut info;
        // Safety: the kernel fills a live structure of exactly this type.
        if unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, self.pid.0, 0, to) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // Safety: the union's part for faults is a pointer; of other signals it is some number, which is no harm.
        Ok((info.si_code, RemoteAddr(unsafe { info.si_addr() } as u64)))
    }

    pub(crate) fn registers(&self) -> io::Result<libc::user_regs_struct> {
        // Safety: plain data, all zeroes is valid.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let to = &raw mut registers;
        // Safety: the kernel fills a live structure of exactly this type.
        if unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.pid.0, 0, to) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(registers)
    }

    /// The kernel refuses bases of segments outside of user space.
    pub(crate) fn set_registers(&self, registers: &libc::user_regs_struct) -> io::Result<()> {
        let mut registers = *registers;
        // No system call to restart.
        registers.orig_rax = u64::MAX;
        let from = &raw const registers;
        // Safety: the kernel reads a live structure of exactly this type.
        if unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.pid.0, 0, from) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl Drop for OwnChild {
    fn drop(&mut self) {
        if self.pid.0 > 0 {
            // Safety: our own child. If it was waited for already, both calls fail without harm: this thread made it, and
            // nobody else in this process waits for children that are not its own.
            unsafe {
                libc::kill(self.pid.0, libc::SIGKILL);
                libc::waitpid(self.pid.0, std::ptr::null_mut(), libc::__WALL);
            }
        }
    }
}
