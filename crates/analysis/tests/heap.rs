//! Sums over every heap block, with answers that can be worked out by hand.

use analysis::heap::{
    Freed, Lived, free_table, heap_over_time, heap_sums, heap_table, huge_pages, lifetime_table,
};
use analysis::{Key, Profile, Selection};
use base::{AllocationId, Bytes, Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{
    Allocation, AllocationCall, Evidence, HeapFree, HeapLifetime, HeapStack, HeapTotal, Metric,
    Recording, Release,
};
use testkit::recording::RecordingBuilder;

/// Blocks and bytes allocated and freed since the row before; half of the frees are temporary, each block lives 10 ns.
fn sum(stack: Option<StackId>, time: u64, blocks: u64, frees: u64, at_peak: u64) -> HeapStack {
    HeapStack {
        time: Nanos(time),
        pid: Pid(1),
        stack,
        call: AllocationCall::Malloc,
        allocations: blocks,
        allocated: Bytes(100 * blocks),
        frees,
        freed: Bytes(100 * frees),
        temporary: frees / 2,
        lifetime: Nanos(10 * frees),
        largest: Bytes(100),
        at_peak: Bytes(at_peak),
    }
}

/// `grow` asks twice, directly and through `operator new`; `leak` keeps what it has.
fn recording() -> Recording {
    let mut b = RecordingBuilder::new();
    let app = b.file("/opt/app");
    let grow = b.code(app, 0x10, &[("grow", "/src/a.c", 5)]);
    let leak = b.code(app, 0x20, &[("leak", "/src/a.c", 9)]);
    let new = b.code(app, 0x30, &[("operator new(unsigned long)", "/src/new.cc", 1)]);
    let [grow, leak] = [b.stack(&[new, grow]), b.stack(&[leak])];
    b.thread(1, 1, "app", 0.0, 3.0);
    b.recording.heap_stacks = vec![
        sum(grow, 1_000_000_000, 10, 4, 900),
        sum(leak, 1_000_000_000, 3, 0, 300),
        sum(grow, 2_000_000_000, 0, 6, 200),
    ];
    b.recording.heap_totals = vec![HeapTotal {
        pid: Pid(1),
        allocations: 13,
        allocated: Bytes(1300),
        frees: Some(10),
        freed: Some(Bytes(1000)),
        peak: Some(Bytes(1200)),
        ..HeapTotal::default()
    }];
    b.recording.run.elapsed_ns = 3_000_000_000;
    b.build()
}

#[test]
fn rows_add_up_and_the_last_share_of_the_peak_holds() {
    let recording = recording();
    let profile = Profile::new(&recording);
    let table = heap_table(&profile, &Selection::default(), &[Key::Function]);
    let [grow, leak] = &table.rows[..] else { panic!("{:?}", table.rows) };
    assert_eq!(profile.stacks.function_of(grow.place).name, "grow");
    let values = |row: &analysis::heap::HeapRow| {
        [&row.allocations, &row.bytes, &row.peak, &row.live, &row.temporary].map(|metric| {
            assert_eq!(metric.evidence, Some(Evidence::Counted));
            metric.value.expect("a number")
        })
    };
    assert_eq!(values(grow), [10.0, 1000.0, 200.0, 0.0, 50.0]);
    assert_eq!(values(leak), [3.0, 300.0, 300.0, 300.0, 0.0]);
    assert_eq!(grow.lifetime.value, Some(10e-9));
    assert_eq!(leak.lifetime.value, None);
    let total = table.total.expect("blocks");
    assert_eq!((total.peak.value, total.live.value), (Some(1200.0), Some(300.0)));
}

/// Large blocks count as they are, a drawn one for those that it stands for.
#[test]
fn what_is_live_comes_from_records_where_it_was_not_counted() {
    let mut recording = recording();
    recording.heap_stacks.clear();
    recording.heap_totals[0] = HeapTotal {
        pid: Pid(1),
        allocations: 5000,
        allocated: Bytes(5_000_000),
        ..HeapTotal::default()
    };
    let block = |id: u32, from: u64, size: u64, every: u64| Allocation {
        id: AllocationId(id),
        time: Nanos(from),
        pid: Pid(1),
        tid: Tid(1),
        address: RemoteAddr(0x1000 * u64::from(id)),
        size: Bytes(size),
        call: AllocationCall::Malloc,
        stack: None,
        sample_every: Bytes(every),
    };
    let free = |id: u32, time: u64| Release {
        time: Nanos(time),
        allocation: AllocationId(id),
        tid: Tid(1),
        stack: None,
    };
    recording.allocations =
        vec![block(1, 10, 1_000_000, 0), block(2, 20, 100, 500_000), block(3, 40, 2_000_000, 0)];
    recording.releases = vec![free(1, 30), free(2, 50)];
    let sums = heap_sums(&recording);
    assert_eq!(sums.allocations.evidence, Some(Evidence::Counted));
    assert_eq!(sums.peak.evidence, Some(Evidence::Sampled));
    let (peak, live) = (sums.peak.value.expect("a peak"), sums.live.value.expect("live bytes"));
    // 100 bytes weigh 1 / (1 - exp(-100 / 500,000)): for 500,050 bytes.
    assert!((peak - 2_500_050.0).abs() < 1.0, "{peak}");
    assert_eq!(live, 2_000_000.0);
    let (low, high) = (sums.peak.low.expect("a bound"), sums.peak.high.expect("a bound"));
    assert!(low < 2_100_000.0 && high > 3_300_000.0, "{low} to {high}");
    let profile = Profile::new(&recording);
    let total = heap_table(&profile, &Selection::default(), &[]).total.expect("blocks");
    assert_eq!(total.live_blocks.evidence, Some(Evidence::Sampled));

    recording.allocations.clear();
    recording.releases.clear();
    assert!(heap_sums(&recording).peak.value.is_none(), "nothing was recorded");
}

/// Recipe R2: its 2,147,557,472 bytes need 1025 pages of 2 MB.
#[test]
fn huge_pages_are_rounded_up() {
    let pages = |bytes: f64| {
        huge_pages(&Metric::counted(bytes, "bytes")).map(|pages| pages.value.expect("a number"))
    };
    assert_eq!(pages(2_147_557_472.0), [1025.0, 3.0]);
    assert_eq!(pages(2_097_152.0), [1.0, 1.0]);
    assert_eq!(pages(0.0), [0.0, 0.0]);
    let unknown = Metric::unavailable("bytes", "not counted");
    assert!(huge_pages(&unknown).iter().all(|pages| pages.value.is_none()));
}

#[test]
fn what_is_freed_and_what_is_not_adds_up() {
    let mut recording = recording();
    let [grow, leak] = [0, 1].map(|row| recording.heap_stacks[row].stack);
    let free = |time, frees| HeapFree {
        time: Nanos(time),
        pid: Pid(1),
        stack: grow,
        free_stack: leak,
        frees,
        freed: Bytes(100 * frees),
    };
    recording.heap_frees = vec![free(1_000_000_000, 4), free(2_000_000_000, 5)];
    let profile = Profile::new(&recording);
    let table = free_table(&profile, &Selection::default(), &[Key::FreeStack]);
    let rows: Vec<_> = table
        .rows
        .iter()
        .map(|row| {
            let name = profile.stacks.function_of(row.place).name.as_str();
            (name, row.freed == Freed::Never, row.allocations.value, row.bytes.value)
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("grow", false, Some(9.0), Some(900.0)),
            ("leak", true, Some(3.0), Some(300.0)),
            ("grow", true, Some(1.0), Some(100.0)),
        ]
    );
}

#[test]
fn lifetimes_are_in_classes_and_the_rest_is_separate() {
    let mut recording = recording();
    let grow = recording.heap_stacks[0].stack;
    let lived = |time, longest, frees| HeapLifetime {
        time: Nanos(time),
        pid: Pid(1),
        stack: grow,
        call: AllocationCall::Malloc,
        longest: Nanos(longest),
        frees,
        freed: Bytes(100 * frees),
        temporary: frees / 2,
    };
    recording.heap_lifetimes =
        vec![lived(1_000_000_000, 15, 4), lived(2_000_000_000, 15, 4), lived(2_000_000_000, 0, 2)];
    let profile = Profile::new(&recording);
    let rows = |selection: &Selection| {
        let table = lifetime_table(&profile, selection, &[Key::Lifetime]);
        let total = table.total.expect("blocks").allocations.value;
        let row = |row: &analysis::heap::LifetimeRow| {
            let name = profile.stacks.function_of(row.place).name.clone();
            (name, row.lived, row.allocations.value, row.temporary.value)
        };
        (table.rows.iter().map(row).collect::<Vec<_>>(), total)
    };
    let (all, total) = rows(&Selection::default());
    let up_to = |nanos| Lived::UpTo(Nanos(nanos));
    let expected = [
        ("grow", up_to(0), 2.0, 50.0),
        ("grow", up_to(15), 8.0, 50.0),
        ("leak", Lived::ToTheEnd, 3.0, 0.0),
    ];
    let expected = expected.map(|(name, lived, blocks, temporary)| {
        (name.to_owned(), lived, Some(blocks), Some(temporary))
    });
    assert_eq!((all, total), (expected.to_vec(), Some(13.0)));
    assert_eq!(up_to(15).range(), Some((Nanos(8), Nanos(15))));
    assert_eq!(up_to(0).range(), Some((Nanos(0), Nanos(0))));
}

#[test]
fn what_is_live_follows_from_second_to_second() {
    let recording = recording();
    let profile = Profile::new(&recording);
    let bins = heap_over_time(&profile, &Selection::default());
    let values: Vec<_> = bins
        .iter()
        .map(|bin| {
            (bin.start.0 / 1_000_000, bin.allocations.value, bin.freed.value, bin.live.value)
        })
        .collect();
    assert_eq!(
        values,
        [(0, Some(13.0), Some(400.0), Some(900.0)), (1000, Some(0.0), Some(600.0), Some(300.0)),]
    );
}
