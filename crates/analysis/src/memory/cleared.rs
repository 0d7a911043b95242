//! Lines that the kernel has just cleared: no memory is waited for when a function touches them first.
//!
//! What for: code that fills new memory looks as if it fetched every line from memory. The kernel has written the whole page
//! with zeros a moment before, in the page fault, with ordinary stores, so that it is in the caches (`clear_page_erms`,
//! arch/x86/lib/clear_page_64.S: `rep stosb`). Its user time is that of entering faults; its line use or strides cost nothing.
//! What not: page faults themselves (`findings::faults`).
//!
//! The rule: a fault clears one small page. The cache model takes its lines for ones from memory, so of what all accesses
//! would wait one after the other as much is none as the function's faults cleared lines. It waits no longer than for twice
//! the rest (`core_time`: latency under load). A fault for a file's page clears nothing, so this takes off too much from code
//! that walks through a mapped file, by one page of the 16 that such a fault maps (`fault_around_bytes`).

use std::collections::BTreeMap;

use facts::{FaultKind, Metric};

use super::core_time::LOADED;
use super::{LINE, Memory};
use crate::faults::fault_scales;
use crate::stack::FunctionId;
use crate::weight::Weight;

/// Bytes of a page where the machine does not tell.
const USUAL_PAGE: u64 = 4096;

impl Memory<'_> {
    /// Bytes of the lines that minor faults cleared, by the function that they interrupted.
    pub(super) fn cleared(&self) -> BTreeMap<FunctionId, f64> {
        let recording = self.profile.recording;
        let mut faults: BTreeMap<FunctionId, Weight> = BTreeMap::new();
        for fault in recording.faults.iter().filter(|fault| fault.kind == FaultKind::Minor) {
            let stack = fault.stack.and_then(|id| self.profile.stacks.find(id));
            let function = self.profile.stacks.compiled_user(stack);
            faults.entry(function).or_default().add(fault.weight);
        }
        let page = Some(recording.run.host.page_bytes).filter(|bytes| *bytes > 0);
        let page = page.unwrap_or(USUAL_PAGE) as f64;
        let scale = fault_scales(recording).minor;
        let cleared = |weight: &Weight| scale.quantity(weight).value.unwrap_or(0.0) * page;
        faults.iter().map(|(function, weight)| (*function, cleared(weight))).collect()
    }

    /// Seconds that so many bytes would take from memory, a line after the other.
    pub(super) fn line_by_line(&self, bytes: f64) -> f64 {
        bytes / LINE * self.latencies()[2] * 1e-9
    }
}

/// A share of what is fetched from memory, when this part of it, 0 to 1 or more, is not because it was cleared.
pub(super) fn without_part(share: Metric, cleared: f64) -> Metric {
    let kept = (1.0 - cleared).max(0.0);
    let rest = |value: Option<f64>| value.map(|value| value * kept);
    Metric { value: rest(share.value), low: rest(share.low), high: rest(share.high), ..share }
}

/// `waits` as far as lines that were not `cleared` can be waited for: those would take that many seconds, all accesses
/// `serial` percent of the function's `seconds`, the kernel's on its behalf included.
pub(super) fn without_cleared(
    waits: Metric,
    cleared: f64,
    serial: &Metric,
    seconds: f64,
) -> Metric {
    if cleared <= 0.0 || seconds <= 0.0 {
        return waits;
    }
    let others = |serial: f64| (serial - cleared / seconds * 100.0).max(0.0) * LOADED;
    let least = |waits: Option<f64>, serial: Option<f64>| Some(waits?.min(others(serial?)));
    Metric {
        value: least(waits.value, serial.value),
        low: least(waits.low, serial.low),
        high: least(waits.high, serial.high),
        ..waits
    }
}

#[cfg(test)]
mod tests {
    use facts::Evidence;

    use super::*;

    #[test]
    fn only_lines_that_were_not_cleared_are_waited_for() {
        let metric = |value, interval| {
            Metric::with_interval(Evidence::Estimated, value, "percent", interval, 9)
        };
        // Ten seconds, of which the accesses would take as many, between half and twice of that.
        let kept = |cleared| {
            let waits = metric(80.0, (60.0, 90.0));
            let found = without_cleared(waits, cleared, &metric(100.0, (50.0, 200.0)), 10.0);
            [found.value, found.low, found.high].map(|end| end.expect("known").round())
        };
        assert_eq!(kept(0.0), [80.0, 60.0, 90.0]);
        // What is waited for in spite of some cleared lines is waited for others.
        assert_eq!(kept(2.0), [80.0, 60.0, 90.0]);
        assert_eq!(kept(9.0), [20.0, 0.0, 90.0]);
        assert_eq!(kept(30.0), [0.0, 0.0, 0.0]);
    }
}
