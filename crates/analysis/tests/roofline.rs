//! Operations and bytes of code that is known.

mod common;

use analysis::memory::{Limit, Mix};
use analysis::roofline::{LevelRoof, Roofline, WorkRow, lowest_roof, roofline};
use analysis::{CodeKeys, InLoop, Key, Profile, Selection, TracedCode};
use base::FileOffset;
use facts::{Evidence, Metric, Recording, SampledCode};

use common::{PID, Test, layout};

// movsd xmm0,[rdx+rax*8]; mulsd xmm0,xmm1; addsd xmm0,[rsi+rax*8]; movsd [rdi+rax*8],xmm0; add rax,1; cmp rax,rcx; jne
const TRIAD: &[u8] = &[
    0xf2, 0x0f, 0x10, 0x04, 0xc2, 0xf2, 0x0f, 0x59, 0xc1, 0xf2, 0x0f, 0x58, 0x04, 0xc6, 0xf2, 0x0f,
    0x11, 0x04, 0xc7, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xc8, 0x75, 0xe4,
];
// vmovups ymm0,[rdi]; vfmadd231ps ymm0,ymm1,ymm2; vaddps zmm3{k1},zmm3,zmm3; ret
const MASKED: &[u8] = &[
    0xc5, 0xfc, 0x10, 0x07, 0xc4, 0xe2, 0x75, 0xb8, 0xc2, 0x62, 0xf1, 0x64, 0x49, 0x58, 0xdb, 0xc3,
];

fn by_function(recording: &Recording) -> Roofline {
    let code = TracedCode::read(recording);
    let profile = Profile::with_addresses(recording, code.addresses());
    roofline(&profile, &code, &Selection::default(), &CodeKeys::new(&profile, &[Key::Function]))
}

fn traced(metric: &Metric) -> f64 {
    assert_eq!(metric.evidence, Some(Evidence::Traced), "{metric:?}");
    metric.value.expect("a value")
}

#[test]
fn a_triad_has_two_operations_per_24_bytes() {
    let mut test = Test::new();
    let block = test.block(0x1000, TRIAD);
    for (offset, line) in [(0x1000, 10), (0x1005, 10), (0x1009, 10), (0x100e, 10)] {
        test.name(offset, "triad", line);
    }
    for count in [1000, 2000, 3000] {
        let values = vec![0, 0x10_0000, 0x20_0000, 0x30_0000, count];
        test.builder.burst(PID, PID, &[(block, count, values)]);
    }
    let found = by_function(&test.builder.build());
    assert_eq!((found.rows.len(), found.flops, found.bursts), (1, 12_000, 3));
    let row = &found.rows[0];
    assert_eq!(
        (traced(&row.flops), traced(&row.share), traced(&row.double)),
        (12_000.0, 100.0, 100.0)
    );
    assert_eq!((traced(&row.loads), traced(&row.stores)), (12_000.0, 6_000.0));
    assert_eq!(traced(&row.bytes), 144_000.0);
    let intensity = traced(&row.intensity);
    assert!((intensity - 1.0 / 12.0).abs() < 1e-12);
    let width = row.intensity.high.unwrap() - row.intensity.low.unwrap();
    assert!((0.0..1e-9).contains(&width), "all bursts agree: {width}");

    let seconds = Metric::with_interval(Evidence::Timed, 6e-6, "s", (5e-6, 8e-6), 9);
    let rate = row.rate(&seconds);
    assert!((rate.value.unwrap() - 2.0).abs() < 1e-9 && (rate.low.unwrap() - 1.5).abs() < 1e-9);
    assert_eq!(rate.evidence, Some(Evidence::Estimated));
    let bytes =
        Metric::with_interval(Evidence::Simulated, 96_000.0, "bytes", (80_000.0, 120_000.0), 9);
    let dram = row.intensity_of(&bytes);
    assert_eq!((dram.value, dram.low, dram.high), (Some(0.125), Some(0.1), Some(0.15)));
    let unknown = row.rate(&Metric::unavailable("s", "nobody measured it"));
    assert_eq!((unknown.value, unknown.note.as_deref()), (None, Some("nobody measured it")));

    // Scalar double precision, all of it.
    assert_eq!(traced(&row.vector), 0.0);
    assert_eq!(row.mix, Some(Mix { double: [1.0, 0.0], single: [0.0, 0.0] }));
}

fn known(value: f64, unit: &str) -> Metric {
    Metric::with_interval(Evidence::Calibrated, value, unit, (value, value), 1)
}

#[test]
fn the_lowest_roof_bounds() {
    let peak = || Some((Limit::Vector, known(100.0, "GFLOP/s")));
    let intensity = |value, low, high| {
        Metric::with_interval(Evidence::Estimated, value, "FLOP/byte", (low, high), 9)
    };
    let dram =
        |intensity| [LevelRoof { limit: Limit::Dram, intensity, bandwidth: known(20.0, "GB/s") }];
    let (limit, roof) = lowest_roof(peak(), &dram(intensity(0.125, 0.1, 0.15))).expect("a roof");
    assert_eq!(
        (limit, roof.value, roof.low, roof.high),
        (Limit::Dram, Some(2.5), Some(2.0), Some(3.0))
    );
    let (limit, roof) = lowest_roof(peak(), &dram(intensity(50.0, 4.0, 60.0))).expect("a roof");
    // Its bytes may be so many that memory bounds after all.
    assert_eq!((limit, roof.value, roof.low), (Limit::Vector, Some(100.0), Some(80.0)));
    // Nothing comes from memory, and the second level was not measured.
    let nothing = Metric::unavailable("FLOP/byte", "the divisor is 0");
    let mut levels = dram(nothing).to_vec();
    let bandwidth = Metric::unavailable("GB/s", "not measured");
    levels.push(LevelRoof {
        limit: Limit::Level(2),
        intensity: intensity(1.0, 1.0, 1.0),
        bandwidth,
    });
    assert_eq!(lowest_roof(peak(), &levels).map(|found| found.0), Some(Limit::Vector));
    assert_eq!(lowest_roof(None, &levels), None);
}

// A loop like the triad; one without memory: mulsd xmm0,xmm1; addsd xmm2,xmm0; dec rcx; jne; then addsd xmm2,xmm2; ret
const TWO_LOOPS: &[u8] = &[
    0xf2, 0x0f, 0x10, 0x04, 0xc2, 0xf2, 0x0f, 0x59, 0xc1, 0xf2, 0x0f, 0x58, 0x04, 0xc6, 0xf2, 0x0f,
    0x11, 0x04, 0xc7, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xc8, 0x75, 0xe4, 0xf2, 0x0f, 0x59, 0xc1,
    0xf2, 0x0f, 0x58, 0xd0, 0x48, 0xff, 0xc9, 0x75, 0xf3, 0xf2, 0x0f, 0x58, 0xd2, 0xc3,
];

#[test]
fn rows_by_loop_have_the_time_and_the_work_of_each() {
    let mut test = Test::new();
    let triad = test.block(0x1000, &TWO_LOOPS[..28]);
    let end = test.block(0x1029, &TWO_LOOPS[41..]);
    let values = layout(&TWO_LOOPS[41..], 0x1029).words - 1;
    for (offset, line) in [(0x1005, 10), (0x1009, 10), (0x100e, 10), (0x1029, 14)] {
        test.name(offset, "both", line);
    }
    for (offset, line, count) in [(0x1000, 10, 600), (0x101c, 12, 300), (0x102d, 14, 100)] {
        let at = test.builder.code(test.module, offset, &[("both", "/src/program.c", line)]);
        let stack = test.builder.stack(&[at]);
        test.builder.samples(PID, PID, stack, count);
    }
    let start = vec![0, 0x10_0000, 0x20_0000, 0x30_0000, 1000];
    let once = (end, 1, vec![0x7ffd_0000; values]);
    test.builder.burst(PID, PID, &[(triad, 1000, start), once]);
    let mut recording = test.builder.build();
    recording.sampled_code.push(SampledCode {
        module: test.module,
        offset: FileOffset(0x1000),
        bytes: TWO_LOOPS.to_vec(),
    });
    let code = TracedCode::read(&recording);
    let profile = Profile::with_addresses(&recording, code.addresses());
    let keys = CodeKeys::new(&profile, &[Key::Loop]);
    let found = roofline(&profile, &code, &Selection::default(), &keys);
    let flops: Vec<f64> = found.rows.iter().map(|row| traced(&row.flops)).collect();
    assert_eq!(flops, [2000.0, 1.0]);
    let lines = |row: &WorkRow| keys.loop_of(&row.key).and_then(|one| one.line);
    assert_eq!(found.rows.iter().map(lines).collect::<Vec<_>>(), [Some(10), None]);
    assert!(matches!(found.rows[1].key.in_loop, Some(InLoop::Outside(_))));
    let times = keys.self_times(&Selection::default());
    let time = |row: &WorkRow| times.get(&row.key).map(|time| time.records());
    assert_eq!(found.rows.iter().map(time).collect::<Vec<_>>(), [Some(600), Some(100)]);
    // The loop without traced work has its time all the same.
    assert_eq!(times.len(), 3);
}

#[test]
fn lanes_behind_a_mask_are_an_upper_bound() {
    let mut test = Test::new();
    let text = layout(MASKED, 0x1000).to_string();
    assert_eq!(text, "words 3; values rsp@0:1 rdi@0:2; ways 4");
    let block = test.block(0x1000, MASKED);
    for offset in [0x1000, 0x1004, 0x1009, 0x100f] {
        test.name(offset, "masked", 3);
    }
    test.builder.burst(PID, PID, &vec![(block, 1, vec![0x7ffd_0000, 0x60_0000]); 10]);
    let found = by_function(&test.builder.build());
    let flops = &found.rows[0].flops;
    assert_eq!((flops.value, flops.low, flops.high), (Some(320.0), Some(160.0), Some(320.0)));
    // 32 bytes and the return address.
    assert_eq!(traced(&found.rows[0].bytes), 400.0);
    let intensity = &found.rows[0].intensity;
    assert_eq!((traced(intensity), intensity.low), (0.8, None));
    assert!(intensity.note.as_deref().is_some_and(|note| note.starts_with("at most")));
}
