//! The core floor of the hottest loops, measured when the recording is over.
//!
//! What for: how long a loop's own instructions take with all their data in the first-level cache (`sys::floor`); that
//! over the loop's native time is the share that is not memory. What not: the native time, and the comparison
//! (`analysis`).
//!
//! While the program runs, only a sample of the records is kept, without a look into them ([`HotLoops`]). Afterwards they
//! tell which loops run most, and with which registers.
//!
//! Assumptions: the loops that matter turn up in a sample of the records; one start of a loop stands for all, because where
//! its data lies is made not to matter; loops of more than one block have no floor.

use std::collections::HashMap;

use base::{BlockId, Nanos, Picos, RemoteAddr};
use facts::{
    Block, BurstFlavour, CoreFloor, Fact, FloorOutcome, FloorTime, Record, decode_records,
};
use sys::floor::{EVERY_WORD, Floor, FloorError, StartState};
use tracee::random::Random;
use x86::translate::RecordLayout;
use x86::{CodeBytes, NoFloor, Reader, Source, read_pieces, unroll};

/// Pieces of records that are kept; each has at most 256 KiB (`burst::drain`).
const KEPT_PIECES: usize = 16;
/// Most loops that are measured.
const MOST_LOOPS: usize = 16;
/// No loop is begun when this much time is over.
const TIME: Nanos = Nanos(1_000_000_000);

/// Instructions in a row that one repetition adds: more than wait in any processor's reorder buffer (512 on Golden Cove),
/// fewer, twice, than its cache of decoded instructions holds.
const INSTRUCTIONS: usize = 512;
const ITERATIONS: std::ops::RangeInclusive<usize> = 2..=128;
/// Translations that every first-level TLB for data holds, less those of the stub (64 entries, 48 on some).
const MOST_PAGES: usize = 40;

/// A distance that any loop may have.
const STEP: u64 = 8;
/// Length of a repetition: long against a step of the clock, short against the time between interrupts.
const REPETITION: Nanos = Nanos(20_000);
/// Repetitions, in turns of this many long ones and short ones.
const TURNS: usize = 8;
const PER_TURN: usize = 16;

/// A sample of the records of a recording, taken as they pass.
#[derive(Debug)]
pub struct HotLoops {
    pieces: Vec<Vec<u8>>,
    seen: u64,
    random: Random,
}

impl Default for HotLoops {
    fn default() -> HotLoops {
        HotLoops { pieces: Vec::new(), seen: 0, random: Random::new(0x5eed) }
    }
}

impl HotLoops {
    /// Keeps a fact's records, or does not: each piece with the same probability (reservoir sampling, Vitter 1985, R).
    pub fn note(&mut self, fact: &Fact) {
        let Fact::Records(records) = fact else { return };
        self.seen += 1;
        if self.pieces.len() < KEPT_PIECES {
            self.pieces.push(records.bytes.clone());
            return;
        }
        let place = usize::try_from(self.random.number() % self.seen).unwrap_or(usize::MAX);
        if let Some(piece) = self.pieces.get_mut(place) {
            piece.clone_from(&records.bytes);
        }
    }

    /// The floors of the hottest loops among `blocks`. `tick` is a tick of the time-stamp counter in seconds; `show` is
    /// told how far it is, 0 to 1.
    ///
    /// # Errors
    /// Such a process is not to be had here.
    pub fn measure(
        &self,
        blocks: &[Block],
        tick: f64,
        show: &mut dyn FnMut(f64),
    ) -> Result<Vec<CoreFloor>, FloorError> {
        let begin = sys::process::monotonic();
        let mut floors = Vec::new();
        for one in self.hottest(blocks) {
            let elapsed = sys::process::monotonic() - begin;
            if elapsed > TIME {
                break;
            }
            show(elapsed.seconds() / TIME.seconds());
            floors.push(one.floor(tick)?);
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
            let _ = decode_records(piece, |record| {
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
    code: Vec<CodeBytes<'a>>,
    block: x86::Block,
    layout: RecordLayout,
    /// Instructions executed in the sample.
    work: u64,
    /// Values of the record with the most iterations, and their number.
    values: Vec<u64>,
    iterations: u64,
}

/// Why there is no floor for a loop.
enum Why {
    Code(NoFloor),
    Run(FloorError),
    Pages(usize),
    NoPlace,
}

impl<'a> Loop<'a> {
    fn read(block: &'a Block, reader: &mut Reader) -> Option<Loop<'a>> {
        let piece = |piece: &'a facts::CodePiece| CodeBytes {
            start: piece.address,
            bytes: piece.bytes.as_slice(),
        };
        let code: Vec<CodeBytes<'a>> = block.pieces.iter().map(piece).collect();
        let decoded = read_pieces(reader, &code)?;
        x86::self_loop(&decoded, &x86::find_roots(&decoded))?;
        let layout = block.record.parse().ok()?;
        let (values, iterations) = (Vec::new(), 0);
        Some(Loop { id: block.id, code, block: decoded, layout, work: 0, values, iterations })
    }

    fn add(&mut self, record: &Record<'_>) {
        let instructions = self.block.instructions.len() as u64;
        self.work = self.work.saturating_add(record.iterations.saturating_mul(instructions));
        if record.iterations > self.iterations {
            self.iterations = record.iterations;
            self.values.clear();
            self.values.extend_from_slice(record.values);
        }
    }

    /// The registers at its start: `unknown` where no record holds one. What comes up later in an iteration follows from
    /// memory.
    fn start(&self, unknown: u64) -> StartState {
        let mut state = StartState { general: [unknown; 16], ..StartState::default() };
        for value in self.layout.values.iter().filter(|value| value.root.at == 0) {
            // Word 0 is the header, which a record here does not have.
            let first = value.word.saturating_sub(1);
            let Some(words) = self.values.get(first..first + value.words) else { continue };
            match value.root.source {
                Source::General(register) => state.general[register.number()] = words[0],
                Source::Vector(register) => {
                    let place = &mut state.vectors[register.number()];
                    for (bytes, word) in place.chunks_exact_mut(8).zip(words) {
                        bytes.copy_from_slice(&word.to_le_bytes());
                    }
                }
                Source::Mask(register) => state.masks[register.number()] = words[0],
                Source::FsBase | Source::GsBase | Source::Mmx(_) | Source::Direction => {}
            }
        }
        state
    }

    fn floor(&self, tick: f64) -> Result<CoreFloor, FloorError> {
        let most = INSTRUCTIONS / self.block.instructions.len().max(1);
        let mut iterations = most.clamp(*ITERATIONS.start(), *ITERATIONS.end());
        let mut unknown = EVERY_WORD;
        let outcome = loop {
            match self.time(iterations, unknown, tick) {
                Ok(time) => break FloorOutcome::Measured(time),
                // Fewer iterations touch fewer pages.
                Err(Why::Pages(_) | Why::Run(FloorError::ManyPages))
                    if iterations > *ITERATIONS.start() =>
                {
                    iterations /= 2;
                }
                // A register that no record holds can be a pointer, or the distance from one iteration to the next.
                Err(Why::Run(FloorError::Fault(_))) if unknown == EVERY_WORD => unknown = STEP,
                Err(Why::Run(error @ FloorError::System(_))) => return Err(error),
                Err(why) => break FloorOutcome::Refused(why.to_string()),
            }
        };
        Ok(CoreFloor { block: self.id, iterations: iterations as u64, outcome })
    }

    fn time(&self, iterations: usize, unknown: u64, tick: f64) -> Result<FloorTime, Why> {
        let state = self.start(unknown);
        let arena = arena(self.block.start, &state).ok_or(Why::NoPlace)?;
        let code = unroll(&self.block, &self.code[..], Floor::code_at(arena), 2 * iterations);
        let code = code.map_err(Why::Code)?;
        let mut floor = Floor::start(arena).map_err(Why::Run)?;
        floor.load(&code.bytes, &state).map_err(Why::Run)?;
        // Maps the pages and warms everything up; the second time tells how long a pass takes.
        floor.time(0, 1, 1).map_err(Why::Run)?;
        if floor.pages() > MOST_PAGES {
            return Err(Why::Pages(floor.pages()));
        }
        let pass = floor.time(0, 1, PER_TURN).map_err(Why::Run)?;
        let pass = pass.into_iter().min().unwrap_or(1).max(1) as f64 * tick;
        let passes = (REPETITION.seconds() / pass).clamp(1.0, 1000.0) as u64;
        let half = code.bytes.len() / 2;
        let mut times = Vec::new();
        for _ in 0..TURNS {
            let long = floor.time(0, passes, PER_TURN).map_err(Why::Run)?;
            let short = floor.time(half, passes, PER_TURN).map_err(Why::Run)?;
            let added = long.iter().zip(&short).map(|(long, short)| long.saturating_sub(*short));
            let each = tick * 1e12 / (passes as f64 * iterations as f64);
            times.extend(added.map(|ticks| Picos((ticks as f64 * each).round() as u64)));
        }
        Ok(summary(times))
    }
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
/// register may lead into it. Operands relative to rip name the module of the code, mostly less than 200 MB long.
fn arena(code: RemoteAddr, state: &StartState) -> Option<RemoteAddr> {
    const STEP: u64 = 256 << 20;
    const APART: u64 = 64 << 20;
    let code = code.0 & !0xfff;
    let below = (1..7).filter_map(|steps| code.checked_sub(steps * STEP));
    let above = (1..7).filter_map(|steps| code.checked_add(steps * STEP));
    let is_free = |at: &u64| {
        let used = state.general.iter().chain(&[EVERY_WORD]);
        *at >= 1 << 20 && used.into_iter().all(|used| used.abs_diff(*at) > APART)
    };
    below.chain(above).find(is_free).map(RemoteAddr)
}

#[cfg(test)]
mod tests;
