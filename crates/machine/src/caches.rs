//! Caches: from `/sys/devices/system/cpu/cpu*/cache`, or from CPUID if that is missing.
//!
//! What not: what a program really gets of them (`ladder`). Source: the kernel's
//! `Documentation/ABI/testing/sysfs-devices-system-cpu` ("index*").

use std::collections::{BTreeMap, BTreeSet};

use facts::host::{Cache, CacheKind};

use crate::snapshot::CPU_DIRECTORY;
use crate::topology::{Topology, cpus_of};
use crate::{Snapshot, text};

/// One physical cache.
struct Instance {
    level: u32,
    kind: CacheKind,
    bytes: u64,
    line_bytes: u32,
    ways: Option<u32>,
}

/// All kinds of caches, nearest first; instances that are alike are one row. With the position of its row, the CPUs of each instance.
pub(crate) fn caches(
    snapshot: &Snapshot,
    topology: &Topology,
    problems: &mut Vec<String>,
) -> (Vec<Cache>, Vec<(usize, Vec<u32>)>) {
    let online: BTreeSet<u32> = topology.online.iter().copied().collect();
    // An instance is known by level, kind and the CPUs that share it.
    let mut instances: BTreeMap<(u32, u8, Vec<u32>), Instance> = BTreeMap::new();
    for cpu in &topology.online {
        for index in 0..16 {
            let directory = format!("{CPU_DIRECTORY}/cpu{cpu}/cache/index{index}");
            let Some(instance) = instance(snapshot, &directory, problems) else { continue };
            let (list, mask) =
                (format!("{directory}/shared_cpu_list"), format!("{directory}/shared_cpu_map"));
            let mut sharers =
                cpus_of(snapshot, &list, &mask, problems).unwrap_or_else(|| vec![*cpu]);
            sharers.retain(|cpu| online.contains(cpu));
            if sharers.is_empty() {
                sharers.push(*cpu);
            }
            instances.entry((instance.level, rank(instance.kind), sharers)).or_insert(instance);
        }
    }
    if instances.is_empty() {
        return (from_cpuid(snapshot, topology, problems), Vec::new());
    }
    let mut rows: Vec<(Cache, Vec<Vec<u32>>)> = Vec::new();
    for ((.., sharers), instance) in instances {
        let shared_by = sharers.len() as u32;
        let Instance { level, kind, bytes, line_bytes, ways } = instance;
        let row = Cache { level, kind, bytes, line_bytes, ways, shared_by, instances: 1 };
        match rows.iter_mut().find(|(known, _)| Cache { instances: 1, ..known.clone() } == row) {
            Some((known, cpus)) => {
                known.instances += 1;
                cpus.push(sharers);
            }
            None => rows.push((row, vec![sharers])),
        }
    }
    rows.sort_by_key(|(row, _)| (row.level, rank(row.kind), std::cmp::Reverse(row.bytes)));
    let (rows, cpus): (Vec<Cache>, Vec<Vec<Vec<u32>>>) = rows.into_iter().unzip();
    let groups = cpus.into_iter().enumerate();
    (rows, groups.flat_map(|(row, all)| all.into_iter().map(move |cpus| (row, cpus))).collect())
}

/// Order of kinds in tables.
fn rank(kind: CacheKind) -> u8 {
    match kind {
        CacheKind::Data => 0,
        CacheKind::Instruction => 1,
        CacheKind::Unified => 2,
    }
}

/// One `index*` directory; `None` when it is not there, belongs to an instance already read through another CPU,
/// or makes no sense (named in `problems`).
fn instance(snapshot: &Snapshot, directory: &str, problems: &mut Vec<String>) -> Option<Instance> {
    let file = |name: &str| snapshot.read(&format!("{directory}/{name}")).map(str::trim);
    let size = file("size")?;
    let parsed = (|| {
        let kind = match file("type")? {
            "Data" => CacheKind::Data,
            "Instruction" => CacheKind::Instruction,
            "Unified" => CacheKind::Unified,
            _ => return None,
        };
        let level = file("level")?.parse().ok().filter(|level| (1..=8).contains(level))?;
        let bytes = text::size(size).ok().filter(|bytes| *bytes > 0)?;
        // Absent on some Arm and POWER machines; every CPU that we know of with caches in sysfs has 64 or 128.
        let line_bytes =
            file("coherency_line_size").and_then(|line| line.parse().ok()).unwrap_or(0);
        let ways = file("ways_of_associativity")
            .and_then(|ways| ways.parse().ok())
            .filter(|ways| *ways > 0);
        Some(Instance { level, kind, bytes, line_bytes, ways })
    })();
    if parsed.is_none() {
        problems.push(format!(
            "{directory} describes no cache that makes sense (size \"{size}\"): left out"
        ));
    }
    parsed
}

/// The CPU's own description, where the kernel gives none (gVisor, some virtual machines).
fn from_cpuid(snapshot: &Snapshot, topology: &Topology, problems: &mut Vec<String>) -> Vec<Cache> {
    let cpus = topology.online.len().max(1) as u32;
    let mut caches = snapshot.cpuid.caches();
    for cache in &mut caches {
        cache.shared_by = cache.shared_by.min(cpus);
        cache.instances = cpus.div_ceil(cache.shared_by);
    }
    problems.push(match caches.len() {
        0 => "neither the kernel nor the CPU describes any cache".to_owned(),
        _ => "the kernel describes no caches: taken from CPUID, whose sharing is an upper bound"
            .to_owned(),
    });
    caches
}
