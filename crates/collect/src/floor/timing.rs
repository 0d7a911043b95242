//! How long a stretch of code takes without its data.
//!
//! What for: repetitions, their number and length, what memory holds (`x86::contents`), and other registers where those at
//! hand lead nowhere. What not: the process that runs it (`sys::floor`).

use std::ops::RangeInclusive;

use base::{Nanos, Picos, RemoteAddr};
use facts::{FloorOutcome, FloorTime};
use sys::floor::{DATA_PAGES, EVERY_WORD, Floor, FloorError, StartState};
use x86::{Carried, CodeBytes, Contents, Kept, NoFloor, Part, Seen, State, contents, unroll};

/// Translations that every first-level TLB for data holds, less those of the stub (64 entries, 48 on some).
const MOST_PAGES: usize = 40;
/// What a register holds that no record holds. It can be a pointer; the distance from one iteration to the next; or a factor
/// or state that only 0 keeps in its place.
const UNKNOWN: [u64; 3] = [EVERY_WORD, 8, 0];
/// Length of a repetition: long against a step of the clock, short against the time between interrupts.
const REPETITION: Nanos = Nanos(20_000);
/// A place for code that has no data.
const ANYWHERE: u64 = 0x10_0000_0000;
/// Repetitions of a loop, in turns of this many long ones and short ones; and of a path, which is one of many that differ by
/// more than the turns of one.
pub(super) const TURNS: usize = 8;
pub(super) const TURNS_OF_PATH: usize = 2;
const PER_TURN: usize = 16;
/// The quickest of each turn, which count.
const QUICK: usize = 8;
/// Turns after which a loop is compared with itself with registers; and most turns, where it is not clear which is quicker.
const COMPARED: usize = 2;
const MOST_TURNS: usize = 6 * TURNS;
/// Pages that share lines, three each, to see whether that costs anything, and how often in a row they are loaded.
const SHARING: usize = 3 * DATA_PAGES;
const COPIES: usize = 16;

/// Code in a row.
pub(super) struct Stretch<'a> {
    pub(super) path: Vec<Part<'a, [CodeBytes<'a>]>>,
    /// What records tell of the first parts that run, over all copies.
    pub(super) seen: Vec<Vec<Seen>>,
    /// Of a loop: what is timed beside it, in the same turns: with registers for these places.
    pub(super) kept: Option<&'a Kept>,
    /// Of a loop: what it carries on in memory. Each pass begins with the same registers; were this to go on from pass to pass,
    /// a loop whose position stands in memory would go ever further, over more pages than are there.
    pub(super) carried: Option<&'a Carried>,
    pub(super) turns: usize,
    pub(super) processor: Processor,
}

/// What all timing of one recording goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processor {
    /// A tick of the time-stamp counter, seconds.
    tick: f64,
    /// How long a step of a chain of instructions takes each of which takes a cycle.
    pub(super) cycle: Option<FloorTime>,
    /// Pages that share a line miss the first-level cache in turn (`sys::floor`), and are one too many.
    aliases_miss: bool,
    /// No timing begins after this moment, and one that goes on ends with fewer repetitions.
    until: Nanos,
}

/// Why there is no floor.
enum Why {
    Code(NoFloor),
    Run(FloorError),
    Pages(usize),
    NoPlace,
}

impl Why {
    fn many_pages(&self) -> bool {
        matches!(self, Why::Pages(_) | Why::Run(FloorError::ManyPages))
    }

    /// Whether other registers may help.
    fn by_registers(&self) -> bool {
        self.many_pages() || matches!(self, Why::Run(FloorError::Fault(_) | FloorError::Signal(_)))
    }
}

/// What came of timing a stretch.
pub(super) struct Timed {
    /// Copies in a row.
    pub(super) copies: usize,
    pub(super) outcome: FloorOutcome,
    /// With registers instead of memory, where that was asked for and can be timed.
    pub(super) kept: Option<FloorTime>,
    /// Refused because it touches too many pages.
    pub(super) many_pages: bool,
}

impl Stretch<'_> {
    /// The time of one pass, from so many copies in a row, or as few as touch few enough pages. `start` gives the registers
    /// in front of it, with its argument where nobody knows them. `None` where it is too late.
    ///
    /// # Errors
    /// Such a process is not to be had here.
    pub(super) fn time(
        &self,
        start: impl Fn(u64) -> StartState,
        copies: &RangeInclusive<usize>,
    ) -> Result<Option<Timed>, FloorError> {
        let mut last = None;
        // Where the addresses of the program cannot be had, any will do.
        let ways =
            [&self.seen[..], &[]].into_iter().flat_map(|seen| UNKNOWN.map(|one| (seen, one)));
        for (seen, unknown) in ways {
            let state = start(unknown);
            let mut number = *copies.end();
            let why = loop {
                if self.processor.is_late() {
                    return Ok(None);
                }
                match self.time_copies(number, &state, seen) {
                    Ok((time, kept)) => {
                        let outcome = FloorOutcome::Measured(time);
                        let many_pages = false;
                        return Ok(Some(Timed { copies: number, outcome, kept, many_pages }));
                    }
                    // Fewer copies touch fewer pages.
                    Err(why) if why.many_pages() && number > *copies.start() => {
                        number = (number / 4).max(*copies.start())
                    }
                    Err(Why::Run(error @ FloorError::System(_))) => return Err(error),
                    Err(why) => break why,
                }
            };
            let again = why.by_registers();
            last = Some((number, why));
            if !again {
                break;
            }
        }
        let (copies, why) = last.unwrap_or((*copies.start(), Why::NoPlace));
        let many_pages = why.many_pages();
        let outcome = FloorOutcome::Refused(why.to_string());
        Ok(Some(Timed { copies, outcome, kept: None, many_pages }))
    }

    fn time_copies(
        &self,
        copies: usize,
        state: &StartState,
        seen: &[Vec<Seen>],
    ) -> Result<(FloorTime, Option<FloorTime>), Why> {
        let contents = self.contents(copies, state, seen);
        let mut plain = self.ready(None, copies, (state, &contents))?;
        let kept = self.kept.map(|kept| self.ready(Some(kept), copies, (state, &contents)));
        match kept.transpose() {
            Ok(mut kept) => timed(&mut plain, kept.as_mut(), self.turns, self.processor),
            Err(error @ Why::Run(FloorError::System(_))) => Err(error),
            Err(_) => timed(&mut plain, None, self.turns, self.processor),
        }
    }

    /// Loaded, in a process of its own.
    fn ready(
        &self,
        kept: Option<&Kept>,
        copies: usize,
        (state, contents): (&StartState, &Contents),
    ) -> Result<Ready, Why> {
        let first = self.path.first().ok_or(Why::NoPlace)?;
        // What leads to these places, as the loop itself has it: with kept registers others may hold it.
        let plain = registers(state);
        let state = &holding(state, kept, contents);
        let arena = arena(first.block.start, state, contents).ok_or(Why::NoPlace)?;
        let at = Floor::code_at(arena);
        let code = match kept {
            Some(kept) => kept.unroll(first, at, 2 * copies),
            None => unroll(&self.path, at, 2 * copies),
        };
        let mut code = code.map_err(Why::Code)?.bytes;
        let half = code.len() / 2;
        if let Some(carried) = self.carried {
            code.extend(carried.restored(&plain, contents, EVERY_WORD));
        }
        let mut floor = Floor::start(arena).map_err(Why::Run)?;
        floor.hold(contents).map_err(Why::Run)?;
        floor.load(&code, state).map_err(Why::Run)?;
        Ready::new(floor, half, copies, self.processor)
    }

    /// What memory holds so that these copies touch what the program touched.
    fn contents(&self, copies: usize, state: &StartState, seen: &[Vec<Seen>]) -> Contents {
        let parts = self.path.iter().cycle().take(2 * copies * self.path.len());
        let seen = seen.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
        contents(parts.zip(seen), &registers(state), EVERY_WORD)
    }
}

/// The registers at the start, those that stand for memory included.
fn holding(state: &StartState, kept: Option<&Kept>, contents: &Contents) -> StartState {
    let mut all = registers(state);
    if let Some(kept) = kept {
        kept.hold(&mut all, contents, EVERY_WORD);
    }
    StartState { general: all.general, vectors: all.vectors, masks: all.masks }
}

/// Copies that lie twice in a row in the loaded code: they run from its begin on, and from `half` on.
struct Ready {
    floor: Floor,
    half: usize,
    /// In a repetition.
    passes: u64,
    pages: usize,
    /// Picoseconds of one copy for each tick.
    each: f64,
}

impl Ready {
    /// Maps the pages and warms everything up; the second time tells how long a pass takes.
    fn new(
        mut floor: Floor,
        half: usize,
        copies: usize,
        Processor { tick, aliases_miss, .. }: Processor,
    ) -> Result<Ready, Why> {
        floor.time(0, 1, 1).map_err(Why::Run)?;
        let pages = floor.pages();
        if pages > MOST_PAGES || (aliases_miss && floor.aliases() > 0) {
            return Err(Why::Pages(pages));
        }
        let pass = floor.time(0, 1, PER_TURN).map_err(Why::Run)?;
        let pass = pass.into_iter().min().unwrap_or(1).max(1) as f64 * tick;
        let passes = (REPETITION.seconds() / pass).clamp(1.0, 1000.0) as u64;
        let each = tick * 1e12 / (passes as f64 * copies as f64);
        Ok(Ready { floor, half, passes, pages, each })
    }

    fn turn(&mut self) -> Result<Turn, Why> {
        let mut long = self.floor.time(0, self.passes, PER_TURN).map_err(Why::Run)?;
        let mut short = self.floor.time(self.half, self.passes, PER_TURN).map_err(Why::Run)?;
        long.sort_unstable();
        short.sort_unstable();
        Ok(Turn { long, short, each: self.each })
    }

    /// Addresses that change from pass to pass: what was timed are the faults.
    fn check(&self) -> Result<(), Why> {
        let pages = self.floor.pages();
        if pages > self.pages { Err(Why::Pages(pages)) } else { Ok(()) }
    }
}

/// How many ticks both entries took, several times, the quickest first.
struct Turn {
    long: Vec<u64>,
    short: Vec<u64>,
    /// Picoseconds of one copy for each tick.
    each: f64,
}

impl Turn {
    /// Picoseconds of one copy, several times. The quick with the quick: who was interrupted in one of them tells nothing about
    /// the difference. Where others keep the CPUs busy that are many.
    fn times(&self) -> impl Iterator<Item = Picos> + '_ {
        let pairs = self.long.iter().zip(&self.short).take(QUICK);
        let added = pairs.map(|(long, short)| long.saturating_sub(*short));
        added.map(|ticks| Picos((ticks as f64 * self.each).round() as u64))
    }

    /// Picoseconds of one copy by the quickest quarter of several turns.
    fn together(turns: &[Turn]) -> f64 {
        let quick = |of: fn(&Turn) -> &[u64]| {
            let mut all: Vec<u64> = turns.iter().flat_map(of).copied().collect();
            all.sort_unstable();
            all.truncate(all.len() / 4);
            all.iter().sum::<u64>() as f64 / all.len().max(1) as f64
        };
        let each = turns.first().map_or(0.0, |turn| turn.each);
        (quick(|turn| &turn.long) - quick(|turn| &turn.short)) * each
    }
}

/// The time of one copy, and of one with registers instead: by how many times as long that took in the same turns, for
/// a busy machine is as busy for both. A loop adds little to what a pass takes besides, so that the ratio of single repetitions
/// would be any.
fn timed(
    plain: &mut Ready,
    mut kept: Option<&mut Ready>,
    turns: usize,
    processor: Processor,
) -> Result<(FloorTime, Option<FloorTime>), Why> {
    let (mut times, mut ratios) = (Vec::new(), Vec::new());
    let mut done = 0;
    while done < turns || (kept.is_some() && done < MOST_TURNS && is_open(&mut ratios)) {
        let (mut own, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..COMPARED.min(turns) {
            own.push(plain.turn()?);
            match kept.as_mut().map(|kept| kept.turn()).transpose() {
                Ok(turn) => beside.extend(turn),
                Err(error @ Why::Run(FloorError::System(_))) => return Err(error),
                Err(_) => kept = None,
            }
        }
        plain.check()?;
        done += own.len();
        ratios.extend(kept.as_ref().and_then(|_| ratio(&own, &beside)));
        times.extend(own.iter().flat_map(Turn::times));
        if processor.is_late() {
            break;
        }
    }
    let time = summary(times);
    let median = time.median.0 as f64;
    let beside = || ratios.iter().map(|ratio| Picos((ratio * median).round() as u64)).collect();
    let kept = kept.filter(|kept| kept.check().is_ok() && !ratios.is_empty());
    let kept = kept.map(|_| summary(beside()));
    // Each ratio says as much as the repetitions of a turn, which are alike.
    let repetitions = |time: FloorTime| time.repetitions.saturating_mul(PER_TURN as u32);
    Ok((time, kept.map(|time| FloorTime { repetitions: repetitions(time), ..time })))
}

/// How many times as long the second took; `None` where the first took nothing.
fn ratio(own: &[Turn], beside: &[Turn]) -> Option<f64> {
    let (own, beside) = (Turn::together(own), Turn::together(beside));
    (own > 0.0).then(|| beside.max(0.0) / own)
}

/// Whether the middle says quicker, but not all.
fn is_open(ratios: &mut [f64]) -> bool {
    ratios.sort_by(f64::total_cmp);
    let at = |share: usize| ratios.get(ratios.len() * share / 10).copied().unwrap_or_default();
    at(5) < 1.0 && at(9) >= 1.0
}

impl Processor {
    /// Measures what belongs to it. `tick`: of the time-stamp counter, seconds.
    ///
    /// # Errors
    /// Such a process is not to be had here.
    pub(super) fn measure(tick: f64) -> Result<Processor, FloorError> {
        let until = Nanos(u64::MAX);
        let processor = Processor { tick, cycle: None, aliases_miss: false, until };
        const NOT: [u8; 3] = [0x48, 0xf7, 0xd0]; // not rax: a cycle (Fog, Instruction tables)
        let cycle = processor.copies(&NOT, 256, TURNS)?;
        let apart = processor.copies(&loads(DATA_PAGES), COPIES, 1)?;
        let shared = processor.copies(&loads(SHARING), COPIES, 1)?;
        let aliases_miss = match (apart, shared) {
            (Some(apart), Some(shared)) => {
                let each = |time: FloorTime, loads: usize| time.low.0 as f64 / loads as f64;
                each(shared, SHARING) > 2.0 * each(apart, DATA_PAGES)
            }
            _ => false,
        };
        Ok(Processor { cycle, aliases_miss, ..processor })
    }

    /// The same with another end.
    pub(super) fn until(self, until: Nanos) -> Processor {
        Processor { until, ..self }
    }

    pub(super) fn is_late(&self) -> bool {
        sys::process::monotonic() >= self.until
    }

    /// The time of one of so many copies of plain code.
    fn copies(
        self,
        code: &[u8],
        copies: usize,
        turns: usize,
    ) -> Result<Option<FloorTime>, FloorError> {
        let mut floor = Floor::start(RemoteAddr(ANYWHERE))?;
        floor.load(&code.repeat(2 * copies), &StartState::default())?;
        let ready = Ready::new(floor, code.len() * copies, copies, self);
        match ready.and_then(|mut ready| timed(&mut ready, None, turns, self)) {
            Ok((time, _)) => Ok(Some(time)),
            Err(Why::Run(error @ FloorError::System(_))) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// A load from the same line of each of so many pages.
fn loads(pages: usize) -> Vec<u8> {
    let load = |page: usize| {
        let distance = (page * 4096) as u32;
        [&[0x48, 0x8b, 0x88][..], &distance.to_le_bytes()].concat() // mov rcx, [rax + distance]
    };
    (0..pages).flat_map(load).collect()
}

fn registers(state: &StartState) -> State {
    let StartState { general, vectors, masks } = *state;
    State { general, vectors, masks, fs_base: EVERY_WORD, ..State::default() }
}

impl std::fmt::Display for Why {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::Code(why) => why.fmt(out),
            Why::Run(why) => why.fmt(out),
            Why::Pages(pages) => {
                write!(
                    out,
                    "a few iterations touch {pages} pages; translations would count as core"
                )
            }
            Why::NoPlace => out.write_str("no address in reach of its code is free"),
        }
    }
}

fn summary(mut times: Vec<Picos>) -> FloorTime {
    times.sort();
    let at = |share: usize| times.get(times.len() * share / 10).copied().unwrap_or_default();
    FloorTime { repetitions: times.len() as u32, median: at(5), low: at(1), high: at(9) }
}

/// A place for the arena: operands relative to rip must reach what they name from there (2 GiB), and neither they nor a
/// register, nor what memory holds, may lead into it. Operands relative to rip name the module of the code, mostly less than 200 MB long.
fn arena(code: RemoteAddr, state: &StartState, contents: &Contents) -> Option<RemoteAddr> {
    const STEP: u64 = 256 << 20;
    const APART: u64 = 64 << 20;
    let code = code.0 & !0xfff;
    let below = (1..7).filter_map(|steps| code.checked_sub(steps * STEP));
    let above = (1..7).filter_map(|steps| code.checked_add(steps * STEP));
    let is_free = |at: &u64| {
        let held = contents.keys().map(|address| &address.0);
        let mut used = state.general.iter().chain(&[EVERY_WORD]).chain(held);
        *at >= 1 << 20 && used.all(|used| used.abs_diff(*at) > APART)
    };
    below.chain(above).find(is_free).map(RemoteAddr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_in_order() {
        let time = summary((0..=10).rev().map(Picos).collect());
        let expected = [1, 5, 9].map(Picos);
        assert_eq!([time.low, time.median, time.high], expected);
    }

    /// Passes of 1000 ticks to which copies add 20 and 10, three of four of which others hold up.
    #[test]
    fn loops_are_compared_by_what_nobody_held_up() {
        let held_up =
            |ticks: u64| (0..16).map(move |at| if at < 5 { ticks } else { ticks + at * 31 });
        let turn = |added: u64| Turn {
            long: held_up(1000 + 2 * added).collect(),
            short: held_up(1000 + added).collect(),
            each: 1.0,
        };
        let compared = ratio(&[turn(20), turn(20)], &[turn(10), turn(10)]).expect("a ratio");
        assert!((compared - 0.5).abs() < 1e-9, "{compared}");
        assert_eq!(ratio(&[turn(0)], &[turn(10)]), None);
        assert!(is_open(&mut [0.8, 1.1, 0.9]) && !is_open(&mut [0.8, 0.9, 0.7]));
        assert!(!is_open(&mut [1.1, 0.9, 1.2]));
    }
}
