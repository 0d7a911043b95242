//! Entries into the kernel per cause, process, thread, CPU or bin of time.
//!
//! Counts and times of system calls and interrupts are exact: the kernel added them up. So is the time of page faults where it
//! was counted. Elsewhere, and in bins with too many faults to time, it is sampled: their share of the clock samples, by kernel
//! stack. What not: the CPU time that these times are part of; the profile has it.
//!
//! Where one program was observed, process 0 stands for all other processes and for idle CPUs. Rows leave it out unless they are
//! by process; memory events of the whole machine are always shown.

use std::collections::BTreeMap;

use base::{CpuId, Nanos, Pid, ThreadId, Tid};
use facts::{Evidence, KernelCause, KernelEntry, Metric, Target};

use crate::hotspots::Key;
use crate::profile::Profile;
use crate::selection::Selection;
use crate::timeline::bin_width;
use crate::weight::Weight;

/// Names of page faults, as the collector gives them.
const IN_PROGRAM: &str = "in program";
const IN_KERNEL: &str = "in kernel";

/// The key of a row: the parts that were grouped by are set.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[expect(missing_docs, reason = "each field is named after the key it holds")]
pub struct EntryKey {
    /// Start of the bin.
    pub time: Option<Nanos>,
    pub process: Option<Pid>,
    pub thread: Option<ThreadId>,
    pub cpu: Option<CpuId>,
    pub cause: Option<(KernelCause, String)>,
}

/// One row.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EntryRow {
    /// What it is.
    pub key: EntryKey,
    /// Entries; for a row of one cause that is none (a switch, an event of memory) how often it happened.
    pub count: u64,
    /// CPU time of system calls and interrupts, each without what is inside of it.
    pub own: Nanos,
    /// How many of `count` have no time in `own` but samples: page faults whose end was not watched.
    pub untimed: u64,
    /// How many have no time at all: everything where programs were refused.
    pub timeless: u64,
    /// Samples inside of page faults that have no time of their own; those in a system call only in the row of that cause, being part of its `own`.
    pub faults: Weight,
    /// Time off the CPU inside of system calls.
    pub blocked: Nanos,
    /// Time ready without a CPU.
    pub ready: Nanos,
    /// How often a CPU went from a thread to another.
    pub switches: u64,
}

/// All rows and their sum.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EntryTable {
    /// In order of time if by time, else most time first, then most entries.
    pub rows: Vec<EntryRow>,
    /// Entries of all rows.
    pub total: EntryRow,
    /// The length of a bin, if by time.
    pub bin: Option<Nanos>,
}

/// Groups the selected entries by `keys`. No keys mean [`Key::Cause`]. At most `most` bins of time.
#[must_use]
pub fn entry_table(
    profile: &Profile<'_>,
    selection: &Selection,
    keys: &[Key],
    most: usize,
) -> EntryTable {
    let keys = if keys.is_empty() { &[Key::Cause] } else { keys };
    let finest = profile.recording.kernel_entries.iter().map(|entry| entry.length).max();
    let bin = keys
        .contains(&Key::Time)
        .then(|| bin_width(profile.elapsed(), most, finest.unwrap_or_default().max(Nanos(1))));
    let grouping = Grouping { profile, selection, keys, bin };
    let mut sums: BTreeMap<EntryKey, EntryRow> = BTreeMap::new();
    for entry in &profile.recording.kernel_entries {
        if let Some(key) = grouping.of_entry(entry) {
            sums.entry(key).or_default().add(entry, keys.contains(&Key::Cause));
        }
    }
    grouping.add_fault_samples(&mut sums);
    let mut total = EntryRow::default();
    let mut rows: Vec<EntryRow> =
        sums.into_iter().map(|(key, row)| EntryRow { key, ..row }).collect();
    for row in &rows {
        total.merge(row);
    }
    if bin.is_none() {
        // Faults have weights instead of times; both are nanoseconds of CPU time.
        let spent = |row: &EntryRow| row.own.0.saturating_add(row.faults.amount());
        rows.sort_by(|a, b| {
            spent(b).cmp(&spent(a)).then(b.count.cmp(&a.count)).then_with(|| a.key.cmp(&b.key))
        });
    }
    EntryTable { rows, total, bin }
}

impl EntryRow {
    fn add(&mut self, entry: &KernelEntry, by_cause: bool) {
        let plus = |sum: u64, more: u64| sum.saturating_add(more);
        if entry.cause.is_entry() || by_cause {
            self.count = plus(self.count, entry.count);
        }
        if entry.cause.is_entry() {
            match entry.own {
                Some(own) => self.own += own,
                None if matches!(entry.name.as_str(), IN_PROGRAM | IN_KERNEL) => {
                    self.untimed = plus(self.untimed, entry.count);
                }
                None => self.timeless = plus(self.timeless, entry.count),
            }
            self.blocked += entry.waited;
        }
        match entry.cause {
            KernelCause::RunQueue => self.ready += entry.waited,
            KernelCause::Switch => self.switches = plus(self.switches, entry.count),
            _ => {}
        }
    }

    /// Adds a row; its count only if it is of entries.
    fn merge(&mut self, row: &EntryRow) {
        if row.key.cause.as_ref().is_none_or(|(cause, _)| cause.is_entry()) {
            self.count = self.count.saturating_add(row.count);
        }
        self.own += row.own;
        self.untimed = self.untimed.saturating_add(row.untimed);
        self.timeless = self.timeless.saturating_add(row.timeless);
        if row.key.cause.as_ref().is_none_or(|(_, name)| name != IN_KERNEL) {
            self.faults.merge(&row.faults);
        }
        self.blocked += row.blocked;
        self.ready += row.ready;
        self.switches = self.switches.saturating_add(row.switches);
    }
}

struct Grouping<'a> {
    profile: &'a Profile<'a>,
    selection: &'a Selection,
    keys: &'a [Key],
    bin: Option<Nanos>,
}

impl Grouping<'_> {
    fn of_entry(&self, entry: &KernelEntry) -> Option<EntryKey> {
        let by_cause = self.keys.contains(&Key::Cause);
        let of_machine = entry.cause == KernelCause::MemoryEvent;
        if of_machine && (!by_cause || self.selection.chooses_threads()) {
            return None;
        }
        let others = entry.pid == Pid(0) && !observes_machine(self.profile);
        let shown = of_machine
            || !others
            || self.keys.contains(&Key::Process)
            || only_of_machine(self.profile);
        // A bin is where its middle is.
        let middle = entry.time - Nanos(entry.length.0 / 2);
        let thread = self.profile.threads.find(entry.pid, entry.tid);
        if !(shown && self.selection.may_have(thread, middle)) {
            return None;
        }
        let cause = by_cause.then(|| (entry.cause, entry.name.clone()));
        Some(self.key(middle, ThreadId::new(entry.pid, entry.tid), entry.cpu, cause))
    }

    fn key(
        &self,
        time: Nanos,
        thread: ThreadId,
        cpu: Option<CpuId>,
        cause: Option<(KernelCause, String)>,
    ) -> EntryKey {
        let has = |key| self.keys.contains(&key);
        EntryKey {
            time: self.bin.map(|bin| Nanos(time.0 / bin.0.max(1) * bin.0)),
            process: has(Key::Process).then_some(thread.pid),
            thread: has(Key::Thread).then_some(thread),
            cpu: if has(Key::Cpu) { cpu } else { None },
            cause,
        }
    }

    /// Bins of time in which faults were counted and not timed: start by end.
    fn untimed_bins(&self) -> BTreeMap<Nanos, Nanos> {
        let entries = self.profile.recording.kernel_entries.iter();
        let untimed =
            entries.filter(|entry| entry.cause == KernelCause::PageFault && entry.own.is_none());
        untimed.map(|entry| (entry.time, entry.time - entry.length)).collect()
    }

    fn add_fault_samples(&self, sums: &mut BTreeMap<EntryKey, EntryRow>) {
        let stacks = &self.profile.stacks;
        // Only where faults were counted, and not timed: a row of samples alone would be one of no entries. Without any
        // such row nobody need look at ten million samples.
        if sums.values().all(|row| row.untimed == 0) {
            return;
        }
        let untimed = self.untimed_bins();
        for sample in &self.profile.recording.samples {
            // The first bin that ends after it, if it begins before it.
            let bin = untimed.range(sample.time..).next();
            if bin.is_none_or(|(_, start)| *start > sample.time) {
                continue;
            }
            let stack = sample.stack.and_then(|id| stacks.find(id));
            if !stacks.in_page_fault(stack) {
                continue;
            }
            let thread = self.profile.threads.find(sample.pid, sample.tid);
            if !thread.is_some_and(|thread| self.selection.has(thread, sample.time)) {
                continue;
            }
            let in_call =
                stacks.frames(stack).any(|place| is_call_entry(&stacks.function_of(place).name));
            let by_cause = self.keys.contains(&Key::Cause);
            if in_call && !by_cause {
                continue;
            }
            let name = if in_call { IN_KERNEL } else { IN_PROGRAM };
            let cause = by_cause.then(|| (KernelCause::PageFault, name.to_owned()));
            let key =
                self.key(sample.time, ThreadId::new(sample.pid, sample.tid), sample.cpu, cause);
            if let Some(row) = sums.get_mut(&key).filter(|row| row.untimed > 0) {
                row.faults.add(sample.weight.0);
            }
        }
    }
}

/// Functions through which every system call passes (arch/x86/entry/entry_64.S, arch/arm64/kernel/entry-common.c).
fn is_call_entry(function: &str) -> bool {
    matches!(
        function,
        "do_syscall_64" | "entry_SYSCALL_64_after_hwframe" | "entry_SYSCALL_64" | "el0_svc"
    )
}

/// Whether the recording is of the whole machine.
#[must_use]
pub fn observes_machine(profile: &Profile<'_>) -> bool {
    profile.recording.run.target == Some(Target::Machine)
}

/// Whether one program was observed, but its own entries cannot be separated from those of the machine.
#[must_use]
pub fn only_of_machine(profile: &Profile<'_>) -> bool {
    let entries = &profile.recording.kernel_entries;
    !observes_machine(profile) && entries.iter().all(|entry| entry.pid == Pid(0))
}

/// Whether the threads of the program were counted together.
#[must_use]
pub fn counts_together(profile: &Profile<'_>) -> bool {
    let mut entries = profile.recording.kernel_entries.iter();
    entries.any(|entry| entry.pid != Pid(0) && entry.tid == Tid(0))
}

/// CPU time of a row: exact where all of it was timed by the kernel, else with the sampled part's interval.
#[must_use]
pub fn entry_time(profile: &Profile<'_>, row: &EntryRow) -> Metric {
    let exact = Metric::counted(row.own.seconds(), "s");
    if row.untimed == 0 && row.timeless == 0 {
        return exact;
    }
    let sampled = profile.recording.run.collector.kernel_samples
        && profile.stacks.has_kernel_names()
        && !profile.whole().is_empty();
    if !sampled || row.timeless > 0 {
        return Metric::unavailable(
            "s",
            "counted, not timed: no tracing of the kernel here, or no kernel samples",
        );
    }
    let faults = profile.cpu_scale().quantity(&row.faults);
    let (Some(value), own) = (faults.value, row.own.seconds()) else { return faults };
    let plus = |end: Option<f64>| end.unwrap_or(value) + own;
    let interval = (plus(faults.low), plus(faults.high));
    Metric::with_interval(Evidence::Sampled, value + own, "s", interval, faults.samples)
}

/// CPU time of all page faults, as the rows of these have it; `None` where that is not known of the program.
pub(crate) fn fault_time(profile: &Profile<'_>) -> Option<Metric> {
    if only_of_machine(profile) {
        return None;
    }
    let found = entry_table(profile, &Selection::default(), &[Key::Cause], 1);
    let is_fault = |row: &&EntryRow| {
        row.key.cause.as_ref().is_some_and(|(cause, _)| *cause == KernelCause::PageFault)
    };
    let mut all = EntryRow::default();
    for row in found.rows.iter().filter(is_fault) {
        all.merge(&EntryRow { key: EntryKey::default(), ..row.clone() });
    }
    let time = entry_time(profile, &all);
    (all.count > 0 && time.value.is_some()).then_some(time)
}

/// Time off the CPU of a row, which is known where its entries were timed.
#[must_use]
pub fn waited(time: Nanos, timeless: u64) -> Metric {
    match timeless {
        0 => Metric::counted(time.seconds(), "s"),
        _ => Metric::unavailable("s", "counted, not timed: no tracing of the kernel here"),
    }
}

/// The figures of a whole recording.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelFigures {
    /// Entries of the program, or of the machine.
    pub entries: Metric,
    /// The same per second of the recording.
    pub per_second: Metric,
    /// CPU time in them, seconds.
    pub time: Metric,
    /// Switches from a thread to another.
    pub switches: Metric,
    /// Time that threads could have run but had no CPU, seconds.
    pub ready: Metric,
}

/// Sums of a recording; unavailable unless its analysis was a system overview.
#[must_use]
pub fn kernel_figures(profile: &Profile<'_>) -> KernelFigures {
    let seconds = profile.elapsed().seconds();
    let why = if profile.recording.kernel_entries.is_empty() || seconds <= 0.0 {
        Some("entries into the kernel are counted by `fathom collect system-overview`")
    } else if only_of_machine(profile) {
        Some(
            "entries into the kernel are known for the whole machine only: see `fathom report kernel`",
        )
    } else {
        None
    };
    if let Some(why) = why {
        let none = |unit: &str| Metric::unavailable(unit, why);
        return KernelFigures {
            entries: none("count"),
            per_second: none("1/s"),
            time: none("s"),
            switches: none("count"),
            ready: none("s"),
        };
    }
    let total = entry_table(profile, &Selection::default(), &[], 1).total;
    KernelFigures {
        entries: Metric::counted(total.count as f64, "count"),
        per_second: Metric::counted(total.count as f64 / seconds, "1/s"),
        time: entry_time(profile, &total),
        switches: Metric::counted(total.switches as f64, "count"),
        ready: waited(total.ready, total.timeless),
    }
}
