//! Loops whose iterations are known, for whoever takes the amounts of a run from what one iteration does.
//!
//! What for: which loop an instruction belongs to, how often that loop went round in the whole run, and which of its
//! instructions run once in each iteration. What not: what an iteration does (`memory`).

use std::collections::HashMap;

use base::{FileOffset, ModuleId};
use facts::Recording;

use super::code::{Code, LoopId};
use super::found;

/// A pace that is known worse than this tells less than bursts do: half of its interval, as a part of it.
const WORST: f64 = 0.1;
/// Seconds. A burst lasts about a millisecond: of slower loops it sees too few iterations.
const SLOWEST: f64 = 50e-6;

/// One loop.
pub(crate) struct Odometer {
    /// Iterations in the whole run, by the weights of samples.
    pub(crate) iterations: f64,
    /// Half of the 95 % interval of that number, as a part of it.
    pub(crate) relative: f64,
    /// Its module, and the instructions that run once in each iteration.
    pub(crate) module: ModuleId,
    pub(crate) once: Vec<FileOffset>,
}

/// All loops whose pace is known well enough.
pub(crate) struct Odometers {
    code: Code,
    pub(crate) loops: Vec<Odometer>,
    position: HashMap<LoopId, usize>,
}

impl Odometers {
    /// Looks for them.
    pub(crate) fn read(recording: &Recording) -> Odometers {
        let code = Code::read(&recording.sampled_code);
        let (mut loops, mut position) = (Vec::new(), HashMap::new());
        for (id, row) in found(recording, &code).0 {
            let number = |metric: &facts::Metric| Some((metric.value?, metric.high?));
            let Some((iterations, high)) = number(&row.iterations) else { continue };
            let quick = row.iteration_time.value.is_some_and(|time| time <= SLOWEST);
            let relative = high / iterations - 1.0;
            if !quick || relative.is_nan() || relative > WORST {
                continue;
            }
            let once = code.once_per_iteration(id);
            position.insert(id, loops.len());
            loops.push(Odometer { iterations, relative, module: row.start.0, once });
        }
        Odometers { code, loops, position }
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
