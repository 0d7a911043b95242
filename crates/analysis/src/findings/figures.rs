//! What rules judge: plain figures with their intervals, and locations by name.
//!
//! What for: one struct that a test can write by hand; [`Figures::new`] fills it from the analyses. What not: conditions.
//! Assumption: a location without a line or file is one whose debug information is missing.

mod build;
mod flushes;
pub(crate) mod nodes;
mod reloads;
mod rounds;
mod shared;
mod system;
mod traced;
mod waits;
mod walks;

use base::Pid;
use facts::Metric;

use crate::accesses::Pattern;
use crate::figure::Figure;
use crate::page_costs::PageCosts;
use crate::stack::FunctionId;

use super::NotJudged;
use super::steps::Restarts;

pub use self::flushes::FlushFigure;
pub use self::nodes::RemoteFigure;
pub use self::rounds::Rounds;
pub use self::system::{EntryFigure, SystemFigures};
pub use self::waits::{LockWait, WaitFigures, Waited};
pub use self::walks::Walk;

/// A location in the program, by names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "as in the summary's JSON")]
pub struct NamedLocation {
    /// Which function: others, of other files and modules, may have its name.
    pub id: Option<FunctionId>,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub object: Option<String>,
}

impl NamedLocation {
    pub(super) fn same_function(&self, other: &NamedLocation) -> bool {
        (self.id, &self.function) == (other.id, &other.function)
    }
}

/// An access of an instruction in a [`HotFunction`].
#[derive(Clone, PartialEq, Debug)]
pub struct HotSite {
    /// Its line.
    pub place: NamedLocation,
    /// It reads.
    pub reads: bool,
    /// It writes.
    pub writes: bool,
    /// How its addresses follow each other.
    pub pattern: Pattern,
    /// Share of the distances that are those of the pattern, percent.
    pub stride_share: Metric,
    /// Bytes of an access.
    pub bytes: f64,
    /// Share of the bytes of its lines that it touches, percent.
    pub line_use: Metric,
    /// Share of the bytes of their lines that all accesses of its function with this stride touch together, percent.
    pub used_together: Metric,
    /// Its part of the function's waits, percent.
    pub share: Figure,
    /// Its page walks per second of the function's time.
    pub walks: Figure,
    /// Where its stride starts anew.
    pub restarts: Restarts,
    /// How far it walks across lines before it comes back, if it does that.
    pub walk: Option<Walk>,
    /// Share of the lines it fetches that belong to the object in `place`, percent.
    pub of_object: Metric,
}

impl HotSite {
    /// Whether most of its steps are those of its pattern.
    pub(super) fn keeps_its_step(&self) -> bool {
        self.stride_share.value.is_some_and(|percent| percent >= 50.0)
    }

    /// Bytes from one access to the next, where that is mostly the same; neighbours step by their size.
    pub(super) fn step(&self) -> Option<i64> {
        match self.pattern {
            Pattern::Strided(stride) => Some(stride),
            Pattern::Unit => Some(self.bytes as i64),
            _ => None,
        }
    }
}

/// A function, as compiled, in which bursts began.
#[derive(Clone, PartialEq, Debug)]
pub struct HotFunction {
    /// Where its heaviest site is, and the object from which all of them fetch most.
    pub place: NamedLocation,
    /// CPU time in it, seconds.
    pub time: Metric,
    /// Share of that time beyond the no-miss time, percent.
    pub waits: Figure,
    /// Bandwidth, percent of the bandwidth reachable with as many threads.
    pub of_reach: Figure,
    /// Bytes that are fetched for stores alone and not read again in the burst, percent of all.
    pub overwritten: Figure,
    /// Summed latency of its accesses beyond the first level, percent of its time.
    pub serial: Metric,
    /// Size of a cache that would hold what it comes back to, bytes; only where it uses all of the bandwidth.
    pub fitting: Metric,
    /// Its accesses, those with most of the waits first.
    pub sites: Vec<HotSite>,
}

/// A function all of whose loads read the same addresses again and again.
#[derive(Clone, PartialEq, Debug)]
pub struct RepeatedFunction {
    /// The function.
    pub place: NamedLocation,
    /// The line that calls it, or into which it is inlined, most.
    pub caller: NamedLocation,
    /// CPU time in it alone, seconds.
    pub time: Metric,
    /// Its loads that repeat themselves: instructions.
    pub loads: usize,
    /// How often they ran in a burst, on average.
    pub per_burst: Metric,
}

/// A loop that loads the same addresses in each iteration, to which nothing else stores.
#[derive(Clone, PartialEq, Debug)]
pub struct ReloadedLoop {
    /// The line with most of these loads, and the object that they are about.
    pub place: NamedLocation,
    /// Member that is loaded, as far as types are known: `writer.position`.
    pub fields: Vec<String>,
    /// CPU time in the loop, seconds.
    pub time: Metric,
    /// Share of that time that it would save with registers for these locations, percent.
    pub saved: Figure,
    /// Share of the rest that vectors would leave, at best: 1 where its other accesses are not sequential.
    pub vectors: f64,
    /// An iteration with its data near, nanoseconds, and with these registers.
    pub iteration: (Metric, Metric),
    /// Instructions that access these places.
    pub accesses: usize,
    /// It stores to one of them, too.
    pub stores: bool,
}

/// An object that every thread uses in whole, and the machine with NUMA nodes that it would be laid on.
#[derive(Clone, PartialEq, Debug)]
pub struct UsedByAll {
    /// Its name.
    pub object: String,
    /// Its name, as `2x8`.
    pub topology: String,
    /// Threads that compute.
    pub threads: usize,
    /// Its share of all accesses, percent.
    pub share: Metric,
    /// Share of these to another node there, percent.
    pub remote: Metric,
    /// Nobody writes to it once it is filled.
    pub read_only: bool,
}

/// Figures from bursts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Traced {
    /// The whole program, with the place of the function that has most of its time.
    pub whole: Option<HotFunction>,
    /// Most CPU time first.
    pub functions: Vec<HotFunction>,
    /// Likewise.
    pub repeated: Vec<RepeatedFunction>,
    /// Likewise.
    pub reloaded: Vec<ReloadedLoop>,
    /// What limits the program, and why, where that is clear.
    pub class: Option<(crate::memory::Class, String)>,
    /// Share of the program's CPU time beyond the no-miss time, percent.
    pub memory_bound: Option<Metric>,
    /// The same at most, if each of its accesses went to memory and waited, percent.
    pub ceiling: Option<f64>,
    /// Factor by which its threads move more with non-temporal stores than without, where it is above 1.
    pub past_caches: Option<f64>,
}

/// Lines that the same threads share in the same functions.
#[derive(Clone, PartialEq, Debug)]
pub struct SharedFigure {
    /// They use different bytes.
    pub different_bytes: bool,
    /// Turns that are possible per second.
    pub conflicts: Metric,
    /// CPU time in the functions that use it, seconds.
    pub time: Metric,
    /// Share of that time beyond their no-miss time, percent; of the function with most of the visits.
    pub waits: Figure,
    /// The code with most of the visits to the first of them; the object is that at this line's address, and the address.
    pub place: NamedLocation,
    /// How many threads.
    pub threads: usize,
}

/// Page faults.
#[derive(Clone, PartialEq, Debug)]
pub struct FaultFigures {
    /// CPU time in them, seconds.
    pub time: Metric,
    /// CPU time of giving memory back, seconds.
    pub release: Metric,
    /// Minor ones.
    pub minor: Metric,
    /// Number of these that took a page of 2 MiB at once, from the time that such faults took; 0 where that is not known.
    pub huge: f64,
    /// Major ones.
    pub major: Metric,
    /// Where most of their time goes, or most are where samples do not tell: a fault on a huge page takes as long as hundreds.
    pub place: NamedLocation,
    /// Share of that time, or of all faults, that is there, percent.
    pub place_percent: f64,
    /// Largest resident size of a process over the size of a page.
    pub resident_pages: Option<f64>,
    /// Share of the recorded faults on pages of files, percent: mapped code and data, and what the dynamic loader writes
    /// addresses into. They bring no new memory, and no huge page can hold them.
    pub of_files_percent: f64,
    /// Share of the minor faults that the process with most of them had, percent; unknown where several processes ran and no
    /// fault was recorded.
    pub of_one_process: Option<f64>,
    /// Anonymous memory in huge pages, percent.
    pub huge_percent: Metric,
    /// What fresh pages cost when the run began.
    pub costs: PageCosts,
    /// The system's setting: `always`, `madvise`, `never`.
    pub transparent: Option<String>,
}

/// CPU time and where most of it goes.
#[derive(Clone, PartialEq, Debug)]
pub struct Spent {
    /// Seconds.
    pub time: Metric,
    /// The part of these that the kernel did not do.
    pub in_program: Metric,
    /// Seconds that counting the program's blocks took in the program, by this profiler.
    pub counting: Metric,
    /// On whose behalf.
    pub place: NamedLocation,
}

/// A thread.
#[derive(Clone, PartialEq, Debug)]
pub struct ThreadTime {
    /// `name (tid)`.
    pub label: String,
    /// Its process.
    pub pid: Pid,
    /// The first of its process.
    pub main: bool,
    /// CPU time, seconds; without what it span.
    pub cpu: Metric,
    /// It spends a good part of it in the functions in which the most busy thread of its process does.
    pub alike: bool,
    /// The function in which it spends most of its time.
    pub place: NamedLocation,
    /// Lifetime, seconds from the start of the recording.
    pub life: (f64, f64),
}

/// Everything.
#[derive(Clone, PartialEq, Debug)]
pub struct Figures {
    /// Seconds.
    pub elapsed: f64,
    /// Threads that run at a time while the program runs, at least 1.
    pub running: f64,
    /// Seconds; unavailable without samples or counters.
    pub cpu_time: Metric,
    /// CPUs that may be used.
    pub usable_cpus: Option<f64>,
    /// CPU quota, where one is set.
    pub quota: Option<f64>,
    /// CPU time of others, percent of the machine.
    pub other_percent: Metric,
    /// CPU seconds that others may have taken from this program's threads: what they used less the idle time, for
    /// no thread waits for an idle CPU. 0 where the use by others is unknown.
    pub displaced: f64,
    /// Threads that existed without running, seconds.
    pub waiting: Metric,
    /// Cost of a page walk by the latency ladder, nanoseconds: 4 KiB pages less 2 MiB pages.
    pub walk_cost: Option<Metric>,
    /// Bandwidth that the program's threads reach with stores of whole lines, GB/s, including the fetch of the overwritten
    /// lines.
    pub store_rate: Option<f64>,
    /// A hypervisor has the machine.
    pub virtualised: bool,
    /// Figures from bursts, or why there are none.
    pub traced: Result<Traced, NotJudged>,
    /// Lines that threads share; an error when too few bursts could be compared.
    pub shared: Result<Vec<SharedFigure>, NotJudged>,
    /// Flushes of cache lines and fences, most time first; an error where what bursts show of them is not known.
    pub flushes: Result<Vec<FlushFigure>, NotJudged>,
    /// Page faults.
    pub faults: FaultFigures,
    /// The allocator's part; an error without samples.
    pub allocator: Result<Spent, NotJudged>,
    /// Threads; an error without samples.
    pub threads: Result<Vec<ThreadTime>, NotJudged>,
    /// Runnable threads at a time, on average over polls; unavailable without polls.
    pub runnable: Metric,
    /// Rounds of threads that are started anew for each step, per process.
    pub rounds: Vec<Rounds>,
    /// What threads waited for; an error where switches were not recorded.
    pub waits: Result<WaitFigures, NotJudged>,
    /// What the system did to the program.
    pub system: SystemFigures,
    /// Entries into the kernel, most time first; an error where they were not counted.
    pub entries: Result<Vec<EntryFigure>, NotJudged>,
    /// Functions whose memory is on known NUMA nodes, most CPU time first; an error where nodes were not recorded.
    pub remote: Result<Vec<RemoteFigure>, NotJudged>,
    /// The one with most accesses, on two of a machine with one node. None on a machine with several.
    pub used_by_all: Option<UsedByAll>,
    /// The program and its arguments.
    pub command: Vec<String>,
}
