//! Lines that the kernel has just zeroed: a function that touches them first does not wait for memory.
//!
//! What for: code that fills new memory looks as if it fetched every line from memory. The kernel zeroed the whole page a moment
//! before, in the page fault, with ordinary stores, so it is in the caches (`clear_page_erms`, arch/x86/lib/clear_page_64.S:
//! `rep stosb`). The user time is that of entering faults; line use and strides cost nothing there.
//! What not: page faults themselves (`findings::faults`).
//!
//! The rule: a fault zeroes one small page. The cache model counts its lines as coming from memory. So from the summed latencies of
//! a burst's accesses, those of as many lines as faults zeroed in its time are deducted, and it waits at most for twice the rest
//! (`core_time`: latency under load). A fault for a page of a file zeroes nothing, so this deducts too much from code that walks
//! through a mapped file, by one page of the 16 that such a fault maps (`fault_around_bytes`).
//!
//! What is read from memory is another matter: bursts that record accesses count their faults, so of the pages that such a burst
//! touches first the part that was zeroed is known (`pass`, `Model::fetched`).
//!
//! Faults are sampled, and a burst has few. So the function's faults within [`NEAR`] decide how they are spread over its bursts. A
//! program that fills its memory first and then works on it has zeroed lines in its first bursts only.

use std::collections::BTreeMap;

use base::Nanos;
use estimate::Estimate;
use facts::FaultKind;

use super::{LINE, Memory};
use crate::faults::fault_scales;
use crate::stack::FunctionId;
use crate::weight::Weight;

/// Bytes of a page where the machine does not report it.
const USUAL_PAGE: u64 = 4096;

/// Faults this near to a burst show what the program did in it: a few bursts' distance.
const NEAR: Nanos = Nanos(100_000_000);

/// Faults of a function in the order of time: when, and how many bytes the kernel zeroed in all that each represents.
#[derive(Clone, Debug, Default)]
pub(super) struct Zeroed(Vec<(Nanos, f64)>);

impl Zeroed {
    pub(super) fn all(by_function: &BTreeMap<FunctionId, Zeroed>) -> Zeroed {
        let mut faults: Vec<(Nanos, f64)> =
            by_function.values().flat_map(|one| one.0.iter().copied()).collect();
        faults.sort_by_key(|(time, _)| *time);
        Zeroed(faults)
    }

    pub(super) fn bytes(&self) -> f64 {
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }

    fn near(&self, time: Nanos) -> f64 {
        let first = self.0.partition_point(|(at, _)| *at + NEAR < time);
        let behind = self.0.partition_point(|(at, _)| *at <= time + NEAR);
        self.0[first..behind.max(first)].iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes cleared in each of a function's bursts (when, and its native seconds), of its CPU time in all.
    pub(super) fn in_bursts(&self, bursts: &[(Nanos, f64)], seconds: f64) -> Vec<f64> {
        let near: Vec<f64> = bursts.iter().map(|(time, _)| self.near(*time)).collect();
        let seconds = seconds.max(1e-9);
        let measured: f64 = bursts.iter().map(|(_, native)| native).sum();
        let weighted: f64 = bursts.iter().zip(&near).map(|((_, native), near)| native * near).sum();
        let bytes = self.bytes();
        let one = |((_, native), near): (&(Nanos, f64), f64)| {
            // Faults far from any burst are spread evenly: which burst they belong to is unknown.
            let part = if weighted > 0.0 { near * measured / weighted } else { 1.0 };
            bytes * part * native / seconds
        };
        bursts.iter().zip(near).map(one).collect()
    }
}

impl Memory<'_> {
    /// What minor faults cleared, by the function that they interrupted.
    pub(super) fn zeroed(&self) -> BTreeMap<FunctionId, Zeroed> {
        let recording = self.profile.recording;
        let page = Some(recording.run.host.page_bytes).filter(|bytes| *bytes > 0);
        let page = page.unwrap_or(USUAL_PAGE) as f64;
        let scale = fault_scales(recording).minor;
        let mut zeroed: BTreeMap<FunctionId, Zeroed> = BTreeMap::new();
        for fault in recording.faults.iter().filter(|fault| fault.kind == FaultKind::Minor) {
            let stack = fault.stack.and_then(|id| self.profile.stacks.find(id));
            let mut weight = Weight::default();
            weight.add(fault.weight);
            let bytes = scale.quantity(&weight).value.unwrap_or(0.0) * page;
            let function = self.profile.stacks.compiled_user(stack);
            zeroed.entry(function).or_default().0.push((fault.time, bytes));
        }
        zeroed.values_mut().for_each(|one| one.0.sort_by_key(|(time, _)| *time));
        zeroed
    }

    /// Seconds that these bytes would take from memory, line after line.
    pub(super) fn line_by_line(&self, bytes: f64) -> f64 {
        bytes / LINE * self.latencies()[2] * 1e-9
    }
}

/// Core time of a burst, but no less than what of its time cannot be waited for memory.
pub(super) fn no_less_than_rest(core: &Estimate, time: &Estimate, waited: &Estimate) -> Estimate {
    Estimate::of([core, time, waited], |[core, time, waited]| core.max(time - waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page each.
    fn faults(times: &[u64]) -> Zeroed {
        Zeroed(times.iter().map(|ms| (Nanos(ms * 1_000_000), 4096.0)).collect())
    }

    fn in_bursts(zeroed: &Zeroed, times: &[u64], seconds: f64) -> Vec<f64> {
        let bursts: Vec<(Nanos, f64)> =
            times.iter().map(|ms| (Nanos(ms * 1_000_000), 0.01)).collect();
        zeroed.in_bursts(&bursts, seconds)
    }

    /// Four bursts have 40 ms of two seconds, so each represents half a second.
    #[test]
    fn what_is_zeroed_first_is_in_the_first_bursts() {
        let first = faults(&[100, 110, 120, 130]);
        let found = in_bursts(&first, &[100, 150, 900, 1900], 2.0);
        assert_eq!(found, [2.0, 2.0, 0.0, 0.0].map(|pages| pages * 4096.0 * 0.04 / 2.0));
        let always = faults(&[100, 600, 1100, 1600]);
        let found = in_bursts(&always, &[100, 600, 1100, 1600], 2.0);
        assert_eq!(found, [1.0; 4].map(|pages| pages * 4096.0 * 0.04 / 2.0));
    }

    /// Ten milliseconds of which one is the core's. The rest may be waits: unknown, 3, or 0.
    #[test]
    fn what_was_zeroed_is_not_waited_for() {
        let [core, time] = [1.0, 10.0].map(Estimate::exactly);
        for (waited, kept) in [(f64::INFINITY, 1.0), (3.0, 7.0), (0.0, 10.0)] {
            let found = no_less_than_rest(&core, &time, &Estimate::exactly(waited));
            assert_eq!(found.interval(), (kept, kept));
        }
    }

    #[test]
    fn faults_that_no_burst_is_near_are_spread_evenly() {
        let found = in_bursts(&faults(&[500]), &[100, 900], 2.0);
        assert_eq!(found, [4096.0 * 0.01 / 2.0; 2]);
        assert_eq!(in_bursts(&faults(&[]), &[100, 900], 2.0), [0.0; 2]);
    }
}
