//! The heap of a process that is attached to: the process does what it does alone, and what it allocates is known from then
//! on. The programs look at themselves and print whether anything was otherwise (`tests/programs/attach_*`).

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::programs::{Fathom, NO_CALIBRATION, is_root, target};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// A program that runs, and ends when its input does.
struct Running {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(program: &Path, arguments: &[&str]) -> Running {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut running = Running { child, input, output };
        assert_eq!(running.line(), "ready=1");
        running
    }

    fn line(&mut self) -> String {
        self.output.next().expect("a line").expect("text")
    }

    fn say(&mut self, command: &str) -> String {
        self.input.write_all(command.as_bytes()).expect("it reads");
        self.line()
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// What it prints when its input ends.
    fn end(mut self) -> Vec<String> {
        drop(self.input);
        let said = self.output.map_while(Result::ok).collect();
        assert!(self.child.wait().expect("it ends").success(), "{said:?}");
        said
    }
}

/// `fathom collect ANALYSIS -r RESULT --pid PID`, not ended by itself.
fn attach(fathom: &Fathom, analysis: &str, result: &str, knobs: &[&str], pid: &str) -> Child {
    let words = ["collect", analysis, "-q", "-k", NO_CALIBRATION, "-r", result];
    let mut command = fathom.command(words);
    for knob in knobs {
        command.args(["-k", knob]);
    }
    command.args(["--pid", pid]).spawn().expect("fathom can be started")
}

/// Waits until facts are on disk: then the agent is in the process, or will not be.
fn until_facts_are_written(fathom: &Fathom, result: &str) {
    let journal = fathom.scratch.join(result).join("journal.fathom");
    let began = Instant::now();
    while std::fs::metadata(&journal).map_or(0, |file| file.len()) < 1000 {
        assert!(began.elapsed() < Duration::from_secs(100), "no facts");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn interrupt(fathom: &Fathom, result: &str, child: Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let verified = fathom.output(["verify", result]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

fn notes(fathom: &Fathom, result: &str) -> String {
    fathom.report(result, &["summary"])["notes"].to_string()
}

/// The ways in which the program is built, as far as libraries are there.
fn allocating_programs() -> Vec<PathBuf> {
    let programs = ["attach_heap", "attach_heap_jemalloc", "attach_heap_tcmalloc"].map(target);
    programs.into_iter().filter(|program| program.exists()).collect()
}

const UNHARMED: [&str; 3] = ["read_error=0", "damaged=0", "EXIT-SUCCESS"];

/// Blocks that are allocated while the process is watched have their function; the agent's calls are taken back.
fn known_blocks_are_found(fathom: &Fathom, result: &str, running: &mut Running) {
    let child = attach(fathom, "memory-consumption", result, &[], &running.pid());
    until_facts_are_written(fathom, result);
    assert_eq!(running.say("k"), "known=10");
    interrupt(fathom, result, child);
    assert_eq!(running.say("f"), "freed=10");
    let view = fathom.report(result, &["allocations"]);
    let rows = view["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["function"] == "known_blocks");
    let row = row.unwrap_or_else(|| panic!("{} {view:#}", notes(fathom, result)));
    assert_eq!(row["allocations"]["value"], 10.0, "{row:#}");
    assert_eq!(row["bytes_allocated"]["value"], 400_000.0, "{row:#}");
    assert_eq!(row["live_at_end"]["value"], 400_000.0, "{row:#}");
    assert!(rows.iter().all(|row| row["function"] != "at_start"), "{view:#}");
    assert!(view["notes"].to_string().contains("from before the attach"), "{view:#}");
}

#[test]
fn blocks_are_known_from_the_attach_on() {
    if !is_root() {
        return;
    }
    for program in allocating_programs() {
        let fathom = fathom("attach-heap-known");
        let mut running = Running::start(&program, &[]);
        known_blocks_are_found(&fathom, "first", &mut running);
        known_blocks_are_found(&fathom, "again", &mut running);
        assert_eq!(running.end(), UNHARMED, "{}", program.display());
    }
}

#[test]
fn every_analysis_leaves_a_process_that_allocates_as_it_was() {
    if !is_root() {
        return;
    }
    for program in allocating_programs() {
        let fathom = fathom("attach-heap-modes");
        let running = Running::start(&program, &["8"]);
        for (number, (analysis, knobs)) in [
            ("memory-access", &["burst-interval=2", "overhead=50"][..]),
            ("memory-access", &["stacks=all"]),
            ("memory-consumption", &["stacks=all"]),
            ("memory-consumption", &["sampling-mode=ptrace"]),
        ]
        .into_iter()
        .enumerate()
        {
            let result = format!("r{number}");
            let child = attach(&fathom, analysis, &result, knobs, &running.pid());
            until_facts_are_written(&fathom, &result);
            interrupt(&fathom, &result, child);
        }
        assert_eq!(running.end(), UNHARMED, "{}", program.display());
    }
}

/// Killed at many moments, also in the middle of the attach; what is left behind is no obstacle for the next.
#[test]
fn killing_the_profiler_while_it_attaches_does_no_harm() {
    if !is_root() {
        return;
    }
    for program in allocating_programs() {
        let fathom = fathom("attach-heap-killed");
        let mut running = Running::start(&program, &[]);
        for number in 0..20 {
            let result = format!("k{number}");
            let mut child = attach(&fathom, "memory-consumption", &result, &[], &running.pid());
            std::thread::sleep(Duration::from_millis(number * 7 % 60));
            child.kill().expect("it can be killed");
            child.wait().expect("it ends");
        }
        known_blocks_are_found(&fathom, "last", &mut running);
        assert_eq!(running.end(), UNHARMED, "{}", program.display());
    }
}

/// Waits are not cut short, and no signal is swallowed.
#[test]
fn a_process_that_waits_goes_on_waiting() {
    if !is_root() {
        return;
    }
    for way in ["", "--futex", "--sleep", "--epoll", "--signals"] {
        let fathom = fathom("attach-heap-waits");
        let arguments: Vec<&str> = [way].into_iter().filter(|way| !way.is_empty()).collect();
        let running = Running::start(&target("attach_waits"), &arguments);
        for result in ["first", "second"] {
            let child = attach(&fathom, "memory-consumption", result, &[], &running.pid());
            until_facts_are_written(&fathom, result);
            interrupt(&fathom, result, child);
        }
        assert_eq!(running.end(), ["as_it_should=1", "EXIT-SUCCESS"], "{way}");
    }
}

/// A result of a process whose heap cannot be had says so, and is a result.
fn is_said(name: &str, pid: &str, why: &str) {
    let fathom = fathom(name);
    let words = ["collect", "memory-access", "-q", "-k", NO_CALIBRATION, "-r", "r"];
    let output = fathom.output(words.into_iter().chain(["-d", "0.5", "--pid", pid]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = notes(&fathom, "r");
    assert!(said.contains("heap blocks were not recorded") && said.contains(why), "{said}");
    let heap = fathom.report("r", &["summary"])["heap"].to_string();
    assert!(heap.contains("the notes of this result say why"), "{heap}");
}

#[test]
fn a_static_program_has_no_heap_to_see() {
    if !is_root() {
        return;
    }
    let running = Running::start(&target("attach_waits_static"), &[]);
    is_said("attach-heap-static", &running.pid(), "linked statically");
    assert_eq!(running.end(), ["as_it_should=1", "EXIT-SUCCESS"]);
}

#[test]
fn a_process_that_filters_its_system_calls_is_left_alone() {
    if !is_root() {
        return;
    }
    let mut running = Command::new(target("seccomp_user"))
        .args(["--rounds", "1000000000", "--kill"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let output = BufReader::new(running.stdout.take().expect("its output"));
    let confined = output.lines().map_while(Result::ok).any(|line| line == "confined=1");
    assert!(confined);
    is_said("attach-heap-seccomp", &running.id().to_string(), "filters its own system calls");
    assert!(running.try_wait().expect("it is ours").is_none(), "it was ended");
    running.kill().expect("it runs");
    running.wait().expect("it ends");
}
