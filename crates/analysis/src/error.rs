//! What can be wrong with a request. A recording is never an error here; it can only have too few data.

/// Why a selection cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnalysisError {
    /// Nothing in the recording has this name: likely a typing error, so the names that exist are listed.
    #[error("no {key} in this result matches '{value}'; it has {known}")]
    NoMatch {
        /// The filter's key, e.g. `function`.
        key: &'static str,
        /// What was asked for.
        value: String,
        /// Names that exist, the heaviest first, shortened to a handful.
        known: String,
    },
    /// Passes of the region are so short that most of the time of their rows is that of other code.
    #[error(
        "passes of region '{name}' are too short: {between} % of the time that can be selected lies between them. `fathom report regions` has its figures"
    )]
    RegionTooShort {
        /// What was asked for.
        name: String,
        /// Percent.
        between: u64,
    },
    /// The time range does not overlap the recording.
    #[error("time {start}..{end} s is outside the recording, which is {elapsed} s long")]
    TimeOutside {
        /// Start of the range, seconds.
        start: String,
        /// End of the range, seconds.
        end: String,
        /// Length of the recording, seconds.
        elapsed: String,
    },
}
