//! The environment of the program: kernel, distribution, hypervisor, container, counters, CPU quota.
//!
//! What not: memory and CPUs (`memory`, `topology`).

use crate::snapshot::EVENT_DIRECTORY;
use crate::{Snapshot, text};

/// Kernel release, e.g. `6.12.5-amd64`; from `/proc/version` where the first source is missing.
pub(crate) fn kernel(snapshot: &Snapshot) -> String {
    let release = snapshot.read("/proc/sys/kernel/osrelease").map(str::trim);
    let version = || snapshot.read("/proc/version")?.split_whitespace().nth(2);
    release.or_else(version).unwrap_or_default().to_owned()
}

/// The distribution's name for people (man 5 os-release).
pub(crate) fn os(snapshot: &Snapshot) -> String {
    let file = snapshot.read("/etc/os-release").or_else(|| snapshot.read("/usr/lib/os-release"));
    let name = file.and_then(|file| {
        text::value_of(file, "PRETTY_NAME").or_else(|| text::value_of(file, "NAME"))
    });
    name.unwrap_or_default().trim_matches(['"', '\'']).to_owned()
}

/// The hypervisor: CPUID on x86, Xen's own file, the firmware's product name on Arm.
pub(crate) fn hypervisor(snapshot: &Snapshot) -> Option<String> {
    if let Some(name) = snapshot.cpuid.hypervisor() {
        return Some(name);
    }
    if snapshot.read("/sys/hypervisor/type").map(str::trim) == Some("xen") {
        return Some("Xen".to_owned());
    }
    let vendor = snapshot.read("/sys/class/dmi/id/sys_vendor").unwrap_or_default().trim();
    let product = snapshot.read("/sys/class/dmi/id/product_name").unwrap_or_default().trim();
    let flagged = snapshot
        .read("/proc/cpuinfo")
        .and_then(|cpuinfo| text::value_of(cpuinfo, "flags"))
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    match (vendor, product) {
        ("QEMU", _) | (_, "KVM Virtual Machine" | "Google Compute Engine") => {
            Some("KVM".to_owned())
        }
        // Bare-metal instances of Amazon carry the same vendor and say so in the product.
        ("Amazon EC2", product) if !product.contains("metal") => Some("Nitro (KVM)".to_owned()),
        _ if flagged => Some("unknown hypervisor".to_owned()),
        _ => None,
    }
}

/// Words in PID 1's cgroup path that only container engines put there.
const CONTAINER_WORDS: [(&str, &str); 6] = [
    ("kubepods", "Kubernetes"),
    ("docker", "Docker"),
    ("libpod", "Podman"),
    ("containerd", "containerd"),
    ("/lxc", "LXC"),
    ("machine.slice", "systemd-nspawn"),
];

/// Whether we run in a container, and the sign of it.
pub(crate) fn container(snapshot: &Snapshot) -> Option<String> {
    for (path, engine) in [("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")] {
        if snapshot.files.contains_key(path) {
            return Some(format!("{engine} ({path})"));
        }
    }
    if let Some(engine) = snapshot.read("/run/systemd/container").map(str::trim) {
        return Some(format!("{engine} (/run/systemd/container)"));
    }
    if kernel(snapshot).ends_with("-gvisor")
        || snapshot.read("/proc/version").is_some_and(|v| v.contains("gVisor"))
    {
        return Some("gVisor (/proc/version)".to_owned());
    }
    let cgroups = snapshot.read("/proc/1/cgroup").unwrap_or_default();
    let word = CONTAINER_WORDS.iter().find(|(word, _)| cgroups.contains(word));
    word.map(|(_, engine)| format!("{engine} (/proc/1/cgroup)"))
}

/// Event sources that count nothing in hardware memory or core units: software events, probes, model-specific
/// registers, energy and idle-state meters, graphics.
const NOT_COUNTERS: [&str; 10] = [
    "software",
    "tracepoint",
    "breakpoint",
    "kprobe",
    "uprobe",
    "msr",
    "power",
    "cstate_",
    "i915",
    "xe_",
];

/// Drivers of hardware counters, in alphabetical order; empty when there is no PMU at all.
pub(crate) fn pmu(snapshot: &Snapshot) -> Vec<String> {
    let is_counter = |name: &&str| {
        !NOT_COUNTERS.iter().any(|other| {
            *name == *other || (other.ends_with('_') || *other == "i915") && name.starts_with(other)
        })
    };
    snapshot
        .names_below(EVENT_DIRECTORY)
        .into_iter()
        .filter(is_counter)
        .map(str::to_owned)
        .collect()
}

/// Whether one of the drivers in [`facts::host::Host::pmu`] counts core events (cycles, instructions, cache
/// misses): `cpu` on x86, `cpu_core`/`cpu_atom` on hybrids, `armv8_*` and the like on Arm.
#[must_use]
pub fn has_core_counters(pmu: &[String]) -> bool {
    pmu.iter().any(|name| {
        ["cpu", "cpu_core", "cpu_atom", "cpu_lowpower"].contains(&name.as_str())
            || ["armv", "apple_", "arm_cortex"].iter().any(|prefix| name.starts_with(prefix))
    })
}

/// Where the files of the CPU controller may be mounted: version 2, hybrid, version 1 in both orders.
const V2_MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const V1_MOUNTS: [&str; 3] =
    ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpuacct,cpu"];

const V1_MEMORY: &str = "/sys/fs/cgroup/memory";

/// Deeper cgroup paths are cut: the kernel's own limit is far lower in practice.
const DEEPEST_CGROUP: usize = 64;

/// A cgroup directory and all above it, innermost first; in a container the path is the host's and often absent
/// below our mount, hence the mount's root is always one of them.
fn with_ancestors(mount: &str, path: &str) -> Vec<String> {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty()).take(DEEPEST_CGROUP).collect();
    if parts.iter().any(|part| *part == "." || *part == "..") {
        // A path outside our cgroup name space: only the root of the mount is ours.
        return vec![mount.to_owned()];
    }
    (0..=parts.len()).rev().map(|depth| [&[mount], &parts[..depth]].concat().join("/")).collect()
}

/// (is version 2, path) of a controller in `/proc/self/cgroup` (man 7 cgroups).
fn cgroups_of<'a>(cgroups: &'a str, wanted: &str) -> Vec<(bool, &'a str)> {
    cgroups
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (hierarchy, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let version_2 = hierarchy == "0" && controllers.is_empty();
            let is_wanted = controllers.split(',').any(|controller| controller == wanted);
            (version_2 || is_wanted).then_some((version_2, path))
        })
        .collect()
}

/// The directories that may limit us.
fn quota_directories(cgroups: &str) -> Vec<(bool, String)> {
    let mut directories = Vec::new();
    for (version_2, path) in cgroups_of(cgroups, "cpu") {
        let mounts: &[&str] = if version_2 { &V2_MOUNTS } else { &V1_MOUNTS };
        for mount in mounts {
            directories.extend(
                with_ancestors(mount, path).into_iter().map(|directory| (version_2, directory)),
            );
        }
    }
    directories
}

/// The files with the limit of memory and with its use, of the cgroup that `/proc/self/cgroup` names and of all above it.
#[must_use]
pub fn memory_limits(cgroups: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (version_2, path) in cgroups_of(cgroups, "memory") {
        let (mounts, limit, used): (&[&str], _, _) = match version_2 {
            true => (&V2_MOUNTS, "memory.max", "memory.current"),
            false => (&[V1_MEMORY], "memory.limit_in_bytes", "memory.usage_in_bytes"),
        };
        for directory in mounts.iter().flat_map(|mount| with_ancestors(mount, path)) {
            files.push((format!("{directory}/{limit}"), format!("{directory}/{used}")));
        }
    }
    files
}

/// The files to read for [`cpu_quota`].
pub(crate) fn quota_files(cgroups: &str) -> Vec<String> {
    let files = quota_directories(cgroups).into_iter().flat_map(|(version_2, directory)| {
        let names: &[&str] =
            if version_2 { &["cpu.max"] } else { &["cpu.cfs_quota_us", "cpu.cfs_period_us"] };
        names.iter().map(move |name| format!("{directory}/{name}")).collect::<Vec<_>>()
    });
    files.collect()
}

/// The lowest CPU quota on the way from our cgroup to the root, in CPUs; `None` when unlimited.
pub(crate) fn cpu_quota(snapshot: &Snapshot, problems: &mut Vec<String>) -> Option<f64> {
    let cgroups = snapshot.read("/proc/self/cgroup").unwrap_or_default();
    let mut lowest: Option<f64> = None;
    for (version_2, directory) in quota_directories(cgroups) {
        let read = |name: &str| snapshot.read(&format!("{directory}/{name}")).map(str::trim);
        let fields = if version_2 {
            read("cpu.max").and_then(|max| max.split_once(' '))
        } else {
            read("cpu.cfs_quota_us").zip(read("cpu.cfs_period_us"))
        };
        let Some((quota, period)) = fields else { continue };
        // No limit, in version 2 and version 1 (kernel: cgroup-v2.rst, sched-bwc.rst).
        if quota == "max" || quota == "-1" {
            continue;
        }
        match (quota.parse::<u64>(), period.parse::<u64>()) {
            (Ok(quota), Ok(period)) if quota > 0 && period > 0 => {
                let cpus = quota as f64 / period as f64;
                lowest = Some(lowest.map_or(cpus, |known| known.min(cpus)));
            }
            _ => problems.push(format!(
                "{directory}: CPU quota \"{quota}\" per \"{period}\" makes no sense: ignored"
            )),
        }
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_limited_by_each_cgroup_up_to_the_root() {
        let limits = |text| -> Vec<String> {
            memory_limits(text).into_iter().map(|(limit, _)| limit).collect()
        };
        let version_2 = limits("0::/a/b\n");
        let root = "/sys/fs/cgroup";
        let own = ["/a/b", "/a", ""].map(|path| format!("{root}{path}/memory.max"));
        assert_eq!(version_2[..3], own);
        assert_eq!(
            memory_limits("4:memory:/x\n5:cpu:/y\n")[0],
            (
                format!("{root}/memory/x/memory.limit_in_bytes"),
                format!("{root}/memory/x/memory.usage_in_bytes")
            )
        );
        let outside = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/unified/memory.max"];
        assert_eq!(limits("0::/../x\n"), outside);
        assert_eq!(limits("5:cpu:/y\nnonsense\n"), [""; 0]);
    }
}
