//! `non-temporal-stores`: a loop overwrites lines that it did not read, and each is fetched first.
//!
//! Fires when the function waits at high bandwidth and stores alone fetch a good part of its bytes, from sites that write
//! neighbours in order. Gain: that part of its waits.

use super::{Draft, Figures, HotFunction, HotSite, Proof, candidates, low, saved, view};
use crate::accesses::Pattern;
use crate::memory::IMPOSSIBLE;

/// Percent of the bytes of lines; the ends of a burst's stretch are in part its own.
const FILLED: f64 = 90.0;
/// Bytes fetched for stores alone, percent of all.
const OVERWRITTEN: f64 = 15.0;
/// Stores that stay in the caches are better off there: only near the limit of memory, percent.
const BUSY: f64 = 30.0;
const WAITS: f64 = 15.0;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, String> {
    let traced = figures.traced.as_ref().map_err(String::clone)?;
    let fires = |one: &HotFunction| draft(figures, one).is_some();
    let chosen = candidates(traced, fires);
    Ok(chosen.into_iter().filter_map(|one| draft(figures, one)).collect())
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

fn draft(figures: &Figures, function: &HotFunction) -> Option<Draft> {
    let busy =
        (BUSY..=IMPOSSIBLE).contains(&low(&function.of_reach)) && low(&function.waits) >= WAITS;
    let store = function
        .sites
        .iter()
        .find(|site| site.writes && !site.reads && fills_lines(function, site))?;
    if !busy || low(&function.overwritten) < OVERWRITTEN {
        return None;
    }
    let name = store.place.function.as_deref().unwrap_or("a function");
    Some(Draft {
        title: format!("{name} fetches lines from memory only to overwrite them"),
        evidence: vec![
            Proof::new("bytes fetched for stores alone, of all it moves", &function.overwritten),
            Proof::new("bandwidth, of what so many threads reach", &function.of_reach),
            Proof::new("time beyond what its instructions need", &function.waits),
        ],
        place: store.place.clone(),
        advice: "Write past the caches: `_mm_stream_pd` and its relatives with an `sfence` at the end, or \
                 `#pragma omp simd nontemporal(...)` where the compiler knows it, or memcpy and memset for plain copies. \
                 Only where the data are not read again soon."
            .to_owned(),
        gain: saved(figures, &function.time, &[&function.waits, &function.overwritten]),
        next: view("bandwidth", &store.place)
            .into_iter()
            .chain(["-g".to_owned(), "function,source-line".to_owned()])
            .collect(),
    })
}
