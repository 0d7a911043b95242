//! Turns context switches of threads into windows of time. The number of windows does not depend on the rate of
//! switches.
//!
//! ```text
//!   record        effect
//!   stack sample  kept: it belongs to the switch of the same thread that follows at once
//!                 (`perf_event_task_sched_out`, include/linux/perf_event.h, counts the switch, then announces it)
//!   switch out    the thread's time on the CPU ends, a wait begins
//!   switch in     the wait ends: a row of its own if it was as long as a window, else part of a sum
//!   a reading     wait sites of threads that wait for long without a stack are read (`long_waits`); where the kernel
//!                 gives no stacks, those of all waiting threads
//! ```
//! What not: the threads that end waits (`wakeups`). Sums of the time that a thread ran and waited are exact, even if
//! only some waits have a stack: those without one are rows of their own, and `analysis` divides them. After a loss
//! of records, unknown states are left out, not guessed.
//!
//! Cost: a row takes about 20 bytes. Windows grow so that there are at most 2,000 rows a second, and 1,000 windows
//! per doubling of the time. A switch costs the kernel two records of 56 bytes, and two look-ups here.

use std::collections::{BTreeMap, VecDeque};

use base::{Nanos, Pid, RemoteAddr, StackId, ThreadId, Tid};
use facts::{Concurrency, Fact, SinkError, ThreadTime, Wait, WaitKind, Waker};

use super::record::Switch;
use super::wakeups::Wakers;
use crate::long_waits;
use crate::recorder::{Moment, Recorder};

/// Least length of a window.
const SHORTEST_WINDOW: Nanos = Nanos(10_000_000);
/// A window is at least as long as the time so far divided by this.
const WINDOWS: u64 = 1000;
/// Least mean time per row, ns.
const TIME_PER_ROW: u64 = 500_000;
/// Period in which run queue times are read; a reading takes some 4 microseconds per thread.
const QUEUE_INTERVAL: Nanos = Nanos(100_000_000);
/// Reading them may take one part in this many of the time.
const QUEUE_SHARE: u64 = 200;

/// The site of a wait of this length is read while it lasts.
const LONG_WAIT: Nanos = Nanos(50_000_000);

/// Where a thread waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WaitSite {
    /// Its call stack while it waits.
    pub stack: Option<StackId>,
    /// The first argument of its system call: for a futex, the lock.
    pub object: Option<RemoteAddr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// Records were lost.
    #[default]
    Unknown,
    Running,
    Off(WaitKind, WaitSite),
}

#[derive(Debug, Default)]
struct Thread {
    state: State,
    since: Nanos,
    /// Time on a CPU in this window.
    running: Nanos,
    /// From the sample right before a switch.
    site: Option<WaitSite>,
    /// Where it waited at a time, as read. The last two readings, because records arrive one reading late.
    looked_at: [Option<(Nanos, WaitSite)>; 2],
    switched_since_read: bool,
    /// Run queue time at the last reading, and the increase since the last row.
    queued_before: Option<u64>,
    queued: Option<Nanos>,
    ended: bool,
}

/// A sum of waits: of one thread, kind and site, and of about the same length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct WaitGroup {
    pid: Pid,
    tid: Tid,
    kind: WaitKind,
    site: WaitSite,
    /// Number of binary digits of the length in nanoseconds.
    digits: u32,
}

/// The state from which windows are made.
#[derive(Debug)]
pub struct SwitchTracker {
    threads: BTreeMap<ThreadId, Thread>,
    short: BTreeMap<WaitGroup, (u64, Nanos)>,
    wakers: Wakers,
    window: Nanos,
    width: Nanos,
    /// Number of running threads, since when, and for how long each number of threads ran in this window.
    running: u32,
    running_since: Nanos,
    at_once: BTreeMap<u32, Nanos>,
    next_read: Nanos,
    /// Waits of this length are read.
    looks_from: Nanos,
    /// Where windows and waits are cut in two.
    cuts: VecDeque<Nanos>,
}

impl SwitchTracker {
    /// `has_stacks`: switches come with stacks, unless there are too many.
    pub fn new(has_stacks: bool) -> SwitchTracker {
        SwitchTracker {
            looks_from: if has_stacks { LONG_WAIT } else { Nanos(0) },
            threads: BTreeMap::new(),
            short: BTreeMap::new(),
            wakers: Wakers::default(),
            window: Nanos(0),
            width: SHORTEST_WINDOW,
            running: 0,
            running_since: Nanos(0),
            at_once: BTreeMap::new(),
            next_read: Nanos(0),
            cuts: VecDeque::new(),
        }
    }

    /// No row is to reach over this time: a pause of the recording begins or ends. Records that arrive later may be of
    /// before.
    pub fn cut(&mut self, time: Nanos) {
        self.cuts.push_back(time);
    }

    /// Adds a program that begins at time zero by running.
    pub fn launched(&mut self, pid: Pid) {
        self.threads.entry(ThreadId::first(pid)).or_default().queued_before = Some(0);
        self.set_state(Nanos(0), ThreadId::first(pid), State::Running);
    }

    /// Adds a thread that exists when we start: it runs, or waits for an unknown reason.
    pub fn found(&mut self, pid: Pid, tid: Tid, runs: bool) {
        let state =
            if runs { State::Running } else { State::Off(WaitKind::Blocked, WaitSite::default()) };
        let queued_before = run_queue_time(pid, tid);
        self.threads.entry(ThreadId::new(pid, tid)).or_default().queued_before = queued_before;
        self.set_state(Nanos(0), ThreadId::new(pid, tid), state);
    }

    /// A thread is born: it waits for a CPU.
    pub fn born(
        &mut self,
        time: Nanos,
        pid: Pid,
        tid: Tid,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        self.advance(time, recorder)?;
        let thread = self.threads.entry(ThreadId::new(pid, tid)).or_default();
        (thread.ended, thread.queued_before) = (false, Some(0));
        self.set_state(
            time,
            ThreadId::new(pid, tid),
            State::Off(WaitKind::Preempted, WaitSite::default()),
        );
        Ok(())
    }

    /// A thread ended.
    pub fn ended(
        &mut self,
        time: Nanos,
        pid: Pid,
        tid: Tid,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        self.advance(time, recorder)?;
        self.set_state(time, ThreadId::new(pid, tid), State::Unknown);
        self.threads.entry(ThreadId::new(pid, tid)).or_default().ended = true;
        Ok(())
    }

    /// The site of the next switch of this thread.
    pub fn leaves_with(
        &mut self,
        pid: Pid,
        tid: Tid,
        stack: Option<StackId>,
        argument: Option<RemoteAddr>,
    ) {
        self.threads.entry(ThreadId::new(pid, tid)).or_default().site =
            stack.map(|stack| WaitSite { stack: Some(stack), object: argument });
    }

    /// A thread was woken, from outside the program if there is no waker; represents `weight` wakes.
    pub fn wakes(&mut self, time: Nanos, woken: Tid, waker: Option<Waker>, weight: u64) {
        self.wakers.wakes(time, woken, waker, weight);
    }

    /// A thread was switched.
    pub fn switched(
        &mut self,
        time: Nanos,
        pid: Pid,
        tid: Tid,
        to: Switch,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        self.advance(time, recorder)?;
        let id = ThreadId::new(pid, tid);
        let thread = self.threads.entry(id).or_default();
        thread.switched_since_read = true;
        let before = (thread.state, thread.since);
        match to {
            Switch::In => {
                self.set_state(time, id, State::Running);
                if let (State::Off(kind, site), since) = before {
                    let site = self.threads.entry(id).or_default().site_of(site, (since, time));
                    self.waited(id, kind, site, (since, time), recorder)?;
                    if kind == WaitKind::Blocked {
                        let window = self.width;
                        self.wakers.ended(id, site, (since, time), window, recorder)?;
                    }
                }
            }
            Switch::Blocked | Switch::Preempted => {
                let blocked = to == Switch::Blocked;
                let kind = if blocked { WaitKind::Blocked } else { WaitKind::Preempted };
                // A preempted thread left where it ran: samples show that.
                let site = thread.site.take().filter(|_| blocked).unwrap_or_default();
                self.set_state(time, id, State::Off(kind, site));
            }
        }
        Ok(())
    }

    /// Switches may have been lost: the state of every thread is unknown until it switches again or is sampled.
    pub fn lost(&mut self, time: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        self.advance(time, recorder)?;
        self.wakers.lost();
        let threads: Vec<ThreadId> = self.threads.keys().copied().collect();
        for id in threads {
            self.set_state(time, id, State::Unknown);
            self.threads.entry(id).or_default().site = None;
        }
        Ok(())
    }

    /// A sample shows that a thread runs.
    pub fn runs(
        &mut self,
        time: Nanos,
        pid: Pid,
        tid: Tid,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let unknown = |thread: &Thread| thread.state == State::Unknown && !thread.ended;
        if self.threads.get(&ThreadId::new(pid, tid)).is_some_and(unknown) {
            self.advance(time, recorder)?;
            self.set_state(time, ThreadId::new(pid, tid), State::Running);
        }
        Ok(())
    }

    /// Reads how long threads waited for CPUs, and the sites of those that wait for long, when that is due. `time` is
    /// the time that records have reached, `now` the current time.
    pub fn look(
        &mut self,
        time: Nanos,
        now: Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        self.advance(time, recorder)?;
        if time < self.next_read {
            return Ok(());
        }
        let began = sys::process::monotonic();
        for (&ThreadId { pid, tid }, thread) in &mut self.threads {
            let switched = std::mem::take(&mut thread.switched_since_read);
            if switched {
                thread.read_queue(pid, tid);
            }
            let nowhere = State::Off(WaitKind::Blocked, WaitSite::default());
            let long = thread.state == nowhere && time - thread.since >= self.looks_from;
            let known = thread.looked_at.iter().flatten().any(|(then, _)| *then >= thread.since);
            // The state is that of the last reading: a thread that switches often may wait by now.
            if long && !known || switched && self.looks_from == Nanos(0) {
                let at = Moment { time: now, pid, tid, cpu: None };
                let site = long_waits::site(at, recorder)?;
                thread.looked_at = [site.map(|site| (now, site)), thread.looked_at[0]];
            }
        }
        let took = sys::process::monotonic() - began;
        self.next_read = time + QUEUE_INTERVAL.max(Nanos(took.0.saturating_mul(QUEUE_SHARE)));
        Ok(())
    }

    /// Ends all states at the end of the recording.
    pub fn finish(mut self, end: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        self.advance(end, recorder)?;
        self.close_window(end, recorder)?;
        self.end_waits(end, recorder)
    }

    fn end_waits(&self, end: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        for (&ThreadId { pid, tid }, thread) in &self.threads {
            if let State::Off(kind, site) = thread.state
                && end > thread.since
            {
                let WaitSite { stack, object } = thread.site_of(site, (thread.since, end));
                let (time, span) = (thread.since, end - thread.since);
                let wait =
                    Wait { time, span, pid, tid, kind, waits: 1, waited: span, object, stack };
                recorder.push(Fact::Wait(wait))?;
            }
        }
        Ok(())
    }

    fn waited(
        &mut self,
        ThreadId { pid, tid }: ThreadId,
        kind: WaitKind,
        site: WaitSite,
        (since, until): (Nanos, Nanos),
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let waited = until - since;
        if waited >= self.width {
            let (time, WaitSite { stack, object }) = (since, site);
            let wait = Wait { time, span: waited, pid, tid, kind, waits: 1, waited, object, stack };
            return recorder.push(Fact::Wait(wait));
        }
        let digits = u64::BITS - waited.0.leading_zeros();
        let sum = self.short.entry(WaitGroup { pid, tid, kind, site, digits }).or_default();
        sum.0 += 1;
        sum.1 += waited;
        Ok(())
    }

    /// Changes a state. Every change goes through here, so that the number of running threads is right.
    fn set_state(&mut self, time: Nanos, id: ThreadId, state: State) {
        let thread = self.threads.entry(id).or_default();
        let (ran, runs) = (thread.state == State::Running, state == State::Running);
        if ran && !runs {
            thread.running += time - thread.since;
        }
        // Switched in twice: the switch between was lost, and the time since the first belongs to no state.
        (thread.state, thread.since) = (state, time);
        if ran != runs {
            self.count_at_once(time);
            self.running = if runs { self.running + 1 } else { self.running.saturating_sub(1) };
        }
    }

    fn count_at_once(&mut self, time: Nanos) {
        *self.at_once.entry(self.running).or_default() += time - self.running_since;
        self.running_since = time;
    }

    /// Closes the windows that have ended at `time`.
    fn advance(&mut self, time: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        while let Some(cut) = self.cuts.front().copied().filter(|cut| *cut <= time) {
            self.cuts.pop_front();
            self.close_until(cut, recorder)?;
            self.close_window(cut, recorder)?;
            self.end_waits(cut, recorder)?;
            for (&ThreadId { pid, tid }, thread) in &mut self.threads {
                // What it waited for a CPU before belongs to no window after.
                thread.read_queue(pid, tid);
                thread.queued = None;
                thread.since = thread.since.max(cut);
            }
        }
        self.close_until(time, recorder)
    }

    fn close_until(&mut self, time: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        while time >= self.window + self.width {
            self.close_window(self.window + self.width, recorder)?;
        }
        Ok(())
    }

    fn close_window(&mut self, end: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        let (time, span) = (self.window, end - self.window);
        if span == Nanos(0) {
            return Ok(());
        }
        self.count_at_once(end);
        let mut rows = self.wakers.close((time, span), recorder)?;
        for (&ThreadId { pid, tid }, thread) in &mut self.threads {
            if thread.state == State::Running {
                thread.running += end - thread.since;
                thread.since = end;
            }
            let (running, queued) = (std::mem::take(&mut thread.running), thread.queued.take());
            if running > Nanos(0) || queued.is_some() {
                rows += 1;
                let row = ThreadTime { time, span, pid, tid, running, queued };
                recorder.push(Fact::ThreadTime(row))?;
            }
        }
        self.threads.retain(|_, thread| !thread.ended);
        for (group, (waits, waited)) in std::mem::take(&mut self.short) {
            let WaitGroup { pid, tid, kind, site: WaitSite { stack, object }, .. } = group;
            rows += 1;
            let wait = Wait { time, span, pid, tid, kind, waits, waited, object, stack };
            recorder.push(Fact::Wait(wait))?;
        }
        for (running, duration) in std::mem::take(&mut self.at_once) {
            if duration > Nanos(0) {
                rows += 1;
                let row = Concurrency { time, span, running, duration };
                recorder.push(Fact::Concurrency(row))?;
            }
        }
        self.window = end;
        self.width = SHORTEST_WINDOW.max(Nanos(end.0 / WINDOWS)).max(Nanos(rows * TIME_PER_ROW));
        Ok(())
    }
}

impl Thread {
    /// The wait site in this time: from the sample when it left its CPU, else from a reading meanwhile.
    fn site_of(&self, site: WaitSite, (since, until): (Nanos, Nanos)) -> WaitSite {
        if site.stack.is_some() {
            return site;
        }
        let mut readings = self.looked_at.iter().flatten();
        let reading = readings.find(|(then, _)| (since..=until).contains(then));
        reading.map_or(site, |(_, read)| *read)
    }

    fn read_queue(&mut self, pid: Pid, tid: Tid) {
        let Some(now) = run_queue_time(pid, tid) else { return };
        if let Some(before) = self.queued_before.replace(now) {
            *self.queued.get_or_insert_default() += Nanos(now.saturating_sub(before));
        }
    }
}

/// Nanoseconds that a thread has waited for a CPU: the second field of its `schedstat`
/// (Documentation/scheduler/sched-stats.rst).
fn run_queue_time(pid: Pid, tid: Tid) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
#[path = "switches_tests.rs"]
mod tests;
