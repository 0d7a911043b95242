//! How often a thread natively executes one instruction.
//!
//! What for: a block that runs seldom is a clock of the program. How often it runs per second, in the program's own code
//! and behind a count window that tells what else runs meanwhile, is the native speed of all of that. What not: which
//! block (`cache::counts`), what follows from the count (`analysis::memory::copies`).
//!
//! The jump at the end of the block is counted. Each execution raises an exception, in which the kernel counts; the thread is not
//! stopped. There are two ways, and the kernel ends both when we end, however we do:
//!
//! - On hardware a debug register of the core holds the address (`PERF_TYPE_BREAKPOINT`, perf_event_open(2)). The code stays as it is.
//! - In a virtual machine a probe replaces the jump by a breakpoint (`sys::perf::open_probe`; root or CAP_PERFMON). The kernel does what
//!   the jump would do (`branch_emulate_op`, arch/x86/kernel/uprobes.c): nothing else is executed. The process is not visited until the
//!   jump is back, for a visit compares the code.
//!
//! Never a debug register in a virtual machine, and for the same reason no probe of any other instruction, which the kernel would
//! execute step by step. There the exception leaves the guest, and comes back now and then without the reason for it
//! (dr6 is 0): the guest's kernel takes it for a trap of the program (`exc_debug_user`, arch/x86/kernel/traps.c) and sends
//! SIGTRAP, which ends a program that does not expect it. Seen once in 2.4 million executions on a loaded KVM guest (Intel
//! Emerald Rapids, Linux 6.18). A breakpoint has no reason to lose, and does not leave the guest unless a debugger has that
//! (`vmx_update_exception_bitmap` and `svm_update_exception_bitmap`, arch/x86/kvm).

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use base::{FileOffset, Nanos, Pid, RemoteAddr, Tid};
use sys::kernels::{cpuid, jump};
use sys::perf::{Attr, Event, OpenTarget, open, open_probe};
use sys::process;
use sys::trace::read_memory;
use tracee::maps;

/// A count is looked at so often, and ends with so many executions: chance in more of them is little, and each costs the program an
/// exception. Programs go from one thing to another, and a long count sees what they do on average; but not longer than this.
const PERIOD: Duration = Duration::from_millis(2);
const ENOUGH: u64 = 300;
const PERIODS: u32 = 8;
/// Executions that are counted are so many times their cost apart at least.
const APART: u64 = 2;
/// The cost is the median of so many rounds of so many executions.
const ROUNDS: usize = 9;
const EACH: u64 = 20;
/// A count takes at most one part in so many of our time: a probe is there 5 to 30 ms after we ask for it.
const PART: u32 = 3;
/// A breakpoint (SDM vol. 2, INT3).
const BREAKPOINT: u8 = 0xcc;
/// A jump is back 0.02 to 0.04 ms after a probe begins to close. We look so often, and wait for so long at most.
const LOOK: Duration = Duration::from_micros(50);
const BACK: Duration = Duration::from_secs(1);

/// Counts executions.
#[derive(Debug)]
pub struct NativeCounter {
    /// What one execution takes longer; `None` where none can be counted.
    pub cost: Option<Nanos>,
    by_probes: bool,
    /// When the next count may begin.
    next: Option<Instant>,
}

impl NativeCounter {
    /// Measures the cost, on the calling thread, in 2 ms; of probes in 30 ms.
    #[must_use]
    pub fn measured() -> NativeCounter {
        let by_probes = is_virtual();
        let open_own = |at: RemoteAddr| {
            let (pid, tid) = (Pid(std::process::id().cast_signed()), Tid(0));
            Counted::begin(by_probes, pid, tid, at)
        };
        NativeCounter { cost: measured(open_own), by_probes, next: None }
    }

    /// The least time between two executions that may be counted; 0 where none can be.
    #[must_use]
    pub fn apart(&self) -> Nanos {
        Nanos(self.cost.map_or(0, |cost| APART * cost.0))
    }

    /// How often a thread executes the direct jump at an address in the next time, and how long it ran meanwhile. `None` where that
    /// cannot be counted, or the last count was too short a time ago.
    #[must_use]
    pub fn count(&mut self, (pid, tid): (Pid, Tid), at: RemoteAddr) -> Option<(u64, Nanos)> {
        self.cost?;
        let began = Instant::now();
        if self.next.is_some_and(|next| began < next) {
            return None;
        }
        let counted = Counted::begin(self.by_probes, pid, tid, at)?;
        let [before, _, since] = counted.event.read_timed().ok()?;
        let mut read = counted.event.read_timed();
        for _ in 0..PERIODS {
            std::thread::park_timeout(PERIOD);
            read = counted.event.read_timed();
            if read.as_ref().is_ok_and(|[all, ..]| all.saturating_sub(before) >= ENOUGH) {
                break;
            }
        }
        if !counted.end() {
            // The code would not be as it was.
            self.cost = None;
        }
        self.next = Some(Instant::now() + began.elapsed() * (PART - 1));
        let [executions, _, ran] = read.ok()?;
        Some((executions.saturating_sub(before), Nanos(ran.saturating_sub(since))))
    }
}

/// Executions of an instruction that are being counted.
struct Counted {
    event: Event,
    /// Whose jump is a breakpoint meanwhile.
    probed: Option<(Pid, RemoteAddr)>,
}

impl Counted {
    fn begin(by_probes: bool, pid: Pid, tid: Tid, at: RemoteAddr) -> Option<Counted> {
        if by_probes {
            let (files, offset) = mapped(pid, at)?;
            let event = files.iter().find_map(|file| open_probe(file, offset, tid).ok())?;
            return Some(Counted { event, probed: Some((pid, at)) });
        }
        let event = open(&Attr::executions(at), OpenTarget { tid, cpu: None }).ok()?;
        Some(Counted { event, probed: None })
    }

    /// Counts no more. Whether the code is as it was.
    fn end(self) -> bool {
        let Counted { event, probed } = self;
        let Some((pid, at)) = probed else { return true };
        // The kernel lets the caller wait for long behind that. Without a thread, we wait.
        let _ = std::thread::Builder::new().spawn(move || drop(event));
        let began = Instant::now();
        let is_there = || {
            let mut byte = [BREAKPOINT];
            // Of a process that has ended there is nothing to read.
            read_memory(pid, at, &mut byte) == byte.len() && byte == [BREAKPOINT]
        };
        while is_there() {
            if began.elapsed() > BACK {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }
}

/// Names of the file whose code is at an address, and the offset in it: as this process has it mapped, which is for root alone
/// (proc(5), `map_files`), and by its path, where that is still the same file.
fn mapped(pid: Pid, at: RemoteAddr) -> Option<(Vec<PathBuf>, FileOffset)> {
    let text = maps::read(pid);
    let mut lines = text.lines().filter_map(maps::parse_line);
    let line = lines.find(|line| (line.start..line.end).contains(&at) && line.inode != 0)?;
    let mapping = format!("/proc/{pid}/map_files/{:x}-{:x}", line.start.0, line.end.0);
    let path = PathBuf::from(format!("/proc/{pid}/root{}", line.name));
    let is_same = path.metadata().is_ok_and(|found| found.ino() == line.inode);
    let files = [PathBuf::from(mapping)].into_iter().chain(is_same.then_some(path));
    Some((files.collect(), FileOffset(line.offset.0 + (at.0 - line.start.0))))
}

/// Whether a hypervisor runs this machine: CPUID leaf 1, bit 31 of ecx, which processors leave 0 and hypervisors set (Linux
/// X86_FEATURE_HYPERVISOR).
fn is_virtual() -> bool {
    cpuid(1, 0).is_none_or(|[_, _, ecx, _]| ecx >> 31 == 1)
}

fn measured(begin: impl Fn(RemoteAddr) -> Option<Counted>) -> Option<Nanos> {
    let counted = begin(jump(0)?)?;
    let mut took = [Nanos(0); ROUNDS];
    for round in &mut took {
        let before = process::thread_cpu_time();
        let _ = jump(EACH);
        *round = process::thread_cpu_time() - before;
    }
    took.sort_unstable();
    let all = counted.event.read_timed().ok().map(|[executions, ..]| executions);
    let is_right = counted.end() && all == Some(EACH * ROUNDS as u64);
    is_right.then(|| Nanos((took[ROUNDS / 2].0 / EACH).max(1)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    #[test]
    fn executions_of_a_thread_are_counted() {
        let mut counter = NativeCounter::measured();
        let Some(cost) = counter.cost else {
            println!(
                "skipped: no debug registers for perf_event_open(2), or a virtual machine without CAP_PERFMON"
            );
            return;
        };
        assert!(cost.0 > 0 && counter.apart() > cost);
        let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let own = |path: &std::path::Path| path.file_name()?.to_str()?.parse().ok().map(Tid);
        std::thread::scope(|scope| {
            let (send, tid) = std::sync::mpsc::channel();
            let (done, stop) = (&done, &stop);
            scope.spawn(move || {
                let path = std::fs::read_link("/proc/thread-self").expect("proc(5)");
                send.send(own(&path).expect("a number")).expect("the test waits");
                while !stop.load(Ordering::Relaxed) {
                    // Before the execution: none is counted that is not in here.
                    done.fetch_add(1, Ordering::SeqCst);
                    let _ = jump(1);
                }
            });
            let tid = tid.recv().expect("a thread");
            let at = jump(0).expect("x86-64");
            let pid = Pid(std::process::id().cast_signed());
            let (mut executions, mut ran) = (0, Nanos(0));
            let before = done.load(Ordering::SeqCst);
            // It gets a CPU sooner or later.
            while executions == 0 {
                counter.next = None;
                (executions, ran) = counter.count((pid, tid), at).expect("it can be counted");
            }
            let after = done.load(Ordering::SeqCst);
            stop.store(true, Ordering::Relaxed);
            assert_eq!(counter.count((pid, tid), at), None, "so soon");
            // One may have been announced before, and happen now.
            let most = after - before + 1;
            assert!(executions <= most, "{executions} of {most}");
            assert!(ran.0 > 0);
        });
    }
}
