//! The repository's own chores: `cargo xtask check` and `cargo xtask test`.
//!
//! What for: the house rules that a program can check are checked by one (ARCHITECTURE.md and CONTRIBUTING.md
//! say what they are for), and `make test` ends with one line that says how many tests passed, failed and were
//! skipped. What not: nothing here ships, and nothing here knows Fathom's crates.
//!
//! Assumption: started by cargo, somewhere in the checkout.

mod markdown;
mod problem;
mod rules;
mod rust_text;
mod tally;
mod test_run;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask check              the house rules; prints what breaks them
       cargo xtask rules              the list of the house rules
       cargo xtask test               programs, recipes, all tests, house rules, format, lints
       cargo xtask test CARGO-ARGS    only `cargo test CARGO-ARGS`, counted: cargo xtask test -p store";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["check"] => check(&root()),
        ["rules"] => {
            print!("{}", rules::list());
            Ok(true)
        }
        ["test"] => test_run::everything(&root()),
        ["test", rest @ ..] => test_run::some_tests(&root(), rest),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(sentence) => {
            eprintln!("xtask: {sentence}");
            ExitCode::FAILURE
        }
    }
}

/// The checkout: the folder above this crate.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Runs every rule. `Ok(false)` when one is broken.
fn check(root: &Path) -> Result<bool, String> {
    let tree = tree::read(root)?;
    let metadata = rules::direction::cargo_metadata(root)?;
    let mut problems = rules::check(&tree, &metadata);
    problems.sort();
    for problem in &problems {
        println!("{problem}");
    }
    let errors = problems.iter().filter(|problem| !problem.warning).count();
    let warnings = problems.len() - errors;
    println!("house rules: {} files, {errors} errors, {warnings} warnings", tree.files.len());
    Ok(errors == 0)
}
