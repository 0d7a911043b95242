//! How long a stretch of code takes without misses.
//!
//! What for: repetitions, their number and length, the content of memory (`x86::contents`), additions that bring registers to what was
//! recorded where no content does (`x86::shifted`), and other registers where the recorded ones lead nowhere. What not: the process
//! in which the code runs (`sys::no_miss`).
//!
//! What additions cost is not the program's. With twice as many the code takes longer still. So the time without them lies between the time
//! with them and that less the difference ([`between`]).

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use base::{Nanos, Picos, RemoteAddr};
use facts::{IterationTime, NoMissOutcome};
use sys::no_miss::{DATA_PAGES, EVERY_WORD, MOST_NOTES, NoMissError, StartState, TimingProcess};
use x86::{
    Carried, CodeBytes, FirstContents, Kept, LINE_BYTES, NotTimeable, Part, PathLocation,
    RecordedRegister, Shift, State, contents, noted, restored, shifted, unroll,
};

/// Pages that every first-level data TLB can hold, less those of the stub (TLBs have 64 entries, some 48).
const MOST_PAGES: usize = 40;
const PAGE_BYTES: usize = 4096;
/// As many sets as a first-level data cache has.
const LINES_IN_PAGE: usize = PAGE_BYTES / LINE_BYTES as usize;
/// Of a jump.
const JUMP_BYTES: usize = 5;
/// LFENCE: the next instruction begins when all before it are done (SDM vol. 2; on AMD as Linux sets it up, MSR C001_1029 bit 1).
const FENCE: [u8; 3] = [0x0f, 0xae, 0xe8];
/// Values for registers that no record holds. Such a register can be a pointer; the distance from one iteration to
/// the next; or a factor or state that only 0 keeps constant.
const UNKNOWN: [u64; 3] = [EVERY_WORD, 8, 0];
/// Length of a repetition: long compared with a step of the clock, short compared with the time between interrupts.
const REPETITION: Nanos = Nanos(20_000);
/// An address for code without data.
const ANYWHERE: u64 = 0x10_0000_0000;
/// Turns of a loop, each of many long and short repetitions; and of a path. Paths have fewer, because they are many
/// and differ by more than the turns of one.
pub(super) const TURNS: usize = 8;
pub(super) const TURNS_OF_PATH: usize = 2;
const PER_TURN: usize = 16;
/// The fastest repetitions of each turn; only these count.
const QUICK: usize = 8;
/// Turns after which a loop is compared with itself with kept registers; and most turns while the comparison is open.
const COMPARED: usize = 2;
const MOST_TURNS: usize = 6 * TURNS;
/// While there is time, turns go on until the median is known to this part of it. On a virtual machine whose cores others use too,
/// turns differ by a half, so that it takes dozens.
const PRECISE: f64 = 0.03;
/// Turns of code that is timed on several CPUs at once: enough to overlap; and how much longer it may take then.
const TOGETHER: usize = 4;
const SHARED: f64 = 1.2;
/// Pages that share lines, three each, to measure whether that costs anything; and the number of loads from each.
const SHARING: usize = 3 * DATA_PAGES;
const COPIES: usize = 16;

/// Consecutive code.
pub(super) struct Stretch<'a> {
    pub(super) path: Vec<Part<'a, [CodeBytes<'a>]>>,
    /// The recorded registers of the first parts that run, over all copies.
    pub(super) seen: Vec<Vec<RecordedRegister>>,
    /// For a loop: the variant with these locations in registers, timed in the same turns.
    pub(super) kept: Option<&'a Kept>,
    /// For a loop: what it carries in memory from iteration to iteration. Each pass begins with the same registers, and
    /// with the same content there and wherever the path overwrites what it loads: a loop whose position is in memory
    /// would otherwise advance ever further, over more pages than there are.
    pub(super) carried: Option<&'a Carried>,
    /// Also timed with fences between its parts.
    pub(super) fenced: bool,
    pub(super) turns: usize,
    /// Until then it gets more turns, if these are too few.
    pub(super) patient: Nanos,
    pub(super) processor: Processor,
}

/// Properties of the processor that all timings of a recording use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processor {
    /// A tick of the time-stamp counter, seconds.
    tick: f64,
    /// The time of one step in a chain of single-cycle instructions.
    pub(super) cycle: Option<IterationTime>,
    /// Pages that share a line miss the first-level cache in turn (`sys::no_miss`): such a stretch touches one page too
    /// many.
    aliases_miss: bool,
    /// No timing begins after this moment, and one in progress ends with fewer repetitions.
    pub(super) until: Nanos,
}

/// What stands between the instructions of copies.
#[derive(Clone, Copy)]
struct Added {
    /// How often each addition to registers.
    shifts: usize,
    /// Fences in front of each part.
    fences: usize,
}

/// Why there is no no-miss time.
enum TimingFailure {
    Code(NotTimeable),
    Run(NoMissError),
    Pages(usize),
    NoPlace,
    Far,
}

impl TimingFailure {
    fn many_pages(&self) -> bool {
        matches!(self, TimingFailure::Pages(_) | TimingFailure::Run(NoMissError::ManyPages))
    }

    /// Whether other registers may help.
    fn by_registers(&self) -> bool {
        self.many_pages()
            || matches!(self, TimingFailure::Run(NoMissError::Fault(_) | NoMissError::Signal(_)))
    }
}

/// The timing of a stretch.
pub(super) struct Timed {
    /// Copies in a row.
    pub(super) copies: usize,
    pub(super) outcome: NoMissOutcome,
    /// The time with registers in place of memory, if that was asked for and can be timed.
    pub(super) kept: Option<IterationTime>,
    /// How much longer a copy takes when each part begins after all instructions before it are done, if that was asked for.
    pub(super) resolution: Option<Picos>,
    /// Refused because it touches too many pages.
    pub(super) many_pages: bool,
}

/// The times of copies.
struct OfCopies {
    plain: IterationTime,
    kept: Option<IterationTime>,
    resolution: Option<Picos>,
}

impl Stretch<'_> {
    /// The time of one pass over this many copies in a row, or over as few as touch few enough pages. `start` gives
    /// the registers at its start; its argument stands for unknown ones. `None` where there is no time left.
    ///
    /// # Errors
    /// The process in which code is timed cannot be created here.
    pub(super) fn time(
        &self,
        start: impl Fn(u64) -> StartState,
        copies: &RangeInclusive<usize>,
    ) -> Result<Option<Timed>, NoMissError> {
        let mut last = None;
        // Where the addresses of the program are not available, any will do.
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
                    Ok(OfCopies { plain, kept, resolution }) => {
                        let outcome = NoMissOutcome::Measured(plain);
                        let (copies, many_pages) = (number, false);
                        return Ok(Some(Timed { copies, outcome, kept, resolution, many_pages }));
                    }
                    // Fewer copies touch fewer pages.
                    Err(why) if why.many_pages() && number > *copies.start() => {
                        number = (number / 2).max(*copies.start())
                    }
                    Err(TimingFailure::Run(error @ NoMissError::System(_))) => return Err(error),
                    Err(why) => break why,
                }
            };
            let again = why.by_registers();
            last = Some((number, why));
            if !again {
                break;
            }
        }
        let (copies, why) = last.unwrap_or((*copies.start(), TimingFailure::NoPlace));
        let many_pages = why.many_pages();
        let outcome = NoMissOutcome::Refused(why.to_string());
        Ok(Some(Timed { copies, outcome, kept: None, resolution: None, many_pages }))
    }

    fn time_copies(
        &self,
        copies: usize,
        state: &StartState,
        seen: &[Vec<RecordedRegister>],
    ) -> Result<OfCopies, TimingFailure> {
        let contents = self.contents(copies, state, seen);
        let shifts = self.shifts(copies, (state, &contents), seen)?;
        let of = (state, &contents, &shifts);
        let once = Added { shifts: 1, fences: 0 };
        let mut plain = self.ready(None, copies, of, once)?;
        let resolution = match self.resolution(&mut plain, copies, of) {
            Err(error @ TimingFailure::Run(NoMissError::System(_))) => return Err(error),
            other => other.ok().flatten(),
        };
        let turns = (self.turns, self.patient);
        if !shifts.is_empty() {
            let mut twice = self.ready(None, copies, of, Added { shifts: 2, ..once })?;
            let plain = between(&mut plain, &mut twice, turns, self.processor)?;
            return Ok(OfCopies { plain, kept: None, resolution });
        }
        let kept = self.kept.map(|kept| self.ready(Some(kept), copies, of, once));
        let mut kept = match kept.transpose() {
            Err(error @ TimingFailure::Run(NoMissError::System(_))) => return Err(error),
            other => other.ok().flatten(),
        };
        let (plain, kept) = timed(&mut plain, kept.as_mut(), turns, self.processor)?;
        Ok(OfCopies { plain, kept, resolution })
    }

    /// How much longer a copy takes with a fence in front of each part, less what a second fence costs there: that has nothing to
    /// wait for. Additions to registers are in all of them.
    fn resolution(
        &self,
        plain: &mut Ready,
        copies: usize,
        of: (&StartState, &FirstContents, &Shifts),
    ) -> Result<Option<Picos>, TimingFailure> {
        if !self.fenced {
            return Ok(None);
        }
        let fenced = |fences| self.ready(None, copies, of, Added { shifts: 1, fences });
        let (mut one, mut two) = (fenced(1)?, fenced(2)?);
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..TURNS_OF_PATH {
            for (times, ready) in times.iter_mut().zip([&mut *plain, &mut one, &mut two]) {
                times.push(ready.turn()?);
                ready.check()?;
            }
        }
        let [plain, one, two] = times.map(|turns| Turn::together(&turns));
        Ok(Some(Picos((one - plain - (two - one)).max(0.0).round() as u64)))
    }

    /// What brings registers to their recorded values where these copies do not do so by themselves: in one run each recorded register is
    /// noted, then set.
    fn shifts(
        &self,
        copies: usize,
        (state, contents): (&StartState, &FirstContents),
        seen: &[Vec<RecordedRegister>],
    ) -> Result<Shifts, TimingFailure> {
        let mut noted_at: HashMap<PathLocation, Vec<(usize, RecordedRegister)>> = HashMap::new();
        let parts = self.path.iter().cycle().take(2 * copies * self.path.len());
        let places = parts.zip(seen).enumerate().flat_map(|(number, (part, seen))| {
            let ran = seen.iter().filter(|one| one.at < part.executed);
            ran.map(move |one| ((number, one.at), *one))
        });
        let mut noted_registers = 0;
        for (number, (place, one)) in places.take(MOST_NOTES).enumerate() {
            noted_at.entry(place).or_default().push((number, one));
            noted_registers = number + 1;
        }
        if noted_registers == 0 {
            return Ok(Shifts::new());
        }
        let (mut process, arena) = self.process(state, contents)?;
        let at = TimingProcess::code_at(arena);
        let code = unroll(&self.path, at, 2 * copies, |place, to| {
            let mut bytes = Vec::new();
            for (number, one) in noted_at.get(&place).into_iter().flatten() {
                let (note, at) =
                    (TimingProcess::note_at(arena, *number), to.0 + bytes.len() as u64);
                // The whole arena is in reach.
                let noted = noted(one.register, one.value, note, RemoteAddr(at));
                bytes.extend(noted.unwrap_or_default());
            }
            bytes
        });
        let code = code.map_err(TimingFailure::Code)?.bytes;
        process.load(&code, state).map_err(TimingFailure::Run)?;
        process.time(0, 1, 1).map_err(TimingFailure::Run)?;
        let notes = process.notes(noted_registers).map_err(TimingFailure::Run)?;
        let mut shifts = Shifts::new();
        for (place, noted) in noted_at {
            for (number, one) in noted.iter().filter(|(number, one)| notes[*number] != one.value) {
                let shift = shifted(one.register, notes[*number], one.value);
                shifts.entry(place).or_default().push(shift.ok_or(TimingFailure::Far)?);
            }
        }
        Ok(shifts)
    }

    /// A process that holds these contents, and its arena. Each page that the code touches has a page of its own where all lines that it is
    /// known to touch fit into the cache.
    fn process(
        &self,
        state: &StartState,
        contents: &FirstContents,
    ) -> Result<(TimingProcess, RemoteAddr), TimingFailure> {
        let first = self.path.first().ok_or(TimingFailure::NoPlace)?;
        let arena = arena(first.block.start, state, contents).ok_or(TimingFailure::NoPlace)?;
        let pages = contents.lines.iter().map(|line| line / LINES_IN_PAGE as u64);
        let pages = pages.collect::<HashSet<u64>>().len();
        // To start a process takes as long as to time a path in it.
        if pages > MOST_PAGES {
            return Err(TimingFailure::Pages(pages));
        }
        let mut sets = [0; LINES_IN_PAGE];
        contents.lines.iter().for_each(|line| sets[*line as usize % LINES_IN_PAGE] += 1);
        let fits = sets.iter().all(|lines| *lines <= DATA_PAGES);
        let shared = if fits { MOST_PAGES } else { DATA_PAGES };
        let mut process = TimingProcess::start(arena, shared).map_err(TimingFailure::Run)?;
        process.hold(&contents.held).map_err(TimingFailure::Run)?;
        Ok((process, arena))
    }

    /// The copies, loaded in a process of their own.
    fn ready(
        &self,
        kept: Option<&Kept>,
        copies: usize,
        (state, contents, shifts): (&StartState, &FirstContents, &Shifts),
        added: Added,
    ) -> Result<Ready, TimingFailure> {
        // Addresses are those of the plain loop: with kept registers, other registers may hold them.
        let plain = registers(state);
        let state = &holding(state, kept, contents);
        let (mut process, arena) = self.process(state, contents)?;
        let begin = TimingProcess::code_at(arena);
        let written = |offset: usize, copies| {
            let at = RemoteAddr(begin.0 + offset as u64);
            let code = match (kept, self.path.first()) {
                (Some(kept), Some(first)) => kept.unroll(first, at, copies),
                _ => unroll(&self.path, at, copies, |place, _| {
                    let shifts = shifts.get(&place).into_iter().flatten();
                    let bytes = |one: &Shift| match added.shifts {
                        1 => one.once.clone(),
                        _ => one.twice.clone(),
                    };
                    let (_, instruction) = place;
                    let fences = if instruction == 0 { added.fences } else { 0 };
                    FENCE.repeat(fences).into_iter().chain(shifts.flat_map(bytes)).collect()
                }),
            };
            Ok(code.map_err(TimingFailure::Code)?.bytes)
        };
        // The copies once, then twice: what each copy adds to a register is in both.
        let mut code = written(0, copies)?;
        let long = code.len() + JUMP_BYTES;
        let twice = written(long, 2 * copies)?;
        code.push(0xe9); // jmp rel32 (SDM vol. 2, JMP)
        code.extend((twice.len() as u32).to_le_bytes());
        code.extend(twice);
        let FirstContents { held, overwritten, .. } = contents;
        let mut first = overwritten.clone();
        first.extend(self.carried.iter().flat_map(|one| one.held(&plain, held, EVERY_WORD)));
        code.extend(restored(&first));
        process.load(&code, state).map_err(TimingFailure::Run)?;
        Ready::new(process, (long, 0), copies, self.processor)
    }

    /// The content of memory with which these copies touch what the program touched.
    fn contents(
        &self,
        copies: usize,
        state: &StartState,
        seen: &[Vec<RecordedRegister>],
    ) -> FirstContents {
        let parts = self.path.iter().cycle().take(2 * copies * self.path.len());
        let seen = seen.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
        contents(parts.zip(seen), &registers(state), EVERY_WORD)
    }
}

/// Registers that are brought to their recorded values before an instruction.
type Shifts = HashMap<PathLocation, Vec<Shift>>;

/// The registers at the start, with those that replace memory.
fn holding(state: &StartState, kept: Option<&Kept>, contents: &FirstContents) -> StartState {
    let mut all = registers(state);
    if let Some(kept) = kept {
        kept.hold(&mut all, &contents.held, EVERY_WORD);
    }
    StartState { general: all.general, vectors: all.vectors, masks: all.masks }
}

/// The loaded code: where the copies run twice in a row, and where once.
struct Ready {
    process: TimingProcess,
    entries: (usize, usize),
    /// Passes per repetition.
    passes: u64,
    pages: usize,
    /// Picoseconds of one copy per tick.
    each: f64,
}

impl Ready {
    /// Maps the pages and warms everything up. The second pass shows how long a pass takes.
    fn new(
        mut process: TimingProcess,
        entries: (usize, usize),
        copies: usize,
        Processor { tick, aliases_miss, .. }: Processor,
    ) -> Result<Ready, TimingFailure> {
        process.time(entries.0, 1, 1).map_err(TimingFailure::Run)?;
        let pages = process.pages();
        if pages > MOST_PAGES || (aliases_miss && process.aliases() > 0) {
            return Err(TimingFailure::Pages(pages));
        }
        let pass = process.time(entries.0, 1, PER_TURN).map_err(TimingFailure::Run)?;
        let pass = pass.into_iter().min().unwrap_or(1).max(1) as f64 * tick;
        let passes = (REPETITION.seconds() / pass).clamp(1.0, 1000.0) as u64;
        let each = tick * 1e12 / (passes as f64 * copies as f64);
        Ok(Ready { process, entries, passes, pages, each })
    }

    fn turn(&mut self) -> Result<Turn, TimingFailure> {
        let (long, short) = self.entries;
        let mut timed =
            |entry| self.process.time(entry, self.passes, PER_TURN).map_err(TimingFailure::Run);
        let (mut long, mut short) = (timed(long)?, timed(short)?);
        long.sort_unstable();
        short.sort_unstable();
        Ok(Turn { long, short, each: self.each })
    }

    /// Refuses code whose addresses change from pass to pass: its time would be that of page faults.
    fn check(&self) -> Result<(), TimingFailure> {
        let pages = self.process.pages();
        if pages > self.pages { Err(TimingFailure::Pages(pages)) } else { Ok(()) }
    }
}

/// The ticks that both entries took, several times, fastest first.
struct Turn {
    long: Vec<u64>,
    short: Vec<u64>,
    /// Picoseconds of one copy per tick.
    each: f64,
}

impl Turn {
    /// Picoseconds of one copy, several times. The fast times of both entries are paired: if one was interrupted, the
    /// difference says nothing. On a busy machine many are.
    fn times(&self) -> impl Iterator<Item = Picos> + '_ {
        let pairs = self.long.iter().zip(&self.short).take(QUICK);
        let added = pairs.map(|(long, short)| long.saturating_sub(*short));
        added.map(|ticks| Picos((ticks as f64 * self.each).round() as u64))
    }

    /// Picoseconds of one copy, by the fastest quarter of several turns.
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

/// The time of one copy, and of one with kept registers. The latter is the former times the ratio of the two in the
/// same turns, because a busy machine disturbs both alike. The ratio of single repetitions is useless: a loop adds
/// little to the rest of a pass.
fn timed(
    plain: &mut Ready,
    mut kept: Option<&mut Ready>,
    (turns, patient): (usize, Nanos),
    processor: Processor,
) -> Result<(IterationTime, Option<IterationTime>), TimingFailure> {
    let (mut times, mut ratios) = (Vec::new(), Vec::new());
    let mut done = 0;
    while done < turns
        || (kept.is_some() && done < MOST_TURNS && is_open(&mut ratios))
        || (sys::process::monotonic() < patient && !is_precise(&times))
    {
        let (mut own, mut with_kept) = (Vec::new(), Vec::new());
        for _ in 0..COMPARED.min(turns) {
            own.push(plain.turn()?);
            match kept.as_mut().map(|kept| kept.turn()).transpose() {
                Ok(turn) => with_kept.extend(turn),
                Err(error @ TimingFailure::Run(NoMissError::System(_))) => return Err(error),
                Err(_) => kept = None,
            }
        }
        plain.check()?;
        done += own.len();
        ratios.extend(kept.as_ref().and_then(|_| ratio(&own, &with_kept)));
        times.extend(own.iter().flat_map(Turn::times));
        if processor.is_late() {
            break;
        }
    }
    let time = summary(times);
    let median = time.median.0 as f64;
    let with_kept = || ratios.iter().map(|ratio| Picos((ratio * median).round() as u64)).collect();
    let kept = kept.filter(|kept| kept.check().is_ok() && !ratios.is_empty());
    let kept = kept.map(|_| summary(with_kept()));
    // The repetitions of a turn are alike, so each ratio counts as all of them.
    let repetitions = |time: IterationTime| time.repetitions.saturating_mul(QUICK as u32);
    Ok((time, kept.map(|time| IterationTime { repetitions: repetitions(time), ..time })))
}

/// The time without the additions that bring registers to their values: between that with them, and that less what as many more cost.
/// For time is a maximum over sums, of chains and of what units have to do, so it is convex in their number.
fn between(
    once: &mut Ready,
    twice: &mut Ready,
    (turns, patient): (usize, Nanos),
    processor: Processor,
) -> Result<IterationTime, TimingFailure> {
    let (mut times, mut own, mut more) = (Vec::new(), Vec::new(), Vec::new());
    while own.len() < turns || (sys::process::monotonic() < patient && !is_precise(&times)) {
        let turn = once.turn()?;
        times.extend(turn.times());
        own.push(turn);
        more.push(twice.turn()?);
        once.check()?;
        twice.check()?;
        if processor.is_late() {
            break;
        }
    }
    let cost = (Turn::together(&more) - Turn::together(&own)).max(0.0).round() as u64;
    let time = summary(times);
    let less = |time: Picos, cost: u64| Picos(time.0.saturating_sub(cost));
    // More turns do not bring the ends together, so that they count as one.
    let repetitions = time.repetitions.min(QUICK as u32);
    let (median, low) = (less(time.median, cost / 2), less(time.low, cost));
    Ok(IterationTime { repetitions, median, low, high: time.high })
}

/// Whether the median is known: its error follows from the deciles, as that of a normal distribution (Kendall & Stuart, The Advanced
/// Theory of Statistics, 10.12). The repetitions of a turn are alike and count as one.
fn is_precise(times: &[Picos]) -> bool {
    let IterationTime { median, low, high, repetitions } = summary(times.to_vec());
    let sigma = high.0.saturating_sub(low.0) as f64 / (2.0 * 1.2816);
    let turns = f64::from(repetitions) / QUICK as f64;
    1.96 * 1.2533 * sigma <= PRECISE * median.0 as f64 * turns.sqrt()
}

/// The ratio of the second time to the first; `None` where the first is 0.
fn ratio(own: &[Turn], with_kept: &[Turn]) -> Option<f64> {
    let (own, with_kept) = (Turn::together(own), Turn::together(with_kept));
    (own > 0.0).then(|| with_kept.max(0.0) / own)
}

/// Whether the median says faster, but not all ratios do.
fn is_open(ratios: &mut [f64]) -> bool {
    ratios.sort_by(f64::total_cmp);
    let at = |share: usize| ratios.get(ratios.len() * share / 10).copied().unwrap_or_default();
    at(5) < 1.0 && at(9) >= 1.0
}

impl Processor {
    /// Measures the properties of this processor. `tick`: of the time-stamp counter, seconds.
    ///
    /// # Errors
    /// The process in which code is timed cannot be created here.
    pub(super) fn measure(tick: f64) -> Result<Processor, NoMissError> {
        let until = Nanos(u64::MAX);
        let processor = Processor { tick, cycle: None, aliases_miss: false, until };
        const NOT: [u8; 3] = [0x48, 0xf7, 0xd0]; // not rax: a cycle (Fog, Instruction tables)
        let cycle = processor.copies(&NOT, 256, TURNS)?;
        let apart = processor.copies(&loads(DATA_PAGES), COPIES, TOGETHER)?;
        let shared = processor.copies(&loads(SHARING), COPIES, TOGETHER)?;
        let aliases_miss = match (apart, shared) {
            (Some(apart), Some(shared)) => {
                // A pass that is interrupted makes the least of these too little.
                let each = |time: IterationTime, loads: usize| time.median.0 as f64 / loads as f64;
                each(shared, SHARING) > 2.0 * each(apart, DATA_PAGES)
            }
            _ => false,
        };
        Ok(Processor { cycle, aliases_miss, ..processor })
    }

    /// How many may time at once without taking each other's time: `most`, or one where CPUs share their units. A
    /// virtual machine may not say so.
    ///
    /// # Errors
    /// The process in which code is timed cannot be created here.
    pub(super) fn at_once(self, most: usize) -> Result<usize, NoMissError> {
        // add rcx, 1; add rdx, 1; add rbx, 1; add rsi, 1: none waits for another
        const ADD: [u8; 16] =
            [0x48, 0x83, 0xc1, 1, 0x48, 0x83, 0xc2, 1, 0x48, 0x83, 0xc3, 1, 0x48, 0x83, 0xc6, 1];
        let median = |turns| Ok(self.copies(&ADD, 64, turns)?.map(|time| time.median.0 as f64));
        if most < 2 {
            return Ok(1);
        }
        let alone = median(1)?;
        let together = std::thread::scope(|scope| {
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, || median(TOGETHER));
            let all: Vec<_> = (0..most).map_while(|number| spawn(number).ok()).collect();
            let join = |one: std::thread::ScopedJoinHandle<'_, _>| {
                one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            all.into_iter().map(join).collect::<Result<Vec<Option<f64>>, NoMissError>>()
        })?;
        let fits = |time: &Option<f64>| {
            time.zip(alone).is_some_and(|(time, alone)| time <= SHARED * alone)
        };
        Ok(if together.len() == most && together.iter().all(fits) { most } else { 1 })
    }

    /// The same properties with another end.
    pub(super) fn until(self, until: Nanos) -> Processor {
        Processor { until, ..self }
    }

    pub(super) fn is_late(&self) -> bool {
        sys::process::monotonic() >= self.until
    }

    /// The time of one copy of plain code, of this many in a row.
    fn copies(
        self,
        code: &[u8],
        copies: usize,
        turns: usize,
    ) -> Result<Option<IterationTime>, NoMissError> {
        let mut process = TimingProcess::start(RemoteAddr(ANYWHERE), DATA_PAGES)?;
        process.load(&code.repeat(2 * copies), &StartState::default())?;
        let ready = Ready::new(process, (0, code.len() * copies), copies, self);
        match ready.and_then(|mut ready| timed(&mut ready, None, (turns, Nanos(0)), self)) {
            Ok((time, _)) => Ok(Some(time)),
            Err(TimingFailure::Run(error @ NoMissError::System(_))) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// A load from the same line of each of this many pages.
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

impl std::fmt::Display for TimingFailure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TimingFailure::Code(why) => why.fmt(out),
            TimingFailure::Run(why) => why.fmt(out),
            TimingFailure::Pages(pages) => {
                write!(
                    out,
                    "a few iterations touch {pages} pages; translations would count as core"
                )
            }
            TimingFailure::Far => out.write_str("its registers are too far from what was recorded"),
            TimingFailure::NoPlace => out.write_str("no address in reach of its code is free"),
        }
    }
}

fn summary(mut times: Vec<Picos>) -> IterationTime {
    times.sort();
    let at = |share: usize| times.get(times.len() * share / 10).copied().unwrap_or_default();
    IterationTime { repetitions: times.len() as u32, median: at(5), low: at(1), high: at(9) }
}

/// An address for the arena. Operands relative to rip must reach their targets from there (2 GiB); neither they nor a
/// register, nor the content of memory, may point into the arena. Targets of such operands lie in the module of the
/// code, mostly within 200 MB.
fn arena(code: RemoteAddr, state: &StartState, contents: &FirstContents) -> Option<RemoteAddr> {
    const STEP: u64 = 256 << 20;
    const APART: u64 = 64 << 20;
    let code = code.0 & !0xfff;
    let below = (1..7).filter_map(|steps| code.checked_sub(steps * STEP));
    let above = (1..7).filter_map(|steps| code.checked_add(steps * STEP));
    let is_free = |at: &u64| {
        let held = contents.held.keys().map(|address| address.0);
        let touched = contents.lines.iter().map(|line| line * u64::from(LINE_BYTES));
        let mut used = state.general.into_iter().chain([EVERY_WORD]).chain(held).chain(touched);
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

    /// Passes of 1000 ticks to which copies add 20 and 10; three of four are interrupted.
    #[test]
    fn loops_are_compared_by_undisturbed_turns() {
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
