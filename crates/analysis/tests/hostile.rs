//! Recordings that claim what cannot be: every analysis of bursts must end, soon, with figures or without.
//!
//! What not: damaged files (`store`). Here each fact is well formed, and what it says is absurd.

mod common;

use analysis::memory::{Bands, Memory};
use analysis::{Key, Profile, Selection, TracedCode};
use base::Nanos;
use facts::{CounterKind, Recording};

use common::{PID, Test};

// a: mov [rdi+rax], ecx; add rax, 0x1000; cmp rax, rdx; jne a
const PAGES: &[u8] =
    &[0x89, 0x0c, 0x07, 0x48, 0x05, 0x00, 0x10, 0x00, 0x00, 0x48, 0x39, 0xd0, 0x75, 0xf2];
// a: mov rcx, [rdi+rax*8]; add rsi, 1; mov [rsi], cl; add rax, -1; jne a
const APART: &[u8] = &[
    0x48, 0x8b, 0x0c, 0xc7, 0x48, 0x83, 0xc6, 0x01, 0x88, 0x0e, 0x48, 0x83, 0xc0, 0xff, 0x75, 0xf0,
];
// rep stosb
const FILL: &[u8] = &[0xf3, 0xaa];

fn of(code: &[u8], iterations: u64, value: u64) -> Recording {
    let mut test = Test::new();
    let block = test.block(0x1000, code);
    let values = common::layout(code, 0x1000).words - 1;
    for _ in 0..4 {
        let record = (block, iterations, vec![value; values]);
        test.builder.burst(PID, PID, &[record.clone(), record]);
    }
    test.builder.counter(CounterKind::TaskClock, 1_000_000_000);
    let mut recording = test.builder.build();
    recording.run.elapsed_ns = 1_000_000_000;
    recording
}

fn ask_all(recording: &Recording) {
    let code = TracedCode::read(recording);
    let profile = Profile::with_addresses(recording, code.addresses());
    let memory = Memory::new(&profile, &code);
    let everything = Selection::default();
    let _ = memory.bandwidth(Bands::default());
    let _ = (memory.executed(), memory.arithmetic(), memory.bound(), memory.latency());
    let _ = memory.rows(&everything, &[Key::Function]);
    let _ = analysis::accesses::accesses(&profile, &code, &everything, &[Key::Function]);
    let _ = analysis::sharing::sharing(&profile, &code, &everything);
}

/// More iterations than a core can do in 3 ms, at addresses that wrap around.
#[test]
fn loops_without_end_are_damage() {
    for code in [PAGES, APART] {
        let recording = of(code, 1000, 0x7000_0000);
        let traced = TracedCode::read(&recording);
        let profile = Profile::with_addresses(&recording, traced.addresses());
        let stores = Memory::new(&profile, &traced).executed().stores.value;
        assert!(stores.is_some_and(|stores| stores > 600_000.0), "a loop: {stores:?}");
        for iterations in [0, 1 << 40, u64::MAX - 1, u64::MAX] {
            for value in [0, 0x7000_0000, u64::MAX] {
                ask_all(&of(code, iterations, value));
            }
        }
    }
}

/// The counter of a repeated string says how much is left, not how much was done before it was interrupted.
#[test]
fn a_string_of_2_to_64_bytes_is_one_that_was_interrupted() {
    for count in [1 << 50, u64::MAX] {
        let recording = of(FILL, 1, count);
        ask_all(&recording);
        let code = TracedCode::read(&recording);
        let profile = Profile::with_addresses(&recording, code.addresses());
        let stores = Memory::new(&profile, &code).executed().stores;
        assert!(stores.value.expect("a value") < 1e6, "{stores:?}");
    }
}

/// A burst of 500 years makes no more room than the longest that can be asked for.
#[test]
fn times_without_end_end() {
    let mut recording = of(APART, 1000, 0x7000_0000);
    for burst in &mut recording.bursts {
        (burst.elapsed, burst.time) = (Nanos(u64::MAX), Nanos(u64::MAX));
        (burst.cpu_time, burst.stand_still) = (None, Nanos(u64::MAX));
    }
    recording.run.elapsed_ns = u64::MAX;
    ask_all(&recording);
}
