//! `kernel-entries`: one kind of system call takes much time, or page faults do.
//!
//! Gain of fewer system calls: between the cost of the entries alone and all of their time; half of it is the best value. The
//! gain of page faults is that of `fault-startup` and `fault-churn`; this rule adds their exact number and how many huge
//! pages would do.

use facts::{Evidence, KernelCause, Metric};

use super::gain::{stated, unquantified};
use super::{
    Draft, EntryFigure, Figures, LEAST_GAIN, NamedLocation, NotJudged, Proof, faults, try_remedy,
    words,
};

/// Seconds of a system call that does nothing: 50 ns on processors without mitigations for Meltdown and Spectre, several
/// hundred with them (lmbench's `lat_syscall null` on servers of these years).
const ENTRY: f64 = 100e-9;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let entries = figures.entries.as_ref().map_err(NotJudged::clone)?;
    let drafts = entries.iter().filter_map(|one| match one.cause {
        KernelCause::SystemCall => Some(calls(figures, one)),
        KernelCause::PageFault => page_faults(figures, one),
        _ => None,
    });
    Ok(drafts.collect())
}

fn proofs(one: &EntryFigure, what: &str) -> Vec<Proof> {
    vec![
        Proof::new(what.to_owned(), &Metric::counted(one.count, "count")),
        Proof::new("CPU time in them", &one.time),
    ]
}

fn calls(figures: &Figures, one: &EntryFigure) -> Draft {
    let entry = one.count * ENTRY / figures.running;
    let all = one.time.value.map(|seconds| seconds / figures.running);
    let gain = match all {
        Some(all) => {
            let interval = (entry.min(all / 2.0), all);
            Metric::with_interval(Evidence::Estimated, all / 2.0, "s", interval, one.count as u64)
        }
        // What is not timed takes at least the entries.
        None => {
            Metric::with_interval(Evidence::Estimated, entry, "s", (entry, entry), one.count as u64)
        }
    };
    Draft {
        title: format!("{:.0} calls of {} enter the kernel", one.count, one.name),
        evidence: proofs(one, "calls"),
        place: NamedLocation::default(),
        advice: "Make fewer and larger calls: buffer reads and writes, batch requests (readv, recvmmsg, io_uring), \
                cache the kernel's answers, and wait with a futex instead of polling."
            .to_owned(),
        gain: stated(figures, gain),
        next: words("report kernel -g thread,cause"),
    }
}

fn page_faults(figures: &Figures, one: &EntryFigure) -> Option<Draft> {
    let worth = LEAST_GAIN * figures.elapsed * figures.running;
    one.time.value.filter(|seconds| *seconds >= worth)?;
    Some(Draft {
        title: format!("{:.0} page faults {} enter the kernel", one.count, one.name),
        evidence: proofs(one, "page faults"),
        place: figures.faults.place.clone(),
        advice: faults::huge_pages(&figures.faults),
        gain: unquantified("see fault-startup and fault-churn"),
        next: match figures.faults.may_be_huge() {
            true => try_remedy(figures, Some("huge-pages")),
            false => words("report kernel"),
        },
    })
}
