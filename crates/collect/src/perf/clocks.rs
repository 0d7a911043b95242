//! Which clock samples a program: that of its threads, or another one where they switch often or are many.
//!
//! What for: each time a thread gets a CPU, the kernel sets a timer for its next sample, and cancels it when the
//! thread leaves. In a virtual machine that is an exit to the hypervisor each time: 8.6 us where the sample is due
//! before the scheduler's own tick, almost nothing where it is due after it (`perf bench sched pipe`, 100,000
//! switches with a sample each 1, 4, 10, 20 and 100 ms: 11.7, 6.4, 4.0, 3.5 and 3.0 us more than without; AMD Zen 4,
//! Linux 6.18). Threads that meet at barriers some thousand times a second, and wait for each other meanwhile, lost a
//! tenth of their time. So above a certain rate of switches the clock of a thread gives way to
//! - the clocks of the CPUs, which go on whoever runs, where we may watch other programs, the program's threads are
//!   enough for at least half of the CPUs, and most samples are theirs;
//! - else the slow clock of the thread.
//!
//! Many threads at once take many samples, which one thread of ours works off: some 5 us each, for which one of theirs waits where
//! they fill all CPUs, and at the next barrier all others with it. With 16 threads at a kilohertz that was 8 to 12 % of the time
//! (Intel Emerald Rapids, 16 CPUs). So the slow clock samples such a program too, and the clocks that replace the fast one are so
//! slow that all CPUs together take some thousand samples a second ([`slower`], [`slower_cpus`]).
//!
//! Two threads that meet each 150 us, medians of six alternating runs: without us 0.650 s, the five events that only
//! count 0.659, the clock of threads at 1 ms 0.713, at 100 ms 0.680, those of CPUs at 1 ms 0.616, as they keep idle
//! CPUs from sleeping deeply (AMD Zen 5, Linux 6.18).
//!
//! All this is so where a thread gives its CPU to nobody, or to another program. To another thread of the program the
//! kernel hands the events over as they are (`perf_event_context_sched_out`, kernel/events/core.c): two processes that
//! pass a byte to and fro on one CPU pay 0.6 us per switch with all events. The readings do not tell the two apart, so
//! the cost is an upper bound.
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

use base::{Nanos, Pid, ThreadId, Tid};
use tracee::status::{ThreadFile, field};

/// Samples of a program that fills all CPUs: four threads at a kilohertz.
const MOST_PER_SECOND: f64 = 4000.0;
/// A fast clock of a shorter period was asked for: then more samples are wanted.
const USUAL_PERIOD: Nanos = Nanos(1_000_000);
/// The period of the slow clock, in periods of the fast one, at least where there are few CPUs, and where there are many: longer
/// than the scheduler's tick of 4 ms.
const SLOWER: u64 = 10;
const SLOWER_OF_MANY: u64 = 5;
/// The part of a program's CPU time that setting timers may take. At half of it, samples themselves take as much at 1
/// kHz.
const ALLOWED: f64 = 0.01;
/// The fast clock returns when it would take this part of that limit: the rate of switches varies.
const BACK: f64 = 0.25;
/// Least time between two decisions. The first ones come that often, later ones only when we are awake anyway, and more
/// seldom: after a part of the time so far, at most a quarter of a second. A look takes 20 us for each thread.
const PERIOD: Nanos = Nanos(30_000_000);
const LONGEST_PERIOD: Nanos = Nanos(250_000_000);
const PART: u64 = 16;
const EARLY: usize = 2;
/// Threads of a process that are read in one round, in turn; and most threads remembered.
const MOST_THREADS: usize = 16;
const MOST_SEEN: usize = 256;
/// Periods of the fast clock from a switch to the scheduler's next tick, on average: 4 ms between ticks. The part of the slow
/// clock's timers that are due before it is this over its period.
const TO_TICK: f64 = 2.0;
/// A program that uses this part of its CPUs leaves none to us: threads that meet use all of them in between, and wait then.
const FILLED: f64 = 0.75;
/// The part of the time that changes of the clock may take: each interrupts every thread, once for each CPU.
const CHANGING: f64 = 0.01;
/// The remaining cost of a switch, for taking events from one thread and giving them to the next, ns: as above, at
/// 100 ms.
const EVENTS: f64 = 3000.0;
/// The same of the events that only count, while the clocks of CPUs sample: two threads that meet, as above.
const COUNTING: f64 = 1000.0;

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

/// A clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// Of each thread.
    #[default]
    Fast,
    /// The same at a longer period.
    Slow,
    /// Of each CPU, for whatever runs there.
    OfCpus,
}

/// How many threads may be sampled at once by a fast clock of this period.
fn most_at_once(period: Nanos) -> f64 {
    if period < USUAL_PERIOD { f64::INFINITY } else { MOST_PER_SECOND * period.seconds() }
}

/// The period of the slow clock on a machine with so many CPUs, in periods of the fast one.
pub fn slower(cpus: usize, period: Nanos) -> u64 {
    let are_few = cpus as f64 <= most_at_once(period);
    slower_cpus(cpus, period).max(if are_few { SLOWER } else { SLOWER_OF_MANY })
}

/// The same of the clocks of CPUs.
pub fn slower_cpus(cpus: usize, period: Nanos) -> u64 {
    (cpus as f64 / most_at_once(period)).ceil().max(1.0) as u64
}

/// The decision and its data.
#[derive(Default)]
pub struct Clocks {
    /// The cost of setting and cancelling a timer, ns.
    timer: f64,
    /// The part of the slow clock's timers that are due before the scheduler's next tick.
    slow_part: f64,
    /// More threads that fill the CPUs have too many samples at the fast rate.
    most: f64,
    seen: HashMap<ThreadId, Usage>,
    last: Nanos,
    rounds: usize,
    now: Clock,
    /// Until then it does not become the fast one.
    stays: Nanos,
    /// CPUs with a clock of their own, 0 where there is none.
    cpus: usize,
    /// Samples of these clocks that were of the program, and of others.
    ours: u64,
    others: u64,
    /// The cost of switches for the program so far, ns.
    cost: f64,
    /// What was seen of all threads, ns: CPU time, and time in which they wanted a CPU and had none.
    used: u64,
    delayed: u64,
    /// CPUs that the program may use, and how many of them its threads did use between the last two readings.
    available: f64,
    busy: Option<f64>,
}

impl Clocks {
    /// Fast, until the rate of switches is known. `timer`: what setting a timer costs; `observed`: the number of CPUs; `period`:
    /// the fast clock's; `cpus`: how many have a clock of their own, 0 where there is none.
    pub fn new(timer: Nanos, observed: usize, period: Nanos, cpus: usize) -> Clocks {
        Clocks {
            timer: timer.0 as f64,
            slow_part: TO_TICK / slower(observed, period) as f64,
            most: most_at_once(period),
            cpus,
            available: std::thread::available_parallelism().map_or(1.0, |all| all.get() as f64),
            ..Clocks::default()
        }
    }

    /// The clock that samples.
    pub fn now(&self) -> Clock {
        self.now
    }

    /// Notes a sample of a CPU's clock.
    pub fn saw(&mut self, is_ours: bool) {
        *if is_ours { &mut self.ours } else { &mut self.others } += 1;
    }

    /// How much longer switches took because of our events, so far: an estimate.
    pub fn cost(&self) -> Nanos {
        Nanos(self.cost as u64)
    }

    /// How long threads wanted a CPU and had none, in times of their CPU time. `None` until it is known.
    pub fn delay(&self) -> Option<f64> {
        (self.used > 0).then(|| self.delayed as f64 / self.used as f64)
    }

    /// Whether the program leaves no CPU to us, as far as is known.
    pub fn fill_cpus(&self) -> bool {
        self.busy.is_none_or(|busy| busy > FILLED * self.available)
    }

    /// When the next decision is due, unless we wake earlier.
    pub fn due(&self) -> Option<Nanos> {
        (self.rounds < EARLY).then(|| self.last + PERIOD)
    }

    /// Whether it is time for a look.
    pub fn wants_a_look(&self, now: Nanos) -> bool {
        now - self.last >= Nanos(now.0 / PART).max(PERIOD).min(LONGEST_PERIOD)
    }

    /// Reads these threads, by process, at time `now`. Returns the clock that is to sample from now on.
    pub fn look(&mut self, now: Nanos, threads: &[(Pid, Vec<Tid>)]) -> Clock {
        let passed = (now - self.last).0 as f64;
        self.last = now;
        self.rounds += 1;
        let (mut used, mut waits, mut busy) = (0, 0.0, None);
        for (pid, tids) in threads {
            let step = tids.len().div_ceil(MOST_THREADS).max(1);
            for tid in tids.iter().skip(self.rounds % step).step_by(step) {
                if let Some(its) = self.since(*pid, *tid) {
                    used += its.used;
                    *busy.get_or_insert(0.0) += (its.used * step as u64) as f64 / passed;
                    waits += its.waits as f64;
                    self.delayed += its.delayed;
                }
            }
        }
        self.seen.retain(|ThreadId { pid, tid }, _| {
            threads.iter().any(|(one, tids)| one == pid && tids.contains(tid))
        });
        self.used += used;
        self.busy = busy;
        self.note(used, waits, threads.iter().map(|(_, tids)| tids.len()).sum())
    }

    /// What was added since the last reading; nothing at the first reading.
    fn since(&mut self, pid: Pid, tid: Tid) -> Option<Counts> {
        if let Some(seen) = self.seen.get_mut(&ThreadId::new(pid, tid)) {
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
            self.seen.insert(ThreadId::new(pid, tid), seen);
        }
        None
    }

    fn note(&mut self, used: u64, waits: f64, threads: usize) -> Clock {
        if used == 0 {
            return self.now;
        }
        self.cost += waits
            * match self.now {
                Clock::Fast => EVENTS + self.timer,
                Clock::Slow => EVENTS + self.timer * self.slow_part,
                Clock::OfCpus => COUNTING,
            };
        let part = waits * self.timer / used as f64;
        let is_often = part > if self.now == Clock::Fast { ALLOWED } else { BACK * ALLOWED };
        // Samples of others cost them time, and us a look at each.
        let is_alone = 2 * threads >= self.cpus && self.others <= self.ours;
        self.now = if is_often && self.cpus > 0 && is_alone {
            Clock::OfCpus
        } else if is_often || self.are_many() {
            Clock::Slow
        } else if self.last < self.stays {
            self.now
        } else {
            Clock::Fast
        };
        self.now
    }

    /// Notes what a change of the clock took.
    pub fn changed(&mut self, took: Nanos) {
        self.stays = self.last + Nanos((took.0 as f64 / CHANGING) as u64);
    }

    /// Whether threads that fill the CPUs have too many samples at the fast rate. Once they had, half as many are enough.
    fn are_many(&self) -> bool {
        let part = if self.now == Clock::Fast { 1.0 } else { 0.5 };
        let least = part * (FILLED * self.available).max(self.most);
        self.busy.is_some_and(|busy| busy > least)
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
        let mut clocks = Clocks::new(Nanos(8000), 2, USUAL_PERIOD, 0);
        assert_eq!(clocks.note(0, 0.0, 2), Clock::Fast);
        assert_eq!(clocks.note(SECOND, 1000.0, 2), Clock::Fast);
        assert_eq!(clocks.cost(), Nanos(11_000_000));
        assert_eq!(clocks.note(SECOND, 5000.0, 2), Clock::Slow);
        assert_eq!(clocks.note(SECOND, 1000.0, 2), Clock::Slow, "it may go up again");
        assert_eq!(clocks.note(SECOND, 300.0, 2), Clock::Fast);
        let mut elsewhere = Clocks::new(Nanos(300), 2, USUAL_PERIOD, 2);
        assert_eq!(elsewhere.note(SECOND, 5000.0, 2), Clock::Fast, "timers are cheap there");
    }

    #[test]
    fn the_clocks_of_cpus_are_for_a_program_that_has_most_of_them() {
        const SECOND: u64 = 1_000_000_000;
        let mut clocks = Clocks::new(Nanos(8000), 4, USUAL_PERIOD, 4);
        assert_eq!(clocks.note(SECOND, 5000.0, 1), Clock::Slow, "one thread on four CPUs");
        assert_eq!(clocks.note(SECOND, 5000.0, 2), Clock::OfCpus);
        let before = clocks.cost();
        clocks.saw(true);
        assert_eq!(clocks.note(SECOND, 5000.0, 2), Clock::OfCpus);
        assert_eq!(clocks.cost() - before, Nanos(5_000_000), "no timer is set");
        clocks.saw(false);
        clocks.saw(false);
        assert_eq!(clocks.note(SECOND, 5000.0, 2), Clock::Slow, "others have the CPUs");
    }

    #[test]
    fn the_slow_clock_is_for_many_threads_too() {
        const SECOND: u64 = 1_000_000_000;
        let mut clocks = Clocks::new(Nanos(8000), 16, USUAL_PERIOD, 0);
        clocks.available = 16.0;
        // CPUs are free; most are filled; half of that is enough to go on; then it is one thread.
        let phases =
            [(12.0, Clock::Fast), (13.0, Clock::Slow), (7.0, Clock::Slow), (1.0, Clock::Fast)];
        for (busy, clock) in phases {
            clocks.busy = Some(busy);
            assert_eq!(clocks.note(SECOND, 50.0, 16), clock, "{busy}");
        }
        // A change that took 5 ms: for half a second it stays as it is.
        clocks.changed(Nanos(5_000_000));
        let later = [(0, 16.0, Clock::Slow), (400, 1.0, Clock::Slow), (500, 1.0, Clock::Fast)];
        for (at, busy, clock) in later {
            (clocks.last, clocks.busy) = (Nanos(at * 1_000_000), Some(busy));
            assert_eq!(clocks.note(SECOND, 50.0, 16), clock, "{at} ms");
        }
        (clocks.available, clocks.busy) = (4.0, Some(4.0));
        assert_eq!(clocks.note(SECOND, 50.0, 4), Clock::Fast, "few CPUs");
        let on = |of: fn(usize, Nanos) -> u64, period| {
            [2, 8, 16, 128].map(|cpus| of(cpus, Nanos(period)))
        };
        assert_eq!(on(slower, 1_036_814), [10, 5, 5, 31]);
        assert_eq!(on(slower_cpus, 1_036_814), [1, 2, 4, 31]);
        assert_eq!(on(slower_cpus, 4_000_000), [1, 1, 1, 8]);
        assert_eq!(on(slower_cpus, 100_000), [1; 4], "asked for");
    }

    #[test]
    fn own_threads_are_looked_at() {
        let pid = Pid(std::process::id().cast_signed());
        let mut clocks = Clocks::new(Nanos(1), 1, USUAL_PERIOD, 0);
        let threads = [(pid, vec![Tid(pid.0)])];
        assert!(!clocks.wants_a_look(Nanos(10)), "too early");
        assert_eq!(clocks.due(), Some(PERIOD));
        clocks.look(PERIOD, &threads);
        assert_eq!((clocks.seen.len(), clocks.delay()), (1, None));
        assert!(clocks.fill_cpus(), "nothing is known yet");
        (clocks.available, clocks.last) = (0.02, Nanos(0));
        let thread = ThreadId::new(pid, Tid(pid.0));
        for (used, fills) in [(0, false), (PERIOD.0 / 50, true)] {
            let seen = clocks.seen.get_mut(&thread).expect("our thread");
            seen.last.used = seen.now().expect("its counts").used.saturating_sub(used);
            clocks.look(clocks.last + PERIOD, &threads);
            assert_eq!(clocks.fill_cpus(), fills, "{:?}", clocks.busy);
        }
        clocks.look(Nanos(2 * PERIOD.0), &[]);
        assert!(clocks.seen.is_empty() && clocks.due().is_none());
        (clocks.used, clocks.delayed) = (4, 1);
        assert_eq!(clocks.delay(), Some(0.25));
    }
}
