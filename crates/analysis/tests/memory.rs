//! Traffic, levels and bounds of programs whose behaviour is known, from bursts as they would have been recorded.

mod common;

use analysis::memory::{Bands, Certainty, Class, Limit, Memory, Mix, Verdict};
use analysis::{Key, Profile, Selection, TracedCode};
use base::{BlockId, Nanos, Picos};
use facts::host::{
    BandwidthPoint, Calibration, FlopsPoint, LevelBandwidth, MemoryReading, ReadingMoment,
    ReadingPoint,
};
use facts::{
    BurstEnd, BurstFlavour, CounterKind, Evidence, IterationTime, Metric, NoMissOutcome,
    NoMissTime, Recording,
};
use testkit::recording::BurstRecord;

use common::{PID, Test};

// movsd xmm0,[rdx+rax*8]; mulsd xmm0,xmm1; addsd xmm0,[rsi+rax*8]; movsd [rdi+rax*8],xmm0; add rax,1; cmp rax,rcx; jne
const TRIAD: &[u8] = &[
    0xf2, 0x0f, 0x10, 0x04, 0xc2, 0xf2, 0x0f, 0x59, 0xc1, 0xf2, 0x0f, 0x58, 0x04, 0xc6, 0xf2, 0x0f,
    0x11, 0x04, 0xc7, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xc8, 0x75, 0xe4,
];
// mov rax,[rax]; dec rcx; jne
const CHASE: &[u8] = &[0x48, 0x8b, 0x00, 0x48, 0xff, 0xc9, 0x75, 0xf8];

/// Iterations of a burst of 3 ms.
const TURNS: u64 = 1_000_000;

/// One second on one CPU, on a machine that moves 20 GB/s with one thread.
fn finished(mut test: Test) -> Recording {
    test.builder.counter(CounterKind::TaskClock, 1_000_000_000);
    let mut recording = test.builder.build();
    recording.run.elapsed_ns = 1_000_000_000;
    let rate =
        |value| Metric::with_interval(Evidence::Calibrated, value, "GB/s", (value, value), 1);
    let point = |kernel: &str, bus| BandwidthPoint {
        kernel: kernel.to_owned(),
        threads: 1,
        program: rate(bus),
        bus: rate(bus),
    };
    recording.run.calibration = Some(Calibration {
        bandwidth: vec![point("triad", 20.0), point("triad-nt", 30.0)],
        dram_bandwidth_peak: Some(rate(30.0)),
        ..Calibration::default()
    });
    recording
}

/// A burst that walks three arrays of 128 MiB each from somewhere on.
fn triad(block: BlockId, start: u64) -> BurstRecord {
    let array = |number: u64| 0x1_0000_0000 + number * 0x1000_0000;
    (block, TURNS, vec![start, array(0), array(1), array(2), start + TURNS])
}

fn streaming() -> (Test, BlockId) {
    let mut test = Test::new();
    let block = test.block(0x1000, TRIAD);
    for number in 0..10 {
        test.builder.burst(PID, PID, &[triad(block, number * 1_500_000)]);
    }
    (test, block)
}

fn with<R>(recording: &Recording, ask: impl FnOnce(&Memory<'_>) -> R) -> R {
    let code = TracedCode::read(recording);
    let profile = Profile::with_addresses(recording, code.addresses());
    ask(&Memory::new(&profile, &code))
}

fn within(metric: &Metric, truth: f64, percent: f64) {
    let value = metric.value.expect("a value");
    assert!((value / truth - 1.0).abs() * 100.0 <= percent, "{value} instead of {truth}");
    let (low, high) = (metric.low.expect("low"), metric.high.expect("high"));
    assert!(low <= truth * 1.001 && truth <= high * 1.001, "{low}..{high} without {truth}");
}

/// A burst so short that its clock had not moved on says nothing of a rate, and takes none away.
#[test]
fn a_burst_without_time_leaves_the_rate_of_operations() {
    let rate = |shortest: Nanos| {
        let (mut test, _) = streaming();
        let burst = &mut test.builder.recording.bursts[3];
        (burst.elapsed, burst.cpu_time) = (shortest, Some(shortest));
        samples(&mut test, 0x8000, "elsewhere", 4);
        samples(&mut test, 0x1000, "triad", 100);
        with(&finished(test), |memory| memory.arithmetic().rate)
    };
    let (known, unknown) = (rate(Nanos(3_000_000)), rate(Nanos(0)));
    let value = |metric: &Metric| metric.value.expect("a value");
    assert!(value(&known) > 0.05, "{known:?}");
    assert!((value(&unknown) / value(&known) - 1.0).abs() < 0.2, "{unknown:?} {known:?}");
    assert!(unknown.high.is_some_and(f64::is_finite), "{unknown:?}");
}

/// A million iterations in 3 ms: 16 bytes loaded, 8 stored (and read before) each.
#[test]
fn a_stream_moves_what_arithmetic_says() {
    let (test, _) = streaming();
    with(&finished(test), |memory| {
        let found = memory.bandwidth(Bands::default()).expect("bandwidth");
        within(&found.read, 24e6 / 3e-3 / 1e9, 2.0);
        within(&found.write, 8e6 / 3e-3 / 1e9, 2.0);
        within(&found.average, 32e6 / 3e-3 / 1e9, 2.0);
        let executed = memory.executed();
        within(&executed.loads, 2e6 / 3e-3, 2.0);
        within(&executed.stores, 1e6 / 3e-3, 2.0);
        let levels = memory.all_levels();
        within(&levels.l1, 87.5, 0.1);
        within(&levels.dram, 12.5, 1.0);
        // Multiply and add.
        let work = memory.arithmetic();
        within(&work.rate, 2e6 / 3e-3 / 1e9, 2.0);
        within(&work.intensity, 2.0 / 32.0, 1.0);
        assert_eq!(found.average.evidence, Some(Evidence::Estimated));
        let rows = memory.rows(&Selection::default(), &[Key::Module]).expect("rows");
        assert_eq!(rows.len(), 1);
        within(&rows[0].share, 100.0, 0.1);
    });
}

/// A column that stays in L1 is updated with one array after the other: its stores find lines that its loads know.
/// The three arrays of a burst are new to their program: a page fault for each page of 4 KiB, in which the kernel zeroed it.
#[test]
fn pages_that_the_kernel_has_just_zeroed_are_not_read_from_memory() {
    const PAGES: u64 = 3 * TURNS * 8 / 4096;
    let read = |faults: u64| {
        let (mut test, _) = streaming();
        let bursts = &mut test.builder.recording.bursts;
        bursts.iter_mut().for_each(|burst| burst.faults = Some(faults as u32));
        with(&finished(test), |memory| {
            let found = memory.bandwidth(Bands::default()).expect("bandwidth");
            within(&found.write, 8e6 / 3e-3 / 1e9, 2.0);
            found.read.value.expect("a value")
        })
    };
    let [none, half, all] = [0, PAGES / 2, PAGES].map(read);
    assert!((half / none - 0.5).abs() < 0.02 && all / none < 0.02, "{none} {half} {all}");
}

#[test]
fn what_is_updated_in_a_cache_is_not_written_to_memory() {
    let mut test = Test::new();
    let block = test.block(0x1000, TRIAD);
    let (column, array, length) = (0x1_0000_0000u64, 0x2_0000_0000u64, 2048u64);
    for burst in 0..10 {
        let record = |at: u64| {
            let start = (burst * 40 + at) * length;
            let column = column.wrapping_sub(start * 8);
            (block, length, vec![start, array, column, column, start + length])
        };
        test.builder.burst(PID, PID, &(0..40).map(record).collect::<Vec<_>>());
    }
    with(&finished(test), |memory| {
        let found = memory.bandwidth(Bands::default()).expect("bandwidth");
        within(&found.read, (40 * length * 8) as f64 / 3e-3 / 1e9, 4.0);
        let written = found.write.value.expect("a value");
        assert!(written < 0.05 * found.read.value.expect("a value"), "{:?}", found.write);
    });
}

/// The no-miss time of a loop, per iteration.
fn no_miss(block: BlockId, picos: Picos) -> NoMissTime {
    let time = IterationTime { repetitions: 100, median: picos, low: picos, high: picos };
    let outcome = NoMissOutcome::Measured(time);
    NoMissTime { block, path: None, iterations: 8, outcome, resolution: None }
}

/// Its loop alone would take a quarter of the time.
#[test]
fn the_no_miss_time_gives_the_memory_bound_share() {
    let (test, block) = streaming();
    let mut recording = finished(test);
    recording.no_miss_times.push(no_miss(block, Picos(750)));
    with(&recording, |memory| {
        let found = memory.bound();
        let bound = found.as_ref().expect("a share");
        within(&bound.memory, 75.0, 1.0);
        within(&bound.without_misses, 0.25, 2.0);
        // Half of what the machine moves: bandwidth is not what limits.
        within(&bound.without_limit, 1.0, 2.0);
        // 10.7 of 20 GB/s is not near the limit, and not far. Prefetchers run ahead of a stream: it does not wait for latency.
        let Verdict { class, certainty, why } = memory.verdict(&found);
        assert_eq!((class, certainty), (Some(Class::Bandwidth), Certainty::Is), "{why}");
        assert!(why.contains("for lines in a row"), "{why}");
    });
    recording.no_miss_times[0] = no_miss(block, Picos(30_000));
    with(&recording, |memory| assert!(memory.bound().is_err(), "ten times the native time"));
}

/// The same program for 300 ms, and 700 ms in which it waits in MPI and asks the network with loads of its own.
#[test]
fn waits_in_mpi_are_no_time_of_memory() {
    let (mut test, block) = streaming();
    let plugin = test.builder.file("/usr/lib/openmpi/mca_btl_vader.so");
    let library = test.builder.file("/usr/lib/libmpi.so.40");
    let ask =
        test.builder.block(PID, plugin, 0x2000, CHASE, &common::layout(CHASE, 0x2000).to_string());
    for number in 0..10 {
        let queue = 0x9_0000_0000 + number * 0x1000_0000;
        test.builder.burst(PID, PID, &[(ask, TURNS, vec![queue; 2])]);
    }
    samples(&mut test, 0x1000, "triad", 300);
    let asks = test.builder.code(plugin, 0x2000, &[("poll_fifo", "", 0)]);
    let progress = test.builder.code(library, 0x10, &[("opal_progress", "", 0)]);
    let recv = test.builder.code(library, 0x20, &[("PMPI_Recv", "", 0)]);
    let main = test.builder.code(test.module, 0x5000, &[("main", "/src/program.c", 1)]);
    let stack = test.builder.stack(&[asks, progress, recv, main]);
    test.builder.samples(PID, PID, stack, 700);
    let mut recording = finished(test);
    recording.no_miss_times.push(no_miss(block, Picos(750)));
    with(&recording, |memory| {
        let bound = memory.bound().expect("a share");
        within(&bound.memory, 75.0, 1.0);
        // The others need as long as before.
        within(&bound.without_misses, 0.7 + 0.3 * 0.25, 2.0);
        let (_, functions) = memory.functions().expect("functions");
        assert_eq!(functions.len(), 1, "code that asks is no place to improve");
    });
}

/// The stream of 10.7 GB/s, where the machine's peak with one thread was so many times as high as stored when it ran.
fn judged(stored: f64, read: Option<f64>) -> (Metric, Metric, Verdict) {
    let (test, block) = streaming();
    let mut recording = finished(test);
    recording.no_miss_times.push(no_miss(block, Picos(750)));
    let calibration = recording.run.calibration.as_mut().expect("one");
    for point in &mut calibration.bandwidth {
        point.bus = point.bus.times(stored, "GB/s");
    }
    let points = calibration.bandwidth.iter().map(|point| ReadingPoint {
        kernel: point.kernel.clone(),
        threads: point.threads,
        bus: point.bus.times(read.unwrap_or(1.0), "GB/s"),
        passes: Vec::new(),
    });
    let points = points.collect();
    let (moment, measured_unix) = (ReadingMoment::After, 1);
    let reading = MemoryReading { moment, measured_unix, took_seconds: 0.06, bytes: 1, points };
    recording.run.memory_readings = read.map(|_| reading).into_iter().collect();
    with(&recording, |memory| {
        (Metric::clone(&memory.of_reach()), memory.reach(), memory.verdict(&memory.bound()))
    })
}

/// 10.7 of 20 GB/s; of the 30 that the machine had then; of the 11.5.
#[test]
fn a_run_is_judged_by_the_speed_that_memory_had_then() {
    let (of, reach, _) = judged(1.0, None);
    within(&of, 1067.0 / 20.0, 2.0);
    assert_eq!((reach.low, reach.high, reach.note), (Some(20.0), Some(20.0), None));
    let (same, unchanged, _) = judged(1.0, Some(1.05));
    assert_eq!((same, unchanged), (of.clone(), judged(1.0, None).1));
    let (of, reach, verdict) = judged(1.0, Some(1.5));
    within(&of, 1067.0 / 30.0, 2.0);
    within(&reach, 30.0, 0.1);
    assert!(of.high.expect("high") / of.low.expect("low") > 1.15, "{of:?}");
    assert!(reach.note.is_some_and(|note| note.contains("50 % faster")));
    // A stream far from the peak, and one that is near.
    assert!(verdict.why.contains("for lines in a row"), "{}", verdict.why);
    let (of, _, verdict) = judged(1.0, Some(0.58));
    within(&of, 1067.0 / 11.6, 2.0);
    assert_eq!(verdict.class, Some(Class::Bandwidth), "{}", verdict.why);
    assert!(!verdict.why.contains("for lines in a row"), "{}", verdict.why);
}

/// Stored when the machine was slow: 10.7 GB/s of 8, and of the 12 of the best kernel; of 5, and 7.5.
#[test]
fn a_peak_that_is_too_low_is_said_to_be() {
    let (of, _, verdict) = judged(0.4, None);
    within(&of, 1067.0 / 12.0, 2.0);
    assert!(of.note.is_some_and(|note| note.contains("of the highest rate")));
    assert_eq!(verdict.class, Some(Class::Bandwidth), "{}", verdict.why);
    let (of, _, verdict) = judged(0.25, None);
    assert_eq!((of.value, verdict.class), (None, None));
    for text in [of.note.unwrap_or_default(), verdict.why] {
        assert!(text.contains("that peak is too low (`fathom machine --refresh`"), "{text}");
    }
    // A reading at the run repairs that.
    let (of, _, verdict) = judged(0.25, Some(2.3));
    within(&of, 1067.0 / 11.5, 2.0);
    assert_eq!(verdict.class, Some(Class::Bandwidth), "{}", verdict.why);
}

/// Sums an array of so many bytes again and again, in steps of 32 bytes, at 10.5 GB/s.
fn summing(bytes: u64, core: Picos) -> Recording {
    // vaddpd ymm0,ymm0,[rdi+rax]; add rax,32; cmp rax,rcx; jne
    const SUM: &[u8] =
        &[0xc5, 0xfd, 0x58, 0x04, 0x07, 0x48, 0x83, 0xc0, 0x20, 0x48, 0x39, 0xc8, 0x75, 0xf2];
    let mut test = Test::new();
    let block = test.block(0x1000, SUM);
    let rounds = (30 << 20) / bytes;
    for _ in 0..10 {
        let round = (block, bytes / 32, vec![0, 0x7000_0000, bytes]);
        test.builder.burst(PID, PID, &vec![round; rounds as usize]);
    }
    let mut recording = finished(test);
    recording.no_miss_times.push(no_miss(block, core));
    let calibration = recording.run.calibration.as_mut().expect("one");
    let rate = |level, value| LevelBandwidth {
        level,
        kernel: "load".to_owned(),
        threads: 1,
        rate: Metric::with_interval(Evidence::Calibrated, value, "GB/s", (value, value), 7),
    };
    calibration.level_bandwidth = vec![rate(2, 12.6), rate(3, 11.0)];
    recording
}

/// 3.1 ns per iteration, of which its instructions need 1: a level that delivers 12.6 or 11 GB/s limits.
#[test]
fn a_stream_from_a_cache_is_bound_by_the_cache() {
    let class = |memory: &Memory<'_>| {
        let Verdict { class, why, .. } = memory.verdict(&memory.bound());
        class.unwrap_or_else(|| panic!("{why}"))
    };
    for (bytes, level) in [(256 << 10, 2), (3 << 20, 3)] {
        let recording = summing(bytes, Picos(1000));
        with(&recording, |memory| {
            let [second, third] = memory.level_rates();
            within(&second.rate, 10.49, 2.0);
            within(&second.of_reachable, 1049.0 / 12.6, 2.0);
            let value = third.rate.value.expect("a rate");
            assert!(if level == 3 { value > 9.5 } else { value < 0.2 }, "{value} from L3");
            assert_eq!(class(memory), Class::CacheBandwidth(level));
            assert_eq!(class(memory).name(), "bandwidth-bound");
        });
    }
    // Its instructions take nearly all of that time: they limit.
    with(&summing(256 << 10, Picos(2900)), |memory| assert_eq!(class(memory), Class::Core));
    // Half of what the cache delivers, for an unknown reason; an earlier calibration says nothing.
    let mut recording = summing(256 << 10, Picos(1000));
    let calibration = recording.run.calibration.as_mut().expect("one");
    let rate = &mut calibration.level_bandwidth[0].rate;
    (rate.value, rate.low, rate.high) = (Some(20.0), Some(20.0), Some(20.0));
    with(&recording, |memory| assert_eq!(class(memory), Class::Latency));
    recording.run.calibration.as_mut().expect("one").level_bandwidth.clear();
    with(&recording, |memory| {
        let [second, _] = memory.level_rates();
        within(&second.rate, 10.49, 2.0);
        assert_eq!((second.reachable.value, second.of_reachable.value), (None, None));
        assert_eq!(class(memory), Class::Latency);
    });
}

/// Each roof is of the program's own mixture; one that was not measured says why.
#[test]
fn roofs_are_those_of_one_thread_and_of_all() {
    let mut recording = summing(256 << 10, Picos(1000));
    let calibration = recording.run.calibration.as_mut().expect("one");
    let rate = |value| Metric::with_interval(Evidence::Calibrated, value, "", (value, value), 1);
    let level = |level, threads, kernel: &str, rate| LevelBandwidth {
        level,
        kernel: kernel.to_owned(),
        threads,
        rate,
    };
    let small = "each thread's part of it is too small";
    calibration.level_bandwidth = vec![
        level(2, 1, "load", rate(12.0)),
        level(2, 1, "copy", rate(99.0)),
        level(3, 1, "load", rate(11.0)),
        level(3, 2, "load", Metric::unavailable("GB/s", small)),
    ];
    let flops = |simd: &str, threads, value| FlopsPoint {
        simd: simd.to_owned(),
        precision: "double".to_owned(),
        threads,
        rate: rate(value),
    };
    calibration.flops =
        [("scalar", 1, 8.0), ("scalar", 2, 16.0), ("sse2", 1, 16.0), ("avx2+fma", 1, 60.0)]
            .map(|(simd, threads, value)| flops(simd, threads, value))
            .to_vec();
    with(&recording, |memory| {
        let roofs = memory.roofs();
        let of = |limit, threads| {
            let mut same =
                roofs.iter().filter(|roof| (roof.limit, roof.threads) == (limit, threads));
            same.next().map(|roof| (roof.rate.value, roof.like.as_deref()))
        };
        // It only reads: what copies reach does not count.
        assert_eq!(of(Limit::Level(2), 1), Some((Some(12.0), Some("load"))));
        assert_eq!(of(Limit::Level(2), 2), Some((None, None)));
        assert_eq!(of(Limit::Level(3), 2), Some((None, Some("load"))));
        let l3 = roofs.iter().find(|roof| (roof.limit, roof.threads) == (Limit::Level(3), 2));
        assert_eq!(l3.and_then(|roof| roof.rate.note.as_deref()), Some(small));
        assert_eq!(of(Limit::Dram, 1), Some((Some(20.0), Some("triad"))));
        assert_eq!(of(Limit::Scalar, 2), Some((Some(16.0), Some("scalar"))));
        assert_eq!(of(Limit::Vector, 1), Some((Some(60.0), Some("avx2+fma"))));
        // Half of the operations at 8, half at 60 GFLOP/s.
        let mix = Mix { double: [0.5, 0.5], single: [0.0; 2] };
        let (limit, roof) = memory.arithmetic_roof(&mix, 1.0).expect("a roof");
        assert_eq!(limit, Limit::Scalar);
        assert!((roof.value.expect("a value") - 1.0 / (0.5 / 8.0 + 0.5 / 60.0)).abs() < 1e-9);
        let single = Mix { double: [0.0; 2], single: [1.0, 0.0] };
        assert_eq!(memory.arithmetic_roof(&single, 1.0), None);
    });
}

/// The same 4096 lines again and again: they fit into the second level.
#[test]
fn a_chase_that_fits_moves_nothing() {
    let mut test = Test::new();
    let block = test.block(0x1000, CHASE);
    let lap: Vec<u64> = (0..4096).map(|at| 0x7000_0000 + at * 37 % 4096 * 64).collect();
    for number in 0..8usize {
        let records = lap.iter().cycle().skip(number * 500).take(20_000);
        let records: Vec<BurstRecord> = records.map(|at| (block, 1, vec![*at])).collect();
        test.builder.burst(PID, PID, &records);
    }
    with(&finished(test), |memory| {
        let found = memory.bandwidth(Bands::default()).expect("bandwidth");
        let rate = found.average.value.expect("a value");
        // 20,000 loads in 3 ms would be 0.43 GB/s.
        assert!(rate < 0.01, "{rate}");
        let levels = memory.all_levels();
        assert!(levels.l2.value.expect("a share") > 95.0, "{levels:?}");
    });
}

/// Lines that no burst touches twice: whether they were in the last level is unknown, and the interval says so.
#[test]
fn what_no_burst_sees_twice_has_a_wide_interval_or_is_a_miss() {
    let mut test = Test::new();
    let block = test.block(0x1000, CHASE);
    let mut state = 1u64;
    for _ in 0..8 {
        let records: Vec<BurstRecord> = (0..5000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (block, 1, vec![0x1_0000_0000 + (state >> 40) * 64])
            })
            .collect();
        test.builder.burst(PID, PID, &records);
    }
    with(&finished(test), |memory| {
        let found = memory.bandwidth(Bands::default()).expect("bandwidth");
        let truth = 5000.0 * 64.0 / 3e-3 / 1e9;
        let (low, high) = (found.read.low.expect("low"), found.read.high.expect("high"));
        assert!(low <= truth && truth <= high * 1.001, "{low}..{high} without {truth}");
    });
}

/// Windows that only count show that the code is half as fast again without records.
#[test]
fn count_windows_give_the_native_rate() {
    let mut test = Test::new();
    let block = test.block(0x1000, CHASE);
    for number in 0..6u64 {
        let records: Vec<BurstRecord> =
            (0..100_000).map(|at| (block, 1, vec![0x7000_0000 + at % 64 * 64])).collect();
        test.builder.burst(PID, PID, &records);
        // Half as many executions more in the same 3 ms; marked as a window below.
        test.builder.burst(PID, PID, &[(BlockId(1), 150_000 + number, vec![])]);
    }
    let counted = test.block(0x1000, CHASE);
    assert_eq!(counted, BlockId(1));
    let mut recording = finished(test);
    recording.blocks[1].flavour = BurstFlavour::Count;
    recording.blocks[1].record = "words 0".to_owned();
    for (number, burst) in recording.bursts.iter_mut().enumerate() {
        if number % 2 == 1 {
            burst.flavour = BurstFlavour::Count;
            burst.time = Nanos(burst.time.0 - 95_000_000);
        }
    }
    with(&recording, |memory| {
        let loads = memory.executed().loads;
        // Of 20 ns that a block takes, 1.5 are beforehand taken for those of its copy.
        within(&loads, 150_000.0 / 3e-3, 9.0);
        // At 20 ns each the loads wait for memory, where counters may make code quicker than it is natively.
        assert!(loads.low.expect("low") < 1.4 * 100_000.0 / 3e-3, "{loads:?}");
    });
    // A clock that was late when the burst began has time in it that was not the burst's.
    for burst in &mut recording.bursts {
        burst.cpu_time = Some(Nanos(9_000_000));
    }
    with(&recording, |memory| within(&memory.executed().loads, 150_000.0 / 3e-3, 9.0));
    // Bursts that ended while caches were cold, half of them without a window: the windows of the others tell their time.
    for burst in recording.bursts.iter_mut().filter(|burst| burst.flavour == BurstFlavour::Trace) {
        burst.end = BurstEnd::Full;
        burst.cpu_time = Some(Nanos(20_000 + 30_000 * u64::from(burst.id.0)));
    }
    for window in recording.bursts.iter_mut().filter(|burst| burst.id.0 % 4 == 1) {
        window.records_lost = true;
    }
    with(&recording, |memory| {
        within(&memory.executed().loads, 150_000.0 / 3e-3, 9.0);
        assert_eq!(memory.executed().loads.samples, 6, "none is left out");
    });
}

/// Two functions of half of the time each. Bursts began five times as often in the first, and their own times say nothing; windows
/// of both tell that it does as many instructions per second as the second does in two.
#[test]
fn windows_tell_how_often_each_function_runs() {
    let mut test = Test::new();
    let [first, second] = [0x1000, 0x8000].map(|at| test.block(at, CHASE));
    let [one, other] = [0x1000, 0x8000].map(|at| test.block(at, CHASE));
    for number in 0..12u32 {
        let block = if number % 6 == 5 { second } else { first };
        let records: Vec<BurstRecord> =
            (0..1000).map(|at| (block, 1, vec![0x7000_0000 + at % 64 * 64])).collect();
        test.builder.burst(PID, PID, &records);
        let (block, count) = if number % 2 == 0 { (one, 200_000) } else { (other, 100_000) };
        test.builder.burst(PID, PID, &[(block, count, vec![])]);
    }
    for (offset, name) in [(0x1000, "first"), (0x8000, "second")] {
        samples(&mut test, offset, name, 500);
    }
    let mut recording = finished(test);
    for block in [one, other] {
        let block = &mut recording.blocks[block.0 as usize];
        (block.flavour, block.record) = (BurstFlavour::Count, "words 0".to_owned());
    }
    for (number, burst) in recording.bursts.iter_mut().enumerate() {
        match number % 2 {
            1 => burst.flavour = BurstFlavour::Count,
            _ => burst.cpu_time = Some(Nanos(1000 << (number % 7))),
        }
    }
    with(&recording, |memory| {
        // Of 15 and 30 ns that blocks take, 1.5 are beforehand taken for those of their copies.
        within(&memory.executed().loads, 150_000.0 / 3e-3, 11.0);
    });
}

/// A function and a stub that it calls, in which no sample fell: the core passes it in no time, and what it loads is as often as the
/// function's own.
#[test]
fn code_without_samples_belongs_to_what_ran_before() {
    let mut test = Test::new();
    let [function, stub] = [0x1000, 0x8000].map(|at| test.block(at, CHASE));
    for _ in 0..6 {
        let records: Vec<BurstRecord> = (0..100_000)
            .map(|at| ([function, stub][at as usize % 2], 1, vec![0x7000_0000 + at % 64 * 64]))
            .collect();
        test.builder.burst(PID, PID, &records);
    }
    test.builder.code(test.module, 0x8000, &[("stub", "/src/program.c", 2)]);
    samples(&mut test, 0x1000, "function", 1000);
    with(&finished(test), |memory| within(&memory.executed().loads, 100_000.0 / 3e-3, 6.0));
}

fn samples(test: &mut Test, offset: u64, function: &str, count: u64) {
    let at = test.builder.code(test.module, offset, &[(function, "/src/program.c", 1)]);
    let stack = test.builder.stack(&[at]);
    test.builder.samples(PID, PID, stack, count);
}

/// The program begins with 300 ms of another function, in which no burst began: its work is unknown.
#[test]
fn functions_without_a_burst_leave_open_what_they_did() {
    let (mut test, _) = streaming();
    samples(&mut test, 0x8000, "fill", 300);
    samples(&mut test, 0x1000, "triad", 700);
    with(&finished(test), |memory| {
        let found = memory.bandwidth(Bands::default()).expect("bandwidth");
        // Nothing, or all that one thread can.
        let (low, high) = (found.write.low.expect("low"), found.write.high.expect("high"));
        assert!(low < 0.71 * 8.0 / 3.0 && high > 0.7 * 8.0 / 3.0 + 0.3 * 20.0, "{low}..{high}");
        assert!(memory.notes.iter().any(|note| note.contains("30 % of the CPU time")));
    });
}

/// Most of the time nobody saw, and of the few bursts the later ones moved much: over time that is no more than in the mean.
#[test]
fn bandwidth_over_time_of_what_no_burst_saw_adds_up_to_the_average() {
    let mut test = Test::new();
    let (chase, stream) = (test.block(0x1000, CHASE), test.block(0x2000, TRIAD));
    for _ in 0..30 {
        test.builder.burst(PID, PID, &[(chase, 1, vec![0x7000_0000])]);
    }
    for number in 0..3 {
        test.builder.burst(PID, PID, &[triad(stream, number * 1_500_000)]);
    }
    samples(&mut test, 0x8000, "generated", 1000);
    with(&finished(test), |memory| {
        let found = memory.bandwidth(Bands::default()).expect("bandwidth");
        let rates = found.bins.iter().map(|bin| bin.total.clone().value.expect("a rate"));
        let mean = rates.sum::<f64>() / found.bins.len() as f64;
        let average = found.average.value.expect("an average");
        assert!((mean / average - 1.0).abs() < 0.01, "{mean} instead of {average}");
    });
}

/// Bursts that saw no store do not say that there was none: neither in 10 bursts, nor where they did not look.
#[test]
fn what_no_burst_saw_is_not_zero() {
    let only_loads = || {
        let mut test = Test::new();
        let block = test.block(0x1000, CHASE);
        for _ in 0..10 {
            let records: Vec<BurstRecord> =
                (0..1000).map(|at| (block, 1, vec![0x7000_0000 + at * 64])).collect();
            test.builder.burst(PID, PID, &records);
        }
        test
    };
    with(&finished(only_loads()), |memory| {
        let found = memory.bandwidth(Bands::default()).expect("bandwidth");
        let (write, both) = (found.write, found.average);
        assert_eq!((write.value, write.low, write.high), (Some(0.0), Some(0.0), both.high));
        assert!(both.high > Some(0.0));
    });
    let mut test = only_loads();
    samples(&mut test, 0x8000, "fill", 100);
    samples(&mut test, 0x1000, "chase", 100);
    with(&finished(test), |memory| {
        let stores = memory.executed().stores;
        assert_eq!(stores.value, None);
        assert!(stores.note.is_some_and(|why| why.contains("50 % of the CPU time")));
    });
}

#[test]
fn few_bursts_and_none_say_why_there_is_nothing() {
    let mut test = Test::new();
    let block = test.block(0x1000, TRIAD);
    test.builder.burst(PID, PID, &[triad(block, 0)]);
    with(&finished(test), |memory| {
        let why = memory.bandwidth(Bands::default()).expect_err("one burst is too few");
        assert!(why.contains("only 1 burst recorded"), "{why}");
        assert_eq!(memory.executed().loads.value, None);
    });
    with(&finished(Test::new()), |memory| {
        assert!(memory.missing().is_some_and(|why| why.contains("no burst was taken")));
    });
}
