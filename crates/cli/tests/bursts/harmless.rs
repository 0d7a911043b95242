//! Short forms of the corpus (`tests/corpus`): no program notices bursts, whatever happens to it or to us.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use facts::BurstFlavour;
use testkit::programs::{Fathom, is_root, skip, target};

use crate::watched::{
    Alone, COLLECT, assert_verified, attempts, bursts_work, collect, eventually, fathom, flavours,
    signal, state, text,
};

/// The program's whole output, and its exit code as a shell and fathom tell it.
fn outcome(output: &Output) -> (String, i32) {
    let status = output.status;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    (String::from_utf8_lossy(&output.stdout).into_owned(), code.expect("a code"))
}

fn alone(program: &str, arguments: &[&str]) -> (String, i32) {
    outcome(&Command::new(target(program)).args(arguments).output().expect("it can be started"))
}

/// The lines of measured figures differ from run to run.
fn same_lines(output: &str) -> String {
    let measured = ["_ns=", "_us=", "_faults=", "prof_handled="];
    let kept = |line: &&str| !measured.iter().any(|name| line.contains(name));
    output.lines().filter(kept).collect::<Vec<_>>().join("\n")
}

/// Runs each program alone and with bursts, of which there must be all kinds.
fn compare(fathom: &Fathom, programs: &[(&str, &[&str])]) {
    let mut seen = BTreeSet::new();
    for (program, arguments) in programs {
        let expected = alone(program, arguments);
        let output = collect(fathom, program, program, arguments);
        let found = outcome(&output);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(same_lines(&found.0), same_lines(&expected.0), "{program}: {said}");
        assert_eq!(found.1, expected.1, "{program}: {said}");
        assert_verified(fathom, program);
        seen.extend(flavours(fathom, program));
    }
    let all = [BurstFlavour::Trace, BurstFlavour::Count, BurstFlavour::Timed];
    assert!(seen.is_superset(&BTreeSet::from(all)), "not all was tested: {seen:?}");
}

#[test]
fn signals_and_faults_arrive_as_ever() {
    if !bursts_work() {
        return;
    }
    compare(
        &fathom("signals"),
        &[
            ("signal_storm", &["--count", "3000"]),
            ("signal_recovery", &["--rounds", "15000"]),
            ("fault_address", &["--rounds", "50000"]),
            ("stack_overflow", &["--rounds", "4000"]),
            ("blocked_signals", &["--rounds", "5000"]),
            ("exceptions_map", &[]),
            ("short_waits", &["--waits", "600"]),
        ],
    );
}

#[test]
fn processes_and_threads_come_and_go_as_ever() {
    if !bursts_work() {
        return;
    }
    compare(
        &fathom("processes"),
        &[
            ("fork_loop", &["--children", "60"]),
            ("vfork_exec", &["--children", "40"]),
            ("exec_midway", &["--steps", "12"]),
            ("threads_checksum", &["--threads", "60"]),
            ("barrier_rounds", &["--rounds", "3000"]),
            ("file_passes", &["--rounds", "20000"]),
            ("exit_midway", &["--rounds", "5000"]),
            ("dlopen_loop", &["--rounds", "500"]),
            ("no_libc", &[]),
        ],
    );
}

/// A program that needs all of its limit of address space gets what it gets alone, but for the library itself: 16 MiB.
#[test]
fn a_limit_of_address_space_stays_the_programs_own() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("limited");
    let mapped = |output: &Output| -> Option<u64> {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find_map(|line| line.strip_prefix("mapped=")?.parse().ok())
    };
    let alone = Command::new(target("address_limit")).output().expect("it can be started");
    let alone = mapped(&alone).expect("a number");
    let output = collect(&fathom, "r", "address_limit", &[]);
    let found = mapped(&output).unwrap_or_else(|| panic!("{output:?}"));
    assert!(found + 20 >= alone && found <= alone, "{found} MiB instead of {alone}");
    // Where our memory is hardly missed, it is there.
    collect(&fathom, "roomy", "address_limit", &["--megabytes", "6000"]);
    assert!(!flavours(&fathom, "roomy").is_empty(), "no burst");
}

/// What translated code was copied from may be gone within the burst: another thread replaced it.
#[test]
fn code_that_another_thread_replaces_is_never_run_stale() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("replaced");
    let rounds = ["--rounds", "2000"];
    for (way, more) in [("0", ["--calls", "20"]), ("1", ["--calls", "1"]), ("2", ["--calls", "20"])]
    {
        let arguments = [&rounds[..], &["--way", way], &more].concat();
        let expected = alone("libraries_swapped", &arguments);
        assert_eq!(expected.1, 0, "{expected:?}");
        for run in 0..2 {
            let output = collect(&fathom, &format!("r{way}{run}"), "libraries_swapped", &arguments);
            assert_eq!(outcome(&output), expected, "way {way}");
            assert!(!flavours(&fathom, &format!("r{way}{run}")).is_empty(), "no burst");
        }
    }
}

/// A filter that ends the process at the first system call of ours: while it is being left too.
#[test]
fn a_program_that_confines_itself_between_bursts_lives_on() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("confined");
    let arguments = ["--kill", "--before", "4000", "--rounds", "8000"];
    let expected = alone("seccomp_user", &arguments);
    assert_eq!(outcome(&collect(&fathom, "r", "seccomp_user", &arguments)), expected);
    if !may_attach() {
        return;
    }
    // Fathom leaves while the program runs: attached before it confines itself, gone after.
    let printed = fathom.scratch.join("printed");
    let arguments = ["--kill", "--before", "8000", "--rounds", "40000"];
    let mut program = Alone::start("seccomp_user", &arguments, &printed);
    let mut watching = fathom
        .command(COLLECT)
        .args(["-r", "attached", "--pid", &program.0.id().to_string()])
        .spawn()
        .expect("fathom can be started");
    eventually("it confines itself", || text(&printed).contains("confined=1"));
    signal(watching.id(), "INT");
    watching.wait().expect("wait");
    let status = program.0.wait().expect("wait");
    assert_eq!(status.code(), Some(0), "{status:?}");
}

/// Numbers for moments (xorshift64, Marsaglia 2003), the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}

#[test]
fn our_death_at_any_moment_harms_nothing() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("death");
    // Long enough for bursts of every flavour.
    let arguments = ["--rounds", "40"];
    let began = Instant::now();
    let expected = alone("self_check", &arguments).0;
    let usual = began.elapsed();
    let mut random = Random(88_172_645_463_325_252);
    let mut seen = BTreeSet::new();
    let all = |seen: &BTreeSet<BurstFlavour>| {
        [BurstFlavour::Trace, BurstFlavour::Count, BurstFlavour::Timed]
            .iter()
            .all(|flavour| seen.contains(flavour))
    };
    // Timed loads follow the fourth trace: on a slow machine few runs get as far.
    for number in 0..100 {
        if number >= 20 && all(&seen) {
            break;
        }
        let result = format!("r{number}");
        let printed = fathom.scratch.join(&format!("{result}.out"));
        let mut watching = fathom
            .command(COLLECT)
            .args(["-r", &result, "--"])
            .arg(target("self_check"))
            .args(arguments)
            .stdout(std::fs::File::create(&printed).expect("create"))
            .spawn()
            .expect("fathom can be started");
        eventually("the program has begun", || !text(&printed).is_empty());
        let moment = Duration::from_micros(random.below(usual.as_micros() as u64));
        std::thread::sleep(moment);
        signal(watching.id(), "KILL");
        watching.wait().expect("wait");
        seen.extend(flavours(&fathom, &result));
        eventually("the program ends well by itself", || text(&printed).contains("EXIT-SUCCESS"));
        assert_eq!(text(&printed), expected, "killed after {moment:?} (number {number})");
    }
    // Which flavour was running when it was killed is unknown; each may have been.
    assert!(all(&seen), "{seen:?}");
}

#[test]
fn job_control_goes_on_as_ever() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("stopped");
    let printed = fathom.scratch.join("printed");
    let mut watching = fathom
        .command(COLLECT)
        .args(["-r", "r", "--"])
        .arg(target("known_accesses"))
        .args(["--ms", "100"])
        .stdout(std::fs::File::create(&printed).expect("create"))
        .spawn()
        .expect("fathom can be started");
    eventually("the program has begun", || text(&printed).contains("ready=1"));
    let pid = text(&printed)
        .lines()
        .find_map(|line| line.strip_prefix("pid=")?.parse().ok())
        .expect("the program tells its pid");
    for _ in 0..10 {
        if text(&printed).contains("EXIT-SUCCESS") {
            break;
        }
        signal(pid, "STOP");
        eventually("it stands still, or has ended", || {
            let status = text(format!("/proc/{pid}/status"));
            status.is_empty() || status.contains("State:\tT") || status.contains("State:\tZ")
        });
        std::thread::sleep(Duration::from_millis(2));
        signal(pid, "CONT");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(watching.wait().expect("wait").success());
    assert!(text(&printed).contains("EXIT-SUCCESS"));
    assert_verified(&fathom, "r");
}

/// Whether we may trace a process that is not our child (Yama, Documentation/admin-guide/LSM/Yama.rst).
fn may_attach() -> bool {
    let scope = text("/proc/sys/kernel/yama/ptrace_scope");
    if matches!(scope.trim(), "" | "0") || is_root() {
        return true;
    }
    skip("this kernel lets only root trace running programs");
    false
}

#[test]
fn a_program_that_we_leave_is_as_it_was() {
    if !bursts_work() || !may_attach() {
        return;
    }
    let fathom = fathom("left");
    let printed = fathom.scratch.join("printed");
    let arguments = ["--ms", "600000", "--threads", "2"];
    let program = Alone::start("known_accesses", &arguments, &printed);
    let pid = program.0.id();
    // A thread that is being born has all signals blocked.
    eventually("both threads run", || {
        let free = |state: &&String| state.contains("SigBlk:\t0000000000000000");
        text(&printed).contains("ready=1") && state(pid).values().filter(free).count() == 2
    });
    let before = state(pid);
    let mut bursts = false;
    // Twice, and as often as it takes on a busy machine until there was a burst.
    for attach in 1..=20 {
        let result = &format!("r{attach}");
        // The library that counts heap blocks stays in the process (`attach_heap.rs`); bursts leave nothing.
        let watched = fathom.output(COLLECT.into_iter().chain([
            "-k",
            "analyze-mem-objects=false",
            "-d",
            "0.3",
            "-r",
            result,
            "--pid",
            &pid.to_string(),
        ]));
        assert!(watched.status.success(), "{}", String::from_utf8_lossy(&watched.stderr));
        assert_eq!(state(pid), before, "{result}");
        assert_verified(&fathom, result);
        bursts |= attempts(&fathom.report(result, &["summary"]))
            .is_some_and(|(_, percent)| percent > 0.0);
        if bursts && attach >= 2 {
            break;
        }
    }
    assert!(bursts, "no burst took place");
}

#[test]
fn an_interrupt_leaves_the_program_running_natively() {
    if !bursts_work() {
        return;
    }
    let fathom = fathom("interrupt");
    let mut watching = fathom
        .command(COLLECT)
        .args(["-r", "r", "--"])
        .arg(target("known_accesses"))
        .args(["--ms", "400"])
        .spawn()
        .expect("fathom can be started");
    let mut lines = BufReader::new(watching.stdout.take().expect("stdout")).lines();
    let mut stated = lines.by_ref().map_while(Result::ok);
    let pid = stated.find_map(|line| line.strip_prefix("pid=").map(str::to_owned)).expect("pid");
    // With the blank: the memory that the preloaded library writes to has a longer name, and stays.
    let ours = "memfd:fathom (deleted)";
    eventually("code of ours is in it", || text(format!("/proc/{pid}/maps")).contains(ours));
    signal(watching.id(), "INT");
    eventually("the result is complete", || {
        text(fathom.scratch.join("r/run.json")).contains("\"complete\"")
    });
    let (maps, status) = (text(format!("/proc/{pid}/maps")), text(format!("/proc/{pid}/status")));
    assert!(!maps.contains(ours), "{maps}");
    assert!(status.is_empty() || status.contains("TracerPid:\t0\n"), "{status}");
    assert!(lines.map_while(Result::ok).any(|line| line == "EXIT-SUCCESS"));
    assert!(watching.wait().expect("wait").success());
    assert_verified(&fathom, "r");
}
