//! Sampling without perf events: ptrace stops running threads at random times, for some 50 microseconds each.
//!
//! What for: containers and sandboxes that refuse perf_event_open. What not: kernel functions and page-fault
//! addresses; ptrace does not show them.
//!
//! Assumptions and limits:
//! - A thread that is stopped inside a system call sees it interrupted. The kernel restarts most calls, but a
//!   blocking `write` may return early, and `epoll_wait` with EINTR (signal(7)). `/proc` shows whether a thread
//!   *blocks* in a call, not whether it runs in one. So threads whose system time grew within the last looks are not
//!   stopped: a program that makes many calls, or faults much, gets few samples. What remains is rare, not
//!   impossible; the report says so.
//! - A sample's weight is the CPU time that the thread used since its previous sample (schedstat), so weights add up
//!   to the CPU time even if samples are rare.
//! - A thread that is found at the end of a system call is not counted there; its time goes to its next sample. On a
//!   busy machine the kernel often preempts a thread just there to let us run (lazy preemption). Such samples would
//!   show the program's system calls instead of its work.
//! - Mappings are not announced: `/proc/PID/maps` is read again when a stack leads to an unknown address, and ever
//!   more rarely while that does not help.

use base::{Nanos, Pid, ThreadId, Tid};
use facts::SinkError;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use sys::process::Waited;
use sys::trace;
use tracee::random::Random;
use tracee::{News, SeizeError, Tracees, status};

use crate::address_space::CopiedStack;
use crate::recorder::{Moment, Position, Recorder, Ticked};

/// Time between two rounds. A round stops every running thread once; at 100 rounds a second a running thread is
/// stopped for about half a percent of its time.
pub const PERIOD: Nanos = Nanos(10_000_000);

/// A thread is stopped only if its system time has not grown for this much of its CPU time. The kernel counts system
/// time in ticks of 1 to 10 ms, so one look alone says little: of 7,900 blocking writes of 1 MiB into a pipe 47
/// returned early with one look, none with five on an idle machine. On a busy machine a thread may not run between
/// looks, so its own CPU time counts.
const QUIET_TIME: Nanos = Nanos(50_000_000);

/// How often threads that are born are looked for in a pause, beyond SIGCHLD.
const PAUSED: Duration = Duration::from_millis(100);

/// A sampler that holds its tracees.
pub struct PtraceSampler {
    tracees: Tracees,
    accounted: BTreeMap<Tid, Nanos>,
    /// System time at the last look, in ticks, and the CPU time at which it was first seen.
    system_times: BTreeMap<Tid, (u64, Nanos)>,
    stack: Vec<u8>,
    next_round: Nanos,
    random: Random,
    start: Nanos,
    maps_read: BTreeMap<Pid, MapsSchedule>,
    main: Pid,
    main_changed: Option<Waited>,
    is_paused: bool,
}

impl PtraceSampler {
    /// Seizes a process: a launched child that still waits, or a running one.
    pub fn on_process(pid: Pid, stack_bytes: u32) -> Result<PtraceSampler, SeizeError> {
        let tracees = Tracees::seize(pid)?;
        let accounted = tracees
            .threads()
            .filter_map(|ThreadId { pid, tid }| Some((tid, trace::scheduled_time(pid, tid)?)))
            .collect();
        Ok(PtraceSampler {
            tracees,
            accounted,
            system_times: BTreeMap::new(),
            stack: vec![0; stack_bytes as usize],
            next_round: Nanos(0),
            random: Random::new(sys::process::monotonic().0),
            start: Nanos(0),
            maps_read: BTreeMap::new(),
            main: pid,
            main_changed: None,
            is_paused: false,
        })
    }

    /// Sets time zero of the recording.
    pub fn begin(&mut self, start: Nanos) {
        self.start = start;
    }

    /// The last change of the process that we were started on, returned once: it ended, or job control stopped it.
    pub fn take_main_change(&mut self) -> Option<Waited> {
        self.main_changed.take()
    }

    /// How long nothing is due. Events of the program wake us earlier, by SIGCHLD.
    #[must_use]
    pub fn idle_time(&self) -> Duration {
        if self.is_paused {
            return PAUSED;
        }
        let now = sys::process::monotonic() - self.start;
        Duration::from_nanos((self.next_round - now).0)
    }

    /// Answers pending stops, and takes a round of samples when one is due.
    pub fn look(&mut self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        let mut news = Vec::new();
        self.tracees.settle(&mut |one| news.push(one));
        let now = sys::process::monotonic() - self.start;
        if now >= self.next_round && !self.is_paused {
            self.next_round = now + self.random.around(PERIOD);
            let threads: Vec<ThreadId> = self.tracees.threads().collect();
            for ThreadId { pid, tid } in threads {
                self.sample(pid, tid, recorder, &mut news)?;
            }
        }
        self.pass_on(news, recorder)
    }

    /// Takes no samples from now on, or takes them again. CPU time of meanwhile is not seen.
    pub fn pause(&mut self, paused: bool) {
        self.is_paused = paused;
        let used = |ThreadId { pid, tid }| Some((tid, trace::scheduled_time(pid, tid)?));
        self.accounted = self.tracees.threads().filter_map(used).collect();
    }

    /// Leaves the program.
    pub fn stop(&mut self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        let mut news = Vec::new();
        self.tracees.settle(&mut |one| news.push(one));
        self.tracees.detach(&mut |one| news.push(one));
        self.pass_on(news, recorder)
    }

    fn sample(
        &mut self,
        pid: Pid,
        tid: Tid,
        recorder: &mut Recorder<'_>,
        news: &mut Vec<News>,
    ) -> Result<(), SinkError> {
        let Some(system_time) = system_time_of_running(pid, tid) else { return Ok(()) };
        let Some(used) = trace::scheduled_time(pid, tid) else { return Ok(()) };
        let quiet = self.system_times.entry(tid).or_default();
        if quiet.0 != system_time {
            *quiet = (system_time, used);
        }
        if used - quiet.1 < QUIET_TIME {
            return Ok(());
        }
        let stack = &mut self.stack;
        let seen = self.tracees.while_stopped(tid, &mut |one| news.push(one), |registers| {
            let got = trace::read_memory(pid, registers.stack_pointer, stack);
            (*registers, got)
        });
        let Some((registers, got)) = seen else { return Ok(()) };
        if registers.in_system_call {
            return Ok(());
        }
        let Some(used) = trace::scheduled_time(pid, tid) else { return Ok(()) };
        let weight = used - self.accounted.insert(tid, used).unwrap_or(Nanos(0));
        if weight == Nanos(0) {
            return Ok(());
        }
        let time = sys::process::monotonic() - self.start;
        let user = CopiedStack { registers: &registers.unwinding, bytes: &self.stack[..got] };
        let position = Position {
            kernel: &[],
            ip: registers.instruction_pointer,
            user: registers.is_64_bit.then_some(user),
            chain: &[],
            guest: None,
        };
        if !recorder.can_follow(pid, user) && self.maps_read.entry(pid).or_default().is_due(time) {
            recorder.read_maps(time, pid)?;
        }
        let general = registers.general.as_ref().filter(|_| registers.is_64_bit);
        let seen = Ticked { weight, cpu_time: Some(used), general };
        recorder.sampled(Moment { time, pid, tid, cpu: None }, seen, position)
    }

    fn pass_on(&mut self, news: Vec<News>, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        let time = sys::process::monotonic() - self.start;
        let executed = |news: &News| match news {
            News::Executed { pid } => Some(*pid),
            _ => None,
        };
        let executed: BTreeSet<Pid> = news.iter().filter_map(executed).collect();
        for one in news {
            match one {
                News::Born { pid, tid } => {
                    recorder.thread_started(time, pid, tid, &thread_name(pid, tid))?;
                    // Otherwise its mappings would be reported twice at the same moment.
                    if !executed.contains(&pid) {
                        recorder.read_maps(time, pid)?;
                    }
                }
                News::Executed { pid } => {
                    let name = thread_name(pid, Tid(pid.0));
                    recorder.executed(time, pid, Tid(pid.0), &name)?;
                    recorder.read_maps(time, pid)?;
                }
                News::Stopped { pid, signal } => {
                    if pid == self.main {
                        self.main_changed = Some(Waited::Stopped(signal));
                    }
                }
                News::Ended { pid, tid, how } => {
                    self.accounted.remove(&tid);
                    self.system_times.remove(&tid);
                    recorder.thread_ended(time, pid, tid)?;
                    if tid.0 == self.main.0 {
                        self.main_changed = Some(how);
                    }
                }
            }
        }
        Ok(())
    }
}

/// When to read a process's maps again.
#[derive(Default)]
struct MapsSchedule {
    next: Nanos,
    interval: Nanos,
}

impl MapsSchedule {
    fn is_due(&mut self, now: Nanos) -> bool {
        if now < self.next {
            return false;
        }
        self.interval = Nanos((self.interval.0 * 2).clamp(10_000_000, 2_000_000_000));
        self.next = now + self.interval;
        true
    }
}

/// The name of a thread; empty when it is gone.
pub fn thread_name(pid: Pid, tid: Tid) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"))
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}

/// System time (field 15 of `/proc/PID/task/TID/stat`, in ticks) of a thread that runs its own code.
fn system_time_of_running(pid: Pid, tid: Tid) -> Option<u64> {
    status::stat_of_running(pid, tid)?.split(' ').nth(12)?.parse().ok()
}
