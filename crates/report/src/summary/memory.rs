//! The part of the summary that comes from traced accesses.

use analysis::Profile;
use analysis::TracedCode;
use analysis::memory::{Bands, Memory};
use facts::Metric;

use super::{BandwidthSummary, Levels};
use crate::json::tidy;

/// What memory does to the program.
pub(super) struct MemoryPart {
    pub(super) bandwidth: BandwidthSummary,
    pub(super) latency: Metric,
    pub(super) loads: Metric,
    pub(super) stores: Metric,
    pub(super) levels: Levels,
    pub(super) flops: Metric,
    pub(super) intensity: Metric,
    pub(super) notes: Vec<String>,
}

/// Simulates the bursts of a recording.
pub(super) fn memory_part(profile: &Profile<'_>, code: &TracedCode) -> MemoryPart {
    let memory = Memory::new(profile, code);
    let (loads, stores) = memory.executed();
    let (flops, intensity) = memory.arithmetic();
    let levels = memory.levels(|_| true);
    MemoryPart {
        bandwidth: match memory.bandwidth(Bands::default()) {
            Ok(found) => BandwidthSummary {
                average: tidy(found.average),
                observed_max: tidy(found.observed_max),
                read: tidy(found.read),
                write: tidy(found.write),
                bound_time_percent: tidy(found.bound_time),
            },
            Err(why) => no_bandwidth(why),
        },
        latency: tidy(match memory.latency() {
            Ok(latency) => latency.mean,
            Err(why) => Metric::unavailable("ns", &why),
        }),
        flops: tidy(flops),
        intensity: tidy(intensity),
        loads: tidy(loads),
        stores: tidy(stores),
        levels: Levels {
            l1: tidy(levels.l1),
            l2: tidy(levels.l2),
            l3: tidy(levels.l3),
            dram: tidy(levels.dram),
        },
        notes: memory.notes,
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
    }
}
