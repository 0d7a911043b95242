//! Lines that threads share, or do not, in bursts written by hand.

mod common;

use analysis::sharing::{SharedLines, Sharing, sharing};
use analysis::{Profile, Selection, TracedCode};
use base::{Nanos, RemoteAddr, Tid};
use facts::{BurstEnd, Evidence, Recording};
use testkit::recording::BurstRecord;

use common::{PID, Test};

// add qword [rdi],1; ret
const COUNTER: &[u8] = &[0x48, 0x83, 0x07, 0x01, 0xc3];
// mov rax,[rdi]; ret
const LOOK: &[u8] = &[0x48, 0x8b, 0x07, 0xc3];
// addsd xmm0,[rdi]; add rdi,8000; cmp rdi,rsi; jne
const COLUMN: &[u8] = &[
    0xf2, 0x0f, 0x58, 0x07, 0x48, 0x81, 0xc7, 0x40, 0x1f, 0x00, 0x00, 0x48, 0x39, 0xf7, 0x75, 0xf0,
];
// mov [rdi],rax; add rdi,8; cmp rdi,rsi; jne
const FILL: &[u8] = &[0x48, 0x89, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x75, 0xf4];

const A: i32 = PID;
const B: i32 = PID + 1;
/// Records hold rsp before rdi.
const STACK: u64 = 0x7ffd_0000;

fn shared(recording: &Recording) -> SharedLines {
    let code = TracedCode::read(recording);
    let profile = Profile::with_addresses(recording, code.addresses());
    sharing(&profile, &code, &Selection::default())
}

/// `times` times the same record.
fn again(record: BurstRecord, times: usize) -> Vec<BurstRecord> {
    vec![record; times]
}

/// Bursts of A and B in turn, `rounds` times.
fn in_turn(test: &mut Test, rounds: usize, a: &[BurstRecord], b: &[BurstRecord]) {
    for _ in 0..rounds {
        test.builder.burst(PID, A, a);
        test.builder.burst(PID, B, b);
    }
}

#[test]
fn counters_of_one_line_are_false_sharing() {
    let mut test = Test::new();
    let block = test.block(0x1000, COUNTER);
    test.name(0x1000, "count", 7);
    let count = |offset: u64| (block, 1, vec![STACK, 0x60_0000 + offset]);
    in_turn(&mut test, 4, &again(count(8), 1000), &again(count(40), 400));
    let found = shared(&test.builder.build());
    assert_eq!(found.lines.len(), 1, "{found:?}");
    let line = &found.lines[0];
    assert_eq!((line.address, line.sharing), (RemoteAddr(0x60_0000), Sharing::False));
    assert_eq!(line.conflicts.value, Some(400.0));
    assert_eq!(line.conflicts.evidence, Some(Evidence::Traced));
    let threads: Vec<_> = line
        .threads
        .iter()
        .map(|one| (one.tid, one.read, one.written, one.reads.value, one.writes.value))
        .collect();
    let bytes = |offset: u32| 0xffu64 << offset;
    assert_eq!(
        threads,
        [
            (Tid(A), bytes(8), bytes(8), Some(1000.0), Some(1000.0)),
            (Tid(B), bytes(40), bytes(40), Some(400.0), Some(400.0)),
        ]
    );
}

/// A burst in which every address has a record is over sooner than one of a loop that is summarised.
#[test]
fn a_burst_that_filled_its_buffer_tells_of_as_long_as_the_others() {
    let mut test = Test::new();
    let block = test.block(0x1000, COUNTER);
    let count = |offset: u64| (block, 1, vec![STACK, 0x60_0000 + offset]);
    in_turn(&mut test, 6, &again(count(8), 1000), &again(count(40), 40));
    let mut recording = test.builder.build();
    for burst in recording.bursts.iter_mut().skip(1).step_by(4) {
        (burst.end, burst.cpu_time) = (BurstEnd::Full, Some(Nanos(300_000)));
    }
    for burst in recording.bursts.iter_mut().skip(3).step_by(4) {
        (burst.end, burst.cpu_time) = (BurstEnd::Untranslated, Some(Nanos(300_000)));
    }
    let found = shared(&recording);
    // B's three full ones; the other three ended early. Half of all are short: the usual length lies in the middle, 1.65 ms.
    assert_eq!((found.lines.len(), found.pairs), (1, 6), "{found:?}");
    let conflicts = found.lines[0].conflicts.value.expect("conflicts");
    assert!((conflicts - 40.0 * 1.65 / 0.3).abs() < 1e-6, "{conflicts}");
}

#[test]
fn one_counter_of_both_is_true_sharing_and_readers_alone_share_nothing() {
    let mut test = Test::new();
    let (counter, look) = (test.block(0x1000, COUNTER), test.block(0x2000, LOOK));
    let mut writer = again((counter, 1, vec![STACK, 0x60_0010]), 500);
    writer.extend(again((look, 1, vec![STACK, 0x70_0000]), 500));
    let mut reader = again((look, 1, vec![STACK, 0x60_0010]), 300);
    reader.extend(again((look, 1, vec![STACK, 0x70_0000]), 500));
    in_turn(&mut test, 4, &writer, &reader);
    let found = shared(&test.builder.build());
    assert_eq!(found.lines.len(), 1, "{found:?}");
    let line = &found.lines[0];
    assert_eq!((line.address, line.sharing), (RemoteAddr(0x60_0000), Sharing::True));
    assert_eq!(line.conflicts.value, Some(300.0));
    assert_eq!(line.threads[1].writes.value, Some(0.0));
    // Seven pairs in turn, 100 ms apart; those 200 ms apart are of one thread.
    assert_eq!(found.pairs, 7);
    assert!(line.conflicts.low == Some(300.0) && line.conflicts.samples == 7);
}

/// Two halves of an array that meet within a line, each filled once; and a line that one thread fills and the other sums.
#[test]
fn what_is_passed_through_is_not_shared() {
    let mut test = Test::new();
    let (fill, column) = (test.block(0x1000, FILL), test.block(0x2000, COLUMN));
    let sweep = |from: u64, to: u64| (fill, (to - from) / 8, vec![from, to]);
    let a = [sweep(0x10_0000, 0x20_0020), (column, 100, vec![0x20_0100, 0x20_0100 + 800_000])];
    let b = [sweep(0x20_0020, 0x30_0000), sweep(0x20_0100, 0x20_0180)];
    in_turn(&mut test, 4, &a, &b);
    let found = shared(&test.builder.build());
    assert_eq!((found.lines.len(), found.pairs), (0, 7), "{found:?}");
}

/// The same counters, but B begins when A has ended, or is another process, or came much later.
#[test]
fn threads_that_do_not_run_together_share_nothing() {
    for (pid, pause) in [(PID, 0), (PID + 1, 0), (PID, 10)] {
        let mut test = Test::new();
        let block = test.block(0x1000, COUNTER);
        let module = test.module;
        let layout = common::layout(COUNTER, 0x3000).to_string();
        let other = test.builder.block(pid, module, 0x3000, COUNTER, &layout);
        let idle = test.block(0x2000, LOOK);
        let of_a = again((block, 1, vec![STACK, 0x60_0000]), 1000);
        let of_b = again((other, 1, vec![STACK, 0x60_0008]), 1000);
        for _ in 0..3 {
            test.builder.burst(PID, A, &of_a);
        }
        for _ in 0..pause {
            test.builder.burst(PID, PID + 9, &[(idle, 1, vec![STACK, 0x50_0000])]);
        }
        for _ in 0..3 {
            test.builder.burst(pid, B, &of_b);
        }
        let found = shared(&test.builder.build());
        assert_eq!(found.lines.len(), 0, "{pid} {pause}: {found:?}");
    }
}
