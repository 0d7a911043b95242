//! Where perf_event_open is refused: the next best source, said so, and the same program results.

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;
use testkit::programs::{
    Fathom, NO_CALIBRATION, assert_ended_well, facts_of, is_root, number, perf_events_work, skip,
    target,
};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// Runs fathom under a launcher that makes perf_event_open fail (seccomp), as a container does.
fn without_perf(
    fathom: &Fathom,
    launcher: &[&str],
    result: &str,
    program: &[&str],
) -> std::process::Output {
    let mut command = Command::new(target("no_perf"));
    command.args(launcher).arg(env!("CARGO_BIN_EXE_fathom"));
    command.args(["collect", "hotspots", "-q", "-k", NO_CALIBRATION, "-r", result, "--"]);
    command.arg(target(program[0])).args(&program[1..]).current_dir(fathom.scratch.path());
    command.output().expect("the launcher can be started")
}

fn manifest(fathom: &Fathom, result: &str) -> Value {
    let text =
        std::fs::read_to_string(fathom.scratch.join(result).join("run.json")).expect("run.json");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn ptrace_takes_over_where_perf_events_are_refused() {
    let fathom = fathom("noperf");
    for errno in ["1", "13", "38"] {
        let result = format!("r{errno}");
        let output = without_perf(&fathom, &["--errno", errno], &result, &["spin", "--ms", "1000"]);
        assert_ended_well(&output);
        let manifest = manifest(&fathom, &result);
        assert_eq!(manifest["collector"]["method"], "ptrace");
        let reason = manifest["collector"]["fallback_reason"].as_str().expect("a reason");
        assert!(reason.contains("perf_event_open") && reason.contains("ptrace"), "{reason}");
        let rows = fathom.rows(&result, &["hotspots"]);
        let hot = rows.iter().find(|row| row["function"] == "spin_here").expect("spin_here");
        assert!(hot["total_percent"]["value"].as_f64().is_some_and(|share| share > 80.0), "{hot}");
        let summary = fathom.report(&result, &["summary"]);
        let own = number(&facts_of(&output.stdout), "process_cpu_ns") * 1e-9;
        let cpu = summary["cpu_time"]["value"].as_f64().expect("cpu time");
        assert!((cpu - own).abs() < 0.05 * own, "{cpu} s against {own} s");
    }
}

#[test]
fn without_ptrace_too_totals_remain_and_nothing_is_invented() {
    let fathom = fathom("nothing");
    let output = without_perf(&fathom, &["--ptrace"], "r", &["touch_pages", "--pages", "20000"]);
    assert_ended_well(&output);
    assert_eq!(manifest(&fathom, "r")["collector"]["method"], "proc-only");
    let summary = fathom.report("r", &["summary"]);
    let own = number(&facts_of(&output.stdout), "process_minor_faults");
    let minor = summary["page_faults"]["minor"]["value"].as_f64().expect("minor faults");
    assert!((minor - own).abs() <= 0.001 * own + 20.0, "{minor} against {own}");
    assert!(summary["top_functions"].as_array().is_some_and(Vec::is_empty));
}

/// Where the kernel takes no programs of ours, as in most containers, perf counts the program as a whole.
#[test]
fn without_bpf_the_programs_entries_are_counted_by_perf() {
    if !is_root() || !perf_events_work() {
        return skip("the kernel's side may not be counted by this user");
    }
    let fathom = fathom("nobpf");
    let mut command = Command::new(target("no_perf"));
    command.arg("--bpf").arg(env!("CARGO_BIN_EXE_fathom"));
    command.args(["collect", "system-overview", "-q", "-k", NO_CALIBRATION]);
    command.args(["-r", "r", "--"]).arg(target("touch_pages")).args(["--pages", "20000"]);
    let output = command.current_dir(fathom.scratch.path()).output().expect("it can be started");
    assert_ended_well(&output);
    let verified = fathom.output(["verify", "r"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    let notes = manifest(&fathom, "r")["notes"].to_string();
    assert!(notes.contains("for the program as a whole, counted by perf"), "{notes}");
    let rows = fathom.rows("r", &["kernel"]);
    let row = |cause: &str, name: &str| {
        rows.iter().find(|row| row["cause"] == cause && row["name"] == name).cloned()
    };
    let minor = row("page fault", "minor").expect("minor faults");
    let (counted, own) =
        (&minor["entries"]["value"], number(&facts_of(&output.stdout), "process_minor_faults"));
    let counted = counted.as_f64().expect("a count");
    assert!((counted - own).abs() <= 0.001 * own + 20.0, "{counted} against {own}");
    assert!(minor["time"]["value"].is_null() && minor["time"]["note"].is_string(), "{minor}");
    assert!(row("interrupt", "Local timer interrupts").is_none(), "those are the machine's");
    let threads = fathom.rows("r", &["kernel", "-g", "thread"]);
    let name = threads[0]["thread"].as_str().expect("a name");
    assert!(name.starts_with("(all of touch_pages"), "{name}");
}

/// perf_event_paranoid 2, the default of many systems: own programs may be sampled, but not the kernel.
#[test]
fn an_ordinary_user_gets_user_mode_samples() {
    if !is_root() || !perf_events_work() {
        return;
    }
    let fathom = fathom("user");
    let unprivileged = 65534;
    let directory = fathom.scratch.path();
    std::os::unix::fs::chown(directory, Some(unprivileged), Some(unprivileged)).expect("chown");
    // The user must reach the binaries: copy them out of the checkout.
    let mine = |name: &str| directory.join(name);
    std::fs::copy(env!("CARGO_BIN_EXE_fathom"), mine("fathom")).expect("copy");
    std::fs::copy(target("spin"), mine("spin")).expect("copy");
    let output = Command::new(mine("fathom"))
        .args(["collect", "hotspots", "-q", "-k", NO_CALIBRATION, "-r", "r", "--"])
        .arg(mine("spin"))
        .args(["--ms", "500"])
        .current_dir(directory)
        .env("HOME", directory)
        .uid(unprivileged)
        .gid(unprivileged)
        .output()
        .expect("fathom can be started");
    assert_ended_well(&output);
    let manifest = manifest(&fathom, "r");
    assert_eq!(manifest["collector"]["method"], "perf-events");
    let rows = fathom.rows("r", &["hotspots"]);
    let hot = rows.iter().find(|row| row["function"] == "spin_here").expect("spin_here");
    assert!(hot["total_percent"]["value"].as_f64().is_some_and(|share| share > 90.0), "{hot}");
    if manifest["collector"]["kernel_samples"] == false {
        let reason = manifest["collector"]["fallback_reason"].as_str().expect("a reason");
        assert!(reason.contains("perf_event_paranoid"), "{reason}");
    }
}

/// Where getrusage counts the faults it counts those on the burst tracer's pages as well: dozens, each of 16 pages. They are
/// subtracted.
#[test]
fn an_ordinary_users_faults_are_the_programs_own() {
    if !is_root() {
        return;
    }
    let fathom = fathom("user-faults");
    let unprivileged = 65534;
    let directory = fathom.scratch.path();
    std::os::unix::fs::chown(directory, Some(unprivileged), Some(unprivileged)).expect("chown");
    let mine = |name: &str| directory.join(name);
    std::fs::copy(env!("CARGO_BIN_EXE_fathom"), mine("fathom")).expect("copy");
    std::fs::copy(target("spin"), mine("spin")).expect("copy");
    let output = Command::new(mine("fathom"))
        .args(["collect", "memory-access", "-q", "-k", NO_CALIBRATION])
        .args(["-k", "burst-interval=20", "-r", "r", "--"])
        .arg(mine("spin"))
        .args(["--ms", "500"])
        .current_dir(directory)
        .env("HOME", directory)
        .uid(unprivileged)
        .gid(unprivileged)
        .output()
        .expect("fathom can be started");
    assert_ended_well(&output);
    let manifest = manifest(&fathom, "r");
    let all = manifest["resource_use"]["minor_faults"].as_f64().expect("counted");
    let summary = fathom.report("r", &["summary"]);
    let alone = Command::new(target("spin")).args(["--ms", "1"]).output().expect("spin");
    let own = number(&facts_of(&alone.stdout), "process_minor_faults");
    // The kernel's account of the program begins at the fork and ends behind its last word; where the loader finds
    // its files differs a little from start to start.
    let around = 60.0;
    let minor = &summary["page_faults"]["minor"];
    let (low, high) = (minor["low"].as_f64().expect("low"), minor["high"].as_f64().expect("high"));
    assert!(low <= own + around, "at least {low}, {own} alone, {all} in all");
    assert!(high >= own - around, "at most {high}, {own} alone, {all} in all");
    let peak = &summary["peak_resident"];
    if manifest["own_cost"]["burst_time_ns"].as_f64().is_some_and(|time| time > 0.0) {
        assert!(all > own + 30.0, "{all} with ours, {own} without: ours are not counted any more");
        assert!(peak["low"].as_f64() < peak["high"].as_f64(), "{peak}");
    }
}

/// The program runs, its exit code stays, and the result says why there is no tree.
#[test]
fn without_a_pmu_time_and_stacks_remain_of_uarch_exploration() {
    let pmus = std::fs::read_dir("/sys/bus/event_source/devices").into_iter().flatten().flatten();
    let mut names = pmus.map(|pmu| pmu.file_name().to_string_lossy().into_owned());
    if names.any(|name| ["cpu", "arm"].iter().any(|cores| name.starts_with(cores))) {
        skip("this machine has a PMU for its cores");
        return;
    }
    let fathom = fathom("uarch");
    let spin = target("spin").display().to_string();
    let collect = |result, program: &[&str]| {
        let own = ["collect", "uarch-exploration", "-q", "-k", NO_CALIBRATION, "-r", result, "--"];
        fathom.output([&own, program].concat())
    };
    let output = collect("r", &[&spin, "--ms", "300"]);
    assert_ended_well(&output);
    let report = fathom.output(["report", "uarch", "-r", "r"]);
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(report.status.success(), "{text}");
    assert!(text.contains("n/a: the events of the top-down tree were not counted"), "{text}");
    assert!(text.contains("this machine has no PMU for its cores"), "{text}");
    let rows = fathom.rows("r", &["hotspots"]);
    assert!(rows.iter().any(|row| row["function"] == "spin_here"), "{rows:?}");
    let failing = collect("f", &["/bin/sh", "-c", "exit 7"]);
    assert_eq!(failing.status.code(), Some(7), "{}", String::from_utf8_lossy(&failing.stderr));
}

#[test]
fn the_doctor_says_what_is_missing_and_how_to_get_it() {
    let fathom = fathom("doctor");
    let output = fathom.output(["doctor"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("functions, lines, call stacks"));
    let output = Command::new(target("no_perf"))
        .arg("--ptrace")
        .arg(env!("CARGO_BIN_EXE_fathom"))
        .arg("doctor")
        .output()
        .expect("the launcher can be started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success());
    for expected in
        ["perf_event_open is not permitted here", "--cap-add PERFMON", "--cap-add SYS_PTRACE"]
    {
        assert!(text.contains(expected), "no '{expected}' in\n{text}");
    }
}
