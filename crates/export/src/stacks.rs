//! What all formats are made from: stacks with their figures, and figures over time.
//!
//! What not: formats.

use std::collections::HashMap;

use analysis::heap::heap_table;
use analysis::memory::{Bands, BandwidthBin, Memory};
use analysis::objects::{Objects, Pieces};
use analysis::stack_cells::{FigureCells, StackFigure, stack_cells};
use analysis::{Code, FunctionId, Key, LocationId, Profile, Selection, ThreadIndex, TracedCode};
use base::{Nanos, Pid, Tid};
use facts::{Evidence, MarkKind, Privilege, Recording, Run, Target};

/// What is counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figure {
    /// Its name; begins with `estimated` where it is.
    pub name: &'static str,
    /// `count`, `nanoseconds` or `bytes`.
    pub unit: &'static str,
}

/// A function at a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The function's name.
    pub function: String,
    /// The module's name.
    pub module: String,
    /// The file, where known.
    pub file: Option<String>,
    /// The line, where known.
    pub line: Option<u32>,
    /// Whether it is the kernel's.
    pub kernel: bool,
}

/// A stack with its figures.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Positions of frames, innermost first.
    pub stack: Vec<usize>,
    /// The thread's name and id, where known.
    pub thread: Option<String>,
    /// One amount for each figure.
    pub amounts: Vec<f64>,
}

/// One sample of a thread.
#[derive(Clone, Copy)]
pub(crate) struct TimedSample {
    pub(crate) time: Nanos,
    /// CPU time, nanoseconds.
    pub(crate) cpu: f64,
    /// The position of its stack among [`Exported::samples`].
    pub(crate) of: usize,
}

/// A thread and its samples in the order of time.
pub(crate) struct TimedThread {
    pub(crate) pid: Pid,
    pub(crate) tid: Tid,
    pub(crate) name: String,
    pub(crate) process: String,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) samples: Vec<TimedSample>,
}

/// Passes of a thread through a region that the program marks.
pub(crate) struct TimedPass {
    /// Position of the thread.
    pub(crate) thread: usize,
    pub(crate) region: String,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    /// How many ended in this time; 0 of one that the recording's end cut off.
    pub(crate) passes: u64,
    /// How long these took.
    pub(crate) inside: Nanos,
}

impl TimedPass {
    /// What a viewer shows besides the name, where it is not one pass.
    pub(crate) fn remark(&self) -> Option<String> {
        match self.passes {
            0 => Some("the recording ended in it".to_owned()),
            1 => None,
            passes => {
                Some(format!("{passes} passes, {:.3} ms in them", self.inside.0 as f64 / 1e6))
            }
        }
    }
}

/// CPU time of a thread over time.
pub(crate) struct Lane {
    pub(crate) thread: String,
    /// Start of each bin and how much of it the thread ran, 0..=1 apart from sampling error.
    pub(crate) busy: Vec<(Nanos, f64)>,
}

/// What was recorded, and where. A text that is not known is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// The machine's name.
    pub host: String,
    /// File name of the program.
    pub program: String,
    /// The program and its arguments.
    pub command: String,
    /// Its process.
    pub pid: Option<Pid>,
    /// When it began, as exactly as known, nanoseconds since 1970.
    pub(crate) started: u64,
}

impl Origin {
    fn of(run: &Run) -> Origin {
        let program = run.command.first().map(|path| path.rsplit('/').next().unwrap_or(path));
        Origin {
            host: run.host_name.clone().unwrap_or_default(),
            program: program.unwrap_or_default().to_owned(),
            command: run.command.join(" "),
            pid: match run.target {
                Some(Target::Launched { pid } | Target::Attached { pid }) => Some(Pid(pid)),
                _ => None,
            },
            started: run
                .started_unix
                .saturating_mul(1_000_000_000)
                .saturating_add(u64::from(run.started_part_ns)),
        }
    }

    /// 16 bytes that are the same whenever this figure of this recording is written: a receiver can know one that it has. FNV-1a.
    pub(crate) fn id(&self, figure: &str) -> [u8; 16] {
        let pid = self.pid.map_or(0, |pid| pid.0);
        let text = format!("{}\0{}\0{pid}\0{}\0{figure}", self.started, self.host, self.command);
        let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
        let prime = 0x0000_0000_0100_0000_0000_0000_0000_013b_u128;
        let hash = |hash: u128, byte| (hash ^ u128::from(byte)).wrapping_mul(prime);
        text.bytes().fold(start, hash).to_be_bytes()
    }
}

/// A recording, ready to be written in any format.
pub struct Exported {
    /// The result's name.
    pub result: String,
    /// What it is of.
    pub origin: Origin,
    /// When the recording began, seconds since 1970.
    pub started_unix: u64,
    /// How long it is.
    pub elapsed: Nanos,
    /// What samples count.
    pub figures: Vec<Figure>,
    /// Distinct frames.
    pub frames: Vec<Frame>,
    /// Stacks.
    pub samples: Vec<Sample>,
    /// What a reader must know.
    pub notes: Vec<String>,
    pub(crate) threads: Vec<TimedThread>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) bandwidth: Vec<BandwidthBin>,
    /// In the order of their begin, what is around before what is within.
    pub(crate) passes: Vec<TimedPass>,
    /// Moments that the user or the program named.
    pub(crate) marks: Vec<(Nanos, String)>,
    /// When nothing was observed.
    pub(crate) pauses: Vec<(Nanos, Nanos)>,
}

const SAMPLES: Figure = Figure { name: "samples", unit: "count" };
const CPU: Figure = Figure { name: "cpu", unit: "nanoseconds" };
const ALLOCATED: Figure = Figure { name: "alloc_space", unit: "bytes" };
const ALLOCATED_BY_LOT: Figure = Figure { name: "estimated_alloc_space", unit: "bytes" };
const DRAM_READ: Figure = Figure { name: "estimated_dram_read", unit: "bytes" };
const DRAM_WRITE: Figure = Figure { name: "estimated_dram_write", unit: "bytes" };

/// Samples while they are collected.
struct Builder<'a> {
    profile: &'a Profile<'a>,
    known: HashMap<(FunctionId, Option<u32>), usize>,
    frames: Vec<Frame>,
    figures: Vec<Figure>,
    samples: Vec<Part>,
}

/// A stack with some figures: innermost frame first, the thread, and which figures.
struct Part {
    stack: Vec<usize>,
    thread: Option<String>,
    amounts: Vec<(usize, f64)>,
}

impl Builder<'_> {
    fn frame(&mut self, place: LocationId) -> usize {
        let at = self.profile.stacks.places[place.index()];
        self.frame_of(at.function, at.line)
    }

    fn frame_of(&mut self, function: FunctionId, line: Option<u32>) -> usize {
        let (stacks, next) = (&self.profile.stacks, self.frames.len());
        *self.known.entry((function, line)).or_insert_with(|| {
            let function = &stacks.functions[function.index()];
            let module = &stacks.modules[function.module.index()];
            self.frames.push(Frame {
                function: function.name.clone(),
                module: module.name.clone(),
                file: function.file.clone(),
                line,
                kernel: module.code == Code::Kernel,
            });
            next
        })
    }

    fn figure(&mut self, figure: Figure) -> usize {
        self.figures.push(figure);
        self.figures.len() - 1
    }

    fn cpu_time(&mut self, factor: f64) {
        let (samples, cpu) = (self.figure(SAMPLES), self.figure(CPU));
        let profile = self.profile;
        for cell in profile.all_cells() {
            let stack = profile.stacks.frames(cell.stack).map(|place| self.frame(place)).collect();
            let (records, time) = (cell.weight.records(), cell.weight.amount());
            let amounts = vec![(samples, records as f64), (cpu, time as f64 * factor)];
            let thread = profile.threads.get(cell.thread).label();
            self.samples.push(Part { stack, thread: Some(thread), amounts });
        }
    }

    /// Each thread, with samples where `cpu_time` ran: its stacks begin the list.
    fn threads(&self, factor: Option<f64>) -> Vec<TimedThread> {
        let profile = self.profile;
        let cells = factor.map_or(&[][..], |_| profile.all_cells()).iter().enumerate();
        let factor = factor.unwrap_or(0.0);
        let position: HashMap<_, usize> =
            cells.map(|(at, cell)| ((cell.thread, cell.stack, cell.kernel), at)).collect();
        let mut samples: Vec<Vec<TimedSample>> = vec![Vec::new(); profile.threads.all().len()];
        for sample in &profile.recording.samples {
            let Some(thread) = profile.threads.find(sample.pid, sample.tid) else { continue };
            let stack = sample.stack.and_then(|id| profile.stacks.find(id));
            let kernel = sample.privilege == Privilege::Kernel;
            if let Some(&of) = position.get(&(thread, stack, kernel)) {
                let cpu = sample.weight.0 as f64 * factor;
                samples[thread.index()].push(TimedSample { time: sample.time, cpu, of });
            }
        }
        let timed = |(thread, mut samples): (&analysis::Thread, Vec<TimedSample>)| {
            samples.sort_by_key(|sample| sample.time);
            TimedThread {
                pid: thread.pid,
                tid: thread.tid,
                name: thread.label(),
                process: profile.threads.process_label(thread.pid),
                start: thread.start,
                end: thread.end,
                samples,
            }
        };
        profile.threads.all().iter().zip(samples).map(timed).collect()
    }

    /// Allocated bytes by the functions that asked; `None` where there are none.
    fn allocated(&mut self) -> Option<&'static str> {
        let table = heap_table(self.profile, &Selection::default(), &[Key::CallStack]);
        let paths = table.paths.filter(|_| !table.rows.is_empty())?;
        let counted = table.rows.iter().all(|row| row.bytes.evidence == Some(Evidence::Counted));
        let figure = self.figure(if counted { ALLOCATED } else { ALLOCATED_BY_LOT });
        for row in &table.rows {
            let functions = row.key.stack.into_iter().flat_map(|path| paths.functions(path));
            let stack = functions.map(|function| self.frame_of(function, None)).collect();
            let bytes = row.bytes.value.unwrap_or(0.0);
            self.samples.push(Part { stack, thread: None, amounts: vec![(figure, bytes)] });
        }
        (!counted).then_some(
            "Allocated bytes are estimates from blocks drawn at random, and large ones: their sum is \
             near the report's total.",
        )
    }

    fn traffic(&mut self, memory: &Memory<'_>) -> Option<&'static str> {
        let rows = memory.rows(&Selection::default(), &[Key::SourceLine]).unwrap_or_default();
        if rows.iter().all(|row| row.read.value.is_none()) {
            return None;
        }
        let (read, write) = (self.figure(DRAM_READ), self.figure(DRAM_WRITE));
        for row in &rows {
            let amounts: Vec<(usize, f64)> = [(read, row.read.value), (write, row.write.value)]
                .into_iter()
                .filter_map(|(figure, value)| Some((figure, value?)))
                .collect();
            let stack = vec![self.frame(row.place)];
            self.samples.push(Part { stack, thread: None, amounts });
        }
        Some(
            "DRAM bytes are estimates from traced bursts, by source line: they have no callers and no threads.",
        )
    }
}

impl Exported {
    /// Of a recording; `result` is its name.
    #[must_use]
    pub fn new(recording: &Recording, result: &str) -> Exported {
        let code = TracedCode::read(recording);
        let profile = Profile::with_addresses(recording, code.addresses());
        let objects = Objects::new(&profile);
        let memory = Memory::with_objects(&profile, &code, &objects, Pieces::Whole);
        let found = stack_cells(&profile, &objects, &Selection::default(), None);
        let of = |figure| found.figures.iter().find(|cells| cells.figure == figure);
        let mut builder = Builder {
            profile: &profile,
            known: HashMap::new(),
            frames: Vec::new(),
            figures: Vec::new(),
            samples: Vec::new(),
        };
        let mut notes = Vec::new();
        let scale = profile.cpu_scale();
        let mut lanes = Vec::new();
        // Nanoseconds of CPU time per nanosecond of samples.
        let seconds = scale.whole_quantity().value.filter(|_| !scale.whole().is_empty());
        let factor =
            seconds.map(|seconds| seconds * 1e9 / (scale.whole().amount() as f64).max(1.0));
        if let Some(factor) = factor {
            builder.cpu_time(factor);
            lanes = of(StackFigure::CpuTime)
                .map(|cells| lanes_of(&profile, cells, factor))
                .unwrap_or_default();
        } else {
            notes.push(format!("No CPU time: {}.", profile.why_no_samples()));
        }
        let threads = builder.threads(factor);
        notes.extend(builder.allocated().map(str::to_owned));
        notes.extend(builder.traffic(&memory).map(str::to_owned));
        notes.extend(memory.missing().map(|why| format!("No DRAM bytes: {why}.")));
        let bandwidth = memory.bandwidth(Bands::default()).map(|found| found.bins);
        let Builder { frames, figures, samples, .. } = builder;
        let all = figures.len();
        let marks = recording.marks.iter().filter(|mark| mark.kind == MarkKind::Mark);
        let samples = samples.into_iter().map(|part| {
            let mut amounts = vec![0.0; all];
            part.amounts.into_iter().for_each(|(figure, amount)| amounts[figure] = amount);
            Sample { stack: part.stack, thread: part.thread, amounts }
        });
        Exported {
            result: result.to_owned(),
            origin: Origin::of(&recording.run),
            started_unix: recording.run.started_unix,
            elapsed: profile.elapsed(),
            samples: samples.collect(),
            frames,
            figures,
            notes,
            threads,
            lanes,
            bandwidth: bandwidth.unwrap_or_default(),
            passes: passes(&profile),
            marks: marks.map(|mark| (mark.time, mark.name.clone())).collect(),
            pauses: profile.pauses().all().to_vec(),
        }
    }

    /// The position of a figure by its name.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<usize> {
        self.figures.iter().position(|figure| figure.name == name)
    }

    /// The figure that a format with room for one shows: CPU time, or else the first.
    #[must_use]
    pub fn main_figure(&self) -> Option<usize> {
        self.figure(CPU.name).or((!self.figures.is_empty()).then_some(0))
    }
}

fn passes(profile: &Profile<'_>) -> Vec<TimedPass> {
    let recording = profile.recording;
    let mut all: Vec<_> = recording.marked_passes.iter().collect();
    all.sort_by_key(|pass| (pass.time, pass.depth));
    let timed = |pass: &facts::MarkedPass| {
        Some(TimedPass {
            thread: profile.threads.find(pass.pid, pass.tid)?.index(),
            region: recording.marked_regions.get(pass.region as usize)?.name.clone(),
            start: pass.time,
            end: pass.time + pass.span,
            passes: pass.passes,
            inside: pass.inside,
        })
    };
    all.into_iter().filter_map(timed).collect()
}

fn lanes_of(profile: &Profile<'_>, cells: &FigureCells, factor: f64) -> Vec<Lane> {
    let bins = usize::try_from(profile.elapsed().0.div_ceil(cells.lane_bin.0)).unwrap_or(0).max(1);
    let mut of_thread = std::collections::BTreeMap::new();
    for cell in &cells.lanes {
        let sums = of_thread.entry(cell.thread).or_insert_with(|| vec![0.0; bins]);
        sums[(cell.bin as usize).min(bins - 1)] += cell.amount * factor;
    }
    let lane = |(thread, sums): (ThreadIndex, Vec<f64>)| {
        let busy = sums.into_iter().enumerate().map(|(at, sum)| {
            let start = at as u64 * cells.lane_bin.0;
            // The last bin ends with the recording.
            let length = cells.lane_bin.0.min(profile.elapsed().0.saturating_sub(start)).max(1);
            (Nanos(start), sum / length as f64)
        });
        Lane { thread: profile.threads.get(thread).label(), busy: busy.collect() }
    };
    of_thread.into_iter().map(lane).collect()
}

/// Amounts as whole numbers whose sum is the rounded sum: each rounding error is carried on to the next.
pub(crate) fn whole_numbers(amounts: impl Iterator<Item = f64>) -> Vec<u64> {
    let (mut sum, mut given) = (0.0, 0);
    amounts
        .map(|amount| {
            sum += amount;
            // Sums of what is not negative only rise.
            let next = (sum.round() as u64).max(given);
            std::mem::replace(&mut given, next).abs_diff(next)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_keeps_the_sum() {
        let thirds = whole_numbers([1.0 / 3.0; 9].into_iter());
        assert_eq!(thirds.iter().sum::<u64>(), 3);
        assert!(thirds.iter().all(|&one| one <= 1));
    }
}
