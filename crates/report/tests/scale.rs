//! `fathom scale` on times made by hand: table, laws, plots in text and SVG.

use std::path::PathBuf;

use facts::{Evidence, Metric};
use report::scale::{Collected, ScaleInput, ScalePoint, Sweep};
use report::{Document, Scale};

fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    testkit::golden::check(path, text);
}

/// A program whose three threads use up the memory: 24 GB in each run.
fn saturated() -> ScaleInput {
    let point = |threads: u32| {
        let seconds = 3.0 / f64::from(threads.min(3));
        let bandwidth = 24.0 / 3.0 / seconds;
        let metric = |value: f64, unit| {
            Metric::with_interval(
                Evidence::Estimated,
                value,
                unit,
                (value * 0.97, value * 1.03),
                40,
            )
        };
        ScalePoint {
            threads,
            seconds: vec![seconds * 1.01, seconds, seconds * 0.995],
            cpu_seconds: vec![3.0, 3.1, 3.2],
            printed: vec![bandwidth],
            collected: Some(Collected {
                result: format!("r000sc/threads-{threads}"),
                bandwidth: metric(bandwidth, "GB/s"),
                elapsed: Metric::counted(seconds, "s"),
                flop_rate: metric(6.0 / seconds, "GFLOP/s"),
                threads: Metric::counted(f64::from(threads), "count"),
                bandwidth_peak: metric(25.0, "GB/s"),
                flops_peak: metric(200.0, "GFLOP/s"),
            }),
        }
    };
    ScaleInput {
        result: "r000sc".into(),
        command: vec!["./stream".into(), "--threads".into(), "{threads}".into()],
        points: (1..=6).map(point).collect(),
        figure: Some("triad_gb_s=".into()),
        notes: vec!["The machine has 4 CPUs: 5 and 6 threads share them.".into()],
        ..ScaleInput::default()
    }
}

#[test]
fn a_saturated_program() {
    let scale = Scale::new(&saturated()).expect("times");
    golden("scale.svg", &scale.svg());
    let document = Document::Scale(Box::new(scale));
    let text = document.text(100, false);
    assert!(text.lines().all(|line| line.chars().count() <= 100 && line.trim_end() == line));
    golden("scale.txt", &text);
    golden("scale.json", &document.json());
    golden("scale.csv", &document.csv());
}

#[test]
fn times_alone_and_too_few() {
    let mut input = saturated();
    input.points.truncate(2);
    for point in &mut input.points {
        point.seconds.truncate(1);
        point.collected = None;
    }
    let scale = Scale::new(&input).expect("times");
    golden("scale_times_alone.txt", &Document::Scale(Box::new(scale)).text(100, false));
    assert!(Scale::new(&ScaleInput::default()).is_none());
}

#[test]
fn rates_that_are_missing_have_their_reason() {
    let mut input = saturated();
    let collected = input.points[2].collected.as_mut().expect("collected");
    collected.flop_rate = Metric::unavailable("GFLOP/s", "no burst was taken");
    let text = Document::Scale(Box::new(Scale::new(&input).expect("times"))).text(100, false);
    assert_eq!(text.matches("GFLOP/s: n/a, no burst was taken.").count(), 1, "{text}");
    assert!(!text.contains("GB/s: n/a"), "{text}");
}

/// Three sweeps against a slower variant's single thread, on 3 cores of 2 hardware threads.
#[test]
fn sweeps_against_one_baseline() {
    let mut input = saturated();
    input.points.iter_mut().for_each(|point| point.collected = None);
    let sweep = |name: &str, factor: f64| Sweep {
        name: name.to_owned(),
        points: (1..=4)
            .map(|threads| {
                let seconds = factor / f64::from(threads);
                analysis::scaling::Point { threads, seconds: vec![seconds, seconds * 1.01] }
            })
            .collect(),
    };
    input.pin = Some("cores");
    input.others = vec![sweep("r001sc", 6.0), sweep("r000sc --pin compact", 4.0)];
    input.first_is_baseline = true;
    input.cores = Some((3, 6));
    let scale = Scale::new(&input).expect("times");
    golden("scale_overlay.svg", &scale.svg());
    let hardware = scale.hardware_threads.clone();
    assert!(
        hardware.low.is_some_and(|low| low < 0.0) && hardware.high.is_some_and(|high| high > 0.0)
    );
    let document = Document::Scale(Box::new(scale));
    golden("scale_overlay.txt", &document.text(100, false));
    assert!(document.json().contains("\"sweep\": \"r000sc --pin cores\""));
    for (pin, cores, why) in [
        (Some("compact"), Some((3, 6)), "compact uses both hardware threads"),
        (None, Some((6, 6)), "one hardware thread each"),
        (None, None, "does not say which CPUs share a core"),
        (None, Some((8, 16)), "it takes a number of threads"),
    ] {
        let input = ScaleInput { pin, cores, ..input.clone() };
        let note = Scale::new(&input).expect("times").hardware_threads.note;
        assert!(note.as_ref().is_some_and(|note| note.contains(why)), "{note:?}");
    }
}
