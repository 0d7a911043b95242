//! Cycles next to other events of the cores. 0 cycles of a program that ran tell that a PMU does not count, as that of some virtual
//! machines; 0 misses do not.
//!
//! What not: the judgement (`analysis::counted`).

use collect::counting::Choice;
use machine::pmu::{Pmu, PmuKind};

use crate::knobs::choice;

/// A group of them, where events of the cores are counted and cycles are not.
pub(super) fn besides(events: &[Vec<Choice>], pmus: &[Pmu]) -> Option<Vec<Choice>> {
    let is_of_cores = |one: &Choice| {
        let of_pmu = |pmu: &Pmu| pmu.kind == PmuKind::Core && pmu.number == one.pmu;
        one.pmu == sys::perf::PERF_TYPE_HARDWARE || pmus.iter().any(of_pmu)
    };
    let counted = || events.iter().flatten().filter(|one| one.sampled.is_none());
    let is_wanted = counted().any(is_of_cores) && counted().all(|one| one.name != "cycles");
    is_wanted.then(|| choice("cycles", "cycles", pmus).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_next_to_events_of_the_cores() {
        let cores = Pmu {
            name: "cpu".to_owned(),
            number: 4,
            kind: PmuKind::Core,
            cpus: None,
            fields: Vec::new(),
            events: Vec::new(),
            capabilities: Vec::new(),
        };
        let added = |names: &[&str]| -> Vec<String> {
            let pmus = std::slice::from_ref(&cores);
            let events = names.iter().map(|name| choice(name, name, pmus).expect("an event"));
            let group = besides(&[events.collect()], pmus).unwrap_or_default();
            group.into_iter().map(|one| one.name).collect()
        };
        assert_eq!(added(&["cpu/config=0x412e/"]), ["cycles"]);
        assert_eq!(added(&["cache-misses", "page-faults"]), ["cycles"]);
        assert_eq!(added(&["cache-misses", "cycles"]), [""; 0]);
        assert_eq!(added(&["page-faults"]), [""; 0]);
    }
}
