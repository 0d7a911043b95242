//! A recording with memory objects of every kind, and what its bursts did to them.
//!
//! The code is that of `bursts`: a triad over a heap array, a variable and a mapped file; a list of small nodes, some of
//! which have no record; counters that two threads keep in one line; a spilled register on the stack; a stray pointer.

use base::{
    AllocationId, BlockId, BurstId, Bytes, FileOffset, ModuleId, Nanos, NodeId, Pid, RemoteAddr,
    StackId, Tid,
};
use facts::host::SampleDistance;
use facts::{
    AccessType, Allocation, AllocationCall, Block, Burst, BurstEnd, BurstFlavour, CodePiece,
    CounterKind, FaultKind, GENERAL_REGISTERS, Global, HeapTotal, Metric, Page, Record,
    RecordEncoder, Recording, Records, Region, RegionKind, RegisterEncoder, Release,
    SampleRegisters, SampledCode, SampledPlace, SampledState,
};
use testkit::recording::{BurstRecord, CODE_BASE, RecordingBuilder};

const PID: i32 = 7;
const WORKER: i32 = 8;
const MIB: u64 = 1 << 20;

const ARRAY: u64 = 0x7f00_0000_0000;
const FILE: u64 = 0x7f10_0000_0000;
const GRID: u64 = 0x60_0000;
const COUNTERS: u64 = GRID + 64 * MIB;
const HEAP: u64 = 0x1000_0000;
const STACK: u64 = 0x7ffc_0000_0000;
const NODES: u64 = 100;
const LIST: &[u8] = b"\x48\x8b\x00\x48\xff\xc9\x75\xf8";

/// The blocks of its code.
struct Code {
    triad: BlockId,
    list: BlockId,
    count: BlockId,
}

/// Everything.
pub fn objects() -> Recording {
    let mut b = RecordingBuilder::new();
    b.recording.run = super::run(&["./tree", "input.bin"]);
    let app = b.file("/home/user/tree");
    let code = code(&mut b, app);
    memory(&mut b, app);
    for number in 0..20u64 {
        let worker = number % 2 == 1;
        let mut records: Vec<BurstRecord> = Vec::new();
        if !worker {
            let start = number * 100_000;
            let arrays = [start, ARRAY, GRID, FILE, start + 20_000];
            records.push((code.triad, 20_000, arrays.to_vec()));
        }
        for visit in 0..300u64 {
            let node = (visit * 37 + number * 11) % NODES;
            records.push((code.list, 1, vec![HEAP + node * 128]));
            // Between the nodes with a record lie others.
            records.push((code.list, 1, vec![HEAP + node * 128 + 64]));
            records.push((code.count, 1, vec![COUNTERS + 8 * (number % 2)]));
        }
        records.push((code.list, 1, vec![STACK + 0x1000]));
        records.push((code.list, 1, vec![0xdead_0000]));
        b.burst(PID, if worker { WORKER } else { PID }, &records);
    }
    timed(&mut b, app);
    b.thread(PID, PID, "tree", 0.0, 2.0).thread(PID, WORKER, "worker", 0.0, 2.0);
    b.recording.run.elapsed_ns = 2_000_000_000;
    b.recording.run.host.tsc_hz = Some(1e9);
    b.counter(CounterKind::TaskClock, 1_000_000_000);
    b.build()
}

/// The same, with who touched which memory first: its first thread the array, the list and the variables, its second one the file.
pub fn touched() -> Recording {
    let mut b = RecordingBuilder::new();
    b.recording = objects();
    b.rewind(0.0).samples(PID, PID, None, 1000).rewind(0.0).samples(PID, WORKER, None, 1000);
    let mut recording = b.build();
    for (tid, start) in [(PID, ARRAY), (WORKER, FILE), (PID, GRID), (PID, COUNTERS), (PID, HEAP)] {
        recording.faults.push(facts::Fault {
            time: Nanos(0),
            pid: Pid(PID),
            tid: Tid(tid),
            address: RemoteAddr(start),
            stack: None,
            weight: 1,
            kind: FaultKind::Minor,
        });
    }
    recording
}

/// The same, with clock samples that have registers: behind the triad's loads of the array and the variable, behind the list's
/// load, which lost its address, and at the triad's branch.
pub fn waited() -> Recording {
    const FRESH: [u64; GENERAL_REGISTERS] = [0; GENERAL_REGISTERS];
    let mut b = RecordingBuilder::new();
    b.recording = objects();
    let app = ModuleId(0);
    let mut encoder = RegisterEncoder::default();
    // rax, rdx, rsi, rdi.
    for (offset, count, values) in [
        (0x1005, 600, [5_000, ARRAY, GRID, FILE]),
        (0x100e, 200, [5_000, ARRAY, GRID, FILE]),
        (0x101a, 40, [5_000, ARRAY, GRID, FILE]),
        (0x3003, 160, [HEAP + 128, 0, 0, 0]),
    ] {
        let at = b.unnamed(app, offset);
        let stack = b.stack(&[at]);
        let first = b.recording.samples.len();
        b.samples(PID, PID, stack, count);
        let place = SampledPlace {
            module: app,
            offset: FileOffset(offset),
            address: RemoteAddr(CODE_BASE + offset),
            registers: u16::MAX,
            slots: Vec::new(),
            frame: facts::SampledFrame::Own,
        };
        let mut registers = FRESH;
        [0, 2, 6, 7].into_iter().zip(values).for_each(|(number, value)| registers[number] = value);
        let (registers, slots, cpu_time) = (&registers, &[][..], None);
        for sample in &b.recording.samples[first..] {
            let (time, place) = (sample.time, &place);
            encoder.push(&SampledState { time, cpu_time, place, registers, slots });
        }
    }
    let calibration = b.recording.run.calibration.get_or_insert_default();
    let percent = |value| Metric::counted(value, "percent");
    calibration.sample_distances = ["load", "load-op", "store", "division"]
        .map(|kind| SampleDistance {
            kind: kind.to_owned(),
            percent: [0.0, 95.0, 1.0, 0.0].map(percent).to_vec(),
        })
        .to_vec();
    b.recording.sample_registers.push(SampleRegisters {
        time: Nanos(0),
        pid: Pid(PID),
        tid: Tid(PID),
        samples: encoder.samples(),
        bytes: encoder.finish(),
    });
    let blocks: Vec<CodePiece> =
        b.recording.blocks.iter().flat_map(|block| block.pieces.clone()).collect();
    for piece in blocks.iter().filter(|piece| [0x1000, 0x3000].contains(&piece.offset.0)) {
        let (offset, bytes) = (piece.offset, piece.bytes.clone());
        if b.recording.sampled_code.iter().all(|code| code.offset != offset) {
            b.recording.sampled_code.push(SampledCode { module: app, offset, bytes });
        }
    }
    b.build()
}

fn code(b: &mut RecordingBuilder, app: ModuleId) -> Code {
    let file = "/home/user/tree.c";
    for offset in [0x1000, 0x1005, 0x1009, 0x100e] {
        b.code(app, offset, &[("blend", file, 61)]);
    }
    b.code(app, 0x3000, &[("walk", file, 90)]);
    b.code(app, 0x5000, &[("count", file, 97)]);
    let triad = b.block(
        PID,
        app,
        0x1000,
        b"\xf2\x0f\x10\x04\xc2\xf2\x0f\x59\xc1\xf2\x0f\x58\x04\xc6\xf2\x0f\x11\x04\xc7\x48\x83\xc0\x01\x48\x39\xc8\x75\xe4",
        "words 6; values rax@0:1 rdx@0:2 rsi@0:3 rdi@0:4; ways 7; loop rax 1..5 +1; advanced 0 0 0 0 0 1 1",
    );
    let list = b.block(PID, app, 0x3000, LIST, "words 2; values rax@0:1; ways 3");
    // inc qword [rdi]; dec rcx; jne
    let count = b"\x48\xff\x07\x48\xff\xc9\x75\xf8";
    let count = b.block(PID, app, 0x5000, count, "words 2; values rdi@0:1; ways 3");
    b.recording.access_types.push(AccessType {
        module: app,
        offset: FileOffset(0x3000),
        access: 0,
        variable: Some("list".into()),
        type_name: "struct node".into(),
        type_bytes: Bytes(64),
        field: Some("next".into()),
        field_offset: Bytes(0),
        field_bytes: Bytes(8),
    });
    Code { triad, list, count }
}

/// A block of the heap; the time is 1 ms times its number.
fn block(
    b: &mut RecordingBuilder,
    address: u64,
    size: u64,
    stack: Option<StackId>,
) -> AllocationId {
    let id = AllocationId(b.recording.allocations.len() as u32);
    b.recording.allocations.push(Allocation {
        id,
        time: Nanos(u64::from(id.0)),
        pid: Pid(PID),
        tid: Tid(PID),
        address: RemoteAddr(address),
        size: Bytes(size),
        call: AllocationCall::Malloc,
        stack,
        sample_every: Bytes(0),
    });
    id
}

fn region(b: &mut RecordingBuilder, kind: RegionKind, name: &str, start: u64, bytes: u64) {
    b.recording.regions.push(Region {
        time: Nanos(0),
        pid: Pid(PID),
        tid: (kind == RegionKind::Stack).then_some(Tid(PID)),
        start: RemoteAddr(start),
        bytes: Bytes(bytes),
        kind,
        name: name.into(),
        file_offset: FileOffset(0),
        page: None,
        stack: None,
    });
}

fn memory(b: &mut RecordingBuilder, app: ModuleId) {
    let file = "/home/user/tree.c";
    let libc = b.file("/usr/lib/libc.so.6");
    let main = b.code(app, 0x900, &[("main", file, 110)]);
    let make = b.code(app, 0x950, &[("make_node", file, 21)]);
    let wrapper = b.code(app, 0x980, &[("xmalloc", "/home/user/util.c", 5)]);
    let inside = b.unnamed(libc, 0x10);
    let of_array = b.stack(&[inside, wrapper, main]);
    // The array's place in the address space was somebody else's before.
    let before = block(b, ARRAY, 4 * MIB, None);
    b.recording.releases.push(Release {
        time: Nanos(1),
        allocation: before,
        tid: Tid(PID),
        stack: None,
    });
    block(b, ARRAY, 64 * MIB, of_array);
    let of_node = b.stack(&[make, main]);
    for node in 0..NODES {
        block(b, HEAP + node * 128, 64, of_node);
    }
    b.recording.heap_totals.push(HeapTotal { pid: Pid(PID), ..HeapTotal::default() });
    region(b, RegionKind::Break, "[heap]", HEAP, MIB);
    region(b, RegionKind::File, "/data/input.bin", FILE, 64 * MIB);
    region(b, RegionKind::Stack, "[stack]", STACK, 8 * MIB);
    for (name, start, bytes) in [("grid", GRID, 64 * MIB), ("counters", COUNTERS, 16)] {
        b.recording.globals.push(Global {
            time: Nanos(0),
            pid: Pid(PID),
            module: app,
            start: RemoteAddr(start),
            bytes: Bytes(bytes),
            name: name.into(),
        });
    }
    pages(b);
    let walk = b.unnamed(app, 0x3000);
    let stack = b.stack(&[walk]);
    b.faults((PID, PID), stack, FaultKind::Minor, 4, 1, 0.1);
    b.recording.faults[0].address = RemoteAddr(HEAP);
}

/// Two looks: of the array three quarters are in huge pages at the second, every other page on node 1; the nodes of the list
/// lie in small pages on node 0; of the file the kernel tells no node.
fn pages(b: &mut RecordingBuilder) {
    let mut page = |time, address, stands_for, huge, node: Option<u32>| {
        b.recording.pages.push(Page {
            time: Nanos(time),
            pid: Pid(PID),
            address: RemoteAddr(address),
            stands_for: Bytes(stands_for),
            huge: Some(huge),
            node: node.map(NodeId),
        });
    };
    for (time, in_huge) in [(40_000_000, 0), (1_300_000_000, 24)] {
        for number in 0..32 {
            let node = Some(u32::from(number % 2 == 1));
            page(time, ARRAY + number * 2 * MIB, 2 * MIB, number < in_huge, node);
        }
        page(time, HEAP, 4096, false, Some(0));
    }
    page(1_300_000_000, FILE, 64 * MIB, false, None);
}

/// Loads of nodes, 300 cycles each, and of nodes without a record, 40.
fn timed(b: &mut RecordingBuilder, app: ModuleId) {
    let block = BlockId(b.recording.blocks.len() as u32);
    b.recording.blocks.push(Block {
        id: block,
        pid: Pid(PID),
        flavour: BurstFlavour::Timed,
        pieces: vec![CodePiece {
            address: RemoteAddr(CODE_BASE + 0x3000),
            module: app,
            offset: FileOffset(0x3000),
            bytes: LIST.to_vec(),
        }],
        record: "words 3; values rax@0:1; ways 3; timed 0 2".into(),
    });
    let id = BurstId(b.recording.bursts.len() as u32);
    let mut encoder = RecordEncoder::new();
    for number in 0..80u64 {
        let (address, cycles) = if number % 2 == 0 {
            (HEAP + number * 128, 300u64)
        } else {
            (HEAP + number * 128 - 64, 40)
        };
        let values = [address, cycles << 32];
        encoder.push(&Record { block, way: 0, iterations: 1, values: &values });
    }
    b.recording.records.push(Records { burst: id, bytes: encoder.finish() });
    b.recording.bursts.push(Burst {
        id,
        time: Nanos(1_950_000_000),
        pid: Pid(PID),
        tid: Tid(PID),
        flavour: BurstFlavour::Timed,
        end: BurstEnd::Time,
        elapsed: Nanos(3_000_000),
        cpu_time: Some(Nanos(3_000_000)),
        stand_still: Nanos(70_000),
        stops: 2,
        fs_base: RemoteAddr(0),
        records: 80,
        records_lost: false,
        entries: None,
        in_calls: None,
        faults: None,
        answers: None,
    });
}

/// The same, with what the hardware said next to the bursts: as many loads as they, fewer from memory, and slower ones.
pub fn checked() -> Recording {
    let mut recording = objects();
    let mut count = |name: &str, socket: Option<u32>, count: u64| {
        let id = recording.counted_events.len() as u32;
        recording.counted_events.push(facts::CountedEvent {
            id,
            name: name.to_owned(),
            group: id,
            socket,
            bytes_per_thousand: socket.map(|_| 64_000),
            ..facts::CountedEvent::default()
        });
        for step in 1..=10 {
            recording.event_counts.push(facts::EventCount {
                time: Nanos(step * 200_000_000),
                event: id,
                count: count / 10,
                enabled: Nanos(200_000_000),
                running: Nanos(if socket.is_some() { 200_000_000 } else { 100_000_000 }),
            });
        }
    };
    count("cycles", None, 3_000_000_000);
    count("ref-cycles", None, 2_000_000_000);
    count("mem_inst_retired.all_loads", None, 100_000_000);
    count("mem_load_retired.l3_miss", None, 1_000_000);
    count("memory reads", Some(0), 1_000_000);
    count("memory writes", Some(0), 500_000);
    recording.memory_samples = super::sampled().memory_samples;
    for sample in &mut recording.memory_samples {
        (sample.pid, sample.tid, sample.stack) = (Pid(PID), Tid(PID), None);
    }
    recording
}
