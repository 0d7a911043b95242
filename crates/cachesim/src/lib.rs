//! Memory accesses to outcomes per cache level: hit and how deep, miss, or unknown.
//!
//! What for: bursts are short exact traces. For each instruction (a *site*), the model counts in which level its accesses
//! hit, and how many lines they fetch from DRAM and write to it.
//! What not: time (latency, bandwidth), instruction fetches, the accesses of page walks, the order in which an out-of-order
//! core performs accesses. No I/O.
//!
//! The start of a burst finds caches with unknown contents. A line that is touched first while its set has not yet seen
//! as many distinct lines as it has ways may have been there before. That is [`FillClass::Unknown`] with the number of
//! lines seen, never a miss: a cold start counted as misses overstates multi-megabyte caches without bound (Kessler, Hill
//! and Wood, "A comparison of trace-sampling techniques for multi-megabyte caches", IEEE Trans. Computers 43(6), 1994).
//! The number is a censored stack depth: with the hits by depth it allows an estimate per site. A simulation of a
//! whole program from its start uses [`ColdLines::Miss`].
//!
//! ```text
//! Access, LoopRun -> Hierarchy -> SiteTally: per level hits by depth, unknown by age, misses; fills, dirtied lines
//!                    Tlb       -> TlbTally: the same for pages
//! ```
//!
//! Assumptions that hold for all of it: addresses are virtual, and where their pages lie is unknown ([`Frames`] says what is
//! taken for it); lines have one size in all levels; every level writes back and allocates on writes. More stand at the head of each policy's file.

#![forbid(unsafe_code)]

mod access;
mod cache;
mod caches;
mod config;
mod hierarchy;
mod inclusion;
mod jump;
mod loops;
mod marks;
mod prefetch;
mod replacement;
mod sets;
mod sharing;
mod state;
mod tally;
mod tlb;

pub use access::{Access, Kind, LoopAccess, LoopRun, SiteId, Thread};
pub use config::{
    ColdLines, Config, ConfigError, Frames, Geometry, Inclusion, Prefetch, Replacement,
};
pub use hierarchy::Hierarchy;
pub use tally::{DEPTHS, FillClass, FillTally, LevelTally, LevelTraffic, SiteTally, Traffic};
pub use tlb::{PageSize, Tlb, TlbConfig, TlbGeometry, TlbTally};
