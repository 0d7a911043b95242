//! A process of ours that executes given code with given registers, one instruction or one stretch at a time.
//!
//! What for: comparing what machine code does with what we believe it does (tests of `x86`). What not: isolating code
//! that makes system calls: only [`Sandbox::run`] stops these at their entry. Assumptions: the process is forked and
//! never executes our program again, so it may be forked from a program with threads. One thread uses a sandbox from
//! start to end, because the kernel admits only the tracing thread.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

use base::{Pid, RemoteAddr};

use crate::own_child::OwnChild;

/// Memory of the sandbox, readable, writable and executable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Where, a multiple of the page size.
    pub address: RemoteAddr,
    /// How many bytes, a multiple of the page size.
    /// Its length.
    pub bytes: usize,
}

/// Registers of the stopped process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registers {
    /// rax rcx rdx rbx rsp rbp rsi rdi r8..r15.
    pub general: [u64; 16],
    /// Instruction pointer.
    pub rip: RemoteAddr,
    /// Flags.
    pub flags: u64,
    /// Base of fs.
    pub fs_base: RemoteAddr,
    /// Base of gs.
    pub gs_base: RemoteAddr,
}

/// Why the process stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// It executed one instruction, or one iteration of a repeated one.
    Step,
    /// It is about to make the system call with this number.
    SystemCall(u64),
    /// It faulted: the signal and its address (`si_addr`).
    Signal(i32, RemoteAddr),
    /// It has ended.
    Ended,
}

/// A stopped process with memory that we share.
#[derive(Debug)]
pub struct Sandbox {
    process: OwnChild,
    start: *mut u8,
    length: usize,
}

impl Sandbox {
    /// Forks the process and maps `pieces`, one after the other in [`memory`](Sandbox::memory).
    ///
    /// # Errors
    /// The kernel's; an address that is taken.
    pub fn start(pieces: &[Piece]) -> io::Result<Sandbox> {
        let length = pieces.iter().map(|piece| piece.bytes).sum();
        // Safety: a name that ends with 0, and no pointer else.
        let fd = unsafe { libc::memfd_create(c"sandbox".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // Safety: the descriptor was just made and belongs to nobody else.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(length as u64)?;
        let start = map(std::ptr::null_mut(), length, 0, &file, 0)?;
        // Safety: the child calls nothing but system calls and never returns.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            stand_by(pieces, &file);
        }
        let sandbox = Sandbox { process: OwnChild { pid: Pid(pid) }, start, length };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        match sandbox.wait()? {
            Stopped::Signal(libc::SIGSTOP, _) => {}
            other => return Err(io::Error::other(format!("the sandbox did not start: {other:?}"))),
        }
        let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
        sandbox.process.request(libc::PTRACE_SETOPTIONS, options as usize)?;
        Ok(sandbox)
    }

    /// The bytes of all pieces.
    pub fn memory(&mut self) -> &mut [u8] {
        // Safety: our live mapping of that length. The process, which shares it, stands still except inside of `go`,
        // which borrows `self` exclusively as well.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }

    /// Executes one instruction.
    ///
    /// # Errors
    /// The kernel's.
    pub fn step(&mut self) -> io::Result<Stopped> {
        self.go(libc::PTRACE_SINGLESTEP)
    }

    /// Runs up to the entry of a system call, which is not made, or a signal.
    ///
    /// # Errors
    /// The kernel's.
    pub fn run(&mut self) -> io::Result<Stopped> {
        self.go(libc::PTRACE_SYSEMU)
    }

    fn go(&mut self, how: libc::c_uint) -> io::Result<Stopped> {
        self.process.request(how, 0)?;
        self.wait()
    }

    fn wait(&self) -> io::Result<Stopped> {
        const SYSTEM_CALL: i32 = libc::SIGTRAP | 0x80;
        Ok(match self.process.wait()? {
            None => Stopped::Ended,
            Some(SYSTEM_CALL) => Stopped::SystemCall(self.process.registers()?.orig_rax),
            Some(libc::SIGTRAP) => Stopped::Step,
            Some(signal) => Stopped::Signal(signal, self.process.signal_info()?.1),
        })
    }

    /// The registers.
    ///
    /// # Errors
    /// The kernel's.
    pub fn registers(&self) -> io::Result<Registers> {
        let r = self.process.registers()?;
        Ok(Registers {
            general: [
                r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
                r.r12, r.r13, r.r14, r.r15,
            ],
            rip: RemoteAddr(r.rip),
            flags: r.eflags,
            fs_base: RemoteAddr(r.fs_base),
            gs_base: RemoteAddr(r.gs_base),
        })
    }

    /// Sets the registers.
    ///
    /// # Errors
    /// The kernel's; it refuses bases outside of user space.
    pub fn set_registers(&mut self, registers: &Registers) -> io::Result<()> {
        let mut r = self.process.registers()?;
        [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ] = registers.general;
        r.rip = registers.rip.0;
        r.eflags = registers.flags;
        r.fs_base = registers.fs_base.0;
        r.gs_base = registers.gs_base.0;
        self.process.set_registers(&r)
    }

    /// x87, vector and mask registers as an XSAVE image in standard format (SDM vol. 1, 13.4); without XSAVE an FXSAVE
    /// image, which is its first 512 bytes, with an empty header behind.
    ///
    /// # Errors
    /// The kernel's.
    pub fn extended(&self) -> io::Result<Vec<u8>> {
        let mut image = vec![0; 16 << 10];
        let length = match self.extended_request(libc::PTRACE_GETREGSET, XSTATE, &mut image) {
            Err(error) if lacks_xsave(&error) => {
                let legacy = &mut image[..LEGACY_BYTES];
                self.extended_request(libc::PTRACE_GETREGSET, FPREGS, legacy)? + XSAVE_HEADER_BYTES
            }
            length => length?,
        };
        image.truncate(length);
        Ok(image)
    }

    /// Sets them from such an image.
    ///
    /// # Errors
    /// The kernel's; it refuses images with reserved bits.
    pub fn set_extended(&mut self, image: &[u8]) -> io::Result<()> {
        let mut image = image.to_vec();
        match self.extended_request(libc::PTRACE_SETREGSET, XSTATE, &mut image) {
            Err(error) if lacks_xsave(&error) => {
                image.truncate(LEGACY_BYTES);
                self.extended_request(libc::PTRACE_SETREGSET, FPREGS, &mut image).map(|_| ())
            }
            done => done.map(|_| ()),
        }
    }

    fn extended_request(
        &self,
        request: libc::c_uint,
        set: usize,
        image: &mut [u8],
    ) -> io::Result<usize> {
        let mut piece = libc::iovec { iov_base: image.as_mut_ptr().cast(), iov_len: image.len() };
        // Safety: the vector covers `image`, exclusively borrowed, and lives through the call.
        let done = unsafe { libc::ptrace(request, self.process.pid.0, set, &raw mut piece) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(piece.iov_len) }
    }
}

/// Sets of registers (include/uapi/linux/elf.h): NT_X86_XSTATE, NT_PRFPREG.
const XSTATE: usize = 0x202;
const FPREGS: usize = 2;
/// Bytes of an FXSAVE image, and of the header behind it in an XSAVE image.
const LEGACY_BYTES: usize = 512;
const XSAVE_HEADER_BYTES: usize = 64;

/// Before Sandy Bridge processors have no XSAVE: the kernel then has no such set.
fn lacks_xsave(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Safety: exactly the range that mmap gave us; no slice of it outlives `self`.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// Where an XSAVE image in standard format keeps a state component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateComponent {
    /// Bytes from the start of the image.
    pub offset: usize,
    /// Its length.
    pub bytes: usize,
}

/// A state component (2: upper halves of ymm0..15, 5: k0..7, 6: upper halves of zmm0..15, 7: zmm16..31) in an XSAVE
/// image of this machine; `None` where it has none (SDM vol. 1, 13.4.2; vol. 2, CPUID leaf 0DH).
#[must_use]
pub fn component(number: u32) -> Option<StateComponent> {
    if !is_x86_feature_detected!("xsave") {
        return None;
    }
    // Safety: the processor has XSAVE, and the kernel has switched it on (CPUID.1:ECX.OSXSAVE, which is asked above).
    let switched_on = unsafe { state_components() };
    let [bytes, offset, ..] = crate::kernels::cpuid(0xd, number)?;
    (switched_on >> number & 1 != 0)
        .then_some(StateComponent { offset: offset as usize, bytes: bytes as usize })
}

/// XCR0: what the kernel saves and lets programs use.
///
/// # Safety
/// The processor has XSAVE, and the kernel has switched it on.
#[target_feature(enable = "xsave")]
unsafe fn state_components() -> u64 {
    // Safety: register 0 exists where XSAVE does.
    unsafe { std::arch::x86_64::_xgetbv(0) }
}

fn map(
    at: *mut libc::c_void,
    length: usize,
    flags: libc::c_int,
    file: &File,
    offset: i64,
) -> io::Result<*mut u8> {
    let executable = if at.is_null() { 0 } else { libc::PROT_EXEC };
    let protection = libc::PROT_READ | libc::PROT_WRITE | executable;
    // Safety: a new shared mapping; with an address, MAP_FIXED_NOREPLACE replaces nothing.
    let start = unsafe {
        libc::mmap(at, length, protection, libc::MAP_SHARED | flags, file.as_raw_fd(), offset)
    };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start.cast()) }
}

/// What the child does: maps, asks to be traced, and stops permanently.
fn stand_by(pieces: &[Piece], file: &File) -> ! {
    let mut offset = 0;
    let mut failed = false;
    for piece in pieces {
        let at = piece.address.0 as *mut libc::c_void;
        failed |= map(at, piece.bytes, libc::MAP_FIXED_NOREPLACE, file, offset).is_err();
        offset += piece.bytes as i64;
    }
    // Safety: system calls without pointers; `_exit` runs no handlers of the program that we are a copy of.
    unsafe {
        if !failed {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
        }
        libc::_exit(1)
    }
}
