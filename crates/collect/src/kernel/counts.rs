//! The kernel's own counts for the whole machine, readable by every user: `/proc/vmstat`; and, where BPF programs are
//! refused, `/proc/interrupts`, `/proc/softirqs` and `/proc/stat`.
//!
//! What for: huge pages, compaction, NUMA balancing, reclaim and swap over time; and all entries that are counted
//! without tracing. What not: counts of one program (`totals`). Sources: `mm/vmstat.c` (`vmstat_text`),
//! `proc_stat(5)`, `proc_interrupts(5)`.

use std::collections::HashMap;

use base::CpuId;
use facts::KernelCause;

/// Counters of `/proc/vmstat` with their meaning for a reader. A kernel lacks those that it is built without.
const MEMORY_EVENTS: [(&str, &str); 31] = [
    ("thp_fault_alloc", "huge page given at a fault"),
    ("thp_fault_fallback", "no huge page available at a fault"),
    ("thp_collapse_alloc", "pages collapsed to a huge page"),
    ("thp_collapse_alloc_failed", "collapse to a huge page failed"),
    ("thp_split_page", "huge page split"),
    ("compact_stall", "a program waited for compaction"),
    ("compact_success", "compaction succeeded"),
    ("compact_fail", "compaction failed"),
    ("numa_hint_faults", "NUMA-balancing fault"),
    ("numa_hint_faults_local", "NUMA-balancing fault on a page of the own node"),
    ("numa_pages_migrated", "page moved to another node"),
    ("pgpromote_success", "page promoted to a faster tier"),
    ("pgdemote_kswapd", "page demoted to a slower tier in the background"),
    ("pgdemote_direct", "page demoted by a program that needs memory"),
    ("pgdemote_proactive", "page demoted on request"),
    ("pgmigrate_success", "page moved"),
    ("pgmigrate_fail", "page that could not be moved"),
    ("allocstall_normal", "a program waited for reclaim"),
    ("allocstall_movable", "a program waited for reclaim (movable memory)"),
    ("zone_reclaim_failed", "reclaim within a node failed"),
    ("nr_tlb_remote_flush", "TLB shoot-down sent"),
    ("nr_tlb_remote_flush_received", "TLB shoot-down received"),
    ("pgscan_direct", "page scanned by a program that needs memory"),
    ("pgsteal_direct", "page reclaimed by a program that needs memory"),
    ("pgscan_kswapd", "page scanned in the background"),
    ("pgsteal_kswapd", "page reclaimed in the background"),
    ("pswpin", "page read from swap"),
    ("pswpout", "page written to swap"),
    ("pgfault", "page fault of the machine"),
    ("pgmajfault", "major page fault of the machine"),
    ("oom_kill", "process killed for lack of memory"),
];

/// The growth of a count since the last reading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Growth {
    pub cause: KernelCause,
    pub cpu: Option<CpuId>,
    pub name: String,
    pub count: u64,
}

type Name = (KernelCause, Option<CpuId>, String);

/// Counts and their last values.
#[derive(Debug)]
pub struct Counts {
    everything: bool,
    before: HashMap<Name, u64>,
}

impl Counts {
    /// Starts counting. `everything`: interrupts and switches too.
    pub fn start(everything: bool) -> Counts {
        Counts { everything, before: HashMap::new() }
    }

    /// The counts that grew since the last call.
    pub fn grown(&mut self) -> Vec<Growth> {
        let text = |path| std::fs::read_to_string(path).unwrap_or_default();
        let mut now = memory_events(&text("/proc/vmstat"));
        if self.everything {
            now.extend(per_cpu(&text("/proc/interrupts"), KernelCause::Interrupt));
            now.extend(per_cpu(&text("/proc/softirqs"), KernelCause::SoftInterrupt));
            now.extend(switches(&text("/proc/stat")));
        }
        let mut grown = Vec::new();
        for (name, count) in now {
            // The first reading contains what was counted since the machine started.
            let old = self.before.insert(name.clone(), count).unwrap_or(count);
            if count > old {
                let (cause, cpu, name) = name;
                grown.push(Growth { cause, cpu, name, count: count - old });
            }
        }
        grown
    }
}

fn memory_events(text: &str) -> Vec<(Name, u64)> {
    let wanted: HashMap<&str, &str> = MEMORY_EVENTS.into_iter().collect();
    text.lines()
        .filter_map(|line| {
            let (key, count) = line.split_once(' ')?;
            let name = (KernelCause::MemoryEvent, None, (*wanted.get(key)?).to_owned());
            Some((name, count.trim().parse().ok()?))
        })
        .collect()
}

/// Parses a head line with the CPUs, then lines `NAME: COUNT COUNT ... WORDS`.
fn per_cpu(text: &str, cause: KernelCause) -> Vec<(Name, u64)> {
    let mut lines = text.lines();
    let cpus: Vec<CpuId> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok().map(CpuId))
        .collect();
    let mut found = Vec::new();
    for line in lines {
        let Some((short, rest)) = line.split_once(':') else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let long = words.get(cpus.len()..).unwrap_or_default().join(" ");
        let is_line = short.trim().parse::<u32>().is_ok();
        let name = match (is_line, long.is_empty()) {
            (true, _) => format!("line {} {long}", short.trim()),
            (false, true) => short.trim().to_owned(),
            (false, false) => long,
        };
        for (cpu, count) in cpus.iter().zip(&words) {
            if let Ok(count) = count.parse() {
                found.push(((cause, Some(*cpu), name.clone()), count));
            }
        }
    }
    found
}

fn switches(text: &str) -> Vec<(Name, u64)> {
    let count = text.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok());
    let name = (KernelCause::Switch, None, "any".to_owned());
    count.map(|count| (name, count)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_by_their_names() {
        let found = memory_events("nr_free_pages 5\nthp_fault_alloc 12\npgfault x\npswpin 3\n");
        let shown: Vec<(&str, u64)> =
            found.iter().map(|((_, _, name), count)| (name.as_str(), *count)).collect();
        assert_eq!(shown, [("huge page given at a fault", 12), ("page read from swap", 3)]);
        let text = "      CPU0   CPU2\n 24:  1  2  IO-APIC 5-edge ACPI:Ged\nLOC: 7 8 Local timer interrupts\nERR: 0\n";
        let found = per_cpu(text, KernelCause::Interrupt);
        let shown: Vec<String> = found
            .iter()
            .map(|((_, cpu, name), count)| format!("{:?} {name} {count}", cpu.map(|cpu| cpu.0)))
            .collect();
        assert_eq!(
            shown,
            [
                "Some(0) line 24 IO-APIC 5-edge ACPI:Ged 1",
                "Some(2) line 24 IO-APIC 5-edge ACPI:Ged 2",
                "Some(0) Local timer interrupts 7",
                "Some(2) Local timer interrupts 8",
                "Some(0) ERR 0",
            ]
        );
        assert_eq!(switches("cpu 1\nctxt 42\n")[0].1, 42);
        assert!(per_cpu("", KernelCause::Interrupt).is_empty() && switches("").is_empty());
    }

    #[test]
    fn only_growth_counts() {
        let mut counts = Counts::start(true);
        assert!(counts.grown().is_empty(), "the first look is where counting begins");
    }
}
