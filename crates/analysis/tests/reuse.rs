//! Miss ratio curves of programs whose reuse is known, from bursts that see a part of it.

mod common;

use analysis::reuse::{CacheSize, Reuse, ReuseRow, TlbSizes, reuse};
use analysis::{Key, Profile, Selection, TracedCode};
use base::{BlockId, Bytes};
use facts::{Evidence, Recording};
use testkit::recording::BurstRecord;

use common::{PID, Test};

// movsd xmm0,[rdx+rax*8]; mulsd xmm0,xmm1; addsd xmm0,[rsi+rax*8]; movsd [rdi+rax*8],xmm0; add rax,1; cmp rax,rcx; jne
const TRIAD: &[u8] = &[
    0xf2, 0x0f, 0x10, 0x04, 0xc2, 0xf2, 0x0f, 0x59, 0xc1, 0xf2, 0x0f, 0x58, 0x04, 0xc6, 0xf2, 0x0f,
    0x11, 0x04, 0xc7, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xc8, 0x75, 0xe4,
];
// mov rax,[rax]; dec rcx; jne
const CHASE: &[u8] = &[0x48, 0x8b, 0x00, 0x48, 0xff, 0xc9, 0x75, 0xf8];

const CACHES: [CacheSize; 2] =
    [CacheSize { level: 1, bytes: Bytes(48 << 10) }, CacheSize { level: 2, bytes: Bytes(2 << 20) }];

fn by_function(recording: &Recording) -> Reuse {
    let code = TracedCode::read(recording);
    let profile = Profile::with_addresses(recording, code.addresses());
    let selection = Selection::default();
    reuse(&profile, &code, &selection, &[Key::Function], &CACHES, TlbSizes::default())
}

/// Value, low and high at a size; the evidence is as it should be.
fn miss(row: &ReuseRow, kib: u64) -> (f64, f64, f64) {
    let metric = row.curve.miss(Bytes(kib << 10));
    assert_eq!(metric.evidence, Some(Evidence::Simulated), "{kib} KiB: {metric:?}");
    (metric.value.unwrap(), metric.low.unwrap(), metric.high.unwrap())
}

/// Numbers without a pattern (Knuth's MMIX linear congruential generator).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Loads of one 8-byte word from each of `lines` in this order.
fn loads(block: BlockId, lines: impl Iterator<Item = u64>) -> Vec<BurstRecord> {
    lines.map(|line| (block, 1, vec![0x7000_0000 + line * 64])).collect()
}

/// Round and round over 64 KB: every access misses in less, none in more. Bursts begin anywhere and are of any length.
#[test]
fn a_cyclic_walk_has_its_step_at_its_length() {
    let mut test = Test::new();
    let block = test.block(0x1000, CHASE);
    let mut random = Random(1);
    for _ in 0..30 {
        let (start, length) = (random.below(1024), 1000 + random.below(2000));
        let walk = (start..start + length).map(|line| line % 1024);
        test.builder.burst(PID, PID, &loads(block, walk));
    }
    let found = by_function(&test.builder.build());
    let row = &found.rows[0];
    assert_eq!(miss(row, 48), (100.0, 100.0, 100.0));
    // All distances are 1023, so 64 KB hold all. Bursts go round once or twice only, so that many lines are lost sight of
    // between 48 and 64 KB: the bounds tell.
    let (value, low, high) = miss(row, 64);
    assert!(low == 0.0 && value < 12.0 && high < 22.0, "{low} {value} {high}");
    let fitting = row.curve.fitting();
    assert_eq!(fitting.low, Some(65536.0), "{fitting:?}");
    // 16 small pages, one large one.
    assert_eq!((row.small_pages.pages.value, row.large_pages.pages.value), (Some(16.0), Some(1.0)));
    // Only that of a burst's first access is not known.
    assert!(row.large_pages.first_miss.value.unwrap() < 0.1, "{:?}", row.large_pages);
    assert_eq!(found.bursts, (30, 30));
}

/// Lines drawn at random from a hot and a cold set. The whole trace gives the true curve; bursts of a small part of it
/// must cover it with their intervals.
#[test]
fn bursts_estimate_what_the_whole_trace_shows() {
    let mut random = Random(7);
    let mut draw = || match random.below(10) {
        0..6 => random.below(512),
        6..9 => 1000 + random.below(4096),
        _ => 10_000 + random.below(65_536),
    };
    let trace: Vec<u64> = (0..800_000).map(|_| draw()).collect();
    let truth = true_curve(&trace, &[8, 64, 256, 512]);
    let mut test = Test::new();
    let block = test.block(0x1000, CHASE);
    for start in (0..40).map(|number| number * 20_000) {
        let part = trace[start..start + 20_000].iter().copied();
        test.builder.burst(PID, PID, &loads(block, part));
    }
    let found = by_function(&test.builder.build());
    for (kib, expected) in [8, 64, 256, 512].into_iter().zip(truth) {
        let metric = found.rows[0].curve.miss(Bytes(kib << 10));
        let Some(value) = metric.value else {
            // A burst touches about 5,600 lines: 350 KB.
            assert!(kib == 512 && metric.high.unwrap() > expected, "{kib} {metric:?}");
            continue;
        };
        let (low, high) = (metric.low.unwrap(), metric.high.unwrap());
        assert!(low - 0.5 < expected && expected < high + 0.5, "{kib} {expected} {metric:?}");
        assert!((value - expected).abs() < 2.0 && high - low < 5.0, "{kib} {expected} {metric:?}");
    }
}

/// Misses in percent of a cache of so many KB, by a plain list; the first quarter only warms it.
fn true_curve(trace: &[u64], kib: &[usize]) -> Vec<f64> {
    let limit = kib.iter().max().unwrap() * 16;
    let mut last_seen = std::collections::HashMap::new();
    let mut stack: Vec<u64> = Vec::new();
    let (mut misses, mut counted) = (vec![0u64; kib.len()], 0u64);
    for (at, line) in trace.iter().enumerate().take(100_000) {
        let known = last_seen.insert(*line, at).is_some();
        let depth = if known { stack.iter().rev().position(|one| one == line) } else { None };
        if let Some(depth) = depth {
            let at = stack.len() - 1 - depth;
            stack.remove(at);
        } else if stack.len() > limit {
            stack.remove(0);
        }
        stack.push(*line);
        if at >= 25_000 {
            counted += 1;
            for (misses, kib) in misses.iter_mut().zip(kib) {
                *misses += u64::from(depth.is_none_or(|depth| depth >= kib * 16));
            }
        }
    }
    misses.iter().map(|misses| *misses as f64 / counted as f64 * 100.0).collect()
}

/// A stream misses once per line in every cache that bursts can tell of: 1 in 8, and beyond that at most so much.
#[test]
fn a_stream_misses_once_per_line_and_further_distances_are_unknown() {
    let mut test = Test::new();
    let block = test.block(0x1000, TRIAD);
    test.name(0x1000, "triad", 10);
    test.name(0x1009, "triad", 10);
    test.name(0x100e, "triad", 11);
    for number in 0..10 {
        let (start, count) = (number * 1_000_000, 100_000);
        let values = vec![start, 0x1000_0000, 0x9000_0000, 0x1_1000_0000, start + count];
        test.builder.burst(PID, PID, &[(block, count, values)]);
    }
    let found = by_function(&test.builder.build());
    let row = &found.rows[0];
    for kib in [4, 48, 1024] {
        let (value, low, high) = miss(row, kib);
        assert!((value - 12.5).abs() < 0.01 && low > 12.4 && high < 12.6, "{kib} {value}");
    }
    // 37,500 lines: 2.3 MB.
    let beyond = row.curve.miss(Bytes(4 << 20));
    assert_eq!((beyond.value, beyond.low), (None, Some(0.0)));
    assert!(beyond.high.unwrap() > 12.4 && beyond.note.is_some(), "{beyond:?}");
    let fitting = row.curve.fitting();
    assert_eq!(fitting.value, None);
    assert!(fitting.note.unwrap().contains("bursts are too short"));
    // Three pages of 512 doubles each.
    let pages = row.small_pages.pages.value.unwrap();
    assert!((586.0..=589.0).contains(&pages), "{pages}");
    let first = row.small_pages.first_miss.value.unwrap();
    assert!((first - 100.0 / 512.0).abs() < 0.01, "{first}");
}

/// The same loop over 15 KB again and again: from there on nothing misses, and that is said of all larger caches.
#[test]
fn a_blocked_loop_fits_its_block() {
    let mut test = Test::new();
    let block = test.block(0x1000, TRIAD);
    for _ in 0..10 {
        let turn = (block, 640, vec![0, 0x10_0000, 0x20_0000, 0x30_0000, 640]);
        test.builder.burst(PID, PID, &vec![turn; 500]);
    }
    let found = by_function(&test.builder.build());
    for row in &found.rows {
        assert!(miss(row, 8).0 > 12.0, "{:?}", row.curve);
        let (value, low, high) = miss(row, 2048);
        assert!(value < 0.1 && low == 0.0 && high < 4.0, "{value} {low} {high}");
        let fitting = row.curve.fitting();
        assert_eq!(
            (fitting.value, fitting.low, fitting.high),
            (Some(16384.0), Some(16384.0), Some(16384.0))
        );
    }
}
