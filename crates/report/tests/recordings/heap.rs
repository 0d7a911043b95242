//! Heap blocks of two processes, with answers that can be worked out by hand.

use base::{AllocationId, Bytes, Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{
    Allocation, AllocationCall, Analysis, GaugeKind, HeapFree, HeapLifetime, HeapStack, HeapTotal,
    Recording, Release, SizeClass,
};
use testkit::recording::RecordingBuilder;

const SECOND: u64 = 1_000_000_000;

/// Who asks and who frees.
struct Stacks {
    grow: Option<StackId>,
    index: Option<StackId>,
    leak: Option<StackId>,
    shrink: Option<StackId>,
    drop: Option<StackId>,
}

fn program(b: &mut RecordingBuilder) -> Stacks {
    let app = b.file("/opt/app");
    let library = b.file("/usr/lib/libstdc++.so.6");
    let main = b.code(app, 0x10, &[("main", "/src/app.cc", 90)]);
    let grow = b.code(app, 0x20, &[("grow", "/src/app.cc", 12)]);
    let index = b.code(app, 0x30, &[("build_index", "/src/index.cc", 31)]);
    let leak = b.code(app, 0x40, &[("remember", "/src/app.cc", 55)]);
    let shrink = b.code(app, 0x50, &[("shrink", "/src/app.cc", 20)]);
    let new = b.code(library, 0x60, &[("operator new(unsigned long)", "/src/new_op.cc", 50)]);
    let delete = b.code(library, 0x70, &[("operator delete(void*)", "/src/del_op.cc", 49)]);
    b.thread(1000, 1000, "app", 0.0, 3.0);
    b.thread(1000, 1001, "worker", 0.1, 2.9);
    b.thread(1002, 1002, "child", 1.5, 3.0);
    b.gauge(1.0, 1000, GaugeKind::AnonymousBytes, 16 << 20);
    b.gauge(1.0, 1000, GaugeKind::HugePageBytes, 4 << 20);
    Stacks {
        grow: b.stack(&[new, grow, main]),
        index: b.stack(&[index, main]),
        leak: b.stack(&[leak, main]),
        shrink: b.stack(&[delete, shrink, main]),
        drop: b.stack(&[main]),
    }
}

/// Blocks of `each` bytes: allocated, freed, and of the freed how many at once.
fn sum(
    (seconds, pid): (f64, i32),
    stack: Option<StackId>,
    call: AllocationCall,
    [blocks, frees, temporary, each]: [u64; 4],
    at_peak: u64,
) -> HeapStack {
    HeapStack {
        time: Nanos::from_seconds(seconds),
        pid: Pid(pid),
        stack,
        call,
        allocations: blocks,
        allocated: Bytes(blocks * each),
        frees,
        freed: Bytes(frees * each),
        temporary,
        lifetime: Nanos(frees * 1_000_000),
        largest: Bytes(each),
        at_peak: Bytes(at_peak),
    }
}

fn class(pid: i32, largest: u64, allocations: u64, bytes: u64) -> SizeClass {
    SizeClass { pid: Pid(pid), largest: Bytes(largest), allocations, allocated: Bytes(bytes) }
}

/// Every block recorded. In the program `grow` asks for 1000 blocks of 3000 bytes by `new`, of which `shrink` frees 900 and
/// `main` 60; `build_index` for 2 of 1.5 MB, both freed by `main`; `remember` for 10 of 100, never freed; 4 blocks of 50
/// have no stack and stay. The child asks for 5 of 100 in `remember` and keeps them; it had 3 MB from its parent.
pub fn heap() -> Recording {
    let mut b = RecordingBuilder::new();
    let stacks = program(&mut b);
    let Stacks { grow, index, leak, shrink, drop } = stacks;
    use AllocationCall::{Aligned, Calloc, Malloc};
    b.recording.heap_stacks = vec![
        sum((1.0, 1000), grow, Malloc, [600, 200, 100, 3000], 1_200_000),
        sum((1.0, 1000), leak, Calloc, [10, 0, 0, 100], 1000),
        sum((1.0, 1000), None, Malloc, [4, 0, 0, 50], 200),
        sum((2.0, 1000), grow, Malloc, [400, 760, 100, 3000], 300_000),
        sum((2.0, 1000), index, Aligned, [2, 0, 0, 1_500_000], 3_000_000),
        sum((2.0, 1002), leak, Calloc, [5, 0, 0, 100], 500),
        sum((3.0, 1000), index, Aligned, [0, 2, 0, 1_500_000], 3_000_000),
    ];
    let free = |seconds: f64, pid, stack, free_stack, frees: u64, each: u64| HeapFree {
        time: Nanos::from_seconds(seconds),
        pid: Pid(pid),
        stack,
        free_stack,
        frees,
        freed: Bytes(frees * each),
    };
    b.recording.heap_frees = vec![
        free(1.0, 1000, grow, shrink, 200, 3000),
        free(2.0, 1000, grow, shrink, 700, 3000),
        free(2.0, 1000, grow, drop, 60, 3000),
        free(3.0, 1000, index, drop, 2, 1_500_000),
    ];
    let lived =
        |seconds: f64, stack, call, digits: u32, [frees, temporary, each]: [u64; 3]| HeapLifetime {
            time: Nanos::from_seconds(seconds),
            pid: Pid(1000),
            stack,
            call,
            longest: Nanos((1 << digits) - 1),
            frees,
            freed: Bytes(frees * each),
            temporary,
        };
    b.recording.heap_lifetimes = vec![
        lived(1.0, grow, Malloc, 10, [150, 100, 3000]),
        lived(1.0, grow, Malloc, 20, [50, 0, 3000]),
        lived(2.0, grow, Malloc, 10, [700, 100, 3000]),
        lived(2.0, grow, Malloc, 0, [60, 0, 3000]),
        lived(3.0, index, Aligned, 30, [2, 0, 1_500_000]),
    ];
    let total = |pid, allocations, allocated, frees, freed, peak| HeapTotal {
        pid: Pid(pid),
        allocations,
        allocated: Bytes(allocated),
        frees: Some(frees),
        freed: Some(Bytes(freed)),
        peak: Some(Bytes(peak)),
        ..HeapTotal::default()
    };
    b.recording.heap_totals = vec![
        total(1000, 1016, 6_001_200, 962, 5_880_000, 3_301_200),
        HeapTotal {
            inherited: Bytes(3_000_000),
            peak_doubt: Bytes(16 << 10),
            ..total(1002, 5, 500, 0, 0, 3_000_500)
        },
    ];
    b.recording.size_classes = vec![
        class(1000, 63, 4, 200),
        class(1000, 127, 10, 1000),
        class(1000, 4095, 1000, 3_000_000),
        class(1000, (1 << 21) - 1, 2, 3_000_000),
        class(1002, 127, 5, 500),
    ];
    finish(b, "all")
}

/// The same program, some blocks recorded: both of `build_index`, and of `grow` 3 drawn at random in the first second, of
/// which one was freed in the second.
pub fn heap_by_lot() -> Recording {
    let mut b = RecordingBuilder::new();
    let Stacks { grow, index, .. } = program(&mut b);
    let block = |id, seconds: f64, tid, size, stack, call, every| Allocation {
        id: AllocationId(id),
        time: Nanos::from_seconds(seconds),
        pid: Pid(1000),
        tid: Tid(tid),
        address: RemoteAddr(0x10_0000 * u64::from(id + 1)),
        size: Bytes(size),
        call,
        stack,
        sample_every: Bytes(every),
    };
    let (large, drawn) = (AllocationCall::Aligned, AllocationCall::Malloc);
    b.recording.allocations = vec![
        block(0, 0.25, 1001, 3000, grow, drawn, 524_288),
        block(1, 0.5, 1001, 3000, grow, drawn, 524_288),
        block(2, 0.75, 1000, 3000, grow, drawn, 524_288),
        block(3, 1.25, 1000, 1_500_000, index, large, 0),
        block(4, 1.5, 1000, 1_500_000, index, large, 0),
    ];
    let release = |id, seconds: f64| Release {
        time: Nanos::from_seconds(seconds),
        allocation: AllocationId(id),
        tid: Tid(1000),
        stack: None,
    };
    b.recording.releases = vec![release(0, 1.75), release(3, 2.5), release(4, 2.75)];
    b.recording.heap_totals = vec![HeapTotal {
        pid: Pid(1000),
        allocations: 1002,
        allocated: Bytes(6_000_000),
        frees: Some(962),
        freed: Some(Bytes(5_880_000)),
        peak: Some(Bytes(3_300_000)),
        peak_doubt: Bytes(32 << 10),
        ..HeapTotal::default()
    }];
    b.recording.size_classes =
        vec![class(1000, 4095, 1000, 3_000_000), class(1000, (1 << 21) - 1, 2, 3_000_000)];
    finish(b, "sampled")
}

fn finish(mut b: RecordingBuilder, stacks: &str) -> Recording {
    let run = &mut b.recording.run;
    run.elapsed_ns = 3 * SECOND;
    run.analysis = Analysis::MemoryConsumption;
    run.knobs.insert("stacks".into(), stacks.into());
    b.build()
}
