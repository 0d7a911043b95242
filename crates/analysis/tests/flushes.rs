//! Flushes and fences of programs whose behaviour is known, from bursts as they would have been recorded.

mod common;

use analysis::memory::{FlushPlace, FlushRow, Memory};
use analysis::objects::{Grouping, Objects};
use analysis::{Key, Profile, Selection, TracedCode};
use base::BlockId;
use facts::{CounterKind, Evidence};
use testkit::recording::BurstRecord;

use common::{PID, Test};

// mov [rdi],rax; clwb [rdi]; sfence; add rdi,64; cmp rdi,rsi; jb
const PERSIST: &[u8] = &[
    0x48, 0x89, 0x07, 0x66, 0x0f, 0xae, 0x37, 0x0f, 0xae, 0xf8, 0x48, 0x83, 0xc7, 0x40, 0x48, 0x39,
    0xf7, 0x72, 0xed,
];
// mov [rdi],rax; clwb [rdi]; add rdi,64; cmp rdi,rsi; jb
const FLUSH: &[u8] = &[
    0x48, 0x89, 0x07, 0x66, 0x0f, 0xae, 0x37, 0x48, 0x83, 0xc7, 0x40, 0x48, 0x39, 0xf7, 0x72, 0xf0,
];
// clflushopt [rdi]; add rdi,64; cmp rdi,rsi; jb
const ONLY_FLUSH: &[u8] =
    &[0x66, 0x0f, 0xae, 0x3f, 0x48, 0x83, 0xc7, 0x40, 0x48, 0x39, 0xf7, 0x72, 0xf3];
// movnti [rdi],rax; add rdi,8; cmp rdi,rsi; jb
const PAST: &[u8] = &[0x48, 0x0f, 0xc3, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x72, 0xf3];
// sfence; jmp +62: nothing else makes a record of it
const FENCE: &[u8] = &[0x0f, 0xae, 0xf8, 0xeb, 0x3e];

// lock or dword ptr [rdi],0; jmp +62
const LOCKED: &[u8] = &[0xf0, 0x83, 0x0f, 0x00, 0xeb, 0x3e];

const BASE: u64 = 0x1_0000_0000;
const LINES: u64 = 64;

struct Code {
    test: Test,
    persist: BlockId,
    flush: BlockId,
    only_flush: BlockId,
    past: BlockId,
    fence: BlockId,
    locked: BlockId,
}

impl Code {
    fn new() -> Code {
        let mut test = Test::new();
        let blocks = [PERSIST, FLUSH, ONLY_FLUSH, PAST, FENCE, LOCKED];
        let [persist, flush, only_flush, past, fence, locked] = std::array::from_fn(|at| {
            let offset = 0x1000 + at as u64 * 0x100;
            let block = test.block(offset, blocks[at]);
            for inside in 0..blocks[at].len() as u64 {
                test.name(offset + inside, "write", 7);
            }
            block
        });
        Code { test, persist, flush, only_flush, past, fence, locked }
    }

    /// What the same burst of thread `tid`, ten times in a second, shows of the whole program.
    fn seen(mut self, tids: &[i32], records: &[BurstRecord]) -> FlushRow {
        for _ in 0..10 {
            for tid in tids {
                self.test.builder.burst(PID, *tid, records);
            }
        }
        let stack = self.test.builder.unnamed(self.test.module, 0x100a);
        let stack = self.test.builder.stack(&[stack]);
        self.test.builder.samples(PID, PID, stack, 1000);
        self.test.builder.counter(CounterKind::TaskClock, 1_000_000_000);
        let mut recording = self.test.builder.build();
        recording.run.elapsed_ns = 1_000_000_000;
        let code = TracedCode::read(&recording);
        let profile = Profile::with_addresses(&recording, code.addresses());
        let memory = Memory::new(&profile, &code);
        let (objects, selection) = (Objects::new(&profile), Selection::default());
        let keys = &[Key::Function];
        let grouping = Grouping {
            profile: &profile,
            code: &code,
            objects: &objects,
            selection: &selection,
            keys,
        };
        let found = memory.flushes(&grouping, FlushPlace::Own).expect("figures");
        assert_eq!((found.rows.len(), found.unused), (1, 0), "{found:?}");
        found.rows.into_iter().next().expect("a row")
    }
}

/// A loop over lines.
fn lines(block: BlockId, from: u64, count: u64) -> BurstRecord {
    let start = BASE + from * 64;
    (block, count, vec![start, start + count * 64])
}

fn percents(row: &FlushRow) -> [Option<f64>; 3] {
    [row.redundant.value, row.alone.value, row.lines_per_fence.value]
}

#[test]
fn a_fence_for_each_line_waits_alone() {
    let code = Code::new();
    let records = [lines(code.persist, 0, LINES)];
    let row = code.seen(&[PID], &records);
    assert_eq!(percents(&row), [Some(0.0), Some(100.0), Some(1.0)]);
    assert_eq!(row.flushes.value, row.fences.value);
    assert_eq!(
        (row.flushes.unit.as_str(), row.flushes.evidence),
        ("count/s", Some(Evidence::Estimated))
    );
    // None redundant in ten bursts: up to three in ten may have some.
    assert_eq!(row.redundant.high, Some(30.0));
    assert!(row.flushes.low <= row.flushes.value && row.flushes.value <= row.flushes.high);
    // All samples are at the instruction after the fence.
    assert_eq!(row.time.value.map(|time| time.round()), Some(1.0));
    assert_eq!(row.time_percent.value, Some(100.0));
}

#[test]
fn one_fence_for_many_lines_or_few_lines_is_no_row_of_single_ones() {
    let code = Code::new();
    let records = [lines(code.flush, 0, LINES), (code.fence, 1, vec![])];
    assert_eq!(percents(&code.seen(&[PID], &records)), [Some(0.0), Some(0.0), Some(64.0)]);
    // Seven lines are too few to tell.
    let code = Code::new();
    let records = [lines(code.persist, 0, 7), lines(code.persist, 900, 7)];
    assert_eq!(percents(&code.seen(&[PID], &records))[1], Some(0.0));
}

/// A locked access waits for all lines before it; where there are none it is no fence.
#[test]
fn a_locked_access_is_a_fence_where_it_has_lines_to_wait_for() {
    let code = Code::new();
    let lock = || (code.locked, 1, vec![BASE - 4096]);
    let records = [lock(), lines(code.flush, 0, LINES), lock(), lock(), (code.fence, 1, vec![])];
    let row = code.seen(&[PID], &records);
    assert_eq!(percents(&row), [Some(0.0), Some(0.0), Some(64.0)]);
    // The second of three, and the fence.
    let [flushes, fences] = [&row.flushes, &row.fences].map(|rate| rate.value.expect("known"));
    assert!((flushes / fences - 32.0).abs() < 1e-9, "{flushes} {fences}");
}

/// Entries, each followed by the head that makes it valid: both need their fence.
#[test]
fn fences_for_different_places_by_turns_are_no_row() {
    let code = Code::new();
    let entry = |at: u64| [lines(code.persist, 1000 + at, 1), lines(code.persist, 0, 1)];
    let records: Vec<BurstRecord> = (0..100).flat_map(entry).collect();
    assert_eq!(percents(&code.seen(&[PID], &records)), [Some(0.0), Some(0.0), Some(1.0)]);
}

#[test]
fn a_flush_is_redundant_where_no_store_came_since() {
    let code = Code::new();
    let records = [
        lines(code.flush, 0, LINES),
        lines(code.only_flush, 0, LINES),
        (code.fence, 1, vec![]),
        // With something new in it again.
        lines(code.flush, 0, LINES),
        (code.fence, 1, vec![]),
    ];
    let row = code.seen(&[PID], &records);
    let third = row.redundant.value.expect("known");
    assert!((third - 100.0 / 3.0).abs() < 1e-6, "{third}");
    assert_eq!(row.lines_per_fence.value, Some(64.0));
}

#[test]
fn what_went_past_the_caches_needs_no_flush() {
    let code = Code::new();
    let past = (code.past, LINES * 8, vec![BASE, BASE + LINES * 64]);
    let records = [past, lines(code.only_flush, 0, LINES), (code.fence, 1, vec![])];
    let row = code.seen(&[PID], &records);
    assert_eq!(percents(&row), [Some(100.0), Some(0.0), Some(64.0)]);
    let (streamed, flushes) = (row.streamed.value.unwrap(), row.flushes.value.unwrap());
    assert!((streamed / flushes - 8.0).abs() < 1e-6, "{streamed} {flushes}");
}

/// A thread that flushes what another one stores sees no store; one that stores itself knows.
#[test]
fn flushes_for_other_threads_are_not_called_redundant() {
    let twice = |code: &Code| {
        let flush = || lines(code.only_flush, 0, LINES);
        [flush(), flush(), (code.fence, 1, vec![])]
    };
    let code = Code::new();
    let records = twice(&code);
    assert_eq!(code.seen(&[PID, PID + 1], &records).redundant.value, Some(0.0));
    let code = Code::new();
    let records = twice(&code);
    assert_eq!(code.seen(&[PID], &records).redundant.value, Some(50.0));
    let code = Code::new();
    let records = [&[lines(code.flush, 0, LINES)][..], &twice(&code)].concat();
    let found = code.seen(&[PID, PID + 1], &records).redundant.value.expect("known");
    assert!((found - 200.0 / 3.0).abs() < 1e-6, "{found}");
}
