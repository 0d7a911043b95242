//! Loops as code regions, for estimates of a run's amounts by region.
//!
//! What for: which loop an instruction belongs to, whether the program stays in it for long, its iterations in the whole run, and
//! in each burst. What not: what an iteration does (`memory`).

use std::collections::HashMap;

use base::{BurstId, FileOffset, ModuleId};
use facts::{Burst, Recording};

use super::agreement::{BurstCounts, FEWEST_ITERATIONS};
use super::code::{Code, LoopId};
use super::{LoopPace, Sampled, Undisturbed, paced_loops};

/// A pace that is known worse than this tells less than bursts do, whose own times are a quarter off: half of its interval,
/// as a part of it.
const WORST: f64 = 0.25;
/// Seconds. A burst lasts about a millisecond: of slower loops it sees too few iterations.
const SLOWEST: f64 = 50e-6;

/// Of the samples of a loop, this part must be followed by another one in it, if the program stays there.
const STAYS: f64 = 0.8;
/// Fewer samples do not show it.
const FEWEST_SAMPLES: u64 = 10;

/// How often one loop went round.
pub(crate) struct Odometer {
    /// Iterations in the whole run, by the weights of samples.
    pub(crate) iterations: f64,
    /// Half of the 95 % interval of that number, as a part of it.
    pub(crate) relative: f64,
}

/// Where a loop is, as far as that is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopName {
    /// Its function.
    pub function: String,
    /// Its source file.
    pub file: Option<String>,
    /// The first line of it that samples name.
    pub line: Option<u32>,
    /// How many loops of the function are around it.
    pub depth: usize,
}

/// One loop.
pub(crate) struct OneLoop {
    /// Where it is.
    pub(crate) name: LoopName,
    /// `None` where its pace is not known well enough, or bursts hardly met it.
    pub(crate) odometer: Option<Odometer>,
    /// Most samples in it are followed by another one there.
    pub(crate) stays: bool,
}

/// The loops that have a share of the CPU time.
pub(crate) struct LoopsInCode {
    code: Code,
    pub(crate) loops: Vec<OneLoop>,
    position: HashMap<LoopId, usize>,
    /// Iterations in bursts that traced accesses, by the loop's number.
    in_bursts: HashMap<(BurstId, usize), f64>,
    /// The native part of the CPU time.
    pub(crate) undisturbed: Undisturbed,
}

impl LoopsInCode {
    /// Looks for them.
    pub(crate) fn read(recording: &Recording) -> LoopsInCode {
        let code = Code::read(&recording.sampled_code);
        let seen = BurstCounts::new(recording, &code);
        let (mut loops, mut position) = (Vec::new(), HashMap::new());
        let mut in_bursts = HashMap::new();
        let Sampled { loops: paced, undisturbed, .. } = paced_loops(recording, &code, &seen);
        for (id, row, time) in paced {
            let traced = |burst: &Burst| Some((burst.id, seen.traced(burst.id, id)?));
            let traced: Vec<(BurstId, f64)> = recording.bursts.iter().filter_map(traced).collect();
            let is_met = traced.iter().map(|(_, count)| count).sum::<f64>() >= FEWEST_ITERATIONS;
            let number = |metric: &facts::Metric| Some((metric.value?, metric.high?));
            let odometer = number(&row.iterations).and_then(|(iterations, high)| {
                let quick = row.iteration_time.value.is_some_and(|time| time <= SLOWEST);
                let relative = high / iterations - 1.0;
                (is_met && quick && relative <= WORST).then_some(Odometer { iterations, relative })
            });
            let number = loops.len();
            position.insert(id, number);
            in_bursts.extend(traced.into_iter().map(|(burst, count)| ((burst, number), count)));
            let followed = time.followed as f64;
            let stays = time.samples >= FEWEST_SAMPLES && time.stays as f64 >= STAYS * followed;
            let LoopPace { function, file, line, depth, .. } = row;
            loops.push(OneLoop { name: LoopName { function, file, line, depth }, odometer, stays });
        }
        LoopsInCode { code, loops, position, in_bursts, undisturbed }
    }

    /// Iterations of each loop in each burst that came to it.
    pub(crate) fn in_bursts(&self) -> &HashMap<(BurstId, usize), f64> {
        &self.in_bursts
    }

    /// The innermost of these loops around an instruction of which any byte is given, of those that will do.
    pub(crate) fn around(
        &self,
        module: ModuleId,
        offset: FileOffset,
        will_do: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if self.loops.is_empty() {
            return None;
        }
        let around = self.code.around_byte(module, offset);
        let known = around.iter().filter_map(|id| self.position.get(id).copied());
        known.into_iter().find(|at| will_do(*at))
    }
}
