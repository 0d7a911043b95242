//! The part of the summary that comes from traced accesses.

use analysis::memory::{Bands, Bandwidth, BandwidthStep, Bound, Class, Memory};
use analysis::objects::{Grouping, Objects};
use analysis::{Key, Profile, RowKey, Selection, TracedCode};
use facts::Metric;

use super::{BandwidthSummary, BandwidthTime, Levels, TopObject};
use crate::json::{significant, tidy};
use crate::views::{extent, object_bytes};

/// Objects in the summary.
const TOP: usize = 5;
/// Less than this share of the traffic is not a top object, %.
const TOP_PERCENT: f64 = 0.5;

/// What memory does to the program.
pub(super) struct MemoryPart {
    pub(super) bandwidth: BandwidthSummary,
    pub(super) class: Option<Class>,
    pub(super) class_reason: String,
    pub(super) memory_bound: Metric,
    pub(super) without_misses: Metric,
    pub(super) without_limit: Metric,
    pub(super) latency: Metric,
    pub(super) exposed: Metric,
    pub(super) loads: Metric,
    pub(super) stores: Metric,
    pub(super) levels: Levels,
    pub(super) flops: Metric,
    pub(super) intensity: Metric,
    pub(super) page_walks: Metric,
    pub(super) top_objects: Vec<TopObject>,
    pub(super) notes: Vec<String>,
}

/// What the bursts of a recording tell.
pub(super) fn memory_part(
    memory: &Memory<'_>,
    profile: &Profile<'_>,
    code: &TracedCode,
    objects: &Objects,
) -> MemoryPart {
    let (loads, stores) = memory.executed();
    let (flops, intensity) = memory.arithmetic();
    let levels = memory.all_levels();
    let (bandwidth, bound) = (memory.bandwidth(Bands::default()), memory.bound());
    let (class, class_reason) = class(memory, &bandwidth, &bound);
    let of_bound = |unit: &str, part: fn(&Bound) -> &Metric| {
        tidy(match &bound {
            Ok(bound) => part(bound).clone(),
            Err(why) => Metric::unavailable(unit, why),
        })
    };
    MemoryPart {
        class,
        class_reason,
        memory_bound: of_bound("percent", |bound| &bound.memory),
        without_misses: of_bound("s", |bound| &bound.without_misses),
        without_limit: of_bound("s", |bound| &bound.without_limit),
        exposed: of_bound("ns", |bound| &bound.exposed),
        bandwidth: match bandwidth {
            Ok(found) => bandwidth_summary(found),
            Err(why) => no_bandwidth(why),
        },
        latency: tidy(match memory.latency() {
            Ok(latency) => latency.mean,
            Err(why) => Metric::unavailable("ns", &why),
        }),
        loads: tidy(loads),
        stores: tidy(stores),
        levels: Levels {
            l1: tidy(levels.l1),
            l2: tidy(levels.l2),
            l3: tidy(levels.l3),
            dram: tidy(levels.dram),
        },
        flops: tidy(flops),
        intensity: tidy(intensity),
        page_walks: tidy(memory.page_walks()),
        notes: memory.notes.clone(),
        top_objects: top_objects(profile, code, objects, memory),
    }
}

/// The named objects with the most traffic.
fn top_objects(
    profile: &Profile<'_>,
    code: &TracedCode,
    objects: &Objects,
    memory: &Memory<'_>,
) -> Vec<TopObject> {
    let selection = &Selection::default();
    let keys = &[Key::Object];
    let grouping = Grouping { profile, code, objects, selection, keys };
    let named = |key: &RowKey| key.object.is_some_and(|id| objects.get(id).kind.is_named());
    let rows = memory.first_part_rows(&grouping, named, TOP).unwrap_or_default();
    let top = rows.into_iter().filter_map(|row| {
        let object = objects.get(row.key.object?);
        let large = row.share.value.is_some_and(|percent| percent >= TOP_PERCENT);
        large.then(|| TopObject {
            object: object.name.clone(),
            object_kind: object.kind.name(),
            object_bytes: tidy(object_bytes(object)),
            dram_read: tidy(row.read),
            dram_write: tidy(row.write),
            dram_percent: tidy(row.share),
            loads: tidy(row.loads),
            stores: tidy(row.stores),
            latency: tidy(match row.latency {
                Ok(latency) => latency.mean,
                Err(why) => Metric::unavailable("ns", &why),
            }),
            extent: extent(object),
        })
    });
    top.collect()
}

fn class(
    memory: &Memory<'_>,
    bandwidth: &Result<Bandwidth, &str>,
    bound: &Result<Bound, String>,
) -> (Option<Class>, String) {
    let bandwidth = match bandwidth {
        Ok(bandwidth) => bandwidth,
        Err(why) => return (None, (*why).to_owned()),
    };
    match memory.class(bandwidth, bound) {
        Ok((class, why)) => (Some(class), why),
        Err(why) => (None, why),
    }
}

fn bandwidth_summary(found: Bandwidth) -> BandwidthSummary {
    let step = |step: BandwidthStep| BandwidthTime {
        from: significant(step.from),
        to: significant(step.to),
        time: tidy(step.time),
    };
    BandwidthSummary {
        average: tidy(found.average),
        observed_max: tidy(found.observed_max),
        read: tidy(found.read),
        write: tidy(found.write),
        bound_time_percent: tidy(found.bound_time),
        medium_from: found.bands.map(|(medium, _)| significant(medium)),
        high_from: found.bands.map(|(_, high)| significant(high)),
        histogram: found.histogram.into_iter().map(step).collect(),
    }
}

fn no_bandwidth(why: &str) -> BandwidthSummary {
    let missing = |unit| Metric::unavailable(unit, why);
    BandwidthSummary {
        average: missing("GB/s"),
        observed_max: missing("GB/s"),
        read: missing("GB/s"),
        write: missing("GB/s"),
        bound_time_percent: missing("percent"),
        medium_from: None,
        high_from: None,
        histogram: Vec::new(),
    }
}
