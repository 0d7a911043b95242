//! The groups of events that `collect uarch-exploration` counts, and the events of which it takes samples; those next to bursts.
//!
//! What for: the table's events as this machine's PMU takes them, and notes on what it cannot count. What not: the table and the
//! tree (`analysis::uarch`), opening events (`collect::counting`).

use analysis::uarch::EventToCount;
use collect::counting::{Carried, Choice, SampleRate};
use facts::NoteSubject;
use facts::host::Host;
use machine::pmu::{Pmu, PmuKind};

use crate::knobs::choice;

/// Samples of an event a second, while it has a counter. Some ten events on four counters then take 800 samples a second on a CPU, of 2
/// to 3 µs each without a copied stack: 0.2 %, by arithmetic.
pub const SAMPLES: u64 = 199;
/// Arm SPE takes a sample of every so many operations: some 2,000 loads and stores a second of a fast core, of 2 to 3 µs of our time
/// each: 0.6 %, by arithmetic.
const OPERATIONS: u64 = 1 << 20;
/// Loads that take less are no samples, as in `perf mem`: most hit L1.
const LEAST_LATENCY: u32 = 30;
const NO_PMU: &str = "this machine has no PMU for its cores, so its events could not be counted; only time and \
                      stacks were recorded. A virtual machine has a PMU where its host lends it one";

/// Cycles and instructions, then the groups of the tree. What this machine cannot count is noted.
pub(super) fn groups(host: &Host, notes: &mut Vec<String>) -> Vec<Vec<Choice>> {
    let note = |text: String| NoteSubject::TopDown.note(text);
    let pmus = calibrate::counters().pmus;
    if !pmus.iter().any(|pmu| pmu.kind == PmuKind::Core) {
        notes.push(note(NO_PMU.to_owned()));
        return Vec::new();
    }
    let wanted = analysis::uarch::groups(host).unwrap_or_else(|why| {
        notes.push(note(format!("{why}; cycles, instructions, time and stacks were recorded")));
        Vec::new()
    });
    let mut without = Vec::new();
    let mut find = |name: &str, event: &str| {
        let found = choice(name, event, &pmus);
        if found.is_none() {
            without.push(name.to_owned());
        }
        found
    };
    let own = ["cycles", "instructions"].iter().filter_map(|name| find(name, name)).collect();
    let mut groups: Vec<Vec<Choice>> = vec![own];
    for group in wanted {
        let event = |one: &EventToCount| find(&one.full_name(), &written(one, &pmus));
        groups.push(group.iter().filter_map(event).collect());
    }
    let mut of_code = of_code(host, &pmus, &mut find);
    let keeps_branches = |pmu: &Pmu| pmu.capability("branches").is_some_and(|deep| deep > 0);
    if pmus.iter().any(|pmu| pmu.kind == PmuKind::Core && keeps_branches(pmu)) {
        let cycles = of_code.iter_mut().find(|choice| choice.name == "cycles");
        cycles.into_iter().for_each(|choice| choice.carries = Carried::Branches);
    }
    of_code.extend(accesses(&pmus, notes));
    groups.push(of_code);
    groups.retain(|group| !group.is_empty());
    if !without.is_empty() {
        let names = without.join(", ");
        notes.push(note(format!("this kernel describes no such event of its PMU: {names}")));
    }
    groups
}

/// The PMU of an event's cores. Arm's have the name of the architecture or design (drivers/perf/arm_pmuv3.c).
fn pmu_of<'a>(event: &EventToCount, pmus: &'a [Pmu]) -> Option<&'a str> {
    let named = pmus.iter().find(|pmu| pmu.name == event.pmu);
    let of_arm = |pmu: &&Pmu| {
        event.pmu == "cpu" && pmu.kind == PmuKind::Core && pmu.name.starts_with("armv")
    };
    named.or_else(|| pmus.iter().find(of_arm)).map(|pmu| pmu.name.as_str())
}

fn written(event: &EventToCount, pmus: &[Pmu]) -> String {
    format!("{}/{}/", pmu_of(event, pmus).unwrap_or(event.pmu), event.terms)
}

/// What bursts are compared with: clocks, retired loads and stores, loads by level, and sampled accesses; and page walks. Nothing without a PMU.
pub(super) fn next_to_bursts(
    host: &Host,
    pmus: &[Pmu],
    notes: &mut Vec<String>,
) -> Vec<Vec<Choice>> {
    if !pmus.iter().any(|pmu| pmu.kind == PmuKind::Core) {
        return Vec::new();
    }
    let clocks = ["cycles", "ref-cycles"].iter().filter_map(|name| choice(name, name, pmus));
    let mut groups: Vec<Vec<Choice>> = vec![clocks.collect()];
    for group in analysis::cross_check::events(host) {
        let event = |one: &EventToCount| choice(&one.full_name(), &written(one, pmus), pmus);
        groups.push(group.iter().filter_map(event).collect());
    }
    groups.push(accesses(pmus, notes));
    groups.retain(|group| !group.is_empty());
    groups
}

/// Cycles, instructions and the events of the tree's first levels, as events that take samples.
fn of_code(
    host: &Host,
    pmus: &[Pmu],
    find: &mut impl FnMut(&str, &str) -> Option<Choice>,
) -> Vec<Choice> {
    let events = analysis::uarch::events_of_code(host).unwrap_or_default();
    let own = ["cycles", "instructions"].map(|name| (name.to_owned(), name.to_owned()));
    let of_tree = events.iter().map(|one| (one.full_name(), written(one, pmus)));
    // The kernel's names count one kind of cores; `inst_retired.any` and its like are not in the first levels of all trees.
    let efficient = events.iter().any(|one| one.pmu == "cpu_atom");
    let of_others = [
        ("cpu_atom/cycles/", "cpu_atom/event=0x3c/"),
        ("cpu_atom/instructions/", "cpu_atom/event=0xc0/"),
    ];
    let of_others = of_others.into_iter().filter(|_| efficient);
    let of_others = of_others.map(|(name, event)| (name.to_owned(), event.to_owned()));
    let sampled = Some(SampleRate::Hertz(SAMPLES));
    own.into_iter()
        .chain(of_others)
        .chain(of_tree)
        .filter_map(|(name, event)| find(&name, &event))
        .map(|choice| Choice { sampled, ..choice })
        .collect()
}

/// How many events take samples of accesses at the rate of [`SAMPLES`].
pub fn sampled_accesses(pmus: &[Pmu]) -> usize {
    let at_rate = |one: &&Choice| matches!(one.sampled, Some(SampleRate::Hertz(_)));
    accesses(pmus, &mut Vec::new()).iter().filter(at_rate).count()
}

/// Loads with their latency and stores (PEBS, SPE), or operations (IBS): accesses with address and source, as the kernel names them.
fn accesses(pmus: &[Pmu], notes: &mut Vec<String>) -> Vec<Choice> {
    let mut found = Vec::new();
    for pmu in pmus.iter().filter(|pmu| pmu.kind == PmuKind::Core && pmu.has_field("ldlat")) {
        let terms = |name: &str| -> Option<String> {
            let event = pmu.events.iter().find(|event| event.name == name)?;
            let terms = event.terms.iter().filter(|(term, _)| term != "ldlat");
            let terms = terms.map(|(term, value)| Some(format!("{term}={:#x}", (*value)?)));
            terms.collect::<Option<Vec<String>>>().map(|terms| terms.join(","))
        };
        let resolved = |terms: &str| choice("", &format!("{}/{terms}/", pmu.name), pmus);
        let leader =
            terms("mem-loads-aux").and_then(|terms| resolved(&terms)).map(|one| one.config[0]);
        let loads = terms("mem-loads").map(|terms| format!("{terms},ldlat={LEAST_LATENCY}"));
        for (name, terms, leader) in
            [("mem-loads", loads, leader), ("mem-stores", terms("mem-stores"), None)]
        {
            let least =
                if name == "mem-loads" { format!(",ldlat={LEAST_LATENCY}") } else { String::new() };
            let name = format!("{}/{name}{least}/", pmu.name);
            let carries = Carried::Access { leader };
            found.extend(terms.and_then(|terms| resolved(&terms)).map(|one| Choice {
                name,
                carries,
                ..one
            }));
        }
    }
    if let Some(ibs) = pmus.iter().find(|pmu| pmu.name == "ibs_op" && pmu.has_field("cnt_ctl")) {
        let name = "ibs_op/cnt_ctl=1/";
        let operations = choice(name, &format!("{}/cnt_ctl=1/", ibs.name), pmus);
        found.extend(operations.map(|one| Choice { carries: Carried::IbsAccess, ..one }));
    }
    for loads in found.iter().filter(|choice| choice.name.contains("ldlat")) {
        notes.push(NoteSubject::SampledLoads.note(format!(
            "{} has only loads that took {LEAST_LATENCY} cycles or more: shares and latencies are of these",
            loads.name
        )));
    }
    let sampled = Some(SampleRate::Hertz(SAMPLES));
    found.iter_mut().for_each(|choice| choice.sampled = sampled);
    // Cores of different kinds have one each.
    for spe in pmus.iter().filter(|pmu| pmu.kind == PmuKind::Spe) {
        let terms = "ts_enable=1,jitter=1,load_filter=1,store_filter=1";
        let operations = choice("", &format!("{}/{terms}/", spe.name), pmus);
        found.extend(operations.map(|one| Choice {
            name: format!("{}/load_filter=1,store_filter=1/", spe.name),
            carries: Carried::SpeAccess,
            sampled: Some(SampleRate::Period(OPERATIONS)),
            ..one
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use machine::pmu::{Bits, Field, PmuEvent};

    use super::*;

    fn field(name: &str, word: u8, first: u8, last: u8) -> Field {
        Field { name: name.to_owned(), bits: vec![Bits { word, first, last }] }
    }

    fn event(name: &str, terms: &[(&str, u64)]) -> PmuEvent {
        let terms = terms.iter().map(|(term, value)| ((*term).to_owned(), Some(*value))).collect();
        PmuEvent { name: name.to_owned(), terms, scale: None, unit: None }
    }

    fn pmu(
        name: &str,
        number: u32,
        kind: PmuKind,
        fields: Vec<Field>,
        events: Vec<PmuEvent>,
    ) -> Pmu {
        Pmu {
            name: name.to_owned(),
            number,
            kind,
            cpus: None,
            fields,
            events,
            capabilities: Vec::new(),
        }
    }

    /// Events as a Sapphire Rapids and a Zen 4 show them in sysfs.
    #[test]
    fn accesses_are_sampled_as_the_kernel_names_them() {
        let fields = vec![
            field("event", 0, 0, 7),
            field("umask", 0, 8, 15),
            field("cmask", 0, 24, 31),
            field("ldlat", 1, 0, 15),
        ];
        let events = vec![
            event("mem-loads", &[("event", 0xcd), ("umask", 1), ("ldlat", 3)]),
            event("mem-loads-aux", &[("event", 0x3), ("umask", 0x82)]),
            event("mem-stores", &[("event", 0xcd), ("umask", 2)]),
        ];
        let core = pmu("cpu", 4, PmuKind::Core, fields, events);
        let shown = |pmus: &[Pmu]| -> Vec<(String, [u64; 3], Carried)> {
            accesses(pmus, &mut Vec::new())
                .into_iter()
                .map(|one| (one.name, one.config, one.carries))
                .collect()
        };
        let loads = Carried::Access { leader: Some(0x8203) };
        let expected = [
            ("cpu/mem-loads,ldlat=30/".to_owned(), [0x1cd, 30, 0], loads),
            ("cpu/mem-stores/".to_owned(), [0x2cd, 0, 0], Carried::Access { leader: None }),
        ];
        assert_eq!(shown(std::slice::from_ref(&core)), expected);
        let ibs = pmu("ibs_op", 11, PmuKind::Ibs, vec![field("cnt_ctl", 0, 19, 19)], Vec::new());
        let expected = [("ibs_op/cnt_ctl=1/".to_owned(), [1 << 19, 0, 0], Carried::IbsAccess)];
        assert_eq!(shown(&[ibs]), expected);
        let fields = vec![
            field("ts_enable", 0, 0, 0),
            field("jitter", 0, 16, 16),
            field("load_filter", 0, 33, 33),
            field("store_filter", 0, 34, 34),
        ];
        let spe = pmu("arm_spe_0", 9, PmuKind::Spe, fields, Vec::new());
        let expected = [(
            "arm_spe_0/load_filter=1,store_filter=1/".to_owned(),
            [3 << 33 | 1 << 16 | 1, 0, 0],
            Carried::SpeAccess,
        )];
        assert_eq!(shown(&[spe]), expected);
        assert_eq!(shown(&[]), []);
        let host = Host {
            vendor: "GenuineIntel".to_owned(),
            family_model_stepping: "6/143/8".to_owned(),
            ..Host::default()
        };
        let arm = vec![field("event", 0, 0, 15)];
        let arm = [pmu("armv8_pmuv3_0", 8, PmuKind::Core, arm, Vec::new())];
        let slots = EventToCount { name: "stall_slot", terms: "event=0x3f", pmu: "cpu" };
        assert_eq!(written(&slots, &arm), "armv8_pmuv3_0/event=0x3f/");
        assert_eq!(choice("", &written(&slots, &arm), &arm).map(|one| one.config[0]), Some(0x3f));
        // By devicetree the PMU has the name of its cores, from Armv9 on with another beginning.
        let of_n2 = [pmu("armv9_neoverse_n2", 8, PmuKind::Core, Vec::new(), Vec::new())];
        assert_eq!(written(&slots, &of_n2), "armv9_neoverse_n2/event=0x3f/");
        let mut notes = Vec::new();
        let groups: Vec<Vec<String>> = next_to_bursts(&host, &[core], &mut notes)
            .into_iter()
            .map(|group| group.into_iter().map(|one| one.name).collect())
            .collect();
        let expected: [&[&str]; 5] = [
            &["cycles", "ref-cycles"],
            &["mem_inst_retired.all_loads", "mem_inst_retired.all_stores"],
            &["mem_load_retired.l2_hit", "mem_load_retired.l3_hit", "mem_load_retired.l3_miss"],
            &["dtlb_load_misses.walk_active", "dtlb_store_misses.walk_active"],
            &["cpu/mem-loads,ldlat=30/", "cpu/mem-stores/"],
        ];
        assert_eq!(groups, expected.map(<[&str]>::to_vec));
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(next_to_bursts(&host, &[], &mut notes).is_empty());
    }
}
