//! One module per command, and what they share.
//!
//! What not: parsing the command line (`arguments`).

pub mod across;
mod browser;
pub mod collect;
mod counters;
pub mod dataset;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod generate;
pub mod import;
pub mod machine;
mod machine_code;
pub mod mpi;
pub mod open;
mod otlp;
pub mod place;
pub mod report;
pub mod scale;
pub mod steer;
pub mod try_remedies;
mod variables;
pub mod verify;
pub mod watch;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::arguments::Format;
use crate::exit::Failure;

/// Writes a result to stdout. A reader that closed the pipe (`| head`) is no error.
pub fn print(text: &str) -> Result<ExitCode, Failure> {
    print_bytes(text.as_bytes())
}

/// The same of any bytes.
pub fn print_bytes(bytes: &[u8]) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(crate::exit::CANNOT_MEASURE, error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Writes a result to a file.
pub fn write(file: &Path, bytes: &[u8]) -> Result<ExitCode, Failure> {
    std::fs::write(file, bytes).map(|()| ExitCode::SUCCESS).map_err(|error| {
        let error = anyhow::anyhow!("cannot write {}: {error}", file.display());
        Failure::new(crate::exit::CANNOT_MEASURE, error)
    })
}

/// Width of the terminal on stdout, at most 160 columns: in wider tables the eye loses the row. 100 without a
/// terminal.
pub fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    columns
        .or_else(sys::process::terminal_columns)
        .map_or(100, |columns: usize| columns.clamp(60, 160))
}

/// Whether stdout shows colours: it is a terminal, and the user has not disabled them (https://no-color.org).
pub fn colour() -> bool {
    use std::io::IsTerminal;
    std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A document in the format that was asked for.
pub fn rendered(document: &::report::Document, format: Format) -> String {
    match format {
        Format::Text => document.text(width(), colour()),
        Format::Json => document.json(),
        Format::Csv => document.csv(),
        Format::Markdown => document.markdown(),
    }
}

/// The groupings asked for; none means the view's own.
pub fn keys(group: Option<&str>) -> Result<Vec<::report::Key>, ::report::ReportError> {
    group.map_or(Ok(Vec::new()), ::report::parse_keys)
}

/// The named result, or the newest in this directory.
pub fn result_directory(named: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(directory) = named {
        return Ok(directory.clone());
    }
    let newest = std::fs::read_dir(".").ok().and_then(|entries| {
        entries
            .filter_map(Result::ok)
            .filter(|entry| is_result_name(&entry.file_name().to_string_lossy()))
            .filter(|entry| entry.path().join("run.json").is_file())
            .max_by_key(|entry| entry.metadata().and_then(|meta| meta.modified()).ok())
            .map(|entry| PathBuf::from(entry.file_name()))
    });
    newest.ok_or_else(|| {
        Failure::usage("no result (r000ma ...) in this directory")
            .hint("name a result's directory, or record one: fathom run -- PROGRAM")
    })
}

/// r, at least three digits, two letters.
fn is_result_name(name: &str) -> bool {
    let Some(rest) = name.strip_prefix('r') else { return false };
    let letters = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() - letters.len() >= 3
        && letters.len() == 2
        && letters.chars().all(|c| c.is_ascii_lowercase())
}

/// A program and its arguments as text; invalid UTF-8 is replaced.
pub fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// A directory's name for people: as they would type it.
pub fn shown_name(directory: &Path) -> String {
    directory.strip_prefix(".").unwrap_or(directory).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_names() {
        assert!(["r000ma", "r1234hs"].iter().all(|name| is_result_name(name)));
        assert!(
            !["r00ma", "results", "r000", "r000maa", "x000ma"]
                .iter()
                .any(|name| is_result_name(name))
        );
    }
}
