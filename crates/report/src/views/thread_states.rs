//! Columns of what threads did: running, spinning, ready, and waiting by reason.

use analysis::threading::{Reason, State, ThreadSplit};
use facts::{Evidence, Metric};

use super::list::{COUNT, Figure, SECONDS};
use crate::table::Cell;

/// Times, by what a thread did.
pub(super) const TIMES: [Figure; 8] = [
    ("running_time", "Running", SECONDS, "running"),
    ("spin_time", "Spinning", SECONDS, "of it spinning"),
    ("ready_time", "Waiting for a CPU", SECONDS, "no CPU"),
    ("lock_wait", "Waiting for locks", SECONDS, "lock"),
    ("barrier_wait", "Waiting at barriers, for threads or ranks", SECONDS, "barrier"),
    ("io_wait", "Waiting for data", SECONDS, "I/O"),
    ("sleep_wait", "Sleeping", SECONDS, "sleep"),
    ("other_wait", "Waiting otherwise", SECONDS, "other"),
];

/// What a recording of threads' switches adds to these.
pub(super) const COUNTS: [Figure; 3] = [
    ("unknown_time", "Unknown", SECONDS, ""),
    ("waits", "Waits", COUNT, ""),
    ("preemptions", "Preemptions", COUNT, ""),
];

/// The cells of [`TIMES`] for one thread, or for all.
pub(super) fn times(split: &ThreadSplit) -> [Cell; 8] {
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
    ]
}

/// The cells of [`COUNTS`].
pub(super) fn counts(split: &ThreadSplit) -> [Cell; 3] {
    [
        Metric::counted(split.unknown * 1e-9, "s"),
        Metric::counted(split.switches.1 as f64, "count"),
        Metric::counted(split.switches.0 as f64, "count"),
    ]
    .map(Cell::metric)
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

/// How long threads of this split spun: their samples' share of the time that they ran.
pub(crate) fn spin_time(split: &ThreadSplit) -> Metric {
    let (all, spinning) = &split.samples;
    // Of all threads: what each of them spun, by its own samples.
    if all.is_empty() {
        return match split.running {
            0.0 => Metric::counted(0.0, "s"),
            _ => Metric::unavailable("s", "no samples of what ran"),
        };
    }
    let share = if split.running > 0.0 { split.spinning / split.running } else { 0.0 };
    let (low, high) = estimate::interval::wilson(share, all.effective_records());
    let seconds = |share: f64| share * split.running * 1e-9;
    let interval = (seconds(low), seconds(high));
    Metric::with_interval(Evidence::Sampled, seconds(share), "s", interval, spinning.records())
}
