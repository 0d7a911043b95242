//! A system call within a burst: the thread makes it natively, and goes on behind it in translated code.
//!
//! What for: threads that meet at barriers, and programs that call the kernel often. A burst that begins anywhere and
//! ends at the next call sees half of a run of a loop, and never the code right behind a call. What not: calls that may
//! change the code that runs, make threads or processes, or that the kernel does not restart unchanged after a stop.
//!
//! Translated code stops at the entry of a call without effect (getpid, `x86::translate::common_code`). A tracer may
//! replace the call at that stop: number and arguments become those of the program, and the address to return to the
//! one behind its `syscall` instruction. From then on the thread is native, exactly as if it had made the call itself.
//! If we die now, it stays so. The stop at the end of the call leads back into translated code.

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use base::{Nanos, RemoteAddr};
use facts::BurstEnd;
use sys::process;
use sys::trace::{self, Happened, Registers, Stop};
use x86::{CodeSource, Gpr};

use super::{Inside, Last, PATIENCE, enter_at};
use crate::cache::Native;
use crate::code_map::CodeMap;

/// A burst goes on behind so many calls: each costs the thread about as much as a stop for new code.
const MOST_CALLS: u32 = 8;
/// A thread that waits in a call longer than this leaves the burst there.
const LONGEST_WAIT: Duration = Duration::from_millis(1);
/// `syscall` (SDM vol. 2).
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// How a call behaves (numbers of arch/x86/entry/syscalls/syscall_64.tbl).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    /// It may wait for long. The kernel restarts it unchanged after a stop without a signal (signal(7), "Interruption of
    /// system calls and library functions by stop signals").
    Waits,
    /// It waits for nothing but a disk, and no stop cuts it short.
    Brief,
}

/// Behind which calls a burst may go on, by number and arguments. `replaces`: code, or memory of ours, lies there. `is_on_disk`: no
/// stop cuts reads and writes of this open file short.
fn of(
    [rax, rdi, rsi, rdx, r10]: [u64; 5],
    replaces: impl Fn(u64, u64) -> bool,
    is_on_disk: impl Fn(u64) -> bool,
) -> Option<Call> {
    const MMAP: u64 = 9;
    // include/uapi/asm-generic/mman-common.h, include/uapi/linux/mman.h
    const PROT_EXEC: u64 = 4;
    const MAP_FIXED: u64 = 0x10;
    // It replaces what lies at an address of the caller's.
    const MREMAP_FIXED: u64 = 2;
    const MREMAP: u64 = 25;
    const MPROTECT: u64 = 10;
    match rax {
        // poll nanosleep wait4 futex clock_nanosleep waitid ppoll
        7 | 35 | 61 | 202 | 230 | 247 | 271 => Some(Call::Waits),
        // read pread64
        0 | 17 => (!replaces(rsi, rdx) && is_on_disk(rdi)).then_some(Call::Brief),
        // write pwrite64 writev
        1 | 18 | 20 => is_on_disk(rdi).then_some(Call::Brief),
        MMAP if rdx & PROT_EXEC != 0 => None,
        MMAP if r10 & MAP_FIXED == 0 => Some(Call::Brief),
        MREMAP if r10 & MREMAP_FIXED != 0 => None,
        MPROTECT if rdx & PROT_EXEC != 0 => None,
        // munmap madvise
        MMAP | MREMAP | MPROTECT | 11 | 28 => (!replaces(rdi, rsi)).then_some(Call::Brief),
        // rt_sigprocmask that asks for nothing (SIG_SETMASK, 2, is the last that it knows): so our heap library and others find out
        // whether memory can be read.
        14 if rdi as u32 > 2 && rsi != 0 => Some(Call::Brief),
        // lseek brk sched_yield getpid gettimeofday getrusage gettid time clock_gettime getcpu getrandom
        8 | 12 | 24 | 39 | 96 | 98 | 186 | 201 | 228 | 309 | 318 => Some(Call::Brief),
        _ => None,
    }
}

impl Inside<'_, '_> {
    /// Makes the call at which the thread has left translated code, and goes on behind it. `None` if the burst ends in front
    /// of it.
    pub(super) fn passes_call(
        &mut self,
        native: &Native,
        code: &CodeMap,
        next_id: &mut u32,
    ) -> Option<ControlFlow<Last>> {
        let at = native.registers.instruction_pointer();
        let is_call = code.bytes_at(at).starts_with(&SYSCALL);
        let held = |one: Gpr| native.registers.general(one.number());
        if !is_call || self.calls >= MOST_CALLS {
            return None;
        }
        let tid = self.visit.as_ref()?.tid;
        let replaces = |start: u64, bytes: u64| {
            let start = RemoteAddr(start);
            code.has_code_in(start, bytes) || self.cache.space.lies_in(start, bytes)
        };
        let is_on_disk = |descriptor: u64| process::is_never_cut_short(tid, descriptor as u32);
        let arguments = [Gpr::RAX, Gpr::RDI, Gpr::RSI, Gpr::RDX, Gpr::R10].map(held);
        let call = of(arguments, replaces, is_on_disk)?;
        let behind = RemoteAddr(at.0 + SYSCALL.len() as u64);
        let pointer = self.cache.record_pointer(native);
        // All records are complete, and stay so if the burst ends here.
        self.words = self.cache.complete_last_record(native);
        let before = self.used_by_then();
        let came = match self.catches_exits {
            true => {
                let mut made = native.registers;
                made.make_system_call(behind);
                made.set(tid).is_ok()
            }
            false => match self.comes_to_call(&native.registers) {
                Continue(()) => true,
                last => return Some(last),
            },
        };
        if !came || trace::resume_to_system_call(tid, 0).is_err() {
            return Some(Break(Last::GONE));
        }
        self.calls += 1;
        self.stops += 1;
        self.note_stand_still();
        let left = self.stopped;
        let stop = self.stop_within(match call {
            Call::Waits => LONGEST_WAIT,
            Call::Brief => PATIENCE,
        });
        self.leave_out(left, before);
        let Some((stop, _)) = stop else { return Some(Break(Last::GONE)) };
        Some(self.goes_on_behind(stop, behind, pointer, code, next_id))
    }

    /// Lets a thread come to its call by itself: at its stop the call without effect is not made, so no other can be in its
    /// place. It stops behind that, and at the entry of its own.
    fn comes_to_call(&mut self, native: &Registers) -> ControlFlow<Last> {
        let Some(tid) = self.visit.as_ref().map(|visit| visit.tid) else {
            return Break(Last::GONE);
        };
        if native.set(tid).is_err() {
            return Break(Last::GONE);
        }
        for _ in 0..2 {
            if trace::resume_to_system_call(tid, 0).is_err() {
                return Break(Last::GONE);
            }
            self.stops += 1;
            self.note_stand_still();
            match self.wait(PATIENCE) {
                Some(Happened::Stopped(Stop::SystemCall)) => {}
                Some(Happened::Stopped(stop)) => {
                    return Break(Last { end: BurstEnd::Native, stop: Some(stop), native: None });
                }
                _ => return Break(Last::GONE),
            }
        }
        self.catches_exits = true;
        Continue(())
    }

    /// The time of a call is not of the burst.
    fn leave_out(&mut self, left: std::time::Instant, before: Option<Nanos>) {
        let took = self.stopped.saturating_duration_since(left);
        self.in_calls += Nanos(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.until += took;
        let after = self.used_by_then();
        let its = before.zip(after).map(|(before, after)| after - before);
        self.used = self.used.zip(its).map(|(used, its)| used + its);
    }

    /// The thread has made its call and stands still, in its native state.
    fn goes_on_behind(
        &mut self,
        stop: Stop,
        behind: RemoteAddr,
        pointer: u64,
        code: &CodeMap,
        next_id: &mut u32,
    ) -> ControlFlow<Last> {
        let last = |end| Break(Last { end, stop: Some(stop), native: None });
        let Some(tid) = self.visit.as_ref().map(|visit| visit.tid) else {
            return Break(Last::GONE);
        };
        let Ok(registers) = Registers::of(tid) else { return Break(Last::GONE) };
        // A call that is to be restarted is not over.
        let is_over = stop == Stop::SystemCall && !registers.restarts_system_call();
        let is_there = registers.instruction_pointer() == behind && code.is_there(behind);
        if !is_over || !is_there || !self.has_time() {
            return last(BurstEnd::Native);
        }
        let entry = match self.cache.enter(code, behind, next_id) {
            Ok(entry) => entry,
            Err(refused) => {
                self.missing = Some((behind, refused));
                return last(BurstEnd::Native);
            }
        };
        let next = enter_at(self.cache, &registers, entry, pointer);
        if next.set(tid).is_err() || trace::resume_to_system_call(tid, 0).is_err() {
            return Break(Last::GONE);
        }
        self.stops += 1;
        self.entries += 1;
        self.note_stand_still();
        Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_change_code_or_are_cut_short_end_a_burst() {
        let call = |rax, rdx, r10, replaces, on_disk| {
            of([rax, 0, 0, rdx, r10], |_, _| replaces, |_| on_disk)
        };
        let brief = |rax, rdx, r10| call(rax, rdx, r10, false, false);
        let in_code = |rax, rdx, r10| call(rax, rdx, r10, true, true);
        assert_eq!(brief(202, 4, 0), Some(Call::Waits), "futex");
        assert_eq!(brief(9, 3, 0x22), Some(Call::Brief), "mmap");
        assert_eq!(in_code(9, 3, 0x22), Some(Call::Brief), "mmap, where the kernel likes");
        assert_eq!(brief(9, 3, 0x32), Some(Call::Brief), "mmap in place of data");
        assert_eq!(in_code(9, 3, 0x32), None, "mmap in place of code");
        assert_eq!(brief(9, 7, 0x22), None, "mmap of code");
        assert_eq!((brief(11, 0, 0), in_code(11, 0, 0)), (Some(Call::Brief), None), "munmap");
        assert_eq!((brief(28, 4, 0), in_code(28, 4, 0)), (Some(Call::Brief), None), "madvise");
        // Arrays that grow, and heaps of threads.
        assert_eq!((brief(25, 8192, 1), in_code(25, 8192, 1)), (Some(Call::Brief), None), "mremap");
        assert_eq!(brief(25, 8192, 3), None, "mremap to an address");
        assert_eq!((brief(10, 3, 0), in_code(10, 3, 0)), (Some(Call::Brief), None), "mprotect");
        assert_eq!(brief(10, 5, 0), None, "mprotect makes code");
        let masks = |how, set| of([14, how, set, 0, 8], |_, _| false, |_| false);
        assert_eq!(masks(u64::MAX, 4096), Some(Call::Brief), "is this memory?");
        assert_eq!([masks(2, 4096), masks(u64::MAX, 0)], [None; 2], "rt_sigprocmask");
        let on_disk = |rax| call(rax, 4096, 0, false, true);
        let moves = [0, 1, 17, 18, 20];
        assert!(moves.iter().all(|rax| on_disk(*rax) == Some(Call::Brief)), "read and write");
        assert!(moves.iter().all(|rax| brief(*rax, 4096, 0).is_none()), "of a pipe");
        assert_eq!((in_code(0, 4096, 0), in_code(1, 4096, 0)), (None, Some(Call::Brief)));
        // readv rt_sigreturn clone vfork execve exit arch_prctl epoll_wait clone3, and futex of x32
        let ending = [19, 15, 56, 58, 59, 60, 158, 232, 435, 0x4000_0000 + 202, u64::MAX];
        assert!(ending.iter().all(|rax| brief(*rax, 0, 0).is_none()));
    }
}
