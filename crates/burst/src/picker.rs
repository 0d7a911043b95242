//! Which thread is next.
//!
//! What for: a burst falls on a thread with a probability in proportion to the CPU time that it used since the last look
//! (schedstat), so that bursts sample running time. What not: when.
//!
//! A thread is left alone when stopping it could be noticed: while it waits in the kernel (some waits end early, with
//! EINTR or a short count, when a thread is stopped), and while it waits often, because it could begin to just as we
//! stop it.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use base::{Nanos, Pid, Tid};
use sys::process;

use crate::program::field;
use crate::refused::Refused;
use crate::remote_call::are_filtered;

/// Threads looked at per pick; of more, a random choice.
const MOST_LOOKED_AT: usize = 8;
/// A thread must not have waited for this long.
const QUIET: Duration = Duration::from_millis(1);
/// Open clocks kept.
const MOST_CLOCKS: usize = 256;

/// The CPU time of one thread.
struct Clock {
    file: File,
    used: Nanos,
    seen: Nanos,
}

/// Chooses threads.
pub struct Picker {
    clocks: HashMap<(Pid, Tid), Clock>,
    random: u64,
}

impl Picker {
    /// A picker whose choices follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Picker {
        Picker { clocks: HashMap::new(), random: seed | 1 }
    }

    /// A random number, uniform in 0..2^64 but for 0 (xorshift64, Marsaglia 2003).
    pub fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// A thread that used CPU time lately.
    pub fn pick(&mut self, processes: &[Pid]) -> Option<(Pid, Tid)> {
        let mut threads: Vec<(Pid, Tid)> = Vec::new();
        for pid in processes {
            let tids = tracee::threads_of(*pid).unwrap_or_default();
            threads.extend(tids.into_iter().map(|tid| (*pid, tid)));
        }
        while threads.len() > MOST_LOOKED_AT {
            let out = (self.random() % threads.len() as u64) as usize;
            threads.swap_remove(out);
        }
        let shares: Vec<((Pid, Tid), u64)> =
            threads.into_iter().map(|thread| (thread, self.share(thread))).collect();
        let all: u64 = shares.iter().map(|(_, share)| share).sum();
        let mut at = self.random().checked_rem(all)?;
        for (thread, share) in shares {
            if at < share {
                return Some(thread);
            }
            at -= share;
        }
        None
    }

    /// Share of the time since the last look that a thread ran, in millionths.
    fn share(&mut self, thread: (Pid, Tid)) -> u64 {
        let now = process::monotonic();
        if !self.clocks.contains_key(&thread) {
            if self.clocks.len() >= MOST_CLOCKS {
                self.clocks.clear();
            }
            let path = format!("/proc/{}/task/{}/schedstat", thread.0, thread.1);
            let Ok(file) = File::open(path) else { return 0 };
            self.clocks.insert(thread, Clock { file, used: Nanos(0), seen: Nanos(0) });
        }
        let Some(clock) = self.clocks.get_mut(&thread) else { return 0 };
        let Some(used) = read_clock(&clock.file) else {
            self.clocks.remove(&thread);
            return 0;
        };
        let ran = used - clock.used;
        let since = now - clock.seen;
        (clock.used, clock.seen) = (used, now);
        // A first look weighs a thread's whole life against ours: small, but not nothing.
        (u128::from(ran.0) * 1_000_000).checked_div(u128::from(since.0)).map_or(0, |share| {
            u64::try_from(share).unwrap_or(0).min(1_000_000) + u64::from(ran.0 > 0)
        })
    }

    /// CPU time that a thread used so far.
    #[must_use]
    pub fn used(&self, thread: (Pid, Tid)) -> Option<Nanos> {
        read_clock(&self.clocks.get(&thread)?.file)
    }
}

fn read_clock(file: &File) -> Option<Nanos> {
    let mut text = [0; 64];
    let got = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..got)?).ok()?;
    text.split(' ').next()?.parse().ok().map(Nanos)
}

/// Whether a thread may be stopped now. Looks twice, a moment apart.
pub fn may_be_stopped(pid: Pid, tid: Tid) -> Result<(), Refused> {
    let before = waits(&status_of(pid, tid)).ok_or(Refused::NotRunning)?;
    std::thread::sleep(QUIET);
    let status = status_of(pid, tid);
    let after = waits(&status).ok_or(Refused::NotRunning)?;
    if !runs(pid, tid) {
        return Err(Refused::NotRunning);
    }
    // Translated code leaves by a system call, which the filter would judge if we died.
    if are_filtered(&status) {
        return Err(Refused::SystemCallFilter);
    }
    if before == after { Ok(()) } else { Err(Refused::WaitsOften) }
}

fn status_of(pid: Pid, tid: Tid) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default()
}

/// How often it waited so far.
fn waits(status: &str) -> Option<u64> {
    field(status, "voluntary_ctxt_switches:")?.parse().ok()
}

/// Whether it is runnable and not blocked in a system call.
fn runs(pid: Pid, tid: Tid) -> bool {
    let base = format!("/proc/{pid}/task/{tid}");
    let runnable = std::fs::read_to_string(format!("{base}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('R')));
    // Some sandboxes hide `syscall`; the state must do there.
    runnable == Some(true)
        && !std::fs::read_to_string(format!("{base}/syscall"))
            .is_ok_and(|text| !text.starts_with("running"))
}

/// Whether a thread blocks in a call that the kernel restarts as if nothing had been, when the thread is stopped and no
/// signal is delivered (signal(7), "Interruption of system calls and library functions by stop signals" lists the others).
#[must_use]
pub fn blocks_harmlessly(pid: Pid, tid: Tid) -> bool {
    // nanosleep pause wait4 futex clock_nanosleep waitid ppoll poll (arch/x86/entry/syscalls/syscall_64.tbl)
    const RESTARTED: [&str; 8] = ["35", "34", "61", "202", "230", "247", "271", "7"];
    let text =
        std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
    text.split(' ').next().is_some_and(|number| RESTARTED.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_count_is_read_from_a_status() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(waits(status), Some(17));
        assert_eq!(waits(""), None);
        assert_eq!(waits("voluntary_ctxt_switches:\tmany\n"), None);
    }

    /// Only a thread that used CPU time is picked, and only of the processes that were named.
    #[test]
    fn threads_without_cpu_time_are_not_picked() {
        let pid = Pid(std::process::id().cast_signed());
        let mut picker = Picker::new(1);
        assert_eq!(picker.pick(&[]), None);
        for _ in 0..100 {
            if let Some((picked, tid)) = picker.pick(&[pid]) {
                assert_eq!(picked, pid);
                assert!(picker.used((pid, tid)).is_some_and(|used| used.0 > 0));
            }
        }
        assert!(picker.used((pid, Tid(-1))).is_none());
    }

    #[test]
    fn random_numbers_follow_from_the_seed() {
        let numbers = |seed| {
            let mut picker = Picker::new(seed);
            [(); 4].map(|()| picker.random())
        };
        assert_eq!(numbers(6), numbers(6));
        assert_ne!(numbers(6), numbers(8));
        assert!(numbers(0).iter().all(|number| *number != 0));
    }
}
