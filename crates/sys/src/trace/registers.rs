//! All general registers of a stopped thread, to read and to write.
//!
//! What for: the burst tracer moves threads between native and translated code, always by one call that sets all
//! registers, so that a thread never has only half of them. What not: vector registers, which it never changes.

use std::io;

use base::{RemoteAddr, Tid};

/// The general registers of an x86-64 thread (PTRACE_GETREGS, `struct user_regs_struct`).
#[derive(Clone, Copy)]
pub struct Registers(libc::user_regs_struct);

/// __USER_CS (arch/x86/include/asm/segment.h)
const USER_CODE_SEGMENT_64: u64 = 0x33;

/// How many general registers there are.
pub const GENERAL_REGISTERS: usize = 16;

impl Registers {
    /// Reads them from a stopped thread.
    pub fn of(tid: Tid) -> io::Result<Registers> {
        // Safety: plain data, all zeroes is valid.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // Safety: the kernel fills a live structure of exactly this type.
        if unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid.0, 0, &raw mut registers) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Registers(registers))
    }

    /// Gives them to a stopped thread, all at once.
    pub fn set(&self, tid: Tid) -> io::Result<()> {
        // Safety: the kernel reads a live structure of exactly this type; what it does to the other process is the
        // caller's purpose and cannot touch our memory.
        if unsafe { libc::ptrace(libc::PTRACE_SETREGS, tid.0, 0, &raw const self.0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// General register by the number of the encoding (rax rcx rdx rbx rsp rbp rsi rdi r8..r15); others read as 0.
    #[must_use]
    pub fn general(&self, number: usize) -> u64 {
        let mut copy = *self;
        copy.slot(number).map_or(0, |slot| *slot)
    }

    /// Changes a general register; numbers from 16 on are ignored.
    pub fn set_general(&mut self, number: usize, value: u64) {
        if let Some(slot) = self.slot(number) {
            *slot = value;
        }
    }

    fn slot(&mut self, number: usize) -> Option<&mut u64> {
        let r = &mut self.0;
        Some(match number {
            0 => &mut r.rax,
            1 => &mut r.rcx,
            2 => &mut r.rdx,
            3 => &mut r.rbx,
            4 => &mut r.rsp,
            5 => &mut r.rbp,
            6 => &mut r.rsi,
            7 => &mut r.rdi,
            8 => &mut r.r8,
            9 => &mut r.r9,
            10 => &mut r.r10,
            11 => &mut r.r11,
            12 => &mut r.r12,
            13 => &mut r.r13,
            14 => &mut r.r14,
            15 => &mut r.r15,
            _ => return None,
        })
    }

    /// The instruction pointer.
    #[must_use]
    pub fn instruction_pointer(&self) -> RemoteAddr {
        RemoteAddr(self.0.rip)
    }

    /// Changes the instruction pointer.
    pub fn set_instruction_pointer(&mut self, address: RemoteAddr) {
        self.0.rip = address.0;
    }

    /// The flags.
    #[must_use]
    pub fn flags(&self) -> u64 {
        self.0.eflags
    }

    /// The base of fs.
    #[must_use]
    pub fn fs_base(&self) -> RemoteAddr {
        RemoteAddr(self.0.fs_base)
    }

    /// The base of gs.
    #[must_use]
    pub fn gs_base(&self) -> RemoteAddr {
        RemoteAddr(self.0.gs_base)
    }

    /// Changes the base of gs.
    pub fn set_gs_base(&mut self, base: RemoteAddr) {
        self.0.gs_base = base.0;
    }

    /// Whether the gs selector holds one of the thread's own segments.
    #[must_use]
    pub fn has_gs_selector(&self) -> bool {
        self.0.gs != 0
    }

    /// Whether the thread is inside a system call.
    #[must_use]
    pub fn in_system_call(&self) -> bool {
        self.0.orig_rax.cast_signed() >= 0
    }

    /// Tells the kernel that no system call is to be restarted (arch/x86/kernel/signal.c, arch_do_signal_or_restart).
    pub fn forget_system_call(&mut self) {
        self.0.orig_rax = u64::MAX;
    }

    /// Makes a thread at the entry of a system call make another one: that of which it has the number in rax and the
    /// arguments in the other registers, as in front of a `syscall` instruction. It returns to `behind`
    /// (arch/x86/entry/entry_64.S: rcx is the address to return to, r11 the flags).
    pub fn make_system_call(&mut self, behind: RemoteAddr) {
        self.0.orig_rax = self.0.rax;
        self.0.rip = behind.0;
        self.0.rcx = behind.0;
        self.0.r11 = self.0.eflags;
    }

    /// Whether the kernel is about to make its system call again, or to end it with EINTR where a signal has a handler
    /// (include/linux/errno.h).
    #[must_use]
    pub fn restarts_system_call(&self) -> bool {
        self.in_system_call() && (-516..=-512).contains(&self.0.rax.cast_signed())
    }

    /// Marks a call that ended with EINTR because its thread was stopped, although no signal came (signal(7),
    /// "Interruption of system calls and library functions by stop signals"), as one that the kernel must restart
    /// unless a signal has a handler. So it behaves as if there had been no stop. A call with a time limit starts its
    /// full time again, so the thread must have begun to wait just now. Returns whether it was such a call.
    pub fn keep_waiting(&mut self) -> bool {
        // include/uapi/asm-generic/errno-base.h, include/linux/errno.h
        const INTERRUPTED: i64 = -4;
        const RESTART_NO_HANDLER: i64 = -514;
        // All return EINTR only if nothing has been done yet. By arch/x86/entry/syscalls/syscall_64.tbl: accept
        // sendto recvfrom sendmsg recvmsg (sockets with a time limit), semop, rt_sigtimedwait, io_getevents,
        // semtimedop, epoll_wait, epoll_pwait, accept4, io_pgetevents, io_uring_enter, epoll_pwait2.
        const WAITS: [u64; 15] =
            [43, 44, 45, 46, 47, 65, 128, 208, 220, 232, 281, 288, 333, 426, 441];
        let was_cut_short = self.is_64_bit()
            && self.0.rax.cast_signed() == INTERRUPTED
            && WAITS.contains(&self.0.orig_rax);
        if was_cut_short {
            self.0.rax = RESTART_NO_HANDLER.cast_unsigned();
        }
        was_cut_short
    }

    /// Moves a thread that was interrupted in a system call back in front of the call, as the kernel does to restart
    /// it (arch/x86/kernel/signal.c, arch_do_signal_or_restart). False if the call has returned something else.
    pub fn undo_system_call(&mut self) -> bool {
        // include/linux/errno.h
        const RESTART_SYS: i64 = -512;
        const RESTART_NO_INTERRUPT: i64 = -513;
        const RESTART_NO_HANDLER: i64 = -514;
        const RESTART_BLOCK: i64 = -516;
        const RESTART_SYSCALL_NUMBER: u64 = 219; // arch/x86/entry/syscalls/syscall_64.tbl
        const SYSCALL_LENGTH: u64 = 2;
        self.0.rax = match self.0.rax.cast_signed() {
            RESTART_SYS | RESTART_NO_INTERRUPT | RESTART_NO_HANDLER => self.0.orig_rax,
            RESTART_BLOCK => RESTART_SYSCALL_NUMBER,
            _ => return false,
        };
        self.0.rip -= SYSCALL_LENGTH;
        self.forget_system_call();
        true
    }

    /// Whether it runs 64-bit code.
    #[must_use]
    pub fn is_64_bit(&self) -> bool {
        self.0.cs == USER_CODE_SEGMENT_64
    }
}
