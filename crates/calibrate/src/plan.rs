//! What may be used: which CPUs in which order, how many threads, how much memory.

use std::time::Duration;

use base::{Bytes, CpuId};
use facts::host::Host;

use crate::live;

/// Share of the available memory that the measurement may take.
const MEMORY_SHARE: u64 = 4;

/// The limits within which everything is measured.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plan {
    /// CPUs to pin threads to: with t threads the first t. At least one.
    pub cpus: Vec<CpuId>,
    /// NUMA node of each of them (index in the host's list).
    pub nodes: Vec<usize>,
    /// Numbers of threads to measure: 1, 2, 4, ..., all.
    pub thread_counts: Vec<usize>,
    /// Memory that one part of the measurement may take.
    pub memory: Bytes,
    /// There is no time for large sizes.
    pub hurried: bool,
}

/// Below this time limit large sizes are left out.
const HURRIED: Duration = Duration::from_secs(5);

impl Plan {
    /// Plans for this machine; limits that a reader should know go to `notes`.
    pub fn new(host: &Host, time_limit: Duration, notes: &mut Vec<String>) -> Plan {
        let mut cpus = machine::placement(&live::snapshot(), &host.allowed_cpus);
        if cpus.is_empty() {
            notes.push("the CPUs we may run on are unknown: measured on CPU 0 only".to_owned());
            cpus.push(CpuId(0));
        }
        if cpus.len() < host.logical_cpus as usize {
            notes.push(format!(
                "measured on {} of {} CPUs: the others are outside our affinity mask or cpuset",
                cpus.len(),
                host.logical_cpus
            ));
        }
        if let Some(quota) = host.cpu_quota.filter(|quota| *quota < cpus.len() as f64) {
            // More threads than the quota are stopped by the kernel every 100 ms: no figure would mean anything.
            cpus.truncate((quota.floor() as usize).max(1));
            notes.push(format!(
                "the cgroup allows {quota} CPUs: measured with at most {} threads",
                cpus.len()
            ));
        }
        let node_of = |cpu: &CpuId| {
            host.numa_nodes.iter().position(|node| node.cpus.contains(&cpu.0)).unwrap_or(0)
        };
        let nodes = cpus.iter().map(node_of).collect();
        let thread_counts = thread_counts(cpus.len());
        Plan {
            cpus,
            nodes,
            thread_counts,
            memory: Bytes(available(host, notes).0 / MEMORY_SHARE),
            hurried: time_limit < HURRIED,
        }
    }
}

/// 1, 2, 4, ... and `all`.
fn thread_counts(all: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = std::iter::successors(Some(1), |count| Some(count * 2))
        .take_while(|count| *count < all)
        .collect();
    counts.push(all);
    counts
}

/// What the kernel says is available, or what our cgroup's limit leaves.
pub(crate) fn available(host: &Host, notes: &mut Vec<String>) -> Bytes {
    let meminfo = live::read("/proc/meminfo").unwrap_or_default();
    let available = machine::text::value_of(&meminfo, "MemAvailable").map(machine::text::size);
    let mut available = match available {
        Some(Ok(bytes)) => bytes,
        _ => {
            notes.push("MemAvailable is unknown: taken as a quarter of the memory".to_owned());
            host.memory_bytes / 4
        }
    };
    for (limit, used) in
        machine::memory_limits(&live::read("/proc/self/cgroup").unwrap_or_default())
    {
        let number = |path: &str| live::read(path)?.trim().parse::<u64>().ok();
        // Without a limit version 2 says `max`, which is no number.
        if let (Some(limit), Some(used)) = (number(&limit), number(&used)) {
            available = available.min(limit.saturating_sub(used));
        }
    }
    Bytes(available)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_double_and_end_with_all() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6]);
        assert_eq!(thread_counts(8), [1, 2, 4, 8]);
    }
}
