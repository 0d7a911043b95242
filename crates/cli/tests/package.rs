//! The Debian package and the tarball: they install, what they bring is whole, and the program in them runs. The service and the
//! manifest in them are understood by systemd and by Kubernetes' schemas, and what they start is a command of this Fathom.

use std::path::Path;
use std::process::{Command, Stdio};

use testkit::programs::{Scratch, is_root, python, root, skip};

/// Runs it, expects success, returns what it printed.
fn said(program: impl AsRef<std::ffi::OsStr>, words: &[&str]) -> String {
    let program = program.as_ref();
    let output = Command::new(program).args(words).output().expect("it can be started");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {words:?}: {error}", program.display());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// The file that `scripts/package.sh` wrote.
fn package(kind: &str, folder: &Path) -> String {
    let folder = folder.to_str().expect("text");
    let words = [kind, env!("CARGO_BIN_EXE_fathom"), folder];
    said(root().join("scripts/package.sh"), &words).trim().to_owned()
}

/// The tree below `usr` has the program, its pages and completions, and they are those of this command line.
fn assert_whole(usr: &Path) {
    let program = usr.join("bin/fathom");
    assert_eq!(said(&program, &["--version"]), said(env!("CARGO_BIN_EXE_fathom"), &["--version"]));
    assert!(said(&program, &["doctor"]).contains("perf"), "doctor says nothing");
    let share = usr.join("share");
    let page = share.join("man/man1/fathom-report.1.gz");
    assert!(said("gzip", &["-dc", page.to_str().expect("text")]).contains(".TH"), "no man page");
    for (file, word) in [
        ("bash-completion/completions/fathom", "--gate"),
        ("zsh/vendor-completions/_fathom", "#compdef fathom"),
        ("fish/vendor_completions.d/fathom.fish", "complete -c fathom"),
        ("doc/fathom/copyright", "Apache License"),
        ("fathom/ci/gate.sh", "FATHOM_COMMAND"),
        ("fathom/deploy/fathom-watch.yaml", "kind: DaemonSet"),
        ("fathom/deploy/fathom-add.yaml", "kind: Job"),
        ("fathom/deploy/spark_add.py", "fathom dataset add"),
        ("../lib/systemd/system/fathom-watch.service", "ExecStart=/usr/bin/fathom watch"),
    ] {
        let text = std::fs::read_to_string(share.join(file)).expect(file);
        assert!(text.contains(word), "{file} has no {word}");
    }
}

#[test]
fn the_debian_package_installs_and_runs() {
    if !has("dpkg-deb") || !has("strip") {
        return skip("no dpkg-deb or strip: apt install dpkg binutils");
    }
    let scratch = Scratch::new("package-deb");
    let file = package("deb", scratch.path());
    let fields = said("dpkg-deb", &["-f", &file]);
    assert!(
        fields.contains("Package: fathom\n") && fields.contains("Depends: libc6 (>= 2."),
        "{fields}"
    );
    let listed = said("dpkg-deb", &["-c", &file]);
    let modes = |line: &str| line.starts_with("drwxr-xr-x root/root") || line.starts_with("-rw");
    assert!(listed.lines().all(modes), "{listed}");
    let (system, as_root) = (scratch.join("system"), is_root());
    let rooted = format!("--root={}", system.display());
    if as_root {
        for folder in ["info", "updates"] {
            std::fs::create_dir_all(system.join("var/lib/dpkg").join(folder)).expect("a folder");
        }
        std::fs::write(system.join("var/lib/dpkg/status"), "").expect("a file");
        // There is no C library in that system; the program runs with the one here.
        said("dpkg", &[&rooted, "--force-depends", "--install", &file]);
        assert!(said("dpkg", &[&rooted, "--listfiles", "fathom"]).contains("/usr/bin/fathom"));
    } else {
        said("dpkg-deb", &["-x", &file, system.to_str().expect("text")]);
    }
    assert_whole(&system.join("usr"));
    if as_root {
        said("dpkg", &[&rooted, "--purge", "fathom"]);
        assert!(!system.join("usr/bin/fathom").exists(), "it was not removed");
    }
}

#[test]
fn the_tarball_unpacks_and_runs() {
    if !has("strip") {
        return skip("no strip: apt install binutils");
    }
    let scratch = Scratch::new("package-tarball");
    let file = package("tarball", scratch.path());
    said("tar", &["-C", scratch.path().to_str().expect("text"), "-xf", &file]);
    assert_whole(Path::new(file.strip_suffix(".tar.gz").expect("its name")));
    let bytes = std::fs::read(&file).expect("the tarball");
    package("tarball", scratch.path());
    assert!(bytes == std::fs::read(&file).expect("the tarball"), "another one has other bytes");
}

#[test]
fn the_service_is_one_of_systemd_and_starts_a_watch() {
    let scratch = Scratch::new("package-service");
    let unit = std::fs::read_to_string(root().join("deploy/fathom-watch.service")).expect("it");
    let folder = scratch.path().to_str().expect("text");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/fathom "));
    let words =
        start.expect("its command").replace("%S", folder).replace(" $FATHOM_WATCH_OPTIONS", "");
    let words: Vec<&str> = words.split(' ').chain(["--once", "--off-file", "."]).collect();
    assert!(said(env!("CARGO_BIN_EXE_fathom"), &words).contains("off: . is there"));
    assert!(scratch.join("fathom").join("fathom.prom").is_file());
    if !has("systemd-analyze") {
        return skip("no systemd-analyze: apt install systemd");
    }
    let file = scratch.join("fathom-watch.service");
    let verify = |text: &str| {
        std::fs::write(&file, text).expect("a file");
        let words = ["verify", "--man=no", file.to_str().expect("text")];
        let output =
            Command::new("systemd-analyze").args(words).output().expect("it can be started");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let here = unit.replace("/usr/bin/fathom", env!("CARGO_BIN_EXE_fathom"));
    assert_eq!(verify(&here), (true, String::new()));
    assert!(
        verify(&here.replace("KillMode", "KilMode")).1.contains("KilMode"),
        "it finds mistakes"
    );
}

#[test]
fn the_manifest_is_one_of_kubernetes_and_starts_a_watch() {
    let scratch = Scratch::new("package-manifest");
    python(
        "deploy/manifest.py",
        &[env!("CARGO_BIN_EXE_fathom"), scratch.path().to_str().expect("text")],
    );
}
