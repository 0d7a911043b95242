//! The number of threads, and the CPUs that they run on.
//!
//! What not: where memory is (`nodes`); whether they help (`trial`).

use facts::host::NumaNode;

use super::{Behaviour, Change, Fit, Means, Remedy, fit};
use crate::placement::{CpuOrder, cpu_order};

pub(super) fn remedies(means: &Means<'_>, program: &Behaviour) -> Vec<Remedy> {
    vec![
        Remedy {
            name: "pin-compact",
            what: "keep threads on CPUs next to each other",
            fit: pinned(means, program, CpuOrder::Compact),
        },
        Remedy {
            name: "pin-scatter",
            what: "keep threads on cores far from each other",
            fit: pinned(means, program, CpuOrder::Scatter),
        },
        Remedy {
            name: "pin-cores",
            what: "one thread on each core before its hyper-threads",
            fit: pinned(means, program, CpuOrder::Cores),
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

pub(super) fn placed(options: &[String]) -> Change {
    let words = ["fathom".to_owned(), "place".to_owned()];
    Change {
        before: words.into_iter().chain(options.iter().cloned()).collect(),
        ..Change::default()
    }
}

/// The nodes with CPUs that we may use, each with these.
pub(super) fn nodes_with_cpus<'a>(means: &Means<'a>) -> Vec<(&'a NumaNode, Vec<u32>)> {
    let usable = |node: &NumaNode| {
        let cpus = node.cpus.iter().filter(|cpu| means.host.allowed_cpus.contains(cpu));
        cpus.copied().collect::<Vec<_>>()
    };
    let all = means.host.numa_nodes.iter().map(|node| (node, usable(node)));
    all.filter(|(_, cpus)| !cpus.is_empty()).collect()
}

/// One thread to a CPU: OpenMP's by a list of places, others one after the other as they start.
fn pinned(means: &Means<'_>, program: &Behaviour, order: CpuOrder) -> Fit {
    let cpus = cpu_order(means.host, order);
    let compact = cpu_order(means.host, CpuOrder::Compact);
    let list = |open: &str, close: &str| {
        cpus.iter().map(|cpu| format!("{open}{cpu}{close}")).collect::<Vec<_>>().join(",")
    };
    let change = match program.openmp {
        true => Change {
            environment: vec![
                ("OMP_PROC_BIND".to_owned(), "close".to_owned()),
                ("OMP_PLACES".to_owned(), list("{", "}")),
            ],
            ..Change::default()
        },
        false => placed(&[format!("--each-thread={}", list("", ""))]),
    };
    let one = (program.threads < 2.0).then(|| "the program has one thread".to_owned());
    let alike = (order != CpuOrder::Compact && cpus == compact).then(|| {
        "on one NUMA node, with a hardware thread to a core, it is as pin-compact".to_owned()
    });
    fit(change, Ok(()), one.or_else(|| one_core(means)).or(alike))
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
