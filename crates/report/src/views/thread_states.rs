//! Columns of what threads did: running, spinning, ready, and waiting by reason.

use analysis::threading::{Reason, State, ThreadSplit};
use facts::{Evidence, Metric};

use super::columns::figure;
use crate::table::{Cell, CellStyle, Column, TextColumn};

/// Times, by what a thread did.
pub(super) const TIMES: [Column; 8] = [
    figure("running_time", "Running", "s"),
    figure("spin_time", "Spinning", "s"),
    figure("ready_time", "Waiting for a CPU", "s"),
    figure("lock_wait", "Waiting for locks", "s"),
    figure("barrier_wait", "Waiting at barriers or for threads", "s"),
    figure("io_wait", "Waiting for data", "s"),
    figure("sleep_wait", "Sleeping", "s"),
    figure("other_wait", "Waiting otherwise", "s"),
];

/// The columns that a recording of threads' switches adds to a view of threads.
pub(super) fn columns() -> impl Iterator<Item = Column> {
    TIMES.into_iter().chain([
        figure("unknown_time", "Unknown", "s"),
        figure("waits", "Waits", "count"),
        figure("preemptions", "Preemptions", "count"),
    ])
}

/// [`TIMES`] in text.
pub(super) const TEXT_COLUMNS: [TextColumn; 8] = [
    CellStyle::Time("running_time").titled("running"),
    CellStyle::Time("spin_time").titled("of it spinning"),
    CellStyle::Time("ready_time").titled("no CPU"),
    CellStyle::Time("lock_wait").titled("lock"),
    CellStyle::Time("barrier_wait").titled("barrier"),
    CellStyle::Time("io_wait").titled("I/O"),
    CellStyle::Time("sleep_wait").titled("sleep"),
    CellStyle::Time("other_wait").titled("other"),
];

/// The cells of [`columns`] for one thread, or for all.
pub(super) fn cells(split: &ThreadSplit) -> [Cell; 11] {
    let waiting = |state: State| {
        let of = |reason: &&Reason| State::of(**reason) == state;
        let time =
            Reason::ALL.iter().filter(of).map(|reason| split.waiting[*reason as usize]).sum();
        wait_time(time, split)
    };
    [
        Cell::metric(Metric::counted(split.running * 1e-9, "s")),
        Cell::metric(spin_time(split)),
        Cell::metric(estimated_if(split.ready * 1e-9, split.ready > 0.0, READY)),
        waiting(State::Lock),
        waiting(State::Barrier),
        waiting(State::Io),
        waiting(State::Sleep),
        waiting(State::Other),
        Cell::metric(Metric::counted(split.unknown * 1e-9, "s")),
        Cell::metric(Metric::counted(split.switches.1 as f64, "count")),
        Cell::metric(Metric::counted(split.switches.0 as f64, "count")),
    ]
}

const READY: &str =
    "the kernel's count of waiting for a CPU; up to 0.1 s before a thread's end may be missing";
const DIVIDED: &str = "waits without a stack are divided like those with one; time waiting for a CPU is deducted \
                from all in proportion";

/// A part of the time that threads of this split waited.
pub(super) fn wait_time(nanos: f64, split: &ThreadSplit) -> Cell {
    Cell::metric(estimated_if(nanos * 1e-9, nanos > 0.0 && !split.exact, DIVIDED))
}

fn estimated_if(seconds: f64, estimated: bool, note: &str) -> Metric {
    let counted = Metric::counted(seconds, "s");
    if !estimated {
        return counted;
    }
    Metric { low: None, high: None, evidence: Some(Evidence::Estimated), ..counted }.noted(note)
}

fn spin_time(split: &ThreadSplit) -> Metric {
    let (all, spinning) = &split.samples;
    // Of all threads: what each of them spun, by its own samples.
    if all.is_empty() {
        return match split.running {
            0.0 => Metric::counted(0.0, "s"),
            _ => Metric::unavailable("s", "no samples of this thread"),
        };
    }
    let share = if split.running > 0.0 { split.spinning / split.running } else { 0.0 };
    let (low, high) = estimate::interval::wilson(share, all.effective_records());
    let seconds = |share: f64| share * split.running * 1e-9;
    let interval = (seconds(low), seconds(high));
    Metric::with_interval(Evidence::Sampled, seconds(share), "s", interval, spinning.records())
}
