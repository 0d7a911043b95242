//! Amounts of a loop whose pace is known: bursts tell what an iteration does, samples how many there were.

mod common;

use analysis::memory::Memory;
use analysis::{Profile, TracedCode};
use base::{FileOffset, ModuleId, Nanos, RemoteAddr};
use common::{PID, Test, layout, registers};
use facts::{
    CounterKind, Recording, RegisterEncoder, SampledCode, SampledFrame, SampledPlace, SampledState,
};

/// 1000: mov rax,[rdi]; 1003: add rdi,8; 1007: lea rdx,[rdi+rcx*2]; 100b: dec rcx; 100e: jne 1000; 1010: ret
const CODE: [u8; 17] = [
    0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x8d, 0x14, 0x4f, 0x48, 0xff, 0xc9, 0x75, 0xf0,
    0xc3,
];
const START: u64 = 0x1000;

fn place(module: ModuleId, offset: u64, registers: u16, frame: SampledFrame) -> SampledPlace {
    let address = RemoteAddr(0x40_0000 + offset);
    SampledPlace { module, offset: FileOffset(offset), address, registers, slots: vec![], frame }
}

/// A second of a loop that goes round a million times in it, and bursts in which it took three times as long.
fn recorded(iterations_in_bursts: u64) -> Recording {
    let mut test = Test::new();
    let at = test.builder.code(test.module, START, &[("walk", "/src/program.c", 12)]);
    let stack = test.builder.stack(&[at]);
    test.builder.samples(PID, PID, stack, 1000);
    let block = test.block(START, &CODE[..16]);
    let values = layout(&CODE[..16], START).words - 1;
    for _ in 0..4 {
        test.builder.burst(PID, PID, &[(block, iterations_in_bursts, vec![0x7000_0000; values])]);
    }
    test.builder.counter(CounterKind::TaskClock, 1_000_000_000);
    let mut recording = test.builder.build();
    recording.run.elapsed_ns = 1_000_000_000;
    recording.run.collector.sampling_period_ns = 1_000_000;
    recording.sampled_code.push(SampledCode {
        module: test.module,
        offset: FileOffset(START),
        bytes: CODE.to_vec(),
    });
    let place = place(test.module, START, 0xffff, SampledFrame::Own);
    let mut encoder = RegisterEncoder::default();
    for (number, sample) in (0..).zip(&recording.samples) {
        let mut registers = [5; 16];
        (registers[1], registers[7]) = (1_000_000_000 - 1000 * number, 0x10_0000 + 8000 * number);
        encoder.push(&SampledState {
            time: sample.time,
            cpu_time: Some(Nanos(number * 1_000_000)),
            place: &place,
            registers: &registers,
            slots: &[],
        });
    }
    recording.sample_registers.push(registers(encoder));
    recording.bursts.iter_mut().for_each(|burst| burst.time = Nanos(burst.time.0 + 500));
    recording
}

#[test]
fn how_long_bursts_took_for_a_loop_with_a_pace_does_not_matter() {
    let recording = recorded(1000);
    let code = TracedCode::read(&recording);
    let profile = Profile::with_addresses(&recording, code.addresses());
    let loads = Memory::new(&profile, &code).executed().loads;
    let value = loads.value.expect("loads");
    assert!((value / 1e6 - 1.0).abs() < 0.01, "{loads:?}");
    let (low, high) = (loads.low.expect("low"), loads.high.expect("high"));
    assert!(low <= 1e6 && 1e6 <= high && high / low < 1.05, "{loads:?}");
}

/// A tenth of the CPU time without samples is the tracer's work in the kernel.
#[test]
fn time_without_samples_has_no_iterations() {
    let mut recording = recorded(1000);
    recording.counters.iter_mut().for_each(|counter| counter.value = 1_100_000_000);
    let code = TracedCode::read(&recording);
    let profile = Profile::with_addresses(&recording, code.addresses());
    let loads = Memory::new(&profile, &code).executed().loads.value.expect("loads");
    assert!((loads / 1e6 - 1.0).abs() < 0.01, "{loads}");
}

/// The slow clock: the thread waited between each two samples, and came back to another run of the loop.
#[test]
fn samples_of_the_slow_clock_tell_no_pace_of_a_loop_without_calls() {
    let mut recording = recorded(1000);
    recording.samples.iter_mut().for_each(|sample| sample.weight = Nanos(10_000_000));
    let rows = analysis::pace::loops(&recording);
    assert_eq!(rows.first().expect("a loop").iterations_per_second.value, None);
}

/// Translated code is no quicker than native code: where it went round ten times as often, whole runs lie between samples.
#[test]
fn bursts_that_are_quicker_than_a_pace_refute_it() {
    let rate = |iterations| {
        let rows = analysis::pace::loops(&recorded(iterations));
        rows.first().expect("a loop").iterations_per_second.clone()
    };
    assert!((rate(1000).value.expect("a pace") / 1e6 - 1.0).abs() < 0.01);
    let refuted = rate(100_000);
    assert_eq!(refuted.value, None);
    assert!(refuted.note.is_some_and(|why| why.contains("miss runs")));
}

/// 2000: mov rdx,[rsi]; 2003: ret
const CALLED: [u8; 4] = [0x48, 0x8b, 0x16, 0xc3];

/// START: mov rax,[rdi]; call 2000; add rdi,8; dec rbx; jne START; ret
fn calling(start: u64) -> Vec<u8> {
    let to = 0x2000u64.wrapping_sub(start + 8) as u32;
    let rest = [0x48, 0x83, 0xc7, 0x08, 0x48, 0xff, 0xcb, 0x75, 0xef, 0xc3];
    [&[0x48, 0x8b, 0x07, 0xe8][..], &to.to_le_bytes(), &rest].concat()
}

/// Two loops in turn, each of a million iterations in half a second, half of which is in a function that both call; and bursts in
/// which that took much longer.
#[test]
fn a_function_that_several_loops_call_runs_as_often_as_their_paces_say() {
    let loops = [0x1000, 0x3000];
    let mut test = Test::new();
    let called = test.builder.code(test.module, 0x2000, &[("called", "/src/program.c", 1)]);
    let to = test.block(0x2000, &CALLED);
    let values = |code: &[u8], start| vec![0x7000_0000; layout(code, start).words - 1];
    let mut stacks = Vec::new();
    for (line, start) in (2..).zip(loops) {
        let own = test.builder.code(test.module, start, &[("caller", "/src/program.c", line)]);
        let call = test.builder.code(test.module, start + 7, &[("caller", "/src/program.c", line)]);
        stacks.push([test.builder.stack(&[own]), test.builder.stack(&[called, call])]);
        let code = &calling(start)[..8];
        let (block, values) =
            (test.block(start, code), [values(code, start), values(&CALLED, 0x2000)]);
        let iteration = [(block, 1, values[0].clone()), (to, 1, values[1].clone())];
        for _ in 0..4 {
            test.builder.burst(PID, PID, &vec![iteration.clone(); 1000].concat());
        }
    }
    for [own, called] in &stacks {
        for stack in [*own, *called].repeat(250) {
            test.builder.samples(PID, PID, stack, 1);
        }
    }
    test.builder.counter(CounterKind::TaskClock, 1_000_000_000);
    let mut recording = test.builder.build();
    recording.run.elapsed_ns = 1_000_000_000;
    recording.run.collector.sampling_period_ns = 1_000_000;
    let codes = loops.map(|start| (start, calling(start)));
    for (start, bytes) in [(0x2000, CALLED.to_vec())].into_iter().chain(codes) {
        recording.sampled_code.push(SampledCode {
            module: test.module,
            offset: FileOffset(start),
            bytes,
        });
    }
    let place = |offset, registers, frame| place(test.module, offset, registers, frame);
    const CALLEE_SAVED: u16 = 1 << 3 | 1 << 4;
    let mut encoder = RegisterEncoder::default();
    for (number, sample) in (0..).zip(&recording.samples) {
        let start = loops[usize::from(number >= 500)];
        let mut registers = [5; 16];
        (registers[3], registers[4]) = (1_000_000_000 - 2000 * number, 0x7fff_0000);
        let own = SampledFrame::Own;
        let places = match number % 2 {
            0 => vec![place(start, CALLEE_SAVED, own)],
            _ => vec![place(0x2000, 0, own), place(start + 7, CALLEE_SAVED, SampledFrame::Caller)],
        };
        for place in &places {
            encoder.push(&SampledState {
                time: sample.time,
                cpu_time: Some(Nanos(number * 1_000_000)),
                place,
                registers: &registers,
                slots: &[],
            });
        }
    }
    recording.sample_registers.push(registers(encoder));
    recording.bursts.iter_mut().for_each(|burst| burst.time = Nanos(burst.time.0 + 500));
    let code = TracedCode::read(&recording);
    let profile = Profile::with_addresses(&recording, code.addresses());
    // That of the loop, that of the function, and its return.
    let loads = Memory::new(&profile, &code).executed().loads;
    assert!((loads.value.expect("loads") / 6e6 - 1.0).abs() < 0.01, "{loads:?}");
    let (low, high) = (loads.low.expect("low"), loads.high.expect("high"));
    assert!(low <= 6e6 && 6e6 <= high && high / low < 1.05, "{loads:?}");
}
