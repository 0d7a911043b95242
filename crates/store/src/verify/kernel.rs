//! The invariants of entries into the kernel.

use base::Nanos;

use super::{Report, Subject};

pub(super) fn entries_proper(subject: &Subject<'_>, report: &mut Report) {
    for entry in &subject.recording.kernel_entries {
        let time = entry.own.unwrap_or_default() + entry.waited;
        // A fault that was tried and must be tried again has time without being counted.
        if entry.count == 0 && time == Nanos(0) {
            report.add(|| format!("nothing of {} at {} ns", entry.name, entry.time.0));
        }
        if entry.length == Nanos(0) || entry.length > entry.time {
            report
                .add(|| format!("{} ns in a bin that ends at {} ns", entry.length.0, entry.time.0));
        }
    }
}
