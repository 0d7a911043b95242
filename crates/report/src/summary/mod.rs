//! The summary: its model. Field names are the JSON keys; `docs/format/summary.schema.json` describes them and
//! `docs/glossary` explains each figure.

mod build;
mod core_limit;
mod first_checks;
mod kernel;
mod memory;
mod repeat;
mod text;
mod threading;
mod verdict;

pub use build::signal_name;
pub use core_limit::CoreLimitSummary;
pub(crate) use core_limit::words;
pub use repeat::Spread;
pub(crate) use text::{markdown, quoted, text};
pub use threading::{AtOnceSummary, ReasonSummary, ThreadingSummary, VerdictSummary};

use facts::Metric;
use facts::host::Cache;
use serde::Serialize;

pub use crate::findings::{FindingSummary, PlaceSummary, ProofSummary, UndecidedSummary};

/// Version of the summary's JSON. New keys do not change it; a changed meaning does.
pub(crate) const SUMMARY_SCHEMA: u32 = 1;

/// The whole recording on one page.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct Summary {
    pub schema: u32,
    pub fathom_version: String,
    pub result: String,
    pub command: Vec<String>,
    /// As a shell reports it: 128 + n after signal n; `None` when it is not known or still running.
    pub exit_code: Option<i32>,
    pub exit: String,
    pub state: &'static str,
    pub target: &'static str,
    /// The file of another tool that this was imported from; `None` for our own recordings.
    pub source: Option<facts::Source>,
    pub analysis: &'static str,
    pub host: HostSummary,
    /// How many runs of the program are in here; totals are of one of them, on average.
    pub runs: u64,
    pub spread: Spread,
    pub elapsed: Metric,
    /// Part of `elapsed` in which nothing was observed; only where the collection was paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Metric>,
    pub cpu_time: Metric,
    pub threads: Metric,
    pub processes: Metric,
    pub cpu_utilisation: Metric,
    pub overhead: Metric,
    pub overhead_parts: OverheadParts,
    pub coverage: CoverageSummary,
    pub sampling_cost: Metric,
    pub time_split: TimeSplitSummary,
    pub machine: MachineSummary,
    pub dram_bandwidth: BandwidthSummary,
    pub cache_bandwidth: CacheBandwidth,
    /// `bandwidth-bound`, `latency-bound`, `tlb-bound` or `core-bound`; `None` where the evidence does not decide.
    pub classification: Option<&'static str>,
    /// For `bandwidth-bound`: `DRAM`, `L3` or `L2`.
    pub bandwidth_level: Option<&'static str>,
    /// For `core-bound`, the limit in the core; `None` where that is not known.
    pub core_limit: Option<CoreLimitSummary>,
    /// Why so, or why not.
    pub classification_reason: String,
    /// `is`, `probably`, `mixed` or `undecided`; `None` where another analysis did not ask.
    pub classification_certainty: Option<&'static str>,
    /// What limits the program and how surely, in a sentence or two.
    pub verdict: String,
    /// What would narrow its interval.
    pub verdict_decided_by: Option<String>,
    pub memory_bound: Metric,
    pub elapsed_without_misses: Metric,
    pub elapsed_without_bandwidth_limit: Metric,
    pub average_load_latency: Metric,
    pub exposed_load_latency: Metric,
    pub loads: Metric,
    pub stores: Metric,
    pub levels: Levels,
    pub remote_accesses: Metric,
    pub flops: Metric,
    pub arithmetic_intensity: Metric,
    pub page_faults: PageFaultSummary,
    pub kernel_time_percent: Metric,
    pub huge_page_share: Metric,
    pub dtlb: DtlbSummary,
    pub peak_resident: Metric,
    pub context_switches: Metric,
    pub other_cpu_percent: Metric,
    pub stolen_percent: Metric,
    pub first_checks: FirstChecks,
    pub kernel_entries: KernelSummary,
    pub heap: HeapSummary,
    /// Only of an analysis that followed the switches of threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threading: Option<ThreadingSummary>,
    pub sampling: SamplingSummary,
    pub top_functions: Vec<TopFunction>,
    pub findings: Vec<FindingSummary>,
    pub undecided: Vec<UndecidedSummary>,
    pub top_objects: Vec<TopObject>,
    /// Regions that the program marks, those with most time first; only where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<String>,
    pub notes: Vec<String>,
    #[serde(skip)]
    pub(crate) extra: TextExtra,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "as in facts::host::Host")]
pub struct HostSummary {
    pub cpu: String,
    pub cores: u32,
    pub logical_cpus: u32,
    pub sockets: u32,
    pub caches: Vec<Cache>,
    pub memory_bytes: u64,
    pub numa_nodes: u64,
    pub page_bytes: u64,
    pub kernel: String,
    pub os: String,
    pub virtualised: Option<String>,
    pub container: Option<String>,
    pub pmu: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct OverheadParts {
    pub cpu_time: Metric,
    pub consumer_cpu: Metric,
    pub stand_still: Metric,
    pub burst_time: Metric,
    pub slowdown: Metric,
    pub heap_library: Metric,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct CoverageSummary {
    pub traced: Metric,
    pub bursts: Metric,
    pub stretches: Metric,
    pub records: Metric,
    pub cpu_time: Metric,
    pub refused: Vec<RefusedSummary>,
}

/// Attempts at bursts that were refused for one reason.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct RefusedSummary {
    pub reason: String,
    pub percent: Metric,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct TimeSplitSummary {
    pub user: Metric,
    pub spinning: Metric,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mpi_wait: Option<Metric>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mpi_moving: Option<Metric>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mpi_calls: Option<Metric>,
    pub kernel: Metric,
    pub page_faults: Metric,
    pub waiting: Metric,
    pub thread_time: Metric,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct MachineSummary {
    pub dram_bandwidth_peak: Metric,
    pub load_latency: Levels,
    pub flops_peak: Metric,
    pub page_fault_4k: Metric,
    pub page_fault_2m: Metric,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roofs: Vec<RoofSummary>,
}

/// What a level or arithmetic reaches at most.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct RoofSummary {
    pub roof: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<&'static str>,
    pub threads: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    pub rate: Metric,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct Levels {
    pub l1: Metric,
    pub l2: Metric,
    pub l3: Metric,
    pub dram: Metric,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct BandwidthSummary {
    pub average: Metric,
    pub observed_max: Metric,
    pub read: Metric,
    pub write: Metric,
    pub bound_time_percent: Metric,
    pub reachable: Metric,
    pub of_reachable: Metric,
    /// The rates from which bandwidth is called medium and high, GB/s; `None` when the machine was not measured.
    pub medium_from: Option<f64>,
    pub high_from: Option<f64>,
    pub histogram: Vec<BandwidthTime>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct CacheBandwidth {
    pub l2: LevelBandwidth,
    pub l3: LevelBandwidth,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct LevelBandwidth {
    pub rate: Metric,
    pub reachable: Metric,
    pub of_reachable: Metric,
}

impl CacheBandwidth {
    /// Of the level with this name.
    pub(crate) fn of(&self, level: &str) -> Option<&LevelBandwidth> {
        match level {
            "L2" => Some(&self.l2),
            "L3" => Some(&self.l3),
            _ => None,
        }
    }
}

/// How long the program moved data at rates between two bounds, GB/s.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct BandwidthTime {
    pub from: f64,
    pub to: f64,
    pub time: Metric,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct PageFaultSummary {
    pub minor: Metric,
    pub major: Metric,
    pub time_percent: Metric,
    pub time: Metric,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct DtlbSummary {
    pub misses: Metric,
    pub walk_time_percent: Metric,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct HeapSummary {
    pub allocations: Metric,
    pub bytes_allocated: Metric,
    pub peak_bytes: Metric,
    pub huge_pages_2mb: Metric,
    pub huge_pages_1gb: Metric,
    pub huge_page_share: Metric,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct FirstChecks {
    pub quota_throttled: Metric,
    pub io_wait_percent: Metric,
    pub swapped_pages: Metric,
    pub clock_throttles: Metric,
    pub moved_pages: Metric,
    pub reclaimed_pages: Metric,
    pub demoted_pages: Metric,
    pub promoted_pages: Metric,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct KernelSummary {
    pub count: Metric,
    pub per_second: Metric,
    pub time: Metric,
    pub time_percent: Metric,
    pub switches: Metric,
    pub ready_without_cpu: Metric,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct SamplingSummary {
    pub method: &'static str,
    pub period_seconds: f64,
    pub kernel_functions: bool,
    pub samples: u64,
    pub lost_samples: u64,
    pub lost_faults: u64,
    pub lost_events: u64,
    pub thinned_samples: u64,
    pub lost_blocks: u64,
    pub lost_regions: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct TopFunction {
    pub function: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub module: String,
    pub cpu_time: Metric,
    pub self_percent: Metric,
    pub total_percent: Metric,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each figure is explained once, in docs/glossary")]
pub struct TopObject {
    pub object: String,
    pub object_kind: &'static str,
    pub object_bytes: Metric,
    pub stall_time: Metric,
    pub stall_percent: Metric,
    pub dram_read: Metric,
    pub dram_write: Metric,
    pub dram_percent: Metric,
    pub loads: Metric,
    pub stores: Metric,
    pub latency: Metric,
    pub element_type: Option<String>,
    /// Bytes of each of its heap blocks, where all of them are alike; for `fathom try`.
    #[serde(skip)]
    pub block_bytes: Option<u64>,
    /// Text only: `(12 blocks, 3 MiB)`.
    #[serde(skip)]
    pub(crate) extent: String,
}

/// The function with the most page faults.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TopFaults {
    pub(crate) function: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    /// Share of all page faults, percent.
    pub(crate) percent: f64,
}

/// What the text says beyond the JSON.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct TextExtra {
    /// All of it instead of the first screen.
    pub(crate) detail: bool,
    pub(crate) usable_cpus: Option<f64>,
    pub(crate) peak_reached_by: Option<String>,
    pub(crate) calibrated: bool,
    /// Age of the calibration when the run began, seconds.
    pub(crate) calibration_age: u64,
    pub(crate) calibration_notes: Vec<String>,
    /// Latency of memory without load, and at the run's rate: GB/s and nanoseconds.
    pub(crate) loaded_latency: Option<[(f64, f64); 2]>,
    pub(crate) top_faults: Option<TopFaults>,
    pub(crate) more_functions: usize,
    /// `overhead_parts.heap_library` in percent of the CPU time; `None` where no sample fell into it.
    pub(crate) agent: Option<Metric>,
    pub(crate) why_no_samples: &'static str,
    /// What the hardware's samples of loads say, in a sentence.
    pub(crate) sampled_loads: Option<String>,
    /// Whether nothing but events was counted.
    pub(crate) only_counted: bool,
    /// Where bursts and the hardware disagree, in a sentence.
    pub(crate) cross_check: Option<String>,
    /// Causes of entries into the kernel: with the most time, and the most frequent.
    pub(crate) kernel_causes: [Vec<String>; 2],
}

impl Summary {
    /// How long the program was observed, seconds; `None` where it was not.
    #[must_use]
    pub fn observed(&self) -> Option<f64> {
        let paused = self.paused.as_ref().and_then(|paused| paused.value).unwrap_or(0.0);
        let observed = self.elapsed.value? - paused;
        (observed > 0.0).then_some(observed)
    }

    /// All metrics with their paths in the JSON, e.g. `page_faults.minor`, in alphabetical order.
    #[must_use]
    pub fn metrics(&self) -> Vec<(String, Metric)> {
        crate::json::metrics(self)
    }
}
