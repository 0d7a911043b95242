//! The records of bursts, decoded: code, addresses, and the order of events.
//!
//! What for: everything that uses traced accesses goes through here: [`TracedCode`] decodes the blocks once, [`stream`] gives
//! every record of every burst to tools. What not: what the accesses mean.

mod address;
mod chain;
mod code;
mod run;
mod selection;
mod stream;
mod unrecorded;

pub(crate) use address::Touch;
pub(crate) use code::{
    FenceIndex, KeptLoop, TracedAccess, TracedBlock, TracedFence, flushes_line, instructions,
    is_flush, is_store,
};
pub(crate) use run::{LINE, Run, lines_of};
pub(crate) use stream::{
    Damage, Execution, Tool, in_order, pieces_by_burst, stream, traced_bursts,
};

pub use code::{Site, SiteIndex, SiteName, TracedCode};
