//! The first checks: what makes every other figure doubtful.

use analysis::Profile;
use facts::{CounterKind, Metric};

use super::FirstChecks;
use crate::json::tidy;

/// The kernel counts the idle time of a CPU when that ends (`tick_nohz_stop_idle`, kernel/time/tick-sched.c).
const BEFORE: &str =
    "more was counted than this recording lasted: a wait counts when it ends, and one began before";

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
        io_wait_percent: match recording.counter(CounterKind::IoWaitTime) {
            _ if offered <= 0.0 => Metric::unavailable("percent", no_length),
            Some(waited) if waited as f64 > offered => Metric::unavailable("percent", BEFORE),
            _ => counted(CounterKind::IoWaitTime, "percent", missing, 100.0 / offered),
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

#[cfg(test)]
mod tests {
    use testkit::recording::RecordingBuilder;

    use super::*;

    #[test]
    fn no_wait_for_disks_is_longer_than_the_recording() {
        let waited = |part: f64| {
            let mut recording = RecordingBuilder::new().build();
            (recording.run.elapsed_ns, recording.run.host.logical_cpus) = (10_000_000, 2);
            let value = (part * 20e6) as u64;
            recording.counters.push(facts::Counter { kind: CounterKind::IoWaitTime, value });
            first_checks(&Profile::new(&recording)).io_wait_percent
        };
        assert_eq!(waited(0.5).value, Some(50.0));
        let more = waited(2.155);
        assert_eq!((more.value, more.note.as_deref()), (None, Some(BEFORE)));
    }
}
