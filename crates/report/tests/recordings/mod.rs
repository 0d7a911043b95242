//! The recordings that the golden tests render.

use base::{CpuId, Nanos, Pid, Tid};
mod counted_code;
mod flushed;
mod heap;
mod objects;
mod pace;
mod sampled;
mod sockets;

pub use counted_code::counted_code;
pub use flushed::flushed;
pub use heap::{heap, heap_by_lot};
pub use objects::{checked, objects, touched, waited};
pub use pace::pace;
pub use sampled::sampled;
pub use sockets::{by_cores, sockets};

use facts::host::{
    BandwidthPoint, Cache, CacheKind, Calibration, EffectiveCache, FlopsPoint, Host, LatencyPoint,
    LevelBandwidth, LoadedLatency, NodePair, NumaNode,
};
use facts::{
    Analysis, CollectorInfo, CountedEvent, CounterKind, EventCount, Evidence, ExitKind, FaultKind,
    GaugeKind, KernelCause, KernelEntry, LostSource, Mark, MarkKind, MarkedLength, MarkedPass,
    MarkedRegion, Metric, OwnCost, Recording, ResourceUse, Run, RunState, SamplingMethod, Target,
    WaitKind,
};
use testkit::recording::RecordingBuilder;

const SECOND: u64 = 1_000_000_000;

fn calibrated(value: f64, unit: &str) -> Metric {
    Metric::with_interval(Evidence::Calibrated, value, unit, (value * 0.98, value * 1.02), 5)
}

fn host() -> Host {
    let cache = |level, kind, bytes, shared_by, instances| Cache {
        level,
        kind,
        bytes,
        line_bytes: 64,
        ways: Some(8),
        shared_by,
        instances,
    };
    Host {
        cpu: "AMD EPYC 7763 64-Core Processor".into(),
        vendor: "AuthenticAMD".into(),
        architecture: "x86_64".into(),
        logical_cpus: 2,
        cores: 1,
        sockets: 1,
        caches: vec![
            cache(1, CacheKind::Data, 32 << 10, 2, 1),
            cache(2, CacheKind::Unified, 512 << 10, 2, 1),
            cache(3, CacheKind::Unified, 32 << 20, 2, 1),
        ],
        memory_bytes: 8 << 30,
        numa_nodes: vec![NumaNode {
            id: 0,
            cpus: vec![0, 1],
            memory_bytes: 8 << 30,
            distances: vec![10],
        }],
        page_bytes: 4096,
        kernel: "6.1.0-18-amd64".into(),
        os: "Debian GNU/Linux 12 (bookworm)".into(),
        hypervisor: Some("KVM".into()),
        allowed_cpus: vec![0, 1],
        ..Host::default()
    }
}

fn calibration() -> Calibration {
    let level = |level, bytes: f64, nanos: f64| EffectiveCache {
        level,
        bytes: calibrated(bytes, "bytes"),
        latency: calibrated(nanos, "ns"),
    };
    Calibration {
        version: 1,
        measured_unix: 1_760_000_000 - 3 * 86_400,
        took_seconds: 18.0,
        dram_bandwidth_peak: Some(calibrated(24.71, "GB/s")),
        peak_kernel: Some("triad-nt, 2 threads".into()),
        effective_caches: vec![
            level(1, 32768.0, 1.24),
            level(2, 524_288.0, 4.31),
            level(3, 16_777_216.0, 15.2),
        ],
        level_bandwidth: [
            (1, 1, 210.0),
            (1, 2, 410.0),
            (2, 1, 62.0),
            (2, 2, 121.0),
            (3, 1, 41.0),
            (3, 2, 66.0),
        ]
        .map(|(level, threads, rate)| LevelBandwidth {
            level,
            kernel: "load".into(),
            threads,
            rate: calibrated(rate, "GB/s"),
        })
        .into(),
        dram_latency: Some(calibrated(98.3, "ns")),
        bandwidth: [("triad", 1, 11.2), ("triad", 2, 13.9), ("triad-nt", 2, 24.71)]
            .map(|(kernel, threads, bus)| BandwidthPoint {
                kernel: kernel.into(),
                threads,
                program: calibrated(if kernel == "triad" { bus * 0.75 } else { bus }, "GB/s"),
                bus: calibrated(bus, "GB/s"),
            })
            .into(),
        ladder: [(4 << 10, 1.24), (256 << 10, 4.3), (8 << 20, 15.2), (512 << 20, 131.0)]
            .map(|(bytes, nanos)| LatencyPoint {
                bytes,
                page_bytes: 4096,
                latency: calibrated(nanos, "ns"),
            })
            .into(),
        loaded_latency: [(1.0, 98.6), (9.1, 104.0), (16.4, 131.0), (21.0, 192.0), (22.6, 281.0)]
            .map(|(rate, nanos)| LoadedLatency {
                threads: 2,
                rate: calibrated(rate, "GB/s"),
                latency: calibrated(nanos, "ns"),
            })
            .into(),
        flops: vec![FlopsPoint {
            simd: "avx2+fma".into(),
            precision: "double".into(),
            threads: 2,
            rate: calibrated(88.1, "GFLOP/s"),
        }],
        flops_peak: Some(calibrated(88.1, "GFLOP/s")),
        page_fault_4k: Some(calibrated(652.0, "ns")),
        sample_cost: Some(calibrated(3100.0, "ns")),
        ..Calibration::default()
    }
}

/// The same on a machine with two nodes and one that has memory only.
pub fn with_nodes(mut recording: Recording) -> Recording {
    let node = |id: u32, cpus: &[u32], distances: &[u32]| NumaNode {
        id,
        cpus: cpus.to_vec(),
        memory_bytes: 4 << 30,
        distances: distances.to_vec(),
    };
    recording.run.host.numa_nodes = vec![
        node(0, &[0], &[10, 21, 17]),
        node(1, &[1], &[21, 10, 28]),
        node(2, &[], &[17, 28, 10]),
    ];
    if let Some(calibration) = &mut recording.run.calibration {
        calibration.node_pairs = [
            (0, 0, 98.3, 24.0),
            (0, 1, 142.0, 15.1),
            (0, 2, 251.0, 9.7),
            (1, 0, 144.0, 15.0),
            (1, 1, 97.1, 24.3),
            (1, 2, 310.0, 7.2),
        ]
        .map(|(from, to, nanos, rate)| NodePair {
            from,
            to,
            latency: calibrated(nanos, "ns"),
            one_thread: calibrated(rate * 0.6, "GB/s"),
            all_threads: calibrated(rate, "GB/s"),
            threads: 2,
            // Of one pair, so that its curve is shown by itself.
            loaded: [(0.1, 1.0), (0.6, 1.2), (0.95, 2.1)]
                .into_iter()
                .filter(|_| (from, to) == (0, 2))
                .map(|(part, times)| LoadedLatency {
                    threads: 2,
                    rate: calibrated(rate * part, "GB/s"),
                    latency: calibrated(nanos * times, "ns"),
                })
                .collect(),
        })
        .into();
    }
    recording
}

fn run(command: &[&str]) -> Run {
    Run {
        schema: facts::SCHEMA_VERSION,
        fathom_version: "0.1.0".into(),
        state: RunState::Complete,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        working_directory: "/home/user/recipes".into(),
        target: Some(Target::Launched { pid: 1000 }),
        started_unix: 1_760_000_000,
        elapsed_ns: SECOND,
        exit: Some(ExitKind::Code(0)),
        collector: CollectorInfo {
            method: SamplingMethod::PerfEvents,
            fallback_reason: None,
            sampling_period_ns: 1_000_000,
            kernel_samples: true,
            stack_bytes: 8192,
            timed_load_overhead_cycles: None,
        },
        own_cost: OwnCost {
            cpu_time_ns: 4_000_000,
            peak_resident_bytes: 9 << 20,
            startup_ns: 12_000_000,
            ..OwnCost::default()
        },
        host: host(),
        ..Run::default()
    }
}

/// The persistent-memory triad with handles translated inside of the loop: two threads, an inlined hot function
/// from a header, page faults in the first quarter.
pub fn triad() -> Recording {
    let mut b = RecordingBuilder::new();
    b.recording.run =
        Run { calibration: Some(calibration()), ..run(&["./triad_before", "2000000"]) };
    let app = b.file("/home/user/recipes/build/triad_before");
    let libgomp = b.file("/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0");
    let kernel = b.kernel();
    let header = "/usr/include/libpmemobj/types.h";
    let direct = b.code(
        app,
        0x1310,
        &[
            ("pmemobj_direct_inline", "/usr/include/libpmemobj/pool_base.h", 83),
            ("triad._omp_fn.0", "triad_before.c", 61),
        ],
    );
    let body = b.code(app, 0x1350, &[("triad._omp_fn.0", "triad_before.c", 62)]);
    let offset = b.code(
        app,
        0x1362,
        &[("oid_offset", header, 211), ("triad._omp_fn.0", "triad_before.c", 61)],
    );
    let initialise = b.code(app, 0x1200, &[("initialise", "triad_before.c", 40)]);
    let main_triad = b.code(app, 0x1100, &[("main", "triad_before.c", 90)]);
    let main_init = b.code(app, 0x1110, &[("main", "triad_before.c", 84)]);
    let start = b.unnamed(app, 0x1060);
    let worker = b.code(libgomp, 0x1d0a0, &[("gomp_thread_start", "", 0)]);
    let parallel = b.code(libgomp, 0x14a10, &[("GOMP_parallel", "", 0)]);
    let entry = b.code(kernel, 0xffff_ffff_8100_0b30, &[("asm_exc_page_fault", "", 0)]);
    let clear = b.code(kernel, 0xffff_ffff_8160_0010, &[("clear_page_erms", "", 0)]);
    let exit = b.code(kernel, 0xffff_ffff_8109_0010, &[("do_exit", "", 0)]);

    let own = b.stack(&[initialise, main_init, start]);
    let fault = b.stack(&[clear, entry, initialise, main_init, start]);
    let end = b.stack(&[exit]);
    b.thread(1000, 1000, "triad_before", 0.0, 1.0).thread(1000, 1001, "triad_before", 0.25, 0.98);
    b.samples(1000, 1000, own, 60).kernel_samples(1000, 1000, fault, 150);
    b.faults((1000, 1000), fault, FaultKind::Minor, 5860, 1, 0.0);
    b.rewind(0.25);
    for (tid, outer) in [(1000, vec![parallel, main_triad, start]), (1001, vec![worker])] {
        b.rewind(0.25);
        for (inner, count) in [(direct, 480), (body, 120), (offset, 60), (direct, 40)] {
            let mut frames = vec![inner];
            frames.extend(&outer);
            let stack = b.stack(&frames);
            b.samples(1000, tid, stack, count);
        }
    }
    b.kernel_samples(1000, 1001, end, 5);
    b.counter(CounterKind::TaskClock, 1_618_000_000).counter(CounterKind::MinorFaults, 5861);
    b.counter(CounterKind::MajorFaults, 2).counter(CounterKind::ContextSwitches, 41);
    for (time, resident) in [(0.0, 2u64), (0.1, 14), (0.2, 23), (0.5, 24), (0.9, 24)] {
        b.gauge(time, 1000, GaugeKind::ResidentBytes, resident << 20);
    }
    b.gauge(0.5, 1000, GaugeKind::AnonymousBytes, 16 << 20).gauge(
        0.5,
        1000,
        GaugeKind::HugePageBytes,
        4 << 20,
    );
    b.gauge(1.0, 0, GaugeKind::MachineCpuTime, 1_740_000_000).gauge(
        1.0,
        0,
        GaugeKind::StolenTime,
        2_000_000,
    );
    b.lost(LostSource::Samples, 3);
    b.recording.run.resource_use = Some(ResourceUse {
        user_ns: 1_460_000_000,
        system_ns: 158_000_000,
        minor_faults: 5861,
        major_faults: 2,
        peak_resident_bytes: 25 << 20,
        ..ResourceUse::default()
    });
    b.build()
}

/// Templates, long paths, recursion, and a name that tries to command the terminal.
pub fn templates() -> Recording {
    let mut b = RecordingBuilder::new();
    b.recording.run = run(&["./solver", "--grid", "4096 x 4096"]);
    let app = b.file("/opt/simulation/releases/2025.2/bin/solver");
    let step = "void sim::detail::Stencil<double, 4, sim::Layout<sim::RowMajor>>::step(sim::Grid<double> const&, \
                sim::Grid<double>&, unsigned long)";
    let path = "/opt/simulation/build/third_party/stencils/include/sim/detail/stencil_kernels.hpp";
    let step = b.code(app, 0x10, &[(step, path, 1207)]);
    let walk = b.code(app, 0x20, &[("sim::walk(Node*)", "/opt/simulation/src/tree.cpp", 33)]);
    let evil = b.code(app, 0x30, &[("evil\u{1b}[2Jname", "", 0)]);
    let main = b.code(app, 0x40, &[("main", "/opt/simulation/src/main.cpp", 12)]);
    let stacks = [
        (vec![step, main], 70),
        (vec![walk, walk, walk, main], 20),
        (vec![walk, main], 6),
        (vec![evil, main], 4),
    ];
    b.thread(7, 7, "solver", 0.0, 0.1);
    for (frames, count) in stacks {
        let stack = b.stack(&frames);
        b.samples(7, 7, stack, count);
    }
    b.recording.run.elapsed_ns = SECOND / 10;
    b.counter(CounterKind::TaskClock, 100_000_000);
    b.build()
}

/// A program that ended before its first sample.
pub fn nothing() -> Recording {
    let mut b = RecordingBuilder::new();
    b.recording.run = Run { elapsed_ns: 812_000, ..run(&["/bin/true"]) };
    b.thread(5, 5, "true", 0.0, 0.0008);
    b.counter(CounterKind::TaskClock, 640_000).counter(CounterKind::MinorFaults, 61);
    b.counter(CounterKind::MajorFaults, 0);
    b.build()
}

/// The same with a pause from 0.5 to 0.75 s, two marks, and regions: one with another in it, one that is open at the end.
pub fn paused(mut recording: Recording) -> Recording {
    let seconds = |seconds: f64| Nanos((seconds * 1e9) as u64);
    let mark = |time: f64, kind, name: &str| Mark {
        time: seconds(time),
        kind,
        name: name.to_owned(),
        pid: None,
    };
    recording.marks = vec![
        mark(0.25, MarkKind::Mark, "warm"),
        mark(0.5, MarkKind::Pause, ""),
        mark(0.75, MarkKind::Resume, ""),
        mark(0.9, MarkKind::Mark, "second phase"),
    ];
    recording.samples.retain(|sample| !(0.5..0.75).contains(&sample.time.seconds()));
    let seen = recording.samples.iter().map(|sample| sample.weight.0).sum();
    for counter in recording.counters.iter_mut().filter(|one| one.kind == CounterKind::TaskClock) {
        counter.value = seen;
    }
    let (pid, tid) = recording.samples.first().map_or((Pid(1), Tid(1)), |one| (one.pid, one.tid));
    let domain = |name: &str| Some(name.to_owned());
    for (id, name, domain) in [(0, "solve", None), (1, "step", None), (2, "io", domain("numbers"))]
    {
        recording.marked_regions.push(MarkedRegion { id, name: name.to_owned(), domain });
    }
    for (region, depth, from, to, passes, own) in
        [(0, 0, 0.1, 0.4, 1, 0.1), (1, 1, 0.1, 0.35, 1000, 0.2), (2, 0, 0.8, 1.0, 0, 0.2)]
    {
        let (time, span) = (seconds(from), seconds(to) - seconds(from));
        let inside = if passes > 1 { seconds(0.2) } else { span };
        let own = seconds(own);
        recording.marked_passes.push(MarkedPass {
            time,
            span,
            region,
            pid,
            tid,
            depth,
            passes,
            inside,
            own,
        });
    }
    let length = |region, least: f64, most: f64, passes| MarkedLength {
        region,
        pid,
        least: seconds(least),
        most: seconds(most),
        passes,
    };
    recording.marked_lengths = vec![
        length(0, 0.3, 0.3, 1),
        length(1, 0.000_15, 0.000_16, 100),
        length(1, 0.000_2, 0.000_21, 800),
        length(1, 0.000_25, 0.000_28, 100),
    ];
    recording
}

/// Counted events: one that always had a counter, two that took turns, one that had none.
pub fn counted() -> Recording {
    let mut recording = nothing();
    recording
        .run
        .notes
        .push(facts::NoteSubject::CountedEvents.note("this machine does not count bus-cycles"));
    let names = [("page-faults", 0), ("cycles", 1), ("instructions", 1), ("cache-misses", 2)];
    for ((name, group), id) in names.into_iter().zip(0..) {
        recording.counted_events.push(CountedEvent {
            id,
            name: name.into(),
            group,
            kernel: id != 3,
            ..CountedEvent::default()
        });
        for reading in 1..=4 {
            let (count, running) = match id {
                0 => (15 + reading, 100),
                1 => (1_000_000 + 20_000 * reading, 50),
                2 => (2_500_000 - 10_000 * reading, 50),
                _ => (0, 0),
            };
            recording.event_counts.push(EventCount {
                time: Nanos(reading * 200_000),
                event: id,
                count,
                enabled: Nanos(100_000),
                running: Nanos(running * 1000),
            });
        }
    }
    recording
}

/// The top-down events of a Zen 4 whose program waits for memory: they took turns, and one had no counter.
pub fn top_down() -> Recording {
    let mut recording = nothing();
    recording.run.analysis = facts::Analysis::UarchExploration;
    let host = &mut recording.run.host;
    (host.vendor, host.family_model_stepping) = ("AuthenticAMD".into(), "25/17/1".into());
    let mean_counts = [
        ("cycles", 1_000_000),
        ("instructions", 800_000),
        ("ls_not_halted_cyc", 1_000_000),
        ("de_no_dispatch_per_slot.no_ops_from_frontend", 300_000),
        ("de_no_dispatch_per_slot.no_ops_from_frontend:c6", 40_000),
        ("de_src_op_disp.all", 1_050_000),
        ("ex_ret_ops", 1_000_000),
        ("ex_ret_brn_misp", 900),
        ("resyncs_or_nc_redirects", 100),
        ("de_no_dispatch_per_slot.backend_stalls", 4_500_000),
        ("ex_no_retire.load_not_complete", 600_000),
        ("ex_no_retire.not_complete", 700_000),
        ("de_no_dispatch_per_slot.smt_contention", 0),
    ];
    for ((name, mean), event) in mean_counts.into_iter().zip(0..) {
        let (name, group) = (name.into(), event / 2);
        recording.counted_events.push(CountedEvent {
            id: event,
            name,
            group,
            kernel: true,
            ..CountedEvent::default()
        });
        for reading in 1..=8 {
            let count = mean + mean / 10 * (reading * u64::from(group + 3) % 4);
            // The last had no counter.
            let running = if event == 12 {
                0
            } else if event < 2 {
                100
            } else {
                30
            };
            recording.event_counts.push(EventCount {
                time: Nanos(reading * 100_000),
                event,
                count: count * running / 100,
                enabled: Nanos(100_000),
                running: Nanos(running * 1000),
            });
        }
    }
    recording
}

/// Everything in the kernel, without kernel symbols, attached, stopped by the duration.
pub fn all_kernel() -> Recording {
    let mut b = RecordingBuilder::new();
    b.recording.run = run(&["dd", "if=/dev/zero", "of=/dev/null"]);
    b.recording.run.target = Some(Target::Attached { pid: 42 });
    b.recording.run.exit = Some(ExitKind::StillRunning);
    b.recording.run.stopped_by = Some("duration".into());
    b.recording.run.collector.kernel_samples = false;
    let kernel = b.kernel();
    let one = b.unnamed(kernel, 0xffff_ffff_8100_0001);
    let two = b.unnamed(kernel, 0xffff_ffff_8100_0002);
    let (one, two) = (b.stack(&[one]), b.stack(&[two]));
    b.kernel_samples(42, 42, one, 600).kernel_samples(42, 42, two, 400);
    b.build()
}

/// The profiler was killed: no counters, no end, the size limit was reached, and sampling fell back to ptrace.
pub fn incomplete() -> Recording {
    let mut recording = templates();
    recording.run.state = RunState::Incomplete;
    recording.run.exit = None;
    recording.run.collector.method = SamplingMethod::Ptrace;
    recording.run.collector.kernel_samples = false;
    recording.run.collector.fallback_reason = Some(
        "perf_event_open is forbidden here (kernel.perf_event_paranoid is 4): threads are stopped shortly for each \
         sample instead. `sudo sysctl kernel.perf_event_paranoid=1` would allow it."
            .into(),
    );
    recording.counters.clear();
    recording.run.notes.push("The size limit of 1 MiB was reached.".into());
    recording.lost.push(facts::Lost { time: Nanos(1), source: LostSource::Thinned, count: 50 });
    recording.samples.iter_mut().skip(50).for_each(|sample| sample.weight = Nanos(2_000_000));
    recording
}

/// Bursts: a triad, a transposition that reads columns, a list, and code that could not be traced.
/// The code is that of `crates/analysis/tests/accesses.rs`, and so are the layouts of its records.
pub fn bursts() -> Recording {
    let mut b = RecordingBuilder::new();
    b.recording.run = run(&["./patterns"]);
    b.recording.run.own_cost.burst_stand_still_ns = Some(1_400_000);
    b.recording.run.own_cost.burst_time_ns = Some(60_000_000);
    b.recording.run.own_cost.burst_slowdown_ns = Some(2_000_000);
    b.recording.run.own_cost.consumer_cpu_ns = Some(1_000_000);
    let app = b.file("/home/user/recipes/build/patterns");
    let lines = [
        (0x1000, "triad", 61),
        (0x1005, "triad", 61),
        (0x1009, "triad", 61),
        (0x100e, "triad", 62),
        (0x2000, "transpose", 75),
        (0x3000, "walk", 90),
    ];
    for (offset, function, line) in lines {
        b.code(app, offset, &[(function, "/home/user/recipes/patterns.c", line)]);
    }
    let triad = b.block(
        7,
        app,
        0x1000,
        b"\xf2\x0f\x10\x04\xc2\xf2\x0f\x59\xc1\xf2\x0f\x58\x04\xc6\xf2\x0f\x11\x04\xc7\x48\x83\xc0\x01\x48\x39\xc8\x75\xe4",
        "words 6; values rax@0:1 rdx@0:2 rsi@0:3 rdi@0:4; ways 7; loop rax 1..5 +1; advanced 0 0 0 0 0 1 1",
    );
    let column = b.block(
        7,
        app,
        0x2000,
        b"\xf2\x0f\x58\x07\x48\x81\xc7\x40\x1f\x00\x00\x48\x39\xf7\x75\xf0",
        "words 3; values rdi@0:1; ways 4; loop rdi 1..2 +8000; advanced 0 0 8000 8000",
    );
    let list = b.block(
        7,
        app,
        0x3000,
        b"\x48\x8b\x00\x48\xff\xc9\x75\xf8",
        "words 2; values rax@0:1; ways 3",
    );
    let missing = b.block(7, app, 0x4000, b"\x48\x8b", "words 2; values rax@0:1; ways 1");
    for number in 0..20u64 {
        let mut records = Vec::new();
        let count = 20_000 + 500 * (number % 4);
        let start = number * 100_000;
        records.push((triad, count, vec![start, 0x10_0000, 0x90_0000, 0x110_0000, start + count]));
        for column_number in 0..4 {
            let first = 0x200_0000 + (number * 4 + column_number) * 8;
            records.push((column, 1000, vec![first, first + 1000 * 8000]));
        }
        let mut at = number;
        for _ in 0..200 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            records.push((list, 1, vec![0x7000_0000 + (at >> 44) * 64]));
        }
        records.push((missing, 1, vec![0]));
        b.burst(7, 7, &records);
    }
    b.bursts_refused(7, 7, "jit code", 2).bursts_refused(7, 7, "system call", 1);
    b.thread(7, 7, "patterns", 0.0, 1.0);
    b.recording.run.elapsed_ns = 2 * SECOND;
    b.recording.bursts[3].records_lost = true;
    b.counter(CounterKind::TaskClock, 1_000_000_000);
    b.build()
}

/// Two seconds of an OpenMP solver on 2 CPUs: worker 12 does half as much again as the main thread, which spins at the
/// barrier and then waits there; both wait for `queue_lock`; a logger sleeps and writes; lock waits are short and many.
pub fn threading() -> Recording {
    let mut builder = RecordingBuilder::new();
    builder.recording.run = Run {
        schema: facts::SCHEMA_VERSION,
        fathom_version: "0.1.0".into(),
        state: RunState::Complete,
        analysis: Analysis::Threading,
        command: vec!["./solver".into()],
        elapsed_ns: 2_000_000_000,
        exit: Some(ExitKind::Code(0)),
        host: Host { logical_cpus: 2, cores: 2, ..Host::default() },
        ..Run::default()
    };
    builder.recording.run.collector.method = SamplingMethod::PerfEvents;
    builder.recording.run.collector.sampling_period_ns = 1_000_000;
    builder.recording.run.collector.kernel_samples = true;
    let kernel = builder.kernel();
    let exe = builder.file("/home/user/solver");
    let libc = builder.file("/usr/lib/libc.so.6");
    let gomp = builder.file("/usr/lib/libgomp.so.1.0.0");
    let futex = builder.code(kernel, 2, &[("futex_do_wait", "", 0)]);
    let timer = builder.code(kernel, 3, &[("do_nanosleep", "", 0)]);
    let pipe = builder.code(kernel, 4, &[("pipe_write", "", 0)]);
    let mutex = builder.code(libc, 1, &[("___pthread_mutex_lock", "", 0)]);
    let nanosleep = builder.code(libc, 2, &[("__GI___clock_nanosleep", "", 0)]);
    let end = builder.code(gomp, 0x1f00, &[("gomp_team_barrier_wait_end", "", 0)]);
    let update = builder.code(exe, 1, &[("update", "/home/user/solver.c", 31)]);
    let take = builder.code(exe, 2, &[("take_task", "/home/user/solver.c", 12)]);
    let log = builder.code(exe, 3, &[("log_line", "/home/user/log.c", 7)]);
    let lock = builder.stack(&[futex, mutex, take]);
    let barrier = builder.stack(&[futex, end, update]);
    let (sleep, write) = (builder.stack(&[timer, nanosleep, log]), builder.stack(&[pipe, log]));
    let (spin, work) = (builder.stack(&[end, update]), builder.stack(&[update]));
    builder.thread(11, 11, "solver", 0.0, 2.0).thread(11, 12, "worker", 0.0, 2.0);
    builder.thread(11, 13, "logger", 0.5, 2.0);
    builder.samples(11, 11, work, 800).samples(11, 11, spin, 200);
    builder.rewind(0.0).samples(11, 12, work, 1500);
    let (blocked, preempted) = (WaitKind::Blocked, WaitKind::Preempted);
    let (first, second) = ((0.0, 1.0), (1.0, 1.0));
    builder.ran((11, 11), first, 1.0, 0.0).ran((11, 12), first, 0.9, 0.1).ran(
        (11, 12),
        second,
        0.6,
        0.0,
    );
    builder.waits((11, 11), blocked, (barrier, Some(0x7f00_0010)), (1.0, 0.8), (1, 0.8));
    builder.waits((11, 11), blocked, (lock, Some(0x40_4100)), (1.8, 0.2), (40, 0.15));
    builder.waits((11, 11), blocked, (None, None), (1.8, 0.2), (15, 0.05));
    builder.waits((11, 12), preempted, (None, None), first, (25, 0.1));
    builder.waits((11, 12), blocked, (lock, Some(0x40_4100)), second, (100, 0.4));
    builder.waits((11, 13), blocked, (sleep, Some(0)), (0.5, 1.0), (1, 1.0));
    builder.waits((11, 13), blocked, (write, Some(4)), (1.5, 0.5), (2, 0.5));
    let unlock = builder.code(libc, 2, &[("___pthread_mutex_unlock", "", 0)]);
    let give = builder.code(exe, 4, &[("put_task", "/home/user/solver.c", 25)]);
    let unlocked = builder.stack(&[futex, unlock, give]);
    let at = (lock, Some(0x40_4100));
    builder.woken((11, 11), (barrier, Some(0x7f00_0010)), (1.0, 0.8), Some((12, spin)), (1, 0.8));
    builder.woken((11, 11), at, (1.8, 0.2), Some((12, unlocked)), (20, 0.1));
    builder.woken((11, 12), at, second, Some((11, unlocked)), (60, 0.25));
    builder.woken((11, 12), at, second, Some((13, unlocked)), (40, 0.15));
    builder.woken((11, 13), (sleep, Some(0)), (0.5, 1.0), None, (1, 1.0));
    builder.at_once(first, &[0.0, 0.1, 0.9]).at_once(second, &[0.4, 0.6]);
    builder.wait_object(11, 0x40_4100, "queue_lock", "/home/user/solver");
    builder.build()
}

/// A system overview of a program that faults a lot, and of what else the machine did.
pub fn kernel() -> Recording {
    // Cause, name, process, count, own and waited nanoseconds.
    type Row = (KernelCause, &'static str, i32, u64, Option<u64>, u64);
    let mut b = RecordingBuilder::new();
    b.recording.run = run(&["./matrix", "2048"]);
    b.recording.run.analysis = facts::Analysis::SystemOverview;
    b.recording.run.target = Some(Target::Launched { pid: 1000 });
    b.recording.run.elapsed_ns = 2 * SECOND;
    b.thread(1000, 1000, "matrix", 0.0, 2.0);
    let program = b.file("/home/user/matrix");
    let kernel = b.kernel();
    let main = b.code(program, 0x1100, &[("main", "matrix.c", 12)]);
    let fault = b.code(kernel, 0xffff_ffff_8100_0000, &[("asm_exc_page_fault", "", 0)]);
    let (busy, faulting) = (b.stack(&[main]), b.stack(&[fault, main]));
    b.samples(1000, 1000, busy, 1200).kernel_samples(1000, 1000, faulting, 300);
    b.counter(CounterKind::TaskClock, 3 * SECOND / 2).counter(CounterKind::MinorFaults, 400_000);
    let rows: [Row; 8] = [
        (KernelCause::PageFault, "in program", 1000, 200_000, None, 0),
        (KernelCause::SystemCall, "read", 1000, 40, Some(3_000_000), 70_000_000),
        (KernelCause::Interrupt, "local timer", 1000, 250, Some(1_250_000), 0),
        (KernelCause::SoftInterrupt, "TIMER", 1000, 20, Some(60_000), 0),
        (KernelCause::Switch, "voluntary", 1000, 41, None, 0),
        (KernelCause::RunQueue, "ready, no CPU", 1000, 30, None, 9_000_000),
        (KernelCause::SystemCall, "futex", 0, 7_000, Some(9_000_000), 0),
        (KernelCause::MemoryEvent, "huge page given at a fault", 0, 3, None, 0),
    ];
    for second in 1..=2 {
        for (cause, name, pid, count, own, waited) in rows {
            b.recording.kernel_entries.push(KernelEntry {
                time: Nanos(second * SECOND),
                length: Nanos(SECOND),
                pid: Pid(pid),
                tid: Tid(pid),
                cpu: (cause != KernelCause::MemoryEvent).then_some(CpuId(second as u32 % 2)),
                cause,
                name: name.to_owned(),
                count,
                own: own.map(Nanos),
                waited: Nanos(waited),
            });
        }
    }
    b.build()
}
