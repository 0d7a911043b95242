//! Counts events of the hardware and the kernel for all that is observed.
//!
//! ```text
//!   per group and thread (children inherit it), or per group and CPU for a whole machine:
//!     leader <- members      counted at the same times; read together ten times a second, later once a second
//! ```
//! What for: opening groups as far as this machine and this user may, reading them, and saying what was not counted and why.
//! What not: which events there are (`machine::events`), the whole where groups took turns (`analysis`).
//!
//! A group that does not fit the counters is split where the kernel refuses the next member (`validate_group`, EINVAL). Groups
//! take turns by themselves where there are more than counters; each reading has the time with a counter.
//! Assumption: Linux 4.13 or later, which reads inherited groups together.

mod sockets;
#[cfg(test)]
mod tests;
mod totals;
mod trial;

use std::collections::VecDeque;
use std::io;

use base::{CpuId, Nanos, Pid, Tid};
use facts::{CountedEvent, EventCount, Fact, NoteSubject, SinkError};
use sys::perf::{Attr, Counting as Switch, Event, Flag, GroupCounts, OpenTarget};

pub use self::sockets::ControllerEvent;
use self::sockets::Sockets;
pub(crate) use self::totals::{Shown, Totals};
pub use self::trial::{Allowed, TrialError, try_here};
use crate::perf::{ALL_THREADS, OpenError, libc_errno};
use crate::recorder::Recorder;

/// An event to count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Its name, for people.
    pub name: String,
    /// The number of its PMU.
    pub pmu: u32,
    /// `config`, `config1`, `config2` of `perf_event_attr`.
    pub config: [u64; 3],
    /// Happens only in the kernel: where that may not be counted, it would count 0.
    pub only_in_kernel: bool,
    /// What its PMU can tell apart.
    pub scope: Scope,
    /// Takes samples of the code, so often.
    pub sampled: Option<SampleRate>,
    /// What its samples carry besides the address of the code.
    pub carries: Carried,
}

/// What a PMU can tell apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Scope {
    /// Threads, and the program from the kernel.
    #[default]
    Modes,
    /// Threads only (`msr`).
    Threads,
    /// Nothing: it counts whatever runs, and is opened once on each of these CPUs (its `cpumask`).
    Machine(Vec<CpuId>),
}

/// What samples of an event carry, where the hardware has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Carried {
    /// Nothing.
    #[default]
    Nothing,
    /// The branches before them.
    Branches,
    /// The memory access of the instruction; PEBS gives it only with an event that leads its group (`mem-loads-aux`), by its `config`, on
    /// cores from Sapphire Rapids on.
    Access {
        /// That event.
        leader: Option<u64>,
    },
    /// The same of AMD's IBS, which samples operations and cannot leave anything out.
    IbsAccess,
    /// The same of Arm's SPE, as a trace next to the records.
    SpeAccess,
}

/// How often an event takes a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleRate {
    /// Once per so many occurrences.
    Period(u64),
    /// About so many times a second: the kernel adapts the period.
    Hertz(u64),
}

impl Choice {
    /// Whether its samples are memory accesses.
    #[must_use]
    pub fn has_access(&self) -> bool {
        matches!(self.carries, Carried::Access { .. } | Carried::IbsAccess | Carried::SpeAccess)
    }

    /// Whether it is an event of the kernel itself, whose samples at an adapted rate carry the next period.
    pub(crate) fn is_of_kernel_at_adapted_rate(&self) -> bool {
        let adapted = matches!(self.sampled, Some(SampleRate::Hertz(_)));
        adapted && self.pmu == sys::perf::PERF_TYPE_SOFTWARE
    }
}

/// Between two readings at first.
const OFTEN: Nanos = Nanos(90_000_000);
/// From then on readings are [`SELDOM`]: an hour of 100 events stays below 10 MB.
const FIRST: Nanos = Nanos(60_000_000_000);
const SELDOM: Nanos = Nanos(990_000_000);

/// What to observe.
enum Targets<'a> {
    /// A child that waits before its execve.
    Child(Pid),
    Threads(&'a [Tid]),
    Machine(&'a [CpuId]),
}

impl Targets<'_> {
    fn all(&self) -> Vec<OpenTarget> {
        match self {
            Targets::Child(pid) => vec![OpenTarget { tid: Tid(pid.0), cpu: None }],
            Targets::Threads(tids) => {
                tids.iter().map(|tid| OpenTarget { tid: *tid, cpu: None }).collect()
            }
            Targets::Machine(cpus) => on_cpus(cpus),
        }
    }

    fn flags(&self) -> &'static [Flag] {
        match self {
            Targets::Child(_) => &[Flag::Disabled, Flag::EnableOnExec, Flag::Inherit],
            Targets::Threads(_) => &[Flag::Disabled, Flag::Inherit],
            Targets::Machine(_) => &[Flag::Disabled],
        }
    }
}

/// A group on one thread or CPU.
struct Opened {
    leader: Event,
    /// Kept open; they are read with their leader.
    members: Vec<Event>,
    /// What it showed last. A group that can no longer be read, as that of a CPU that went offline may be, keeps it.
    shown: GroupCounts,
}

impl Opened {
    fn new(leader: Event) -> Opened {
        Opened { leader, members: Vec::new(), shown: GroupCounts::default() }
    }

    fn read(&mut self) -> &GroupCounts {
        if let Ok(now) = self.leader.read_group(1 + self.members.len()) {
            self.shown = now;
        }
        &self.shown
    }
}

/// A group on all of them.
struct Group {
    choices: Vec<Choice>,
    opened: Vec<Opened>,
    before: GroupCounts,
}

impl Group {
    fn is_of_machine(&self) -> bool {
        matches!(self.choices.first(), Some(Choice { scope: Scope::Machine(_), .. }))
    }
}

/// Open groups.
pub struct Counting {
    /// The number of its first event, and of its first group.
    first: u32,
    groups: Vec<Group>,
    /// Of the whole machine.
    sockets: Sockets,
    kernel: bool,
    announced: bool,
    last: Nanos,
    notes: Vec<String>,
}

impl Counting {
    /// For a child that waits before its execve, and all that it starts.
    pub fn on_launch(child: Pid, wanted: &[Vec<Choice>]) -> Counting {
        Counting::start(&Targets::Child(child), wanted)
    }

    /// For running threads, and those that they start.
    pub fn on_running(threads: &[Tid], wanted: &[Vec<Choice>]) -> Counting {
        Counting::start(&Targets::Threads(threads), wanted)
    }

    /// For CPUs, whatever runs there.
    pub fn on_machine(cpus: &[CpuId], wanted: &[Vec<Choice>]) -> Counting {
        Counting::start(&Targets::Machine(cpus), wanted)
    }

    fn start(targets: &Targets<'_>, wanted: &[Vec<Choice>]) -> Counting {
        let (mut counting, refused) = Counting::open(targets, wanted);
        if let Some(why) = refused {
            let remedy = match targets {
                Targets::Machine(_) => "sudo sysctl kernel.perf_event_paranoid=0",
                _ => "sudo sysctl kernel.perf_event_paranoid=1",
            };
            counting
                .notes
                .push(NoteSubject::CountedEvents.note(format!("none: {why}; to enable: {remedy}")));
        }
        let waits_for_exec =
            |group: &&Group| matches!(targets, Targets::Child(_)) && !group.is_of_machine();
        for group in counting.groups.iter().filter(|group| !waits_for_exec(group)) {
            for opened in &group.opened {
                // The thread may have ended.
                let _ = opened.leader.set(Switch::On);
            }
        }
        counting
    }

    /// With the kernel where that is allowed, else of the program alone. The second value says why nothing may be counted.
    fn open(targets: &Targets<'_>, wanted: &[Vec<Choice>]) -> (Counting, Option<OpenError>) {
        let mut counting = Counting {
            first: 0,
            groups: Vec::new(),
            sockets: Sockets::default(),
            kernel: true,
            announced: false,
            last: Nanos(0),
            notes: Vec::new(),
        };
        match counting.open_all(targets, wanted) {
            Err(OpenError::Refused(_)) if !matches!(targets, Targets::Machine(_)) => {}
            result => return (counting, result.err()),
        }
        counting.kernel = false;
        counting.groups.clear();
        counting.notes.clear();
        let in_program = |group: &Vec<Choice>| -> Vec<Choice> {
            group.iter().filter(|choice| !choice.only_in_kernel).cloned().collect()
        };
        let rest: Vec<Vec<Choice>> = wanted.iter().map(in_program).collect();
        let result = counting.open_all(targets, &rest);
        if result.is_ok() && !counting.groups.is_empty() {
            let left_out: Vec<&str> = wanted
                .iter()
                .flatten()
                .filter(|choice| choice.only_in_kernel)
                .map(|choice| choice.name.as_str())
                .collect();
            let without = match left_out.as_slice() {
                [] => String::new(),
                names => format!(", and not {}, which happen there only", names.join(", ")),
            };
            counting.notes.push(NoteSubject::CountedEvents.note(format!(
                "of the program, not of the kernel{without} (kernel.perf_event_paranoid is 2 or more)"
            )));
        }
        (counting, result.err())
    }

    fn open_all(&mut self, targets: &Targets<'_>, wanted: &[Vec<Choice>]) -> Result<(), OpenError> {
        let of_program = (targets.all(), targets.flags());
        let mut left: VecDeque<Vec<Choice>> =
            wanted.iter().flat_map(|group| by_scope(group)).collect();
        let (mut unknown, mut taken_by_others) = (Vec::new(), Vec::new());
        let mut not_permitted = Vec::new();
        while let Some(choices) = left.pop_front() {
            let (all, flags) = match choices.first().map(|choice| &choice.scope) {
                Some(Scope::Machine(cpus)) => (on_cpus(cpus), &[Flag::Disabled][..]),
                _ => of_program.clone(),
            };
            let mut group =
                Group { choices: Vec::new(), opened: Vec::new(), before: GroupCounts::default() };
            let mut refused = Vec::new();
            for target in &all {
                let first = group.opened.is_empty();
                let wanted = if first { &choices } else { &group.choices };
                let tried = match self.try_group(*target, flags, wanted) {
                    // A thread that ended.
                    Err(OpenError::Gone) => continue,
                    tried => tried?,
                };
                taken_by_others.extend(tried.taken_by_others);
                not_permitted.extend(tried.not_permitted);
                if first {
                    refused = tried.unknown;
                }
                // Else a CPU that this PMU does not have.
                let Some(opened) = tried.opened else { continue };
                if first {
                    group.choices = tried.taken;
                    if !tried.too_many.is_empty() {
                        left.push_front(tried.too_many);
                    }
                    group.opened.push(opened);
                } else if tried.taken.len() == group.choices.len() {
                    group.opened.push(opened);
                }
            }
            unknown.append(&mut refused);
            if !group.opened.is_empty() {
                self.groups.push(group);
            }
        }
        taken_by_others.dedup();
        if !taken_by_others.is_empty() {
            self.notes.push(NoteSubject::CountedEvents.note(format!(
                "not counted where another tool has the counters (perf_event_open: EBUSY): {}",
                taken_by_others.join(", ")
            )));
        }
        not_permitted.dedup();
        if !not_permitted.is_empty() {
            self.notes.push(NoteSubject::CountedEvents.note(format!(
                "only users who may count the whole machine may count {}; to enable: sudo sysctl \
                 kernel.perf_event_paranoid=0",
                not_permitted.join(", ")
            )));
        }
        let of_machine = self.groups.iter().filter(|group| group.is_of_machine());
        let of_machine: Vec<&str> =
            of_machine.flat_map(|group| &group.choices).map(|one| one.name.as_str()).collect();
        if !of_machine.is_empty() {
            self.notes.push(NoteSubject::CountedEvents.note(format!(
                "of all that runs on the machine, as their PMU cannot tell programs apart: {}",
                of_machine.join(", ")
            )));
        }
        if !unknown.is_empty() {
            let names = unknown.join(", ");
            self.notes.push(NoteSubject::CountedEvents.note(format!(
                "this machine does not count {names}: no PMU here has it, or a virtual machine has no PMU; `fathom machine` \
                 lists the PMUs"
            )));
        }
        Ok(())
    }

    /// Opens as many as fit.
    fn try_group(
        &self,
        target: OpenTarget,
        flags: &[Flag],
        choices: &[Choice],
    ) -> Result<Tried, OpenError> {
        // A PMU that cannot tell modes apart refuses these (PERF_PMU_CAP_NO_EXCLUDE, EINVAL).
        let exclude: &[Flag] = match choices.first().map(|choice| &choice.scope) {
            Some(Scope::Threads | Scope::Machine(_)) => &[],
            _ if self.kernel => &[Flag::ExcludeHv],
            _ => &[Flag::ExcludeHv, Flag::ExcludeKernel],
        };
        let inherit: Vec<Flag> =
            flags.iter().copied().filter(|flag| *flag == Flag::Inherit).collect();
        let mut tried = Tried::default();
        for choice in choices {
            // Members follow their leader.
            let leader = tried.opened.as_ref().map(|opened| &opened.leader);
            let own: &[Flag] = if leader.is_none() { flags } else { &inherit };
            let attr = Attr::of_pmu(choice.pmu, choice.config).flags(own).flags(exclude);
            match sys::perf::open_in_group(&attr, target, leader) {
                Ok(event) => {
                    tried.taken.push(choice.clone());
                    match &mut tried.opened {
                        None => tried.opened = Some(Opened::new(event)),
                        Some(opened) => opened.members.push(event),
                    }
                }
                Err(error) if error.raw_os_error() == Some(libc_errno::EBUSY) => {
                    tried.taken_by_others.push(choice.name.clone());
                }
                Err(error) if choice.scope != Scope::Modes && is_refused(&error) => {
                    tried.not_permitted.push(choice.name.clone());
                }
                Err(error) if !is_not_countable(&error) => return Err(error.into()),
                Err(_) if leader.is_some() => tried.too_many.push(choice.clone()),
                Err(_) => tried.unknown.push(choice.name.clone()),
            }
        }
        Ok(tried)
    }

    /// And what memory controllers and links move, whatever runs.
    #[must_use]
    pub fn with_sockets(mut self, wanted: &[ControllerEvent]) -> Counting {
        self.sockets = Sockets::open(wanted);
        self.notes.append(&mut self.sockets.notes);
        self
    }

    /// Events with numbers below this are announced by another.
    #[must_use]
    pub fn after(self, first: u32) -> Counting {
        Counting { first, ..self }
    }

    /// Reads all groups if that is due, and pushes what came since the last time.
    pub fn look(&mut self, now: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        if now - self.last < pause(now) { Ok(()) } else { self.read(now, recorder) }
    }

    fn read(&mut self, now: Nanos, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        self.last = now;
        self.announce(recorder)?;
        let mut event = self.first;
        for group in &mut self.groups {
            let counts = vec![0; group.choices.len()];
            let mut sum = GroupCounts { counts, ..GroupCounts::default() };
            for one in group.opened.iter_mut().map(Opened::read) {
                sum.enabled += one.enabled;
                sum.running += one.running;
                sum.counts.iter_mut().zip(&one.counts).for_each(|(sum, count)| *sum += count);
            }
            let before = std::mem::replace(&mut group.before, sum.clone());
            let enabled = sum.enabled - before.enabled;
            for (at, count) in sum.counts.iter().enumerate() {
                // Nothing ran: there is nothing to say.
                if enabled > Nanos(0) {
                    recorder.push(Fact::EventCount(EventCount {
                        time: now,
                        event,
                        count: count.saturating_sub(before.counts.get(at).copied().unwrap_or(0)),
                        enabled,
                        running: (sum.running - before.running).min(enabled),
                    }))?;
                }
                event += 1;
            }
        }
        self.sockets.read(now, event, recorder)
    }

    fn announce(&mut self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        if std::mem::replace(&mut self.announced, true) {
            return Ok(());
        }
        let of_group = |(group, one): (u32, &Group)| -> Vec<(u32, bool, String)> {
            let kernel = self.kernel || one.is_of_machine();
            one.choices.iter().map(|choice| (group, kernel, choice.name.clone())).collect()
        };
        let named = (self.first..).zip(&self.groups).flat_map(of_group);
        let mut next = self.first;
        for (id, (group, kernel, name)) in (self.first..).zip(named) {
            let event = CountedEvent { id, name, group, kernel, ..CountedEvent::default() };
            recorder.push(Fact::CountedEvent(event))?;
            next = id + 1;
        }
        let group = self.first + u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        self.sockets.announce(next, group, recorder)
    }

    /// Counts nothing from now on, or counts again.
    pub fn pause(&self, paused: bool) {
        for opened in self.groups.iter().flat_map(|group| &group.opened) {
            // The thread may have ended.
            let _ = opened.leader.set(if paused { Switch::Off } else { Switch::On });
        }
        self.sockets.set(if paused { Switch::Off } else { Switch::On });
    }

    /// The last reading, and remarks for the reader.
    pub fn finish(
        mut self,
        end: Nanos,
        recorder: &mut Recorder<'_>,
    ) -> Result<Vec<String>, SinkError> {
        for opened in self.groups.iter().flat_map(|group| &group.opened) {
            // All has ended then.
            let _ = opened.leader.set(Switch::Off);
        }
        self.sockets.set(Switch::Off);
        self.read(end, recorder)?;
        let starved = |group: &&Group| group.before.running < group.before.enabled;
        if self.groups.iter().any(|group| starved(&group)) && watchdog_counts() {
            self.notes.push(NoteSubject::CountedEvents.note(
                "the kernel's NMI watchdog keeps a hardware counter for itself, which made events take turns more often; to \
                 free it: sudo sysctl kernel.nmi_watchdog=0",
            ));
        }
        Ok(self.notes)
    }
}

/// Between two readings of counters, at this time.
pub(crate) fn pause(now: Nanos) -> Nanos {
    if now < FIRST { OFTEN } else { SELDOM }
}

/// What could be opened of a group.
#[derive(Default)]
struct Tried {
    opened: Option<Opened>,
    taken: Vec<Choice>,
    /// The group has no room for them.
    too_many: Vec<Choice>,
    /// No PMU has them.
    unknown: Vec<String>,
    /// Their PMU is not ours to use.
    taken_by_others: Vec<String>,
    /// Others may count them.
    not_permitted: Vec<String>,
}

fn on_cpus(cpus: &[CpuId]) -> Vec<OpenTarget> {
    cpus.iter().map(|cpu| OpenTarget { tid: ALL_THREADS, cpu: Some(*cpu) }).collect()
}

/// Parts of a group that can be opened together; those that take samples are opened elsewhere.
fn by_scope(group: &[Choice]) -> Vec<Vec<Choice>> {
    let mut parts: Vec<Vec<Choice>> = Vec::new();
    for choice in group.iter().filter(|choice| choice.sampled.is_none()) {
        let is_alike = |part: &&mut Vec<Choice>| {
            // Such PMUs have counters of their own; the cores' and the kernel's events mix.
            part[0].scope == choice.scope
                && (choice.scope == Scope::Modes || part[0].pmu == choice.pmu)
        };
        match parts.iter_mut().find(is_alike) {
            Some(part) => part.push(choice.clone()),
            None => parts.push(vec![choice.clone()]),
        }
    }
    parts
}

fn is_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc_errno::EACCES | libc_errno::EPERM))
}

/// Whether the PMU has no such event, or the group no room for it. Else it is about who may count, ends of threads, descriptors.
fn is_not_countable(error: &io::Error) -> bool {
    use libc_errno::{EINVAL, ENODEV, ENOENT, ENOSPC, EOPNOTSUPP};
    matches!(error.raw_os_error(), Some(ENOENT | ENODEV | EINVAL | ENOSPC | EOPNOTSUPP))
}

/// Whether the watchdog holds a counter on each CPU (Documentation/admin-guide/lockup-watchdogs.rst).
fn watchdog_counts() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/nmi_watchdog").is_ok_and(|text| text.trim() == "1")
}
