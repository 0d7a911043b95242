//! One test per invariant: a sound recording with exactly one thing broken.

use base::{
    AllocationId, BlockId, BurstId, Bytes, CodeAddress, CpuId, FileOffset, ModuleId, Nanos, NodeId,
    Picos, Pid, RemoteAddr, StackId, Tid,
};
use facts::host::{MemoryReading, PageReading, ReadingMoment, ReadingPoint};
use facts::{
    AccessKind, AccessType, Allocation, AllocationCall, Assignment, Block, BranchLoop,
    BranchResolution, Burst, BurstEnd, BurstFlavour, BurstRefused, CodePath, CodePiece,
    Concurrency, CountedEvent, Counter, CounterKind, DataSource, EventCount, EventSample, ExitKind,
    Fault, FaultKind, Frame, HeapFree, HeapLifetime, HeapStack, HeapTotal, IterationTime,
    KernelCause, KernelEntry, Lost, LostSource, Mapping, Mark, MarkKind, MarkedLength, MarkedPass,
    MarkedRegion, MemorySample, Module, ModuleKind, NativeAdvance, NativeCount, NoMissOutcome,
    NoMissTime, NoReloadTime, OneRun, Page, Privilege, Record, RecordEncoder, Records, Region,
    RegionEnd, RegionKind, Release, Run, RunState, SCHEMA_VERSION, Sample, SizeClass, StackNode,
    ThreadEvent, ThreadEventKind, ThreadTime, Translation, Wait, WaitKind, Wake, Waker,
    WordAdvance,
};

use super::registers::sound::{code, piece};
use super::*;

fn node(id: u32, parent: Option<u32>) -> StackNode {
    StackNode {
        id: StackId(id),
        parent: parent.map(StackId),
        module: ModuleId(0),
        offset: FileOffset(16),
        truncated: false,
    }
}

fn sample(time: u64) -> Sample {
    Sample {
        time: Nanos(time),
        pid: Pid(7),
        tid: Tid(7),
        cpu: Some(CpuId(0)),
        weight: Nanos(1000),
        stack: Some(StackId(1)),
        privilege: Privilege::User,
    }
}

fn fault(time: u64, kind: FaultKind) -> Fault {
    Fault {
        time: Nanos(time),
        pid: Pid(7),
        tid: Tid(7),
        address: RemoteAddr(0x1000),
        stack: None,
        weight: 1,
        kind,
    }
}

fn mapping(start: u64, end: u64) -> Mapping {
    Mapping {
        time: Nanos(0),
        pid: Pid(7),
        start: RemoteAddr(start),
        end: RemoteAddr(end),
        file_offset: FileOffset(0),
        module: ModuleId(0),
    }
}

fn thread(time: u64, kind: ThreadEventKind) -> ThreadEvent {
    ThreadEvent { time: Nanos(time), pid: Pid(7), tid: Tid(7), kind, name: String::new() }
}

fn frame(depth: u32) -> Frame {
    Frame {
        module: ModuleId(0),
        offset: FileOffset(16),
        depth,
        function: "main".to_owned(),
        file: None,
        line: None,
        inlined: false,
    }
}

fn block(id: u32) -> Block {
    let piece = CodePiece {
        address: RemoteAddr(16),
        module: ModuleId(0),
        offset: FileOffset(16),
        bytes: vec![0xc3],
    };
    Block {
        id: BlockId(id),
        pid: Pid(7),
        flavour: BurstFlavour::Trace,
        pieces: vec![piece],
        record: "words 2; values rdi@0:1; ways 1".to_owned(),
    }
}

fn burst(id: u32, records: u64) -> Burst {
    Burst {
        id: BurstId(id),
        time: Nanos(10),
        pid: Pid(7),
        tid: Tid(7),
        flavour: BurstFlavour::Trace,
        end: BurstEnd::Time,
        elapsed: Nanos(10),
        cpu_time: Some(Nanos(9)),
        stand_still: Nanos(1),
        stops: 2,
        fs_base: RemoteAddr(0),
        records,
        records_lost: false,
        entries: None,
        in_calls: None,
        faults: None,
        answers: None,
    }
}

fn records(burst: u32, blocks: &[u32]) -> Records {
    let mut encoder = RecordEncoder::new();
    for &block in blocks {
        encoder.push(&Record { block: BlockId(block), way: 0, iterations: 1, values: &[1] });
    }
    Records { burst: BurstId(burst), bytes: encoder.finish() }
}

fn sound() -> Recording {
    let mut run = Run {
        schema: SCHEMA_VERSION,
        state: RunState::Complete,
        elapsed_ns: 10_000,
        ..Run::default()
    };
    run.collector.sampling_period_ns = 1000;
    Recording {
        run,
        modules: vec![Module {
            id: ModuleId(0),
            kind: ModuleKind::File,
            path: "/bin/true".to_owned(),
            build_id: None,
        }],
        mappings: vec![mapping(0, 10), mapping(10, 20)],
        stack_nodes: vec![node(0, None), node(1, Some(0))],
        samples: vec![sample(1000), sample(2000)],
        faults: vec![fault(500, FaultKind::Minor), fault(600, FaultKind::Major)],
        thread_events: vec![thread(0, ThreadEventKind::Start), thread(9000, ThreadEventKind::Exit)],
        lost: vec![Lost { time: Nanos(1), source: LostSource::Samples, count: 1 }],
        counters: vec![
            Counter { kind: CounterKind::TaskClock, value: 2000 },
            Counter { kind: CounterKind::MinorFaults, value: 1 },
            Counter { kind: CounterKind::MajorFaults, value: 1 },
        ],
        gauges: vec![],
        frames: vec![frame(0), frame(1)],
        blocks: vec![block(0), block(4), Block { flavour: BurstFlavour::Count, ..block(5) }],
        bursts: vec![
            burst(0, 3),
            Burst { records_lost: true, ..burst(2, 9) },
            Burst { flavour: BurstFlavour::Count, ..burst(3, 0) },
        ],
        records: vec![records(0, &[0, 4]), records(0, &[0])],
        burst_refusals: vec![BurstRefused {
            time: Nanos(20),
            pid: Pid(7),
            tid: Tid(7),
            at: Some(CodeAddress::new(ModuleId(0), FileOffset(1))),
            reason: "jit code".to_owned(),
        }],
        no_miss_times: vec![no_miss(0, 3)],
        no_reload_times: vec![no_reload_time(0, 1)],
        native_counts: vec![NativeCount {
            burst: BurstId(3),
            block: BlockId(5),
            executions: 2,
            time: Nanos(8),
            offset: Some(0),
        }],
        word_advances: vec![WordAdvance {
            burst: BurstId(3),
            address: RemoteAddr(0x7000),
            inside: 3,
            natively: 5,
            cpu_time: Nanos(7),
        }],
        native_advances: vec![NativeAdvance {
            burst: BurstId(0),
            register: "rdi".to_owned(),
            cpu_time: Nanos(5),
            inside: 64,
            natively: 128,
        }],
        sample_registers: vec![piece(0, 1000)],
        sampled_code: vec![code(0, 16), code(0, 20)],
        allocations: vec![heap_block(0, 100), heap_block(2, 300)],
        releases: vec![release(2, 400)],
        heap_totals: vec![HeapTotal {
            pid: Pid(7),
            allocations: 3,
            allocated: Bytes(30),
            frees: Some(1),
            freed: Some(Bytes(10)),
            ..HeapTotal::default()
        }],
        size_classes: vec![class(7, 2), class(15, 1)],
        regions: vec![region(4096)],
        region_ends: vec![RegionEnd {
            time: Nanos(50),
            pid: Pid(7),
            start: RemoteAddr(0x1000),
            bytes: Bytes(1),
        }],
        globals: vec![],
        access_types: vec![typed(8)],
        assignments: vec![Assignment {
            module: ModuleId(0),
            file: "a.c".to_owned(),
            line: 3,
            variable: "cells".to_owned(),
        }],
        waits: vec![wait(100, 30)],
        thread_times: vec![ThreadTime {
            time: Nanos(0),
            span: Nanos(1000),
            pid: Pid(7),
            tid: Tid(7),
            running: Nanos(900),
            queued: Some(Nanos(7)),
        }],
        concurrency: vec![concurrency(0, 100), concurrency(1, 900)],
        wait_objects: vec![],
        kernel_entries: vec![entry(3, 100)],
        heap_stacks: vec![heap_sum(1)],
        heap_frees: vec![heap_free(0)],
        wakes: vec![wake(1)],
        pages: vec![drawn_page(4096)],
        heap_lifetimes: vec![heap_lifetime(1)],
        memory_samples: vec![access(700), access(800)],
        branch_loops: vec![branch_loop()],
        counted_events: vec![CountedEvent::default()],
        event_counts: vec![event_count(700)],
        marks: vec![mark(5, MarkKind::Mark, "here"), mark(9, MarkKind::Pause, "")],
        marked_regions: vec![MarkedRegion::default()],
        marked_passes: vec![MarkedPass {
            span: Nanos(9),
            inside: Nanos(9),
            ..MarkedPass::default()
        }],
        marked_lengths: vec![MarkedLength { passes: 1, ..MarkedLength::default() }],
        event_samples: vec![event_sample(700); 2],
    }
}

fn mark(time: u64, kind: MarkKind, name: &str) -> Mark {
    Mark { time: Nanos(time), kind, name: name.to_owned(), pid: None }
}

fn event_count(time: u64) -> EventCount {
    EventCount { time: Nanos(time), enabled: Nanos(3), running: Nanos(2), ..EventCount::default() }
}

fn event_sample(time: u64) -> EventSample {
    let MemorySample { pid, tid, cpu, stack, privilege, event, weight, .. } = access(time);
    EventSample { time: Nanos(time), pid, tid, cpu, stack, privilege, event, weight }
}

fn branch_loop() -> BranchLoop {
    let (branch, head) = (Some(StackId(1)), Some(StackId(0)));
    BranchLoop { branch, head, taken: 5, stacks: 2, decided: 3, starts: 1, ..BranchLoop::default() }
}

fn access(time: u64) -> MemorySample {
    MemorySample {
        time: Nanos(time),
        pid: Pid(7),
        tid: Tid(7),
        cpu: None,
        stack: Some(StackId(1)),
        privilege: Privilege::User,
        event: 0,
        weight: 1000,
        access: AccessKind::Load,
        address: Some(RemoteAddr(0x1000)),
        latency: Some(70),
        instruction_latency: None,
        from: Some(DataSource::L2),
        snoop: None,
        translation: Some(Translation::Walk),
        locked: None,
        page: Some(Bytes(4096)),
    }
}

fn heap_block(id: u32, time: u64) -> Allocation {
    Allocation {
        id: AllocationId(id),
        time: Nanos(time),
        pid: Pid(7),
        tid: Tid(7),
        address: RemoteAddr(0x1000),
        size: Bytes(10),
        call: AllocationCall::Malloc,
        stack: Some(StackId(1)),
        sample_every: Bytes(0),
    }
}

fn region(bytes: u64) -> Region {
    Region {
        time: Nanos(40),
        pid: Pid(7),
        tid: None,
        start: RemoteAddr(0x1000),
        bytes: Bytes(bytes),
        kind: RegionKind::Anonymous,
        name: String::new(),
        file_offset: FileOffset(0),
        page: None,
        stack: Some(StackId(0)),
    }
}

/// Proper up to 1 free.
fn heap_sum(frees: u64) -> HeapStack {
    HeapStack {
        time: Nanos(60),
        pid: Pid(7),
        stack: Some(StackId(0)),
        call: AllocationCall::Malloc,
        allocations: 1,
        allocated: Bytes(8),
        frees,
        freed: Bytes(8 * frees),
        temporary: 1,
        lifetime: Nanos(5),
        largest: Bytes(8),
        at_peak: Bytes(8),
    }
}

fn drawn_page(stands_for: u64) -> Page {
    Page {
        time: Nanos(60),
        pid: Pid(7),
        address: RemoteAddr(0x1000),
        stands_for: Bytes(stands_for),
        huge: None,
        node: Some(NodeId(1)),
    }
}

/// Proper with 1 free.
fn heap_lifetime(frees: u64) -> HeapLifetime {
    HeapLifetime {
        time: Nanos(60),
        pid: Pid(7),
        stack: Some(StackId(0)),
        call: AllocationCall::Malloc,
        longest: Nanos(7),
        frees,
        freed: Bytes(8),
        temporary: 1,
    }
}

fn heap_free(free_stack: u32) -> HeapFree {
    HeapFree {
        time: Nanos(60),
        pid: Pid(7),
        stack: Some(StackId(0)),
        free_stack: Some(StackId(free_stack)),
        frees: 1,
        freed: Bytes(8),
    }
}

/// Proper up to a `field_offset` of 8.
fn typed(field_offset: u64) -> AccessType {
    AccessType {
        module: ModuleId(0),
        offset: FileOffset(16),
        access: 0,
        variable: None,
        type_name: "node".to_owned(),
        type_bytes: Bytes(16),
        field: Some("next".to_owned()),
        field_offset: Bytes(field_offset),
        field_bytes: Bytes(8),
    }
}

fn wait(time: u64, waited: u64) -> Wait {
    let waited = Nanos(waited);
    Wait {
        time: Nanos(time),
        span: waited,
        pid: Pid(7),
        tid: Tid(7),
        kind: WaitKind::Blocked,
        waits: 1,
        waited,
        object: Some(RemoteAddr(0x1000)),
        stack: Some(StackId(1)),
    }
}

fn wake(stack: u32) -> Wake {
    let Wait { time, span, pid, tid, object, stack: waited_at, waited, .. } = wait(100, 30);
    let waker = Some(Waker { pid, tid, stack: Some(StackId(stack)) });
    Wake { time, span, pid, tid, object, stack: waited_at, waker, wakes: 1, waited, seen: 1 }
}

fn concurrency(running: u32, duration: u64) -> Concurrency {
    Concurrency { time: Nanos(0), span: Nanos(1000), running, duration: Nanos(duration) }
}

fn entry(count: u64, own: u64) -> KernelEntry {
    KernelEntry {
        time: Nanos(500),
        length: Nanos(100),
        pid: Pid(7),
        tid: Tid(7),
        cpu: None,
        cause: KernelCause::SystemCall,
        name: "read".to_owned(),
        count,
        own: Some(Nanos(own)),
        waited: Nanos(0),
    }
}

fn release(id: u32, time: u64) -> Release {
    Release { time: Nanos(time), allocation: AllocationId(id), tid: Tid(7), stack: None }
}

fn class(largest: u64, allocations: u64) -> SizeClass {
    let allocated = Bytes(10 * allocations);
    SizeClass { pid: Pid(7), largest: Bytes(largest), allocations, allocated }
}

/// `median` is proper from 2 to 5.
fn no_miss(block: u32, median: u64) -> NoMissTime {
    let [low, median, high] = [2, median, 5].map(Picos);
    let outcome = NoMissOutcome::Measured(IterationTime { repetitions: 9, median, low, high });
    NoMissTime { block: BlockId(block), path: None, iterations: 64, outcome, resolution: None }
}

/// `median` is proper up to 3.
fn no_reload_time(block: u32, median: u64) -> NoReloadTime {
    let [low, median, high] = [1, median, 3].map(Picos);
    NoReloadTime { block: BlockId(block), repetitions: 9, median, low, high }
}

/// Names of the invariants that a recording breaks.
fn broken(recording: &Recording) -> Vec<&'static str> {
    let subject = Subject { recording, problems: &[], leftovers: &[] };
    check(&subject).iter().map(|violation| violation.invariant).collect()
}

/// A name and what breaks that invariant alone.
type Break = (&'static str, fn(&mut Recording));

const BREAKS: &[Break] = &[
    ("schema-known", |r| r.run.schema = 0),
    ("module-ids-dense", |r| {
        r.modules.push(Module { id: ModuleId(5), ..r.modules[0].clone() });
    }),
    ("stack-ids-dense", |r| r.stack_nodes.push(node(5, None))),
    ("parents-first", |r| r.stack_nodes[0].parent = Some(StackId(1))),
    ("truncated-outermost", |r| r.stack_nodes[1].truncated = true),
    ("modules-exist", |r| r.stack_nodes[0].module = ModuleId(1)),
    ("modules-exist", |r| r.mappings[0].module = ModuleId(1)),
    ("modules-exist", |r| {
        r.frames = vec![Frame { module: ModuleId(1), ..frame(0) }];
    }),
    ("stacks-exist", |r| r.samples[0].stack = Some(StackId(2))),
    ("stacks-exist", |r| r.faults[0].stack = Some(StackId(2))),
    ("times-within-run", |r| r.samples[1].time = Nanos(10_001)),
    ("times-within-run", |r| r.lost[0].time = Nanos(10_001)),
    ("sorted-by-time", |r| r.samples.swap(0, 1)),
    ("sorted-by-time", |r| r.faults.swap(0, 1)),
    ("weights-positive", |r| r.samples[0].weight = Nanos(0)),
    ("weights-positive", |r| r.faults[0].weight = 0),
    ("weights-positive", |r| r.memory_samples[0].weight = 0),
    ("sorted-by-time", |r| r.memory_samples.swap(0, 1)),
    ("stacks-exist", |r| r.memory_samples[0].stack = Some(StackId(2))),
    ("times-within-run", |r| r.memory_samples[1].time = Nanos(10_001)),
    ("memory-samples-proper", |r| r.memory_samples[0].page = Some(Bytes(4095))),
    ("event-counts-proper", |r| r.counted_events[0].id = 1),
    ("event-counts-proper", |r| r.event_counts[0].event = 1),
    ("event-counts-proper", |r| r.event_counts[0].running = Nanos(4)),
    ("times-within-run", |r| r.event_counts[0].time = Nanos(10_001)),
    ("event-counts-proper", |r| r.event_samples[0].event = 1),
    ("stacks-exist", |r| r.event_samples[0].stack = Some(StackId(9))),
    ("weights-positive", |r| r.event_samples[0].weight = 0),
    ("sorted-by-time", |r| r.event_samples[0].time = Nanos(701)),
    ("marks-proper", |r| r.marks[1].name.push('x')),
    ("marks-proper", |r| r.marks[0].name.clear()),
    ("times-within-run", |r| r.marks[1].time = Nanos(10_001)),
    ("times-within-run", |r| r.marked_passes[0].span = Nanos(10_001)),
    ("marked-regions-proper", |r| r.marked_regions[0].id = 1),
    ("marked-regions-proper", |r| r.marked_passes[0].region = 1),
    ("marked-regions-proper", |r| r.marked_passes[0].own = Nanos(10)),
    ("marked-regions-proper", |r| r.marked_passes[0].span = Nanos(8)),
    ("marked-regions-proper", |r| r.marked_lengths[0].region = 1),
    ("marked-regions-proper", |r| r.marked_lengths[0].least = Nanos(1)),
    ("marked-regions-proper", |r| r.marked_lengths[0].passes = 0),
    ("branch-loops-proper", |r| r.branch_loops[0].starts = 4),
    ("branch-loops-proper", |r| r.branch_loops[0].stacks = 0),
    ("stacks-exist", |r| r.branch_loops[0].head = Some(StackId(2))),
    ("memory-samples-proper", |r| r.run.source = Some(facts::Source::default())),
    ("mappings-proper", |r| r.mappings[0].end = RemoteAddr(0)),
    ("mappings-apart", |r| r.mappings[0].end = RemoteAddr(11)),
    ("threads-in-order", |r| r.thread_events[1].kind = ThreadEventKind::Start),
    ("threads-in-order", |r| r.thread_events[0].kind = ThreadEventKind::Rename),
    ("counters-once", |r| r.counters.push(r.counters[0])),
    ("losses-counted", |r| r.lost[0].count = 0),
    ("thinning-noted", |r| r.lost[0].source = LostSource::Thinned),
    ("weights-within-cpu-time", |r| r.samples[0].weight = Nanos(9000)),
    ("runs-in-order", |r| {
        let start_ns = r.run.elapsed_ns + 1;
        let (elapsed_ns, exit) = (None, ExitKind::Unknown);
        r.run.runs = vec![OneRun { pid: 1, start_ns, elapsed_ns, exit }];
    }),
    ("readings-proper", |r| {
        let bus = facts::Metric::counted(-1.0, "GB/s");
        let kernel = "load".to_owned();
        r.run.memory_readings = vec![MemoryReading {
            moment: ReadingMoment::After,
            measured_unix: 1,
            took_seconds: 0.06,
            bytes: 1 << 28,
            points: vec![ReadingPoint { kernel, threads: 1, bus, passes: Vec::new() }],
        }];
    }),
    ("page-reading-proper", |r| {
        let (small, large) = (vec![700.0], vec![4e6, -1.0]);
        r.run.page_reading = Some(PageReading { small, large, refused: 0, free_large: None });
    }),
    ("page-reading-proper", |r| {
        let (small, large) = (Vec::new(), vec![4e6]);
        r.run.page_reading = Some(PageReading { small, large, refused: 2, free_large: Some(0) });
    }),
    ("faults-within-count", |r| {
        r.faults = (0..4).map(|time| fault(time, FaultKind::Minor)).collect();
    }),
    ("frames-once", |r| r.frames.push(frame(1))),
    ("frames-once", |r| r.frames[1].depth = 2),
    ("modules-exist", |r| r.blocks[0].pieces[0].module = ModuleId(1)),
    ("modules-exist", |r| {
        r.burst_refusals[0].at = Some(CodeAddress::new(ModuleId(1), FileOffset(0)))
    }),
    ("times-within-run", |r| r.bursts[0].time = Nanos(10_001)),
    ("times-within-run", |r| r.burst_refusals[0].time = Nanos(10_001)),
    ("burst-ids-once", |r| r.blocks.push(block(4))),
    ("burst-ids-once", |r| r.bursts.push(burst(2, 0))),
    ("blocks-proper", |r| r.blocks[0].pieces.clear()),
    ("blocks-proper", |r| r.blocks[0].pieces[0].bytes.clear()),
    ("blocks-proper", |r| r.blocks[0].record = "nonsense".to_owned()),
    ("records-fit", |r| r.blocks[0].record = "words 3; ways 1".to_owned()),
    ("records-decode", |r| {
        r.records[1].bytes.push(0x80);
    }),
    ("records-known", |r| r.records.push(records(1, &[0]))),
    ("records-known", |r| r.records[1] = records(0, &[3])),
    ("records-known", |r| r.blocks[0].pid = Pid(8)),
    ("records-known", |r| r.blocks[1].flavour = BurstFlavour::Count),
    ("registers-proper", |r| r.sample_registers[0].samples = 3),
    ("registers-proper", |r| r.sample_registers[0].time = Nanos(1001)),
    ("registers-proper", |r| r.sample_registers[0].bytes.push(0x80)),
    ("registers-proper", |r| r.sample_registers[0] = piece(1, 1000)),
    ("registers-proper", |r| r.sample_registers[0] = piece(0, 10_000)),
    ("registers-proper", |r| r.sample_registers[0] = piece(0, u64::MAX)),
    ("sampled-code-proper", |r| r.sampled_code[1] = code(0, 19)),
    ("sampled-code-proper", |r| r.sampled_code[1] = code(1, 20)),
    ("sampled-code-proper", |r| r.sampled_code[0].bytes.clear()),
    ("bursts-proper", |r| r.bursts[0].entries = Some(2)),
    ("bursts-proper", |r| r.bursts[0].in_calls = Some(Nanos(11))),
    ("native-counts-known", |r| r.native_counts[0].burst = BurstId(0)),
    ("native-counts-known", |r| r.native_counts[0].block = BlockId(4)),
    ("native-counts-known", |r| r.native_counts[0].offset = Some(1)),
    ("word-advances-known", |r| r.word_advances[0].burst = BurstId(0)),
    ("advances-known", |r| r.native_advances[0].burst = BurstId(1)),
    ("records-counted", |r| r.bursts[0].records = 4),
    ("records-counted", |r| r.bursts[0].records_lost = true),
    ("records-counted", |r| r.records.push(records(2, &[0]))),
    ("no-miss-times-proper", |r| r.no_miss_times.push(no_miss(0, 4))),
    ("no-miss-times-proper", |r| r.no_miss_times[0].block = BlockId(9)),
    ("no-miss-times-proper", |r| r.no_miss_times[0].iterations = 0),
    ("no-miss-times-proper", |r| {
        let none = BranchResolution { blocks: 0, time: Picos(0) };
        r.no_miss_times[0].resolution = Some(none);
    }),
    ("no-miss-times-proper", |r| r.no_miss_times[0] = no_miss(0, 6)),
    ("no-miss-times-proper", |r| r.no_reload_times.push(no_reload_time(0, 1))),
    ("no-miss-times-proper", |r| r.no_reload_times[0] = no_reload_time(4, 1)),
    ("no-miss-times-proper", |r| r.no_reload_times[0] = no_reload_time(0, 4)),
    ("no-miss-times-proper", |r| {
        r.no_miss_times[0].path = Some(CodePath { burst: BurstId(0), instructions: 0 });
    }),
    ("stacks-exist", |r| r.allocations[0].stack = Some(StackId(2))),
    ("stacks-exist", |r| r.releases[0].stack = Some(StackId(2))),
    ("times-within-run", |r| r.allocations[0].time = Nanos(10_001)),
    ("times-within-run", |r| r.releases[0].time = Nanos(10_001)),
    ("allocation-ids-once", |r| r.allocations.push(heap_block(0, 500))),
    ("releases-known", |r| r.releases.push(release(1, 500))),
    ("releases-known", |r| r.releases.push(release(2, 500))),
    ("releases-known", |r| r.releases[0].time = Nanos(299)),
    ("heap-adds-up", |r| r.size_classes[0].allocated = Bytes(21)),
    ("heap-adds-up", |r| r.heap_totals[0].freed = Some(Bytes(31))),
    ("stacks-exist", |r| r.regions[0].stack = Some(StackId(2))),
    ("times-within-run", |r| r.region_ends[0].time = Nanos(10_001)),
    ("modules-exist", |r| r.access_types[0].module = ModuleId(1)),
    ("modules-exist", |r| r.assignments[0].module = ModuleId(1)),
    ("ranges-proper", |r| r.regions[0].bytes = Bytes(0)),
    ("ranges-proper", |r| r.region_ends[0].bytes = Bytes(u64::MAX)),
    ("types-proper", |r| r.access_types[0] = typed(9)),
    ("types-proper", |r| r.access_types.push(typed(0))),
    ("stacks-exist", |r| r.waits[0].stack = Some(StackId(2))),
    ("times-within-run", |r| r.waits[0].time = Nanos(9_971)),
    ("waits-proper", |r| r.waits[0].waits = 0),
    ("waits-proper", |r| r.waits[0].waited = Nanos(131)),
    ("stacks-exist", |r| r.wakes[0] = wake(2)),
    ("times-within-run", |r| r.wakes[0].time = Nanos(9_971)),
    ("wakes-proper", |r| r.wakes[0].wakes = 0),
    ("wakes-proper", |r| r.wakes[0].seen = 0),
    ("windows-add-up", |r| r.thread_times[0].running = Nanos(1001)),
    ("windows-add-up", |r| r.concurrency[0].duration = Nanos(99)),
    ("kernel-entries-proper", |r| r.kernel_entries.push(entry(0, 0))),
    ("kernel-entries-proper", |r| r.kernel_entries[0].length = Nanos(0)),
    ("kernel-entries-proper", |r| r.kernel_entries[0].length = Nanos(501)),
    ("times-within-run", |r| r.kernel_entries[0].time = Nanos(10_001)),
    ("stacks-exist", |r| r.heap_stacks[0].stack = Some(StackId(2))),
    ("stacks-exist", |r| r.heap_frees[0] = heap_free(2)),
    ("times-within-run", |r| r.heap_stacks[0].time = Nanos(10_001)),
    ("heap-sums-proper", |r| r.heap_stacks.push(HeapStack { allocations: 0, ..heap_sum(1) })),
    ("heap-sums-proper", |r| r.heap_stacks[0] = heap_sum(0)),
    ("ranges-proper", |r| r.pages[0] = drawn_page(0)),
    ("times-within-run", |r| r.pages[0].time = Nanos(10_001)),
    ("heap-sums-proper", |r| r.heap_lifetimes[0] = heap_lifetime(2)),
    ("stacks-exist", |r| r.heap_lifetimes[0].stack = Some(StackId(2))),
];

#[test]
fn a_sound_recording_breaks_nothing() {
    assert_eq!(broken(&sound()), Vec::<&str>::new());
}

#[test]
fn each_break_is_reported_by_its_name_alone() {
    for (name, damage) in BREAKS {
        let mut recording = sound();
        damage(&mut recording);
        assert_eq!(broken(&recording), [*name]);
    }
}

#[test]
fn every_invariant_has_a_test_that_breaks_it() {
    // The two about files are broken in tests/hostile.rs (torn and changed files) and below.
    for invariant in INVARIANTS.iter().filter(|invariant| !invariant.name.starts_with("files-")) {
        let tested = BREAKS.iter().any(|(name, _)| *name == invariant.name);
        assert!(tested, "nothing breaks {}: {}", invariant.name, invariant.says);
    }
}

#[test]
fn files_are_part_of_the_answer() {
    let recording = sound();
    let problems = [
        Problem::Changed { file: "samples.parquet".to_owned(), what: "1 byte".to_owned() },
        Problem::Incomplete { milliseconds: 1 },
    ];
    let leftovers = ["journal.fathom".to_owned()];
    let violations =
        check(&Subject { recording: &recording, problems: &problems, leftovers: &leftovers });
    let reported: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert_eq!(
        reported,
        [
            "files-whole: samples.parquet was changed after it was written (1 byte): its figures cannot be trusted",
            "files-expected: journal.fathom should not be there",
        ]
    );
}

#[test]
fn a_thread_id_may_be_used_again() {
    let mut recording = sound();
    recording.thread_events.push(thread(9500, ThreadEventKind::Start));
    recording.thread_events.push(thread(9600, ThreadEventKind::Exit));
    assert_eq!(broken(&recording), Vec::<&str>::new());
}

/// The note with its subject, and as it was before it had one; not any that has the word.
#[test]
fn thinning_is_noted_by_its_subject() {
    let mut recording = sound();
    recording.lost[0].source = LostSource::Thinned;
    let limit = facts::NoteSubject::SizeLimit.note("one of every 2 samples was kept");
    for note in [limit, "samples were thinned out to keep the result".to_owned()] {
        recording.run.notes = vec![note];
        assert_eq!(broken(&recording), [""; 0]);
    }
    recording.run.notes = vec!["counted events: thinned, no PMU".to_owned()];
    assert_eq!(broken(&recording), ["thinning-noted"]);
}

#[test]
fn many_places_are_summed_up() {
    let mut recording = sound();
    recording.lost = vec![Lost { time: Nanos(1), source: LostSource::Events, count: 0 }; 100];
    let subject = Subject { recording: &recording, problems: &[], leftovers: &[] };
    let detail = check(&subject).remove(0).detail;
    assert!(detail.ends_with("Events at 1 ns; and 95 more"), "{detail}");
}

#[test]
fn the_format_document_lists_every_tag_invariant_and_column() {
    let document = include_str!("../../../docs/format/result-directory.md");
    for invariant in INVARIANTS {
        let line = format!("| `{}` | {} |", invariant.name, invariant.says);
        assert!(document.contains(&line), "missing: {line}");
    }
    let tags = crate::Table::ALL.map(|table| format!("{} {}", table as u8, table.name()));
    let tags = format!("tag: {}", tags.join(", "));
    let document_in_one_line = document.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(document_in_one_line.contains(&tags), "missing: {tags}");
    let count = format!("one table per kind of fact, {} in all", crate::Table::ALL.len());
    assert_eq!(document.matches(&count).count(), 1, "{count}");
    let sections = document.lines().filter(|line| line.starts_with("**"));
    assert_eq!(sections.count(), crate::Table::ALL.len(), "each table has one section");
    assert!(document.contains(&format!("\n* **{}**: ", facts::SCHEMA_VERSION)));
    for table in crate::Table::ALL {
        let start = document.find(&format!("**{}**:", table.name())).expect("a section");
        let section = &document[start..];
        let section = &section[..section[2..].find("\n**").unwrap_or(section.len() - 2)];
        for column in table.columns() {
            assert!(
                section.contains(&format!("`{}`", column.name)),
                "{}: {column:?}",
                table.name()
            );
            let crate::ColumnKind::Word(words) = column.kind else { continue };
            for word in words {
                assert!(section.contains(&format!("`{word}`")), "{}: {word}", table.name());
            }
        }
    }
}
