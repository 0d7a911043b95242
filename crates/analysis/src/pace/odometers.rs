//! Loops as code regions, for estimates of a run's amounts by region.
//!
//! What for: which loop an instruction belongs to, whether the program stays in it for long, its iterations in the whole run, and
//! in each burst. What not: what an iteration does (`memory`).

use std::collections::HashMap;

use base::{BurstId, CodeAddress};
use facts::{Burst, Recording};

use super::agreement::{BurstCounts, FEWEST_ITERATIONS};
use super::code::{Code, Functions, LoopId};
use super::stacks::Time;
use super::{LoopPace, Undisturbed, compared, is_within, paced_loops};

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
    /// The loop inside it, with an odometer, that bursts know it by: none of its own iterations leaves a record.
    pub(crate) known_by: Option<usize>,
}

/// The loops that have a share of the CPU time.
pub(crate) struct LoopsInCode {
    functions: Functions,
    pub(crate) loops: Vec<OneLoop>,
    /// Their pace, the most CPU time first.
    pub(crate) rows: Vec<LoopPace>,
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
        let found = paced_loops(recording, &code, &seen);
        let paced = &found.loops;
        let traced = |id: LoopId| -> Vec<(BurstId, f64)> {
            let traced = |burst: &Burst| Some((burst.id, seen.traced(burst.id, id)?));
            recording.bursts.iter().filter_map(traced).collect()
        };
        let passes: Vec<Vec<(BurstId, f64)>> = paced.iter().map(|(id, ..)| traced(*id)).collect();
        for (at, (id, row, time)) in paced.iter().enumerate() {
            let is_recorded = code.last_per_iteration(*id, true).is_some();
            let inside = if is_recorded { None } else { recorded_inside(at, paced, &passes) };
            let (iterations, traced) = match inside {
                Some(inner) => (&paced[inner].1.iterations, &passes[inner]),
                None => (&row.iterations, &passes[at]),
            };
            let is_met = traced.iter().map(|(_, count)| count).sum::<f64>() >= FEWEST_ITERATIONS;
            let number = |metric: &facts::Metric| Some((metric.value?, metric.high?));
            let odometer = number(iterations).and_then(|(iterations, high)| {
                let quick = row.iteration_time.value.is_some_and(|time| time <= SLOWEST);
                let relative = high / iterations - 1.0;
                (is_met && quick && relative <= WORST).then_some(Odometer { iterations, relative })
            });
            let number = loops.len();
            position.insert(*id, number);
            in_bursts.extend(traced.iter().map(|(burst, count)| ((*burst, number), *count)));
            let followed = time.followed as f64;
            let stays = time.samples >= FEWEST_SAMPLES && time.stays as f64 >= STAYS * followed;
            let (function, file) = (row.function.clone(), row.file.clone());
            let name = LoopName { function, file, line: row.line, depth: row.depth };
            loops.push(OneLoop { name, odometer, stays, known_by: inside });
        }
        let has_odometer: Vec<bool> = loops.iter().map(|one| one.odometer.is_some()).collect();
        for one in &mut loops {
            one.known_by = one.known_by.filter(|inner| has_odometer[*inner]);
        }
        let undisturbed = found.undisturbed;
        let rows = compared(found, &code, &seen);
        let functions = code.functions;
        LoopsInCode { functions, loops, rows, position, in_bursts, undisturbed }
    }

    /// Iterations of each loop in each burst that came to it.
    pub(crate) fn in_bursts(&self) -> &HashMap<(BurstId, usize), f64> {
        &self.in_bursts
    }

    /// Whether an instruction is in a function whose code is known and has no loop.
    pub(crate) fn is_loopless(&self, at: CodeAddress) -> bool {
        let function = self.functions.function(at.module, at.offset);
        function.is_some_and(|one| self.functions[one].loops.all().is_empty())
    }

    /// The innermost of these loops around an instruction of which any byte is given, of those that will do.
    pub(crate) fn around(&self, at: CodeAddress, will_do: impl Fn(usize) -> bool) -> Option<usize> {
        if self.loops.is_empty() {
            return None;
        }
        let around = self.functions.around_byte(at.module, at.offset);
        let known = around.iter().filter_map(|id| self.position.get(id).copied());
        known.into_iter().find(|at| will_do(*at))
    }
}

/// A loop whose iterations traces tell, in one without an access in each of its own: the one that they met most. What the code
/// around it does is a part of what each of its iterations does.
fn recorded_inside(
    outer: usize,
    paced: &[(LoopId, LoopPace, Time)],
    passes: &[Vec<(BurstId, f64)>],
) -> Option<usize> {
    let (outer, row, _) = &paced[outer];
    row.iterations.value?;
    let met = |at: &usize| passes[*at].iter().map(|(_, count)| count).sum::<f64>();
    let inside = (0..paced.len()).filter(|at| {
        let (_, row, time) = &paced[*at];
        row.iterations.value.is_some() && is_within(time, outer)
    });
    inside.filter(|at| met(at) > 0.0).max_by(|one, other| met(one).total_cmp(&met(other)))
}
