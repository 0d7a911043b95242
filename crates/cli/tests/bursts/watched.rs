//! What the tests of bursts share: running programs with bursts every millisecond, and what `/proc` says of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use base::Tid;
use facts::BurstFlavour;
use serde_json::Value;
use testkit::programs::{Fathom, NO_CALIBRATION, skip, target};

pub fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), &format!("bursts-{name}"))
}

/// `fathom collect memory-access` with bursts as often as possible.
pub const COLLECT: [&str; 9] = [
    "collect",
    "memory-access",
    "-q",
    "-k",
    NO_CALIBRATION,
    "-k",
    "burst-interval=1",
    "-k",
    "overhead=100",
];

/// Runs a program to its end under the tracer; its output, as fathom passes it on.
pub fn collect(fathom: &Fathom, result: &str, program: &str, arguments: &[&str]) -> Output {
    let program = target(program);
    let mut all: Vec<&OsStr> = COLLECT.iter().map(OsStr::new).collect();
    all.extend([OsStr::new("-r"), OsStr::new(result), OsStr::new("--"), program.as_os_str()]);
    all.extend(arguments.iter().map(OsStr::new));
    fathom.output(all)
}

/// Asserts that the result holds what it must.
pub fn assert_verified(fathom: &Fathom, result: &str) {
    let verified = fathom.output(["verify", result]);
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(verified.status.success(), "verify {result}: {said}");
}

/// What the bursts of a result were for.
pub fn flavours(fathom: &Fathom, result: &str) -> BTreeSet<BurstFlavour> {
    let opened = store::open(&fathom.scratch.join(result)).expect("the result opens");
    opened.recording.bursts.iter().map(|burst| burst.flavour).collect()
}

/// A number of a metric.
#[track_caller]
pub fn value(metric: &Value) -> f64 {
    metric["value"].as_f64().unwrap_or_else(|| panic!("no value in {metric}"))
}

/// Attempts at bursts, and the share of those that became one, percent; nothing where none was made.
pub fn attempts(summary: &Value) -> Option<(u64, f64)> {
    let traced = &summary["coverage"]["traced"];
    Some((traced["samples"].as_u64()?, traced["value"].as_f64()?))
}

/// Whether we may stop and change a child of ours; says so if not.
pub fn bursts_work() -> bool {
    let mut child = Command::new(target("spin"))
        .args(["--ms", "600000"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the program can be started");
    let seized = sys::trace::seize_alone(Tid(child.id().cast_signed()));
    let _ = child.kill();
    let _ = child.wait();
    if let Err(error) = &seized {
        skip(&format!("ptrace is not allowed here: {error}"));
    }
    seized.is_ok()
}

/// Waits until a condition holds; the bound only keeps a broken test from hanging.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -{name} {pid}");
}

/// A program that runs alone; it ends with the test, however that ends.
pub struct Alone(pub Child);

impl Alone {
    /// Starts it, its output in a file.
    pub fn start(program: &str, arguments: &[&str], output: &Path) -> Alone {
        let child = Command::new(target(program))
            .args(arguments)
            .stdout(std::fs::File::create(output).expect("create"))
            .spawn();
        Alone(child.expect("the program can be started"))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// What a tracer that left must have left as it was: mappings (but what grows by itself), signals, files.
pub fn state(pid: u32) -> BTreeMap<String, String> {
    let grows = |line: &&str| line.ends_with("[heap]") || line.ends_with("[stack]");
    let maps = text(format!("/proc/{pid}/maps"));
    let maps: Vec<&str> = maps.lines().filter(|line| !grows(line)).collect();
    let mut state = BTreeMap::from([("mappings".to_owned(), maps.join("\n"))]);
    for thread in names(&format!("/proc/{pid}/task")) {
        let status = text(format!("/proc/{pid}/task/{thread}/status"));
        let kept = ["SigBlk:", "SigIgn:", "SigCgt:", "SigPnd:", "ShdPnd:", "TracerPid:"];
        let kept = |line: &&str| kept.iter().any(|name| line.starts_with(name));
        let lines: Vec<&str> = status.lines().filter(kept).collect();
        state.insert(format!("thread {thread}"), lines.join("\n"));
    }
    for number in names(&format!("/proc/{pid}/fd")) {
        let file = std::fs::read_link(format!("/proc/{pid}/fd/{number}")).unwrap_or_default();
        state.insert(format!("file {number}"), file.display().to_string());
    }
    state
}

fn names(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
