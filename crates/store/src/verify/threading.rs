//! The invariants of waits and of the time of threads.

use std::collections::BTreeMap;

use base::{Nanos, StackId};
use facts::Recording;

use super::{Report, Subject};

/// A row of waits has at least one, and none began before the recording.
pub(super) fn waits_proper(subject: &Subject<'_>, report: &mut Report) {
    for wait in &subject.recording.waits {
        let Nanos(time) = wait.time;
        if wait.waits == 0 {
            report.add(|| format!("the row of thread {} at {time} ns has no waits", wait.tid));
        }
        // They ended in their span, and may reach out of its front: the last window is shorter than the others.
        let longest = u128::from(time) + u128::from(wait.span.0);
        if u128::from(wait.waited.0) > u128::from(wait.waits) * longest {
            report.add(|| {
                format!("thread {} waited before the recording began, at {time} ns", wait.tid)
            });
        }
    }
}

/// Nobody runs for longer than the time there was, and numbers of running threads divide the time there was.
pub(super) fn windows_add_up(subject: &Subject<'_>, report: &mut Report) {
    let recording = subject.recording;
    for row in recording.thread_times.iter().filter(|row| row.running > row.span) {
        report.add(|| {
            let (running, span) = (row.running.0, row.span.0);
            format!("thread {} ran {running} ns of {span} at {} ns", row.tid, row.time.0)
        });
    }
    let mut windows: BTreeMap<(Nanos, Nanos), u128> = BTreeMap::new();
    for row in &recording.concurrency {
        *windows.entry((row.time, row.span)).or_default() += u128::from(row.duration.0);
    }
    for ((time, span), sum) in
        windows.into_iter().filter(|((_, span), sum)| u128::from(span.0) != *sum)
    {
        report.add(|| format!("{sum} ns of {} at {} ns have a number of threads", span.0, time.0));
    }
}

/// The stacks that wakes name, of the waiting thread and of the waker, with the time of the row.
pub(super) fn stacks_of_wakes(
    recording: &Recording,
) -> impl Iterator<Item = (Nanos, Option<StackId>)> {
    let wakes = recording.wakes.iter();
    wakes.flat_map(|wake| {
        [wake.stack, wake.waker.and_then(|waker| waker.stack)].map(|stack| (wake.time, stack))
    })
}

/// A row of wakes has at least one; all or some were observed.
pub(super) fn wakes_proper(subject: &Subject<'_>, report: &mut Report) {
    for wake in &subject.recording.wakes {
        if wake.seen == 0 || wake.seen > wake.wakes {
            report.add(|| {
                let (seen, wakes, at) = (wake.seen, wake.wakes, wake.time.0);
                format!("thread {} was seen woken {seen} times of {wakes} at {at} ns", wake.tid)
            });
        }
    }
}
