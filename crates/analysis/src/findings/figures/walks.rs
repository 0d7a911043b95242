//! How much of a walk across lines fits into the second-level cache.
//!
//! What for: the block size of a loop, from the miss-ratio curve of the access that walks. What not: whether to block.
//!
//! ```text
//!   lines of the walk that fit = L2 × steps of a run / K      (K / steps: bytes in use per step, a line at least)
//! ```
//! K is the smallest size of the curve that keeps the lines of a run until the next run returns for the neighbours: that size
//! holds 95 % of all accesses but those that enter a new line. It includes all other data in use, because the curve is that of
//! all accesses of the burst.

use facts::{Evidence, Metric};

use crate::findings::steps::Steps;
use crate::profile::Profile;
use crate::reuse::{Curve, FITTING_PERCENT};

const LINE: f64 = x86::LINE_BYTES as f64;

/// A walk across lines.
#[derive(Clone, PartialEq, Debug)]
pub struct Walk {
    /// Cache that keeps its lines until it comes back for their neighbours, bytes.
    pub keeps: Metric,
    /// Size of the second-level cache, bytes.
    pub second_level: Metric,
    /// Its lines that fit in there together with the other data in use: a count.
    pub lines: Metric,
}

pub(super) fn walk(profile: &Profile<'_>, curve: &Curve, steps: &Steps, bytes: f64) -> Walk {
    let again = 1.0 - (bytes / LINE).min(1.0);
    let keeps = curve.holding(again * FITTING_PERCENT);
    let second_level = second_level(profile);
    let lines = lines(&keeps, &second_level, steps);
    Walk { keeps, second_level, lines }
}

/// The measured size, else that which the machine reports.
fn second_level(profile: &Profile<'_>) -> Metric {
    let run = &profile.recording.run;
    let measured = run.calibration.iter().flat_map(|found| &found.effective_caches);
    let measured =
        measured.filter(|cache| cache.level == 2).find(|cache| cache.bytes.value.is_some());
    let reported = || crate::reuse::cache_sizes(run).into_iter().find(|cache| cache.level == 2);
    match (measured, reported()) {
        (Some(cache), _) => cache.bytes.clone(),
        (None, Some(cache)) => Metric::counted(cache.bytes.0 as f64, "bytes"),
        (None, None) => {
            Metric::unavailable("bytes", "the size of the second-level cache is not known")
        }
    }
}

fn lines(keeps: &Metric, second_level: &Metric, steps: &Steps) -> Metric {
    let (Some(kept), Some(cache)) = (keeps.value, second_level.value) else {
        let note = if keeps.value.is_none() { &keeps.note } else { &second_level.note };
        return Metric::unavailable("count", note.as_deref().unwrap_or("not known"));
    };
    if steps.restarts.all == 0 {
        return Metric::unavailable("count", "no burst contains the end of one of its runs");
    }
    // The bursts cut runs off at both of their ends: what is left of one is there at the next.
    let run = steps.executions as f64 / steps.restarts.all as f64;
    let fit = |cache: f64, kept: f64| (cache / (kept / run).max(LINE)).max(1.0);
    let end = |value: Option<f64>, best: f64| value.unwrap_or(best);
    let interval = (
        fit(end(second_level.low, cache), end(keeps.high, kept)),
        fit(end(second_level.high, cache), end(keeps.low, kept)),
    );
    let value = fit(cache, kept);
    match keeps.low.is_some() && keeps.high.is_some() {
        true => Metric::with_interval(Evidence::Simulated, value, "count", interval, keeps.samples),
        false => Metric {
            low: None,
            high: None,
            evidence: Some(Evidence::Simulated),
            samples: keeps.samples,
            ..Metric::counted(value, "count")
        },
    }
}
