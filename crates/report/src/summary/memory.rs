//! The part of the summary that comes from traced accesses.

use std::collections::BTreeMap;

use analysis::memory::{
    Bands, Bandwidth, BandwidthStep, Bound, ExecutedAccesses, FloatingPointWork, Memory, PartRow,
    Verdict,
};
use analysis::objects::{Grouping, Object, ObjectKind};
use analysis::stalls::stall_rows;
use analysis::{Key, RowKey, Selection};
use facts::Metric;

use super::{BandwidthSummary, BandwidthTime, CacheBandwidth, LevelBandwidth, Levels, TopObject};
use crate::json::{significant, tidy};
use crate::prepared::Prepared;
use crate::views::{extent, object_bytes};

/// Objects in the summary.
const TOP: usize = 5;
/// Less than this share of the traffic and of the time is not a top object, %.
const TOP_PERCENT: f64 = 0.5;

/// What memory does to the program.
pub(super) struct MemoryPart {
    pub(super) bandwidth: BandwidthSummary,
    pub(super) cache_bandwidth: CacheBandwidth,
    pub(super) verdict: Verdict,
    pub(super) memory_bound: Metric,
    pub(super) without_misses: Metric,
    pub(super) without_limit: Metric,
    pub(super) latency: Metric,
    pub(super) exposed: Metric,
    pub(super) loads: Metric,
    pub(super) stores: Metric,
    pub(super) levels: Levels,
    pub(super) remote: Metric,
    pub(super) flops: Metric,
    pub(super) intensity: Metric,
    pub(super) page_walks: Metric,
    pub(super) top_objects: Vec<TopObject>,
    pub(super) notes: Vec<String>,
}

/// Figures from the bursts of a recording.
pub(super) fn memory_part(prepared: &Prepared<'_>, memory: &Memory<'_>) -> MemoryPart {
    let ExecutedAccesses { loads, stores } = memory.executed();
    let FloatingPointWork { rate: flops, intensity } = memory.arithmetic();
    let levels = memory.all_levels();
    let (bandwidth, bound) = (memory.bandwidth(Bands::default()), memory.bound());
    let verdict = memory.verdict(&bound);
    let of_bound = |unit: &str, part: fn(&Bound) -> &Metric| {
        tidy(match &bound {
            Ok(bound) => part(bound).clone(),
            Err(why) => Metric::unavailable(unit, why),
        })
    };
    let [l2, l3] = memory.level_rates().map(|level| LevelBandwidth {
        rate: tidy(level.rate),
        reachable: tidy(level.reachable),
        of_reachable: tidy(Metric::clone(&level.of_reachable)),
    });
    MemoryPart {
        cache_bandwidth: CacheBandwidth { l2, l3 },
        verdict,
        memory_bound: of_bound("percent", |bound| &bound.memory),
        without_misses: of_bound("s", |bound| &bound.without_misses),
        without_limit: of_bound("s", |bound| &bound.without_limit),
        exposed: of_bound("ns", |bound| &bound.exposed),
        bandwidth: match bandwidth {
            Ok(found) => bandwidth_summary(found, memory),
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
        remote: tidy(match prepared.recorded_nodes() {
            Ok(nodes) => nodes.remote(),
            Err(why) => Metric::unavailable("percent", why),
        }),
        flops: tidy(flops),
        intensity: tidy(intensity),
        page_walks: tidy(memory.page_walks()),
        notes: memory.notes.clone(),
        top_objects: top_objects(prepared, memory),
    }
}

/// The named objects that most time waits for, then those with the most traffic.
fn top_objects(prepared: &Prepared<'_>, memory: &Memory<'_>) -> Vec<TopObject> {
    let (profile, code, objects) = (&prepared.profile, &prepared.code, prepared.objects());
    let selection = &Selection::default();
    let keys = &[Key::Object];
    let grouping = Grouping { profile, code, objects, selection, keys };
    let named = |key: &RowKey| key.object.is_some_and(|id| objects.get(id).kind.is_named());
    let stalls = match prepared.stalls().missing() {
        Some(why) => Err(why),
        None => Ok(stall_rows(&grouping, prepared.stalls(), &memory.objects_of_sites()).rows),
    };
    let excess = |key: &RowKey| {
        stalls.as_ref().ok().and_then(|rows| rows.get(key)).map_or(0.0, |row| row.excess)
    };
    let mut found: BTreeMap<RowKey, Option<PartRow>> = BTreeMap::new();
    if let Ok(rows) = &stalls {
        let mut waited: Vec<RowKey> = rows.keys().copied().filter(named).collect();
        waited.sort_by(|a, b| excess(b).total_cmp(&excess(a)));
        found.extend(waited.into_iter().take(TOP).map(|key| (key, None)));
    }
    for wanted in [true, false] {
        let wanted = |key: &RowKey| named(key) && (found.contains_key(key) || !wanted);
        let rows = memory.first_part_rows(&grouping, wanted, TOP).unwrap_or_default();
        found.extend(rows.into_iter().map(|row| (row.key, Some(row))));
    }
    let share = |row: &Option<PartRow>| row.as_ref().and_then(|row| row.share.value).unwrap_or(0.0);
    let mut found: Vec<(RowKey, Option<PartRow>)> = found.into_iter().collect();
    found.sort_by(|(a, one), (b, other)| {
        excess(b).total_cmp(&excess(a)).then(share(other).total_cmp(&share(one)))
    });
    let types = memory.element_types(&profile.types);
    let (scale, among) = (profile.cpu_scale(), &prepared.stalls().totals.among);
    let top = found.into_iter().filter_map(|(key, row)| {
        let object = objects.get(key.object?);
        let stalled = |unit| match &stalls {
            Ok(rows) => rows.get(&key).copied().unwrap_or_default().metric(&scale, unit, among),
            Err(why) => Metric::unavailable(unit, why),
        };
        let large = share(&row) >= TOP_PERCENT
            || stalled("percent").value.is_some_and(|percent| percent >= TOP_PERCENT);
        let of = key.object.filter(|_| object.kind.has_elements());
        let of = of.and_then(|id| types.get(&id)).cloned();
        let stalled = [stalled("s"), stalled("percent")];
        large.then(|| top_object((object, of), stalled, row, memory.missing()))
    });
    top.take(TOP).collect()
}

fn top_object(
    (object, element_type): (&Object, Option<String>),
    [stall_time, stall_percent]: [Metric; 2],
    row: Option<PartRow>,
    missing: Option<&str>,
) -> TopObject {
    let why = missing.unwrap_or("no burst recorded an access to it");
    let none = |unit| Metric::unavailable(unit, why);
    let latency = match row.as_ref().map(|row| &row.latency) {
        Some(Ok(latency)) => latency.mean.clone(),
        Some(Err(why)) => Metric::unavailable("ns", why),
        None => none("ns"),
    };
    let part = |of: fn(&PartRow) -> &Metric, unit| {
        tidy(row.as_ref().map_or_else(|| none(unit), |row| of(row).clone()))
    };
    TopObject {
        object: object.name.clone(),
        object_kind: object.kind.name(),
        object_bytes: tidy(object_bytes(object)),
        stall_time: tidy(stall_time),
        stall_percent: tidy(stall_percent),
        dram_read: part(|row| &row.read, "bytes"),
        dram_write: part(|row| &row.write, "bytes"),
        dram_percent: part(|row| &row.share, "percent"),
        loads: part(|row| &row.loads, "count"),
        stores: part(|row| &row.stores, "count"),
        latency: tidy(latency),
        block_bytes: (object.kind == ObjectKind::Heap && object.smallest == object.largest)
            .then_some(object.largest.0),
        extent: extent(object, element_type.as_deref()),
        element_type,
    }
}

fn bandwidth_summary(found: Bandwidth, memory: &Memory<'_>) -> BandwidthSummary {
    let step = |step: BandwidthStep| BandwidthTime {
        from: significant(step.from),
        to: significant(step.to),
        time: tidy(step.time),
    };
    let reachable = memory.reach();
    let of_reachable = not_below(&memory.of_reach(), &found.average, &reachable);
    BandwidthSummary {
        average: tidy(found.average),
        observed_max: tidy(found.observed_max),
        read: tidy(found.read),
        write: tidy(found.write),
        bound_time_percent: tidy(found.bound_time),
        reachable: tidy(reachable),
        of_reachable: tidy(of_reachable),
        medium_from: found.bands.map(|(medium, _)| significant(medium)),
        high_from: found.bands.map(|(_, high)| significant(high)),
        histogram: found.histogram.into_iter().map(step).collect(),
    }
}

/// The part of what is reachable that is used while the program runs: its upper end is not below that of the average over
/// the whole recording, which contains code that no burst saw.
fn not_below(of_reach: &Metric, average: &Metric, reach: &Metric) -> Metric {
    let least = average.high.zip(reach.value).map(|(high, reach)| high / reach * 100.0);
    match (of_reach.high, least) {
        (Some(high), Some(least)) if high < least => {
            Metric { high: Some(least), ..of_reach.clone() }
        }
        _ => of_reach.clone(),
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
        reachable: missing("GB/s"),
        of_reachable: missing("percent"),
        medium_from: None,
        high_from: None,
        histogram: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use facts::Evidence;

    use super::*;

    #[test]
    fn a_rate_while_it_runs_may_be_as_high_as_the_average() {
        let metric = |value, unit, interval| {
            Metric::with_interval(Evidence::Estimated, value, unit, interval, 3)
        };
        let reach = Metric::counted(40.0, "GB/s");
        let used = metric(0.0, "percent", (0.0, 0.4));
        let high = |average| not_below(&used, &metric(0.0, "GB/s", (0.0, average)), &reach).high;
        assert_eq!([high(36.0), high(0.1)], [Some(90.0), Some(0.4)]);
    }
}
