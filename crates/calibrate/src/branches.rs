//! The cost of a mispredicted branch.
//!
//! What for: a loop whose branch is random and the same loop whose branch always goes one way run alternately; every
//! second branch of the former is mispredicted. Included: the work that the core discards and fetches again. What
//! not: the later instructions that it could not begin yet, which differ by program.

use facts::host::Calibration;
use sys::kernels::branches;
use sys::process::thread_cpu_time;

use crate::plan::Plan;
use crate::statistics::median_metric;
use crate::workers;

/// Odd, so that the median is one of them; two loops alternate, so a slow moment hits both.
const REPEATS: usize = 25;
/// About a millisecond.
const TURNS: u64 = 200_000;

/// Measures it where there is such a loop.
pub(crate) fn measure(plan: &Plan, calibration: &mut Calibration) {
    match workers::alone(plan.cpus[0], costs) {
        Ok(Some(costs)) => calibration.branch_miss = Some(median_metric(&costs, "ns")),
        Ok(None) => {}
        Err(error) => {
            calibration.notes.push(format!("no cost of a mispredicted branch: {error}"));
        }
    }
}

/// Nanoseconds per mispredicted branch, one figure per repeat.
fn costs() -> Option<Vec<f64>> {
    let timed = |chance| {
        let before = thread_cpu_time();
        let passed = branches(chance, TURNS)?;
        Some(((thread_cpu_time() - before).0 as f64, passed))
    };
    let cost = |_| {
        let ((same, _), (chance, passed)) = (timed(false)?, timed(true)?);
        // A random branch has no pattern: the best guess is the more frequent way, which misses the
        // rarer one.
        let missed = passed.min(TURNS - passed);
        Some((chance - same).max(0.0) / missed.max(1) as f64)
    };
    (0..REPEATS).map(cost).collect()
}
