//! The native pace of loops, from the registers of ordinary clock samples.
//!
//! What for: iterations per second of every loop in which samples fell, whether a burst ever began there or not: two samples
//! of one thread in one run of a loop, with an induction register that moved by a constant times the number of iterations.
//! What not: what an iteration does (bursts tell), code without a file or without unwind information.
//! Which register counts follows from the code alone (`x86::loops`), never from which one scatters least. Where all are
//! silent, the figure is absent with the reason.

mod agreement;
mod code;
mod estimate;
mod odometers;
mod pairs;
mod runs;
mod stacks;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::{FileOffset, ModuleId};
use facts::{Evidence, Frame, Metric, Recording, SlotBase};
use x86::Variable;

use self::code::{Code, LoopId};
use self::estimate::{pace, seconds};
pub(crate) use self::odometers::{Odometer, Odometers};
use self::stacks::{Stacks, times};
use crate::interval::Z_95;

/// A loop with less of all CPU time is left out: a few samples tell nothing.
const LEAST_SHARE: f64 = 0.005;

/// What is known of one loop.
#[derive(Clone, PartialEq, Debug)]
pub struct LoopPace {
    /// The function.
    pub function: String,
    /// Its source file.
    pub file: Option<String>,
    /// The first line of it that samples name.
    pub line: Option<u32>,
    /// The module, and where in it the loop begins.
    pub start: (ModuleId, FileOffset),
    /// How many loops of the function are around it.
    pub depth: usize,
    /// CPU time in it, callees included.
    pub cpu_time: Metric,
    /// Iterations per second of that time.
    pub iterations_per_second: Metric,
    /// The time of one iteration.
    pub iteration_time: Metric,
    /// Iterations in the whole run.
    pub iterations: Metric,
    /// Iterations per iteration of the loop around it.
    pub trip_count: Metric,
    /// How it compares with what was counted otherwise.
    pub agreement: Option<String>,
    /// What tells its progress: a register or a word of the stack. `None` where nothing does.
    pub odometer: Option<String>,
}

/// The pace of all loops that had a share of the CPU time, the most first.
#[must_use]
pub fn loops(recording: &Recording) -> Vec<LoopPace> {
    let code = Code::read(&recording.sampled_code);
    let mut rows = found(recording, &code);
    let iterations: BTreeMap<LoopId, Metric> =
        rows.iter().map(|(one, row)| (*one, row.iterations.clone())).collect();
    let windows = agreement::windows(recording, &code);
    for (one, row) in &mut rows {
        let counted = windows.get(one).copied();
        row.agreement = counted
            .zip(row.iterations_per_second.value)
            .and_then(|(windows, rate)| windows.beside(rate));
        if let Some(position) = code.get(*one).parent {
            let around = iterations.get(&LoopId { position, ..*one });
            row.trip_count = trip_count(&row.iterations, around);
        }
    }
    let mut rows: Vec<LoopPace> = rows.into_iter().map(|(_, row)| row).collect();
    let time = |row: &LoopPace| row.cpu_time.value.unwrap_or(0.0);
    rows.sort_by(|one, other| {
        let by_time = time(other).total_cmp(&time(one));
        by_time.then(one.depth.cmp(&other.depth)).then(one.start.cmp(&other.start))
    });
    rows
}

/// The loops that had a share of the CPU time, with their pace, and nothing of what compares them.
fn found(recording: &Recording, code: &Code) -> Vec<(LoopId, LoopPace)> {
    if code.functions.is_empty() {
        return Vec::new();
    }
    let mut stacks = Stacks::new(recording, code);
    let times = times(recording, &mut stacks);
    let found = pairs::find(recording, code, &mut stacks);
    let names = Names::new(recording);
    let whole: f64 = recording.samples.iter().map(|sample| seconds(sample.weight)).sum();
    let all = recording.samples.len() as f64;
    let mut rows: Vec<(LoopId, LoopPace)> = Vec::new();
    for (one, time) in &times {
        let one = *one;
        if time.seconds < LEAST_SHARE * whole {
            continue;
        }
        let empty = pairs::Found::default();
        let found = found.get(&one).unwrap_or(&empty);
        let (function, file, line) = names.of(code, one, &time.places);
        let share = (time.seconds / whole).clamp(0.0, 1.0);
        // The standard error of a share of so many samples.
        let error = Z_95 * (share * (1.0 - share) / all).sqrt() * whole;
        let interval = ((time.seconds - error).max(0.0), time.seconds + error);
        let cpu_time =
            Metric::with_interval(Evidence::Sampled, time.seconds, "s", interval, time.samples);
        let machine = code.get(one);
        let row = LoopPace {
            function,
            file,
            line,
            start: (code.functions[one.function].module, FileOffset(machine.start.0)),
            depth: machine.depth,
            iterations_per_second: Metric::unavailable("count/s", ""),
            iteration_time: Metric::unavailable("s", ""),
            iterations: Metric::unavailable("count", ""),
            trip_count: Metric::unavailable("count", "there is no loop around it in its function"),
            agreement: None,
            cpu_time,
            odometer: None,
        };
        rows.push((one, with_pace(row, found, time.seconds, error)));
    }
    rows
}

/// Iterations of a loop over those of the one around it. Intervals add as relative ones of a ratio of independent figures.
fn trip_count(inner: &Metric, around: Option<&Metric>) -> Metric {
    let outer = around.and_then(|outer| Some((outer, outer.value.filter(|value| *value > 0.0)?)));
    let (Some(value), Some((outer, per))) = (inner.value, outer) else {
        return Metric::unavailable(
            "count",
            "the pace of this loop, or of the one around it, is not known",
        );
    };
    let relative = |metric: &Metric, value: f64| {
        let half = metric.high.unwrap_or(value) - metric.low.unwrap_or(value);
        half / 2.0 / value
    };
    let half = relative(inner, value).hypot(relative(outer, per)) * value / per;
    let trips = value / per;
    let interval = ((trips - half).max(0.0), trips + half);
    Metric::with_interval(
        Evidence::Sampled,
        trips,
        "count",
        interval,
        inner.samples.min(outer.samples),
    )
}

fn with_pace(mut row: LoopPace, found: &pairs::Found, time: f64, error: f64) -> LoopPace {
    let pace = match pace(found, time) {
        Ok(pace) => pace,
        Err(why) => {
            row.iterations_per_second = Metric::unavailable("count/s", why);
            row.iteration_time = Metric::unavailable("s", why);
            row.iterations = Metric::unavailable("count", why);
            return row;
        }
    };
    let samples = pace.pairs as u64;
    let metric = |value: f64, relative: f64, unit: &str| {
        let interval = (value * (1.0 - relative).max(0.0), value * (1.0 + relative));
        Metric::with_interval(Evidence::Sampled, value, unit, interval, samples)
    };
    let relative = pace.half / pace.rate;
    row.iterations_per_second = metric(pace.rate, relative, "count/s");
    row.iteration_time = metric(1.0 / pace.rate, relative, "s");
    row.iterations = metric(pace.rate * time, relative.hypot(error / time), "count");
    let most = found
        .carriers
        .iter()
        .max_by_key(|(variable, count)| (**count, std::cmp::Reverse(**variable)));
    // Mostly restored from further in.
    let in_caller = 2 * found.in_callers > found.pairs.len() as u64;
    row.odometer =
        most.map(|(carrier, _)| name(*carrier) + if in_caller { " of the caller" } else { "" });
    row
}

/// A register's name, or a word of the stack as an operand.
fn name(carrier: Variable) -> String {
    match carrier {
        Variable::Register(register) => register.to_string(),
        Variable::Slot(slot) => {
            let base = match slot.base {
                SlotBase::StackPointer => "rsp",
                SlotBase::FramePointer => "rbp",
            };
            format!("[{base}{:+}]", slot.displacement)
        }
    }
}

/// Source locations by address.
struct Names<'a> {
    frames: HashMap<(ModuleId, FileOffset), Vec<&'a Frame>>,
}

impl<'a> Names<'a> {
    fn new(recording: &'a Recording) -> Names<'a> {
        let mut frames: HashMap<_, Vec<&Frame>> = HashMap::new();
        for frame in &recording.frames {
            frames.entry((frame.module, frame.offset)).or_default().push(frame);
        }
        frames.values_mut().for_each(|frames| frames.sort_by_key(|frame| frame.depth));
        Names { frames }
    }

    /// Function, file and first line of a loop, by the addresses of it that samples saw. The function is the one whose
    /// machine code this is; the line one of its own, not of what was inlined.
    fn of(
        &self,
        code: &Code,
        one: LoopId,
        places: &BTreeSet<(ModuleId, FileOffset)>,
    ) -> (String, Option<String>, Option<u32>) {
        let outermost = places.iter().filter_map(|place| self.frames.get(place)?.last());
        let first = outermost.min_by_key(|frame| (frame.line.is_none(), frame.line));
        match first {
            Some(frame) => (frame.function.clone(), frame.file.clone(), frame.line),
            None => {
                let start = code.functions[one.function].start;
                (format!("[{start}]"), None, None)
            }
        }
    }
}
