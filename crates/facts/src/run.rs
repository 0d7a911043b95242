//! The manifest of a recording: what was run, how it was observed, how it ended. Stored as `run.json`.
//!
//! What not: reading and writing it (`store::manifest`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::host::{Calibration, Host, MemoryReading, PageReading};

/// Version of the result directory. A change of any stored fact bumps it and adds a paragraph to
/// `docs/format/result-directory.md`.
pub const SCHEMA_VERSION: u32 = 19;

/// Which analysis was asked for; the names are VTune's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Analysis {
    /// `memory-access`, what `fathom run` does.
    #[default]
    MemoryAccess,
    /// `hotspots`: where the time goes.
    Hotspots,
    /// `memory-consumption`: who allocates how much.
    MemoryConsumption,
    /// `threading`: who waits for whom, and how well the CPUs are used.
    Threading,
    /// `system-overview`: what the kernel does, for whom.
    SystemOverview,
    /// `uarch-exploration`: which part of the core's pipeline slots and cycles went where.
    UarchExploration,
}

impl Analysis {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Analysis::MemoryAccess => "memory-access",
            Analysis::Hotspots => "hotspots",
            Analysis::MemoryConsumption => "memory-consumption",
            Analysis::Threading => "threading",
            Analysis::SystemOverview => "system-overview",
            Analysis::UarchExploration => "uarch-exploration",
        }
    }

    /// The two letters that end the default result directory's name (`r000ma`).
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Analysis::MemoryAccess => "ma",
            Analysis::Hotspots => "hs",
            Analysis::MemoryConsumption => "mc",
            Analysis::Threading => "tr",
            Analysis::SystemOverview => "so",
            Analysis::UarchExploration => "ue",
        }
    }
}

/// Whether the recording was closed properly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Still being written, or the profiler died: it has everything written until then.
    #[default]
    Incomplete,
    /// Closed properly.
    Complete,
}

/// What was profiled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// A program that we started.
    Launched {
        /// Its process id.
        pid: i32,
    },
    /// A running process that we attached to.
    Attached {
        /// Its process id.
        pid: i32,
    },
    /// Everything that ran on the machine.
    Machine,
}

impl Target {
    /// Its name in the manifest.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Target::Launched { .. } => "launched",
            Target::Attached { .. } => "attached",
            Target::Machine => "machine",
        }
    }
}

/// How the program ended, when we saw it end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitKind {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
    /// It was still running when the collection stopped.
    StillRunning,
    /// It ended, but another process reaped it, so its status is unknown.
    Unknown,
}

/// Where the samples came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SamplingMethod {
    /// perf_event_open's cpu-clock, in the kernel.
    PerfEvents,
    /// Threads stopped shortly with ptrace at a fixed rate.
    Ptrace,
    /// Another tool took them: the recording was imported.
    Imported,
    /// Neither is allowed here: only what /proc counts.
    #[default]
    ProcOnly,
}

/// The cost of reading the clock around a timed load, in cycles of the time-stamp counter: measured with loads from
/// the first-level cache at the start of the collection, on its CPU. This part of a timed load's cycles is not the
/// load's. Source of the sequence: `x86::translate`, flavour `Timed`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct TimedLoadOverhead {
    /// A tenth of the readings took at most this.
    pub p10: u32,
    /// Half of them.
    pub median: u32,
    /// Nine tenths.
    pub p90: u32,
    /// The mean of readings up to twice the median: where the counter advances in steps, only it resolves parts of a
    /// step. `None` in older recordings.
    #[serde(default)]
    pub mean: Option<f64>,
}

/// How the observation was made.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CollectorInfo {
    /// The sampling method used.
    pub method: SamplingMethod,
    /// Why it is not the best method, in a sentence for the user; `None` if it is.
    pub fallback_reason: Option<String>,
    /// Time between samples of a running thread.
    pub sampling_period_ns: u64,
    /// Whether time inside the kernel was sampled with its functions.
    pub kernel_samples: bool,
    /// Bytes of user stack copied per sample for unwinding.
    pub stack_bytes: u32,
    /// The part of timed loads that is not the load; `None` if there were no bursts.
    #[serde(default, alias = "timed_load_floor_cycles")]
    pub timed_load_overhead_cycles: Option<TimedLoadOverhead>,
}

/// What the collection itself cost, while the program ran.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct OwnCost {
    /// CPU time of our processes between start and end of the collection.
    pub cpu_time_ns: u64,
    /// The part of it for which threads of the program waited for a CPU, at most: all their waits for a CPU, where these are
    /// less. `None` if that was not read, and after an attach.
    #[serde(default)]
    pub displaced_ns: Option<u64>,
    /// Peak resident memory of the collector, bytes.
    pub peak_resident_bytes: u64,
    /// Time from our start to the program's first instruction.
    pub startup_ns: u64,
    /// How long threads of the program were stopped for bursts, measured, summed over all threads. `None` if there
    /// were no bursts, as for the next three.
    pub burst_stand_still_ns: Option<u64>,
    /// How long threads of the program ran translated code, summed over all threads.
    pub burst_time_ns: Option<u64>,
    /// Additional time over native code: an estimate.
    pub burst_slowdown_ns: Option<u64>,
    /// CPU time for turning the records of bursts into facts; a part of `cpu_time_ns`.
    pub consumer_cpu_ns: Option<u64>,
    /// Minor faults of the program's threads on pages of the tracer, among those in the recording's counter: at
    /// least, and at most.
    #[serde(default)]
    pub burst_faults: Option<(u64, u64)>,
    /// CPU time of a thread for entering and leaving translated code once, a median; deducted from the CPU time of
    /// each burst. `None` if it was not deducted: in recordings before version 6, and where there were few bursts.
    #[serde(default)]
    pub burst_toll_ns: Option<u64>,
    /// Bytes of the tracer that were resident in one process at most: a part of its resident size while it is traced.
    #[serde(default)]
    pub burst_resident_bytes: Option<u64>,
    /// Additional time of the program's page faults, because perf events and, in a system overview, programs in the kernel
    /// counted them: an estimate.
    #[serde(default)]
    pub fault_watching_ns: Option<u64>,
    /// Additional time of thread switches of the program, because of perf events: an estimate.
    #[serde(default)]
    pub switch_watching_ns: Option<u64>,
}

/// The kernel's own account of the launched program and its waited-for children (getrusage).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ResourceUse {
    /// User CPU time.
    pub user_ns: u64,
    /// System CPU time.
    pub system_ns: u64,
    /// Minor faults.
    pub minor_faults: u64,
    /// Major faults.
    pub major_faults: u64,
    /// Largest resident size of a single process, bytes.
    pub peak_resident_bytes: u64,
    /// Voluntary context switches: the program waited.
    pub voluntary_switches: u64,
    /// Involuntary context switches: another thread got the CPU.
    pub involuntary_switches: u64,
}

/// One of several runs of the program in one recording (`--repeat`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OneRun {
    /// Its process id.
    pub pid: i32,
    /// Its start, on the time axis of the recording.
    pub start_ns: u64,
    /// Its length; `None` if the recording did not observe its end.
    pub elapsed_ns: Option<u64>,
    /// How it ended.
    pub exit: ExitKind,
}

/// The time that mispredicted branches took at the beginning of a burst: this machine ran the recorded directions
/// again.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct BranchReplay {
    /// The burst's id.
    pub burst: u32,
    /// Number of its first records that this covers.
    pub records: u64,
    /// The time, picoseconds.
    pub lost_ps: u64,
}

/// The file of another tool that a recording was imported from.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Source {
    /// Its path as typed.
    pub file: String,
    /// The tool that wrote it, with its version where the file names it: "perf 6.1.0".
    pub tool: String,
    /// Its events, in the file's order.
    pub events: Vec<SourceEvent>,
}

/// An event of an imported file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SourceEvent {
    /// Its name there, e.g. "cycles:P".
    pub name: String,
    /// How many samples the file has of it.
    pub samples: u64,
    /// What became of them.
    pub used_as: EventUse,
}

/// Use of an imported event's samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventUse {
    /// Samples of CPU time.
    CpuTime,
    /// Page faults.
    PageFaults,
    /// Sampled memory accesses.
    MemoryAccesses,
    /// Loops, by their branch stacks.
    Branches,
    /// CPU time and, of the samples with a data address, memory accesses.
    CpuTimeAndMemoryAccesses,
    /// Counts of the event per function.
    Counts,
    /// Nothing: no view shows such samples yet.
    #[default]
    Nothing,
}

/// A process of an MPI job, as its launcher numbers it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rank {
    /// Its number, from 0.
    pub rank: u32,
    /// How many there are.
    pub ranks: Option<u32>,
    /// Its number on this machine, from 0.
    pub local_rank: Option<u32>,
    /// The launcher's name of the job.
    pub job: Option<String>,
}

/// The manifest.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// Version of Fathom that wrote it.
    pub fathom_version: String,
    /// Closed properly or not.
    pub state: RunState,
    /// The analysis.
    pub analysis: Analysis,
    /// Program and arguments as typed, or the attached process's.
    pub command: Vec<String>,
    /// Directory in which it ran: relative source paths start here.
    pub working_directory: String,
    /// What was profiled.
    pub target: Option<Target>,
    /// Which rank of an MPI job it was, where a launcher said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<Rank>,
    /// The machine's name in its network; `None` where it has none, and in earlier results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    /// The file that this was imported from; `None` for our own recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Wall-clock start, seconds since 1970.
    pub started_unix: u64,
    /// Nanoseconds beyond these, below 1e9; 0 in results of writers that did not record it.
    #[serde(default)]
    pub started_part_ns: u32,
    /// Length of the recording. For an incomplete one, the time of its last fact.
    pub elapsed_ns: u64,
    /// Runs of the program, one after the other, where there is more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<OneRun>,
    /// How the program ended; `None` in an incomplete recording.
    pub exit: Option<ExitKind>,
    /// Who stopped the recording early (`interrupted`, `duration`), else `None`.
    pub stopped_by: Option<String>,
    /// How it was observed.
    pub collector: CollectorInfo,
    /// What observing cost.
    pub own_cost: OwnCost,
    /// getrusage of the program; `None` when attached.
    pub resource_use: Option<ResourceUse>,
    /// The machine.
    pub host: Host,
    /// What the machine can do, when it was measured.
    pub calibration: Option<Calibration>,
    /// Readings of the memory's speed next to this run; empty where none was taken, and in results of earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_readings: Vec<MemoryReading>,
    /// What pages cost just before the program started; `None` where it was not read, and in results of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_reading: Option<PageReading>,
    /// Knobs that differ from their defaults.
    pub knobs: BTreeMap<String, String>,
    /// Size limit of the result, bytes.
    pub limit_bytes: u64,
    /// Notes for the reader, in the order in which they were made.
    pub notes: Vec<String>,
    /// The cost of mispredicted branches; empty before version 9.
    #[serde(default)]
    pub branch_replays: Vec<BranchReplay>,
}
