//! Regions that a program marks in its own code, and the passes of its threads through them.
//!
//! What for: a loop that runs ten million times should not take ten million rows. So a row is one pass, or many short ones of a
//! thread that follow each other. Sums are exact, and so are the numbers of passes of each length. What not: memory regions
//! (`object`), marks (`mark`).

use base::{Nanos, Pid, Tid};

/// A region, by its name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MarkedRegion {
    /// Its number; that of its row.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The library or part of the program that it belongs to, where the program says so (a domain of ITT and NVTX).
    pub domain: Option<String>,
}

/// Passes of one thread through one region: from its begin to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MarkedPass {
    /// When the first began.
    pub time: Nanos,
    /// From there to the end of the last.
    pub span: Nanos,
    /// [`MarkedRegion::id`].
    pub region: u32,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Regions around it.
    pub depth: u32,
    /// How many ended; 0 where the thread was still inside at the end of the recording.
    pub passes: u64,
    /// Time in them.
    pub inside: Nanos,
    /// The part of it that is not in a nested region.
    pub own: Nanos,
}

/// How many passes of a process through a region took about as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MarkedLength {
    /// [`MarkedRegion::id`].
    pub region: u32,
    /// The process.
    pub pid: Pid,
    /// They took at least this. Of the shortest ones: exactly so long did the shortest take.
    pub least: Nanos,
    /// They took at most this; likewise.
    pub most: Nanos,
    /// How many.
    pub passes: u64,
}
