//! The fields of `run.json` against the table in `docs/format/result-directory.md`.
//!
//! What for: a field that the program writes and the page lacks fails here, and the reverse. What not: the meaning of a
//! field; tables, which have a test in `verify_tests`.

mod support;

use std::collections::BTreeSet;

use facts::host::{
    BandwidthPoint, Calibration, CpuGroup, CpuPart, DaxDevice, EarlierPeak, EffectiveCache,
    FlopsPoint, LatencyPoint, LoadedLatency, MemoryReading, MemorySlot, MemoryTier, NodePair,
    NumaNode, PageReading, ReadingMoment, ReadingPoint, SampleDistance,
};
use facts::{
    BranchReplay, ExitKind, Metric, OneRun, Rank, Run, Source, SourceEvent, TimedLoadOverhead,
};
use serde_json::Value;
use store::{Writer, open};
use support::{SMALL, Scratch};

const PAGE: &str = include_str!("../../../docs/format/result-directory.md");

/// A manifest in which no object is absent and no list of objects empty.
fn full() -> Run {
    let metric = || Metric::counted(1.0, "GB/s");
    let mut run = support::run(SMALL);
    let exit = ExitKind::Code(0);
    run.runs = vec![OneRun { pid: 1, start_ns: 0, elapsed_ns: None, exit }];
    let event = SourceEvent { name: "cycles".to_owned(), ..SourceEvent::default() };
    run.source = Some(Source { events: vec![event], ..Source::default() });
    run.rank = Some(Rank::default());
    run.host_name = Some("node7".to_owned());
    run.branch_replays = vec![BranchReplay { burst: 0, records: 1, lost_ps: 1 }];
    run.collector.timed_load_overhead_cycles =
        Some(TimedLoadOverhead { p10: 1, median: 2, p90: 3, mean: None });
    run.host.cpu_groups = vec![CpuGroup { part: CpuPart::Core, cpus: vec![0] }];
    run.host.numa_nodes =
        vec![NumaNode { id: 0, cpus: vec![0], memory_bytes: 1, distances: vec![10] }];
    run.host.memory_slots = vec![MemorySlot::default()];
    run.host.memory_channels = Some(1);
    run.host.dax_devices = vec![DaxDevice::default()];
    run.host.memory_tiers = vec![MemoryTier::default()];
    run.calibration = Some(Calibration {
        bandwidth: vec![BandwidthPoint {
            kernel: "load".to_owned(),
            threads: 1,
            program: metric(),
            bus: metric(),
        }],
        ladder: vec![LatencyPoint { bytes: 1, page_bytes: 1, latency: metric() }],
        effective_caches: vec![EffectiveCache { level: 1, bytes: metric(), latency: metric() }],
        flops: vec![FlopsPoint {
            simd: "sse2".to_owned(),
            precision: "double".to_owned(),
            threads: 1,
            rate: metric(),
        }],
        branch_miss: Some(metric()),
        sample_distances: vec![SampleDistance { kind: "load".to_owned(), percent: vec![metric()] }],
        node_pairs: vec![NodePair {
            from: 0,
            to: 1,
            latency: metric(),
            one_thread: metric(),
            all_threads: metric(),
            threads: 2,
            loaded: vec![LoadedLatency { threads: 2, rate: metric(), latency: metric() }],
        }],
        loaded_latency: vec![LoadedLatency { threads: 2, rate: metric(), latency: metric() }],
        earlier_peaks: vec![EarlierPeak { measured_unix: 1, gb_per_s: 1.0 }],
        ..Calibration::default()
    });
    let kernel = "load".to_owned();
    run.memory_readings = vec![MemoryReading {
        moment: ReadingMoment::After,
        measured_unix: 1,
        took_seconds: 0.0625,
        bytes: 1,
        points: vec![ReadingPoint { kernel, threads: 1, bus: metric(), passes: vec![1.0] }],
    }];
    let (small, large) = (vec![1.0], vec![1.0]);
    run.page_reading = Some(PageReading { small, large, refused: 0, free_large: Some(1) });
    run
}

/// The paths of a value's fields; a metric, and what a field's own words describe, is one field.
fn paths(at: &str, value: &Value, found: &mut BTreeSet<String>) {
    let leaf = ["target", "exit", "runs[].exit", "knobs"].contains(&at);
    match value {
        Value::Object(fields) if !leaf && !fields.contains_key("evidence") => {
            for (name, field) in fields {
                let name = if at == "tables" { "NAME" } else { name };
                let separator = if at.is_empty() { "" } else { "." };
                paths(&format!("{at}{separator}{name}"), field, found);
            }
        }
        Value::Array(items)
            if items
                .first()
                .is_some_and(|item| item.is_object() && item.get("evidence").is_none()) =>
        {
            paths(&format!("{at}[]"), &items[0], found);
        }
        _ => drop(found.insert(at.to_owned())),
    }
}

#[test]
fn the_page_has_the_fields_that_the_program_writes_and_reads() {
    let scratch = Scratch::new("manifest-page");
    let directory = scratch.path().join("r000ma");
    let writer = Writer::create(&directory, &full()).expect("a directory");
    writer.finish(&full()).expect("finish");
    let text = std::fs::read_to_string(directory.join("run.json")).expect("the manifest");
    let mut written = BTreeSet::new();
    paths("", &serde_json::from_str(&text).expect("JSON"), &mut written);

    let section = PAGE.split("\n## run.json\n").nth(1).expect("the section");
    let section = section.split("\n## ").next().expect("its text");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let described: BTreeSet<String> = rows.map(str::to_owned).collect();
    assert_eq!(described, written);

    let read = open(&directory).expect("open").recording.run;
    assert_eq!(read, Run { state: read.state, ..full() });
}
