//! `low-line-use`: a loop steps through records and uses few bytes of the lines that it fetches.
//!
//! Fires when the sites of one stride together use at most [`USED`] of their lines and have a good part of the waits. Not in
//! functions in which threads take lines from each other: then the waits are for that. Neighbouring accesses count as a stride:
//! with gaps between groups of them, lines are used in part as well. Gain: of packing the used bytes, as in `strided`, by used
//! bytes over fetched bytes.

use super::gain::{OVERLAP, REORDERED, busy, judged, left};
use super::strided::walks;
use super::{
    Draft, Figures, HotFunction, HotSite, NotJudged, Part, Proof, about, each_function, view,
};
use crate::accesses::Pattern;
use crate::figure::Figure;

/// No record is as large: longer steps are hops, and packing would not bring their targets together.
const PAGE: u64 = 4096;
/// Highest used share of the bytes of fetched lines.
const USED: f64 = 0.5;
/// Least share of the time beyond the no-miss time, and least part of it for these accesses: below, packing would move little.
const WAITS: f64 = 0.25;
const PART: f64 = 0.3;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    each_function(figures, |one| draft(figures, one))
}

fn step(site: &HotSite) -> Option<i64> {
    let stride = site.step()?;
    let record = stride.unsigned_abs() < PAGE && walks(site).is_none();
    (record && site.keeps_its_step()).then_some(stride)
}

fn draft(figures: &Figures, function: &HotFunction) -> Option<Draft> {
    let (site, stride) = function.sites.iter().find_map(|site| Some((site, step(site)?)))?;
    if super::sharing::concerns(figures, &site.place) {
        return None;
    }
    let alike = || function.sites.iter().filter(|site| step(site) == Some(stride));
    let used = Figure::from(site.used_together.clone());
    let part = Figure::sum(&site.share, alike().map(|site| &site.share), 100.0);
    let [waits, records, bytes] = [&function.waits, &part, &used].map(Part::Share);
    let busy = busy(function);
    let parts = [Part::Seconds(&function.time), waits, records, busy, bytes, REORDERED, OVERLAP];
    let holds =
        |[_, waits, part, _, bytes, ..]: [f64; 7]| bytes <= USED && waits >= WAITS && part >= PART;
    let gain = judged(figures, parts, holds, |[time, waits, part, busy, bytes, core, overlap]| {
        time * (1.0 - left(waits, part, core, busy * bytes, overlap))
    });
    let name = site.place.function.as_deref().unwrap_or("a function");
    Some(Draft {
        title: format!(
            "{name} uses {:.0} % of the bytes of the lines that it fetches",
            used.value.unwrap_or(0.0)
        ),
        evidence: [
            Proof::new("bytes used of the lines fetched", &used),
            Proof::new("time beyond its no-miss time", &function.waits),
            Proof::new("part of these accesses in it", &part),
        ]
        .into_iter()
        .chain(about(site))
        .collect(),
        place: site.place.clone(),
        advice: match site.pattern {
            Pattern::Unit => {
                "It reads neighbouring bytes and then skips a gap, again and again. Store the data that this loop \
                uses together: rows without padding, or hot fields separate from those that are rarely used."
                    .to_owned()
            }
            _ => format!(
                "It steps {stride:+} bytes at a time. Store the data that this loop uses together: an array per \
                field instead of an array of records, or hot fields separate from those that are rarely used."
            ),
        },
        gain,
        next: view("accesses", &site.place),
    })
}
