//! `fathom diff` on recordings made by hand: alignment across builds, verdicts, gates, and their text, JSON and CSV.

use std::path::PathBuf;

use facts::{CounterKind, ExitKind, Recording, Run, RunState};
use report::diff::{Diff, DiffOptions, Gate, Outcome, RunFigures};
use report::{Document, Options, ReportError, View, parse_keys};
use testkit::recording::RecordingBuilder;

fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    testkit::golden::check(path, text);
}

/// One run of a program whose `multiply` takes `samples` ms. Lines of the new build are 7 further down, its program has
/// another name, its library a newer version.
fn run(new_build: bool, samples: u64, extra: u64) -> Recording {
    let mut b = RecordingBuilder::new();
    let (program, library, moved) = if new_build {
        ("/home/ci/b/solve_after", "/usr/lib/libblas.so.3.12", 7)
    } else {
        ("/home/me/a/solve_before", "/lib/libblas.so.3.10", 0)
    };
    let elapsed = (samples + 200 + extra) * 1_003_009;
    b.recording.run = Run {
        command: vec![program.to_owned(), "1024".to_owned()],
        elapsed_ns: elapsed,
        state: RunState::Complete,
        exit: Some(ExitKind::Code(0)),
        started_unix: 1_760_000_000 + samples,
        ..Run::default()
    };
    let app = b.file(program);
    let blas = b.file(library);
    let inner = b.code(app, 0x10, &[("multiply", "/src/solve.c", 20 + moved)]);
    let outer = b.code(app, 0x20, &[("multiply", "/src/solve.c", 24 + moved)]);
    let clone = if new_build { "setup.constprop.0" } else { "setup" };
    let setup = b.code(app, 0x30, &[(clone, "/src/solve.c", 5)]);
    let dot = b.code(blas, 0x40, &[("ddot_", "", 0)]);
    let unnamed = b.unnamed(blas, if new_build { 0x99 } else { 0x77 });
    b.thread(7, 7, "solve", 0.0, elapsed as f64 * 1e-9);
    for (code, count) in
        [(inner, samples * 3 / 4), (outer, samples / 4), (setup, 120), (dot, 50), (unnamed, 30)]
    {
        let stack = b.stack(&[code]);
        b.samples(7, 7, stack, count);
    }
    if new_build {
        let added = b.code(app, 0x50, &[("check", "/src/check.c", 3)]);
        let stack = b.stack(&[added]);
        b.samples(7, 7, stack, extra);
    }
    b.counter(CounterKind::TaskClock, elapsed).counter(CounterKind::MinorFaults, 400);
    b.build()
}

fn figures(recordings: &[Recording], name: &str, options: &DiffOptions) -> Vec<RunFigures> {
    let one = |(at, recording): (usize, &Recording)| {
        RunFigures::of(recording, &format!("{name}{at}"), options).expect("the view exists")
    };
    recordings.iter().enumerate().map(one).collect()
}

fn options(keys: &str) -> DiffOptions {
    let table = Options {
        view: View::Hotspots,
        group: parse_keys(keys).expect("keys"),
        ..Options::default()
    };
    DiffOptions::new(table, None).expect("comparable")
}

fn diff(
    base: &[Recording],
    new: &[Recording],
    keys: &str,
    gates: &[&str],
) -> Result<Diff, ReportError> {
    let options = options(keys);
    let gates: Vec<Gate> = gates.iter().map(|gate| Gate::parse(gate).expect("a gate")).collect();
    Diff::new(&figures(base, "a", &options), &figures(new, "b", &options), &options, &gates, None)
}

fn repeated() -> (Vec<Recording>, Vec<Recording>) {
    let base = [1000, 1008, 996, 1003, 1001].map(|samples| run(false, samples, 0));
    let new = [1100, 1094, 1106, 1099, 1103].map(|samples| run(true, samples, 40));
    (base.into(), new.into())
}

#[test]
fn repeated_runs_of_two_builds() {
    let (base, new) = repeated();
    let gates = ["elapsed<=5%", "elapsed<=12%", "function:multiply>=-1%", "page_faults.minor<=0%"];
    let found = diff(&base, &new, "function", &gates).expect("a diff");
    let outcomes: Vec<Outcome> = found.gates.iter().map(|gate| gate.outcome).collect();
    assert_eq!(outcomes, [Outcome::Failed, Outcome::Undecided, Outcome::Holds, Outcome::Undecided]);
    let document = Document::Diff(Box::new(found));
    golden("diff_repeated.txt", &document.text(100, false));
    golden("diff_repeated.json", &document.json());
    golden("diff_repeated.csv", &document.csv());
    golden("diff_repeated.md", &document.markdown());
}

#[test]
fn lines_that_moved_are_found_again() {
    let (base, new) = repeated();
    let found = diff(&base, &new, "source-line", &[]).expect("a diff");
    golden("diff_lines.txt", &Document::Diff(Box::new(found)).text(100, false));
}

#[test]
fn one_run_each_is_never_called_a_change() {
    let (base, new) = (run(false, 1000, 0), run(true, 1300, 40));
    let found = diff(&[base], &[new], "function", &["elapsed<=1%"]).expect("a diff");
    assert_eq!(found.gates[0].outcome, Outcome::Undecided);
    golden("diff_single.txt", &Document::Diff(Box::new(found)).text(100, false));
}

#[test]
fn wrong_questions_are_answered_with_the_right_ones() {
    let (base, new) = repeated();
    let shown =
        diff(&base, &new, "function", &["elapse<=1%"]).expect_err("no such figure").to_string();
    assert!(shown.contains("'elapse<=1%' names a figure that no result has"), "{shown}");
    let of = |view, keys: &str, metric: Option<&str>| {
        let group = parse_keys(keys).expect("keys");
        DiffOptions::new(Options { view, group, ..Options::default() }, metric.map(str::to_owned))
    };
    assert!(
        of(View::Timeline, "function", None).is_err()
            && of(View::Hotspots, "thread", None).is_err()
    );
    let options = of(View::Hotspots, "module", Some("nonsense")).expect("checked with the table");
    let error = RunFigures::of(&base[0], "a", &options).err().expect("no such figure").to_string();
    assert!(error.contains("possible are cpu_time, self_percent"), "{error}");
}
