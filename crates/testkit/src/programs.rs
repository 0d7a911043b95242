//! The C programs under `tests/programs` and `recipes`, and running the real `fathom` on them.
//!
//! Everything that starts a process for a test is here. A test that cannot run on a machine says
//! `skipped: REASON` (see [`skip`]) and returns.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// Says why a test does nothing here; CI counts these lines.
pub fn skip(reason: &str) {
    println!("skipped: {reason}");
}

/// The knob, after `-k`, with which the first run of a scratch home does not measure the machine, which takes 16 s.
pub const NO_CALIBRATION: &str = "dram-bandwidth-limits=false";

/// The root of the checkout.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the checkout is there")
}

fn build(folder: &'static str, built: &OnceLock<()>) -> PathBuf {
    let folder = root().join(folder);
    built.get_or_init(|| {
        let output =
            Command::new("make").arg("-C").arg(&folder).output().expect("make can be started");
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "make -C {} failed:\n{log}", folder.display());
    });
    folder.join("build")
}

/// A target of `tests/programs`, built if need be.
#[must_use]
pub fn target(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    build("tests/programs", &BUILT).join(name)
}

/// A program of `tests/findings`, built if need be.
#[must_use]
pub fn finding(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    build("tests/findings", &BUILT).join(name)
}

/// The folder of programs of a Python with the packages of `list`, a file of `tests`; `None`, with the reason printed, where they
/// are not installed.
#[must_use]
pub fn python_with(list: &str) -> Option<PathBuf> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = target.join("python");
    let file = |path: PathBuf| std::fs::read(path).ok();
    let is_there = file(folder.join(list)) == file(root().join("tests").join(list));
    if !is_there {
        let engines = if list == "engines.txt" { " engines" } else { "" };
        skip(&format!("packages of tests/{list} are missing: scripts/python_packages.sh{engines}"));
    }
    is_there.then(|| folder.join("bin"))
}

/// The folder of programs of a Python with Spark, where there is Java for it as well.
#[must_use]
pub fn spark() -> Option<PathBuf> {
    let folder = python_with("engines.txt")?;
    let java = Command::new("java").arg("-version").output();
    if java.is_ok_and(|output| output.status.success()) {
        return Some(folder);
    }
    skip("Spark needs Java: apt-get install openjdk-17-jre-headless");
    None
}

/// Runs a script of `tests` with the packages of `tests/requirements.txt`, and expects that it ends with 0; `false`, with the
/// reason printed, where they are not installed.
pub fn python<S: AsRef<OsStr>>(script: &str, arguments: &[S]) -> bool {
    let Some(folder) = python_with("requirements.txt") else { return false };
    let script = root().join("tests").join(script);
    let output = Command::new(folder.join("python3")).arg(script).args(arguments).output();
    let output = output.expect("python can be started");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{:?}\n{}", output.status, String::from_utf8_lossy(&said));
    true
}

/// Runs a script of `tests` that needs no packages, and expects that it ends with 0; skips with its reason where it says
/// `skipped: `.
pub fn plain_python<S: AsRef<OsStr>>(script: &str, arguments: &[S]) {
    let mut command = Command::new("python3");
    let output = match command.arg(root().join("tests").join(script)).args(arguments).output() {
        Ok(output) => output,
        Err(error) => return skip(&format!("python3 is not here: {error}")),
    };
    let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    if let Some(reason) = said.strip_prefix("skipped: ") {
        skip(reason.trim_end());
    }
}

fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    // Ubuntu's package is a script that asks for snap.
    let starts = |file: &PathBuf| {
        Command::new(file).arg("--version").output().is_ok_and(|done| done.status.success())
    };
    found.filter(|file| file.is_file()).find(starts)
}

/// Runs a script of `tests` by Node with the packages of `ui`, on Chromium, and expects that it ends with 0; what it printed, or
/// `None`, with the reason printed, where one of these is missing.
pub fn in_chromium<S: AsRef<OsStr>>(script: &str, arguments: &[S]) -> Option<String> {
    let Some(chromium) = chromium() else {
        skip("there is no Chromium: apt install chromium");
        return None;
    };
    // The list that npm writes last: behind it the packages are whole.
    if !root().join("ui/node_modules/.package-lock.json").is_file() {
        skip("the packages of ui are not installed: cd ui && npm ci");
        return None;
    }
    let mut command = Command::new("node");
    command.arg(root().join("tests").join(script)).arg(chromium).args(arguments);
    let Ok(done) = command.output() else {
        skip("there is no node: apt install nodejs");
        return None;
    };
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    Some(said)
}

/// A recipe program; `None` when the library it needs is not installed.
#[must_use]
pub fn recipe(name: &str) -> Option<PathBuf> {
    static BUILT: OnceLock<()> = OnceLock::new();
    let path = build("recipes", &BUILT).join(name);
    if path.exists() {
        return Some(path);
    }
    skip(&format!("recipe {name} could not be built: its library is not installed"));
    None
}

/// A directory of its own for one test, removed at the end.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it.
    #[must_use]
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("fathom-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary directory can be made");
        Scratch(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A path in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The `key=value` lines that a target prints.
#[must_use]
pub fn facts_of(stdout: &[u8]) -> BTreeMap<String, String> {
    String::from_utf8_lossy(stdout)
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// A number among them.
///
/// # Panics
/// When it is missing: the target did not do its work.
#[must_use]
pub fn number(facts: &BTreeMap<String, String>, key: &str) -> f64 {
    facts
        .get(key)
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("no number {key} in {facts:?}"))
}

/// The real program under test, at `binary` (`env!("CARGO_BIN_EXE_fathom")`), in a scratch directory of its own.
#[derive(Debug)]
pub struct Fathom {
    binary: &'static str,
    /// Its working directory; its caches are here too, so that tests share nothing.
    pub scratch: Scratch,
}

impl Fathom {
    /// Prepares a directory for the test `name`.
    #[must_use]
    pub fn new(binary: &'static str, name: &str) -> Fathom {
        Fathom { binary, scratch: Scratch::new(name) }
    }

    /// A command that runs it with these arguments, output captured. For tests that send it signals; nothing bounds it.
    #[must_use]
    pub fn command<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> Command {
        self.prepared(Command::new(self.binary), arguments)
    }

    /// The same under timeout(1): a hang becomes a failed test. The bound is far above what any test takes.
    fn bounded<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--foreground", "--kill-after=5", "300", self.binary]);
        self.prepared(command, arguments)
    }

    fn prepared<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(
        &self,
        mut command: Command,
        arguments: I,
    ) -> Command {
        command
            .args(arguments)
            .current_dir(self.scratch.path())
            .env("XDG_CACHE_HOME", self.scratch.join("cache"))
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    #[must_use]
    pub fn output<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> Output {
        self.bounded(arguments).output().expect("fathom can be started")
    }

    /// `fathom collect hotspots -r NAME ... -- PROGRAM ARGUMENTS`, without measuring the machine.
    #[must_use]
    pub fn collect(
        &self,
        result: &str,
        options: &[&str],
        program: &Path,
        arguments: &[&str],
    ) -> Output {
        self.bounded(["collect", "hotspots", "-q", "-k", NO_CALIBRATION, "-r", result])
            .args(options)
            .arg("--")
            .arg(program)
            .args(arguments)
            .output()
            .expect("fathom can be started")
    }

    /// A view as JSON.
    ///
    /// # Panics
    /// When it cannot be had.
    #[must_use]
    pub fn report(&self, result: &str, view: &[&str]) -> Value {
        let output = self
            .bounded(["report"])
            .args(view)
            .args(["-r", result, "--format", "json"])
            .output()
            .expect("fathom can be started");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "report {view:?} of {result}: {error}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Rows of a view.
    ///
    /// # Panics
    /// When it has none.
    #[must_use]
    pub fn rows(&self, result: &str, view: &[&str]) -> Vec<Value> {
        self.report(result, view)["rows"].as_array().expect("rows").clone()
    }
}

/// Asserts that a program ended well and says what it printed if not.
///
/// # Panics
/// When it did not.
#[track_caller]
pub fn assert_ended_well(output: &Output) {
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && out.contains("EXIT-SUCCESS"),
        "{:?}\n--- stdout\n{out}\n--- stderr\n{error}",
        output.status
    );
}

/// The words of a round of `fathom watch` that ends soon, of the programs that this selects.
#[must_use]
pub fn watch_once<'a>(select: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = [
        "watch",
        "--once",
        "--for",
        "1",
        "--format",
        "json",
        "--budget",
        "100",
        "--off-file",
        "off",
        "--select",
    ];
    words.into_iter().chain([select]).chain(more.iter().copied()).collect()
}

/// Whether clock samples of the kernel and of user code can be had here, as root or with a low paranoid level.
#[must_use]
pub fn perf_events_work() -> bool {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let works = level.trim().parse::<i32>().is_ok_and(|level| level <= 2);
    if !works {
        skip("perf_event_open is not allowed here");
    }
    works
}

/// Whether we are root.
#[must_use]
pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    if !root {
        skip("this needs root");
    }
    root
}
