//! Lines that the kernel has just cleared: no memory is waited for when a function touches them first.
//!
//! What for: code that fills new memory looks as if it fetched every line from memory. The kernel has written the whole page
//! with zeros a moment before, in the page fault, with ordinary stores, so that it is in the caches (`clear_page_erms`,
//! arch/x86/lib/clear_page_64.S: `rep stosb`). Its user time is that of entering faults; its line use or strides cost nothing.
//! What not: page faults themselves (`findings::faults`).
//!
//! The rule: a fault clears one small page. Where a function's faults cleared as many lines as it fetches over the whole
//! run, all of its fetches are such; where fewer, as many. A fault for a file's page clears nothing, so this is too much for
//! code that walks through a mapped file, by one page of the 16 that such a fault maps (`fault_around_bytes`).

use std::collections::BTreeMap;

use facts::{FaultKind, Metric};

use super::bandwidth::Quantity;
use super::{LINE, Memory};
use crate::faults::fault_scales;
use crate::stack::FunctionId;
use crate::weight::Weight;

/// Bytes of a page where the machine does not tell.
const USUAL_PAGE: u64 = 4096;

impl Memory<'_> {
    /// Lines that minor faults cleared, by the function that they interrupted.
    pub(super) fn cleared(&self) -> BTreeMap<FunctionId, f64> {
        let recording = self.profile.recording;
        let mut faults: BTreeMap<FunctionId, Weight> = BTreeMap::new();
        for fault in recording.faults.iter().filter(|fault| fault.kind == FaultKind::Minor) {
            let stack = fault.stack.and_then(|id| self.profile.stacks.find(id));
            let function = self.profile.stacks.compiled_user(stack);
            faults.entry(function).or_default().add(fault.weight);
        }
        let page = Some(recording.run.host.page_bytes).filter(|bytes| *bytes > 0);
        let lines = page.unwrap_or(USUAL_PAGE) as f64 / LINE;
        let scale = fault_scales(recording).minor;
        let cleared = |weight: &Weight| scale.quantity(weight).value.unwrap_or(0.0) * lines;
        faults.iter().map(|(function, weight)| (*function, cleared(weight))).collect()
    }
}

/// `waits` without those for lines that were cleared: `fetched` are bytes per burst, `native` its seconds, and `seconds` the
/// function's CPU time with that of the kernel on its behalf.
pub(super) fn without_cleared(
    waits: Metric,
    cleared: f64,
    (bursts, fetched, native): (&[usize], &Quantity, &[f64]),
    seconds: f64,
) -> Metric {
    let sum = |values: &[f64]| bursts.iter().map(|at| values[*at]).sum::<f64>();
    let of_run = seconds / sum(native).max(1e-9) / LINE;
    let kept = |fetched: &[f64]| match sum(fetched) * of_run {
        lines if lines > cleared => 1.0 - cleared / lines,
        _ => 0.0,
    };
    if cleared <= 0.0 {
        return waits;
    }
    Metric {
        value: waits.value.map(|value| value * kept(&fetched.likely)),
        low: waits.low.map(|low| low * kept(&fetched.low)),
        high: waits.high.map(|high| high * kept(&fetched.high)),
        ..waits
    }
}

#[cfg(test)]
mod tests {
    use facts::Evidence;

    use super::*;

    #[test]
    fn as_many_lines_as_were_cleared_are_not_waited_for() {
        // A second of bursts that fetch a million lines, in a run of ten.
        let fetched = Quantity {
            likely: vec![5e5 * LINE; 2],
            low: vec![2.5e5 * LINE; 2],
            high: vec![1e6 * LINE; 2],
        };
        let waits = || Metric::with_interval(Evidence::Estimated, 80.0, "percent", (60.0, 90.0), 9);
        let kept = |cleared| {
            let seen = (&[0, 1][..], &fetched, &[0.5, 0.5][..]);
            let found = without_cleared(waits(), cleared, seen, 10.0);
            [found.value, found.low, found.high].map(|end| end.expect("known").round())
        };
        assert_eq!(kept(0.0), [80.0, 60.0, 90.0]);
        // A quarter of ten million; half of the least that it may have fetched.
        assert_eq!(kept(2.5e6), [60.0, 30.0, 79.0]);
        assert_eq!(kept(1e7), [0.0, 0.0, 45.0]);
        assert_eq!(kept(1e9), [0.0, 0.0, 0.0]);
    }
}
