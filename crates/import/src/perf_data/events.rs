//! What the events of a perf.data file count, and how much time a sample of them is.
//!
//! What for: views show CPU time. Of the events that measure it the best is taken: clocks, whose periods are
//! nanoseconds; else cycles. Samples of any event may have a memory access besides. All events but clocks and page faults are
//! counted per function; cycles that show as time only next to another. What not: the records themselves.
//!
//! Cycles become time by the rate of their own samples. For two successive samples of one thread on one CPU, the time between
//! them over the period of the second is the duration of a cycle if the thread ran throughout, and more if it waited. So the
//! tenth percentile over all pairs is the duration of a cycle, provided that the thread ran throughout in at least a tenth of
//! the pairs; it is too short by as much as the CPU's clock varied. With fewer than [`FEWEST_PAIRS`] pairs, samples at a fixed
//! frequency count as one period each, but for no longer than since their thread's sample before; others give no time.

use std::collections::HashMap;

use base::Nanos;
use facts::{CountedEvent, EventUse, FaultKind, NoteSubject, SourceEvent};
use linux_perf_data::linux_perf_event_reader as reader;
use linux_perf_data::{AttributeDescription, PerfFile};
use reader::{
    AttrFlags, BranchSampleFormat, HardwareEventId, PerfEventType, RawEventRecord, ReadFormat,
    SampleFormat, SamplingPolicy, SoftwareCounterType,
};

use super::machine::command_line;
use super::names::is_simpleperf;
use super::sample::{self, Head};
use crate::Imported;

/// Fewest pairs of samples for a pace.
const FEWEST_PAIRS: usize = 20;
/// Most pairs that are kept, of each event.
const MOST_PAIRS: usize = 100_000;
/// Number of weights that suffice for their median.
const MOST_WEIGHTS: usize = 1 << 16;
/// A cycle takes no less and no more than this, nanoseconds: 10 GHz to 100 MHz.
const CYCLE: std::ops::Range<f64> = 0.1..10.0;

/// What a sample means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    Time,
    Faults(FaultKind),
}

/// What an event counts, the better the smaller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Counts {
    /// Nanoseconds.
    Clock,
    /// Cycles of the cores of this PMU.
    Cycles(u32),
    /// Cycles at the rate of the time-stamp counter, likewise.
    ReferenceCycles(u32),
}

/// One event of the file.
struct Event {
    name: String,
    samples: u64,
    counts: Option<Counts>,
    faults: Option<FaultKind>,
    policy: SamplingPolicy,
    /// Nanoseconds of a cycle, by each pair.
    cycles: Vec<f64>,
    /// The use of its samples, once that is decided.
    meaning: Option<Meaning>,
    /// Nanoseconds of each unit of the period.
    unit: Option<f64>,
    /// What its samples of time were.
    weights: Weights,
    /// Whether its samples tell of memory accesses.
    tells_accesses: bool,
    /// Whether they do so in the registers of IBS.
    is_ibs: bool,
    /// Whether its samples are those of a trace by Arm SPE.
    is_spe: bool,
    /// Samples with an access.
    accesses: u64,
    /// Whether its samples have branch stacks, and how many were of use.
    has_branches: bool,
    branches: u64,
    /// Loads below so many cycles are no samples of it.
    least_latency: Option<u64>,
    /// Whether counts of it per function make sense, and its number among the counted events, once that is decided.
    countable: bool,
    counted: Option<u32>,
    /// Samples with a count of it.
    counts_seen: u64,
    /// Whether its samples read the counts of its group.
    reads_group: bool,
    /// Whether threads inherit it, and whether the kernel is counted.
    inherits: bool,
    kernel: bool,
    ids: Vec<u64>,
}

/// A sample of numbers, large enough for their median: one of every so many.
#[derive(Default)]
struct Weights {
    kept: Vec<u64>,
    /// Logarithm of that.
    doublings: u32,
    seen: u64,
}

impl Weights {
    fn add(&mut self, weight: u64) {
        if self.seen & ((1 << self.doublings) - 1) == 0 {
            if self.kept.len() == MOST_WEIGHTS {
                let mut number = 0_usize;
                self.kept.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.doublings += 1;
            }
            self.kept.push(weight);
        }
        self.seen += 1;
    }
}

/// All of them.
pub(super) struct Events {
    list: Vec<Event>,
    first: u64,
    last: u64,
    /// The last sample of each thread: event, CPU, time.
    before: HashMap<i32, (usize, Option<u32>, u64)>,
    /// The last sample of each event and thread that counted as a period.
    counted_until: HashMap<(usize, i32), u64>,
    /// simpleperf's records of mapped code have the time at which a runtime generated it, also long before the recording.
    maps_have_own_times: bool,
    /// Whether it was recorded on a machine of the architecture of this one.
    pub(super) is_of_this_architecture: bool,
}

impl Events {
    pub(super) fn of(file: &PerfFile) -> Events {
        let list = file.event_attributes().iter().map(Event::of).collect();
        let architecture = file.arch().ok().flatten();
        Events {
            list,
            first: u64::MAX,
            last: 0,
            before: HashMap::new(),
            counted_until: HashMap::new(),
            maps_have_own_times: is_simpleperf(file, &command_line(file)),
            is_of_this_architecture: architecture
                .is_none_or(|name| name == collect::address_space::MACHINE),
        }
    }

    /// A record of the first reading.
    pub(super) fn see(&mut self, index: usize, raw: &RawEventRecord<'_>) {
        // What perf writes about processes that ran before it has no time.
        let Some(time) = raw.timestamp().filter(|time| *time > 0) else { return };
        let is_map =
            matches!(raw.record_type, reader::RecordType::MMAP | reader::RecordType::MMAP2);
        if !(is_map && self.maps_have_own_times) {
            self.first = self.first.min(time);
        }
        self.last = self.last.max(time);
        if raw.record_type != reader::RecordType::SAMPLE {
            return;
        }
        let Some(event) = self.list.get_mut(index) else { return };
        event.samples += 1;
        let Some(sample) = sample::head(raw, &raw.data.as_slice()) else { return };
        let Some(tid) = sample.tid else { return };
        let before = self.before.insert(tid, (index, sample.cpu, time));
        let Some((_, _, earlier)) =
            before.filter(|before| (before.0, before.1) == (index, sample.cpu))
        else {
            return;
        };
        let period = event.period(&sample).filter(|period| *period > 0);
        if let Some(period) = period.filter(|_| event.cycles.len() < MOST_PAIRS) {
            event.cycles.push(time.saturating_sub(earlier) as f64 / period as f64);
        }
    }

    /// What a trace by Arm SPE has: how many operations, from when to when.
    pub(super) fn traced(&mut self, operations: u64, span: Option<(u64, u64)>) {
        if let Some(event) = self.list.iter_mut().find(|event| event.is_spe) {
            event.samples = operations;
        }
        if let Some((first, last)) = span {
            (self.first, self.last) = (self.first.min(first), self.last.max(last));
        }
    }

    /// The event of a trace by Arm SPE: its number and its name.
    pub(super) fn of_trace(&self) -> Option<(usize, &str)> {
        let found = self.list.iter().enumerate().find(|(_, event)| event.is_spe)?;
        Some((found.0, found.1.name.as_str()))
    }

    /// Decides which events are time.
    ///
    /// # Errors
    /// The names of the events, when none is.
    pub(super) fn decided(mut self) -> Result<Events, String> {
        for event in &mut self.list {
            event.meaning = event.faults.map(Meaning::Faults);
            event.unit = event.nanos_per_unit();
        }
        let usable = self.list.iter().filter(|event| event.samples > 0 && event.weighable());
        // Cores of different kinds have a PMU each.
        let mut taken: Vec<Counts> = Vec::new();
        let best = usable.filter_map(|event| event.counts).min();
        for event in &mut self.list {
            let Some(counts) = event.counts.filter(|_| event.samples > 0 && event.weighable())
            else {
                continue;
            };
            let alike = best.is_some_and(|best| {
                std::mem::discriminant(&best) == std::mem::discriminant(&counts)
            });
            if alike && !taken.contains(&counts) {
                taken.push(counts);
                event.meaning = Some(Meaning::Time);
            }
        }
        self.choose_counted();
        let tells = |event: &Event| {
            (event.tells_accesses || event.has_branches) && event.samples > 0
                || event.counted.is_some()
        };
        let undecided = |event: &&Event| event.counts.is_some() && event.samples > 0;
        let without_time = taken.is_empty() && !self.list.iter().any(tells);
        if let Some(event) = self.list.iter().find(undecided).filter(|_| without_time) {
            return Err(format!("{}, too few to tell how long a cycle takes", event.in_words()));
        }
        if without_time {
            let names: Vec<String> = self.list.iter().map(Event::in_words).collect();
            return Err(names.join(", "));
        }
        Ok(self)
    }

    /// Numbers the events that are counted per function.
    fn choose_counted(&mut self) {
        let read = self.list.iter().any(|event| event.reads_group && event.samples > 0);
        // A member of a group has no samples of its own, which also makes page faults countable.
        let seen = |event: &Event| match event.samples {
            0 => read && event.reads_group && (event.countable || event.faults.is_some()),
            _ => event.countable,
        };
        let not_time = |event: &Event| seen(event) && event.meaning != Some(Meaning::Time);
        if self.list.iter().any(not_time) {
            let chosen = self.list.iter_mut().filter(|event| seen(event));
            (0..).zip(chosen).for_each(|(number, event)| event.counted = Some(number));
        }
    }

    /// The counted events. A group that is read together has one sampled event.
    pub(super) fn counted(&self) -> Vec<CountedEvent> {
        let mut all = Vec::new();
        // The number of the group, once it has one, and whether it has its sampled event.
        let mut open: Option<(Option<u32>, bool)> = None;
        for event in &self.list {
            let begins = open.is_none_or(|(_, is_sampled)| is_sampled && event.samples > 0);
            if !event.reads_group || begins {
                open = Some((None, false));
            }
            let (number, is_sampled) = open.get_or_insert((None, false));
            *is_sampled |= event.samples > 0 || !event.reads_group;
            let Some(id) = event.counted else { continue };
            let group = *number.get_or_insert(id);
            let (name, kernel) = (event.name.clone(), event.kernel);
            all.push(CountedEvent { id, name, group, kernel, ..CountedEvent::default() });
        }
        all
    }

    /// The ids of each of them, and whether threads inherit it.
    pub(super) fn ids_of_counted(&self) -> impl Iterator<Item = (&[u64], bool)> {
        let counted = self.list.iter().filter(|event| event.counted.is_some());
        counted.map(|event| (event.ids.as_slice(), event.inherits))
    }

    /// A sample of an event that is counted: what it stands for.
    pub(super) fn counted_by(&mut self, index: usize, sample: &Head) -> Option<(u32, u64)> {
        let event = self.list.get_mut(index)?;
        let (number, period) = (event.counted?, event.period(sample)?);
        event.counts_seen += 1;
        Some((number, period))
    }

    /// A sample had counts of these events.
    pub(super) fn counted_of_group(&mut self, counts: &[(u32, u64)]) {
        for event in &mut self.list {
            let seen = counts.iter().any(|(number, _)| Some(*number) == event.counted);
            event.counts_seen += u64::from(seen);
        }
    }

    /// From the first record to the last.
    pub(super) fn length(&self) -> Nanos {
        Nanos(self.last.saturating_sub(self.first))
    }

    /// The time since the first record.
    pub(super) fn since_start(&self, time: Option<u64>) -> Nanos {
        Nanos(time.unwrap_or(0).saturating_sub(self.first))
    }

    /// What a sample means, and how much: nanoseconds or faults.
    pub(super) fn meaning(&mut self, index: usize, sample: &Head) -> Option<(Meaning, u64)> {
        let length = self.length().0;
        let event = self.list.get_mut(index)?;
        let meaning = event.meaning?;
        let period = event.period(sample);
        let weight = match meaning {
            Meaning::Faults(_) => period.unwrap_or(1),
            Meaning::Time => match (event.unit, period) {
                // The kernel begins with periods of one cycle, which is less than a nanosecond.
                (Some(unit), Some(period)) => ((unit * period as f64) as u64).max(1),
                _ => {
                    // The kernel begins with short periods until it has found the right one.
                    let period = event.frequency()?;
                    let of_thread = sample.tid.zip(sample.time);
                    let longest = of_thread.and_then(|(tid, time)| {
                        let before = self.counted_until.insert((index, tid), time);
                        before.map(|before| time.saturating_sub(before))
                    });
                    let longest = longest.or(Some(length).filter(|length| *length > 0));
                    longest.map_or(period, |longest| period.min(longest)).max(1)
                }
            },
        };
        if meaning == Meaning::Time {
            event.weights.add(weight);
        }
        Some((meaning, weight))
    }

    /// Whether samples of an event may have a memory access, and whether in the registers of IBS.
    pub(super) fn tells_accesses(&self, index: usize) -> Option<bool> {
        self.list.get(index).filter(|event| event.tells_accesses).map(|event| event.is_ibs)
    }

    /// A sample had one: what it stands for.
    pub(super) fn accessed(&mut self, index: usize, sample: &Head) -> u64 {
        let Some(event) = self.list.get_mut(index) else { return 1 };
        event.accesses += 1;
        event.period(sample).unwrap_or(1).max(1)
    }

    /// A sample had a branch stack of use.
    pub(super) fn branched(&mut self, index: usize) {
        if let Some(event) = self.list.get_mut(index) {
            event.branches += 1;
        }
    }

    /// The names of the events, when nothing became of any.
    pub(super) fn nothing(&self) -> Option<String> {
        let used = |event: &Event| {
            event.meaning == Some(Meaning::Time)
                || event.accesses > 0
                || event.branches > 0
                || event.counts_seen > 0
        };
        let names = || self.list.iter().map(Event::in_words).collect::<Vec<_>>().join(", ");
        (!self.list.iter().any(used)).then(names)
    }

    /// Tells what the events were and became.
    pub(super) fn describe(&mut self, imported: &mut Imported) {
        let events = self.list.iter().map(|event| SourceEvent {
            name: event.name.clone(),
            samples: event.samples,
            used_as: event.used_as(),
        });
        imported.source.events = events.collect();
        imported.elapsed = self.length();
        let mut weights: Vec<u64> = self
            .list
            .iter_mut()
            .flat_map(|event| std::mem::take(&mut event.weights.kept))
            .collect();
        weights.sort_unstable();
        imported.period = Nanos(weights.get(weights.len() / 2).copied().unwrap_or(0));
        let unused: Vec<String> = self
            .list
            .iter()
            .filter(|event| event.used_as() == EventUse::Nothing && event.samples > 0)
            .map(Event::in_words)
            .collect();
        if !unused.is_empty() {
            imported.notes.push(format!("no view shows samples of {} yet", unused.join(", ")));
        }
        for event in self.list.iter().filter(|event| event.accesses > 0) {
            if let Some(least) = event.least_latency {
                imported.notes.push(NoteSubject::SampledLoads.note(format!(
                    "{} has only loads that took {least} cycles or more: shares and latencies are of these",
                    event.name
                )));
            }
        }
        let has_time = self.list.iter().any(|event| event.meaning == Some(Meaning::Time));
        let without = |event: &&Event| !has_time && event.counts.is_some() && event.counts_seen > 0;
        for event in self.list.iter().filter(without) {
            imported.notes.push(format!(
                "there are too few samples of {} to tell how long a cycle takes: they are counts, and there is no CPU time",
                event.name
            ));
        }
        for event in self.list.iter().filter(|event| event.meaning == Some(Meaning::Time)) {
            match (event.counts, event.unit) {
                (Some(Counts::Clock) | None, _) => {}
                (Some(_), Some(unit)) => imported.notes.push(format!(
                    "CPU time is {} times {unit:.3} ns per cycle, the pace of its own samples ({:.2} GHz)",
                    event.name,
                    1.0 / unit
                )),
                (Some(_), None) => imported.notes.push(format!(
                    "there are too few samples of {} to tell how long a cycle takes: each counts as one period of the \
                     frequency that was asked for, but for no longer than since its thread's sample before",
                    event.name
                )),
            }
        }
    }

    /// The first time stamp.
    pub(super) fn first(&self) -> u64 {
        self.first
    }
}

impl Event {
    fn of(one: &AttributeDescription) -> Event {
        let name = one.name().map_or_else(|| usual_name(&one.attr.type_), str::to_owned);
        let has = |bit| one.attr.sample_format.contains(bit);
        let is_ibs = name.starts_with("ibs_op") && has(SampleFormat::RAW);
        let is_spe = name.starts_with("arm_spe");
        Event {
            samples: 0,
            counts: counts(&one.attr.type_, &name),
            faults: super::fault_kind(&name),
            policy: one.attr.sampling_policy,
            cycles: Vec::new(),
            meaning: None,
            unit: None,
            weights: Weights::default(),
            tells_accesses: is_ibs || is_spe || has(SampleFormat::DATA_SRC),
            is_ibs,
            is_spe,
            accesses: 0,
            has_branches: has(SampleFormat::BRANCH_STACK)
                && !one.attr.branch_sample_format.contains(BranchSampleFormat::CALL_STACK),
            branches: 0,
            least_latency: least_latency(&name),
            countable: countable(&one.attr.type_, &name),
            counted: None,
            counts_seen: 0,
            reads_group: has(SampleFormat::READ)
                && one.attr.read_format.contains(ReadFormat::GROUP),
            inherits: one.attr.flags.contains(AttrFlags::INHERIT),
            kernel: !one.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL),
            ids: one.ids().to_vec(),
            name,
        }
    }

    /// What became of its samples.
    fn used_as(&self) -> EventUse {
        match (self.meaning, self.accesses > 0) {
            (Some(Meaning::Time), true) => EventUse::CpuTimeAndMemoryAccesses,
            (Some(Meaning::Time), false) => EventUse::CpuTime,
            (Some(Meaning::Faults(_)), _) => EventUse::PageFaults,
            (None, true) => EventUse::MemoryAccesses,
            (None, false) if self.branches > 0 => EventUse::Branches,
            (None, false) if self.counts_seen > 0 => EventUse::Counts,
            (None, false) => EventUse::Nothing,
        }
    }

    fn in_words(&self) -> String {
        format!("{} ({} samples)", self.name, self.samples)
    }

    /// How much a sample is, in the event's unit.
    fn period(&self, sample: &Head) -> Option<u64> {
        sample.period.or(match self.policy {
            SamplingPolicy::Period(period) => Some(period.get()),
            SamplingPolicy::Frequency(_) | SamplingPolicy::NoSampling => None,
        })
    }

    /// Nanoseconds of a period at the frequency that was asked for.
    fn frequency(&self) -> Option<u64> {
        match self.policy {
            SamplingPolicy::Frequency(hertz) => 1_000_000_000_u64.checked_div(hertz),
            SamplingPolicy::Period(_) | SamplingPolicy::NoSampling => None,
        }
    }

    fn nanos_per_unit(&mut self) -> Option<f64> {
        match self.counts? {
            Counts::Clock => Some(1.0),
            Counts::Cycles(_) | Counts::ReferenceCycles(_) => {
                let pairs = std::mem::take(&mut self.cycles);
                let mut pairs: Vec<f64> =
                    pairs.into_iter().filter(|nanos| CYCLE.contains(nanos)).collect();
                pairs.sort_by(f64::total_cmp);
                pairs.get(pairs.len() / 10).copied().filter(|_| pairs.len() >= FEWEST_PAIRS)
            }
        }
    }

    /// Whether samples of it can be given a time.
    fn weighable(&self) -> bool {
        self.unit.is_some() || self.frequency().is_some()
    }
}

fn counts(kind: &PerfEventType, name: &str) -> Option<Counts> {
    match kind {
        PerfEventType::Software(SoftwareCounterType::CpuClock | SoftwareCounterType::TaskClock) => {
            Some(Counts::Clock)
        }
        PerfEventType::Hardware(HardwareEventId::CpuCycles, pmu) => Some(Counts::Cycles(pmu.0)),
        PerfEventType::Hardware(HardwareEventId::RefCpuCycles, pmu) => {
            Some(Counts::ReferenceCycles(pmu.0))
        }
        PerfEventType::DynamicPmu(pmu, ..) => match plain(name) {
            "cycles" | "cpu-cycles" | "cpu_cycles" => Some(Counts::Cycles(*pmu)),
            // Its counter counts cycles unless `cnt_ctl` asks for ops (AMD64 APM 2, 13.3.4).
            _ if name.starts_with("ibs_op/") && !name.contains("cnt_ctl=1") => {
                Some(Counts::Cycles(*pmu))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether a sample of the event is a count of something: not of time, of page faults, of accesses, of nothing, and no trace.
fn countable(kind: &PerfEventType, name: &str) -> bool {
    const OTHERS: [&str; 8] = [
        "intel_pt",
        "intel_bts",
        "arm_spe",
        "cs_etm",
        "ibs_",
        "mem-loads",
        "mem-stores",
        "mem_trans",
    ];
    use SoftwareCounterType::{BpfOutput, CpuClock, Dummy, TaskClock};
    match kind {
        PerfEventType::Software(CpuClock | TaskClock | Dummy | BpfOutput) => false,
        _ => super::fault_kind(name).is_none() && !OTHERS.iter().any(|other| name.contains(other)),
    }
}

/// The threshold of PEBS load latency, as perf writes it: `cpu/mem-loads,ldlat=30/P`, `...:ldlat=64:...`; and that of Arm SPE:
/// `arm_spe_0/min_latency=100/`.
fn least_latency(name: &str) -> Option<u64> {
    let (_, rest) = name.split_once("ldlat=").or_else(|| name.split_once("min_latency="))?;
    let digits = rest.split(|letter: char| !letter.is_ascii_hexdigit() && letter != 'x').next()?;
    match digits.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// The event within `PMU/EVENT/MODIFIERS`, or without `:MODIFIERS`.
fn plain(name: &str) -> &str {
    let within = name.split_once('/').map_or(name, |(_, rest)| rest);
    within.split(['/', ':', ',']).next().unwrap_or(within)
}

/// The name that perf gives to an event, where the file has none.
fn usual_name(kind: &PerfEventType) -> String {
    let name = match kind {
        PerfEventType::Hardware(HardwareEventId::CpuCycles, _) => "cycles",
        PerfEventType::Hardware(HardwareEventId::RefCpuCycles, _) => "ref-cycles",
        PerfEventType::Hardware(HardwareEventId::Instructions, _) => "instructions",
        PerfEventType::Hardware(HardwareEventId::CacheReferences, _) => "cache-references",
        PerfEventType::Hardware(HardwareEventId::CacheMisses, _) => "cache-misses",
        PerfEventType::Hardware(HardwareEventId::BranchInstructions, _) => "branches",
        PerfEventType::Hardware(HardwareEventId::BranchMisses, _) => "branch-misses",
        PerfEventType::Software(SoftwareCounterType::CpuClock) => "cpu-clock",
        PerfEventType::Software(SoftwareCounterType::TaskClock) => "task-clock",
        PerfEventType::Software(SoftwareCounterType::PageFaults) => "page-faults",
        PerfEventType::Software(SoftwareCounterType::PageFaultsMin) => "minor-faults",
        PerfEventType::Software(SoftwareCounterType::PageFaultsMaj) => "major-faults",
        PerfEventType::Software(SoftwareCounterType::ContextSwitches) => "context-switches",
        PerfEventType::Software(SoftwareCounterType::Dummy) => "dummy",
        PerfEventType::Tracepoint(id) => return format!("tracepoint {id}"),
        PerfEventType::DynamicPmu(pmu, config, ..) => {
            return format!("pmu {pmu} config {config:#x}");
        }
        other => return format!("{other:?}"),
    };
    name.to_owned()
}
