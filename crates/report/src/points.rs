//! `points`: single accesses of bursts by object, for plots of address over time; and counts of all of them by part and time.
//!
//! What not: a view of the command line; the points must not be summed.

use std::collections::{BTreeMap, HashMap};

use analysis::access_points::{Heat, access_points};
use analysis::objects::ObjectId;
use facts::Burst;
use serde::Serialize;

use crate::Prepared;

#[derive(Serialize)]
struct PointsDocument {
    view: &'static str,
    result: String,
    bursts: Vec<BurstEntry>,
    objects: BTreeMap<String, PointColumns>,
    /// Length of a slice of time, and how many bursts began in each.
    slice_seconds: f64,
    slices: Vec<u64>,
    heat: BTreeMap<String, HeatColumns>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct BurstEntry {
    /// Seconds from the start of the recording.
    time: f64,
    thread: String,
}

/// One entry per point.
#[derive(Serialize, Default)]
struct PointColumns {
    /// Position in `bursts`.
    burst: Vec<usize>,
    /// Iterations that the burst had executed before.
    step: Vec<u64>,
    /// Bytes from the start of the object's block, variable or region.
    offset: Vec<u64>,
    /// 1: a store.
    store: Vec<u8>,
}

/// Recorded accesses to an object. One entry per part and slice that has any.
#[derive(Serialize)]
struct HeatColumns {
    /// Bytes of a part.
    part: u64,
    slice: Vec<u32>,
    /// Number of the part.
    at: Vec<u64>,
    loads: Vec<u64>,
    stores: Vec<u64>,
}

/// Objects with heat, those with most accesses: a page carries the document.
const WITH_HEAT: usize = 60;

fn heat_of(
    prepared: &Prepared<'_>,
    found: &HashMap<ObjectId, Heat>,
) -> BTreeMap<String, HeatColumns> {
    let mut all: Vec<_> = found.iter().collect();
    all.sort_by_key(|(id, heat)| (std::cmp::Reverse(heat.accesses()), **id));
    let columns = |heat: &Heat| HeatColumns {
        part: heat.part,
        slice: heat.cells.keys().map(|(slice, _)| *slice).collect(),
        at: heat.cells.keys().map(|(_, part)| *part).collect(),
        loads: heat.cells.values().map(|[loads, _]| *loads).collect(),
        stores: heat.cells.values().map(|[_, stores]| *stores).collect(),
    };
    let mut by_name = BTreeMap::new();
    for (id, heat) in all.into_iter().take(WITH_HEAT) {
        // Of two objects with one name the more accessed one.
        by_name.entry(prepared.objects().get(*id).name.clone()).or_insert_with(|| columns(heat));
    }
    by_name
}

/// The document as JSON on one line.
#[must_use]
pub fn points(prepared: &Prepared<'_>, result: &str) -> String {
    let profile = &prepared.profile;
    let found = access_points(profile, &prepared.code, prepared.objects());
    let mut positions = HashMap::new();
    let mut bursts: Vec<BurstEntry> = Vec::new();
    let mut objects: BTreeMap<String, PointColumns> = BTreeMap::new();
    let entry = |burst: &Burst| BurstEntry {
        time: burst.time.seconds(),
        thread: profile
            .threads
            .find(burst.pid, burst.tid)
            .map_or_else(String::new, |thread| profile.threads.get(thread).label()),
    };
    for burst in &profile.recording.bursts {
        positions.entry(burst.id).or_insert_with(|| {
            bursts.push(entry(burst));
            bursts.len() - 1
        });
    }
    let mut by_id: Vec<_> = found.points.into_iter().collect();
    by_id.sort_by_key(|(id, _)| *id);
    for (id, points) in by_id {
        let columns = objects.entry(prepared.objects().get(id).name.clone()).or_default();
        for point in points {
            let Some(&burst) = positions.get(&point.burst) else { continue };
            columns.burst.push(burst);
            columns.step.push(point.step);
            columns.offset.push(point.offset.0);
            columns.store.push(u8::from(point.store));
        }
    }
    let notes = vec![
        "The first accesses of each burst: they show patterns. Do not add them up.".to_owned(),
    ];
    let document = PointsDocument {
        view: "points",
        result: result.to_owned(),
        bursts,
        objects,
        slice_seconds: found.slice.seconds(),
        slices: found.bursts,
        heat: heat_of(prepared, &found.heat),
        notes,
    };
    // Only maps with keys that are not text can fail to serialise, and there are none.
    serde_json::to_string(&document).unwrap_or_default()
}
