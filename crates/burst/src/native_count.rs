//! How often a thread natively executes one instruction.
//!
//! What for: a block that runs seldom is a clock of the program. How often it runs per second, in the program's own code
//! and behind a count window that tells what else runs meanwhile, is the native speed of all of that. What not: which
//! block (`cache::counts`), what follows from the count (`analysis::memory::counters`).
//!
//! A debug register of the core holds the address (`PERF_TYPE_BREAKPOINT`, perf_event_open(2)). Each execution raises an
//! exception, in which the kernel counts. The thread is not stopped, its code not changed. The kernel clears the register when
//! we end, however we do.
//!
//! Never in a virtual machine. There the exception leaves the guest, and comes back now and then without the reason for it
//! (dr6 is 0): the guest's kernel takes it for a trap of the program (`exc_debug_user`, arch/x86/kernel/traps.c) and sends
//! SIGTRAP, which ends a program that does not expect it. Seen once in 2.4 million executions on a loaded KVM guest (Intel
//! Emerald Rapids, Linux 6.18).

use std::hint::black_box;
use std::time::Duration;

use base::{Nanos, RemoteAddr, Tid};
use sys::kernels::cpuid;
use sys::perf::{Attr, OpenTarget, open};
use sys::process;

/// Executions that are counted must be so many times their cost apart. What their exceptions disturb besides, in caches, is then 5 %
/// of the time. With fewer executions, chance in how many there are would be more than that.
const APART: u64 = 6;
/// The cost is the median of so many rounds of so many executions.
const ROUNDS: usize = 9;
const EACH: u64 = 20;

/// Counts executions.
#[derive(Debug, Default)]
pub struct NativeCounter {
    /// What one execution takes longer; `None` where none can be counted.
    pub cost: Option<Nanos>,
}

impl NativeCounter {
    /// Measures the cost, on the calling thread, in 2 ms. A virtual machine has none: nothing may be counted there.
    #[must_use]
    pub fn measured() -> NativeCounter {
        let cost = if is_virtual() { None } else { measured() };
        NativeCounter { cost }
    }

    /// The least time between two executions that may be counted; 0 where none can be.
    #[must_use]
    pub fn apart(&self) -> Nanos {
        Nanos(self.cost.map_or(0, |cost| APART * cost.0))
    }

    /// How often a thread executes the instruction at an address in the next time, and how long it ran meanwhile.
    #[must_use]
    pub fn count(&self, tid: Tid, at: RemoteAddr, time: Duration) -> Option<(u64, Nanos)> {
        let event = open(&Attr::executions(at), OpenTarget { tid, cpu: None }).ok()?;
        std::thread::park_timeout(time);
        let [executions, _, ran] = event.read_timed().ok()?;
        Some((executions, Nanos(ran)))
    }
}

/// Whether a hypervisor runs this machine: CPUID leaf 1, bit 31 of ecx, which processors leave 0 and hypervisors set (Linux
/// X86_FEATURE_HYPERVISOR).
fn is_virtual() -> bool {
    cpuid(1, 0).is_none_or(|[_, _, ecx, _]| ecx >> 31 == 1)
}

#[inline(never)]
fn executed(number: u64) -> u64 {
    black_box(number)
}

fn measured() -> Option<Nanos> {
    let at = RemoteAddr(executed as fn(u64) -> u64 as usize as u64);
    let this_thread = OpenTarget { tid: Tid(0), cpu: None };
    let event = open(&Attr::executions(at), this_thread).ok()?;
    let mut took = [Nanos(0); ROUNDS];
    for round in &mut took {
        let before = process::thread_cpu_time();
        (0..EACH).for_each(|number| _ = black_box(executed)(number));
        *round = process::thread_cpu_time() - before;
    }
    took.sort_unstable();
    let counted = event.read().ok()? == EACH * ROUNDS as u64;
    counted.then(|| Nanos((took[ROUNDS / 2].0 / EACH).max(1)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    #[test]
    fn executions_of_a_thread_are_counted() {
        let counter = NativeCounter::measured();
        let Some(cost) = counter.cost else {
            println!("skipped: a virtual machine, or no debug registers for perf_event_open(2)");
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
                    black_box(executed)(done.fetch_add(1, Ordering::SeqCst));
                }
            });
            let tid = tid.recv().expect("a thread");
            let at = RemoteAddr(executed as fn(u64) -> u64 as usize as u64);
            let (mut executions, mut ran) = (0, Nanos(0));
            let before = done.load(Ordering::SeqCst);
            // It gets a CPU sooner or later.
            while executions == 0 {
                (executions, ran) =
                    counter.count(tid, at, Duration::from_millis(2)).expect("it can be counted");
            }
            let after = done.load(Ordering::SeqCst);
            stop.store(true, Ordering::Relaxed);
            // One may have been announced before, and happen now.
            let most = after - before + 1;
            assert!(executions <= most, "{executions} of {most}");
            assert!(ran.0 > 0);
        });
    }
}
