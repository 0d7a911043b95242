//! `collect system-overview` against programs that know how often they enter the kernel, and against the kernel's own
//! counts.

use std::process::Command;

use serde_json::Value;
use testkit::programs::{Fathom, assert_ended_well, facts_of, number, skip, target};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// Observes a program; `None`, said, where the kernel takes no programs of ours.
fn observed(fathom: &Fathom, program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let path = target(program);
    let mut words = vec!["collect", "system-overview", "-q", "-r", "result"];
    words.extend(["-k", "dram-bandwidth-limits=false", "--"]);
    words.push(path.to_str().expect("a path of ours"));
    words.extend(arguments);
    let output = fathom.output(&words);
    assert_ended_well(&output);
    let verified = fathom.output(["verify", "result"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    traces(fathom).then_some(output.stdout)
}

/// Whether the result has more than what `/proc` counts.
fn traces(fathom: &Fathom) -> bool {
    let notes = manifest(fathom)["notes"].to_string();
    let traces = !notes.contains("without their time only, from /proc");
    if !traces {
        skip("the kernel takes no tracing programs here");
    }
    traces
}

fn manifest(fathom: &Fathom) -> Value {
    let text = std::fs::read(fathom.scratch.join("result/run.json")).expect("a manifest");
    serde_json::from_slice(&text).expect("JSON")
}

/// Figure of the row of this cause.
fn of(rows: &[Value], cause: &str, name: &str, figure: &str) -> f64 {
    let row = rows.iter().find(|row| row["cause"] == cause && row["name"] == name);
    row.and_then(|row| row[figure]["value"].as_f64()).unwrap_or(0.0)
}

#[test]
fn system_calls_are_counted_to_the_last_one() {
    let fathom = fathom("kernel-calls");
    let arguments = ["--calls", "5000", "--sleeps", "50"];
    let Some(printed) = observed(&fathom, "kernel_entries", &arguments) else { return };
    let known = facts_of(&printed);
    let rows = fathom.rows("result", &["kernel"]);
    for name in ["getppid", "pread64", "clock_nanosleep"] {
        let more = if name == "pread64" { 8.0 } else { 0.0 }; // The dynamic linker reads too.
        let counted = of(&rows, "system call", name, "entries");
        let expected = number(&known, name);
        assert!((expected..=expected + more).contains(&counted), "{name}: {counted} of {expected}");
        assert!(of(&rows, "system call", name, "time") > 0.0, "{name} takes time");
    }
    // A nap of a millisecond is at least that; it is no CPU time.
    assert!(of(&rows, "system call", "clock_nanosleep", "blocked") >= 0.050);
    assert!(of(&rows, "system call", "clock_nanosleep", "time") < 0.050);
    assert!(of(&rows, "switch", "voluntary", "entries") >= 50.0);
    // Each read fills a fresh page.
    assert!(of(&rows, "page fault", "in kernel", "entries") >= 5000.0);
}

#[test]
fn page_faults_equal_the_kernels_own_count() {
    let fathom = fathom("kernel-faults");
    let arguments = ["--pages", "100000", "--rounds", "2"];
    let Some(printed) = observed(&fathom, "touch_pages", &arguments) else { return };
    assert_eq!(number(&facts_of(&printed), "touch_minor_faults"), 200_000.0);
    let usage = &manifest(&fathom)["resource_use"];
    let kernels = usage["minor_faults"].as_f64().expect("a count")
        + usage["major_faults"].as_f64().expect("a count");
    let rows = fathom.rows("result", &["kernel"]);
    let place = |name| of(&rows, "page fault", name, "entries");
    let counted = place("in program") + place("in kernel");
    // The kernel counts pages that it makes for a program's arguments too: without an exception.
    assert!((counted - kernels).abs() <= kernels / 1000.0, "{counted} of {kernels}");
    // Groups divide the same entries.
    let total = |view: &[&str]| fathom.report("result", view)["total"]["entries"]["value"].clone();
    for key in ["thread", "cpu", "time", "cause,cpu"] {
        assert_eq!(total(&["kernel", "-g", key]), total(&["kernel"]), "{key}");
    }
    let filtered = total(&["kernel", "--filter", "process=touch_pages"]);
    assert_eq!(filtered, total(&["kernel"]), "the program is all that is shown");
    let shown = fathom.output(["report", "summary", "-r", "result"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("Entries into the kernel"), "{text}");
}

#[test]
fn the_whole_machine_is_observed_until_it_is_enough() {
    let fathom = fathom("kernel-machine");
    let mut words = vec!["collect", "system-overview", "--system", "-q", "-r", "result"];
    words.extend(["-k", "dram-bandwidth-limits=false"]);
    let mut observer = fathom.command(&words).spawn().expect("fathom can be started");
    let worker = Command::new(target("kernel_entries")).args(["--calls", "20000"]).output();
    assert_ended_well(&worker.expect("the target can be started"));
    // Ctrl-C ends it with a result, however far it was.
    let sent = Command::new("kill").args(["-INT", &observer.id().to_string()]).status();
    assert!(sent.expect("kill can be started").success());
    let status = observer.wait().expect("it ends");
    if !status.success() {
        return skip(
            "the machine may not be observed here, or the interrupt came before the start",
        );
    }
    assert_eq!(manifest(&fathom)["target"], "machine");
    if !traces(&fathom) {
        return;
    }
    let verified = fathom.output(["verify", "result"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    let total = fathom.report("result", &["kernel"])["total"]["entries"]["value"].as_f64();
    assert!(total.is_some_and(|entries| entries > 0.0));
}

#[test]
fn the_machine_goes_with_its_analysis_only() {
    let fathom = fathom("kernel-usage");
    let output = fathom.output(["collect", "hotspots", "--system"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--system goes with system-overview only"), "{said}");
}
