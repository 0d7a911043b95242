//! The weight of each burst in each region of the code, as an observation of the program's time.
//!
//! What for: the native time of a burst in a region, and of the whole burst; the weight follows from the two. What not: totals
//! (`strata`), the native time itself (`native`).
//!
//! The measured time of one burst has a larger error than the mean of a region, and that error does not average out in a
//! weight: the mean of 1 / t is more than 1 / (the mean of t). In a loop all bursts do the same. So there a burst's time is its
//! instructions times the loop's mean time per instruction, but at most a factor of [`ALIKE`] from its own: a larger deviation
//! is real, such as pages that came from a disk or the host. In other code, and in loops with a pace, each burst has its own
//! time.

use std::collections::HashMap;

use facts::Recording;

use super::code_regions::{CodeRegion, CodeRegions};
use super::native::Part;
use super::strata::Observation;
use super::work::BurstWork;

/// A burst's time that is further than this factor from its loop's mean is no error of measurement.
const ALIKE: f64 = 3.0;

/// One per burst and region, in the order of `works`; `parts` are their native times.
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
