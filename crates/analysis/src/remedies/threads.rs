//! The number of threads, and the placement of threads and their memory.
//!
//! What not: whether they help (`trial`).

use facts::host::NumaNode;

use super::{Behaviour, Change, Fit, Means, Remedy, fit};

pub(super) fn remedies(means: &Means<'_>, program: &Behaviour) -> Vec<Remedy> {
    vec![
        Remedy {
            name: "pin-compact",
            what: "keep threads on cores next to each other",
            fit: pinned(means, program, "close"),
        },
        Remedy {
            name: "pin-scatter",
            what: "keep threads on cores far from each other",
            fit: pinned(means, program, "spread"),
        },
        Remedy { name: "fewer-threads", what: "half as many threads", fit: fewer(program) },
        Remedy {
            name: "threads-as-cpus",
            what: "no more threads than CPUs",
            fit: as_cpus(means, program),
        },
        Remedy {
            name: "pin-nodes",
            what: "keep threads on their NUMA node",
            fit: pinned_to_nodes(means, program),
        },
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
    ]
}

fn not_openmp(program: &Behaviour) -> Option<String> {
    let why = match program {
        _ if program.threads < 2.0 => "the program has one thread",
        Behaviour { openmp: false, .. } => {
            "its threads are not OpenMP's: no environment variable sets where they run"
        }
        _ => return None,
    };
    Some(why.to_owned())
}

fn one_core(means: &Means<'_>) -> Option<String> {
    (means.host.allowed_cpus.len() == 1).then(|| "there is one CPU".to_owned())
}

fn threads(count: f64) -> Change {
    Change::variable("OMP_NUM_THREADS", format!("{count:.0}"))
}

fn fewer(program: &Behaviour) -> Fit {
    fit(threads((program.threads / 2.0).floor().max(1.0)), Ok(()), not_openmp(program))
}

fn as_cpus(means: &Means<'_>, program: &Behaviour) -> Fit {
    let usable = means.host.usable_cpus().map_or(1.0, |cpus| cpus.floor().max(1.0));
    let enough = (program.threads <= usable)
        .then(|| format!("{:.0} threads on {usable:.0} CPUs are not too many", program.threads));
    fit(threads(usable), Ok(()), not_openmp(program).or(enough))
}

fn placed(options: &[String]) -> Change {
    let words = ["fathom".to_owned(), "place".to_owned()];
    Change {
        before: words.into_iter().chain(options.iter().cloned()).collect(),
        ..Change::default()
    }
}

/// Whether there is anything to choose from; `memory`: whether memory is placed.
fn several_nodes(means: &Means<'_>, memory: bool) -> Result<(), String> {
    match means.host.memory_nodes().count() {
        0 | 1 => Err("this machine has one NUMA node".to_owned()),
        _ => means.no_memory_policy.clone().filter(|_| memory).map_or(Ok(()), Err),
    }
}

/// The nodes with CPUs that we may use, each with these.
fn nodes_with_cpus<'a>(means: &Means<'a>) -> Vec<(&'a NumaNode, Vec<u32>)> {
    let usable = |node: &NumaNode| {
        let cpus = node.cpus.iter().filter(|cpu| means.host.allowed_cpus.contains(cpu));
        cpus.copied().collect::<Vec<_>>()
    };
    let all = means.host.numa_nodes.iter().map(|node| (node, usable(node)));
    all.filter(|(_, cpus)| !cpus.is_empty()).collect()
}

/// One thread to a place: OpenMP's by its variables, others one after the other as they start.
fn pinned(means: &Means<'_>, program: &Behaviour, bind: &str) -> Fit {
    if program.openmp {
        let mut change = Change::variable("OMP_PROC_BIND", bind);
        change.environment.push(("OMP_PLACES".to_owned(), "cores".to_owned()));
        return fit(change, Ok(()), not_openmp(program).or_else(|| one_core(means)));
    }
    let nodes = nodes_with_cpus(means);
    let mut cpus: Vec<u32> = nodes.iter().flat_map(|(_, cpus)| cpus).copied().collect();
    if cpus.is_empty() {
        cpus.clone_from(&means.host.allowed_cpus);
    }
    if bind == "spread" {
        // A CPU of each node in turn.
        let most = nodes.iter().map(|(_, cpus)| cpus.len()).max().unwrap_or(0);
        let turn = |at| nodes.iter().filter_map(move |(_, cpus)| cpus.get(at).copied());
        cpus = (0..most).flat_map(turn).collect();
    }
    let list = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let alike = (bind == "spread" && nodes.len() < 2).then(|| {
        "its threads are not OpenMP's, and on one NUMA node it is as pin-compact".to_owned()
    });
    let one = (program.threads < 2.0).then(|| "the program has one thread".to_owned());
    fit(
        placed(&[format!("--each-thread={list}")]),
        Ok(()),
        one.or_else(|| one_core(means)).or(alike),
    )
}

/// OpenMP's threads, spread over the nodes: each stays on its own, on any CPU of it.
fn pinned_to_nodes(means: &Means<'_>, program: &Behaviour) -> Fit {
    let places = nodes_with_cpus(means);
    let place = |(_, cpus): &(_, Vec<u32>)| {
        let cpus = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        format!("{{{cpus}}}")
    };
    let places: Vec<String> = places.iter().map(place).collect();
    let possible = match places.len() {
        0 | 1 => Err("this machine has one NUMA node with CPUs".to_owned()),
        _ => Ok(()),
    };
    let mut change = Change::variable("OMP_PROC_BIND", "spread");
    change.environment.push(("OMP_PLACES".to_owned(), places.join(",")));
    fit(change, possible, not_openmp(program))
}

/// On the node with most CPUs, of several the first.
fn on_one_node(means: &Means<'_>, program: &Behaviour, cpus: bool, memory: bool) -> Fit {
    let nodes = nodes_with_cpus(means);
    let Some((node, usable)) = nodes.iter().rev().max_by_key(|(_, cpus)| cpus.len()) else {
        return Fit::Impossible("this machine has one NUMA node".to_owned());
    };
    let bytes = program.resident.filter(|bytes| memory && *bytes > node.memory_bytes as f64);
    let fits = bytes.map(|bytes| {
        format!("its {:.1} GB do not fit into the memory of node {}", bytes / 1e9, node.id)
    });
    let possible = several_nodes(means, memory).and_then(|()| fits.map_or(Ok(()), Err));
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
