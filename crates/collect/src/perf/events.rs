//! Which events are opened, and how they share rings.
//!
//! ```text
//!   per CPU and thread:  cpu-clock  (samples)                                                -> the CPU's ring
//!                        cpu-clock  (the same at a longer period, in place of the former)     -> the same ring
//!   per CPU:             cpu-clock  (whatever runs there, in place of both; where we may)      -> the same ring
//!                        cpu-clock  (echoes: registers only, shortly behind that one's samples) -> the same ring
//!                        minor-faults, major-faults (samples at an adapted rate; the latter,  -> the same ring
//!                                            which is always on, announces mappings, forks, names, exits)
//!                        context-switches   (samples with the stack of a waiting thread,    -> the same ring
//!                                            and major-faults announces every switch; where switches are recorded)
//!                        sched:sched_waking (samples of threads that wake another; likewise)  -> the same ring
//!                        counted events     (samples of the code, where they are wanted)      -> the same ring
//!                        Arm SPE            (sampled accesses as a trace, likewise)           -> a ring of its own
//!   per thread, any CPU: task-clock, context-switches, cpu-migrations                        counting only
//! ```
//! What not: reading the rings (`mod`). Inherited events with a ring exist per CPU only: the kernel refuses to map
//! one that follows children on all CPUs (`perf_mmap`, kernel/events/core.c).
//!
//! The sampling period is a prime number of microseconds away from the round millisecond. Otherwise samples could
//! coincide with the kernel's own timer tick, and show its housekeeping always or never.

mod attr;
mod error;
mod ring;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use base::{CpuId, Nanos, Pid, Tid};
use facts::FaultKind;
use sys::perf::{Attr, Counting, Event, Flag, OpenTarget, Ring, SoftwareEvent};

use self::attr::{announcing, clock_attr, counted_attr, fault_attr, sampling};
pub use self::error::OpenError;
pub(crate) use self::error::libc_errno;
use self::ring::map_ring;
use super::clocks::{Clock, slower, slower_cpus};
use super::counted::CountedEvents;
use super::record::Formats;
use super::traces::Traces;
use super::wakeups::WakingTracepoint;
use crate::counting::{Carried, Choice};

/// Echoes come this part of a period behind a clock sample: at two distances, because sampling itself takes time.
const ECHOES: [u64; 2] = [32, 10];
/// Every so many samples have one of either distance.
const PER_ECHO: u64 = 10;

/// What the collection records.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Time between two samples of a running thread.
    pub period: Nanos,
    /// Take echoes of the samples of CPUs' clocks.
    pub echoes: bool,
    /// Bytes of user stack to copy per sample.
    pub stack_bytes: u32,
    /// At most about this many fault samples per second and thread; each carries the number that it represents.
    pub fault_rate: u64,
    /// CPUs to observe.
    pub cpus: Vec<CpuId>,
    /// Record every switch of a thread, and copy the stacks of at most about this many per second, thread and CPU.
    pub wait_stack_rate: Option<u64>,
    /// Record at most about this many ends of waits per second, thread and CPU, and the thread that ended each.
    pub wakes: Option<(WakingTracepoint, u64)>,
    /// A program that we start is not observed at first: only what announces mappings, births and deaths begins with it.
    pub start_paused: bool,
    /// Events that take samples of the code.
    pub counted: Vec<Choice>,
}

/// The stream of a ring's record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stream {
    /// Clock samples.
    Clock,
    /// The same at a longer period.
    SlowClock,
    /// Clock samples of whatever runs on a CPU, other programs included.
    CpuClock,
    /// Registers shortly behind a sample of a CPU's clock. How far a loop went in between is its pace, even where its runs are shorter
    /// than the time between two such samples: threads that meet often are sampled by these clocks.
    Echoes,
    /// Page faults of one kind.
    Faults(FaultKind),
    /// Stacks of threads that leave their CPU.
    Switches,
    /// Stacks of threads that wake another.
    Wakes,
    /// Samples of a counted event, by its number.
    Counted(u32),
}

/// Exact totals; `None` where the kernel does not let us count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// CPU time, ns.
    pub task_clock: Option<u64>,
    /// Minor faults.
    pub minor_faults: Option<u64>,
    /// Major faults.
    pub major_faults: Option<u64>,
    /// Context switches.
    pub context_switches: Option<u64>,
    /// Migrations.
    pub migrations: Option<u64>,
}

impl Totals {
    /// These totals, with gaps filled from `other`.
    #[must_use]
    pub fn or(self, other: Totals) -> Totals {
        Totals {
            task_clock: self.task_clock.or(other.task_clock),
            minor_faults: self.minor_faults.or(other.minor_faults),
            major_faults: self.major_faults.or(other.major_faults),
            context_switches: self.context_switches.or(other.context_switches),
            migrations: self.migrations.or(other.migrations),
        }
    }
}

/// All open events of a collection.
pub struct Opened {
    clocks: Vec<Event>,
    /// The slow clock, which replaces the fast one where threads switch often or are many. None where all threads of the machine
    /// are observed.
    slow_clocks: Vec<Event>,
    /// One clock per CPU for whatever runs there. Empty where we may not watch other programs, or should not.
    cpu_clocks: Vec<Event>,
    /// Echoes of these, for each of them. Empty where they are not wanted.
    echoes: Vec<[Event; ECHOES.len()]>,
    period: Nanos,
    /// Indices into `clocks` of the events that own a ring, one per CPU.
    owners: Vec<usize>,
    faults: Vec<(FaultKind, Event)>,
    switches: Vec<Event>,
    /// The tracepoint of wakes, where its events are open.
    pub(super) waking: Option<WakingTracepoint>,
    counters: Vec<(SoftwareEvent, Event)>,
    /// Events that take samples of the code, by number.
    pub(super) counted: Vec<(u32, Event)>,
    /// On how many CPUs each of them is open for a thread, by number.
    counted_on: BTreeMap<u32, BTreeSet<CpuId>>,
    /// The rings of those that write a trace.
    pub(super) traces: Traces,
    /// Events that lead groups of these: kept open.
    leaders: Vec<Event>,
    /// The rings, one per CPU.
    pub(super) rings: Vec<Ring>,
    /// Event ids.
    pub(super) streams: HashMap<u64, Stream>,
    /// Which of them have other fields in their samples.
    pub(super) formats: Formats,
    /// Whether the kernel's own time is sampled.
    pub sees_kernel: bool,
}

/// As [`OpenTarget`]'s thread: every thread that runs on the CPU. Allowed for root, with CAP_PERFMON, and from
/// `kernel.perf_event_paranoid` 0 down.
pub const ALL_THREADS: Tid = Tid(-1);

/// How many flags at the end leave something out.
fn exclusions(flags: &[Flag]) -> usize {
    let excludes =
        |flag: &&Flag| matches!(flag, Flag::ExcludeHv | Flag::ExcludeKernel | Flag::ExcludeIdle);
    flags.iter().rev().take_while(excludes).count()
}

/// How what is not observed at first begins.
fn begin(start: &[Flag], settings: &Settings) -> Vec<Flag> {
    let with_exec = |flag: &Flag| *flag == Flag::EnableOnExec;
    start.iter().copied().filter(|flag| !(settings.start_paused && with_exec(flag))).collect()
}

impl Opened {
    pub(super) fn on_launch(child: Pid, settings: &Settings) -> Result<Opened, OpenError> {
        Opened::open(&[Tid(child.0)], settings, &[Flag::Disabled, Flag::EnableOnExec])
    }

    pub(super) fn on_running(threads: &[Tid], settings: &Settings) -> Result<Opened, OpenError> {
        let opened = Opened::open(threads, settings, &[Flag::Disabled])?;
        // Enable all events together at the end, so that the first thread is not recorded for longer than the last.
        for event in opened.all() {
            event.set(Counting::On)?;
        }
        Ok(opened)
    }

    pub(super) fn on_machine(settings: &Settings) -> Result<Opened, OpenError> {
        let exclude = [Flag::ExcludeHv, Flag::ExcludeIdle];
        let opened = Opened::on_cpus(&[ALL_THREADS], settings, &[Flag::Disabled], &exclude)?;
        if opened.clocks.is_empty() {
            return Err(OpenError::Gone);
        }
        for event in opened.all() {
            event.set(Counting::On)?;
        }
        Ok(opened)
    }

    fn open(threads: &[Tid], settings: &Settings, start: &[Flag]) -> Result<Opened, OpenError> {
        match Opened::with_privilege(threads, settings, start, &[Flag::ExcludeHv]) {
            // perf_event_paranoid 2: user mode of own processes only.
            Err(OpenError::Refused(_)) => Opened::with_privilege(
                threads,
                settings,
                start,
                &[Flag::ExcludeHv, Flag::ExcludeKernel],
            ),
            result => result,
        }
    }

    /// Opens the sampling events: per CPU, for each of the threads.
    fn on_cpus(
        threads: &[Tid],
        settings: &Settings,
        start: &[Flag],
        exclude: &[Flag],
    ) -> Result<Opened, OpenError> {
        let mut opened = Opened {
            clocks: Vec::new(),
            slow_clocks: Vec::new(),
            cpu_clocks: Vec::new(),
            echoes: Vec::new(),
            period: settings.period,
            owners: Vec::new(),
            faults: Vec::new(),
            switches: Vec::new(),
            waking: None,
            counters: Vec::new(),
            counted: Vec::new(),
            counted_on: BTreeMap::new(),
            traces: Traces::default(),
            leaders: Vec::new(),
            rings: Vec::new(),
            streams: HashMap::new(),
            formats: Formats::default(),
            sees_kernel: !exclude.contains(&Flag::ExcludeKernel),
        };
        for cpu in &settings.cpus {
            opened.open_cpu(*cpu, threads, settings, start, exclude)?;
        }
        // The clocks of some CPUs would not see the program on the others.
        if opened.cpu_clocks.len() < opened.owners.len() {
            opened.cpu_clocks.clear();
            opened.echoes.clear();
        }
        Ok(opened)
    }

    fn with_privilege(
        threads: &[Tid],
        settings: &Settings,
        start: &[Flag],
        exclude: &[Flag],
    ) -> Result<Opened, OpenError> {
        let mut opened = Opened::on_cpus(threads, settings, start, exclude)?;
        for event in
            [SoftwareEvent::TaskClock, SoftwareEvent::ContextSwitches, SoftwareEvent::Migrations]
        {
            // Switches and migrations happen in the kernel: without it they would count 0, which is a lie.
            if !opened.sees_kernel && event != SoftwareEvent::TaskClock {
                continue;
            }
            let attr = Attr::software(event).flags(&begin(start, settings)).flags(exclude);
            let attr = attr.flags(&[Flag::Inherit]);
            for tid in threads {
                match sys::perf::open(&attr, OpenTarget { tid: *tid, cpu: None }) {
                    Ok(counter) => opened.counters.push((event, counter)),
                    Err(error) if error.raw_os_error() == Some(libc_errno::ESRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if opened.clocks.is_empty() { Err(OpenError::Gone) } else { Ok(opened) }
    }

    fn open_cpu(
        &mut self,
        cpu: CpuId,
        threads: &[Tid],
        settings: &Settings,
        start: &[Flag],
        exclude: &[Flag],
    ) -> Result<(), OpenError> {
        let flags = &[&begin(start, settings), exclude].concat();
        let mut owner: Option<usize> = None;
        for tid in threads {
            let target = OpenTarget { tid: *tid, cpu: Some(cpu) };
            let clock =
                match sys::perf::open_counting_lost(&clock_attr(settings).flags(flags), target) {
                    Ok(clock) => clock,
                    // A thread that has ended since it was listed.
                    Err(error) if error.raw_os_error() == Some(libc_errno::ESRCH) => continue,
                    // A CPU that is offline or not ours to watch.
                    Err(error) if error.raw_os_error() == Some(libc_errno::ENODEV) => return Ok(()),
                    Err(error) => return Err(error.into()),
                };
            self.streams.insert(clock.id()?, Stream::Clock);
            self.formats.clocks.insert(clock.id()?);
            match owner {
                None => {
                    let traced = |one: &Choice| one.carries == Carried::SpeAccess;
                    let shared = settings.counted.iter().any(traced);
                    self.rings.push(map_ring(&clock, settings.cpus.len(), shared)?);
                    owner = Some(self.clocks.len());
                    self.owners.push(self.clocks.len());
                }
                Some(owner) => clock.send_records_to(&self.clocks[owner])?,
            }
            self.clocks.push(clock);
            if *tid != ALL_THREADS {
                self.open_slow_clock(settings, flags, target, owner)?;
            }
            self.open_switches(settings, flags, target, owner)?;
            self.open_counted(settings, flags, target, owner)?;
            for (kind, event) in [
                (FaultKind::Minor, SoftwareEvent::MinorFaults),
                (FaultKind::Major, SoftwareEvent::MajorFaults),
            ] {
                let attr = fault_attr(event, settings).flags(exclude);
                let attr = if kind == FaultKind::Major {
                    announcing(attr, settings).flags(start)
                } else {
                    attr.flags(&begin(start, settings))
                };
                let fault = match sys::perf::open_counting_lost(&attr, target) {
                    Ok(fault) => fault,
                    Err(error) if error.raw_os_error() == Some(libc_errno::ESRCH) => continue,
                    Err(error) => return Err(error.into()),
                };
                self.deliver(&fault, owner, Stream::Faults(kind))?;
                self.faults.push((kind, fault));
            }
        }
        match owner {
            Some(owner) if !self.slow_clocks.is_empty() => {
                // Without it the slow clock does.
                let _ = self.open_cpu_clock(settings, cpu, owner);
            }
            _ => {}
        }
        Ok(())
    }

    /// Records of an event go to the ring of its CPU's clock, and are known there by this stream.
    fn deliver(
        &mut self,
        event: &Event,
        owner: Option<usize>,
        stream: Stream,
    ) -> std::io::Result<()> {
        if let Some(owner) = owner {
            event.send_records_to(&self.clocks[owner])?;
        }
        self.streams.insert(event.id()?, stream);
        Ok(())
    }

    /// Opens the slow clock, disabled.
    fn open_slow_clock(
        &mut self,
        settings: &Settings,
        flags: &[Flag],
        target: OpenTarget,
        owner: Option<usize>,
    ) -> Result<(), OpenError> {
        let flags: Vec<Flag> =
            flags.iter().copied().filter(|flag| *flag != Flag::EnableOnExec).collect();
        let period = settings.period.0 * slower(settings.cpus.len(), settings.period);
        let attr = clock_attr(settings).period(period).flags(&flags);
        let clock = match sys::perf::open_counting_lost(&attr, target) {
            Ok(clock) => clock,
            Err(error) if error.raw_os_error() == Some(libc_errno::ESRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.deliver(&clock, owner, Stream::SlowClock)?;
        self.formats.clocks.insert(clock.id()?);
        self.slow_clocks.push(clock);
        Ok(())
    }

    /// Opens the clock of a CPU, disabled.
    fn open_cpu_clock(
        &mut self,
        settings: &Settings,
        cpu: CpuId,
        owner: usize,
    ) -> std::io::Result<()> {
        let flags = [Flag::Disabled, Flag::ExcludeHv, Flag::ExcludeIdle];
        let period = settings.period.0 * slower_cpus(settings.cpus.len(), settings.period);
        let attr = clock_attr(settings).flags(&flags);
        let attr = if self.sees_kernel { attr } else { attr.flags(&[Flag::ExcludeKernel]) };
        let target = OpenTarget { tid: ALL_THREADS, cpu: Some(cpu) };
        let mut open = |period, stream| {
            let clock = sys::perf::open_counting_lost(&attr.period(period), target)?;
            self.deliver(&clock, Some(owner), stream)?;
            self.formats.clocks.insert(clock.id()?);
            std::io::Result::Ok(clock)
        };
        let clock = open(period, Stream::CpuClock)?;
        if settings.echoes {
            let mut echo = || open(PER_ECHO * period, Stream::Echoes);
            let echoes = [echo()?, echo()?];
            self.echoes.push(echoes);
        }
        self.cpu_clocks.push(clock);
        Ok(())
    }

    /// Stops counting and sampling for a while, or goes on with this clock. The event that announces mappings, births and
    /// deaths stays on: they must be known later. Errors: as for [`Opened::stop`].
    pub(super) fn pause(&self, paused: bool, clock: Clock) {
        let counting = if paused { Counting::Off } else { Counting::On };
        let counters = self.counters.iter().map(|(_, event)| event);
        let counters = counters.chain(self.counted.iter().map(|(_, event)| event));
        for event in self.switches.iter().chain(counters).chain(self.minor_events()) {
            let _ = event.set(counting);
        }
        self.switch(clock, counting);
    }

    fn of_clock(&self, clock: Clock) -> &[Event] {
        match clock {
            Clock::Fast => &self.clocks,
            Clock::Slow => &self.slow_clocks,
            Clock::OfCpus => &self.cpu_clocks,
        }
    }

    /// Enables or disables a clock, with its echoes: these begin later than it does, by the time by which they come behind it. Timers
    /// of a CPU stay in step (`perf_swevent_hrtimer`, kernel/events/core.c). Errors: as for [`Opened::stop`].
    fn switch(&self, clock: Clock, counting: Counting) {
        let echoes = if clock == Clock::OfCpus { self.echoes.as_slice() } else { &[] };
        let mut echoes = echoes.iter();
        for event in self.of_clock(clock) {
            let _ = event.set(counting);
            let began = Instant::now();
            for (echo, part) in echoes.next().into_iter().flatten().zip(ECHOES) {
                let behind = Duration::from_nanos(self.period.0 / part);
                while counting == Counting::On && began.elapsed() < behind {
                    std::hint::spin_loop();
                }
                let _ = echo.set(counting);
            }
        }
    }

    /// The number of major faults so far.
    pub(super) fn major_faults(&self) -> u64 {
        let major = self.faults.iter().filter(|(kind, _)| *kind == FaultKind::Major);
        major.filter_map(|(_, event)| event.read().ok()).sum()
    }

    /// Enables one clock in place of another. Errors: as for [`Opened::stop`].
    pub(super) fn use_clock(&self, clock: Clock, former: Clock) {
        self.switch(former, Counting::Off);
        self.switch(clock, Counting::On);
    }

    /// Whether there is a slow clock.
    pub(super) fn has_slow_clock(&self) -> bool {
        !self.slow_clocks.is_empty()
    }

    /// The number of CPUs with a clock of their own, 0 where there is none.
    pub(super) fn cpu_clocks(&self) -> usize {
        self.cpu_clocks.len()
    }

    /// Opens events for switches and wakes. They happen in the kernel: without the kernel there are no stacks of
    /// them.
    fn open_switches(
        &mut self,
        settings: &Settings,
        flags: &[Flag],
        target: OpenTarget,
        owner: Option<usize>,
    ) -> Result<(), OpenError> {
        let (Some(rate), true) = (settings.wait_stack_rate, self.sees_kernel) else {
            return Ok(());
        };
        let mut wanted =
            vec![(Stream::Switches, sampling(SoftwareEvent::ContextSwitches, settings), rate)];
        if let Some((tracepoint, rate)) = settings.wakes {
            let attr = sampling(SoftwareEvent::Dummy, settings).of_tracepoint(tracepoint.id);
            wanted.push((Stream::Wakes, attr, rate));
        }
        for (stream, attr, rate) in wanted {
            let attr = attr.frequency(rate).flags(flags);
            let event = match sys::perf::open_counting_lost(&attr, target) {
                Ok(event) => event,
                Err(error) if error.raw_os_error() == Some(libc_errno::ESRCH) => continue,
                // Fewer users may read tracepoints than software events: record waits without the thread that ended
                // them.
                Err(_) if stream == Stream::Wakes => continue,
                Err(error) => return Err(error.into()),
            };
            self.deliver(&event, owner, stream)?;
            self.switches.push(event);
            if stream == Stream::Wakes {
                self.waking = settings.wakes.map(|(tracepoint, _)| tracepoint);
            }
        }
        Ok(())
    }

    /// Opens counted events that take samples. Those that are not there, or may not be counted, are left out.
    fn open_counted(
        &mut self,
        settings: &Settings,
        flags: &[Flag],
        target: OpenTarget,
        owner: Option<usize>,
    ) -> Result<(), OpenError> {
        for (number, choice) in (0_u32..).zip(&settings.counted) {
            // It would count 0.
            if choice.only_in_kernel && !self.sees_kernel {
                continue;
            }
            // IBS takes no exclusions (arch/x86/events/amd/ibs.c, `perf_ibs_init`), SPE all but that of the idle thread.
            let flags: Vec<Flag> = match choice.carries {
                Carried::IbsAccess => flags[..flags.len() - exclusions(flags)].to_vec(),
                Carried::SpeAccess => {
                    flags.iter().copied().filter(|flag| *flag != Flag::ExcludeIdle).collect()
                }
                _ => flags.to_vec(),
            };
            let flags = flags.as_slice();
            let mut carries = choice.carries;
            let mut opened = self.open_one(choice, settings, flags, target);
            // Not every PMU that says it keeps branches gives them to everybody.
            if opened.is_err() && carries == Carried::Branches {
                carries = Carried::Nothing;
                let without = Choice { carries, ..choice.clone() };
                opened = self.open_one(&without, settings, flags, target);
            }
            let (event, has_page) = match opened {
                Ok(opened) => opened,
                Err(error) if error.raw_os_error() == Some(libc_errno::ESRCH) => return Ok(()),
                // The time is sampled all the same.
                Err(_) => continue,
            };
            match (carries, target.cpu) {
                (Carried::SpeAccess, Some(cpu)) => {
                    let joined = match self.traces.owner(number, cpu) {
                        Some(owner) => event.send_records_to(&self.counted[owner].1),
                        None => self.traces.add((number, cpu, self.counted.len()), &event),
                    };
                    if joined.is_err() {
                        continue;
                    }
                }
                _ => self.deliver(&event, owner, Stream::Counted(number))?,
            }
            let of = match carries {
                Carried::Nothing | Carried::SpeAccess => None,
                Carried::Branches => Some(&mut self.formats.with_branches),
                Carried::Access { .. } | Carried::IbsAccess => Some(&mut self.formats.with_access),
            };
            if let Some(of) = of {
                of.insert(event.id()?);
            }
            if has_page {
                self.formats.with_page.insert(event.id()?);
            }
            if let Some(cpu) = target.cpu.filter(|_| target.tid != ALL_THREADS) {
                self.counted_on.entry(number).or_default().insert(cpu);
            }
            self.counted.push((number, event));
        }
        Ok(())
    }

    /// Opens an event, behind the one that must lead its group. Says whether its samples have the sizes of pages: kernels before
    /// Linux 5.11 know of none.
    fn open_one(
        &mut self,
        choice: &Choice,
        settings: &Settings,
        flags: &[Flag],
        target: OpenTarget,
    ) -> std::io::Result<(Event, bool)> {
        let attr = counted_attr(choice, settings).flags(flags);
        if attr.has_accesses()
            && let Ok(event) = self.open_behind(choice, &attr.page_sizes(), flags, target)
        {
            return Ok((event, true));
        }
        self.open_behind(choice, &attr, flags, target).map(|event| (event, false))
    }

    fn open_behind(
        &mut self,
        choice: &Choice,
        attr: &Attr,
        flags: &[Flag],
        target: OpenTarget,
    ) -> std::io::Result<Event> {
        let Carried::Access { leader: Some(leader) } = choice.carries else {
            return sys::perf::open_counting_lost(attr, target);
        };
        let counts = Attr::of_pmu(choice.pmu, [leader, 0, 0]).flags(flags).flags(&[Flag::Inherit]);
        let leader = sys::perf::open(&counts, target)?;
        let event = sys::perf::open_in_group(attr, target, Some(&leader))?;
        self.leaders.push(leader);
        Ok(event)
    }

    /// Gives the events that are there numbers without gaps.
    pub(super) fn number_counted(&mut self, settings: &Settings) -> CountedEvents {
        let cpus = |at: u32| self.counted_on.get(&at).map_or(1, |cpus| cpus.len() as u64);
        let opened = |at: u32| self.counted.iter().any(|(one, _)| *one == at).then(|| cpus(at));
        let (events, numbers) = CountedEvents::new(&settings.counted, opened, self.sees_kernel);
        let new = |old: u32| numbers.get(old as usize).copied().flatten().unwrap_or(old);
        self.counted.iter_mut().for_each(|(number, _)| *number = new(*number));
        self.traces.number(new);
        for stream in self.streams.values_mut() {
            if let Stream::Counted(number) = stream {
                *number = new(*number);
            }
        }
        events
    }

    fn all(&self) -> impl Iterator<Item = &Event> {
        let faults = self.faults.iter().map(|(_, event)| event);
        let sampled = self.clocks.iter().chain(faults).chain(&self.switches);
        let counted = self.counted.iter().map(|(_, event)| event);
        sampled
            .chain(counted)
            .chain(&self.leaders)
            .chain(self.counters.iter().map(|(_, event)| event))
    }

    /// The events that own a ring.
    pub(super) fn ring_owners(&self) -> impl Iterator<Item = &Event> {
        self.owners.iter().map(|owner| &self.clocks[*owner])
    }

    /// Switches on what a full trace switched off.
    pub(super) fn go_on(&self, numbers: &[u32]) {
        for (_, event) in self.counted.iter().filter(|(number, _)| numbers.contains(number)) {
            // The thread may have ended.
            let _ = event.set(Counting::On);
        }
    }

    /// Stops counting and sampling. Errors are ignored: the process may have ended.
    pub(super) fn stop(&self) {
        let echoes = self.echoes.iter().flatten();
        for event in self.all().chain(&self.slow_clocks).chain(&self.cpu_clocks).chain(echoes) {
            let _ = event.set(Counting::Off);
        }
    }

    /// Number of records of the clock and of the faults that did not fit; 0 where the kernel does not count them.
    pub(super) fn lost(&self) -> (u64, u64) {
        let of =
            |kind| self.faults.iter().filter(move |(one, _)| *one == kind).map(|(_, event)| event);
        let clocks = self.clocks.iter().chain(&self.slow_clocks).chain(&self.cpu_clocks);
        let clocks = clocks.chain(self.echoes.iter().flatten());
        let counted = self.counted.iter().map(|(_, event)| event);
        let samples = clocks.chain(counted).chain(of(FaultKind::Major));
        (samples.filter_map(Event::lost).sum(), of(FaultKind::Minor).filter_map(Event::lost).sum())
    }

    fn minor_events(&self) -> impl Iterator<Item = &Event> {
        self.faults.iter().filter(|(kind, _)| *kind == FaultKind::Minor).map(|(_, event)| event)
    }

    /// The number of minor faults so far.
    pub(super) fn minor_faults(&self) -> u64 {
        self.minor_events().filter_map(|event| event.read().ok()).sum()
    }

    /// Enables or disables counting and sampling of minor faults. Errors: as for [`Opened::stop`].
    pub(super) fn set_minor_faults(&self, counting: Counting) {
        for event in self.minor_events() {
            let _ = event.set(counting);
        }
    }

    /// Reads all totals.
    pub(super) fn totals(&self) -> Totals {
        let sum = |events: &mut dyn Iterator<Item = &Event>| -> Option<u64> {
            events
                .map(|event| event.read().ok())
                .try_fold(0u64, |sum, one| Some(sum.saturating_add(one?)))
        };
        let counter = |wanted| {
            let mut events =
                self.counters.iter().filter(|(event, _)| *event == wanted).map(|(_, event)| event);
            if self.counters.iter().any(|(event, _)| *event == wanted) {
                sum(&mut events)
            } else {
                None
            }
        };
        // Without the kernel, faults inside system calls are not counted: the total would be too low.
        let faults = |wanted| {
            let mut events =
                self.faults.iter().filter(|(kind, _)| *kind == wanted).map(|(_, event)| event);
            if self.sees_kernel { sum(&mut events) } else { None }
        };
        Totals {
            task_clock: counter(SoftwareEvent::TaskClock),
            minor_faults: faults(FaultKind::Minor),
            major_faults: faults(FaultKind::Major),
            context_switches: counter(SoftwareEvent::ContextSwitches),
            migrations: counter(SoftwareEvent::Migrations),
        }
    }
}
