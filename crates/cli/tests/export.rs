//! `fathom export` on a result of this machine: files for other viewers, and what it says where it cannot.

use testkit::programs::{Fathom, assert_ended_well, perf_events_work, target};

#[test]
fn a_result_is_written_for_other_viewers() {
    if !perf_events_work() {
        return;
    }
    let fathom = Fathom::new(env!("CARGO_BIN_EXE_fathom"), "export");
    assert_ended_well(&fathom.collect("r", &[], &target("spin"), &["--ms", "300"]));
    let run = |words: &[&str]| {
        let output = fathom.command(words).output().expect("fathom runs");
        (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, folded, _) = run(&["export", "folded", "-r", "r"]);
    let folded = String::from_utf8(folded).expect("text");
    assert_eq!(code, Some(0));
    let nanos: u64 = folded
        .lines()
        .map(|line| line.rsplit_once(' ').expect("an amount").1.parse::<u64>().expect("a number"))
        .sum();
    let seconds = fathom.report("r", &["summary"])["cpu_time"]["value"].as_f64().expect("a time");
    assert!((nanos as f64 / 1e9 / seconds - 1.0).abs() < 1e-4, "{nanos} ns, {seconds} s");
    assert!(folded.contains("spin"), "{folded}");
    let (code, packed, _) = run(&["export", "pprof", "-r", "r"]);
    assert_eq!((code, &packed[..2]), (Some(0), &[0x1f, 0x8b][..]), "gzip");
    for format in ["speedscope", "firefox", "csv", "perfetto", "svg"] {
        let (code, bytes, error) = run(&["export", format, "-r", "r"]);
        assert!(code == Some(0) && !bytes.is_empty(), "{format}: {error}");
    }
    let (code, _, error) = run(&["export", "folded", "-r", "r", "--figure", "joules"]);
    assert!(
        code == Some(2) && error.contains("no figure 'joules' here; possible are samples, cpu"),
        "{error}"
    );
    let (code, _, error) = run(&["export", "pprof", "-r", "r", "--figure", "cpu"]);
    assert!(code == Some(2) && error.contains("choose in the viewer"), "{error}");
    let (code, _, error) = run(&["export", "svg", "-r", "r", "-o", "no/such/directory/x.svg"]);
    assert!(code == Some(3) && error.contains("cannot write"), "{error}");
}
