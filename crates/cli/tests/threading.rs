//! `collect threading` on programs that know what their threads wait for. What is asserted follows from how they are made,
//! not from how fast they run: sums, names, and who waits where.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::programs::{
    Fathom, NO_CALIBRATION, facts_of, is_root, number, perf_events_work, skip, target,
};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// Collects, verifies, and returns what the program printed. `None` where switches cannot be followed with stacks.
fn collect(
    fathom: &Fathom,
    environment: &[(&str, &str)],
    program: &Path,
    arguments: &[&str],
) -> Option<Vec<u8>> {
    if !perf_events_work() || !is_root() {
        return None;
    }
    let mut words = vec!["collect", "threading", "-q", "-r", "result"];
    words.extend(["-k", NO_CALIBRATION, "--"]);
    words.push(program.to_str().expect("a path of ours"));
    words.extend(arguments);
    let mut command: Command = fathom.command(&words);
    let output = command.envs(environment.iter().copied()).output().expect("fathom can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let verified = fathom.output(["verify", "result"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    let (rows, loses) = (fathom.rows("result", &["threads"]), loses(fathom));
    rows.iter().for_each(|row| assert_parts_add_up(row, loses));
    Some(output.stdout)
}

fn seconds(row: &Value, key: &str) -> f64 {
    row[key]["value"].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"))
}

/// The life of a thread is the sum of its parts; where nothing was lost, next to nothing is unknown. On a busy machine we
/// may come too late for what thousands of switches a second leave in a ring.
fn assert_parts_add_up(row: &Value, loses: bool) {
    let parts = [
        "running_time",
        "ready_time",
        "lock_wait",
        "barrier_wait",
        "io_wait",
        "sleep_wait",
        "other_wait",
    ];
    let sum: f64 = parts.iter().map(|key| seconds(row, key)).sum();
    let lived = row["end"].as_f64().expect("an end") - row["start"].as_f64().expect("a start");
    let unknown = seconds(row, "unknown_time");
    assert!(
        (sum + unknown - lived).abs() < 1e-3 + lived * 1e-3,
        "{sum} + {unknown} of {lived}: {row}"
    );
    assert!(loses || unknown < 5e-3 + lived * 1e-2, "{unknown} s of {lived} unknown: {row}");
}

/// Whether records are missing.
fn loses(fathom: &Fathom) -> bool {
    let sampling = fathom.report("result", &["summary"])["sampling"].clone();
    ["lost_samples", "lost_events"].iter().any(|lost| sampling[lost].as_u64() != Some(0))
}

/// The rows of `waits` with this reason, the longest first.
fn waits(fathom: &Fathom, reason: &str) -> Vec<Value> {
    let rows = fathom.rows("result", &["waits", "-g", "thread"]);
    rows.into_iter().filter(|row| row["reason"] == reason).collect()
}

#[test]
fn a_contended_lock_is_named_with_its_caller() {
    let fathom = fathom("threading-lock");
    let arguments = ["--threads", "3", "--rounds", "200"];
    let Some(printed) = collect(&fathom, &[], &target("lock_shares"), &arguments) else { return };
    let known = facts_of(&printed);
    let locks = waits(&fathom, "lock");
    // Who has the lock may take it again before another is awake: one of three may never wait.
    let longest = ["holder-0", "holder-1", "holder-2"].into_iter().filter_map(|holder| {
        let of = |row: &&Value| row["thread"].as_str().is_some_and(|name| name.starts_with(holder));
        locks.iter().find(of)
    });
    let longest: Vec<&Value> = longest.collect();
    assert!(longest.len() >= 2, "{locks:?}");
    for row in longest {
        assert_eq!(row["object"], known["lock"].as_str(), "{row}");
        assert_eq!(row["function"], known["holder"].as_str(), "{row}");
    }
    // The locks of one thread each are never waited for.
    assert!(locks.iter().all(|row| row["object"] == known["lock"].as_str()), "{locks:?}");
    let summary = fathom.report("result", &["summary"]);
    let verdicts = summary["threading"]["verdicts"].as_array().expect("verdicts").clone();
    let named = verdicts.iter().find(|verdict| verdict["id"] == "contended").expect("contention");
    let sentence = named["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("for the lock shared_lock, called from hold_lock"), "{sentence}");
}

#[test]
fn every_way_to_wait_has_its_reason() {
    let fathom = fathom("threading-mix");
    if collect(&fathom, &[], &target("waits_mix"), &["--rounds", "300"]).is_none() {
        return;
    }
    for (thread, reason, function) in [
        ("sleeps", "sleep", "sleeps"),
        ("writes", "sleep", "sleeps"),
        ("reads", "I/O", "reads"),
        ("polls", "poll", "polls"),
        ("conditions", "condition", "conditions"),
        ("waits_mix", "join", "main"),
    ] {
        let rows = waits(&fathom, reason);
        let of = |row: &&Value| row["thread"].as_str().is_some_and(|name| name.starts_with(thread));
        let row = rows.iter().find(of).unwrap_or_else(|| panic!("{thread}: no {reason}"));
        assert_eq!(row["function"], function, "{row}");
    }
    let conditions = waits(&fathom, "condition");
    let object = conditions[0]["object"].as_str().expect("an object");
    assert!(object.starts_with("condition+"), "{object}");
}

#[test]
fn who_ends_a_wait_is_named() {
    let fathom = fathom("threading-wakers");
    if collect(&fathom, &[], &target("waits_mix"), &["--rounds", "300"]).is_none() {
        return;
    }
    let manifest = std::fs::read_to_string(fathom.scratch.join("result/run.json"));
    if manifest.expect("a manifest").contains("who ends waits was not recorded") {
        return skip("the kernel's tracepoint of wakes may not be read here");
    }
    let rows = fathom.rows("result", &["waits", "-g", "thread,waker"]);
    for (thread, reason, waker, function) in [
        ("reads", "I/O", "writes", "writes"),
        ("sleeps", "sleep", "(others)", "(others)"),
        ("polls", "poll", "(others)", "(others)"),
    ] {
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        // On a busy machine an end may be one of those that are not looked at, and it represents others: a good part of
        // the waits counts.
        let waits = |row: &&Value| row["waits"]["value"].as_f64().unwrap_or(0.0);
        let of: Vec<&Value> = rows
            .iter()
            .filter(|row| row["reason"] == reason && text(row, "thread").starts_with(thread))
            .collect();
        let by = |row: &&&Value| {
            text(row, "waker").starts_with(waker) && text(row, "waker_function") == function
        };
        let all: f64 = of.iter().map(waits).sum();
        let named: f64 = of.iter().filter(by).map(waits).sum();
        assert!(named > 0.0 && named >= all / 4.0, "{thread}: {named} of {all} by {waker}: {of:?}");
    }
}

#[test]
fn openmp_threads_wait_at_barriers_whether_they_sleep_or_spin() {
    for policy in ["passive", "active"] {
        let fathom = fathom(&format!("threading-openmp-{policy}"));
        let program = target("openmp_imbalance");
        let environment = [("OMP_WAIT_POLICY", policy)];
        let arguments = ["--threads", "2", "--rounds", "60"];
        let Some(printed) = collect(&fathom, &environment, &program, &arguments) else { return };
        let ratio = number(&facts_of(&printed), "most_over_mean");
        let rows = fathom.rows("result", &["threads"]);
        let work: Vec<f64> = rows
            .iter()
            .map(|row| seconds(row, "running_time") - seconds(row, "spin_time"))
            .collect();
        // What a thread does is measured by its own CPU clock: the ratio does not depend on who gets which CPU when.
        let (most, sum) = (work.iter().copied().fold(0.0, f64::max), work.iter().sum::<f64>());
        let found = most / (sum / work.len() as f64);
        assert!((found - ratio).abs() < 0.15, "{policy}: {found}, not {ratio}: {work:?}");
        let waited: f64 = rows.iter().map(|row| seconds(row, "barrier_wait")).sum();
        let spun: f64 = rows.iter().map(|row| seconds(row, "spin_time")).sum();
        if policy == "passive" {
            assert!(waited > 0.0 && spun < waited, "waited {waited}, spun {spun}");
        } else {
            assert!(spun > waited, "waited {waited}, spun {spun}");
        }
    }
}

#[test]
fn more_threads_than_cpus_are_reported() {
    let fathom = fathom("threading-many");
    let threads = (std::thread::available_parallelism().map_or(1, usize::from) * 4).to_string();
    let arguments = ["--threads", &threads, "--ms", "100"];
    if collect(&fathom, &[], &target("threads"), &arguments).is_none() {
        return;
    }
    let summary = fathom.report("result", &["summary"]);
    assert_eq!(
        summary["threading"]["verdicts"][0]["id"], "oversubscribed",
        "{}",
        summary["threading"]
    );
    let at_once = summary["threading"]["at_once"].as_array().expect("rows").clone();
    let sum: f64 = at_once.iter().map(|row| seconds(row, "percent")).sum();
    assert!((sum - 100.0).abs() < 0.01, "{at_once:?}");
}

#[test]
fn a_storm_of_switches_is_counted_and_stays_small() {
    let fathom = fathom("threading-storm");
    let arguments = ["--rounds", "100000"];
    let Some(printed) = collect(&fathom, &[], &target("switch_storm"), &arguments) else { return };
    let switches = number(&facts_of(&printed), "switches");
    let rows = fathom.rows("result", &["threads"]);
    let sum = |key| rows.iter().map(|row| seconds(row, key)).sum::<f64>();
    let counted = sum("waits") + sum("preemptions");
    // The beginning of a thread is no switch to the kernel, and what follows its reading of the count is missing there.
    assert!(counted < switches + 100.0, "{counted} of {switches}");
    assert!(loses(&fathom) || counted > switches - 100.0, "{counted} of {switches}, nothing lost");
    let size: u64 = std::fs::read_dir(fathom.scratch.join("result"))
        .expect("the result")
        .map(|file| file.expect("a file").metadata().expect("its size").len())
        .sum();
    assert!(size < 2_000_000, "{size} bytes for {switches} switches");
}
