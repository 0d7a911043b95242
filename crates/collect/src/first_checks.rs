//! Conditions that make every other figure doubtful: a CPU quota that was reached, swapping, waiting for disks, thermal
//! throttling, reclaim, pages that the kernel moves between nodes and tiers.
//!
//! What for: each is one number that the kernel counts anyway, read at the start and the end of the recording. What
//! not: the load by others and stolen time, which are polled (`gauges`).
//!
//! Sources: `Documentation/admin-guide/cgroup-v2.rst` and `scheduler/sched-bwc.rst` for `cpu.stat`; `proc_stat(5)`;
//! `mm/vmstat.c`; `arch/x86/kernel/cpu/mce/therm_throt.c` for the clock.

use std::path::{Path, PathBuf};

use base::Pid;
use facts::{Counter, CounterKind, Fact, SinkError};

use crate::recorder::Recorder;

/// `/proc/stat` counts in units of USER_HZ, which is 100 on every Linux (`include/asm-generic/param.h`).
const NANOS_PER_TICK: u64 = 10_000_000;

const KINDS: [CounterKind; 8] = [
    CounterKind::ThrottledTime,
    CounterKind::IoWaitTime,
    CounterKind::SwappedPages,
    CounterKind::ClockThrottles,
    CounterKind::MovedPages,
    CounterKind::ReclaimedPages,
    CounterKind::DemotedPages,
    CounterKind::PromotedPages,
];

/// The counts at the start of a recording.
#[derive(Debug)]
pub struct FirstChecks {
    groups: Vec<PathBuf>,
    before: [Option<u64>; 8],
}

impl FirstChecks {
    /// Reads them. `pid`: a process in the program's control group, whose quota counts.
    #[must_use]
    pub fn begin(pid: Pid) -> FirstChecks {
        let path = if pid == Pid(0) {
            "/proc/self/cgroup".to_owned()
        } else {
            format!("/proc/{pid}/cgroup")
        };
        let groups = quota_files(&text(Path::new(&path)));
        let before = read(&groups);
        FirstChecks { groups, before }
    }

    /// Reads them again and records their increase. What cannot be read here is not recorded.
    pub fn finish(&self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        let now = read(&self.groups);
        for (kind, (now, before)) in KINDS.into_iter().zip(now.into_iter().zip(self.before)) {
            if let (Some(now), Some(before)) = (now, before) {
                let value = now.saturating_sub(before);
                recorder.push(Fact::Counter(Counter { kind, value }))?;
            }
        }
        Ok(())
    }
}

/// In the order of [`KINDS`].
fn read(groups: &[PathBuf]) -> [Option<u64>; 8] {
    let throttled = groups.iter().filter_map(|file| throttled_nanos(&text(file)));
    let vmstat = text(Path::new("/proc/vmstat"));
    [
        throttled.reduce(u64::saturating_add),
        io_wait_nanos(&text(Path::new("/proc/stat"))),
        swapped_pages(&vmstat),
        clock_throttles(Path::new("/sys/devices/system/cpu")),
        field(&vmstat, "numa_pages_migrated"),
        field(&vmstat, "pgsteal_direct"),
        demoted_pages(&vmstat),
        field(&vmstat, "pgpromote_success"),
    ]
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The value of a line `NAME VALUE`.
fn field(text: &str, name: &str) -> Option<u64> {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found?.trim().parse().ok()
}

fn throttled_nanos(text: &str) -> Option<u64> {
    let second_version = field(text, "throttled_usec").and_then(|micros| micros.checked_mul(1000));
    second_version.or_else(|| field(text, "throttled_time"))
}

/// By whoever asked for it; a kernel names those that it knows.
fn demoted_pages(vmstat: &str) -> Option<u64> {
    let counts =
        ["pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged", "pgdemote_proactive"];
    counts.iter().filter_map(|name| field(vmstat, name)).reduce(u64::saturating_add)
}

/// Pages read from swap and written to it. From Linux 6.12 on, pages of zeroes do not reach the disk and are counted
/// separately; they are faulted in like others.
fn swapped_pages(vmstat: &str) -> Option<u64> {
    let (read, written) = field(vmstat, "pswpin").zip(field(vmstat, "pswpout"))?;
    let zeros = ["swpin_zero", "swpout_zero"].iter().filter_map(|name| field(vmstat, name));
    Some(zeros.fold(read.saturating_add(written), u64::saturating_add))
}

fn io_wait_nanos(text: &str) -> Option<u64> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    line.split_whitespace().nth(4)?.parse::<u64>().ok()?.checked_mul(NANOS_PER_TICK)
}

/// `cpu.stat` of a process's control group and of all its parents, of both versions: each may have a quota.
fn quota_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let mounts: &[&str] = if controllers.is_empty() {
            &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        } else if controllers.split(',').any(|controller| controller == "cpu") {
            &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
        } else {
            continue;
        };
        let inside = Path::new(group.trim_start_matches('/'));
        for mount in mounts {
            let levels =
                inside.ancestors().map(|level| Path::new(mount).join(level).join("cpu.stat"));
            files.extend(levels.filter(|file| file.is_file()));
        }
    }
    files
}

/// How often cores lowered their clock because of heat; `None` where the processor or a hypervisor does not say.
fn clock_throttles(cpus: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(cpus).ok()?;
    let counts = entries.filter_map(Result::ok).filter_map(|entry| {
        text(&entry.path().join("thermal_throttle/core_throttle_count")).trim().parse::<u64>().ok()
    });
    counts.reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_read() {
        assert_eq!(throttled_nanos("nr_throttled 3\nthrottled_usec 1500\n"), Some(1_500_000));
        assert_eq!(throttled_nanos("nr_throttled 3\nthrottled_time 42\n"), Some(42));
        assert_eq!(throttled_nanos("usage_usec 7\n"), None);
        assert_eq!(throttled_nanos("throttled_usec x"), None);
        assert_eq!(swapped_pages("pswpin 3\npswpout 4\nthp_swpout 9\n"), Some(7));
        assert_eq!(swapped_pages("pswpin 3\npswpout 4\nswpin_zero 20\nswpout_zero 30\n"), Some(57));
        assert_eq!(swapped_pages("nr_free_pages 1\n"), None);
        let tiers = "pgdemote_kswapd 3\npgdemote_direct 4\npgpromote_success 5\n";
        assert_eq!((demoted_pages(tiers), demoted_pages("pgdemoted 1\n")), (Some(7), None));
        assert_eq!(io_wait_nanos("cpu  10 1 5 1000 7 2 3 4 0 0\ncpu0"), Some(70_000_000));
        assert_eq!(io_wait_nanos("cpu 1 2"), None);
        assert_eq!(field("pswpin 3\npswpout 4\n", "pswpout"), Some(4));
        assert_eq!(field("pswpinx 3\n", "pswpin"), None);
        assert!(
            quota_files("rubbish\n1:memory:/a\n::\n").iter().all(|file| file.ends_with("cpu.stat"))
        );
    }
}
