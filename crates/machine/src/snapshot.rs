//! All text that describes a machine: a bug report contains it and a test can replay it.
//!
//! What not: its meaning (`host`).

use std::collections::{BTreeMap, BTreeSet};

use crate::cpuid::CpuidDump;
use crate::{MachineError, modules, smbios, text};

/// Where the files come from: the live system, or a directory with a stored one.
pub trait Source {
    /// The content of a file by absolute path; `None` when it cannot be read.
    fn read(&self, path: &str) -> Option<String>;
    /// The names in a directory; empty when it cannot be read.
    fn list(&self, directory: &str) -> Vec<String>;
    /// The content of a file that is no text; `None` when it cannot be read, as in most stored descriptions.
    fn bytes(&self, _path: &str) -> Option<Vec<u8>> {
        None
    }
}

/// Files by absolute path. A directory is there as long as files are below it.
impl Source for BTreeMap<String, String> {
    fn read(&self, path: &str) -> Option<String> {
        self.get(path).cloned()
    }

    fn list(&self, directory: &str) -> Vec<String> {
        names_below(self, directory).into_iter().map(str::to_owned).collect()
    }
}

/// The raw description of a machine.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// File contents by absolute path. A file that is only a sign (`/.dockerenv`) has an empty one.
    pub files: BTreeMap<String, String>,
    /// CPUID leaves; empty on other architectures.
    pub cpuid: CpuidDump,
    /// `x86_64`, `aarch64`.
    pub architecture: String,
    /// Bytes of a base page; 0 when unknown.
    pub page_bytes: u64,
    /// Time-stamp counter, Hz, as measured; used when CPUID does not state it.
    pub measured_tsc_hz: Option<f64>,
}

const FIXED_FILES: [&str; 24] = [
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/version",
    "/proc/sys/kernel/osrelease",
    "/proc/self/status",
    "/proc/self/cgroup",
    "/proc/1/cgroup",
    "/etc/os-release",
    "/usr/lib/os-release",
    "/.dockerenv",
    "/run/.containerenv",
    "/run/systemd/container",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/hypervisor/type",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/present",
    "/sys/devices/system/node/online",
    "/sys/devices/cpu_core/cpus",
    "/sys/devices/cpu_atom/cpus",
    "/sys/devices/cpu_lowpower/cpus",
    "/sys/devices/system/cpu/smt/active",
];

const TOPOLOGY_FILES: [&str; 6] = [
    "physical_package_id",
    "core_id",
    "thread_siblings_list",
    "thread_siblings",
    "core_siblings_list",
    "core_siblings",
];

const CACHE_FILES: [&str; 5] =
    ["level", "type", "size", "coherency_line_size", "ways_of_associativity"];

pub(crate) const CPU_DIRECTORY: &str = "/sys/devices/system/cpu";
pub(crate) const NODE_DIRECTORY: &str = "/sys/devices/system/node";
pub(crate) const POOL_DIRECTORY: &str = "/sys/kernel/mm/hugepages";
pub(crate) const EVENT_DIRECTORY: &str = "/sys/bus/event_source/devices";

const NODE_FILES: [&str; 6] = [
    "cpulist",
    "cpumap",
    "meminfo",
    "distance",
    "access0/initiators/read_bandwidth",
    "access1/initiators/read_bandwidth",
];

/// The firmware's table; a snapshot has the memory slots in it as lines of text.
pub(crate) const MODULE_TABLE: &str = "/sys/firmware/dmi/tables/DMI";
const MODULE_ENTRIES: &str = "/sys/firmware/dmi/entries";
pub(crate) const EDAC_DIRECTORY: &str = "/sys/devices/system/edac/mc";
pub(crate) const DAX_DEVICES: &str = "/sys/bus/dax/devices";
/// A snapshot has the devices that this driver uses as its content.
pub(crate) const DAX_SYSTEM_RAM: &str = "/sys/bus/dax/drivers/kmem";
pub(crate) const TIER_DIRECTORY: &str = "/sys/devices/virtual/memory_tiering";

impl Snapshot {
    /// Collects the files that [`crate::describe`] asks for. Costs about 25 small reads and 15 more per CPU.
    #[must_use]
    pub fn take(source: &dyn Source) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for path in FIXED_FILES {
            snapshot.add(source, path.to_owned());
        }
        snapshot.add_cpus(source);
        snapshot.add_memory(source);
        snapshot.add_modules(source);
        snapshot.add_devices(source);
        for device in numbered_or_named(source, EVENT_DIRECTORY, "") {
            snapshot.add(source, format!("{EVENT_DIRECTORY}/{device}/type"));
        }
        let cgroups = snapshot.files.get("/proc/self/cgroup").cloned().unwrap_or_default();
        for path in crate::surroundings::quota_files(&cgroups) {
            snapshot.add(source, path);
        }
        snapshot
    }

    fn add(&mut self, source: &dyn Source, path: String) -> bool {
        match source.read(&path) {
            Some(content) => {
                self.files.insert(path, content);
                true
            }
            None => false,
        }
    }

    fn add_cpus(&mut self, source: &dyn Source) {
        // Of each cache instance only the first CPU's files are read: on a machine with 256 CPUs that is a
        // tenth of them.
        let mut known_instances = BTreeSet::new();
        for cpu in self.online_cpus_in(source) {
            let directory = format!("{CPU_DIRECTORY}/cpu{cpu}");
            for file in TOPOLOGY_FILES {
                // The mask is only read where the list does not exist.
                let stem = file.trim_end_matches("_list");
                let has_list =
                    self.files.contains_key(&format!("{directory}/topology/{stem}_list"));
                if !(has_list && file == stem) {
                    self.add(source, format!("{directory}/topology/{file}"));
                }
            }
            for index in 0..16 {
                let cache = format!("{directory}/cache/index{index}");
                let shared =
                    [format!("{cache}/shared_cpu_list"), format!("{cache}/shared_cpu_map")];
                let found = shared.into_iter().find_map(|path| Some((source.read(&path)?, path)));
                let Some((content, path)) = found else {
                    // Some old trees have a cache without its sharing; none has a gap in the numbering.
                    let present =
                        CACHE_FILES.map(|file| self.add(source, format!("{cache}/{file}")));
                    if !present.contains(&true) {
                        break;
                    }
                    continue;
                };
                let first_of_instance = known_instances.insert((index, content.clone()));
                self.files.insert(path, content);
                if first_of_instance {
                    for file in CACHE_FILES {
                        self.add(source, format!("{cache}/{file}"));
                    }
                }
            }
        }
    }

    /// From `online`, or from the directory where that file is missing (kernels before 2.6.26).
    fn online_cpus_in(&self, source: &dyn Source) -> Vec<u32> {
        let listed = self
            .files
            .get("/sys/devices/system/cpu/online")
            .map(|online| text::number_list(online));
        match listed {
            Some(Ok(cpus)) => cpus,
            _ => numbered_or_named(source, CPU_DIRECTORY, "cpu")
                .iter()
                .filter_map(|name| name[3..].parse().ok())
                .collect(),
        }
    }

    fn add_memory(&mut self, source: &dyn Source) {
        for node in numbered_or_named(source, NODE_DIRECTORY, "node") {
            for file in NODE_FILES {
                self.add(source, format!("{NODE_DIRECTORY}/{node}/{file}"));
            }
        }
        for pool in source.list(POOL_DIRECTORY).iter().filter(|name| is_plain_name(name)) {
            for file in ["nr_hugepages", "free_hugepages"] {
                self.add(source, format!("{POOL_DIRECTORY}/{pool}/{file}"));
            }
        }
    }

    /// Only root may read the firmware's table; that of a kernel without `dmi_sysfs` has no entries.
    fn add_modules(&mut self, source: &dyn Source) {
        let entries = || {
            let names = numbered_or_named(source, MODULE_ENTRIES, "17-");
            let raw = names
                .iter()
                .filter_map(|name| source.bytes(&format!("{MODULE_ENTRIES}/{name}/raw")));
            raw.flat_map(|entry| smbios::memory_slots(&entry)).collect::<Vec<_>>()
        };
        let table = source.bytes(MODULE_TABLE).map(|table| smbios::memory_slots(&table));
        let slots = table.filter(|slots| !slots.is_empty()).unwrap_or_else(entries);
        if !slots.is_empty() {
            let lines: Vec<String> = slots.iter().map(modules::line).collect();
            self.files.insert(MODULE_TABLE.to_owned(), lines.join("\n"));
        }
        for controller in numbered_or_named(source, EDAC_DIRECTORY, "mc") {
            for kind in ["dimm", "rank"] {
                let directory = format!("{EDAC_DIRECTORY}/{controller}");
                for module in numbered_or_named(source, &directory, kind) {
                    for file in ["dimm_label", "dimm_location", "dimm_mem_type", "size"] {
                        self.add(source, format!("{directory}/{module}/{file}"));
                    }
                }
            }
        }
    }

    fn add_devices(&mut self, source: &dyn Source) {
        for device in numbered_or_named(source, DAX_DEVICES, "") {
            for file in ["size", "numa_node", "target_node"] {
                self.add(source, format!("{DAX_DEVICES}/{device}/{file}"));
            }
        }
        let system_ram = numbered_or_named(source, DAX_SYSTEM_RAM, "");
        let system_ram: Vec<String> =
            system_ram.into_iter().filter(|name| name.starts_with("dax")).collect();
        if !system_ram.is_empty() {
            self.files.insert(DAX_SYSTEM_RAM.to_owned(), system_ram.join(" "));
        }
        for tier in numbered_or_named(source, TIER_DIRECTORY, "memory_tier") {
            self.add(source, format!("{TIER_DIRECTORY}/{tier}/nodelist"));
        }
    }

    /// A file's content.
    #[must_use]
    pub fn read(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// The names directly below `directory` that have files in this snapshot, in order.
    #[must_use]
    pub fn names_below(&self, directory: &str) -> BTreeSet<&str> {
        names_below(&self.files, directory)
    }

    /// The files as one text, `== /path` before each: for bug reports and tests. CPUID is not part of it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut whole = String::new();
        for (path, content) in &self.files {
            whole.push_str(&format!("== {path}\n"));
            whole.push_str(content);
            if !content.ends_with('\n') {
                whole.push('\n');
            }
        }
        whole
    }

    /// Reads the files back from [`Snapshot::to_text`].
    ///
    /// # Errors
    /// [`MachineError::Snapshot`] when the text does not begin with a path.
    pub fn from_text(whole: &str) -> Result<Snapshot, MachineError> {
        let mut snapshot = Snapshot::default();
        let mut current: Option<&mut String> = None;
        for (number, line) in whole.lines().enumerate() {
            if let Some(path) = line.strip_prefix("== ") {
                current = Some(snapshot.files.entry(path.to_owned()).or_default());
            } else if let Some(content) = current.as_deref_mut() {
                content.push_str(line);
                content.push('\n');
            } else {
                return Err(MachineError::Snapshot { line: number + 1 });
            }
        }
        Ok(snapshot)
    }
}

fn names_below<'a>(files: &'a BTreeMap<String, String>, directory: &str) -> BTreeSet<&'a str> {
    let prefix = format!("{directory}/");
    files
        .range(prefix.clone()..)
        .take_while(|(path, _)| path.starts_with(&prefix))
        .filter_map(|(path, _)| path[prefix.len()..].split('/').next())
        .collect()
}

/// Names in `directory` that are `prefix` and a number, in order of the number; with an empty prefix all names.
fn numbered_or_named(source: &dyn Source, directory: &str, prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = source
        .list(directory)
        .into_iter()
        .filter(|name| is_plain_name(name))
        .filter(|name| {
            let number = name.strip_prefix(prefix).map(str::parse::<u32>);
            prefix.is_empty()
                || matches!(number, Some(Ok(number)) if number <= text::LARGEST_NUMBER)
        })
        .collect();
    // By length first, so that cpu10 comes after cpu9.
    names.sort_by_key(|name| (name.len(), name.clone()));
    names
}

/// No way out of the directory it is in.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}
