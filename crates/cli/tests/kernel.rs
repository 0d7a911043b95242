//! `collect system-overview` against programs that know how often they enter the kernel, and against the kernel's own
//! counts.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use testkit::programs::{
    Fathom, NO_CALIBRATION, assert_ended_well, facts_of, number, skip, target,
};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// Observes a program; `None`, said, where the kernel takes no programs of ours.
fn observed(fathom: &Fathom, program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let path = target(program);
    let mut words = vec!["collect", "system-overview", "-q", "-r", "result"];
    words.extend(["-k", NO_CALIBRATION, "--"]);
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
    assert!(text.contains("Kernel entries"), "{text}");
}

/// What `/proc/interrupts`, `softirqs` and `vmstat` count by now, all CPUs together, by the first word of the line.
fn counted_by_proc(text: &str) -> BTreeMap<String, f64> {
    let line = |line: &str| {
        let (name, counts) = line.trim().split_once([':', ' '])?;
        let counts = counts.split_whitespace().map_while(|word| word.parse::<f64>().ok());
        Some((name.to_owned(), counts.sum()))
    };
    text.lines().filter_map(line).collect()
}

/// Entries of everybody by cause and name, and how many were lost.
fn of_everybody(fathom: &Fathom) -> (BTreeMap<(String, String), f64>, f64) {
    let table = fathom.report("result", &["kernel", "-g", "process,cause"]);
    let mut sums = BTreeMap::new();
    for row in table["rows"].as_array().expect("rows") {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let count = row["entries"]["value"].as_f64().expect("a count");
        *sums.entry((text("cause"), text("name"))).or_insert(0.0) += count;
    }
    let notes = table["notes"].as_array().expect("notes").iter().filter_map(Value::as_str);
    let lost =
        notes.filter_map(|note| note.split_once(" entries were lost")?.0.parse::<f64>().ok());
    (sums, lost.sum())
}

/// The program reads the kernel's counts as it begins and as it ends, we before and after all: what was collected lies
/// between these two differences.
#[test]
fn entries_of_everybody_are_between_two_looks_at_the_kernels_count() {
    let fathom = fathom("kernel-interrupts");
    let files = ["/proc/interrupts", "/proc/softirqs", "/proc/vmstat"];
    let now = || files.map(|file| std::fs::read_to_string(file).unwrap_or_default()).concat();
    let before = counted_by_proc(&now());
    let work = target("kernel_entries");
    let look = format!("cat {}", files.join(" "));
    let program = format!("{look} > begin; {} --sleeps 300 && {look} > end", work.display());
    let mut words = vec!["collect", "system-overview", "-q", "-r", "result"];
    words.extend(["-k", NO_CALIBRATION, "--", "sh", "-c", &program]);
    assert_ended_well(&fathom.output(&words));
    let after = counted_by_proc(&now());
    if !traces(&fathom) {
        return;
    }
    let looks = ["begin", "end"].map(|name| {
        let text = std::fs::read_to_string(fathom.scratch.join(name)).expect("a look");
        counted_by_proc(&text)
    });
    let (counted, lost) = of_everybody(&fathom);
    // One that goes on while we look was counted by the kernel as it began, by us as it ends.
    let going_on = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
    let grown = |from: &BTreeMap<String, f64>, to: &BTreeMap<String, f64>, name: &str| {
        to.get(name).copied().unwrap_or(0.0) - from.get(name).copied().unwrap_or(0.0)
    };
    let mut compared = 0;
    let soft = ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    let soft = soft.map(|name| ("soft interrupt", name, name));
    // Vectors of x86 that have a tracepoint for each of them.
    let vectors = [("LOC", "local timer"), ("RES", "reschedule"), ("IWI", "irq work")];
    let vectors = vectors.map(|(proc, name)| ("interrupt", name, proc));
    for (cause, name, proc) in soft.into_iter().chain(vectors) {
        if cause == "interrupt" && !cfg!(target_arch = "x86_64") {
            continue;
        }
        let ours = counted.get(&(cause.to_owned(), name.to_owned())).copied().unwrap_or(0.0);
        let (inner, outer) = (grown(&looks[0], &looks[1], proc), grown(&before, &after, proc));
        assert!(inner <= ours + lost + going_on, "{name}: {inner} between looks inside, {ours}");
        assert!(ours <= outer + going_on, "{name}: {outer} between looks outside, {ours}");
        compared += u32::from(inner > 0.0);
    }
    // The kernel also counts the pages that it makes without an exception, so there is no bound below.
    let faults = counted.iter().filter(|((cause, _), _)| cause == "page fault");
    let (faults, outer) = (faults.map(|(_, count)| count).sum(), grown(&before, &after, "pgfault"));
    assert!((1.0..=outer + going_on).contains(&faults), "{faults} faults of {outer}");
    assert!(compared > 0, "a program that sleeps 300 times lets timers end");
}

/// `perf stat` counts the same tracepoint and the same software event.
#[test]
fn system_calls_and_faults_are_as_many_as_perf_counts() {
    let fathom = fathom("kernel-perf");
    let work = target("kernel_entries");
    let counters =
        ["stat", "-x", ";", "-o", "perf.csv", "-e", "raw_syscalls:sys_enter,page-faults"];
    let mut alone = Command::new("perf");
    alone.args(counters).arg("true").current_dir(fathom.scratch.path());
    if !alone.output().is_ok_and(|output| output.status.success()) {
        return skip("perf stat is not installed here, or may not count tracepoints");
    }
    let mut words = vec!["collect", "system-overview", "-q", "-r", "result"];
    words.extend(["-k", NO_CALIBRATION, "--", "perf"]);
    words.extend(counters);
    words.extend([work.to_str().expect("a path of ours"), "--calls", "50000", "--sleeps", "5"]);
    assert_ended_well(&fathom.output(&words));
    if !traces(&fathom) {
        return;
    }
    let text = std::fs::read_to_string(fathom.scratch.join("perf.csv")).expect("perf's counts");
    let perf = |event: &str| {
        let line = text.lines().find(|line| line.contains(event)).expect("a line of perf's");
        line.split(';').next().and_then(|count| count.parse::<f64>().ok()).expect("a count")
    };
    let table = fathom.report("result", &["kernel", "-g", "process,cause"]);
    let (_, lost) = of_everybody(&fathom);
    let ours = |cause: &str| -> f64 {
        let rows = table["rows"].as_array().expect("rows").iter();
        let of = rows.filter(|row| {
            row["cause"] == cause
                && row["process"].as_str().is_some_and(|name| name.starts_with("kernel_entries"))
        });
        of.filter_map(|row| row["entries"]["value"].as_f64()).sum()
    };
    // Until its execve the process belonged to perf's own program, and perf did not count.
    for (cause, event, before) in
        [("system call", "sys_enter", 60.0), ("page fault", "page-faults", 300.0)]
    {
        let (ours, perf) = (ours(cause), perf(event));
        assert!(
            perf - lost - perf / 1000.0 <= ours && ours <= perf * 1.001 + before,
            "{cause}: {ours}, by perf {perf}, {lost} lost"
        );
    }
}

#[test]
fn the_whole_machine_is_observed_until_it_is_enough() {
    let fathom = fathom("kernel-machine");
    let mut words = vec!["collect", "system-overview", "--system", "-q", "-r", "result"];
    words.extend(["-k", NO_CALIBRATION]);
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

/// The machine is observed while a program runs: its exit code, its entries, and those of others.
#[test]
fn the_machine_is_observed_while_a_program_runs() {
    let fathom = fathom("kernel-machine-program");
    let program = target("kernel_entries");
    let program = program.to_str().expect("UTF-8");
    let words =
        ["collect", "system-overview", "--system", "-q", "-r", "result", "-k", NO_CALIBRATION];
    let output = fathom.output([&words[..], &["--", program, "--calls", "20000"]].concat());
    if output.status.code() == Some(3) {
        return skip("the machine may not be observed here");
    }
    assert_ended_well(&output);
    let run = manifest(&fathom);
    assert_eq!((&run["target"], &run["command"][1]), (&"machine".into(), &"--calls".into()));
    let verified = fathom.output(["verify", "result"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    if traces(&fathom) {
        let rows = fathom.rows("result", &["kernel", "-g", "process"]);
        let names: Vec<&str> = rows.iter().filter_map(|row| row["process"].as_str()).collect();
        assert!(names.iter().any(|name| name.contains("kernel_entries")), "{names:?}");
        assert!(names.iter().any(|name| !name.contains("kernel_entries")), "{names:?}");
    }
    let words =
        ["collect", "system-overview", "--system", "-q", "-r", "failed", "-k", NO_CALIBRATION];
    let output = fathom.output([&words[..], &["--", "/bin/sh", "-c", "exit 7"]].concat());
    assert_eq!(output.status.code(), Some(7));
}

/// The events of all CPUs, whatever ran there.
#[test]
fn the_events_of_the_whole_machine_are_explored() {
    let fathom = fathom("uarch-machine");
    let program = target("spin");
    let program = program.to_str().expect("UTF-8");
    let words = ["collect", "uarch-exploration", "--system", "-q", "-r", "result"];
    let knobs = ["-k", NO_CALIBRATION, "-k", "event-config=context-switches,page-faults"];
    let ends = ["--", program, "--ms", "300"];
    let output = fathom.output([&words[..], &knobs, &ends].concat());
    if output.status.code() == Some(3) {
        return skip("the machine may not be observed here");
    }
    assert_ended_well(&output);
    assert_eq!(manifest(&fathom)["target"], "machine");
    let rows = fathom.rows("result", &["events"]);
    assert!(rows.iter().all(|row| row["counted_in"] == "machine"), "{rows:?}");
    let switches = rows.iter().find(|row| row["event"] == "context-switches").expect("counted");
    assert!(switches["count"]["value"].as_f64() > Some(0.0), "{switches}");
    let verified = fathom.output(["verify", "result"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn the_machine_goes_with_its_analysis_only() {
    let fathom = fathom("kernel-usage");
    let output = fathom.output(["collect", "hotspots", "--system"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--system is for system-overview and uarch-exploration only"), "{said}");
}
