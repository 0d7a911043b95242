//! Every wrong input gets a clear sentence and its exit code; nothing is lost, nothing panics.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use testkit::programs::{Fathom, NO_CALIBRATION, is_root, target};

fn fathom(name: &str) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"), name)
}

/// Runs a command that must fail with `code` and a message that holds `expected`.
#[track_caller]
fn fails(fathom: &Fathom, arguments: &[&str], code: i32, expected: &str) {
    let output = fathom.output(arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(error.contains(expected), "{arguments:?}: no '{expected}' in: {error}");
    assert!(!error.contains("bug in Fathom"), "{error}");
}

#[test]
fn programs_that_cannot_be_run() {
    let fathom = fathom("programs");
    let plain = fathom.scratch.join("plain.txt");
    std::fs::write(&plain, "hello").expect("write");
    let not_a_program = fathom.scratch.join("not_a_program");
    std::fs::write(&not_a_program, "hello").expect("write");
    std::fs::set_permissions(&not_a_program, std::fs::Permissions::from_mode(0o755))
        .expect("chmod");
    let script = fathom.scratch.join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").expect("write");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    let at = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    fails(&fathom, &["run", "--", "no-such-program"], 2, "program not found: 'no-such-program'");
    fails(&fathom, &["run", "--", "./no/such/program"], 2, "program not found");
    fails(&fathom, &["run", "--", &at(&plain)], 2, "is not executable: try `chmod +x");
    fails(&fathom, &["run", "--", "/tmp"], 2, "directory");
    fails(&fathom, &["run", "--", &at(&not_a_program)], 2, "neither an ELF program nor a script");
    fails(&fathom, &["run", "--", &at(&script)], 3, "the kernel refused to execute it");
    fails(&fathom, &["run"], 2, "PROGRAM");
    fails(
        &fathom,
        &["run", "--no-such-option", "/bin/true"],
        2,
        "unexpected argument '--no-such-option'",
    );
    fails(&fathom, &["run", "--pid", "1"], 2, "unexpected argument '--pid'");
    let spin32 = target("spin32");
    if spin32.exists() {
        fails(&fathom, &["run", "--", &at(&spin32)], 3, "32-bit");
    } else {
        testkit::programs::skip("the compiler cannot build 32-bit programs");
    }
    let left = std::fs::read_dir(fathom.scratch.path()).expect("list").filter_map(Result::ok);
    let results: Vec<_> = left
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().starts_with("r0"))
        .collect();
    assert!(results.is_empty(), "a failed start leaves nothing behind: {results:?}");
}

#[test]
fn a_set_uid_program_is_refused() {
    if !is_root() {
        return;
    }
    let fathom = fathom("setuid");
    let copy = fathom.scratch.join("setuid_copy");
    std::fs::copy(target("setuid_me"), &copy).expect("copy");
    std::os::unix::fs::chown(&copy, Some(65534), Some(65534)).expect("chown");
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755)).expect("chmod");
    fails(&fathom, &["run", "--", copy.to_str().expect("UTF-8")], 3, "set-uid");
}

#[test]
fn processes_that_cannot_be_watched() {
    let fathom = fathom("pids");
    fails(
        &fathom,
        &["collect", "hotspots", "--pid", "999999999"],
        2,
        "there is no process 999999999",
    );
    fails(&fathom, &["collect", "hotspots", "--pid", "0"], 2, "0 is not a process id");
    fails(&fathom, &["collect", "hotspots", "--pid=-5"], 2, "-5 is not a process id");
    fails(&fathom, &["collect", "hotspots"], 2, "--pid");
    fails(&fathom, &["collect", "no-such-analysis", "--", "true"], 2, "hotspots");
    let kernel_thread = Path::new("/proc/2/maps");
    if kernel_thread.exists() && std::fs::read(kernel_thread).is_ok_and(|maps| maps.is_empty()) {
        fails(&fathom, &["collect", "hotspots", "--pid", "2"], 3, "kernel thread");
    }
}

#[test]
fn another_users_process_is_refused_with_the_remedy() {
    use std::os::unix::process::CommandExt;
    if !is_root() {
        return;
    }
    let fathom = fathom("other-user");
    std::os::unix::fs::chown(fathom.scratch.path(), Some(65534), Some(65534)).expect("chown");
    let copy = fathom.scratch.join("fathom");
    std::fs::copy(env!("CARGO_BIN_EXE_fathom"), &copy).expect("copy");
    let mut victim = std::process::Command::new("sleep").arg("30").spawn().expect("sleep");
    let output = std::process::Command::new(copy)
        .args(["collect", "hotspots", "-d", "1", "--pid", &victim.id().to_string()])
        .current_dir(fathom.scratch.path())
        .uid(65534)
        .gid(65534)
        .output()
        .expect("fathom can be started");
    let alive = victim.try_wait().expect("wait").is_none();
    victim.kill().expect("kill");
    let _ = victim.wait();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(
        error.contains("may not be observed by this user") && error.contains("fathom doctor"),
        "{error}"
    );
    assert!(alive, "the process must not notice");
}

#[test]
fn knobs_options_and_views_that_do_not_exist() {
    let fathom = fathom("words");
    fails(
        &fathom,
        &["collect", "hotspots", "-k", "nonsense=1", "--", "true"],
        2,
        "no knob 'nonsense'",
    );
    fails(&fathom, &["collect", "hotspots", "-k", "stack-size=7", "--", "true"], 2, "256 to 65000");
    fails(&fathom, &["collect", "hotspots", "-d", "0", "--", "true"], 2, "more than 0");
    fails(&fathom, &["report", "summary"], 2, "no result");
    fails(&fathom, &["report", "summary", "-r", "/tmp"], 2, "not a result");
    fails(&fathom, &["report", "nonsense", "-r", "x"], 2, "there is no view 'nonsense'");
    let output = fathom.collect("r", &[], Path::new("/bin/true"), &[]);
    assert!(output.status.success());
    let knobs = ["-k", "burst-time=5", "-k", NO_CALIBRATION];
    let output = fathom.output([&["collect", "hotspots"][..], &knobs, &["--", "true"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("knob burst-time is ignored"), "{said}");
    fails(&fathom, &["report", "hotspots", "-r", "r", "-g", "colour"], 2, "colour");
    fails(&fathom, &["report", "hotspots", "-r", "r", "--filter", "colour=red"], 2, "colour");
    fails(&fathom, &["report", "kernel", "-r", "r", "-g", "function"], 2, "'cause'");
    fails(&fathom, &["collect", "hotspots", "-r", "r", "--", "true"], 2, "exists already");
}

/// Cuts and flips in every file of a result: an error or a remark, never a panic or a hang.
#[test]
fn damaged_results_are_reported() {
    let fathom = fathom("damage");
    let output = fathom.collect("r", &[], &target("spin"), &["--ms", "200"]);
    assert!(output.status.success());
    let result = fathom.scratch.join("r");
    for entry in std::fs::read_dir(&result).expect("list").filter_map(Result::ok) {
        let whole = std::fs::read(entry.path()).expect("read");
        let name = entry.file_name();
        for damage in ["cut", "flip", "empty", "gone"] {
            match damage {
                "cut" => std::fs::write(entry.path(), &whole[..whole.len() / 2]).expect("write"),
                "flip" => {
                    let mut changed = whole.clone();
                    changed[whole.len() / 2] ^= 0xff;
                    std::fs::write(entry.path(), changed).expect("write");
                }
                "empty" => std::fs::write(entry.path(), b"").expect("write"),
                _ => std::fs::remove_file(entry.path()).expect("remove"),
            }
            let output = fathom.output(["report", "summary", "-r", "r"]);
            let error = String::from_utf8_lossy(&output.stderr);
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 2 | 3 | 4)), "{name:?} {damage}: {code:?} {error}");
            assert!(!error.contains("bug in Fathom"), "{name:?} {damage}: {error}");
            assert!(code == Some(0) || !error.is_empty(), "{name:?} {damage}: silent failure");
            let verified = fathom.output(["verify", "r"]);
            assert_ne!(verified.status.code(), Some(0), "{name:?} {damage}: verify sees nothing");
            std::fs::write(entry.path(), &whole).expect("restore");
        }
    }
    assert!(fathom.output(["verify", "r"]).status.success(), "restored, it is whole again");
}

#[test]
fn help_names_every_view_and_the_hint_fits_every_command() {
    let fathom = fathom("help");
    let help = fathom.output(["report", "--help"]);
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let help = &help[help.find("Views:").expect("the list of views")..];
    for (view, _) in report::View::ALL {
        let named = help.lines().filter(|line| line.split_whitespace().next() == Some(view.name()));
        assert_eq!(named.count(), 1, "{}: {help}", view.name());
    }
    for command in ["open", "verify"] {
        fails(&fathom, &[command], 2, "name a result's directory");
    }
}
