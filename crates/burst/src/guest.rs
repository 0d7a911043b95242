//! Brings a library and shared memory into a running process, by system calls of one of its threads.
//!
//! What for: the allocation agent in a program that is attached to. What not: what the library is, its relocation,
//! and the redirection of the program's calls to it (`collect::heap::attach`).
//!
//! The process executes nothing for us except system calls, so the state of its threads does not matter: a thread
//! inside `malloc` or the dynamic linker is as good as any. The process itself makes the library's file in memory, so
//! its user and its mount name space need not see ours. A signal may end the calls at any step; the next visit
//! continues from there. If we die in between, unused mappings and up to two descriptors stay behind.

use std::time::{Duration, Instant};

use base::{FileOffset, Pid, RemoteAddr, Tid};
use sys::shared::SharedMemory;
use sys::trace;
use tracee::status::{field, status_of};

use crate::code_map::Places;
use crate::program::{end, may_be_traced};
use crate::quiet_stop::stop;
use crate::refused::Refused;
use crate::remote_call::{CallError, RemoteCalls, are_filtered};
use crate::visit::{Visit, Watch};

/// A piece of the library's file and its destination.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// From the library's first address on; a multiple of the page size.
    pub at: u64,
    /// In the file; a multiple of the page size.
    pub offset: FileOffset,
    /// Bytes.
    pub length: u64,
    /// Whether code runs there.
    pub executable: bool,
    /// Whether it may be written.
    pub writable: bool,
}

/// What to bring in.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What the library's mappings are called.
    pub name: &'a str,
    /// Its file.
    pub file: &'a [u8],
    /// Its pieces. The gaps between them are zeroed memory.
    pub segments: &'a [Segment],
    /// Bytes from its first address to its last.
    pub span: u64,
    /// Further pages of its code, at addresses that must be free.
    pub pages: &'a [RemoteAddr],
    /// Where in the file these begin.
    pub page_offset: FileOffset,
    /// Bytes of shared memory.
    pub memory_bytes: usize,
}

/// What is now in the process, permanently.
#[derive(Debug)]
pub struct Guest {
    /// The library's first address.
    pub base: RemoteAddr,
    /// The shared memory.
    pub memory: SharedMemory,
    /// Where it lies in the process.
    pub memory_at: RemoteAddr,
}

/// Why nothing was brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotBrought {
    /// The process or its threads may not be traced.
    #[error("{}", words(*.0))]
    Refused(Refused),
    /// The process locks its memory (mlockall(2)), so all of the mapping would be resident.
    #[error("the process locks its memory, and would lock all of the library's with it")]
    LockedMemory,
    /// No thread could be borrowed.
    #[error(
        "in {0:?} no thread of the process could be stopped unnoticed: all waited in calls that would end early, or too often"
    )]
    NoThread(Duration),
}

fn words(refused: Refused) -> String {
    match refused {
        Refused::SystemCallFilter => {
            "the process filters its own system calls (seccomp)".to_owned()
        }
        Refused::NotAllowed => {
            "the process may not be traced by this user, or is traced".to_owned()
        }
        Refused::NoRoom => "the kernel would not let the process map the library".to_owned(),
        Refused::ShadowStack => "the processor keeps a second stack of returns for it".to_owned(),
        other => format!("the process could not be borrowed ({})", other.word()),
    }
}

/// Until then we borrow only threads that cannot notice it, even if we are killed.
const LAST_RESORT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(2);
/// The page size of every x86-64 kernel.
const PAGE: u64 = 4096;

/// Brings a library and shared memory into a process.
///
/// # Errors
/// That nothing was brought within `patience`, and why. The process runs on in any case.
pub fn bring(pid: Pid, wanted: &Wanted<'_>, patience: Duration) -> Result<Guest, NotBrought> {
    // A thread of its own: when it ends, the kernel lets go of whatever it still traces.
    std::thread::scope(|scope| {
        let work = std::thread::Builder::new().name("bringer".to_owned());
        let began = work.spawn_scoped(scope, || bring_here(pid, wanted, patience));
        match began.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => Err(NotBrought::Refused(Refused::NotRunning)),
        }
    })
}

fn bring_here(pid: Pid, wanted: &Wanted<'_>, patience: Duration) -> Result<Guest, NotBrought> {
    may_be_traced(pid).map_err(NotBrought::Refused)?;
    let status = status_of(pid, Tid(pid.0));
    if field(&status, "VmLck:").is_some_and(|locked| locked != "0 kB") {
        return Err(NotBrought::LockedMemory);
    }
    if !sys::process::has_room_for(pid, wanted.span + wanted.memory_bytes as u64) {
        return Err(NotBrought::Refused(Refused::NoRoom));
    }
    let not_now = NotBrought::Refused(Refused::NotRunning);
    let watch = Watch::new().map_err(|_| not_now)?;
    let mut arrival = Arrival::default();
    let mut reason = NotBrought::NoThread(patience);
    let began = Instant::now();
    while began.elapsed() < patience {
        let threads = tracee::threads_of(pid).unwrap_or_default();
        // Any thread may make the library's calls later: so all must be free of filters.
        let filtered = |tid: &Tid| are_filtered(&status_of(pid, *tid));
        if threads.iter().any(filtered) {
            return Err(NotBrought::Refused(Refused::SystemCallFilter));
        }
        for tid in threads {
            watch.release();
            let visit = match stop(pid, tid, &watch, began.elapsed() > LAST_RESORT) {
                Ok(Some(visit)) => visit,
                Ok(None) => continue,
                // The refusal of one thread tells nothing about the process: kernel workers for it (io_uring) cannot
                // be traced.
                Err(refused) => {
                    reason = NotBrought::Refused(refused);
                    continue;
                }
            };
            match arrival.come(pid, visit, wanted) {
                Ok(()) => return arrival.finish().ok_or(not_now),
                Err(CallError::Refused) => return Err(NotBrought::Refused(Refused::NoRoom)),
                Err(CallError::Lost) => return Err(not_now),
                Err(CallError::Gone | CallError::Stopped(_) | CallError::Trace) => {}
            }
        }
        std::thread::sleep(PAUSE);
    }
    while watch.is_waiting() && began.elapsed() < 2 * patience {
        watch.release();
        std::thread::sleep(PAUSE);
    }
    Err(reason)
}

/// The progress of one process.
#[derive(Default)]
struct Arrival {
    base: Option<RemoteAddr>,
    file: Option<u64>,
    segments: usize,
    pages: usize,
    has_library: bool,
    descriptor: Option<u64>,
    memory: Option<SharedMemory>,
    memory_at: Option<RemoteAddr>,
}

impl Arrival {
    /// Continues, with calls of a stopped thread; then lets it go.
    fn come(&mut self, pid: Pid, visit: Visit<'_>, wanted: &Wanted<'_>) -> Result<(), CallError> {
        let Some(cave) = Places::of(pid).cave() else {
            visit.leave(0);
            return Err(CallError::Refused);
        };
        let made = match RemoteCalls::begin(visit.tid, &visit.native, cave, &visit.watch.alarm) {
            Ok(calls) => {
                let made = self.advance(pid, visit.tid, &calls, wanted);
                match made {
                    // What the process has so far must not stay in it.
                    Err(CallError::Refused) => {
                        self.remove(&calls, wanted).and(Err(CallError::Refused))
                    }
                    made => made,
                }
            }
            Err(_) => Err(CallError::Trace),
        };
        end(visit, &made);
        made
    }

    fn finish(self) -> Option<Guest> {
        let Arrival { base, memory, memory_at, .. } = self;
        Some(Guest { base: base?, memory: memory?, memory_at: memory_at? })
    }

    fn advance(
        &mut self,
        pid: Pid,
        tid: Tid,
        calls: &RemoteCalls<'_>,
        wanted: &Wanted<'_>,
    ) -> Result<(), CallError> {
        if self.base.is_some_and(|base| !is_there(pid, base, wanted)) {
            // The process has executed another program meanwhile; nothing of ours is in it.
            *self = Arrival::default();
            return Err(CallError::Refused);
        }
        if !self.has_library {
            self.map_library(pid, tid, calls, wanted)?;
        }
        self.map_memory(pid, calls, wanted.memory_bytes)
    }

    fn map_library(
        &mut self,
        pid: Pid,
        tid: Tid,
        calls: &RemoteCalls<'_>,
        wanted: &Wanted<'_>,
    ) -> Result<(), CallError> {
        let base = match self.base {
            Some(base) => base,
            None => {
                let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
                let got = calls.call(MMAP, &[0, wanted.span, READ_WRITE, flags, u64::MAX, 0])?;
                RemoteAddr(got)
            }
        };
        if self.base.is_none() {
            trace::overwrite(tid, base, &padded(wanted.name)).map_err(|_| CallError::Refused)?;
            self.base = Some(base);
        }
        let file = match self.file {
            Some(file) => file,
            None => self.make_file(pid, base, calls, wanted)?,
        };
        while let Some(segment) = wanted.segments.get(self.segments) {
            let protection = match (segment.executable, segment.writable) {
                (true, _) => READ_EXECUTE,
                (_, true) => READ_WRITE,
                _ => READ_ONLY,
            };
            let at = base.0 + segment.at;
            let flags = MAP_PRIVATE | MAP_FIXED;
            let arguments = [at, segment.length, protection, flags, file, segment.offset.0];
            calls.call(MMAP, &arguments)?;
            self.segments += 1;
        }
        while let Some(page) = wanted.pages.get(self.pages) {
            let flags = MAP_PRIVATE | MAP_FIXED_NOREPLACE;
            let arguments = [page.0, PAGE, READ_EXECUTE, flags, file, wanted.page_offset.0];
            let got = calls.call(MMAP, &arguments)?;
            if got != page.0 {
                // Kernels before 4.17 take the address as a hint only.
                calls.call(MUNMAP, &[got, PAGE])?;
                return Err(CallError::Refused);
            }
            self.pages += 1;
        }
        calls.call(CLOSE, &[file])?;
        (self.file, self.has_library) = (None, true);
        Ok(())
    }

    /// Makes the process create the library's file; its name is at `base` for now.
    fn make_file(
        &mut self,
        pid: Pid,
        base: RemoteAddr,
        calls: &RemoteCalls<'_>,
        wanted: &Wanted<'_>,
    ) -> Result<u64, CallError> {
        let file = make_memory_file(calls, base.0)?;
        self.file = Some(file);
        let content = SharedMemory::of_descriptor(pid, file, wanted.file.len());
        content.map_err(|_| CallError::Refused)?.write(0, wanted.file);
        Ok(file)
    }

    fn map_memory(
        &mut self,
        pid: Pid,
        calls: &RemoteCalls<'_>,
        bytes: usize,
    ) -> Result<(), CallError> {
        let descriptor = match self.descriptor {
            Some(descriptor) => descriptor,
            None => make_memory_file(calls, calls.name())?,
        };
        self.descriptor = Some(descriptor);
        if self.memory.is_none() {
            let memory = SharedMemory::of_descriptor(pid, descriptor, bytes);
            self.memory = Some(memory.map_err(|_| CallError::Refused)?);
        }
        if self.memory_at.is_none() {
            let arguments = [0, bytes as u64, READ_WRITE, MAP_SHARED, descriptor, 0];
            self.memory_at = Some(RemoteAddr(calls.call(MMAP, &arguments)?));
        }
        calls.call(CLOSE, &[descriptor])?;
        self.descriptor = None;
        Ok(())
    }

    /// Removes what the process has so far; nothing of it is in use.
    fn remove(&mut self, calls: &RemoteCalls<'_>, wanted: &Wanted<'_>) -> Result<(), CallError> {
        if let Some(at) = self.memory_at.take() {
            calls.call(MUNMAP, &[at.0, wanted.memory_bytes as u64])?;
        }
        for page in wanted.pages.iter().take(std::mem::take(&mut self.pages)) {
            calls.call(MUNMAP, &[page.0, PAGE])?;
        }
        if let Some(base) = self.base.take() {
            calls.call(MUNMAP, &[base.0, wanted.span])?;
        }
        for descriptor in [self.file.take(), self.descriptor.take()].into_iter().flatten() {
            calls.call(CLOSE, &[descriptor])?;
        }
        Ok(())
    }
}

fn make_memory_file(calls: &RemoteCalls<'_>, name: u64) -> Result<u64, CallError> {
    const MFD_CLOEXEC: u64 = 1;
    // Kernels from 6.3 on require this where vm.memfd_noexec is 2. It forbids execve, not PROT_EXEC.
    const MFD_NOEXEC_SEAL: u64 = 8;
    match calls.call(MEMFD_CREATE, &[name, MFD_CLOEXEC]) {
        Err(CallError::Refused) => calls.call(MEMFD_CREATE, &[name, MFD_CLOEXEC | MFD_NOEXEC_SEAL]),
        made => made,
    }
}

/// Whether the first mapping is still there: the name, or the library's first bytes in its place.
fn is_there(pid: Pid, base: RemoteAddr, wanted: &Wanted<'_>) -> bool {
    let mut seen = [0; 8];
    trace::read_pieces(pid, &[(base, seen.len())], &mut seen)
        && (padded(wanted.name).starts_with(&seen) || wanted.file.starts_with(&seen))
}

/// A text with its terminating zero, in whole words.
fn padded(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize((name.len() + 1).next_multiple_of(8), 0);
    bytes
}

// Numbers of arch/x86/entry/syscalls/syscall_64.tbl.
const CLOSE: i64 = 3;
const MMAP: i64 = 9;
const MUNMAP: i64 = 11;
const MEMFD_CREATE: i64 = 319;
// include/uapi/asm-generic/mman-common.h, include/uapi/linux/mman.h
const READ_ONLY: u64 = 1;
const READ_WRITE: u64 = 3;
const READ_EXECUTE: u64 = 5;
const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
