//! `--repeat`: several runs of a program in one result. What a program counts is counted so many times; the summary's totals
//! are those of one run.

use std::fs::File;
use std::process::Stdio;

use facts::{ExitKind, Recording};
use serde_json::Value;
use testkit::programs::{
    Fathom, NO_CALIBRATION, assert_ended_well, facts_of, number, perf_events_work, skip, target,
};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

fn value(metric: &Value) -> f64 {
    metric["value"].as_f64().unwrap_or_else(|| panic!("no value in {metric}"))
}

const QUIET: [&str; 5] = ["-q", "-r", "r", "-k", NO_CALIBRATION];

/// Collects `runs` runs into `r`, which must hold what always holds.
fn collect(fathom: &Fathom, analysis: &str, runs: &str, program: &str, rest: &[&str]) -> Vec<u8> {
    let output = fathom
        .command(["collect", analysis, "--repeat", runs])
        .args(QUIET)
        .arg("--")
        .arg(target(program))
        .args(rest)
        .stdin(Stdio::null())
        .output()
        .expect("fathom can be started");
    assert_ended_well(&output);
    verify(fathom);
    output.stdout
}

#[track_caller]
fn verify(fathom: &Fathom) {
    let verified = fathom.output(["verify", "r"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

fn recording(fathom: &Fathom) -> Recording {
    store::open(&fathom.scratch.join("r")).expect("a result").recording
}

#[test]
fn totals_are_those_of_one_run() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("repeat-totals");
    let printed = collect(&fathom, "hotspots", "3", "spin", &["--ms", "200"]);
    assert_eq!(String::from_utf8_lossy(&printed).matches("process_cpu_ns").count(), 3);
    let run = recording(&fathom).run;
    assert!(run.runs.iter().all(|one| one.exit == ExitKind::Code(0)), "{:?}", run.runs);
    let sum: u64 = run.runs.iter().filter_map(|one| one.elapsed_ns).sum();
    assert!(run.runs.len() == 3 && sum <= run.elapsed_ns, "{sum} of {}", run.elapsed_ns);
    let summary = fathom.report("r", &["summary"]);
    assert_eq!(summary["runs"], 3);
    let elapsed = value(&summary["elapsed"]);
    assert!((elapsed - sum as f64 * 1e-9 / 3.0).abs() < 1e-5, "{elapsed} s of {sum} ns");
    let [fastest, slowest] = ["fastest", "slowest"].map(|one| value(&summary["spread"][one]));
    assert!(0.2 <= fastest && fastest <= elapsed && elapsed <= slowest, "{}", summary["spread"]);
    assert_eq!((value(&summary["threads"]), value(&summary["processes"])), (1.0, 1.0));
    // The last run's own account; all of them burn as much.
    let own = number(&facts_of(&printed), "process_cpu_ns") * 1e-9;
    let cpu = value(&summary["cpu_time"]);
    assert!((cpu - own).abs() < 0.1 * own, "CPU time {cpu} s, one run says {own} s");
    let text = fathom.output(["report", "summary", "-r", "r"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("3 runs ("), "{text}");
    let text = fathom.output(["report", "hotspots", "-r", "r"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("3 runs together"), "{text}");
}

#[test]
fn blocks_of_all_runs_are_counted() {
    let fathom = fathom("repeat-heap");
    collect(&fathom, "memory-consumption", "1", "malloc_mix", &["--rounds", "20"]);
    let once = fathom.report("r", &["summary"])["heap"].clone();
    std::fs::remove_dir_all(fathom.scratch.join("r")).expect("a result of ours");
    collect(&fathom, "memory-consumption", "3", "malloc_mix", &["--rounds", "20"]);
    let summary = fathom.report("r", &["summary"]);
    if summary["sampling"]["lost_blocks"] != 0 {
        return skip("the machine is too busy to keep every record");
    }
    for key in ["allocations", "bytes_allocated", "peak_bytes"] {
        assert_eq!(value(&summary["heap"][key]), value(&once[key]), "{key}");
    }
    let blocks = value(&once["allocations"]);
    let totals = recording(&fathom).heap_totals;
    let all: u64 = totals.iter().map(|one| one.allocations).sum();
    assert_eq!(all as f64, 3.0 * blocks, "all runs are stored");
}

#[test]
fn no_run_follows_one_that_fails() {
    let fathom = fathom("repeat-failure");
    let counts = "echo >> runs; test $(wc -l < runs) -lt 3 || exit 7";
    let output = fathom
        .output([&["run", "--repeat", "5"][..], &QUIET, &["--", "sh", "-c", counts]].concat());
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    verify(&fathom);
    let runs = recording(&fathom).run.runs;
    let exits: Vec<ExitKind> = runs.iter().map(|one| one.exit).collect();
    assert_eq!(exits, [ExitKind::Code(0), ExitKind::Code(0), ExitKind::Code(7)]);
}

#[test]
fn a_signal_ends_all_runs() {
    let fathom = fathom("repeat-signal");
    let mut child = fathom
        .command(["run", "--repeat", "5"])
        .args(QUIET)
        .args(["--", "sh", "-c", "echo >> runs; exec sleep 600"])
        .spawn()
        .expect("fathom can be started");
    // The shell makes the file before it writes the line.
    let begun = || std::fs::read(fathom.scratch.join("runs")).is_ok_and(|line| !line.is_empty());
    while !begun() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let killed = std::process::Command::new("kill").arg(child.id().to_string()).status();
    assert!(killed.expect("kill").success());
    assert_eq!(child.wait().expect("wait").code(), Some(128 + 15));
    let runs = std::fs::read_to_string(fathom.scratch.join("runs")).expect("runs");
    assert_eq!(runs.lines().count(), 1);
    verify(&fathom);
}

#[test]
fn every_run_reads_the_same_file() {
    let fathom = fathom("repeat-input");
    std::fs::write(fathom.scratch.join("input"), "some words\n").expect("write");
    let input = File::open(fathom.scratch.join("input")).expect("open");
    let output = fathom
        .command(["run", "--repeat", "3"])
        .args(QUIET)
        .args(["--", "cat"])
        .stdin(input)
        .output()
        .expect("fathom can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "some words\n".repeat(3));
}

#[test]
fn runs_are_followed_without_perf_events() {
    for mode in ["sampling-mode=ptrace", "sampling-mode=off"] {
        let fathom = fathom(&format!("repeat-{}", &mode[14..]));
        let output = fathom
            .command(["collect", "hotspots", "--repeat", "3", "-k", mode])
            .args(QUIET)
            .arg("--")
            .arg(target("spin"))
            .args(["--ms", "200"])
            .output()
            .expect("fathom can be started");
        assert_ended_well(&output);
        verify(&fathom);
        let summary = fathom.report("r", &["summary"]);
        assert_eq!(summary["runs"], 3);
        let own = number(&facts_of(&output.stdout), "process_cpu_ns") * 1e-9;
        let cpu = value(&summary["cpu_time"]);
        assert!((cpu - own).abs() < 0.2 * own, "{mode}: CPU time {cpu} s, one run says {own} s");
    }
}

#[test]
fn what_runs_already_is_not_repeated() {
    let fathom = fathom("repeat-refused");
    for rest in [&["hotspots", "--pid", "1"][..], &["system-overview", "--system"]] {
        let output = fathom.output([&["collect", "--repeat", "2"], rest].concat());
        assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
