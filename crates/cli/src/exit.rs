//! Exit codes and the one way in which a command fails.
//!
//! What not: messages of errors (each library has its own). The codes are part of the contract
//! (`docs/guide/command-line.md`); scripts depend on them.

use std::process::ExitCode;

/// A gate of `fathom diff` failed.
pub const GATE_FAILED: u8 = 1;
/// The command line or what it names is wrong.
pub const USAGE: u8 = 2;
/// This cannot be measured here.
pub const CANNOT_MEASURE: u8 = 3;
/// A result or other input is damaged.
pub const DAMAGED: u8 = 4;
/// Our own fault.
pub const BUG: u8 = 5;

/// A failed command: what happened and why (`error`), and what to type next (`hint`).
#[derive(Debug)]
pub struct Failure {
    code: u8,
    error: anyhow::Error,
    hint: Option<String>,
}

impl Failure {
    /// A failure with a code.
    pub fn new(code: u8, error: impl Into<anyhow::Error>) -> Failure {
        Failure { code, error: error.into(), hint: None }
    }

    /// A wrong command line.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(USAGE, anyhow::Error::msg(message.into()))
    }

    /// The same with advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// The same with another name for what it is about.
    pub fn renamed(self, from: &str, to: &str) -> Failure {
        let error = anyhow::Error::msg(sentence(&self.error).replace(from, to));
        Failure { error, ..self }
    }

    /// Both in one sentence or two.
    pub fn says(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!(". {hint}")).unwrap_or_default();
        sentence(&self.error) + &hint
    }

    /// Prints it to stderr.
    pub fn report(&self) -> ExitCode {
        eprintln!("fathom: {}", sentence(&self.error));
        if let Some(hint) = &self.hint {
            eprintln!("  {hint}");
        }
        self.code()
    }

    /// Its exit code.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

/// An error with its causes. An error that already contains the text of its cause does not repeat it.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |said, cause| match cause.to_string() {
        cause if said.is_empty() => cause,
        cause if said.contains(&cause) => said,
        cause => format!("{said}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let full = || anyhow::Error::msg("the disk is full");
        assert_eq!(sentence(&full()), "the disk is full");
        assert_eq!(sentence(&full().context("cannot write")), "cannot write: the disk is full");
        let named = full().context("cannot write: the disk is full");
        assert_eq!(sentence(&named), "cannot write: the disk is full");
    }
}
