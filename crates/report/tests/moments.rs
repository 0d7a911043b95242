//! The document `moments` of a recording written by hand: each sample, fault, wait and burst with its time, and sums where there
//! are too many.

use base::CpuId;
use facts::host::NumaNode;
use facts::{CounterKind, FaultKind, Recording, WaitKind};
use report::{Filter, Prepared, moments, stacks};
use serde_json::Value;
use testkit::recording::RecordingBuilder;

fn recording() -> Recording {
    let mut builder = RecordingBuilder::new();
    let program = builder.file("/bin/program");
    let inner = builder.code(program, 16, &[("inner", "a.c", 7)]);
    let main = builder.code(program, 32, &[("main", "a.c", 20)]);
    builder.thread(1, 1, "program", 0.0, 1.0).thread(1, 2, "worker", 0.0, 1.0);
    let deep = builder.stack(&[inner, main]);
    builder.samples(1, 1, deep, 10).kernel_samples(1, 2, deep, 5);
    builder.faults((1, 2), deep, FaultKind::Major, 2, 8, 0.5);
    builder.waits((1, 2), WaitKind::Blocked, (deep, None), (0.25, 0.125), (1, 0.125));
    builder.counter(CounterKind::TaskClock, 15_000_000);
    builder.recording.run.elapsed_ns = 1_000_000_000;
    let mut recording = builder.build();
    recording.samples.iter_mut().for_each(|sample| sample.cpu = Some(CpuId(3)));
    let node = NumaNode { id: 1, cpus: vec![2, 3], memory_bytes: 0, distances: Vec::new() };
    recording.run.host.numa_nodes = vec![node];
    recording
}

fn asked(filters: &[Filter], limit: usize) -> Value {
    let recording = recording();
    let text = moments(&Prepared::new(&recording), filters, Some(limit), "r").expect("a document");
    serde_json::from_str(&text).expect("JSON")
}

fn numbers(list: &Value) -> Vec<i64> {
    list.as_array().expect("a list").iter().map(|one| one.as_i64().expect("a number")).collect()
}

/// Times from differences.
fn times(of: &Value) -> Vec<i64> {
    numbers(&of["time"])
        .iter()
        .scan(0, |now, step| {
            *now += step;
            Some(*now)
        })
        .collect()
}

#[test]
fn each_has_its_time_thread_and_stack() {
    let found = asked(&[], 100);
    let samples = &found["samples"];
    assert_eq!(samples["count"], 15);
    // A sample stands for the millisecond before it.
    assert!(numbers(&samples["length"]).iter().all(|length| *length == 1000));
    assert_eq!(&times(samples)[..3], [0, 1000, 2000]);
    assert_eq!(numbers(&samples["kernel"]).iter().sum::<i64>(), 5);
    let node = numbers(&samples["node"])[0] as usize;
    let function = numbers(&found["nodes"]["function"])[node] as usize;
    assert_eq!(found["functions"]["name"][function], "inner");
    let faults = &found["faults"];
    assert_eq!((numbers(&faults["weight"]), numbers(&faults["major"])), (vec![8, 8], vec![1, 1]));
    let waits = &found["waits"];
    assert_eq!((times(waits), numbers(&waits["length"])), (vec![250_000], vec![125_000]));
    assert_eq!(found["cells"]["amount"], serde_json::json!([]));
}

/// The timeline has its lanes before the moments that fill them.
#[test]
fn stacks_know_the_lanes() {
    let text = stacks(&Prepared::new(&recording()), &[], false, "r").expect("a document");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(found["cpus"], serde_json::json!([{ "cpu": 3, "node": 1 }]));
    assert_eq!(found["over_time"], serde_json::json!([]));
}

#[test]
fn a_span_of_time_has_what_touches_it() {
    let found = asked(&[Filter::Time { start: 0.0025, end: 0.0035 }], 100);
    // Of the ten, those over 2 to 3 and over 3 to 4 ms.
    assert_eq!(found["samples"]["count"], 2);
    assert_eq!(found["faults"]["count"], 0);
}

#[test]
fn too_many_are_sums_that_lose_nothing() {
    let found = asked(&[], 14);
    assert_eq!(
        (&found["samples"]["count"], &found["samples"]["time"]),
        (&15.into(), &serde_json::json!([]))
    );
    // Fifteen samples of a millisecond.
    assert_eq!(numbers(&found["cells"]["amount"]).iter().sum::<i64>(), 15_000_000);
    assert_eq!(found["faults"]["count"], 2);
}
