//! The Python package of `python/`: its wheel in a fresh environment, its interface, and a notebook in a real kernel.

use testkit::programs::{perf_events_work, python, target};

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
