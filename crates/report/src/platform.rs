//! `platform`: the machine as boxes in boxes, and for each level of memory what it was measured to give and what the run took of it.
//!
//! What for: the page draws it, and `fathom machine --format svg` the boxes (`platform_svg`). What not: a view of the command line.
//! Assumption: a host comes from a file and may be damaged; CPUs that are in no box, and sets that overlap, are reported, not guessed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use analysis::memory::{Bands, Limit, Memory};
use facts::Metric;
use facts::host::{CacheKind, Calibration, CpuPart, Host, NodePair};
use serde::Serialize;

use crate::Prepared;
use crate::json::tidy;

/// More CPUs than the largest machines have: then the file is damaged.
const MOST_CPUS: usize = 16384;

#[derive(Serialize)]
struct PlatformDocument {
    view: &'static str,
    result: String,
    cpu: String,
    logical_cpus: u32,
    cores: u32,
    sockets: u32,
    boxes: Vec<PlatformBox>,
    distances: Vec<NodeDistances>,
    /// Measured latency of loads from the memory of each node.
    node_pairs: Vec<NodePair>,
    levels: Vec<PlatformLevel>,
    notes: Vec<String>,
}

/// CPUs that have something in common, and what that is.
#[derive(Serialize, Default, Debug, PartialEq)]
pub(crate) struct PlatformBox {
    pub(crate) cpus: Vec<u32>,
    pub(crate) package: bool,
    pub(crate) core: bool,
    pub(crate) node: Option<u32>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) caches: Vec<PlatformCache>,
    pub(crate) inside: Vec<PlatformBox>,
}

#[derive(Serialize, Debug, PartialEq)]
pub(crate) struct PlatformCache {
    pub(crate) level: u32,
    pub(crate) kind: CacheKind,
    pub(crate) bytes: u64,
}

#[derive(Serialize)]
struct NodeDistances {
    node: u32,
    to: Vec<u32>,
}

/// A level of memory: what it was measured to give, and what the run took.
#[derive(Serialize)]
struct PlatformLevel {
    name: String,
    /// Up to which size it is this level that answers.
    measured_bytes: Metric,
    latency: Metric,
    /// GB/s that one thread, and all, get from it: the roofs of the roofline.
    one_thread: Metric,
    all_threads: Metric,
    /// The kernel that these were measured with: it reads and writes as the run does.
    like: Option<String>,
    /// Share of the run's loads that hit in it, percent.
    loads: Metric,
    /// GB/s of the run.
    rate: Metric,
    read: Metric,
    written: Metric,
    /// Bandwidth that the run's number of threads can reach, GB/s, and the run's share of it, percent.
    reachable: Metric,
    of_reachable: Metric,
}

/// The document as JSON on one line.
#[must_use]
pub fn platform(prepared: &Prepared<'_>, result: &str) -> String {
    let run = &prepared.recording().run;
    let host = &run.host;
    let mut notes = Vec::new();
    let boxes = boxes(host, &mut notes);
    if run.calibration.is_none() {
        notes.push(
            "The capabilities of this machine were not measured: `fathom machine` measures them."
                .to_owned(),
        );
    }
    notes.extend(prepared.profile.machine.as_ref().and_then(|then| then.note.clone()));
    let several = host.numa_nodes.len() > 1;
    let distances = host.numa_nodes.iter().filter(|_| several);
    let document = PlatformDocument {
        view: "platform",
        result: result.to_owned(),
        cpu: host.cpu.clone(),
        logical_cpus: host.logical_cpus,
        cores: host.cores,
        sockets: host.sockets,
        boxes,
        distances: distances
            .map(|node| NodeDistances { node: node.id, to: node.distances.clone() })
            .collect(),
        node_pairs: run.calibration.as_ref().map_or(Vec::new(), |found| found.node_pairs.clone()),
        levels: levels(host, prepared.profile.calibration(), &prepared.memory()),
        notes,
    };
    // Only maps with keys that are not text can fail to serialise, and there are none.
    serde_json::to_string(&document).unwrap_or_default()
}

/// Sets of CPUs within each other, the largest outside. Equal sets are one box.
pub(crate) fn boxes(host: &Host, notes: &mut Vec<String>) -> Vec<PlatformBox> {
    let mut sets: BTreeMap<Vec<u32>, PlatformBox> = BTreeMap::new();
    let (mut memory_only, mut doubled) = (Vec::new(), 0);
    for node in &host.numa_nodes {
        let (id, memory) = (Some(node.id), Some(node.memory_bytes));
        match sorted(&node.cpus) {
            cpus if cpus.is_empty() => memory_only.push(PlatformBox {
                node: id,
                memory_bytes: memory,
                ..PlatformBox::default()
            }),
            cpus => {
                let of = sets.entry(cpus).or_default();
                // Firmware has said of eight nodes that each has all CPUs.
                match of.node {
                    None => (of.node, of.memory_bytes) = (id, memory),
                    Some(_) => doubled += 1,
                }
            }
        }
    }
    let mut groups: Vec<(CpuPart, Vec<u32>)> =
        host.cpu_groups.iter().map(|group| (group.part, sorted(&group.cpus))).collect();
    if groups.is_empty() {
        groups = from_counts(host);
        if !groups.is_empty() {
            notes.push("It was not recorded which CPUs share what: equal parts are drawn, as many as were counted.".to_owned());
        }
    }
    for (part, cpus) in groups.into_iter().filter(|(_, cpus)| !cpus.is_empty()) {
        let of = sets.entry(cpus).or_default();
        match part {
            CpuPart::Package => of.package = true,
            CpuPart::Core => of.core = true,
            CpuPart::Cache(at) => of.caches.extend(host.caches.get(at).map(|cache| {
                PlatformCache { level: cache.level, kind: cache.kind, bytes: cache.bytes }
            })),
        }
    }
    // A CPU of which nobody says the core is drawn as one.
    let in_cores: BTreeSet<u32> =
        sets.iter().filter(|(_, of)| of.core).flat_map(|(cpus, _)| cpus.iter().copied()).collect();
    let of_nodes = host.numa_nodes.iter().flat_map(|node| &node.cpus);
    let alone = of_nodes.filter(|cpu| !in_cores.contains(cpu)).take(MOST_CPUS);
    for cpu in alone.copied().collect::<Vec<u32>>() {
        sets.entry(vec![cpu]).or_default().core = true;
    }
    let (mut boxes, crossing) = nested(sets);
    boxes.iter_mut().for_each(set_core_apart);
    let crossing = crossing + doubled;
    if crossing > 0 {
        notes.push(format!("{crossing} sets of CPUs overlap or repeat others and are left out: the description of this machine contradicts itself."));
    }
    boxes.extend(memory_only);
    boxes
}

/// A core that is all of a package or a node stands in it, with its nearest caches.
fn set_core_apart(of: &mut PlatformBox) {
    if of.core && (of.package || of.node.is_some()) {
        let (near, far) =
            std::mem::take(&mut of.caches).into_iter().partition(|cache| cache.level < 3);
        let inside = std::mem::take(&mut of.inside);
        let core = PlatformBox {
            cpus: of.cpus.clone(),
            core: true,
            caches: near,
            inside,
            ..PlatformBox::default()
        };
        (of.core, of.caches, of.inside) = (false, far, vec![core]);
    } else {
        of.inside.iter_mut().for_each(set_core_apart);
    }
}

fn sorted(cpus: &[u32]) -> Vec<u32> {
    let mut cpus: Vec<u32> = cpus.iter().copied().take(MOST_CPUS).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Boxes within boxes, and how many sets were neither within another nor apart from it.
fn nested(sets: BTreeMap<Vec<u32>, PlatformBox>) -> (Vec<PlatformBox>, usize) {
    let mut sets: Vec<(Vec<u32>, PlatformBox)> = sets.into_iter().collect();
    sets.sort_by_key(|(cpus, _)| std::cmp::Reverse(cpus.len()));
    // The innermost box so far of each CPU. Larger sets come first, so a set whose CPUs agree on it is within it.
    let mut innermost: HashMap<u32, usize> = HashMap::new();
    let mut placed: Vec<(Option<usize>, PlatformBox)> = Vec::new();
    let mut crossing = 0;
    for (cpus, mut of) in sets {
        let parent = cpus.first().and_then(|cpu| innermost.get(cpu).copied());
        if cpus.iter().any(|cpu| innermost.get(cpu).copied() != parent) {
            crossing += 1;
            continue;
        }
        innermost.extend(cpus.iter().map(|cpu| (*cpu, placed.len())));
        of.caches.sort_by_key(|cache| std::cmp::Reverse(cache.level));
        placed.push((parent, PlatformBox { cpus, ..of }));
    }
    let mut roots = Vec::new();
    while let Some((parent, mut of)) = placed.pop() {
        of.inside.sort_by_key(|one| one.cpus.first().copied());
        match parent.and_then(|parent| placed.get_mut(parent)) {
            Some((_, parent)) => parent.inside.push(of),
            None => roots.push(of),
        }
    }
    roots.sort_by_key(|one| one.cpus.first().copied());
    (roots, crossing)
}

/// Results of earlier versions have only numbers of cores and caches: as many equal parts of the CPUs, node after node.
fn from_counts(host: &Host) -> Vec<(CpuPart, Vec<u32>)> {
    let of_nodes = host.numa_nodes.iter().flat_map(|node| node.cpus.iter().copied());
    let mut cpus: Vec<u32> = of_nodes.collect();
    let all = host.logical_cpus as usize;
    if all > MOST_CPUS {
        return Vec::new();
    }
    if cpus.len() != all {
        cpus = (0..host.logical_cpus).collect();
    }
    let equal = |part: CpuPart, count: usize| {
        let size = if count > 0 && all.is_multiple_of(count) { all / count } else { 0 };
        cpus.chunks(size.max(1))
            .filter(move |_| size > 0)
            .map(move |part_of| (part, sorted(part_of)))
    };
    let mut groups: Vec<(CpuPart, Vec<u32>)> =
        equal(CpuPart::Package, host.sockets as usize).collect();
    groups.extend(equal(CpuPart::Core, host.cores as usize));
    for (at, cache) in host.caches.iter().enumerate() {
        let alike =
            host.caches.iter().filter(|one| (one.level, one.kind) == (cache.level, cache.kind));
        let whole = (cache.instances as usize).checked_mul(cache.shared_by as usize) == Some(all);
        if whole && alike.count() == 1 {
            groups.extend(equal(CpuPart::Cache(at), cache.instances as usize));
        }
    }
    groups
}

/// Caches from the nearest on, then memory.
fn levels(
    host: &Host,
    calibration: Option<&Calibration>,
    memory: &Memory<'_>,
) -> Vec<PlatformLevel> {
    let not_measured = |unit| {
        let why = match calibration {
            Some(_) => "not measured on this machine",
            None => "this machine was not measured: run `fathom machine`",
        };
        Metric::unavailable(unit, why)
    };
    let mut numbers: Vec<u32> = host.caches.iter().map(|cache| cache.level).collect();
    let effective = calibration.map_or(&[][..], |found| &found.effective_caches);
    numbers.extend(effective.iter().map(|cache| cache.level));
    numbers.sort_unstable();
    numbers.dedup();
    numbers.retain(|level| (1..=4).contains(level));
    let shares = memory.all_levels();
    let rates = memory.level_rates();
    let roofs = memory.roofs();
    let gives = |limit: Limit| {
        let mut of: Vec<_> = roofs.iter().filter(|roof| roof.limit == limit).collect();
        of.sort_by_key(|roof| roof.threads);
        let rate = |roof: Option<&&analysis::memory::Roof>| {
            roof.map_or_else(|| not_measured("GB/s"), |roof| tidy(roof.rate.clone()))
        };
        let like = of.last().and_then(|roof| roof.like.clone());
        (rate(of.first()), rate(of.last()), like)
    };
    let mut found: Vec<PlatformLevel> = numbers
        .into_iter()
        .map(|level| {
            let measured = effective.iter().find(|cache| cache.level == level);
            let (one_thread, all_threads, like) = gives(Limit::Level(level));
            let loads = match level {
                1 => shares.l1.clone(),
                2 => shares.l2.clone(),
                3 => shares.l3.clone(),
                _ => Metric::unavailable("percent", "the model has three levels of cache"),
            };
            let run = rates.iter().find(|one| one.level == level);
            let why = "of this level only the share of loads is estimated";
            let none = |unit| Metric::unavailable(unit, why);
            PlatformLevel {
                name: format!("L{level}"),
                measured_bytes: measured
                    .map_or_else(|| not_measured("bytes"), |cache| cache.bytes.clone()),
                latency: measured.map_or_else(|| not_measured("ns"), |cache| cache.latency.clone()),
                one_thread,
                all_threads,
                like,
                loads: tidy(loads),
                rate: run.map_or_else(|| none("GB/s"), |one| tidy(one.rate.clone())),
                read: none("GB/s"),
                written: none("GB/s"),
                reachable: run.map_or_else(|| none("GB/s"), |one| tidy(one.reachable.clone())),
                of_reachable: run
                    .map_or_else(|| none("percent"), |one| tidy(Metric::clone(&one.of_reachable))),
            }
        })
        .collect();
    let traffic = memory.bandwidth(Bands::default());
    let of_traffic = |part: fn(&analysis::memory::Bandwidth) -> &Metric| match &traffic {
        Ok(found) => tidy(part(found).clone()),
        Err(why) => Metric::unavailable("GB/s", why),
    };
    let (one_thread, all_threads, like) = gives(Limit::Dram);
    found.push(PlatformLevel {
        name: "DRAM".to_owned(),
        measured_bytes: Metric::unavailable("bytes", "memory has no measured size"),
        latency: calibration
            .and_then(|found| found.dram_latency.clone())
            .unwrap_or_else(|| not_measured("ns")),
        one_thread,
        all_threads,
        like,
        loads: tidy(shares.dram),
        rate: of_traffic(|found| &found.average),
        read: of_traffic(|found| &found.read),
        written: of_traffic(|found| &found.write),
        // Too few bursts tell neither the mix of reads and writes nor what of it was used: not 0.
        reachable: traffic
            .as_ref()
            .map_or_else(|why| Metric::unavailable("GB/s", why), |_| tidy(memory.reach())),
        of_reachable: traffic.as_ref().map_or_else(
            |why| Metric::unavailable("percent", why),
            |_| tidy(Metric::clone(&memory.of_reach())),
        ),
    });
    found
}

#[cfg(test)]
mod tests {
    use facts::host::{CpuGroup, NumaNode};

    use super::*;

    /// `node 0[core[0,1] core[2,3]]`
    fn shown(boxes: &[PlatformBox]) -> String {
        let one = |of: &PlatformBox| {
            let node = of.node.map(|id| format!("node {id}"));
            let parts = [
                of.package.then(|| "package".to_owned()),
                node,
                of.core.then(|| "core".to_owned()),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            let inside = match of.inside.as_slice() {
                [] => of.cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
                inside => shown(inside),
            };
            format!("{}[{inside}]", parts.join("+"))
        };
        boxes.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn host(nodes: &[&[u32]], groups: &[(CpuPart, &[u32])]) -> Host {
        let node = |(id, cpus): (usize, &&[u32])| NumaNode {
            id: id as u32,
            cpus: cpus.to_vec(),
            memory_bytes: 1 << 30,
            distances: Vec::new(),
        };
        let group =
            |(part, cpus): &(CpuPart, &[u32])| CpuGroup { part: *part, cpus: cpus.to_vec() };
        Host {
            numa_nodes: nodes.iter().enumerate().map(node).collect(),
            cpu_groups: groups.iter().map(group).collect(),
            ..Host::default()
        }
    }

    fn drawn(host: &Host) -> (String, usize) {
        let mut notes = Vec::new();
        let boxes = boxes(host, &mut notes);
        (shown(&boxes), notes.len())
    }

    #[test]
    fn what_holds_the_cpus_of_another_is_around_it() {
        use CpuPart::{Core, Package};
        let two = host(
            &[&[0, 2], &[1, 3], &[]],
            &[(Package, &[0, 2]), (Package, &[1, 3]), (Core, &[0, 2]), (Core, &[1, 3])],
        );
        assert_eq!(
            drawn(&two),
            ("package+node 0[core[0,2]] package+node 1[core[1,3]] node 2[]".into(), 0)
        );
        let clusters = host(&[&[0], &[1]], &[(Package, &[1, 0])]);
        assert_eq!(drawn(&clusters), ("package[node 0[core[0]] node 1[core[1]]]".into(), 0));
    }

    #[test]
    fn a_description_that_contradicts_itself_is_reported() {
        let crossing =
            host(&[&[0, 1, 2, 3]], &[(CpuPart::Package, &[2, 3, 4]), (CpuPart::Cache(7), &[0])]);
        let (boxes, notes) = drawn(&crossing);
        assert_eq!((boxes.as_str(), notes), ("node 0[core[0] core[1] core[2] core[3]]", 1));
        let doubled = host(&[&[0], &[0]], &[(CpuPart::Core, &[0])]);
        assert_eq!(drawn(&doubled), ("node 0[core[0]]".into(), 1));
    }

    #[test]
    fn counts_alone_give_equal_parts_and_a_note() {
        let old = Host { logical_cpus: 4, cores: 2, sockets: 1, ..Host::default() };
        assert_eq!(drawn(&old), ("package[core[0,1] core[2,3]]".into(), 1));
        let uneven = Host { logical_cpus: 3, cores: 2, sockets: 1, ..Host::default() };
        assert_eq!(drawn(&uneven), ("package[0,1,2]".into(), 1));
        let damaged = Host { logical_cpus: u32::MAX, cores: 1, sockets: 1, ..Host::default() };
        assert_eq!(drawn(&damaged), (String::new(), 0));
    }
}
