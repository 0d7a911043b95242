//! From the snapshot to [`Host`].
//!
//! What not: collecting the snapshot (`snapshot`).

use facts::host::{CpuGroup, CpuPart, Host};

use crate::topology::{Topology, arm_core, cpus_of, processors, topology};
use crate::{Snapshot, caches, memory, modules, surroundings, text};

/// SIMD sets that the calibration knows, and their names in `/proc/cpuinfo`, worst first. The kernel lists a flag
/// only where it also saves the registers.
const SIMD_FLAGS: [(&str, &str); 6] = [
    ("sse2", "sse2"),
    ("avx2", "avx2"),
    ("fma", "fma"),
    ("avx512f", "avx512f"),
    ("asimd", "neon"),
    ("sve", "sve"),
];

/// Describes the machine of `snapshot`. The second value lists what was missing or made no sense, one sentence
/// each; the fields concerned are empty, zero or `None`.
#[must_use]
pub fn describe(snapshot: &Snapshot) -> (Host, Vec<String>) {
    let mut problems = Vec::new();
    let topology = topology(snapshot, &mut problems);
    let processors = processors(snapshot);
    let first = processors.values().next().copied().unwrap_or_default();
    let flags = text::value_of(first, "flags")
        .or_else(|| text::value_of(first, "Features"))
        .unwrap_or_default();
    let simd =
        SIMD_FLAGS.iter().filter(|(flag, _)| flags.split_whitespace().any(|word| word == *flag));
    let (memory_slots, memory_channels) = modules::slots(snapshot, &mut problems);
    let dax_devices = modules::dax_devices(snapshot);
    let numa_nodes = memory::nodes(snapshot, &topology, &mut problems);
    let (caches, of_caches) = caches::caches(snapshot, &topology, &mut problems);
    let host = Host {
        cpu: model(snapshot, first),
        vendor: vendor(snapshot, first),
        family_model_stepping: family_model_stepping(snapshot, first),
        architecture: snapshot.architecture.clone(),
        logical_cpus: topology.online.len() as u32,
        cores: topology.cores.len() as u32,
        sockets: topology.packages.len() as u32,
        core_types: topology.core_types.clone(),
        tsc_hz: tsc_hz(snapshot),
        tlb_entries: snapshot.cpuid.second_level_tlb(),
        caches,
        cpu_groups: cpu_groups(&topology, of_caches),
        memory_bytes: memory::total(snapshot, &mut problems),
        memory_slots,
        memory_channels,
        memory_tiers: modules::tiers(snapshot, &numa_nodes, &dax_devices),
        dax_devices,
        numa_nodes,
        huge_pages: memory::huge_pages(snapshot, &mut problems),
        page_bytes: snapshot.page_bytes,
        kernel: surroundings::kernel(snapshot),
        os: surroundings::os(snapshot),
        hypervisor: surroundings::hypervisor(snapshot),
        container: surroundings::container(snapshot),
        pmu: surroundings::pmu(snapshot),
        simd: simd.map(|(_, name)| (*name).to_owned()).collect(),
        cpu_quota: surroundings::cpu_quota(snapshot, &mut problems),
        allowed_cpus: allowed(snapshot, &topology, &mut problems),
    };
    problems.dedup();
    (host, problems)
}

fn cpu_groups(topology: &Topology, caches: Vec<(usize, Vec<u32>)>) -> Vec<CpuGroup> {
    let packages = topology.packages.iter().map(|cpus| (CpuPart::Package, cpus.clone()));
    let cores = topology.cores.iter().map(|cpus| (CpuPart::Core, cpus.clone()));
    let caches = caches.into_iter().map(|(at, cpus)| (CpuPart::Cache(at), cpus));
    packages.chain(cores).chain(caches).map(|(part, cpus)| CpuGroup { part, cpus }).collect()
}

fn model(snapshot: &Snapshot, first: &str) -> String {
    if let Some(core) = arm_core(first) {
        return format!("{} {}", core.implementer_name(), core.name());
    }
    // "cpu" is POWER's key.
    let named = text::value_of(first, "model name").or_else(|| text::value_of(first, "cpu"));
    let tidy = |name: &str| name.split_whitespace().collect::<Vec<_>>().join(" ");
    named.map(tidy).or_else(|| snapshot.cpuid.brand()).unwrap_or_default()
}

fn vendor(snapshot: &Snapshot, first: &str) -> String {
    if let Some(core) = arm_core(first) {
        return core.implementer_name();
    }
    let listed = text::value_of(first, "vendor_id").map(str::to_owned);
    listed.or_else(|| snapshot.cpuid.vendor()).unwrap_or_default()
}

fn family_model_stepping(snapshot: &Snapshot, first: &str) -> String {
    if let Some(signature) = snapshot.cpuid.signature() {
        return signature.to_string();
    }
    let keys =
        [["cpu family", "model", "stepping"], ["CPU architecture", "CPU variant", "CPU revision"]];
    let found = keys.iter().find_map(|keys| {
        let values: Option<Vec<&str>> = keys.iter().map(|key| text::value_of(first, key)).collect();
        values
    });
    found.unwrap_or_default().join("/")
}

/// Only an invariant counter has a rate. What CPUID states beats what was measured in a few milliseconds.
fn tsc_hz(snapshot: &Snapshot) -> Option<f64> {
    if !snapshot.cpuid.tsc_is_invariant() {
        return None;
    }
    snapshot.cpuid.tsc_hz().or(snapshot.measured_tsc_hz)
}

/// From `/proc/self/status`; all CPUs where that is missing.
fn allowed(snapshot: &Snapshot, topology: &Topology, problems: &mut Vec<String>) -> Vec<u32> {
    let status = snapshot.read("/proc/self/status").unwrap_or_default();
    let mut allowed = match text::value_of(status, "Cpus_allowed_list").map(text::number_list) {
        Some(Ok(cpus)) => cpus,
        Some(Err(error)) => {
            problems.push(format!("/proc/self/status, Cpus_allowed_list: {error}"));
            topology.online.clone()
        }
        None => {
            cpus_of(snapshot, "/sys/devices/system/cpu/online", "", problems).unwrap_or_default()
        }
    };
    // The list may name CPUs that do not exist (cpusets of virtual machines).
    allowed.retain(|cpu| topology.online.binary_search(cpu).is_ok());
    allowed
}
