//! Page faults: how many, where, and what they cost.
//!
//! What for: rows are by the innermost frame *outside* the kernel: a fault inside a system call that fills a buffer belongs to
//! the code that made the call. With objects, a row also has the memory object of the fault's address.
//! What not: what huge pages would save (`findings::faults`).

use std::collections::BTreeMap;

use base::Nanos;
use estimate::Bounds;
use facts::host::Calibration;
use facts::{CounterKind, Evidence, Fault, FaultKind, LostSource, Metric, Privilege, Recording};

use crate::hotspots::{Key, RowKey};
use crate::kernel::fault_time;
use crate::objects::{Grouping, ObjectId};
use crate::profile::Profile;
use crate::selection::Selection;
use crate::stack::{CallPaths, LocationId};
use crate::weight::{Scale, Weight};

const NO_FAULT_RECORDS: &str = "no page faults were recorded";

/// One row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultRow {
    /// What it is.
    pub key: RowKey,
    /// The place in it with the most faults.
    pub place: LocationId,
    /// Minor and major faults.
    pub all: Weight,
    /// Those served from memory.
    pub minor: Weight,
    /// Those that waited for I/O.
    pub major: Weight,
}

/// All rows, most faults first.
pub struct FaultTable {
    /// The rows.
    pub rows: Vec<FaultRow>,
    /// Faults in any row.
    pub selected: FaultSums,
    /// Present with [`Key::CallStack`].
    pub paths: Option<CallPaths>,
}

/// Sums of fault records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultSums {
    /// Minor and major.
    pub all: Weight,
    /// Served from memory.
    pub minor: Weight,
    /// Waited for I/O.
    pub major: Weight,
}

impl FaultSums {
    /// Adds one record.
    pub fn add(&mut self, kind: FaultKind, weight: u64) {
        self.all.add(weight);
        match kind {
            FaultKind::Minor => self.minor.add(weight),
            FaultKind::Major => self.major.add(weight),
        }
    }
}

/// How fault records become counts, per kind.
#[derive(Clone, PartialEq, Debug)]
pub struct FaultScales {
    /// For [`FaultSums::all`].
    pub all: Scale,
    /// For [`FaultSums::minor`].
    pub minor: Scale,
    /// For [`FaultSums::major`].
    pub major: Scale,
}

/// The counted totals of the recording: (minor, major). From the kernel's counters, else from getrusage. Less those that
/// the burst tracer's pages took: of each page of its code it is not known whether it took one, or came with its neighbour.
#[must_use]
pub fn counted_faults(recording: &Recording) -> (Option<Metric>, Option<Metric>) {
    let usage = recording.run.resource_use.as_ref();
    let minor =
        recording.counter(CounterKind::MinorFaults).or(usage.map(|usage| usage.minor_faults));
    let major =
        recording.counter(CounterKind::MajorFaults).or(usage.map(|usage| usage.major_faults));
    let (least, most) = recording.run.own_cost.burst_faults.unwrap_or_default();
    let minor = minor.map(|all| {
        let (low, high) = (all.saturating_sub(most) as f64, all.saturating_sub(least) as f64);
        if most == 0 {
            return Metric::counted(high, "count");
        }
        let middle = ((low + high) / 2.0).round();
        Metric::with_interval(Evidence::Counted, middle, "count", (low, high), 1)
            .noted("less the faults of the burst tracer's own pages; the interval covers their uncertainty")
    });
    (minor, major.map(|count| Metric::counted(count as f64, "count")))
}

/// Sums and scales of all fault records of the recording.
#[must_use]
pub fn fault_scales(recording: &Recording) -> FaultScales {
    let mut sums = FaultSums::default();
    recording.faults.iter().for_each(|fault| sums.add(fault.kind, fault.weight));
    let lost = recording.lost(LostSource::Faults);
    let (minor, major) = counted_faults(recording);
    let value = |metric: Option<Metric>| metric.and_then(|metric| metric.value);
    let (minor, major) = (value(minor), value(major));
    let both = minor.zip(major).map(|(minor, major)| minor + major);
    let scale = |whole, total| Scale::count(whole, total, lost, NO_FAULT_RECORDS);
    FaultScales {
        all: scale(sums.all, both),
        minor: scale(sums.minor, minor),
        major: scale(sums.major, major),
    }
}

/// Total faults of one kind: counted where the kernel counted, else from the records, else unavailable.
#[must_use]
pub fn fault_total(counted: Option<Metric>, scale: &Scale) -> Metric {
    counted.unwrap_or_else(|| scale.quantity(scale.whole()))
}

/// Groups the selected faults by `keys` on code and threads. No keys mean [`Key::Function`].
#[must_use]
pub fn fault_table(profile: &Profile<'_>, selection: &Selection, keys: &[Key]) -> FaultTable {
    table(profile, selection, keys, &|_| None)
}

/// The same with rows by object too.
#[must_use]
pub fn fault_table_of_objects(grouping: &Grouping<'_>) -> FaultTable {
    let Grouping { profile, objects, selection, keys, .. } = *grouping;
    table(profile, selection, keys, &|fault| {
        Some(objects.at(fault.pid, fault.address, fault.time).0)
    })
}

fn table(
    profile: &Profile<'_>,
    selection: &Selection,
    keys: &[Key],
    object_of: &dyn Fn(&Fault) -> Option<ObjectId>,
) -> FaultTable {
    let keys = if keys.is_empty() { &[Key::Function] } else { keys };
    let paths = keys.contains(&Key::CallStack).then(|| profile.stacks.call_paths());
    let mut by_place: BTreeMap<(RowKey, LocationId), FaultSums> = BTreeMap::new();
    let mut selected = FaultSums::default();
    for fault in &profile.recording.faults {
        let Some(thread) = profile.threads.find(fault.pid, fault.tid) else { continue };
        let stack = fault.stack.and_then(|id| profile.stacks.find(id));
        let place = profile.stacks.innermost_user(stack);
        let chosen = selection.has(thread, fault.time) && selection.has_place(place);
        if !chosen {
            continue;
        }
        selected.add(fault.kind, fault.weight);
        let key = RowKey::at(keys, &profile.stacks, place)
            .with_thread_of(RowKey::of_thread(keys, profile, thread));
        let stack = paths.as_ref().map(|paths| paths.of(stack));
        let key = RowKey { stack, object: object_of(fault), ..key };
        by_place.entry((key, place)).or_default().add(fault.kind, fault.weight);
    }
    let mut rows = merge_places(by_place);
    rows.sort_by(|a, b| {
        let name = |row: &FaultRow| &profile.stacks.function_of(row.place).name;
        b.all
            .amount()
            .cmp(&a.all.amount())
            .then_with(|| name(a).cmp(name(b)))
            .then_with(|| a.key.cmp(&b.key))
    });
    FaultTable { rows, selected, paths }
}

fn merge_places(by_place: BTreeMap<(RowKey, LocationId), FaultSums>) -> Vec<FaultRow> {
    let mut rows: Vec<FaultRow> = Vec::new();
    let mut best = 0;
    for ((key, place), sums) in by_place {
        match rows.last_mut().filter(|row| row.key == key) {
            Some(row) => {
                row.all.merge(&sums.all);
                row.minor.merge(&sums.minor);
                row.major.merge(&sums.major);
                if sums.all.amount() > best {
                    (row.place, best) = (place, sums.all.amount());
                }
            }
            None => {
                best = sums.all.amount();
                rows.push(FaultRow {
                    key,
                    place,
                    all: sums.all,
                    minor: sums.minor,
                    major: sums.major,
                });
            }
        }
    }
    rows
}

/// CPU time spent serving page faults.
#[derive(Clone, PartialEq, Debug)]
pub struct FaultCost {
    /// Share of CPU time.
    pub percent: Metric,
    /// The same in seconds.
    pub time: Metric,
}

const NO_CPU_TIME: &str = "the CPU time of the program is not known";

/// Why there may be time without a fault: `stack::in_page_fault`.
const FILLED: &str =
    "of pages that the kernel fills without a fault: MAP_POPULATE, mlock, the profiler's own";

/// What page faults cost: as the kernel timed them, where it did; else sampled, where kernel functions were sampled with names; else estimated as count times
/// the calibrated cost of a minor fault on a fresh 4 KB page; else unavailable.
#[must_use]
pub fn fault_cost(profile: &Profile<'_>) -> FaultCost {
    let recording = profile.recording;
    if let Some(time) = fault_time(profile) {
        let cpu = cpu_seconds(profile);
        let percent = cpu.map(|cpu| time.each("percent", |time| (time / cpu * 100.0).min(100.0)));
        let without = || Metric::unavailable("percent", NO_CPU_TIME);
        return FaultCost { percent: percent.unwrap_or_else(without), time };
    }
    // A program that was never met in the kernel spent no time in faults; one that was, in nameless functions, may have.
    let never_in_kernel =
        || recording.samples.iter().all(|sample| sample.privilege == Privilege::User);
    let sampled =
        !recording.samples.is_empty() && (profile.stacks.has_kernel_names() || never_in_kernel());
    if recording.run.collector.kernel_samples && sampled {
        let mut part = Weight::default();
        for cell in profile.stack_cells() {
            if profile.stacks.in_page_fault(cell.stack) {
                part.merge(&cell.weight);
            }
        }
        let scale = profile.cpu_scale();
        let (percent, time) = (scale.percent(&part), scale.quantity(&part));
        let none =
            |counted: Option<Metric>| counted.is_some_and(|counted| counted.high == Some(0.0));
        let (minor, major) = counted_faults(recording);
        if none(minor) && none(major) && !part.is_empty() {
            return FaultCost { percent: percent.noted(FILLED), time: time.noted(FILLED) };
        }
        return FaultCost { percent, time };
    }
    estimated_cost(profile).unwrap_or_else(|| {
        let why =
            "kernel functions could not be sampled, and the cost of a fault was not calibrated";
        FaultCost {
            percent: Metric::unavailable("percent", why),
            time: Metric::unavailable("s", why),
        }
    })
}

fn estimated_cost(profile: &Profile<'_>) -> Option<FaultCost> {
    let recording = profile.recording;
    let cost = fault_nanos(recording.run.calibration.as_ref())?;
    let scales = fault_scales(recording);
    let (minor, _) = counted_faults(recording);
    let count = fault_total(minor, &scales.minor);
    let (value, low, high) = (count.value?, count.low?, count.high?);
    let seconds = |faults: f64, nanos: f64| faults * nanos * 1e-9;
    let note = "minor faults times the calibrated cost of one on a fresh 4 KB page; kernel functions were not sampled";
    let interval = (seconds(low, cost.low), seconds(high, cost.high));
    let time = Metric::with_interval(
        Evidence::Estimated,
        seconds(value, cost.best),
        "s",
        interval,
        count.samples,
    );
    let percent = match (cpu_seconds(profile), time.value) {
        (Some(cpu), Some(value)) => {
            let percent = |seconds: f64| (seconds / cpu * 100.0).min(100.0);
            let interval = (percent(interval.0), percent(interval.1));
            Metric::with_interval(
                Evidence::Estimated,
                percent(value),
                "percent",
                interval,
                count.samples,
            )
            .noted(note)
        }
        _ => Metric::unavailable("percent", NO_CPU_TIME),
    };
    Some(FaultCost { percent, time: time.noted(note) })
}

/// CPU time of the program: counted, else sampled.
fn cpu_seconds(profile: &Profile<'_>) -> Option<f64> {
    profile.counted_cpu_seconds().or_else(|| {
        let sampled = Nanos(profile.whole().amount()).seconds();
        (sampled > 0.0).then_some(sampled)
    })
}

/// Calibrated cost of a minor fault, nanoseconds.
fn fault_nanos(calibration: Option<&Calibration>) -> Option<Bounds> {
    let cost = calibration?.page_fault_4k.as_ref()?;
    let value = cost.value.filter(|nanos| nanos.is_finite() && *nanos > 0.0)?;
    Some(Bounds { best: value, low: cost.low.unwrap_or(value), high: cost.high.unwrap_or(value) })
}
