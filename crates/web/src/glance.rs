//! What is known of a recording immediately: program, time, machine, what was counted, amount of data.
//!
//! What for: computing figures takes seconds for a very large recording; the page shows this much at once. What not: figures
//! that need a sum; this reads the manifest and totals, and counts facts.

use facts::{CounterKind, Metric, Recording, Target};
use serde_json::{Value, json};

use crate::compact::compacted;

/// As JSON: `command`, `target`, `started` (seconds since 1970, null when not known), `elapsed` (seconds), `cpu`,
/// `cpus`, `memory_bytes`, `os`, `kernel`, `figures`: names with counted metrics, and `sizes`: how many facts of which kind, none of them 0.
pub(crate) fn glance(recording: &Recording) -> Value {
    let run = &recording.run;
    let sizes = [
        ("samples", recording.samples.len()),
        ("call stack nodes", recording.stack_nodes.len()),
        ("page faults", recording.faults.len()),
        ("heap blocks", recording.allocations.len()),
        ("bursts", recording.bursts.len()),
        ("waits", recording.waits.len()),
    ];
    let sizes: Vec<Value> =
        sizes.iter().filter(|(_, count)| *count > 0).map(|size| json!(size)).collect();
    let counted = [
        ("CPU time", "s", 1e-9, CounterKind::TaskClock),
        ("Page faults, minor", "count", 1.0, CounterKind::MinorFaults),
        ("major", "count", 1.0, CounterKind::MajorFaults),
        ("Context switches", "count", 1.0, CounterKind::ContextSwitches),
    ];
    let counted = counted.into_iter().filter_map(|(name, unit, factor, kind)| {
        let value = recording.counter(kind).filter(|value| *value > 0)? as f64;
        Some((name, Metric::counted(value * factor, unit)))
    });
    let figures: Vec<(&str, Metric)> = counted.collect();
    json!({
        "command": run.command,
        "target": run.target.as_ref().map_or("launched", Target::name),
        "analysis": run.analysis.name(),
        "started": (run.started_unix > 0).then_some(run.started_unix),
        "elapsed": run.elapsed_ns as f64 * 1e-9,
        "cpu": run.host.cpu,
        "cpus": run.host.logical_cpus,
        "memory_bytes": run.host.memory_bytes,
        "os": run.host.os,
        "kernel": run.host.kernel,
        "figures": compacted(json!(figures)),
        "sizes": sizes,
    })
}
