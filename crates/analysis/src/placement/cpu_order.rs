//! In which order threads take the CPUs of a machine: next to each other, far apart, or one to a core first.
//!
//! What for: the sweeps of `fathom scale`, and remedies that pin threads. What not: pinning.

use facts::host::{CpuPart, Host};

/// How threads are laid on CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuOrder {
    /// All hardware threads of a core, then the next core, all cores of a node before the next node.
    Compact,
    /// The nodes and last-level caches in turn; second hardware threads of cores last.
    Scatter,
    /// As compact, but one hardware thread of each core before the second ones.
    Cores,
}

/// The CPUs that we may use, by core: cores by node, then by last-level cache. Where the system does not say what shares a core,
/// each CPU is one.
#[must_use]
pub fn cores(host: &Host) -> Vec<Vec<u32>> {
    by_domain(host).into_iter().flat_map(|(_, cores)| cores).collect()
}

/// The CPUs that we may use, in this order.
#[must_use]
pub fn cpu_order(host: &Host, order: CpuOrder) -> Vec<u32> {
    let domains = by_domain(host);
    let cores: Vec<&Vec<u32>> = match order {
        CpuOrder::Compact | CpuOrder::Cores => {
            domains.iter().flat_map(|(_, cores)| cores).collect()
        }
        CpuOrder::Scatter => in_turn(&domains),
    };
    if order == CpuOrder::Compact {
        return cores.into_iter().flatten().copied().collect();
    }
    let most = cores.iter().map(|cpus| cpus.len()).max().unwrap_or(0);
    (0..most).flat_map(|at| cores.iter().filter_map(move |cpus| cpus.get(at).copied())).collect()
}

/// Node and last-level cache; a CPU outside of all has none.
type Domain = (Option<usize>, Option<usize>);

/// The first core of each domain, then the second ones. Nodes take turns before the caches of a node do.
fn in_turn(domains: &[(Domain, Vec<Vec<u32>>)]) -> Vec<&Vec<u32>> {
    let nodes: Vec<Vec<&Vec<u32>>> = domains
        .chunk_by(|((one, _), _), ((other, _), _)| one == other)
        .map(|node| turns(node.iter().map(|(_, cores)| cores.iter())))
        .collect();
    turns(nodes.iter().map(|cores| cores.iter().copied()))
}

fn turns<'a, I: Iterator<Item = &'a Vec<u32>>>(
    lists: impl Iterator<Item = I>,
) -> Vec<&'a Vec<u32>> {
    let mut lists: Vec<I> = lists.collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(lists.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            return all;
        }
    }
}

fn by_domain(host: &Host) -> Vec<(Domain, Vec<Vec<u32>>)> {
    let last = host.caches.iter().enumerate().max_by_key(|(_, cache)| cache.level);
    let last = last.map(|(at, _)| CpuPart::Cache(at));
    let groups = |part| host.cpu_groups.iter().filter(move |group| Some(group.part) == part);
    let domain = |cpu: &u32| {
        let node = host.numa_nodes.iter().position(|node| node.cpus.contains(cpu));
        (node, groups(last).position(|group| group.cpus.contains(cpu)))
    };
    let mut left: Vec<u32> = match host.allowed_cpus.is_empty() {
        true => (0..host.logical_cpus).collect(),
        false => host.allowed_cpus.clone(),
    };
    let mut found: Vec<(Domain, Vec<Vec<u32>>)> = Vec::new();
    while let Some(first) = left.first().copied() {
        let core = groups(Some(CpuPart::Core)).find(|group| group.cpus.contains(&first));
        let is_of_it =
            |cpu: &u32| *cpu == first || core.is_some_and(|core| core.cpus.contains(cpu));
        let (cpus, others) = left.iter().partition(|cpu| is_of_it(cpu));
        left = others;
        let domain = domain(&first);
        match found.iter_mut().find(|(known, _)| *known == domain) {
            Some((_, cores)) => cores.push(cpus),
            None => found.push((domain, vec![cpus])),
        }
    }
    found.sort_by_key(|(domain, _)| *domain);
    found
}

#[cfg(test)]
mod tests {
    use facts::host::{Cache, CpuGroup, NumaNode};

    use super::*;

    /// Two nodes, two last-level caches on each, two cores under each, two hardware threads of each: CPU n and n + 8.
    fn host() -> Host {
        let group = |part, cpus: &[u32]| CpuGroup { part, cpus: cpus.to_vec() };
        let node = |id, cpus: &[u32]| NumaNode {
            id,
            cpus: cpus.to_vec(),
            memory_bytes: 1 << 30,
            distances: Vec::new(),
        };
        let cores = (0..8).map(|cpu| group(CpuPart::Core, &[cpu, cpu + 8]));
        let caches = [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15]];
        Host {
            caches: vec![Cache { level: 3, ..facts_cache() }],
            cpu_groups: cores
                .chain(caches.iter().map(|cpus| group(CpuPart::Cache(0), cpus)))
                .collect(),
            numa_nodes: vec![
                node(0, &[0, 1, 2, 3, 8, 9, 10, 11]),
                node(1, &[4, 5, 6, 7, 12, 13, 14, 15]),
            ],
            logical_cpus: 16,
            allowed_cpus: (0..16).collect(),
            ..Host::default()
        }
    }

    fn facts_cache() -> Cache {
        Cache {
            level: 3,
            kind: facts::host::CacheKind::Unified,
            bytes: 32 << 20,
            line_bytes: 64,
            ways: None,
            shared_by: 4,
            instances: 4,
        }
    }

    #[test]
    fn cores_before_hardware_threads_and_nodes_in_turn() {
        let host = host();
        assert_eq!(cpu_order(&host, CpuOrder::Compact)[..6], [0, 8, 1, 9, 2, 10]);
        assert_eq!(cpu_order(&host, CpuOrder::Cores)[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(
            cpu_order(&host, CpuOrder::Scatter),
            [0, 4, 2, 6, 1, 5, 3, 7, 8, 12, 10, 14, 9, 13, 11, 15]
        );
        assert_eq!(cores(&host).len(), 8);
    }

    #[test]
    fn only_cpus_that_may_be_used_and_without_a_topology_each_is_a_core() {
        let some = Host { allowed_cpus: vec![1, 8, 9, 14], ..host() };
        assert_eq!(cpu_order(&some, CpuOrder::Compact), [1, 9, 8, 14]);
        assert_eq!(cpu_order(&some, CpuOrder::Cores), [1, 8, 14, 9]);
        let plain = Host { logical_cpus: 3, ..Host::default() };
        assert_eq!(cpu_order(&plain, CpuOrder::Scatter), [0, 1, 2]);
        assert_eq!(cores(&plain).len(), 3);
    }
}
