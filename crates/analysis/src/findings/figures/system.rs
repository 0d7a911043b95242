//! What the system did to the program: its quota, swap, disks, and entries into the kernel.
//!
//! What for: figures for rules. What not: conditions. Assumption: swap and I/O waits are those of the machine, so they are an
//! upper bound for the program.

use base::Nanos;
use facts::{CounterKind, KernelCause, Metric};

use crate::findings::NotJudged;
use crate::kernel::{entry_table, entry_time, observes_machine, only_of_machine};
use crate::profile::Profile;
use crate::selection::Selection;

/// Counts from the begin of the recording to its end.
#[derive(Clone, PartialEq, Debug)]
pub struct SystemFigures {
    /// Threads of its control groups stood still for a CPU quota, seconds, summed over CPUs.
    pub throttled: Metric,
    /// CPUs of the machine idled while a read or write was under way, seconds, summed.
    pub io_wait: Metric,
    /// Pages that the machine read from swap and wrote to it.
    pub swapped: Metric,
}

/// Entries into the kernel for one cause.
#[derive(Clone, PartialEq, Debug)]
pub struct EntryFigure {
    /// Why.
    pub cause: KernelCause,
    /// Which of them, as the kernel calls it.
    pub name: String,
    /// How many.
    pub count: f64,
    /// CPU time in them, seconds.
    pub time: Metric,
}

pub(super) fn system(profile: &Profile<'_>) -> SystemFigures {
    let counted = |kind, unit: &str, scale: f64, why: &str| match profile.recording.counter(kind) {
        Some(value) => Metric::counted(value as f64 * scale, unit),
        None => Metric::unavailable(unit, why),
    };
    let seconds = Nanos(1).seconds();
    let (no_quota, missing) =
        ("the time that the CPU quota took was not counted", "swapped pages were not counted");
    SystemFigures {
        throttled: counted(CounterKind::ThrottledTime, "s", seconds, no_quota),
        io_wait: counted(CounterKind::IoWaitTime, "s", seconds, "waits for disks were not counted"),
        swapped: counted(CounterKind::SwappedPages, "count", 1.0, missing),
    }
}

/// By cause, most time first.
pub(super) fn entries(profile: &Profile<'_>) -> Result<Vec<EntryFigure>, NotJudged> {
    if profile.recording.kernel_entries.is_empty() {
        return Err(NotJudged::OtherAnalysis(
            "entries into the kernel were not counted: `fathom collect system-overview` counts them"
                .to_owned(),
        ));
    }
    if observes_machine(profile) || only_of_machine(profile) {
        return Err(
            "entries into the kernel are those of the whole machine: see `fathom report kernel`"
                .into(),
        );
    }
    let table = entry_table(profile, &Selection::default(), &[], 1);
    let mut found: Vec<EntryFigure> = table
        .rows
        .iter()
        .filter_map(|row| {
            let (cause, name) = row.key.cause.as_ref().filter(|(cause, _)| cause.is_entry())?;
            let time = entry_time(profile, row);
            Some(EntryFigure { cause: *cause, name: name.clone(), count: row.count as f64, time })
        })
        .collect();
    found.sort_by(|a, b| b.time.value.unwrap_or(0.0).total_cmp(&a.time.value.unwrap_or(0.0)));
    Ok(found)
}
