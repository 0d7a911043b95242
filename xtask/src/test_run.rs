//! `cargo xtask test`: the programs under test, all tests, then the checks; one line of numbers at the end.
//!
//! Every step runs even when one before it failed, so that one run tells all; the exit code is 0 only when
//! nothing failed. A tool that is not installed is a skipped step, said with what would install it.
//!
//! The tests profile real programs, several at a time on few CPUs. A few that failed run once more by themselves; those
//! that pass then are named, as what a person should look into.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::tally::{Reader, Tally};

/// Where recordings of other machines may lie, seen from the checkout, when `FATHOM_FIXTURES` does not say.
const FIXTURES: &str = "../shared/fixtures";

/// More failures than these are no accident: nothing runs again.
const MOST_AGAIN: usize = 3;

/// A step besides the tests. `probe` says whether its tool is there; without arguments it always is.
struct Step {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    probe: &'static [&'static str],
    /// What to do when the tool is missing.
    remedy: &'static str,
}

/// Built before the tests, which start them.
const BEFORE: [Step; 2] = [
    Step {
        name: "programs",
        program: "make",
        arguments: &["--no-print-directory", "-C", "tests/programs"],
        probe: &[],
        remedy: "",
    },
    Step {
        name: "recipes",
        program: "make",
        arguments: &["--no-print-directory", "-C", "recipes"],
        probe: &[],
        remedy: "",
    },
];

const AFTER: [Step; 6] = [
    Step {
        name: "format",
        program: "cargo",
        arguments: &["fmt", "--all", "--check"],
        probe: &["fmt", "--version"],
        remedy: "rustup component add rustfmt",
    },
    Step {
        name: "lints",
        program: "cargo",
        arguments: &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"],
        probe: &["clippy", "--version"],
        remedy: "rustup component add clippy",
    },
    Step {
        name: "fuzz targets",
        program: "cargo",
        // A workspace of its own, which nothing else here would notice to be broken; fuzzing takes a nightly compiler.
        arguments: &[
            "check",
            "--quiet",
            "--manifest-path",
            "fuzz/Cargo.toml",
            "--target-dir",
            "target",
            "--bins",
            "--examples",
        ],
        probe: &[],
        remedy: "",
    },
    Step {
        name: "aarch64",
        program: "sh",
        // Only that it compiles, in under a minute; `make aarch64` builds it for five, and runs it.
        arguments: &["scripts/aarch64.sh", "check", "--quiet"],
        probe: &["scripts/aarch64.sh", "ready"],
        remedy: "apt-get install gcc-aarch64-linux-gnu && rustup target add aarch64-unknown-linux-gnu",
    },
    Step {
        name: "drawn programs",
        program: "sh",
        arguments: &["-c", "exec python3 -B bench/drawn/test_drawn.py"],
        probe: &[
            "-c",
            "for tool in python3 valgrind gcc objdump; do command -v $tool || exit 1; done",
        ],
        remedy: "apt-get install python3 valgrind gcc binutils",
    },
    Step {
        name: "licences",
        program: "cargo",
        // Advisories need the network, and change without us: they are for a person, or a nightly run.
        arguments: &["deny", "--log-level", "error", "check", "licenses", "bans", "sources"],
        probe: &["deny", "--version"],
        remedy: "cargo install --locked cargo-deny",
    },
];

/// How a step ended.
enum Ended {
    Well,
    Badly,
    Skipped(String),
}

/// Everything. `Ok(false)` when anything failed.
pub fn everything(root: &Path) -> Result<bool, String> {
    let mut steps: Vec<(&str, Ended)> = Vec::new();
    for step in &BEFORE {
        steps.push((step.name, step.run(root)?));
    }
    let mut tally = run_tests(root, &["--workspace"], &[])?;
    if (1..=MOST_AGAIN).contains(&tally.failed) && tally.failures.len() == tally.failed {
        let mut only = vec!["--test-threads=1", "--exact"];
        only.extend(tally.failures.iter().map(String::as_str));
        let again = run_tests(root, &["--workspace"], &only)?;
        tally.tried_again(&again);
    }
    title("house rules");
    let kept = crate::check(root)?;
    steps.push(("house rules", if kept { Ended::Well } else { Ended::Badly }));
    for step in &AFTER {
        steps.push((step.name, step.run(root)?));
    }
    println!();
    for (name, ended) in &steps {
        match ended {
            Ended::Well => {}
            Ended::Badly => {
                println!("failed step: {name}");
                tally.failed += 1;
            }
            Ended::Skipped(reason) => println!("skipped step: {name}: {reason}"),
        }
    }
    Ok(conclude(&tally))
}

/// Only `cargo test` with these arguments.
pub fn some_tests(root: &Path, arguments: &[&str]) -> Result<bool, String> {
    let tally = run_tests(root, arguments, &[])?;
    println!();
    Ok(conclude(&tally))
}

/// Prints why tests were skipped, and the last line. `true` when nothing failed.
fn conclude(tally: &Tally) -> bool {
    for (reason, count) in &tally.reasons {
        println!("skipped: {reason} ({count})");
    }
    for name in &tally.second_try {
        println!("passed only at the second try, by itself: {name}");
    }
    println!("{tally}");
    tally.failed == 0
}

impl Step {
    fn run(&self, root: &Path) -> Result<Ended, String> {
        title(self.name);
        if !self.probe.is_empty() && !self.tool_is_there(root)? {
            let reason = format!("not installed: {}", self.remedy);
            println!("skipped: {reason}");
            return Ok(Ended::Skipped(reason));
        }
        let status = command(root, self.program)
            .args(self.arguments)
            .stdin(Stdio::null())
            .status()
            .map_err(|error| format!("cannot start {}: {error}", self.program))?;
        Ok(if status.success() { Ended::Well } else { Ended::Badly })
    }

    fn tool_is_there(&self, root: &Path) -> Result<bool, String> {
        let status = command(root, self.program)
            .args(self.probe)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| format!("cannot start {}: {error}", self.program))?;
        Ok(status.success())
    }
}

/// A command in the checkout. `cargo` is the one that started us.
fn command(root: &Path, program: &str) -> Command {
    let program = match program {
        "cargo" => std::env::var_os("CARGO").unwrap_or_else(|| program.into()),
        other => other.into(),
    };
    let mut command = Command::new(program);
    command.current_dir(root);
    command
}

/// `cargo test` with arguments for it and for the test programs.
fn run_tests(root: &Path, arguments: &[&str], of_tests: &[&str]) -> Result<Tally, String> {
    title(if of_tests.is_empty() { "tests" } else { "failed tests, by themselves" });
    let mut cargo = command(root, "cargo");
    cargo.arg("test").arg("--no-fail-fast").args(arguments).args(["--", "--show-output"]);
    cargo.args(of_tests);
    let fixtures = root.join(FIXTURES);
    if std::env::var_os("FATHOM_FIXTURES").is_none() && fixtures.is_dir() {
        cargo.env("FATHOM_FIXTURES", fixtures);
    }
    let mut child = cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start cargo test: {error}"))?;
    let mut reader = Reader::default();
    if let Some(output) = child.stdout.take() {
        // Tests may print bytes that are no UTF-8; a line of them is not ours to refuse.
        for line in BufReader::new(output).split(b'\n') {
            let line = line.map_err(|error| format!("cannot read from cargo test: {error}"))?;
            let line = String::from_utf8_lossy(&line);
            if reader.line(&line) {
                println!("{line}");
            }
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo test: {error}"))?;
    let tally = reader.finish(status.success());
    if !status.success() && tally.passed + tally.skipped == 0 {
        println!("cargo test ended before the first test ({status}); see above");
    }
    Ok(tally)
}

/// Announces a step. Flushed: what follows is written by other programs into the same terminal or file.
fn title(name: &str) {
    println!("\n== {name}");
    let _ = std::io::stdout().flush();
}
