//! What bursts saw, as samples of the program's time.
//!
//! What for: of each burst in each place how long it took natively, and how long all of it did: by that it counts for as much as
//! others. What not: totals (`strata`), the native time of a burst (`native`).
//!
//! The time of one burst is off by more than that of all bursts of a place, and an error in what it counts for does not
//! average out: the mean of 1 / t is more than 1 / (the mean of t). So in a loop, in which all that bursts do is alike, a burst
//! counts by its instructions, each as long as the mean of the loop. In other code they may differ: there its own time counts; and
//! where that is more than [`ALIKE`] times as long, or as short, what it did was not alike: pages came from the disk or the host.

use std::collections::HashMap;

use facts::Recording;

use super::code_regions::{CodeRegion, CodeRegions};
use super::native::Part;
use super::strata::Observation;
use super::work::BurstWork;

/// Times of one loop that are further apart are no error of measurement.
const ALIKE: f64 = 3.0;

/// Of each burst in each place, in the order of `works`; `parts` are their native times.
pub(super) fn observations(
    recording: &Recording,
    places: &CodeRegions,
    works: &[BurstWork],
    parts: &[Part],
) -> Vec<Observation> {
    let all: Vec<(&BurstWork, &Part)> = works.iter().zip(parts).collect();
    let mut sums: HashMap<CodeRegion, (f64, f64)> = HashMap::new();
    for (work, part) in &all {
        let sum = sums.entry(work.place).or_default();
        *sum = (sum.0 + part.seconds, sum.1 + work.instructions);
    }
    let usual = |(work, part): &(&BurstWork, &Part)| match (work.place, sums.get(&work.place)) {
        (CodeRegion::Loop(_), Some((seconds, count))) if places.paced(work.place).is_none() => {
            let usual = seconds / count.max(1.0) * work.instructions;
            usual.clamp(part.seconds / ALIKE, part.seconds * ALIKE)
        }
        _ => part.seconds,
    };
    let mut observations = Vec::with_capacity(all.len());
    for of_one in all.chunk_by(|(one, _), (next, _)| one.burst == next.burst) {
        let of_burst = of_one.iter().map(usual).sum();
        observations.extend(of_one.iter().map(|(work, part)| Observation {
            burst: work.burst,
            time: recording.bursts[work.burst].time,
            place: work.place,
            seconds: part.seconds,
            speed: part.speed,
            of_burst,
        }));
    }
    observations
}
