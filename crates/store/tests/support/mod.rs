//! Recordings made up for tests and the benchmark: deterministic, shaped like real ones.
#![allow(dead_code, reason = "each test program uses its part of this")]

use std::path::{Path, PathBuf};

use base::{
    AllocationId, BlockId, BurstId, Bytes, CodeAddress, CpuId, FileOffset, ModuleId, Nanos, NodeId,
    Picos, Pid, RemoteAddr, StackId, Tid,
};
use facts::host::{Cache, CacheKind, Calibration};
use facts::{
    AccessKind, AccessType, Allocation, AllocationCall, Assignment, Block, BranchLoop,
    BranchResolution, Burst, BurstEnd, BurstFlavour, BurstRefused, CodePiece, Concurrency,
    CountedEvent, Counter, CounterKind, DataSource, EventCount, EventSample, ExitKind, Fact, Fault,
    FaultKind, Frame, Gauge, GaugeKind, Global, HeapFree, HeapLifetime, HeapStack, HeapTotal,
    IterationTime, KernelCause, KernelEntry, Lost, LostSource, Mapping, Mark, MarkKind,
    MarkedLength, MarkedPass, MarkedRegion, MemorySample, Metric, Module, ModuleKind,
    NativeAdvance, NativeCount, NoMissOutcome, NoMissTime, NoReloadTime, Page, Privilege, Record,
    RecordEncoder, Recording, Records, Region, RegionEnd, RegionKind, Release, ResourceUse, Run,
    Sample, SizeClass, Snoop, StackNode, Target, ThreadEvent, ThreadEventKind, ThreadTime,
    Translation, Wait, WaitKind, WaitObject, Wake, Waker, WordAdvance,
};

/// What a made-up recording holds.
#[derive(Clone, Copy)]
pub struct Shape {
    pub seconds: u64,
    pub threads: u64,
    pub stack_nodes: u32,
    pub faults: u64,
}

pub const SMALL: Shape = Shape { seconds: 1, threads: 2, stack_nodes: 60, faults: 200 };

/// A directory that is removed at the end of a test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("fathom-store-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a scratch directory");
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Numbers without a pattern (Knuth's MMIX linear congruential generator).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }
}

const PID: Pid = Pid(4100);
const PID_TID: Tid = Tid(4100);

pub fn run(shape: Shape) -> Run {
    let mut run = Run {
        schema: facts::SCHEMA_VERSION,
        fathom_version: "0.1.0".to_owned(),
        command: vec!["triad".to_owned(), "--size".to_owned(), "1000000".to_owned()],
        working_directory: "/home/user/triad".to_owned(),
        elapsed_ns: shape.seconds * 1_000_000_000,
        target: Some(Target::Launched { pid: PID.0 }),
        exit: Some(ExitKind::Code(3)),
        stopped_by: Some("duration".to_owned()),
        resource_use: Some(ResourceUse { user_ns: u64::MAX, ..ResourceUse::default() }),
        knobs: [("sampling-interval".to_owned(), "1".to_owned())].into(),
        ..Run::default()
    };
    run.collector.sampling_period_ns = 1_000_000;
    run.host.cpu = "Test CPU \"quoted\"".to_owned();
    run.host.tsc_hz = Some(2.1e9 / 3.0);
    run.host.huge_pages.pools = vec![(2 << 20, 10, 4)];
    run.host.caches = vec![Cache {
        level: 1,
        kind: CacheKind::Data,
        bytes: 48 << 10,
        line_bytes: 64,
        ways: Some(12),
        shared_by: 2,
        instances: 1,
    }];
    run.calibration = Some(Calibration {
        dram_bandwidth_peak: Some(Metric::unavailable("GB/s", "not measured")),
        flops_peak: Some(Metric::counted(0.1, "GFLOP/s")),
        ..Calibration::default()
    });
    run
}

/// All facts of a recording, in the order in which a collector finds them.
pub fn facts(shape: Shape) -> Vec<Fact> {
    let mut numbers = Numbers(1);
    let mut facts = program_start(shape);
    let stacks = stacks(shape, &mut numbers);
    let frames = frames(&stacks);
    facts.extend(stacks);
    facts.extend(samples_and_faults(shape, &mut numbers));
    facts.extend(bursts(shape));
    facts.extend(heap());
    facts.extend(objects());
    facts.extend(threading());
    facts.extend(kernel_entries());
    facts.extend(heap_sums());
    facts.extend(accesses());
    facts.extend(program_end(shape));
    facts.extend(frames);
    facts
}

fn program_start(shape: Shape) -> Vec<Fact> {
    let module = |id: u32, kind, path: &str, build_id: Option<&str>| {
        Fact::Module(Module {
            id: ModuleId(id),
            kind,
            path: path.to_owned(),
            build_id: build_id.map(str::to_owned),
        })
    };
    let mapping = |start: u64, module| {
        Fact::Mapping(Mapping {
            time: Nanos(0),
            pid: PID,
            start: RemoteAddr(start),
            end: RemoteAddr(start + 0x20_0000),
            file_offset: FileOffset(0x1000),
            module: ModuleId(module),
        })
    };
    let mut facts = vec![
        module(0, ModuleKind::Kernel, "[kernel]", None),
        module(1, ModuleKind::File, "/home/user/triad/triad", Some("8c5b0f6e3a")),
        module(2, ModuleKind::File, "/usr/lib/x86_64-linux-gnu/libc.so.6", Some("00ffee")),
        module(3, ModuleKind::Anonymous { pid: PID }, "[anon]", None),
        mapping(0x5555_5555_0000, 1),
        mapping(0x7f00_0000_0000, 2),
    ];
    facts.extend((0..shape.threads).map(|thread| thread_event(thread, 0, ThreadEventKind::Start)));
    facts
}

fn thread_event(thread: u64, time: u64, kind: ThreadEventKind) -> Fact {
    let name =
        if kind == ThreadEventKind::Exit { String::new() } else { format!("worker {thread}") };
    Fact::ThreadEvent(ThreadEvent { time: Nanos(time), pid: PID, tid: tid(thread), kind, name })
}

fn tid(thread: u64) -> Tid {
    Tid(PID.0 + i32::try_from(thread).expect("few threads"))
}

fn stacks(shape: Shape, numbers: &mut Numbers) -> Vec<Fact> {
    (0..shape.stack_nodes)
        .map(|id| {
            let parent = (id > 0).then(|| StackId(numbers.below(u64::from(id)) as u32));
            Fact::StackNode(StackNode {
                id: StackId(id),
                parent,
                module: ModuleId(numbers.below(4) as u32),
                offset: FileOffset(0x1000 + numbers.below(1 << 20)),
                truncated: id == 0,
            })
        })
        .collect()
}

/// One sample per millisecond and thread, with the jitter of a real clock; found in batches per CPU, so that
/// their order is off by up to 20 ms.
fn samples_and_faults(shape: Shape, numbers: &mut Numbers) -> Vec<Fact> {
    let mut facts = Vec::new();
    let period = 1_000_000;
    let faults_every = (shape.seconds * 1000 * shape.threads / shape.faults.max(1)).max(1);
    let mut produced = 0;
    for batch in 0..shape.seconds * 50 {
        for thread in 0..shape.threads {
            for tick in 0..20 {
                let time = (batch * 20 + tick) * period + numbers.below(40_000);
                facts.push(Fact::Sample(sample(thread, time, shape, numbers)));
                produced += 1;
                if produced % faults_every == 0 {
                    facts.push(Fact::Fault(fault(thread, time + 500, produced, shape, numbers)));
                }
            }
        }
        if batch % 5 == 0 {
            facts.push(Fact::Gauge(Gauge {
                time: Nanos(batch * 20 * period),
                pid: PID,
                kind: GaugeKind::ResidentBytes,
                value: 4096 * (1000 + batch),
            }));
        }
    }
    facts
}

fn sample(thread: u64, time: u64, shape: Shape, numbers: &mut Numbers) -> Sample {
    // Few stacks are hot: the square of a uniform number.
    let place = numbers.below(1000) * numbers.below(1000) / 1000;
    let stack = u64::from(shape.stack_nodes) * place / 1000;
    Sample {
        time: Nanos(time),
        pid: PID,
        tid: tid(thread),
        cpu: Some(CpuId(((thread + time / 1_000_000_000) % 16) as u32)),
        weight: Nanos(1_000_000),
        stack: (numbers.below(500) != 0).then_some(StackId(stack as u32)),
        privilege: if numbers.below(12) == 0 { Privilege::Kernel } else { Privilege::User },
    }
}

fn fault(thread: u64, time: u64, number: u64, shape: Shape, numbers: &mut Numbers) -> Fault {
    Fault {
        time: Nanos(time),
        pid: PID,
        tid: tid(thread),
        address: RemoteAddr(0x7fff_0000_0000 + number * 4096 + numbers.below(4096)),
        stack: Some(StackId(numbers.below(u64::from(shape.stack_nodes)) as u32)),
        weight: 1,
        kind: if numbers.below(50) == 0 { FaultKind::Major } else { FaultKind::Minor },
    }
}

const BLOCKS: u32 = 3;

/// Two bursts a second and one refused; the records of every second burst come before it.
fn bursts(shape: Shape) -> Vec<Fact> {
    let mut facts: Vec<Fact> = (0..BLOCKS).map(|id| Fact::Block(block(id))).collect();
    for number in 0..2 * shape.seconds as u32 {
        let (burst, records) = burst_with_records(number, 50);
        let burst = Fact::Burst(burst);
        facts.extend(if number.is_multiple_of(2) { [burst, records] } else { [records, burst] });
    }
    facts.push(Fact::BurstRefused(BurstRefused {
        time: Nanos(5_000_000),
        pid: PID,
        tid: PID_TID,
        at: Some(CodeAddress::new(ModuleId(3), FileOffset(0x7f11_0000_1234))),
        reason: "jit code".to_owned(),
    }));
    facts.push(Fact::BurstRefused(BurstRefused {
        time: Nanos(6_000_000),
        pid: PID,
        tid: PID_TID,
        at: None,
        reason: "gs in use".to_owned(),
    }));
    let time = [900, 880, 1000].map(Picos);
    let time = IterationTime { repetitions: 128, median: time[0], low: time[1], high: time[2] };
    for (block, outcome) in [
        (0, NoMissOutcome::Measured(time)),
        (2, NoMissOutcome::Refused("bypasses the caches on purpose".to_owned())),
    ] {
        let block = BlockId(block);
        let resolution = Some(BranchResolution { blocks: 1, time: Picos(7) });
        let (path, iterations) = (None, 64);
        facts.push(Fact::NoMissTime(NoMissTime { block, path, iterations, outcome, resolution }));
    }
    let [median, low, high] = [450, 440, 470].map(Picos);
    let kept = NoReloadTime { block: BlockId(0), repetitions: 128, median, low, high };
    facts.push(Fact::NoReloadTime(kept));
    let counted = Block { flavour: BurstFlavour::Count, ..block(BLOCKS) };
    facts.push(Fact::Block(counted));
    let number = 2 * shape.seconds as u32;
    let (last, _) = burst_with_records(number.saturating_sub(1), 0);
    let burst = BurstId(number);
    let window = Burst { id: burst, flavour: BurstFlavour::Count, records: 0, ..last };
    facts.push(Fact::Burst(window));
    facts.push(Fact::NativeCount(NativeCount {
        burst,
        block: BlockId(BLOCKS),
        executions: 12,
        time: Nanos(2_000_123),
        offset: Some(3),
    }));
    facts.push(Fact::WordAdvance(WordAdvance {
        burst,
        address: RemoteAddr(0x7fff_1234_5678),
        inside: 24,
        natively: 1u64.wrapping_neg(),
        cpu_time: Nanos(21_000_345),
    }));
    facts.push(Fact::NativeAdvance(NativeAdvance {
        burst: BurstId(0),
        register: "rdi".to_owned(),
        cpu_time: Nanos(1_100_000),
        inside: 64 << 20,
        natively: 24u64.wrapping_neg(),
    }));
    facts
}

/// Windows of 10 ms in each of which a thread ran for a while, waited and was preempted.
fn threading() -> Vec<Fact> {
    let mut facts = Vec::new();
    let (pid, tid, span) = (PID, PID_TID, Nanos(10_000_000));
    for window in 0..20 {
        let time = Nanos(window * span.0);
        let wait = Wait {
            time,
            span,
            pid,
            tid,
            kind: WaitKind::Blocked,
            waits: 7,
            waited: Nanos(3_000_000 + window),
            object: Some(RemoteAddr(0x5555_5560_0040)),
            stack: Some(StackId(1)),
        };
        facts.push(Fact::Wait(wait));
        let waker = (window % 3 > 0).then_some(Waker { pid, tid: Tid(8), stack: wait.stack });
        let (object, stack, waited) = (wait.object, wait.stack, wait.waited);
        let wakes = window + 1;
        let wake = Wake { time, span, pid, tid, object, stack, waker, wakes, waited, seen: 1 };
        facts.push(Fact::Wake(wake));
        let (kind, object, stack) = (WaitKind::Preempted, None, None);
        facts.push(Fact::Wait(Wait { kind, object, stack, waits: 1, waited: Nanos(5), ..wait }));
        let queued = window.is_multiple_of(4).then_some(Nanos(90_000 * window));
        let running = Nanos(6_000_000);
        facts.push(Fact::ThreadTime(ThreadTime { time, span, pid, tid, running, queued }));
        for (running, duration) in [(0, Nanos(4_000_000)), (1, Nanos(6_000_000))] {
            facts.push(Fact::Concurrency(Concurrency { time, span, running, duration }));
        }
    }
    let (name, module) = ("table+0x28".to_owned(), "/usr/bin/solver".to_owned());
    let address = RemoteAddr(0x5555_5560_0040);
    facts.push(Fact::WaitObject(WaitObject { pid, address, name, module }));
    facts
}

/// Some recorded heap blocks, half of them freed, and a total.
fn heap() -> Vec<Fact> {
    let mut facts = Vec::new();
    let calls = [
        AllocationCall::Malloc,
        AllocationCall::Calloc,
        AllocationCall::Realloc,
        AllocationCall::Aligned,
    ];
    for id in 0..40 {
        facts.push(Fact::Allocation(Allocation {
            id: AllocationId(id),
            time: Nanos(u64::from(id) * 1_000_000),
            pid: PID,
            tid: PID_TID,
            address: RemoteAddr(0x5555_5600_0000 + 48 * u64::from(id)),
            size: Bytes(40),
            call: calls[id as usize % calls.len()],
            stack: (!id.is_multiple_of(3)).then_some(StackId(id % 2)),
            sample_every: Bytes(if id.is_multiple_of(2) { 0 } else { 512 << 10 }),
        }));
        if id.is_multiple_of(2) {
            facts.push(Fact::Release(Release {
                time: Nanos(u64::from(id) * 1_000_000 + 17),
                allocation: AllocationId(id),
                tid: PID_TID,
                stack: id.is_multiple_of(4).then_some(StackId(1)),
            }));
        }
    }
    let (allocations, allocated) = (1000, Bytes(40_000));
    facts.push(Fact::HeapTotal(HeapTotal {
        pid: PID,
        allocations,
        allocated,
        frees: Some(980),
        freed: Some(Bytes(39_200)),
        inherited: Bytes(0),
        peak: Some(Bytes(1200)),
        peak_doubt: Bytes(32),
        unknown_frees: 1,
        forgotten: 0,
    }));
    facts.push(Fact::SizeClass(SizeClass { pid: PID, largest: Bytes(63), allocations, allocated }));
    facts
}

/// What a call chain asked for, in two rows, who freed it, and how long it lived.
fn heap_sums() -> Vec<Fact> {
    let (pid, stack) = (PID, Some(StackId(0)));
    let sum = |time, frees| {
        Fact::HeapStack(HeapStack {
            time: Nanos(time),
            pid,
            stack,
            call: AllocationCall::Calloc,
            allocations: 2,
            allocated: Bytes(2 << 40),
            frees,
            freed: Bytes(frees << 40),
            temporary: 1,
            lifetime: Nanos(77),
            largest: Bytes(1 << 40),
            at_peak: Bytes(1 << 40),
        })
    };
    let (frees, freed) = (3, Bytes(3 << 40));
    let free = HeapFree { time: Nanos(7_000), pid, stack, free_stack: None, frees, freed };
    let lived = HeapLifetime {
        time: Nanos(7_000),
        pid,
        stack,
        call: AllocationCall::Calloc,
        longest: Nanos(63),
        frees,
        freed,
        temporary: 2,
    };
    vec![sum(6_000, 1), sum(7_000, 2), Fact::HeapFree(free), Fact::HeapLifetime(lived)]
}

/// A region with a name and one without, its end, a variable, two accesses, two pages.
fn objects() -> Vec<Fact> {
    let (pid, time, start) = (PID, Nanos(5_000), RemoteAddr(0x7f00_0000_0000));
    let region = Region {
        time,
        pid,
        tid: Some(PID_TID),
        start,
        bytes: Bytes(1 << 21),
        kind: RegionKind::Huge,
        name: String::new(),
        file_offset: FileOffset(0),
        page: Some(Bytes(1 << 21)),
        stack: Some(StackId(0)),
    };
    let (kind, name) = (RegionKind::Break, "[heap]".to_owned());
    let heap = Region { tid: None, kind, name, page: None, stack: None, ..region.clone() };
    let typed = AccessType {
        module: ModuleId(1),
        offset: FileOffset(0x1234),
        access: 0,
        variable: Some("list".to_owned()),
        type_name: "node".to_owned(),
        type_bytes: Bytes(64),
        field: Some("next".to_owned()),
        field_offset: Bytes(8),
        field_bytes: Bytes(8),
    };
    let whole = AccessType { access: 1, variable: None, field: None, ..typed.clone() };
    let (address, stands_for) = (start, Bytes(12_288));
    let page = Page { time, pid, address, stands_for, huge: Some(true), node: None };
    vec![
        Fact::Region(region),
        Fact::Region(heap),
        Fact::RegionEnd(RegionEnd { time: Nanos(9_000), pid, start, bytes: Bytes(4096) }),
        Fact::Global(Global {
            time,
            pid,
            module: ModuleId(1),
            start,
            bytes: Bytes(80),
            name: "table".to_owned(),
        }),
        Fact::AccessType(typed),
        Fact::AccessType(whole),
        Fact::Assignment(Assignment {
            module: ModuleId(1),
            file: "/src/tree.c".to_owned(),
            line: 42,
            variable: "tree->root".to_owned(),
        }),
        Fact::Page(page),
        Fact::Page(Page {
            address: RemoteAddr(start.0 + 4096),
            huge: None,
            node: Some(NodeId(1)),
            ..page
        }),
    ]
}

/// One with everything known, and one with nothing but its kind.
fn accesses() -> Vec<Fact> {
    let known = MemorySample {
        time: Nanos(3_000),
        pid: PID,
        tid: PID_TID,
        cpu: Some(CpuId(3)),
        stack: Some(StackId(0)),
        privilege: Privilege::User,
        event: 1,
        weight: 10_009,
        access: AccessKind::LoadStore,
        address: Some(RemoteAddr(u64::MAX)),
        latency: Some(u32::MAX),
        instruction_latency: Some(0),
        from: Some(DataSource::RemoteDram),
        snoop: Some(Snoop::Modified),
        translation: Some(Translation::Walk),
        locked: Some(true),
        page: Some(Bytes(2 << 20)),
    };
    let unknown = MemorySample {
        time: Nanos(2_000),
        cpu: None,
        stack: None,
        access: AccessKind::Store,
        address: None,
        latency: None,
        instruction_latency: None,
        from: None,
        snoop: None,
        translation: None,
        locked: None,
        page: None,
        ..known
    };
    let looped = BranchLoop {
        pid: PID,
        branch: Some(StackId(0)),
        taken: u64::MAX,
        stacks: 7,
        decided: 5,
        ..BranchLoop::default()
    };
    let event =
        CountedEvent { name: "MEM_LOAD_RETIRED.L1_HIT".to_owned(), ..CountedEvent::default() };
    let count = EventCount {
        time: known.time,
        count: u64::MAX,
        enabled: Nanos(5),
        ..EventCount::default()
    };
    let MemorySample { time, pid, tid, cpu, stack, privilege, weight, .. } = known;
    let sampled = EventSample { time, pid, tid, cpu, stack, privilege, event: 0, weight };
    vec![
        Fact::EventSample(sampled),
        Fact::EventSample(EventSample { cpu: None, stack: None, ..sampled }),
        Fact::MemorySample(known),
        Fact::MemorySample(unknown),
        Fact::BranchLoop(looped),
        Fact::CountedEvent(event),
        Fact::EventCount(count),
        Fact::Mark(Mark { time: known.time, name: "warm".to_owned(), ..Mark::default() }),
        Fact::Mark(Mark {
            time: known.time,
            kind: MarkKind::Resume,
            pid: Some(PID),
            ..Mark::default()
        }),
        Fact::MarkedRegion(MarkedRegion { name: "solve".to_owned(), ..MarkedRegion::default() }),
        Fact::MarkedPass(MarkedPass { span: Nanos(7), passes: 1, ..MarkedPass::default() }),
        Fact::MarkedLength(MarkedLength { pid: PID, passes: u64::MAX, ..MarkedLength::default() }),
    ]
}

/// One of each cause, with and without a CPU and a time.
fn kernel_entries() -> Vec<Fact> {
    let entry = |(number, cause): (u64, KernelCause)| {
        Fact::KernelEntry(KernelEntry {
            time: Nanos(100_000_000 * (number + 1)),
            length: Nanos(100_000_000),
            pid: PID,
            tid: PID_TID,
            cpu: (number % 2 == 0).then_some(CpuId(number as u32)),
            cause,
            name: cause.name().to_owned(),
            count: number + 1,
            own: (number % 3 == 0).then_some(Nanos(1000 * number)),
            waited: Nanos(7 * number),
        })
    };
    (0..).zip(KernelCause::ALL).map(entry).collect()
}

fn block(id: u32) -> Block {
    let piece = |number: u64| CodePiece {
        address: RemoteAddr(0x5555_5555_0000 + number),
        module: ModuleId(1),
        offset: FileOffset(0x1000 + number),
        bytes: vec![0x90; 3 + id as usize],
    };
    Block {
        id: BlockId(id),
        pid: PID,
        flavour: BurstFlavour::Trace,
        pieces: (0..u64::from(id) + 1).map(|number| piece(64 * number)).collect(),
        record: "words 3; values rdi@0:1 rsi@0:2; ways 1".to_owned(),
    }
}

/// A burst of `count` records, two values each.
pub fn burst_with_records(number: u32, count: u64) -> (Burst, Fact) {
    let mut numbers = Numbers(u64::from(number));
    let mut encoder = RecordEncoder::new();
    for record in 0..count {
        let values = [0x7f00_0000_0000 + record * 8, numbers.below(1 << 30)];
        let block = BlockId(numbers.below(u64::from(BLOCKS)) as u32);
        encoder.push(&Record { block, way: 0, iterations: 1 + record % 2, values: &values });
    }
    let burst = Burst {
        id: BurstId(number),
        time: Nanos(u64::from(number) * 500_000_000 + 1),
        pid: PID,
        tid: PID_TID,
        flavour: BurstFlavour::Trace,
        end: if number.is_multiple_of(3) { BurstEnd::Full } else { BurstEnd::Time },
        elapsed: Nanos(3_000_000),
        cpu_time: (!number.is_multiple_of(4)).then_some(Nanos(2_900_000)),
        stand_still: Nanos(70_000),
        stops: 2,
        fs_base: RemoteAddr(0x7f22_0000_0000),
        records: count,
        records_lost: false,
        entries: None,
        in_calls: None,
        faults: None,
        answers: None,
    };
    let records = Records { burst: burst.id, bytes: encoder.finish() };
    (burst, Fact::Records(records))
}

fn program_end(shape: Shape) -> Vec<Fact> {
    let end = shape.seconds * 1_000_000_000;
    let mut facts: Vec<Fact> =
        (0..shape.threads).map(|thread| thread_event(thread, end, ThreadEventKind::Exit)).collect();
    facts.push(Fact::Lost(Lost { time: Nanos(end), source: LostSource::Samples, count: 3 }));
    facts.push(Fact::Counter(Counter { kind: CounterKind::TaskClock, value: end * shape.threads }));
    facts
}

/// One source location per address.
fn frames(stacks: &[Fact]) -> Vec<Fact> {
    let mut seen = std::collections::HashSet::new();
    stacks
        .iter()
        .filter_map(|fact| match fact {
            Fact::StackNode(node) if seen.insert((node.module, node.offset)) => Some(node),
            _ => None,
        })
        .map(|node| {
            let id = node.id.0;
            Fact::Frame(Frame {
                module: node.module,
                offset: node.offset,
                depth: 0,
                function: format!("stencil<{}>::apply(double const*, unsigned long)", id / 3),
                file: (id % 5 != 0).then(|| format!("/home/user/triad/src/part{}.h", id % 7)),
                line: (id % 5 != 0).then_some(10 + id),
                inlined: false,
            })
        })
        .collect()
}

/// What `open` must give for these facts.
pub fn recording(run: Run, facts: &[Fact]) -> Recording {
    let mut recording = Recording { run, ..Recording::default() };
    facts.iter().for_each(|fact| recording.add(fact.clone()));
    recording.samples.sort_by_key(|sample| sample.time);
    recording.faults.sort_by_key(|fault| fault.time);
    recording.memory_samples.sort_by_key(|sample| sample.time);
    recording.marks.sort_by_key(|mark| mark.time);
    recording
}
