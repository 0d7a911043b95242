//! An imported recording with samples of eight events of a Zen 4: a gather that waits for memory, on CPU
//! 0, and arithmetic on CPU 1; of what ran once, the CPU is not known.

use base::{CpuId, Nanos, Pid, Tid};
use facts::{
    Analysis, CollectorInfo, CountedEvent, EventSample, EventUse, Privilege, Recording, Run,
    RunState, SamplingMethod, Source, SourceEvent,
};
use testkit::recording::RecordingBuilder;

const PID: i32 = 700;
const PERIOD: u64 = 100_000;
/// Samples of each event in the gather, in the arithmetic, and in a function that ran once.
const SAMPLES: [(&str, [u64; 3]); 8] = [
    ("cycles:u", [300, 100, 1]),
    ("instructions:u", [60, 250, 0]),
    ("de_no_dispatch_per_slot.no_ops_from_frontend", [90, 60, 0]),
    ("de_src_op_disp.all", [81, 400, 0]),
    ("ex_ret_ops", [72, 390, 2]),
    ("de_no_dispatch_per_slot.backend_stalls", [1620, 140, 0]),
    ("ex_no_retire.load_not_complete", [250, 5, 0]),
    ("ex_no_retire.not_complete", [270, 40, 0]),
];

pub fn counted_code() -> Recording {
    let mut builder = RecordingBuilder::new();
    let file = builder.file("/home/user/gather");
    let mut place = |at, function: &str, line| {
        let code = builder.code(file, at, &[(function, "/home/user/gather.c", line)]);
        builder.stack(&[code])
    };
    let stacks =
        [place(0x1100, "gather", 12), place(0x1200, "compute", 30), place(0x1300, "main", 50)];
    builder.thread(PID, PID, "gather", 0.0, 1.0);
    let mut recording = builder.build();
    let mut events = Vec::new();
    for ((name, samples), id) in SAMPLES.into_iter().zip(0..) {
        let name = name.to_owned();
        recording.counted_events.push(CountedEvent {
            id,
            name: name.clone(),
            group: id,
            kernel: false,
            ..CountedEvent::default()
        });
        let used_as = if id == 0 { EventUse::CpuTime } else { EventUse::Counts };
        events.push(SourceEvent { name, samples: samples.iter().sum(), used_as });
        let cpus = [Some(CpuId(0)), Some(CpuId(1)), None];
        for ((stack, cpu), number) in stacks.into_iter().zip(cpus).zip(samples) {
            let sample = |at: u64| EventSample {
                time: Nanos(at * 1000),
                pid: Pid(PID),
                tid: Tid(PID),
                cpu,
                stack,
                privilege: Privilege::User,
                event: id,
                weight: PERIOD,
            };
            recording.event_samples.extend((0..number).map(sample));
        }
    }
    recording.event_samples.sort_by_key(|sample| sample.time);
    recording.run = Run {
        schema: facts::SCHEMA_VERSION,
        fathom_version: "0.1.0".into(),
        state: RunState::Complete,
        analysis: Analysis::Hotspots,
        command: vec!["./gather".into()],
        source: Some(Source { file: "perf.data".into(), tool: "perf 6.1.0".into(), events }),
        elapsed_ns: 1_000_000_000,
        collector: CollectorInfo { method: SamplingMethod::Imported, ..CollectorInfo::default() },
        ..recording.run
    };
    let host = &mut recording.run.host;
    (host.vendor, host.family_model_stepping) = ("AuthenticAMD".into(), "25/17/1".into());
    recording
}
