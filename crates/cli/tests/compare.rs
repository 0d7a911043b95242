//! `fathom diff` and `fathom scale` on real programs: what they say, what they leave, how they fail.

use std::path::Path;

use serde_json::Value;
use testkit::programs::{Fathom, NO_CALIBRATION, target};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// Exit code, stdout as JSON (null when it is none), stderr.
fn answer(fathom: &Fathom, arguments: &[&str]) -> (Option<i32>, Value, String) {
    let output = fathom.output(arguments);
    let json = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), json, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Ten times the page faults, a figure that does not depend on the machine's load, are found with three runs a side, and the
/// gate closes; one run a side never closes it.
#[test]
fn a_large_change_closes_the_gate_and_one_run_does_not() {
    let fathom = fathom("diff");
    let program = target("touch_pages");
    for run in ["1", "2", "3"] {
        for (side, pages) in [("a", "2000"), ("b", "20000")] {
            let output =
                fathom.collect(&format!("{side}{run}"), &[], &program, &["--pages", pages]);
            assert!(output.status.success());
        }
    }
    let three = ["diff", "--format", "json", "--base", "a1", "a2", "a3", "--new", "b1", "b2", "b3"];
    let (code, found, error) =
        answer(&fathom, &[&three[..], &["--gate", "page_faults.minor<=100%"]].concat());
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("gate page_faults.minor<=100% failed: it changed by +"), "{error}");
    let totals = found["totals"]["rows"].as_array().expect("rows");
    let faults = totals.iter().find(|row| row["metric"] == "page_faults.minor").expect("a total");
    assert_eq!(faults["verdict"], "more", "{faults}");
    let (code, ..) =
        answer(&fathom, &[&three[..], &["--gate", "page_faults.minor<=100000%"]].concat());
    assert_eq!(code, Some(0));
    let one = ["diff", "--gate", "page_faults.minor<=1%", "--format", "json"];
    let (code, found, _) = answer(&fathom, &[&one[..], &["a1", "b1"]].concat());
    assert_eq!((code, &found["gates"][0]["outcome"]), (Some(0), &Value::from("undecided")));
    let (code, _, error) = answer(&fathom, &[&one[..], &["--strict", "a1", "b1"]].concat());
    assert_eq!(code, Some(1), "{error}");
}

#[test]
fn sides_and_gates_that_are_none() {
    let fathom = fathom("diff-words");
    for (arguments, expected) in [
        (&["diff", "a"][..], "needs two sides"),
        (&["diff", "a", "b", "c"], "needs two sides"),
        (&["diff", "a", "b"], "a is not a result of Fathom"),
        (&["diff", "--gate", "elapsed", "a", "b"], "'elapsed' is not a gate"),
        (&["diff", "--view", "timeline", "a", "b"], "possible are hotspots"),
        (&["diff", "-g", "thread", "a", "b"], "'function', 'source-line'"),
        (
            &["scale", "--threads", "0", "--", "true"],
            "is not a list of thread counts from 1 to 4096",
        ),
        (&["scale", "-e", "X", "--", "true"], "is not NAME=VALUE"),
        (
            &["scale", "--pin", "near", "--", "true"],
            "possible values: none, compact, scatter, cores",
        ),
        (&["scale", "--overlay", "nothing", "--", "true"], "cannot read nothing/scale.json"),
    ] {
        let (code, _, error) = answer(&fathom, arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {error}");
        assert!(error.to_lowercase().contains(&expected.to_lowercase()), "{arguments:?}: {error}");
    }
}

/// A shell script stands for a program: it prints its text and the number of its argument.
#[test]
fn a_sweep_tells_the_program_and_keeps_everything() {
    let fathom = fathom("scale");
    let script = "echo threads: $OMP_NUM_THREADS, mine $MINE, figure=$0.5; sleep 0.0$0";
    let (code, found, error) = answer(
        &fathom,
        &[
            "scale",
            "--threads",
            "1-3",
            "--repeat",
            "2",
            "--no-collect",
            "-e",
            "MINE=x{threads}",
            "--figure",
            "figure",
            "--svg",
            "plot.svg",
            "--format",
            "json",
            "--",
            "/bin/sh",
            "-c",
            script,
            "{threads}",
        ],
    );
    assert_eq!(code, Some(0), "{error}");
    let rows = found["table"]["rows"].as_array().expect("rows");
    let printed: Vec<f64> =
        rows.iter().filter_map(|row| row["printed"]["value"].as_f64()).collect();
    assert_eq!(printed, [1.5, 2.5, 3.5]);
    assert!(
        found["runs"].as_array().expect("runs").iter().all(|run| run["seconds"][1].is_number())
    );
    let kept = |name: &str| std::fs::read_to_string(fathom.scratch.join(name)).expect("kept");
    assert_eq!(kept("r000sc/threads-2.out"), "threads: 2, mine x2, figure=2.5\n");
    assert!(kept("r000sc/scale.json").contains("\"view\": \"scale\""));
    assert!(kept("plot.svg").starts_with("<svg"));
    let again = ["scale", "--threads", "1", "-r", "r000sc", "--", "true"];
    let (code, _, error) = answer(&fathom, &again);
    assert!(code == Some(2) && error.contains("cannot make r000sc"), "{error}");
}

/// A script says what it may run on; sweeps of two ways, and a third against the first.
#[test]
fn sweeps_pin_their_threads_and_stand_on_one_baseline() {
    let fathom = fathom("scale-pins");
    let script = "grep Cpus_allowed_list /proc/self/status; echo places $OMP_PLACES; sleep 0.02";
    let run = |more: &[&str]| {
        let end = [
            "--repeat",
            "2",
            "--no-collect",
            "-q",
            "--format",
            "json",
            "--",
            "/bin/sh",
            "-c",
            script,
        ];
        let (code, found, error) = answer(&fathom, &[&["scale", "-t", "1"], more, &end].concat());
        assert_eq!(code, Some(0), "{error}");
        found
    };
    let found = run(&["--pin", "cores,none"]);
    let kept = |name: &str| std::fs::read_to_string(fathom.scratch.join(name)).expect("kept");
    let text = kept("r000sc/threads-1-cores.out");
    let list = text.lines().next().and_then(|line| line.split_whitespace().nth(1)).expect("a list");
    assert!(list.parse::<u32>().is_ok(), "one CPU: {text}");
    assert!(text.contains(&format!("places {{{list}}}")), "{text}");
    assert!(kept("r000sc/threads-1.out").contains("places\n"));
    let sweeps = |found: &serde_json::Value| -> Vec<String> {
        let rows = found["overlay"]["rows"].as_array().expect("rows").iter();
        rows.map(|row| row["sweep"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(sweeps(&found), ["r000sc --pin cores", "r000sc not pinned"]);
    let (least, most) =
        (&found["table"]["rows"][0]["elapsed_min"], &found["table"]["rows"][0]["elapsed_max"]);
    assert!(least["value"].as_f64() <= most["value"].as_f64() && least["samples"] == 2);
    let found = run(&["--overlay", "r000sc"]);
    assert_eq!(sweeps(&found), ["r000sc --pin cores", "r001sc"]);
    std::fs::write(fathom.scratch.join("r000sc/scale.json"), "{\"runs\": [{}]}").expect("written");
    let (code, _, error) = answer(&fathom, &["scale", "--overlay", "r000sc", "--", "true"]);
    assert!(code == Some(4) && error.contains("has no times of a sweep"), "{error}");
}

#[test]
fn a_program_that_fails_ends_the_sweep_with_its_code() {
    let fathom = fathom("scale-fails");
    let script = "echo about to fail; test $0 -lt 2 || exit 7";
    let arguments =
        ["scale", "--threads", "1,2", "--no-collect", "--", "/bin/sh", "-c", script, "{threads}"];
    let (code, _, error) = answer(&fathom, &arguments);
    assert_eq!(code, Some(7), "{error}");
    assert!(error.contains("about to fail") && error.contains("with 2 threads"), "{error}");
}

/// One run under the collector per number of threads: a whole result, and its figures in the table.
#[test]
fn collected_runs_are_results_of_their_own() {
    let fathom = fathom("scale-collects");
    let program = target("access_patterns");
    let program = program.to_str().expect("UTF-8");
    let (code, found, error) = answer(
        &fathom,
        &[
            "scale",
            "--threads",
            "1,2",
            "--repeat",
            "1",
            "-q",
            "-k",
            NO_CALIBRATION,
            "--format",
            "json",
            "--",
            program,
            "--hits",
            "2000000",
        ],
    );
    assert_eq!(code, Some(0), "{error}");
    assert!(Path::new(&fathom.scratch.join("r000sc/threads-2/run.json")).exists());
    let notes = found["notes"].to_string();
    assert!(notes.contains("at every number"), "{notes}");
    let summary = fathom.report("r000sc/threads-1", &["summary"]);
    assert_eq!(summary["analysis"], "memory-access");
}
