//! `pointer-chase`: each load returns the address of the next, and none of them hits in a near cache.
//!
//! Fires when sites of that pattern together have most of the function's waits, and it waits much: fields of one node may lie
//! in several lines. Gain: of nodes stored in the order in which they are visited. What remains: the waits of other sites, the
//! chain with its data in L1, and the transfer of the same lines at memory's peak bandwidth.

use super::gain::{OVERLAP, busy, judged, left};
use super::{Draft, Figures, HotFunction, NotJudged, Part, Proof, about, each_function, view_by};
use crate::accesses::Pattern;
use crate::figure::Figure;

/// A function that waits for less of its time has other problems first.
const WAITS: f64 = 0.3;
/// The sites' part of the waits.
const PART: f64 = 0.4;

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    each_function(figures, |one| draft(figures, one))
}

fn draft(figures: &Figures, function: &HotFunction) -> Option<Draft> {
    let chased = || function.sites.iter().filter(|site| site.pattern == Pattern::PointerChase);
    let site = chased().next()?;
    let part = Figure::sum(&site.share, chased().map(|site| &site.share), 100.0);
    // Without a share no access of the function missed the first level: the chain has nothing to wait for.
    part.value?;
    let [waits, chase] = [&function.waits, &part].map(Part::Share);
    let busy = busy(function);
    let parts = [Part::Seconds(&function.time), waits, chase, busy, OVERLAP];
    let holds = |[_, waits, part, ..]: [f64; 5]| waits >= WAITS && part >= PART;
    let gain = judged(figures, parts, holds, |[time, waits, part, busy, overlap]| {
        time * (1.0 - left(waits, part, 1.0, busy, overlap))
    });
    let name = site.place.function.as_deref().unwrap_or("a function");
    Some(Draft {
        title: format!("{name} follows pointers, and each load waits for the one before"),
        evidence: [
            Proof::new("time beyond its no-miss time", &function.waits),
            Proof::new("part of these loads in it", &part),
            Proof::new("CPU time in it", &function.time),
        ]
        .into_iter()
        .chain(about(site))
        .collect(),
        place: site.place.clone(),
        advice: "Keep the nodes in one array in the order in which they are visited, put several elements into a node, \
                 or replace pointers by an array with indices; where several chains are independent, follow them in \
                 turn, so that their waits overlap."
            .to_owned(),
        gain,
        next: view_by("latency", &site.place, "source-line"),
    })
}
