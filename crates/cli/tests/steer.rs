//! `fathom command` and `--start-paused`, on programs that run while they are observed. What is asserted follows from what was
//! paused, not from how fast anything ran.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::programs::{Fathom, NO_CALIBRATION, is_root, perf_events_work, target};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// Starts a collection of `sleeper` or another program that lives until it is killed, and waits until it answers.
fn start(fathom: &Fathom, result: &str, options: &[&str]) -> Child {
    let mut command: Command = fathom.command(["collect", "hotspots", "-q", "-r", result]);
    command.args(["-k", NO_CALIBRATION]).args(options).arg("--");
    command.arg(target("spin")).args(["--ms", "60000"]).stdout(Stdio::null());
    begun(fathom, command.spawn().expect("fathom runs"), result)
}

/// Waits until a collection answers, and marks that.
fn begun(fathom: &Fathom, child: Child, result: &str) -> Child {
    let begun = Instant::now();
    while !steer(fathom, &["mark", "begun", "-r", result]).status.success() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the collection does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn steer(fathom: &Fathom, words: &[&str]) -> Output {
    fathom.output([&["command"], words].concat())
}

fn say(fathom: &Fathom, words: &[&str]) -> String {
    let output = steer(fathom, words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Ends the program, and with it the collection.
fn end(mut child: Child) {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("threads of fathom");
    let children = tasks.flatten().map(|task| task.path().join("children"));
    let children: String = children.flat_map(std::fs::read_to_string).collect();
    let killed = Command::new("kill").args(children.split_whitespace()).status();
    assert!(killed.expect("kill").success());
    child.wait().expect("its end");
}

fn target_of(fathom: &Fathom, result: &str) -> String {
    let text = std::fs::read(fathom.scratch.join(&format!("{result}/run.json"))).expect("manifest");
    let run: Value = serde_json::from_slice(&text).expect("JSON");
    run["target"]["launched"]["pid"].to_string()
}

fn value(metric: &Value) -> f64 {
    metric["value"].as_f64().unwrap_or_else(|| panic!("no value in {metric}"))
}

#[test]
fn figures_are_of_what_was_observed() {
    let fathom = fathom("steer-figures");
    let child = start(&fathom, "result", &[]);
    std::thread::sleep(Duration::from_millis(400));
    assert!(say(&fathom, &["pause", "-r", "result"]).contains("paused at"));
    assert!(say(&fathom, &["pause", "-r", "result"]).contains("was paused already"));
    std::thread::sleep(Duration::from_millis(900));
    assert!(say(&fathom, &["resume", "-r", "result"]).contains("resumed at"));
    assert!(say(&fathom, &["resume", "-r", "result"]).contains("was not paused"));
    std::thread::sleep(Duration::from_millis(200));
    say(&fathom, &["mark", "second half", "-r", "result"]);
    say(&fathom, &["pause", "-r", "result"]);
    end(child);
    let verified = fathom.output(["verify", "result"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    let summary = fathom.report("result", &["summary"]);
    let (elapsed, paused) = (value(&summary["elapsed"]), value(&summary["paused"]));
    assert!((0.9..elapsed - 0.5).contains(&paused), "{paused} of {elapsed}");
    let text = fathom.output(["report", "summary", "-r", "result"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("Paused ") && text.contains("figures are of the rest"), "{text}");
    if !perf_events_work() {
        return;
    }
    // One thread uses at most the time that was observed; the pause was longer than that.
    let cpu = value(&summary["cpu_time"]);
    assert!(cpu > 0.0 && cpu <= (elapsed - paused) * 1.05 + 0.02, "{cpu} of {elapsed} - {paused}");
    let rows = fathom.rows("result", &["timeline", "--limit", "1000"]);
    let bounds = |row: &Value| (row["start"].as_f64().unwrap(), row["end"].as_f64().unwrap());
    let unknown: Vec<&Value> =
        rows.iter().filter(|row| row["cpu_time"]["value"].is_null()).collect();
    let length: f64 = unknown.iter().map(|row| bounds(row).1 - bounds(row).0).sum();
    assert!(length > 0.7 && length < paused + 0.1, "{length} of {paused} s are n/a");
    let why = unknown[0]["cpu_time"]["note"].as_str();
    assert_eq!(why, Some("the collection was paused"));
    let notes = fathom.output(["report", "timeline", "-r", "result"]);
    let notes = String::from_utf8_lossy(&notes.stdout).into_owned();
    assert!(notes.contains("begun at") && notes.contains("second half at"), "{notes}");
}

/// Whoever waits over a pause waits before and after it, and not in it.
#[test]
fn waits_are_cut_by_a_pause() {
    if !perf_events_work() || !is_root() {
        return;
    }
    let fathom = fathom("steer-waits");
    let mut command: Command = fathom.command(["collect", "threading", "-q", "-r", "result"]);
    command.args(["-k", NO_CALIBRATION, "--", "sleep", "60"]);
    let child = begun(&fathom, command.spawn().expect("fathom runs"), "result");
    for action in ["pause", "resume", "pause"] {
        std::thread::sleep(Duration::from_millis(300));
        say(&fathom, &[action, "-r", "result"]);
    }
    end(child);
    let verified = fathom.output(["verify", "result"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    let summary = fathom.report("result", &["summary"]);
    let observed = value(&summary["elapsed"]) - value(&summary["paused"]);
    let rows = fathom.rows("result", &["threads"]);
    let slept = value(&rows[0]["sleep_wait"]);
    assert!(slept > observed * 0.9 - 0.05 && slept <= observed, "{slept} of {observed}");
}

#[test]
fn a_collection_that_starts_paused_sees_nothing_until_it_is_resumed() {
    let fathom = fathom("steer-start");
    let child = start(&fathom, "result", &["--start-paused"]);
    std::thread::sleep(Duration::from_millis(300));
    end(child);
    let summary = fathom.report("result", &["summary"]);
    assert!((value(&summary["elapsed"]) - value(&summary["paused"])).abs() < 1e-9, "{summary}");
    for figure in ["cpu_time", "cpu_utilisation"] {
        assert!(summary[figure]["value"].is_null(), "{figure}: {}", summary[figure]);
    }
    assert!(summary["top_functions"].as_array().unwrap().is_empty());
    let verified = fathom.output(["verify", "result"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn what_cannot_be_steered_is_said_with_a_code() {
    let fathom = fathom("steer-errors");
    let refused = |words: &[&str], code: i32, why: &str| {
        let output = steer(&fathom, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
    };
    refused(&["mark", "-r", "one"], 2, "required");
    refused(&["mark", " ", "-r", "one"], 2, "1 to 200 bytes");
    refused(&["pause", "now", "-r", "one"], 2, "only a mark takes a name");
    refused(&["pause", "-r", "one"], 2, "no collection of this user writes one");
    refused(&["pause", "--pid", "1"], 2, "no collection of this user observes process 1");
    let (one, two) = (start(&fathom, "one", &[]), start(&fathom, "two", &[]));
    // Both are among those that run, perhaps with others of other tests.
    let output = steer(&fathom, &["pause"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("say which"), "{said}");
    let lines = said.lines().filter(|line| line.contains("fathom command pause --pid "));
    let lines: Vec<&str> = lines.collect();
    assert!(lines.iter().any(|line| line.ends_with("/one")), "{said}");
    let of_two = lines.iter().find(|line| line.ends_with("/two")).expect("the other one");
    let pid = of_two.split_whitespace().nth(4).expect("a process");
    assert!(say(&fathom, &["pause", "--pid", pid]).contains("two: paused at"));
    // The profiler's own process names it, too.
    let own = two.id().to_string();
    assert!(say(&fathom, &["resume", "--pid", &own]).contains("two: resumed at"));
    end(one);
    end(two);
    assert_eq!(target_of(&fathom, "two"), pid);
    refused(&["pause", "-r", "two"], 2, "no collection of this user writes two");
}
