//! Uncertain numbers: the one place where an interval is made.
//!
//! What for: an [`Estimate`] is a number and the same number computed again in each of [`REPLICATES`] reweightings of the
//! sample. Arithmetic on estimates is elementwise, so what two of them have in common (the same bursts, the same clock
//! samples) cancels or adds by itself. [`Estimate::interval`] is the only way from there to 95 %.
//!
//! ```text
//! sampling plan -> Draws: scatter of units, shares, unknowns ─┐
//! observations ──────────────────────────────────────────────┴─> Estimate ── + - x / min max ──> interval, probability
//! ```
//!
//! * `draws`: the random part of each replicate: of sampled units by the sampling plan, of parameters that nobody sampled
//!   between their [`Bounds`].
//! * `parameters`: numbers that nobody sampled, each with its source and what it does to the scores.
//! * `interval`, `student`: closed forms for plain counts, shares and medians, where no replicates are needed.
//!
//! What not: which numbers there are, and from what (`analysis`); how they are shown (`report`).
//!
//! Sources: K. M. Wolter, "Introduction to Variance Estimation" (2nd ed., Springer 2007), chapters 3 to 5 and 8; J. Shao, D. Tu,
//! "The Jackknife and Bootstrap" (Springer 1995).

#![forbid(unsafe_code)]

mod bounds;
mod draws;
mod estimate;
pub mod interval;
mod normal;
pub mod parameters;
pub mod student;

pub use bounds::Bounds;
pub use draws::Draws;
pub use estimate::{Estimate, REPLICATES};
