//! Chooses the processes to profile next: those that use most memory time.
//!
//! What for: `--select` and `--exclude`, and the order. What not: reading `/proc` (`collect::busy`, `workload`).
//!
//! Processes with one name in one cgroup are one workload: of 32 workers that share a load, none is busy alone. The memory time
//! of a workload is its CPU time times memory's share in its last profile; without a profile it is all of its CPU time.

use std::collections::BTreeMap;

use analysis::name_matches;
use base::{Nanos, Pid};
use collect::busy::RunningProcess;

use super::workload::Workload;

/// Less than this many CPUs tells nothing in a few seconds, and costs as much.
const LEAST: f64 = 0.05;

/// A process and what it used.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    pub pid: Pid,
    pub process: RunningProcess,
    pub workload: Workload,
    /// CPUs that it used between two looks.
    pub cpus: f64,
}

impl Candidate {
    /// The name of its workload: what is known of it holds for the others, too.
    pub fn key(&self) -> String {
        format!("{} {}", self.workload.cgroup, self.process.name)
    }
}

/// `KEY=PATTERN`, where `*` is any text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    key: String,
    pattern: String,
}

const KEYS: [&str; 6] = ["program", "unit", "namespace", "pod", "container", "image"];

impl std::str::FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Selection, String> {
        let (key, pattern) = text.split_once('=').unwrap_or((text, ""));
        if !KEYS.contains(&key) || pattern.is_empty() {
            return Err(format!("must be KEY=PATTERN; keys are {}", KEYS.join(", ")));
        }
        Ok(Selection { key: key.to_owned(), pattern: pattern.to_owned() })
    }
}

impl Selection {
    fn has(&self, name: &str, workload: &Workload) -> bool {
        let mut names = workload.names().chain([("program", name)]);
        names.any(|(key, value)| key == self.key && name_matches(value, &self.pattern))
    }
}

/// What to look at.
#[derive(Debug)]
pub struct ChoiceFilters<'a> {
    /// One of these; empty: all.
    pub select: &'a [Selection],
    /// None of these.
    pub exclude: &'a [Selection],
    /// Ourselves and what we started are never looked at.
    pub own: Pid,
    /// Memory's share of each workload's CPU time.
    pub memory_shares: &'a BTreeMap<String, f64>,
}

/// The processes to profile, the best first: the busiest of each workload. `look` names the workload of a process.
pub fn choose(
    before: &BTreeMap<Pid, RunningProcess>,
    after: BTreeMap<Pid, RunningProcess>,
    between: Nanos,
    wanted: &ChoiceFilters<'_>,
    look: impl Fn(Pid) -> Workload,
) -> Vec<Candidate> {
    let mut workloads: BTreeMap<String, (f64, Candidate)> = BTreeMap::new();
    for (pid, process) in after {
        let known = before.get(&pid).filter(|known| known.began == process.began);
        // Of one that is new, all was used since.
        let used = process.cpu.saturating_sub(known.map_or(Nanos(0), |known| known.cpu));
        let cpus = used.seconds() / between.seconds();
        let is_ours = pid == wanted.own || process.parent == wanted.own;
        // Half a tick: what used none needs no second look.
        if is_ours || used == Nanos(0) {
            continue;
        }
        let workload = look(pid);
        let among = |all: &[Selection]| all.iter().any(|one| one.has(&process.name, &workload));
        if among(wanted.exclude) || !(wanted.select.is_empty() || among(wanted.select)) {
            continue;
        }
        let candidate = Candidate { pid, process, workload, cpus };
        match workloads.get_mut(&candidate.key()) {
            Some((sum, busiest)) => {
                *sum += cpus;
                if cpus > busiest.cpus {
                    *busiest = candidate;
                }
            }
            None => drop(workloads.insert(candidate.key(), (cpus, candidate))),
        }
    }
    let memory_time =
        |key: &String, cpus: f64| cpus * wanted.memory_shares.get(key).unwrap_or(&1.0);
    let mut ranked: Vec<(f64, Candidate)> = workloads
        .into_iter()
        .filter(|(_, (cpus, _))| *cpus >= LEAST)
        .map(|(key, (cpus, busiest))| (memory_time(&key, cpus), busiest))
        .collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0));
    ranked.into_iter().map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(name: &str, began: u64, milliseconds: u64) -> RunningProcess {
        let cpu = Nanos(milliseconds * 1_000_000);
        RunningProcess { name: name.to_owned(), parent: Pid(1), began, cpu }
    }

    /// What is chosen of processes with these names, CPU times before and after, in ms, in a second.
    fn chosen(all: &[(&str, u64, u64)], wanted: &ChoiceFilters<'_>) -> Vec<(i32, String)> {
        let ids = || (10..).map(Pid);
        let before = ids().zip(all).map(|(pid, (name, from, _))| (pid, process(name, 5, *from)));
        let after = ids().zip(all).map(|(pid, (name, _, to))| (pid, process(name, 5, *to)));
        let look = |pid: Pid| Workload {
            cgroup: if pid.0 % 2 == 0 { "/even" } else { "/odd" }.to_owned(),
            pod: (pid.0 == 12).then(|| "shop-7".to_owned()),
            ..Workload::default()
        };
        let found = choose(&before.collect(), after.collect(), Nanos(1_000_000_000), wanted, look);
        found.into_iter().map(|one| (one.pid.0, one.process.name)).collect()
    }

    fn anything(shares: &BTreeMap<String, f64>) -> ChoiceFilters<'_> {
        ChoiceFilters { select: &[], exclude: &[], own: Pid(99), memory_shares: shares }
    }

    #[test]
    fn the_workload_with_most_memory_time_is_first() {
        let none = BTreeMap::new();
        let all = [
            ("calm", 0, 40),
            ("one", 0, 500),
            ("workers", 100, 400),
            ("other", 0, 0),
            ("workers", 900, 1250),
        ];
        // Two workers in one cgroup, 0.65 CPUs together: the busier of them.
        let names = |wanted: &ChoiceFilters<'_>| chosen(&all, wanted);
        assert_eq!(names(&anything(&none)), [(14, "workers".to_owned()), (11, "one".to_owned())]);
        let shares = BTreeMap::from([("/even workers".to_owned(), 0.5)]);
        assert_eq!(names(&anything(&shares))[0].0, 11, "half of it is no memory's");
        assert_eq!(
            names(&ChoiceFilters { own: Pid(11), ..anything(&none) }).len(),
            1,
            "not ourselves"
        );
    }

    #[test]
    fn what_is_looked_at_can_be_chosen() {
        let none = BTreeMap::new();
        let all = [("a", 0, 100), ("b", 0, 200), ("c", 0, 300)];
        let one = |text: &str| [text.parse::<Selection>().unwrap()];
        let ids = |wanted: ChoiceFilters<'_>| -> Vec<i32> {
            chosen(&all, &wanted).into_iter().map(|(pid, _)| pid).collect()
        };
        assert_eq!(ids(ChoiceFilters { select: &one("program=b"), ..anything(&none) }), [11]);
        assert_eq!(ids(ChoiceFilters { select: &one("pod=shop-*"), ..anything(&none) }), [12]);
        assert_eq!(ids(ChoiceFilters { exclude: &one("pod=*7"), ..anything(&none) }), [11, 10]);
        assert!(ids(ChoiceFilters { select: &one("unit=*"), ..anything(&none) }).is_empty());
        for wrong in ["a", "color=red", "pod=", "="] {
            assert!(wrong.parse::<Selection>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_number_that_was_given_again_is_another_process() {
        let before = BTreeMap::from([(Pid(10), process("old", 1, 9000))]);
        let after = BTreeMap::from([(Pid(10), process("new", 2, 500))]);
        let none = BTreeMap::new();
        let look = |_| Workload::default();
        let found = choose(&before, after, Nanos(1_000_000_000), &anything(&none), look);
        assert_eq!((found.len(), found[0].cpus), (1, 0.5));
    }
}
