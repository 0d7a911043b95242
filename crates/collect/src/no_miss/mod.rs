//! The no-miss time of the hottest code, measured after the recording.
//!
//! What for: how long instructions take with all their data in the first-level cache (`sys::no_miss`). One minus that
//! time over native time is memory's share. First the hottest loops of one block are timed; then stretches of other
//! code, drawn at random ([`paths`]), which cover loops with calls and branches, and loops with a chain that mostly end
//! before a path does: there a processor works on the next run while the chain of the last one has not ended, which a
//! loop alone does not show (27 additions for each row of a sparse matrix took 0.4 of the time of an endless chain,
//! AMD Zen 4). Loops that load the same locations
//! in each iteration are timed a second time, with these in registers (`x86::keep`): the difference is the cost of
//! such loads. What not: the native time and the comparison (`analysis`).
//!
//! While the program runs, only a sample of the records is kept, without decoding ([`HotCode`]). Afterwards they show
//! which code runs most, and with which registers; clock samples have those that records leave out (factors, masks).
//!
//! Assumptions: important code appears in a sample of the records. One run of a loop represents all of its long runs,
//! because the distance of its data is made not to matter.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;

use base::{BlockId, BurstId, Nanos};
use facts::{
    Block, BranchReplay, BranchResolution, BurstFlavour, Fact, IterationTime, NoMissOutcome,
    NoMissTime, NoReloadTime, Record, Records, decode_records,
};
use sys::no_miss::NoMissError;
use tracee::random::Random;
use x86::{Kept, OperationTime, Reader};

use self::code::{Code, SampledStates};
use self::timing::{Processor, Stretch, Timed};

mod code;
mod outcomes;
mod path_times;
mod paths;
mod timing;

/// Most pieces of records that are kept, and the bytes kept of each. Bursts begin at random moments, so their
/// beginnings represent all records.
const KEPT_PIECES: usize = 64;
const KEPT_OF_PIECE: usize = 64 << 10;
/// Most bursts remembered: pieces of one burst follow each other soon, whatever other threads do.
const BEGUN: usize = 256;
/// Most loops that are measured.
const MOST_LOOPS: usize = 16;
/// Paths drawn from a piece.
const PATHS_IN_PIECE: usize = 4;
/// The part of the time in which branches are replayed, and the part in which loops are begun; the rest is for paths.
const BRANCHES_PART: f64 = 0.25;
const LOOPS_PART: f64 = 0.6;
/// Instructions that one repetition adds: more than fit into any reorder buffer (512 on Golden Cove). Twice as many
/// still fit into the cache of decoded instructions.
const INSTRUCTIONS: usize = 512;
/// Loads that one repetition adds where there are stores. Processors predict whether a load depends on a store by
/// bits of the instruction's address (Intel optimization manual, "Memory Disambiguation"). A loop has few loads; of
/// its many copies in a row, some alias and wait for unrelated stores. On the machine of bench/results, loops of 2
/// and of 7 loads took their usual time with up to 128 and 168 loads in a row, and up to three times as long from 192
/// and 224 on.
const LOADS: usize = 64;
/// A chain of this part of a loop's time limits it, or nearly so.
const CHAIN_PART: f64 = 0.5;
const LOAD_CYCLES: f64 = 4.0;
const FEWEST_ITERATIONS: usize = 1;
const MOST_ITERATIONS: usize = 128;

/// The measured times.
#[derive(Debug, Default)]
pub struct NoMissTimes {
    /// Loops and paths.
    pub core: Vec<NoMissTime>,
    /// Loops among these, with registers in place of what they load in each iteration.
    pub kept: Vec<NoReloadTime>,
    /// The cost of mispredicted branches, at the beginnings of bursts.
    pub branches: Vec<BranchReplay>,
    /// Number of loops and paths for which there was no time.
    pub left_out: usize,
}

/// A sample of the records of a recording, taken as they pass.
#[derive(Debug)]
pub struct HotCode {
    pieces: Vec<Records>,
    /// Pieces of registers at clock samples, the last ones.
    registers: VecDeque<Vec<u8>>,
    /// For each piece, whether its burst begins with it.
    begin: Vec<bool>,
    /// The bursts that began last.
    begun: VecDeque<BurstId>,
    seen: u64,
    random: Random,
}

impl Default for HotCode {
    fn default() -> HotCode {
        HotCode {
            pieces: Vec::new(),
            registers: VecDeque::new(),
            begin: Vec::new(),
            begun: VecDeque::new(),
            seen: 0,
            random: Random::new(0x5eed),
        }
    }
}

impl HotCode {
    /// Keeps a fact's records or drops them: each piece with the same probability (reservoir sampling, Vitter 1985,
    /// R).
    pub fn note(&mut self, fact: &Fact) {
        if let Fact::SampleRegisters(piece) = fact {
            self.registers.push_back(piece.bytes.clone());
            self.registers.drain(..self.registers.len().saturating_sub(KEPT_PIECES));
        }
        let Fact::Records(records) = fact else { return };
        self.seen += 1;
        let begins = !self.begun.contains(&records.burst);
        if begins {
            self.begun.push_back(records.burst);
            self.begun.drain(..self.begun.len().saturating_sub(BEGUN));
        }
        let place = match self.pieces.len() < KEPT_PIECES {
            true => self.pieces.len(),
            false => usize::try_from(self.random.number() % self.seen).unwrap_or(usize::MAX),
        };
        if place >= KEPT_PIECES {
            return;
        }
        // Decoding stops at a record that is cut off (`decode_records`).
        let kept = &records.bytes[..records.bytes.len().min(KEPT_OF_PIECE)];
        let piece = Records { burst: records.burst, bytes: kept.to_vec() };
        match self.pieces.get_mut(place).zip(self.begin.get_mut(place)) {
            Some(old) => (*old.0, *old.1) = (piece, begins),
            None => {
                self.pieces.push(piece);
                self.begin.push(begins);
            }
        }
    }

    /// The no-miss times of the hottest code among `blocks`, the hottest first. Work that has not begun within `time`
    /// is left out. `tick` is a tick of the time-stamp counter in seconds. `show` gets the progress, 0 to 1.
    ///
    /// # Errors
    /// The process in which code is timed cannot be created here.
    pub fn measure(
        &mut self,
        blocks: &[Block],
        tick: f64,
        time: Nanos,
        show: &mut dyn FnMut(f64),
    ) -> Result<NoMissTimes, NoMissError> {
        let begin = sys::process::monotonic();
        let mut no_miss_times = NoMissTimes::default();
        let sampled = SampledStates::decoded(self.registers.iter().map(Vec::as_slice));
        let hottest = self.hottest(blocks, &sampled);
        if self.pieces.is_empty() {
            return Ok(no_miss_times);
        }
        // What was before may have taken longer, on a busy machine. Each kind has its own part of the time nevertheless.
        let until = |from: f64, to: f64| {
            let part = |part: f64| Nanos((time.0 as f64 * part) as u64);
            (begin + part(to)).max(sys::process::monotonic() + part(to - from))
        };
        let mut shown = || {
            let elapsed = sys::process::monotonic() - begin;
            show((elapsed.seconds() / time.seconds().max(1e-9)).min(1.0));
        };
        let by_id: HashMap<BlockId, &Block> =
            blocks.iter().map(|block| (block.id, block)).collect();
        let all = self.pieces.iter().zip(&self.begin);
        let beginnings: Vec<&Records> =
            all.filter(|(_, begins)| **begins).map(|(piece, _)| piece).collect();
        let time = (tick, until(0.0, BRANCHES_PART));
        no_miss_times.branches = match outcomes::replay(&beginnings, &by_id, time) {
            Err(error @ NoMissError::System(_)) => return Err(error),
            replayed => replayed.unwrap_or_default(),
        };
        let processor = Processor::measure(tick)?;
        let end = until(BRANCHES_PART, LOOPS_PART);
        let processor = processor.until(end);
        let loops = hottest.len();
        for (at, one) in hottest.into_iter().enumerate() {
            shown();
            let patient = part_of(end, loops - at);
            match one.no_miss_times(processor, patient)? {
                Some((no_miss, _)) if one.overlaps(&no_miss, processor) => {}
                Some((no_miss, kept)) => {
                    no_miss_times.core.push(no_miss);
                    no_miss_times.kept.extend(kept);
                }
                None => no_miss_times.left_out += 1,
            }
        }
        let measured =
            |no_miss: &&NoMissTime| matches!(no_miss.outcome, NoMissOutcome::Measured(_));
        let loops: HashSet<BlockId> =
            no_miss_times.core.iter().filter(measured).map(|no_miss| no_miss.block).collect();
        // In random order: those for which there is no time are then a random choice.
        let mut paths = paths::draw(&self.pieces, &by_id, &loops, PATHS_IN_PIECE, &mut self.random);
        for end in (1..paths.len()).rev() {
            paths.swap(end, (self.random.number() % (end as u64 + 1)) as usize);
        }
        let until = || until(LOOPS_PART, 1.0);
        for no_miss in path_times::of(&paths, (&by_id, &sampled), (processor, &until), &mut shown)?
        {
            no_miss_times.left_out += usize::from(no_miss.is_none());
            no_miss_times.core.extend(no_miss);
        }
        Ok(no_miss_times)
    }

    /// Loops by the instructions that they executed in the sample, most first.
    fn hottest<'a>(&self, blocks: &'a [Block], sampled: &SampledStates) -> Vec<Loop<'a>> {
        let mut reader = Reader::new();
        let mut loops: HashMap<BlockId, Loop<'a>> = HashMap::new();
        for block in blocks.iter().filter(|block| block.flavour == BurstFlavour::Trace) {
            let one = Loop::read(block, &mut reader, sampled);
            loops.extend(one.map(|one| (block.id, one)));
        }
        for piece in &self.pieces {
            let mut last = None;
            // The tracer encoded the pieces. If one is damaged, the records before the damage are used.
            let _ = decode_records(&piece.bytes, |record| {
                let before = last.replace((record.block, record.way));
                if let Some(one) = loops.get_mut(&record.block) {
                    one.add(record, before);
                }
            });
            if let Some(one) = last.and_then(|(block, _)| loops.get_mut(&block)) {
                one.current.is_whole = false;
            }
        }
        let mut loops: Vec<Loop<'a>> = loops.into_values().filter(|one| one.work > 0).collect();
        loops.iter_mut().for_each(Loop::end_run);
        loops.sort_by_key(|one| (std::cmp::Reverse(one.work), one.id));
        loops.truncate(MOST_LOOPS);
        loops
    }
}

/// A block that branches to its own start.
struct Loop<'a> {
    id: BlockId,
    code: Code<'a>,
    /// Instructions executed in the sample, and those of them in short runs ([`paths::MOST`]).
    work: u64,
    short: u64,
    longest: Run,
    current: Run,
}

/// Consecutive iterations.
#[derive(Clone, Default)]
struct Run {
    iterations: u64,
    /// Its beginning and its end were recorded.
    is_whole: bool,
    /// For each iteration, as far as needed: the values of its record, or none after the first one of a record.
    values: Vec<Vec<u64>>,
}

impl<'a> Loop<'a> {
    fn read(block: &'a Block, reader: &mut Reader, sampled: &SampledStates) -> Option<Loop<'a>> {
        let code = Code::read(block, reader)?.with(sampled);
        x86::self_loop(&code.block, &x86::find_roots(&code.block))?;
        let (longest, current) = (Run::default(), Run::default());
        Some(Loop { id: block.id, code, work: 0, short: 0, longest, current })
    }

    /// `before`: the block of the record before, and the way out of it; way 0 of a loop leads back to its start.
    fn add(&mut self, record: &Record<'_>, before: Option<(BlockId, u32)>) {
        self.work = self.work.saturating_add(self.instructions(record.iterations));
        if before != Some((record.block, 0)) {
            self.end_run();
            self.current.is_whole = before.is_some();
        }
        self.current.add(record);
    }

    fn instructions(&self, iterations: u64) -> u64 {
        iterations.saturating_mul(self.code.block.instructions.len() as u64)
    }

    fn end_run(&mut self) {
        let ended = std::mem::take(&mut self.current);
        let instructions = self.instructions(ended.iterations);
        if ended.is_whole && instructions < paths::MOST as u64 {
            self.short = self.short.saturating_add(instructions);
        }
        if ended.iterations > self.longest.iterations {
            self.longest = ended;
        }
    }

    /// Its no-miss time, and the one with kept registers, if there is something to keep. An iteration takes at least
    /// a cycle, because of the branch back, which copies in a row do not have. `None` where there is no time left.
    fn no_miss_times(
        &self,
        processor: Processor,
        patient: Nanos,
    ) -> Result<Option<(NoMissTime, Option<NoReloadTime>)>, NoMissError> {
        let length = self.code.block.instructions.len();
        let loads = self.code.loads_if_it_stores().max(1);
        let most = (INSTRUCTIONS / length.max(1)).min(LOADS / loads);
        let most = most.clamp(FEWEST_ITERATIONS, MOST_ITERATIONS);
        let kept = x86::keep(&self.code.block);
        let timed = self.time(kept.as_ref(), &(FEWEST_ITERATIONS..=most), (processor, patient))?;
        let Some(timed) = timed else { return Ok(None) };
        let iterations = timed.copies;
        let block = self.id;
        let kept = timed.kept.map(|time| {
            let IterationTime { repetitions, median, low, high } = no_less(time, processor.cycle);
            NoReloadTime { block, repetitions, median, low, high }
        });
        let outcome = match timed.outcome {
            NoMissOutcome::Measured(time) => {
                NoMissOutcome::Measured(no_less(time, processor.cycle))
            }
            refused @ NoMissOutcome::Refused(_) => refused,
        };
        let iterations = iterations as u64;
        let resolution = timed.resolution.map(|time| BranchResolution { blocks: 1, time });
        Ok(Some((NoMissTime { block, path: None, iterations, outcome, resolution }, kept)))
    }

    /// Whether most of its runs end before a path does.
    fn ends_soon(&self) -> bool {
        2 * self.short > self.work
    }

    /// Most of its runs end before a path does, and a chain takes much of the time: then it is part of paths.
    fn overlaps(&self, no_miss: &NoMissTime, processor: Processor) -> bool {
        let NoMissOutcome::Measured(time) = &no_miss.outcome else { return false };
        let Some(cycle) = processor.cycle.filter(|_| self.ends_soon()) else { return false };
        let demand = x86::demand(&self.code.block, &usual_cycles, LOAD_CYCLES);
        demand.is_some_and(|demand| {
            demand.chain.0 * cycle.median.0 as f64 > CHAIN_PART * time.median.0 as f64
        })
    }

    fn time(
        &self,
        kept: Option<&Kept>,
        copies: &RangeInclusive<usize>,
        (processor, patient): (Processor, Nanos),
    ) -> Result<Option<Timed>, NoMissError> {
        let path = vec![self.code.part(self.code.block.instructions.len())];
        let seen = self.longest.values.iter().map(|values| self.code.seen(values)).collect();
        let values = self.longest.values.first().map_or(&[][..], Vec::as_slice);
        let start = |unknown| self.code.start(values, unknown);
        let carried = x86::carried(&self.code.block);
        let (carried, turns) = (Some(&carried), timing::TURNS);
        Stretch { path, seen, kept, carried, fenced: self.ends_soon(), turns, patient, processor }
            .time(start, copies)
    }
}

/// When one of so many may be over that share the time until `end`.
fn part_of(end: Nanos, shares: usize) -> Nanos {
    let now = sys::process::monotonic();
    now + Nanos((end - end.min(now)).0 / shares.max(1) as u64)
}

/// Cycles of operations that wait for each other, on a usual processor (Fog, Instruction tables): only to tell whether a
/// chain matters.
fn usual_cycles(name: &str, _: u32) -> Option<OperationTime> {
    let latency = match name {
        "instruction" | "simple" => 1.0,
        name if name.ends_with("divide") || name.ends_with("root") => 13.0,
        _ => 4.0,
    };
    Some(OperationTime { each: (0.25, 0.25), latency: (latency, latency) })
}

fn no_less(time: IterationTime, least: Option<IterationTime>) -> IterationTime {
    let Some(least) = least else { return time };
    IterationTime {
        repetitions: time.repetitions,
        median: time.median.max(least.median),
        low: time.low.max(least.low),
        high: time.high.max(least.high),
    }
}

impl Run {
    fn add(&mut self, record: &Record<'_>) {
        self.iterations = self.iterations.saturating_add(record.iterations);
        // As many as are timed in a row: twice what one repetition adds.
        let room = (2 * MOST_ITERATIONS).saturating_sub(self.values.len());
        if room > 0 {
            let further = usize::try_from(record.iterations).unwrap_or(room).clamp(1, room);
            self.values.push(record.values.to_vec());
            self.values.extend(std::iter::repeat_n(Vec::new(), further - 1));
        }
    }
}

#[cfg(test)]
mod tests;
