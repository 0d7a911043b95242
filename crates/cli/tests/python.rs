//! The Python package of `python/`: its wheel in a fresh environment, its interface, and a notebook in a real kernel.

use std::path::PathBuf;
use std::process::Command;

use testkit::programs::{perf_events_work, python, root, skip, target};

#[test]
fn the_wheel_profiles_a_program_where_nothing_else_is_installed() {
    if perf_events_work() {
        python("python/wheel.py", &[env!("CARGO_BIN_EXE_fathom").into(), target("spin")]);
    }
}

#[test]
fn results_are_rows_frames_and_plots_and_errors_are_exceptions() {
    if perf_events_work() {
        let programs = [target("spin"), target("memory_objects")];
        python("python/api.py", &[&[env!("CARGO_BIN_EXE_fathom").into()], &programs[..]].concat());
    }
}

#[test]
fn a_notebook_records_its_cells_and_its_kernel_goes_on() {
    if perf_events_work() {
        python("python/notebook.py", &[env!("CARGO_BIN_EXE_fathom")]);
    }
}

#[test]
fn stacks_lead_through_all_python_functions() {
    if !perf_events_work() {
        return;
    }
    let Some(interpreter) = interpreter_with_names() else {
        return skip("no Python here names its functions for profilers: 3.12 and later do");
    };
    let script = root().join("tests/python/names.py");
    let run = Command::new(interpreter).arg(script).arg(env!("CARGO_BIN_EXE_fathom")).output();
    let output = run.expect("python can be started");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{:?}\n{}", output.status, String::from_utf8_lossy(&said));
}

/// The one on PATH, or one of pyenv's.
fn interpreter_with_names() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let versions = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let all = std::iter::once("python3".into())
        .chain(versions.map(|version| version.path().join("bin/python3")));
    all.into_iter().find(|python: &PathBuf| {
        let asked = ["-c", "import sys; sys.activate_stack_trampoline('perf')"];
        Command::new(python).args(asked).output().is_ok_and(|output| output.status.success())
    })
}
