//! CPUs, cores, packages, core types: from `/sys/devices/system/cpu` and `/proc/cpuinfo`.

use std::collections::{BTreeMap, BTreeSet};

use base::CpuId;

use crate::arm::ArmCore;
use crate::snapshot::CPU_DIRECTORY;
use crate::{Snapshot, text};

/// What is known about the CPUs that are online.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Topology {
    /// Online, ascending.
    pub online: Vec<u32>,
    /// Cores, each as its online CPUs.
    pub cores: BTreeSet<Vec<u32>>,
    /// Packages, each as its online CPUs.
    pub packages: Vec<Vec<u32>>,
    /// Core types and the number of cores of each, on machines that have several.
    pub core_types: Vec<(String, u32)>,
}

/// A list file or, where the kernel is too old for it, the mask file of the same meaning.
pub(crate) fn cpus_of(
    snapshot: &Snapshot,
    list: &str,
    mask: &str,
    problems: &mut Vec<String>,
) -> Option<Vec<u32>> {
    let parsed = match (snapshot.read(list), snapshot.read(mask)) {
        (Some(content), _) => (list, text::number_list(content)),
        (None, Some(content)) => (mask, text::number_mask(content)),
        (None, None) => return None,
    };
    match parsed {
        (_, Ok(cpus)) => Some(cpus),
        (path, Err(error)) => {
            problems.push(format!("{path}: {error}"));
            None
        }
    }
}

/// The CPUs online: from `online`, else those with a directory, else those in `/proc/cpuinfo`.
fn online(snapshot: &Snapshot, problems: &mut Vec<String>) -> Vec<u32> {
    let path = format!("{CPU_DIRECTORY}/online");
    if let Some(cpus) = cpus_of(snapshot, &path, "", problems).filter(|cpus| !cpus.is_empty()) {
        return cpus;
    }
    let with_directory: BTreeSet<u32> = snapshot
        .names_below(CPU_DIRECTORY)
        .iter()
        .filter_map(|name| name.strip_prefix("cpu")?.parse().ok())
        .collect();
    if !with_directory.is_empty() {
        return with_directory.into_iter().collect();
    }
    let listed: Vec<u32> = processors(snapshot).into_keys().collect();
    problems.push(format!("{path} is missing: {} CPUs taken from /proc/cpuinfo", listed.len()));
    listed
}

/// The blocks of `/proc/cpuinfo`, by processor number.
pub(crate) fn processors(snapshot: &Snapshot) -> BTreeMap<u32, &str> {
    let cpuinfo = snapshot.read("/proc/cpuinfo").unwrap_or_default();
    cpuinfo
        .split("\n\n")
        .filter_map(|block| {
            let number = text::value_of(block, "processor")?.parse().ok()?;
            (number <= text::LARGEST_NUMBER).then_some((number, block))
        })
        .collect()
}

/// Reads the topology.
pub(crate) fn topology(snapshot: &Snapshot, problems: &mut Vec<String>) -> Topology {
    let online = online(snapshot, problems);
    let known: BTreeSet<u32> = online.iter().copied().collect();
    let mut cores = BTreeSet::new();
    let mut missing = 0;
    for cpu in &online {
        let directory = format!("{CPU_DIRECTORY}/cpu{cpu}/topology");
        let (list, mask) =
            (format!("{directory}/thread_siblings_list"), format!("{directory}/thread_siblings"));
        let siblings =
            cpus_of(snapshot, &list, &mask, problems).filter(|siblings| siblings.contains(cpu));
        missing += u32::from(siblings.is_none());
        let core = siblings.unwrap_or_else(|| vec![*cpu]);
        // Without CPUs that are offline, each CPU of a core gives the same set.
        cores.insert(core.into_iter().filter(|cpu| known.contains(cpu)).collect());
    }
    if missing > 0 {
        problems.push(format!(
            "{missing} of {} CPUs do not say which core they belong to: each is counted as a core",
            online.len()
        ));
    }
    let packages = packages(snapshot, &online, &cores, problems);
    let core_types = core_types(snapshot, &cores, problems);
    Topology { online, cores, packages, core_types }
}

/// Packages by id; by sibling lists where firmware gives no id (-1, seen on Arm and POWER).
fn packages(
    snapshot: &Snapshot,
    online: &[u32],
    cores: &BTreeSet<Vec<u32>>,
    problems: &mut Vec<String>,
) -> Vec<Vec<u32>> {
    let mut packages: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for cpu in online {
        let directory = format!("{CPU_DIRECTORY}/cpu{cpu}/topology");
        let id = snapshot
            .read(&format!("{directory}/physical_package_id"))
            .and_then(|id| id.trim().parse::<i64>().ok());
        let package = match id.filter(|id| *id >= 0) {
            Some(id) => format!("package {id}"),
            None => {
                let (list, mask) = (
                    format!("{directory}/core_siblings_list"),
                    format!("{directory}/core_siblings"),
                );
                match cpus_of(snapshot, &list, &mask, problems) {
                    // On POWER without package ids this is the core again: it says nothing.
                    Some(siblings) if !cores.contains(&siblings) => {
                        format!("siblings {siblings:?}")
                    }
                    _ => "unknown".to_owned(),
                }
            }
        };
        packages.entry(package).or_default().push(*cpu);
    }
    if packages.contains_key("unknown") {
        problems.push(
            "some CPUs do not say which package they belong to: counted as one package".to_owned(),
        );
    }
    packages.into_values().collect()
}

/// Hybrid machines: the kernel's own lists on x86 (`/sys/devices/cpu_core/cpus`, since Linux 5.13), different
/// part numbers on Arm.
fn core_types(
    snapshot: &Snapshot,
    cores: &BTreeSet<Vec<u32>>,
    problems: &mut Vec<String>,
) -> Vec<(String, u32)> {
    let count = |cpus: &BTreeSet<u32>| {
        cores.iter().filter(|core| core.iter().any(|cpu| cpus.contains(cpu))).count() as u32
    };
    let mut types = Vec::new();
    for (device, name) in
        [("cpu_core", "performance"), ("cpu_atom", "efficiency"), ("cpu_lowpower", "low-power")]
    {
        let path = format!("/sys/devices/{device}/cpus");
        let cpus: BTreeSet<u32> =
            cpus_of(snapshot, &path, "", problems).unwrap_or_default().into_iter().collect();
        let number = count(&cpus);
        if number > 0 {
            types.push((name.to_owned(), number));
        }
    }
    if types.len() > 1 {
        return types;
    }
    if snapshot.cpuid.is_hybrid() {
        problems.push("the CPU has cores of different types, but the kernel does not say which CPU is of which".to_owned());
    }
    let mut cores: BTreeMap<ArmCore, BTreeSet<u32>> = BTreeMap::new();
    for (cpu, block) in processors(snapshot) {
        if let Some(core) = arm_core(block) {
            cores.entry(core).or_default().insert(cpu);
        }
    }
    if cores.len() < 2 {
        return Vec::new();
    }
    cores.iter().map(|(core, cpus)| (core.name(), count(cpus))).collect()
}

/// Implementer and part code of a block of `/proc/cpuinfo` on Arm.
pub(crate) fn arm_core(block: &str) -> Option<ArmCore> {
    let hexadecimal =
        |key| u32::from_str_radix(text::value_of(block, key)?.strip_prefix("0x")?, 16).ok();
    Some(ArmCore { implementer: hexadecimal("CPU implementer")?, part: hexadecimal("CPU part")? })
}

/// The allowed CPUs in the order in which a measurement should fill them: one per core first, node after node,
/// then the cores' other threads. With t threads take the first t.
#[must_use]
pub fn placement(snapshot: &Snapshot, allowed: &[u32]) -> Vec<CpuId> {
    let mut ignored = Vec::new();
    let topology = topology(snapshot, &mut ignored);
    let allowed: BTreeSet<u32> = allowed.iter().copied().collect();
    let mut by_rank: BTreeSet<(usize, u32)> = BTreeSet::new();
    for core in &topology.cores {
        let usable = core.iter().filter(|cpu| allowed.contains(cpu));
        by_rank.extend(usable.enumerate().map(|(thread_of_core, cpu)| (thread_of_core, *cpu)));
    }
    let nodes = crate::memory::nodes(snapshot, &topology, &mut ignored);
    let node_of =
        |cpu: u32| nodes.iter().position(|node| node.cpus.contains(&cpu)).unwrap_or(usize::MAX);
    let mut order: Vec<(usize, usize, u32)> =
        by_rank.into_iter().map(|(rank, cpu)| (rank, node_of(cpu), cpu)).collect();
    order.sort_unstable();
    order.into_iter().map(|(.., cpu)| CpuId(cpu)).collect()
}
