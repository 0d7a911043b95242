//! The number of threads, and the placement of threads and their memory.
//!
//! What not: whether they help (`trial`).

use super::{Behaviour, Change, Fit, Means, Remedy, fit};

pub(super) fn remedies(means: &Means<'_>, program: &Behaviour) -> Vec<Remedy> {
    let pinned = |bind: &str| {
        let mut change = Change::variable("OMP_PROC_BIND", bind);
        change.environment.push(("OMP_PLACES".to_owned(), "cores".to_owned()));
        fit(change, Ok(()), not_openmp(program).or_else(|| one_core(means)))
    };
    vec![
        Remedy {
            name: "pin-compact",
            what: "keep threads on cores next to each other",
            fit: pinned("close"),
        },
        Remedy {
            name: "pin-scatter",
            what: "keep threads on cores far from each other",
            fit: pinned("spread"),
        },
        Remedy { name: "fewer-threads", what: "half as many threads", fit: fewer(program) },
        Remedy {
            name: "threads-as-cpus",
            what: "no more threads than CPUs",
            fit: as_cpus(means, program),
        },
        Remedy {
            name: "numa-interleave",
            what: "spread memory over all nodes",
            fit: numa(means, "--interleave=all"),
        },
        Remedy {
            name: "numa-local",
            what: "memory on the node of the thread that touches it first",
            fit: numa(means, "--localalloc"),
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

fn numa(means: &Means<'_>, policy: &str) -> Fit {
    let possible = match means.host.numa_nodes.len() {
        0 | 1 => Err("this machine has one NUMA node".to_owned()),
        _ if !means.numactl => Err("numactl is not installed".to_owned()),
        _ => Ok(()),
    };
    let before = vec!["numactl".to_owned(), policy.to_owned()];
    fit(Change { before, ..Change::default() }, possible, None)
}
