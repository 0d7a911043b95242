//! The same event under its different names: those of the tables, of the kernel, of perf, of likwid and of the makers.
//!
//! What for: a count is found by the table's name, whoever counted it: Fathom or, in an imported recording, perf. What not: how an event is
//! opened (`machine::events`).
//!
//! Sources: for the kernel's names `intel_perfmon_event_map` and `amd_zen_perfmon_event_map` in arch/x86/events; for the parts of
//! PERF_METRICS arch/x86/events/intel/core.c ("topdown") and, as events of common counters, Intel's event tables (TOPDOWN.*).

use std::collections::HashMap;
use std::hash::Hash;

/// A table's name, and others of the same event, the best first.
const SAME: [(&str, &[&str]); 17] = [
    (
        "cpu_clk_unhalted.thread",
        &["cpu_clk_unhalted.thread_p", "cycles", "cpu-cycles", "cpu_clk_unhalted_core"],
    ),
    ("cpu_clk_unhalted.core", &["cpu_clk_unhalted.core_p", "cycles", "cpu-cycles"]),
    ("ls_not_halted_cyc", &["cycles", "cpu-cycles"]),
    ("cpu_cycles", &["cycles", "cpu-cycles"]),
    ("inst_retired.any", &["inst_retired.any_p", "instructions", "instr_retired_any"]),
    ("cpu_clk_unhalted.ref_tsc", &["ref-cycles", "cpu_clk_unhalted_ref"]),
    ("br_misp_retired.all_branches", &["branch-misses"]),
    ("ex_ret_brn_misp", &["branch-misses"]),
    ("topdown.slots:perf_metrics", &["slots", "topdown.slots", "topdown.slots_p"]),
    ("perf_metrics.retiring", &["topdown-retiring", "uops_retired.slots"]),
    ("perf_metrics.bad_speculation", &["topdown-bad-spec", "topdown.bad_spec_slots"]),
    (
        "perf_metrics.frontend_bound",
        &["topdown-fe-bound", "idq_bubbles.core", "idq_uops_not_delivered.core"],
    ),
    ("perf_metrics.backend_bound", &["topdown-be-bound", "topdown.backend_bound_slots"]),
    ("perf_metrics.heavy_operations", &["topdown-heavy-ops"]),
    ("perf_metrics.branch_mispredicts", &["topdown-br-mispredict", "topdown.br_mispredict_slots"]),
    ("perf_metrics.fetch_latency", &["topdown-fetch-lat"]),
    ("perf_metrics.memory_bound", &["topdown-mem-bound", "topdown.memory_bound_slots"]),
];
/// Names of cycles of a core, and of instructions that retire.
pub(super) const CYCLES: [&str; 8] = [
    "cpu_cycles",
    "cpu_clk_unhalted.thread",
    "cpu_clk_unhalted.thread_p",
    "cpu_clk_unhalted.core",
    "cpu_clk_unhalted.core_p",
    "ls_not_halted_cyc",
    "cycles",
    "cpu-cycles",
];
pub(super) const INSTRUCTIONS: [&str; 5] =
    ["inst_retired", "inst_retired.any", "inst_retired.any_p", "ex_ret_instr", "instructions"];

/// Loads that retire.
const LOADS: [&str; 3] =
    ["mem_inst_retired.all_loads", "mem_uops_retired.all_loads", "ls_dispatch.ld_dispatch"];

/// Whether every program that runs has some of it. Of the kernel alone (`:k`) or a guest (`:G`) there may be none.
pub(crate) fn never_zero(name: &str) -> bool {
    let modifiers = name.rsplit_once([':', '/']).map_or("", |(_, last)| last);
    let everywhere = modifiers.chars().all(|letter| !"kGHh".contains(letter));
    let (_, event) = plain(name);
    let has = |names: &[&str]| names.contains(&event.as_str());
    everywhere && (has(&CYCLES) || has(&INSTRUCTIONS) || has(&LOADS))
}

/// The PMU of an event's name, where it has one, and the event as the tables spell it: `cpu_core/CYCLES/ppp` is `cpu_core` and
/// `cycles`; modifiers (`:u`, `:ppp`) are left out.
pub(crate) fn plain(name: &str) -> (String, String) {
    const MODIFIERS: &str = "ukhgpsdwibe";
    let name = name.to_ascii_lowercase();
    if let Some((pmu, rest)) = name.split_once('/') {
        let event = rest.split('/').next().unwrap_or(rest);
        let event = event.split_once(':').map_or(event, |(event, _)| event);
        return (pmu.to_owned(), event.to_owned());
    }
    let mut event = name.as_str();
    while let Some((before, last)) = event.rsplit_once(':') {
        if last.is_empty() || !last.chars().all(|letter| MODIFIERS.contains(letter)) {
            break;
        }
        event = before;
    }
    (String::new(), event.to_owned())
}

/// Whether an event of this name is of the cores with this PMU. The kernel's own names count performance cores.
pub(super) fn is_of(name: &str, pmu: Option<&str>) -> bool {
    let (of, _) = plain(name);
    pmu.is_none_or(|pmu| of == pmu || of.is_empty() && pmu == "cpu_core")
}

/// By the tables' names: each name as it is, and the tables' names of the same event.
pub(super) fn by_table<'a, T: Clone>(
    counted: impl Iterator<Item = (&'a str, T)>,
) -> HashMap<String, T> {
    let mut found: HashMap<String, T> = HashMap::new();
    for (name, count) in counted {
        // Modifiers may be the table's own (`:sup`).
        found.insert(name.to_ascii_lowercase(), count.clone());
        // The first of two is the one that was counted in a group of its own.
        found.entry(plain(name).1).or_insert(count);
    }
    for (name, others) in SAME {
        let other = others.iter().find_map(|other| found.get(*other)).cloned();
        if let Some(count) = other.filter(|_| !found.contains_key(name)) {
            found.insert(name.to_owned(), count);
        }
    }
    found
}

/// The first of these names, in each PMU that has one of them: cores of different kinds have a PMU each.
pub(crate) fn in_each_pmu<I: Copy + Eq + Hash>(
    events: impl Iterator<Item = (I, String)> + Clone,
    names: &[&str],
) -> Vec<I> {
    let mut pmus: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for wanted in names {
        for (id, name) in events.clone() {
            let (pmu, event) = plain(&name);
            // The kernel's own names have none: they are those of the PMU `cpu`.
            let pmu = if pmu.is_empty() { "cpu".to_owned() } else { pmu };
            if event == *wanted && !pmus.contains(&pmu) {
                pmus.push(pmu);
                found.push(id);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_pmu_and_modifiers() {
        let of = |name| {
            let (pmu, event) = plain(name);
            format!("{pmu}|{event}")
        };
        assert_eq!(of("cycles:ppp"), "|cycles");
        assert_eq!(of("cpu_core/cycles:ppp/"), "cpu_core|cycles");
        assert_eq!(of("cpu_atom/INSTRUCTIONS/u"), "cpu_atom|instructions");
        assert_eq!(of("topdown.slots:perf_metrics"), "|topdown.slots:perf_metrics");
        assert_eq!(of("uops_decoded.dec0:c1"), "|uops_decoded.dec0:c1");
        assert_eq!(of("BR_MISP_RETIRED.ALL_BRANCHES:u"), "|br_misp_retired.all_branches");
    }

    #[test]
    fn every_program_has_cycles_but_no_guest_need_run() {
        let always =
            ["cycles", "cycles:u", "cycles:P", "cpu_core/INSTRUCTIONS/", "inst_retired.any"];
        assert!(always.iter().all(|name| never_zero(name)));
        let perhaps = ["cycles:G", "instructions:k", "cpu/cycles/k", "cache-misses", "page-faults"];
        assert!(!perhaps.iter().any(|name| never_zero(name)));
    }

    #[test]
    fn a_count_has_all_names_of_its_event() {
        let counted = [("cycles:u", 1), ("TOPDOWN.BACKEND_BOUND_SLOTS", 2), ("slots", 3)];
        let found = by_table(counted.into_iter());
        let of = |name: &str| found.get(name).copied();
        assert_eq!((of("cpu_clk_unhalted.thread"), of("ls_not_halted_cyc")), (Some(1), Some(1)));
        assert_eq!(of("perf_metrics.backend_bound"), Some(2));
        assert_eq!((of("topdown.slots:perf_metrics"), of("inst_retired.any")), (Some(3), None));
    }

    #[test]
    fn cores_of_two_kinds_are_summed_and_names_of_one_event_are_not() {
        let names = ["cpu_core/cycles/", "cpu_atom/cycles/", "cpu_core/cpu-cycles/"];
        let events = names.into_iter().enumerate().map(|(at, name)| (at, name.to_owned()));
        assert_eq!(in_each_pmu(events, &CYCLES), [0, 1]);
    }
}
