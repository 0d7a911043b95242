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

#[cfg(test)]
mod tests {
    use super::*;

    /// Block 0 has no records, block 1 one value, block 2 is a loop that counts in word 1.
    /// Block, way, iterations, values.
    type Seen = (u32, u32, u64, Vec<u64>);

    fn drained(words: &[u64]) -> (Drained, Vec<Seen>) {
        let layout = |text: &str| Arc::new(text.parse::<RecordLayout>().expect("a layout"));
        let plain = RecordLayout { words: 2, ways: vec![1, 1], ..RecordLayout::default() };
        let counting = Iterations::Word(1);
        let looping = RecordLayout { words: 3, iterations: Some(counting), ..plain.clone() };
        let layouts = [layout("words 0"), Arc::new(plain), Arc::new(looping)];
        let layouts = (7..).map(BlockId).zip(layouts).collect();
        let layouts = Arc::new(RwLock::new(layouts));
        let drained = drain(&Raw { burst: BurstId(5), words: words.to_vec(), layouts });
        let mut records = Vec::new();
        for piece in &drained.records {
            assert_eq!(piece.burst, BurstId(5));
            facts::decode_records(&piece.bytes, |record| {
                let Record { block, way, iterations, values } = record;
                records.push((block.0, *way, *iterations, values.to_vec()));
            })
            .expect("what we encode can be decoded");
        }
        assert_eq!(drained.count, records.len() as u64);
        (drained, records)
    }

    #[test]
    fn whole_records_are_kept() {
        let (all, records) = drained(&[1, 0xabc, 1 << 32 | 1, 0xdef, 2, 1000, 4]);
        assert!(!all.damaged);
        assert_eq!(
            records,
            [(8, 0, 1, vec![0xabc]), (8, 1, 1, vec![0xdef]), (9, 0, 1000, vec![1000, 4])]
        );
        assert!(!drained(&[]).0.damaged);
    }

    /// The program may write over the words: what is in front of the first that is no record is kept.
    #[test]
    fn hostile_words_end_a_burst() {
        for words in [
            &[1, 5, 3, 5][..],           // an unknown block
            &[1, 5, 0],                  // one without records
            &[1, 5, 2, 1000],            // cut short
            &[1, 5, u64::MAX, u64::MAX], // anything
        ] {
            let (all, records) = drained(words);
            assert!(all.damaged, "{words:x?}");
            assert_eq!(records, [(8, 0, 1, vec![5])], "{words:x?}");
        }
    }

    #[test]
    fn many_records_make_many_pieces() {
        let words: Vec<u64> = (0..200_000u64).flat_map(|n| [1, n << 40 ^ n]).collect();
        let (all, records) = drained(&words);
        assert!(all.records.len() > 1, "{}", all.records.len());
        assert!(all.records.iter().all(|piece| piece.bytes.len() < PIECE_BYTES + 100));
        assert!(records.iter().zip(0..).all(|(one, n)| one.3 == [n << 40 ^ n]));
    }
}
