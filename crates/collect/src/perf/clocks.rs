//! Which clock samples a program: the fast one, or the slow one where its threads switch often.
//!
//! What for: each time a thread gets a CPU, the kernel sets a timer for its next sample, and cancels it when the
//! thread leaves. In a virtual machine that is an exit to the hypervisor each time: 8.6 us where the sample is due
//! before the scheduler's own tick, almost nothing where it is due after it (`perf bench sched pipe`, 100,000
//! switches with a sample each 1, 4, 10, 20 and 100 ms: 11.7, 6.4, 4.0, 3.5 and 3.0 us more than without; AMD Zen 4,
//! Linux 6.18). Threads that meet at barriers some thousand times a second, and wait for each other meanwhile, lost a
//! tenth of their time. So above a certain rate of switches the program is sampled at a tenth of the rate.
//!
//! The same readings tell how long threads wanted a CPU and had none: for so much of our own CPU time the program pays at
//! most.
//!
//! Only waits count. A preempted thread returns seldom, and the load of a machine must not decide how well a program
//! is sampled. What not: opening and switching the events (`events`).
//!
//! The cost of a timer is measured on this machine ([`sys::process::timer_cost`]): some 8 us here, some tenths of a
//! microsecond on bare metal.

use std::collections::HashMap;

use base::{Nanos, Pid, Tid};
use tracee::status::{ThreadFile, field};

/// The period of the slow clock, in periods of the fast one.
pub const SLOWER: u64 = 10;
/// The part of a program's CPU time that setting timers may take. At half of it, samples themselves take as much at 1
/// kHz.
const ALLOWED: f64 = 0.01;
/// The fast clock returns when it would take this part of that limit: the rate of switches varies.
const BACK: f64 = 0.25;
/// Least time between two decisions. The first ones come that often, later ones only when we are awake anyway.
const PERIOD: Nanos = Nanos(30_000_000);
const EARLY: usize = 2;
/// Threads of a process that are read in one round, in turn; and most threads remembered.
const MOST_THREADS: usize = 16;
const MOST_SEEN: usize = 256;
/// The part of the slow clock's timers that are due before the next tick: at 4 ms between ticks a fifth of its timers
/// of 10 ms.
const SLOW_PART: f64 = 0.2;
/// The remaining cost of a switch, for taking events from one thread and giving them to the next, ns: as above, at
/// 100 ms.
const EVENTS: f64 = 3000.0;

/// A thread's files and its counts at the last reading.
struct Usage {
    schedstat: ThreadFile,
    status: ThreadFile,
    last: Counts,
}

/// CPU time and waits of a thread.
#[derive(Clone, Copy, Default)]
struct Counts {
    used: u64,
    /// How long it wanted a CPU and had none, ns.
    delayed: u64,
    waits: u64,
}

/// The decision and its data.
#[derive(Default)]
pub struct Clocks {
    /// The cost of setting and cancelling a timer, ns.
    timer: f64,
    seen: HashMap<(Pid, Tid), Usage>,
    last: Nanos,
    rounds: usize,
    is_slow: bool,
    /// The cost of switches for the program so far, ns.
    cost: f64,
    /// What was seen of all threads, ns: CPU time, and time in which they wanted a CPU and had none.
    used: u64,
    delayed: u64,
}

impl Clocks {
    /// Fast, until the rate of switches is known.
    pub fn new(timer: Nanos) -> Clocks {
        Clocks { timer: timer.0 as f64, ..Clocks::default() }
    }

    /// How much longer switches took because of our events, so far: an estimate.
    pub fn cost(&self) -> Nanos {
        Nanos(self.cost as u64)
    }

    /// How long threads wanted a CPU and had none, in times of their CPU time. `None` until it is known.
    pub fn delay(&self) -> Option<f64> {
        (self.used > 0).then(|| self.delayed as f64 / self.used as f64)
    }

    /// When the next decision is due, unless we wake earlier.
    pub fn due(&self) -> Option<Nanos> {
        (self.rounds < EARLY).then(|| self.last + PERIOD)
    }

    /// Whether it is time for a look.
    pub fn wants_a_look(&self, now: Nanos) -> bool {
        now - self.last >= PERIOD
    }

    /// Reads these threads, by process, at time `now`. Returns whether the slow clock is to sample from now on, if
    /// that changes.
    pub fn look(&mut self, now: Nanos, threads: &[(Pid, Vec<Tid>)]) -> Option<bool> {
        self.last = now;
        self.rounds += 1;
        let (mut used, mut waits) = (0, 0.0);
        for (pid, tids) in threads {
            let step = tids.len().div_ceil(MOST_THREADS).max(1);
            for tid in tids.iter().skip(self.rounds % step).step_by(step) {
                if let Some(its) = self.since(*pid, *tid) {
                    used += its.used;
                    waits += its.waits as f64;
                    self.delayed += its.delayed;
                }
            }
        }
        self.seen.retain(|(pid, tid), _| {
            threads.iter().any(|(one, tids)| one == pid && tids.contains(tid))
        });
        self.used += used;
        self.note(used, waits)
    }

    /// What was added since the last reading; nothing at the first reading.
    fn since(&mut self, pid: Pid, tid: Tid) -> Option<Counts> {
        if let Some(seen) = self.seen.get_mut(&(pid, tid)) {
            let now = seen.now()?;
            let last = std::mem::replace(&mut seen.last, now);
            return Some(Counts {
                used: now.used.saturating_sub(last.used),
                delayed: now.delayed.saturating_sub(last.delayed),
                waits: now.waits.saturating_sub(last.waits),
            });
        }
        if self.seen.len() < MOST_SEEN {
            let open = |name| ThreadFile::open(pid, tid, name);
            let (schedstat, status) = (open("schedstat")?, open("status")?);
            let mut seen = Usage { schedstat, status, last: Counts::default() };
            seen.last = seen.now()?;
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
    fn now(&self) -> Option<Counts> {
        let waits = self.status.read()?;
        let waits = field(&waits, "voluntary_ctxt_switches:")?.parse().ok()?;
        let (used, delayed) = times(&self.schedstat.read()?)?;
        Some(Counts { used, delayed, waits })
    }
}

/// The time on CPUs and the time of waiting for one from the text of `schedstat`, ns
/// (Documentation/scheduler/sched-stats.rst).
fn times(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedstat_begins_with_times() {
        assert_eq!(
            (times("123456 789 42\n"), times("\n"), times("x 1 2")),
            (Some((123_456, 789)), None, None)
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
        assert_eq!((clocks.seen.len(), clocks.delay()), (1, None));
        clocks.look(Nanos(2 * PERIOD.0), &[]);
        assert!(clocks.seen.is_empty() && clocks.due().is_none());
        (clocks.used, clocks.delayed) = (4, 1);
        assert_eq!(clocks.delay(), Some(0.25));
    }
}
