//! `fathom import`: a file of another tool becomes a result that every command reads; others are named.

#[path = "../../import/tests/common/mod.rs"]
mod perf_data;

use std::process::Command;

use testkit::programs::{Fathom, perf_events_work, skip, target};

use self::perf_data::{Event, File};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// A thread with 200 samples of a millisecond, half of them in each of two functions without names.
fn recording() -> File {
    let mut file = File::new(vec![Event { kind: 1, config: 0, name: "cpu-clock" }]);
    file.executed(1_000_000, 77, "solver");
    file.mapped(1_000_000, 77, (0x40_0000, 0x10_0000), "/nowhere/solver");
    for number in 0..200 {
        let inner = if number % 2 == 0 { 0x40_1000 } else { 0x40_3000 };
        file.sample(0, 2_000_000 + number * 1_000_000, 77, 1_000_000, &[inner, 0x40_2005]);
    }
    file
}

#[test]
fn a_perf_data_file_becomes_a_sound_result() {
    let fathom = fathom("import");
    let (file, result) = (fathom.scratch.join("perf.data"), fathom.scratch.join("imported"));
    std::fs::write(&file, recording().bytes()).expect("write");
    let (file, result) = (file.display().to_string(), result.display().to_string());
    let output = fathom.output(["import", &file, "-r", &result]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{error}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("hotspots  ./solver") && text.contains("solver+0x"), "{text}");
    let verified = fathom.output(["verify", &result]);
    let verified = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(verified.contains("invariants hold"), "{verified}");
    let summary = fathom.output(["report", "summary", "-r", &result, "--format", "json"]);
    let summary: serde_json::Value = serde_json::from_slice(&summary.stdout).expect("JSON");
    assert_eq!(summary["target"], "imported");
    let source = &summary["source"];
    let event = serde_json::json!({"name": "cpu-clock", "samples": 200, "used_as": "cpu-time"});
    assert_eq!((&source["file"], &source["events"][0]), (&file.into(), &event));
    let seconds = summary["cpu_time"]["value"].as_f64().expect("a time");
    assert!((seconds - 0.2).abs() < 1e-9, "{seconds}");
    // The cost of a recording that somebody else made is not known, and so it is not 0.
    assert!(summary["overhead"]["value"].is_null(), "{}", summary["overhead"]);
}

/// Counts of `likwid-perfctr -O`: events, traffic of sockets, the tree's instructions; and the result's invariants hold.
#[test]
fn tables_of_likwid_are_counted_events() {
    let fathom = fathom("import_likwid");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/likwid/mem.csv");
    let result = fathom.scratch.join("likwid").display().to_string();
    let output = fathom.output(["import", file, "-r", &result]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("fathom report events"), "{shown}");
    let verified = fathom.output(["verify", &result]);
    let verified = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(verified.contains("invariants hold"), "{verified}");
    let rows = |view: &[&str]| -> Vec<serde_json::Value> {
        let output =
            fathom.output([&["report"], view, &["-r", &result, "--format", "json"]].concat());
        let table: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        table["rows"].as_array().expect("rows").clone()
    };
    let events = rows(&["events"]);
    let named = |name: &str| events.iter().find(|row| row["event"] == name).expect("the event");
    assert_eq!(named("INSTR_RETIRED_ANY")["count"]["value"], 30_006_000_000_f64);
    // Two of three seconds: scaled, with the part that was seen as its lower end.
    let cycles = &named("CPU_CLK_UNHALTED_CORE")["count"];
    assert_eq!(
        (&cycles["value"], &cycles["evidence"]),
        (&24_000_000_000_f64.into(), &"estimated".into())
    );
    let domains = rows(&["bandwidth", "-g", "bandwidth-domain"]);
    let named: Vec<&str> =
        domains.iter().filter_map(|row| row["bandwidth_domain"].as_str()).collect();
    assert_eq!(named, ["DRAM, all sockets", "DRAM, socket 0", "DRAM, socket 1"]);
}

#[test]
fn other_files_leave_no_result() {
    let fathom = fathom("import_refused");
    let cut = fathom.scratch.join("cut.data");
    std::fs::write(&cut, &recording().bytes()[..300]).expect("write");
    let cut = cut.display().to_string();
    let result = fathom.scratch.join("refused").display().to_string();
    for (file, code, expected) in [
        ("/no/such/perf.data", 2, "cannot be read"),
        ("/bin/sh", 2, "is no perf.data file"),
        (cut.as_str(), 4, "is damaged or truncated"),
    ] {
        let output = fathom.output(["import", file, "-r", &result]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(expected), "{error}");
        assert!(!std::path::Path::new(&result).exists(), "{file}");
    }
}

/// What `perf record` writes on this machine: stacks that it copied are unwound here.
#[test]
fn a_live_recording_with_copied_stacks_has_callers() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("live");
    let file = fathom.scratch.join("live.data").display().to_string();
    let spin = target("spin").display().to_string();
    let mut command = Command::new("perf");
    command.args(["record", "-q", "--call-graph", "dwarf", "-e", "cpu-clock", "-o", &file, "--"]);
    let Ok(output) = command.args([&spin, "--ms", "300"]).output() else {
        skip("perf is not installed");
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "perf record: {error}");
    let output = fathom.output(["import", "-q", &file, "-r", "r"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = fathom.rows("r", &["hotspots"]);
    let total = |name: &str| {
        let row = rows.iter().find(|row| row["function"] == name)?;
        row["total_percent"]["value"].as_f64()
    };
    for name in ["spin_here", "main"] {
        assert!(total(name).is_some_and(|share| share > 80.0), "{name}: {:?}", total(name));
    }
}
