//! A result directory whose files the targets replace, one at a time, by what the fuzzer makes up.
//!
//! Assumption: a fuzz target is one process with one thread; the directory belongs to it and is left in the
//! temporary folder when it ends (a fuzzer ends by being killed).

#[path = "../../crates/store/tests/support/mod.rs"]
mod made_up;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use facts::{Run, Sink};

/// Writes a small complete result, with rows in every table, once per process.
pub fn complete_result() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let (directory, run, mut writer) = begin("complete");
        for fact in made_up::facts(made_up::SMALL) {
            writer.push(fact).expect("a fact can be written");
        }
        writer.finish(&run).expect("the result can be closed");
        directory
    })
}

/// Writes the beginning of a result, as a killed profiler leaves it, once per process.
pub fn interrupted_result() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let (directory, _, mut writer) = begin("interrupted");
        for fact in made_up::facts(made_up::SMALL) {
            writer.push(fact).expect("a fact can be written");
        }
        Sink::flush(&mut writer).expect("the result can be written");
        directory
    })
}

fn begin(name: &str) -> (PathBuf, Run, store::Writer) {
    let directory = std::env::temp_dir().join(format!("fathom-fuzz-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let run = made_up::run(made_up::SMALL);
    let writer = store::Writer::create(&directory, &run).expect("a result can be made");
    (directory, run, writer)
}

/// What every command does with a result: it is opened, checked, and every view of it is made.
pub fn read_it(directory: &Path) {
    let _ = store::verify(directory);
    if let Ok(opened) = store::open(directory) {
        let prepared = report::Prepared::new(&opened.recording);
        for (view, _) in report::View::ALL {
            let options = report::Options { view, ..report::Options::default() };
            let document = report::build_prepared(&prepared, &options, &|_| None);
            std::hint::black_box(document.map(|document| document.text(100, false)).is_ok());
        }
    }
}
