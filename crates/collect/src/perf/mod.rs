//! The perf sampler: clock samples, page faults and exact totals from perf_event_open's software events.
//!
//! What for: the best source on any machine, with or without hardware counters; its interrupt is the kernel's own
//! timer. What not: what to do when it is refused (`source`).

mod clocks;
mod counted;
mod events;
mod fault_windows;
mod held;
mod record;
#[cfg(test)]
mod simulated_tests;
mod switches;
mod traces;
mod wakeups;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::os::fd::{AsFd, BorrowedFd};

use base::{CpuId, Nanos, Pid, RemoteAddr, ThreadId, Tid};
use facts::{Fact, FaultKind, LostSource, SinkError, Waker};

use clocks::Clocks;
use counted::CountedEvents;
pub(crate) use events::libc_errno;
pub use events::{ALL_THREADS, OpenError, Opened, Settings, Stream, Totals};
use fault_windows::FaultWindows;
use held::Held;
use record::{Formats, Record, SampleRecord};
use switches::SwitchTracker;
pub use switches::WaitSite;
use sys::perf::{Ring, USER_INSTRUCTION_POINTER};
use traces::Traces;
pub use wakeups::WakingTracepoint;

use crate::accesses::{SampleParts, Weight, access};
use crate::address_space::CopiedStack;
use crate::branches::Branches;
use crate::online_cpus::OnlineCpus;
use crate::recorder::{Moment, NewMapping, Position, Recorder, Ticked};

/// Most processes whose threads are asked how often they switch.
const MOST_PROCESSES: usize = 64;

/// An open sampler.
pub struct PerfSampler {
    rings: Vec<Ring>,
    events: Opened,
    streams: HashMap<u64, Stream>,
    formats: Formats,
    last_look: Nanos,
    start: Nanos,
    malformed: u64,
    /// Lost records that the rings reported, of the clock and of faults.
    announced_lost: (u64, u64),
    periods: HashMap<(Tid, CpuId, Stream), u64>,
    /// Records switches, if they are wanted.
    switches: Option<SwitchTracker>,
    waking: Option<WakingTracepoint>,
    /// A process whose samples do not belong to the program.
    left_out: Option<Pid>,
    /// For a launched program, whose faults the kernel also counts.
    fault_windows: Option<FaultWindows>,
    /// Which clock samples; `None` where there is only one.
    clocks: Option<Clocks>,
    /// Clock samples that are not worked off yet, and how many bytes of them may wait.
    held: Held,
    may_wait: usize,
    /// Counted events that take samples.
    counted: CountedEvents,
    /// Those that write a trace.
    traces: Traces,
    /// The loops in the branches before their samples.
    branches: Branches,
    /// The CPUs at the beginning.
    online: OnlineCpus,
    /// How often the kernel stopped events that took too many samples.
    throttled: u64,
    /// Kept between samples, to save an allocation each.
    kernel_chain: Vec<u64>,
    /// While nothing is to be observed: the major faults until then.
    paused: Option<u64>,
    /// Major faults of all such times.
    unseen_major: u64,
}

impl PerfSampler {
    /// Opens the events on a launched child that still waits: they begin with its execve.
    pub fn on_launch(child: Pid, settings: &Settings) -> Result<PerfSampler, OpenError> {
        let mut sampler =
            Opened::on_launch(child, settings).map(|opened| PerfSampler::new(opened, settings))?;
        sampler.fault_windows = Some(FaultWindows::new());
        if settings.wait_stack_rate.is_some() {
            let mut tracker = SwitchTracker::new(sampler.sees_kernel());
            tracker.launched(child);
            sampler.switches = Some(tracker);
        }
        Ok(sampler)
    }

    /// Opens the events on a process that starts several runs and is itself left out. They do not begin with an
    /// execve. When the kernel switches from parent to child it may swap their events
    /// (`perf_event_context_sched_out`), and an event that one execve has begun does not begin with another. So they
    /// also count what a child does between fork and execve.
    pub fn on_starter(starter: Pid, settings: &Settings) -> Result<PerfSampler, OpenError> {
        let sampler = PerfSampler::on_running(&[Tid(starter.0)], settings)?;
        Ok(PerfSampler { left_out: Some(starter), ..sampler })
    }

    /// Opens the events on all threads of a running process.
    pub fn on_running(threads: &[Tid], settings: &Settings) -> Result<PerfSampler, OpenError> {
        let mut sampler = Opened::on_running(threads, settings)
            .map(|opened| PerfSampler::new(opened, settings))?;
        if settings.wait_stack_rate.is_some() {
            let mut tracker = SwitchTracker::new(sampler.sees_kernel());
            for tid in threads {
                let Some(pid) = tracee::process_of(*tid) else { continue };
                tracker.found(pid, *tid, tracee::status::stat_of_running(pid, *tid).is_some());
            }
            sampler.switches = Some(tracker);
        }
        Ok(sampler)
    }

    /// Opens the events on everything that runs on the CPUs, except the idle threads.
    pub fn on_machine(settings: &Settings) -> Result<PerfSampler, OpenError> {
        Opened::on_machine(settings).map(|opened| PerfSampler::new(opened, settings))
    }

    fn new(mut events: Opened, settings: &Settings) -> PerfSampler {
        let counted = events.number_counted(settings);
        let rings = std::mem::take(&mut events.rings);
        let streams = std::mem::take(&mut events.streams);
        let formats = std::mem::take(&mut events.formats);
        let traces = std::mem::take(&mut events.traces);
        let waking = events.waking;
        let clocks = events.has_slow_clock().then(|| {
            let timer = sys::process::timer_cost();
            Clocks::new(timer, settings.cpus.len(), settings.period, events.cpu_clocks())
        });
        PerfSampler {
            rings,
            events,
            streams,
            formats,
            last_look: Nanos(0),
            start: Nanos(0),
            malformed: 0,
            announced_lost: (0, 0),
            periods: HashMap::new(),
            switches: None,
            waking,
            left_out: None,
            fault_windows: None,
            clocks,
            held: Held::default(),
            may_wait: 0,
            counted,
            traces,
            branches: Branches::default(),
            online: OnlineCpus::now(),
            throttled: 0,
            kernel_chain: Vec::new(),
            paused: None,
            unseen_major: 0,
        }
    }

    /// Sets time zero of the recording.
    pub fn begin(&mut self, start: Nanos) {
        self.start = start;
        self.last_look = start;
        self.traces.compare_clocks();
    }

    /// Whether time inside the kernel is sampled too.
    #[must_use]
    pub fn sees_kernel(&self) -> bool {
        self.events.sees_kernel
    }

    /// Whether the thread that ends a wait is recorded.
    #[must_use]
    pub fn sees_wakers(&self) -> bool {
        self.waking.is_some()
    }

    /// Names the counted events that take samples, before any of these. Returns their number.
    pub fn announce_counted(&self, recorder: &mut Recorder<'_>) -> Result<u32, SinkError> {
        self.counted.announce(recorder)?;
        Ok(u32::try_from(self.counted.len()).unwrap_or(u32::MAX))
    }

    /// Descriptors that become readable when records wait.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let traces = self.traces.owners().filter_map(|owner| self.events.counted.get(owner));
        self.events.ring_owners().chain(traces.map(|(_, event)| event)).map(AsFd::as_fd)
    }

    /// Reads the rings, and passes on the records that are old enough to be in order.
    pub fn look(&mut self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        let now = sys::process::monotonic();
        let safe = self.last_look;
        self.last_look = now;
        self.pass_on(safe, recorder)?;
        let stopped = self.traces.take_stopped();
        if self.paused.is_none() {
            self.events.go_on(&stopped);
            self.adapt(now, recorder);
        }
        self.may_wait = match &self.clocks {
            Some(clocks) if clocks.fill_cpus() => held::MOST,
            _ => 0,
        };
        let since = (now - self.start) - held::LONGEST;
        self.work_off(self.may_wait, since, recorder)?;
        self.counted.read(now - self.start, false, &self.events.counted, recorder)?;
        match &mut self.switches {
            Some(tracker) => tracker.look(safe - self.start, now - self.start, recorder),
            None => Ok(()),
        }
    }

    /// Chooses the clock, and whether faults are recorded.
    fn adapt(&mut self, now: Nanos, recorder: &Recorder<'_>) {
        if let Some(windows) = &mut self.fault_windows {
            // Not an earlier time: passing records on takes as long as a window.
            let begin = sys::process::monotonic();
            if let Some(to) = windows.switch(begin - self.start, || self.events.minor_faults()) {
                self.events.set_minor_faults(to);
                windows.switched(sys::process::monotonic() - begin);
            }
        }
        let clocks = self.clocks.as_mut().filter(|one| one.wants_a_look(now - self.start));
        if let Some(clocks) = clocks {
            // Births are reported one reading late.
            let known = |pid| (pid, tracee::threads_of(pid).unwrap_or_default());
            let threads: Vec<_> = recorder.processes().take(MOST_PROCESSES).map(known).collect();
            let former = clocks.now();
            let clock = clocks.look(now - self.start, &threads);
            if clock != former {
                let begin = sys::process::monotonic();
                self.events.use_clock(clock, former);
                clocks.changed(sys::process::monotonic() - begin);
            }
        }
    }

    /// Nothing that threads do is to reach over this time.
    pub fn cut(&mut self, time: Nanos) {
        if let Some(tracker) = &mut self.switches {
            tracker.cut(time);
        }
    }

    /// Takes no samples and counts nothing from `now` on (since the start), or does so again.
    pub fn pause(&mut self, paused: bool, now: Nanos) {
        let clock = self.clocks.as_ref().map(Clocks::now).unwrap_or_default();
        self.events.pause(paused, clock);
        let major = self.events.major_faults();
        if paused {
            self.paused = Some(major);
        } else if let Some(before) = self.paused.take() {
            self.unseen_major += major.saturating_sub(before);
            if let Some(windows) = &mut self.fault_windows {
                windows.resumed(now, self.events.minor_faults());
            }
        }
    }

    /// The next time at which work is due even without records, since the start.
    #[must_use]
    pub fn due(&self) -> Option<Nanos> {
        if self.paused.is_some() {
            return None;
        }
        let faults = self.fault_windows.as_ref().and_then(FaultWindows::due);
        faults.into_iter().chain(self.clocks.as_ref().and_then(Clocks::due)).min()
    }

    /// How much longer the program's faults took because they were counted, or could have been: an estimate. `taken`:
    /// the number of all faults, where it is known.
    #[must_use]
    pub fn fault_watching(&self, taken: Option<u64>) -> Nanos {
        let counted = self.events.minor_faults();
        let others = taken.unwrap_or(0).saturating_sub(counted);
        let seconds =
            counted as f64 * fault_windows::COST + others as f64 * fault_windows::COST_WHILE_OFF;
        Nanos((seconds * 1e9) as u64)
    }

    /// How much longer switches of the program's threads took because of the events: an estimate.
    #[must_use]
    pub fn switch_watching(&self) -> Nanos {
        self.clocks.as_ref().map_or(Nanos(0), Clocks::cost)
    }

    /// How long threads of the program wanted a CPU and had none, in times of their CPU time, where that is known.
    #[must_use]
    pub fn delay(&self) -> Option<f64> {
        self.clocks.as_ref().and_then(Clocks::delay)
    }

    /// Stops all events: nothing is observed after this.
    pub fn stop(&self) {
        self.events.stop();
    }

    /// Passes on the rest of a recording of length `end`, and reads the totals.
    pub fn finish(
        mut self,
        end: Nanos,
        notes: &mut Vec<String>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Totals, SinkError> {
        self.pass_on(Nanos(u64::MAX), recorder)?;
        self.work_off(0, Nanos(0), recorder)?;
        self.counted.read(end, true, &self.events.counted, recorder)?;
        notes.extend(self.counted.take_notes());
        for one in std::mem::take(&mut self.branches).into_facts() {
            recorder.push(Fact::BranchLoop(one))?;
        }
        if self.throttled > 0 {
            notes.push(format!(
                "the kernel stopped sampling {} times for the rest of a timer tick, because samples came too often: their code has \
                 too small a share (kernel.perf_event_max_sample_rate, kernel.perf_cpu_time_max_percent)",
                self.throttled
            ));
        }
        if let Some(tracker) = self.switches.take() {
            tracker.finish(end, recorder)?;
        }
        notes.extend(self.online.change(&OnlineCpus::now()));
        notes.extend(self.traces.notes(&self.counted.traced()));
        recorder.lost(end, LostSource::Events, self.malformed + self.traces.lost())?;
        // A ring reports a loss with its next record; after the last one no record follows.
        let (clock, faults) = self.events.lost();
        recorder.lost(end, LostSource::Samples, clock.saturating_sub(self.announced_lost.0))?;
        recorder.lost(end, LostSource::Faults, faults.saturating_sub(self.announced_lost.1))?;
        let totals = self.events.totals();
        let major = self.events.major_faults();
        // With pauses it is not a total: the kernel's own count of the program is.
        let all = !self.fault_windows.is_some_and(|windows| windows.has_paused());
        let unseen = self.unseen_major + self.paused.map_or(0, |before| major - before);
        Ok(Totals {
            minor_faults: totals.minor_faults.filter(|_| all),
            major_faults: totals.major_faults.map(|count| count.saturating_sub(unseen)),
            ..totals
        })
    }

    /// Takes records from all rings in order of time, in place, except those younger than `until`.
    ///
    /// Rings of different CPUs are written independently. Records from before the previous reading are complete and
    /// can be put in order: an interrupt never takes that long to write its record.
    fn pass_on(&mut self, until: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        let mut rings = std::mem::take(&mut self.rings);
        self.traces.read(self.start, &mut self.malformed);
        let result = self.merge(&mut rings, until, recorder);
        self.rings = rings;
        result?;
        self.traced_until(until, recorder)
    }

    /// Accesses of traces up to a time.
    fn traced_until(&mut self, until: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        if self.traces.is_empty() {
            return Ok(());
        }
        let weight = |event| self.counted.period(event);
        self.traces.pass_on(until - self.start, weight, self.left_out, recorder)
    }

    fn merge(
        &mut self,
        rings: &mut [Ring],
        until: Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let mut fronts: BinaryHeap<Reverse<(Nanos, usize)>> =
            BinaryHeap::with_capacity(rings.len());
        for (index, ring) in rings.iter_mut().enumerate() {
            fronts.extend(self.front_time(ring).map(|time| Reverse((time, index))));
        }
        while let Some(Reverse((time, index))) = fronts.pop() {
            if time > until {
                break;
            }
            let ring = &mut rings[index];
            if let Some(bytes) = ring.front()
                && let Some((time, record)) = record::parse(bytes, &self.formats)
            {
                // These change what samples before them refer to.
                let changes = matches!(
                    record,
                    Record::Mmap { .. }
                        | Record::Comm { .. }
                        | Record::Fork { .. }
                        | Record::Exit { .. }
                );
                if changes {
                    self.work_off(0, Nanos(0), recorder)?;
                    self.traced_until(time, recorder)?;
                }
                self.translate(time - self.start, record, recorder)?;
            }
            ring.pop();
            fronts.extend(self.front_time(ring).map(|time| Reverse((time, index))));
        }
        Ok(())
    }

    /// Time of a ring's oldest record; malformed ones are dropped and counted.
    fn front_time(&mut self, ring: &mut Ring) -> Option<Nanos> {
        loop {
            if let Some((time, _)) = record::parse(ring.front()?, &self.formats) {
                return Some(time);
            }
            self.malformed += 1;
            ring.pop();
        }
    }

    fn translate(
        &mut self,
        time: Nanos,
        record: Record<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        match record {
            Record::Sample(sample) => self.sample(time, &sample, recorder),
            Record::Mmap { pid, start, end, offset, name } => {
                let name = String::from_utf8_lossy(name);
                recorder.mapped(time, pid, NewMapping { start, end, offset, name: &name })
            }
            Record::Comm { pid, tid, name, exec } => {
                let name = String::from_utf8_lossy(name);
                if exec {
                    recorder.executed(time, pid, tid, &name)
                } else {
                    recorder.renamed(time, pid, tid, &name)
                }
            }
            Record::Fork { pid, parent_pid, tid, parent_tid } => {
                if let Some(tracker) = &mut self.switches {
                    tracker.born(time, pid, tid, recorder)?;
                }
                if pid != parent_pid {
                    recorder.process_forked(parent_pid, pid);
                }
                recorder.thread_created(time, ThreadId::new(parent_pid, parent_tid), pid, tid)
            }
            Record::Exit { pid, tid } => {
                if let Some(tracker) = &mut self.switches {
                    tracker.ended(time, pid, tid, recorder)?;
                }
                recorder.thread_ended(time, pid, tid)
            }
            Record::Switch { pid, tid, to } => match &mut self.switches {
                Some(tracker) => tracker.switched(time, pid, tid, to, recorder),
                None => Ok(()),
            },
            Record::Lost { identifier, count } => {
                // A ring reports how much it lost, not what: the identifier is that of the event that wrote next.
                if let Some(tracker) = &mut self.switches {
                    tracker.lost(time, recorder)?;
                }
                let source = match self.streams.get(&identifier) {
                    Some(Stream::Faults(FaultKind::Minor)) => {
                        self.announced_lost.1 += count;
                        LostSource::Faults
                    }
                    // The event of major faults carries mapping, task and switch records, which still fit where a
                    // sample with its stack did not: so it reports the clock's losses.
                    Some(
                        Stream::Clock
                        | Stream::SlowClock
                        | Stream::CpuClock
                        | Stream::Echoes
                        | Stream::Counted(_)
                        | Stream::Faults(FaultKind::Major),
                    ) => {
                        self.announced_lost.0 += count;
                        LostSource::Samples
                    }
                    Some(Stream::Switches | Stream::Wakes) | None => LostSource::Events,
                };
                recorder.lost(time, source, count)
            }
            Record::Throttle => {
                self.throttled += 1;
                Ok(())
            }
            // Of traces, which have rings of their own.
            Record::Runs { .. } | Record::Trace { .. } | Record::Other => Ok(()),
        }
    }

    /// Works off samples that were held back, the oldest first, until at most so many bytes of them are left, all from later
    /// than `since`.
    fn work_off(
        &mut self,
        most: usize,
        since: Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        while let Some((at, seen, position)) = self.held.front(most, since) {
            recorder.sampled(at, seen, position)?;
            self.held.pop();
        }
        Ok(())
    }

    /// Holds a clock sample back, where that is allowed.
    fn holds(
        &mut self,
        at: Moment,
        sample: &SampleRecord<'_>,
        weight: Nanos,
        recorder: &Recorder<'_>,
    ) -> bool {
        let top = if self.may_wait > 0 { recorder.stack_top(at.tid) } else { None };
        let Some(top) = top else { return false };
        let ip = sample.registers.map(|all| all[USER_INSTRUCTION_POINTER]);
        let native = ip.and_then(|ip| recorder.native(at.pid, RemoteAddr(ip)));
        self.held.push(at, sample, weight, (top, native));
        true
    }

    fn sample(
        &mut self,
        time: Nanos,
        sample: &SampleRecord<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), SinkError> {
        let Some(stream) = self.streams.get(&sample.identifier).copied() else {
            self.malformed += 1;
            return Ok(());
        };
        if self.left_out == Some(sample.pid) {
            return Ok(());
        }
        if stream == Stream::Echoes && !recorder.has_seen(sample.pid) {
            return Ok(());
        }
        if let (Stream::CpuClock, Some(clocks)) = (stream, &mut self.clocks) {
            let is_ours = recorder.has_seen(sample.pid);
            clocks.saw(is_ours);
            if !is_ours {
                return Ok(());
            }
        }
        let at = Moment { time, pid: sample.pid, tid: sample.tid, cpu: Some(sample.cpu) };
        let weight_of_clock = match stream {
            Stream::Clock | Stream::SlowClock | Stream::CpuClock => Some(Nanos(sample.period)),
            Stream::Echoes => Some(Nanos(0)),
            _ => None,
        };
        if let Some(weight) = weight_of_clock {
            if let Some(tracker) = &mut self.switches {
                tracker.runs(time, sample.pid, sample.tid, recorder)?;
            }
            if self.holds(at, sample, weight, recorder) {
                return Ok(());
            }
            self.work_off(0, Nanos(0), recorder)?;
        }
        let position = position(sample, &mut self.kernel_chain);
        match stream {
            Stream::Clock | Stream::SlowClock | Stream::CpuClock | Stream::Echoes => {
                let general = sample.general();
                let seen = Ticked {
                    weight: weight_of_clock.unwrap_or_default(),
                    cpu_time: None,
                    general: general.as_ref(),
                };
                recorder.sampled(at, seen, position)
            }
            Stream::Faults(kind) => {
                let copy = (sample.tid, sample.cpu, stream);
                let mut weight = weight(&mut self.periods, copy, sample.period);
                if let (FaultKind::Minor, Some(windows)) = (kind, &mut self.fault_windows) {
                    weight = windows.weight(time, weight);
                }
                match weight {
                    0 => Ok(()),
                    weight => recorder.faulted(at, kind, sample.address, weight, position),
                }
            }
            Stream::Counted(event) => {
                let weight = match self.counted.announces_next(event) {
                    true => {
                        let copy = (sample.tid, sample.cpu, stream);
                        weight(&mut self.periods, copy, sample.period)
                    }
                    false => sample.period,
                };
                recorder.happened(at, &[(event, weight)], position)?;
                if let Some((weight_of_access, source)) = sample.access {
                    let parts = SampleParts {
                        data_source: Some(source),
                        address: Some(sample.address.0),
                        weight: Some(Weight::Whole(weight_of_access)),
                        page: sample.page,
                        raw: sample.raw,
                    };
                    if let Some(access) = access(&parts, self.counted.is_ibs(event)) {
                        recorder.accessed(access.sample(at, event, weight), position)?;
                    }
                }
                for back in self.branches.take(at.pid, sample.branches()) {
                    let mut frame = |address: u64| {
                        let (ip, chain) = (RemoteAddr(address), [address]);
                        let position =
                            Position { kernel: &[], ip, user: None, chain: &chain, guest: None };
                        recorder.stack_of(at, position)
                    };
                    let frames = (frame(back.from)?, frame(back.to)?);
                    self.branches.name(at.pid, back, frames);
                }
                Ok(())
            }
            Stream::Switches => {
                let stack = recorder.stack_of(at, position)?;
                if let Some(tracker) = &mut self.switches {
                    tracker.leaves_with(sample.pid, sample.tid, stack, sample.argument);
                }
                Ok(())
            }
            Stream::Wakes => {
                let read = self.waking.and_then(|waking| waking.read(sample.raw));
                let (Some(tracker), Some((woken, interrupt))) = (&mut self.switches, read) else {
                    self.malformed += 1;
                    return Ok(());
                };
                let waker = if interrupt || !recorder.has_seen(sample.pid) {
                    None
                } else {
                    let stack = recorder.stack_of(at, position)?;
                    Some(Waker { pid: sample.pid, tid: sample.tid, stack })
                };
                let copy = (sample.tid, sample.cpu, stream);
                tracker.wakes(time, woken, waker, weight(&mut self.periods, copy, sample.period));
                Ok(())
            }
        }
    }
}

/// Where a sample was taken; `chain` gets the kernel's part of its stack.
fn position<'a>(sample: &'a SampleRecord<'_>, chain: &'a mut Vec<u64>) -> Position<'a> {
    chain.clear();
    chain.extend(sample.kernel_chain());
    let registers = sample.registers.as_ref();
    let user = registers.map(|registers| CopiedStack { registers, bytes: sample.stack });
    Position { kernel: chain, ip: sample.ip, user, chain: &[], guest: None }
}

/// The number of events that a record at an adapted rate represents. The kernel adapts the period of each inherited
/// copy (one per thread and CPU) and reports, at the end of an interval, the period of the *next* one:
/// `perf_swevent_set_period` counts with the old `last_period` and stores the new (kernel/events/core.c). So the
/// weight is what the previous record announced. The first interval of the first copy is one fault long. Where a
/// timer tick finds the period more than eight times too long, the kernel cuts the running interval short
/// (`perf_adjust_period`). Its length is then unknown, and the next period, which the tick considered right, is the
/// better estimate.
fn weight(
    announced: &mut HashMap<(Tid, CpuId, Stream), u64>,
    copy: (Tid, CpuId, Stream),
    next: u64,
) -> u64 {
    // A program with endless short-lived threads must not grow this table without limit.
    if announced.len() > 100_000 {
        announced.clear();
    }
    const CUT_SHORT: u64 = 8;
    let next = next.max(1);
    let before = announced.insert(copy, next).unwrap_or(1);
    if before > next.saturating_mul(CUT_SHORT) { next } else { before }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_record_weighs_what_the_one_before_announced() {
        let mut announced = HashMap::new();
        let copy = (Tid(1), CpuId(0), Stream::Faults(FaultKind::Minor));
        let weights = [1, 4, 16, 16].map(|period| weight(&mut announced, copy, period));
        assert_eq!(weights, [1, 1, 4, 16]);
        let cut = [1000, 100, 100].map(|period| weight(&mut announced, copy, period));
        assert_eq!(cut, [16, 100, 100]);
    }
}
