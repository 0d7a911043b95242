//! Uncertain numbers. Every interval is made here.
//!
//! What for: an [`Estimate`] is a number and the same number computed again in each of [`REPLICATES`] reweightings of the
//! sample. Arithmetic on estimates is elementwise, so that errors which two of them share (the same bursts, the same clock
//! samples) cancel or add correctly. Only [`Estimate::interval`] turns replicates into a 95 % interval.
//!
//! ```text
//! sampling plan -> Draws: scatter of units, shares, unknowns ─┐
//! observations ──────────────────────────────────────────────┴─> Estimate ── + - x / min max ──> interval, probability
//! ```
//!
//! * `draws`: the random part of each replicate: of sampled units by the sampling plan, of unsampled parameters
//!   between their [`Bounds`].
//! * `parameters`: numbers that were chosen, not sampled, each with its source and its effect on the scores.
//! * `correction`: a ratio that is known beforehand to some part.
//! * `multiplexed`: counts of counters that took turns.
//! * `run_length`: how long runs are of which samples met the middle.
//! * `interval`, `student`: closed forms for plain counts, shares and medians, where no replicates are needed.
//!
//! What not: which numbers there are, and from what (`analysis`); how they are shown (`report`).
//!
//! Sources: K. M. Wolter, "Introduction to Variance Estimation" (2nd ed., Springer 2007), chapters 3 to 5 and 8; J. Shao, D. Tu,
//! "The Jackknife and Bootstrap" (Springer 1995).

#![forbid(unsafe_code)]

mod bounds;
mod correction;
mod draws;
mod estimate;
pub mod interval;
mod multiplexed;
mod normal;
pub mod parameters;
pub mod ratios;
mod run_length;
pub mod student;

pub use bounds::Bounds;
pub use correction::corrected;
pub use draws::Draws;
pub use estimate::{Estimate, REPLICATES, poisson_replicates};
pub use multiplexed::scaled_estimate;
pub use run_length::{RunLength, run_length};
