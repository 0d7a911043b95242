//! What the counters of a machine can do, as the kernel describes it below `/sys/bus/event_source/devices`.
//!
//! What for: every PMU with its kind, CPUs, named events and the fields of its configuration, as data; and what the
//! kernel's settings let a user open. What not: opening one, names of events that only the makers' tables have.
//!
//! Source: Documentation/ABI/testing/sysfs-bus-event_source-devices{,-caps,-events,-format}, admin-guide/perf-security.rst.
//! Files are allegations: a line that is no such description is left out; numbers of files and lengths are bounded.

use crate::snapshot::EVENT_DIRECTORY;
use crate::{Source, text};

/// More of one kind are cut off.
const MOST_FILES: usize = 1024;
/// Longer lines are no descriptions.
const LONGEST: usize = 512;

/// What a PMU counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PmuKind {
    /// A core.
    Core,
    /// AMD's instruction-based sampling.
    Ibs,
    /// Arm's statistical profiling.
    Spe,
    /// A memory controller.
    MemoryController,
    /// A cache outside of the cores, or what keeps caches coherent.
    SharedCache,
    /// A link between sockets, or to devices.
    Link,
    /// Another part outside of the cores.
    Uncore,
    /// Energy.
    Power,
    /// Time in idle states.
    IdleStates,
    /// A trace of executed code.
    Trace,
    /// Registers of the processor as counters.
    Registers,
    /// Something else: a device, or of the kernel itself.
    Other,
}

/// By the beginnings of names: `drivers/perf`, `arch/*/events`.
const KINDS: [(&str, PmuKind); 35] = [
    ("cpu", PmuKind::Core),
    ("cpu_core", PmuKind::Core),
    ("cpu_atom", PmuKind::Core),
    ("cpu_lowpower", PmuKind::Core),
    ("armv", PmuKind::Core),
    ("apple_", PmuKind::Core),
    ("ibs_", PmuKind::Ibs),
    ("arm_spe", PmuKind::Spe),
    ("uncore_imc", PmuKind::MemoryController),
    ("amd_umc", PmuKind::MemoryController),
    ("uncore_m2m", PmuKind::MemoryController),
    ("arm_dmc", PmuKind::MemoryController),
    ("uncore_hbm", PmuKind::MemoryController),
    ("uncore_mchbm", PmuKind::MemoryController),
    ("hisi_sccl", PmuKind::Uncore),
    ("uncore_cha", PmuKind::SharedCache),
    ("uncore_chabox", PmuKind::SharedCache),
    ("uncore_cbox", PmuKind::SharedCache),
    ("amd_l3", PmuKind::SharedCache),
    ("arm_dsu", PmuKind::SharedCache),
    ("uncore_upi", PmuKind::Link),
    ("uncore_qpi", PmuKind::Link),
    ("uncore_m3upi", PmuKind::Link),
    ("uncore_iio", PmuKind::Link),
    ("uncore_cxl", PmuKind::Link),
    ("amd_df", PmuKind::Uncore),
    ("arm_cmn", PmuKind::Uncore),
    ("uncore_", PmuKind::Uncore),
    ("uncore", PmuKind::Uncore),
    ("power", PmuKind::Power),
    ("cstate_", PmuKind::IdleStates),
    ("intel_pt", PmuKind::Trace),
    ("intel_bts", PmuKind::Trace),
    ("cs_etm", PmuKind::Trace),
    ("msr", PmuKind::Registers),
];

impl PmuKind {
    fn of(name: &str) -> PmuKind {
        let fits = |known: &str| match known {
            "cpu" | "msr" | "uncore" => name == known,
            _ => name.starts_with(known),
        };
        // The longest name that fits says most.
        let known = KINDS.iter().filter(|(known, _)| fits(known));
        known.max_by_key(|(known, _)| known.len()).map_or(PmuKind::Other, |(_, kind)| *kind)
    }

    /// In a few words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PmuKind::Core => "cores",
            PmuKind::Ibs => "instruction-based sampling",
            PmuKind::Spe => "statistical profiling",
            PmuKind::MemoryController => "memory controllers",
            PmuKind::SharedCache => "shared caches",
            PmuKind::Link => "links",
            PmuKind::Uncore => "outside of the cores",
            PmuKind::Power => "energy",
            PmuKind::IdleStates => "idle states",
            PmuKind::Trace => "traces of code",
            PmuKind::Registers => "registers",
            PmuKind::Other => "other",
        }
    }

    /// Whether it counts for CPUs as a whole, never for one program.
    #[must_use]
    pub fn is_of_machine(self) -> bool {
        use PmuKind::{IdleStates, Link, MemoryController, Power, SharedCache, Uncore};
        matches!(self, MemoryController | SharedCache | Link | Uncore | Power | IdleStates)
    }
}

/// Bits of one word of `perf_event_attr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    /// The word: 0 for `config`, 1 to 4 for `config1` to `config4`.
    pub word: u8,
    /// First bit.
    pub first: u8,
    /// Last bit.
    pub last: u8,
}

/// A field of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name: `umask`.
    pub name: String,
    /// Where its bits go, lowest first.
    pub bits: Vec<Bits>,
}

/// An event that the kernel names.
#[derive(Clone, PartialEq, Debug)]
pub struct PmuEvent {
    /// Its name.
    pub name: String,
    /// Fields and their values; a field without a value is 1, or `None` where the user must give one (`?`).
    pub terms: Vec<(String, Option<u64>)>,
    /// What one count is, in `unit`.
    pub scale: Option<f64>,
    /// `MiB`, `Joules`.
    pub unit: Option<String>,
}

/// A PMU.
#[derive(Clone, PartialEq, Debug)]
pub struct Pmu {
    /// Its name.
    pub name: String,
    /// `perf_event_attr.type`.
    pub number: u32,
    /// What it counts.
    pub kind: PmuKind,
    /// CPUs whose cores it is of, or at which it is opened (one per socket); `None`: any.
    pub cpus: Option<Vec<u32>>,
    /// Fields of its configuration.
    pub fields: Vec<Field>,
    /// Events with names.
    pub events: Vec<PmuEvent>,
    /// Its further attributes: `branches`, `max_precise`, `ldlat`.
    pub capabilities: Vec<(String, String)>,
}

impl Pmu {
    /// The number that it says a capability has.
    #[must_use]
    pub fn capability(&self, name: &str) -> Option<u64> {
        let (_, value) = self.capabilities.iter().find(|(known, _)| known == name)?;
        number(value)
    }

    /// Whether it has this field.
    #[must_use]
    pub fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }
}

/// All PMUs, by kind and name.
#[must_use]
pub fn pmus(source: &dyn Source) -> Vec<Pmu> {
    let names = names(source, EVENT_DIRECTORY);
    let mut all: Vec<Pmu> = names.iter().filter_map(|name| pmu(source, name)).collect();
    all.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    all
}

fn pmu(source: &dyn Source, name: &str) -> Option<Pmu> {
    let directory = format!("{EVENT_DIRECTORY}/{name}");
    let read = |file: &str| line(source, &format!("{directory}/{file}"));
    // Cores of a hybrid have `cpus`, others `cpumask`.
    let cpus = read("cpus").or_else(|| read("cpumask"));
    let below = |folder: &str| -> Vec<(String, String)> {
        let folder = format!("{directory}/{folder}");
        let files = names(source, &folder).into_iter();
        files
            .filter_map(|file| Some((line(source, &format!("{folder}/{file}"))?, file)))
            .map(|(text, file)| (file, text))
            .collect()
    };
    let described = below("events");
    Some(Pmu {
        name: name.to_owned(),
        number: read("type")?.parse().ok()?,
        kind: PmuKind::of(name),
        cpus: cpus.and_then(|list| text::number_list(&list).ok()).filter(|list| !list.is_empty()),
        fields: below("format").iter().filter_map(|(name, text)| field(name, text)).collect(),
        events: described.iter().filter_map(|one| event(one, &described)).collect(),
        capabilities: below("caps"),
    })
}

fn names(source: &dyn Source, directory: &str) -> Vec<String> {
    let plain = |name: &String| {
        !name.is_empty()
            && name.len() <= LONGEST
            && name != "."
            && name != ".."
            && !name.contains('/')
    };
    let mut names: Vec<String> = source.list(directory).into_iter().filter(plain).collect();
    names.sort();
    names.truncate(MOST_FILES);
    names
}

fn line(source: &dyn Source, path: &str) -> Option<String> {
    let text = source.read(path)?;
    let line = text.trim();
    (line.len() <= LONGEST && !line.contains('\n')).then(|| line.to_owned())
}

/// `config:0-7,32-35`, `config1:0`.
fn field(name: &str, text: &str) -> Option<Field> {
    let (word, ranges) = text.split_once(':')?;
    let word = match word.strip_prefix("config")? {
        "" => 0,
        digit => digit.parse().ok().filter(|word| (1..=4).contains(word))?,
    };
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last < 64).then_some(Bits { word, first, last })
    };
    let bits: Option<Vec<Bits>> = ranges.split(',').map(range).collect();
    Some(Field { name: name.to_owned(), bits: bits? })
}

/// `event=0x04,umask=0x03`, with `NAME.scale` and `NAME.unit` next to it.
fn event((name, text): &(String, String), all: &[(String, String)]) -> Option<PmuEvent> {
    const PARTS: [&str; 4] = [".scale", ".unit", ".per-pkg", ".snapshot"];
    if PARTS.iter().any(|part| name.ends_with(part)) {
        return None;
    }
    let term = |term: &str| match term.split_once('=') {
        None => Some((term.to_owned(), Some(1))),
        Some((field, "?")) => Some((field.to_owned(), None)),
        Some((field, value)) => Some((field.to_owned(), Some(number(value)?))),
    };
    let terms: Option<Vec<(String, Option<u64>)>> = text.split(',').map(term).collect();
    let part = |part: &str| {
        let wanted = format!("{name}{part}");
        all.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text)
    };
    Some(PmuEvent {
        name: name.clone(),
        terms: terms?,
        scale: part(".scale")
            .and_then(|text| text.parse().ok())
            .filter(|scale: &f64| scale.is_finite()),
        unit: part(".unit").cloned(),
    })
}

pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// What the kernel's settings let this process count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// Its own programs, in user space.
    pub own: bool,
    /// These in the kernel, too.
    pub kernel: bool,
    /// Whole CPUs: all programs, and what lies outside of the cores.
    pub machine: bool,
}

/// From `/proc/sys/kernel/perf_event_paranoid` and `/proc/self/status`; what cannot be read allows nothing.
#[must_use]
pub fn rights(paranoid: &str, status: &str) -> Rights {
    /// `CAP_PERFMON`, and `CAP_SYS_ADMIN` before Linux 5.8.
    const PRIVILEGES: u64 = 1 << 38 | 1 << 21;
    let effective = text::value_of(status, "CapEff");
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    let privileged = effective.is_some_and(|bits| bits & PRIVILEGES != 0);
    // Debian and Android have 3: nobody but root.
    let level = paranoid.trim().parse::<i32>().unwrap_or(i32::MAX);
    let up_to = |most: i32| privileged || level <= most;
    Rights { own: up_to(2), kernel: up_to(1), machine: up_to(0) }
}
