//! Memory: total, NUMA nodes, huge pages.

use facts::host::{HugePages, NumaNode};

use crate::snapshot::{NODE_DIRECTORY, POOL_DIRECTORY};
use crate::topology::{Topology, cpus_of};
use crate::{Snapshot, text};

/// `MemTotal`, bytes; 0 when unknown.
pub(crate) fn total(snapshot: &Snapshot, problems: &mut Vec<String>) -> u64 {
    let total =
        snapshot.read("/proc/meminfo").and_then(|meminfo| text::value_of(meminfo, "MemTotal"));
    match total.map(text::size) {
        Some(Ok(bytes)) => bytes,
        Some(Err(error)) => {
            problems.push(format!("/proc/meminfo, MemTotal: {error}"));
            0
        }
        None => {
            problems.push(
                "/proc/meminfo does not state MemTotal: the size of the memory is unknown"
                    .to_owned(),
            );
            0
        }
    }
}

/// All nodes, ascending. A kernel without NUMA is one node with everything.
pub(crate) fn nodes(
    snapshot: &Snapshot,
    topology: &Topology,
    problems: &mut Vec<String>,
) -> Vec<NumaNode> {
    let mut numbers: Vec<u32> = snapshot
        .names_below(NODE_DIRECTORY)
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    if numbers.is_empty() {
        let memory_bytes = total(snapshot, &mut Vec::new());
        return vec![NumaNode {
            id: 0,
            cpus: topology.online.clone(),
            memory_bytes,
            distances: vec![10],
        }];
    }
    let mut nodes: Vec<NumaNode> =
        numbers.iter().map(|number| node(snapshot, *number, topology, problems)).collect();
    for node in &mut nodes {
        if node.distances.len() != numbers.len() && !node.distances.is_empty() {
            problems.push(format!(
                "node {} states {} distances for {} nodes: left out",
                node.id,
                node.distances.len(),
                numbers.len()
            ));
            node.distances.clear();
        }
    }
    nodes
}

fn node(
    snapshot: &Snapshot,
    number: u32,
    topology: &Topology,
    problems: &mut Vec<String>,
) -> NumaNode {
    let directory = format!("{NODE_DIRECTORY}/node{number}");
    let (list, mask) = (format!("{directory}/cpulist"), format!("{directory}/cpumap"));
    let mut cpus = cpus_of(snapshot, &list, &mask, problems).unwrap_or_default();
    cpus.retain(|cpu| topology.online.binary_search(cpu).is_ok());
    // "Node 0 MemTotal:       24731708 kB"
    let meminfo = snapshot.read(&format!("{directory}/meminfo")).unwrap_or_default();
    let memory = text::value_of(meminfo, &format!("Node {number} MemTotal")).map(text::size);
    let memory_bytes = match memory {
        Some(Ok(bytes)) => bytes,
        _ => {
            problems.push(format!(
                "{directory}/meminfo does not state the node's memory: taken as none"
            ));
            0
        }
    };
    let distances = snapshot.read(&format!("{directory}/distance")).unwrap_or_default();
    let distances: Result<Vec<u32>, _> = distances.split_whitespace().map(str::parse).collect();
    let distances = distances.unwrap_or_else(|_| {
        problems.push(format!("{directory}/distance is not a row of numbers: left out"));
        Vec::new()
    });
    NumaNode { id: number, cpus, memory_bytes, distances }
}

/// Free blocks of `block` bytes by `/proc/buddyinfo`: "Node 0, zone   Normal   2502   5407 ...", the number of free blocks of 1, 2,
/// 4, ... pages (mm/vmstat.c, `frag_show_print`). Larger blocks count as several. `None` where no line says so.
#[must_use]
pub fn free_blocks(buddyinfo: &str, page_bytes: u64, block: u64) -> Option<u64> {
    let mut sum: Option<u64> = None;
    for line in buddyinfo.lines().filter(|line| line.starts_with("Node")) {
        let (_, numbers) = line.split_once("zone")?;
        let free = numbers.split_whitespace().skip(1).enumerate();
        for (order, number) in free.take(u64::BITS as usize) {
            let bytes = u128::from(page_bytes) << order;
            let count = u128::from(number.parse::<u64>().ok()?);
            let blocks = bytes.checked_div(u128::from(block))?.checked_mul(count)?;
            sum = Some(sum.unwrap_or(0).saturating_add(u64::try_from(blocks).ok()?));
        }
    }
    sum
}

/// State of transparent huge pages and of the hugetlb pools.
pub(crate) fn huge_pages(snapshot: &Snapshot, problems: &mut Vec<String>) -> HugePages {
    let choice = |file: &str| {
        let content = snapshot.read(&format!("/sys/kernel/mm/transparent_hugepage/{file}"))?;
        text::chosen(content).map(str::to_owned)
    };
    let mut pools = Vec::new();
    for name in snapshot.names_below(POOL_DIRECTORY) {
        let Some(size) = name.strip_prefix("hugepages-") else { continue };
        let number = |file: &str| {
            snapshot.read(&format!("{POOL_DIRECTORY}/{name}/{file}"))?.trim().parse::<u64>().ok()
        };
        match (text::size(size), number("nr_hugepages"), number("free_hugepages")) {
            (Ok(bytes), Some(pages), Some(free)) => pools.push((bytes, pages, free)),
            _ => {
                problems.push(format!("{POOL_DIRECTORY}/{name} does not describe a pool: left out"))
            }
        }
    }
    pools.sort_unstable();
    HugePages { transparent: choice("enabled"), defrag: choice("defrag"), pools }
}
