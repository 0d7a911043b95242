//! The summary's part about threads that wait: what limits them, and where their time went.

use analysis::threading::{Reason, ThreadSplit, Threading, threading, verdicts, was_recorded};
use analysis::{Profile, Selection};
use facts::{Evidence, Metric};
use serde::Serialize;

use crate::json::tidy;
use crate::views::thread_states::spin_time;

/// The threads of a recording that followed them. Percentages are of the time that all threads lived.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct ThreadingSummary {
    /// The most important first.
    pub verdicts: Vec<VerdictSummary>,
    pub running_percent: Metric,
    pub spinning_percent: Metric,
    pub ready_percent: Metric,
    pub waiting_percent: Metric,
    pub unknown_percent: Metric,
    pub waiting: Vec<ReasonSummary>,
    /// CPUs that the program used in the mean, without those that only spun.
    pub effective_cpus: Metric,
    pub at_once: Vec<AtOnceSummary>,
}

/// A sentence about what limits the program.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "as in analysis::threading::Verdict")]
pub struct VerdictSummary {
    pub id: &'static str,
    pub sentence: String,
    pub percent: f64,
}

/// How long threads waited for one reason.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct ReasonSummary {
    pub reason: &'static str,
    pub percent: Metric,
}

/// How long each number of threads ran at once.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct AtOnceSummary {
    pub threads: u32,
    pub percent: Metric,
}

/// `None` when the recording did not follow threads.
pub(super) fn threading_part(
    profile: &Profile<'_>,
    usable_cpus: Option<f64>,
) -> Option<ThreadingSummary> {
    if !was_recorded(profile) {
        return None;
    }
    let found = threading(profile, &Selection::default());
    let total = found.total();
    let lived = total.lived.max(1.0);
    let percent = |nanos: f64, counted: bool| share(nanos / lived, counted);
    let spins = spin_time(&total);
    let verdict = |verdict: analysis::threading::Verdict| VerdictSummary {
        id: verdict.id,
        sentence: verdict.sentence,
        percent: (verdict.percent * 10.0).round() / 10.0,
    };
    let waiting = Reason::ALL.into_iter().map(|reason| ReasonSummary {
        reason: reason.name(),
        percent: percent(total.waiting[reason as usize], total.exact),
    });
    Some(ThreadingSummary {
        verdicts: verdicts(profile, &found, usable_cpus).into_iter().map(verdict).collect(),
        running_percent: percent(total.running, true),
        spinning_percent: tidy(spins.each("percent", |seconds| seconds * 1e9 / lived * 100.0)),
        ready_percent: percent(total.ready, total.ready == 0.0),
        waiting_percent: percent(total.waited(), total.ready == 0.0),
        unknown_percent: percent(total.unknown, true),
        waiting: waiting.filter(|row| row.percent.value.is_some_and(|value| value > 0.0)).collect(),
        effective_cpus: effective_cpus(profile, &total, &spins),
        at_once: at_once(&found),
    })
}

fn share(share: f64, counted: bool) -> Metric {
    let metric = Metric::counted(100.0 * share, "percent");
    let estimated =
        Metric { low: None, high: None, evidence: Some(Evidence::Estimated), ..metric.clone() };
    tidy(if counted { metric } else { estimated })
}

fn effective_cpus(profile: &Profile<'_>, total: &ThreadSplit, spins: &Metric) -> Metric {
    let elapsed = profile.observed().seconds();
    if elapsed <= 0.0 {
        return Metric::unavailable("count", "the recording has no length");
    }
    let useful = |spun: f64| (total.running * 1e-9 - spun).max(0.0) / elapsed;
    let [value, low, high] = [spins.value, spins.high, spins.low].map(|spun| spun.map(useful));
    let evidence = spins.evidence.map(|_| Evidence::Estimated);
    tidy(Metric { value, low, high, evidence, unit: "count".to_owned(), ..spins.clone() })
}

fn at_once(found: &Threading) -> Vec<AtOnceSummary> {
    let all: f64 = found.at_once.values().sum();
    let row = |(threads, time): (&u32, &f64)| AtOnceSummary {
        threads: *threads,
        percent: share(time / all.max(1.0), true),
    };
    found.at_once.iter().map(row).collect()
}
