//! `fathom`: flags, wiring, exit codes. Knowledge of memory is in the libraries.
//!
//! This crate alone prints, ends the process and uses `anyhow`.

mod agent_file;
mod arguments;
mod commands;
#[cfg(test)]
mod document_tests;
mod exit;
mod http;
mod knobs;
mod order;
mod progress;
mod ranks;
mod redact;
mod s3;
mod timed_run;

use std::process::ExitCode;

use base::Nanos;
use clap::FromArgMatches;

use arguments::{Arguments, Command};
use exit::Failure;

fn main() -> ExitCode {
    let began = sys::process::monotonic();
    std::panic::set_hook(Box::new(|panic| {
        let position = panic
            .location()
            .map(|at| format!(" at {}:{}", at.file(), at.line()))
            .unwrap_or_default();
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let message = text
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        eprintln!("fathom: this is a bug in Fathom{position}: {message}");
        eprintln!("  the recording up to the last second is kept; `fathom report` opens it");
    }));
    match std::panic::catch_unwind(|| run(began)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => failure.report(),
        Err(_) => ExitCode::from(exit::BUG),
    }
}

fn run(began: Nanos) -> Result<ExitCode, Failure> {
    let parsed = commands::generate::command().try_get_matches();
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        // clap prints help and version to stdout, errors to stderr; its code for errors is 2, ours for usage too.
        Err(error) => {
            let _ = error.print();
            return Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE)));
        }
    };
    analysis::parallel::use_cpus(std::thread::available_parallelism().map_or(1, usize::from));
    match arguments.command {
        Command::Run(options) => commands::collect::run(options, began),
        Command::Collect(options) => commands::collect::collect(options, began),
        Command::Mpi(options) => commands::mpi::mpi(&options),
        Command::Steer(options) => commands::steer::steer(&options),
        Command::Report(options) => commands::report::report(&options),
        Command::Open(options) => commands::open::open(&options),
        Command::Html(options) => commands::open::html(&options),
        Command::Try(options) => commands::try_remedies::try_remedies(&options),
        Command::Placed(options) => commands::place::place(&options),
        Command::Diff(arguments) => commands::diff::diff(arguments),
        Command::Scale(arguments) => commands::scale::scale(arguments),
        Command::Import(options) => commands::import::import(&options),
        Command::Export(options) => commands::export::export(&options),
        Command::Across(options) => commands::across::across(&options),
        Command::Dataset { action } => commands::dataset::dataset(&action),
        Command::Watch(options) => commands::watch::watch(&options),
        Command::Machine(options) => commands::machine::machine(&options),
        Command::Doctor => commands::doctor::doctor(),
        Command::Verify(options) => commands::verify::verify(&options),
        Command::Knobs => commands::generate::knobs(),
        Command::Man { directory } => commands::generate::man(directory.as_deref()),
        Command::Completions { shell } => commands::generate::completions(shell),
    }
}
