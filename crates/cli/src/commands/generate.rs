//! Generates man pages, completions and the list of knobs from the tables of arguments and knobs.
//!
//! What not: the tables (`arguments`, `knobs`).

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use report::View;

use crate::arguments::Arguments;
use crate::exit::{CANNOT_MEASURE, Failure};
use crate::knobs::KNOBS;

/// The command line, with the parts that come from other tables.
pub fn command() -> clap::Command {
    Arguments::command()
        // So that `fathom help knobs` lists them too.
        .mut_subcommand("knobs", |knobs| knobs.after_help(knob_table()))
        .mut_subcommand("report", |report| {
            let examples = report.get_after_help().map(ToString::to_string).unwrap_or_default();
            report.after_help(format!("{}\n{examples}", view_table()))
        })
}

/// Lists the knobs.
pub fn knobs() -> Result<ExitCode, Failure> {
    super::print(&knob_table())
}

fn knob_table() -> String {
    let line = |name: &str, default: &str, vtune: &str, meaning: &str| {
        hanging(&format!("{name:<26} {default:<8} {vtune:<8} "), meaning)
    };
    let mut text = line("KNOB", "DEFAULT", "IN VTUNE", "MEANING");
    for knob in &KNOBS {
        let vtune = if knob.vtune == knob.name { "same" } else { knob.vtune };
        text += &line(knob.name, knob.default, vtune, &knob.meaning());
    }
    text
}

fn view_table() -> String {
    let lines =
        View::ALL.iter().map(|(view, about)| hanging(&format!("  {:<12} ", view.name()), about));
    format!("Views:\n{}", lines.collect::<String>())
}

/// `text` after `start`, continued with a hanging indent.
fn hanging(start: &str, text: &str) -> String {
    let (mut out, mut column) = (start.to_owned(), start.len());
    for (at, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if at > 0 && column + 1 + length > super::width() {
            out = format!("{}\n{}", out.trim_end(), " ".repeat(start.len()));
            column = start.len();
        } else if at > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += length;
    }
    out + "\n"
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
