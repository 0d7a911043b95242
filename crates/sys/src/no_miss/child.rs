//! The process in which code is timed: it contains only the arena, and its system calls are made through ptrace.
//!
//! What for: the code to time may touch any address, so no address may be in use. The process executes a program of
//! one page (created here, in a memfd), gets the arena, and loses everything else, stack and vDSO included. What not:
//! the code that runs in it (`stub`, `mod`).
//!
//! Assumptions: the system permits executing a memfd (`vm.memfd_noexec` below 2, Linux 6.3) and has `close_range`
//! (5.9). One thread starts and uses a process, because the kernel admits only the tracing thread.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use base::{Pid, RemoteAddr};

use super::stub::PAGE;
use crate::own_child::OwnChild;

/// The descriptors of the process.
const ARENA_FD: i32 = 0;
pub(super) const PAGES_FD: i32 = 1;
const PROGRAM_FD: i32 = 2;

/// First address after those of a process (Documentation/arch/x86/x86_64/mm.rst: 2^47, less a guard page). With
/// five-level tables only an explicit request gets higher ones.
/// here for more with five-level tables.
pub(super) const ADDRESS_END: u64 = (1 << 47) - PAGE as u64;

/// Address of the one-page program until the arena exists: the lowest that `vm.mmap_min_addr` allows by default.
const PROGRAM: u64 = 0x1_0000;
/// Most CPU time of a process that nothing else ends, seconds.
const CPU_SECONDS: u64 = 5;

/// A traced child. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Child {
    process: OwnChild,
    /// Address of its `syscall; int3`.
    call: RemoteAddr,
}

/// Why it stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// This signal, with its `si_code` and `si_addr`.
    Signal(i32, i32, RemoteAddr),
    /// Before a system call, which is not made.
    SystemCall,
    /// It has ended.
    Ended,
}

/// A memfd; freed with the last descriptor.
pub(super) fn memory(length: usize) -> io::Result<File> {
    // Safety: a name that ends with 0, and no pointer else.
    let fd = unsafe { libc::memfd_create(c"fathom-no-miss".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // Safety: the descriptor was just made and belongs to nobody else.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(length as u64)?;
    Ok(file)
}

/// An ELF file (System V ABI, "Object Files"; elf(5)) of one executable segment, which is the file itself: `syscall; int3`.
fn program() -> io::Result<File> {
    const HEADERS: u64 = 64 + 56;
    let code = [0x0f, 0x05, 0xcc];
    let mut image = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let halves = |image: &mut Vec<u8>, values: &[u16]| {
        values.iter().for_each(|value| image.extend(value.to_le_bytes()));
    };
    let wide = |image: &mut Vec<u8>, values: &[u64]| {
        values.iter().for_each(|value| image.extend(value.to_le_bytes()));
    };
    // e_type EXEC, e_machine X86_64, e_version; e_entry, e_phoff, e_shoff; e_flags, e_ehsize, e_phentsize, e_phnum, ...
    halves(&mut image, &[2, 62, 1, 0]);
    wide(&mut image, &[PROGRAM + HEADERS, 64, 0]);
    halves(&mut image, &[0, 0, 64, 56, 1, 64, 0, 0]);
    // p_type LOAD, p_flags R+X; p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align
    halves(&mut image, &[1, 0, 5, 0]);
    let bytes = HEADERS + code.len() as u64;
    wide(&mut image, &[0, PROGRAM, PROGRAM, bytes, bytes, PAGE as u64]);
    image.extend(code);
    let file = memory(image.len())?;
    file.write_all_at(&image, 0)?;
    Ok(file)
}

/// Pages of the arena.
pub(super) struct ArenaPart {
    pub(super) offset: usize,
    pub(super) bytes: usize,
    pub(super) use_for: PartUse,
}

/// How a part is mapped, besides readable.
pub(super) enum PartUse {
    /// Writable.
    Data,
    /// Executable.
    Code,
}

impl Child {
    /// Starts a process that holds `parts` of `arena` at `at`, and nothing else.
    pub(super) fn start(
        arena: &File,
        pages: &File,
        at: RemoteAddr,
        parts: &[ArenaPart],
    ) -> io::Result<Child> {
        let program = program()?;
        let descriptors = [arena, pages, &program].map(AsRawFd::as_raw_fd);
        // The child duplicates them to 0, 1 and 2: one that is there already would be closed before its turn.
        if descriptors.iter().any(|fd| *fd <= PROGRAM_FD) {
            return Err(io::Error::other(
                "no standard input, output or error: their numbers are needed",
            ));
        }
        let pid = spawn(&Birth { descriptors, parent: std::process::id() })?;
        let mut child =
            Child { process: OwnChild { pid: Pid(pid) }, call: RemoteAddr(PROGRAM + 64 + 56) };
        match child.wait()? {
            Stop::Signal(libc::SIGTRAP, ..) => {}
            other => return Err(io::Error::other(format!("it did not start: {other:?}"))),
        }
        let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
        child.process.request(libc::PTRACE_SETOPTIONS, options as usize)?;
        for ArenaPart { offset, bytes, use_for } in parts {
            let access = match use_for {
                PartUse::Data => libc::PROT_WRITE,
                PartUse::Code => libc::PROT_EXEC,
            };
            let address = RemoteAddr(at.0 + *offset as u64);
            child.map(address, *bytes, access, ARENA_FD, *offset)?;
        }
        child.call = at;
        let end = parts.iter().map(|part| part.offset + part.bytes).max().unwrap_or(0);
        let end = at.0 + end as u64;
        // The code to time may touch any address: stack, vDSO and the program itself must be gone. From here on system calls
        // are made from the arena.
        child.call(libc::SYS_munmap, [0, at.0, 0, 0, 0, 0])?;
        child.call(libc::SYS_munmap, [end, ADDRESS_END - end, 0, 0, 0, 0])?;
        Ok(child)
    }

    /// Maps a part of one of its files, readable and as `access` says, at a free address.
    pub(super) fn map(
        &mut self,
        at: RemoteAddr,
        bytes: usize,
        access: i32,
        fd: i32,
        offset: usize,
    ) -> io::Result<()> {
        let access = (libc::PROT_READ | access) as u64;
        let flags = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
        let arguments = [at.0, bytes as u64, access, flags, fd as u64, offset as u64];
        self.call(libc::SYS_mmap, arguments).map(|_| ())
    }

    /// Makes it execute a system call. Its registers are lost.
    pub(super) fn call(&mut self, number: libc::c_long, arguments: [u64; 6]) -> io::Result<u64> {
        let mut registers = self.registers()?;
        registers.rax = number as u64;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] =
            arguments;
        registers.rip = self.call.0;
        self.set_registers(&registers)?;
        self.process.request(libc::PTRACE_CONT, 0)?;
        match self.wait()? {
            Stop::Signal(libc::SIGTRAP, ..) => {}
            other => return Err(io::Error::other(format!("it does not answer: {other:?}"))),
        }
        let answer = self.registers()?.rax.cast_signed();
        // The kernel answers -errno in -4095..0 (man 2 syscall).
        match i32::try_from(-answer) {
            Ok(error @ 1..4096) => Err(io::Error::from_raw_os_error(error)),
            _ => Ok(answer.cast_unsigned()),
        }
    }

    /// Continues with its registers until the next stop; system calls stop it and are not made.
    pub(super) fn go(&mut self) -> io::Result<Stop> {
        self.process.request(libc::PTRACE_SYSEMU, 0)?;
        self.wait()
    }

    #[cfg(test)]
    pub(super) fn pid(&self) -> Pid {
        self.process.pid
    }

    fn wait(&self) -> io::Result<Stop> {
        const SYSTEM_CALL: i32 = libc::SIGTRAP | 0x80;
        Ok(match self.process.wait()? {
            None => Stop::Ended,
            Some(SYSTEM_CALL) => Stop::SystemCall,
            Some(signal) => {
                let (code, address) = self.process.signal_info()?;
                Stop::Signal(signal, code, address)
            }
        })
    }

    pub(super) fn registers(&self) -> io::Result<libc::user_regs_struct> {
        self.process.registers()
    }

    pub(super) fn set_registers(&mut self, registers: &libc::user_regs_struct) -> io::Result<()> {
        self.process.set_registers(registers)
    }
}

/// What the child knows of us.
struct Birth {
    descriptors: [i32; 3],
    parent: u32,
}

/// Starts the child in our memory, as vfork(2) does: we wait until it executes or ends. A fork copied the page tables of
/// all of our memory, and each of our pages faulted once more when we wrote to it.
fn spawn(birth: &Birth) -> io::Result<i32> {
    const STACK_BYTES: usize = 64 << 10;
    extern "C" fn start(birth: *mut libc::c_void) -> libc::c_int {
        // Safety: `spawn` passes a live one, and does not return before this process has executed or ended.
        let birth = unsafe { &*birth.cast::<Birth>() };
        become_program(birth.descriptors, birth.parent)
    }
    let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end.cast();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let birth: *const Birth = birth;
    // Safety: the child makes nothing but system calls on a stack of its own, aligned to 16 bytes, and executes or ends. This
    // thread, whose `errno` it shares, stands still until then, so stack and argument live long enough.
    let pid = unsafe { libc::clone(start, top, flags, birth.cast_mut().cast()) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
}

/// The child's work before its execution. It dies with its parent, by `PDEATHSIG` before it is traced.
fn become_program([arena, pages, program]: [i32; 3], parent: u32) -> ! {
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let time = libc::rlimit { rlim_cur: CPU_SECONDS, rlim_max: CPU_SECONDS };
    let name = [c"fathom-no-miss".as_ptr(), std::ptr::null()];
    let environment: [*const libc::c_char; 1] = [std::ptr::null()];
    // Safety: system calls with pointers to live values of the right types; `_exit` runs no handlers of the program in
    // whose memory we are.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid().cast_unsigned() != parent {
            libc::_exit(1);
        }
        // A session of its own: what the terminal signals is not for it.
        libc::setsid();
        libc::setpriority(libc::PRIO_PROCESS, 0, 19);
        libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
        libc::setrlimit(libc::RLIMIT_CPU, &raw const time);
        let ready = libc::dup2(arena, ARENA_FD) >= 0
            && libc::dup2(pages, PAGES_FD) >= 0
            && libc::dup3(program, PROGRAM_FD, libc::O_CLOEXEC) >= 0
            && libc::syscall(libc::SYS_close_range, PROGRAM_FD + 1, u32::MAX, 0) == 0
            && libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == 0;
        if ready {
            let (arguments, environment) = (name.as_ptr(), environment.as_ptr());
            let path = c"".as_ptr();
            let how = libc::AT_EMPTY_PATH;
            libc::syscall(libc::SYS_execveat, PROGRAM_FD, path, arguments, environment, how);
        }
        libc::_exit(1)
    }
}
