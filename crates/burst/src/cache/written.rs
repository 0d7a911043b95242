//! The words of memory to which a trace stored.
//!
//! What for: some of them are odometers of the program (`odometers`). What not: all that it stored to: a program's odometers are
//! written again and again, so the beginning of a trace has them.

use std::collections::HashSet;

use super::Cache;
use crate::odometers::Word;

/// Records that are looked at: 30 to 60 us.
const RECORDS: usize = 3000;

impl Cache {
    /// Of the words of a trace's records, those to which its first ones stored.
    #[must_use]
    pub fn written(&self, words: &[u64]) -> HashSet<Word> {
        let mut written = HashSet::new();
        let mut rest = words;
        for _ in 0..RECORDS {
            let Some(header) = rest.first() else { break };
            let Some(block) = self.block(*header as u32) else { break };
            let length = block.layout.words;
            let Some((record, behind)) = rest.split_at_checked(length).filter(|_| length > 0)
            else {
                break;
            };
            let words = block
                .written
                .iter()
                .filter_map(|word| Some(Word { at: word.address(record)?, bytes: word.bytes }));
            written.extend(words);
            rest = behind;
        }
        written
    }
}
