//! The first checks: what makes every other figure doubtful.

use analysis::Profile;
use facts::{CounterKind, Metric};

use super::FirstChecks;
use crate::json::tidy;

pub(super) fn first_checks(profile: &Profile<'_>) -> FirstChecks {
    let recording = profile.recording;
    let counted = |kind, unit: &str, why: &str, scale: f64| {
        tidy(match recording.counter(kind) {
            Some(value) => Metric::counted(value as f64 * scale, unit),
            None => Metric::unavailable(unit, why),
        })
    };
    let offered = f64::from(recording.run.host.logical_cpus) * profile.elapsed().0 as f64;
    let (missing, no_length) =
        ("not counted in this recording", "the length of the recording is not known");
    let no_nodes = "this kernel does not count it, or it was not counted in this recording";
    FirstChecks {
        quota_throttled: counted(
            CounterKind::ThrottledTime,
            "s",
            "no control group of the program has a CPU quota, or none can be read",
            1e-9,
        ),
        io_wait_percent: if offered > 0.0 {
            counted(CounterKind::IoWaitTime, "percent", missing, 100.0 / offered)
        } else {
            Metric::unavailable("percent", no_length)
        },
        swapped_pages: counted(CounterKind::SwappedPages, "count", missing, 1.0),
        clock_throttles: counted(
            CounterKind::ClockThrottles,
            "count",
            "this processor or its hypervisor does not report it",
            1.0,
        ),
        moved_pages: counted(CounterKind::MovedPages, "count", no_nodes, 1.0),
        reclaimed_pages: counted(CounterKind::ReclaimedPages, "count", missing, 1.0),
        demoted_pages: counted(CounterKind::DemotedPages, "count", no_nodes, 1.0),
        promoted_pages: counted(CounterKind::PromotedPages, "count", no_nodes, 1.0),
    }
}
