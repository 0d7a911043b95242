//! What of a site's blocks had one thing in common: who freed them, or how long they lived.
//!
//! What for: few of the many sites and things that there are meet, so a row is made when they first do.
//! What not: what the second number means; that is `aggregate`'s.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use base::Bytes;

use super::aggregate::SiteId;
use crate::stacks::NodeHasher;

/// Blocks of a site that have `part` in common, since the rows were taken last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Who asked.
    pub site: SiteId,
    /// What they have in common.
    pub part: u32,
    /// How many.
    pub blocks: u64,
    /// Bytes in them.
    pub bytes: Bytes,
}

/// Rows that were used a moment ago and are found without a look into the table: a power of two.
const RECENT: usize = 4096;

/// All rows.
pub struct Parts {
    rows: Vec<Part>,
    row_of: HashMap<u64, u32, BuildHasherDefault<NodeHasher>>,
    /// By a part of the key: key and row.
    recent: Vec<(u64, u32)>,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts { rows: Vec::new(), row_of: HashMap::default(), recent: vec![(NO_KEY, 0); RECENT] }
    }
}

/// No site has this number: there would be no room for so many.
const NO_KEY: u64 = u64::MAX;

impl Parts {
    /// Adds a block of `site`.
    #[inline]
    pub fn add(&mut self, site: SiteId, part: u32, bytes: u64) {
        let key = u64::from(site.0) << 32 | u64::from(part);
        // Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4).
        let place =
            key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - RECENT.trailing_zeros());
        let recent = &mut self.recent[place as usize];
        if recent.0 != key {
            let next = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
            let row = *self.row_of.entry(key).or_insert(next);
            if row == next {
                self.rows.push(Part { site, part, blocks: 0, bytes: Bytes(0) });
            }
            *recent = (key, row);
        }
        if let Some(row) = self.rows.get_mut(recent.1 as usize) {
            row.blocks += 1;
            row.bytes = Bytes(row.bytes.0.saturating_add(bytes));
        }
    }

    /// Rows with blocks since the last time.
    pub fn take(&mut self) -> Vec<Part> {
        let mut taken = Vec::new();
        for row in self.rows.iter_mut().filter(|row| row.blocks > 0) {
            taken.push(*row);
            (row.blocks, row.bytes) = (0, Bytes(0));
        }
        taken
    }
}
