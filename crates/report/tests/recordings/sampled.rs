//! An imported recording with memory accesses that the hardware sampled: a gather over a table, and two counters in one line.

use base::{Bytes, Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{
    AccessKind, Analysis, BranchLoop, CollectorInfo, DataSource, EventUse, Global, MemorySample,
    NoteSubject, Privilege, Recording, Run, RunState, SamplingMethod, Snoop, Source, SourceEvent,
    Translation,
};
use testkit::recording::RecordingBuilder;

const PID: i32 = 700;
const TABLE: u64 = 0x60_0000;
const COUNTERS: u64 = 0x90_0000;

/// Who, where, at which address, what, how long, from where.
struct Access {
    tid: i32,
    stack: Option<StackId>,
    address: u64,
    access: AccessKind,
    latency: Option<u32>,
    from: DataSource,
    snoop: Snoop,
}

fn sample((number, one): (u64, Access)) -> MemorySample {
    MemorySample {
        time: Nanos(number * 1_000_000),
        pid: Pid(PID),
        tid: Tid(one.tid),
        cpu: None,
        stack: one.stack,
        privilege: Privilege::User,
        event: u32::from(one.access == AccessKind::Store),
        weight: 1000,
        access: one.access,
        address: Some(RemoteAddr(one.address)),
        latency: one.latency,
        instruction_latency: None,
        from: Some(one.from),
        snoop: Some(one.snoop),
        translation: Some(match number % 5 {
            0 => Translation::Walk,
            _ => Translation::Hit,
        }),
        locked: Some(false),
        page: None,
    }
}

/// 300 loads of the table by one thread: half from L1, the rest from L3, memory of both nodes and another socket's cache; 100
/// increments of two counters by two threads, of which one in four loads meets the other's modified line.
pub fn sampled() -> Recording {
    let mut builder = RecordingBuilder::new();
    let file = builder.file("/home/user/gather");
    let gather = builder.code(file, 0x1100, &[("gather", "/home/user/gather.c", 12)]);
    let count = builder.code(file, 0x1200, &[("count_up", "/home/user/gather.c", 30)]);
    let main = builder.code(file, 0x1300, &[("main", "/home/user/gather.c", 50)]);
    let (gather, count) = (builder.stack(&[gather, main]), builder.stack(&[count, main]));
    for (tid, name) in [(PID, "gather"), (PID + 1, "counter")] {
        builder.thread(PID, tid, name, 0.0, 1.0);
    }
    let mut recording = builder.build();
    let sources = [
        (DataSource::L1, 6),
        (DataSource::L3, 60),
        (DataSource::L1, 7),
        (DataSource::Dram, 300),
        (DataSource::L1, 6),
        (DataSource::RemoteDram, 500),
        (DataSource::L1, 8),
        (DataSource::L3, 70),
        (DataSource::L1, 6),
        (DataSource::RemoteCache, 400),
    ];
    let loads = (0..300_u64).map(|number| {
        let (from, latency) = sources[(number % 10) as usize];
        Access {
            tid: PID,
            stack: gather,
            address: TABLE + number * 4096,
            access: AccessKind::Load,
            latency: Some(latency),
            from,
            snoop: Snoop::None,
        }
    });
    let counters = (0..100_u64).map(|number| {
        let other = number % 2;
        let reads = number % 4 < 2;
        Access {
            tid: PID + other as i32,
            stack: count,
            address: COUNTERS + 8 * other,
            access: if reads { AccessKind::Load } else { AccessKind::Store },
            latency: reads.then_some(90),
            from: DataSource::L3,
            snoop: if number % 8 < 2 { Snoop::Modified } else { Snoop::Hit },
        }
    });
    recording.branch_loops = vec![BranchLoop {
        pid: Pid(PID),
        branch: gather,
        head: gather,
        taken: 900,
        stacks: 100,
        decided: 800,
        starts: 200,
        decided_squares: 6800,
        products: 1700,
        starts_squares: 500,
    }];
    recording.memory_samples = (0..).zip(loads.chain(counters)).map(sample).collect();
    let global = |name: &str, start, bytes| Global {
        time: Nanos(0),
        pid: Pid(PID),
        module: file,
        start: RemoteAddr(start),
        bytes: Bytes(bytes),
        name: name.to_owned(),
    };
    recording.globals = vec![global("table", TABLE, 1 << 21), global("counters", COUNTERS, 64)];
    let event = |name: &str, samples| SourceEvent {
        name: name.to_owned(),
        samples,
        used_as: EventUse::MemoryAccesses,
    };
    recording.run = Run {
        schema: facts::SCHEMA_VERSION,
        fathom_version: "0.1.0".into(),
        state: RunState::Complete,
        analysis: Analysis::Hotspots,
        command: vec!["./gather".into()],
        source: Some(Source {
            file: "perf.data".into(),
            tool: "perf 6.1.0".into(),
            events: vec![
                event("cpu/mem-loads,ldlat=5/P", 350),
                event("cpu/mem-stores/P", 50),
            ],
        }),
        elapsed_ns: 1_000_000_000,
        collector: CollectorInfo { method: SamplingMethod::Imported, ..CollectorInfo::default() },
        notes: vec![
            NoteSubject::SampledLoads.note(
                "cpu/mem-loads,ldlat=5/P has only loads that took 5 cycles or more: shares and latencies are of these",
            ),
        ],
        ..recording.run
    };
    recording
}
