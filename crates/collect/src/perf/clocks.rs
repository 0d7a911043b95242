//! Which clock samples a program: the quick one, or the slow one where its threads switch often.
//!
//! What for: each time a thread comes to a CPU the kernel sets a timer for its next sample, and takes it back when the thread
//! leaves. In a virtual machine that is a way out of it each time: 8.6 us where the sample is due before the scheduler's own
//! tick, next to nothing where it is due behind it (`perf bench sched pipe`, 100,000 switches with a sample each 1, 4, 10, 20 and
//! 100 ms: 11.7, 6.4, 4.0, 3.5 and 3.0 us more than without; AMD Zen 4, Linux 6.18). Threads that meet at barriers some thousand
//! times a second, and wait for each other while that goes on, lost a tenth of their time. So from some rate of switches on the
//! program is sampled at a tenth of the rate.
//! Only waits count: a thread that is displaced by others comes back seldom, and how busy a machine is must not decide how well a
//! program is seen.
//! What not: opening and switching the events (`events`).
//!
//! What a timer costs is measured on this machine ([`sys::process::timer_cost`]): some 8 us here, a few tenths of one on bare metal.

use std::collections::HashMap;

use base::{Nanos, Pid, Tid};
use tracee::status::{ThreadFile, field};

/// The slow clock has so many times the period of the quick one.
pub const SLOWER: u64 = 10;
/// Setting timers may take so much of a program's CPU time. At half of it samples themselves take as much at 1 kHz.
const ALLOWED: f64 = 0.01;
/// The quick clock is back when it would take so much less: the rate of switches goes up and down.
const BACK: f64 = 0.25;
/// Between two decisions at least; the first ones come as soon as that, the others when somebody is awake anyway.
const PERIOD: Nanos = Nanos(30_000_000);
const EARLY: usize = 2;
/// Of more threads of a process, so many are looked at in turn; and so many are remembered.
const MOST_THREADS: usize = 16;
const MOST_SEEN: usize = 256;
/// Of the slow clock's timers, those that are set for before the next tick: at 4 ms between ticks a fifth of its 10 ms.
const SLOW_PART: f64 = 0.2;
/// What a switch costs besides for the events that it has to take from one thread and give to the next, ns: as above, at 100 ms.
const EVENTS: f64 = 3000.0;

/// CPU time and waits of a thread, as last read.
struct Usage {
    schedstat: ThreadFile,
    status: ThreadFile,
    used: u64,
    waits: u64,
}

/// Decides.
pub struct Clocks {
    /// What setting a timer and taking it back costs, ns.
    timer: f64,
    seen: HashMap<(Pid, Tid), Usage>,
    last: Nanos,
    rounds: usize,
    is_slow: bool,
    /// What switches cost the program so far, ns.
    cost: f64,
}

impl Clocks {
    /// Quick, until something else is known.
    pub fn new(timer: Nanos) -> Clocks {
        let seen = HashMap::new();
        Clocks { timer: timer.0 as f64, seen, last: Nanos(0), rounds: 0, is_slow: false, cost: 0.0 }
    }

    /// What switches took longer because of our events, so far: an estimate.
    pub fn cost(&self) -> Nanos {
        Nanos(self.cost as u64)
    }

    /// When it is to be asked next, unless a thread wakes up before.
    pub fn due(&self) -> Option<Nanos> {
        (self.rounds < EARLY).then(|| self.last + PERIOD)
    }

    /// Whether it is time for a look.
    pub fn wants_a_look(&self, now: Nanos) -> bool {
        now - self.last >= PERIOD
    }

    /// It is `now`, and these threads are known, by process. Says whether the slow clock is to sample from now on, if that is new.
    pub fn look(&mut self, now: Nanos, threads: &[(Pid, Vec<Tid>)]) -> Option<bool> {
        self.last = now;
        self.rounds += 1;
        let (mut used, mut waits) = (0, 0.0);
        for (pid, tids) in threads {
            let step = tids.len().div_ceil(MOST_THREADS).max(1);
            for tid in tids.iter().skip(self.rounds % step).step_by(step) {
                if let Some((its_time, its_waits)) = self.since(*pid, *tid) {
                    used += its_time;
                    waits += its_waits as f64;
                }
            }
        }
        self.seen.retain(|(pid, tid), _| {
            threads.iter().any(|(one, tids)| one == pid && tids.contains(tid))
        });
        self.note(used, waits)
    }

    /// CPU time, and how often it waited, since the last look; what it did before the first one counts for nothing.
    fn since(&mut self, pid: Pid, tid: Tid) -> Option<(u64, u64)> {
        if let Some(seen) = self.seen.get_mut(&(pid, tid)) {
            let (used, waits) = seen.now()?;
            let since = (used.saturating_sub(seen.used), waits.saturating_sub(seen.waits));
            (seen.used, seen.waits) = (used, waits);
            return Some(since);
        }
        if self.seen.len() < MOST_SEEN {
            let open = |name| ThreadFile::open(pid, tid, name);
            let (schedstat, status) = (open("schedstat")?, open("status")?);
            let mut seen = Usage { schedstat, status, used: 0, waits: 0 };
            (seen.used, seen.waits) = seen.now()?;
            self.seen.insert((pid, tid), seen);
        }
        None
    }

    fn note(&mut self, used: u64, waits: f64) -> Option<bool> {
        if used == 0 {
            return None;
        }
        self.cost += waits * (EVENTS + self.timer * if self.is_slow { SLOW_PART } else { 1.0 });
        let part = waits * self.timer / used as f64;
        let is_slow = part > if self.is_slow { BACK * ALLOWED } else { ALLOWED };
        (is_slow != std::mem::replace(&mut self.is_slow, is_slow)).then_some(is_slow)
    }
}

impl Usage {
    /// CPU time, ns, and waits so far.
    fn now(&self) -> Option<(u64, u64)> {
        let waits = self.status.read()?;
        let waits = field(&waits, "voluntary_ctxt_switches:")?.parse().ok()?;
        Some((used(&self.schedstat.read()?)?, waits))
    }
}

/// Of a `schedstat` the time on CPUs, ns (Documentation/scheduler/sched-stats.rst).
fn used(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedstat_begins_with_the_time_on_cpus() {
        assert_eq!(
            (used("123456 789 42\n"), used("\n"), used("x 1 2")),
            (Some(123_456), None, None)
        );
    }

    /// Timers of 8 us: 1 % are 1250 switches in a second of CPU time.
    #[test]
    fn the_slow_clock_is_for_threads_that_switch_often() {
        const SECOND: u64 = 1_000_000_000;
        let mut clocks = Clocks::new(Nanos(8000));
        assert_eq!(clocks.note(0, 0.0), None);
        assert_eq!(clocks.note(SECOND, 1000.0), None);
        assert_eq!(clocks.cost(), Nanos(11_000_000));
        assert_eq!(clocks.note(SECOND, 5000.0), Some(true));
        assert_eq!(clocks.note(SECOND, 1000.0), None, "it may go up again");
        assert_eq!(clocks.note(SECOND, 300.0), Some(false));
        let mut elsewhere = Clocks::new(Nanos(300));
        assert_eq!(elsewhere.note(SECOND, 5000.0), None, "timers are cheap there");
    }

    #[test]
    fn own_threads_are_looked_at() {
        let pid = Pid(std::process::id().cast_signed());
        let mut clocks = Clocks::new(Nanos(1));
        let threads = [(pid, vec![Tid(pid.0)])];
        assert!(!clocks.wants_a_look(Nanos(10)), "too early");
        assert_eq!(clocks.due(), Some(PERIOD));
        clocks.look(PERIOD, &threads);
        assert_eq!(clocks.seen.len(), 1);
        clocks.look(Nanos(2 * PERIOD.0), &[]);
        assert!(clocks.seen.is_empty() && clocks.due().is_none());
    }
}
