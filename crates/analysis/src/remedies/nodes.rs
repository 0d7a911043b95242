//! On which NUMA nodes memory is: all of it, one object, or each page with the thread that uses it.
//!
//! What not: whether they help (`trial`).

use facts::host::NumaNode;

use super::pages::LITTLE;
use super::threads::{nodes_with_cpus, placed};
use super::{Behaviour, Fit, Heap, Means, Remedy, fit};

/// The placement library leaves smaller blocks where they are (`agent/placement`).
const LEAST_BLOCK: u64 = 1 << 20;
/// An object that takes less of the time is not worth a try, percent.
const HOT: f64 = 10.0;
/// The placement library has room for so many nodes.
const NODES: u32 = 64;

pub(super) fn remedies(means: &Means<'_>, program: &Behaviour) -> Vec<Remedy> {
    vec![
        Remedy {
            name: "numa-interleave",
            what: "spread memory over all nodes",
            fit: fit(placed(&["--interleave=all".to_owned()]), several_nodes(means, true), None),
        },
        Remedy {
            name: "numa-cpus",
            what: "all threads on one node",
            fit: on_one_node(means, program, true, false),
        },
        Remedy {
            name: "numa-memory",
            what: "all memory on one node",
            fit: on_one_node(means, program, false, true),
        },
        Remedy {
            name: "numa-bind",
            what: "all threads and memory on one node",
            fit: on_one_node(means, program, true, true),
        },
        Remedy {
            name: "next-touch",
            what: "pages go to the node of the thread that uses them next",
            fit: next_touch(means, program),
        },
        Remedy {
            name: "object-interleave",
            what: "spread the object that threads wait for most over all nodes",
            fit: object(means, program),
        },
        Remedy {
            name: "tier-memory",
            what: "all memory on a node without CPUs",
            fit: on_tier(means, program),
        },
        Remedy {
            name: "tier-interleave",
            what: "spread memory over all nodes by their weights",
            fit: by_weights(means),
        },
    ]
}

/// Whether there is anything to choose from; `memory`: whether memory is placed.
fn several_nodes(means: &Means<'_>, memory: bool) -> Result<(), String> {
    match means.host.memory_nodes().count() {
        0 | 1 => Err("this machine has one NUMA node".to_owned()),
        _ => means.no_memory_policy.clone().filter(|_| memory).map_or(Ok(()), Err),
    }
}

fn fits_into(program: &Behaviour, node: &NumaNode) -> Result<(), String> {
    match program.resident.filter(|bytes| *bytes > node.memory_bytes as f64) {
        Some(bytes) => {
            Err(format!("its {:.1} GB do not fit into the memory of node {}", bytes / 1e9, node.id))
        }
        None => Ok(()),
    }
}

/// On the node with most CPUs, of several the first.
fn on_one_node(means: &Means<'_>, program: &Behaviour, cpus: bool, memory: bool) -> Fit {
    let nodes = nodes_with_cpus(means);
    let Some((node, usable)) = nodes.iter().rev().max_by_key(|(_, cpus)| cpus.len()) else {
        return Fit::Impossible("this machine has one NUMA node".to_owned());
    };
    let fits = if memory { fits_into(program, node) } else { Ok(()) };
    let possible = several_nodes(means, memory).and(fits);
    let many = (cpus && program.threads > usable.len() as f64).then(|| {
        format!(
            "its {:.0} threads are more than the {} CPUs of node {}",
            program.threads,
            usable.len(),
            node.id
        )
    });
    let options = [(cpus, "cpunodebind"), (memory, "membind")].into_iter().filter(|(set, _)| *set);
    let options: Vec<String> = options.map(|(_, name)| format!("--{name}={}", node.id)).collect();
    fit(placed(&options), possible, many)
}

fn little(program: &Behaviour) -> Option<String> {
    let bytes = program.resident.filter(|bytes| *bytes < LITTLE)?;
    Some(format!("the program uses only {:.1} MB of memory", bytes / 1e6))
}

/// Whether the placement library reaches the program's blocks, and there are several threads to use them.
fn pointless_for_blocks(program: &Behaviour) -> Option<String> {
    let why = match program {
        _ if program.threads < 2.0 => "the program has one thread",
        Behaviour { heap: Heap::Java, .. } => "a Java virtual machine places its heap by itself",
        _ => return little(program),
    };
    Some(why.to_owned())
}

fn next_touch(means: &Means<'_>, program: &Behaviour) -> Fit {
    let nodes = match nodes_with_cpus(means).len() {
        0 | 1 => Err("this machine has one NUMA node with CPUs".to_owned()),
        _ => means.no_next_touch.clone().map_or(Ok(()), Err),
    };
    let possible = several_nodes(means, true).and(nodes);
    fit(placed(&["--next-touch".to_owned()]), possible, pointless_for_blocks(program))
}

fn object(means: &Means<'_>, program: &Behaviour) -> Fit {
    let too_many = means.host.memory_nodes().any(|node| node.id >= NODES);
    let possible = several_nodes(means, true).and(match (too_many, program.hot_block) {
        (true, _) => Err(format!("it reaches nodes below {NODES} only")),
        (_, None) => Err("no recorded object has heap blocks that are all alike".to_owned()),
        (_, Some((bytes, _))) if bytes < LEAST_BLOCK => Err(format!(
            "the blocks of the object that threads wait for most have {bytes} bytes: only from 1 MiB on they are moved"
        )),
        _ => Ok(()),
    });
    let (bytes, percent) = program.hot_block.unwrap_or((0, 0.0));
    let cold = (percent < HOT)
        .then(|| format!("threads wait for its hottest object only {percent:.0} % of the time"));
    let options = [format!("--object={bytes}"), "--object-nodes=all".to_owned()];
    fit(placed(&options), possible, pointless_for_blocks(program).or(cold))
}

fn tier<'a>(means: &Means<'a>) -> Result<&'a NumaNode, String> {
    let tier = means.host.memory_nodes().find(|node| node.cpus.is_empty());
    tier.ok_or_else(|| {
        "no NUMA node here has memory and no CPUs (HBM, CXL, persistent memory)".to_owned()
    })
}

fn on_tier(means: &Means<'_>, program: &Behaviour) -> Fit {
    match tier(means) {
        Err(why) => Fit::Impossible(why),
        Ok(node) => {
            let possible = several_nodes(means, true).and(fits_into(program, node));
            fit(placed(&[format!("--membind={}", node.id)]), possible, little(program))
        }
    }
}

fn by_weights(means: &Means<'_>) -> Fit {
    let possible = several_nodes(means, true).and_then(|()| tier(means).map(|_| ()));
    let possible = possible.and_then(|()| means.no_weights.clone().map_or(Ok(()), Err));
    fit(placed(&["--weighted-interleave=all".to_owned()]), possible, None)
}
