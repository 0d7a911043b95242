//! Memory accesses of programs whose behaviour is known, as bursts would have recorded them.
//!
//! The code is real machine code; what its records hold comes from the translator itself, so that a change there that
//! analysis does not understand fails here.

mod common;

use analysis::TracedCode;
use analysis::accesses::{AccessRow, Accesses, Pattern, accesses, coverage};
use analysis::{Filter, Key, Profile, Selection};
use base::BlockId;
use facts::{Evidence, Recording};
use testkit::recording::BurstRecord;

use common::{PID, Test, layout};

// movsd xmm0,[rdx+rax*8]; mulsd xmm0,xmm1; addsd xmm0,[rsi+rax*8]; movsd [rdi+rax*8],xmm0; add rax,1; cmp rax,rcx; jne
const TRIAD: &[u8] = &[
    0xf2, 0x0f, 0x10, 0x04, 0xc2, 0xf2, 0x0f, 0x59, 0xc1, 0xf2, 0x0f, 0x58, 0x04, 0xc6, 0xf2, 0x0f,
    0x11, 0x04, 0xc7, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xc8, 0x75, 0xe4,
];
// mov rax,[rax]; dec rcx; jne
const CHASE: &[u8] = &[0x48, 0x8b, 0x00, 0x48, 0xff, 0xc9, 0x75, 0xf8];
// addsd xmm0,[rdi]; add rdi,8000; cmp rdi,rsi; jne
const COLUMN: &[u8] = &[
    0xf2, 0x0f, 0x58, 0x07, 0x48, 0x81, 0xc7, 0x40, 0x1f, 0x00, 0x00, 0x48, 0x39, 0xf7, 0x75, 0xf0,
];
// cmp r13,[rax]; sbb rdx,-1; add rax,8; cmp rax,rcx; jne: the place of a key among those of a node
const PLACE: &[u8] = &[
    0x4c, 0x3b, 0x28, 0x48, 0x83, 0xda, 0xff, 0x48, 0x83, 0xc0, 0x08, 0x48, 0x39, 0xc8, 0x75, 0xf0,
];
// lea rax,[rdx*8]; jmp: to the node there
const DOWN: &[u8] = &[0x48, 0x8d, 0x04, 0xd5, 0, 0, 0, 0, 0xeb, 0xe6];
// add qword [rdi],1; ret
const COUNTER: &[u8] = &[0x48, 0x83, 0x07, 0x01, 0xc3];
// add qword [rax],1; ret
const COUNTER_AT_RAX: &[u8] = &[0x48, 0x83, 0x00, 0x01, 0xc3];
// vgatherdpd ymm1,[rax+xmm2*8],ymm3; ret
const GATHER: &[u8] = &[0xc4, 0xe2, 0xe5, 0x92, 0x0c, 0xd0, 0xc3];
// mov rax,[rdi+rcx*8]; mov rdx,[rax]; inc rcx; cmp rcx,rsi; jne
const INDIRECT: &[u8] =
    &[0x48, 0x8b, 0x04, 0xcf, 0x48, 0x8b, 0x10, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x75, 0xf1];
// rep movsb; ret
const COPY: &[u8] = &[0xf3, 0xa4, 0xc3];
// mov rax,fs:[0x28]; ret
const CANARY: &[u8] = &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0x00, 0x00, 0x00, 0xc3];

fn all(recording: &Recording, keys: &[Key]) -> Accesses {
    chosen(recording, keys, &[])
}

fn chosen(recording: &Recording, keys: &[Key], filters: &[Filter]) -> Accesses {
    let code = TracedCode::read(recording);
    let profile = Profile::with_addresses(recording, code.addresses());
    let selection = Selection::resolve(&profile, filters).expect("the filters fit");
    let found = accesses(&profile, &code, &selection, keys);
    assert_eq!((found.unusable_blocks, found.unusable_records, found.damaged_pieces), (0, 0, 0));
    found
}

fn value(metric: &facts::Metric) -> f64 {
    assert_eq!(metric.evidence, Some(Evidence::Traced), "{metric:?}");
    metric.value.expect("a value")
}

/// Kind, bytes, accesses, pattern, lines, percent of their bytes.
fn facts_of(row: &AccessRow) -> (&'static str, f64, f64, Pattern, f64, f64) {
    (
        row.kind.map_or("mixed", |kind| kind.name()),
        value(&row.bytes),
        value(&row.accesses),
        row.pattern,
        value(&row.lines),
        value(&row.line_use),
    )
}

/// 100,000 iterations from element 1000 on.
fn triad(block: BlockId) -> BurstRecord {
    let (start, count) = (1000, 100_000);
    (block, count, vec![start, 0x10_0000, 0x20_0000, 0x30_0000, start + count])
}

#[test]
fn a_summarised_loop_is_counted_without_going_through_it() {
    let mut test = Test::new();
    let block = test.block(0x1000, TRIAD);
    for _ in 0..8 {
        test.builder.burst(PID, PID, &[triad(block), triad(block)]);
    }
    let found = all(&test.builder.build(), &[]);
    assert_eq!((found.total, found.bursts), (8 * 600_000, 8));
    let rows: Vec<_> = found.rows.iter().map(facts_of).collect();
    // 800,000 bytes from a multiple of 64 on.
    let row = |kind| (kind, 8.0, 1_600_000.0, Pattern::Unit, 12_500.0, 100.0);
    assert_eq!(rows, [row("read"), row("read"), row("write")]);
    for row in &found.rows {
        assert_eq!(
            (row.lines.low, row.lines.high, row.lines.samples),
            (Some(12_500.0), Some(12_500.0), 8)
        );
        let share = row.share.value.expect("a share");
        assert!((share - 100.0 / 3.0).abs() < 1e-9, "{share}");
        assert_eq!((row.share.low, row.share.high), (row.share.value, row.share.value));
        // One step back in each burst.
        assert!(value(&row.stride_share) > 99.99 && row.stride.value == Some(8.0));
    }
}

/// Numbers without a pattern (Knuth's MMIX linear congruential generator).
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    let mut state = 1u64;
    (0..count).map(move |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        0x7000_0000 + (state >> 40) * 64
    })
}

#[test]
fn a_chain_of_loads_is_a_pointer_chase_and_an_index_is_not() {
    let mut test = Test::new();
    let (chase, indirect) = (test.block(0x1000, CHASE), test.block(0x2000, INDIRECT));
    let chased: Vec<BurstRecord> = scattered(1000).map(|at| (chase, 1, vec![at])).collect();
    test.builder.burst(PID, PID, &chased);
    let layout = layout(INDIRECT, 0x2000).to_string();
    assert_eq!(layout, "words 4; values rcx@0:1 rdi@0:2 rax@1:3; ways 5");
    let followed: Vec<BurstRecord> =
        scattered(1000).zip(0..).map(|(at, i)| (indirect, 1, vec![i, 0x50_0000, at])).collect();
    test.builder.burst(PID, PID, &followed);
    let found = all(&test.builder.build(), &[]);
    let patterns: Vec<Pattern> = found.rows.iter().map(|row| row.pattern).collect();
    assert_eq!(patterns, [Pattern::PointerChase, Pattern::Unit, Pattern::Irregular]);
    let chase = &found.rows[0];
    assert_eq!(facts_of(chase).4, 1000.0);
    assert_eq!(value(&chase.line_use), 12.5);
    assert_eq!(chase.stride.value, None);
}

/// The next node is found by comparing, and by a block between that accesses nothing.
#[test]
fn nodes_that_are_found_by_their_keys_are_a_chase_and_those_in_a_row_are_not() {
    let expected = "words 3; values rax@0:1; ways 5; loop rax 1..2 +8; advanced 0 0 0 8 8";
    assert_eq!(layout(PLACE, 0x1000).to_string(), expected);
    let pattern = |nodes: &mut dyn Iterator<Item = u64>| {
        let mut test = Test::new();
        let place = test.block(0x1000, PLACE);
        test.block(0x1010, DOWN);
        // The first key is compared on the way into the loop.
        let of_node = |at: u64| [(place, 1, vec![at, at + 8]), (place, 14, vec![at + 8, at + 120])];
        let records: Vec<BurstRecord> = nodes.flat_map(of_node).collect();
        test.builder.burst(PID, PID, &records);
        all(&test.builder.build(), &[]).rows[0].pattern
    };
    assert_eq!(pattern(&mut scattered(1000).map(|at| at * 64)), Pattern::PointerChase);
    assert_eq!(pattern(&mut (0..1000).map(|node| 0x100_0000 + node * 120)), Pattern::Unit);
}

/// A counter that lies at another place each time.
fn counted_at(bursts: &[Vec<u64>]) -> AccessRow {
    let mut test = Test::new();
    let block = test.block(0x1000, COUNTER);
    for addresses in bursts {
        let records: Vec<BurstRecord> =
            addresses.iter().map(|at| (block, 1, vec![0x7ffd_0000, *at])).collect();
        test.builder.burst(PID, PID, &records);
    }
    let rows = all(&test.builder.build(), &[]).rows;
    let counter = |row: &AccessRow| row.kind.is_some_and(|kind| kind.name() == "read+write");
    rows.into_iter().find(counter).expect("a row other than the return")
}

#[test]
fn a_stride_that_changes_from_run_to_run_is_no_irregular_one() {
    let runs = |strides: &[u64]| -> Vec<u64> {
        let run = |stride: u64| (0..100).map(move |step| 0x100_0000 + step * stride);
        strides.iter().copied().flat_map(run).collect()
    };
    // Within a burst, and from burst to burst.
    let strides = [4096, 8192, 16_384, 32_768, 65_536];
    for bursts in [vec![runs(&strides)], strides.map(|stride| runs(&[stride])).to_vec()] {
        let found = counted_at(&bursts);
        assert_eq!(found.pattern, Pattern::Runs(16_384));
        let stride = &found.stride;
        assert_eq!((stride.low, stride.high), (Some(4096.0), Some(65_536.0)));
        assert!(value(&found.stride_share) > 97.0);
    }
    let few: Vec<u64> = scattered(100).chain((0..60).map(|step| step * 4096)).collect();
    assert_eq!(counted_at(&[few]).pattern, Pattern::Irregular);
}

#[test]
fn a_chain_with_equal_hops_is_a_chase_where_no_prefetcher_follows() {
    let mut patterns = Vec::new();
    for hop in [64, 2048, 4096, 55_887_744] {
        let mut test = Test::new();
        let chase = test.block(0x1000, CHASE);
        let records: Vec<BurstRecord> =
            (0..1000).map(|step| (chase, 1, vec![0x100_0000 + step * hop])).collect();
        test.builder.burst(PID, PID, &records);
        patterns.push(all(&test.builder.build(), &[]).rows[0].pattern);
    }
    let chase = Pattern::PointerChase;
    assert_eq!(patterns, [Pattern::Strided(64), Pattern::Strided(2048), chase, chase]);
}

#[test]
fn accesses_through_a_pointer_that_was_found_before_are_no_chase() {
    let mut test = Test::new();
    let (chase, counter) = (test.block(0x1000, CHASE), test.block(0x2000, COUNTER_AT_RAX));
    let found = scattered(10).map(|at| (chase, 1, vec![at]));
    let used = scattered(1000).map(|at| (counter, 1, vec![at, 0x7ffd_0000]));
    test.builder.burst(PID, PID, &found.chain(used).collect::<Vec<BurstRecord>>());
    assert_eq!(all(&test.builder.build(), &[]).rows[0].pattern, Pattern::Irregular);
}

/// As a state that a pointer on the stack leads to: the chain of loads grows, the address stays.
#[test]
fn a_chain_that_leads_to_one_address_again_and_again_is_no_chase() {
    let mut test = Test::new();
    let chase = test.block(0x1000, CHASE);
    let stays = std::iter::repeat_n(0x100_0000, 1000);
    let records: Vec<BurstRecord> =
        scattered(10).chain(stays).map(|at| (chase, 1, vec![at])).collect();
    test.builder.burst(PID, PID, &records);
    assert_eq!(all(&test.builder.build(), &[]).rows[0].pattern, Pattern::Constant);
}

/// A matrix of 1000 columns of doubles, 500 rows: neighbouring columns share their lines.
#[test]
fn columns_of_a_matrix_are_strided_and_use_little_of_each_line() {
    let mut test = Test::new();
    let block = test.block(0x1000, COLUMN);
    let column = |number: u64| {
        let start = 0x100_0000 + number * 8;
        (block, 500, vec![start, start + 500 * 8000])
    };
    for first in 0..6 {
        let columns: Vec<BurstRecord> = (first * 8..first * 8 + 4).map(column).collect();
        test.builder.burst(PID, PID, &columns);
    }
    let found = all(&test.builder.build(), &[]);
    let row = facts_of(&found.rows[0]);
    assert_eq!(row, ("read", 8.0, 12_000.0, Pattern::Strided(8000), 500.0, 50.0));
    assert_eq!(found.rows[0].lines.samples, 6);
    let share = value(&found.rows[0].stride_share);
    assert!((share - 1996.0 / 1999.0 * 100.0).abs() < 1e-9, "{share}");
}

#[test]
fn the_same_address_again_and_again_is_constant() {
    let mut test = Test::new();
    let (counter, canary) = (test.block(0x1000, COUNTER), test.block(0x2000, CANARY));
    let records: Vec<BurstRecord> = (0..100)
        .flat_map(|_| [(counter, 1, vec![0x60_0000, 0x7ffd_0000]), (canary, 1, vec![0x7ffd_0000])])
        .collect();
    test.builder.burst(PID, PID, &records);
    let found = all(&test.builder.build(), &[]);
    // ret reads the stack, in both functions.
    assert_eq!(found.rows.len(), 4);
    for row in &found.rows {
        assert_eq!(
            (row.pattern, value(&row.lines), value(&row.line_use)),
            (Pattern::Constant, 1.0, 12.5)
        );
        assert_eq!(row.lines.low, None, "one burst is no interval: {:?}", row.lines);
    }
    let kinds: Vec<&str> = found.rows.iter().map(|row| facts_of(row).0).collect();
    assert_eq!(kinds, ["read+write", "read", "read", "read"]);
}

#[test]
fn lanes_of_a_gather_are_accesses_and_masked_ones_are_not() {
    let mut test = Test::new();
    let block = test.block(0x1000, GATHER);
    let text = layout(GATHER, 0x1000).to_string();
    assert_eq!(text, "words 9; values rax@0:1 rsp@0:2 v2@0:3+2 v3@0:5+4; ways 2");
    let on = u64::MAX;
    // Indices 0, 16, -8 and 3; lane 3 is off.
    let indices = [16 << 32, 3 << 32 | 0xffff_fff8];
    let values = vec![0x80_0000, 0x7ffd_0000, indices[0], indices[1], on, on, on, 0];
    test.builder.burst(PID, PID, &[(block, 1, values)]);
    let found = all(&test.builder.build(), &[]);
    let row = facts_of(&found.rows[0]);
    assert_eq!((row.0, row.1, row.2, row.4), ("read", 8.0, 3.0, 3.0));
}

#[test]
fn a_repeated_string_instruction_is_as_many_accesses_as_it_repeats() {
    let mut test = Test::new();
    let block = test.block(0x1000, COPY);
    let text = layout(COPY, 0x1000).to_string();
    assert_eq!(text, "words 5; values rcx@0:1 rsp@0:2 rsi@0:3 rdi@0:4; ways 2");
    test.builder.burst(PID, PID, &[(block, 1, vec![6400, 0x7ffd_0000, 0x80_0020, 0x90_0000])]);
    let found = all(&test.builder.build(), &[]);
    let rows: Vec<_> = found.rows.iter().map(facts_of).collect();
    assert_eq!(rows[0], ("read", 1.0, 6400.0, Pattern::Unit, 101.0, 6400.0 / 6464.0 * 100.0));
    assert_eq!(rows[1], ("write", 1.0, 6400.0, Pattern::Unit, 100.0, 100.0));
}

#[test]
fn sites_are_grouped_named_and_filtered() {
    let mut test = Test::new();
    let (triad_block, chase) = (test.block(0x1000, TRIAD), test.block(0x2000, CHASE));
    for (offset, line) in [(0x1000, 10), (0x1009, 10), (0x100e, 11)] {
        test.name(offset, "triad", line);
    }
    test.name(0x2000, "walk", 20);
    test.builder.thread(PID, PID, "main", 0.0, 1.0).thread(PID, PID + 1, "other", 0.0, 1.0);
    for tid in [PID, PID + 1] {
        test.builder.burst(PID, tid, &[triad(triad_block), (chase, 1, vec![0x70_0000])]);
    }
    let recording = test.builder.build();
    let by_function = all(&recording, &[Key::Function]);
    let triad_row = &by_function.rows[0];
    assert_eq!(
        (by_function.rows.len(), triad_row.kind, triad_row.pattern),
        (2, None, Pattern::Unit)
    );
    assert_eq!((value(&triad_row.accesses), value(&triad_row.lines)), (600_000.0, 37_500.0));
    assert_eq!(by_function.rows[1].pattern, Pattern::Unknown);
    assert_eq!(all(&recording, &[Key::SourceLine]).rows.len(), 3);
    assert_eq!(all(&recording, &[Key::Module]).rows.len(), 1);
    let walk = chosen(&recording, &[], &[Filter::Function("walk".to_owned())]);
    assert_eq!((walk.rows.len(), walk.total), (1, by_function.total));
    let other = chosen(&recording, &[Key::Module], &[Filter::Thread("other".to_owned())]);
    assert_eq!(value(&other.rows[0].accesses), 300_001.0);
    let early = chosen(&recording, &[], &[Filter::Time { start: 0.0, end: 0.05 }]);
    assert_eq!(value(&early.rows[0].accesses), 100_000.0);
}

/// What bursts say of each other: one that differs widens the interval.
#[test]
fn shares_have_an_interval_from_the_differences_between_bursts() {
    let mut test = Test::new();
    let (counter, chase) = (test.block(0x1000, COUNTER), test.block(0x2000, CHASE));
    for number in 0..10 {
        let chased = 20 + 10 * (number % 2);
        let mut records: Vec<BurstRecord> = vec![(counter, 1, vec![0x60_0000, 0x7ffd_0000]); 10];
        records.extend((0..chased).map(|at| (chase, 1, vec![0x70_0000 + at * 64])));
        test.builder.burst(PID, PID, &records);
    }
    let found = all(&test.builder.build(), &[]);
    let share = &found.rows[0].share;
    let (low, value, high) = (share.low.unwrap(), share.value.unwrap(), share.high.unwrap());
    assert!((value - 250.0 / 450.0 * 100.0).abs() < 1e-9);
    assert!(low < 55.0 && low > 50.0 && high > 56.0 && high < 61.0, "{low} {high}");
}

#[test]
fn what_does_not_fit_is_counted_and_nothing_else() {
    let mut test = Test::new();
    let block = test.block(0x1000, COUNTER);
    let column = test.block(0x2000, COLUMN);
    let module = test.module;
    let layout = layout(COUNTER, 0x1000).to_string();
    // Half an instruction, a layout that lacks a value, one that is none, no code, a loop that is none.
    for (code, record) in [
        (&COUNTER[..2], layout.as_str()),
        (COUNTER, "words 2; values rdi@0:1; ways 2"),
        (COUNTER, "nonsense"),
        (&[], layout.as_str()),
        (COUNTER, "words 4; values rdi@0:1 rsp@0:2; ways 2; iterations 3"),
    ] {
        test.builder.block(PID, module, 0x9000, code, record);
    }
    let stack = 0x7ffd_0000;
    let good = (block, 1, vec![0x60_0000, stack]);
    let records = [
        good.clone(),
        (BlockId(99), 1, vec![1, 2]),
        (BlockId(4), 1, vec![1, 2]),
        (block, 1, vec![1]),
        (block, 2, vec![1, 2]),
        (block, 0, vec![1, 2]),
        // A loop that runs out of the address space counts, its lines are a lower bound.
        (column, 1 << 16, vec![u64::MAX << 20, 0]),
        // One that no core runs in 3 ms does not.
        (column, 1 << 60, vec![0, 0]),
        (column, 1, vec![u64::MAX, 0]),
    ];
    test.builder.burst(PID, PID, &records);
    for pid in [PID + 1, PID] {
        test.builder.burst(pid, pid, std::slice::from_ref(&good));
    }
    let mut recording = test.builder.build();
    recording.records[2].bytes.push(0x80);
    let code = TracedCode::read(&recording);
    let profile = Profile::with_addresses(&recording, code.addresses());
    let found = accesses(&profile, &code, &Selection::default(), &[]);
    assert_eq!((found.unusable_blocks, found.unusable_records, found.damaged_pieces), (5, 7, 1));
    let column_row = &found.rows[0];
    assert_eq!(column_row.accesses.value, Some(f64::from((1 << 16) + 1)));
    assert_eq!(column_row.lines.high, None, "{:?}", column_row.lines);
    assert_eq!(found.rows[1].accesses.value, Some(2.0));
}

#[test]
fn lost_and_refused_bursts_are_reported() {
    let mut test = Test::new();
    let block = test.block(0x1000, COUNTER);
    for _ in 0..97 {
        test.builder.burst(PID, PID, &[(block, 1, vec![0x60_0000, 0x7ffd_0000])]);
    }
    test.builder.bursts_refused(PID, PID, "gs in use", 1).bursts_refused(PID, PID, "jit code", 2);
    let mut recording = test.builder.build();
    recording.bursts[5].records_lost = true;
    let found = all(&recording, &[]);
    assert_eq!((found.bursts, found.lost_bursts), (96, 1));
    let coverage = coverage(&recording);
    assert_eq!(coverage.traced.value, Some(97.0));
    let (low, high) = (coverage.traced.low.unwrap(), coverage.traced.high.unwrap());
    assert!(low > 91.0 && low < 92.0 && high > 98.9 && high < 99.1, "{low} {high}");
    let refused: Vec<(&str, f64)> = coverage
        .refused
        .iter()
        .map(|(reason, share)| (reason.as_str(), share.value.unwrap()))
        .collect();
    assert_eq!(refused, [("jit code", 2.0), ("gs in use", 1.0)]);
    let none = analysis::accesses::coverage(&Recording::default());
    assert!(none.traced.value.is_none() && none.traced.note.is_some());
}
