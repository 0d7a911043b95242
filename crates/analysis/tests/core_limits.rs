//! What limits loops whose limit is known, at costs and times as they were measured once on a processor of 3 GHz.

use analysis::core_limits::{Cause, LoopLimit, loop_limits, program_limit};
use analysis::pace::LoopPace;
use base::{BlockId, CodeAddress, FileOffset, ModuleId, Picos, Pid, RemoteAddr};
use facts::host::{Calibration, EffectiveCache, OperationCost};
use facts::{
    Block, BurstFlavour, CodePiece, Evidence, IterationTime, Metric, NoMissOutcome, NoMissTime,
    Recording, SampledCode,
};

/// imul rax,rbx; add rax,rcx; dec rdx; jne
const MULTIPLICATIONS: &[u8] =
    &[0x48, 0xf, 0xaf, 0xc3, 0x48, 1, 0xc8, 0x48, 0xff, 0xca, 0x75, 0xf4];
/// xor edx,edx; mov rax,rsi; div rdi; add rcx,rax; dec r8; jne
const DIVISIONS: &[u8] =
    &[0x31, 0xd2, 0x48, 0x89, 0xf0, 0x48, 0xf7, 0xf7, 0x48, 1, 0xc1, 0x49, 0xff, 0xc8, 0x75, 0xf0];
/// vaddpd ymm0,ymm0,[rdi+rax]; the same with ymm1 to ymm3 behind it; sub rax,-128; cmp rax,rcx; jne
const SUMS: &[u8] = &[
    0xc5, 0xfd, 0x58, 4, 7, 0xc5, 0xf5, 0x58, 0x4c, 7, 0x20, 0xc5, 0xed, 0x58, 0x54, 7, 0x40, 0xc5,
    0xe5, 0x58, 0x5c, 7, 0x60, 0x48, 0x83, 0xe8, 0x80, 0x48, 0x39, 0xc8, 0x75, 0xe0,
];
/// vaddpd ymm0,ymm0,[rdi+rax]; add rax,32; cmp rax,rcx; jne
const SUM: &[u8] = &[0xc5, 0xfd, 0x58, 4, 7, 0x48, 0x83, 0xc0, 0x20, 0x48, 0x39, 0xc8, 0x75, 0xf2];

fn metric(value: f64, unit: &str) -> Metric {
    Metric::with_interval(Evidence::Calibrated, value, unit, (value, value), 7)
}

fn calibration() -> Calibration {
    let cost = |operation: &str, bits, each, latency: f64| OperationCost {
        operation: operation.to_owned(),
        bits,
        each: metric(each, "ns"),
        latency: (latency > 0.0).then(|| metric(latency, "ns")),
    };
    Calibration {
        operations: vec![
            cost("instruction", 64, 0.055, 0.0),
            cost("simple", 64, 0.11, 0.33),
            cost("multiply", 64, 0.33, 0.98),
            cost("divide", 64, 1.95, 2.6),
            cost("divide-long", 64, 2.8, 4.4),
            cost("float-add", 256, 0.16, 0.98),
            cost("load", 64, 0.11, 0.0),
            cost("load", 256, 0.165, 0.0),
            cost("forward", 64, 0.33, 0.33),
        ],
        effective_caches: vec![EffectiveCache {
            level: 1,
            bytes: metric(32768.0, "bytes"),
            latency: metric(1.1, "ns"),
        }],
        ..Calibration::default()
    }
}

/// A loop at 0x1000 with half a second of CPU time and so many nanoseconds per iteration: its native pace, or its time without
/// memory.
fn limit(code: &[u8], native: Option<f64>, no_miss: Option<u64>) -> Option<LoopLimit> {
    let (recording, row) = known(code, native, no_miss);
    loop_limits(&recording, &[row]).remove(0)
}

fn known(code: &[u8], native: Option<f64>, no_miss: Option<u64>) -> (Recording, LoopPace) {
    let (module, offset) = (ModuleId(0), FileOffset(0x1000));
    let mut recording = Recording {
        sampled_code: vec![SampledCode { module, offset, bytes: code.to_vec() }],
        ..Recording::default()
    };
    recording.run.calibration = Some(calibration());
    if let Some(picos) = no_miss.map(Picos) {
        let (id, address) = (BlockId(3), RemoteAddr(0x40_1000));
        recording.blocks.push(Block {
            id,
            pid: Pid(7),
            flavour: BurstFlavour::Trace,
            pieces: vec![CodePiece { address, module, offset, bytes: code.to_vec() }],
            record: String::new(),
        });
        let time = IterationTime { repetitions: 160, median: picos, low: picos, high: picos };
        let outcome = NoMissOutcome::Measured(time);
        recording.no_miss_times.push(NoMissTime {
            block: id,
            path: None,
            iterations: 8,
            outcome,
            resolution: None,
        });
    }
    let none = |unit| Metric::unavailable(unit, "not asked");
    let row = LoopPace {
        function: "f".to_owned(),
        file: None,
        line: None,
        callee: None,
        start: CodeAddress::new(module, offset),
        depth: 0,
        cpu_time: metric(0.5, "s"),
        iterations_per_second: none("count/s"),
        iteration_time: native.map_or_else(|| none("s"), |nanos| metric(nanos * 1e-9, "s")),
        iterations: none("count"),
        trip_count: none("count"),
        agreement: None,
        odometer: None,
    };
    (recording, row)
}

#[test]
fn loops_of_a_known_limit_have_it() {
    let of = |code, native, no_miss| {
        let limit = limit(code, native, no_miss)?;
        Some((limit.cause, limit.instruction))
    };
    let chain = |instruction: &str| Some((Cause::Chain, Some(instruction.to_owned())));
    assert_eq!(of(MULTIPLICATIONS, Some(1.32), None), chain("imul"));
    assert_eq!(of(DIVISIONS, Some(2.1), None), Some((Cause::Divider, None)));
    assert_eq!(of(SUM, None, Some(1010)), chain("vaddpd"));
    // Four sums at a time, over more loads than a cycle has room for: each waits for itself for less than that.
    let mut calibration = calibration();
    calibration.operations.iter_mut().filter(|one| one.operation == "load").for_each(|load| {
        load.each = metric(0.33, "ns");
    });
    let (mut recording, row) = known(SUMS, None, Some(1340));
    recording.run.calibration = Some(calibration);
    let found = loop_limits(&recording, &[row]).remove(0).expect("a limit");
    assert!((found.bound.value.expect("a need") - 1.32e-9).abs() < 1e-15);
    assert_eq!(found.cause, Cause::Loads);
}

/// Twice as long as anything that it needs, or less than it needs: the model does not know this code.
#[test]
fn what_no_need_explains_is_not_known() {
    assert_eq!(limit(SUM, None, Some(2000)), None);
    assert_eq!(limit(SUM, None, Some(700)), None);
    // What it takes with its data in memory says nothing of the core.
    assert_eq!(limit(SUM, Some(1.0), None), None);
    let (mut recording, row) = known(SUM, None, Some(1010));
    recording.run.calibration = Some(Calibration { operations: Vec::new(), ..calibration() });
    assert_eq!(loop_limits(&recording, &[row]), [None], "an earlier calibration");
}

#[test]
fn a_program_is_limited_by_what_most_of_its_time_is() {
    let (recording, row) = known(MULTIPLICATIONS, Some(1.32), None);
    let rows = [row];
    let limits = loop_limits(&recording, &rows);
    let none = metric(0.0, "s");
    let found = program_limit(&rows, &limits, &none, 0.6).expect("a limit");
    assert_eq!((found.cause, found.position), (Cause::Chain, Some(0)));
    assert!((found.share.value.expect("a share") - 83.3).abs() < 0.1);
    assert_eq!(program_limit(&rows, &limits, &none, 2.0), None, "a quarter of its time");
    let branches = program_limit(&rows, &limits, &metric(0.9, "s"), 2.0).expect("a limit");
    assert_eq!((branches.cause, branches.position), (Cause::Mispredictions, None));
}
