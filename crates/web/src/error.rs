//! What can go wrong between a browser and us.
//!
//! What not: HTTP status codes (`server`).

/// Why there is no page, or no answer.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The question is none, or asks for what the recording does not have.
    #[error(transparent)]
    Report(#[from] report::ReportError),
    /// A part of the query that is not understood.
    #[error(
        "the page asked '{0}', which this program does not know: page and program are of different versions"
    )]
    Query(String),
    /// A source file that the result does not name, or that is not there.
    #[error("{0}: no such source file is named by this result, or it is not readable here")]
    NoText(String),
    /// A function of whose code nothing is known.
    #[error(
        "no code of {0} is known here: no burst ran it, and its module's file is not here or is another build"
    )]
    NoCode(String),
    /// No second result was given.
    #[error("there is nothing to compare with: fathom open A --with B")]
    NothingToCompare,
    /// No sweep was given.
    #[error("there is no sweep over threads to show: fathom open A --scaling SWEEP")]
    NoSweep,
    /// The stored facts were not given.
    #[error("the stored facts are not here: `fathom open` has them")]
    NoFacts,
    /// The engine that answers questions about many results did not.
    #[error("{0}")]
    Across(String),
    /// The socket cannot be had.
    #[error("cannot listen on 127.0.0.1: {0}")]
    Listen(std::io::Error),
    /// No randomness for the token.
    #[error("cannot read 16 bytes from /dev/urandom for the address's secret: {0}")]
    NoToken(std::io::Error),
}

impl WebError {
    /// Whether a right question has no answer here.
    pub(crate) fn is_no_mistake(&self) -> bool {
        matches!(
            self,
            WebError::NoText(_)
                | WebError::NoCode(_)
                | WebError::NothingToCompare
                | WebError::NoSweep
                | WebError::NoFacts
                | WebError::Across(_)
                | WebError::Report(report::ReportError::Selection(_))
        )
    }
}
