//! The verdict in words: what limits the program, how certain that is, and what would decide it.
//!
//! What for: text, JSON and the page have the same sentence. What not: the class (`analysis::memory`) and its reason. The verdict
//! adds how much of the interval is on the side of the class, and that kernel time and waits are outside the class.

use analysis::memory::{BOUND_PERCENT, NEAR_PEAK};
use facts::Metric;

use super::{CoreLimitSummary, Summary};
use crate::text::{percent, printable};

/// An interval between these two: memory and instructions both have a part that is worth work. Less than the first is
/// seldom worth it; the second leaves the instructions a third.
const MIXED: (f64, f64) = (20.0, 65.0);
/// This part of an interval on one side is probable, not certain.
const MOST: f64 = 0.75;
/// From this share on, time outside the program's own code is in the verdict: the rest of it is about less than half.
const MUCH: f64 = 50.0;

/// How surely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Certainty {
    Is,
    Probably,
    Mixed,
    Undecided,
}

impl Certainty {
    fn name(self) -> &'static str {
        match self {
            Certainty::Is => "is",
            Certainty::Probably => "probably",
            Certainty::Mixed => "mixed",
            Certainty::Undecided => "undecided",
        }
    }
}

/// Fills in the verdict of a summary that is complete but for it. Only an analysis of memory has one.
pub(super) fn judge(summary: &mut Summary) {
    if summary.analysis != "memory-access" {
        return;
    }
    let cache = summary.bandwidth_level.and_then(|level| summary.cache_bandwidth.of(level));
    let of_reach = cache.map_or(&summary.dram_bandwidth.of_reachable, |cache| &cache.of_reachable);
    let certainty = certainty(summary.classification, known(&summary.memory_bound), of_reach);
    let first = sentence(summary, certainty);
    let within = summary.core_limit.as_ref().and_then(CoreLimitSummary::sentence);
    let others = [first].into_iter().chain(within).chain(outside(summary)).collect::<Vec<_>>();
    summary.verdict = others.join(" ");
    let decided = matches!(certainty, Certainty::Is | Certainty::Mixed);
    summary.verdict_decided_by = (!decided).then(|| decided_by(summary));
    summary.classification_certainty = Some(certainty.name());
}

/// Value and ends of the interval of a figure.
type Known = (f64, f64, f64);

fn known(metric: &Metric) -> Option<Known> {
    Some((metric.value?, metric.low?, metric.high?))
}

/// Whether memory may be saturated: then its share says little of what limits the program.
fn may_saturate(of_reach: &Metric) -> bool {
    // One that is refused for being impossible has its reason.
    let is_impossible = of_reach.note.as_deref() == Some(analysis::memory::WHY_IMPOSSIBLE);
    is_impossible || of_reach.value.is_some_and(|value| value >= NEAR_PEAK * 100.0)
}

/// `share` is memory's of the time, `of_reach` the traffic's of what as many threads reach, percent.
fn certainty(class: Option<&str>, share: Option<Known>, of_reach: &Metric) -> Certainty {
    if class == Some("bandwidth-bound") {
        let sure = of_reach.low.is_some_and(|low| low >= NEAR_PEAK * 100.0);
        return if sure { Certainty::Is } else { Certainty::Probably };
    }
    let Some((value, low, high)) = share else { return Certainty::Undecided };
    if class.is_none() && may_saturate(of_reach) {
        return Certainty::Undecided;
    }
    let on_side = match value >= BOUND_PERCENT {
        true => high - low.max(BOUND_PERCENT),
        false => high.min(BOUND_PERCENT) - low,
    };
    let part = if high > low { on_side / (high - low) } else { 1.0 };
    match class {
        Some(_) if part >= 1.0 => Certainty::Is,
        _ if low >= MIXED.0 && high <= MIXED.1 => Certainty::Mixed,
        Some(_) => Certainty::Probably,
        None if part >= MOST => Certainty::Probably,
        None => Certainty::Undecided,
    }
}

fn sentence(summary: &Summary, certainty: Certainty) -> String {
    let reason = || printable(&summary.classification_reason);
    let what = match summary.classification {
        Some("bandwidth-bound") => match summary.bandwidth_level {
            Some("L2") => "the bandwidth of the second-level cache",
            Some("L3") => "the bandwidth of the third-level cache",
            _ => "the bandwidth of memory",
        },
        Some("latency-bound") => "the latency of memory",
        Some("tlb-bound") => "address translation (page walks)",
        _ => "its own instructions, not by memory",
    };
    // For a program at the bandwidth limit the reason says more than memory's share.
    let by_rate = summary.classification == Some("bandwidth-bound")
        || (summary.classification.is_none() && may_saturate(&summary.dram_bandwidth.of_reachable));
    let range =
        known(&summary.memory_bound).map(|(_, low, high)| match (low.round(), high.round()) {
            (low, high) if low < high => format!("{low:.0} to {high:.0} %"),
            (low, _) => format!("{low:.0} %"),
        });
    let Some(range) = range.filter(|_| !by_rate) else {
        return match certainty {
            Certainty::Is => format!("Limited by {what}: {}.", reason()),
            Certainty::Probably => format!("Probably limited by {what}: {}.", reason()),
            _ => format!("What limits the program is undecided; {}.", reason()),
        };
    };
    let memory = format!("memory takes {range} of its time");
    let is_memory = summary.memory_bound.value.is_some_and(|value| value >= BOUND_PERCENT);
    match (certainty, summary.classification) {
        (Certainty::Is, _) => format!("Limited by {what}: {memory}."),
        (Certainty::Mixed, _) => format!("Mixed: {memory}, its own instructions take the rest."),
        (Certainty::Probably, Some(_)) => format!("Probably limited by {what}: {memory}."),
        (Certainty::Probably, None) if is_memory => {
            format!("Probably limited by memory: {memory}.")
        }
        (Certainty::Probably, None) => format!("Probably not limited by memory: {memory}."),
        (Certainty::Undecided, _) => {
            format!("Undecided whether memory limits the program: {memory}.")
        }
    }
}

/// Time outside the program's own code, where that is most of it.
fn outside(summary: &Summary) -> Vec<String> {
    let split = &summary.time_split;
    let of = |part: Option<f64>, whole: Option<f64>| {
        let (part, whole) = part.zip(whole.filter(|whole| *whole > 0.0))?;
        Some(part / whole * 100.0).filter(|percent| *percent >= MUCH)
    };
    let kernel = Some(split.kernel.value.unwrap_or(0.0) + split.page_faults.value.unwrap_or(0.0));
    let kernel = of(kernel, summary.cpu_time.value).map(|share| {
        format!("But the kernel takes {} % of the CPU time, page faults included.", percent(share))
    });
    let waiting = of(split.waiting.value, split.thread_time.value).map(|share| {
        format!(
            "But its threads spend {} % of their lifetime waiting: for each other, I/O or a CPU.",
            percent(share)
        )
    });
    kernel.into_iter().chain(waiting).collect()
}

fn decided_by(summary: &Summary) -> String {
    if !summary.extra.calibrated {
        return "`fathom machine`, which measures this machine once".to_owned();
    }
    if summary.coverage.bursts.value.unwrap_or(0.0) == 0.0 {
        return "bursts; `fathom report summary --detail` says why there were none".to_owned();
    }
    let more = "more bursts with -k overhead=10";
    if summary.target != "launched" {
        return format!("a longer recording, or {more}");
    }
    format!("a longer run, several with --repeat, or {more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_say_how_surely() {
        let none = Metric::unavailable("percent", "not asked");
        let (latency, core) = (Some("latency-bound"), Some("core-bound"));
        for (class, share, expected) in [
            (latency, (89.0, 77.0, 94.0), Certainty::Is),
            (latency, (60.0, 30.0, 90.0), Certainty::Probably),
            (latency, (45.0, 30.0, 50.0), Certainty::Mixed),
            (core, (10.0, 0.0, 30.0), Certainty::Is),
            (core, (20.0, 5.0, 48.0), Certainty::Probably),
            (core, (35.0, 30.0, 48.0), Certainty::Mixed),
            (None, (45.0, 16.0, 73.0), Certainty::Undecided),
            (None, (40.0, 30.0, 50.0), Certainty::Mixed),
            (None, (80.0, 24.0, 95.0), Certainty::Probably),
            (None, (30.0, 0.0, 89.0), Certainty::Undecided),
        ] {
            assert_eq!(certainty(class, Some(share), &none), expected, "{class:?} {share:?}");
        }
        assert_eq!(certainty(None, None, &none), Certainty::Undecided);
        let reach = |value, low| Metric {
            value: Some(value),
            low: Some(low),
            high: Some(99.0),
            ..none.clone()
        };
        let bandwidth = Some("bandwidth-bound");
        assert_eq!(certainty(bandwidth, None, &reach(90.0, 80.0)), Certainty::Is);
        assert_eq!(certainty(bandwidth, None, &reach(80.0, 50.0)), Certainty::Probably);
        let low_share = Some((10.0, 5.0, 15.0));
        assert_eq!(certainty(None, low_share, &reach(80.0, 20.0)), Certainty::Undecided);
    }
}
