//! How much of the running time could be traced.
//!
//! What for: figures from bursts represent only code in which bursts can begin. Attempts are made at regular moments of
//! running threads, so their shares are shares of running time. What not: what a burst recorded.

use std::collections::BTreeMap;

use base::Nanos;
use facts::{BurstFlavour, Evidence, Metric, Recording};

use estimate::interval::wilson;

/// Attempts, by what became of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Coverage {
    /// Attempts that became a burst, percent of all.
    pub traced: Metric,
    /// How many that were.
    pub bursts: Metric,
    /// The same with count windows and bursts of timed loads: how often translated code recorded something.
    pub stretches: Metric,
    /// Records that they made, lost ones included: executions of blocks, and runs of loops.
    pub records: Metric,
    /// CPU time of their threads in them, seconds.
    pub cpu_time: Metric,
    /// Those refused, by reason, percent of all; the most frequent first.
    pub refused: Vec<(String, Metric)>,
}

const NO_CLOCK: &str = "the kernel did not report the CPU time of every burst";
const NO_ATTEMPT: &str = "no burst was attempted: none was requested, the program ended too soon, or its threads \
                were always waiting";

/// Counts attempts.
#[must_use]
pub fn coverage(recording: &Recording) -> Coverage {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for refused in &recording.burst_refusals {
        *reasons.entry(&refused.reason).or_default() += 1;
    }
    // The other flavours follow traces, and their refusals are not stored.
    let traces = || recording.bursts.iter().filter(|burst| burst.flavour == BurstFlavour::Trace);
    let begun = traces().count() as u64;
    let attempts = begun + recording.burst_refusals.len() as u64;
    let percent = |count: u64| {
        if attempts == 0 {
            return Metric::unavailable("percent", NO_ATTEMPT);
        }
        let share = count as f64 / attempts as f64;
        let (low, high) = wilson(share, attempts as f64);
        let interval = (low * 100.0, high * 100.0);
        Metric::with_interval(Evidence::Sampled, share * 100.0, "percent", interval, attempts)
    };
    let mut refused: Vec<(&str, u64)> = reasons.into_iter().collect();
    refused.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let refused = refused.into_iter().map(|(reason, count)| (reason.to_owned(), percent(count)));
    let refused = refused.collect();
    let counted = |value: f64, unit| match attempts {
        0 => Metric::unavailable(unit, NO_ATTEMPT),
        _ => Metric::counted(value, unit),
    };
    let records: u64 = traces().map(|burst| burst.records).sum();
    let cpu_time: Option<f64> = traces().map(|burst| burst.cpu_time.map(Nanos::seconds)).sum();
    Coverage {
        traced: percent(begun),
        bursts: counted(begun as f64, "count"),
        stretches: counted(recording.bursts.len() as f64, "count"),
        records: counted(records as f64, "count"),
        cpu_time: cpu_time.map_or(Metric::unavailable("s", NO_CLOCK), |time| counted(time, "s")),
        refused,
    }
}
