//! `fathom watch` with real programs: the busy one is profiled, its result arrives, and whatever goes wrong harms no program.
//!
//! What not: the order among many (`watch/choice.rs`), the arithmetic of the budget (`watch/budget.rs`), names of containers
//! (`watch/workload.rs`). Other programs of this machine are busy, too: each test selects its own by name.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::programs::{
    Fathom, is_root, perf_events_work, python, root, skip, target, watch_once,
};

/// A program that runs until it is ended.
struct Running(Child);

impl Running {
    /// Starts a copy of a program, whose name no other test has.
    fn start(fathom: &Fathom, program: &str, name: &str, arguments: &[&str]) -> Running {
        let copy = fathom.scratch.join(name);
        std::fs::copy(target(program), &copy).expect("a copy");
        Running::command(Command::new(copy).args(arguments))
    }

    fn command(command: &mut Command) -> Running {
        Running(command.stdout(Stdio::piped()).spawn().expect("it can be started"))
    }

    /// What it printed until its end.
    fn end(mut self) -> String {
        let mut said = String::new();
        self.0.stdout.take().expect("its output").read_to_string(&mut said).expect("text");
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// The objects that it logged, by event.
fn events(output: &Output, event: &str) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    all.filter(|line| line["event"] == event).collect()
}

#[track_caller]
fn one(output: &Output, event: &str) -> Value {
    let found = events(output, event);
    let said = || [output.stdout.clone(), output.stderr.clone()].concat();
    assert_eq!(found.len(), 1, "{event}: {}", String::from_utf8_lossy(&said()));
    found[0].clone()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn results(fathom: &Fathom, folder: &str) -> Vec<PathBuf> {
    files(&fathom.scratch.join(folder)).into_iter().filter(|path| path.is_dir()).collect()
}

fn added(fathom: &Fathom, dataset: &str) -> String {
    let output = fathom.output(["dataset", "verify", dataset]);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// promtool of Debian's package prometheus: `scripts/packages.sh` takes it out of that.
fn promtool() -> Option<PathBuf> {
    let folder =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let all = [PathBuf::from("promtool"), folder.join("tools/promtool")];
    let works = |program: &PathBuf| {
        let version = Command::new(program).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    let found = all.into_iter().find(works);
    if found.is_none() {
        skip("promtool is missing: scripts/packages.sh");
    }
    found
}

#[test]
fn the_busy_program_is_profiled_and_its_result_arrives() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("watch");
    let busy = Running::start(&fathom, "spin", "wa_busy", &["--ms", "60000"]);
    let _calm = Running::start(&fathom, "sleeper", "wa_calm", &["--ms", "60000"]);
    let words = watch_once(
        "program=wa_*",
        &["--dataset", "ds", "--pprof", "pprof", "--metrics", "fathom.prom"],
    );
    let output = fathom.output(words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profiled = one(&output, "profiled");
    assert_eq!(profiled["target"]["program"], "wa_busy");
    assert_eq!(profiled["target"]["pid"], busy.0.id());
    assert_eq!(
        (&profiled["state"], &profiled["function"]),
        (&"complete".into(), &"inlined_work".into())
    );
    assert!(profiled["cost_ratio"].as_f64().is_some_and(|cost| cost > 0.0), "{profiled}");
    let name = profiled["result"].as_str().expect("a name");
    let kept = results(&fathom, "fathom-spool/kept");
    assert!(kept.len() == 1 && kept[0].ends_with(name), "{kept:?}");
    assert!(results(&fathom, "fathom-spool/new").is_empty());
    let mode =
        std::fs::metadata(fathom.scratch.join("fathom-spool/kept")).expect("it").permissions();
    assert_eq!(mode.mode() & 0o777, 0o700, "only its owner reads command lines");
    assert_eq!(added(&fathom, "ds"), "ds: 1 results are whole, 0 files are damaged\n");
    let exported = std::fs::read(fathom.scratch.join(&format!("pprof/{name}.pb.gz"))).expect("it");
    assert!(exported.starts_with(&[0x1f, 0x8b]), "gzip");
    let metrics = std::fs::read_to_string(fathom.scratch.join("fathom.prom")).expect("metrics");
    for line in [
        "fathom_watch_profiles_total 1\n",
        "fathom_watch_sent_total 1\n",
        "fathom_watch_budget_ratio 1\n",
        "fathom_watch_off 0\n",
        "fathom_profile_cpus{program=\"wa_busy\"} ",
    ] {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }
    // The heap library would stay in the program: it is not brought in.
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", busy.0.id())).expect("it runs");
    assert!(!maps.contains("libfathom") && !maps.contains("memfd"), "{maps}");
    let Some(promtool) = promtool() else { return };
    let checked = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(fathom.scratch.join("fathom.prom")).expect("metrics"))
        .output()
        .expect("promtool");
    let said = [checked.stdout, checked.stderr].concat();
    assert!(checked.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn nothing_is_done_while_it_is_off_or_nothing_is_busy() {
    let fathom = fathom("watch-off");
    let _calm = Running::start(&fathom, "sleeper", "wo_calm", &["--ms", "60000"]);
    let output = fathom.output(watch_once("program=wo_calm", &["--metrics", "m"]));
    assert!(output.status.success() && one(&output, "idle")["message"].is_string());
    let metrics = || std::fs::read_to_string(fathom.scratch.join("m")).expect("metrics");
    assert!(
        !metrics().contains("fathom_profile") && !metrics().contains("last_profile"),
        "{}",
        metrics()
    );
    let _busy = Running::start(&fathom, "spin", "wo_busy", &["--ms", "60000"]);
    std::fs::write(fathom.scratch.join("off"), "").expect("a file");
    let output = fathom.output(watch_once("program=wo_busy", &["--metrics", "m"]));
    assert!(output.status.success() && events(&output, "profiled").is_empty());
    assert!(one(&output, "off")["message"].is_string());
    assert!(metrics().contains("fathom_watch_off 1\n") && metrics().contains("_rounds_total 2\n"));
    assert!(files(&fathom.scratch.join("fathom-spool/new")).is_empty());
    // What cannot be looked at counts as off.
    let words = watch_once("program=wo_busy", &["--off-file", "wo_busy/off"]);
    let words: Vec<&str> = words.iter().copied().filter(|word| *word != "off").collect();
    let at = words.iter().position(|word| *word == "--off-file").expect("it");
    let words = [&words[..at], &words[at + 1..]].concat();
    assert!(one(&fathom.output(words), "off")["message"].is_string());
}

/// Starts a watch of one program, and returns when its recording has begun.
fn recording(fathom: &Fathom, select: &str, more: &[&str]) -> Child {
    let words = ["watch", "--for", "100", "--every", "1h", "--format", "json", "--budget", "100"];
    let mut command = fathom.command(words);
    command.args(["--off-file", "off", "--select", select]).args(more);
    let child = command.spawn().expect("fathom can be started");
    let began = Instant::now();
    let has_begun = || {
        let journals =
            results(fathom, "fathom-spool/new").into_iter().map(|path| path.join("journal.fathom"));
        journals.into_iter().any(|file| file.metadata().is_ok_and(|about| about.len() > 1000))
    };
    while !has_begun() {
        assert!(began.elapsed() < Duration::from_secs(100), "no recording");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

#[test]
fn the_off_file_and_signals_end_a_recording_and_harm_no_program() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("watch-ended");
    for (end, name) in [("off", "we_off"), ("TERM", "we_term"), ("INT", "we_int")] {
        let spin = Running::start(&fathom, "spin", name, &["--ms", "8000"]);
        let mut child = recording(&fathom, &format!("program={name}"), &[]);
        let mut log = BufReader::new(child.stdout.take().expect("its log")).lines();
        if end == "off" {
            std::fs::write(fathom.scratch.join("off"), "").expect("a file");
        } else {
            signal(&child, end);
        }
        // The program is profiled for a hundred seconds, and lives for eight.
        let profiled =
            log.find(|line| line.as_ref().is_ok_and(|line| line.contains("\"profiled\"")));
        let profiled: Value =
            serde_json::from_str(&profiled.expect("a line").expect("text")).expect("JSON");
        let why = if end == "off" { "until it was turned off" } else { "until a signal" };
        let message = profiled["message"].as_str().expect("text");
        assert!(message.contains(why) || message.contains("broken off"), "{message}");
        if end == "off" {
            signal(&child, "TERM");
            std::fs::remove_file(fathom.scratch.join("off")).expect("it");
        }
        assert!(child.wait().expect("its end").success(), "{end}");
        assert!(spin.end().contains("EXIT-SUCCESS"), "{end}");
    }
    let kept = results(&fathom, "fathom-spool/kept");
    assert_eq!(kept.len(), 3);
    for result in kept {
        let output = fathom.output(["verify".as_ref(), result.as_os_str()]);
        assert!(
            matches!(output.status.code(), Some(0)),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let state =
        std::fs::read_to_string(fathom.scratch.join("fathom-spool/state.json")).expect("it");
    let state: Value = serde_json::from_str(&state).expect("JSON");
    assert_eq!(state["counts"]["profiles"], 3, "a restart goes on counting");
    assert!(state["spent"].as_array().is_some_and(|spent| spent.len() >= 3), "{state}");
}

#[test]
fn results_wait_for_a_dataset_that_went_away() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("watch-away");
    let _spin = Running::start(&fathom, "spin", "ww_spin", &["--ms", "100000"]);
    let words = watch_once("program=ww_spin", &["--dataset", "ds"]);
    std::fs::write(fathom.scratch.join("ds"), "no folder").expect("a file");
    let output = fathom.output(&words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(one(&output, "waits")["waiting"], 1);
    assert_eq!(results(&fathom, "fathom-spool/new").len(), 1);
    std::fs::remove_file(fathom.scratch.join("ds")).expect("it");
    let output = fathom.output(&words);
    assert!(output.status.success() && events(&output, "waits").is_empty());
    assert!(results(&fathom, "fathom-spool/new").is_empty());
    assert_eq!(added(&fathom, "ds"), "ds: 2 results are whole, 0 files are damaged\n");
    // As below a mount that is gone: no other dataset is made there.
    std::fs::rename(fathom.scratch.join("ds"), fathom.scratch.join("away")).expect("a name");
    std::fs::create_dir(fathom.scratch.join("ds")).expect("a folder");
    assert_eq!(one(&fathom.output(&words), "waits")["waiting"], 1);
    assert!(files(&fathom.scratch.join("ds")).is_empty());
    std::fs::remove_dir(fathom.scratch.join("ds")).expect("it");
    std::fs::rename(fathom.scratch.join("away"), fathom.scratch.join("ds")).expect("a name");
    assert!(events(&fathom.output(&words), "waits").is_empty());
    assert_eq!(added(&fathom, "ds"), "ds: 4 results are whole, 0 files are damaged\n");
}

#[test]
fn a_program_that_may_not_be_profiled_is_left_alone() {
    if !perf_events_work() {
        return;
    }
    let spin32 = target("spin32");
    if !spin32.exists() {
        return skip("the compiler here cannot build for 32-bit x86");
    }
    let fathom = fathom("watch-refused");
    let refused = Running::start(&fathom, "spin32", "wr_spin32", &["--ms", "4000"]);
    let _other = Running::start(&fathom, "spin", "wr_spin", &["--ms", "60000"]);
    let output = fathom.output(watch_once("program=wr_*", &["--top", "2"]));
    assert!(output.status.success(), "the other one was profiled");
    let failed = one(&output, "failed");
    assert_eq!(failed["target"]["program"], "wr_spin32");
    assert!(failed["why"].as_str().is_some_and(|why| why.contains("32-bit program")), "{failed}");
    assert_eq!(one(&output, "profiled")["target"]["program"], "wr_spin");
    assert_eq!(results(&fathom, "fathom-spool/kept").len(), 1);
    assert!(files(&fathom.scratch.join("fathom-spool/new")).is_empty(), "nothing of it stays");
    assert!(refused.end().contains("EXIT-SUCCESS"));
}

#[test]
fn a_full_disk_loses_no_program_and_room_is_made() {
    if !perf_events_work() || !is_root() {
        return;
    }
    let fathom = fathom("watch-full");
    let spin = Running::start(&fathom, "spin", "wf_spin", &["--ms", "100000"]);
    let disk = fathom.scratch.join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let mount = |options: &str| {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "fathom-test"]).arg(&disk);
        mount.output().is_ok_and(|output| output.status.success())
    };
    if !mount("size=12k") {
        return skip("no tmpfs can be mounted here");
    }
    let round = || {
        fathom.output(watch_once("program=wf_spin", &["--spool", "disk/spool", "--dataset", "ds"]))
    };
    let full = round();
    assert!(mount("remount,size=64m"), "a larger disk");
    let after = round();
    let _ = Command::new("umount").arg(&disk).output();
    assert_eq!(full.status.code(), Some(3), "{}", String::from_utf8_lossy(&full.stdout));
    let why = events(&full, "failed").iter().map(ToString::to_string).collect::<String>();
    assert!(why.contains("no space left") || why.contains("No space left"), "{why}");
    assert!(after.status.success(), "{}", String::from_utf8_lossy(&after.stdout));
    assert_eq!(one(&after, "profiled")["target"]["pid"], spin.0.id());
    assert_eq!(added(&fathom, "ds"), "ds: 1 results are whole, 0 files are damaged\n");
}

#[test]
fn a_program_in_a_pid_namespace_is_found_and_has_both_numbers() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("watch-namespace");
    std::fs::copy(target("spin"), fathom.scratch.join("wn_spin")).expect("a copy");
    let can = Command::new("unshare").args(["--pid", "--fork", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        return skip("unshare --pid is not allowed here");
    }
    let words = ["--pid", "--fork", "--kill-child"];
    let mut command = Command::new("unshare");
    command.args(words).arg(fathom.scratch.join("wn_spin")).args(["--ms", "60000"]);
    let outside = Running::command(&mut command);
    let output = fathom.output(watch_once("program=wn_spin", &[]));
    let profiled = one(&output, "profiled");
    assert_eq!(profiled["target"]["inner_pid"], 1);
    assert_ne!(profiled["target"]["pid"], outside.0.id(), "that is unshare");
    assert_eq!(profiled["function"], "inlined_work");
}

/// A cgroup with one process, removed at the end.
struct Cgroup(PathBuf);

impl Cgroup {
    /// In the hierarchy of version 2, or in one of version 1.
    fn of(pid: &str, name: &str) -> Option<Cgroup> {
        let root = Path::new("/sys/fs/cgroup");
        ["", "memory", "systemd"].into_iter().find_map(|hierarchy| {
            let folder = root.join(hierarchy).join(name);
            let is_one = root.join(hierarchy).join("cgroup.procs").exists();
            let made = is_one && std::fs::create_dir(&folder).is_ok();
            let cgroup = made.then_some(Cgroup(folder))?;
            std::fs::write(cgroup.0.join("cgroup.procs"), pid).is_ok().then_some(cgroup)
        })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its process has ended; the kernel may not have noticed.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_container_is_named_by_its_cgroup() {
    if !perf_events_work() || !is_root() {
        return;
    }
    let fathom = fathom("watch-container");
    let id = format!("{:064x}", 0xfa_0000_0000_u64 + u64::from(std::process::id()));
    let spin = Running::start(&fathom, "spin", "wc_spin", &["--ms", "60000"]);
    let Some(_cgroup) = Cgroup::of(&spin.0.id().to_string(), &format!("docker-{id}.scope")) else {
        return skip("no cgroup can be made here");
    };
    // Dropped before its cgroup.
    let _spin = spin;
    let select = format!("container={id}");
    let output = fathom.output(watch_once(&select, &["--metrics", "m"]));
    let profiled = one(&output, "profiled");
    assert_eq!(profiled["target"]["container"], id.as_str());
    assert_eq!(profiled["target"]["program"], "wc_spin");
    let metrics = std::fs::read_to_string(fathom.scratch.join("m")).expect("metrics");
    let line = format!("fathom_profile_cpus{{program=\"wc_spin\",container=\"{id}\"}} ");
    assert!(metrics.contains(&line), "{metrics}");
}

#[test]
fn what_was_spent_counts_also_for_the_next_start() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("watch-budget");
    let _spin = Running::start(&fathom, "spin", "wb_spin", &["--ms", "100000"]);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // 50 ms of an hour, less than any round takes.
    let budget = (0.05 / (cpus as f64 * 36.0)).to_string();
    let words: Vec<&str> = watch_once("program=wb_spin", &[])
        .into_iter()
        .map(|word| if word == "100" { budget.as_str() } else { word })
        .collect();
    let first = fathom.output(&words);
    assert!(events(&first, "waiting").is_empty(), "the first round is tried");
    let second = fathom.output(&words);
    assert_eq!(second.status.code(), Some(3));
    assert!(one(&second, "waiting")["seconds"].as_f64().is_some_and(|seconds| seconds > 3000.0));
    assert!(events(&second, "profiled").is_empty());
}

#[test]
fn only_this_machine_is_answered_with_metrics() {
    let fathom = fathom("watch-listen");
    let words = ["watch", "--every", "1h", "--listen", "0", "--format", "json", "--off-file", "."];
    let mut child = fathom.command(words).spawn().expect("fathom can be started");
    let mut log = BufReader::new(child.stdout.take().expect("its log")).lines();
    let listening: Value =
        serde_json::from_str(&log.next().expect("a line").expect("text")).expect("JSON");
    assert_eq!(listening["event"], "listening");
    let port = listening["port"].as_u64().expect("a port");
    // The first round is over.
    assert!(log.any(|line| line.expect("text").contains("\"off\"")));
    let ask = |path: &str, host: &str| {
        let mut stream =
            std::net::TcpStream::connect(("127.0.0.1", u16::try_from(port).expect("a port")))
                .expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    };
    let here = format!("127.0.0.1:{port}");
    let began = Instant::now();
    while !ask("/metrics", &here).contains("fathom_watch_off 1\n") {
        assert!(began.elapsed() < Duration::from_secs(100), "{}", ask("/metrics", &here));
    }
    assert!(
        ask("/metrics", &here)
            .starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    );
    assert!(ask("/other", &here).starts_with("HTTP/1.1 404"));
    assert!(ask("/metrics", "example.com").starts_with("HTTP/1.1 404"));
    signal(&child, "TERM");
    assert!(child.wait().expect("its end").success());
}

#[test]
fn wrong_words_and_a_second_watch_are_refused() {
    let fathom = fathom("watch-usage");
    let refused = |words: &[&str], why: &str| {
        let output = fathom.output([&["watch", "--once"], words].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(why), "{words:?}: {error}");
    };
    refused(&["--every", "soon"], "must be a time");
    refused(&["--budget", "0"], "must be more than 0");
    refused(&["--select", "colour=red"], "keys are program, unit");
    refused(&["-k", "no-knob=1"], "no knob 'no-knob'");
    refused(&["--format", "csv"], "text and json");
    let words = ["watch", "--every", "1h", "--off-file", "."];
    let mut first = fathom.command(words).spawn().expect("fathom can be started");
    let mut log = BufReader::new(first.stdout.take().expect("its log")).lines();
    assert!(log.next().expect("a line").is_ok());
    refused(&[], "another fathom watch uses");
    signal(&first, "INT");
    assert!(first.wait().expect("its end").success());
}

#[test]
fn what_is_redacted_is_in_no_file_that_leaves() {
    if !perf_events_work() {
        return;
    }
    let fathom = fathom("watch-redacted");
    let folder = fathom.scratch.join("s3cret-folder");
    std::fs::create_dir(&folder).expect("a folder");
    let program = folder.join("wd_spin");
    std::fs::copy(target("spin"), &program).expect("a copy");
    let _spin = Running::command(Command::new(&program).args(["--ms", "60000"]));
    let words = ["--dataset", "ds", "--pprof", "pprof", "--redact", "arguments,paths"];
    let output = fathom.output(watch_once("program=wd_spin", &words));
    assert!(one(&output, "profiled")["result"].is_string());
    for file in files(&fathom.scratch.join("pprof")) {
        let text = Command::new("gzip").arg("-dc").arg(&file).output().expect("gzip").stdout;
        let has = |word: &str| text.windows(word.len()).any(|bytes| bytes == word.as_bytes());
        assert!(has("wd_spin") && has("inlined_work") && !has("s3cret") && !has("60000"));
        assert!(!has(root().to_str().expect("text")), "folders of sources");
    }
    let sources = root().to_str().expect("text").to_owned();
    let dataset = fathom.scratch.join("ds").to_str().expect("text").to_owned();
    python("dataset/redacted.py", &[dataset, "s3cret".to_owned(), "60000".to_owned(), sources]);
}

#[test]
fn a_dataset_takes_results_as_they_come() {
    let fathom = fathom("dataset-watch");
    std::fs::create_dir(fathom.scratch.join("in")).expect("a folder");
    let words = ["dataset", "add", "ds", "--watch", "in"];
    let child = fathom.command(words).spawn().expect("fathom can be started");
    for name in ["in/r0", "in/r1"] {
        let made = fathom.collect(name, &[], &target("spin"), &["--ms", "60"]);
        testkit::programs::assert_ended_well(&made);
    }
    let began = Instant::now();
    while !added(&fathom, "ds").starts_with("ds: 2 results are whole") {
        assert!(began.elapsed() < Duration::from_secs(100), "{}", added(&fathom, "ds"));
        std::thread::sleep(Duration::from_millis(50));
    }
    signal(&child, "INT");
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ds: 2 added\n");
    let missing = fathom.output(["dataset", "add", "ds", "--watch", "nowhere"]);
    assert_eq!(missing.status.code(), Some(2));
}
