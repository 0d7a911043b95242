//! Ctrl-C, attach, `-d`, our own death, a full disk: the program goes on, and what was collected is kept.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::programs::{
    Fathom, NO_CALIBRATION, Scratch, assert_ended_well, facts_of, is_root, perf_events_work, target,
};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

/// Waits until a condition holds; the bound only keeps a broken test from hanging.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How many of the journal's bytes are on disk: facts were flushed.
fn journal_bytes(fathom: &Fathom, result: &str) -> u64 {
    std::fs::metadata(fathom.scratch.join(result).join("journal.fathom"))
        .map_or(0, |meta| meta.len())
}

const QUICK: [&str; 4] = ["collect", "hotspots", "-k", NO_CALIBRATION];

#[test]
fn the_first_interrupt_ends_the_collection_and_the_program_goes_on() {
    let fathom = fathom("interrupt");
    let mut child = fathom
        .command(QUICK)
        .args(["-r", "r", "--"])
        .arg(target("spin"))
        .args(["--ms", "4000"])
        .spawn()
        .expect("fathom can be started");
    eventually("facts are written", || journal_bytes(&fathom, "r") > 1000);
    signal(&child, "INT");
    // The report comes while the program still runs.
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let first = lines.next().expect("a line").expect("text");
    assert!(!first.contains("EXIT-SUCCESS"), "the report comes first: {first}");
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(
        rest.iter().any(|line| line == "EXIT-SUCCESS"),
        "the program must reach its end: {rest:?}"
    );
    assert!(child.wait().expect("wait").success());
    let summary = fathom.report("r", &["summary"]);
    assert_eq!(summary["state"], "complete");
    assert!(
        summary["exit"].as_str().is_some_and(|exit| exit.starts_with("still running")),
        "{}",
        summary["exit"]
    );
}

#[test]
fn the_second_interrupt_ends_the_program() {
    let fathom = fathom("interrupt-twice");
    let mut child = fathom
        .command(QUICK)
        .args(["-r", "r", "--"])
        .arg(target("spin"))
        .args(["--ms", "600000"])
        .spawn()
        .expect("fathom can be started");
    eventually("facts are written", || journal_bytes(&fathom, "r") > 1000);
    signal(&child, "INT");
    eventually("the result is complete", || {
        std::fs::read_to_string(fathom.scratch.join("r/run.json"))
            .is_ok_and(|text| text.contains("\"complete\""))
    });
    signal(&child, "INT");
    let status = child.wait().expect("wait");
    assert_eq!(status.code(), Some(128 + 15), "ended by our SIGTERM");
}

#[test]
fn a_termination_signal_reaches_the_program() {
    let fathom = fathom("terminate");
    let mut child = fathom
        .command(QUICK)
        .args(["-q", "-r", "r", "--"])
        .arg(target("spin"))
        .args(["--ms", "600000"])
        .spawn()
        .expect("fathom can be started");
    eventually("facts are written", || journal_bytes(&fathom, "r") > 1000);
    signal(&child, "TERM");
    assert_eq!(child.wait().expect("wait").code(), Some(128 + 15));
    assert!(fathom.output(["verify", "r"]).status.success());
}

#[test]
fn a_duration_ends_the_collection_not_the_program() {
    let fathom = fathom("duration");
    let output = fathom.collect("r", &["-d", "0.5"], &target("spin"), &["--ms", "3000"]);
    assert_ended_well(&output);
    let summary = fathom.report("r", &["summary"]);
    let elapsed = summary["elapsed"]["value"].as_f64().expect("elapsed");
    assert!(elapsed >= 0.5, "{elapsed} s");
    assert!(summary["exit_code"].is_null(), "the program went on: {}", summary["exit"]);
}

#[test]
fn a_running_process_is_watched_and_left_alone() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("attach");
    for knob in ["sampling-mode=auto", "sampling-mode=ptrace"] {
        let running = Command::new(target("threads"))
            .args(["--threads", "3", "--ms", "2500"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let result = knob.replace('=', "-");
        let output = fathom
            .command(QUICK)
            .args(["-q", "-k", knob, "-d", "1", "-r", &result, "--pid", &running.id().to_string()])
            .output()
            .expect("fathom can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let left = running.wait_with_output().expect("wait");
        assert_ended_well(&left);
        let rows = fathom.rows(&result, &["hotspots"]);
        let hot = rows.iter().find(|row| row["function"] == "thread_work").expect("thread_work");
        assert!(
            hot["total_percent"]["value"].as_f64().is_some_and(|share| share > 80.0),
            "{knob}: {hot}"
        );
        assert_eq!(fathom.report(&result, &["summary"])["target"], "attached");
        let verified = fathom.output(["verify", &result]);
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    }
}

/// With ptrace, leaving a program must leave all of it running, also threads that wait uninterruptibly just then.
#[test]
fn a_program_with_many_threads_is_left_running() {
    let fathom = fathom("many-threads");
    let output = fathom.collect(
        "r",
        &["-k", "sampling-mode=ptrace", "-d", "0.5"],
        &target("threads"),
        &["--threads", "100", "--ms", "30"],
    );
    assert_ended_well(&output);
}

#[test]
fn killing_the_profiler_leaves_the_program_and_the_result() {
    let fathom = fathom("killed");
    for knob in ["sampling-mode=auto", "sampling-mode=ptrace"] {
        let result = knob.replace('=', "-");
        let printed = fathom.scratch.join(&format!("{result}.out"));
        let mut child = fathom
            .command(QUICK)
            .args(["-q", "-k", knob, "-r", &result, "--"])
            .arg(target("spin"))
            .args(["--ms", "3500"])
            .stdout(std::fs::File::create(&printed).expect("create"))
            .spawn()
            .expect("fathom can be started");
        eventually("facts are written", || journal_bytes(&fathom, &result) > 1000);
        signal(&child, "KILL");
        child.wait().expect("wait");
        eventually("the program ends well by itself", || {
            std::fs::read_to_string(&printed).is_ok_and(|text| text.contains("EXIT-SUCCESS"))
        });
        let summary = fathom.report(&result, &["summary"]);
        assert_eq!(summary["state"], "incomplete");
        let rows = fathom.rows(&result, &["hotspots"]);
        assert!(rows.iter().any(|row| row["function"] == "spin_here"), "{rows:?}");
    }
}

/// A file system of 96 KB fills up during the run: the program ends as ever, the report opens.
#[test]
fn a_full_disk_costs_neither_the_program_nor_the_beginning() {
    if !is_root() || !perf_events_work() {
        return;
    }
    let fathom = fathom("full");
    let disk = Scratch::new("full-disk");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=96k", "tmpfs"])
        .arg(disk.path())
        .status()
        .is_ok_and(|status| status.success());
    if !mounted {
        testkit::programs::skip("a small file system cannot be mounted here");
        return;
    }
    let result = disk.join("r");
    // Many distinct stacks make a journal that grows quickly.
    let output = fathom.collect(
        result.to_str().expect("UTF-8"),
        &["-k", "sampling-interval=0.1"],
        &target("deep_recursion"),
        &["--depth", "400", "--ms", "3000"],
    );
    let filler = fathom.collect(
        disk.join("second").to_str().expect("UTF-8"),
        &["-k", "sampling-interval=0.1"],
        &target("fib"),
        &["--n", "42"],
    );
    let opened = fathom.output(["report", "summary", "-r", result.to_str().expect("UTF-8")]);
    let unmounted = Command::new("umount").arg(disk.path()).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    for output in [&output, &filler] {
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{:?} {error}", output.status);
        assert!(output.status.success() || error.contains("no space left"), "{error}");
        // Where not even the result could be made, nothing was run.
        let ran = facts_of(&output.stdout).contains_key("process_cpu_ns");
        assert!(ran || error.contains("no space left"), "{error}");
    }
    assert!(!output.status.success() || !filler.status.success(), "the disk must have been full");
    assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
}

#[test]
fn a_program_at_a_terminal_can_read_it() {
    // script(1) gives the whole command a terminal of its own.
    let found = Command::new("script")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        testkit::programs::skip("script(1) is not installed");
        return;
    }
    let fathom = fathom("terminal");
    for knob in ["sampling-mode=auto", "sampling-mode=ptrace"] {
        let command = format!(
            "{} collect hotspots -q -k dram-bandwidth-limits=false -k {knob} -r {} -- {}",
            env!("CARGO_BIN_EXE_fathom"),
            knob.replace('=', "-"),
            target("tty_reader").display()
        );
        let mut child = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .current_dir(fathom.scratch.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script can be started");
        let mut input = child.stdin.take().expect("stdin");
        std::io::Write::write_all(&mut input, b"a line from the user\n").expect("write");
        let mut text = String::new();
        child.stdout.take().expect("stdout").read_to_string(&mut text).expect("read");
        drop(input);
        assert!(child.wait().expect("wait").success(), "{knob}: {text}");
        assert!(
            text.contains("line=a line from the user") && text.contains("EXIT-SUCCESS"),
            "{knob}: {text}"
        );
    }
}
