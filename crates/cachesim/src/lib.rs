//! A cache model: from memory accesses to outcomes per cache level (hit and its depth, miss, or unknown).
//!
//! What for: bursts are short exact traces. For each instruction (a *site*), the model counts the level in which its
//! accesses hit, and the lines that they fetch from DRAM and write to it. What not: time (latency, bandwidth),
//! instruction fetches, the accesses of page walks, the order in which an out-of-order core performs accesses. No
//! I/O.
//!
//! Where: the replacement policy is in `lru` (the order of a set's ways) and `sets` (which way a line takes, which line leaves).
//! `levels` has the policy between levels: into which a line is inserted, and what becomes of a line that leaves. `cache` is one
//! level, `tlb` the TLBs; `config` selects sizes and the state at the start.
//!
//! At the start of a burst the contents of caches are unknown. A line that is touched for the first time may be
//! cached already, as long as its set has seen fewer distinct lines than it has ways. That is [`FillClass::Unknown`]
//! with the number of lines seen, never a miss: a cold start counted as misses overstates the misses of
//! multi-megabyte caches without bound (Kessler, Hill and Wood, "A comparison of trace-sampling techniques for
//! multi-megabyte caches", IEEE Trans. Computers 43(6), 1994). The number is a censored stack depth: with the hits by
//! depth it allows an estimate per site. A simulation of a whole program from its start uses [`ColdLines::Miss`].
//!
//! ```text
//! Access, LoopRun -> Hierarchy -> SiteTally: per level hits by depth, unknown by age, misses; fills, dirtied lines
//!                    Tlb       -> TlbTally: the same for pages
//! ```
//!
//! Assumptions of all: addresses are virtual, and the placement of pages is unknown ([`Frames`] models it). Lines
//! have one size in all levels. Every level replaces the least recently used line, writes back, and allocates on writes. There is one
//! core, and no prefetcher.

#![forbid(unsafe_code)]

mod access;
mod cache;
mod config;
mod hierarchy;
mod jump;
mod levels;
mod loops;
mod lru;
mod marks;
mod sets;
mod state;
mod streams;
mod tally;
mod tlb;

pub use access::{Access, Kind, LoopAccess, LoopRun, SiteId};
pub use config::{ColdLines, Config, ConfigError, Frames, Geometry};
pub use hierarchy::Hierarchy;
pub use tally::{DEPTHS, FillClass, FillTally, LevelTally, SiteTally};
pub use tlb::{PageSize, Tlb, TlbConfig, TlbGeometry, TlbTally};
