//! Living blocks by key: a hash table in one array, made for one or two look-ups per block.
//!
//! What for: exact mode inserts every block here and removes it again. The standard library's table takes twice the
//! time: it keeps control bytes apart from the entries, and returns entries through memory. What not: what a block
//! is; several blocks with one key, of which the later displaces the earlier.
//!
//! How: open addressing with linear probing. A removal leaves no mark, because the entries after it move up (D.
//! Knuth, The Art of Computer Programming 3, 6.4, algorithms L and R). At most two thirds of the entries are in use.

use super::aggregate::SiteId;

/// A living block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Live {
    /// The site that allocated it.
    pub site: SiteId,
    /// The slot of the thread that allocated it.
    pub slot: u32,
    /// Bytes asked for.
    pub size: u64,
    /// The stamp of its allocation.
    pub born: u64,
    /// Number of its own record, plus 1; 0 for none.
    pub record: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    /// 0 while the entry is free.
    key: u64,
    block: Live,
}

const FREE: Entry =
    Entry { key: 0, block: Live { site: SiteId(0), slot: 0, size: 0, born: 0, record: 0 } };
const FEWEST: usize = 1024;

/// All living blocks.
pub struct Blocks {
    /// Their number is a power of two.
    entries: Vec<Entry>,
    used: usize,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { entries: vec![FREE; FEWEST], used: 0 }
    }
}

impl Blocks {
    /// Inserts a block; returns the one that had the key. Key 0 is stored as 1, because 0 marks a free entry.
    #[inline]
    pub fn insert(&mut self, key: u64, block: Live) -> Option<Live> {
        let key = key.max(1);
        let at = self.find(key);
        let entry = &mut self.entries[at];
        if entry.key == key {
            return Some(std::mem::replace(&mut entry.block, block));
        }
        *entry = Entry { key, block };
        self.used += 1;
        if self.used * 3 > self.entries.len() * 2 {
            self.grow();
        }
        None
    }

    /// Removes a block.
    #[inline]
    pub fn remove(&mut self, key: u64) -> Option<Live> {
        let key = key.max(1);
        let mut hole = self.find(key);
        let Entry { key: found, block } = self.entries[hole];
        if found != key {
            return None;
        }
        self.used -= 1;
        let mask = self.entries.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let next = self.entries[at].key;
            if next == 0 {
                break;
            }
            // It may move nearer to where its search begins, but not before that.
            let way = at.wrapping_sub(self.home(next)) & mask;
            if way >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = self.entries[at];
                hole = at;
            }
        }
        self.entries[hole].key = 0;
        Some(block)
    }

    /// The index of a key's entry, or of the free entry for it.
    #[inline]
    fn find(&self, key: u64) -> usize {
        let mask = self.entries.len() - 1;
        let mut at = self.home(key);
        // Ends, because there is always a free entry.
        while self.entries[at & mask].key != key && self.entries[at & mask].key != 0 {
            at += 1;
        }
        at & mask
    }

    /// Where the search for a key begins: both halves of a product, because one alone would put addresses at certain
    /// distances side by side.
    #[inline]
    fn home(&self, key: u64) -> usize {
        let product = u128::from(key) * 0x9E37_79B9_7F4A_7C15;
        (product >> 64 ^ product) as usize & (self.entries.len() - 1)
    }

    #[cold]
    fn grow(&mut self) {
        let twice = vec![FREE; self.entries.len() * 2];
        let before = std::mem::replace(&mut self.entries, twice);
        for entry in before.into_iter().filter(|entry| entry.key != 0) {
            let at = self.find(entry.key);
            self.entries[at] = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn block(size: u64) -> Live {
        Live { size, ..FREE.block }
    }

    /// Keys that collide in few entries, entered and taken out in an order without order.
    #[test]
    fn it_agrees_with_the_table_of_the_standard_library() {
        for distinct in [40, 700, 5000] {
            let (mut blocks, mut plain) = (Blocks::default(), HashMap::new());
            let mut random = 1_u64;
            for step in 0..200_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let key = 1 + random % distinct * 16;
                if random >> 40 & 1 == 0 {
                    assert_eq!(blocks.insert(key, block(step)), plain.insert(key, block(step)));
                } else {
                    assert_eq!(blocks.remove(key), plain.remove(&key));
                }
                assert_eq!(blocks.used, plain.len());
            }
            for (key, block) in plain {
                assert_eq!(blocks.remove(key), Some(block));
            }
            assert!(blocks.entries.iter().all(|entry| entry.key == 0));
        }
    }

    #[test]
    fn a_key_of_0_is_a_key() {
        let mut blocks = Blocks::default();
        assert_eq!(blocks.remove(0), None);
        assert_eq!(blocks.insert(0, block(7)), None);
        assert_eq!(blocks.remove(0), Some(block(7)));
        assert_eq!(blocks.remove(0), None);
    }
}
