//! `strided-walk`: a loop takes one element of each line and returns later for the neighbours.
//!
//! Fires for sites with a stride of a line or more, or with runs of such strides, that together have a good part of the waits.
//! Their runs must start next to each other, or be adjacent columns; where no second run was recorded, the stride must be at
//! least a page. Gain: of interchanging the loops. What remains: the waits of others, the instructions of a loop along lines
//! (`gain::REORDERED`), and the transfer of each line once (element over line) at memory's peak bandwidth. The block size is
//! that of `figures::walks`.

use super::gain::{OVERLAP, REORDERED, busy, judged, left};
use super::{
    Draft, Figures, HotFunction, HotSite, NotJudged, Part, Proof, Walk, about, each_function, size,
    view_by,
};
use crate::accesses::Pattern;
use crate::figure::Figure;

const LINE: f64 = x86::LINE_BYTES as f64;
const PAGE: u64 = 4096;
/// Least share of the time beyond the no-miss time, and least part of it for these accesses: below, another order would move
/// little.
const WAITS: f64 = 0.25;
const PART: f64 = 0.3;
/// Share of the restarts that are next to the run before.
const ADJACENT: f64 = 0.5;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    each_function(figures, |one| draft(figures, one))
}

/// Whether a site walks so; `records` asks as well, because then it is none of its own.
pub(super) fn walks(site: &HotSite) -> Option<u64> {
    let step = site.pattern.stride()?.unsigned_abs();
    let adjacent = match site.restarts.all {
        0 => step >= PAGE,
        all => site.restarts.near as f64 >= ADJACENT * all as f64,
    };
    let adjacent = adjacent || site.restarts.columns(site.bytes);
    (step >= u64::from(x86::LINE_BYTES) && adjacent && site.keeps_its_step()).then_some(step)
}

fn draft(figures: &Figures, function: &HotFunction) -> Option<Draft> {
    let (site, step) = function.sites.iter().find_map(|site| Some((site, walks(site)?)))?;
    // Of several arrays, or of both ends of a step: the same loops to interchange.
    let walking = function.sites.iter().filter(|site| walks(site).is_some());
    let part = Figure::sum(&site.share, walking.map(|site| &site.share), 100.0);
    let name = site.place.function.as_deref().unwrap_or("a function");
    let mut evidence = vec![
        Proof::new("time beyond its no-miss time", &function.waits),
        Proof::new("part of these accesses in it", &part),
        Proof::new("share of its steps with one stride", &site.stride_share),
    ];
    if let Some(walk) = &site.walk {
        evidence.push(Proof::new("cache size that keeps its lines until it returns", &walk.keeps));
        evidence.push(Proof::new("second-level cache", &walk.second_level));
        evidence.push(Proof::new(
            "number of its lines that fit there with the other data in use",
            &walk.lines,
        ));
    }
    evidence.extend(about(site));
    let once = (site.bytes / LINE).min(1.0);
    let [waits, walks] = [&function.waits, &part].map(Part::Share);
    let busy = busy(function);
    let parts = [Part::Seconds(&function.time), waits, walks, busy, REORDERED, OVERLAP];
    let holds = |[_, waits, part, ..]: [f64; 6]| waits >= WAITS && part >= PART;
    let gain = judged(figures, parts, holds, |[time, waits, part, busy, core, overlap]| {
        time * (1.0 - left(waits, part, core, busy * once, overlap))
    });
    Some(Draft {
        title: format!(
            "{name} walks memory in {} {step} bytes and uses {} of each line",
            match site.pattern {
                Pattern::Runs(_) => "steps that change, such as",
                _ => "steps of",
            },
            size(site.bytes)
        ),
        evidence,
        place: site.place.clone(),
        advice: advice(site),
        gain,
        next: view_by("reuse", &site.place, "function,source-line"),
    })
}

fn advice(site: &HotSite) -> String {
    let interchange = "Interchange the loops so that the inner loop goes along the cache lines.";
    let data = site.place.object.as_deref().map_or(String::new(), |name| format!(" of {name}"));
    let Some(block) = site.walk.as_ref().and_then(|walk| block(walk, site.bytes)) else {
        return format!(
            "{interchange} If that is impossible, block them so that the part{data} in use at a time fits into the \
             second-level cache; `fathom report reuse` shows which sizes fit."
        );
    };
    format!(
        "{interchange} If that is impossible, block them: {block} at a time{data} stay in the second-level cache."
    )
}

/// `at most 14000 lines (12000 to 15000), as blocks of 320 x 320 elements,`.
fn block(walk: &Walk, bytes: f64) -> Option<String> {
    let lines = walk.lines.value?;
    let interval = walk.lines.low.zip(walk.lines.high);
    let interval =
        interval.map_or(String::new(), |(low, high)| format!(" ({low:.0} to {high:.0})"));
    // A square of whole lines: as many rows as elements in a row.
    let in_line = (LINE / bytes.max(1.0)).max(1.0);
    let side = ((lines * in_line).sqrt() / in_line).floor() * in_line;
    let square = match side >= in_line {
        true => format!(", as blocks of {side:.0} x {side:.0} elements,"),
        false => String::new(),
    };
    Some(format!("at most {lines:.0} lines{interval}{square}"))
}
