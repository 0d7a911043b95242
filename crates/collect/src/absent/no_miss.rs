//! No-miss times where none are measured: in place of `no_miss` on architectures without bursts, whose records say which
//! code is hot.
//!
//! What for: the same interface, without a time. What not: a note; that there are no bursts is said once (`bursts`).

use std::convert::Infallible;

use base::Nanos;
use facts::{Block, BranchReplay, Fact, NoMissTime, NoReloadTime};

/// The measured times.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "those of the other `no_miss`")]
pub struct NoMissTimes {
    pub core: Vec<NoMissTime>,
    pub kept: Vec<NoReloadTime>,
    pub branches: Vec<BranchReplay>,
    pub left_out: usize,
}

/// A sample of the records of a recording, which has none.
#[derive(Debug, Default)]
pub struct HotCode;

impl HotCode {
    /// Keeps nothing.
    pub fn note(&mut self, _: &Fact) {}

    /// No times: there is no traced code.
    ///
    /// # Errors
    /// Never.
    pub fn measure(
        &mut self,
        _: &[Block],
        _: f64,
        _: Nanos,
        _: &mut dyn FnMut(f64),
    ) -> Result<NoMissTimes, Infallible> {
        Ok(NoMissTimes::default())
    }
}
