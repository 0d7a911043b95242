//! How much of its CPU time a program spent as if nobody had looked.
//!
//! What for: in bursts and count windows a program does less than natively in the same time, and right after them, while caches
//! are cold. Its amounts are a native rate times a native time, which is less than its CPU time. Two samples of a loop around a
//! burst tell how much less: iterations between them / pace / CPU time between them.
//! What not: how quick code is in a burst (`memory::native`).
//!
//! Assumption: bursts slow all of a program alike. Half of what they took is uncertain.

use std::collections::BTreeMap;

use facts::Recording;

use super::code::LoopId;
use super::estimate::Pace;
use super::pairs::{Found, around_bursts};
use estimate::interval::Z_95;

/// Fewer pairs of samples around bursts tell nothing.
const FEWEST: usize = 10;
/// A loop whose pace is known worse, relative, tells nothing.
const WORST: f64 = 0.1;
/// Nor does one of which more than one run in this many samples ended: between two samples around bursts, another run may hide.
const RUNS: usize = 20;

/// The native part of the CPU time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Undisturbed(Option<Lost>);

/// What bursts and windows took, as a part of the CPU time.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Lost {
    part: f64,
    /// Half of its 95 % interval.
    half: f64,
}

impl Undisturbed {
    /// The native part, 0 to 1; 1 where it is not known.
    pub(crate) fn share(&self) -> f64 {
        self.0.map_or(1.0, |lost| 1.0 - lost.part)
    }

    /// Half of the interval of that, as a part of it; `None` where it is not known.
    pub(crate) fn relative(&self) -> Option<f64> {
        self.0.map(|lost| lost.half / (1.0 - lost.part))
    }
}

/// From all loops with a pace. `whole`: the CPU time of all samples, seconds.
pub(super) fn undisturbed(
    recording: &Recording,
    whole: f64,
    found: &BTreeMap<LoopId, Found>,
    paces: &BTreeMap<LoopId, Result<Pace, &str>>,
) -> Undisturbed {
    // Native seconds and seconds.
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    let is_long = |found: &&Found| {
        let ended = found.restarts + found.other_runs as usize;
        ended * RUNS <= found.pairs.len()
    };
    for (one, its) in found.iter().filter(|(_, its)| is_long(its)) {
        let known = paces.get(one).and_then(|pace| pace.as_ref().ok());
        let Some(pace) = known.filter(|pace| pace.half <= WORST * pace.rate) else { continue };
        pairs.extend(its.around_bursts.iter().map(|(went, took)| (went / pace.rate, *took)));
    }
    if pairs.len() < FEWEST || whole <= 0.0 {
        return Undisturbed::default();
    }
    let native: f64 = pairs.iter().map(|(native, _)| native).sum();
    let all: f64 = pairs.iter().map(|(_, took)| took).sum();
    let lost = 1.0 - native / all;
    let squares: f64 =
        pairs.iter().map(|(native, took)| (native - took * (1.0 - lost)).powi(2)).sum();
    let half = Z_95 * squares.sqrt() / all;
    let part = (around_bursts(recording) / whole).min(1.0);
    let lost = lost.clamp(0.0, 0.9);
    Undisturbed(Some(Lost { part: part * lost, half: part * half.hypot(lost / 2.0) }))
}
