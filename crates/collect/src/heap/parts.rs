//! Parts of a site's blocks with one property in common: the site of their free, or the class of their lifetime.
//!
//! What for: few of the possible pairs of site and property occur, so a row is made at the first occurrence. What
//! not: the meaning of the property (`aggregate`).

use std::collections::HashMap;

use base::{Bytes, IndexMap};

use super::aggregate::SiteId;

/// Blocks of a site with the same property, since the rows were taken last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The site that allocated them.
    pub site: SiteId,
    /// Their common property.
    pub part: u32,
    /// How many.
    pub blocks: u64,
    /// Bytes in them.
    pub bytes: Bytes,
}

/// Places for recently used rows, a power of two.
const RECENT: usize = 4096;

/// All rows.
pub struct Parts {
    /// By a part of the key: rows that are found without a look-up in the table.
    recent: Vec<Part>,
    /// The other values of a row.
    rest: IndexMap<u64, (u64, u64)>,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts { recent: vec![NOTHING; RECENT], rest: HashMap::default() }
    }
}

const NOTHING: Part = Part { site: SiteId(0), part: 0, blocks: 0, bytes: Bytes(0) };

impl Parts {
    /// Adds a block of `site`.
    #[inline]
    pub fn add(&mut self, site: SiteId, part: u32, bytes: u64) {
        let key = u64::from(site.0) << 32 | u64::from(part);
        // Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4).
        let place =
            key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - RECENT.trailing_zeros());
        let row = &mut self.recent[place as usize];
        if row.site != site || row.part != part {
            let other = std::mem::replace(row, Part { site, part, ..NOTHING });
            put_away(&mut self.rest, other);
        }
        row.blocks += 1;
        row.bytes = Bytes(row.bytes.0.saturating_add(bytes));
    }

    /// The rows with blocks since the last call, by site and part.
    pub fn take(&mut self) -> Vec<Part> {
        for row in &mut self.recent {
            put_away(&mut self.rest, std::mem::replace(row, NOTHING));
        }
        let row = |(key, (blocks, bytes)): (u64, (u64, u64))| Part {
            site: SiteId((key >> 32) as u32),
            part: key as u32,
            blocks,
            bytes: Bytes(bytes),
        };
        let mut rows: Vec<Part> = self.rest.drain().map(row).collect();
        rows.sort_unstable_by_key(|row| (row.site, row.part));
        rows
    }
}

#[cold]
fn put_away(rest: &mut IndexMap<u64, (u64, u64)>, row: Part) {
    if row.blocks > 0 {
        let sum = rest.entry(u64::from(row.site.0) << 32 | u64::from(row.part)).or_default();
        *sum = (sum.0.saturating_add(row.blocks), sum.1.saturating_add(row.bytes.0));
    }
}
