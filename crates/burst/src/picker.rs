//! Chooses the thread of the next burst.
//!
//! What for: the probability of a thread is proportional to the CPU time that it used since the last reading
//! (schedstat), so that bursts sample running time. What not: when a burst begins.
//!
//! Choices come in pairs: the second lies opposite the first, half of all CPU time away. Each by itself falls on a
//! thread as often as an independent choice (a uniform position and that position turned by a half are both uniform).
//! A pair falls on two different threads in every program in which no thread has more than half of the time
//! (systematic sampling; Cochran, Sampling Techniques, 3rd ed., 9A.10). Only bursts of two threads, soon after each
//! other, show how these affect each other.
//!
//! A thread is not stopped when the program could notice it:
//! * While it waits in the kernel. Some waits end early, with EINTR or a short count, when a thread is stopped.
//! * While it waits often, because it could begin to wait just as we stop it. The kernel's count of its waits must be
//!   the same as a while ago.
//!
//! Threads that meet at barriers and locks also wait often, but in calls that continue after a stop. Only a blocking
//! write is cut short in the end (`visit` restarts other calls). So a thread that has not written for many waits, and
//! that was seen to block in harmless calls only, may be stopped.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use base::{CpuId, Nanos, Pid, ThreadId, Tid};
use sys::process;
use tracee::random::Random;
use tracee::status::{FaultCounts, ThreadFile, cpu_in, field, status_of};

use crate::refused::Refused;
use crate::remote_call::are_filtered;

/// How often threads are listed, at first; less often later. A listing takes some 25 us.
const LISTING: Duration = Duration::from_millis(50);
const LATER_LISTING: Duration = Duration::from_millis(200);
/// The period of listings as a part of the time since the first one.
const PART: u32 = 16;
/// Most threads examined per pick; of more, a random choice.
const MOST_LOOKED_AT: usize = 8;
/// A thread must not have waited for this long.
const QUIET: Nanos = Nanos(1_000_000);
/// How many times per [`QUIET`] a thread that waits often is examined, for where it blocks.
const LOOKS: u32 = 8;
/// A thread that waits often is watched only when it is met for the first times, and then one time in so many. Each
/// look wakes us on a CPU that the thread, and whoever waits for it, may need. Whether it has written is checked
/// every time.
const WATCHED: u32 = 8;
/// Waits without a write before it may be stopped.
const WITHOUT_WRITE: u64 = 16;
/// Most clocks kept open.
const MOST_CLOCKS: usize = 256;

/// The CPU time of one thread, now and at the last reading.
struct ThreadUse {
    clock: Clock,
    used: Nanos,
    waited: Nanos,
    at: Nanos,
    /// Opened at its first examination.
    status: Option<ThreadFile>,
    stat: Option<ThreadFile>,
    /// How often it had waited, and when that was read.
    waits: Option<(u64, Nanos)>,
    blocks: Option<Blocks>,
}

/// What is known about the waits of a thread that waits often.
struct Blocks {
    io: ThreadFile,
    /// The call that it blocks in; some sandboxes hide it.
    call: Option<ThreadFile>,
    /// Its number of writes, if the kernel ever gave it, and its number of waits when that was first read.
    writes: Option<u64>,
    waits: u64,
    /// It was seen to block in a call that must not be interrupted: it is never again stopped while it waits often.
    elsewhere: bool,
    /// How often it was met while it waited often.
    met: u32,
}

impl Blocks {
    /// Whether examining where it blocks would add nothing this time.
    fn is_known(&self) -> bool {
        self.elsewhere || self.met > WATCHED && !self.met.is_multiple_of(WATCHED)
    }
}

/// The scheduler's counts for one thread.
pub struct Clock(ThreadFile);

/// The fields of schedstat (Documentation/scheduler/sched-stats.rst).
pub struct Schedstat {
    /// CPU time.
    pub used: Nanos,
    /// Time spent waiting for a CPU, without the current wait.
    pub waited: Nanos,
}

impl Clock {
    /// The clock of the calling thread.
    pub fn own() -> Option<Clock> {
        ThreadFile::own("schedstat").map(Clock)
    }

    fn of(ThreadId { pid, tid }: ThreadId) -> Option<Clock> {
        ThreadFile::open(pid, tid, "schedstat").map(Clock)
    }

    /// Reads it.
    pub fn read(&self) -> Option<Schedstat> {
        let text = self.0.read()?;
        let mut numbers = text.split(' ').map(|number| number.parse().ok().map(Nanos));
        Some(Schedstat { used: numbers.next()??, waited: numbers.next()?? })
    }
}

/// Chooses threads.
pub struct Picker {
    clocks: HashMap<ThreadId, ThreadUse>,
    random: Random,
    /// The position of the last choice, of 2^64, if the next one lies opposite; or the next position, if `foresee`
    /// has drawn it.
    last: Option<u64>,
    planned: Option<u64>,
    /// Shares at the last reading.
    shares: Vec<(ThreadId, u64)>,
    /// Number of threads that shared the time at the last reading.
    sharing: usize,
    /// Number of threads that waited for a CPU since the last reading, on average, and that ran.
    waiting: f64,
    running: f64,
    /// Threads of the processes.
    threads: Vec<ThreadId>,
    listed: Option<Instant>,
    began: Instant,
}

impl Picker {
    /// A picker that draws from these random numbers.
    #[must_use]
    pub fn new(random: Random) -> Picker {
        Picker {
            clocks: HashMap::new(),
            random,
            last: None,
            planned: None,
            shares: Vec::new(),
            sharing: 0,
            waiting: 0.0,
            running: 0.0,
            threads: Vec::new(),
            listed: None,
            began: Instant::now(),
        }
    }

    /// Picks a thread that used CPU time since the last reading.
    pub fn pick(&mut self, processes: &[Pid]) -> Option<ThreadId> {
        let every = (self.began.elapsed() / PART).clamp(LISTING, LATER_LISTING);
        if self.listed.is_none_or(|listed| listed.elapsed() >= every) {
            let of = |pid: &Pid| {
                let tids = tracee::threads_of(*pid).unwrap_or_default();
                tids.into_iter().map(|tid| ThreadId::new(*pid, tid)).collect::<Vec<_>>()
            };
            self.threads = processes.iter().flat_map(of).collect();
            self.listed = Some(Instant::now());
        }
        let mut threads = self.threads.clone();
        threads.retain(|thread| processes.contains(&thread.pid));
        let all = threads.len() as f64;
        while threads.len() > MOST_LOOKED_AT {
            let out = (self.random.number() % threads.len() as u64) as usize;
            threads.swap_remove(out);
        }
        self.waiting = 0.0;
        let shares: Vec<(ThreadId, u64)> =
            threads.into_iter().map(|thread| (thread, self.share(thread))).collect();
        let represented = all / shares.len().max(1) as f64;
        self.waiting *= represented;
        let sum: u64 = shares.iter().map(|(_, share)| share).sum();
        self.running = represented * sum as f64 * 1e-6;
        self.choose(shares)
    }

    /// Draws one of these threads, in proportion to their shares.
    fn choose(&mut self, shares: Vec<(ThreadId, u64)>) -> Option<ThreadId> {
        self.sharing = shares.iter().filter(|(_, share)| *share > 0).count();
        self.shares = shares;
        if self.sharing == 0 {
            return None;
        }
        let place = self.next_place();
        self.planned = None;
        self.last = self.last.is_none().then_some(place);
        at(&self.shares, place)
    }

    /// The position of the next choice.
    fn next_place(&mut self) -> u64 {
        match self.last {
            Some(last) => last.wrapping_add(1 << 63),
            None => *self.planned.get_or_insert_with(|| self.random.number()),
        }
    }

    /// The CPU of the next thread, if all use as much of the time as they did until then; `None` where there is only
    /// one.
    pub fn foresee(&mut self) -> Option<CpuId> {
        if self.sharing < 2 {
            return None;
        }
        let place = self.next_place();
        self.cpu_of(at(&self.shares, place)?)
    }

    /// Number of threads that waited for a CPU since the last pick, on average.
    #[must_use]
    pub fn waiting(&self) -> f64 {
        self.waiting
    }

    /// Number of CPUs that the program could use since the last pick, on average.
    #[must_use]
    pub fn demand(&self) -> f64 {
        self.waiting + self.running
    }

    /// Whether the next choice forms a pair with the last one: of another thread, where there is one.
    #[must_use]
    pub fn is_pair_due(&self) -> bool {
        self.last.is_some() && self.sharing > 1
    }

    /// Share of the time since the last reading that a thread ran, in millionths.
    fn share(&mut self, thread: ThreadId) -> u64 {
        let now = process::monotonic();
        if !self.clocks.contains_key(&thread) {
            if self.clocks.len() >= MOST_CLOCKS {
                self.clocks.clear();
            }
            let Some(clock) = Clock::of(thread) else { return 0 };
            let (used, waited, at) = (Nanos(0), Nanos(0), Nanos(0));
            let (status, stat) = (None, None);
            let (waits, blocks) = (None, None);
            let new = ThreadUse { clock, used, waited, at, status, stat, waits, blocks };
            self.clocks.insert(thread, new);
        }
        let Some(seen) = self.clocks.get_mut(&thread) else { return 0 };
        let Some(Schedstat { used, waited }) = seen.clock.read() else {
            self.clocks.remove(&thread);
            return 0;
        };
        let ran = used - seen.used;
        let since = now - seen.at;
        self.waiting += (waited - seen.waited).seconds() / since.seconds().max(1e-9);
        (seen.used, seen.waited, seen.at) = (used, waited, now);
        // The first reading compares a thread's whole life with ours: the share is small, but not zero.
        (u128::from(ran.0) * 1_000_000).checked_div(u128::from(since.0)).map_or(0, |share| {
            u64::try_from(share).unwrap_or(0).min(1_000_000) + u64::from(ran.0 > 0)
        })
    }

    /// Whether a thread that runs its own code has not waited since the last call for it, at least [`QUIET`] ago.
    pub fn is_quiet(&mut self, thread: ThreadId) -> Result<bool, Refused> {
        let Some(seen) = self.clocks.get_mut(&thread) else { return Ok(false) };
        let ThreadId { pid, tid } = thread;
        seen.status = seen.status.take().or_else(|| ThreadFile::open(pid, tid, "status"));
        let status = seen.status.as_ref().and_then(ThreadFile::read);
        let waits = runs(&status.ok_or(Refused::NotRunning)?)?;
        let now = process::monotonic();
        match seen.waits {
            Some((before, at)) if before == waits => Ok(now - at >= QUIET),
            _ => {
                seen.waits = Some((waits, now));
                Ok(false)
            }
        }
    }

    /// Whether all known waits of a thread that waits often are harmless.
    pub fn waits_harmlessly(&mut self, thread: ThreadId) -> bool {
        let Some(seen) = self.clocks.get_mut(&thread) else { return false };
        let Some((waits, _)) = seen.waits else { return false };
        if seen.blocks.is_none() {
            let open = |name| ThreadFile::open(thread.pid, thread.tid, name);
            seen.blocks = open("io").map(|io| {
                let (call, writes) = (open("syscall"), None);
                Blocks { io, call, writes, waits, elsewhere: false, met: 0 }
            });
        }
        let Some(blocks) = &mut seen.blocks else { return false };
        let writes = blocks.io.read().as_deref().and_then(writes);
        if writes.is_none() || writes != blocks.writes {
            (blocks.writes, blocks.waits) = (writes, waits);
        }
        waits.saturating_sub(blocks.waits) >= WITHOUT_WRITE && !blocks.elsewhere
    }

    /// Whether a thread that runs and waits often may be stopped without being watched first.
    pub fn need_not_be_watched(&mut self, thread: ThreadId) -> bool {
        let Some(blocks) = self.blocks(thread) else { return false };
        blocks.met = blocks.met.wrapping_add(1);
        blocks.is_known() && self.waits_harmlessly(thread)
    }

    fn blocks(&mut self, thread: ThreadId) -> Option<&mut Blocks> {
        self.clocks.get_mut(&thread)?.blocks.as_mut()
    }

    /// Lets [`QUIET`] pass, or a part of it where there is nothing to find out. Meanwhile examines where a thread
    /// that waits often blocks.
    pub fn wait_quietly(&mut self, thread: ThreadId) {
        const STEP: Duration = Duration::from_nanos(QUIET.0 / LOOKS as u64);
        // A thread that writes now and then may be stopped only if it has not waited for all of that time.
        let is_harmless = self.waits_harmlessly(thread);
        let Some(blocks) = self.blocks(thread).filter(|blocks| !blocks.elsewhere) else {
            return wait_quietly();
        };
        if blocks.is_known() && is_harmless {
            return std::thread::sleep(STEP);
        }
        for _ in 0..LOOKS {
            std::thread::sleep(STEP);
            blocks.elsewhere |= blocks.call.as_ref().and_then(waits_in) == Some(false);
        }
    }

    /// Notes that we stopped a thread so often: the kernel counts each stop as a wait.
    pub fn note_stops(&mut self, thread: ThreadId, stops: u32) {
        if let Some((waits, _)) = self.clocks.get_mut(&thread).and_then(|seen| seen.waits.as_mut())
        {
            *waits += u64::from(stops);
        }
    }

    /// The CPU that a thread ran on last.
    pub fn cpu_of(&mut self, thread: ThreadId) -> Option<CpuId> {
        let ThreadId { pid, tid } = thread;
        let seen = self.clocks.get_mut(&thread)?;
        seen.stat = seen.stat.take().or_else(|| ThreadFile::open(pid, tid, "stat"));
        cpu_in(&seen.stat.as_ref()?.read()?)
    }

    /// CPU time that a thread used so far.
    #[must_use]
    pub fn used(&self, thread: ThreadId) -> Option<Nanos> {
        Some(self.read(thread)?.used)
    }

    /// Minor faults of a thread so far, once its CPU was asked for.
    #[must_use]
    pub fn faults(&self, thread: ThreadId) -> Option<u64> {
        let stat = self.clocks.get(&thread)?.stat.as_ref()?.read()?;
        Some(FaultCounts::parse(&stat)?.minor)
    }

    /// The clock of a thread that was picked.
    #[must_use]
    pub fn read(&self, thread: ThreadId) -> Option<Schedstat> {
        self.clocks.get(&thread)?.clock.read()
    }
}

/// The thread at a position, of 2^64, in the sum of the shares.
fn at(shares: &[(ThreadId, u64)], place: u64) -> Option<ThreadId> {
    let all: u64 = shares.iter().map(|(_, share)| share).sum();
    let mut at = ((u128::from(place) * u128::from(all)) >> 64) as u64;
    for (thread, share) in shares {
        if at < *share {
            return Some(*thread);
        }
        at -= share;
    }
    None
}

/// Whether a thread may be stopped now. Reads its state twice, [`QUIET`] apart.
pub fn may_be_stopped(pid: Pid, tid: Tid) -> Result<(), Refused> {
    let before = waits(&status_of(pid, tid)).ok_or(Refused::NotRunning)?;
    wait_quietly();
    if runs(&status_of(pid, tid))? == before { Ok(()) } else { Err(Refused::WaitsOften) }
}

/// Sleeps for as long as a thread must not have waited.
fn wait_quietly() {
    std::thread::sleep(Duration::from_nanos(QUIET.0));
}

/// The number of waits of a thread that its status shows running; else why it may not be stopped. A thread in state R
/// is not blocked in a system call: task_current_syscall in lib/syscall.c says "running" for no other state.
fn runs(status: &str) -> Result<u64, Refused> {
    let waits = waits(status).ok_or(Refused::NotRunning)?;
    if !field(status, "State:").is_some_and(|state| state.starts_with('R')) {
        return Err(Refused::NotRunning);
    }
    // Translated code leaves by a system call. If we died, the filter would judge it.
    if are_filtered(status) {
        return Err(Refused::SystemCallFilter);
    }
    Ok(waits)
}

/// The number of its waits so far.
fn waits(status: &str) -> Option<u64> {
    field(status, "voluntary_ctxt_switches:")?.parse().ok()
}

/// Calls of a thread that wrote to a file, pipe or socket (`/proc/TID/io`, proc_pid_io(5)).
fn writes(io: &str) -> Option<u64> {
    field(io, "syscw:")?.parse().ok()
}

/// Whether a thread blocks in a call that the kernel restarts unchanged after a stop without a signal. signal(7),
/// "Interruption of system calls and library functions by stop signals", lists the calls that it does not restart.
#[must_use]
pub fn blocks_harmlessly(pid: Pid, tid: Tid) -> bool {
    ThreadFile::open(pid, tid, "syscall").as_ref().and_then(waits_in) == Some(true)
}

/// Whether the call in which a thread blocks is such a one; `None` if it runs, or blocks in none (a page fault).
fn waits_in(call: &ThreadFile) -> Option<bool> {
    // nanosleep pause wait4 futex clock_nanosleep waitid ppoll poll (arch/x86/entry/syscalls/syscall_64.tbl)
    const RESTARTED: [u32; 8] = [35, 34, 61, 202, 230, 247, 271, 7];
    let text = call.read()?;
    let number = text.split(' ').next()?.parse().ok()?;
    Some(RESTARTED.contains(&number))
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

    fn own_tid() -> Tid {
        let path = std::fs::read_link("/proc/thread-self").expect("a thread");
        let number = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        Tid(number.expect("a number"))
    }

    /// A thread that waits in a pipe, and one that waits for a lock.
    #[test]
    fn waits_are_distinguished_by_their_call() {
        let pid = Pid(std::process::id().cast_signed());
        let until = |tid: Tid, expected| {
            let call = ThreadFile::open(pid, tid, "syscall").expect("a thread");
            let found = || waits_in(&call) == Some(expected);
            (0..2000).any(|_| {
                found() || {
                    std::thread::sleep(Duration::from_millis(5));
                    false
                }
            })
        };
        let (send, receive) = std::sync::mpsc::channel();
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let reads = std::thread::spawn(move || {
            send.send(own_tid()).expect("somebody asks");
            std::io::Read::read(&mut reader, &mut [0]).expect("the end of a pipe")
        });
        let tid = receive.recv().expect("a number");
        assert!(until(tid, false), "it reads");
        drop(writer);
        assert_eq!(reads.join().expect("no panic"), 0);
        let (send, receive) = std::sync::mpsc::channel();
        let waits = std::thread::spawn(move || {
            send.send(own_tid()).expect("somebody asks");
            std::thread::park();
        });
        let tid = receive.recv().expect("a number");
        assert!(until(tid, true), "it waits for a futex");
        waits.thread().unpark();
        waits.join().expect("no panic");
    }

    #[test]
    fn writes_are_counted() {
        assert_eq!(writes("rchar: 5\nsyscr: 7\nsyscw: 12\n"), Some(12));
        assert_eq!(writes("rchar: 5\n"), None);
    }

    /// Two threads with equal shares: pairs are of both.
    #[test]
    fn of_two_choices_the_second_lies_opposite() {
        let mut picker = Picker::new(Random::new(5));
        let shares = [(ThreadId::new(Pid(1), Tid(1)), 500), (ThreadId::new(Pid(1), Tid(2)), 500)];
        for _ in 0..100 {
            let pair = [(); 2].map(|()| picker.choose(shares.to_vec()));
            assert!(pair[0].is_some() && pair[1].is_some() && pair[0] != pair[1], "{pair:?}");
        }
        // Of one in ten, every tenth choice.
        let shares = [(ThreadId::new(Pid(1), Tid(1)), 100), (ThreadId::new(Pid(1), Tid(2)), 900)];
        let seldom =
            (0..20_000).filter(|_| picker.choose(shares.to_vec()) == Some(shares[0].0)).count();
        assert!((1900..2100).contains(&seldom), "{seldom}");
        assert_eq!(picker.choose(Vec::new()), None);
    }

    /// Only a thread that used CPU time is picked, and only of the processes that were named.
    #[test]
    fn threads_without_cpu_time_are_not_picked() {
        let pid = Pid(std::process::id().cast_signed());
        let mut picker = Picker::new(Random::new(1));
        assert_eq!(picker.pick(&[]), None);
        for _ in 0..100 {
            if let Some(picked) = picker.pick(&[pid]) {
                assert_eq!(picked.pid, pid);
                assert!(picker.used(picked).is_some_and(|used| used.0 > 0));
            }
        }
        assert!(picker.used(ThreadId::new(pid, Tid(-1))).is_none());
    }
}
