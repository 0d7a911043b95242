//! Decodes the raw words of a burst and encodes them as the result stores them.
//!
//! What for: it runs apart from the tracer, at low priority and with a bounded backlog, so that neither the program
//! nor the tracer waits for it. What not: the meaning of the values.
//!
//! Assumption: the words come from memory that the program could write; every one of them is checked.

use std::sync::{Arc, RwLock};

use base::{BlockId, BurstId};
use facts::{Record, RecordEncoder, Records};
use x86::translate::{Iterations, RecordLayout};

use crate::cache::{Counts, iterations};

/// Encoded pieces are closed at this size, bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Ids and layouts of a cache's blocks, by the number in their records.
pub type Layouts = Arc<RwLock<Vec<(BlockId, Arc<RecordLayout>)>>>;

/// The raw output of one burst.
pub struct Raw {
    /// The burst.
    pub burst: BurstId,
    /// Its output.
    pub content: Content,
}

/// The output of a burst, by flavour.
pub enum Content {
    /// Records.
    Words {
        /// The words, from the first record on.
        words: Vec<u64>,
        /// What they mean.
        layouts: Layouts,
    },
    /// Counters.
    Counts(Counts),
}

/// The decoded output of a burst.
#[derive(Default)]
pub struct Drained {
    /// The records, encoded. None if any is damaged: whatever overwrote it may have changed others.
    pub records: Vec<Records>,
    /// How many.
    pub count: u64,
    /// The words end in the middle of something that is not a record, or a counter has an impossible value.
    pub damaged: bool,
}

/// What is known without decoding.
#[derive(Default)]
pub struct Tally {
    /// Records.
    pub records: u64,
    /// How often blocks ran, as far as each run left a record or was counted.
    pub runs: u64,
    /// Numbers of the blocks that have records.
    pub blocks: Vec<u32>,
}

impl Content {
    /// Counts without decoding; cheap enough for the tracer.
    #[must_use]
    pub fn tally(&self) -> Tally {
        match self {
            Content::Words { words, layouts } => {
                let mut ran = vec![false; layouts.read().map_or(0, |all| all.len())];
                let mut records = 0;
                walk(words, layouts, |number, _, _, _| {
                    records += 1;
                    if let Some(ran) = ran.get_mut(number) {
                        *ran = true;
                    }
                });
                let blocks = (0..).zip(ran).filter(|(_, ran)| *ran).map(|(number, _)| number);
                Tally { records, runs: records, blocks: blocks.collect() }
            }
            Content::Counts(counts) => Tally {
                records: counts.entered.len() as u64,
                runs: counts.entered.iter().map(|(_, times)| times).sum(),
                blocks: Vec::new(),
            },
        }
    }
}

/// Decodes and encodes.
#[must_use]
pub fn drain(raw: &Raw) -> Drained {
    let mut drained = Drained::default();
    let mut encoder = RecordEncoder::new();
    let mut take = |record: &Record<'_>| {
        encoder.push(record);
        drained.count += 1;
        if encoder.size() >= PIECE_BYTES {
            let bytes = std::mem::take(&mut encoder).finish();
            drained.records.push(Records { burst: raw.burst, bytes });
        }
    };
    let whole = match &raw.content {
        Content::Words { words, layouts } => walk(words, layouts, |_, block, layout, words| {
            let way = (words[0] >> 32) as u32;
            let iterations = count(layout, words);
            take(&Record { block, way, iterations, values: &words[1..] });
        }),
        Content::Counts(counts) => {
            for (block, iterations) in counts.entered.iter().copied() {
                take(&Record { block, way: 0, iterations, values: &[] });
            }
            !counts.damaged
        }
    };
    if encoder.size() > 0 {
        drained.records.push(Records { burst: raw.burst, bytes: encoder.finish() });
    }
    if !whole {
        drained.damaged = true;
        drained.records.clear();
    }
    drained
}

/// Calls back for each record: number and id of its block, its layout, its words (at least one). Returns false when
/// the words end in the middle of something that is not a record.
fn walk(
    words: &[u64],
    layouts: &Layouts,
    mut take: impl FnMut(usize, BlockId, &RecordLayout, &[u64]),
) -> bool {
    let Ok(layouts) = layouts.read() else { return false };
    let mut rest = words;
    while let Some(header) = rest.first() {
        let number = (header & 0xffff_ffff) as usize;
        let known = layouts.get(number).filter(|(_, layout)| layout.words > 0);
        let Some((id, layout)) = known else { return false };
        let Some((record, behind)) = rest.split_at_checked(layout.words) else { return false };
        take(number, *id, layout, record);
        rest = behind;
    }
    true
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
    type Row = (u32, u32, u64, Vec<u64>);

    fn drained(words: &[u64]) -> (Drained, Vec<Row>) {
        let layout = |text: &str| Arc::new(text.parse::<RecordLayout>().expect("a layout"));
        let plain = RecordLayout { words: 2, ways: vec![1, 1], ..RecordLayout::default() };
        let counting = Iterations::Word(1);
        let looping = RecordLayout { words: 3, iterations: Some(counting), ..plain.clone() };
        let layouts = [layout("words 0"), Arc::new(plain), Arc::new(looping)];
        let layouts = (7..).map(BlockId).zip(layouts).collect();
        let layouts = Arc::new(RwLock::new(layouts));
        let content = Content::Words { words: words.to_vec(), layouts };
        let tally = content.tally();
        let drained = drain(&Raw { burst: BurstId(5), content });
        assert_eq!((tally.records, tally.runs), (drained.count, drained.count));
        let mut records = Vec::new();
        for piece in &drained.records {
            assert_eq!(piece.burst, BurstId(5));
            facts::decode_records(&piece.bytes, |record| {
                let Record { block, way, iterations, values } = record;
                records.push((block.0, *way, *iterations, values.to_vec()));
            })
            .expect("what we encode can be decoded");
        }
        assert!(drained.damaged || drained.count == records.len() as u64);
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

    /// The program may write over the words: then none of them is believed.
    #[test]
    fn hostile_words_lose_a_burst() {
        for words in [
            &[1, 5, 3, 5][..],           // an unknown block
            &[1, 5, 0],                  // one without records
            &[1, 5, 2, 1000],            // cut short
            &[1, 5, u64::MAX, u64::MAX], // anything
        ] {
            let (all, records) = drained(words);
            assert!(all.damaged, "{words:x?}");
            assert_eq!((all.count, records), (1, vec![]), "{words:x?}");
        }
    }

    #[test]
    fn counts_are_records_of_so_many_iterations() {
        let entered = vec![(BlockId(3), 70), (BlockId(9), 1)];
        for damaged in [false, true] {
            let content = Content::Counts(Counts { entered: entered.clone(), damaged });
            let tally = content.tally();
            assert_eq!((tally.records, tally.runs, tally.blocks), (2, 71, vec![]));
            let drained = drain(&Raw { burst: BurstId(5), content });
            assert_eq!((drained.count, drained.damaged), (2, damaged));
            let mut found = Vec::new();
            for piece in &drained.records {
                let read = facts::decode_records(&piece.bytes, |record| {
                    found.push((record.block, record.iterations));
                    assert!(record.way == 0 && record.values.is_empty());
                });
                assert!(read.is_ok());
            }
            assert_eq!(found, if damaged { vec![] } else { entered.clone() });
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
