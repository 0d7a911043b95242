//! `bandwidth-saturated`: the threads of a function move as much as memory delivers.
//!
//! Fires when the function waits and its rate is at least [`SATURATED`] of the bandwidth reachable with as many threads on this
//! machine. [`STREAMED`] suffices where it waits most of its time for streams that it loads: prefetchers run ahead of those, so the
//! only thing left to wait for is the bandwidth, and other programs take the rest of it. Gain: of fusing or blocking, so that a
//! part of the bytes is left ([`BYTES_LEFT`]). These take as long per byte as now; the instructions take their no-miss time,
//! before, after or concurrently.

use facts::Metric;

use crate::accesses::Pattern;

use super::gain::{Gain, OVERLAP, judged};
use super::{
    Draft, Figures, HotFunction, HotSite, NotJudged, Part, Proof, TILE, candidates, size, view_by,
};

/// Share of the bandwidth reachable with as many threads. The calibration is a median of quiet passes: a program stays below it.
pub(super) const SATURATED: f64 = 0.6;
/// A function that waits less is not held up.
const WAITS: f64 = 0.2;
/// Likewise, of streams, which do not wait for anything else.
const STREAMED: f64 = 0.45;
const STREAM_WAITS: f64 = 0.5;
/// Part of streams in the waits, percent.
const STREAM_PART: f64 = 80.0;

/// Share of the bytes that is left: half where two loops are fused or a type is half as large, an eighth where eight passes go
/// through a block while it is in a cache.
pub(super) const BYTES_LEFT: Part<'static> = Part::Assumed([0.125, 0.25, 0.5]);

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let traced = figures.traced.as_ref().map_err(NotJudged::clone)?;
    Ok(candidates(traced, |one| Some(draft(figures, one))))
}

/// Whether it likely is; asked before the reuse of a function is computed, which only some need.
pub(super) fn is_probable(function: &HotFunction) -> bool {
    let share = |metric: &Metric| metric.value.unwrap_or(0.0) / 100.0;
    holds(function, share(&function.waits), share(&function.of_reach))
}

fn holds(function: &HotFunction, waits: f64, rate: f64) -> bool {
    let saturated = rate >= SATURATED && waits >= WAITS;
    let streams = rate >= STREAMED && waits >= STREAM_WAITS;
    saturated || (streams && streamed(function) >= STREAM_PART)
}

fn saved(figures: &Figures, function: &HotFunction) -> Gain {
    let [waits, rate] = [&function.waits, &function.of_reach].map(Part::Share);
    let parts = [Part::Seconds(&function.time), waits, rate, BYTES_LEFT, OVERLAP];
    let holds = |[_, waits, rate, ..]: [f64; 5]| holds(function, waits, rate);
    judged(figures, parts, holds, |[time, waits, _, bytes, overlap]| {
        let core = 1.0 - waits;
        let apart = bytes + (1.0 - bytes) * core;
        time * (1.0 - overlap * core.max(bytes) - (1.0 - overlap) * apart)
    })
}

/// The part of the waits that loads of neighbours in a row have, percent. Stores may wait for each other.
fn streamed(function: &HotFunction) -> f64 {
    let loads = |site: &&HotSite| site.pattern == Pattern::Unit && !site.writes;
    let streams = function.sites.iter().filter(loads);
    streams.filter_map(|site| site.share.value).sum()
}

fn draft(figures: &Figures, function: &HotFunction) -> Draft {
    let name = function.place.function.as_deref().unwrap_or("a function");
    let mut evidence = vec![
        Proof::new("share of the bandwidth that its threads can reach", &function.of_reach),
        Proof::new("time beyond its no-miss time", &function.waits),
        Proof::new("CPU time in it", &function.time),
    ];
    if blocking(function).is_some() {
        evidence.push(Proof::new(
            "cache size that would hold the data that it reuses",
            &function.fitting,
        ));
    }
    Draft {
        title: format!("{name} uses all of the memory bandwidth that its threads can reach"),
        evidence,
        place: function.place.clone(),
        advice: format!(
            "Move fewer bytes: do more with each element while it is in a cache (fuse loops over the same arrays, \
             block them), use smaller types, leave out what is not needed.{} More threads will not help. The \
             predicted gain assumes an eighth to a half fewer bytes.",
            blocking(function).unwrap_or_default()
        ),
        gain: saved(figures, function),
        next: view_by("bandwidth", &function.place, "function,source-line"),
    }
}

/// A tile, for who comes back to more than one holds: a square of the widest usual number.
fn blocking(function: &HotFunction) -> Option<String> {
    const NUMBER: f64 = 8.0;
    let bytes = function.fitting.value.filter(|bytes| *bytes > TILE)?;
    let side = (TILE / NUMBER).sqrt() as u64;
    Some(format!(
        " By the miss-ratio curve it reuses its data after {}: block its loops into tiles of at most {side} x \
         {side} numbers of 8 bytes ({}), and use each tile often before the next.",
        size(bytes),
        size(TILE)
    ))
}
