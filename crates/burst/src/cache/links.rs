//! How one block leads to the next: direct links for known targets, the table for all others.
//!
//! What for: connects the exits of a new block, the exits that waited for it, and its table entry. What not: the
//! look-up that an indirect jump does (`x86::translate`).

use base::RemoteAddr;
use x86::translate::{Exit, area};

use super::{Cache, CachedExit};

impl Cache {
    pub(super) fn link(&mut self, number: u32, exits: Vec<Exit>) {
        for exit in exits {
            let index = self.exits.len() as u32;
            self.exits.push(CachedExit { block: number, exit });
            if !exit.linkable {
                continue;
            }
            match self.by_start.get(&exit.target) {
                Some(to) => self.connect(index, *to),
                None => self.waiting.entry(exit.target).or_default().push(index),
            }
        }
        let start = self.blocks[number as usize].start;
        for exit in self.waiting.remove(&start).unwrap_or_default() {
            self.connect(exit, number);
        }
    }

    fn connect(&mut self, exit: u32, to: u32) {
        self.point(exit, to);
        if let Some(to) = self.blocks.get_mut(to as usize) {
            to.linked.push(exit);
        }
    }

    fn point(&self, exit: u32, to: u32) {
        let (Some(from), Some(to)) = (self.exits.get(exit as usize), self.block(to)) else {
            return;
        };
        self.set_branch(from.block, from.exit.link, to.parts.address(to.entry));
    }

    /// Points a rel32 of a block to an address. One out of reach stays as it is, and leads to the tracer.
    fn set_branch(&self, block: u32, field: usize, target: RemoteAddr) {
        let Some((field_at, offset)) = self.field(block, field) else { return };
        let distance = target.0.wrapping_sub(field_at.0 + 4).cast_signed();
        let Ok(relative) = i32::try_from(distance) else { return };
        if offset.is_multiple_of(4) {
            self.space.memory().store_u32(offset, relative.cast_unsigned());
        } else {
            self.space.memory().write(offset, &relative.to_le_bytes());
        }
    }

    /// Where a field of a block is, in the program and in the shared memory.
    fn field(&self, block: u32, field: usize) -> Option<(RemoteAddr, usize)> {
        let block = self.block(block)?;
        let at = block.parts.address(field);
        let region = &self.space.regions()[block.region];
        Some((at, region.offset + (at.0 - region.at.0) as usize))
    }

    /// Adds a block to the table. Blocks of one entry form a chain, in whatever regions they are.
    pub(super) fn put_into_table(&mut self, number: u32) {
        let block = &self.blocks[number as usize];
        let (bucket, entry) = (bucket(block.start), block.table_entry().0);
        match self.chains.insert(bucket, number) {
            None => self.set_table(bucket, entry),
            Some(last) => {
                if let Some((_, offset)) = self.field(last, self.blocks[last as usize].chain) {
                    self.space.memory().store_u64(offset, entry);
                }
            }
        }
    }

    /// Has the table lead to the tracer.
    pub(super) fn empty_bucket(&self, bucket: u16) {
        if let Some(first) = self.space.regions().first() {
            self.set_table(bucket, first.at.0 + first.common.miss as u64);
        }
    }

    fn set_table(&self, bucket: u16, target: u64) {
        self.space.memory().store_u64(area::TABLE as usize + 8 * usize::from(bucket), target);
    }
}

/// The table entry of an address.
fn bucket(start: RemoteAddr) -> u16 {
    (start.0 & 0xffff) as u16
}
