//! `non-temporal-stores`: a loop overwrites lines that it did not read, and each is fetched first.
//!
//! Fires when stores alone fetch a good part of a function's bytes that are not read again soon, from sites that write in order.
//! Also, either the function waits at high bandwidth, or memory is saturated: then the bytes are the time, whatever else the
//! instructions do.
//!
//! ```text
//!   gain = time × min(waits, busy × (1 - (1 - overwritten) / faster))
//! ```
//! `busy` is the bandwidth over the bandwidth reachable with as many threads: the share of the time in which memory works. The
//! remaining bytes take less of that, and move `faster`, because memory switches between reading and writing less often: by the
//! measured speed of non-temporal stores; low end: no faster.

use super::bandwidth::SATURATED;
use super::gain::{Gain, judged};
use super::{Draft, Figures, HotFunction, HotSite, NotJudged, Part, Proof, candidates, view_by};
use crate::accesses::Pattern;

/// Percent of the bytes of lines; the ends of a burst's stretch are in part its own.
const FILLED: f64 = 90.0;
/// Bytes fetched for stores alone, of all.
const OVERWRITTEN: f64 = 0.15;
/// Stores that stay in the caches are better off there: only near the limit of memory.
const BUSY: f64 = 0.3;
/// Lower than for other rules: stores retire without waiting for their lines, so few waits are seen even where they limit.
const WAITS: f64 = 0.15;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let traced = figures.traced.as_ref().map_err(NotJudged::clone)?;
    Ok(candidates(traced, |one| draft(figures, one, traced.past_caches.unwrap_or(1.0))))
}

/// Whether the stores of a loop fill the lines that they come to: one after the other, or several side by side, as an
/// unrolled loop has them.
fn fills_lines(function: &HotFunction, store: &HotSite) -> bool {
    let Pattern::Strided(_) = store.pattern else { return store.pattern == Pattern::Unit };
    let alike = function.sites.iter().filter(|site| {
        site.writes && !site.reads && site.pattern == store.pattern && site.place == store.place
    });
    alike.filter_map(|site| site.line_use.low.or(site.line_use.value)).sum::<f64>() >= FILLED
}

/// What its stores cost for fetching.
fn fetching(figures: &Figures, function: &HotFunction, faster: f64) -> Gain {
    let HotFunction { time, waits, of_reach, overwritten, .. } = function;
    let [waits, busy, fetched] = [waits, of_reach, overwritten].map(Part::Share);
    let faster = Part::Assumed([1.0, faster, faster]);
    let parts = [Part::Seconds(time), waits, busy, fetched, faster];
    let holds = |[_, waits, busy, fetched, _]: [f64; 5]| {
        fetched >= OVERWRITTEN && busy >= BUSY && (waits >= WAITS || busy >= SATURATED)
    };
    judged(figures, parts, holds, |[time, waits, busy, fetched, faster]| {
        time * (busy * (1.0 - (1.0 - fetched) / faster)).min(waits)
    })
}

fn draft(figures: &Figures, function: &HotFunction, faster: f64) -> Option<Draft> {
    let store = function
        .sites
        .iter()
        .find(|site| site.writes && !site.reads && fills_lines(function, site))?;
    let name = store.place.function.as_deref().unwrap_or("a function");
    Some(Draft {
        title: format!("{name} fetches lines from memory only to overwrite them"),
        evidence: vec![
            Proof::new(
                "share of its traffic that is fetched for stores only and not read again soon",
                &function.overwritten,
            ),
            Proof::new("share of the bandwidth that its threads can reach", &function.of_reach),
            Proof::new("time beyond its no-miss time", &function.waits),
        ],
        place: store.place.clone(),
        advice: "Use non-temporal stores: `_mm_stream_pd` and its relatives with an `sfence` at the end, `#pragma \
                omp simd nontemporal(...)` where the compiler supports it, or memcpy and memset for plain copies. \
                Only where the data are not read again soon."
            .to_owned(),
        gain: fetching(figures, function, faster),
        next: view_by("bandwidth", &store.place, "function,source-line"),
    })
}
