//! The machine as facts: what it is ([`Host`]) and what it was measured to do ([`Calibration`]).
//!
//! What for: `machine` fills these in from sysfs, cpuid and measurement; all other code only reads them. What not:
//! measuring (`calibrate`). An `Option` that is `None` was not reported by the system; it is never guessed.

use serde::{Deserialize, Serialize};

use crate::Metric;

/// What kind of data a cache holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// One cache as the system describes it. In a VM this may have little to do with what the program gets:
/// see [`Calibration::effective_caches`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3.
    pub level: u32,
    /// Data, instruction or unified.
    pub kind: CacheKind,
    /// Size of one instance, bytes.
    pub bytes: u64,
    /// Bytes per line.
    pub line_bytes: u32,
    /// Associativity; `None` when unknown or fully associative.
    pub ways: Option<u32>,
    /// How many logical CPUs share one instance.
    pub shared_by: u32,
    /// How many instances the machine has.
    pub instances: u32,
}

/// What some CPUs have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuPart {
    /// A package.
    Package,
    /// A core: they are its threads.
    Core,
    /// A cache of the kind at this position of [`Host::caches`].
    Cache(usize),
}

/// CPUs that share a part of the machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CpuGroup {
    /// The part.
    pub part: CpuPart,
    /// Its CPUs online, ascending.
    pub cpus: Vec<u32>,
}

/// One NUMA node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// Its CPUs; empty for a memory-only node (CXL, HBM).
    pub cpus: Vec<u32>,
    /// Its memory, bytes.
    pub memory_bytes: u64,
    /// Distances to all nodes in ascending order of their number (ACPI SLIT, 10 = local).
    pub distances: Vec<u32>,
}

/// A slot for a memory module, as the firmware describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemorySlot {
    /// Its name, e.g. "P0 CHANNEL A"; empty where it has none.
    pub slot: String,
    /// The name of its bank.
    pub bank: String,
    /// Kind of the module: "DDR5", "HBM2", "persistent memory"; empty where it is not known.
    pub kind: String,
    /// Its size, bytes; 0: the slot is empty.
    pub bytes: u64,
    /// At which rate it runs, 10^6 transfers per second.
    pub mega_transfers: Option<u32>,
    /// At which rate it could run.
    pub rated: Option<u32>,
    /// Bits of data of a transfer.
    pub width_bits: Option<u32>,
}

/// Memory that a program may map as a device (`/dev/dax0.0`), or that the kernel uses as a node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DaxDevice {
    /// e.g. "dax0.0".
    pub name: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// The node whose CPUs are next to it.
    pub node: Option<u32>,
    /// The node that its memory is, or would be, as system RAM.
    pub memory_node: Option<u32>,
    /// The kernel uses it as system RAM.
    pub system_ram: bool,
}

/// Which kind of memory a node has, where there is more than one kind.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryTier {
    /// The node.
    pub node: u32,
    /// The kernel's number of its tier, smaller is faster; `None` where it has only one.
    pub tier: Option<u32>,
    /// In words, e.g. "dax1.4 as system RAM".
    pub kind: String,
}

/// What memory modules could deliver if nothing was ever in their way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TheoreticalBandwidth {
    /// 10^9 bytes per second.
    pub gb_per_s: f64,
    /// Channels that modules are on; `None`: not known, and each module counts as if it had one of its own.
    pub channels: Option<u32>,
    /// Modules that count.
    pub modules: u32,
}

/// State of huge pages.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HugePages {
    /// `always`, `madvise` or `never`; `None` when the kernel has no transparent huge pages.
    pub transparent: Option<String>,
    /// `always`, `defer`, `defer+madvise`, `madvise` or `never`.
    pub defrag: Option<String>,
    /// Reserved hugetlb pools: (page size in bytes, pages in the pool, free pages).
    pub pools: Vec<(u64, u64, u64)>,
}

/// Why no bursts can be taken on machines of this architecture; `None` where they can.
#[must_use]
pub fn no_bursts_on(architecture: &str) -> Option<&'static str> {
    (architecture == "aarch64").then_some(
        "unavailable on aarch64: accesses are traced by translating the program's code, which Fathom does on x86-64 only",
    )
}

/// Whether `6-55-[0123]`, hexadecimal and with x for any digit, is the model of `6/85/3`, decimal.
#[must_use]
pub fn is_model(pattern: &str, cpu: &str) -> bool {
    let mut numbers = cpu.split('/').map(|number| number.parse::<u32>().ok());
    let mut parts = pattern.split('-');
    let mut next = || numbers.next().flatten().map(|number| format!("{number:X}"));
    let alike = |part: &str, number: &str| {
        part.len() == number.len()
            && part
                .chars()
                .zip(number.chars())
                .all(|(wanted, digit)| wanted == 'x' || wanted == digit)
    };
    let (Some(family), Some(model)) = (parts.next(), parts.next()) else { return false };
    let both = next().is_some_and(|number| alike(family, &number))
        && next().is_some_and(|number| alike(model, &number));
    both && parts.next().is_none_or(|steppings| next().is_some_and(|one| steppings.contains(&one)))
}

/// What the machine is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Host {
    /// Model name, e.g. "AMD EPYC 7763 64-Core Processor".
    pub cpu: String,
    /// CPUID vendor string, e.g. "GenuineIntel"; on Arm the implementer.
    pub vendor: String,
    /// CPUID family, model, stepping as text "6/207/2".
    pub family_model_stepping: String,
    /// `x86_64`, `aarch64`.
    pub architecture: String,
    /// Logical CPUs online.
    pub logical_cpus: u32,
    /// Physical cores (of the CPUs online).
    pub cores: u32,
    /// Packages.
    pub sockets: u32,
    /// Distinct core types on hybrid machines, e.g. [("performance", 8), ("efficiency", 16)]; else empty.
    pub core_types: Vec<(String, u32)>,
    /// Time-stamp counter, Hz, when it is invariant and known.
    pub tsc_hz: Option<f64>,
    /// Translations of 4 KiB pages for data in the second-level TLB, as the CPU reports them.
    #[serde(default)]
    pub tlb_entries: Option<u32>,
    /// Caches.
    pub caches: Vec<Cache>,
    /// Which CPUs share a package, a core or a cache; empty where the system does not say, and in earlier results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_groups: Vec<CpuGroup>,
    /// Physical memory, bytes.
    pub memory_bytes: u64,
    /// NUMA nodes.
    pub numa_nodes: Vec<NumaNode>,
    /// Slots for memory modules; empty where the system does not say, and in earlier results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_slots: Vec<MemorySlot>,
    /// Channels that the modules are on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_channels: Option<u32>,
    /// Memory as a device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dax_devices: Vec<DaxDevice>,
    /// Nodes with memory of several kinds; empty where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_tiers: Vec<MemoryTier>,
    /// Huge pages.
    pub huge_pages: HugePages,
    /// Bytes of a base page.
    pub page_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution's pretty name.
    pub os: String,
    /// Hypervisor name ("KVM", ...) when virtualised; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// Whether we run in a container, and the sign of it.
    pub container: Option<String>,
    /// Hardware counter drivers present ("cpu", "uncore_imc", "ibs_op", ...); empty means no PMU.
    pub pmu: Vec<String>,
    /// SIMD sets usable here, best last: "sse2", "avx2", "fma", "avx512f".
    pub simd: Vec<String>,
    /// CPU quota of our cgroup in CPUs (quota / period), when limited.
    pub cpu_quota: Option<f64>,
    /// CPUs we may run on.
    pub allowed_cpus: Vec<u32>,
}

impl Host {
    /// The nodes that have memory.
    pub fn memory_nodes(&self) -> impl Iterator<Item = &NumaNode> {
        self.numa_nodes.iter().filter(|node| node.memory_bytes > 0)
    }

    /// Transfers per second × bytes of a transfer, of all channels with modules of DRAM; `None` where the firmware does not state
    /// the speed of all of them. Modules of one channel share it.
    #[must_use]
    pub fn theoretical_bandwidth(&self) -> Option<TheoreticalBandwidth> {
        let is_dram = |slot: &&MemorySlot| {
            slot.bytes > 0 && (slot.kind.contains("DDR") || slot.kind.contains("HBM"))
        };
        let of = |slot: &MemorySlot| {
            let rate = f64::from(slot.mega_transfers?) * 1e6;
            Some(rate * f64::from(slot.width_bits?) / 8.0 / 1e9)
        };
        let modules: Vec<f64> =
            self.memory_slots.iter().filter(is_dram).map(of).collect::<Option<_>>()?;
        let count = u32::try_from(modules.len()).ok().filter(|count| *count > 0)?;
        let channels = self.memory_channels.filter(|channels| (1..=count).contains(channels));
        // All modules of a machine run alike, as a rule; where they do not, the mean is that of a channel.
        let each = modules.iter().sum::<f64>() / f64::from(count);
        let gb_per_s = each * f64::from(channels.unwrap_or(count));
        (gb_per_s > 0.0).then_some(TheoreticalBandwidth { gb_per_s, channels, modules: count })
    }

    /// CPUs that our process may use, its quota included; less than 1 if the quota is. `None` if unknown.
    #[must_use]
    pub fn usable_cpus(&self) -> Option<f64> {
        let allowed = match self.allowed_cpus.len() {
            0 => self.logical_cpus as usize,
            allowed => allowed,
        };
        let quota = self.cpu_quota.filter(|quota| quota.is_finite() && *quota > 0.0);
        let cpus = quota.map_or(allowed as f64, |quota| quota.min(allowed as f64));
        (cpus > 0.0).then_some(cpus)
    }
}

/// One point of the bandwidth measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BandwidthPoint {
    /// Kernel: `copy`, `scale`, `add`, `triad`, `load`, `store`, and `-nt` for non-temporal stores.
    pub kernel: String,
    /// Threads.
    pub threads: u32,
    /// Bytes the program itself reads and writes per second, without write-allocate (STREAM's convention), GB/s.
    pub program: Metric,
    /// Bytes that cross the memory bus by arithmetic: with write-allocate reads for ordinary stores, GB/s.
    pub bus: Metric,
}

/// One point of the latency ladder.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// Bytes chased.
    pub bytes: u64,
    /// Page size used, bytes.
    pub page_bytes: u64,
    /// Nanoseconds per dependent load.
    pub latency: Metric,
}

/// A cache level as the ladder shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EffectiveCache {
    /// 1, 2, 3.
    pub level: u32,
    /// Size up to which a chase stays near this level's latency, bytes.
    pub bytes: Metric,
    /// Nanoseconds per dependent load on its plateau.
    pub latency: Metric,
}

/// Bandwidth of a level of cache.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LevelBandwidth {
    /// 1, 2, 3.
    pub level: u32,
    /// Kernel: `load`, or `copy`, which stores to half of its lines.
    pub kernel: String,
    /// Threads.
    pub threads: u32,
    /// Bytes of the lines that come from it into the level above, all threads together, GB/s; of the first level the bytes
    /// that the program loads and stores.
    pub rate: Metric,
}

/// Memory of one NUMA node as the CPUs of a node reach it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodePair {
    /// The node whose CPUs load.
    pub from: u32,
    /// The node that has the memory.
    pub to: u32,
    /// Nanoseconds per dependent load.
    pub latency: Metric,
    /// What one of the CPUs reads, GB/s.
    pub one_thread: Metric,
    /// What all of them read together, GB/s.
    pub all_threads: Metric,
    /// How many threads that was.
    pub threads: u32,
    /// Latency while the other CPUs of the node read, from no load on; empty with one CPU, where the time was up, and in older files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded: Vec<LoadedLatency>,
}

impl NodePair {
    /// The knee of its curve under load, as [`Calibration::knee`].
    #[must_use]
    pub fn knee(&self) -> Option<&LoadedLatency> {
        knee(self.loaded.iter())
    }
}

/// The first point at which a load takes half more than at the first, at the unfavourable ends of both intervals.
fn knee<'a>(mut curve: impl Iterator<Item = &'a LoadedLatency>) -> Option<&'a LoadedLatency> {
    let idle = curve.next()?.latency.high?;
    curve.find(|point| point.latency.low.is_some_and(|low| low > idle * BENT))
}

/// Latency of memory while other threads read.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LoadedLatency {
    /// Threads: one with dependent loads, the others read.
    pub threads: u32,
    /// What all of them read together, GB/s.
    pub rate: Metric,
    /// Nanoseconds per dependent load.
    pub latency: Metric,
}

/// Peak floating-point rate of one SIMD set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlopsPoint {
    /// `scalar`, `sse2`, `avx2+fma`, `avx512f`.
    pub simd: String,
    /// `double` or `single`.
    pub precision: String,
    /// Threads.
    pub threads: u32,
    /// GFLOP/s, a fused multiply-add counted as two.
    pub rate: Metric,
}

/// What the machine was measured to do.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Calibration {
    /// Version of the measuring code: a newer one discards the cache.
    pub version: u32,
    /// Digest of what would change the figures (CPU, CPUs allowed, memory, kernel, huge pages).
    pub fingerprint: String,
    /// When, seconds since 1970.
    pub measured_unix: u64,
    /// How long it took, seconds.
    pub took_seconds: f64,
    /// Highest bus bandwidth reached by a kernel whose bus traffic is certain, GB/s.
    pub dram_bandwidth_peak: Option<Metric>,
    /// Which kernel and thread count reached it, e.g. "triad-nt, 2 threads".
    pub peak_kernel: Option<String>,
    /// All bandwidth points.
    pub bandwidth: Vec<BandwidthPoint>,
    /// All ladder points.
    pub ladder: Vec<LatencyPoint>,
    /// Cache levels as the ladder shows them.
    pub effective_caches: Vec<EffectiveCache>,
    /// Bandwidth of each of them; empty in calibrations of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub level_bandwidth: Vec<LevelBandwidth>,
    /// Latency far beyond the last cache, ns (2 MB pages where available).
    pub dram_latency: Option<Metric>,
    /// Each node with CPUs and each with memory; empty where one node has all memory, and in calibrations of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_pairs: Vec<NodePair>,
    /// Latency under load, for each number of threads from the lowest rate on; empty with one CPU, and in calibrations of
    /// earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded_latency: Vec<LoadedLatency>,
    /// Floating-point peaks.
    pub flops: Vec<FlopsPoint>,
    /// Highest of them with all threads, double precision, GFLOP/s.
    pub flops_peak: Option<Metric>,
    /// Cost of a minor fault on a fresh anonymous 4 KB page, ns.
    pub page_fault_4k: Option<Metric>,
    /// Cost of a minor fault on a fresh anonymous 2 MB page, ns; `None` when such pages cannot be had.
    pub page_fault_2m: Option<Metric>,
    /// Cost of a mispredicted branch, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_miss: Option<Metric>,
    /// Costs of single operations; empty in calibrations of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OperationCost>,
    /// What a clock sample costs the program, ns (interrupt, stack copy), when perf events are allowed.
    pub sample_cost: Option<Metric>,
    /// The skid of clock samples: how far after the stalled instruction they are; empty where perf events are
    /// refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sample_distances: Vec<SampleDistance>,
    /// Other programs or virtual machines used a good part of the CPUs meanwhile: rates may be too low, latencies too
    /// high.
    #[serde(default)]
    pub disturbed: bool,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
    /// The peaks of earlier measurements of this machine, newest last; at most ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_peaks: Vec<EarlierPeak>,
}

/// A curve is beyond its knee where a load takes so many times as long as without load.
const BENT: f64 = 1.5;

impl Calibration {
    /// Latency of a level of cache, nanoseconds, as the ladder measured it.
    #[must_use]
    pub fn cache_latency(&self, level: u32) -> Option<f64> {
        self.effective_caches.iter().find(|cache| cache.level == level)?.latency.value
    }

    /// The points of latency under load with so many threads.
    pub fn under_load(&self, threads: u32) -> impl Iterator<Item = &LoadedLatency> {
        self.loaded_latency.iter().filter(move |point| point.threads == threads)
    }

    /// The knee of that curve: the first point at which a load takes half more than without load, at the unfavourable ends of
    /// both intervals. `None` where no rate that was reached is beyond it.
    #[must_use]
    pub fn knee(&self, threads: u32) -> Option<&LoadedLatency> {
        knee(self.under_load(threads))
    }

    /// Without load, and the first point with at least this rate, or the last one; with as many threads as were measured.
    #[must_use]
    pub fn latency_at(&self, rate: f64) -> Option<[&LoadedLatency; 2]> {
        let threads = self.loaded_latency.iter().map(|point| point.threads).max()?;
        let first = self.under_load(threads).next()?;
        let reaches = |point: &&LoadedLatency| point.rate.value.is_some_and(|own| own >= rate);
        let there = self.under_load(threads).find(reaches).or(self.under_load(threads).last())?;
        Some([first, there])
    }

    /// The highest bandwidth of the bus: the best pass of a kernel whose traffic is certain, while the points of
    /// [`Calibration::bandwidth`] are medians. A peak says what the bus can do, and whatever else runs only takes away
    /// from it, so the best pass is nearer to it than the median (STREAM reports best passes for the same reason). Its
    /// interval begins at the third best pass, so that a single outlier shows.
    ///
    /// Programs' traffic is counted with a read for each line that is stored to. So kernels with ordinary stores count in the same way,
    /// although some CPUs avoid such reads: otherwise a program could seem to move more than the machine can.
    #[must_use]
    pub fn peak(&self) -> Option<BandwidthPeak<'_>> {
        let certain = self.dram_bandwidth_peak.as_ref().and_then(|peak| peak.value);
        let rate = |point: &&BandwidthPoint| point.bus.value.unwrap_or(0.0);
        let best = self.bandwidth.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
        match best.filter(|best| certain.is_some_and(|certain| rate(best) > certain)) {
            Some(best) => {
                let name = if best.threads == 1 { "thread" } else { "threads" };
                let reached_by = format!("median pass of {}, {} {name}", best.kernel, best.threads);
                Some(BandwidthPeak { rate: &best.bus, reached_by: Some(reached_by) })
            }
            None => Some(BandwidthPeak {
                rate: self.dram_bandwidth_peak.as_ref()?,
                reached_by: self
                    .peak_kernel
                    .as_ref()
                    .map(|kernel| format!("best pass of {kernel}")),
            }),
        }
    }
}

/// The highest bandwidth of the bus that was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct BandwidthPeak<'a> {
    /// GB/s.
    pub rate: &'a Metric,
    /// Which pass of which kernel with how many threads, such as "best pass of triad-nt, 2 threads".
    pub reached_by: Option<String>,
}

/// Whether a reading was taken before the program started or after it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadingMoment {
    /// Just before it started.
    Before,
    /// Right after its end.
    After,
}

/// A short reading of the memory's speed, next to a run: a [`Calibration`] may be hours old, and a virtual machine's
/// neighbours change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemoryReading {
    /// Before or after the run.
    pub moment: ReadingMoment,
    /// When, seconds since 1970.
    pub measured_unix: u64,
    /// How long it took, seconds.
    pub took_seconds: f64,
    /// The memory that it passed over, bytes.
    pub bytes: u64,
    /// What it measured.
    pub points: Vec<ReadingPoint>,
}

/// A kernel's rate in a reading.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReadingPoint {
    /// As [`BandwidthPoint::kernel`]; its bus traffic is certain.
    pub kernel: String,
    /// Threads.
    pub threads: u32,
    /// As [`BandwidthPoint::bus`]: the median of the passes. Passes that other programs disturbed are lost.
    pub bus: Metric,
    /// Each pass, in the order in which they were made, GB/s.
    pub passes: Vec<f64>,
}

/// What fresh pages cost just before a run: memory that is fragmented, full of cached files, or not yet backed by a hypervisor
/// makes large ones dear.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PageReading {
    /// Nanoseconds for each 4 KiB page, one value for each 2 MiB of them.
    pub small: Vec<f64>,
    /// Nanoseconds for each 2 MiB of memory that was asked for in large pages, in the order of the touches.
    pub large: Vec<f64>,
    /// For how many of these the kernel gave small pages.
    pub refused: u32,
    /// Free blocks of 2 MiB before the first touch; `None` where the kernel does not say.
    pub free_large: Option<u64>,
}

/// Cost of an operation of the core with its data in registers or L1.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OperationCost {
    /// Its name, such as `multiply` or `float-divide`.
    pub operation: String,
    /// Width of its operands; 64 is a scalar.
    pub bits: u32,
    /// Nanoseconds for each of many that do not wait for each other.
    pub each: Metric,
    /// Nanoseconds for each of many of which one waits for the other; `None` where that is impossible.
    pub latency: Option<Metric>,
}

/// The distribution of clock samples in a loop that waits for one instruction nearly all the time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SampleDistance {
    /// What it waits for: `load`, `load-op`, `atomic`, `store`, `division`.
    pub kind: String,
    /// Percent of the loop's samples at the instruction, one after it, two, three.
    pub percent: Vec<Metric>,
}

/// The peak bandwidth of an earlier measurement of the same machine.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct EarlierPeak {
    /// When it was measured, seconds since 1970.
    pub measured_unix: u64,
    /// As [`Calibration::dram_bandwidth_peak`].
    pub gb_per_s: f64,
}
