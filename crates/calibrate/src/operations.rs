//! How long single operations of the core take, and how often one can begin.
//!
//! What for: what limits a loop whose data is in the first-level cache (`analysis::core_limits`). Times, not cycles: the clock at
//! which this machine runs is in them. What not: which of a program's instructions are such operations.

use facts::Metric;
use facts::host::{Calibration, OperationCost};
use sys::kernels::{Operation, operate};
use sys::process::thread_cpu_time;

use crate::plan::Plan;
use crate::statistics::median_metric;
use crate::workers;

/// Odd, so that the median is one of them.
const REPEATS: usize = 7;
/// 640 and 19,840 operations. Their difference, 2 to 120 µs, is without the look at the clock, which takes as long as a
/// thousand.
const TURNS: [u64; 2] = [10, 310];

/// Measures those that this processor has.
pub(crate) fn measure(plan: &Plan, calibration: &mut Calibration) {
    match workers::alone(plan.cpus[0], || Operation::all().filter_map(cost).collect()) {
        Ok(costs) => calibration.operations = costs,
        Err(error) => calibration.notes.push(format!("no cost of single operations: {error}")),
    }
}

fn cost(operation: Operation) -> Option<OperationCost> {
    Some(OperationCost {
        operation: operation.name.to_owned(),
        bits: operation.bits,
        each: time(operation, false)?,
        latency: time(operation, true),
    })
}

/// Nanoseconds per operation.
fn time(operation: Operation, chain: bool) -> Option<Metric> {
    // The first makes the clocks ready, and the code.
    operate(operation, chain, TURNS[1])?;
    let once = |turns: u64| {
        let before = thread_cpu_time();
        let done = operate(operation, chain, turns)?;
        Some(((thread_cpu_time() - before).0 as f64, done as f64))
    };
    let each = |_| {
        let ((short, few), (long, many)) = (once(TURNS[0])?, once(TURNS[1])?);
        Some((long - short) / (many - few))
    };
    let times: Option<Vec<f64>> = (0..REPEATS).map(each).collect();
    let metric = median_metric(&times?, "ns");
    metric.value.is_some_and(|value| value > 0.0).then_some(metric)
}
