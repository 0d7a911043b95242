//! Records as a thread left them -> records as the result keeps them.
//!
//! What for: runs apart from the tracer, at low priority and with a bounded backlog, so that neither the program nor the
//! tracer waits for it. What not: what the values mean.
//!
//! Assumption: the words come from memory that the program could write; every one of them is checked.

use std::sync::{Arc, RwLock};

use base::{BlockId, BurstId};
use facts::{Record, RecordEncoder, Records};
use x86::translate::{Iterations, RecordLayout};

use crate::run::iterations;

/// Encoded pieces are closed at this size, bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Ids and layouts of a cache's blocks, by the number in their records.
pub type Layouts = Arc<RwLock<Vec<(BlockId, Arc<RecordLayout>)>>>;

/// The words of one burst.
pub struct Raw {
    /// The burst.
    pub burst: BurstId,
    /// The words, from the first record on.
    pub words: Vec<u64>,
    /// What they mean.
    pub layouts: Layouts,
}

/// What was in them.
#[derive(Default)]
pub struct Drained {
    /// The records, encoded.
    pub records: Vec<Records>,
    /// How many.
    pub count: u64,
    /// The words end in the middle of something that is no record.
    pub damaged: bool,
}

/// How many records the words hold.
#[must_use]
pub fn count_records(raw: &Raw) -> u64 {
    let Ok(layouts) = raw.layouts.read() else { return 0 };
    let mut at = 0;
    let mut count = 0;
    while let Some(header) = raw.words.get(at) {
        let known = layouts.get((header & 0xffff_ffff) as usize);
        let Some((_, layout)) = known.filter(|(_, layout)| layout.words > 0) else { break };
        at += layout.words;
        count += 1;
    }
    count
}

/// Decodes and encodes.
#[must_use]
pub fn drain(raw: &Raw) -> Drained {
    let mut drained = Drained::default();
    let Ok(layouts) = raw.layouts.read() else { return drained };
    let mut encoder = RecordEncoder::new();
    let mut rest = raw.words.as_slice();
    while let Some(header) = rest.first() {
        let number = (header & 0xffff_ffff) as usize;
        let known = layouts.get(number).filter(|(_, layout)| layout.words > 0);
        let Some((id, layout)) = known else {
            drained.damaged = true;
            break;
        };
        let Some((words, behind)) = rest.split_at_checked(layout.words) else {
            drained.damaged = true;
            break;
        };
        rest = behind;
        let way = (header >> 32) as u32;
        let iterations = count(layout, words);
        encoder.push(&Record { block: *id, way, iterations, values: &words[1..] });
        drained.count += 1;
        if encoder.size() >= PIECE_BYTES {
            let bytes = std::mem::take(&mut encoder).finish();
            drained.records.push(Records { burst: raw.burst, bytes });
        }
    }
    if encoder.size() > 0 {
        drained.records.push(Records { burst: raw.burst, bytes: encoder.finish() });
    }
    drained
}

fn count(layout: &RecordLayout, words: &[u64]) -> u64 {
    let word = |at: &usize| words.get(*at).copied().unwrap_or(0);
    match &layout.iterations {
        None => 1,
        Some(Iterations::Word(at)) => word(at),
        Some(Iterations::Counter { start, end, stride, narrow, .. }) => {
            iterations(word(start), word(end), *stride, *narrow)
        }
    }
}
