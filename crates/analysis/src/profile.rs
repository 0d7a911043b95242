//! A recording prepared for analysis: stacks expanded, threads named, samples summed per stack.
//!
//! What not: figures. Every view starts from a [`Profile`].

use std::sync::OnceLock;

use base::{CodeAddress, IndexMap, Nanos};
use facts::host::Calibration;
use facts::{CounterKind, LostSource, Pauses, Privilege, Recording, SamplingMethod};

use crate::machine_then::MachineThen;
use crate::pace::{LoopPace, LoopsInCode};
use crate::parallel;
use crate::selection::Selection;
use crate::stack::{NodeIndex, Stacks};
use crate::threads::{ThreadIndex, ThreadTable};
use crate::traced::TracedCode;
use crate::types::SiteTypes;
use crate::weight::{Scale, Weight};

/// Why there is no figure of a time in which nothing was observed.
pub const PAUSED: &str = "the collection was paused";

/// All samples of one thread with one stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Who.
    pub thread: ThreadIndex,
    /// Where; `None` when no frame could be had.
    pub stack: Option<NodeIndex>,
    /// Whether the CPU was in the kernel.
    pub kernel: bool,
    /// How long, nanoseconds.
    pub weight: Weight,
}

/// All samples of all threads with one stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackCell {
    /// Where; `None` when no frame could be had.
    pub stack: Option<NodeIndex>,
    /// Whether the CPU was in the kernel.
    pub kernel: bool,
    /// How long, nanoseconds.
    pub weight: Weight,
}

/// What analysis works on.
pub struct Profile<'a> {
    /// The facts.
    pub recording: &'a Recording,
    /// Expanded stacks.
    pub stacks: Stacks,
    /// Threads.
    pub threads: ThreadTable,
    /// Types of traced accesses.
    pub types: SiteTypes,
    /// What the machine could do then; `None` where it was never measured.
    pub machine: Option<MachineThen<'a>>,
    cells: Vec<Cell>,
    stack_cells: Vec<StackCell>,
    whole: Weight,
    pauses: Pauses,
    loops: OnceLock<LoopsInCode>,
}

impl<'a> Profile<'a> {
    /// Expands stacks and sums samples. Linear in the size of the recording.
    #[must_use]
    pub fn new(recording: &'a Recording) -> Profile<'a> {
        Profile::with_addresses(recording, std::iter::empty())
    }

    /// A profile, and the code that bursts ran, whose addresses have places in it.
    #[must_use]
    pub fn with_code(recording: &'a Recording) -> (Profile<'a>, TracedCode) {
        let code = TracedCode::read(recording);
        (Profile::with_addresses(recording, code.addresses()), code)
    }

    /// The same, with places for more addresses than those of stacks.
    #[must_use]
    pub fn with_addresses(
        recording: &'a Recording,
        addresses: impl Iterator<Item = CodeAddress>,
    ) -> Profile<'a> {
        let stacks = Stacks::new(recording, addresses);
        let threads = ThreadTable::new(recording);
        let cells = sum_samples(recording, &stacks, &threads, |_, _| true);
        let stack_cells = over_threads(&cells);
        let mut whole = Weight::default();
        stack_cells.iter().for_each(|cell| whole.merge(&cell.weight));
        let types = SiteTypes::read(recording);
        let pauses = recording.pauses();
        let machine = MachineThen::of(&recording.run);
        let loops = OnceLock::new();
        Profile {
            recording,
            stacks,
            threads,
            types,
            machine,
            cells,
            stack_cells,
            whole,
            pauses,
            loops,
        }
    }

    /// The figures of the machine, with the memory's bandwidth as of the run.
    #[must_use]
    pub fn calibration(&self) -> Option<&Calibration> {
        self.machine.as_ref().map(MachineThen::calibration)
    }

    /// The samples of the selected threads and time, summed per thread and stack, in a fixed order.
    #[must_use]
    pub fn cells(&self, selection: &Selection) -> Vec<Cell> {
        if selection.time().is_none() {
            let selected = |cell: &&Cell| selection.has_thread(cell.thread);
            return self.cells.iter().filter(selected).copied().collect();
        }
        sum_samples(self.recording, &self.stacks, &self.threads, |thread, time| {
            selection.has(thread, time)
        })
    }

    /// The samples of the whole recording, summed likewise.
    #[must_use]
    pub fn all_cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Those of one thread.
    #[must_use]
    pub fn cells_of(&self, thread: ThreadIndex) -> &[Cell] {
        let start = self.cells.partition_point(|cell| cell.thread < thread);
        let rest = &self.cells[start..];
        &rest[..rest.partition_point(|cell| cell.thread == thread)]
    }

    /// The samples of the whole recording, summed over threads: far fewer where many threads do the same.
    #[must_use]
    pub fn stack_cells(&self) -> &[StackCell] {
        &self.stack_cells
    }

    /// The loops that have a share of the CPU time.
    pub(crate) fn loops(&self) -> &LoopsInCode {
        self.loops.get_or_init(|| LoopsInCode::read(self.recording))
    }

    /// Their pace, the most CPU time first.
    #[must_use]
    pub fn paces(&self) -> &[LoopPace] {
        &self.loops().rows
    }

    /// Samples outside of the kernel, nanoseconds.
    pub(crate) fn whole_of_program(&self) -> f64 {
        let own = self.stack_cells.iter().filter(|cell| !cell.kernel);
        own.map(|cell| cell.weight.amount() as f64).sum()
    }

    /// All samples, whatever is selected.
    #[must_use]
    pub fn whole(&self) -> &Weight {
        &self.whole
    }

    /// Length of the recording. It exceeds that of the manifest if facts come after its end.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        Nanos(self.recording.run.elapsed_ns)
    }

    /// The time of it in which the program was observed: what rates and shares are of.
    #[must_use]
    pub fn observed(&self) -> Nanos {
        self.observed_in(Nanos(0), self.elapsed())
    }

    /// How much of a stretch of time was observed.
    #[must_use]
    pub fn observed_in(&self, from: Nanos, to: Nanos) -> Nanos {
        self.pauses.observed(from, to)
    }

    /// When nothing was observed.
    #[must_use]
    pub fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    /// Samples that the kernel had no room for. Those thinned out on purpose are not lost: their weight is kept.
    #[must_use]
    pub fn lost_samples(&self) -> u64 {
        self.recording.lost(LostSource::Samples)
    }

    /// Whether time in the kernel was sampled at all.
    #[must_use]
    pub fn samples_kernel(&self) -> bool {
        self.recording.run.collector.kernel_samples || self.cells.iter().any(|cell| cell.kernel)
    }

    /// The CPU time of all threads that was counted, in seconds: task clock, else getrusage.
    #[must_use]
    pub fn counted_cpu_seconds(&self) -> Option<f64> {
        counted_cpu(self.recording).map(Nanos::seconds)
    }

    /// How samples become CPU time: their share of all samples times the time that all represent.
    ///
    /// That is the counted CPU time; or the counted user time, when the kernel's part was not sampled; or the sum
    /// of the samples' periods, when nothing was counted.
    #[must_use]
    pub fn cpu_scale(&self) -> Scale {
        let total = if self.samples_kernel() {
            self.counted_cpu_seconds()
        } else {
            let usage = self.recording.run.resource_use.as_ref();
            usage.map(|usage| Nanos(usage.user_ns).seconds()).filter(|&seconds| seconds > 0.0)
        };
        Scale::cpu_time(self.whole, total, self.lost_samples(), self.why_no_samples())
    }

    /// Seconds of CPU time that a unit of the samples' weight stands for: they may miss some of what was counted. Without samples
    /// 0.
    pub(crate) fn seconds_per_weight(&self) -> f64 {
        let amount = self.whole().amount() as f64;
        let whole = self.cpu_scale().whole_quantity().value.unwrap_or(0.0);
        if amount > 0.0 { whole / amount } else { 0.0 }
    }

    /// Why there are no samples, as a clause for a reader; meaningful only when there are none.
    #[must_use]
    pub fn why_no_samples(&self) -> &'static str {
        match self.recording.run.collector.method {
            SamplingMethod::Imported => {
                "no samples of time: no event of the imported file measures it"
            }
            SamplingMethod::ProcOnly => "no samples: sampling was not possible here (see notes)",
            _ => "no samples: the program used less CPU time than one sampling period",
        }
    }
}

/// The CPU time of all threads that was counted, where any was: task clock, else getrusage.
pub(crate) fn counted_cpu(recording: &Recording) -> Option<Nanos> {
    let usage = recording.run.resource_use.as_ref();
    let used = || usage.map(|usage| usage.user_ns.saturating_add(usage.system_ns));
    let nanos = recording.counter(CounterKind::TaskClock).or_else(used);
    nanos.filter(|&nanos| nanos > 0).map(Nanos)
}

/// Thread by thread: the sums of one fit a cache, those of all of them do not.
fn sum_samples(
    recording: &Recording,
    stacks: &Stacks,
    threads: &ThreadTable,
    selected: impl Fn(ThreadIndex, Nanos) -> bool,
) -> Vec<Cell> {
    let mut of_threads: Vec<Vec<(Option<NodeIndex>, bool, u64)>> =
        vec![Vec::new(); threads.all().len()];
    let mut last = None;
    for sample in &recording.samples {
        // Neighbouring samples are mostly of the same thread.
        let thread = match last {
            Some((pid, tid, thread)) if (pid, tid) == (sample.pid, sample.tid) => thread,
            _ => {
                let Some(thread) = threads.find(sample.pid, sample.tid) else { continue };
                last = Some((sample.pid, sample.tid, thread));
                thread
            }
        };
        if selected(thread, sample.time) {
            let kernel = sample.privilege == Privilege::Kernel;
            // An id that names no node is the same as no stack.
            let stack = sample.stack.and_then(|id| stacks.find(id));
            of_threads[thread.index()].push((stack, kernel, sample.weight.0));
        }
    }
    let of_threads: Vec<_> = (0..).map(ThreadIndex::new).zip(of_threads).collect();
    let cells = parallel::each_long(&of_threads, |(thread, samples)| {
        let mut sums: IndexMap<(Option<NodeIndex>, bool), Weight> = IndexMap::default();
        for (stack, kernel, weight) in samples {
            sums.entry((*stack, *kernel)).or_default().add(*weight);
        }
        let cell = |((stack, kernel), weight)| Cell { thread: *thread, stack, kernel, weight };
        let mut cells: Vec<Cell> = sums.into_iter().map(cell).collect();
        cells.sort_unstable_by_key(|cell| (cell.stack, cell.kernel));
        cells
    });
    cells.into_iter().flatten().collect()
}

/// Sums of all threads, in a fixed order.
pub(crate) fn over_threads(cells: &[Cell]) -> Vec<StackCell> {
    let mut sums: IndexMap<(Option<NodeIndex>, bool), Weight> = IndexMap::default();
    for cell in cells {
        sums.entry((cell.stack, cell.kernel)).or_default().merge(&cell.weight);
    }
    let cell = |((stack, kernel), weight)| StackCell { stack, kernel, weight };
    let mut cells: Vec<StackCell> = sums.into_iter().map(cell).collect();
    cells.sort_unstable_by_key(|cell| (cell.stack, cell.kernel));
    cells
}
