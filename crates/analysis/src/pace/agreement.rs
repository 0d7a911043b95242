//! The same pace by count windows: bursts in which translated code counted its blocks.
//!
//! What for: a second opinion that shares nothing with registers but the thread's CPU clock. What not: a correction. A
//! counted loop runs somewhat slower than the native one, the shorter its iterations the more.
//! Only windows whose blocks all lie in the loop count: in others nobody knows the loop's share of the time.

use std::collections::{BTreeMap, HashMap};

use base::{BlockId, BurstId};
use facts::{BurstFlavour, CodePiece, Recording, decode_records};

use super::code::{Code, LoopId};

/// Iterations of a loop and the CPU time of the windows in it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Windows {
    iterations: f64,
    seconds: f64,
    windows: u32,
}

impl Windows {
    /// In words, beside the pace.
    pub(super) fn beside(self, rate: f64) -> Option<String> {
        let counted = self.iterations / self.seconds;
        let windows = match self.windows {
            1 => "1 count window".to_owned(),
            many => format!("{many} count windows"),
        };
        (self.iterations > 0.0 && rate > 0.0)
            .then(|| format!("{windows} at {:.2} of the pace", counted / rate))
    }
}

/// The windows of each loop.
pub(super) fn windows(recording: &Recording, code: &Code) -> BTreeMap<LoopId, Windows> {
    let counted = recording.blocks.iter().filter(|block| block.flavour == BurstFlavour::Count);
    let blocks: HashMap<BlockId, &[CodePiece]> =
        counted.map(|block| (block.id, block.pieces.as_slice())).collect();
    let mut runs: HashMap<BurstId, HashMap<BlockId, u64>> = HashMap::new();
    for records in &recording.records {
        let counts = runs.entry(records.burst).or_default();
        // What does not decode is left out; `verify` tells.
        let _ = decode_records(&records.bytes, |record| {
            if blocks.contains_key(&record.block) {
                let count = counts.entry(record.block).or_default();
                *count = count.saturating_add(record.iterations);
            }
        });
    }
    let mut found: BTreeMap<LoopId, Windows> = BTreeMap::new();
    for burst in recording.bursts.iter().filter(|burst| burst.flavour == BurstFlavour::Count) {
        let ran = runs.get(&burst.id).into_iter().flatten();
        let ran: Vec<(&[CodePiece], u64)> =
            ran.filter_map(|(block, count)| Some((*blocks.get(block)?, *count))).collect();
        let time = burst.cpu_time.filter(|time| time.0 > 0 && !burst.records_lost);
        let (Some(time), Some((first, _))) = (time, ran.first()) else { continue };
        for one in around(code, first) {
            if !ran.iter().all(|(pieces, _)| around(code, pieces).contains(&one)) {
                continue;
            }
            let start = code.get(one).start;
            let begins = |piece: &CodePiece| {
                let inside = start.0.checked_sub(piece.offset.0);
                piece.module == code.functions[one.function].module
                    && inside.is_some_and(|inside| inside < piece.bytes.len() as u64)
            };
            let passes = ran.iter().filter(|(pieces, _)| pieces.iter().any(begins));
            let windows = found.entry(one).or_default();
            windows.iterations += passes.map(|(_, count)| *count as f64).sum::<f64>();
            windows.seconds += time.0 as f64 / 1e9;
            windows.windows += 1;
        }
    }
    found
}

fn around(code: &Code, pieces: &[CodePiece]) -> Vec<LoopId> {
    pieces.first().map_or(Vec::new(), |piece| code.around_byte(piece.module, piece.offset))
}
