//! The core floor of the hottest code, measured when the recording is over.
//!
//! What for: how long instructions take with all their data in the first-level cache (`sys::floor`); that over their native
//! time is the share that is not memory. First the hottest loops of one block; then stretches of what else ran, drawn by
//! lot ([`paths`]), for loops with calls and branches in them. What not: the native time, and the comparison
//! (`analysis`).
//!
//! While the program runs, only a sample of the records is kept, without a look into them ([`HotCode`]). Afterwards they
//! tell what runs most, and with which registers.
//!
//! Assumptions: what matters turns up in a sample of the records; one start of a loop stands for all, because where its
//! data lies is made not to matter.

use std::collections::{HashMap, HashSet};

use base::{BlockId, Nanos};
use facts::{
    Block, BurstFlavour, CodePath, CoreFloor, Fact, FloorOutcome, Record, Records, decode_records,
};
use sys::floor::FloorError;
use tracee::random::Random;
use x86::Reader;

use self::code::Code;
use self::paths::Path;
use self::timing::Stretch;

mod code;
mod paths;
mod timing;

/// Pieces of records that are kept; each has at most 256 KiB (`burst::drain`).
const KEPT_PIECES: usize = 16;
/// Most loops that are measured.
const MOST_LOOPS: usize = 16;
/// Paths drawn from a piece.
const PATHS_IN_PIECE: usize = 2;
/// No loop is begun when this much time is over, and no path after twice that.
const TIME: Nanos = Nanos(1_000_000_000);
/// Instructions in a row that one repetition adds: more than wait in any processor's reorder buffer (512 on Golden Cove),
/// fewer, twice, than its cache of decoded instructions holds.
const INSTRUCTIONS: usize = 512;
const FEWEST_ITERATIONS: usize = 2;
const MOST_ITERATIONS: usize = 128;

/// A sample of the records of a recording, taken as they pass.
#[derive(Debug)]
pub struct HotCode {
    pieces: Vec<Records>,
    seen: u64,
    random: Random,
}

impl Default for HotCode {
    fn default() -> HotCode {
        HotCode { pieces: Vec::new(), seen: 0, random: Random::new(0x5eed) }
    }
}

impl HotCode {
    /// Keeps a fact's records, or does not: each piece with the same probability (reservoir sampling, Vitter 1985, R).
    pub fn note(&mut self, fact: &Fact) {
        let Fact::Records(records) = fact else { return };
        self.seen += 1;
        if self.pieces.len() < KEPT_PIECES {
            self.pieces.push(records.clone());
            return;
        }
        let place = usize::try_from(self.random.number() % self.seen).unwrap_or(usize::MAX);
        if let Some(piece) = self.pieces.get_mut(place) {
            piece.clone_from(records);
        }
    }

    /// The floors of the hottest code among `blocks`. `tick` is a tick of the time-stamp counter in seconds; `show` is
    /// told how far it is, 0 to 1.
    ///
    /// # Errors
    /// Such a process is not to be had here.
    pub fn measure(
        &mut self,
        blocks: &[Block],
        tick: f64,
        show: &mut dyn FnMut(f64),
    ) -> Result<Vec<CoreFloor>, FloorError> {
        let begin = sys::process::monotonic();
        let mut spent = || {
            let elapsed = sys::process::monotonic() - begin;
            show((elapsed.seconds() / (2.0 * TIME.seconds())).min(1.0));
            elapsed
        };
        let mut floors = Vec::new();
        for one in self.hottest(blocks) {
            if spent() > TIME {
                break;
            }
            floors.push(one.floor(tick)?);
        }
        let measured = |floor: &&CoreFloor| matches!(floor.outcome, FloorOutcome::Measured(_));
        let loops: HashSet<BlockId> =
            floors.iter().filter(measured).map(|floor| floor.block).collect();
        let by_id: HashMap<BlockId, &Block> =
            blocks.iter().map(|block| (block.id, block)).collect();
        for path in paths::draw(&self.pieces, &by_id, &loops, PATHS_IN_PIECE, &mut self.random) {
            if spent() > Nanos(2 * TIME.0) {
                break;
            }
            floors.extend(path.floor(&by_id, tick)?);
        }
        Ok(floors)
    }

    /// Loops by the instructions that they executed in the sample, most first.
    fn hottest<'a>(&self, blocks: &'a [Block]) -> Vec<Loop<'a>> {
        let mut reader = Reader::new();
        let mut loops: HashMap<BlockId, Loop<'a>> = HashMap::new();
        for block in blocks.iter().filter(|block| block.flavour == BurstFlavour::Trace) {
            loops.extend(Loop::read(block, &mut reader).map(|one| (block.id, one)));
        }
        for piece in &self.pieces {
            // The pieces are what the tracer encoded; what one of them holds in front of an error is used.
            let _ = decode_records(&piece.bytes, |record| {
                if let Some(one) = loops.get_mut(&record.block) {
                    one.add(record);
                }
            });
        }
        let mut loops: Vec<Loop<'a>> = loops.into_values().filter(|one| one.work > 0).collect();
        loops.sort_by_key(|one| (std::cmp::Reverse(one.work), one.id));
        loops.truncate(MOST_LOOPS);
        loops
    }
}

/// A block that leads back to its start.
struct Loop<'a> {
    id: BlockId,
    code: Code<'a>,
    /// Instructions executed in the sample.
    work: u64,
    /// Values of the record with the most iterations, and their number.
    values: Vec<u64>,
    iterations: u64,
}

impl<'a> Loop<'a> {
    fn read(block: &'a Block, reader: &mut Reader) -> Option<Loop<'a>> {
        let code = Code::read(block, reader)?;
        x86::self_loop(&code.block, &x86::find_roots(&code.block))?;
        let (values, iterations) = (Vec::new(), 0);
        Some(Loop { id: block.id, code, work: 0, values, iterations })
    }

    fn add(&mut self, record: &Record<'_>) {
        let instructions = self.code.block.instructions.len() as u64;
        self.work = self.work.saturating_add(record.iterations.saturating_mul(instructions));
        if record.iterations > self.iterations {
            self.iterations = record.iterations;
            self.values.clear();
            self.values.extend_from_slice(record.values);
        }
    }

    fn floor(&self, tick: f64) -> Result<CoreFloor, FloorError> {
        let length = self.code.block.instructions.len();
        let stretch = Stretch { path: vec![self.code.part(length)], tick };
        let most = (INSTRUCTIONS / length.max(1)).clamp(FEWEST_ITERATIONS, MOST_ITERATIONS);
        let start = |unknown| self.code.start(&self.values, unknown);
        let timed = stretch.time(start, &(FEWEST_ITERATIONS..=most))?;
        let (iterations, outcome) = (timed.copies as u64, timed.outcome);
        Ok(CoreFloor { block: self.id, path: None, iterations, outcome })
    }
}

impl Path {
    /// `None` when the code of one of its blocks cannot be read.
    fn floor(
        &self,
        blocks: &HashMap<BlockId, &Block>,
        tick: f64,
    ) -> Result<Option<CoreFloor>, FloorError> {
        let codes = self.codes(blocks);
        let first = self.steps.first().and_then(|first| Some((first.block, codes.as_ref()?)));
        let Some((block, codes)) = first else { return Ok(None) };
        let start = |unknown| codes[&block].start(&self.values, unknown);
        let mut steps = self.steps.as_slice();
        loop {
            let path = steps.iter().map(|step| codes[&step.block].part(step.executed)).collect();
            let stretch = Stretch { path, tick };
            let instructions = paths::instructions(steps);
            let most = (INSTRUCTIONS / instructions.max(1)).clamp(1, MOST_ITERATIONS);
            let timed = stretch.time(start, &(1..=most))?;
            // The first half touches fewer pages.
            if timed.many_pages && steps.len() > 1 {
                steps = &steps[..steps.len() / 2];
                continue;
            }
            let path = CodePath { burst: self.burst, instructions: instructions as u64 };
            let (iterations, outcome) = (timed.copies as u64, timed.outcome);
            return Ok(Some(CoreFloor { block, path: Some(path), iterations, outcome }));
        }
    }
}

#[cfg(test)]
mod tests;
