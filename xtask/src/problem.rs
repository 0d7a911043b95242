//! A problem that a rule found in a line.

use std::fmt;

/// A broken rule at a place, as one line that editors understand (`path:line: text`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Problem {
    /// Relative to the checkout.
    pub path: String,
    /// 1-based; 0 when it is about the file as a whole.
    pub line: usize,
    /// What is wrong and what to do.
    pub text: String,
    /// Said, but not counted as a failure.
    pub warning: bool,
}

impl Problem {
    /// One that fails the check.
    pub fn error(path: &str, line: usize, text: impl Into<String>) -> Problem {
        Problem { path: path.to_owned(), line, text: text.into(), warning: false }
    }

    /// One that does not.
    pub fn warning(path: &str, line: usize, text: impl Into<String>) -> Problem {
        Problem { warning: true, ..Problem::error(path, line, text) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning: " } else { "" };
        match self.line {
            0 => write!(out, "{}: {kind}{}", self.path, self.text),
            line => write!(out, "{}:{line}: {kind}{}", self.path, self.text),
        }
    }
}
