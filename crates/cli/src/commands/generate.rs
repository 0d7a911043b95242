//! What is made from the table of arguments and knobs: man pages, completions, the list of knobs.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::arguments::Arguments;
use crate::exit::{CANNOT_MEASURE, Failure};
use crate::knobs::KNOBS;

/// The command line, with what only the other tables know.
pub fn command() -> clap::Command {
    // So that `fathom help knobs` lists them too.
    Arguments::command().mut_subcommand("knobs", |knobs| knobs.after_help(knob_table()))
}

/// Lists the knobs.
pub fn knobs() -> Result<ExitCode, Failure> {
    super::print(&knob_table())
}

fn knob_table() -> String {
    let mut text = format!("{:<22} {:<8} {:<22} {}\n", "KNOB", "DEFAULT", "IN VTUNE", "MEANING");
    for knob in &KNOBS {
        text +=
            &format!("{:<22} {:<8} {:<22} {}\n", knob.name, knob.default, knob.vtune, knob.meaning);
    }
    text
}

/// Writes man pages.
pub fn man(directory: Option<&Path>) -> Result<ExitCode, Failure> {
    let command = command();
    match directory {
        Some(directory) => clap_mangen::generate_to(command, directory).map_err(|error| {
            Failure::new(
                CANNOT_MEASURE,
                anyhow::Error::new(error)
                    .context(format!("cannot write to {}", directory.display())),
            )
        })?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command)
                .render(&mut page)
                .map_err(|error| Failure::new(CANNOT_MEASURE, error))?;
            return super::print(&String::from_utf8_lossy(&page));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes shell completions.
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "fathom", &mut script);
    super::print(&String::from_utf8_lossy(&script))
}
