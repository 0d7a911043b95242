//! `fathom try`: what it shows of programs whose runs it compares. Which remedy wins is not tested: that is timing.

use std::process::Stdio;

use serde_json::Value;
use testkit::programs::{Fathom, skip, target};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

fn rows(fathom: &Fathom, arguments: &[&str]) -> Vec<Value> {
    let program = target("known_accesses").display().to_string();
    let mut all = vec!["try"];
    all.extend_from_slice(arguments);
    all.extend(["--budget", "0.1", "--format", "json", "--", &program, "--ms", "20"]);
    let output = fathom.output(&all);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{error}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["view"], "try");
    document["rows"].as_array().expect("rows").clone()
}

#[test]
fn a_named_remedy_is_run_against_the_plain_program() {
    let fathom = fathom("try-named");
    let rows = rows(&fathom, &["keep-memory"]);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[0]["remedy"], "(as it is)");
    assert_eq!(rows[1]["remedy"], "keep-memory");
    for row in &rows {
        let time = row["time"]["value"].as_f64().expect("a time");
        assert!(time > 0.02, "{row}");
    }
    assert!(rows[1]["change"]["low"].as_f64() <= rows[1]["change"]["high"].as_f64());
    assert_eq!(rows[1]["change"]["evidence"], "timed");
    let left = std::fs::read_dir(fathom.scratch.path()).expect("list").filter_map(Result::ok);
    let results = left.filter(|entry| entry.path().join("run.json").exists()).count();
    assert_eq!(results, 0, "no result is left behind");
}

#[test]
fn wrong_names_and_failing_programs_are_said() {
    let fathom = fathom("try-wrong");
    let output = fathom.output(["try", "no-such", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no remedy 'no-such'"));
    let output = fathom.output(["try", "keep-memory", "--", "sh", "-c", "kill -9 $$"]);
    assert_ne!(output.status.code(), Some(0));
    let output = fathom.output(["try", "--", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Pages that move while threads, children and system calls use them have the same content at each moment.
#[test]
fn moving_pages_change_no_result() {
    let fathom = fathom("place-pages");
    let program = target("moving_pages").display().to_string();
    let plain = std::process::Command::new(&program).output().expect("the target can be started");
    let object = ["--object", "4194304", "--object-nodes", "all", "--object-after", "0.1"];
    for options in [&["--next-touch"][..], &object] {
        for _ in 0..3 {
            let output = fathom.output([&["place"], options, &["--", program.as_str()]].concat());
            if output.status.code() == Some(3) {
                skip(&String::from_utf8_lossy(&output.stderr));
                break;
            }
            assert_eq!(output.status.code(), Some(0), "{options:?}");
            assert_eq!(output.stdout, plain.stdout, "{options:?}");
        }
    }
    for (options, code, said) in [
        (&["--object", "4194304"][..], 2, "--object-nodes"),
        (&["--object", "1000", "--object-nodes", "all"], 2, "is not in 1048576"),
        (&["--object", "4194304", "--object-nodes", "77"], 2, "no NUMA node 77 with memory"),
        (&["--next-touch", "--membind", "0"], 2, "cannot be used with"),
    ] {
        let output = fathom.output([&["place"], options, &["--", "true"]].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && error.contains(said), "{options:?}: {error}");
    }
}

/// A program that ends after its first runs at once, and from then on interrupts `fathom` and never ends: the first
/// run is recorded.
fn interrupted_at(name: &str, run: u32) -> std::process::Output {
    let fathom = fathom(name);
    let runs = fathom.scratch.join("runs").display().to_string();
    let script = format!(
        "echo $$ >> {runs}; test $(wc -l < {runs}) -lt {run} || {{ kill -INT $PPID; exec sleep 600; }}"
    );
    let arguments = ["try", "keep-memory", "--format", "json", "--", "sh", "-c", &script];
    let output = fathom.output(arguments);
    let ran = std::fs::read_to_string(&runs).expect("it was run");
    let last = ran.lines().last().expect("a run").to_owned();
    assert!(!std::path::Path::new("/proc").join(&last).exists(), "run {last} is left behind");
    assert_eq!(ran.lines().count(), run as usize);
    output
}

#[test]
fn an_interrupt_ends_the_program_and_keeps_the_rounds_before() {
    // The recording, two rounds of two runs, and the plain run of the third.
    let output = interrupted_at("try-interrupted", 6);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["rows"][1]["time"]["samples"], 2, "{document}");
    let notes = document["notes"].to_string();
    assert!(notes.contains("Interrupted in round 3"), "{notes}");
}

#[test]
fn an_interrupt_before_any_remedy_was_run_shows_nothing() {
    let output = interrupted_at("try-interrupted-early", 2);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted before any remedy"));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_program_that_ends_with_the_same_code_each_time_is_compared() {
    let fathom = fathom("try-code");
    let words = ["try", "keep-memory", "--budget", "0.1", "--format", "json", "--"];
    let output = fathom.output(words.iter().chain(&["sh", "-c", "sleep 0.02; exit 3"]));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = document["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{document}");
    assert!(!document.to_string().contains("fails"), "{document}");
}

fn status_of(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().to_owned())
}

#[test]
fn placements_are_the_programs_alone() {
    let fathom = fathom("place");
    let own = status_of("/proc/self/status", "Cpus_allowed_list:").expect("CPUs");
    let said = |words: &[&str]| {
        let output = fathom.output(words);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let policies = ["place", "--interleave=all", "-N", "0", "--", "cat"];
    let (code, text) = said(&[&policies[..], &["/proc/self/numa_maps"]].concat());
    match code {
        Some(3) => skip(&text),
        _ => assert!(code == Some(0) && text.contains(" interleave:0"), "{text}"),
    }
    for words in [["-m", "1000"], ["-N", "1000"], ["--each-thread", "1,1000"], ["-i", "x"]] {
        let (code, text) = said(&["place", words[0], words[1], "--", "true"]);
        assert!(code == Some(2) && text.starts_with("fathom: "), "{text}");
    }
    // The program's end is ours.
    let first = own.split([',', '-']).next().expect("a CPU");
    let (code, _) = said(&["place", "--each-thread", first, "--", "sh", "-c", "exit 7"]);
    assert_eq!(code, Some(7));
    assert_eq!(status_of("/proc/self/status", "Cpus_allowed_list:"), Some(own));
}

#[test]
fn threads_are_pinned_in_the_order_of_their_starts() {
    let fathom = fathom("place-threads");
    let own = status_of("/proc/self/status", "Cpus_allowed_list:").expect("CPUs");
    if own.parse::<u32>().is_ok() {
        return skip("this process may use one CPU only");
    }
    let [first, second] = if own.starts_with("0-") { ["0", "1"] } else { ["", ""] };
    if first.is_empty() {
        return skip("CPUs 0 and 1 may not be used");
    }
    let mut command = fathom.command(["place", "--each-thread", "1,0", "--"]);
    command.arg(target("threads")).args(["--threads", "3", "--ms", "2000"]).stdout(Stdio::null());
    let mut running = command.spawn().expect("fathom runs");
    let fathom_tasks = format!("/proc/{0}/task/{0}/children", running.id());
    let cpus = || {
        let child = std::fs::read_to_string(&fathom_tasks).ok()?.trim().to_owned();
        let tasks = std::fs::read_dir(format!("/proc/{child}/task")).ok()?.filter_map(Result::ok);
        let mut tasks: Vec<u32> =
            tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
        tasks.sort_unstable();
        let mask =
            |task| status_of(&format!("/proc/{child}/task/{task}/status"), "Cpus_allowed_list:");
        tasks.into_iter().map(mask).collect::<Option<Vec<_>>>()
    };
    let wanted = [second, first, second, first];
    let mut seen = Vec::new();
    while running.try_wait().expect("a state").is_none() {
        seen = cpus().unwrap_or(seen);
        if seen == wanted {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert_eq!(seen, wanted);
    assert!(running.wait().expect("its end").success());
}
