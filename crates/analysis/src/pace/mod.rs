//! The native pace of loops, from the registers of ordinary clock samples.
//!
//! What for: iterations per second of every loop in which samples fell, with or without bursts. Two samples of one thread in one
//! run of a loop, with an induction register that moved by a constant times the number of iterations, give the pace.
//! What not: what an iteration does (bursts show that); code without a file or without unwind information.
//! The code alone decides which register counts (`x86::loops`), never which one scatters least. Where none counts, the figure is
//! absent with the reason.

mod agreement;
mod code;
mod estimate;
mod odometers;
mod pairs;
mod stacks;
mod trip_counts;
mod undisturbed;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::{CodeAddress, FileOffset};
use facts::{Evidence, Frame, Metric, Recording, SlotBase};
use x86::Variable;

use self::agreement::{BurstCounts, Trips, Witness};
use self::code::{Code, LoopId};
use self::estimate::{NOT_READ, Pace, SCATTER, TOO_WIDE, pace, seconds};
pub use self::odometers::LoopName;
pub(crate) use self::odometers::LoopsInCode;
use self::stacks::{Stacks, Time, times};
use self::trip_counts::TripCounts;
pub(crate) use self::undisturbed::Undisturbed;
use self::undisturbed::undisturbed;
use ::estimate::interval::Z_95;
use ::estimate::parameters::MISSED_RUNS;

/// A loop with a smaller share of the CPU time is left out: it has too few samples.
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
    /// The function that these iterations call, where it calls several by a pointer.
    pub callee: Option<String>,
    /// The module, and where in it the loop begins.
    pub start: CodeAddress,
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
    /// How it compares with bursts and count windows.
    pub agreement: Option<String>,
    /// Where its progress is read: a register or a word of the stack. `None` where nothing shows it.
    pub odometer: Option<String>,
}

/// The pace of all loops that had a share of the CPU time, the most first.
#[must_use]
pub fn loops(recording: &Recording) -> Vec<LoopPace> {
    LoopsInCode::read(recording).rows
}

/// The rows with what compares them.
fn compared(found: Sampled, code: &Code, seen: &BurstCounts) -> Vec<LoopPace> {
    let Sampled { loops, trip_counts, .. } = found;
    let mut rows: Vec<(LoopId, LoopPace)> =
        loops.into_iter().map(|(one, row, _)| (one, row)).collect();
    let iterations: BTreeMap<LoopId, Metric> =
        rows.iter().map(|(one, row)| (*one, row.iterations.clone())).collect();
    for (one, row) in &mut rows {
        // A pace that comes from bursts cannot be compared with bursts.
        let own = row.iterations_per_second.evidence == Some(Evidence::Sampled);
        let rate = row.iterations_per_second.value.filter(|_| own);
        row.agreement = rate.and_then(|rate| seen.in_words(*one, rate));
        if let Some(position) = code.get(*one).parent {
            let outer = LoopId::new(one.function, position);
            let derived =
                trip_counts.of(*one, &[outer], |_| Some(1.0)).map(|derived| derived.metric());
            let by_paces = || trip_count(&row.iterations, iterations.get(&outer));
            row.trip_count = derived.unwrap_or_else(by_paces);
            if let (Some(trips), true) = (seen.trips(code, *one, &[outer]), own) {
                let words = row.agreement.take().map_or(String::new(), |words| words + ", ");
                let disagree = match half_share(&row.trip_count).zip(row.trip_count.value) {
                    Some((half, own)) if (own - trips.ratio).abs() > half * own + trips.half => {
                        ", unlike the pace"
                    }
                    _ => "",
                };
                row.agreement = Some(format!("{words}{:.4} trips{disagree}", trips.ratio));
            }
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

/// The loops that had a share of the CPU time, with their pace and nothing of what compares them, and their times. The
/// pace is that by registers, or that of a loop around with its trips, whichever is known better.
fn paced_loops(recording: &Recording, code: &Code, seen: &BurstCounts) -> Sampled {
    let Sampled { loops: mut found, undisturbed, trip_counts } = sampled(recording, code);
    let inside: Vec<BTreeSet<LoopId>> =
        found.iter().map(|(one, ..)| inside(*one, &found)).collect();
    for ((one, row, _), inside) in found.iter_mut().zip(inside) {
        let Some(own) = row.iterations_per_second.value else { continue };
        let bursts = seen.at_least(*one, |other| inside.contains(other));
        if bursts.is_some_and(|bursts| bursts > MISSED_RUNS.value * own) {
            *row = without_pace(
                row.clone(),
                "it iterates more often in bursts: samples miss runs of it",
            );
        }
    }
    // A loop that has its pace from one around may give it to those inside.
    for _ in 0..found.len() {
        let known: Known<'_> =
            found.iter().map(|(one, row, time)| (*one, (row.clone(), time))).collect();
        let by_trips: Vec<Option<LoopPace>> = found
            .iter()
            .map(|(one, row, _)| {
                by_trips(*one, &known, (code, seen, &trip_counts))
                    .filter(|other| known_to(other) < known_to(row))
            })
            .collect();
        if by_trips.iter().all(Option::is_none) {
            break;
        }
        for ((_, row, _), other) in found.iter_mut().zip(by_trips) {
            if let Some(other) = other {
                *row = other;
            }
        }
    }
    Sampled { loops: found, undisturbed, trip_counts }
}

/// What samples tell alone.
#[derive(Default)]
struct Sampled {
    loops: Vec<(LoopId, LoopPace, Time)>,
    undisturbed: Undisturbed,
    trip_counts: TripCounts,
}

/// The same by registers alone.
fn sampled(recording: &Recording, code: &Code) -> Sampled {
    if code.functions.is_empty() {
        return Sampled::default();
    }
    let mut stacks = Stacks::new(recording, code);
    let times = times(recording, &mut stacks);
    let (found, trip_counts) = pairs::find(recording, code, &mut stacks);
    let calibration = recording.run.calibration.as_ref();
    let sample = calibration.and_then(|known| Some(1e-9 * known.sample_cost.as_ref()?.value?));
    let paces: BTreeMap<LoopId, Result<Pace, &str>> = found
        .iter()
        .map(|(one, its)| {
            (*one, pace(its, times.get(one).map_or(0.0, |time| time.seconds), sample))
        })
        .collect();
    let names = Names::new(recording);
    let whole: f64 = recording.samples.iter().map(|sample| seconds(sample.weight)).sum();
    let undisturbed = undisturbed(recording, whole, &found, &paces);
    let all = recording.samples.len() as f64;
    let mut rows = Vec::new();
    for (one, time) in times {
        if time.seconds < LEAST_SHARE * whole {
            continue;
        }
        let (function, file, line) = names.of(code, one, &time.places);
        let share = (time.seconds / whole).clamp(0.0, 1.0);
        // The standard error of a share of this many samples.
        let error = Z_95 * (share * (1.0 - share) / all).sqrt() * whole;
        let interval = ((time.seconds - error).max(0.0), time.seconds + error);
        let cpu_time =
            Metric::with_interval(Evidence::Sampled, time.seconds, "s", interval, time.samples);
        let machine = code.get(one);
        let callee = one.callee.map(|callee| names.of_function(code, callee));
        let row = LoopPace {
            function,
            file,
            line,
            callee,
            start: CodeAddress::new(
                code.functions[one.function].module,
                FileOffset(machine.start.0),
            ),
            depth: machine.depth,
            iterations_per_second: Metric::unavailable("count/s", ""),
            iteration_time: Metric::unavailable("s", ""),
            iterations: Metric::unavailable("count", ""),
            trip_count: Metric::unavailable("count", "its function has no enclosing loop"),
            agreement: None,
            cpu_time,
            odometer: None,
        };
        let row = match (found.get(&one), paces.get(&one)) {
            (Some(found), Some(Ok(pace))) => {
                with_pace(row, found, *pace, (time.seconds, error), &undisturbed)
            }
            (_, Some(Err(why))) => without_pace(row, why),
            _ => without_pace(row, NOT_READ),
        };
        rows.push((one, row, time));
    }
    Sampled { loops: rows, undisturbed, trip_counts }
}

/// Of a loop's time, this share at least lies in the loop that is taken for the one around it: the rest is stacks that could
/// not be followed to their end.
const WITHIN: f64 = 0.99;

/// Whether a loop runs only within another one.
fn is_within(inner: &Time, outer: &LoopId) -> bool {
    inner.within.get(outer).is_some_and(|shared| *shared >= WITHIN * inner.seconds)
}

/// The loops that run only within one.
fn inside(one: LoopId, all: &[(LoopId, LoopPace, Time)]) -> BTreeSet<LoopId> {
    let within = all.iter().filter(|(_, _, time)| is_within(time, &one));
    within.map(|(inner, ..)| *inner).collect()
}

/// Loops around one that do not lie in one another, and have all of its time: one loop, or, where threads come to the same code
/// by different ways, one of each. The nearest of those that are left, which are taken from there.
fn around(one: &Time, left: &mut Vec<LoopId>, known: &Known<'_>) -> Option<Vec<LoopId>> {
    let share = |outer: &LoopId| one.within.get(outer).copied().unwrap_or(0.0);
    let lies_in = |inner: &LoopId, outer: &LoopId| {
        known.get(inner).is_some_and(|(_, time)| time.within.contains_key(outer))
    };
    let mut chosen: Vec<LoopId> = Vec::new();
    while chosen.iter().map(share).sum::<f64>() < WITHIN * one.seconds {
        let apart =
            |other: &&LoopId| chosen.iter().all(|one| !lies_in(other, one) && !lies_in(one, other));
        // The nearest lies in most of the others.
        let depth = |one: &LoopId| left.iter().filter(|outer| lies_in(one, outer)).count();
        let rank = |outer: &LoopId| (is_within(one, outer), depth(outer));
        let nearest = *left.iter().filter(apart).max_by_key(|outer| rank(outer))?;
        left.retain(|other| *other != nearest);
        chosen.push(nearest);
    }
    Some(chosen)
}

/// The loops that have a share of the CPU time.
type Known<'a> = BTreeMap<LoopId, (LoopPace, &'a Time)>;

/// What tells trips.
type Witnesses<'a> = (&'a Code, &'a BurstCounts, &'a TripCounts);

/// The pace of a loop by those of loops around it and its trips, as it is known best.
fn by_trips(one: LoopId, known: &Known<'_>, seen: Witnesses<'_>) -> Option<LoopPace> {
    let (_, time) = known.get(&one)?;
    let has_odometer =
        |outer: &&LoopId| known.get(outer).is_some_and(|(row, _)| row.iterations.value.is_some());
    let mut left: Vec<LoopId> = time.within.keys().filter(has_odometer).copied().collect();
    let each = std::iter::from_fn(|| around(time, &mut left, known));
    let paces = each.filter_map(|around| by_trips_of(one, &around, known, seen));
    paces.min_by(|one, other| known_to(one).total_cmp(&known_to(other)))
}

/// Iterations of a loop per iteration of those around: as the code and registers tell, or as bursts saw, the narrower one.
fn trips(
    one: LoopId,
    around: &[LoopId],
    known: &Known<'_>,
    (code, seen, counts): Witnesses<'_>,
) -> Option<Trips> {
    let in_bursts = seen.trips(code, one, around);
    let derived = counts.of(one, around, |outer| known.get(&outer)?.0.iterations.value);
    let known = derived.into_iter().chain(in_bursts);
    known.min_by(|one, other| one.relative().total_cmp(&other.relative()))
}

/// Half of the interval of a loop's iterations as a part of them.
fn known_to(row: &LoopPace) -> f64 {
    half_share(&row.iterations).unwrap_or(f64::INFINITY)
}

/// The same by these loops.
fn by_trips_of(
    one: LoopId,
    around: &[LoopId],
    known: &Known<'_>,
    seen: Witnesses<'_>,
) -> Option<LoopPace> {
    let (row, time) = known.get(&one)?;
    let outer = || around.iter().filter_map(|outer| known.get(outer));
    let trips = trips(one, around, known, seen)?;
    let iterations: f64 = outer().filter_map(|(row, _)| row.iterations.value).sum();
    let rate = iterations * trips.ratio / time.seconds;
    // It is chance which samples of the outer loops are in the inner one: a binomial share.
    let outer_seconds: f64 = outer().map(|(_, time)| time.seconds).sum();
    let samples: u64 = outer().map(|(_, time)| time.samples).sum();
    let share = (time.seconds / outer_seconds).clamp(0.0, 1.0);
    let chance = Z_95 * ((1.0 - share) / share / (samples.max(1) as f64)).sqrt();
    // The loops around share nothing but the machine's speed.
    let half_of = |figure: fn(&LoopPace) -> &Metric| {
        let mut halves = outer().map(|(row, _)| {
            let part = row.iterations.value? / iterations;
            Some(half_share(figure(row))? * part)
        });
        halves.try_fold(0.0, |sum: f64, half| Some(sum.hypot(half?)))
    };
    // Where the time of a thread is not known, its iterations may be.
    let of_rate = half_of(|row| &row.iterations_per_second);
    let of_rate = of_rate.or_else(|| half_of(|row| &row.iterations))?;
    let per_iteration = of_rate.hypot(trips.half / trips.ratio);
    let relative = per_iteration.hypot(chance);
    if !(relative <= TOO_WIDE && rate.is_finite()) {
        return None;
    }
    let metric = |value: f64, relative: f64, unit: &str| {
        let interval = (value * (1.0 - relative).max(0.0), value * (1.0 + relative));
        Metric::with_interval(trips.evidence(), value, unit, interval, trips.seen as u64)
    };
    let in_all = half_of(|row| &row.iterations)?.hypot(trips.half / trips.ratio);
    let mut carriers: Vec<&str> = outer().filter_map(|(row, _)| row.odometer.as_deref()).collect();
    carriers.dedup();
    Some(LoopPace {
        iterations_per_second: metric(rate, relative, "count/s"),
        iteration_time: metric(1.0 / rate, relative, "s"),
        iterations: metric(rate * time.seconds, in_all, "count"),
        odometer: (!carriers.is_empty()).then(|| {
            let carriers = carriers.join(" and ");
            match trips.by {
                Witness::Bursts => {
                    format!("{carriers}, {:.4} trips in {} bursts", trips.ratio, trips.seen)
                }
                Witness::Samples => format!("{carriers} × trips"),
            }
        }),
        ..row.clone()
    })
}

/// Half of a figure's interval as a share of it.
fn half_share(metric: &Metric) -> Option<f64> {
    let value = metric.value.filter(|value| *value > 0.0)?;
    Some((metric.high? - metric.low?) / 2.0 / value)
}

/// Iterations of a loop over those of the one around it. Intervals add as relative ones of a ratio of independent figures.
fn trip_count(inner: &Metric, around: Option<&Metric>) -> Metric {
    let outer = around.and_then(|outer| Some((outer, outer.value.filter(|value| *value > 0.0)?)));
    let (Some(value), Some((outer, per))) = (inner.value, outer) else {
        return Metric::unavailable(
            "count",
            "the pace of this loop, or of the enclosing one, is unknown",
        );
    };
    let relative = |metric: &Metric| half_share(metric).unwrap_or(0.0);
    let half = relative(inner).hypot(relative(outer)) * value / per;
    let trips = value / per;
    let interval = ((trips - half).max(0.0), trips + half);
    let evidence = inner.evidence.unwrap_or(Evidence::Sampled);
    Metric::with_interval(evidence, trips, "count", interval, inner.samples.min(outer.samples))
}

fn with_pace(
    mut row: LoopPace,
    found: &pairs::Found,
    pace: Pace,
    (time, error): (f64, f64),
    undisturbed: &Undisturbed,
) -> LoopPace {
    let samples = pace.pairs as u64;
    let metric = |value: f64, relative: f64, unit: &str| {
        let interval = (value * (1.0 - relative).max(0.0), value * (1.0 + relative));
        Metric::with_interval(Evidence::Sampled, value, unit, interval, samples)
    };
    let relative = pace.half / pace.rate;
    if pace.is_rate() {
        row.iterations_per_second = metric(pace.rate, relative, "count/s");
        row.iteration_time = metric(1.0 / pace.rate, relative, "s");
    } else {
        row.iterations_per_second = Metric::unavailable("count/s", SCATTER);
        row.iteration_time = Metric::unavailable("s", SCATTER);
    }
    // Of a loop's samples, chance decides only how many lie in no pair.
    let each = time / row.cpu_time.samples.max(1) as f64;
    let others = (time - pace.seconds).max(0.0) / each + 1.0;
    let chance = (Z_95 * others.sqrt() * each).min(error);
    let all = relative.hypot(chance / time).hypot(undisturbed.relative().unwrap_or(0.0));
    row.iterations = match pace.counted {
        Some((iterations, half)) => metric(iterations, half.hypot(chance / time), "count"),
        None => metric(pace.rate * time * undisturbed.share(), all, "count"),
    };
    let found = found.close.as_deref().filter(|_| pace.by_echoes).unwrap_or(found);
    let most = found
        .carriers
        .iter()
        .max_by_key(|(variable, count)| (**count, std::cmp::Reverse(**variable)));
    // Mostly restored from further in.
    let in_caller = 2 * found.in_callers > found.pairs.len() as u64;
    let whose = if in_caller { "caller's " } else { "" };
    row.odometer = most.map(|(carrier, _)| whose.to_owned() + &name(*carrier));
    row
}

fn without_pace(row: LoopPace, why: &str) -> LoopPace {
    LoopPace {
        iterations_per_second: Metric::unavailable("count/s", why),
        iteration_time: Metric::unavailable("s", why),
        iterations: Metric::unavailable("count", why),
        odometer: None,
        ..row
    }
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
        // No sample has it.
        Variable::Computed(_) | Variable::Result(..) => String::new(),
    }
}

/// Source locations by address.
struct Names<'a> {
    frames: HashMap<CodeAddress, Vec<&'a Frame>>,
}

impl<'a> Names<'a> {
    fn new(recording: &'a Recording) -> Names<'a> {
        let mut frames: HashMap<_, Vec<&Frame>> = HashMap::new();
        for frame in &recording.frames {
            frames.entry(frame.code_address()).or_default().push(frame);
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
        places: &BTreeSet<CodeAddress>,
    ) -> (String, Option<String>, Option<u32>) {
        let outermost = places.iter().filter_map(|place| self.frames.get(place)?.last());
        let first = outermost.min_by_key(|frame| (frame.line.is_none(), frame.line));
        match first {
            Some(frame) => (frame.function.clone(), frame.file.clone(), frame.line),
            None => (format!("[{}]", code.functions[one.function].start), None, None),
        }
    }

    /// The name of a function in which samples fell.
    fn of_function(&self, code: &Code, function: usize) -> String {
        let inside = |at: &&CodeAddress| {
            code.functions.function(at.module, at.offset).is_some_and(|one| one == function)
        };
        let place = self.frames.keys().filter(inside).min();
        let frame = place.and_then(|place| self.frames.get(place)?.last());
        let start = || format!("[{}]", code.functions[function].start);
        frame.map_or_else(start, |frame| frame.function.clone())
    }
}
