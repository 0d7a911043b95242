//! Every burst's records in order.
//!
//! What for: one pass over all records in bounded memory, for whoever wants to see what happened. What not: sums.
//! Assumption: a record that does not fit its block, or names one that is not known, is left out and counted.

use std::collections::HashMap;

use base::{BlockId, BurstId};
use facts::{Burst, BurstFlavour, Record, Recording, decode_records};

use super::address::Touch;
use super::code::{TracedAccess, TracedBlock, TracedCode};

/// Who sees the records go by.
pub(crate) trait Observer {
    /// A burst begins.
    fn begin(&mut self, burst: &Burst);
    /// A block was executed, or a loop of one block.
    fn execute(&mut self, block: &TracedBlock, execution: &Execution<'_>);
    /// The burst is over.
    fn end(&mut self, burst: &Burst);
}

/// One execution of a block, or one run of a loop.
pub(crate) struct Execution<'a> {
    record: &'a Record<'a>,
    fs_base: u64,
    /// Instructions executed in the last iteration.
    executed: usize,
}

impl Execution<'_> {
    /// Which block.
    pub(crate) fn block(&self) -> BlockId {
        self.record.block
    }

    /// How often the block was entered.
    pub(crate) fn iterations(&self) -> u64 {
        self.record.iterations
    }

    /// How many of the block's instructions ran in the last iteration; in those before, all did.
    pub(crate) fn executed(&self) -> usize {
        self.executed
    }

    /// How often an instruction of the block ran, by its position.
    pub(crate) fn times(&self, instruction: usize) -> u64 {
        let cut = u64::from(instruction >= self.executed);
        self.record.iterations.saturating_sub(cut)
    }

    /// The addresses of one access, over all iterations.
    pub(crate) fn touches(&self, access: &TracedAccess, take: impl FnMut(Touch)) {
        let times = self.times(access.instruction);
        access.form.touches(self.record, self.fs_base, times, take);
    }
}

/// What could not be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Damage {
    /// Records of unknown blocks, or that do not fit theirs.
    pub(crate) records: u64,
    /// Pieces of records that do not decode to their end.
    pub(crate) pieces: u64,
}

/// Goes through all bursts that recorded addresses, in the order of the recording.
pub(crate) fn replay(
    recording: &Recording,
    code: &TracedCode,
    observer: &mut impl Observer,
) -> Damage {
    let mut pieces: HashMap<BurstId, Vec<&[u8]>> = HashMap::new();
    for records in &recording.records {
        pieces.entry(records.burst).or_default().push(&records.bytes);
    }
    let mut damage = Damage::default();
    let traced = |burst: &&Burst| burst.flavour == BurstFlavour::Trace && !burst.records_lost;
    for burst in recording.bursts.iter().filter(traced) {
        observer.begin(burst);
        for piece in pieces.get(&burst.id).map_or(&[][..], Vec::as_slice) {
            let decoded = decode_records(piece, |record| {
                let block = code.blocks.get(&record.block).filter(|block| block.pid == burst.pid);
                match block.and_then(|block| Some((block, execution(block, record, burst)?))) {
                    Some((block, execution)) => observer.execute(block, &execution),
                    None => damage.records += 1,
                }
            });
            damage.pieces += u64::from(decoded.is_err());
        }
        observer.end(burst);
    }
    damage
}

/// `None` when the record cannot be one of this block.
fn execution<'a>(
    block: &TracedBlock,
    record: &'a Record<'a>,
    burst: &Burst,
) -> Option<Execution<'a>> {
    let executed = *block.ways.get(record.way as usize)?;
    // A loop that was stopped in its first iteration has completed none.
    let fits = record.values.len() == block.values && (record.iterations == 1 || block.loops);
    fits.then_some(Execution { record, fs_base: burst.fs_base.0, executed })
}
