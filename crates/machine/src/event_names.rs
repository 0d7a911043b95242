//! Events by the names of the makers' tables, which VTune and uProf use: `MEM_LOAD_RETIRED.L3_MISS`, on hybrids also
//! `cpu_atom/INST_RETIRED.ANY/`; `ls_dmnd_fills_from_sys.all` of AMD, `STALL_BACKEND_MEM` of Arm.
//!
//! What for: from such a name to the terms that `events` takes. What not: names of events outside of the cores, and of Intel's offcore
//! responses; events that the top-down tree needs (`analysis::uarch`).
//!
//! `intel_events.tsv`, `amd_events.tsv` and `arm_events.tsv` say where they are from and what a line has.

use facts::host::{Host, is_model};

use crate::pmu::{Pmu, PmuKind};

/// Vendor, its name for people, its table.
const TABLES: [(&str, &str, &str); 3] = [
    ("GenuineIntel", "Intel", include_str!("intel_events.tsv")),
    ("AuthenticAMD", "AMD", include_str!("amd_events.tsv")),
    (ARM, ARM, include_str!("arm_events.tsv")),
];
/// Its cores have names in place of family and model.
const ARM: &str = "Arm";

/// An event of the table of these cores.
struct Named<'a> {
    name: &'static str,
    terms: &'static str,
    /// The PMU of the cores that have it; of several kinds, that of the fastest.
    pmu: &'a str,
}

/// The event as `events::resolve` takes it: `cpu/event=0xd1,umask=0x20/`; of a hybrid without a name of its PMU, that of its
/// performance cores. `None` where the processor has no event of this name.
#[must_use]
pub fn written(name: &str, host: &Host, pmus: &[Pmu]) -> Option<String> {
    let (pmu, name) = match name.strip_suffix('/').and_then(|name| name.split_once('/')) {
        Some((pmu, name)) => (Some(pmu), name),
        None => (None, name),
    };
    let name = name.to_ascii_lowercase();
    let (_, all) = events(host, pmus, pmu)?;
    let found = all.filter(|event| event.name == name).max_by_key(|event| event.pmu)?;
    Some(format!("{}/{}/", found.pmu, found.terms))
}

/// Whose table has the events of these cores, and how many; `None` where there is none of them.
#[must_use]
pub fn known(host: &Host, pmus: &[Pmu]) -> Option<(&'static str, usize)> {
    let (maker, all) = events(host, pmus, None)?;
    let count = all.count();
    (count > 0).then_some((maker, count))
}

/// The maker, and its events for these cores; of a hybrid those of the kind with this PMU, else of all kinds.
fn events<'a>(
    host: &Host,
    pmus: &'a [Pmu],
    wanted: Option<&str>,
) -> Option<(&'static str, impl Iterator<Item = Named<'a>>)> {
    let (_, maker, text) = TABLES.iter().find(|(vendor, ..)| *vendor == host.vendor)?;
    let lines = || text.lines().filter(|line| !line.starts_with('#'));
    // The letter and the PMU of each kind of cores.
    let mut kinds: Vec<(&'static str, &'a str)> = Vec::new();
    for line in lines() {
        let fields: Vec<&'static str> = line.split('\t').collect();
        let ["processor", letter, models, own @ ..] = fields.as_slice() else { continue };
        let mut models = models.split(' ');
        let pmu = if host.vendor == ARM {
            models.next().and_then(|core| pmu_of_arm(core, host, pmus))
        } else {
            let is_here = models.any(|one| is_model(one, &host.family_model_stepping));
            is_here.then(|| own.first().copied().unwrap_or("cpu"))
        };
        let pmu = pmu.filter(|pmu| wanted.is_none_or(|wanted| wanted == *pmu));
        kinds.extend(pmu.map(|pmu| (*letter, pmu)));
    }
    let named = move |line: &'static str| {
        let (letters, event) = line.split_once('\t').filter(|(first, _)| *first != "processor")?;
        let (name, terms) = event.split_once('\t')?;
        let of = kinds.iter().filter(|(letter, _)| letters.contains(letter));
        // `cpu_core` is greater than `cpu_atom`, and `armv8_cortex_a76` than `armv8_cortex_a55`.
        let pmu = of.map(|(_, pmu)| *pmu).max()?;
        Some(Named { name, terms, pmu })
    };
    Some((maker, lines().filter_map(named)))
}

/// The PMU of Arm's cores with this name, where this machine has them. On machines that devicetree describes, it has the name of the
/// cores (`armv8_cortex_a76`), on others it is `armv8_pmuv3_0` (drivers/perf/arm_pmuv3.c, arm_pmu_acpi.c).
fn pmu_of_arm<'a>(core: &str, host: &Host, pmus: &'a [Pmu]) -> Option<&'a str> {
    let is_here = host.cpu.strip_prefix("Arm ") == Some(core)
        || host.core_types.iter().any(|(name, _)| name == core);
    let of_cores = pmus.iter().filter(|pmu| is_here && pmu.kind == PmuKind::Core);
    let of_cores: Vec<&str> = of_cores.map(|pmu| pmu.name.as_str()).collect();
    let written = format!("_{}", core.to_ascii_lowercase().replace('-', "_"));
    let named = of_cores.iter().find(|pmu| pmu.ends_with(&written));
    named.or(of_cores.first().filter(|_| host.core_types.is_empty())).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(vendor: &str, cpu: &str, model: &str, kinds: &[&str]) -> Host {
        Host {
            vendor: vendor.to_owned(),
            cpu: cpu.to_owned(),
            family_model_stepping: model.to_owned(),
            core_types: kinds.iter().map(|kind| ((*kind).to_owned(), 4)).collect(),
            ..Host::default()
        }
    }

    fn cores(name: &str) -> Pmu {
        Pmu {
            name: name.to_owned(),
            number: 8,
            kind: PmuKind::Core,
            cpus: None,
            fields: Vec::new(),
            events: Vec::new(),
            capabilities: Vec::new(),
        }
    }

    #[test]
    fn names_of_the_makers_tables_have_terms() {
        let of = |name: &str, cpu: &str| written(name, &host("GenuineIntel", "", cpu, &[]), &[]);
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
        let amd = host("AuthenticAMD", "", "25/1/1", &[]);
        assert_eq!(written("INST_RETIRED.ANY", &amd, &[]), None);
        assert_eq!(known(&host("Ampere", "", "8/0x0/1", &[]), &[]), None);
    }

    /// One event that all generations have, and some whose codes changed; a Zen 6 has other events than a Zen 5.
    #[test]
    fn names_of_amds_tables() {
        let of = |name: &str, cpu: &str| written(name, &host("AuthenticAMD", "", cpu, &[]), &[]);
        for cpu in ["23/1/2", "23/49/0", "25/33/0", "25/17/1", "25/144/0", "26/2/1", "26/112/0"] {
            assert_eq!(of("ex_ret_instr", cpu).as_deref(), Some("cpu/event=0xc0/"), "{cpu}");
        }
        assert_eq!(of("ex_ret_instr", "26/80/0"), None);
        let redirects = of("BP_REDIRECTS.RESYNC", "26/2/1");
        assert_eq!(redirects.as_deref(), Some("cpu/event=0x9f,umask=0x1/"));
        assert_eq!(of("bp_redirects.resync", "25/17/1"), None);
        let flushed = ["23/49/0", "25/1/1"].map(|cpu| of("all_tlbs_flushed", cpu));
        let expected = ["cpu/event=0x78,umask=0xdf/", "cpu/event=0x78,umask=0xff/"];
        assert_eq!(flushed.each_ref().map(|one| one.as_deref()), expected.map(Some));
        let zen_4 = host("AuthenticAMD", "", "25/17/1", &[]);
        assert_eq!(known(&zen_4, &[]), Some(("AMD", 336)));
    }

    /// A server whose PMU has the name of the architecture, and a machine with two kinds of cores.
    #[test]
    fn names_of_arms_tables() {
        let server = host("Arm", "Arm Neoverse-V2", "8/0x0/1", &[]);
        let pmus = [cores("armv8_pmuv3_0")];
        let of = |name: &str| written(name, &server, &pmus);
        let expected = Some("armv8_pmuv3_0/event=0x4005/".to_owned());
        assert_eq!(of("STALL_BACKEND_MEM"), expected);
        assert_eq!(of("armv8_pmuv3_0/stall_backend_mem/"), expected);
        assert_eq!((of("armv8_pmuv3_1/stall_backend_mem/"), of("INST_RETIRED.ANY")), (None, None));
        assert_eq!(written("STALL_BACKEND_MEM", &server, &[]), None);
        let phone = host("Arm", "Arm Cortex-A55", "8/0x2/0", &["Cortex-A55", "Cortex-A76"]);
        let pmus = [cores("armv8_cortex_a55"), cores("armv8_cortex_a76")];
        let of = |name: &str| written(name, &phone, &pmus);
        let fast = Some("armv8_cortex_a76/event=0x24/".to_owned());
        assert_eq!(of("STALL_BACKEND"), fast);
        let slow = of("armv8_cortex_a55/STALL_BACKEND/");
        assert_eq!(slow.as_deref(), Some("armv8_cortex_a55/event=0x24/"));
        // Only the slower kind has it.
        let slow = of("STALL_BACKEND_ILOCK_AGU");
        assert_eq!(slow.as_deref(), Some("armv8_cortex_a55/event=0xe5/"));
        // Without their names, it is not known which PMU is of which cores.
        let pmus = [cores("armv8_pmuv3_0"), cores("armv8_pmuv3_1")];
        assert_eq!(written("STALL_BACKEND", &phone, &pmus), None);
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
        let lines = TABLES.iter().flat_map(|(_, _, text)| text.lines());
        let head = |line: &&str| line.starts_with('#') || line.starts_with("processor\t");
        for line in lines.filter(|line| !head(line)) {
            assert_eq!(line.split('\t').count(), 3, "{line}");
            let terms = line.rsplit('\t').next().unwrap_or_default();
            for term in terms.split(',') {
                let field = term.split('=').next().unwrap_or_default();
                assert!(FIELDS.contains(&field), "{line}");
            }
        }
    }
}
