//! Events by the names of Intel's tables, which VTune uses: `MEM_LOAD_RETIRED.L3_MISS`, on hybrids also `cpu_atom/INST_RETIRED.ANY/`.
//!
//! What for: from such a name to the terms that `events` takes. What not: names of events outside of the cores, and of offcore
//! responses; events that the top-down tree needs (`analysis::uarch`).
//!
//! `intel_events.tsv` says where it is from and what a line has.

use facts::host::is_model;

const INTEL: &str = include_str!("intel_events.tsv");

/// The event as `events::resolve` takes it: `cpu/event=0xd1,umask=0x20/`; of a hybrid without a name of its PMU, that of its
/// performance cores. `None` where the processor has no event of this name.
#[must_use]
pub fn written(name: &str, vendor: &str, family_model_stepping: &str) -> Option<String> {
    if vendor != "GenuineIntel" {
        return None;
    }
    let (pmu, name) = match name.strip_suffix('/').and_then(|name| name.split_once('/')) {
        Some((pmu, name)) => (Some(pmu), name),
        None => (None, name),
    };
    let name = name.to_ascii_lowercase();
    // The letter and the PMU of each kind of cores.
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for line in INTEL.lines().filter(|line| !line.starts_with('#')) {
        match line.split('\t').collect::<Vec<_>>().as_slice() {
            ["processor", letter, models, own @ ..] => {
                let own = own.first().copied().unwrap_or("cpu");
                let is_here = models.split(' ').any(|one| is_model(one, family_model_stepping));
                if is_here && pmu.is_none_or(|pmu| pmu == own) {
                    kinds.push((letter, own));
                }
            }
            [letters, known, terms] if *known == name => {
                let of = kinds.iter().filter(|(letter, _)| letters.contains(letter));
                // `cpu_core` is greater than `cpu_atom`.
                let found = of.map(|(_, pmu)| *pmu).max();
                if let Some(pmu) = found {
                    return Some(format!("{pmu}/{terms}/"));
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_makers_tables_have_terms() {
        let of = |name: &str, cpu: &str| written(name, "GenuineIntel", cpu);
        let misses = Some("cpu/event=0xd1,umask=0x20/".to_owned());
        assert_eq!(of("MEM_LOAD_RETIRED.L3_MISS", "6/85/7"), misses);
        assert_eq!(of("cpu/mem_load_retired.l3_miss/", "6/143/8"), misses);
        // Before Skylake it had another name.
        assert_eq!(of("MEM_LOAD_RETIRED.L3_MISS", "6/63/2"), None);
        assert_eq!(
            of("MEM_LOAD_UOPS_RETIRED.L3_MISS", "6/63/2"),
            Some("cpu/event=0xd1,umask=0x20/".to_owned())
        );
        // Skylake-SP and Cascade Lake differ by stepping; Alder Lake has two kinds of cores.
        assert!(of("EXE_ACTIVITY.BOUND_ON_STORES", "6/85/4").is_some());
        let clocks = |pmu: &str| of(&format!("{pmu}/CPU_CLK_UNHALTED.THREAD/"), "6/151/2");
        assert_eq!(clocks("cpu_core"), Some("cpu_core/event=0x3c/".to_owned()));
        assert_eq!(
            of("TOPDOWN_BE_BOUND.ALL", "6/151/2").map(|one| one.starts_with("cpu_atom/")),
            Some(true)
        );
        let first = of("INST_RETIRED.ANY", "6/151/2").expect("both kinds have it");
        assert!(first.starts_with("cpu_core/"), "{first}");
        assert_eq!(of("NO_SUCH.EVENT", "6/85/7"), None);
        assert_eq!(written("INST_RETIRED.ANY", "AuthenticAMD", "25/1/1"), None);
    }

    /// Fields of the kernel's driver, so that all of them can be opened.
    #[test]
    fn terms_are_fields_of_the_kernel() {
        const FIELDS: [&str; 10] = [
            "event",
            "umask",
            "cmask",
            "inv",
            "edge",
            "any",
            "offcore_rsp",
            "frontend",
            "ldlat",
            "eq",
        ];
        let lines =
            INTEL.lines().filter(|line| !line.starts_with('#') && !line.starts_with("processor\t"));
        for line in lines {
            let terms = line.rsplit('\t').next().unwrap_or_default();
            for term in terms.split(',') {
                let field = term.split('=').next().unwrap_or_default();
                assert!(FIELDS.contains(&field), "{line}");
            }
        }
    }
}
