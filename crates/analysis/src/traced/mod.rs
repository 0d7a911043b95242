//! What bursts recorded, made readable: code, addresses, and the order in which things happened.
//!
//! What for: everything that is computed from traced accesses goes through here: [`TracedCode`] reads the blocks once,
//! [`replay`] gives every record of every burst, in order, to an observer. What not: what the accesses mean.

mod address;
mod chain;
mod code;
mod replay;
mod silent;

pub(crate) use address::Touch;
pub(crate) use chain::Chase;
pub(crate) use code::{KeptLoop, TracedAccess, TracedBlock, instructions};
pub(crate) use replay::{
    Damage, Execution, Observer, pieces_by_burst, replay, replay_these, traced_bursts,
};

pub use code::{Site, SiteIndex, TracedCode};
