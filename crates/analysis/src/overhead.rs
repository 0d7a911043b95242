//! What the profiler cost: its own CPU time, and what bursts cost the program's threads.
//!
//! What not: the cost of sampling inside the program, which is calibrated, not measured (`summary`).

use base::Nanos;
use facts::host::no_bursts_on;
use facts::{Analysis, Evidence, Metric, Run};

use crate::profile::Profile;

/// Its parts, in seconds, and their sum.
#[derive(Clone, PartialEq, Debug)]
pub struct Overhead {
    /// CPU time of the profiler as far as the program waited for a CPU, stand-still and slowdown together, percent of elapsed.
    pub whole: Metric,
    /// CPU time of the profiler's processes.
    pub cpu_time: Metric,
    /// The part of it that turned records of bursts into facts.
    pub consumer_cpu: Metric,
    /// How long the program's threads stood still for bursts.
    pub stand_still: Metric,
    /// How long they ran translated code.
    pub burst_time: Metric,
    /// How much longer that took than native code.
    pub slowdown: Metric,
}

const NO_BURSTS: &str = "there were no bursts in this recording";
const NO_CPU_TIME: &str = "the profiler's own CPU time was not recorded";

/// Why a recording without bursts has none.
pub(crate) fn why_no_bursts(run: &Run) -> &'static str {
    match (run.analysis, no_bursts_on(&run.host.architecture)) {
        (Analysis::MemoryAccess, None) => "no burst was taken: see coverage for the reasons",
        (Analysis::MemoryAccess, Some(why)) => why,
        _ => "this collection does not trace accesses: use `fathom run` (memory-access)",
    }
}

/// Adds up what the manifest has.
pub(crate) fn overhead(profile: &Profile<'_>) -> Overhead {
    let cost = &profile.recording.run.own_cost;
    let seconds = |nanos: Option<u64>, why: &str| match nanos {
        Some(nanos) => Metric::counted(Nanos(nanos).seconds(), "s"),
        None => Metric::unavailable("s", why),
    };
    let own = Some(cost.cpu_time_ns).filter(|nanos| *nanos > 0);
    let slowdown = seconds(cost.burst_slowdown_ns, NO_BURSTS);
    Overhead {
        whole: whole(profile, own),
        cpu_time: seconds(own, NO_CPU_TIME),
        consumer_cpu: seconds(cost.consumer_cpu_ns, NO_BURSTS),
        stand_still: seconds(cost.burst_stand_still_ns, NO_BURSTS),
        burst_time: seconds(cost.burst_time_ns, NO_BURSTS),
        slowdown: if slowdown.value.is_some() { estimated(slowdown) } else { slowdown },
    }
}

/// An estimate of unknown accuracy.
fn estimated(metric: Metric) -> Metric {
    Metric { low: None, high: None, evidence: Some(Evidence::Estimated), ..metric }
}

fn whole(profile: &Profile<'_>, own: Option<u64>) -> Metric {
    let cost = &profile.recording.run.own_cost;
    let elapsed = profile.elapsed().0;
    let Some(own) = own.filter(|_| elapsed > 0) else {
        return Metric::unavailable("percent", NO_CPU_TIME);
    };
    let slowdown = cost.burst_slowdown_ns.unwrap_or(0);
    let bursts = cost.burst_stand_still_ns.unwrap_or(0).saturating_add(slowdown);
    let own = cost.displaced_ns.unwrap_or(own);
    let metric =
        Metric::counted(own.saturating_add(bursts) as f64 / elapsed as f64 * 100.0, "percent");
    let metric = if slowdown > 0 { estimated(metric) } else { metric };
    if bursts > 0 {
        return metric.noted(
            "CPU time of the profiler, as far as the program waited for a CPU, plus the cost of bursts to the program's \
             threads",
        );
    }
    metric.noted("CPU time of the profiler, as far as the program waited for a CPU")
}
