//! `strided-walk`: a loop takes one element of each line and comes back later for the neighbours.
//!
//! Fires for a site with a stride of a line or more that has a good part of the waits, when its runs start beside each
//! other; where no second run was seen, when the stride is at least a page. Gain: the site's part of the waits, less what
//! remains when each line is fetched once (element over line).

use facts::Metric;

use super::{Draft, Figures, HotFunction, HotSite, Proof, TILE, exactly, low, saved, size, view};
use crate::accesses::Pattern;

const LINE: f64 = x86::LINE_BYTES as f64;
const PAGE: u64 = 4096;
const WAITS: f64 = 25.0;
const PART: f64 = 30.0;
/// Of all restarts, those beside the run before.
const BESIDE: f64 = 0.5;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, String> {
    let traced = figures.traced.as_ref().map_err(String::clone)?;
    Ok(traced.functions.iter().filter_map(|one| draft(figures, one)).collect())
}

/// Whether a site walks so; `records` asks as well, because then it is none of its own.
pub(super) fn walks(site: &HotSite) -> Option<u64> {
    let Pattern::Strided(stride) = site.pattern else { return None };
    let step = stride.unsigned_abs();
    let beside = match site.restarts.all {
        0 => step >= PAGE,
        all => site.restarts.near as f64 >= BESIDE * all as f64,
    };
    (step >= u64::from(x86::LINE_BYTES) && beside && low(&site.stride_share) >= 50.0)
        .then_some(step)
}

fn draft(figures: &Figures, function: &HotFunction) -> Option<Draft> {
    let (site, step) = function.sites.iter().find_map(|site| Some((site, walks(site)?)))?;
    if low(&function.waits) < WAITS || low(&site.share) < PART {
        return None;
    }
    let name = site.place.function.as_deref().unwrap_or("a function");
    let mut evidence = vec![
        Proof::new("time beyond what its instructions need", &function.waits),
        Proof::new("part of this access in it", &site.share),
        Proof::new("of all its steps those of this stride", &site.stride_share),
    ];
    if function.fitting.value.is_some() {
        evidence.push(Proof::new("cache that would hold what it comes back to", &function.fitting));
    }
    let again = 1.0 - (site.bytes / LINE).min(1.0);
    Some(Draft {
        title: format!("{name} walks memory in steps of {step} bytes and uses {} of each line", {
            size(site.bytes)
        }),
        evidence,
        place: site.place.clone(),
        advice: advice(&function.fitting),
        gain: saved(
            figures,
            &function.time,
            &[&function.waits, &site.share, &exactly(again * 100.0)],
        ),
        next: view("reuse", &site.place)
            .into_iter()
            .chain(["-g".to_owned(), "function,source-line".to_owned()])
            .collect(),
    })
}

fn advice(fitting: &Metric) -> String {
    let rows = (TILE / LINE) as u64;
    let needs = match fitting.value {
        Some(bytes) if bytes > TILE => format!(
            " By the miss-ratio curve it needs {} of cache to keep its lines until it comes back.",
            size(bytes)
        ),
        _ => String::new(),
    };
    format!(
        "Interchange the loops so that the inner one goes along the lines. Where that cannot be, tile: at most {rows} \
         steps of the inner loop ({} of lines) before the next neighbour.{needs}",
        size(TILE)
    )
}
