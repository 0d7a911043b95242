//! The share of cycles in which cores walked page tables for data, from counters.
//!
//! What for: the cost of DTLB misses as the hardware counts it. What not: what of it the core waited for (the tree's `dtlb_load` and
//! `dtlb_store` model that), walks for instructions, and processors that do not count cycles of walks (AMD's, Arm's).
//!
//! Sources: the event tables of Intel's perfmon. `WALK_ACTIVE`: cycles with at least one walk. `WALK_DURATION` and `WALK_CYCLES`, before
//! Skylake: cycles of each walk. Core and Atom: `PAGE_WALKS.D_SIDE_CYCLES`.

use estimate::Estimate;
use facts::{Evidence, Metric};

use super::{CORES, EventToCount, counts_by_name, names};
use crate::cross_check::in_bursts;
use crate::profile::Profile;

/// Cycles of walks for loads and for stores; empty: the first event has both.
const WALKS: [[&str; 2]; 5] = [
    ["dtlb_load_misses.walk_active", "dtlb_store_misses.walk_active"],
    ["dtlb_load_misses.walk_duration:c1", "dtlb_store_misses.walk_duration:c1"],
    ["dtlb_load_misses.walk_duration", "dtlb_store_misses.walk_duration"],
    ["dtlb_misses.walk_cycles", ""],
    ["page_walks.d_side_cycles", ""],
];

/// Those of these events, of the first kind of cores, that tell of walks.
pub(crate) fn events_of_walks(groups: &[Vec<EventToCount>]) -> Vec<EventToCount> {
    let is_wanted = |event: &&EventToCount| {
        WALKS.iter().flatten().any(|name| *name == event.name)
            && [CORES, "cpu_core"].contains(&event.pmu)
    };
    groups.iter().flatten().filter(is_wanted).copied().collect()
}

/// Percent of the cycles; `None` where they were not counted. Walks for loads and for stores may be at the same time: the lower end is
/// the larger of both, the upper end their sum.
#[must_use]
pub fn walk_share(profile: &Profile<'_>) -> Option<Metric> {
    let counts = counts_by_name(profile.recording);
    // likwid has no dots in names.
    let find = |name: &str| counts.get(name).or_else(|| counts.get(&name.replace('.', "_")));
    let (loads, other) =
        WALKS.iter().find_map(|[loads, stores]| Some((find(loads)?, (*stores, find(stores)))))?;
    let cycles = names::CYCLES.iter().find_map(|name| find(name))?;
    let (loads, cycles) = match (loads, cycles) {
        (Ok(loads), Ok(cycles)) => (loads, cycles),
        (Err(why), _) | (_, Err(why)) => return Some(Metric::unavailable("percent", why)),
    };
    if cycles.point() <= 0.0 {
        return Some(Metric::unavailable("percent", "no cycle was counted"));
    }
    let share = |walks: Estimate| {
        walks.with(cycles, |walks, cycles| (walks / cycles * 100.0).clamp(0.0, 100.0))
    };
    let (least, most) = match other {
        ("", _) => (share(loads.clone()), Some(share(loads.clone()))),
        (_, Some(Ok(stores))) => {
            let both = loads.clone().with(stores, |loads, stores| loads + stores);
            (share(loads.clone().with(stores, f64::max)), Some(share(both)))
        }
        (_, None | Some(Err(_))) => (share(loads.clone()), None),
    };
    let value = most.as_ref().unwrap_or(&least).point();
    let is_exact = |one: &Estimate| one.replicate(0) == one.point();
    let bursts = in_bursts(profile);
    let exact = bursts == 0.0 && is_exact(&least) && most.as_ref().is_none_or(is_exact);
    // What ran in bursts may have walked all the time, or never.
    let low =
        least.known_interval().map(|(low, _)| ((low - bursts * 100.0) / (1.0 - bursts)).max(0.0));
    let high = most.and_then(|most| most.known_interval());
    let high = high.map(|(_, high)| (high / (1.0 - bursts)).min(100.0));
    let evidence = if exact { Evidence::Counted } else { Evidence::Estimated };
    let metric = Metric { evidence: Some(evidence), ..Metric::counted(value, "percent") };
    Some(Metric {
        low: low.filter(|low| low.is_finite()),
        high: high.filter(|high| high.is_finite()),
        note: high
            .is_none()
            .then(|| "walks for stores were not counted, or for how long is not known".to_owned()),
        ..metric
    })
}
