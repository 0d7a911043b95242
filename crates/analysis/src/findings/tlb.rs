//! `tlb-bound`: accesses that miss in every TLB, on small pages.
//!
//! Fires when a function waits, and page walks, at the cost that the latency ladder shows for small pages, fill a good part of
//! its time. Sites that stay in a page for several accesses do not count: the next page's walk is done ahead. Gain: walks ×
//! (latency with 4 KiB pages - with 2 MiB pages), as far as they stall: the hidden share is that of the latencies of all
//! accesses in sequence; more for accesses that do not wait for each other ([`SEEN`]); less what getting the memory in large pages
//! costs more than in small ones. Where it costs less, that is the gain of `fault-startup`.

use facts::Metric;

use crate::accesses::Pattern;
use crate::figure::Figure;

use super::gain::judged;
use super::{Draft, Figures, HotFunction, HotSite, NotJudged, Part, Proof, about, view};

const PAGE: u64 = 4096;
/// Least share of the time beyond the no-miss time: walks that other work hides cost nothing.
const WAITS: f64 = 0.25;
/// Share of the walks' time that independent accesses wait for: none where walks overlap with the misses of others (Intel has
/// had two walkers since Broadwell, AMD six since Zen 3; optimization manuals), up to all, as in a chain.
pub(super) const SEEN: Part<'static> = Part::Assumed([0.0, 0.4, 1.0]);
/// Share of anonymous memory in huge pages, percent: above it few small pages are left to replace.
const HUGE: f64 = 50.0;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let traced = figures.traced.as_ref().map_err(NotJudged::clone)?;
    let Some(cost) = &figures.walk_cost else {
        return Err(
            "the cost of a page walk was not measured, or 2 MiB pages are not available: run `fathom machine`"
                .into(),
        );
    };
    if figures.faults.huge_percent.value.is_some_and(|percent| percent > HUGE) {
        return Ok(Vec::new());
    }
    Ok(traced.functions.iter().filter_map(|one| draft(figures, one, cost)).collect())
}

/// Whether each access may be in another page.
fn leaps(site: &HotSite) -> bool {
    match site.pattern {
        Pattern::Unit | Pattern::Constant => false,
        Pattern::Strided(stride) | Pattern::Runs(stride) => stride.unsigned_abs() >= PAGE / 2,
        _ => true,
    }
}

fn draft(figures: &Figures, function: &HotFunction, cost: &Metric) -> Option<Draft> {
    let far = || function.sites.iter().filter(|site| leaps(site));
    let first = far().next()?;
    let walks = Figure::sum(&first.walks, far().map(|site| &site.walks), f64::INFINITY);
    let serial = function.serial.value?;
    let best = |metric: &Metric| metric.value.unwrap_or(0.0);
    // Walks and accesses are more or fewer alike: their ratio is the likely one.
    let percent = best(&walks) * best(cost) * 1e-9 * 100.0;
    let part = percent / (percent + serial).max(1e-9);
    let chased = far().any(|site| site.pattern == Pattern::PointerChase);
    let seen = if chased { Part::Assumed([1.0; 3]) } else { SEEN };
    // Shares of the time, not of 100: many walks at a time fill more than all of it.
    let nanos = Figure::from(cost.clone());
    let [often, nanos] = [&walks, &nanos].map(Part::Value);
    let dearer = super::faults::dearer(figures);
    let (more, untried) = match &dearer {
        Some((more, untried)) => (Part::Value(more), *untried),
        None => (Part::Assumed([0.0; 3]), [0.0; 3]),
    };
    let untried = Part::Assumed(untried);
    let [time, waits] = [Part::Seconds(&function.time), Part::Share(&function.waits)];
    let parts = [time, waits, often, nanos, seen, more, untried];
    let holds = |[_, waits, ..]: [f64; 7]| waits >= WAITS;
    let gain = judged(figures, parts, holds, |[time, waits, often, nanos, seen, more, untried]| {
        time * seen * (often * nanos * 1e-9).min(waits * part) - (more + untried).max(0.0)
    });
    let name = first.place.function.as_deref().unwrap_or("a function");
    Some(Draft {
        title: format!("{name} waits for address translation (page walks)"),
        evidence: [
            Proof::new("page walks per second", &walks),
            Proof::new("cost of a page walk here", cost),
            Proof::new("time beyond its no-miss time", &function.waits),
            Proof::new("anonymous memory in huge pages", &figures.faults.huge_percent),
        ]
        .into_iter()
        .chain(super::faults::page_proofs(figures))
        .chain(about(first))
        .collect(),
        place: first.place.clone(),
        advice: super::faults::huge_pages(&figures.faults),
        gain,
        next: match figures.faults.may_be_huge() {
            true => super::try_remedy(figures, Some("huge-pages")),
            false => view("reuse", &function.place),
        },
    })
}
